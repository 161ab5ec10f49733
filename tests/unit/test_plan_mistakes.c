/*
 * Promise of plans/check/check.h: the checker finds mistakes that are planted in each way in which
 * a plan can be wrong, and its sentence describes the mistake.
 */
#include <string.h>

#include "group_plans.h"

typedef struct mistake {
  const char *what, *sentence;
  df_operation operation;
  int algorithm;
  uint32_t n;
  int in_place;
  df_plan_lending lending;
  void (*plant)(group_plans *g);
} mistake;

static df_primitive *last_with(df_plan *plan, uint32_t flags) {
  for (uint32_t i = plan->n_primitives; i > 0; i--)
    if ((plan->primitives[i - 1].flags & flags) == flags) return &plan->primitives[i - 1];
  CHECK(0, "no such primitive to spoil");
  return NULL;
}
static df_primitive *first_with(df_plan *plan, uint32_t flags) {
  for (uint32_t i = 0; i < plan->n_primitives; i++)
    if ((plan->primitives[i].flags & flags) == flags) return &plan->primitives[i];
  CHECK(0, "no such primitive to spoil");
  return NULL;
}

static void forget_a_contribution(group_plans *g) {
  df_primitive *p = first_with(g->plans[2], DF_PRIM_RECV | DF_PRIM_REDUCE);
  p->flags &= (uint8_t)~DF_PRIM_REDUCE;
}
static void count_twice(group_plans *g) { /* sends on what it got, instead of its own */
  df_primitive *p = first_with(g->plans[1], DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_STORE);
  p->destination = DF_BUFFER_OUTPUT;
  df_primitive again = *p;
  again.source = DF_BUFFER_OUTPUT;
  again.flags &= (uint8_t)~DF_PRIM_RECV;
  again.source_piece = p->source_piece;
  again.flags |= DF_PRIM_SOURCE_FIRST; /* meaningless without a message */
  g->plans[1]->primitives[p - g->plans[1]->primitives + 1] = again;
}
static void combine_with_a_piece_beyond(group_plans *g) {
  df_primitive *p = first_with(g->plans[1], DF_PRIM_RECV | DF_PRIM_REDUCE);
  p->flags = DF_PRIM_REDUCE | DF_PRIM_STORE;
  p->destination = DF_BUFFER_OUTPUT;
  p->destination_piece = (uint16_t)g->n;
}
static void wrong_piece(group_plans *g) {
  df_primitive *p = last_with(g->plans[1], DF_PRIM_RECV | DF_PRIM_STORE);
  p->destination_piece = (uint16_t)((p->destination_piece + 1) % g->n);
}
static void no_such_buffer(group_plans *g) {
  last_with(g->plans[1], DF_PRIM_STORE)->destination = DF_BUFFER_SCRATCH + 1;
}
static void no_such_link(group_plans *g) {
  last_with(g->plans[1], DF_PRIM_SEND)->send_link = (uint16_t)g->plans[1]->n_links;
}
static void link_the_other_way(group_plans *g) {
  df_primitive *p = first_with(g->plans[1], DF_PRIM_RECV | DF_PRIM_SEND);
  p->recv_link = p->send_link;
}
static void piece_beyond(group_plans *g) {
  last_with(g->plans[1], DF_PRIM_STORE)->destination_piece = (uint16_t)g->n;
}
static void lost_message(group_plans *g) {
  df_primitive *p = last_with(g->plans[0], DF_PRIM_SEND);
  p->flags &= (uint8_t)~DF_PRIM_SEND;
}
static void swapped_messages(group_plans *g) { /* receives before it sends, everywhere */
  for (uint32_t r = 0; r < g->n; r++) {
    df_primitive *p = g->plans[r]->primitives, first = p[0];
    CHECK((p[0].flags & DF_PRIM_SEND) && (p[1].flags & DF_PRIM_RECV), "another plan");
    p[0] = p[1];
    p[1] = first;
  }
}
static void wrong_number(group_plans *g) { last_with(g->plans[0], DF_PRIM_SEND)->send_ordinal++; }
static void expect_wrong_number(group_plans *g) {
  last_with(g->plans[0], DF_PRIM_RECV)->recv_ordinal++;
}
static void wrong_length(group_plans *g) {
  df_primitive *p = first_with(g->plans[0], DF_PRIM_SEND);
  p->piece = p->source_piece = (uint16_t)((p->piece + 1) % g->n);
}
static void read_before_written(group_plans *g) {
  df_primitive *p = first_with(g->plans[0], DF_PRIM_SEND);
  p->source = DF_BUFFER_OUTPUT;
  p->source_piece = p->piece;
}
static void store_to_input(group_plans *g) {
  last_with(g->plans[0], DF_PRIM_STORE)->destination = DF_BUFFER_INPUT;
}
static void lend_in_place(group_plans *g) {
  for (uint32_t r = 0; r < g->n; r++) g->plans[r]->direct_in_place = 1;
}
/* Partial sums in the output: lent, and overwritten by the next round. */
static void lend_partial_sums(group_plans *g) {
  for (uint32_t r = 0; r < g->n; r++)
    for (uint32_t i = 0; i < g->plans[r]->n_primitives; i++) {
      df_primitive *p = &g->plans[r]->primitives[i];
      if (p->source == DF_BUFFER_SCRATCH) p->source = DF_BUFFER_OUTPUT;
      if (p->destination == DF_BUFFER_SCRATCH) p->destination = DF_BUFFER_OUTPUT;
    }
}
static void own_operand_first(group_plans *g) {
  for (uint32_t r = 0; r < g->n; r++)
    for (uint32_t i = 0; i < g->plans[r]->n_primitives; i++)
      if (g->plans[r]->primitives[i].flags & DF_PRIM_REDUCE)
        g->plans[r]->primitives[i].flags |= DF_PRIM_SOURCE_FIRST;
}
static void divide_twice(group_plans *g) {
  for (uint32_t i = 0; i < g->plans[0]->n_primitives; i++)
    if (g->plans[0]->primitives[i].flags & DF_PRIM_REDUCE)
      g->plans[0]->primitives[i].flags |= DF_PRIM_AVERAGE;
}
static void never_divide(group_plans *g) {
  for (uint32_t r = 0; r < g->n; r++) g->plans[r]->key.average = 1;
}
static void divide_everything(group_plans *g) {
  for (uint32_t r = 0; r < g->n; r++)
    for (uint32_t i = 0; i < g->plans[r]->n_primitives; i++)
      g->plans[r]->primitives[i].flags |= DF_PRIM_AVERAGE;
}
static void send_another_piece(group_plans *g) { /* under the number of the right one */
  df_primitive *p = first_with(g->plans[0], DF_PRIM_SEND);
  p->source_piece = (uint16_t)((p->source_piece + 1) % g->n);
}
static void combine_another_piece(group_plans *g) {
  df_primitive *p = first_with(g->plans[0], DF_PRIM_RECV | DF_PRIM_REDUCE);
  p->source_piece = (uint16_t)((p->source_piece + 1) % g->n);
}
static void lend_without_storing(group_plans *g) {
  first_with(g->plans[1], DF_PRIM_RECV | DF_PRIM_STORE | DF_PRIM_SEND)->flags &=
      (uint8_t)~DF_PRIM_STORE;
}
static void lend_a_place_beyond(group_plans *g) {
  df_primitive *p = first_with(g->plans[1], DF_PRIM_RECV | DF_PRIM_STORE | DF_PRIM_SEND);
  p->flags &= (uint8_t)~DF_PRIM_STORE;
  p->destination_piece = (uint16_t)g->n;
}
static void divide_a_contribution(group_plans *g) {
  first_with(g->plans[1], DF_PRIM_SEND)->flags |= DF_PRIM_AVERAGE;
}
static void send_a_piece_beyond(group_plans *g) {
  first_with(g->plans[0], DF_PRIM_SEND)->piece = (uint16_t)g->n;
}
static void send_what_only_the_root_has(group_plans *g) {
  first_with(g->plans[1], DF_PRIM_SEND)->source = DF_BUFFER_OUTPUT;
}
static void link_to_nobody(group_plans *g) { g->plans[1]->links[0].peer = (uint16_t)g->n; }
static void do_nothing(group_plans *g) { g->plans[0]->n_primitives = 0; }
static void link_to_oneself(group_plans *g) { g->plans[1]->links[0].peer = 1; }
static void plan_more_messages(group_plans *g) { g->plans[1]->links[0].messages++; }
static void other_scratch(group_plans *g) { g->plans[1]->scratch_pieces++; }
static void other_pieces(group_plans *g) { g->plans[1]->pieces++; }
static uint32_t peer_of(const df_plan *plan, const df_primitive *p) {
  if (!(p->flags & (DF_PRIM_RECV | DF_PRIM_SEND))) return UINT32_MAX;
  return plan->links[p->flags & DF_PRIM_RECV ? p->recv_link : p->send_link].peer;
}
/* All sends of a round before its receives: two slots are too few for more than two messages. */
static void send_all_first(group_plans *g) {
  for (uint32_t r = 0; r < g->n; r++) {
    df_plan *plan = g->plans[r];
    for (uint32_t i = 1; i < plan->n_primitives; i++)
      for (uint32_t k = i; k > 0; k--) { /* sends move up within their round */
        df_primitive *p = &plan->primitives[k];
        if (!(p[0].flags & DF_PRIM_SEND) || !(p[-1].flags & DF_PRIM_RECV)) break;
        if (peer_of(plan, &p[0]) != peer_of(plan, &p[-1])) break;
        df_primitive moved = p[0];
        p[0] = p[-1];
        p[-1] = moved;
      }
  }
}

