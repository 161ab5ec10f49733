/*
 * Promises of src/tuning/reasons.h:
 *   - Each code is the reason of at least one question's decision, and the explanation has its
 *     sentence. The codes that only a GPU's configuration can have are marked here.
 *   - No code is unreachable: the table of questions below has all codes.
 */
#include "tuning/reasons.h"

#include <stdio.h>
#include <string.h>

#include "plans/algorithms/piece_tables.h"
#include "support/harness.h"
#include "tuning/configuration.h"

enum { CORES_FOR_ALL = 64, KB = 1024, MB = 1024 * 1024 };

typedef struct asked {
  df_tuning tuning;
  df_topology topology;
  df_advice advice;
  df_configuration_question question;
  int has_extents, lends_nothing; /* as a per-piece table, or a file, would have */
} asked;

/* ---- properties of a question in addition to operation, ranks and bytes ---- */

static void on_gpu(asked *a) {
  a->question.on_gpu = 1;
  a->question.choice.on_gpu = 1;
  a->question.host_sees_links = a->question.has_borrowed_turns = 0;
  a->topology.runs_on_cores = 0;
}
static void as_named(asked *a) { a->question.choice.name = "ring"; }
static void on_two_hosts(asked *a) {
  a->question.choice.hosts = 2;
  a->question.choice.smallest_host = a->question.choice.largest_host = a->question.choice.n / 2;
  a->question.choice.neighbours = a->question.choice.n / 2;
}
static void not_commuting(asked *a) { a->question.choice.ordered = 1; }
static void with_advice(asked *a, df_form_choice form) {
  a->advice = (df_advice){
      .kind = DF_ADVICE_TAKEN, .algorithm = DF_RING, .form = form, .source = "a plugin"};
  a->question.choice.advice = &a->advice;
}
static void advised_simple(asked *a) { with_advice(a, DF_FORM_STAGED); }
static void advised_ll(asked *a) { with_advice(a, DF_FORM_FLAGGED); }
static void varying(asked *a) { a->question.varying = a->question.choice.varying = 1; }
static void on_one_core(asked *a) {
  a->topology.n_cores = 1;
  a->question.choice.oversubscribed = 1;
}
static void on_hosts_of_its_own(asked *a) {
  a->question.choice.hosts = a->question.choice.n;
  a->question.choice.smallest_host = a->question.choice.largest_host = 1;
}
static void with_pieces_between_hosts(asked *a) {
  on_two_hosts(a);
  a->has_extents = 1;
  a->tuning.policy.ring_bytes = 0;
}
static void without_rings_to_grow(asked *a) { a->tuning.policy.ring_bytes = 0; }
static void without_lending(asked *a) { a->tuning.policy.lend = 0; }
static void of_a_rule_that_copies(asked *a) {
  static const char rule[] = DF_TUNING_HEADER "\nallreduce * * any ring copies=1\n";
  char sentence[300];
  CHECK(df_tuning_parse(&a->tuning, rule, strlen(rule), "table", sentence, sizeof sentence), "%s",
        sentence);
}
static void of_a_file(asked *a) { a->lends_nothing = 1; }
static void without_borrowed_turns(asked *a) { a->tuning.policy.borrowed_turn_max = 0; }
static void with_four_blocks(asked *a) {
  a->question.max_blocks = 4;
  a->tuning.policy.block_min = 64;
}

/* ---- the questions ---- */

