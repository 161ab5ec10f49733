#include "host/switching/plan_switch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/log.h"
#include "control/messenger.h"
#include "host/switching/switch_timing.h"
#include "host/registration/link_setup.h"
#include "host/registration/match.h"
#include "host/registration/register.h"
#include "host/state/registry.h"
#include "host/runs/runs.h"
#include "host/observe/trace.h"

enum {
/* Runs that a member goes on admitting while the others answer: a round trip of short runs. */
#if defined(DF_SIMULATION)
  DF_EPOCH_AHEAD = 1,
#else
  DF_EPOCH_AHEAD = 4,
#endif
  DF_EPOCH_RANK_SHIFT = 40 /* a variant's number: its leader's rank, then a count */
};

static uint32_t leader_of(const df_coll *front) { return front->ranks[0]; }

static void send(dfcclContext_t context, const df_coll *front, uint32_t rank, df_message_kind kind,
                 uint64_t a, uint64_t b) {
  df_message message = {
      .kind = (uint16_t)kind, .id = front->id, .a = a, .b = b, .variant = front->epoch->number};
  df_post_send(&context->control, rank, &message, NULL, -1);
}

static void send_all(dfcclContext_t context, df_coll *front, df_message_kind kind, uint64_t a,
                     uint64_t b) {
  for (uint32_t i = 0; i < front->n; i++)
    if (i != front->position) send(context, front, front->ranks[i], kind, a, b);
}

/* ---- the place in the device ---- */

#define EXCHANGE(a, b)                                                                             \
  do {                                                                                             \
    __typeof__(a) kept = (a);                                                                      \
    (a) = (b);                                                                                     \
    (b) = kept;                                                                                    \
  } while (0)

/* What points into the record. */
static void settle(dfcclContext_t context, df_coll *coll) {
  coll->device.shape = &coll->manner.shape;
  if (coll->varying) coll->device.descriptor->words->counts = &coll->in_device[0].count;
  context->registry.by_index[coll->index] = coll;
}

/* The front has no run in the device, a variant never has one. So this rank's blocks know of neither.
 * Links stay with the announcements that they came from: a variant is kept while it is in use. */
static void exchange(dfcclContext_t context, df_coll *front, df_coll *variant) {
  DF_ASSERT(front->retired == front->admitted && variant->admitted == 0);
  const uint64_t next = df_device_run(front, front->admitted); /* what a variant's skew is */
  front->skew = variant->skew - front->admitted;
  variant->skew = next;
  EXCHANGE(front->index, variant->index);
  EXCHANGE(front->plan, variant->plan);
  EXCHANGE(front->manner, variant->manner);
  EXCHANGE(front->device, variant->device);
  EXCHANGE(front->ring, variant->ring);
  EXCHANGE(front->first_turn, variant->first_turn);
  front->is_described = 0;
  settle(context, front);
  settle(context, variant);
}

static void hear_retired(df_coll *front, uint32_t position);

static int go_over(dfcclContext_t context, df_coll *front) {
  df_epoch *epoch = front->epoch;
  if (epoch == NULL || front->admitted != epoch->first || front->retired != epoch->first) return 0;
  df_coll *old = epoch->current;
  if (DF_UNLIKELY(context->tracer != NULL)) df_trace_describe(context, front);
  if (old) exchange(context, front, old);
  if (epoch->candidate) exchange(context, front, epoch->candidate);
  epoch->current = epoch->candidate;
  epoch->candidate = NULL;
  epoch->first = UINT64_MAX;
  epoch->switches++;
  epoch->purpose = epoch->asked;
  front->is_described = 0;
  front->admit_below = UINT64_MAX;
  if (old) df_coll_leave(context, old);
  df_log(DF_LOG_TRACE, "rank %u: collective %" PRIu64 " goes over to %s at run %" PRIu64 ", %s",
         context->rank, front->id, df_algorithm_name(front->plan->key.algorithm), front->admitted,
         df_purpose_words(epoch->purpose));
  if (DF_UNLIKELY(context->tracer != NULL)) df_trace_describe(context, front);
  if (front->position == 0)
    hear_retired(front, 0);
  else
    send(context, front, leader_of(front), DF_MESSAGE_RETIRED, 0, 0);
  return 1;
}

