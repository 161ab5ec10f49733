/*
 * Promise: thousands of collectives may be registered and outstanding at one time, each rank in a
 * random order of its own. Memory has a budget, and the test prints its use.
 */
#include <string.h>

#include "support/buffers.h"
#include "support/leftovers.h"

#include <stdio.h>
#include <stdlib.h>

enum { RANKS = 8 };

typedef struct {
  dfcclContext_t ctxs[RANKS];
  int collectives, rounds;
} job;

static df_collective nth(int i) {
  df_collective coll = df_simple(16 + (size_t)(i * 13 % 241), RANKS);
  coll.seed = (uint64_t)i;
  return coll;
}

static void run_in_own_order(int rank, void *arg) {
  job *j = arg;
  df_collective *colls = calloc((size_t)j->collectives, sizeof *colls);
  df_buffers *buffers = calloc((size_t)j->collectives, sizeof *buffers);
  int *order = calloc((size_t)j->collectives, sizeof *order);
  df_random random = {(uint64_t)rank * 101 + 1};
  df_tally tally = {0};
  CHECK(colls != NULL && buffers != NULL && order != NULL, "out of memory");
  for (int i = 0; i < j->collectives; i++) order[i] = i;
  df_random_shuffle(&random, order, j->collectives);
  for (int i = 0; i < j->collectives; i++) {
    colls[order[i]] = nth(order[i]);
    OK(df_register(j->ctxs[rank], (dfcclCollId_t)order[i], &colls[order[i]]));
  }
  for (int round = 0; round < j->rounds; round++) {
    df_random_shuffle(&random, order, j->collectives);
    for (int i = 0; i < j->collectives; i++) {
      int c = order[i];
      df_buffers_make(&buffers[c], j->ctxs[rank], &colls[c], rank, (uint64_t)round, 0);
      OK(df_run(j->ctxs[rank], (dfcclCollId_t)c, DF_ALL_REDUCE, buffers[c].send, buffers[c].recv,
                df_tally_callback, &tally));
    }
    OK(dfcclWaitAll(j->ctxs[rank]));
    for (int c = 0; c < j->collectives; c++) {
      df_buffers_check(&buffers[c]);
      df_buffers_free(&buffers[c]);
    }
  }
  CHECK(atomic_load(&tally.calls) == j->rounds * j->collectives, "%d callbacks",
        atomic_load(&tally.calls));
  free(order);
  free(buffers);
  free(colls);
}

/* The memory that contexts report. The limits are the design's for 1,000 collectives. */
static void check_memory_per_block(dfcclContext_t ctx) {
  char text[16384] = {0};
  FILE *file = tmpfile();
  CHECK(file != NULL, "no temporary file");
  OK(dfcclDump(ctx, fileno(file)));
  rewind(file);
  CHECK(fread(text, 1, sizeof text - 1, file) > 0, "the dump is empty");
  fclose(file);
  const char *line = strstr(text, "memory for each block: ");
  unsigned long long contexts = 0, cache = 0;
  CHECK(line != NULL && sscanf(line, "memory for each block: %llu bytes of contexts, %llu bytes",
                               &contexts, &cache) == 2,
        "the dump does not tell the memory: \"%s\"", text);
  fprintf(stderr, "memory for each block: %llu bytes of contexts, %llu of context cache\n",
          contexts, cache);
  CHECK(contexts > 0 && contexts <= 512 * 1024, "%llu bytes of contexts", contexts);
  CHECK(cache > 0 && cache <= 13 * 1024, "%llu bytes of context cache", cache);
}

static void play(int collectives, int rounds) {
  static job j;
  j.collectives = collectives;
  j.rounds = rounds;
  df_make_contexts(j.ctxs, RANKS, NULL);
  long before = df_resident_kb();
  double start = df_seconds();
  df_in_threads(RANKS, run_in_own_order, &j);
  double took = df_seconds() - start;
  long after = df_resident_kb();
  dfcclStats_t s = df_stats(j.ctxs[0]);
  fprintf(stderr,
          "%d collectives on %d ranks, %d rounds: %.2f s, resident %ld KB before, %ld KB after "
          "(%.1f KB for each collective and rank); rank 0: %llu preemptions, queue high water %u\n",
          collectives, RANKS, rounds, took, before, after,
          (double)(after - before) / collectives / RANKS, (unsigned long long)s.preemptions,
          s.taskQueueHighWater);
  check_memory_per_block(j.ctxs[0]);
  df_free_contexts(j.ctxs, RANKS);
}

