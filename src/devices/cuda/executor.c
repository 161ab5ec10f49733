/* One launcher for each rank launches the kernel, watches it, and launches it again while work
 * remains. Submissions that no launch has read cause a launch at once. If only a peer can make
 * progress possible, a pause precedes the launch, and the pause grows while launches make no
 * progress. Between launches the device is free for cudaMalloc or other kernels. Threads that
 * submit and complete runs call no CUDA function. */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "base/thread.h"
#include "base/clock.h"
#include "base/log.h"
#include "devices/cuda/state.h"

enum {
  DF_CUDA_WATCH_SPINS = 500, /* polls before naps */
  DF_CUDA_TIMER_SLACK_NS = 1000,
  DF_CUDA_STACK_BYTES = 512 * 1024
};
/* Time between checks for a lost device while no launch is on the device. */
#define DF_CUDA_ASK_NS ((uint64_t)100 * 1000 * 1000)
/* A launch without a sign of life for this time is queried; the time is many times the life of a
 * launch. */
#define DF_CUDA_SILENT_NS ((uint64_t)1000 * 1000 * 1000)

static uint64_t runs_in_device(df_rank_device *device) {
  df_device_runs runs = device->host.count_runs(device->host.host);
  return runs.pushed - runs.seen;
}

static int is_running(df_rank_device *device, df_cuda_state *state) {
  for (uint32_t b = 0; b < state->launched_grid; b++)
    if (df_observe_u32(&device->blocks[b].running)) return 1;
  return 0;
}

/* Returns whether the next launch has submissions to read. */
static int has_unread(df_rank_device *device, df_cuda_state *state) {
  uint64_t pushed = device->host.count_runs(device->host.host).pushed;
  uint32_t grid = df_load_relaxed_u32(&state->grid);
  for (uint32_t b = 0; b < grid; b++)
    if (df_load_relaxed_u64(&device->blocks[b].read_index) != pushed) return 1;
  return 0;
}

static uint64_t progress_of(df_rank_device *device) {
  uint64_t sum = 0;
  for (uint32_t b = 0; b < device->shared->n_blocks; b++) {
    const df_block_stats *stats = &device->blocks[b].stats;
    sum += df_load_relaxed_u64(&stats->primitives) + df_load_relaxed_u64(&stats->cqes_written) +
           df_load_relaxed_u64(&stats->sqes_fetched);
  }
  return sum;
}

/* ---- peers whose daemons have left ---- */

/* Notifies the peers to which blocks have sent since the last call. */
static void notify_peers(df_rank_device *device, df_cuda_state *state) {
  uint64_t ranks = 0;
  for (uint32_t b = 0; b < state->launched_grid; b++)
    ranks |= df_notified_since(&device->blocks[b], &state->notified_seen[b]);
  if (ranks) device->host.notify_ranks(device->host.host, ranks);
}

/* Returns whether a peer has sent since the latest launch, which may have ended before the message
 * came. */
static int was_notified(df_rank_device *device, df_cuda_state *state) {
  return df_load_relaxed_u32(&device->work_bell->notifications) != state->notified_before;
}

/* ---- a device that is lost ---- */

static void lose(df_rank_device *device, df_cuda_state *state, const char *why) {
  char sentence[DF_SENTENCE_BYTES];
  snprintf(sentence, sizeof sentence, "rank %u has lost CUDA device %d: %.350s", device->rank,
           state->facts.ordinal, why);
  df_store_relaxed_u32(&state->lost, 1);
  device->host.lost(device->host.host, sentence);
}

/* ---- launching ---- */

