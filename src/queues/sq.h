/* Submission queue, from the host to the daemon. One producer at a time writes; every block reads
 * each entry, and the last reader frees it. An entry is one commit word, whose sequence number
 * shows the lap. The run's arguments are written before it. A relay reads records instead and
 * passes the entries on to a queue near the blocks. */
#ifndef DF_QUEUES_SQ_H
#define DF_QUEUES_SQ_H

#include "base/assert.h"
#include "base/atomic.h"
#include "base/limits.h"
#include "queues/record.h"

enum { DF_SQE_BLOCKS_SHIFT = 20, DF_SQE_PASSES_SHIFT = 26 };
DF_STATIC_ASSERT(DF_MAX_COLLECTIVES <= 1 << DF_SQE_BLOCKS_SHIFT,
                 "a collective's index fits its SQE");
DF_STATIC_ASSERT(DF_MAX_BLOCKS < 1 << (DF_SQE_PASSES_SHIFT - DF_SQE_BLOCKS_SHIFT) &&
                     DF_MAX_BLOCKS < 1 << (32 - DF_SQE_PASSES_SHIFT),
                 "numbers of blocks fit their SQE");

/* The first `blocks` blocks execute the run. The number is part of the entry, because a late reader
 * must not look it up: the collective may have been deregistered. */
typedef struct df_sqe {
  uint32_t collective, blocks;
} df_sqe;

typedef struct df_sq_slot {
  /* (uint32_t)(sequence + 1) << 32 | passes_to << 26 | blocks << 20 | collective */
  uint64_t commit;
  uint32_t readers_left; /* blocks that have not read the entry; 0: the slot is free */
  uint32_t reserved;
} df_sq_slot;

typedef struct df_sq {
  df_sq_slot *slots;
  uint32_t mask;
  uint32_t n_readers;
  uint32_t passes_to;    /* relay: number of blocks that read the copy in the next queue */
  uint32_t is_near;      /* CUDA: 1: the queue is in device memory */
  uint64_t sequence;     /* number of entries pushed */
  df_sq_record *records; /* a relay reads these in place of the slots' commit words; NULL: there is
                            no relay */
  uint32_t lap_shift;    /* log2 of the queue's depth */
} df_sq;

DF_STATIC_ASSERT(sizeof(df_sq_slot) == 16, "an SQ slot is 16 bytes on both sides of the bus");

static inline void df_sq_init(df_sq *sq, df_sq_slot *slots, uint32_t depth, uint32_t n_readers) {
  sq->slots = slots;
  sq->mask = depth - 1;
  sq->n_readers = n_readers;
  sq->passes_to = 0;
  sq->is_near = 0;
  sq->sequence = 0;
  sq->records = NULL;
  sq->lap_shift = (uint32_t)__builtin_ctz(depth);
}

DF_CORE uint64_t df_sq_commit(uint64_t sequence, uint32_t passes_to, df_sqe sqe) {
  return (uint64_t)(uint32_t)(sequence + 1) << 32 | passes_to << DF_SQE_PASSES_SHIFT |
         sqe.blocks << DF_SQE_BLOCKS_SHIFT | sqe.collective;
}

/* The tag of a record's words. Zeroed memory has no valid tag. */
DF_CORE uint64_t df_sq_tag(const df_sq *sq, uint64_t sequence) {
  return ((sequence >> sq->lap_shift) + 1) & ((1u << DF_RECORD_TAG_BITS) - 1);
}

/* Returns 0 if the queue is full. */
static inline int df_sq_push_spmc(df_sq *sq, df_sqe sqe) {
  DF_ASSERT(sqe.collective < DF_MAX_COLLECTIVES);
  df_sq_slot *slot = &sq->slots[sq->sequence & sq->mask];
  /* The acquire observes the last reader's release, so its read precedes the overwrite here. The
   * answer "full" needs a read-modify-write, which is in one order with those of the readers: the
   * last reader then sees that the producer waits for room. */
  if (df_observe_u32(&slot->readers_left) != 0 && df_system_sub_u32(&slot->readers_left, 0) != 0)
    return 0;
  df_store_relaxed_u32(&slot->readers_left, sq->n_readers);
  df_bus_release();
  /* The release publishes the run's arguments, the callback record and readers_left. */
  df_publish_u64(&slot->commit, df_sq_commit(sq->sequence, 0, sqe));
  sq->sequence++;
  return 1;
}

/* For a relay, which frees a slot by a store: the relay's host checks again. */
static inline int df_sq_push_spsc(df_sq *sq, df_sqe sqe, const df_sq_carried *carried) {
  DF_ASSERT(sqe.collective < DF_MAX_COLLECTIVES);
  df_sq_slot *slot = &sq->slots[sq->sequence & sq->mask];
  df_sq_record *record = &sq->records[sq->sequence & sq->mask];
  uint64_t words[3];
  /* The relay's reads precede these writes. */
  if (df_observe_u32(&slot->readers_left) != 0) return 0;
  df_store_relaxed_u32(&slot->readers_left, 1);
  df_record_encode(carried, df_sq_tag(sq, sq->sequence), words);
  for (int i = 0; i < 3; i++) df_store_relaxed_u64(&record->words[i], words[i]);
  df_bus_release();
  df_publish_u64(&record->commit, df_sq_commit(sq->sequence, sq->passes_to, sqe));
  sq->sequence++;
  return 1;
}