/* ---- a member ---- */

static void go_on(dfcclContext_t context, df_coll *front) {
  df_list(context, front);
  df_admit_listed(context);
}

static void cancel(dfcclContext_t context, df_coll *front) {
  df_epoch *epoch = front->epoch;
  df_coll *candidate = epoch->candidate;
  if (!epoch->is_pending) return;
  epoch->is_pending = 0;
  epoch->candidate = NULL;
  front->admit_below = front->ready ? UINT64_MAX : 0;
  if (candidate) df_coll_leave(context, candidate);
  go_on(context, front);
}

static void commit(dfcclContext_t context, df_coll *front, uint64_t first, uint64_t to_time) {
  df_epoch *epoch = front->epoch;
  if (!epoch->is_pending) return;
  epoch->is_pending = 0;
  epoch->first = front->admit_below = first;
  /* The first run finds cold memory. */
  if (to_time > 0 && to_time <= DF_MOST_TIMES)
    df_epoch_set_range(context, front, first + 1, first + 1 + to_time, epoch->number);
  go_over(context, front);
  go_on(context, front);
}

static void hear_answer(dfcclContext_t context, df_coll *front, uint32_t position, uint64_t floor,
                        int is_refused);

static void answer(dfcclContext_t context, df_coll *front, int is_refused) {
  df_epoch *epoch = front->epoch;
  const uint64_t floor = front->admitted + DF_EPOCH_AHEAD;
  if (!epoch->is_pending || epoch->has_answered) return;
  epoch->has_answered = 1;
  if (!is_refused) front->admit_below = floor;
  /* plant: held */
  if (front->position == 0) {
    hear_answer(context, front, 0, floor, is_refused);
    return;
  }
  send(context, front, leader_of(front), DF_MESSAGE_READY, floor, (uint64_t)is_refused);
  if (is_refused) cancel(context, front);
}

static int is_open(const dfcclContext_t context, const df_coll *front) {
  return front->ready && front->failed == dfcclSuccess && front->run_limit == UINT64_MAX &&
         context->failure.broken == dfcclSuccess;
}

/* Half of the places in the device are kept for registrations. */
static int has_place(const dfcclContext_t context) {
  return context->registry.n_colls + context->registry.n_variants < context->device.capacity / 2;
}

static int is_sound(const df_variant_spec *spec) {
  return spec->algorithm <= DF_FROM_FILE && spec->slot_bytes <= DF_MAX_SLOT_BYTES &&
         (spec->slots == 0 ||
          (spec->slots >= DF_MIN_LINK_SLOTS && spec->slots <= DF_MAX_LINK_SLOTS &&
           (spec->slots & (spec->slots - 1)) == 0)) &&
         spec->blocks <= DF_MAX_BLOCKS && spec->split <= DF_MAX_RANKS;
}

static void take_proposal(dfcclContext_t context, df_coll *front, uint64_t number,
                          df_purpose purpose, const df_variant_spec *spec) {
  df_epoch *epoch = front->epoch;
  epoch->number = number;
  epoch->asked = purpose;
  epoch->is_pending = 1;
  epoch->has_answered = 0;
  if (spec->algorithm == DF_AS_REGISTERED) {
    answer(context, front, !is_open(context, front));
    return;
  }
  df_coll *variant = NULL;
  if (!is_open(context, front) || !has_place(context) || !is_sound(spec) ||
      df_register_variant(context, front, number, spec, &variant) != dfcclSuccess) {
    answer(context, front, 1);
    return;
  }
  epoch->candidate = variant;
  df_coll_announce(context, variant, 0);
  variant->references++; /* it may fail, and be given up, meanwhile */
  df_match_bind(context, variant);
  df_links_progress(context, variant);
  df_coll_unreference(context, variant);
}

