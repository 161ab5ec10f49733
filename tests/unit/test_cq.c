/*
 * Promises of src/queues/cq.h, for each of its variants:
 *   - Every CQE is popped exactly once, over any number of laps, and those of one block in order.
 *   - Data that a block wrote before its push is visible to the thread that popped the CQE (race
 *     build).
 *   - No block's ring is passed over for long while another block's ring is never empty.
 *   - A thread that has pushed a CQE is never told that the queue is empty, although another thread
 *     may have taken earlier entries and the first thread does not see that yet.
 *   - A word contains the pushed collective and status, up to their limits.
 */
#include "queues/cq.h"

#include <pthread.h>
#include <sched.h>

#include "support/harness.h"

enum { RINGS_MAX = 4, SLOTS = 64 };

typedef struct queue {
  df_cq cq;
  df_cq_ring rings[RINGS_MAX];
  uint64_t words[RINGS_MAX][SLOTS];
} queue;

static const char *const variant_names[] = {"ring", "packed", "slots"};

static void make(queue *q, int variant, uint32_t blocks, uint32_t slots) {
  *q = (queue){.cq = {.variant = (df_cq_variant)variant}};
  q->cq.n_rings = variant == DF_CQ_SLOTS_CAS ? 1 : blocks;
  q->cq.mask = slots - 1;
  q->cq.rings = q->rings;
  for (uint32_t r = 0; r < q->cq.n_rings; r++) q->rings[r].words = q->words[r];
}

DF_TEST(cq, every_entry_is_popped_once_and_in_order, 30) {
  for (int variant = 0; variant < 3; variant++)
    for (uint32_t blocks = 1; blocks <= RINGS_MAX; blocks++) {
      queue q;
      uint64_t pushed[RINGS_MAX] = {0}, popped[RINGS_MAX] = {0}, inside = 0;
      df_random random = {blocks};
      make(&q, variant, blocks, 8);
      for (int i = 0; i < 20000; i++) {
        df_cqe cqe;
        if (df_random_chance(&random, 50) && inside < 8) { /* the host admits no more */
          uint32_t b = (uint32_t)df_random_below(&random, (int)blocks);
          df_cq_push_mpsc(&q.cq, b,
                          (df_cqe){.collective = b * 1000 + pushed[b]++ % 1000, .status = b});
          inside++;
        }
        CHECK(df_cq_has_entry(&q.cq) == (inside > 0), "%s: %llu entries", variant_names[variant],
              (unsigned long long)inside);
        if (df_random_chance(&random, 50)) continue;
        int got = df_cq_pop_mpsc(&q.cq, &cqe);
        CHECK(got == (inside > 0), "%s: %llu entries", variant_names[variant],
              (unsigned long long)inside);
        if (!got) continue;
        inside--;
        CHECK(cqe.status < blocks, "status %u", cqe.status);
        CHECK(cqe.collective == cqe.status * 1000 + popped[cqe.status]++ % 1000,
              "%s: block %u's entry %llu is %u", variant_names[variant], cqe.status,
              (unsigned long long)popped[cqe.status] - 1, cqe.collective);
      }
    }
}

DF_TEST(cq, a_hint_is_never_no_to_who_has_pushed, 30) {
  for (int variant = 0; variant < 3; variant++)
    for (uint64_t older = 0; older <= 2; older++) {
      queue q;
      df_cqe cqe = {.collective = 1};
      make(&q, variant, 1, 4);
      for (int i = 0; i < 7; i++) {
        df_cq_push_mpsc(&q.cq, 0, cqe);
        CHECK(df_cq_pop_mpsc(&q.cq, &cqe), "%s: an entry is missing", variant_names[variant]);
      }
      CHECK(!df_cq_has_entry(&q.cq), "%s: nothing is there", variant_names[variant]);
      df_cq_push_mpsc(&q.cq, 0, cqe);
      q.rings[0].consumer_index -= older;
      CHECK(df_cq_has_entry(&q.cq), "%s: the entry is not seen by who sees an index %llu older",
            variant_names[variant], (unsigned long long)older);
    }
}

/* Words that the kept end replaces may be wrong: they are not read. The head is read only when its
 * copy is a lap old. */
DF_TEST(cq, a_kept_end_is_not_read, 30) {
  for (int variant = 0; variant < 2; variant++) {
    queue q;
    df_cqe cqe;
    df_cq_end end;
    make(&q, variant, 1, 4);
    df_cq_open_end(&q.cq, 0, &end);
    for (uint32_t i = 0; i < 50; i++) {
      q.rings[0].head = i % 4 == 0 ? i : 1234567; /* the truth when a lap is full */
      if (variant == DF_CQ_PACKED) q.rings[0].tail = 7654321;
      df_cq_push_kept(&q.cq, 0, &end, (df_cqe){.collective = i});
      CHECK(df_cq_pop_mpsc(&q.cq, &cqe) && cqe.collective == i, "%s: entry %u",
            variant_names[variant], i);
    }
    CHECK(q.rings[0].tail == 50, "%s: the next launch begins at %llu", variant_names[variant],
          (unsigned long long)q.rings[0].tail);
  }
}

