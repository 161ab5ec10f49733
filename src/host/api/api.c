/* The public functions: argument checks, then a call of the room that implements the function. See
 * dfccl.h. Functions that register are in api_register.c. */
#include "host/api/api.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutex.h"
#include "bootstrap/launcher.h"
#include "host/api/describe.h"
#include "host/api/memory_use.h"
#include "host/switching/plan_switch.h"
#include "host/state/context.h"
#include "host/state/peer_info.h"
#include "host/observe/dump.h"
#include "host/runs/collective_failure.h"
#include "host/settings/abi_struct.h"
#include "host/lifecycle/join.h"
#include "host/lifecycle/peer_failure.h"
#include "host/membership/admits.h"
#include "host/membership/membership.h"
#include "host/membership/newcomers.h"
#include "host/runs/user_memory.h"
#include "host/runs/dynamic_counts.h"
#include "host/state/registry.h"
#include "host/runs/run_failures.h"
#include "host/runs/runs.h"

dfcclResult_t df_refuse_context(const dfcclContext_t context) {
  if (context != NULL && context->magic == DF_CONTEXT_MAGIC_IN_CHILD)
    return df_fail(dfcclInvalidUsage,
                   "ctx %p belongs to the process that forked this one (rank %u of its job); a "
                   "forked child makes contexts of its own",
                   (void *)context, context->rank);
  return df_fail(dfcclInvalidArgument,
                 context ? "ctx %p is not a context, or was destroyed" : "ctx is NULL",
                 (void *)context);
}

dfcclResult_t dfcclGetVersion(int *version) {
  if (version == NULL) return df_fail(dfcclInvalidArgument, "version is NULL");
  *version = DFCCL_VERSION_CODE;
  return dfcclSuccess;
}

dfcclResult_t dfcclGetUniqueId(dfcclUniqueId *id) {
  df_network_settings network;
  dfcclResult_t result = df_settings_read_id(&network);
  return result == dfcclSuccess ? df_bootstrap_create_id(id, &network) : result;
}

static dfcclResult_t check_ranks(const dfcclContext_t *out, int n_ranks, int rank) {
  if (out == NULL) return df_fail(dfcclInvalidArgument, "ctx is NULL");
  if (n_ranks < 1 || n_ranks > DF_MAX_RANKS)
    return df_fail(dfcclInvalidArgument, "nRanks is %d; it must be from 1 to %d", n_ranks,
                   DF_MAX_RANKS);
  if (rank < 0 || rank >= n_ranks)
    return df_fail(dfcclInvalidArgument, "rank is %d; it must be from 0 to %d", rank, n_ranks - 1);
  return dfcclSuccess;
}

dfcclResult_t dfcclInit(dfcclContext_t *ctx, int nRanks, dfcclUniqueId id, int rank,
                        const dfcclConfig_t *config) {
  df_settings settings;
  df_mesh mesh = {0};
  dfcclResult_t result = check_ranks(ctx, nRanks, rank);
  if (result == dfcclSuccess) result = df_settings_read(&settings, config);
  if (result != dfcclSuccess) return result;
  df_peer_info info = df_make_peer_info(&settings);
  df_process_inbox_arriving();
  result = df_bootstrap_join(&settings.network, &id, nRanks, rank, &info,
                             (int)settings.init_timeout_ms, &mesh);
  if (result == dfcclSuccess)
    result = df_context_open(ctx, (uint32_t)nRanks, (uint32_t)rank, &settings, &mesh);
  else
    df_process_inbox_announce_absence(&mesh);
  df_process_inbox_arrived();
  return result;
}

dfcclResult_t dfcclInitFromEnv(dfcclContext_t *ctx, const dfcclConfig_t *config) {
  static uint32_t calls;
  df_settings settings;
  df_launch launch;
  df_mesh mesh = {0};
  if (ctx == NULL) return df_fail(dfcclInvalidArgument, "ctx is NULL");
  dfcclResult_t result = df_settings_read(&settings, config);
  if (result == dfcclSuccess) result = df_launcher_read(&launch, settings.network.root);
  if (result == dfcclSuccess) result = check_ranks(ctx, launch.n_ranks, launch.rank);
  if (result != dfcclSuccess) return result;
  /* The i-th call of each process belongs to the i-th job. */
  char key[sizeof launch.key + 16];
  snprintf(key, sizeof key, "%s#%u", launch.key, df_system_add_u32(&calls, 1));
  df_peer_info info = df_make_peer_info(&settings);
  df_process_inbox_arriving();
  result = df_bootstrap_join_key(&settings.network, &launch.root, key, launch.n_ranks, launch.rank,
                                 &info, (int)settings.init_timeout_ms, &mesh);
  if (result == dfcclSuccess)
    result =
        df_context_open(ctx, (uint32_t)launch.n_ranks, (uint32_t)launch.rank, &settings, &mesh);
  else
    df_process_inbox_announce_absence(&mesh);
  df_process_inbox_arrived();
  return result;
}