static const struct {
  df_reason reason;
  df_operation operation;
  uint32_t ranks;
  uint64_t bytes;
  void (*change)(asked *a);
  int is_of_gpu; /* only a GPU's configuration has this reason */
} questions[] = {
    {DF_REASON_SOURCE_RULE, DF_OP_ALL_REDUCE, 4, KB, NULL, 0},
    {DF_REASON_SOURCE_NAME, DF_OP_ALL_REDUCE, 4, KB, as_named, 0},
    {DF_REASON_SOURCE_HOSTS, DF_OP_ALL_REDUCE, 8, KB, on_two_hosts, 0},
    {DF_REASON_SOURCE_ORDER, DF_OP_REDUCE, 4, KB, not_commuting, 0},
    {DF_REASON_SOURCE_ONLY, DF_OP_ALL_TO_ALL_V, 4, KB, NULL, 0},
    {DF_REASON_SOURCE_PLUGIN, DF_OP_ALL_REDUCE, 4, KB, advised_simple, 0},
    {DF_REASON_FORM_COUNT, DF_OP_ALL_REDUCE, 4, KB, varying, 0},
    {DF_REASON_FORM_SIMPLE, DF_OP_ALL_REDUCE, 4, KB, advised_simple, 0},
    {DF_REASON_FORM_LL, DF_OP_ALL_REDUCE, 4, KB, advised_ll, 0},
    {DF_REASON_FORM_WORDS, DF_OP_ALL_REDUCE, 4, KB, on_gpu, 1},
    {DF_REASON_FORM_FLAGGED, DF_OP_ALL_REDUCE, 4, KB, NULL, 0},
    {DF_REASON_FORM_STAGED, DF_OP_ALL_REDUCE, 4, MB, NULL, 0},
    {DF_REASON_RINGS_AGREED, DF_OP_ALL_REDUCE, 4, MB, without_rings_to_grow, 0},
    {DF_REASON_RINGS_CREDITS, DF_OP_ALL_REDUCE, 4, MB, with_pieces_between_hosts, 0},
    {DF_REASON_RINGS_AHEAD, DF_OP_BROADCAST, 4, 256, NULL, 0},
    {DF_REASON_RINGS_CACHES, DF_OP_ALL_REDUCE, 2, 64 * KB, NULL, 0},
    {DF_REASON_LEND_OFF, DF_OP_ALL_REDUCE, 4, MB, without_lending, 0},
    {DF_REASON_LEND_COPIES, DF_OP_ALL_REDUCE, 4, MB, of_a_rule_that_copies, 0},
    {DF_REASON_LEND_LL, DF_OP_ALL_REDUCE, 4, MB, advised_ll, 0},
    {DF_REASON_LEND_FILE, DF_OP_ALL_REDUCE, 4, MB, of_a_file, 0},
    {DF_REASON_LEND_WORDS, DF_OP_ALL_REDUCE, 4, KB, on_gpu, 1},
    {DF_REASON_LEND_AHEAD, DF_OP_BROADCAST, 4, 64 * KB, on_one_core, 0},
    {DF_REASON_LEND_SHORT, DF_OP_ALL_REDUCE, 4, KB, NULL, 0},
    {DF_REASON_LEND_ROUND_TRIP, DF_OP_ALL_REDUCE, 2, MB, on_hosts_of_its_own, 0},
    {DF_REASON_LEND_LONG, DF_OP_ALL_REDUCE, 4, MB, NULL, 0},
    {DF_REASON_STORES_SMALL, DF_OP_ALL_REDUCE, 4, KB, NULL, 0},
    {DF_REASON_STORES_OVERWRITES, DF_OP_BROADCAST, 4, 64 * MB, NULL, 0},
    {DF_REASON_STORES_OUT_OF_PLACE, DF_OP_ALL_REDUCE, 4, 64 * MB, NULL, 0},
    {DF_REASON_TURNS_SHORT, DF_OP_BROADCAST, 4, 256, NULL, 0},
    {DF_REASON_TURNS_OFF, DF_OP_BROADCAST, 4, 256, without_borrowed_turns, 0},
    {DF_REASON_TURNS_DEVICE, DF_OP_BROADCAST, 4, 256, on_gpu, 1},
    {DF_REASON_TURNS_BLOCKS, DF_OP_BROADCAST, 4, KB, with_four_blocks, 0},
    {DF_REASON_TURNS_BYTES, DF_OP_BROADCAST, 4, 8 * KB, NULL, 0},
    {DF_REASON_TURNS_STEPS, DF_OP_ALL_REDUCE, 64, 64, as_named, 0},
};

