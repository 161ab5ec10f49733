/* Promises of src/host/switching/plan_switch.c to a rank whose peer, played by this test, takes
 * part in a switch:   - A member that has not answered yet answers when it is notified that the
 * leader admits no more runs:     the leader waits for each answer, and so do its runs.   - A
 * proposal for a collective that has no variants is refused.   - Times are sent with the number of
 * the switch that asked for them, whatever was proposed since.   - A member that answers twice
 * counts once.
 * - A member stores the purpose of a switch, and is notified if the plan in use stays for another
 * purpose.
 * - If a member reports that the variant in use has failed, the collective fails, and not only its
 * registered plan. */
#include <string.h>

#include "base/mutex.h"
#include "host/switching/plan_switch.h"
#include "host/registration/announcement.h"
#include "host/state/registry.h"
#include "stage.h"

enum { COLL = 7 };
#define VARIANT ((uint64_t)2 << 40 | 1)

/* Rank 1 says it, with a payload. */
static void say(const df_stage *s, df_message message, const void *payload, size_t bytes) {
  union {
    df_message message;
    uint8_t bytes[512];
  } d = {.message = message};
  d.message.payload_bytes = (uint32_t)bytes;
  CHECK(sizeof message + bytes <= sizeof d, "too long");
  memcpy(&d.message + 1, payload, bytes);
  stage_handle(s, &d.message, -1);
}

static void announce(const df_stage *s, uint64_t variant, uint32_t first, uint32_t second) {
  const uint32_t ranks[] = {first, second};
  uint8_t payload[sizeof(df_announcement) + sizeof ranks];
  df_rank_lock(&s->context->lock);
  const df_announcement own = df_coll_announcement(df_find_variant(s->context, COLL, variant));
  df_rank_unlock(&s->context->lock);
  const uint32_t bytes = df_announcement_write(&own, ranks, payload);
  say(s, (df_message){.kind = DF_MESSAGE_ANNOUNCE, .id = COLL, .variant = variant}, payload, bytes);
}

static dfcclCollOptions_t of(const int *ranks) {
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = ranks;
  options.nRanks = 2;
  return options;
}

/* Without elements, so that no links are needed. */
static void run_empty(df_stage *s, int leader) {
  const int ranks[] = {leader, 1 - leader};
  const dfcclCollOptions_t options = of(ranks);
  stage_open_with_bell(s);
  OK(dfcclRegisterAllReduce(s->context, COLL, 0, dfcclInt8, dfcclSum, &options));
  announce(s, 0, (uint32_t)ranks[0], (uint32_t)ranks[1]);
  OK(dfcclRunAllReduce(s->context, COLL, NULL, NULL, NULL, NULL));
  OK(dfcclWait(s->context, COLL));
}

static void propose(const df_stage *s, df_algorithm algorithm) {
  const df_variant_spec spec = {.algorithm = algorithm};
  say(s, (df_message){.kind = DF_MESSAGE_PROPOSE, .id = COLL, .variant = VARIANT}, &spec,
      sizeof spec);
}

/* ... before it has deregistered the collective. */
static int refuses(const df_stage *s) {
  static df_datagram datagram;
  const df_message *message = &datagram.message;
  OK(dfcclDeregister(s->context, COLL));
  while (stage_receive(s, 1, &datagram)) {
    if (message->kind == DF_MESSAGE_READY && message->variant == VARIANT) return message->b == 1;
    if (message->kind == DF_MESSAGE_DEREGISTER && message->variant == 0) return 0;
  }
  return 0;
}

DF_TEST(plan_switch, a_leader_that_gives_up_is_answered, 30) {
  df_stage s;
  run_empty(&s, 1);
  propose(&s, DF_DOUBLING);
  say(&s, (df_message){.kind = DF_MESSAGE_LIMIT, .id = COLL, .a = 1}, "", 0);
  CHECK(refuses(&s), "rank 0 has not answered");
  stage_close(&s);
}

DF_TEST(plan_switch, uneven_pieces_have_no_variants, 30) {
  df_stage s;
  const int ranks[] = {1, 0};
  const size_t counts[] = {0, 0};
  const dfcclCollOptions_t options = of(ranks);
  stage_open_with_bell(&s);
  OK(dfcclRegisterAllGatherV(s.context, COLL, counts, NULL, dfcclInt8, &options));
  announce(&s, 0, 1, 0);
  OK(dfcclRunAllGatherV(s.context, COLL, NULL, NULL, NULL, NULL));
  OK(dfcclWait(s.context, COLL));
  propose(&s, DF_DIRECT);
  CHECK(refuses(&s), "rank 0 has not refused");
  stage_close(&s);
}

