/*
 * The shared memory of a CUDA block, and its leader's watch over the clock, the host's words and
 * the other blocks' words.
 */
#ifndef DF_DAEMON_KERNEL_SHARED_CUDA_H
#define DF_DAEMON_KERNEL_SHARED_CUDA_H

#include "daemon_kernel/launch_cuda.h"
#include "primitives/lanes.h"

/* A look at the host's words crosses the bus. At least this number of turns or steps, or this
 * number of nanoseconds of polling, lies between two looks. */
enum { DF_CUDA_LOOK_TURNS = 16, DF_CUDA_LOOK_STEPS = 64, DF_CUDA_LOOK_NS = 20000 };
enum { DF_CUDA_BEAT_NS = 5000000 };

typedef struct df_cuda_watch {
  uint64_t now;     /* latest reading of the clock */
  uint64_t ends_at; /* time at which the launch must end */
  uint64_t look_at;
  uint64_t beat_at, shown; /* pulse: time of the next beat, and the latest df_cuda_pulse.seen */
  uint32_t errands;        /* number of the latest completed df_cuda_errand */
  uint32_t steps;          /* number of steps since the latest look */
  uint32_t fresh;          /* 1: the time counts from the next reading on */
  uint32_t vain;           /* number of turns in a row that found nothing but missing input */
  uint32_t ending;         /* 1: the launch has ended for this block */
  uint32_t errand_due;     /* 1: the host has requested a transfer, so the turn ends */
} df_cuda_watch;

typedef struct df_cuda_shared {
  df_context_slot slots[DF_MAX_CONTEXT_SLOTS];
  df_device device;
  df_block block;
  df_move move;
  df_sq host_queue; /* with a relay: the host's SQ */
  df_sq_seen seen;  /* with a relay: the part of the host's SQ that the latest look has read */
  uint64_t freed;   /* with a relay: number of entries whose slots were returned to the host */
  df_cuda_daemon daemon;
  df_cuda_watch watch;
  df_cuda_transfer transfer; /* valid if the watch's errand is due */
  uint32_t works;
  uint32_t transfers; /* 1: all lanes execute the transfer before the next turn */
  uint32_t stays;
  uint32_t saved; /* 1: the image is up to date */
  uint32_t turns_to_look;
} df_cuda_shared;

/* The size does not depend on the number of collectives. */
DF_STATIC_ASSERT(sizeof(df_cuda_shared) <= 13 * 1024, "a block's shared memory");

DF_STATIC_ASSERT(offsetof(df_device, by_priority) % 16 == 0 &&
                     offsetof(df_device, exit) == offsetof(df_device, by_priority) + 4 &&
                     offsetof(df_device, failures) == offsetof(df_device, by_priority) + 8 &&
                     offsetof(df_device, recalled) == offsetof(df_device, by_priority) + 12,
                 "the host's words are df_host_words");

DF_CORE df_cuda_shared *df_cuda_shared_of(df_block *block) {
  return (df_cuda_shared *)(void *)((uint8_t *)block - offsetof(df_cuda_shared, block));
}

/* ---- Called by the leader only */

/* Returns the nanoseconds since the former reading. */
DF_CORE uint32_t df_cuda_read_clock(df_cuda_watch *watch) {
  const uint64_t before = watch->now, now = df_device_ns();
  watch->now = now;
  const uint64_t elapsed = watch->fresh || now < before ? 0 : now - before;
  watch->fresh = 0;
  return (uint32_t)DF_MIN(elapsed, (uint64_t)UINT32_MAX / 2);
}

#if defined(__CUDACC__)
DF_CORE df_host_words df_cuda_load_ll(const void *p) {
  const df_word_pair pair = df_load_relaxed_pair((const df_word_pair *)p);
  df_host_words words;
  words.priority_and_exit = pair.first;
  words.failures_and_recalled = pair.second;
  return words;
}
#else /* the blocks of a test */
DF_CORE df_host_words df_cuda_load_ll(const void *p) {
  const uint64_t *words = p;
  return (df_host_words){df_load_relaxed_u64(&words[0]), df_load_relaxed_u64(&words[1])};
}
#endif

typedef struct df_cuda_host_seen {
  df_host_words words;
  uint64_t stay_and_errands;
} df_cuda_host_seen;

/* The function only loads, so that further loads can start before the first has completed. Block 0
 * reads across the bus. The other blocks read on the GPU the words that block 0 has copied. They
 * read across the bus too until block 0 of their launch has begun, and at their first look. */