static df_primitive *first_wide(df_plan *plan, uint32_t flags) {
  for (uint32_t i = 0; i < plan->n_primitives; i++)
    if (plan->primitives[i].pieces > 1 && (plan->primitives[i].flags & flags) == flags)
      return &plan->primitives[i];
  CHECK(0, "no message of several pieces");
  return NULL;
}
static void one_piece_fewer(group_plans *g) { first_wide(g->plans[0], DF_PRIM_SEND)->pieces--; }
static void longer_than_agreed(group_plans *g) {
  for (uint32_t r = 0; r < g->n; r++) g->plans[r]->longest = 1;
}
static void another_stride(group_plans *g) { first_wide(g->plans[0], DF_PRIM_SEND)->stride = 2; }
static void other_longest(group_plans *g) { g->plans[1]->longest++; }
/* A copy from pieces 0 and 1 to pieces 1 and 2. */
static void copy_onto_itself(group_plans *g) {
  for (uint32_t r = 0; r < g->n; r++) {
    df_plan *plan = g->plans[r];
    df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_STORE,
                                     .pieces = 2,
                                     .stride = 1,
                                     .source = DF_BUFFER_OUTPUT,
                                     .destination = DF_BUFFER_OUTPUT,
                                     .destination_piece = 1});
  }
}

