#include "host/switching/plan_switch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/log.h"
#include "base/mutex.h"
#include "control/messenger.h"
#include "host/switching/switch_timing.h"
#include "host/registration/link_setup.h"
#include "host/registration/announcement.h"
#include "host/registration/match.h"
#include "host/registration/register.h"
#include "host/state/registry.h"
#include "host/runs/runs.h"
#include "host/observe/trace.h"

enum {
/* Number of further runs that a member admits while the others answer: a round trip takes about as
 * long as this many short runs. */
#if defined(DF_SIMULATION)
  DF_PLAN_SWITCH_AHEAD = 1,
#else
  DF_PLAN_SWITCH_AHEAD = 4,
#endif
  DF_PLAN_SWITCH_RANK_SHIFT = 40 /* a variant's number: its leader's rank, then a count */
};

static uint32_t leader_rank(const df_coll *registered) { return registered->ranks[0]; }

static void send(dfcclContext_t context, const df_coll *registered, uint32_t rank,
                 df_message_kind kind, uint64_t a, uint64_t b) DF_RANK_LOCKED {
  df_message message = {.kind = (uint16_t)kind,
                        .id = registered->id,
                        .a = a,
                        .b = b,
                        .variant = registered->plan_switch->number};
  df_messenger_send(&context->control, rank, &message, NULL, -1);
}

static void send_to_members(dfcclContext_t context, df_coll *registered, df_message_kind kind,
                            uint64_t a, uint64_t b) DF_RANK_LOCKED {
  for (uint32_t i = 0; i < registered->n; i++)
    if (i != registered->position) send(context, registered, registered->ranks[i], kind, a, b);
}

/* ---- the place in the device ---- */

#define EXCHANGE(a, b)                                                                             \
  do {                                                                                             \
    __typeof__(a) kept = (a);                                                                      \
    (a) = (b);                                                                                     \
    (b) = kept;                                                                                    \
  } while (0)

/* Updates the pointers into the record after an exchange. */
static void settle(dfcclContext_t context, df_coll *coll) {
  coll->exec.device.shape = &coll->exec.configuration.shape;
  if (coll->varying) coll->exec.device.descriptor->words->counts = &coll->runs.in_device[0].count;
  context->registry.by_index[coll->index] = coll;
}

/* Exchanges the places of the registered collective and of a variant in the device. The registered
 * collective has no run in the device, and a variant never has one, so no block of this rank uses
 * either. Links stay with the announcements that they were made from, so a variant is kept while it
 * is in use. */
static void exchange(dfcclContext_t context, df_coll *registered, df_coll *variant) {
  DF_ASSERT(registered->runs.retired == registered->runs.admitted && variant->runs.admitted == 0);
  const uint64_t next =
      df_device_run(registered, registered->runs.admitted); /* the variant's skew */
  registered->runs.skew = variant->runs.skew - registered->runs.admitted;
  variant->runs.skew = next;
  EXCHANGE(registered->index, variant->index);
  EXCHANGE(registered->exec.plan, variant->exec.plan);
  EXCHANGE(registered->exec.configuration, variant->exec.configuration);
  EXCHANGE(registered->exec.device, variant->exec.device);
  EXCHANGE(registered->exec.ring, variant->exec.ring);
  EXCHANGE(registered->exec.first_turn, variant->exec.first_turn);
  EXCHANGE(registered->exec.survivors, variant->exec.survivors); /* the descriptor points to it */
  registered->trace.is_described = 0;
  settle(context, registered);
  settle(context, variant);
}

static void handle_retired(df_coll *registered, uint32_t position);

static int perform(dfcclContext_t context, df_coll *registered) DF_RANK_LOCKED {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_plan_switch *plan_switch = registered->plan_switch;
  if (plan_switch == NULL || registered->runs.admitted != plan_switch->first ||
      registered->runs.retired != plan_switch->first)
    return 0;
  df_coll *old = plan_switch->current;
  if (DF_UNLIKELY(context->tracer != NULL)) df_trace_describe(context, registered);
  if (old) exchange(context, registered, old);
  if (plan_switch->candidate) exchange(context, registered, plan_switch->candidate);
  plan_switch->current = plan_switch->candidate;
  plan_switch->candidate = NULL;
  plan_switch->first = UINT64_MAX;
  plan_switch->switches++;
  context->registry.switches++;
  plan_switch->purpose = plan_switch->asked;
  registered->trace.is_described = 0;
  registered->runs.admit_below = UINT64_MAX;
  if (old) df_coll_leave(context, old);
  df_log(DF_LOG_TRACE, "rank %u: collective %" PRIu64 " switches to %s at run %" PRIu64 ", %s",
         context->rank, registered->id, df_algorithm_name(registered->exec.plan->key.algorithm),
         registered->runs.admitted, df_purpose_words(plan_switch->purpose));
  if (DF_UNLIKELY(context->tracer != NULL)) df_trace_describe(context, registered);
  if (registered->position == 0)
    handle_retired(registered, 0);
  else
    send(context, registered, leader_rank(registered), DF_MESSAGE_RETIRED, 0, 0);
  return 1;
}

