#include "host/lifecycle/service_tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "control/service.h"
#include "host/observe/dump.h"
#include "host/observe/flight.h"
#include "host/runs/collective_failure.h"
#include "host/switching/tuning_store.h"
#include "host/registration/link_setup.h"
#include "host/lifecycle/peer_failure.h"
#include "host/observe/record.h"
#include "host/runs/runs.h"
#include "host/observe/trace.h"
#include "host/observe/turns.h"

enum {
  DF_RECORD_TICK_MS = 100,
  DF_TUNING_STORE_TICK_MS = 2000, /* several collectives end their search at about the same time */
  DF_LONGEST_DEADLINE_TICK_MS = 100,
  DF_DUMP_TICK_MS = 5,
  DF_DUMP_PATIENCE_MS =
      5000,             /* a dump is dropped if standard error accepts nothing for this long */
  DF_LAST_TURN_MS = 100 /* the time that a dump has when its context closes */
};

static void set_links_up(void *context) { df_links_progress_due(context); }

/* While no run is outstanding, no deadline is checked. The next submitter sees deadlines_idle and
 * wakes this thread (store buffering: a fence on both sides). Recordings and traces need the wake
 * too: without it a job that hangs may leave nothing in its files. */
static int deadline_tick(void *room) {
  dfcclContext_t context = room;
  const int keeps_files = context->recorder != NULL || context->tracer != NULL;
  if (context->settings.timeout_ms == 0 && !keeps_files) return -1;
  df_store_relaxed_u32(&context->runs.deadlines_idle, 1);
  df_wake_fence();
  if (!df_has_outstanding(context)) return -1;
  df_store_relaxed_u32(&context->runs.deadlines_idle, 0);
  const long long ms =
      context->settings.timeout_ms ? context->settings.timeout_ms / 8 : DF_RECORD_TICK_MS;
  return (int)DF_MAX(1, DF_MIN(ms, DF_LONGEST_DEADLINE_TICK_MS));
}
static void check_deadlines(void *room) {
  dfcclContext_t context = room;
  char *text = NULL;
  df_store_relaxed_u32(&context->runs.deadlines_idle, 0);
  df_rank_lock(&context->lock);
  if (df_is_late(context) && df_log_get_level() >= DF_LOG_ERROR && !context->failure.late_dump) {
    df_rank_unlock(&context->lock);
    text = df_dump_text(context); /* first: after a failure no run waits */
    df_rank_lock(&context->lock);
  }
  context->failure.timed_out = 0;
  df_check_deadlines(context);
  df_report_broken(context);
  if (context->failure.timed_out && text) {
    context->failure.late_dump = text;
    text = NULL;
  }
  df_rank_unlock(&context->lock);
  free(text);
}

static int record_tick(void *room) {
  const dfcclContext_t context = room;
  if (context->recorder == NULL && context->tracer == NULL) return -1;
  if (df_has_outstanding(context)) return DF_RECORD_TICK_MS;
  df_rank_lock(&context->lock);
  const int is_behind = df_record_is_behind(context) || df_trace_is_behind(context);
  df_rank_unlock(&context->lock);
  return is_behind ? DF_RECORD_TICK_MS : -1;
}
static int learning_tick(void *room) {
  const dfcclContext_t context = room;
  if (context->settings.tune_file[0] == '\0') return -1;
  df_rank_lock(&context->lock);
  const int has_news = context->tuning_cache.n_new > 0;
  df_rank_unlock(&context->lock);
  return has_news ? DF_TUNING_STORE_TICK_MS : -1;
}
static void write_tuning_cache(void *room) { df_tuning_store_write(room); }

static void flush_recording(void *room) {
  dfcclContext_t context = room;
  df_rank_lock(&context->lock);
  if (context->recorder) df_record_flush(context);
  if (context->tracer) {
    df_trace_waiting_runs(context);
    df_trace_turns(context);
    df_trace_flush(context);
  }
  df_rank_unlock(&context->lock);
}