DF_TEST(many_collectives, a_thousand_ten_times, 150) {
  if (df_slowdown() == 1)
    play(1000, 10);
  else
    play(200, 2);
}

static dfcclConfiguration_t configuration_of(dfcclContext_t ctx) {
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  OK(dfcclGetConfiguration(ctx, 1, &c));
  return c;
}

static uint64_t run_some(dfcclContext_t *ctxs, const df_collective *coll, uint64_t run, int n) {
  for (int i = 0; i < n; i++) df_exchange(ctxs, 1, coll, run++, 0);
  return run;
}

/* A plan variant in use keeps its place. If no place is left, switches are cancelled, and runs
 * continue as before. A return to the baseline needs no place, and frees one. */
DF_TEST(many_collectives, a_full_registry_and_a_change, 150) {
  df_tune("cuda_collectives", "65536");
  enum { PROMISED = 65536, RANKS_HERE = 2, FIRST = 100 };
  const int alone[] = {1};
  dfcclContext_t ctxs[RANKS_HERE];
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  df_collective coll = df_simple(100, RANKS_HERE);
  uint64_t run = 0, registered = 0;
  df_make_contexts(ctxs, RANKS_HERE, NULL);
  df_register_all(ctxs, 1, &coll);
  run = run_some(ctxs, &coll, run, 1);
  OK(dfcclSetAlgorithm(ctxs[0], 1, "ring"));
  while (configuration_of(ctxs[1]).switches == 0) run = run_some(ctxs, &coll, run, 1);
  options.ranks = alone;
  options.nRanks = 1;
  while (dfcclRegisterAllReduce(ctxs[1], FIRST + registered, 4, dfcclInt32, dfcclSum, &options) ==
         dfcclSuccess)
    registered++;
  CHECK(registered == PROMISED - 2, "%llu registered", (unsigned long long)registered);
  CHECK(df_mentions(dfcclGetLastError(NULL), "1 variants"), "\"%s\"", dfcclGetLastError(NULL));
  OK(dfcclSetAlgorithm(ctxs[0], 1, "direct"));
  run = run_some(ctxs, &coll, run, 30);
  for (int rank = 0; rank < RANKS_HERE; rank++)
    CHECK(strcmp(configuration_of(ctxs[rank]).algorithm, "ring") == 0, "rank %d uses %s", rank,
          configuration_of(ctxs[rank]).algorithm);
  EVENTUALLY(dfcclSetAlgorithm(ctxs[0], 1, NULL) == dfcclSuccess);
  while (configuration_of(ctxs[1]).switches == 1) run = run_some(ctxs, &coll, run, 1);
  EVENTUALLY(dfcclRegisterAllReduce(ctxs[1], FIRST + registered, 4, dfcclInt32, dfcclSum,
                                    &options) == dfcclSuccess);
  run_some(ctxs, &coll, run, 10);
  df_free_contexts(ctxs, RANKS_HERE);
}

/* The promised number of registrations works; one more is refused with a sentence. */
DF_TEST(many_collectives, sixty_five_thousand_registered, 150) {
  df_tune("cuda_collectives", "65536"); /* a GPU has room for fewer without */
  enum { PROMISED = 65536 };
  dfcclContext_t ctx;
  df_make_contexts(&ctx, 1, NULL);
  long before = df_resident_kb();
  for (int i = 0; i < PROMISED; i++)
    OK(dfcclRegisterAllReduce(ctx, (dfcclCollId_t)i * 7919, 4, dfcclInt32, dfcclSum, NULL));
  fprintf(stderr, "%d registered: %.2f KB each\n", PROMISED,
          (double)(df_resident_kb() - before) / PROMISED);
  RESULT(dfcclRegisterAllReduce(ctx, 1, 4, dfcclInt32, dfcclSum, NULL), dfcclInvalidUsage);
  CHECK(df_mentions(dfcclGetLastError(NULL), "65536") ||
            df_mentions(dfcclGetLastError(NULL), "65,536"),
        "\"%s\"", dfcclGetLastError(NULL));
  int32_t send[4] = {1, 2, 3, 4}, recv[4] = {0};
  OK(dfcclRunAllReduce(ctx, 65535ull * 7919, send, recv, NULL, NULL));
  OK(dfcclWait(ctx, 65535ull * 7919));
  CHECK(recv[3] == 4, "wrong result");
  df_free_contexts(&ctx, 1);
}