/* ---- a member ---- */

static void go_on(dfcclContext_t context, df_coll *registered) DF_RANK_LOCKED {
  df_list(context, registered);
  df_admit_listed(context);
}

static void cancel(dfcclContext_t context, df_coll *registered) DF_RANK_LOCKED {
  df_plan_switch *plan_switch = registered->plan_switch;
  df_coll *candidate = plan_switch->candidate;
  if (!plan_switch->is_pending || registered->runs.is_recalled) return;
  plan_switch->is_pending = 0;
  plan_switch->candidate = NULL;
  registered->runs.admit_below = registered->exec.ready ? UINT64_MAX : 0;
  if (candidate) df_coll_leave(context, candidate);
  go_on(context, registered);
}

static void commit(dfcclContext_t context, df_coll *registered, uint64_t first,
                   uint64_t to_time) DF_RANK_LOCKED {
  df_plan_switch *plan_switch = registered->plan_switch;
  if (!plan_switch->is_pending || registered->runs.is_recalled) return;
  plan_switch->is_pending = 0;
  plan_switch->first = registered->runs.admit_below = first;
  /* The first run is not timed, because its memory is cold. */
  if (to_time > 0 && to_time <= DF_MOST_TIMES)
    df_plan_switch_set_range(context, registered, first + 1, first + 1 + to_time,
                             plan_switch->number);
  perform(context, registered);
  go_on(context, registered);
}

static void handle_member_answer(dfcclContext_t context, df_coll *registered, uint32_t position,
                                 uint64_t floor, int is_refused);

static void answer_leader(dfcclContext_t context, df_coll *registered,
                          int is_refused) DF_RANK_LOCKED {
  df_plan_switch *plan_switch = registered->plan_switch;
  const uint64_t floor = registered->runs.admitted + DF_PLAN_SWITCH_AHEAD;
  if (!plan_switch->is_pending || plan_switch->has_answered || registered->runs.is_recalled) return;
  plan_switch->has_answered = 1;
  if (!is_refused) registered->runs.admit_below = floor;
  if (registered->position == 0) {
    handle_member_answer(context, registered, 0, floor, is_refused);
    return;
  }
  send(context, registered, leader_rank(registered), DF_MESSAGE_READY, floor, (uint64_t)is_refused);
  if (is_refused) cancel(context, registered);
}

static int is_open(const dfcclContext_t context, const df_coll *registered) {
  return registered->exec.ready && !registered->runs.is_recalled &&
         registered->failure.failed == dfcclSuccess &&
         registered->members.run_limit == UINT64_MAX && context->failure.broken == dfcclSuccess;
}

/* Half of the places in the device are reserved for registrations. */
static int has_place(const dfcclContext_t context) {
  return context->registry.n_colls + context->registry.n_variants < context->device.capacity / 2;
}

static int is_valid_spec(const df_variant_spec *spec) {
  return spec->algorithm <= DF_FROM_FILE && spec->slot_bytes <= DF_MAX_SLOT_BYTES &&
         (spec->slots == 0 ||
          (spec->slots >= DF_MIN_LINK_SLOTS && spec->slots <= DF_MAX_LINK_SLOTS &&
           (spec->slots & (spec->slots - 1)) == 0)) &&
         spec->blocks <= DF_MAX_BLOCKS && spec->split <= DF_MAX_RANKS;
}

