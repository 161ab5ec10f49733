/*
 * Promise: dfcclGetMemory and dfcclGetCollectiveMemory report what collectives cost. A registration
 * of a small buffer costs kilobytes, by this account and by that of the system. A collective that
 * runs once has the memory of its own messages, however deep its rings may become. When all members
 * have deregistered a collective, its memory has returned to the system. Results stay right while
 * memory goes from collective to collective.
 */
#include "support/buffers.h"
#include "support/memory.h"
#include "support/processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KB = 1024, MB = 1024 * KB };

static dfcclMemory_t memory_of(dfcclContext_t ctx) {
  dfcclMemory_t memory = DFCCL_MEMORY_INITIALIZER;
  OK(dfcclGetMemory(ctx, &memory));
  return memory;
}

static dfcclMemory_t memory_of_collective(dfcclContext_t ctx, dfcclCollId_t id) {
  dfcclMemory_t memory = DFCCL_MEMORY_INITIALIZER;
  OK(dfcclGetCollectiveMemory(ctx, id, &memory));
  return memory;
}

/* Pages of this process, those that it shares with its peers included. */
static uint64_t resident_bytes(void) {
  unsigned long pages = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  CHECK(file != NULL && fscanf(file, "%*u %lu", &pages) == 1, "no sizes of the process");
  fclose(file);
  return pages * 4096ull;
}

static void run_once(dfcclContext_t ctx, dfcclCollId_t id, const df_collective *coll, int rank) {
  OK(df_register(ctx, id, coll));
  df_take_part(ctx, id, coll, rank, 0, 0);
}

/* All members deregister what this rank has. A thread of the library may keep a record for a
 * moment. */
static int has_nothing(dfcclContext_t ctx) {
  const dfcclMemory_t memory = memory_of(ctx);
  return memory.ringBytes == 0 && memory.reservedBytes == 0 && memory.collectives == 0 &&
         memory.recordBytes == 0;
}
static void expect_nothing_left(dfcclContext_t ctx) {
  if (!df_on_cuda()) EVENTUALLY(has_nothing(ctx));
}

static void small_ones(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  const uint64_t most = (uint64_t)(ranks > 2 ? 64 : 16) * KB, n = df_slowdown() == 1 ? 300 : 60;
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  df_collective coll = df_simple(100, ranks);
  (void)arg;
  run_once(ctx, n, &coll, rank); /* tables and plans have their first pages */
  const dfcclMemory_t before = memory_of(ctx);
  const uint64_t resident = resident_bytes();
  for (dfcclCollId_t i = 0; i < n; i++) {
    coll.count = 1 + (size_t)i % 250; /* up to 1 KB */
    run_once(ctx, i, &coll, rank);
  }
  const dfcclMemory_t after = memory_of(ctx);
  const uint64_t each =
      (after.ringBytes + after.recordBytes - before.ringBytes - before.recordBytes) / n;
  const uint64_t grown = resident_bytes() - resident;
  CHECK(after.collectives == n + 1, "%llu collectives", (unsigned long long)after.collectives);
  CHECK(after.ringBytes <= after.reservedBytes + MB, "%llu bytes of %llu reserved ones",
        (unsigned long long)after.ringBytes, (unsigned long long)after.reservedBytes);
  if (!df_on_cuda())
    CHECK(each > 1 * KB && each < most, "%llu bytes for each", (unsigned long long)each);
  /* A sanitizer's own memory grows too. */
  if (!df_on_cuda() && df_slowdown() == 1)
    CHECK(grown / n < 3 * most, "%llu resident bytes for each", (unsigned long long)(grown / n));
  for (dfcclCollId_t i = 0; i <= n; i++) OK(dfcclDeregister(ctx, i));
  expect_nothing_left(ctx);
  df_finish(ctx);
}

DF_TEST(memory_use, small_ones_of_two_ranks, 60) {
  df_family family;
  df_fork(&family, 2, 50, small_ones, NULL);
  df_join(&family);
}

DF_TEST(memory_use, small_ones_of_eight_ranks, 120) {
  df_family family;
  df_fork(&family, 8, 110, small_ones, NULL);
  df_join(&family);
}

