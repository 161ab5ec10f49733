#include "support/ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/kinds.h"
#include "support/memory.h"

enum { DF_RANKS_ON_DEVICES = 64 };

void df_make_contexts(dfcclContext_t *ctxs, int ranks, const dfcclConfig_t *config) {
  dfcclConfig_t defaults = df_config();
  const dfcclConfig_t *given = config != NULL ? config : &defaults;
  int devices[DF_RANKS_ON_DEVICES];
  df_memory_show_program();
  if (df_test_devices() > 0 && given->device < 0) {
    CHECK(ranks <= DF_RANKS_ON_DEVICES, "TEST_DEVICES with %d ranks", ranks);
    for (int rank = 0; rank < ranks; rank++) devices[rank] = rank % df_test_devices();
    OK(dfcclInitAllDevices(ctxs, ranks, devices, given));
  } else {
    OK(dfcclInitAll(ctxs, ranks, given));
  }
  for (int rank = 0; rank < ranks; rank++) df_watch(ctxs[rank]);
}

static void free_one(int rank, void *arg) {
  dfcclContext_t *ctxs = arg;
  df_waiting_for("dfcclDestroy");
  dfcclContext_t ctx = ctxs[rank];
  df_unwatch(ctx); /* the watchdog must not look into freed memory */
  OK(dfcclDestroy(ctx));
  ctxs[rank] = NULL;
}

void df_free_contexts(dfcclContext_t *ctxs, int ranks) { df_in_threads(ranks, free_one, ctxs); }

dfcclResult_t df_register(dfcclContext_t ctx, dfcclCollId_t id, const df_collective *coll) {
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = coll->group;
  options.nRanks = coll->group == NULL ? 0 : coll->members;
  options.priority = coll->priority;
  options.name = coll->name;
  options.algorithm = coll->algorithm;
  options.varying = coll->varying;
  int identity[1024], all = 0;
  OK(dfcclGetRank(ctx, NULL, &all));
  if (coll->group == NULL &&
      coll->members != all) { /* ranks 0 to members - 1, which are fewer than all */
    for (int i = 0; i < coll->members; i++) identity[i] = i;
    options.ranks = identity;
    options.nRanks = coll->members;
  }
  return df_register_kind(ctx, id, coll, &options);
}

dfcclResult_t df_run(dfcclContext_t ctx, dfcclCollId_t id, df_kind kind, const void *send,
                     void *recv, dfcclCallback_t callback, void *arg) {
  return df_run_kind(ctx, id, kind, send, recv, callback, arg);
}

void df_register_all(dfcclContext_t *ctxs, dfcclCollId_t id, const df_collective *coll) {
  for (int position = 0; position < coll->members; position++)
    OK(df_register(ctxs[df_member(coll, position)], id, coll));
}

void df_deregister_all(dfcclContext_t *ctxs, dfcclCollId_t id, const df_collective *coll) {
  for (int position = 0; position < coll->members; position++)
    OK(dfcclDeregister(ctxs[df_member(coll, position)], id));
}

df_collective df_simple(size_t count, int members) {
  return (df_collective){.kind = DF_ALL_REDUCE,
                         .type = dfcclInt32,
                         .op = dfcclSum,
                         .count = count,
                         .members = members,
                         .seed = 1};
}

typedef struct {
  int rank;
  void (*body)(int rank, void *arg);
  void *arg;
} thread_start;

static void *enter(void *start_) {
  thread_start *start = start_;
  start->body(start->rank, start->arg);
  return NULL;
}

void df_in_threads(int ranks, void (*body)(int rank, void *arg), void *arg) {
  pthread_t *threads = calloc((size_t)ranks, sizeof *threads);
  thread_start *starts = calloc((size_t)ranks, sizeof *starts);
  CHECK(threads != NULL && starts != NULL, "out of memory");
  for (int rank = 0; rank < ranks; rank++) {
    starts[rank] = (thread_start){rank, body, arg};
    int error = pthread_create(&threads[rank], NULL, enter, &starts[rank]);
    CHECK(error == 0, "pthread_create: %s", strerror(error));
  }
  for (int rank = 0; rank < ranks; rank++) pthread_join(threads[rank], NULL);
  free(starts);
  free(threads);
}

void df_tally_callback(dfcclCollId_t coll, dfcclResult_t status, void *tally_) {
  (void)coll;
  df_tally *tally = tally_;
  if (status != dfcclSuccess) atomic_fetch_add(&tally->failures, 1);
  atomic_store(&tally->status, (int)status);
  atomic_fetch_add(&tally->calls, 1);
}

bool df_mentions(const char *text, const char *words) { return strstr(text, words) != NULL; }

dfcclStats_t df_stats(dfcclContext_t ctx) {
  dfcclStats_t stats = DFCCL_STATS_INITIALIZER;
  OK(dfcclGetStats(ctx, &stats));
  return stats;
}
