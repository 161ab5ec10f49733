#include "host/jobs.h"

#include <unistd.h>

#include "control/service.h"
#include "host/dump.h"
#include "host/failure.h"
#include "host/link_setup.h"
#include "host/record.h"
#include "host/runs.h"

enum { DF_RECORD_TICK_MS = 100, DF_LONGEST_DEADLINE_TICK_MS = 100 };

static void set_links_up(void *context) { df_links_progress_due(context); }

/* While nothing is outstanding no deadline runs; who submits the next run sees deadlines_idle and
 * wakes this thread (store buffering: a fence on both sides). */
static int deadline_tick(void *room) {
  dfcclContext_t context = room;
  if (context->settings.timeout_ms == 0) return -1;
  df_store_relaxed_u32(&context->runs.deadlines_idle, 1);
  df_wake_fence();
  if (!df_has_outstanding(context)) return -1;
  df_store_relaxed_u32(&context->runs.deadlines_idle, 0);
  long long ms = context->settings.timeout_ms / 8;
  return (int)DF_MAX(1, DF_MIN(ms, DF_LONGEST_DEADLINE_TICK_MS));
}
static void check_deadlines(void *room) {
  dfcclContext_t context = room;
  df_store_relaxed_u32(&context->runs.deadlines_idle, 0);
  pthread_mutex_lock(&context->lock);
  df_check_deadlines(context);
  df_tell_broken(context);
  pthread_mutex_unlock(&context->lock);
}

static int record_tick(void *room) {
  const dfcclContext_t context = room;
  return context->recorder && df_has_outstanding(context) ? DF_RECORD_TICK_MS : -1;
}
static void flush_recording(void *room) {
  dfcclContext_t context = room;
  pthread_mutex_lock(&context->lock);
  if (context->recorder) df_record_flush(context);
  pthread_mutex_unlock(&context->lock);
}

static void write_dumps(void *room) {
  dfcclContext_t context = room;
  pthread_mutex_lock(&context->lock);
  char *late = context->failure.timeout_dump;
  context->failure.timeout_dump = NULL;
  pthread_mutex_unlock(&context->lock);
  if (late) df_dump_write(late, STDERR_FILENO);
  if (!context->settings.debug_signal) return;
  uint32_t signals = df_dump_signals_seen();
  if (signals == context->failure.signals_handled) return;
  context->failure.signals_handled = signals;
  df_dump(context, STDERR_FILENO);
}

void df_jobs_add(dfcclContext_t context) {
  df_control *control = &context->control;
  context->failure.signals_handled = df_dump_signals_seen(); /* this thread's from here on */
  df_service_add_job(control, context, NULL, set_links_up);
  df_service_add_job(control, context, deadline_tick, check_deadlines);
  df_service_add_job(control, context, record_tick, flush_recording);
  df_service_add_job(control, context, NULL, write_dumps);
}
