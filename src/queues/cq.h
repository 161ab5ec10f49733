/*
 * Completion queue, from the daemon to the host. Any block writes; one consumer at a time reads.
 * The queue is never full.
 *
 * The variants differ in the number of accesses to host memory that the producer needs for an
 * entry:
 *   ring    one ring per block: 5 accesses
 *   packed  one ring per block, with the lap in each word: 3 accesses and no fence
 *   slots   one array for all blocks: 1 access, a compare-and-swap; the sequence is in device
 *           memory
 */
#ifndef DF_QUEUES_CQ_H
#define DF_QUEUES_CQ_H

#include "base/assert.h"
#include "base/atomic.h"
#include "base/limits.h"

typedef enum { DF_CQ_RING = 0, DF_CQ_PACKED = 1, DF_CQ_SLOTS_CAS = 2 } df_cq_variant;

typedef struct df_cqe {
  uint32_t collective;
  uint32_t status; /* dfcclResult_t */
  uint32_t run;    /* number of the run, modulo DF_RUNS_AHEAD */
} df_cqe;

typedef struct df_cq_ring {
  DF_ALIGNED(64) uint64_t head; /* number of entries consumed */
  DF_ALIGNED(64) uint64_t tail; /* number of entries written */
  DF_ALIGNED(64) uint64_t *words;
  uint64_t consumer_index; /* the consumer's copy of head */
} df_cq_ring;

typedef struct df_cq {
  df_cq_variant variant;
  uint32_t n_rings; /* 1 for the variant slots */
  uint64_t mask;
  df_cq_ring *rings;
  uint64_t *sequence; /* slots: the next entry's number, in device memory; NULL: the ring's tail is
                         used */
  uint32_t next_ring;
} df_cq;

enum { DF_CQE_STATUS_SHIFT = 20, DF_CQE_RUN_SHIFT = 26, DF_CQE_LAP_SHIFT = 28 };
#define DF_CQE_LAP_MASK ((1ull << 36) - 1)
DF_STATIC_ASSERT(DF_MAX_COLLECTIVES <= 1 << DF_CQE_STATUS_SHIFT,
                 "a collective's index fits its CQE");
DF_STATIC_ASSERT(DF_RUNS_AHEAD <= 1 << (DF_CQE_LAP_SHIFT - DF_CQE_RUN_SHIFT),
                 "which of its collective's runs it is fits a CQE");
DF_STATIC_ASSERT(DF_CQ_SLOTS >= DF_MAX_COLLECTIVES + DF_RUNS_AHEAD_POOL, "a CQ cannot be full");

/* Layout of a word: lap (36 bits, never 0 in a written word) | run (2) | status (6) | collective
 * (20). */
DF_CORE uint64_t df_cqe_encode(df_cqe cqe, uint64_t lap) {
  DF_ASSERT(cqe.collective < DF_MAX_COLLECTIVES);
  DF_ASSERT(cqe.status < 1u << (DF_CQE_RUN_SHIFT - DF_CQE_STATUS_SHIFT));
  DF_ASSERT(cqe.run < DF_RUNS_AHEAD);
  return lap << DF_CQE_LAP_SHIFT | (uint64_t)cqe.run << DF_CQE_RUN_SHIFT |
         (uint64_t)cqe.status << DF_CQE_STATUS_SHIFT | cqe.collective;
}

DF_CORE df_cqe df_cqe_decode(uint64_t word) {
  df_cqe cqe;
  cqe.collective = (uint32_t)(word & ((1u << DF_CQE_STATUS_SHIFT) - 1));
  cqe.status = (uint32_t)(word >> DF_CQE_STATUS_SHIFT) &
               ((1u << (DF_CQE_RUN_SHIFT - DF_CQE_STATUS_SHIFT)) - 1);
  cqe.run =
      (uint32_t)(word >> DF_CQE_RUN_SHIFT) & ((1u << (DF_CQE_LAP_SHIFT - DF_CQE_RUN_SHIFT)) - 1);
  return cqe;
}

DF_CORE void df_cq_push_ring(df_cq_ring *ring, uint64_t mask, df_cqe cqe) {
  uint64_t head = df_observe_u64(&ring->head);
  uint64_t tail = df_load_relaxed_u64(&ring->tail);
  DF_ASSERT(tail - head <= mask);
  df_store_relaxed_u64(&ring->words[tail & mask], df_cqe_encode(cqe, 1));
  df_wake_fence(); /* only this variant needs a fence */
  df_publish_u64(&ring->tail, tail + 1);
}

DF_CORE void df_cq_push_packed(df_cq_ring *ring, uint64_t mask, df_cqe cqe) {
  uint64_t head = df_observe_u64(&ring->head);
  uint64_t tail = df_load_relaxed_u64(&ring->tail);
  DF_ASSERT(tail - head <= mask);
  df_store_relaxed_u64(&ring->tail, tail + 1); /* only this block reads it */
  /* The release publishes the collective's results. */
  df_publish_u64(&ring->words[tail & mask], df_cqe_encode(cqe, (tail + 1) & DF_CQE_LAP_MASK));
}

