/*
 * In each round a member sends the next chunk to all for whom there is one, and then receives. With
 * two slots nobody waits in a circle: who waits for a slot waits for a receiver that is two rounds
 * behind, and who waits for a message waits for a sender that is behind, or still sends.
 */
#include "plans/listed.h"

#include <stdlib.h>

#include "plans/build.h"

static uint64_t chunks_of(const df_list_item *item, uint32_t chunk) {
  return DF_DIV_UP(item->count, (uint64_t)chunk);
}

uint64_t df_lists_steps(const df_lists *lists, uint32_t chunk) {
  uint64_t steps = 0;
  for (uint32_t i = 0; i < lists->n_sends; i++) steps += chunks_of(&lists->sends[i], chunk);
  for (uint32_t i = 0; i < lists->n_receives; i++) steps += chunks_of(&lists->receives[i], chunk);
  return steps;
}

/* Where a chunk of an item lies, or DF_PIECE_NONE if it has none. Equal places have one number, so
 * that what goes to several peers may go through common slots. */
static uint32_t piece_of(df_plan *plan, const df_list_item *item, uint64_t round, int output,
                         uint32_t from, uint32_t to) {
  const uint64_t start = round * plan->chunk;
  if (start >= item->count || plan->failed) return DF_PIECE_NONE;
  const df_extent extent = {.at = item->at + start,
                            .elements =
                                (uint32_t)DF_MIN(item->count - start, (uint64_t)plan->chunk)};
  if (plan->n_extents > 0) {
    const df_extent *last = &plan->extents[plan->n_extents - 1];
    const df_plan_name *name = &plan->names[plan->n_extents - 1];
    if (last->at == extent.at && last->elements == extent.elements && name->output == output)
      return plan->n_extents - 1;
  }
  plan->extents[plan->n_extents] = extent;
  plan->names[plan->n_extents] =
      (df_plan_name){.from = from, .to = to, .chunk = (uint32_t)round, .output = output};
  return plan->n_extents++;
}

static const df_list_item *item_of(const df_list_item *items, uint32_t n, uint32_t peer) {
  for (uint32_t i = 0; i < n; i++)
    if (items[i].peer == peer) return &items[i];
  return NULL;
}

static void copy_own(df_plan *plan, const df_lists *lists) {
  const uint32_t r = plan->key.position;
  const df_list_item *from = item_of(lists->sends, lists->n_sends, r);
  const df_list_item *to = item_of(lists->receives, lists->n_receives, r);
  for (uint64_t round = 0; from && to && round < chunks_of(from, plan->chunk); round++) {
    const uint32_t input = piece_of(plan, from, round, 0, r, r);
    const uint32_t output = piece_of(plan, to, round, 1, r, r);
    df_plan_copy(plan, 0, input, DF_NO_PEER, df_input(input), df_output(output));
  }
}

static void receive(df_plan *plan, const df_lists *lists, uint64_t round) {
  const uint32_t r = plan->key.position;
  for (uint32_t i = 0; i < lists->n_receives; i++) {
    const df_list_item *item = &lists->receives[i];
    if (item->peer == r) continue;
    const uint32_t piece = piece_of(plan, item, round, 1, item->peer, r);
    if (piece != DF_PIECE_NONE)
      df_plan_receive(plan, piece, item->peer, DF_NO_PEER, df_output(piece));
  }
}

/* The items differ in their peers only. */
static void collect(df_plan *plan, const df_lists *lists, uint64_t round) {
  const uint32_t r = plan->key.position;
  const df_list_item *own = item_of(lists->sends, lists->n_sends, r);
  const df_list_item *result = item_of(lists->receives, lists->n_receives, r);
  if (own == NULL || result == NULL) return;
  const uint32_t input = piece_of(plan, own, round, 0, r, r);
  const uint32_t output = piece_of(plan, result, round, 1, r, r);
  if (output == DF_PIECE_NONE || input == DF_PIECE_NONE) return;
  df_place with = df_input(input);
  for (uint32_t i = 0, left = lists->n_receives - 1; i < lists->n_receives; i++) {
    const uint32_t from = lists->receives[i].peer;
    if (from == r) continue;
    const int last = --left == 0;
    df_plan_reduce(plan, last ? df_plan_average(plan) : 0, input, from, DF_NO_PEER, with,
                   last ? df_output(output) : df_scratch(0));
    with = df_scratch(0);
  }
}

static void build(df_plan *plan, const df_lists *lists) {
  const uint32_t r = plan->key.position;
  const int reduces = df_operation_reduces(plan->key.operation) && plan->key.n > 1;
  uint64_t rounds = 0;
  for (uint32_t i = 0; i < lists->n_sends; i++)
    rounds = DF_MAX(rounds, chunks_of(&lists->sends[i], plan->chunk));
  for (uint32_t i = 0; i < lists->n_receives; i++)
    rounds = DF_MAX(rounds, chunks_of(&lists->receives[i], plan->chunk));
  for (uint64_t round = 0; round < rounds; round++) {
    for (uint32_t i = 0; i < lists->n_sends; i++) {
      const df_list_item *item = &lists->sends[i];
      if (item->peer == r) continue;
      const uint32_t piece = piece_of(plan, item, round, 0, r, item->peer);
      if (piece != DF_PIECE_NONE) df_plan_send(plan, piece, item->peer, df_input(piece));
    }
    if (reduces)
      collect(plan, lists, round);
    else
      receive(plan, lists, round);
  }
  if (!reduces) copy_own(plan, lists);
}

df_plan *df_plan_make_listed(const df_plan_key *key, const df_lists *lists, uint32_t chunk) {
  const uint64_t most = df_lists_steps(lists, chunk);
  df_plan *plan = calloc(1, sizeof *plan);
  if (plan == NULL) return NULL;
  DF_ASSERT(most <= DF_LISTS_MOST_STEPS);
  plan->key = *key;
  plan->geometry = DF_GEOMETRY_LISTED;
  plan->chunk = chunk;
  plan->pieces = plan->longest = 1;
  plan->scratch_pieces = df_operation_reduces(key->operation) && key->n > 2;
  plan->direct_in_place = 1;
  plan->extents = calloc(most + 1, sizeof *plan->extents);
  plan->names = calloc(most + 1, sizeof *plan->names);
  plan->channels = 1;
  plan->link_of = calloc(2 * (size_t)key->n, sizeof *plan->link_of);
  plan->failed = plan->extents == NULL || plan->names == NULL || plan->link_of == NULL;
  build(plan, lists);
  free(plan->link_of);
  plan->link_of = NULL;
  if (plan->failed) {
    df_plan_free(plan);
    return NULL;
  }
  df_plan_mark_common(plan);
  return plan;
}