static cudaError_t launch_kernel(df_rank_device *device, df_cuda_state *state, uint32_t grid) {
  df_cuda_daemon daemon = {.device = device->shared,
                           .blocks = device->blocks,
                           .gate = state->gate,
                           .relay = state->relay,
                           .launch = state->launch,
                           .pulse = state->pulse,
                           .errand = state->errand,
                           .times = state->times};
  void *arguments[] = {&daemon};
  cudaLaunchAttribute attribute = {.id = cudaLaunchAttributeMemSyncDomain};
  attribute.val.memSyncDomain = cudaLaunchMemSyncDomainRemote;
  cudaLaunchConfig_t config = {.gridDim = {.x = grid, .y = 1, .z = 1},
                               .blockDim = {.x = device->options.cuda.threads, .y = 1, .z = 1},
                               .stream = state->daemon_stream};
  /* With this attribute, fences of the kernel need not wait for the stores of the application. */
  if (state->facts.major >= 9) {
    config.attrs = &attribute;
    config.numAttrs = 1;
  }
  const void *kernel = state->times ? df_cuda_timed_kernel() : df_cuda_daemon_kernel();
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

static void launch(df_rank_device *device, df_cuda_state *state) {
  /* Either this launch sees a change, or a later one. */
  uint32_t stay = df_observe_u32(&device->shared->stay);
  df_store_relaxed_u32(&state->launch, state->launch + 1);
  df_wake_fence(); /* either df_cuda_grow sees this launch, or this launch sees the new grid */
  uint32_t grid = df_observe_u32(&state->grid);
  df_store_relaxed_u32(&state->urgent, 0);
  state->progress_seen = progress_of(device);
  state->notified_before = df_observe_u32(&device->work_bell->notifications);
  for (uint32_t b = 0; b < grid; b++) df_publish_u32(&device->blocks[b].running, 1);
  state->launched_grid = grid;
  cudaError_t error = launch_kernel(device, state, grid);
  state->launched_ns = df_clock_ns();
  state->ask_at_ns = state->launched_ns + DF_CUDA_SILENT_NS;
  df_publish_u32(&state->launched_stay, stay);
  if (error == cudaSuccess) return;
  df_cuda_fail(error, "launching the daemon");
  for (uint32_t b = 0; b < grid; b++) df_publish_u32(&device->blocks[b].running, 0);
  lose(device, state, df_last_sentence());
}

void df_cuda_grow(df_rank_device *device, uint32_t blocks) {
  df_cuda_state *state = df_cuda_state_of(device);
  df_sq *sq = &device->shared->sq;
  if (blocks <= state->grid) return;
  for (uint32_t b = state->grid; b < blocks; b++)
    df_store_relaxed_u64(&device->blocks[b].read_index,
                         sq->sequence); /* earlier entries are for other blocks */
  sq->n_readers = blocks;               /* used only if there is no relay */
  sq->passes_to = blocks;
  df_publish_u32(&state->grid, blocks);
  df_wake_fence();
  /* A launch with fewer blocks must end before the new blocks can work. */
  df_store_relaxed_u32(&device->shared->recalled, df_load_relaxed_u32(&state->launch));
}

/* ---- the launcher ---- */

static void nap(uint64_t ns) {
  struct timespec time = {.tv_nsec = (long)ns};
  nanosleep(&time, NULL);
}

static int has_begun(const df_cuda_state *state) {
  return (uint32_t)(df_observe_u64(&state->pulse->seen) >> 32) == state->launch;
}

/* A query may wait for as long as another thread waits for the device, and that thread perhaps
 * waits for a run whose CQE this thread must read. So a launch that ends normally is never
 * queried. */
static void ask_for_launch(df_rank_device *device, df_cuda_state *state, uint64_t now) {
  if (now < state->ask_at_ns) return;
  state->ask_at_ns = now + DF_CUDA_SILENT_NS;
  uint64_t beat = df_load_relaxed_u64(&state->pulse->beat);
  if (beat != state->beat_seen) {
    state->beat_seen = beat;
    return;
  }
  cudaError_t error = cudaStreamQuery(state->daemon_stream);
  if (error == cudaSuccess && is_running(device, state)) {
    lose(device, state, "the daemon's kernel ended without reporting its end");
  } else if (error != cudaSuccess && error != cudaErrorNotReady) {
    df_cuda_fail(error, "querying the daemon's kernel");
    lose(device, state, df_last_sentence());
  }
}

/* Checks for a lost device. The check is enqueued like a launch, so waiting threads do not delay
 * it. */
static void ask_device(df_rank_device *device, df_cuda_state *state, uint64_t now) {
  if (now < state->ask_at_ns) return;
  state->ask_at_ns = now + DF_CUDA_ASK_NS;
  cudaError_t error = cudaEventRecord(state->asked, state->daemon_stream);
  if (error == cudaSuccess) return;
  df_cuda_fail(error, "checking the device");
  lose(device, state, df_last_sentence());
}

static void watch(df_rank_device *device, df_cuda_state *state, uint32_t *looks) {
  uint64_t now = df_clock_ns();
  int begun = has_begun(state);
  df_cuda_guard(device, begun ? 0 : state->launched_ns);
  if (begun)
    ask_for_launch(device, state, now);
  else
    ask_device(device, state, now);
  notify_peers(device, state);
  if (++*looks < DF_CUDA_WATCH_SPINS)
    sched_yield();
  else
    nap(device->options.cuda.nap_ns);
}

/* Sets the time of the next launch if there is no submission. */
static void note_left(df_rank_device *device, df_cuda_state *state) {
  notify_peers(device, state);
  uint64_t shortest = device->options.cuda.restart_ns;
  uint64_t longest = DF_MAX(device->options.cuda.restart_most_ns, shortest);
  int progressed = progress_of(device) != state->progress_seen;
  state->restart_ns =
      progressed || state->restart_ns == 0 ? shortest : DF_MIN(state->restart_ns * 2, longest);
  uint64_t now = df_clock_ns();
  state->restart_at_ns = now + state->restart_ns;
  state->ask_at_ns = now + DF_CUDA_ASK_NS;
}

static int has_errand(const df_rank_device *device, const df_cuda_state *state) {
  return df_observe_u32(&device->shared->errands) != df_load_relaxed_u32(&state->errand->done);
}

static int may_launch(df_rank_device *device, df_cuda_state *state) {
  if (df_load_relaxed_u32(&state->lost)) return 0;
  if (df_cuda_stays_on_device(state) || has_errand(device, state)) return 1;
  if (runs_in_device(device) == 0) return 0;
  return df_load_relaxed_u32(&state->urgent) || has_unread(device, state) ||
         was_notified(device, state) || df_clock_ns() >= state->restart_at_ns;
}

static void sleep_until_due(df_rank_device *device, df_cuda_state *state) {
  uint64_t limit = DF_LONGEST_SLEEP_NS, now = df_clock_ns();
  if (runs_in_device(device) > 0 && !df_load_relaxed_u32(&state->lost))
    limit = state->restart_at_ns > now ? state->restart_at_ns - now : 1;
  uint32_t sequence = df_bell_prepare(device->work_bell);
  if (df_load_relaxed_u32(&state->stopping) || may_launch(device, state) ||
      df_cq_has_entry(&device->shared->cq))
    df_bell_cancel(device->work_bell);
  else
    df_bell_sleep(device->work_bell, sequence, limit);
}

static void *launcher(void *argument) {
  df_rank_device *device = argument;
  df_cuda_state *state = df_cuda_state_of(device);
  df_cuda_visit visit;
  uint32_t looks = 0, was_running = 0;
  prctl(PR_SET_TIMERSLACK, DF_CUDA_TIMER_SLACK_NS);
  if (df_cuda_enter_device(&visit, state->primary) != dfcclSuccess)
    lose(device, state, df_last_sentence());
  while (!df_load_relaxed_u32(&state->stopping)) {
    device->host.between_turns(device->host.host);
    df_cuda_end_residence(device);
    if (df_cq_has_entry(&device->shared->cq)) {
      device->host.completed(device->host.host);
      looks = 0;
    }
    if (!df_load_relaxed_u32(&state->lost) && is_running(device, state)) {
      was_running = 1;
      watch(device, state, &looks);
      continue;
    }
    if (was_running) note_left(device, state);
    was_running = 0;
    if (!df_load_relaxed_u32(&state->lost) && device->host.has_outstanding(device->host.host))
      /* The device may be lost while the rank waits for peers. */
      ask_device(device, state, df_clock_ns());
    if (may_launch(device, state)) {
      launch(device, state);
      looks = 0;
    } else if (!df_cq_has_entry(&device->shared->cq)) {
      sleep_until_due(device, state);
    }
  }
  return NULL;
}

dfcclResult_t df_cuda_start(df_rank_device *device) {
  df_cuda_state *state = df_cuda_state_of(device);
  int error = df_thread_create(&state->launcher, DF_CUDA_STACK_BYTES, 0, launcher, device);
  if (error)
    return df_fail(dfcclOutOfMemory, "could not start the launcher's thread: %s", strerror(error));
  state->launcher_started = 1;
  df_cuda_enlist(device);
  df_log(
      DF_LOG_INFO,
      "rank %u of %u: CUDA device %d (%s, compute capability %d.%d, %d multiprocessors), at most "
      "%u block(s) of %u threads, queue of %u%s",
      device->rank, device->n_ranks, state->facts.ordinal, state->facts.name, state->facts.major,
      state->facts.minor, state->facts.multiprocessors, device->shared->n_blocks,
      device->options.cuda.threads, device->options.queue_depth, state->relay ? ", relayed" : "");
  uint32_t n_blocks = device->shared->n_blocks;
  df_log(
      DF_LOG_INFO,
      "rank %u: room for %u collectives: %zu bytes of shared memory a block, %zu bytes of device "
      "memory a block (%zu in all), and %llu MiB for links, plans and scratch",
      device->rank, device->capacity, state->shared_bytes, state->memory_bytes / n_blocks,
      state->memory_bytes, (unsigned long long)device->options.cuda.arena_bytes >> 20);
  return dfcclSuccess;
}

void df_cuda_stop(df_rank_device *device) {
  df_cuda_state *state = df_cuda_state_of(device);
  if (state == NULL || !state->launcher_started) return;
  df_cuda_delist(device);
  df_publish_u32(&device->shared->exit, 1);
  df_publish_u32(&state->stopping, 1);
  df_bell_wake(device->work_bell);
  pthread_join(state->launcher, NULL);
  state->launcher_started = 0;
  df_cuda_visit visit;
  if (df_cuda_enter_device(&visit, state->primary) != dfcclSuccess) return;
  /* The kernel leaves, because no run is outstanding. */
  cudaStreamSynchronize(state->daemon_stream);
  df_cuda_leave_device(&visit);
}

void df_cuda_submitted(df_rank_device *device, int urgent, int unlocked) {
  df_cuda_state *state = df_cuda_state_of(device);
  (void)unlocked; /* the cost is negligible compared with a word across the bus */
  if (urgent) df_store_relaxed_u32(&state->urgent, 1);
  /* Its fence is after the push and before the check for sleepers. */
  df_bell_ring(device->work_bell);
}

/* ---- device synchronisation ---- */

/* Submissions continue: a stream for which the call waits may wait for a run of any rank. */
dfcclResult_t df_cuda_synchronize(df_rank_device *device) {
  df_cuda_state *state = df_cuda_state_of(device);
  df_cuda_visit visit;
  dfcclResult_t result = df_cuda_enter_device(&visit, state->primary);
  if (result != dfcclSuccess) return result;
  df_cuda_begin_device_wait();
  cudaError_t error = cudaDeviceSynchronize();
  df_cuda_end_device_wait();
  if (error != cudaSuccess) result = df_cuda_fail(error, "cudaDeviceSynchronize");
  df_cuda_leave_device(&visit);
  return result;
}