static void take_proposal(dfcclContext_t context, df_coll *registered, uint64_t number,
                          df_purpose purpose, const df_variant_spec *spec) DF_RANK_LOCKED {
  df_plan_switch *plan_switch = registered->plan_switch;
  plan_switch->number = number;
  plan_switch->asked = purpose;
  plan_switch->is_pending = 1;
  plan_switch->has_answered = 0;
  if (spec->algorithm == DF_AS_REGISTERED) {
    answer_leader(context, registered, !is_open(context, registered));
    return;
  }
  df_coll *variant = NULL;
  if (!is_open(context, registered) || !has_place(context) || !is_valid_spec(spec) ||
      df_register_variant(context, registered, number, spec, &variant) != dfcclSuccess) {
    answer_leader(context, registered, 1);
    return;
  }
  plan_switch->candidate = variant;
  df_coll_announce(context, variant, 0);
  variant->references++; /* the variant may fail meanwhile, which frees it */
  df_match_bind(context, variant);
  df_links_progress(context, variant);
  df_coll_unreference(context, variant);
}

static df_plan_switch *pending_switch(const df_coll *variant) {
  df_plan_switch *plan_switch = variant->registered->plan_switch;
  return plan_switch && plan_switch->candidate == variant && plan_switch->is_pending ? plan_switch
                                                                                     : NULL;
}

static int is_agreed(const df_coll *variant) {
  const df_plan_switch *plan_switch = variant->registered->plan_switch;
  return plan_switch->current == variant ||
         (plan_switch->candidate == variant && !plan_switch->is_pending);
}

static void variant_links_connected(dfcclContext_t context, df_coll *variant) DF_RANK_LOCKED {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (pending_switch(variant)) answer_leader(context, variant->registered, 0);
}

static void variant_lost(dfcclContext_t context, df_coll *variant) DF_RANK_LOCKED {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (pending_switch(variant)) answer_leader(context, variant->registered, 1);
}

/* ---- the leader ---- */

static const df_configuration *registered_configuration(const df_coll *registered) {
  const df_plan_switch *plan_switch = registered->plan_switch;
  return plan_switch->current ? &plan_switch->current->exec.configuration
                              : &registered->exec.configuration;
}

int df_plan_switch_is_busy(const df_coll *registered) {
  return registered->plan_switch &&
         (registered->plan_switch->asks || registered->plan_switch->to_retire > 0);
}

static void call_off(dfcclContext_t context, df_coll *registered) DF_RANK_LOCKED {
  if (!registered->plan_switch->asks) return;
  registered->plan_switch->asks = 0;
  send_to_members(context, registered, DF_MESSAGE_CANCEL, 0, 0);
  cancel(context, registered);
  if (registered->plan_switch->owner)
    registered->plan_switch->owner->called_off(context, registered);
}

static void handle_member_answer(dfcclContext_t context, df_coll *registered, uint32_t position,
                                 uint64_t floor, int is_refused) DF_RANK_LOCKED {
  df_plan_switch *plan_switch = registered->plan_switch;
  if (!plan_switch->asks || !df_plan_switch_is_first(registered, position, DF_RECEIVED_ANSWER))
    return;
  if (is_refused || !is_open(context, registered)) {
    call_off(context, registered);
    return;
  }
  plan_switch->most = DF_MAX(plan_switch->most, floor);
  if (++plan_switch->answers < registered->n) return;
  plan_switch->asks = 0;
  plan_switch->to_retire = registered->n;
  send_to_members(context, registered, DF_MESSAGE_COMMIT, plan_switch->most, plan_switch->to_time);
  commit(context, registered, plan_switch->most, plan_switch->to_time);
}

static void handle_retired(df_coll *registered, uint32_t position) {
  if (registered->plan_switch->to_retire > 0 &&
      df_plan_switch_is_first(registered, position, DF_RECEIVED_RETIRED))
    registered->plan_switch->to_retire--;
}

/* A member ends its participation. A leader whose other collectives have failed still completes its
 * runs of this one. The leader fixes the first run of the new plan only when every member has
 * answered, so a switch that this member has not answered yet can be cancelled. */
static void limited(dfcclContext_t context, df_coll *registered, uint32_t peer) DF_RANK_LOCKED {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  if (registered->plan_switch == NULL) return;
  if (registered->position == 0) {
    call_off(context, registered);
  } else if (leader_rank(registered) == peer) {
    answer_leader(context, registered, 1);
    cancel(context, registered); /* a COMMIT would have arrived before */
  }
}