static const mistake mistakes[] = {
    {"a message has a piece fewer than its receiver expects", "in one message", DF_OP_ALL_GATHER,
     DF_BRUCK, 8, 0, DF_LENDS_NOTHING, one_piece_fewer},
    {"a message is longer than members agreed", "the longest has 1", DF_OP_ALL_GATHER, DF_BRUCK, 8,
     0, DF_LENDS_NOTHING, longer_than_agreed},
    {"members disagree on the longest message", "another way", DF_OP_ALL_GATHER, DF_BRUCK, 8, 0,
     DF_LENDS_NOTHING, other_longest},
    {"a message has other pieces than its receiver expects", "as piece", DF_OP_ALL_REDUCE,
     DF_RABENSEIFNER, 8, 0, DF_LENDS_NOTHING, another_stride},
    {"pieces are copied onto each other", "the same message reads", DF_OP_ALL_GATHER, DF_BRUCK, 8,
     0, DF_LENDS_NOTHING, copy_onto_itself},
    {"a contribution is forgotten", "instead of", DF_OP_ALL_REDUCE, DF_RING, 4, 0, DF_LENDS_NOTHING,
     forget_a_contribution},
    {"a contribution counts twice", "twice", DF_OP_ALL_REDUCE, DF_ALL_PAIRS, 4, 0, DF_LENDS_NOTHING,
     count_twice},
    {"a piece goes to a wrong place", "instead of", DF_OP_ALL_GATHER, DF_DIRECT, 5, 0,
     DF_LENDS_NOTHING, wrong_piece},
    {"a piece that is none", "which has", DF_OP_ALL_GATHER, DF_BRUCK, 5, 0, DF_LENDS_NOTHING,
     piece_beyond},
    {"a buffer that is none", "no buffer", DF_OP_ALL_GATHER, DF_DIRECT, 5, 0, DF_LENDS_NOTHING,
     no_such_buffer},
    {"a link that does not exist", "does not send", DF_OP_ALL_REDUCE, DF_RING, 4, 0,
     DF_LENDS_NOTHING, no_such_link},
    {"a link is used the other way", "does not receive", DF_OP_ALL_REDUCE, DF_RING, 4, 0,
     DF_LENDS_NOTHING, link_the_other_way},
    {"a message is not sent", "waits for ever", DF_OP_BROADCAST, DF_BINOMIAL, 6, 0,
     DF_LENDS_NOTHING, lost_message},
    {"everybody receives first", "waits for ever", DF_OP_ALL_REDUCE, DF_DOUBLING, 2, 0,
     DF_LENDS_NOTHING, swapped_messages},
    {"a message has a wrong number", "out of turn", DF_OP_ALL_TO_ALL, DF_PAIRWISE, 3, 0,
     DF_LENDS_NOTHING, wrong_number},
    {"a message is expected under a wrong number", "receives out of turn", DF_OP_ALL_TO_ALL,
     DF_PAIRWISE, 3, 0, DF_LENDS_NOTHING, expect_wrong_number},
    {"a message is longer than expected", "as piece", DF_OP_ALL_REDUCE, DF_DIRECT, 4, 0,
     DF_LENDS_NOTHING, wrong_length},
    {"something is read before it is written", "never written", DF_OP_ALL_REDUCE, DF_RING, 4, 0,
     DF_LENDS_NOTHING, read_before_written},
    {"the input is overwritten", "stores to the input", DF_OP_ALL_REDUCE, DF_FLAT, 4, 0,
     DF_LENDS_NOTHING, store_to_input},
    {"in place, the result overwrites what is lent", "overwrites what it has lent",
     DF_OP_ALL_REDUCE, DF_DOUBLING, 4, 1, DF_LENDS_ALL, lend_in_place},
    {"in place, an all-to-all lends", "overwrites what it has lent", DF_OP_ALL_TO_ALL, DF_DIRECT, 4,
     1, DF_LENDS_ALL, lend_in_place},
    {"partial sums are lent", "overwrites what it has lent", DF_OP_ALL_REDUCE, DF_DOUBLING, 8, 0,
     DF_LENDS_ALL, lend_partial_sums},
    {"nothing orders a read before the lender writes", "may be reading", DF_OP_ALL_REDUCE,
     DF_DOUBLING, 3, 0, DF_LENDS_ALL, lend_partial_sums},
    {"ranks combine in different orders", "another order", DF_OP_ALL_REDUCE, DF_DOUBLING, 4, 0,
     DF_LENDS_NOTHING, own_operand_first},
    {"a scan combines in another order", "group's order", DF_OP_SCAN, DF_DOUBLING, 4, 0,
     DF_LENDS_NOTHING, own_operand_first},
    {"a sum is divided before it is complete", "after the division", DF_OP_ALL_REDUCE, DF_FLAT, 4,
     0, DF_LENDS_NOTHING, divide_twice},
    {"an average is not divided", "divided 0 times", DF_OP_REDUCE, DF_FLAT, 4, 0, DF_LENDS_NOTHING,
     never_divide},
    {"every primitive divides", "a second time", DF_OP_ALL_GATHER, DF_RING, 4, 0, DF_LENDS_NOTHING,
     divide_everything},
    {"another piece is sent", "as element", DF_OP_ALL_REDUCE, DF_RING, 4, 0, DF_LENDS_NOTHING,
     send_another_piece},
    {"another piece is combined", "combines elements", DF_OP_REDUCE_SCATTER, DF_DIRECT, 4, 0,
     DF_LENDS_NOTHING, combine_another_piece},
    {"a place is lent and not stored to", "does not hold", DF_OP_ALL_GATHER, DF_RING, 4, 0,
     DF_LENDS_ALL, lend_without_storing},
    {"a place is lent that is none", "which has", DF_OP_ALL_GATHER, DF_RING, 4, 0, DF_LENDS_ALL,
     lend_a_place_beyond},
    {"a piece is combined with one that is none", "which has", DF_OP_ALL_REDUCE, DF_RING, 4, 0,
     DF_LENDS_NOTHING, combine_with_a_piece_beyond},
    {"a contribution is divided", "after the division", DF_OP_ALL_REDUCE, DF_FLAT, 4, 0,
     DF_LENDS_NOTHING, divide_a_contribution},
    {"a piece is sent that is none", "piece 4 of 4", DF_OP_ALL_REDUCE, DF_RING, 4, 0,
     DF_LENDS_NOTHING, send_a_piece_beyond},
    {"a rank sends a result that it has not", "need not have", DF_OP_REDUCE, DF_FLAT, 4, 0,
     DF_LENDS_NOTHING, send_what_only_the_root_has},
    {"a rank has a link to nobody", "a link to 4", DF_OP_ALL_REDUCE, DF_RING, 4, 0,
     DF_LENDS_NOTHING, link_to_nobody},
    {"a rank does nothing", "waits for ever", DF_OP_BROADCAST, DF_FLAT, 2, 0, DF_LENDS_NOTHING,
     do_nothing},
    {"a rank has a link to itself", "a link to 1", DF_OP_ALL_REDUCE, DF_RING, 4, 0,
     DF_LENDS_NOTHING, link_to_oneself},
    {"a link has more messages at one end", "differ in the messages", DF_OP_ALL_REDUCE, DF_RING, 4,
     0, DF_LENDS_NOTHING, plan_more_messages},
    {"ranks have different scratch memory", "another way", DF_OP_ALL_REDUCE, DF_RING, 4, 0,
     DF_LENDS_NOTHING, other_scratch},
    {"ranks cut in different ways", "another way", DF_OP_ALL_REDUCE, DF_RING, 4, 0,
     DF_LENDS_NOTHING, other_pieces},
    {"a round sends everything first", "waits for ever", DF_OP_ALL_GATHER, DF_DOUBLING, 16, 0,
     DF_LENDS_NOTHING, send_all_first},
};

