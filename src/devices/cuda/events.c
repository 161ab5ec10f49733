/* The events of the timed daemon in the units of the host, and the two durations between events:
 * from the fetch of a run to its first step, and from there to its end. */
#include <stdlib.h>

#include "devices/cuda/state.h"

typedef struct seen_event {
  uint64_t moment, cycles, launch; /* launch: of the block, counted from the ring's oldest event */
  df_event_kind kind;
  uint32_t collective, pending, length;
} seen_event;

/* The first and the last event in the ring of a block. */
typedef struct event_window {
  const df_time_log *log;
  uint64_t next, end, launch;
} event_window;

static event_window open_window(const df_time_log *log) {
  uint64_t noted = df_observe_u64(&log->events_noted);
  uint64_t first = noted > DF_TIMED_EVENTS ? noted - DF_TIMED_EVENTS : 0;
  return (event_window){.log = log, .next = first, .end = noted};
}

static seen_event take_event(event_window *window) {
  const df_timed_event *event = &window->log->events[window->next++ % DF_TIMED_EVENTS];
  uint64_t what = df_load_relaxed_u64(&event->what);
  df_event_kind kind = (df_event_kind)(what >> DF_EVENT_KIND_SHIFT);
  if (kind == DF_EVENT_LAUNCHED) window->launch++;
  return (seen_event){
      .moment = df_load_relaxed_u64(&event->moment),
      .cycles = df_load_relaxed_u64(&event->cycles),
      .launch = window->launch,
      .kind = kind,
      .collective = (uint32_t)(what & ((1u << DF_EVENT_PENDING_SHIFT) - 1)),
      .pending = (uint32_t)(what >> DF_EVENT_PENDING_SHIFT) & DF_EVENT_FIELD,
      .length = (uint32_t)(what >> DF_EVENT_LENGTH_SHIFT) & DF_EVENT_FIELD,
  };
}

/* The marks of the run that a block has fetched or executes; launch 0: not seen. */
typedef struct run_marks {
  seen_event fetched, begun;
  int has_fetched, has_begun;
} run_marks;

/* Returns 1 if a duration ends at this event; *since is its beginning. */
static int ends_duration(run_marks *run, df_timed kind, const seen_event *event,
                         seen_event *since) {
  int is_end = 0;
  switch (event->kind) {
  case DF_EVENT_FETCHED: /* a run behind an earlier one of the collective is not prepared yet */
    if (event->pending == 1) *run = (run_marks){.fetched = *event, .has_fetched = 1};
    break;
  case DF_EVENT_BEGUN:
    if (run->has_begun) break;
    is_end = kind == DF_TIMED_PREPARE && run->has_fetched;
    *since = run->fetched;
    run->begun = *event;
    run->has_begun = 1;
    break;
  case DF_EVENT_DONE:
    is_end = kind == DF_TIMED_EXECUTE && run->has_begun;
    *since = run->begun;
    *run = (run_marks){0};
    break;
  case DF_EVENT_LAUNCHED:
  case DF_EVENT_SET_ASIDE:
  case DF_EVENT_LEFT:
  case DF_EVENT_LOADED:
  case DF_EVENT_SAVED:
  case DF_EVENT_KEPT:
    break;
  }
  return is_end;
}

/* Cycles are more exact than the clock, but are comparable within one launch only. */
static uint64_t time_between(const seen_event *since, const seen_event *until, double ns) {
  if (since->launch == until->launch)
    return (uint64_t)((double)(until->cycles - since->cycles) * ns + 0.5);
  return until->moment - since->moment;
}

dfcclResult_t df_cuda_reported_times(df_rank_device *device, df_timed kind,
                                     const df_cuda_moment *now, uint64_t *durations,
                                     uint64_t *moments, size_t *count) {
  df_cuda_state *state = df_cuda_state_of(device);
  size_t room = *count, n = 0;
  for (uint32_t b = 0; b < device->shared->n_blocks; b++) {
    run_marks *runs = calloc(device->capacity, sizeof *runs);
    if (runs == NULL)
      return df_fail(dfcclOutOfMemory, "no memory to match the events of %u collectives",
                     device->capacity);
    event_window window = open_window(&state->times[b]);
    double ns = df_cuda_ns_of_cycle(window.log);
    while (window.next < window.end) {
      seen_event event = take_event(&window), since = event;
      if (!ends_duration(&runs[event.collective % device->capacity], kind, &event, &since))
        continue;
      if (n < room && durations) durations[n] = time_between(&since, &event, ns);
      if (n < room && moments) moments[n] = df_cuda_host_ns(&state->opened, now, event.moment);
      n++;
    }
    free(runs);
  }
  *count = n;
  return dfcclSuccess;
}

dfcclResult_t df_cuda_get_events(df_rank_device *device, dfcclEvent_t *events, size_t *count) {
  df_cuda_state *state = df_cuda_state_of(device);
  df_cuda_moment now;
  dfcclResult_t result = df_cuda_compare_clocks(state, &now);
  if (result != dfcclSuccess) return result;
  size_t room = *count, n = 0;
  for (uint32_t b = 0; b < device->shared->n_blocks; b++) {
    event_window window = open_window(&state->times[b]);
    for (; window.next < window.end; n++) {
      seen_event event = take_event(&window);
      if (n >= room || events == NULL) continue;
      events[n] = (dfcclEvent_t){
          .moment = df_cuda_host_ns(&state->opened, &now, event.moment),
          .collective = event.collective,
          .kind = (dfcclEventKind_t)event.kind,
          .block = b,
          .queueLength = event.length,
          .pendingRuns = event.pending,
      };
    }
  }
  *count = n;
  return dfcclSuccess;
}
