/* --env: this process is one rank of a job that a launcher has started, possibly multi-node. Data
 * that ranks of one machine otherwise exchange through shared memory goes through the library. */
#ifndef DF_BENCH_COMMON_ENV_H
#define DF_BENCH_COMMON_ENV_H

#include <stdint.h>

#include "common/launch.h"

typedef struct {
  dfcclContext_t context;
  int rank, n_ranks;
} df_tool_env;

/* Joins by dfcclInitFromEnv. Returns false with the reason on standard error. Long waits are
 * reported there too (DFCCL_DEBUG=warn, unless it is set). */
bool df_tool_env_join(df_tool_env *env, const dfcclConfig_t *config);

/* Runs the job's rank_main as this rank. Afterwards every rank has all reports. Returns false if
 * this rank has failed and has printed the reason. */
bool df_tool_env_launch(const df_tool_job *job, const df_tool_env *env);

/* All ranks call it; afterwards all have the result. False: the rank has failed. */
bool df_tool_env_reduce(df_tool_rank *rank, uint64_t *values, size_t n, dfcclRedOp_t op);

#endif
