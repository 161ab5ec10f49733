/* The records of the timers in the units of the host. Durations are computed from the cycles and
 * nanoseconds of the launches, moments from two comparisons of the clocks, which drift apart. */
#include <sched.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "devices/cuda/state.h"

enum { DF_CUDA_CLOCK_ROUNDS = 32 };
#define DF_CUDA_CLOCK_PATIENCE_NS ((uint64_t)10 * 1000 * 1000 * 1000)

static df_mutex comparing = DF_MUTEX_INITIALIZER; /* protects the words of the clock */

/* Returns the time between question and answer, or 0 if there is no answer. */
static uint64_t ask(df_cuda_clock *clock, uint64_t round, df_cuda_moment *moment) {
  uint64_t before = df_clock_ns(), after = before;
  df_bus_release();
  df_publish_u64(&clock->asked, round);
  while (df_observe_u64(&clock->answered) < round) {
    if (after - before > DF_CUDA_CLOCK_PATIENCE_NS) return 0;
    sched_yield();
    after = df_clock_ns();
  }
  after = df_clock_ns();
  df_bus_acquire();
  *moment = (df_cuda_moment){.device_ns = df_load_relaxed_u64(&clock->ns),
                             .host_ns = before + (after - before) / 2};
  return DF_MAX(after - before, (uint64_t)1);
}

/* The fastest answer is the most accurate. */
static int ask_often(df_cuda_clock *clock, uint64_t first, uint64_t last, df_cuda_moment *best) {
  uint64_t least = UINT64_MAX;
  for (uint64_t round = first; round <= last; round++) {
    df_cuda_moment moment;
    uint64_t took = ask(clock, round, &moment);
    if (took == 0) return 0;
    if (took >= least) continue;
    least = took;
    *best = moment;
  }
  return 1;
}

/* [comparing] Compares the clocks of the host and of the current device. */
static dfcclResult_t compare(df_cuda_state *state, df_cuda_moment *now) {
  df_cuda_clock *clock = state->clock;
  /* A kernel of an earlier comparison that timed out must not answer a later question. */
  uint64_t first = df_load_relaxed_u64(&clock->asked) + 1, last = first + DF_CUDA_CLOCK_ROUNDS - 1;
  void *arguments[] = {&clock, &first, &last};
  cudaLaunchConfig_t config = {.gridDim = {.x = 1, .y = 1, .z = 1},
                               .blockDim = {.x = 1, .y = 1, .z = 1},
                               .stream = state->upload_stream};
  cudaError_t error = cudaLaunchKernelExC(&config, df_cuda_clock_kernel(), arguments);
  if (error != cudaSuccess) return df_cuda_fail(error, "launching the kernel that reads the clock");
  int answered = ask_often(clock, first, last, now);
  df_publish_u64(&clock->asked, last); /* so that the kernel ends, whenever it begins */
  if (!answered)
    return df_fail(dfcclTimeout, "CUDA device %d has not reported its clock for 10 s",
                   state->facts.ordinal);
  error = cudaStreamSynchronize(state->upload_stream);
  return error == cudaSuccess ? dfcclSuccess : df_cuda_fail(error, "reading the clock of a GPU");
}

dfcclResult_t df_cuda_compare_clocks(df_cuda_state *state, df_cuda_moment *now) {
  df_cuda_visit visit;
  dfcclResult_t result = df_cuda_enter_device(&visit, state->primary);
  if (result != dfcclSuccess) return result;
  df_lock(&comparing);
  result = compare(state, now);
  df_unlock(&comparing);
  df_cuda_leave_device(&visit);
  return result;
}

uint64_t df_cuda_host_ns(const df_cuda_moment *first, const df_cuda_moment *last, uint64_t moment) {
  double device = (double)(last->device_ns - first->device_ns);
  double host = (double)(last->host_ns - first->host_ns);
  double since = (double)(int64_t)(moment - first->device_ns);
  double rate = device > 0 ? host / device : 1;
  return first->host_ns + (uint64_t)(int64_t)(since * rate);
}

double df_cuda_ns_of_cycle(const df_time_log *log) {
  uint64_t cycles = df_load_relaxed_u64(&log->cycles);
  return cycles ? (double)df_load_relaxed_u64(&log->ns) / (double)cycles : 1;
}

dfcclResult_t df_cuda_get_times(df_rank_device *device, df_timed kind, uint64_t *durations,
                                uint64_t *moments, size_t *count) {
  df_cuda_state *state = df_cuda_state_of(device);
  df_cuda_moment now;
  dfcclResult_t result = df_cuda_compare_clocks(state, &now);
  if (result != dfcclSuccess) return result;
  if (kind >= DF_TIMED_KINDS)
    return df_cuda_reported_times(device, kind, &now, durations, moments, count);
  size_t room = *count, n = 0;
  for (uint32_t b = 0; b < device->shared->n_blocks; b++) {
    const df_time_log *log = &state->times[b];
    uint64_t noted = df_observe_u64(&log->noted[kind]);
    double ns = df_cuda_ns_of_cycle(log);
    uint64_t i = noted > DF_TIMED_SAMPLES ? noted - DF_TIMED_SAMPLES : 0;
    for (; i < noted; i++, n++) {
      const df_time_sample *sample = &log->samples[kind][i % DF_TIMED_SAMPLES];
      if (n >= room) continue;
      if (durations)
        durations[n] = (uint64_t)((double)df_load_relaxed_u64(&sample->cycles) * ns + 0.5);
      if (moments)
        moments[n] = df_cuda_host_ns(&state->opened, &now, df_load_relaxed_u64(&sample->moment));
    }
  }
  *count = n;
  return dfcclSuccess;
}