static void end(dfcclContext_t context, df_coll *registered) DF_RANK_LOCKED {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_plan_switch *plan_switch = registered->plan_switch;
  if (plan_switch == NULL) return;
  df_coll *current = plan_switch->current, *candidate = plan_switch->candidate;
  plan_switch->counts = 0;
  df_plan_switch_set_range(context, registered, 0, 0, 0);
  plan_switch->owner = NULL;
  if (current) {
    if (DF_UNLIKELY(context->tracer != NULL)) df_trace_describe(context, registered);
    const int is_described =
        registered->trace.is_described; /* all runs of its plan are before this moment */
    exchange(context, registered, current);
    registered->trace.is_described = is_described;
  }
  plan_switch->current = plan_switch->candidate = NULL;
  /* The members handle the end of the registration themselves: handle_limit. */
  plan_switch->is_pending = plan_switch->asks = 0;
  if (candidate) df_coll_leave(context, candidate);
  if (current) df_coll_leave(context, current);
}

static void freed(df_coll *registered) {
  free(registered->plan_switch->tuner);
  free(registered->plan_switch->received);
  free(registered->plan_switch);
}

static df_switch_state state(const df_coll *registered) {
  const df_plan_switch *plan_switch = registered->plan_switch;
  if (plan_switch->switches == 0) return (df_switch_state){.purpose = "registered"};
  return (df_switch_state){.switches = plan_switch->switches,
                           .purpose = df_purpose_name(plan_switch->purpose),
                           .words = df_purpose_words(plan_switch->purpose)};
}

static const df_switch_events events = {.links_connected = variant_links_connected,
                                        .lost = variant_lost,
                                        .is_agreed = is_agreed,
                                        .limited = limited,
                                        .perform = perform,
                                        .end = end,
                                        .timed = df_plan_switch_timed,
                                        .freed = freed,
                                        .state = state,
                                        .registered = registered_configuration};

df_plan_switch *df_plan_switch_of(df_coll *registered) {
  if (registered->plan_switch == NULL &&
      (registered->plan_switch = calloc(1, sizeof *registered->plan_switch)) != NULL) {
    registered->plan_switch->events = &events;
    registered->plan_switch->first = UINT64_MAX;
  }
  return registered->plan_switch;
}

static dfcclResult_t refuse_switch(const dfcclContext_t context,
                                   const df_coll *registered) DF_RANK_LOCKED {
  const char *why = "a vector collective has only one algorithm";
  if (registered->position != 0) {
    return df_fail(
        dfcclInvalidUsage,
        "collective %" PRIu64
        ": rank %u is not the first of its group; only that one, rank %u, may change the algorithm",
        registered->id, context->rank, leader_rank(registered));
  }
  if (df_plan_switch_is_busy(registered))
    why = "a switch to another algorithm is in progress; each member switches at its next run";
  else if (!registered->exec.ready && registered->failure.failed == dfcclSuccess)
    why = "not all members have run it yet";
  else if (!is_open(context, registered))
    why = "it or its context has failed, or a member has deregistered it";
  return df_fail(dfcclInvalidUsage, "collective %" PRIu64 " on rank %u cannot change now: %s",
                 registered->id, context->rank, why);
}

static int has_variants(const df_coll *registered) {
  return registered->pairs == NULL && registered->operation != DF_OP_ALL_TO_ALL_DYNAMIC;
}

dfcclResult_t df_plan_switch_propose(dfcclContext_t context, df_coll *registered,
                                     const df_variant_spec *spec, df_purpose purpose,
                                     uint32_t to_time) {
  if (registered->position != 0 || df_plan_switch_is_busy(registered) ||
      !is_open(context, registered) || !has_variants(registered))
    return refuse_switch(context, registered);
  df_plan_switch *plan_switch = df_plan_switch_of(registered);
  if (plan_switch && plan_switch->received == NULL) plan_switch->received = malloc(registered->n);
  if (plan_switch == NULL || plan_switch->received == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for a variant of collective %" PRIu64,
                   registered->id);
  const uint64_t number =
      (uint64_t)(context->rank + 1) << DF_PLAN_SWITCH_RANK_SHIFT | ++context->registry.proposals;
  memset(plan_switch->received, 0, registered->n);
  if (plan_switch->timed_number) df_plan_switch_set_range(context, registered, 0, 0, 0);
  plan_switch->asks = 1;
  plan_switch->answers = 0;
  plan_switch->most = 0;
  plan_switch->to_time = to_time;
  df_message message = {.kind = DF_MESSAGE_PROPOSE,
                        .payload_bytes = sizeof *spec,
                        .id = registered->id,
                        .a = purpose,
                        .variant = number};
  df_coll_send(context, registered, &message, spec);
  take_proposal(context, registered, number, purpose, spec);
  return dfcclSuccess;
}

