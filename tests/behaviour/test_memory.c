/*
 * Promise: dfcclMemAlloc memory is zeroed and page-aligned, and belongs to the caller until
 * dfcclMemFree. Collectives on it give the same results as on any other memory, within a process
 * and across processes, in any mixture with other memory. It may be freed while a collective that
 * used it is registered, and dfcclDestroy frees the rest. To free NULL has no effect. A broken
 * context allocates no memory, but frees memory that it allocated earlier.
 */
#include "support/buffers.h"
#include "support/memory.h"
#include "support/processes.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

DF_TEST(memory, is_zeroed_and_aligned, 30) {
  static const size_t sizes[] = {1, 100, 4096, 4097, 1 << 20, (8 << 20) + 5};
  enum { N = sizeof sizes / sizeof sizes[0] };
  dfcclContext_t ctxs[2];
  void *pointers[2][N];
  unsigned char *bytes =
      df_memory_take(sizes[N - 1]); /* a GPU's memory, which the host cannot read */
  df_make_contexts(ctxs, 2, NULL);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 2 * N; i++) {
      void *memory = NULL;
      OK(dfcclMemAlloc(ctxs[i % 2], &pointers[i % 2][i / 2], sizes[i / 2]));
      memory = pointers[i % 2][i / 2];
      CHECK((uintptr_t)memory % 4096 == 0, "%p is not aligned to a page", memory);
      df_memory_copy(bytes, memory, sizes[i / 2]);
      for (size_t b = 0; b < sizes[i / 2]; b++) CHECK(bytes[b] == 0, "byte %zu is not zero", b);
      memset(bytes, 0xFF, sizes[i / 2]); /* the next round must get zeros nevertheless */
      df_memory_copy(memory, bytes, sizes[i / 2]);
    }
    for (int i = 0; i < 2 * N; i++) OK(dfcclMemFree(ctxs[i % 2], pointers[i % 2][i / 2]));
  }
  RESULT(dfcclMemFree(ctxs[0], pointers[0][0]), dfcclInvalidArgument); /* a second time */
  df_free_contexts(ctxs, 2);
  df_memory_give(bytes);
}

DF_TEST(memory, of_a_broken_context, 30) {
  dfcclContext_t ctxs[2];
  void *before = NULL, *after = &ctxs;
  df_make_contexts(ctxs, 2, NULL);
  OK(dfcclMemFree(ctxs[0], NULL));
  OK(dfcclMemAlloc(ctxs[0], &before, 100));
  OK(dfcclAbort(ctxs[0]));
  RESULT(dfcclMemAlloc(ctxs[0], &after, 100), dfcclAborted);
  CHECK(strstr(dfcclGetLastError(ctxs[0]), "dfcclAbort") != NULL, "it says \"%s\"",
        dfcclGetLastError(ctxs[0]));
  CHECK(after == (void *)&ctxs, "memory of a broken context");
  OK(dfcclMemFree(ctxs[0], NULL));
  OK(dfcclMemFree(ctxs[0], before));
  df_free_contexts(ctxs, 2);
}

/* Members with and without zero-copy memory in one run, all kinds, small and large. */
static void mixed(dfcclContext_t ctx, int rank, int ranks, int rounds) {
  static const size_t counts[] = {10, 3000, 70000};
  df_random random = {(uint64_t)rank + 3};
  for (int kind = 0; kind < DF_KIND_COUNT; kind++)
    for (int s = 0; s < 3; s++) {
      dfcclCollId_t id = (dfcclCollId_t)(kind * 3 + s);
      df_collective coll = {.kind = (df_kind)kind,
                            .type = dfcclFloat32,
                            .op = dfcclSum,
                            .root = 1,
                            .count = counts[s],
                            .members = ranks,
                            .seed = id};
      OK(df_register(ctx, id, &coll));
      for (int round = 0; round < rounds; round++) {
        int flags = df_random_chance(&random, 60) ? DF_ZERO_COPY : 0;
        if (df_random_chance(&random, 40)) flags |= DF_IN_PLACE;
        if (df_random_chance(&random, 30)) flags |= DF_ODD_OFFSET;
        df_take_part(ctx, id, &coll, rank, (uint64_t)round, flags); /* frees it while registered */
      }
      if (s == 1) OK(dfcclDeregister(ctx, id));
    }
}

static void mixed_thread(int rank, void *arg) { mixed(((dfcclContext_t *)arg)[rank], rank, 3, 6); }

