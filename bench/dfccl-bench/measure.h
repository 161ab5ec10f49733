/* Times and checks one operation over all sizes; every rank takes the same steps. */
#ifndef DF_BENCH_DFCCL_BENCH_MEASURE_H
#define DF_BENCH_DFCCL_BENCH_MEASURE_H

#include <stdatomic.h>
#include <stdint.h>

#include "collectives.h"
#include "common/barrier.h"
#include "common/launch.h"
#include "data.h"

/* The outcome for one size and one placement of the buffers. */
typedef struct {
  bool measured;
  double min_us, median_us;
  double algbw_gbps, busbw_gbps; /* from the median; 1 GB = 10^9 bytes */
  int64_t wrong;                 /* elements, over all ranks; -1: not checked */
} df_bench_timing;

typedef struct {
  df_bench_shape shape;
  df_bench_timing out_of_place, in_place;
  double bound_us; /* 0: none */
} df_bench_row;

enum { DF_BENCH_MAX_ROWS = 64 };

/* Shared by all ranks, processes included. Only rank 0 writes rows and iterations. */
typedef struct {
  df_tool_barrier barrier;
  int iterations; /* iterations of the current measurement */
  int rows_done;
  atomic_llong wrong;        /* wrong elements in the current check */
  atomic_llong wrong_in_all; /* elements, of all sizes */
  double copy_gbps; /* CUDA: device memory to device memory, for comparison; 0: not measured */
  df_bench_row rows[DF_BENCH_MAX_ROWS];
  uint64_t times_ns[]; /* [iteration * n_ranks + rank] */
} df_bench_shared;

typedef struct {
  df_bench_options options;
  df_bench_data data;
  df_bench_shared *shared;
  size_t shared_bytes;
  void **inputs; /* each rank's table; NULL without a check */
  void *reduced; /* the table of results; NULL without a check, or if nothing is reduced */
} df_bench_job;

/* Makes the tables and the shared memory for options. false: out of memory. */
bool df_bench_job_init(df_bench_job *job, const df_bench_options *options);
void df_bench_job_destroy(df_bench_job *job);

/* rank_main and on_failure for df_tool_launch; their argument is the job. Rank 0 prints each row
 * of the table when it is done. */
void df_bench_rank_main(df_tool_rank *self);
void df_bench_on_failure(void *argument);

#endif