static void ask(asked *a, size_t i) {
  const uint32_t n = questions[i].ranks;
  *a = (asked){.topology = {.runs_on_cores = 1, .n_cores = CORES_FOR_ALL}};
  df_tuning_default(&a->tuning);
  a->question = (df_configuration_question){
      .tuning = &a->tuning,
      .topology = &a->topology,
      .choice = {.operation = questions[i].operation,
                 .n = n,
                 .bytes = df_larger_buffer(questions[i].operation, n, questions[i].bytes, 1),
                 .memory = DF_MEMORY_PROCESS,
                 .hosts = 1,
                 .smallest_host = n,
                 .largest_host = n},
      .count = questions[i].bytes,
      .element_bytes = 1,
      .max_blocks = 1,
      .host_sees_links = 1,
      .has_borrowed_turns = 1};
  if (questions[i].change) questions[i].change(a);
}

static df_plan *plan_of(const asked *a, const df_choice *choice) {
  const df_plan_key key = {.operation = a->question.choice.operation,
                           .algorithm = choice->algorithm,
                           .n = a->question.choice.n,
                           .split = choice->split};
  const df_list_item items[] = {{1, 0, 10}, {2, 10, 10}, {3, 20, 10}};
  const df_lists lists = {.sends = items, .receives = items, .n_sends = 3, .n_receives = 3};
  df_plan *plan = df_operation_has_piece_table(key.operation)
                      ? df_plan_make_piece_table(&key, &lists, choice->slot_bytes)
                      : df_plan_make(&key);
  CHECK(plan != NULL, "no memory");
  return plan;
}

/* The stored reason of the decision to which `reason` belongs. */
static df_reason stored(const df_configuration *m, const df_ring *ring, df_reason reason) {
  return reason <= DF_REASON_SOURCE_PLUGIN         ? m->reasons.source
         : reason <= DF_REASON_FORM_STAGED         ? m->reasons.form
         : reason <= DF_REASON_RINGS_CACHES        ? (df_reason)ring->reason
         : reason <= DF_REASON_LEND_LONG           ? m->reasons.lend
         : reason <= DF_REASON_STORES_OUT_OF_PLACE ? m->reasons.stores
                                                   : m->reasons.turns;
}

static const char *const sentences[] = {
#define X(code, sentence) sentence,
    DF_REASON_MAP(X)
#undef X
};

/* A number follows the first half of the sentence. */
static void expect_sentence(const char *why, df_reason reason) {
  char start[200];
  snprintf(start, sizeof start, "since %.*s", (int)strcspn(sentences[reason], "%"),
           sentences[reason]);
  CHECK(strstr(why, start) != NULL, "%s: \"%s\" is not in \"%s\"", df_reason_name(reason), start,
        why);
}

static void check_question(size_t i) {
  static asked a;
  static df_extent none;
  static char why[8192];
  df_configuration m;
  const df_reason reason = questions[i].reason;
  ask(&a, i);
  CHECK(df_configuration_choose(&m, &a.question), "%s: no algorithm", df_reason_name(reason));
  df_plan *plan = plan_of(&a, &m.choice);
  df_extent *extents = plan->extents;
  if (a.has_extents) plan->extents = &none;
  if (a.lends_nothing) plan->lends_nothing = 1;
  df_configuration_decide(&m, &a.question, plan);
  const df_ring ring = df_configuration_ring(&m, &a.question, plan, 0);
  CHECK(stored(&m, &ring, reason) == reason, "%s was expected, and the reason is %s",
        df_reason_name(reason), df_reason_name(stored(&m, &ring, reason)));
  df_configuration_explain(&m, &a.question, plan, &ring, why, sizeof why);
  expect_sentence(why, reason);
  plan->extents = extents;
  df_plan_free(plan);
  CHECK(a.question.on_gpu == questions[i].is_of_gpu, "%s: another device than marked",
        df_reason_name(reason));
}

DF_TEST(reasons, each_has_a_question_and_its_sentence, 30) {
  for (size_t i = 0; i < DF_COUNT_OF(questions); i++) check_question(i);
}

DF_TEST(reasons, none_is_unreachable, 30) {
  for (int reason = 0; reason < DF_REASONS; reason++) {
    int found = 0;
    for (size_t i = 0; i < DF_COUNT_OF(questions); i++) found |= (int)questions[i].reason == reason;
    CHECK(found, "no question yields %s", df_reason_name((df_reason)reason));
  }
}