/* Makes a mesh of one process: all ranks are local. */
static dfcclResult_t local_mesh(df_mesh *mesh, const unsigned char job[16], int n_ranks, int rank,
                                const df_peer_info *infos) {
  *mesh = (df_mesh){.n_ranks = n_ranks, .rank = rank, .n_local = (uint32_t)n_ranks};
  mesh->peer_info = calloc((size_t)n_ranks, sizeof *mesh->peer_info);
  mesh->sockets = calloc((size_t)n_ranks, sizeof *mesh->sockets);
  mesh->local = calloc((size_t)n_ranks, sizeof *mesh->local);
  if (mesh->peer_info == NULL || mesh->sockets == NULL || mesh->local == NULL) {
    free(mesh->peer_info);
    free(mesh->sockets);
    free(mesh->local);
    return df_fail(dfcclOutOfMemory, "no memory for the tables of %d ranks", n_ranks);
  }
  memcpy(mesh->job, job, sizeof mesh->job);
  memcpy(mesh->peer_info, infos, (size_t)n_ranks * sizeof *infos);
  for (int r = 0; r < n_ranks; r++) {
    mesh->sockets[r] = -1;
    mesh->local[r] = 1;
  }
  return dfcclSuccess;
}

/* devices NULL: config.device for each rank. */
static dfcclResult_t read_settings_of(df_settings *settings, const dfcclConfig_t *config,
                                      const int *devices, int rank) {
  if (devices == NULL) return df_settings_read(settings, config);
  if (devices[rank] < -1)
    return df_fail(dfcclInvalidArgument, "devices[%d] is %d; it must be -1 or a device's number",
                   rank, devices[rank]);
  dfcclResult_t result = df_settings_read_with_device(settings, config, devices[rank]);
  if (result == dfcclSuccess) return dfcclSuccess;
  char sentence[DF_SENTENCE_BYTES];
  snprintf(sentence, sizeof sentence, "%s", df_last_sentence());
  return df_fail(result, "rank %d: %s", rank, sentence);
}

/* Either opens all contexts or none. *settings: of every rank, if devices is NULL. */
static dfcclResult_t open_all(dfcclContext_t *made, int n_ranks, const int *devices,
                              const dfcclConfig_t *config, df_settings *settings,
                              const df_peer_info *infos) {
  unsigned char job[16];
  dfcclResult_t result = dfcclSuccess;
  int n = 0;
  randombytes_buf(job, sizeof job);
  for (; n < n_ranks && result == dfcclSuccess; n += result == dfcclSuccess) {
    df_mesh mesh;
    if (devices) result = read_settings_of(settings, config, devices, n);
    if (result == dfcclSuccess) result = local_mesh(&mesh, job, n_ranks, n, infos);
    if (result != dfcclSuccess)
      df_process_inbox_expect_less(job, 1); /* this rank will not arrive */
    else
      result = df_context_open(&made[n], (uint32_t)n_ranks, (uint32_t)n, settings, &mesh);
  }
  if (result == dfcclSuccess) return result;
  char sentence[DF_SENTENCE_BYTES];
  snprintf(sentence, sizeof sentence, "%s", df_last_sentence());
  /* The rank that failed has arrived already. */
  df_process_inbox_expect_less(job, (uint32_t)(n_ranks - n - 1));
  while (n-- > 0) df_context_close(made[n]);
  return df_fail(result, "%s", sentence);
}