static df_epoch *epoch_of_candidate(const df_coll *variant) {
  df_epoch *epoch = variant->front->epoch;
  return epoch && epoch->candidate == variant && epoch->is_pending ? epoch : NULL;
}

static int is_agreed(const df_coll *variant) {
  const df_epoch *epoch = variant->front->epoch;
  return epoch->current == variant || (epoch->candidate == variant && !epoch->is_pending);
}

static void variant_stands(dfcclContext_t context, df_coll *variant) {
  if (epoch_of_candidate(variant)) answer(context, variant->front, 0);
}

static void variant_lost(dfcclContext_t context, df_coll *variant) {
  if (epoch_of_candidate(variant)) answer(context, variant->front, 1);
}

/* ---- the leader ---- */

static const df_manner *registered(const df_coll *front) {
  const df_epoch *epoch = front->epoch;
  return epoch->current ? &epoch->current->manner : &front->manner;
}

int df_epoch_is_busy(const df_coll *front) {
  return front->epoch && (front->epoch->asks || front->epoch->to_retire > 0);
}

static void call_off(dfcclContext_t context, df_coll *front) {
  if (!front->epoch->asks) return;
  front->epoch->asks = 0;
  send_all(context, front, DF_MESSAGE_CANCEL, 0, 0);
  cancel(context, front);
  if (front->epoch->owner) front->epoch->owner->called_off(context, front);
}

static void hear_answer(dfcclContext_t context, df_coll *front, uint32_t position, uint64_t floor,
                        int is_refused) {
  df_epoch *epoch = front->epoch;
  if (!epoch->asks || !df_epoch_hears_first(front, position, DF_HEARD_ANSWER)) return;
  if (is_refused || !is_open(context, front)) {
    call_off(context, front);
    return;
  }
  epoch->most = DF_MAX(epoch->most, floor);
  if (++epoch->answers < front->n) return;
  epoch->asks = 0;
  epoch->to_retire = front->n;
  send_all(context, front, DF_MESSAGE_COMMIT, epoch->most, epoch->to_time);
  commit(context, front, epoch->most, epoch->to_time);
}

static void hear_retired(df_coll *front, uint32_t position) {
  if (front->epoch->to_retire > 0 && df_epoch_hears_first(front, position, DF_HEARD_RETIRED))
    front->epoch->to_retire--;
}

/* A leader that gives up other collectives still completes its runs of this one. It waits for each
 * answer, and so does its floor. */
static void limited(dfcclContext_t context, df_coll *front, uint32_t peer) {
  if (front->epoch == NULL) return;
  if (front->position == 0) {
    call_off(context, front);
  } else if (leader_of(front) == peer) {
    answer(context, front, 1);
    cancel(context, front); /* its COMMIT would have come before */
  }
}

static void end(dfcclContext_t context, df_coll *front) {
  df_epoch *epoch = front->epoch;
  if (epoch == NULL) return;
  df_coll *current = epoch->current, *candidate = epoch->candidate;
  epoch->counts = 0;
  df_epoch_set_range(context, front, 0, 0, 0);
  epoch->owner = NULL;
  if (current) {
    if (DF_UNLIKELY(context->tracer != NULL)) df_trace_describe(context, front);
    const int is_described = front->is_described; /* its runs are all from before */
    exchange(context, front, current);
    front->is_described = is_described;
  }
  epoch->current = epoch->candidate = NULL;
  epoch->is_pending = epoch->asks = 0; /* the members hear of the end itself: limited() */
  if (candidate) df_coll_leave(context, candidate);
  if (current) df_coll_leave(context, current);
}

static void freed(df_coll *front) {
  free(front->epoch->tuner);
  free(front->epoch->heard);
  free(front->epoch);
}

