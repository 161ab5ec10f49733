/*
 * A stream that waits for a run delays all work behind it in its hardware queue. A launch of the
 * daemon may be queued there, and the run needs that launch. So before a stream waits, a launch of
 * each rank of the process on that GPU is queued or on the device, and no launch leaves while runs
 * on streams are outstanding. Launches stay for cuda_keep_us more, because an application that
 * waits for each run would otherwise wait for a launch at each run.
 *
 * Nevertheless, a launch that begins late may be queued behind such a wait for ever. Its launcher
 * then ends the runs on streams of all ranks of the process, with a sentence.
 */
#include <sched.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "devices/cuda/state.h"

#define DF_CUDA_SCAN_NS ((uint64_t)1000 * 1000)
/* A caller polls for this time before it sleeps, because a sleep of the application's thread takes
 * 50 us longer than requested (the timer slack of threads that do not set it). */
#define DF_CUDA_SPIN_NS ((uint64_t)50 * 1000)

static df_mutex ranks_lock = DF_MUTEX_INITIALIZER; /* taken before the lock of a context */
static df_rank_device *
    ranks DF_GUARDED_BY(ranks_lock); /* ranks of the process, linked by state->next */

void df_cuda_enlist(df_rank_device *device) {
  df_lock(&ranks_lock);
  df_cuda_state_of(device)->next = ranks;
  ranks = device;
  df_unlock(&ranks_lock);
}

void df_cuda_delist(df_rank_device *device) {
  df_lock(&ranks_lock);
  df_rank_device **at = &ranks;
  while (*at && *at != device) at = &df_cuda_state_of(*at)->next;
  if (*at) *at = df_cuda_state_of(device)->next;
  df_unlock(&ranks_lock);
}

/* Returns the next rank that shares the GPU; after NULL the first one. */
static df_rank_device *next_beside(const df_cuda_state *state, df_rank_device *after)
    DF_REQUIRES(ranks_lock) {
  df_rank_device *next = after ? df_cuda_state_of(after)->next : ranks;
  while (next && df_cuda_state_of(next)->facts.ordinal != state->facts.ordinal)
    next = df_cuda_state_of(next)->next;
  return next;
}

/* ---- staying */

int df_cuda_stays_on_device(const df_cuda_state *state) {
  return df_load_relaxed_u32(&state->device->stay) & 1;
}

/* Returns whether the rank was launched after the request to stay, or received it on the device. */
static int is_resident(const df_cuda_state *state) {
  const uint32_t stay = df_load_relaxed_u32(&state->device->stay);
  const uint64_t requested = (uint64_t)df_observe_u32(&state->launch) << 32 | stay;
  return df_load_relaxed_u32(&state->lost) || df_observe_u32(&state->launched_stay) == stay ||
         df_observe_u64(&state->pulse->seen) == requested;
}

/* Requests that the launch stays. It is as wide as the widest registered collective, because a
 * wider launch would have to replace it. */
static void request_stay(df_rank_device *device) DF_REQUIRES(ranks_lock) {
  df_cuda_state *state = df_cuda_state_of(device);
  if (df_cuda_stays_on_device(state)) return;
  df_rank_lock(device->host.lock);
  df_cuda_grow(device, state->widest);
  df_rank_unlock(device->host.lock);
  df_publish_u32(&state->device->stay, state->device->stay + 1);
  df_bell_ring(device->work_bell);
}

/* Returns whether every rank on the GPU is resident. */
static int reside(const df_cuda_state *state, int begins) {
  int all = 1;
  df_lock(&ranks_lock);
  for (df_rank_device *r = next_beside(state, NULL); r; r = next_beside(state, r)) {
    if (begins) request_stay(r);
    all &= is_resident(df_cuda_state_of(r));
  }
  df_unlock(&ranks_lock);
  return all;
}

void df_cuda_reside(df_rank_device *device) {
  const struct timespec nap = {.tv_nsec = 10 * 1000};
  const df_cuda_state *state = df_cuda_state_of(device);
  const uint64_t begin = df_clock_ns();
  uint64_t elapsed = 0;
  for (int all = reside(state, 1); !all && elapsed < device->options.cuda.patience_ns;
       all = reside(state, 0)) {
    if (elapsed < DF_CUDA_SPIN_NS)
      sched_yield(); /* the launcher may need this core */
    else
      nanosleep(&nap, NULL);
    elapsed = df_clock_ns() - begin;
  }
}

