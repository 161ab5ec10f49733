/*
 * Promise: a job of 1,024 ranks, threads of one process, can start, run collectives of some and of
 * all ranks, and end. The test prints the time of joining.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "support/leftovers.h"
#include "support/processes.h"
#include "support/ranks.h"

enum { RANKS = 1024, GROUP = 16, ALL = 2 * RANKS, SECONDS = 540 };

typedef struct {
  const dfcclUniqueId *id;
  atomic_int joined, ready;
  double start;
} crowd;

/* Each rank has some collectives of its own. */
static void allow_descriptors(void) {
  struct rlimit limit;
  CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "no limit of descriptors");
  limit.rlim_cur = limit.rlim_max;
  CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "the limit of descriptors stays");
}

/* Each rank is in two groups of neighbours; each group of the second kind overlaps two of the
 * first. */
static int first_of(int rank, int which) {
  int shift = which * GROUP / 2;
  return ((rank + RANKS - shift) / GROUP * GROUP + shift) % RANKS;
}

static dfcclCollId_t id_of(int first, int which) { return (dfcclCollId_t)(2 * first + which); }

static void sum_up(dfcclContext_t ctx, int rank) {
  int32_t mine = rank, sums[2] = {-1, -1}, total = -1;
  int group[GROUP];
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = group;
  options.nRanks = GROUP;
  int order = rank % 2; /* opposite orders */
  for (int i = 0; i < 2; i++) {
    int first = first_of(rank, i);
    for (int m = 0; m < GROUP; m++) group[m] = (first + m) % RANKS;
    OK(dfcclRegisterAllReduce(ctx, id_of(first, i), 1, dfcclInt32, dfcclSum, &options));
  }
  OK(dfcclRegisterAllReduce(ctx, ALL, 1, dfcclInt32, dfcclSum, NULL));
  for (int i = 0; i < 3; i++) {
    int c = i ^ order;
    if (i == rank % 3) OK(dfcclRunAllReduce(ctx, ALL, &mine, &total, NULL, NULL));
    if (i < 2) OK(dfcclRunAllReduce(ctx, id_of(first_of(rank, c), c), &mine, &sums[c], NULL, NULL));
  }
  df_waiting_for("collectives");
  OK(dfcclWaitAll(ctx));
  for (int i = 0; i < 2; i++) {
    int expected = 0;
    for (int m = 0; m < GROUP; m++) expected += (first_of(rank, i) + m) % RANKS;
    CHECK(sums[i] == expected, "rank %d: the sum is %d, not %d", rank, sums[i], expected);
  }
  CHECK(total == RANKS * (RANKS - 1) / 2, "rank %d: the sum of all is %d", rank, total);
}

static void take_part(int rank, void *arg) {
  crowd *c = arg;
  dfcclConfig_t config = df_config();
  config.maxBlocks = 1;
  dfcclContext_t ctx = NULL;
  df_waiting_for("dfcclInit");
  OK(dfcclInit(&ctx, RANKS, *c->id, rank, &config));
  df_waiting_for(NULL);
  df_watch(ctx);
  if (atomic_fetch_add(&c->joined, 1) + 1 == RANKS)
    fprintf(stderr, "%d ranks joined within %.1f s, resident %ld KB\n", RANKS,
            df_seconds() - c->start, df_resident_kb());
  sum_up(ctx, rank);
  if (atomic_fetch_add(&c->ready, 1) + 1 == RANKS)
    fprintf(stderr,
            "two collectives of some and one of all on each after %.1f s, resident %ld KB, %d "
            "descriptors\n",
            df_seconds() - c->start, df_resident_kb(), df_descriptor_count());
  df_finish(ctx);
}

DF_TEST(many_ranks, in_one_process, SECONDS) {
  dfcclUniqueId id;
  allow_descriptors();
  setenv("DFCCL_INIT_TIMEOUT_MS", "500000", 1);
  OK(dfcclGetUniqueId(&id));
  crowd c = {.id = &id, .start = df_seconds()};
  df_in_threads(RANKS, take_part, &c);
}