DF_CORE void df_cq_push_slots(uint64_t *words, uint64_t *next, uint64_t mask, df_cqe cqe) {
  uint64_t sequence = df_device_add_u64(next, 1);
  int claimed = df_system_claim_u64(&words[sequence & mask], 0, df_cqe_encode(cqe, 1));
  DF_ASSERT(claimed); /* a failed claim would mean that the CQ is full */
  (void)claimed;
}

/* CUDA: a block's copy of its ring's state. The block reads nothing across the bus, except the head
 * when its copy of the head is a lap old. */
typedef struct df_cq_end {
  uint64_t *words;
  uint64_t head, tail;
} df_cq_end;

DF_CORE void df_cq_open_end(const df_cq *cq, uint32_t block, df_cq_end *end) {
  const df_cq_ring *ring = &cq->rings[cq->variant == DF_CQ_SLOTS_CAS ? 0 : block];
  uint64_t *words = ring->words;
  const uint64_t head = df_load_relaxed_u64(&ring->head), tail = df_load_relaxed_u64(&ring->tail);
  end->words = words;
  end->head = head;
  end->tail = tail;
}

/* As df_cq_push_mpsc, with the state in *end. */
DF_CORE void df_cq_push_kept(df_cq *cq, uint32_t block, df_cq_end *end, df_cqe cqe) {
  if (cq->variant == DF_CQ_SLOTS_CAS) {
    df_cq_push_slots(end->words, cq->sequence ? cq->sequence : &cq->rings[0].tail, cq->mask, cqe);
    return;
  }
  df_cq_ring *ring = &cq->rings[block];
  const uint64_t tail = end->tail++;
  if (DF_UNLIKELY(tail - end->head > cq->mask)) end->head = df_observe_u64(&ring->head);
  DF_ASSERT(tail - end->head <= cq->mask);
  uint64_t *word = &end->words[tail & cq->mask];
  if (cq->variant == DF_CQ_RING) {
    df_store_relaxed_u64(word, df_cqe_encode(cqe, 1));
    df_wake_fence();
    df_publish_u64(&ring->tail, tail + 1);
  } else {
    df_store_relaxed_u64(&ring->tail, tail + 1); /* the next launch reads it */
    df_publish_u64(word, df_cqe_encode(cqe, (tail + 1) & DF_CQE_LAP_MASK));
  }
}

/* The push publishes the block's work and, through the completion counter, that of the other
 * blocks. */
DF_CORE void df_cq_push_mpsc(df_cq *cq, uint32_t block, df_cqe cqe) {
  switch (cq->variant) {
  case DF_CQ_RING:
    df_cq_push_ring(&cq->rings[block], cq->mask, cqe);
    break;
  case DF_CQ_PACKED:
    df_cq_push_packed(&cq->rings[block], cq->mask, cqe);
    break;
  case DF_CQ_SLOTS_CAS:
    df_cq_push_slots(cq->rings[0].words, cq->sequence ? cq->sequence : &cq->rings[0].tail, cq->mask,
                     cqe);
    break;
  }
}

static inline int df_cq_ring_peek(const df_cq *cq, const df_cq_ring *ring, uint64_t *word) {
  uint64_t index = df_load_relaxed_u64(&ring->consumer_index);
  if (cq->variant == DF_CQ_RING && df_observe_u64(&ring->tail) == index) return 0;
  *word = df_observe_u64(&ring->words[index & cq->mask]);
  if (cq->variant == DF_CQ_PACKED)
    return *word >> DF_CQE_LAP_SHIFT == ((index + 1) & DF_CQE_LAP_MASK);
  return *word != 0;
}

/* The consumer serves the rings in turn, so that a ring that callbacks keep filling does not hold
 * up the others. */
static inline int df_cq_pop_mpsc(df_cq *cq, df_cqe *cqe) {
  uint32_t which = cq->next_ring;
  for (uint32_t r = 0; r < cq->n_rings; r++) {
    df_cq_ring *ring = &cq->rings[which];
    which = which + 1 < cq->n_rings ? which + 1 : 0;
    uint64_t word;
    if (!df_cq_ring_peek(cq, ring, &word)) continue;
    if (cq->variant == DF_CQ_SLOTS_CAS)
      df_publish_u64(&ring->words[ring->consumer_index & cq->mask], 0); /* frees the slot */
    uint64_t consumed = ring->consumer_index + 1;
    df_store_relaxed_u64(&ring->consumer_index, consumed);
    df_publish_u64(&ring->head, consumed);
    cq->next_ring = which;
    df_bus_acquire(); /* orders the reads of results that a device wrote earlier */
    *cqe = df_cqe_decode(word);
    return 1;
  }
  return 0;
}

/* Returns a hint whether there is an entry. It is never 0 for a thread whose own CQE has not been
 * taken. An outdated index may refer to a freed slot, so with a sequence in host memory the
 * counters are compared instead. */
static inline int df_cq_has_entry(const df_cq *cq) {
  uint64_t word;
  if (cq->variant == DF_CQ_SLOTS_CAS && cq->sequence == NULL)
    return df_load_relaxed_u64(&cq->rings[0].tail) !=
           df_load_relaxed_u64(&cq->rings[0].consumer_index);
  for (uint32_t r = 0; r < cq->n_rings; r++)
    if (df_cq_ring_peek(cq, &cq->rings[r], &word)) return 1;
  return 0;
}

#endif