DF_TEST(plan_mistakes, planted_mistakes_are_found, 60) {
  enum { SEVERAL = 5 }; /* the first ones are of messages of several pieces */
  for (size_t i = 0; i < DF_COUNT_OF(mistakes); i++) {
    const mistake *m = &mistakes[i];
    char sentence[DF_SENTENCE_BYTES] = "";
    df_plan_key key = {.operation = m->operation, .algorithm = m->algorithm, .n = m->n};
    df_plan_check_options o = {
        .slots = 2, .loops = 3, .in_place = m->in_place, .lending = m->lending};
    key.cuts.row = i < SEVERAL ? DF_ROW_WHOLE : 1;
    group_plans g = make_group(key);
    CHECK(is_proven(&g, &o, sentence), "without the mistake: %s", sentence);
    m->plant(&g);
    CHECK(!is_proven(&g, &o, sentence), "\"%s\" is not found", m->what);
    CHECK(strstr(sentence, m->sentence) != NULL, "\"%s\" is found as \"%s\"", m->what, sentence);
    drop_group(&g);
  }
}

/* The last round of the settling round is left out on all ranks. */
static void settle_with_some(group_plans *g) {
  for (uint32_t r = 0; r < g->n; r++) {
    df_plan *plan = g->plans[r];
    for (int i = 0; i < 2; i++) {
      const df_primitive *p = &plan->primitives[--plan->n_primitives];
      CHECK(p->piece == DF_PIECE_SETTLES, "another plan");
      plan->links[p->flags & DF_PRIM_SEND ? p->send_link : p->recv_link].messages--;
    }
  }
}
/* One rank reports its data before its last primitive. Its first report has a link of its own. */
static void settle_too_early(group_plans *g) {
  df_primitive *p = g->plans[1]->primitives;
  uint32_t at = 0;
  while (p[at].piece != DF_PIECE_SETTLES) at++;
  const df_primitive report = p[at];
  p[at] = p[at - 1];
  p[at - 1] = report;
}

