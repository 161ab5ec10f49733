/* The data of a rank, and the check of its results. */
#ifndef DF_BENCH_DFCCL_BENCH_CHECK_H
#define DF_BENCH_DFCCL_BENCH_CHECK_H

#include "measure.h"

typedef struct {
  const df_bench_job *job;
  df_tool_rank *self;
  void *buffers[2];    /* out of place: send and receive; in place: the second */
  size_t buffer_bytes; /* bytes of each buffer */
} df_bench_rank;

/* One registered collective and its buffers. */
typedef struct {
  dfcclCollId_t id;
  df_bench_shape shape;
  void *send, *recv;
} df_bench_case;

/* Sets both buffers to zero. These return false (-1) after df_tool_rank_fail. */
bool df_bench_clear(df_bench_rank *bench);

/* Puts this rank's input into the collective's send buffer; what it will write is cleared first. */
bool df_bench_prepare(df_bench_rank *bench, const df_bench_case *one);

/* The number of wrong elements in this rank's result; -1: failed. */
int64_t df_bench_verify(df_bench_rank *bench, const df_bench_case *one);

#endif