static void stay(dfcclContext_t context, df_coll *registered, df_purpose purpose) DF_RANK_LOCKED {
  if (registered->plan_switch->switches == 0 || registered->plan_switch->purpose == purpose) return;
  registered->plan_switch->purpose = purpose;
  registered->trace.is_described = 0;
  if (DF_UNLIKELY(context->tracer != NULL)) df_trace_describe(context, registered);
}

void df_plan_switch_keep(dfcclContext_t context, df_coll *registered, df_purpose purpose) {
  if (df_plan_switch_is_busy(registered) || registered->plan_switch->purpose == purpose ||
      registered->plan_switch->switches == 0)
    return;
  send_to_members(context, registered, DF_MESSAGE_PURPOSE, purpose, 0);
  stay(context, registered, purpose);
}

/* ---- messages ---- */

static void handle_proposal(dfcclContext_t context, uint32_t from, df_coll *registered,
                            const df_message *message) DF_RANK_LOCKED {
  df_variant_spec spec;
  memcpy(&spec, df_message_payload(message), sizeof spec);
  if (registered && message->variant && leader_rank(registered) == from &&
      has_variants(registered) && !registered->runs.is_recalled && df_plan_switch_of(registered) &&
      !registered->plan_switch->is_pending && registered->plan_switch->first == UINT64_MAX) {
    take_proposal(context, registered, message->variant, (df_purpose)message->a, &spec);
    return;
  }
  df_message refusal = {
      .kind = DF_MESSAGE_READY, .id = message->id, .b = 1, .variant = message->variant};
  df_messenger_send(&context->control, from, &refusal, NULL, -1);
}

/* A member that has answered admits no run from its floor on, so a COMMIT may not name an earlier
 * run. */
static int may_commit(const df_coll *registered, uint64_t first) {
  return !registered->plan_switch->is_pending ||
         (registered->plan_switch->has_answered && first >= registered->runs.admit_below);
}

void df_plan_switch_receive(dfcclContext_t context, uint32_t from, const df_message *message) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_coll *registered = df_find(context, message->id);
  if (message->kind == DF_MESSAGE_PROPOSE) {
    handle_proposal(context, from, registered, message);
    return;
  }
  if (registered == NULL || registered->plan_switch == NULL ||
      registered->plan_switch->number != message->variant)
    return;
  const uint32_t position = df_coll_place_of(registered, from, registered->n);
  if (position == registered->n)
    return; /* the message belongs to an earlier registration, or to a cancelled switch */
  const int leads = registered->position == 0, is_led = !leads && leader_rank(registered) == from;
  if (leads && message->kind == DF_MESSAGE_READY)
    handle_member_answer(context, registered, position, message->a, message->b != 0);
  else if (leads && message->kind == DF_MESSAGE_TIMES)
    df_plan_switch_receive_times(context, registered, position, message);
  else if (leads && message->kind == DF_MESSAGE_RETIRED)
    handle_retired(registered, position);
  else if (is_led && message->kind == DF_MESSAGE_COMMIT && !may_commit(registered, message->a))
    df_control_refuse(&context->control, from);
  else if (is_led && message->kind == DF_MESSAGE_COMMIT)
    commit(context, registered, message->a, message->b);
  else if (is_led && message->kind == DF_MESSAGE_CANCEL)
    cancel(context, registered);
  else if (is_led && message->kind == DF_MESSAGE_PURPOSE && df_plan_switch_is_complete(registered))
    stay(context, registered, (df_purpose)message->a);
}

dfcclResult_t df_plan_switch_ask(dfcclContext_t context, dfcclCollId_t id,
                                 const df_variant_spec *spec) {
  dfcclResult_t result;
  df_rank_lock(&context->lock);
  df_coll *registered = df_find(context, id);
  if (registered == NULL)
    result = df_fail(dfcclInvalidArgument, "collective %" PRIu64 " is not registered on rank %u",
                     id, context->rank);
  else if (spec->algorithm != DF_AS_REGISTERED && spec->algorithm != DF_FROM_FILE &&
           !df_algorithm_has((int)spec->algorithm, registered->operation))
    result =
        df_fail(dfcclInvalidArgument, "algorithm is \"%s\", which %s does not have",
                df_algorithm_name((int)spec->algorithm), df_operation_name(registered->operation));
  else
    result = df_plan_switch_propose(context, registered, spec, DF_PURPOSE_ASKED, 0);
  df_rank_unlock(&context->lock);
  return result;
}