static df_switch_state state(const df_coll *front) {
  const df_epoch *epoch = front->epoch;
  if (epoch->switches == 0) return (df_switch_state){.purpose = "registered"};
  return (df_switch_state){.switches = epoch->switches,
                           .purpose = df_purpose_name(epoch->purpose),
                           .words = df_purpose_words(epoch->purpose)};
}

static const df_switch_events events = {.stands = variant_stands,
                                        .lost = variant_lost,
                                        .is_agreed = is_agreed,
                                        .limited = limited,
                                        .go_over = go_over,
                                        .end = end,
                                        .timed = df_epoch_timed,
                                        .freed = freed,
                                        .state = state,
                                        .registered = registered};

df_epoch *df_epoch_of(df_coll *front) {
  if (front->epoch == NULL && (front->epoch = calloc(1, sizeof *front->epoch)) != NULL) {
    front->epoch->events = &events;
    front->epoch->first = UINT64_MAX;
  }
  return front->epoch;
}

static dfcclResult_t refuse(const dfcclContext_t context, const df_coll *front) {
  const char *why = "its pieces have sizes of their own, and one algorithm";
  if (front->position != 0) {
    return df_fail(dfcclInvalidUsage,
                   "collective %" PRIu64
                   ": rank %u is not the first of its group, rank %u, which alone may ask",
                   front->id, context->rank, leader_of(front));
  }
  if (df_epoch_is_busy(front))
    why = "its members are going over to another algorithm; each does so at its next run";
  else if (!front->ready && front->failed == dfcclSuccess)
    why = "it has not been run yet by all members";
  else if (!is_open(context, front))
    why = "it or its context has failed, or a member has deregistered it";
  return df_fail(dfcclInvalidUsage, "collective %" PRIu64 " on rank %u cannot change now: %s",
                 front->id, context->rank, why);
}

static int has_variants(const df_coll *front) {
  return front->pairs == NULL && front->operation != DF_OP_ALL_TO_ALL_DYNAMIC;
}