DF_CORE df_cuda_host_seen df_cuda_load_host_words(const df_cuda_shared *shared, int is_first) {
  const df_cuda_daemon *daemon = &shared->daemon;
  const df_cuda_gate *gate = daemon->gate;
  const int shows = shared->block.index == 0;
  const int is_shown = !shows && !is_first && df_observe_u32(&gate->shown) == daemon->launch;
  df_cuda_host_seen seen;
  seen.words =
      df_cuda_load_ll(is_shown ? (const void *)&gate->words : &daemon->device->by_priority);
  /* The other blocks do not need these words: block 0 stays and thereby keeps them. */
  seen.stay_and_errands =
      shows ? df_load_relaxed_u64((const uint64_t *)(const void *)&daemon->device->stay) : 0;
  return seen;
}

/* Block 0 also copies the words for the other blocks. */
DF_CORE void df_cuda_take_host_words(df_cuda_shared *shared, const df_cuda_host_seen *seen,
                                     int is_first) {
  df_device *copy = &shared->device;
  df_cuda_gate *gate = shared->daemon.gate;
  const df_host_words *words = &seen->words;
  if (shared->block.index == 0) {
    df_store_relaxed_u64(&gate->words.priority_and_exit, words->priority_and_exit);
    df_store_relaxed_u64(&gate->words.failures_and_recalled, words->failures_and_recalled);
    if (is_first) df_publish_u32(&gate->shown, shared->daemon.launch);
  }
  copy->by_priority = (uint32_t)words->priority_and_exit;
  copy->exit = (uint32_t)(words->priority_and_exit >> 32);
  copy->failures = (uint32_t)words->failures_and_recalled;
  copy->recalled = (uint32_t)(words->failures_and_recalled >> 32);
  copy->stay = (uint32_t)seen->stay_and_errands;
  copy->errands = (uint32_t)(seen->stay_and_errands >> 32);
  shared->move.attends = copy->failures;
  shared->turns_to_look = DF_CUDA_LOOK_TURNS;
}

DF_CORE uint32_t df_cuda_relays(const df_cuda_shared *shared) {
  return shared->daemon.relay != NULL && shared->block.index == 0;
}

/* Called by block 0 with a relay. Returns 1 if the latest look has read an entry; the entry has
 * then been passed on. */
DF_CORE_LEADER uint32_t df_cuda_pass_entry(df_cuda_shared *shared) {
  df_sqe sqe;
  df_sq_carried carried;
  if (!df_sq_has_seen_spsc(&shared->host_queue, &shared->device.sq, &shared->seen, &sqe, &carried))
    return 0;
  const df_descriptor *desc = shared->device.descriptors[sqe.collective];
  desc->near_runs[carried.run] = carried.near ? carried.arguments : desc->words->runs[carried.run];
  df_sq_pass_spsc(&shared->device.sq, shared->seen.words[3]);
  shared->daemon.relay->queue.sequence = shared->device.sq.sequence; /* the next launch reads it */
  return 1;
}

DF_CORE void df_cuda_free_entries(df_cuda_shared *shared) {
  df_sq_free_spsc(&shared->host_queue, shared->freed, shared->device.sq.sequence);
  shared->freed = shared->device.sq.sequence;
}

/* Called by block 0 with a relay, after a look at the host's queue. Slots are returned to the host
 * when there is nothing to pass on, or when more than half of the queue can be freed. */
DF_CORE void df_cuda_relay_entries(df_cuda_shared *shared, const df_lanes *lanes) {
  uint32_t passed = 0;
  while (df_cuda_pass_entry(shared)) {
    df_lanes_note_time(lanes, DF_TIMED_PASS, 1);
    df_lanes_start_timer(lanes);
    passed = 1;
    const uint64_t sequence = shared->device.sq.sequence;
    if (!df_sq_another_follows(&shared->seen, sequence - 1)) break;
    shared->seen = df_sq_look_spsc(&shared->host_queue, sequence);
  }
  const uint64_t to_free = shared->device.sq.sequence - shared->freed;
  if (!passed || to_free > shared->host_queue.mask / 2) df_cuda_free_entries(shared);
}

/* Called by block 0. The lanes execute the transfer after the turn, which ends early. */
DF_CORE void df_cuda_take_errand(df_cuda_shared *shared) {
  df_cuda_watch *watch = &shared->watch;
  const df_cuda_daemon *daemon = &shared->daemon;
  if (watch->errand_due || shared->device.errands == watch->errands) return;
  watch->errands = df_observe_u32(&daemon->device->errands);
  shared->transfer = daemon->errand->transfer;
  watch->errand_due = 1;
}

/* Returns 1 if the turn must end, although its collective could go on. */
DF_CORE uint32_t df_cuda_ends_turn(const df_cuda_watch *watch) {
  return watch->ending || watch->errand_due;
}

DF_CORE uint32_t df_cuda_stays(const df_cuda_shared *shared) {
  return shared->device.stay & 1 && !shared->device.exit;
}

/* Called between turns. A block that stays and can only wait for input, or for a run, pauses. The
 * pauses grow with the time that has passed without success, so they add little to it. */