void df_cuda_end_residence(df_rank_device *device) {
  df_device *shared = device->shared;
  const uint64_t keep_ns = device->options.cuda.keep_ns;
  if (!(df_load_relaxed_u32(&shared->stay) & 1) || !df_cuda_streams_are_idle(keep_ns)) return;
  df_lock(&ranks_lock);
  if (df_cuda_streams_are_idle(keep_ns)) df_publish_u32(&shared->stay, shared->stay + 1);
  df_unlock(&ranks_lock);
}

/* ---- launches behind a waiting stream */

static int has_run_on_stream(df_rank_device *device) {
  const df_stream_event *tickets = df_cuda_state_of(device)->tickets;
  for (uint32_t i = 0; i < DF_CUDA_TICKETS; i++)
    if (df_load_relaxed_u64(&tickets[i].wanted) != df_load_relaxed_u64(&tickets[i].output))
      return 1;
  return 0;
}

int df_cuda_has_streaming_mate(const df_rank_device *device, uint32_t *rank) {
  const df_cuda_state *state = device->state;
  int found = 0;
  df_lock(&ranks_lock);
  for (df_rank_device *r = next_beside(state, NULL); r && !found; r = next_beside(state, r)) {
    found = r != device && r->host.job == device->host.job && has_run_on_stream(r);
    *rank = r->rank;
  }
  df_unlock(&ranks_lock);
  return found;
}

/* Returns whether a stream of the process has reached a run and waits for it. */
static int has_waiting_stream(const df_cuda_state *state) {
  int waits = 0;
  df_lock(&ranks_lock);
  for (df_rank_device *r = next_beside(state, NULL); r && !waits; r = next_beside(state, r)) {
    const df_stream_event *tickets = df_cuda_state_of(r)->tickets;
    for (uint32_t i = 0; i < DF_CUDA_TICKETS && !waits; i++)
      waits = df_load_relaxed_u64(&tickets[i].wanted) != df_load_relaxed_u64(&tickets[i].output) &&
              df_observe_u64(&tickets[i].input) == df_load_relaxed_u64(&tickets[i].wanted);
  }
  df_unlock(&ranks_lock);
  return waits;
}

static void end_runs(const df_cuda_state *state, const char *sentence) {
  df_lock(&ranks_lock);
  for (df_rank_device *r = next_beside(state, NULL); r; r = next_beside(state, r))
    r->host.end_stream_runs(r->host.host, sentence);
  df_unlock(&ranks_lock);
}

/* Ends the runs on streams in two steps. In the first step the runs are given up: daemons on the
 * device end them, here and on peers. If that releases no stream, no daemon is left that accesses
 * their buffers, and the second step lets the streams continue. */
static void release_streams(df_rank_device *device, df_cuda_state *state) {
  char sentence[DF_SENTENCE_BYTES];
  if (state->has_given_up) {
    end_runs(state, NULL);
    return;
  }
  state->has_given_up = 1;
  snprintf(
      sentence, sizeof sentence,
      "rank %u: a launch of the daemon has not begun on CUDA device %d for %llu ms while "
      "streams wait for runs. It is probably queued behind such a wait, in a hardware queue that "
      "streams share. Set CUDA_DEVICE_MAX_CONNECTIONS=32 before the process first calls CUDA, "
      "or run with callbacks in place of streams "
      "(DFCCL_TUNING=set:cuda_patience_ms=N sets how long this may take)",
      device->rank, state->facts.ordinal,
      (unsigned long long)device->options.cuda.patience_ns / 1000000);
  end_runs(state, sentence);
}

void df_cuda_guard(df_rank_device *device, uint64_t late_since_ns) {
  df_cuda_state *state = df_cuda_state_of(device);
  const uint64_t now = df_clock_ns(), half = device->options.cuda.patience_ns / 2;
  const int is_late = late_since_ns != 0 && now - late_since_ns >= half;
  if (!is_late || df_cuda_runs_on_streams() == 0) {
    state->stuck_since_ns = 0;
    state->has_given_up = 0;
    return;
  }
  if (now < state->scan_at_ns) return;
  state->scan_at_ns = now + DF_CUDA_SCAN_NS;
  if (!has_waiting_stream(state)) {
    state->stuck_since_ns = 0;
  } else if (state->stuck_since_ns == 0) {
    state->stuck_since_ns = now;
  } else if (now - state->stuck_since_ns >= half) {
    state->stuck_since_ns = now;
    release_streams(device, state);
  }
}