DF_TEST(cq, a_word_keeps_its_limits, 30) {
  static const uint32_t collectives[] = {0, 1, DF_MAX_COLLECTIVES - 1};
  static const uint32_t statuses[] = {0, 1, 11, 63};
  for (size_t i = 0; i < DF_COUNT_OF(collectives); i++)
    for (size_t k = 0; k < DF_COUNT_OF(statuses); k++)
      for (uint64_t lap = 1; lap; lap = lap << 7 & DF_CQE_LAP_MASK) {
        uint32_t run = (uint32_t)((i + k) % DF_RUNS_AHEAD);
        uint64_t word = df_cqe_encode((df_cqe){collectives[i], statuses[k], run}, lap);
        df_cqe cqe = df_cqe_decode(word);
        CHECK(cqe.collective == collectives[i] && cqe.status == statuses[k] && cqe.run == run,
              "{%u, %u, %u}", cqe.collective, cqe.status, cqe.run);
        CHECK(word >> DF_CQE_LAP_SHIFT == lap, "lap %llx", (unsigned long long)lap);
      }
}

/* Block 0 completes one run after the other; block 1's only entry must not wait for ever. */
DF_TEST(cq, no_ring_is_passed_over, 30) {
  for (int variant = 0; variant < 3; variant++) {
    queue q;
    make(&q, variant, 2, SLOTS);
    for (int i = 0; i < 4; i++) df_cq_push_mpsc(&q.cq, 0, (df_cqe){.collective = 1});
    df_cq_push_mpsc(&q.cq, 1, (df_cqe){.collective = 2});
    int pops = 0;
    df_cqe cqe = {0};
    while (cqe.collective != 2) {
      CHECK(pops++ < 10, "%s: block 1's entry is passed over", variant_names[variant]);
      CHECK(df_cq_pop_mpsc(&q.cq, &cqe), "empty");
      df_cq_push_mpsc(&q.cq, 0, (df_cqe){.collective = 1});
    }
  }
}

/* ---- threads ---- */

enum { PRODUCERS = 2 };

static struct {
  queue q;
  uint64_t results[PRODUCERS][SLOTS]; /* plain: published with the entry */
  uint64_t consumed[PRODUCERS];       /* so many of its entries have been popped */
  uint64_t entries;
} shared;

static void *produce(void *argument) {
  uint32_t b = *(const uint32_t *)argument;
  for (uint64_t i = 0; i < shared.entries; i++) {
    while (i - df_observe_u64(&shared.consumed[b]) >= SLOTS / PRODUCERS) sched_yield();
    shared.results[b][i % SLOTS] = i ^ b;
    df_cq_push_mpsc(&shared.q.cq, b, (df_cqe){.collective = (uint32_t)(i % 50000), .status = b});
  }
  return NULL;
}

static void several_threads(int variant) {
  pthread_t threads[PRODUCERS];
  uint32_t numbers[PRODUCERS];
  make(&shared.q, variant, PRODUCERS, SLOTS);
  shared.entries = (uint64_t)(200000 / df_slowdown());
  uint64_t popped[PRODUCERS] = {0};
  for (uint32_t b = 0; b < PRODUCERS; b++) {
    numbers[b] = b;
    shared.consumed[b] = 0;
    CHECK(pthread_create(&threads[b], NULL, produce, &numbers[b]) == 0, "no thread");
  }
  for (uint64_t total = 0; total < PRODUCERS * shared.entries; total++) {
    df_cqe cqe;
    while (!df_cq_pop_mpsc(&shared.q.cq, &cqe)) sched_yield();
    uint32_t b = cqe.status;
    CHECK(b < PRODUCERS, "status %u", b);
    CHECK(cqe.collective == popped[b] % 50000, "%s: block %u's entry %llu is %u",
          variant_names[variant], b, (unsigned long long)popped[b], cqe.collective);
    CHECK(shared.results[b][popped[b] % SLOTS] == (popped[b] ^ b), "%s: the result is not there",
          variant_names[variant]);
    df_publish_u64(&shared.consumed[b], ++popped[b]);
  }
  for (uint32_t b = 0; b < PRODUCERS; b++) pthread_join(threads[b], NULL);
  CHECK(!df_cq_has_entry(&shared.q.cq), "an entry too many");
}

DF_TEST(cq, ring_with_two_producers, 60) { several_threads(DF_CQ_RING); }
DF_TEST(cq, packed_with_two_producers, 60) { several_threads(DF_CQ_PACKED); }
DF_TEST(cq, slots_with_two_producers, 60) { several_threads(DF_CQ_SLOTS_CAS); }
