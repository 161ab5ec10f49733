/*
 * The core's operations by themselves, as the host and a CPU daemon execute them, on one thread: so
 * without the time that a cache line needs between two cores.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "context/context_cache.h"
#include "overhead.h"
#include "queues/cq.h"
#include "queues/sq.h"

enum { BATCHES = 400, REPETITIONS = 512, QUEUE_SLOTS = 1024, CACHE_SLOTS = 16 };
DF_STATIC_ASSERT((int)REPETITIONS <= (int)QUEUE_SLOTS, "a batch fits its queue");

/* Keeps the compiler from moving work on memory out of the timed part. */
#define KEEP_ORDER() __asm__ __volatile__("" ::: "memory")

typedef struct {
  double durations[2][BATCHES]; /* ns for each batch, of up to two things timed side by side */
  df_sq sq;
  df_sq_slot sq_slots[QUEUE_SLOTS];
  df_cq cq;
  df_cq_ring cq_ring;
  uint64_t cq_words[QUEUE_SLOTS];
  df_context_cache cache;
  df_context_slot cache_slots[CACHE_SLOTS];
  df_cursor saved[REPETITIONS];
} workbench;

static df_bench_phase conclude(workbench *bench, const char *phase, int which) {
  return df_bench_phase_of(phase, bench->durations[which], BATCHES, REPETITIONS);
}

static void time_submission(workbench *bench) {
  uint64_t read_index = 0;
  df_sq_init(&bench->sq, bench->sq_slots, QUEUE_SLOTS, 1);
  for (int batch = 0; batch < BATCHES; batch++) {
    uint64_t start = df_clock_ns();
    for (uint32_t i = 0; i < REPETITIONS; i++) {
      df_sqe sqe = {.collective = i, .blocks = 1}, got = {0};
      int pushed = df_sq_push_spmc(&bench->sq, sqe);
      int fetched = df_sq_fetch_spmc(&bench->sq, &read_index, &got);
      DF_ASSERT(pushed == 1);
      DF_ASSERT(fetched == 1);
      DF_ASSERT(got.collective == i);
    }
    bench->durations[0][batch] = (double)(df_clock_ns() - start);
  }
}

/* Loads: each evicts a clean context and reads another from memory. */
static void time_context_load(workbench *bench) {
  for (int batch = 0; batch < BATCHES; batch++) {
    df_context_cache_init(&bench->cache, bench->cache_slots, CACHE_SLOTS, bench->saved);
    uint64_t start = df_clock_ns();
    for (uint32_t i = 0; i < REPETITIONS; i++) {
      df_context_slot *slot = df_context_load(&bench->cache, i);
      KEEP_ORDER();
      DF_ASSERT(slot->collective == i);
    }
    bench->durations[0][batch] = (double)(df_clock_ns() - start);
    DF_ASSERT(bench->cache.loads == REPETITIONS);
  }
}

/* Saves: a context that progressed is written to memory. */
static void time_context_save(workbench *bench) {
  df_context_cache_init(&bench->cache, bench->cache_slots, CACHE_SLOTS, bench->saved);
  for (int batch = 0; batch < BATCHES; batch++) {
    uint64_t saves = bench->cache.saves;
    uint64_t start = df_clock_ns();
    for (uint32_t i = 0; i < REPETITIONS; i++) {
      df_context_slot *slot = &bench->cache_slots[i % CACHE_SLOTS];
      slot->collective = i;
      slot->dirty = 1;
      KEEP_ORDER();
      df_context_save(&bench->cache, slot);
      KEEP_ORDER();
    }
    bench->durations[0][batch] = (double)(df_clock_ns() - start);
    DF_ASSERT(bench->cache.saves - saves == REPETITIONS);
  }
}

/* Writes a batch of CQEs, then reads it: both are timed. */
static void time_completion(workbench *bench, df_cq_variant variant) {
  memset(&bench->cq_ring, 0, sizeof bench->cq_ring);
  memset(bench->cq_words, 0, sizeof bench->cq_words);
  bench->cq_ring.words = bench->cq_words;
  bench->cq =
      (df_cq){.variant = variant, .n_rings = 1, .mask = QUEUE_SLOTS - 1, .rings = &bench->cq_ring};
  for (int batch = 0; batch < BATCHES; batch++) {
    uint64_t start = df_clock_ns();
    for (uint32_t i = 0; i < REPETITIONS; i++)
      df_cq_push_mpsc(&bench->cq, 0, (df_cqe){.collective = i, .status = 0});
    uint64_t written = df_clock_ns();
    for (uint32_t i = 0; i < REPETITIONS; i++) {
      df_cqe cqe = {0};
      int popped = df_cq_pop_mpsc(&bench->cq, &cqe);
      DF_ASSERT(popped == 1);
      DF_ASSERT(cqe.collective == i);
    }
    bench->durations[0][batch] = (double)(written - start);
    bench->durations[1][batch] = (double)(df_clock_ns() - written);
  }
}

int df_bench_overhead_phases(df_bench_phase *phases) {
  static const struct {
    df_cq_variant variant;
    const char *write, *read;
  } variants[] = {
      {DF_CQ_RING, "CQE write, ring", "CQE read, ring"},
      {DF_CQ_PACKED, "CQE write, packed", "CQE read, packed"},
      {DF_CQ_SLOTS_CAS, "CQE write, slots", "CQE read, slots"},
  };
  workbench *bench = aligned_alloc(DF_CACHE_LINE, DF_ALIGN_UP(sizeof *bench, DF_CACHE_LINE));
  if (bench == NULL) return -1;
  memset(bench, 0, sizeof *bench);
  int count = 0;
  time_submission(bench);
  phases[count++] = conclude(bench, "SQE submit to fetch", 0);
  time_context_load(bench);
  phases[count++] = conclude(bench, "context load", 0);
  time_context_save(bench);
  phases[count++] = conclude(bench, "context save", 0);
  for (size_t i = 0; i < DF_COUNT_OF(variants); i++) {
    time_completion(bench, variants[i].variant);
    phases[count++] = conclude(bench, variants[i].write, 0);
    phases[count++] = conclude(bench, variants[i].read, 1);
  }
  free(bench);
  return count;
}