DF_TEST(memory, within_a_process, 60) {
  dfcclContext_t ctxs[3];
  df_make_contexts(ctxs, 3, NULL);
  df_in_threads(3, mixed_thread, ctxs);
  df_free_contexts(ctxs, 3);
}

static void mixed_process(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  mixed(ctx, rank, ranks, 6);
  df_finish(ctx);
}

DF_TEST(memory, across_processes, 60) {
  df_family family;
  df_fork(&family, 3, 50, mixed_process, NULL);
  df_join(&family);
}

/* With a limit of one byte every reachable buffer is lent; otherwise none is. */
DF_TEST(memory, always_direct_across_processes, 60) {
  df_family family;
  df_tune("lend_min", "1");
  df_tune("lend_in_place_min", "0");
  df_fork(&family, 3, 50, mixed_process, NULL);
  df_join(&family);
}

DF_TEST(memory, never_direct, 60) {
  dfcclContext_t ctxs[3];
  df_tune("lend", "0");
  df_make_contexts(ctxs, 3, NULL);
  df_in_threads(3, mixed_thread, ctxs);
  df_free_contexts(ctxs, 3);
}

DF_TEST(memory, always_direct, 60) {
  dfcclContext_t ctxs[3];
  df_tune("lend_min", "1");
  df_tune("lend_in_place_min", "0");
  df_make_contexts(ctxs, 3, NULL);
  df_in_threads(3, mixed_thread, ctxs);
  df_free_contexts(ctxs, 3);
}

/* The number of dfcclMemAlloc allocations, own ones and peers', that are mapped in this process. */
static int count_mapped(size_t bytes) {
  char line[512];
  unsigned long begin, end;
  int n = 0;
  FILE *maps = fopen("/proc/self/maps", "re");
  CHECK(maps != NULL, "no list of mappings");
  while (fgets(line, sizeof line, maps))
    n += sscanf(line, "%lx-%lx", &begin, &end) == 2 && end - begin == bytes &&
         strstr(line, "memfd:") != NULL;
  fclose(maps);
  return n;
}

enum { MAPPED_BYTES = 5 << 12 }; /* a size that nothing else has */

/* Rank 1 has deregistered, and rank 0's run has failed. The lent memory stays mapped, since a peer
 * may still read it; memory that is allocated and freed later does not. */
static void free_after_a_failure(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  atomic_int *step = arg;
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  df_collective coll = df_simple(1000, ranks);
  void *lent, *later;
  OK(dfcclMemAlloc(ctx, &lent, MAPPED_BYTES));
  OK(df_register(ctx, 1, &coll));
  OK(dfcclRunAllReduce(ctx, 1, lent, lent, NULL, NULL));
  OK(dfcclWait(ctx, 1));
  if (rank == 0) {
    OK(dfcclRunAllReduce(ctx, 1, lent, lent, NULL, NULL));
    atomic_store(step, 1);
    RESULT(dfcclWait(ctx, 1), dfcclRemoteError);
    OK(dfcclMemFree(ctx, lent));
    OK(dfcclMemAlloc(ctx, &later, MAPPED_BYTES));
    atomic_store(step, 2);
    EVENTUALLY(atomic_load(step) == 3);
    OK(dfcclMemFree(ctx, later));
    EVENTUALLY(atomic_load(step) == 4);
  } else {
    EVENTUALLY(atomic_load(step) == 1);
    OK(dfcclDeregister(ctx, 1));
    EVENTUALLY(atomic_load(step) == 2);
    EVENTUALLY(count_mapped(MAPPED_BYTES) == 3);
    atomic_store(step, 3);
    EVENTUALLY(count_mapped(MAPPED_BYTES) == 2);
    atomic_store(step, 4);
  }
  df_finish(ctx);
}

DF_TEST(memory, is_unmapped_also_after_a_failure, 60) {
  df_family family;
  if (df_on_cuda()) return; /* a device's memory is not among the mappings */
  df_fork(&family, 2, 50, free_after_a_failure, df_shared(sizeof(atomic_int)));
  df_join(&family);
}

static unsigned long long ring_bytes(dfcclContext_t ctx) {
  char text[16384] = {0};
  FILE *file = tmpfile();
  CHECK(file != NULL, "no temporary file");
  OK(dfcclDump(ctx, fileno(file)));
  rewind(file);
  CHECK(fread(text, 1, sizeof text - 1, file) > 0, "the dump is empty");
  fclose(file);
  const char *line = strstr(text, "bytes of ends, ");
  unsigned long long bytes = 0;
  CHECK(line != NULL && sscanf(line, "bytes of ends, %llu bytes of rings", &bytes) == 1,
        "the dump does not tell of rings: \"%s\"", text);
  return bytes;
}

