/*
 * Promise: counts are size_t. Buffers beyond 2^31 and 2^32 bytes are moved and reduced correctly up
 * to the last element. The test needs about 14 GB of memory, and is skipped on smaller machines.
 */
#include "support/leftovers.h"
#include "support/ranks.h"

#include <stdio.h>
#include <sys/mman.h>

enum { NEEDED_MB = 15000 };
static const size_t COUNT = ((size_t)1 << 31) + 5;

static int8_t *reserve(size_t bytes) {
  void *memory =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  CHECK(memory != MAP_FAILED, "mmap of %zu bytes failed", bytes);
  return memory;
}

static int8_t value(int rank, size_t index) {
  return (int8_t)((index * 2654435761u >> 7) + (size_t)rank * 3);
}

static void fill(int8_t *memory, int rank) {
  for (size_t i = 0; i < COUNT; i++) memory[i] = value(rank, i);
}

static dfcclContext_t ctxs[2];

static void expect_room(void) {
  if (df_available_mb() < NEEDED_MB)
    DF_SKIP("%ld MB of memory are free, %d MB are needed", df_available_mb(), NEEDED_MB);
}

DF_TEST(huge, all_reduce_beyond_two_to_the_31, 300) {
  expect_room();
  int8_t *buffers[2];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(COUNT, 2);
  coll.type = dfcclInt8;
  df_register_all(ctxs, 1, &coll);
  for (int rank = 0; rank < 2; rank++) {
    buffers[rank] = reserve(COUNT);
    fill(buffers[rank], rank);
  }
  for (int rank = 0; rank < 2; rank++) /* in place */
    OK(dfcclRunAllReduce(ctxs[rank], 1, buffers[rank], buffers[rank], NULL, NULL));
  for (int rank = 0; rank < 2; rank++) OK(dfcclWait(ctxs[rank], 1));
  for (int rank = 0; rank < 2; rank++) {
    for (size_t i = 0; i < COUNT; i++)
      CHECK(buffers[rank][i] == (int8_t)(value(0, i) + value(1, i)), "rank %d element %zu", rank,
            i);
    munmap(buffers[rank], COUNT);
  }
  df_free_contexts(ctxs, 2);
}

/* 2 * (2^31 + 5) received bytes: beyond 2^32. */
DF_TEST(huge, all_gather_beyond_two_to_the_32, 300) {
  expect_room();
  int8_t *buffers[2];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(COUNT, 2);
  coll.kind = DF_ALL_GATHER;
  coll.type = dfcclInt8;
  df_register_all(ctxs, 1, &coll);
  for (int rank = 0; rank < 2; rank++) {
    buffers[rank] = reserve(2 * COUNT);
    fill(buffers[rank] + (size_t)rank * COUNT, rank);
  }
  for (int rank = 0; rank < 2; rank++)
    OK(dfcclRunAllGather(ctxs[rank], 1, buffers[rank] + (size_t)rank * COUNT, buffers[rank], NULL,
                         NULL));
  for (int rank = 0; rank < 2; rank++) OK(dfcclWait(ctxs[rank], 1));
  for (int rank = 0; rank < 2; rank++) {
    for (int from = 0; from < 2; from++)
      for (size_t i = 0; i < COUNT; i++)
        CHECK(buffers[rank][(size_t)from * COUNT + i] == value(from, i),
              "rank %d, from %d, element %zu", rank, from, i);
    munmap(buffers[rank], 2 * COUNT);
  }
  df_free_contexts(ctxs, 2);
}