/* Runs without elements have ended when dfcclWait returns. */
static void run_on(const df_stage *s, int n) {
  for (int i = 0; i < n; i++) {
    OK(dfcclRunAllReduce(s->context, COLL, NULL, NULL, NULL, NULL));
    OK(dfcclWait(s->context, COLL));
  }
}

/* Rank 1 leads: rank 0 makes the variant, and answers; then the first run on it is `first`. */
static void lead_over(const df_stage *s, uint64_t first, uint64_t to_time) {
  propose(s, DF_DOUBLING);
  announce(s, VARIANT, 1, 0);
  CHECK(stage_has_received(s, 1, DF_MESSAGE_READY, COLL), "no answer");
  say(s,
      (df_message){
          .kind = DF_MESSAGE_COMMIT, .id = COLL, .variant = VARIANT, .a = first, .b = to_time},
      "", 0);
}

DF_TEST(plan_switch, times_carry_the_number_of_their_switch, 30) {
  enum { FIRST = 20, TIMED = 2 };
  static df_datagram datagram;
  df_stage s;
  run_empty(&s, 1);
  lead_over(&s, FIRST, TIMED);
  run_on(&s, FIRST); /* one was before; now the first on the variant is through */
  const df_variant_spec back = {.algorithm = DF_AS_REGISTERED};
  say(&s, (df_message){.kind = DF_MESSAGE_PROPOSE, .id = COLL, .variant = VARIANT + 1}, &back,
      sizeof back);
  run_on(&s, TIMED);
  do {
    CHECK(stage_receive(&s, 1, &datagram), "no times");
  } while (datagram.message.kind != DF_MESSAGE_TIMES);
  CHECK(datagram.message.variant == VARIANT, "number %llx",
        (unsigned long long)datagram.message.variant);
  CHECK(datagram.message.a == FIRST + 1, "from run %llu", (unsigned long long)datagram.message.a);
  stage_close(&s);
}

/* Rank 0 leads, and its own variant is not connected yet. */
DF_TEST(plan_switch, a_member_that_answers_twice, 30) {
  const df_variant_spec spec = {.algorithm = DF_DOUBLING};
  df_stage s;
  run_empty(&s, 0);
  OK(df_plan_switch_ask(s.context, COLL, &spec));
  df_rank_lock(&s.context->lock);
  const df_plan_switch *plan_switch = df_find(s.context, COLL)->plan_switch;
  const uint64_t number = plan_switch->number;
  df_rank_unlock(&s.context->lock);
  for (int i = 0; i < 2; i++)
    say(&s, (df_message){.kind = DF_MESSAGE_READY, .id = COLL, .variant = number, .a = 5}, "", 0);
  df_rank_lock(&s.context->lock);
  CHECK(plan_switch->asks && !plan_switch->has_answered, "rank 0 itself has not answered");
  CHECK(plan_switch->answers == 1, "%u answers", plan_switch->answers);
  df_rank_unlock(&s.context->lock);
  stage_close(&s);
}

DF_TEST(plan_switch, the_variant_in_force_fails, 30) {
  static const char why[] = "it is broken";
  df_stage s;
  run_empty(&s, 1);
  lead_over(&s, 6, 0);
  run_on(&s, 8);
  df_rank_lock(&s.context->lock);
  const df_coll *registered = df_find(s.context, COLL), *parked = registered->plan_switch->current;
  CHECK(parked && registered->exec.plan->key.algorithm == DF_DOUBLING, "it has not gone over");
  df_rank_unlock(&s.context->lock);
  say(&s,
      (df_message){.kind = DF_MESSAGE_FAIL, .id = COLL, .variant = VARIANT, .a = dfcclRemoteError},
      why, sizeof why);
  df_rank_lock(&s.context->lock);
  CHECK(registered->failure.failed != dfcclSuccess, "it goes on");
  CHECK(registered->exec.device.descriptor->words->cancel != 0, "the daemon goes on");
  CHECK(parked->exec.device.descriptor->words->cancel == 0,
        "what it was registered with is cancelled");
  df_rank_unlock(&s.context->lock);
  stage_close(&s);
}