/* Rings grow to their full size while the budget lasts, and have the least size afterwards.
 * Whatever their depth, and however often they wrap, every element is right. */
DF_TEST(memory, rings_grow_within_their_budget, 60) {
  enum { COUNT = 16384, RING = 131072, COLLECTIVES = 6, RUNS = 20 };
  dfcclContext_t ctxs[2];
  static int32_t send[2][COUNT], recv[2][COUNT];
  unsigned long long before = 0, grown[COLLECTIVES];
  if (df_on_cuda()) return; /* rings in a device's memory have the least slots */
  df_tune("slot_bytes", "8192");
  df_tune("ring_bytes", "131072");
  df_tune("ring_budget", "262144");
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(COUNT, 2);
  for (int i = 0; i < COLLECTIVES; i++) {
    df_register_all(ctxs, (dfcclCollId_t)i, &coll);
    for (uint64_t run = 0; run < RUNS; run++) {
      for (int rank = 0; rank < 2; rank++) {
        df_contribution(&coll, rank, run, 0, COUNT, send[rank]);
        OK(dfcclRunAllReduce(ctxs[rank], (dfcclCollId_t)i, send[rank], recv[rank], NULL, NULL));
      }
      for (int rank = 0; rank < 2; rank++) {
        OK(dfcclWaitAll(ctxs[rank]));
        char sentence[512] = "";
        CHECK(df_matches(&coll, rank, run, recv[rank], sentence, sizeof sentence), "%s", sentence);
      }
    }
    unsigned long long now = ring_bytes(ctxs[0]);
    grown[i] = now - before;
    before = now;
    CHECK(grown[i] >= 4 * 8192, "rings of collective %d: %llu bytes", i, grown[i]);
  }
  CHECK(grown[0] >= RING * 2 / 3, "the first one's ring: %llu bytes", grown[0]);
  CHECK(grown[COLLECTIVES - 1] < RING / 2, "the last one's ring: %llu bytes",
        grown[COLLECTIVES - 1]);
  df_free_contexts(ctxs, 2);
}

/* Broadcasts a buffer along a chain of ranks that share one core; returns the memory of the second
 * rank's ring. */
static unsigned long long ring_on_one_core(int ranks) {
  enum { COUNT = 16384, RUNS = 10, MOST_RANKS = 4 };
  static int32_t send[COUNT], recv[MOST_RANKS][COUNT];
  dfcclContext_t ctxs[MOST_RANKS];
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.algorithm = "ring";
  df_make_contexts(ctxs, ranks, NULL);
  for (int rank = 0; rank < ranks; rank++)
    OK(dfcclRegisterBroadcast(ctxs[rank], 1, COUNT, dfcclInt32, 0, &options));
  for (int run = 0; run < RUNS; run++) {
    for (int i = 0; i < COUNT; i++) send[i] = run * COUNT + i;
    for (int rank = 0; rank < ranks; rank++)
      OK(dfcclRunBroadcast(ctxs[rank], 1, send, recv[rank], NULL, NULL));
    for (int rank = 0; rank < ranks; rank++) {
      OK(dfcclWaitAll(ctxs[rank]));
      CHECK(memcmp(send, recv[rank], sizeof send) == 0, "run %d: wrong elements on rank %d", run,
            rank);
    }
  }
  unsigned long long bytes = ring_bytes(ctxs[1]);
  df_free_contexts(ctxs, ranks);
  return bytes;
}

/* Ranks that share a core share the size up to which rings grow. */
DF_TEST(memory, rings_share_what_a_core_has, 60) {
  enum { RING = 131072 };
  cpu_set_t before, one;
  if (df_on_cuda()) return; /* rings in a device's memory have the least slots */
  CHECK(sched_getaffinity(0, sizeof before, &before) == 0, "the affinity is unknown");
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; cpu++)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  CHECK(sched_setaffinity(0, sizeof one, &one) == 0, "the affinity cannot be set");
  df_tune("slot_bytes", "8192");
  df_tune("ring_bytes", "131072");
  unsigned long long two = ring_on_one_core(2), four = ring_on_one_core(4);
  CHECK(two > RING * 2 / 5 && two < RING * 3 / 5, "one of two ranks: %llu bytes", two);
  CHECK(four > RING / 5 && four < RING * 3 / 10, "one of four ranks: %llu bytes", four);
  CHECK(sched_setaffinity(0, sizeof before, &before) == 0, "the affinity cannot be set back");
}

/* A root, or a leaf, that waits for no rank gets ahead of its peer by more runs than the least
 * number of slots allows, and every result is right whenever the peer arrives. */