dfcclResult_t dfcclInitAllDevices(dfcclContext_t *ctxs, int nRanks, const int *devices,
                                  const dfcclConfig_t *config) {
  df_settings settings;
  dfcclResult_t result = check_ranks(ctxs, nRanks, 0);
  if (result != dfcclSuccess) return result;
  if (sodium_init() < 0)
    return df_fail(dfcclSystemError, "cannot initialise the random number generator");
  df_peer_info *infos = malloc((size_t)nRanks * sizeof *infos);
  dfcclContext_t *made = calloc((size_t)nRanks, sizeof *made);
  if (infos == NULL || made == NULL)
    result = df_fail(dfcclOutOfMemory, "no memory for %d contexts", nRanks);
  for (int r = 0; r < nRanks && result == dfcclSuccess; r++) {
    const int is_read = r == 0 || devices;
    if (is_read) result = read_settings_of(&settings, config, devices, r);
    if (result == dfcclSuccess) infos[r] = is_read ? df_make_peer_info(&settings) : infos[0];
  }
  if (result == dfcclSuccess) result = open_all(made, nRanks, devices, config, &settings, infos);
  if (result == dfcclSuccess) memcpy(ctxs, made, (size_t)nRanks * sizeof *made);
  free(infos);
  free(made);
  return result;
}

dfcclResult_t dfcclInitAll(dfcclContext_t *ctxs, int nRanks, const dfcclConfig_t *config) {
  return dfcclInitAllDevices(ctxs, nRanks, NULL, config);
}

dfcclResult_t dfcclDestroy(dfcclContext_t ctx) {
  DF_CHECK_CONTEXT(ctx);
  return df_context_close(ctx);
}

dfcclResult_t dfcclAbort(dfcclContext_t ctx) {
  DF_CHECK_CONTEXT(ctx);
  return df_abort(ctx, NULL);
}

dfcclResult_t dfcclAbortWithReason(dfcclContext_t ctx, const char *reason) {
  DF_CHECK_CONTEXT(ctx);
  return df_abort(ctx, reason);
}

dfcclResult_t dfcclAbortCollectives(dfcclContext_t ctx, const dfcclCollId_t *ids, int n) {
  return dfcclAbortCollectivesWithReason(ctx, ids, n, NULL);
}

dfcclResult_t dfcclAbortCollectivesWithReason(dfcclContext_t ctx, const dfcclCollId_t *ids, int n,
                                              const char *reason) {
  DF_CHECK_CONTEXT(ctx);
  if (n < 0) return df_remember(ctx, df_fail(dfcclInvalidArgument, "n is %d", n));
  if (ids == NULL && n > 0)
    return df_remember(ctx, df_fail(dfcclInvalidArgument, "ids is NULL, but n is %d", n));
  return df_remember(ctx, df_abort_collectives(ctx, ids, n, reason));
}

const char *dfcclGetLastError(dfcclContext_t ctx) {
  static _Thread_local char text[DF_SENTENCE_BYTES];
  if (ctx == NULL || ctx->magic != DF_CONTEXT_MAGIC) {
    snprintf(text, sizeof text, "%s", df_last_sentence());
    return text;
  }
  df_rank_lock(&ctx->lock);
  snprintf(text, sizeof text, "%s", ctx->failure.sentence);
  df_rank_unlock(&ctx->lock);
  return text;
}

dfcclResult_t dfcclGetRunError(dfcclContext_t ctx, dfcclCollId_t id, uint64_t run,
                               dfcclResult_t *status, char *text, size_t bytes) {
  DF_CHECK_CONTEXT(ctx);
  if (text == NULL && bytes > 0)
    return df_remember(ctx, df_fail(dfcclInvalidArgument, "text is NULL, but bytes is %zu", bytes));
  return df_remember(ctx, df_run_error(ctx, id, run, status, text, bytes));
}

dfcclResult_t dfcclGetRank(dfcclContext_t ctx, int *rank, int *nRanks) {
  DF_CHECK_CONTEXT(ctx);
  if (rank) *rank = (int)ctx->rank;
  if (nRanks) *nRanks = (int)ctx->n_ranks;
  return dfcclSuccess;
}

/* ---- runs ---- */

dfcclResult_t dfcclRun(dfcclContext_t ctx, dfcclCollId_t id, dfcclRun_t *run) {
  DF_CHECK_CONTEXT(ctx);
  if (run == NULL) return df_remember(ctx, df_fail(dfcclInvalidArgument, "run is NULL"));
  return df_remember(ctx, df_submit_given(ctx, id, run));
}

