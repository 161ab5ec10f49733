/* Timers of a GPU block's leader, in a kernel with timers only. For a posted store, only the time
 * of its instruction is measured. */
#ifndef DF_PRIMITIVES_TIMERS_H
#define DF_PRIMITIVES_TIMERS_H

#include "base/atomic.h"

/* The values are those of dfcclTime_t. */
typedef enum {
  DF_TIMED_PASS, /* a relay passes on an SQE */
  DF_TIMED_FETCH,
  DF_TIMED_LOAD,
  DF_TIMED_SAVE,
  DF_TIMED_CQE,
  DF_TIMED_KINDS, /* number of kinds that are recorded; the following kinds are computed
                     from events */
  DF_TIMED_PREPARE = DF_TIMED_KINDS,
  DF_TIMED_EXECUTE,
  DF_TIMED_ALL
} df_timed;

/* The values are those of dfcclEventKind_t. */
typedef enum {
  DF_EVENT_LAUNCHED,
  DF_EVENT_FETCHED,
  DF_EVENT_BEGUN, /* the run has its input, and its first step is next */
  DF_EVENT_SET_ASIDE,
  DF_EVENT_DONE,
  /* The following kinds are recorded on the CPU only (turn_log.h). */
  DF_EVENT_LEFT,
  DF_EVENT_LOADED,
  DF_EVENT_SAVED,
  DF_EVENT_KEPT /* the turn has ended, and the collective keeps its place */
} df_event_kind;

enum { DF_TIMED_SAMPLES = 4096 }; /* number of samples of each kind that are kept */
enum { DF_TIMED_EVENTS = 8192, DF_EVENT_PENDING_SHIFT = 24, DF_EVENT_LENGTH_SHIFT = 40 };
enum {
  DF_EVENT_KIND_SHIFT = 56,
  DF_EVENT_FIELD = 0xffff
}; /* largest value of the fields for pending runs and for length */

typedef struct df_time_sample {
  uint64_t moment; /* end of the action, in nanoseconds of the device's clock */
  uint64_t cycles;
} df_time_sample;

typedef struct df_timed_event {
  uint64_t moment; /* nanoseconds of the device's clock */
  uint64_t cycles; /* comparable only within a launch */
  uint64_t what;   /* collective, its pending runs, the task queue's length, the kind */
} df_timed_event;

/* The leader publishes the counts when it begins to wait and when it leaves. */
typedef struct df_time_log {
  uint64_t noted[DF_TIMED_KINDS]; /* number of samples since the beginning; events_noted is that of
                                events */
  uint64_t events_noted;
  uint64_t cycles, ns; /* total duration of the former launches */
  df_time_sample samples[DF_TIMED_KINDS][DF_TIMED_SAMPLES];
  df_timed_event events[DF_TIMED_EVENTS];
} df_time_log;

#if DF_ON_DEVICE
#include <cuda/ptx>
#else
#include <time.h>
#endif

/* Nanoseconds of the GPU's clock; in tests, of the host's clock. */
DF_CORE uint64_t df_device_ns(void) {
#if DF_ON_DEVICE
  return cuda::ptx::get_sreg_globaltimer();
#else
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

DF_CORE uint64_t df_event_what(df_event_kind kind, uint32_t collective, uint32_t pending,
                               uint32_t length) {
  return (uint64_t)kind << DF_EVENT_KIND_SHIFT |
         (uint64_t)DF_MIN(length, (uint32_t)DF_EVENT_FIELD) << DF_EVENT_LENGTH_SHIFT |
         (uint64_t)DF_MIN(pending, (uint32_t)DF_EVENT_FIELD) << DF_EVENT_PENDING_SHIFT | collective;
}

#if defined(__CUDACC__)

typedef struct df_timers {
  df_time_log *log;
  uint64_t begun;                      /* start of the current measurement, in cycles */
  uint64_t entered_cycles, entered_ns; /* beginning of the launch, minus the duration of former
                                          launches */
  uint64_t noted[DF_TIMED_KINDS];
  uint64_t events_noted;
} df_timers;

DF_CORE uint64_t df_device_cycles(void) {
#if DF_ON_DEVICE
  __asm__ __volatile__("" ::: "memory"); /* no access may cross this line */
  const uint64_t now = (uint64_t)clock64();
  __asm__ __volatile__("" ::: "memory");
  return now;
#else
  return 0;
#endif
}

DF_CORE void df_timers_note_event(df_timers *timers, df_event_kind kind, uint32_t collective,
                                  uint32_t pending, uint32_t length) {
  df_timed_event *event = &timers->log->events[timers->events_noted++ % (uint64_t)DF_TIMED_EVENTS];
  const uint64_t what = df_event_what(kind, collective, pending, length);
  df_store_relaxed_u64(&event->moment, df_device_ns());
  df_store_relaxed_u64(&event->cycles, df_device_cycles());
  df_store_relaxed_u64(&event->what, what);
}

DF_CORE void df_timers_enter(df_timers *timers, df_time_log *log) {
  timers->log = log;
  for (uint32_t kind = 0; kind < DF_TIMED_KINDS; kind++)
    timers->noted[kind] = df_load_relaxed_u64(&log->noted[kind]);
  timers->entered_cycles = df_device_cycles() - df_load_relaxed_u64(&log->cycles);
  timers->entered_ns = df_device_ns() - df_load_relaxed_u64(&log->ns);
  timers->events_noted = df_load_relaxed_u64(&log->events_noted);
  df_timers_note_event(timers, DF_EVENT_LAUNCHED, 0, 0, 0);
}

DF_CORE void df_timers_start(df_timers *timers) { timers->begun = df_device_cycles(); }

/* Records the time since the start, divided among n actions. */
DF_CORE void df_timers_note(df_timers *timers, df_timed kind, uint64_t n) {
  if (n == 0) return;
  const uint64_t cycles = (df_device_cycles() - timers->begun) / n, now = df_device_ns();
  for (uint64_t i = 0; i < n; i++) {
    df_time_sample *sample =
        &timers->log->samples[kind][timers->noted[kind]++ % (uint64_t)DF_TIMED_SAMPLES];
    df_store_relaxed_u64(&sample->moment, now);
    df_store_relaxed_u64(&sample->cycles, cycles);
  }
}

/* One fence precedes all counts: each release would wait for a store across the bus, just where the
 * block begins to wait for the next SQE. */
DF_CORE void df_timers_publish(df_timers *timers) {
  df_time_log *log = timers->log;
  df_store_relaxed_u64(&log->cycles, df_device_cycles() - timers->entered_cycles);
  df_store_relaxed_u64(&log->ns, df_device_ns() - timers->entered_ns);
  df_release_fence();
  for (uint32_t kind = 0; kind < DF_TIMED_KINDS; kind++)
    df_publish_fenced_u64(&log->noted[kind], timers->noted[kind]);
  df_publish_fenced_u64(&log->events_noted, timers->events_noted);
}

#endif
#endif
