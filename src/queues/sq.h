/* Submission queue: host -> daemon. One producer at a time; every block reads each entry; the last
 * frees it. An entry is one commit word, whose sequence tells its lap. The run's arguments precede
 * it. */
#ifndef DF_QUEUES_SQ_H
#define DF_QUEUES_SQ_H

#include "base/assert.h"
#include "base/atomic.h"
#include "base/limits.h"

enum { DF_SQE_BLOCKS_SHIFT = 20, DF_SQE_PASSES_SHIFT = 26 };
DF_STATIC_ASSERT(DF_MAX_COLLECTIVES <= 1 << DF_SQE_BLOCKS_SHIFT,
                 "a collective's index fits its SQE");
DF_STATIC_ASSERT(DF_MAX_BLOCKS < 1 << (DF_SQE_PASSES_SHIFT - DF_SQE_BLOCKS_SHIFT) &&
                     DF_MAX_BLOCKS < 1 << (32 - DF_SQE_PASSES_SHIFT),
                 "numbers of blocks fit their SQE");

/* The first `blocks` blocks execute the run. A late reader must not ask the collective: it may be
 * deregistered. */
typedef struct df_sqe {
  uint32_t collective, blocks;
} df_sqe;

typedef struct df_sq_slot {
  /* (uint32_t)(ticket + 1) << 32 | passes_to << 26 | blocks << 20 | collective */
  uint64_t commit;
  uint32_t readers_left; /* 0: free */
  uint32_t reserved;
} df_sq_slot;

typedef struct df_sq {
  df_sq_slot *slots;
  uint32_t mask;
  uint32_t n_readers;
  uint32_t passes_to; /* Relay: blocks that the next queue's copy is for. */
  uint32_t is_near;   /* CUDA: in device memory */
  uint64_t ticket;    /* entries pushed */
} df_sq;

DF_STATIC_ASSERT(sizeof(df_sq_slot) == 16, "an SQ slot is 16 bytes on both sides of the bus");

static inline void df_sq_init(df_sq *sq, df_sq_slot *slots, uint32_t depth, uint32_t n_readers) {
  sq->slots = slots;
  sq->mask = depth - 1;
  sq->n_readers = n_readers;
  sq->passes_to = 0;
  sq->is_near = 0;
  sq->ticket = 0;
}

/* Returns 0 when full. */
static inline int df_sq_push_spmc(df_sq *sq, df_sqe sqe) {
  DF_ASSERT(sqe.collective < DF_MAX_COLLECTIVES);
  df_sq_slot *slot = &sq->slots[sq->ticket & sq->mask];
  /* Observes the last reader's release: its read precedes our overwrite. A read-modify-write says
   * "full", in one order with the readers': the last one sees who waits for room. A relay frees by
   * a store; its host looks again. */
  if (df_observe_u32(&slot->readers_left) != 0 &&
      (sq->passes_to != 0 || df_system_sub_u32(&slot->readers_left, 0) != 0))
    return 0;
  df_store_relaxed_u32(&slot->readers_left, sq->n_readers);
  df_bus_release();
  /* Publishes the run's arguments, callback record and readers_left. */
  df_publish_u64(&slot->commit, (uint64_t)(uint32_t)(sq->ticket + 1) << 32 |
                                    sq->passes_to << DF_SQE_PASSES_SHIFT |
                                    sqe.blocks << DF_SQE_BLOCKS_SHIFT | sqe.collective);
  sq->ticket++;
  return 1;
}

DF_CORE int df_sq_has_entry(const df_sq *sq, uint64_t read_index) {
  uint64_t commit = df_observe_u64(&sq->slots[read_index & sq->mask].commit);
  return (uint32_t)(commit >> 32) == (uint32_t)(read_index + 1);
}

/* Relay: alone reads `from` and fills `to`. Entries keep their numbers, hence the word. 0: no
 * entry, or no room. */
DF_CORE int df_sq_pass_spsc(const df_sq *from, df_sq *to) {
  df_sq_slot *source = &from->slots[to->ticket & from->mask];
  df_sq_slot *target = &to->slots[to->ticket & to->mask];
  if (df_observe_u32(&target->readers_left) != 0) return 0;
  uint64_t commit = df_observe_u64(&source->commit);
  if ((uint32_t)(commit >> 32) != (uint32_t)(to->ticket + 1)) return 0;
  df_store_relaxed_u32(&target->readers_left, (uint32_t)commit >> DF_SQE_PASSES_SHIFT);
  df_publish_u32(&source->readers_left, 0); /* frees the slot */
  /* Publishes what the producer published. */
  df_publish_u64(&target->commit, commit);
  to->ticket++;
  return 1;
}

DF_CORE int df_sq_fetch_spmc(const df_sq *sq, uint64_t *read_index, df_sqe *sqe) {
  df_sq_slot *slot = &sq->slots[*read_index & sq->mask];
  uint64_t commit = df_observe_u64(&slot->commit);
  if ((uint32_t)(commit >> 32) != (uint32_t)(*read_index + 1)) return 0;
  sqe->collective = (uint32_t)commit & ((1u << DF_SQE_BLOCKS_SHIFT) - 1);
  sqe->blocks = (uint32_t)commit >> DF_SQE_BLOCKS_SHIFT &
                ((1u << (DF_SQE_PASSES_SHIFT - DF_SQE_BLOCKS_SHIFT)) - 1);
  DF_ASSERT(sqe->collective < DF_MAX_COLLECTIVES);
  *read_index += 1;
#if defined(__CUDACC__)
  if (sq->is_near) { /* frees the slot for block 0, of this GPU */
    df_device_sub_u32(&slot->readers_left, 1);
    return 1;
  }
#endif
  uint32_t before = df_system_sub_u32(&slot->readers_left, 1); /* frees the slot */
  DF_ASSERT(before >= 1);
  (void)before;
  return 1;
}

#endif