/* A large collective that runs once, and then again. */
static void deep_rings(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  enum { COUNT = 16 * KB };
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  const df_collective coll = df_simple(COUNT, ranks);
  (void)arg;
  run_once(ctx, 1, &coll, rank);
  dfcclMemory_t memory = memory_of_collective(ctx, 1);
  if (!df_on_cuda()) {
    CHECK(memory.ringBytes < 4 * COUNT * sizeof(int32_t), "%llu bytes after one run",
          (unsigned long long)memory.ringBytes);
    CHECK(memory.ringBytes <= memory.reservedBytes, "%llu bytes of %llu reserved ones",
          (unsigned long long)memory.ringBytes, (unsigned long long)memory.reservedBytes);
  }
  CHECK(memory.collectives == 1 && memory.recordBytes > KB && memory.userBytes == 0,
        "%llu collectives, %llu bytes", (unsigned long long)memory.collectives,
        (unsigned long long)memory.recordBytes);
  for (uint64_t run = 1; run < 200; run++) df_take_part(ctx, 1, &coll, rank, run, 0);
  memory = memory_of_collective(ctx, 1);
  CHECK(df_on_cuda() || memory.ringBytes + 64 * KB >= memory.reservedBytes,
        "%llu bytes of %llu reserved ones after many runs", (unsigned long long)memory.ringBytes,
        (unsigned long long)memory.reservedBytes);
  OK(dfcclDeregister(ctx, 1));
  expect_nothing_left(ctx);
  df_finish(ctx);
}

DF_TEST(memory_use, deep_rings_grow_with_their_messages, 60) {
  df_family family;
  df_fork(&family, 2, 50, deep_rings, NULL);
  df_join(&family);
}

/* Memory that a collective gives back is another one's at once, while other ones are in use. */
static void ever_new_ones(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  enum { ROUNDS = 400, KEPT = 7 };
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  df_random random = {11}; /* the same on all ranks */
  df_collective colls[KEPT];
  uint64_t runs[KEPT] = {0};
  (void)arg;
  for (int i = 0; i < KEPT; i++) colls[i].count = 0;
  for (int round = 0; round < ROUNDS; round++) {
    const int which = (int)df_random_below(&random, KEPT);
    const dfcclCollId_t name = (dfcclCollId_t)which;
    if (colls[which].count != 0 && df_random_chance(&random, 60))
      OK(dfcclDeregister(ctx, name));
    else if (colls[which].count != 0) {
      df_take_part(ctx, name, &colls[which], rank, ++runs[which], 0);
      continue;
    }
    colls[which] =
        (df_collective){.kind = (df_kind)df_random_below(&random, DF_KIND_COUNT),
                        .type = dfcclInt32,
                        .op = dfcclSum,
                        .root = (int)df_random_below(&random, ranks),
                        .count = 1 + (size_t)df_random_below(&random, round % 5 ? 3000 : 60000),
                        .members = ranks,
                        .seed = (uint64_t)round};
    runs[which] = 0;
    run_once(ctx, name, &colls[which], rank);
  }
  for (int i = 0; i < KEPT; i++)
    if (colls[i].count != 0) OK(dfcclDeregister(ctx, (dfcclCollId_t)i));
  expect_nothing_left(ctx);
  df_finish(ctx);
}

DF_TEST(memory_use, results_while_memory_moves, 120) {
  df_family family;
  df_fork(&family, 3, 110, ever_new_ones, NULL);
  df_join(&family);
}

DF_TEST(memory_use, user_memory_and_threads, 60) {
  dfcclContext_t ctxs[2];
  void *user;
  df_make_contexts(ctxs, 2, NULL);
  const df_collective coll = df_simple(1000, 2);
  OK(dfcclMemAlloc(ctxs[0], &user, 3 * MB));
  CHECK(memory_of(ctxs[0]).userBytes >= 3 * MB && memory_of(ctxs[1]).userBytes == 0, "%llu bytes",
        (unsigned long long)memory_of(ctxs[0]).userBytes);
  OK(dfcclMemFree(ctxs[0], user));
  CHECK(memory_of(ctxs[0]).userBytes == 0, "%llu bytes",
        (unsigned long long)memory_of(ctxs[0]).userBytes);
  df_register_all(ctxs, 1, &coll);
  for (int r = 0; r < 2; r++) {
    const dfcclMemory_t all = memory_of(ctxs[r]), one = memory_of_collective(ctxs[r], 1);
    CHECK(all.collectives == 1 && all.recordBytes >= one.recordBytes && one.recordBytes > KB,
          "%llu of %llu bytes", (unsigned long long)one.recordBytes,
          (unsigned long long)all.recordBytes);
    CHECK(one.reservedBytes == 0, "%llu bytes before the first run",
          (unsigned long long)one.reservedBytes);
  }
  dfcclMemory_t memory = DFCCL_MEMORY_INITIALIZER;
  RESULT(dfcclGetCollectiveMemory(ctxs[0], 2, &memory), dfcclInvalidArgument);
  df_free_contexts(ctxs, 2);
}
