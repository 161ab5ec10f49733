#include "host/switching/switch_timing.h"

#include <string.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "control/messenger.h"

static int has_range(const df_plan_switch *plan_switch) {
  return plan_switch->timed_to > plan_switch->timed_from;
}

/* A range of one run is not timed: the owner only needs its end. */
static int needs_clock(const df_plan_switch *plan_switch) {
  return plan_switch->timed_to - plan_switch->timed_from > 1;
}

/* Turns timing on or off. While no timed run is near, a run costs one comparison, and no submission
 * reads the clock. */
static void measure(dfcclContext_t context, df_plan_switch *plan_switch, int on) {
  if (on == plan_switch->is_measuring) return;
  plan_switch->is_measuring = on;
  plan_switch->last_end_ns = 0;
  df_store_relaxed_u32(&context->runs.timing, context->runs.timing + (on ? 1u : UINT32_MAX));
}

/* Starts to watch runs from the one before the first timed run, because its end may be the
 * beginning of the first timed one. */
static void update_timing(dfcclContext_t context, df_coll *registered) {
  df_plan_switch *plan_switch = registered->plan_switch;
  const uint64_t before =
      plan_switch->timed_from - (plan_switch->timed_from > 0 && needs_clock(plan_switch));
  registered->runs.watched_from = plan_switch->counts      ? 0
                                  : has_range(plan_switch) ? before
                                                           : UINT64_MAX;
  measure(context, plan_switch,
          plan_switch->counts ||
              (needs_clock(plan_switch) && registered->runs.retired >= plan_switch->timed_from));
}

void df_plan_switch_set_range(dfcclContext_t context, df_coll *registered, uint64_t from,
                              uint64_t to, uint64_t number) {
  df_plan_switch *plan_switch = registered->plan_switch;
  plan_switch->timed_from = from;
  plan_switch->timed_to = to;
  plan_switch->timed_number = number;
  update_timing(context, registered);
}

void df_plan_switch_time(dfcclContext_t context, df_coll *registered, uint64_t from,
                         uint64_t until) {
  df_plan_switch_set_range(context, registered,
                           until > from + DF_MOST_TIMES ? until - DF_MOST_TIMES : from, until, 0);
}

void df_plan_switch_count(dfcclContext_t context, df_coll *registered, int on) {
  if (registered->plan_switch->counts == on) return;
  registered->plan_switch->counts = on;
  update_timing(context, registered);
}

int df_plan_switch_is_complete(const df_coll *registered) {
  return !registered->plan_switch->asks && !registered->plan_switch->is_pending &&
         registered->plan_switch->first == UINT64_MAX;
}

static void report_to_leader(dfcclContext_t context, df_coll *registered, uint32_t position,
                             uint64_t from, const uint32_t *ns, uint32_t n) {
  df_plan_switch *plan_switch = registered->plan_switch;
  if (plan_switch->owner == NULL || plan_switch->asks || n != plan_switch->to_time ||
      from != plan_switch->most + 1 ||
      !df_plan_switch_is_first(registered, position, DF_RECEIVED_TIMES))
    return; /* the member sent wrong or late times */
  plan_switch->owner->reported(context, registered, ns, n);
}

static void report_times(dfcclContext_t context, df_coll *registered) DF_RANK_LOCKED {
  df_plan_switch *plan_switch = registered->plan_switch;
  const uint64_t from = plan_switch->timed_from, number = plan_switch->timed_number;
  const uint32_t n = (uint32_t)(plan_switch->timed_to - from);
  uint32_t ns[DF_MOST_TIMES];
  memcpy(ns, plan_switch->times, n * sizeof ns[0]);
  df_plan_switch_set_range(context, registered, 0, 0, 0);
  if (number == 0) {
    if (plan_switch->owner) plan_switch->owner->own(context, registered, ns, n);
    return;
  }
  if (registered->position == 0) {
    report_to_leader(context, registered, 0, from, ns, n);
    return;
  }
  /* By now another switch may have been proposed, so the message has the number of the timed one.
   */
  df_message message = {.kind = DF_MESSAGE_TIMES,
                        .payload_bytes = n * (uint32_t)sizeof ns[0],
                        .id = registered->id,
                        .a = from,
                        .variant = number};
  df_messenger_send(&context->control, registered->ranks[0], &message, ns, -1);
}

/* Runs that wait for each other take turns: then the time from end to end counts. UINT32_MAX: the
 * beginning is unknown, because the run was submitted before timing was on. */
static uint32_t run_time_ns(df_plan_switch *plan_switch, const df_run *run) {
  const uint64_t now = df_clock_ns(), since = DF_MAX(run->submitted_ns, plan_switch->last_end_ns);
  plan_switch->last_end_ns = now;
  return since == 0 ? UINT32_MAX : (uint32_t)DF_MIN(now - since, (uint64_t)UINT32_MAX - 1);
}

void df_plan_switch_timed(dfcclContext_t context, df_coll *registered, const df_run *run) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_plan_switch *plan_switch = registered->plan_switch;
  const uint64_t number = registered->runs.retired - 1;
  if (plan_switch->counts || needs_clock(plan_switch)) {
    measure(context, plan_switch, 1);
    const uint32_t ns = run_time_ns(plan_switch, run);
    if (number >= plan_switch->timed_from && number < plan_switch->timed_to)
      plan_switch->times[number - plan_switch->timed_from] = ns;
    /* The owner may request another variant, and then no times of this one. */
    if (plan_switch->counts && plan_switch->owner && ns != UINT32_MAX)
      plan_switch->owner->ran(context, registered, ns);
  }
  if (has_range(plan_switch) && number + 1 >= plan_switch->timed_to)
    report_times(context, registered);
}

void df_plan_switch_receive_times(dfcclContext_t context, df_coll *registered, uint32_t position,
                                  const df_message *message) {
  uint32_t ns[DF_MOST_TIMES];
  memcpy(ns, df_message_payload(message), message->payload_bytes);
  report_to_leader(context, registered, position, message->a, ns,
                   message->payload_bytes / (uint32_t)sizeof ns[0]);
}