/* The families of plans/operations.def whose runs have one signature. */
#define DEFINE_RUN(id, name)                                                                       \
  dfcclResult_t dfcclRun##name(dfcclContext_t ctx, dfcclCollId_t coll, const void *sendBuf,        \
                               void *recvBuf, dfcclCallback_t callback, void *arg) {               \
    DF_CHECK_CONTEXT(ctx);                                                                         \
    return df_remember(ctx, df_submit(ctx, DF_OP_##id, coll, sendBuf, recvBuf, callback, arg));    \
  }
#define DF_API_REDUCTION DEFINE_RUN
#define DF_API_ROOTED_REDUCTION DEFINE_RUN
#define DF_API_ROOTED DEFINE_RUN
#define DF_API_MOVE DEFINE_RUN
#define DF_API_PAIR DEFINE_RUN
#define DF_API_VECTOR DEFINE_RUN
/* These functions have bodies of their own below. */
#define DF_API_BARRIER(id, name)
#define DF_API_SCAN(id, name)
#define DF_API_EXCLUSIVE_SCAN(id, name)
#define DF_API_DYNAMIC(id, name)
#define DF_OPERATION(id, name, word, family, ...) family(id, name)
#define DF_VECTOR_OPERATION(id, name, word, family, ...) family(id, name)
#include "plans/operations.def"

dfcclResult_t dfcclRunBarrier(dfcclContext_t ctx, dfcclCollId_t id, dfcclCallback_t callback,
                              void *arg) {
  DF_CHECK_CONTEXT(ctx);
  return df_remember(ctx, df_submit(ctx, DF_OP_BARRIER, id, NULL, NULL, callback, arg));
}
dfcclResult_t dfcclRunScan(dfcclContext_t ctx, dfcclCollId_t id, const void *sendBuf, void *recvBuf,
                           dfcclCallback_t callback, void *arg) {
  DF_CHECK_CONTEXT(ctx);
  df_run run = {.send = sendBuf, .recv = recvBuf, .callback = callback, .argument = arg};
  uint64_t number;
  return df_remember(ctx,
                     df_submit_run(ctx, DF_OF_KIND(DF_OP_SCAN) | DF_OF_KIND(DF_OP_EXCLUSIVE_SCAN),
                                   id, &run, &number));
}

dfcclResult_t dfcclRunAllToAllDynamic(dfcclContext_t ctx, dfcclCollId_t id, const void *sendBuf,
                                      const size_t *sendCounts, const size_t *sendDispls,
                                      void *recvBuf, size_t *recvCounts, dfcclCallback_t callback,
                                      void *arg) {
  DF_CHECK_CONTEXT(ctx);
  const df_given_counts counts = {sendCounts, sendDispls, recvCounts, NULL};
  df_run run = {
      .send = sendBuf, .recv = recvBuf, .given = &counts, .callback = callback, .argument = arg};
  uint64_t number;
  return df_remember(ctx,
                     df_submit_run(ctx, DF_OF_KIND(DF_OP_ALL_TO_ALL_DYNAMIC), id, &run, &number));
}

/* Shorthands of dfcclRun with DFCCL_RUN_ON_STREAM, one for each operation. */
#define DEFINE_RUN_ON_STREAM(id, name)                                                             \
  dfcclResult_t dfcclRun##name##OnStream(dfcclContext_t ctx, dfcclCollId_t coll,                   \
                                         const void *sendBuf, void *recvBuf, void *stream,         \
                                         dfcclCallback_t callback, void *arg) {                    \
    DF_CHECK_CONTEXT(ctx);                                                                         \
    df_run run = {.send = sendBuf, .recv = recvBuf, .callback = callback, .argument = arg};        \
    uint64_t number;                                                                               \
    return df_remember(                                                                            \
        ctx, df_submit_on_stream(ctx, DF_OF_KIND(DF_OP_##id), coll, &run, stream, &number));       \
  }
DEFINE_RUN_ON_STREAM(ALL_REDUCE, AllReduce)
DEFINE_RUN_ON_STREAM(REDUCE, Reduce)
DEFINE_RUN_ON_STREAM(BROADCAST, Broadcast)
DEFINE_RUN_ON_STREAM(ALL_GATHER, AllGather)
DEFINE_RUN_ON_STREAM(REDUCE_SCATTER, ReduceScatter)
DEFINE_RUN_ON_STREAM(ALL_TO_ALL, AllToAll)

dfcclResult_t dfcclTest(dfcclContext_t ctx, dfcclCollId_t id, int *done) {
  DF_CHECK_CONTEXT(ctx);
  if (done == NULL) return df_remember(ctx, df_fail(dfcclInvalidArgument, "done is NULL"));
  uint64_t registration;
  const df_wait_words *words = df_find_words(ctx, id, &registration);
  if (words) {
    /* The order of the two loads matters: runs that begin and end between them must not look
     * incomplete. */
    uint64_t submitted = df_observe_u64(&words->submitted);
    uint64_t completed = df_observe_u64(&words->completed) + (uint64_t)df_in_callback_of(words);
    *done = completed >= submitted || df_observe_u64(&words->registration) != registration;
    return df_say_broken(ctx);
  }
  return df_remember(ctx,
                     df_fail(dfcclInvalidArgument, "collective %llu is not registered on rank %u",
                             (unsigned long long)id, ctx->rank));
}

dfcclResult_t dfcclWait(dfcclContext_t ctx, dfcclCollId_t id) {
  DF_CHECK_CONTEXT(ctx);
  return df_wait(ctx, id);
}
dfcclResult_t dfcclWaitRun(dfcclContext_t ctx, dfcclCollId_t id, uint64_t run, int timeoutMs) {
  DF_CHECK_CONTEXT(ctx);
  return df_wait_run(ctx, id, run, timeoutMs);
}
dfcclResult_t dfcclWaitAll(dfcclContext_t ctx) {
  DF_CHECK_CONTEXT(ctx);
  return df_wait_all(ctx);
}
dfcclResult_t dfcclDeviceSynchronize(dfcclContext_t ctx) {
  DF_CHECK_CONTEXT(ctx);
  return df_device_synchronize(ctx);
}

/* ---- memory and observation ---- */

dfcclResult_t dfcclMemAlloc(dfcclContext_t ctx, void **ptr, size_t bytes) {
  DF_CHECK_CONTEXT(ctx);
  if (ptr == NULL) return df_remember(ctx, df_fail(dfcclInvalidArgument, "ptr is NULL"));
  if (bytes == 0)
    return df_remember(ctx, df_fail(dfcclInvalidArgument, "bytes is 0; it must be at least 1"));
  return df_remember(ctx, df_memory_alloc(ctx, ptr, bytes));
}
dfcclResult_t dfcclMemFree(dfcclContext_t ctx, void *ptr) {
  DF_CHECK_CONTEXT(ctx);
  if (ptr == NULL) return dfcclSuccess;
  return df_remember(ctx, df_memory_free(ctx, ptr));
}

dfcclResult_t dfcclGetStats(dfcclContext_t ctx, dfcclStats_t *stats) {
  DF_CHECK_CONTEXT(ctx);
  if (stats == NULL) return df_remember(ctx, df_fail(dfcclInvalidArgument, "stats is NULL"));
  dfcclResult_t result = df_growing_check(&df_growing_stats, stats);
  if (result != dfcclSuccess) return df_remember(ctx, result);
  return df_stats(ctx, stats);
}

static dfcclResult_t check_memory(const dfcclMemory_t *memory) {
  if (memory == NULL) return df_fail(dfcclInvalidArgument, "memory is NULL");
  return df_growing_check(&df_growing_memory, memory);
}

dfcclResult_t dfcclGetMembership(dfcclContext_t ctx, dfcclMembership_t *membership) {
  DF_CHECK_CONTEXT(ctx);
  if (membership == NULL)
    return df_remember(ctx, df_fail(dfcclInvalidArgument, "membership is NULL"));
  const dfcclResult_t result = df_growing_check(&df_growing_membership, membership);
  return df_remember(ctx, result == dfcclSuccess ? df_membership_get(ctx, membership) : result);
}

dfcclResult_t dfcclExclude(dfcclContext_t ctx, const int *ranks, int n) {
  DF_CHECK_CONTEXT(ctx);
  return df_remember(ctx, df_membership_exclude(ctx, ranks, n));
}

dfcclResult_t dfcclGetJoinId(dfcclContext_t ctx, dfcclUniqueId *id) {
  DF_CHECK_CONTEXT(ctx);
  if (id == NULL) return df_remember(ctx, df_fail(dfcclInvalidArgument, "id is NULL"));
  return df_remember(ctx, df_newcomers_open_entrance(ctx, id));
}

dfcclResult_t dfcclJoin(dfcclContext_t *ctx, const dfcclUniqueId *id, const dfcclConfig_t *config) {
  df_settings settings;
  if (ctx == NULL) return df_fail(dfcclInvalidArgument, "ctx is NULL");
  if (id == NULL) return df_fail(dfcclInvalidArgument, "id is NULL");
  const dfcclResult_t result = df_settings_read(&settings, config);
  return result == dfcclSuccess ? df_job_join(ctx, id, &settings) : result;
}

dfcclResult_t dfcclAdmit(dfcclContext_t ctx, dfcclAdmitCallback_t callback, void *arg) {
  DF_CHECK_CONTEXT(ctx);
  return df_remember(ctx, df_admit_begin(ctx, callback, arg));
}

dfcclResult_t dfcclGetMemory(dfcclContext_t ctx, dfcclMemory_t *memory) {
  DF_CHECK_CONTEXT(ctx);
  const dfcclResult_t result = check_memory(memory);
  if (result == dfcclSuccess) df_get_memory(ctx, memory);
  return df_remember(ctx, result);
}

dfcclResult_t dfcclGetCollectiveMemory(dfcclContext_t ctx, dfcclCollId_t coll,
                                       dfcclMemory_t *memory) {
  DF_CHECK_CONTEXT(ctx);
  dfcclResult_t result = check_memory(memory);
  if (result == dfcclSuccess) result = df_get_collective_memory(ctx, coll, memory);
  return df_remember(ctx, result);
}

dfcclResult_t dfcclGetConfiguration(dfcclContext_t ctx, dfcclCollId_t coll,
                                    dfcclConfiguration_t *configuration) {
  DF_CHECK_CONTEXT(ctx);
  if (configuration == NULL)
    return df_remember(ctx, df_fail(dfcclInvalidArgument, "configuration is NULL"));
  dfcclResult_t result = df_growing_check(&df_growing_configuration, configuration);
  if (result == dfcclSuccess) result = df_get_configuration(ctx, coll, configuration);
  return df_remember(ctx, result);
}

static int has_timers(dfcclContext_t ctx) {
  return ctx->device.executor->get_times != NULL && ctx->settings.tuning.policy.cuda_timers;
}

static DF_COLD dfcclResult_t refuse_timers(void) {
  return df_fail(dfcclInvalidUsage, "there are no timers: the device is not a GPU, or the number "
                                    "cuda_timers of DFCCL_TUNING is not 1");
}

static int has_events(dfcclContext_t ctx) { return ctx->device.turns != NULL || has_timers(ctx); }

static DF_COLD dfcclResult_t refuse_events(void) {
  return df_fail(dfcclInvalidUsage,
                 "events are not recorded: a CPU needs DFCCL_TRACE_TURNS=1, and a GPU the timers "
                 "(the number cuda_timers of DFCCL_TUNING)");
}

dfcclResult_t dfcclGetTimes(dfcclContext_t ctx, dfcclTime_t kind, uint64_t *durations,
                            uint64_t *moments, size_t *count) {
  DF_CHECK_CONTEXT(ctx);
  if (count == NULL) return df_remember(ctx, df_fail(dfcclInvalidArgument, "count is NULL"));
  if ((int)kind < 0 || (int)kind >= DF_TIMED_ALL)
    return df_remember(ctx, df_fail(dfcclInvalidArgument, "kind is %d; it must be from 0 to %d",
                                    (int)kind, DF_TIMED_ALL - 1));
  if (!has_timers(ctx)) return df_remember(ctx, refuse_timers());
  return df_remember(ctx, ctx->device.executor->get_times(&ctx->device, (df_timed)kind, durations,
                                                          moments, count));
}

dfcclResult_t dfcclGetEvents(dfcclContext_t ctx, dfcclEvent_t *events, size_t *count) {
  DF_CHECK_CONTEXT(ctx);
  if (count == NULL) return df_remember(ctx, df_fail(dfcclInvalidArgument, "count is NULL"));
  if (!has_events(ctx)) return df_remember(ctx, refuse_events());
  size_t room = *count;
  dfcclResult_t result = ctx->device.executor->get_events(&ctx->device, events, count);
  if (result == dfcclSuccess && events != NULL) df_name_events(ctx, events, DF_MIN(room, *count));
  return df_remember(ctx, result);
}

dfcclResult_t dfcclDump(dfcclContext_t ctx, int fd) {
  DF_CHECK_CONTEXT(ctx);
  return df_remember(ctx, df_dump(ctx, fd));
}

dfcclResult_t dfcclSetAlgorithm(dfcclContext_t ctx, dfcclCollId_t coll, const char *algorithm) {
  DF_CHECK_CONTEXT(ctx);
  return df_remember(ctx, df_set_algorithm(ctx, coll, algorithm));
}