DF_TEST(plan_mistakes, settling_rounds_that_promise_too_much_are_found, 60) {
  static const struct {
    df_operation operation;
    int algorithm;
    void (*plant)(group_plans *);
    const char *sentence;
  } cases[] = {
      {DF_OP_ALL_REDUCE, DF_RING, settle_with_some, "has its data"},
      {DF_OP_BROADCAST, DF_FLAT, settle_with_some, "has its data"},
      {DF_OP_BARRIER, DF_FLAT, settle_with_some, "has its data"},
      {DF_OP_BROADCAST, DF_FLAT, settle_too_early, "has its data"},
  };
  for (size_t i = 0; i < DF_COUNT_OF(cases); i++) {
    char sentence[DF_SENTENCE_BYTES] = "";
    group_plans g = make_group((df_plan_key){.operation = cases[i].operation,
                                             .algorithm = cases[i].algorithm,
                                             .n = 5,
                                             .settles = 1,
                                             .cuts = {1, 1}});
    const df_plan_check_options o = {.slots = 2, .loops = 2};
    CHECK(is_proven(&g, &o, sentence), "without the mistake: %s", sentence);
    cases[i].plant(&g);
    CHECK(!is_proven(&g, &o, sentence), "mistake %zu is not found", i);
    CHECK(strstr(sentence, cases[i].sentence) != NULL, "%zu is found as \"%s\"", i, sentence);
    drop_group(&g);
  }
}

