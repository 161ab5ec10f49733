/*
 * Plans of vector operations: direct exchange in rounds (Thakur, Rabenseifner and Gropp, IJHPCA
 * 2005, section 4: linear). In each round a member sends the next chunk to all peers for which
 * there is one, and then receives. With two slots no ranks wait in a circle. A rank that waits for
 * a slot waits for a receiver that is two rounds behind. A rank that waits for a message waits for
 * a sender that is behind, or that still sends.
 *
 * A ReduceScatterV with a split sends each piece only once from one subgroup (a host) to another. A
 * chain goes through the members of the subgroup, and each adds its own contribution. The chain
 * ends at the member that has the receiver's place in its subgroup, and this member sends to the
 * receiver. All members execute the same stages: for each distance between subgroups the steps of
 * the chains, each with one message for each link; then the sends to members of the own subgroup;
 * then the receives of this member. Messages and slots wait only for earlier stages. An AllGatherV
 * with a split does the same backwards: a piece goes to the member that has the sender's place in
 * another subgroup, and from there along a chain through its members.
 */
#include "plans/algorithms/piece_tables.h"

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

/* The number of a chunk of an item, or DF_PIECE_NONE if there is no such chunk. Equal places have
 * one number, so that a chunk for several peers may use common slots. */
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

typedef struct collector {
  df_plan *plan;
  uint32_t input, output, left; /* left: number of contributions that are still to come */
  df_place with;
} collector;

static void add_from(collector *c, uint32_t from) {
  const int last = --c->left == 0;
  df_plan_reduce(c->plan, last ? df_plan_average(c->plan) : 0, c->input, from, DF_NO_PEER, c->with,
                 last ? df_output(c->output) : df_scratch(0));
  c->with = df_scratch(0);
}

/* The items differ only in their peers. Returns 0 if nothing is received in this round. */
static int begin_collecting(df_plan *plan, const df_lists *lists, uint64_t round, uint32_t n,
                            collector *c) {
  const uint32_t r = plan->key.position;
  const df_list_item *own = item_of(lists->sends, lists->n_sends, r);
  const df_list_item *result = item_of(lists->receives, lists->n_receives, r);
  if (own == NULL || result == NULL) return 0;
  const uint32_t input = piece_of(plan, own, round, 0, r, r);
  const uint32_t output = piece_of(plan, result, round, 1, r, r);
  *c = (collector){plan, input, output, n, df_input(input)};
  return output != DF_PIECE_NONE && input != DF_PIECE_NONE;
}

static void collect(df_plan *plan, const df_lists *lists, uint64_t round) {
  collector c;
  if (!begin_collecting(plan, lists, round, lists->n_receives - 1, &c)) return;
  for (uint32_t i = 0; i < lists->n_receives; i++)
    if (lists->receives[i].peer != plan->key.position) add_from(&c, lists->receives[i].peer);
}

static void send_round(df_plan *plan, const df_list_item *item, uint64_t round) {
  const uint32_t r = plan->key.position;
  if (item == NULL || item->peer == r) return;
  const uint32_t piece = piece_of(plan, item, round, 0, r, item->peer);
  if (piece != DF_PIECE_NONE) df_plan_send(plan, piece, item->peer, df_input(piece));
}

/* ---- from subgroup to subgroup */

/* step: distance of this member from the first member of the chain to the receiver `to`. */
static void pass_chain(df_plan *plan, const df_lists *lists, uint64_t round, uint32_t to,
                       uint32_t step) {
  const uint32_t k = plan->key.split, r = plan->key.position, base = r / k * k;
  const df_list_item *item = item_of(lists->sends, lists->n_sends, to);
  const uint32_t piece = item ? piece_of(plan, item, round, 0, r, to) : DF_PIECE_NONE;
  if (piece == DF_PIECE_NONE) return;
  const uint32_t next = step + 1 == k ? to : base + (r + 1) % k;
  if (step == 0)
    df_plan_send(plan, piece, next, df_input(piece));
  else
    df_plan_reduce(plan, 0, piece, base + (r + k - 1) % k, next, df_input(piece), df_nowhere());
}

