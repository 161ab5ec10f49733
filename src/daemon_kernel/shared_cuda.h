/*
 * A CUDA block's shared memory, and its leader's watch: the clock, and the words of the host and of
 * the other blocks.
 */
#ifndef DF_DAEMON_KERNEL_SHARED_CUDA_H
#define DF_DAEMON_KERNEL_SHARED_CUDA_H

#include "daemon_kernel/launch_cuda.h"
#include "primitives/lanes.h"

/* Looks at the host's words cross the bus: at least so many turns or steps lie between them, or so
 * many ns of polling. */
enum { DF_CUDA_LOOK_TURNS = 16, DF_CUDA_LOOK_STEPS = 64, DF_CUDA_LOOK_NS = 20000 };
enum { DF_CUDA_BEAT_NS = 5000000 };

typedef struct df_cuda_watch {
  uint64_t now;     /* the latest reading */
  uint64_t ends_at; /* the launch's life */
  uint64_t look_at;
  uint64_t beat_at, shown; /* of the pulse: the next beat, the latest df_cuda_pulse.seen */
  uint32_t errands;        /* done */
  uint32_t steps;          /* since the latest look */
  uint32_t fresh;          /* time counts from the next reading on */
  uint32_t vain;           /* turns in a row that found nothing but missing input */
  uint32_t ending;         /* the launch is over for this block */
} df_cuda_watch;

typedef struct df_cuda_shared {
  df_context_slot slots[DF_MAX_CONTEXT_SLOTS];
  df_device device;
  df_block block;
  df_move move;
  df_sq host_queue; /* with a relay: the host's */
  df_sq_seen seen;  /* with a relay: of the host's queue, at the latest look */
  uint64_t freed;   /* with a relay: entries whose slots the host has back */
  df_cuda_daemon daemon;
  df_cuda_watch watch;
  uint32_t works;
  uint32_t stays;
  uint32_t saved; /* the image is up to date */
  uint32_t turns_to_look;
} df_cuda_shared;

/* Whatever the number of collectives. */
DF_STATIC_ASSERT(sizeof(df_cuda_shared) <= 13 * 1024, "a block's shared memory");

DF_STATIC_ASSERT(offsetof(df_device, by_priority) % 16 == 0 &&
                     offsetof(df_device, exit) == offsetof(df_device, by_priority) + 4 &&
                     offsetof(df_device, failures) == offsetof(df_device, by_priority) + 8 &&
                     offsetof(df_device, recalled) == offsetof(df_device, by_priority) + 12,
                 "the host's words are df_host_words");

DF_CORE df_cuda_shared *df_cuda_shared_of(df_block *block) {
  return (df_cuda_shared *)(void *)((uint8_t *)block - offsetof(df_cuda_shared, block));
}

/* ---- Leader only */

/* ns since the reading before. */
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
#else /* a test's blocks */
DF_CORE df_host_words df_cuda_load_ll(const void *p) {
  const uint64_t *words = p;
  return (df_host_words){df_load_relaxed_u64(&words[0]), df_load_relaxed_u64(&words[1])};
}
#endif

typedef struct df_cuda_host_seen {
  df_host_words words;
  uint64_t stay_and_errands;
} df_cuda_host_seen;

/* Only loads, so that more can follow before one has come. Block 0 looks across the bus. The others'
 * looks stay on the GPU, at what it shows them; until block 0 of their launch has begun they look
 * across the bus too, as they do at first. */
DF_CORE df_cuda_host_seen df_cuda_load_host_words(const df_cuda_shared *shared, int is_first) {
  const df_cuda_daemon *daemon = &shared->daemon;
  const df_cuda_gate *gate = daemon->gate;
  const int shows = shared->block.index == 0;
  const int is_shown = !shows && !is_first && df_observe_u32(&gate->shown) == daemon->launch;
  df_cuda_host_seen seen;
  seen.words =
      df_cuda_load_ll(is_shown ? (const void *)&gate->words : &daemon->device->by_priority);
  /* Others need not know: block 0, which stays, keeps them. */
  seen.stay_and_errands =
      shows ? df_load_relaxed_u64((const uint64_t *)(const void *)&daemon->device->stay) : 0;
  return seen;
}

