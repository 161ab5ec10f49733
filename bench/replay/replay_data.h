/* Buffers of a replay's calls, and their contents: each slot of each collective has other data, so
 * that results of another run or of another collective are noticed. */
#ifndef DF_BENCH_REPLAY_REPLAY_DATA_H
#define DF_BENCH_REPLAY_REPLAY_DATA_H

#include <stdint.h>

#include "dfccl-bench/data.h"
#include "replay_plan.h"

/* Tables of one type, operator and group size, as in dfccl-bench/data.h. */
typedef struct {
  df_bench_data data;
  void **inputs; /* by position */
  void *reduced; /* NULL for types that no operation of the plan reduces */
} replay_table;

typedef struct {
  const replay_plan *plan;
  replay_table *table;
  uint32_t table_count;
  uint32_t *table_of; /* by collective */
} replay_data;

/* One collective on one rank. */
typedef struct {
  uint32_t position; /* the rank's, in the group */
  bool is_member, sends, receives;
  uint64_t send_count, recv_count;
  void *send[REPLAY_SLOTS], *recv[REPLAY_SLOTS];
} replay_buffers;

/* Tables for all collectives of the plan; before ranks are started. False: out of memory. */
bool df_replay_data_make(replay_data *data, const replay_plan *plan);
void df_replay_data_free(replay_data *data);

/* Bytes of the buffers of all ranks. */
double df_replay_data_bytes(const replay_plan *plan);

/* Describes the buffers of a rank, without their memory. */
replay_buffers df_replay_buffers_of(const replay_collective *one, int rank);

/* Allocates and fills them. False: out of memory. */
bool df_replay_buffers_make(const replay_data *data, uint32_t collective, replay_buffers *buffers);
void df_replay_buffers_free(const replay_data *data, uint32_t collective, replay_buffers *buffers);

/* Overwrites the result of a slot. */
void df_replay_buffers_clear(const replay_data *data, uint32_t collective,
                             const replay_buffers *buffers, uint32_t slot);
/* The elements of a slot's result that are wrong; -1: out of memory. */
int64_t df_replay_buffers_check(const replay_data *data, uint32_t collective,
                                const replay_buffers *buffers, uint32_t slot);

#endif