static const char *purpose_of(const df_stage *s) {
  df_rank_lock(&s->context->lock);
  const char *purpose = df_switch_state_of(df_find(s->context, COLL)).purpose;
  df_rank_unlock(&s->context->lock);
  return purpose;
}

static void say_purpose(const df_stage *s, uint64_t variant, df_purpose purpose) {
  say(s, (df_message){.kind = DF_MESSAGE_PURPOSE, .id = COLL, .variant = variant, .a = purpose}, "",
      0);
}

DF_TEST(plan_switch, a_member_receives_the_purpose_of_a_switch, 30) {
  const df_variant_spec back = {.algorithm = DF_AS_REGISTERED}, spec = {.algorithm = DF_DOUBLING};
  df_stage s;
  run_empty(&s, 1);
  CHECK(strcmp(purpose_of(&s), "registered") == 0, "%s", purpose_of(&s));
  say(&s,
      (df_message){
          .kind = DF_MESSAGE_PROPOSE, .id = COLL, .variant = VARIANT, .a = DF_PURPOSE_CANDIDATE},
      &spec, sizeof spec);
  announce(&s, VARIANT, 1, 0);
  say(&s, (df_message){.kind = DF_MESSAGE_COMMIT, .id = COLL, .variant = VARIANT, .a = 6}, "", 0);
  say_purpose(&s, VARIANT, DF_PURPOSE_ADOPTED);
  CHECK(strcmp(purpose_of(&s), "registered") == 0, "%s, and it is not there yet", purpose_of(&s));
  run_on(&s, 8);
  CHECK(strcmp(purpose_of(&s), "candidate") == 0, "%s", purpose_of(&s));
  say_purpose(&s, VARIANT + 1, DF_PURPOSE_CHECK);
  CHECK(strcmp(purpose_of(&s), "candidate") == 0, "%s, of another switch", purpose_of(&s));
  say_purpose(&s, VARIANT, DF_PURPOSE_ADOPTED);
  CHECK(strcmp(purpose_of(&s), "adopted") == 0, "%s", purpose_of(&s));
  say(&s,
      (df_message){
          .kind = DF_MESSAGE_PROPOSE, .id = COLL, .variant = VARIANT + 1, .a = DF_PURPOSE_BACK},
      &back, sizeof back);
  say(&s, (df_message){.kind = DF_MESSAGE_CANCEL, .id = COLL, .variant = VARIANT + 1}, "", 0);
  CHECK(strcmp(purpose_of(&s), "adopted") == 0, "%s, of what was called off", purpose_of(&s));
  stage_close(&s);
}

DF_TEST(plan_switch, a_leader_reports_why_a_plan_stays, 30) {
  const df_variant_spec same = {.algorithm = DF_AS_REGISTERED};
  df_stage s;
  run_empty(&s, 0);
  df_rank_lock(&s.context->lock);
  df_coll *registered = df_find(s.context, COLL);
  CHECK(df_plan_switch_of(registered) != NULL, "no memory");
  df_plan_switch_keep(s.context, registered, DF_PURPOSE_ADOPTED);
  df_rank_unlock(&s.context->lock);
  CHECK(strcmp(purpose_of(&s), "registered") == 0, "%s, without a switch", purpose_of(&s));
  OK(df_plan_switch_ask(s.context, COLL, &same));
  const uint64_t number = registered->plan_switch->number;
  say(&s, (df_message){.kind = DF_MESSAGE_READY, .id = COLL, .variant = number, .a = 6}, "", 0);
  run_on(&s, 8);
  CHECK(strcmp(purpose_of(&s), "asked") == 0, "%s", purpose_of(&s));
  df_rank_lock(&s.context->lock);
  df_plan_switch_keep(s.context, registered, DF_PURPOSE_ADOPTED); /* rank 1 has not gone over */
  df_rank_unlock(&s.context->lock);
  CHECK(strcmp(purpose_of(&s), "asked") == 0, "%s, while a member goes over", purpose_of(&s));
  say(&s, (df_message){.kind = DF_MESSAGE_RETIRED, .id = COLL, .variant = number}, "", 0);
  df_rank_lock(&s.context->lock);
  df_plan_switch_keep(s.context, registered, DF_PURPOSE_ADOPTED);
  df_rank_unlock(&s.context->lock);
  CHECK(strcmp(purpose_of(&s), "adopted") == 0, "%s", purpose_of(&s));
  CHECK(stage_has_received(&s, 1, DF_MESSAGE_PURPOSE, COLL), "rank 1 is not notified");
  stage_close(&s);
}