/* ---- dumps to standard error ---- */

/* The process that writes a dump; 0: none. A process writes one dump at a time, so that dumps do
 * not mix. A forked child takes over the turn of its parent's thread. */
static uint32_t dump_turn;

static int take_turn(void) {
  uint32_t process = (uint32_t)getpid(), holder = df_load_relaxed_u32(&dump_turn);
  return holder != process && df_system_claim_u32(&dump_turn, holder, process);
}

static void end_dump(df_pending_dump *dump) {
  free(dump->text);
  if (dump->has_turn) df_system_claim_u32(&dump_turn, (uint32_t)getpid(), 0);
  *dump = (df_pending_dump){0};
}

/* Returns whole lines if possible, because other processes may write in between. */
static size_t piece_bytes(const char *text) {
  size_t bytes = strnlen(text, DF_PIECE_BYTES);
  const char *last = memrchr(text, '\n', bytes);
  return last ? (size_t)(last - text) + 1 : bytes;
}

static uint64_t patience_ends_ns(void) {
  return df_clock_ns() + (uint64_t)DF_DUMP_PATIENCE_MS * 1000000u;
}

/* Writes as much as standard error accepts at once. Drops the dump after too long without progress.
 */
static void write_dump(df_pending_dump *dump) {
  if (!dump->has_turn) {
    if (!take_turn()) return;
    dump->has_turn = 1;
    dump->give_up_ns = patience_ends_ns();
  }
  while (dump->text[dump->at]) {
    const char *rest = dump->text + dump->at;
    ssize_t written = df_write_now(STDERR_FILENO, rest, piece_bytes(rest));
    if (written == -EINTR || (written == -EAGAIN && df_clock_ns() < dump->give_up_ns)) return;
    if (written <= 0) break;
    dump->at += (size_t)written;
    dump->give_up_ns = patience_ends_ns();
  }
  end_dump(dump);
}

/* NULL: no dump was requested, or no memory. */
static char *next_dump(dfcclContext_t context) {
  df_failure *failure = &context->failure;
  char *late = failure->late_dump;
  failure->late_dump = NULL;
  if (late) return late;
  uint32_t signals = df_dump_signals_seen();
  if (!context->settings.debug_signal || signals == failure->signals_handled) return NULL;
  failure->signals_handled = signals;
  df_flight_request(context, DF_FLIGHT_DUMP);
  return df_dump_text(context);
}

static int dump_tick(void *room) {
  const dfcclContext_t context = room;
  return context->failure.dump.text ? DF_DUMP_TICK_MS : -1;
}
static void write_dumps(void *room) {
  dfcclContext_t context = room;
  df_pending_dump *dump = &context->failure.dump;
  while (dump->text || (dump->text = next_dump(context)) != NULL) {
    write_dump(dump);
    if (dump->text) return;
  }
}

void df_jobs_close(dfcclContext_t context) {
  df_pending_dump *dump = &context->failure.dump;
  /* Another rank of this process may be writing; that ends soon if the reader reads. */
  for (uint32_t ms = 0; dump->text && !dump->has_turn && ms < DF_LAST_TURN_MS; ms++) {
    write_dump(dump);
    if (dump->text && !dump->has_turn) usleep(1000);
  }
  if (dump->text) end_dump(dump);
  free(context->failure.late_dump);
}

void df_jobs_add(dfcclContext_t context) {
  df_control *control = &context->control;
  context->failure.signals_handled =
      df_dump_signals_seen(); /* this thread handles all later signals */
  df_service_add_job(control, context, NULL, set_links_up);
  df_service_add_job(control, context, deadline_tick, check_deadlines);
  df_service_add_job(control, context, record_tick, flush_recording);
  df_service_add_job(control, context, learning_tick, write_tuning_cache);
  df_service_add_job(control, context, dump_tick, write_dumps);
}
