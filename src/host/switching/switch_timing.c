#include "host/switching/switch_timing.h"

#include <string.h>

#include "base/clock.h"
#include "control/messenger.h"

static int has_range(const df_epoch *epoch) { return epoch->timed_to > epoch->timed_from; }

/* One run is only waited for. */
static int needs_clock(const df_epoch *epoch) { return epoch->timed_to - epoch->timed_from > 1; }

/* While no run is near that is timed, a run costs one compare, and no submission reads the clock. */
static void measure(dfcclContext_t context, df_epoch *epoch, int on) {
  if (on == epoch->is_measuring) return;
  epoch->is_measuring = on;
  epoch->last_end_ns = 0;
  df_store_relaxed_u32(&context->runs.timing, context->runs.timing + (on ? 1u : UINT32_MAX));
}

/* From the run before the first that is timed on: its end may be the first one's beginning. */
static void heed(dfcclContext_t context, df_coll *front) {
  df_epoch *epoch = front->epoch;
  const uint64_t before = epoch->timed_from - (epoch->timed_from > 0 && needs_clock(epoch));
  front->heeded_from = epoch->counts ? 0 : has_range(epoch) ? before : UINT64_MAX;
  measure(context, epoch,
          epoch->counts || (needs_clock(epoch) && front->retired >= epoch->timed_from));
}

void df_epoch_set_range(dfcclContext_t context, df_coll *front, uint64_t from, uint64_t to,
                        uint64_t number) {
  df_epoch *epoch = front->epoch;
  epoch->timed_from = from;
  epoch->timed_to = to;
  epoch->timed_number = number;
  heed(context, front);
}

void df_epoch_time(dfcclContext_t context, df_coll *front, uint64_t from, uint64_t until) {
  df_epoch_set_range(context, front, until > from + DF_MOST_TIMES ? until - DF_MOST_TIMES : from,
                     until, 0);
}

void df_epoch_count(dfcclContext_t context, df_coll *front, int on) {
  if (front->epoch->counts == on) return;
  front->epoch->counts = on;
  heed(context, front);
}

int df_epoch_is_there(const df_coll *front) {
  return !front->epoch->asks && !front->epoch->is_pending && front->epoch->first == UINT64_MAX;
}

static void tell_leader(dfcclContext_t context, df_coll *front, uint32_t position, uint64_t from,
                        const uint32_t *ns, uint32_t n) {
  df_epoch *epoch = front->epoch;
  if (epoch->owner == NULL || epoch->asks || n != epoch->to_time || from != epoch->most + 1 ||
      !df_epoch_hears_first(front, position, DF_HEARD_TIMES))
    return; /* a member is mistaken, or its times are not asked for any more */
  epoch->owner->told(context, front, ns, n);
}

static void tell_times(dfcclContext_t context, df_coll *front) {
  df_epoch *epoch = front->epoch;
  const uint64_t from = epoch->timed_from, number = epoch->timed_number;
  const uint32_t n = (uint32_t)(epoch->timed_to - from);
  uint32_t ns[DF_MOST_TIMES];
  memcpy(ns, epoch->times, n * sizeof ns[0]);
  df_epoch_set_range(context, front, 0, 0, 0);
  if (number == 0) {
    if (epoch->owner) epoch->owner->own(context, front, ns, n);
    return;
  }
  if (front->position == 0) {
    tell_leader(context, front, 0, from, ns, n);
    return;
  }
  /* By now another switch may have been proposed. */
  df_message message = {.kind = DF_MESSAGE_TIMES,
                        .payload_bytes = n * (uint32_t)sizeof ns[0],
                        .id = front->id,
                        .a = from,
                        .variant = number};
  df_post_send(&context->control, front->ranks[0], &message, ns, -1);
}

/* Runs that wait for each other take turns: then the time from end to end counts. UINT32_MAX: it
 * had begun before anybody looked. */
static uint32_t time_of(df_epoch *epoch, const df_run *run) {
  const uint64_t now = df_clock_ns(), since = DF_MAX(run->submitted_ns, epoch->last_end_ns);
  epoch->last_end_ns = now;
  return since == 0 ? UINT32_MAX : (uint32_t)DF_MIN(now - since, (uint64_t)UINT32_MAX - 1);
}

void df_epoch_timed(dfcclContext_t context, df_coll *front, const df_run *run) {
  df_epoch *epoch = front->epoch;
  const uint64_t number = front->retired - 1;
  if (epoch->counts || needs_clock(epoch)) {
    measure(context, epoch, 1);
    const uint32_t ns = time_of(epoch, run);
    if (number >= epoch->timed_from && number < epoch->timed_to)
      epoch->times[number - epoch->timed_from] = ns;
    /* The owner may ask for another variant, and then for no times of this one. */
    if (epoch->counts && epoch->owner && ns != UINT32_MAX) epoch->owner->ran(context, front, ns);
  }
  if (has_range(epoch) && number + 1 >= epoch->timed_to) tell_times(context, front);
}

void df_epoch_hear_times(dfcclContext_t context, df_coll *front, uint32_t position,
                         const df_message *message) {
  uint32_t ns[DF_MOST_TIMES];
  memcpy(ns, df_message_payload(message), message->payload_bytes);
  tell_leader(context, front, position, message->a, ns,
              message->payload_bytes / (uint32_t)sizeof ns[0]);
}