DF_TEST(memory, ranks_that_wait_for_nobody_run_ahead, 60) {
  enum { AHEAD = 32, RUNS = 500 };
  static int32_t send[2][RUNS], recv[2][RUNS];
  dfcclContext_t ctxs[2];
  if (df_on_cuda()) return; /* rings in a device's memory have the least slots */
  df_make_contexts(ctxs, 2, NULL);
  for (int rank = 0; rank < 2; rank++) {
    OK(dfcclRegisterBroadcast(ctxs[rank], 1, 1, dfcclInt32, 0, NULL));
    OK(dfcclRegisterReduce(ctxs[rank], 2, 1, dfcclInt32, dfcclSum, 1, NULL));
    for (int run = 0; run < RUNS; run++) send[rank][run] = 1000 * rank + run;
  }
  for (int rank = 0; rank < 2; rank++) { /* the rings are made in the first run */
    OK(dfcclRunBroadcast(ctxs[rank], 1, send[rank], recv[rank], NULL, NULL));
    OK(dfcclRunReduce(ctxs[rank], 2, send[rank], recv[rank], NULL, NULL));
  }
  for (int rank = 0; rank < 2; rank++) OK(dfcclWaitAll(ctxs[rank]));
  for (int round = 0; round < RUNS / AHEAD; round++) {
    int32_t *own = send[0] + round * AHEAD;
    for (int run = 0; run < AHEAD; run++) {
      OK(dfcclRunBroadcast(ctxs[0], 1, own + run, recv[0], NULL, NULL));
      OK(dfcclWait(ctxs[0], 1));
      OK(dfcclRunReduce(ctxs[0], 2, own + run, NULL, NULL, NULL));
      OK(dfcclWait(ctxs[0], 2));
    }
    for (int run = round * AHEAD; run < (round + 1) * AHEAD; run++) {
      OK(dfcclRunBroadcast(ctxs[1], 1, NULL, &recv[1][run], NULL, NULL));
      OK(dfcclWait(ctxs[1], 1));
      CHECK(recv[1][run] == run, "run %d: %d was broadcast", run, recv[1][run]);
      OK(dfcclRunReduce(ctxs[1], 2, &send[1][run], &recv[1][run], NULL, NULL));
      OK(dfcclWait(ctxs[1], 2));
      CHECK(recv[1][run] == 1000 + 2 * run, "run %d: the sum is %d", run, recv[1][run]);
    }
  }
  df_free_contexts(ctxs, 2);
}

/* Two collectives use two buffers of one allocation at one time, and reuse them at once. */
DF_TEST(memory, parts_of_one_allocation, 60) {
  enum { COUNT = 20000 };
  dfcclContext_t ctxs[2];
  int32_t *memory[2], *on_host = df_memory_take(COUNT * sizeof(int32_t));
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(COUNT, 2);
  df_register_all(ctxs, 1, &coll);
  df_register_all(ctxs, 2, &coll);
  for (int rank = 0; rank < 2; rank++) {
    void *pointer = NULL;
    OK(dfcclMemAlloc(ctxs[rank], &pointer, 4 * COUNT * sizeof(int32_t)));
    memory[rank] = pointer;
  }
  for (uint64_t run = 0; run < 50; run++) {
    for (int rank = 0; rank < 2; rank++)
      for (dfcclCollId_t id = 1; id <= 2; id++) {
        dfcclCollId_t mine = rank == 0 ? id : 3 - id;
        int32_t *send = memory[rank] + 2 * (mine - 1) * COUNT;
        df_contribution(&coll, rank, run * 2 + mine, 0, COUNT, on_host);
        df_memory_copy(send, on_host, COUNT * sizeof(int32_t));
        OK(dfcclRunAllReduce(ctxs[rank], mine, send, send + COUNT, NULL, NULL));
      }
    for (int rank = 0; rank < 2; rank++) {
      OK(dfcclWaitAll(ctxs[rank]));
      for (dfcclCollId_t id = 1; id <= 2; id++) {
        char sentence[512] = "";
        df_memory_copy(on_host, memory[rank] + (2 * (id - 1) + 1) * COUNT, COUNT * sizeof(int32_t));
        CHECK(df_matches(&coll, rank, run * 2 + id, on_host, sentence, sizeof sentence), "%s",
              sentence);
      }
    }
  }
  for (int rank = 0; rank < 2; rank++) OK(dfcclMemFree(ctxs[rank], memory[rank]));
  df_free_contexts(ctxs, 2);
  df_memory_give(on_host);
}