DF_CORE df_sqe df_sqe_of(uint64_t commit) {
  df_sqe sqe;
  sqe.collective = (uint32_t)commit & ((1u << DF_SQE_BLOCKS_SHIFT) - 1);
  sqe.blocks = (uint32_t)commit >> DF_SQE_BLOCKS_SHIFT &
               ((1u << (DF_SQE_PASSES_SHIFT - DF_SQE_BLOCKS_SHIFT)) - 1);
  return sqe;
}

DF_CORE int df_sq_has_entry(const df_sq *sq, uint64_t read_index) {
  uint64_t commit = df_observe_u64(&sq->slots[read_index & sq->mask].commit);
  return (uint32_t)(commit >> 32) == (uint32_t)(read_index + 1);
}

#if defined(__CUDACC__)
/* Both pairs are loaded at the same time. The second load observes what the producer published. */
DF_CORE void df_sq_load_record(const df_sq_record *record, uint64_t words[4]) {
  const df_word_pair *pairs = (const df_word_pair *)(const void *)record;
  const df_word_pair first = df_load_relaxed_pair(&pairs[0]), second = df_observe_pair(&pairs[1]);
  words[0] = first.first;
  words[1] = first.second;
  words[2] = second.first;
  words[3] = second.second;
}
#else /* the blocks of a test */
DF_CORE void df_sq_load_record(const df_sq_record *record, uint64_t words[4]) {
  words[3] = df_observe_u64(&record->commit);
  for (int i = 0; i < 3; i++) words[i] = df_load_relaxed_u64(&record->words[i]);
}
#endif

/* The part of the host's queue that a relay has read in one crossing of the bus: the next record,
 * and the commit word of the record after it, which shows whether another look is worthwhile. */
typedef struct df_sq_seen {
  uint64_t words[4], following;
} df_sq_seen;

DF_CORE df_sq_seen df_sq_look_spsc(const df_sq *from, uint64_t sequence) {
  df_sq_seen seen;
  seen.following = df_load_relaxed_u64(&from->records[(sequence + 1) & from->mask].commit);
  df_sq_load_record(&from->records[sequence & from->mask], seen.words);
  return seen;
}
DF_CORE int df_sq_another_follows(const df_sq_seen *seen, uint64_t sequence) {
  return (uint32_t)(seen->following >> 32) == (uint32_t)(sequence + 2);
}

/* For the relay, which is the only reader of `from` and the only writer of `to`. Entries have the
 * same numbers in both queues. Returns 0 if there is no entry or no room. The commit word,
 * seen->words[3], is to be given to df_sq_pass_spsc. */
DF_CORE int df_sq_has_seen_spsc(const df_sq *from, const df_sq *to, const df_sq_seen *seen,
                                df_sqe *sqe, df_sq_carried *carried) {
  const uint64_t sequence = to->sequence, commit = seen->words[3];
  if ((uint32_t)(commit >> 32) != (uint32_t)(sequence + 1) ||
      !df_record_decode(seen->words, df_sq_tag(from, sequence), carried) ||
      df_observe_u32(&to->slots[sequence & to->mask].readers_left) != 0)
    return 0;
  *sqe = df_sqe_of(commit);
  return 1;
}
/* The release publishes what the producer published and what the relay has written since its look.
 * */
DF_CORE void df_sq_pass_spsc(df_sq *to, uint64_t commit) {
  df_sq_slot *target = &to->slots[to->sequence & to->mask];
  df_store_relaxed_u32(&target->readers_left, (uint32_t)commit >> DF_SQE_PASSES_SHIFT);
  df_device_release_fence(); /* a fence of device scope suffices: all readers are on this GPU */
  df_publish_fenced_u64(&target->commit, commit);
  to->sequence++;
}
/* Frees the slots of entries that have been passed on. The stores cross the bus and are slow, so a
 * relay calls this when it has nothing to pass on. */
DF_CORE void df_sq_free_spsc(const df_sq *from, uint64_t first, uint64_t end) {
  if (first == end) return;
  df_release_fence(); /* the relay's reads precede the producer's writes */
  for (uint64_t sequence = first; sequence != end; sequence++)
    df_publish_fenced_u32(&from->slots[sequence & from->mask].readers_left, 0);
}

DF_CORE int df_sq_fetch_spmc(const df_sq *sq, uint64_t *read_index, df_sqe *sqe) {
  df_sq_slot *slot = &sq->slots[*read_index & sq->mask];
  uint64_t commit = df_observe_u64(&slot->commit);
  if ((uint32_t)(commit >> 32) != (uint32_t)(*read_index + 1)) return 0;
  *sqe = df_sqe_of(commit);
  DF_ASSERT(sqe->collective < DF_MAX_COLLECTIVES);
  *read_index += 1;
#if defined(__CUDACC__)
  if (sq->is_near) { /* frees the slot for block 0, which is on this GPU */
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