/* Block 0 also shows the words to the others. */
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

/* Block 0 with a relay: 1 if what it has seen is an entry, which it has passed on. */
DF_CORE_LEADER uint32_t df_cuda_pass_entry(df_cuda_shared *shared) {
  df_sqe sqe;
  df_sq_carried carried;
  if (!df_sq_has_seen_spsc(&shared->host_queue, &shared->device.sq, &shared->seen, &sqe, &carried))
    return 0;
  const df_descriptor *desc = shared->device.descriptors[sqe.collective];
  desc->near_runs[carried.run] = carried.near ? carried.arguments : desc->words->runs[carried.run];
  df_sq_pass_spsc(&shared->device.sq, shared->seen.words[3]);
  shared->daemon.relay->queue.sequence = shared->device.sq.sequence; /* for the next launch */
  return 1;
}

DF_CORE void df_cuda_free_entries(df_cuda_shared *shared) {
  df_sq_free_spsc(&shared->host_queue, shared->freed, shared->device.sq.sequence);
  shared->freed = shared->device.sq.sequence;
}

/* Block 0 with a relay, after a look at the host's queue. The host has its slots back when there is
 * nothing to pass on, or when half of the queue is to be freed. */
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

/* Block 0. Alone it is slow, and busy meanwhile: link set-up has some KB, once. */
DF_CORE void df_cuda_run_errand(df_cuda_shared *shared) {
  df_cuda_errand *errand = shared->daemon.errand;
  const uint32_t number = df_observe_u32(&shared->daemon.device->errands);
  uint64_t *to = errand->to;
  const uint64_t *from = errand->from, words = errand->words;
  for (uint64_t i = 0; i < words; i++)
    df_store_relaxed_u64(&to[i], from ? df_load_relaxed_u64(&from[i]) : 0);
  shared->watch.errands = number;
  df_publish_u32(&errand->done, number); /* who then hears of it from the host finds the words */
}

DF_CORE uint32_t df_cuda_stays(const df_cuda_shared *shared) {
  return shared->device.stay & 1 && !shared->device.exit;
}

/* Between turns. A block that stays and can only wait for input, or for a run, does so in pauses:
 * they grow with the time that has passed in vain, and so add little to it. */
DF_CORE void df_cuda_doze(df_cuda_shared *shared, int in_vain) {
  enum { DOZES = 64 };
  const df_block *block = &shared->block;
  df_cuda_watch *watch = &shared->watch;
  watch->vain = in_vain ? DF_MIN(watch->vain + 1, block->tasks.length + 1) : 0;
  if (watch->vain <= block->tasks.length) return; /* an entry is left to try */
  if (df_cuda_stays(shared))
    df_doze(DF_MAX(DF_MIN(block->quiet_polls / DOZES, shared->device.tunables.doze), 20u));
  else
    df_pause();
}

/* Not while parked, since a block that parks may yet leave. Once `seen` says "it stays", no block
 * leaves before the host's word changes: one active block keeps all, and block 0 judges the life.
 */
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

/* Looks at everything outside of this block. */
DF_CORE void df_cuda_look(df_cuda_shared *shared, const df_lanes *lanes) {
  df_cuda_watch *watch = &shared->watch;
  const df_cuda_daemon *daemon = &shared->daemon;
  const uint32_t relays = df_cuda_relays(shared);
  df_lanes_start_timer(lanes);
  /* All loads across the bus are on their way together. */
  const df_cuda_host_seen seen = df_cuda_load_host_words(shared, 0);
  if (relays) shared->seen = df_sq_look_spsc(&shared->host_queue, shared->device.sq.sequence);
  df_cuda_take_host_words(shared, &seen, 0);
  if (relays) df_cuda_relay_entries(shared, lanes);
  if (shared->block.index == 0 && shared->device.errands != watch->errands && daemon->errand)
    df_cuda_run_errand(shared);
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
