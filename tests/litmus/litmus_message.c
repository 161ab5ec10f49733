/*
 * Never: a message, an SQE or a CQE is seen, and what was written before it is not; nor is a slot
 * overwritten while it is still being read. The link, the SQ and the three CQs as they are, between
 * two threads; payloads fill several cache lines and are written in an order that changes, so that
 * stores have every chance to become visible out of order.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "primitives/link.h"
#include "queues/cq.h"
#include "queues/sq.h"

enum { WORDS = 24, SLOTS = 4, STRIDE = 64 + WORDS * 8 };

static DF_ALIGNED(64) uint8_t ring[SLOTS * STRIDE + 64];
static uint64_t payloads[SLOTS][WORDS]; /* for the queues, whose entries carry none */
static uint64_t torn, until_ns;
static uint64_t last; /* 0 until it is known: the number of the last message */

static void wait_a_little(uint32_t polls) {
  if (polls % 200 == 0)
    sched_yield();
  else
    df_pause();
}

static void fill(uint64_t *words, uint64_t number) {
  for (uint32_t i = 0; i < WORDS; i++) {
    uint32_t at = (uint32_t)(number % 2 ? i : WORDS - 1 - i);
    df_store_relaxed_u64(&words[at], number * 1000 + at);
  }
}

static void check(const uint64_t *words, uint64_t number) {
  for (uint32_t i = 0; i < WORDS; i++) {
    uint32_t at = (uint32_t)(number % 3 ? i : WORDS - 1 - i);
    if (df_load_relaxed_u64(&words[at]) != number * 1000 + at) {
      torn++;
      return;
    }
  }
}

/* The writer sometimes decides that this is the last one, and stores the decision before it
 * publishes.
 */
static int is_last(uint64_t number) {
  if (number % 256 != 0 || df_clock_ns() < until_ns) return 0;
  df_store_relaxed_u64(&last, number);
  return 1;
}

/* ---- link ---- */

static df_link sender, receiver;

static void link_make(void) {
  memset(ring, 0, sizeof ring);
  sender = (df_link){.slots = ring,
                     .credit = (uint64_t *)(ring + SLOTS * STRIDE),
                     .stride = STRIDE,
                     .slot_mask = SLOTS - 1,
                     .payload_offset = DF_LINK_FLAGGED_OFFSET};
  receiver = sender;
}

static void link_write(void) {
  for (uint64_t s = 1;; s++) {
    for (uint32_t polls = 1; !df_link_may_send(&sender, s); polls++) wait_a_little(polls);
    fill((uint64_t *)(df_link_slot(&sender, s) + sender.payload_offset), s);
    int ends = is_last(s);
    df_link_publish(&sender, s, 0);
    if (ends) return;
  }
}

static uint64_t link_read(void) {
  int direct;
  for (uint64_t s = 1;; s++) {
    for (uint32_t p = 1; !df_link_has_message(&receiver, s, &direct); p++) wait_a_little(p);
    check((const uint64_t *)(df_link_slot(&receiver, s) + receiver.payload_offset), s);
    if (df_load_relaxed_u64(&last) == s) return s;
    df_link_release(&receiver, s);
  }
}

/* ---- SQ ---- */

static df_sq sq;
static df_sq_slot sq_slots[SLOTS];

static void sq_make(void) {
  memset(sq_slots, 0, sizeof sq_slots);
  df_sq_init(&sq, sq_slots, SLOTS, 1);
}

/* The run's arguments are free again when its slot is, as they are when a CQE has come. */
static void sq_write(void) {
  for (uint64_t n = 1;; n++) {
    for (uint32_t p = 1; df_observe_u32(&sq_slots[(n - 1) % SLOTS].readers_left) != 0; p++)
      wait_a_little(p);
    fill(payloads[(n - 1) % SLOTS], n);
    int ends = is_last(n);
    if (!df_sq_push_spmc(&sq, (df_sqe){.collective = (uint32_t)(n % 1000), .blocks = 1})) torn++;
    if (ends) return;
  }
}

