/* The service thread, which sleeps without a limit when no deadline runs. */
#include <stddef.h>

#include "litmus.h"

#include "host/lifecycle/service_tasks.c"

/* submit.c's call of it is noted, instead of a descriptor that is written. */
static void note_wake(df_control *control);
#define df_service_wake note_wake
#include "host/runs/submit.c"
#include "control/service.h"
#include "host/runs/runs.h"
#undef df_service_wake

typedef struct service_state {
  struct dfcclContext context;
  df_executor_ops ops;
  df_device device;
  df_sq_slot sq_slot;
  df_coll coll;
  df_descriptor descriptor;
  df_run_words run_words;
  df_wait_words wait_words;
  df_pending_callback callbacks[1];
  DF_ALIGNED(64) uint32_t woken;
  DF_ALIGNED(64) int tick_ms;
} service_state;

static void note_wake(df_control *control) {
  uint8_t *context = (uint8_t *)control - offsetof(struct dfcclContext, control);
  ((service_state *)(void *)context)->woken = 1;
}
static void submitted(df_rank_device *device, int urgent, int unlocked) {
  (void)device;
  (void)urgent;
  (void)unlocked;
}

/* ---- B7: a deadline begins to run */

static void deadline_prepare(void *state) {
  service_state *s = state;
  dfcclContext_t context = &s->context;
  s->ops.submitted = submitted;
  df_sq_init(&s->device.sq, &s->sq_slot, 1, 1);
  s->descriptor.words = &s->run_words;
  s->coll = (df_coll){.id = 1,
                      .exec.device.descriptor = &s->descriptor,
                      .runs.words = &s->wait_words,
                      .exec.ready = 1,
                      .runs.admit_below = UINT64_MAX,
                      .members.run_limit = UINT64_MAX,
                      .runs.watched_from = UINT64_MAX};
  s->coll.exec.configuration.shape.n_blocks = 1;
  df_rank_mutex_init(&context->lock);
  context->device.executor = &s->ops;
  context->device.shared = &s->device;
  context->registry.latest = &s->coll;
  context->runs.listed_last = &context->runs.listed_first;
  context->runs.callbacks = (df_callback_pool){.entries = s->callbacks, .capacity = 1};
  context->settings.timeout_ms = 1000;
}
static void deadline_submit(void *state) {
  service_state *s = state;
  df_submit(&s->context, s->coll.operation, 1, NULL, NULL, NULL, NULL);
}
static void deadline_look(void *state) {
  service_state *s = state;
  s->tick_ms = deadline_tick(&s->context);
}
static litmus_outcome deadline_judge(const void *state) {
  const service_state *s = state;
  if (s->tick_ms < 0 && !s->woken) return LITMUS_FORBIDDEN;
  return s->tick_ms < 0 ? LITMUS_NOTHING : LITMUS_SEEN;
}

static const litmus_test tests[] = {
    {"B7",
     "deadline",
     "the service thread sleeps without a limit, and a deadline runs",
     sizeof(service_state),
     deadline_prepare,
     {deadline_submit, deadline_look},
     deadline_judge,
     {{0, LITMUS_FENCE}, {1, LITMUS_FENCE}},
     {{0}}},
};
const litmus_tests litmus_service = {tests, DF_COUNT_OF(tests)};
