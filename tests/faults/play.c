#include "play.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { OPERATIONS = 6, GROUP = 6, COLLECTIVES = 7, COUNT = 600, ZERO_COPY_COUNT = 6000 };

typedef struct {
  dfcclContext_t ctx;
  int rank, ranks;
  dfcclResult_t error; /* the first error */
  int accepted;
  atomic_int calls, failures;
} actor;

void df_play_failed(const char *call, dfcclResult_t result) {
  const char *sentence = dfcclGetLastError(NULL);
  CHECK(strlen(sentence) > 10 && strcmp(sentence, "no error") != 0,
        "%s: %s without a sentence: \"%s\"", call, df_test_result_name(result), sentence);
}

/* Makes the call unless an earlier one has failed. */
#define ACT(a, call)                                                                               \
  do {                                                                                             \
    if ((a)->error == dfcclSuccess && ((a)->error = (call)) != dfcclSuccess)                       \
      df_play_failed(#call, (a)->error);                                                           \
  } while (0)

static void count_callback(dfcclCollId_t coll, dfcclResult_t status, void *arg) {
  actor *a = arg;
  (void)coll;
  if (status != dfcclSuccess) atomic_fetch_add(&a->failures, 1);
  atomic_fetch_add(&a->calls, 1);
}

typedef dfcclResult_t (*run_function)(dfcclContext_t, dfcclCollId_t, const void *, void *,
                                      dfcclCallback_t, void *);
static const run_function run_functions[COLLECTIVES] = {
    dfcclRunAllReduce,     dfcclRunReduce,   dfcclRunBroadcast, dfcclRunAllGather,
    dfcclRunReduceScatter, dfcclRunAllToAll, dfcclRunAllReduce};

static bool takes_part(const actor *a, int coll) { return coll != GROUP || a->rank < 2; }

static void register_all(actor *a) {
  static const int group[] = {0, 1};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = group;
  options.nRanks = a->ranks < 2 ? a->ranks : 2;
  options.priority = 3;
  options.name = "a group";
  ACT(a, dfcclRegisterAllReduce(a->ctx, 0, COUNT, dfcclInt32, dfcclSum, NULL));
  ACT(a, dfcclRegisterReduce(a->ctx, 1, COUNT, dfcclInt32, dfcclMax, 0, NULL));
  ACT(a, dfcclRegisterBroadcast(a->ctx, 2, COUNT, dfcclInt32, 0, NULL));
  ACT(a, dfcclRegisterAllGather(a->ctx, 3, COUNT, dfcclInt32, NULL));
  ACT(a, dfcclRegisterReduceScatter(a->ctx, 4, COUNT, dfcclInt32, dfcclSum, NULL));
  ACT(a, dfcclRegisterAllToAll(a->ctx, 5, COUNT, dfcclInt32, NULL));
  if (takes_part(a, GROUP))
    ACT(a, dfcclRegisterAllReduce(a->ctx, GROUP, COUNT, dfcclInt32, dfcclSum, &options));
}

static void run(actor *a, int coll, const void *send, void *recv) {
  ACT(a, run_functions[coll](a->ctx, (dfcclCollId_t)coll, send, recv, count_callback, a));
  if (a->error == dfcclSuccess) a->accepted++;
}

static void run_all(actor *a) {
  static int32_t send[DF_PLAY_RANKS][COUNT * DF_PLAY_RANKS];
  static int32_t recv[DF_PLAY_RANKS][COLLECTIVES][COUNT * DF_PLAY_RANKS];
  int32_t(*mine)[COUNT * DF_PLAY_RANKS] = recv[a->rank];
  for (int i = 0; i < COUNT * DF_PLAY_RANKS; i++) send[a->rank][i] = a->rank + 1;
  memset(mine, 0, sizeof recv[a->rank]);
  for (int i = 0; i < COLLECTIVES; i++) {
    int coll = (i + a->rank) % COLLECTIVES; /* each rank runs them in another order */
    if (takes_part(a, coll)) run(a, coll, send[a->rank], mine[coll]);
  }
  ACT(a, dfcclWaitAll(a->ctx));
  if (a->error != dfcclSuccess) return;
  int32_t sum = a->ranks * (a->ranks + 1) / 2;
  CHECK(mine[0][COUNT - 1] == sum, "all-reduce: %d instead of %d", mine[0][COUNT - 1], sum);
  CHECK(mine[2][COUNT - 1] == 1, "broadcast: %d", mine[2][COUNT - 1]);
  CHECK(mine[3][COUNT * a->ranks - 1] == a->ranks, "all-gather: %d", mine[3][COUNT * a->ranks - 1]);
  CHECK(mine[4][COUNT - 1] == sum, "reduce-scatter: %d", mine[4][COUNT - 1]);
  CHECK(mine[5][COUNT * a->ranks - 1] == a->ranks, "all-to-all: %d", mine[5][COUNT * a->ranks - 1]);
}

static void run_from_lent_memory(actor *a) {
  void *memory = NULL;
  ACT(a, dfcclMemAlloc(a->ctx, &memory, 2 * ZERO_COPY_COUNT * sizeof(int32_t)));
  ACT(a, dfcclRegisterAllReduce(a->ctx, 20, ZERO_COPY_COUNT, dfcclInt32, dfcclSum, NULL));
  if (a->error != dfcclSuccess) return; /* dfcclDestroy frees what was allocated */
  int32_t *send = memory, *recv = send + ZERO_COPY_COUNT;
  for (int i = 0; i < ZERO_COPY_COUNT; i++) send[i] = i + a->rank;
  ACT(a, dfcclRunAllReduce(a->ctx, 20, send, recv, count_callback, a));
  if (a->error != dfcclSuccess) return;
  a->accepted++;
  ACT(a, dfcclWait(a->ctx, 20));
  if (a->error != dfcclSuccess) return;
  int32_t expected = (ZERO_COPY_COUNT - 1) * a->ranks + a->ranks * (a->ranks - 1) / 2;
  CHECK(recv[ZERO_COPY_COUNT - 1] == expected, "%d instead of %d", recv[ZERO_COPY_COUNT - 1],
        expected);
  ACT(a, dfcclDeregister(a->ctx, 20));
  ACT(a, dfcclMemFree(a->ctx, memory));
}

static void look(actor *a) {
  dfcclStats_t stats = DFCCL_STATS_INITIALIZER;
  int fd = open("/dev/null", O_WRONLY | O_CLOEXEC); /* this call may be the one that fails */
  ACT(a, dfcclDeviceSynchronize(a->ctx));
  ACT(a, dfcclGetStats(a->ctx, &stats));
  if (fd < 0) return;
  ACT(a, dfcclDump(a->ctx, fd));
  close(fd);
}

dfcclResult_t df_play(dfcclContext_t ctx, int rank, int ranks) {
  actor a = {.ctx = ctx, .rank = rank, .ranks = ranks};
  df_watch(ctx);
  register_all(&a);
  run_all(&a);
  run_from_lent_memory(&a);
  look(&a);
  for (int coll = 0; coll < COLLECTIVES; coll++)
    if (takes_part(&a, coll)) ACT(&a, dfcclDeregister(ctx, (dfcclCollId_t)coll));
  if (a.error != dfcclSuccess) {
    df_waiting_for("dfcclAbort after an error");
    OK(dfcclAbort(ctx));
  }
  df_unwatch(ctx);
  df_waiting_for("dfcclDestroy");
  OK(dfcclDestroy(ctx));
  df_waiting_for(NULL);
  CHECK(atomic_load(&a.calls) == a.accepted, "rank %d: %d callbacks for %d accepted runs", rank,
        atomic_load(&a.calls), a.accepted);
  return a.error;
}