static void reduce_by_subgroups(df_plan *plan, const df_lists *lists, uint64_t round) {
  const uint32_t k = plan->key.split, n = plan->key.n, r = plan->key.position;
  const uint32_t base = r / k * k, place = r % k;
  collector c;
  for (uint32_t distance = k; distance < n; distance += k)
    for (uint32_t step = 0; step < k; step++) {
      /* The receiver's place is k - 1 - step behind this member's. */
      const uint32_t to = (base + distance) % n + (place + k - 1 - step) % k;
      pass_chain(plan, lists, round, to, step);
    }
  for (uint32_t i = 1; i < k; i++)
    send_round(plan, item_of(lists->sends, lists->n_sends, base + (place + i) % k), round);
  if (!begin_collecting(plan, lists, round, k - 1 + n / k - 1, &c)) return;
  for (uint32_t i = 1; i < k; i++) add_from(&c, base + (place + i) % k);
  for (uint32_t distance = k; distance < n; distance += k) add_from(&c, (r + distance) % n);
}

/* step: distance of this member from the first member of the chain from the sender `from`. */
static void spread_chain(df_plan *plan, const df_lists *lists, uint64_t round, uint32_t from,
                         uint32_t step) {
  const uint32_t k = plan->key.split, r = plan->key.position, base = r / k * k;
  const df_list_item *item = item_of(lists->receives, lists->n_receives, from);
  const uint32_t piece = item ? piece_of(plan, item, round, 1, from, r) : DF_PIECE_NONE;
  if (piece == DF_PIECE_NONE) return;
  df_plan_receive(plan, piece, step == 0 ? from : base + (r + k - 1) % k,
                  step + 1 == k ? DF_NO_PEER : base + (r + 1) % k, df_output(piece));
}

static void receive_round(df_plan *plan, const df_list_item *item, uint64_t round) {
  const uint32_t r = plan->key.position;
  if (item == NULL || item->peer == r) return;
  const uint32_t piece = piece_of(plan, item, round, 1, item->peer, r);
  if (piece != DF_PIECE_NONE)
    df_plan_receive(plan, piece, item->peer, DF_NO_PEER, df_output(piece));
}

static void gather_by_subgroups(df_plan *plan, const df_lists *lists, uint64_t round) {
  const uint32_t k = plan->key.split, n = plan->key.n, r = plan->key.position;
  const uint32_t base = r / k * k, place = r % k;
  for (uint32_t distance = k; distance < n; distance += k)
    send_round(plan, item_of(lists->sends, lists->n_sends, (r + distance) % n), round);
  for (uint32_t i = 1; i < k; i++)
    send_round(plan, item_of(lists->sends, lists->n_sends, base + (place + i) % k), round);
  for (uint32_t i = 1; i < k; i++)
    receive_round(plan, item_of(lists->receives, lists->n_receives, base + (place + i) % k), round);
  for (uint32_t distance = k; distance < n; distance += k)
    for (uint32_t step = 0; step < k; step++)
      spread_chain(plan, lists, round, (base + distance) % n + (place + k - step) % k, step);
}

static void build(df_plan *plan, const df_lists *lists) {
  const uint32_t k = plan->key.split;
  const int by_subgroups = k > 1 && k < plan->key.n && plan->key.n % k == 0;
  const int reduces = df_operation_reduces(plan->key.operation) && plan->key.n > 1;
  uint64_t rounds = 0;
  for (uint32_t i = 0; i < lists->n_sends; i++)
    rounds = DF_MAX(rounds, chunks_of(&lists->sends[i], plan->chunk));
  for (uint32_t i = 0; i < lists->n_receives; i++)
    rounds = DF_MAX(rounds, chunks_of(&lists->receives[i], plan->chunk));
  for (uint64_t round = 0; round < rounds; round++) {
    if (by_subgroups) {
      if (reduces)
        reduce_by_subgroups(plan, lists, round);
      else
        gather_by_subgroups(plan, lists, round);
      continue;
    }
    for (uint32_t i = 0; i < lists->n_sends; i++) send_round(plan, &lists->sends[i], round);
    if (reduces)
      collect(plan, lists, round);
    else
      for (uint32_t i = 0; i < lists->n_receives; i++)
        receive_round(plan, &lists->receives[i], round);
  }
  if (!reduces) copy_own(plan, lists);
}

df_plan *df_plan_make_piece_table(const df_plan_key *key, const df_lists *lists, uint32_t chunk) {
  const uint64_t most = df_lists_steps(lists, chunk);
  df_plan *plan = calloc(1, sizeof *plan);
  if (plan == NULL) return NULL;
  DF_ASSERT(most <= DF_LISTS_MOST_STEPS);
  plan->key = *key;
  plan->geometry = DF_GEOMETRY_PIECE_TABLE;
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
  if (!plan->failed) df_plan_mark_common(plan);
  if (key->settles && key->n > 1) df_plan_settle(plan);
  free(plan->link_of);
  plan->link_of = NULL;
  if (plan->failed) {
    df_plan_free(plan);
    return NULL;
  }
  return plan;
}