DF_CORE void df_cuda_doze(df_cuda_shared *shared, int in_vain) {
  enum { DOZES = 64 };
  const df_block *block = &shared->block;
  df_cuda_watch *watch = &shared->watch;
  watch->vain = in_vain ? DF_MIN(watch->vain + 1, block->tasks.length + 1) : 0;
  if (watch->vain <= block->tasks.length) return; /* there is an entry that has not been tried */
  if (df_cuda_stays(shared))
    df_doze(DF_MAX(DF_MIN(block->quiet_polls / DOZES, shared->device.tunables.doze), 20u));
  else
    df_pause();
}

/* ---- Called by all lanes */

DF_CORE void df_cuda_zero_rings(const df_cuda_transfer *transfer, const df_lanes *lanes) {
  const uint32_t n_slots = transfer->n_slots, n_words = n_slots + DF_LINK_CREDIT_WORDS;
  uint8_t *ring = (uint8_t *)transfer->to;
  for (uint32_t r = 0; r < transfer->n_rings; r++) {
    for (uint32_t i = df_lanes_index(lanes); i < n_words; i += df_lanes_count(lanes)) {
      const uint32_t slots = DF_MIN(i, n_slots);
      uint64_t *word = (uint64_t *)(void *)(ring + (uint64_t)slots * transfer->stride);
      df_store_relaxed_u64(&word[i - slots], 0);
    }
    ring += df_link_ring_bytes(transfer->stride, n_slots);
  }
}

DF_CORE void df_cuda_run_errand(df_cuda_shared *shared, df_lanes *lanes) {
  const df_cuda_transfer *transfer = &shared->transfer;
  uint64_t *to = transfer->to;
  const uint64_t *from = transfer->from, words = transfer->words;
  for (uint64_t i = df_lanes_index(lanes); i < words; i += df_lanes_count(lanes))
    df_store_relaxed_u64(&to[i], from ? df_load_relaxed_u64(&from[i]) : 0);
  if (words == 0) df_cuda_zero_rings(transfer, lanes);
  df_lanes_sync(lanes);
  if (!df_lanes_leads(lanes)) return;
  shared->watch.errand_due = 0;
  /* The barrier orders the stores of all lanes before this one, and a release is cumulative. So a
   * rank that the host informs of `done` finds the words. */
  df_publish_u32(&shared->daemon.errand->done, shared->watch.errands);
}

/* ---- Called by the leader only */

/* Not called while the block is parked, since a parked block may leave. When `seen` has announced
 * that the block stays, no block leaves before the host's word changes: one active block keeps all
 * of them, and block 0 decides about the launch's life. */
DF_CORE void df_cuda_show_pulse(df_cuda_shared *shared, uint64_t now) {
  df_cuda_watch *watch = &shared->watch;
  const df_cuda_daemon *daemon = &shared->daemon;
  if (daemon->pulse == NULL || shared->block.index != 0 || !shared->block.running || watch->ending)
    return;
  const uint64_t seen = (uint64_t)daemon->launch << 32 | shared->device.stay;
  if (seen == watch->shown && now < watch->beat_at) return;
  watch->shown = seen;
  watch->beat_at = now + DF_CUDA_BEAT_NS;
  df_store_relaxed_u64(&daemon->pulse->beat, now);
  df_store_relaxed_u64(&daemon->pulse->seen, seen);
}

/* Reads all words outside of this block. */
DF_CORE void df_cuda_look(df_cuda_shared *shared, const df_lanes *lanes) {
  df_cuda_watch *watch = &shared->watch;
  const df_cuda_daemon *daemon = &shared->daemon;
  const uint32_t relays = df_cuda_relays(shared);
  df_lanes_start_timer(lanes);
  /* All loads across the bus are started together. */
  const df_cuda_host_seen seen = df_cuda_load_host_words(shared, 0);
  if (relays) shared->seen = df_sq_look_spsc(&shared->host_queue, shared->device.sq.sequence);
  df_cuda_take_host_words(shared, &seen, 0);
  if (relays) df_cuda_relay_entries(shared, lanes);
  if (shared->block.index == 0 && daemon->errand) df_cuda_take_errand(shared);
  const uint64_t now = df_device_ns();
  watch->steps = 0;
  watch->look_at = now + DF_CUDA_LOOK_NS;
  const uint32_t life = shared->device.tunables.life;
  if (df_cuda_stays(shared)) watch->ends_at = life ? now + life : UINT64_MAX;
  watch->ending = shared->device.recalled == daemon->launch ||
                  (shared->block.index == 0 && now >= watch->ends_at) ||
                  df_load_relaxed_u32(&daemon->gate->left) == daemon->launch;
  df_cuda_show_pulse(shared, now);
}

#endif