static uint64_t sq_read(void) {
  uint64_t index = 0;
  for (uint64_t n = 1;; n++) {
    df_sqe sqe;
    for (uint32_t p = 1; !df_sq_has_entry(&sq, index); p++) wait_a_little(p);
    check(payloads[(n - 1) % SLOTS], n);
    int ends = df_load_relaxed_u64(&last) == n;
    if (!df_sq_fetch_spmc(&sq, &index, &sqe) || sqe.collective != n % 1000) torn++;
    if (ends) return n;
  }
}

/* ---- CQ ---- */

static df_cq cq;
static df_cq_ring cq_ring;
static uint64_t cq_words[SLOTS], cq_taken;

static void cq_make(df_cq_variant variant) {
  memset(cq_words, 0, sizeof cq_words);
  memset(&cq_ring, 0, sizeof cq_ring);
  cq_ring.words = cq_words;
  cq = (df_cq){.variant = variant, .n_rings = 1, .mask = SLOTS - 1, .rings = &cq_ring};
  cq_taken = 0;
}
static void cq_make_ring(void) { cq_make(DF_CQ_RING); }
static void cq_make_packed(void) { cq_make(DF_CQ_PACKED); }
static void cq_make_slots(void) { cq_make(DF_CQ_SLOTS_CAS); }

static void cq_write(void) {
  for (uint64_t n = 1;; n++) {
    /* Admitted only when the host has taken a CQE. */
    for (uint32_t p = 1; n - df_observe_u64(&cq_taken) > SLOTS; p++) wait_a_little(p);
    fill(payloads[n % SLOTS], n);
    int ends = is_last(n);
    df_cq_push_mpsc(&cq, 0, (df_cqe){.collective = (uint32_t)(n % 1000)});
    if (ends) return;
  }
}

static uint64_t cq_read(void) {
  for (uint64_t n = 1;; n++) {
    df_cqe cqe;
    for (uint32_t p = 1; !df_cq_pop_mpsc(&cq, &cqe); p++) wait_a_little(p);
    check(payloads[n % SLOTS], n);
    if (cqe.collective != n % 1000) torn++;
    if (df_load_relaxed_u64(&last) == n) return n;
    df_publish_u64(&cq_taken, n);
  }
}

/* ---- */

static const struct {
  const char *name;
  void (*make)(void);
  void (*write)(void);
  uint64_t (*read)(void);
} kinds[] = {{"link", link_make, link_write, link_read},
             {"SQ", sq_make, sq_write, sq_read},
             {"CQ ring", cq_make_ring, cq_write, cq_read},
             {"CQ packed", cq_make_packed, cq_write, cq_read},
             {"CQ slots", cq_make_slots, cq_write, cq_read}};

static void *write_all(void *argument) {
  kinds[*(const size_t *)argument].write();
  return NULL;
}

static double seconds_of(int argc, char **argv) {
  if (argc == 1) return 2;
  if (argc == 3 && strcmp(argv[1], "--seconds") == 0 && atof(argv[2]) > 0) return atof(argv[2]);
  const int is_question = argc == 2 && strcmp(argv[1], "--help") == 0;
  fprintf(is_question ? stdout : stderr, "usage: %s [--seconds S]\n", argv[0]);
  exit(is_question ? 0 : 2);
}

int main(int argc, char **argv) {
  double seconds = seconds_of(argc, argv);
  uint64_t all_torn = 0;
  for (size_t k = 0; k < DF_COUNT_OF(kinds); k++) {
    pthread_t thread;
    torn = last = 0;
    until_ns = df_clock_ns() + (uint64_t)(seconds * 1e9 / DF_COUNT_OF(kinds));
    kinds[k].make();
    if (pthread_create(&thread, NULL, write_all, &k) != 0) return 1;
    uint64_t messages = kinds[k].read();
    pthread_join(thread, NULL);
    printf("%s: %llu of %llu messages were seen before what they publish\n", kinds[k].name,
           (unsigned long long)torn, (unsigned long long)messages);
    all_torn += torn;
  }
  return all_torn != 0;
}