/* Rank 0 of a scan sends its input again after the copy to the output, which in place is the input.
 * */
static void send_input_again(group_plans *g) {
  last_with(g->plans[0], DF_PRIM_SEND)->source = DF_BUFFER_INPUT;
}
static void copy_result_twice(group_plans *g) {
  df_primitive *send = last_with(g->plans[0], DF_PRIM_SEND);
  send->flags |= DF_PRIM_STORE;
  send->source = DF_BUFFER_INPUT;
  send->destination = DF_BUFFER_OUTPUT;
}

/* Only in place, and only if the operator multiplies inputs: then a value is scaled twice. */
DF_TEST(plan_mistakes, contributions_that_are_scaled_twice_are_found, 60) {
  void (*const plants[])(group_plans *) = {send_input_again, copy_result_twice};
  for (size_t i = 0; i < DF_COUNT_OF(plants); i++) {
    char sentence[DF_SENTENCE_BYTES] = "";
    group_plans g =
        make_group((df_plan_key){.operation = DF_OP_SCAN, .algorithm = DF_DOUBLING, .n = 4});
    df_plan_check_options o = {.slots = 2, .loops = 1, .in_place = 1};
    plants[i](&g);
    CHECK(is_proven(&g, &o, sentence), "without scaling: %s", sentence);
    o.scales = 1;
    CHECK(!is_proven(&g, &o, sentence), "plant %zu is not found", i);
    CHECK(strstr(sentence, "scales a contribution a second time") != NULL, "%s", sentence);
    o.in_place = 0;
    CHECK(is_proven(&g, &o, sentence), "not in place: %s", sentence);
    drop_group(&g);
  }
}

/* A link from rank 0 to rank 1, at both ends. */
static void plan_messages(group_plans *g, uint32_t more) {
  for (uint32_t r = 0; r < 2; r++)
    for (uint32_t i = 0; i < g->plans[r]->n_links; i++)
      if (g->plans[r]->links[i].peer == 1 - r) g->plans[r]->links[i].messages += more;
}
static void one_too_many_is_sent(group_plans *g) { plan_messages(g, UINT32_MAX); }
static void one_too_many_is_received(group_plans *g) {
  plan_messages(g, UINT32_MAX);
  last_with(g->plans[0], DF_PRIM_SEND)->flags &= (uint8_t)~DF_PRIM_SEND;
}
static void one_is_not_received(group_plans *g) { /* the last of rank 1 */
  df_plan *plan = g->plans[1];
  CHECK(plan->primitives[--plan->n_primitives].flags == (DF_PRIM_RECV | DF_PRIM_STORE),
        "another plan");
}
static void one_is_missing(group_plans *g) { plan_messages(g, 1); }

/* In the last loop nothing follows that would be out of turn. */
DF_TEST(plan_mistakes, both_ends_agree_on_too_few_or_too_many_messages, 60) {
  static const struct {
    void (*plant)(group_plans *g);
    const char *sentence;
  } cases[] = {{one_too_many_is_sent, "sends out of turn"},
               {one_too_many_is_received, "receives out of turn"},
               {one_is_not_received, "messages planned"},
               {one_is_missing, "messages planned"}};
  for (size_t i = 0; i < DF_COUNT_OF(cases); i++) {
    char sentence[DF_SENTENCE_BYTES] = "";
    group_plans g =
        make_group((df_plan_key){.operation = DF_OP_ALL_REDUCE, .algorithm = DF_RING, .n = 4});
    df_plan_check_options o = {.slots = 2, .loops = 1};
    cases[i].plant(&g);
    CHECK(!is_proven(&g, &o, sentence), "\"%s\" is not found", cases[i].sentence);
    CHECK(strstr(sentence, cases[i].sentence) != NULL, "%s", sentence);
    drop_group(&g);
  }
}