dfcclResult_t df_epoch_propose(dfcclContext_t context, df_coll *front, const df_variant_spec *spec,
                               df_purpose purpose, uint32_t to_time) {
  if (front->position != 0 || df_epoch_is_busy(front) || !is_open(context, front) ||
      !has_variants(front))
    return refuse(context, front);
  df_epoch *epoch = df_epoch_of(front);
  if (epoch && epoch->heard == NULL) epoch->heard = malloc(front->n);
  if (epoch == NULL || epoch->heard == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for a variant of collective %" PRIu64, front->id);
  const uint64_t number =
      (uint64_t)(context->rank + 1) << DF_EPOCH_RANK_SHIFT | ++context->registry.proposals;
  memset(epoch->heard, 0, front->n);
  if (epoch->timed_number) df_epoch_set_range(context, front, 0, 0, 0);
  epoch->asks = 1;
  epoch->answers = 0;
  epoch->most = 0;
  epoch->to_time = to_time;
  df_message message = {.kind = DF_MESSAGE_PROPOSE,
                        .payload_bytes = sizeof *spec,
                        .id = front->id,
                        .a = purpose,
                        .variant = number};
  df_coll_send(context, front, &message, spec);
  take_proposal(context, front, number, purpose, spec);
  return dfcclSuccess;
}

static void stay(dfcclContext_t context, df_coll *front, df_purpose purpose) {
  if (front->epoch->switches == 0 || front->epoch->purpose == purpose) return;
  front->epoch->purpose = purpose;
  front->is_described = 0;
  if (DF_UNLIKELY(context->tracer != NULL)) df_trace_describe(context, front);
}

void df_epoch_stays(dfcclContext_t context, df_coll *front, df_purpose purpose) {
  if (df_epoch_is_busy(front) || front->epoch->purpose == purpose || front->epoch->switches == 0)
    return;
  send_all(context, front, DF_MESSAGE_PURPOSE, purpose, 0);
  stay(context, front, purpose);
}

/* ---- messages ---- */

/* Its length: no member. */
static uint32_t position_of(const df_coll *front, uint32_t rank) {
  uint32_t i = 0;
  while (i < front->n && front->ranks[i] != rank) i++;
  return i;
}

static void hear_proposal(dfcclContext_t context, uint32_t from, df_coll *front,
                          const df_message *message) {
  df_variant_spec spec;
  memcpy(&spec, df_message_payload(message), sizeof spec);
  if (front && message->variant && leader_of(front) == from && has_variants(front) &&
      df_epoch_of(front) && !front->epoch->is_pending && front->epoch->first == UINT64_MAX) {
    take_proposal(context, front, message->variant, (df_purpose)message->a, &spec);
    return;
  }
  df_message refusal = {
      .kind = DF_MESSAGE_READY, .id = message->id, .b = 1, .variant = message->variant};
  df_post_send(&context->control, from, &refusal, NULL, -1);
}

/* Whoever has answered admits nothing from its floor on. */
static int may_commit(const df_coll *front, uint64_t first) {
  return !front->epoch->is_pending || (front->epoch->has_answered && first >= front->admit_below);
}

void df_epoch_hear(dfcclContext_t context, uint32_t from, const df_message *message) {
  df_coll *front = df_find(context, message->id);
  if (message->kind == DF_MESSAGE_PROPOSE) {
    hear_proposal(context, from, front, message);
    return;
  }
  if (front == NULL || front->epoch == NULL || front->epoch->number != message->variant) return;
  const uint32_t position = position_of(front, from);
  if (position == front->n) return; /* of an earlier registration, or called off */
  const int leads = front->position == 0, is_led = !leads && leader_of(front) == from;
  if (leads && message->kind == DF_MESSAGE_READY)
    hear_answer(context, front, position, message->a, message->b != 0);
  else if (leads && message->kind == DF_MESSAGE_TIMES)
    df_epoch_hear_times(context, front, position, message);
  else if (leads && message->kind == DF_MESSAGE_RETIRED)
    hear_retired(front, position);
  else if (is_led && message->kind == DF_MESSAGE_COMMIT && !may_commit(front, message->a))
    df_control_refuse(&context->control, from);
  else if (is_led && message->kind == DF_MESSAGE_COMMIT)
    commit(context, front, message->a, message->b);
  else if (is_led && message->kind == DF_MESSAGE_CANCEL)
    cancel(context, front);
  else if (is_led && message->kind == DF_MESSAGE_PURPOSE && df_epoch_is_there(front))
    stay(context, front, (df_purpose)message->a);
}

dfcclResult_t df_epoch_ask(dfcclContext_t context, dfcclCollId_t id, const df_variant_spec *spec) {
  dfcclResult_t result;
  pthread_mutex_lock(&context->lock);
  df_coll *front = df_find(context, id);
  if (front == NULL)
    result = df_fail(dfcclInvalidArgument, "collective %" PRIu64 " is not registered on rank %u",
                     id, context->rank);
  else if (spec->algorithm != DF_AS_REGISTERED && spec->algorithm != DF_FROM_FILE &&
           !df_algorithm_has((int)spec->algorithm, front->operation))
    result = df_fail(dfcclInvalidArgument, "algorithm is \"%s\", which %s does not have",
                     df_algorithm_name((int)spec->algorithm), df_operation_name(front->operation));
  else
    result = df_epoch_propose(context, front, spec, DF_PURPOSE_ASKED, 0);
  pthread_mutex_unlock(&context->lock);
  return result;
}

dfcclResult_t df_set_algorithm(dfcclContext_t context, dfcclCollId_t id, const char *algorithm) {
  df_variant_spec spec = {.algorithm = DF_AS_REGISTERED};
  char name[DF_MAX_NAME];
  if (algorithm != NULL) {
    const int named = df_algorithm_by_name(algorithm);
    df_escape(name, sizeof name, algorithm);
    if (named < 0) return df_fail(dfcclInvalidArgument, "algorithm is \"%s\", which is none", name);
    spec.algorithm = (uint32_t)named;
  }
  return df_epoch_ask(context, id, &spec);
}
