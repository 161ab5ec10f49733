#include "common/env.h"

#include <stdlib.h>
#include <string.h>

#include "common/cli.h"
#include "common/launch_internal.h"
#include "common/memory.h"

/* No collective of a tool has these numbers. */
static const dfcclCollId_t reduce_id = UINT64_MAX - 1, gather_id = UINT64_MAX;

bool df_tool_env_join(df_tool_env *env, const dfcclConfig_t *given) {
  dfcclConfig_t config = *given;
  setenv("DFCCL_DEBUG", "warn", 0);
  const char *problem = df_tool_memory_open(config.backend, config.device, &config.device);
  if (problem != NULL) {
    df_tool_error("%s", problem);
    return false;
  }
  dfcclResult_t result = dfcclInitFromEnv(&env->context, &config);
  if (result == dfcclSuccess) result = dfcclGetRank(env->context, &env->rank, &env->n_ranks);
  if (result != dfcclSuccess)
    df_tool_error("dfcclInitFromEnv: %s (%s)", dfcclGetErrorString(result),
                  dfcclGetLastError(NULL));
  return result == dfcclSuccess;
}

bool df_tool_env_reduce(df_tool_rank *rank, uint64_t *values, size_t n, dfcclRedOp_t op) {
  dfcclContext_t context = rank->context;
  dfcclResult_t result = dfcclRegisterAllReduce(context, reduce_id, n, dfcclUint64, op, NULL);
  if (result == dfcclSuccess)
    result = dfcclRunAllReduce(context, reduce_id, values, values, NULL, NULL);
  if (result == dfcclSuccess) result = dfcclWait(context, reduce_id);
  if (result == dfcclSuccess) result = dfcclDeregister(context, reduce_id);
  return df_tool_rank_check(rank, result, "telling other ranks");
}

/* The ranks are still there: reports go to all before they leave. */
static void gather_reports(const df_tool_job *job, df_tool_rank *rank) {
  dfcclContext_t context = rank->context;
  dfcclResult_t result =
      dfcclRegisterAllGather(context, gather_id, job->report_bytes, dfcclUint8, NULL);
  if (result == dfcclSuccess)
    result = dfcclRunAllGather(context, gather_id, rank->report, job->reports, NULL, NULL);
  if (result == dfcclSuccess) result = dfcclWait(context, gather_id);
  df_tool_rank_check(rank, result, "gathering the reports");
}

/* After rank_main: what df_tool_rank_run leaves to the launcher. */
static void run_and_gather(df_tool_rank *rank) {
  const df_tool_job *job = rank->env_job;
  job->rank_main(rank);
  if (rank->outcome.code == 0) gather_reports(job, rank);
}

bool df_tool_env_launch(const df_tool_job *job, const df_tool_env *env) {
  df_tool_rank rank = {.rank = env->rank,
                       .n_ranks = env->n_ranks,
                       .context = env->context,
                       .argument = job->argument,
                       .env_job = job,
                       .report = calloc(1, job->report_bytes + 1)};
  df_tool_job own = *job;
  own.rank_main = run_and_gather;
  if (rank.report == NULL) df_tool_rank_fail(&rank, -1, "no memory for its report");
  df_tool_rank_run(&own, &rank);
  free(rank.report);
  if (rank.outcome.code != 0) df_tool_error("rank %d failed: %s", rank.rank, rank.outcome.sentence);
  return rank.outcome.code == 0;
}
