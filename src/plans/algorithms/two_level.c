/*
 * Two levels (Karonis et al., IPDPS 2000, section 3): ranks exchange data with their leader, and
 * leaders with each other, so that few messages travel far. A subgroup is `split` neighbours. Its
 * leader is its first member, or the root.
 */
#include "plans/build.h"

typedef struct level {
  uint32_t first, end; /* members first to end - 1 of this rank's subgroup */
  uint32_t leader;
} level;

static uint32_t leader_of(const df_plan *plan, uint32_t subgroup) {
  uint32_t root = plan->key.root, split = plan->key.split;
  int rooted = plan->key.operation == DF_OP_REDUCE || plan->key.operation == DF_OP_BROADCAST;
  return rooted && root / split == subgroup ? root : subgroup * split;
}

static level level_of(const df_plan *plan) {
  uint32_t split = plan->key.split, subgroup = plan->key.position / split;
  return (level){.first = subgroup * split,
                 .end = DF_MIN((subgroup + 1) * split, plan->key.n),
                 .leader = leader_of(plan, subgroup)};
}

static void all_reduce(df_plan *plan, const level *l) {
  uint32_t r = plan->key.position, split = plan->key.split;
  if (r != l->leader) {
    df_plan_send(plan, 0, l->leader, df_input(0));
    df_plan_receive(plan, 0, l->leader, DF_NO_PEER, df_output(0));
    return;
  }
  uint32_t leaders = DF_DIV_UP(plan->key.n, split), average = df_plan_average(plan);
  df_place own = df_input(0);
  for (uint32_t m = l->first + 1; m < l->end; m++) {
    int final = leaders == 1 && m + 1 == l->end;
    df_plan_reduce(plan, DF_PRIM_SOURCE_FIRST | (final ? average : 0), 0, m, DF_NO_PEER, own,
                   final ? df_output(0) : df_scratch(0));
    own = df_scratch(0);
  }
  if (leaders > 1)
    df_plan_doubling_among(plan, (df_among){leaders, r / split, split, NULL}, 0, own);
  for (uint32_t m = l->first + 1; m < l->end; m++) df_plan_send(plan, 0, m, df_output(0));
}

static void broadcast(df_plan *plan, const level *l) {
  uint32_t r = plan->key.position, root = plan->key.root, split = plan->key.split;
  uint32_t leaders = DF_DIV_UP(plan->key.n, split);
  if (r == root)
    df_plan_copy(plan, 0, 0, DF_NO_PEER, df_input(0), df_output(0));
  else
    df_plan_receive(plan, 0, r == l->leader ? root : l->leader, DF_NO_PEER, df_output(0));
  for (uint32_t g = 0; r == root && g < leaders; g++)
    if (leader_of(plan, g) != root) df_plan_send(plan, 0, leader_of(plan, g), df_output(0));
  for (uint32_t m = l->first; r == l->leader && m < l->end; m++)
    if (m != r) df_plan_send(plan, 0, m, df_output(0));
}

static void reduce(df_plan *plan, const level *l) {
  uint32_t r = plan->key.position, root = plan->key.root, n_from = 0;
  uint32_t leaders = DF_DIV_UP(plan->key.n, plan->key.split);
  if (r != l->leader) {
    df_plan_send(plan, 0, l->leader, df_input(0));
    return;
  }
  uint32_t total = l->end - l->first - 1 + (r == root ? leaders - 1 : 0);
  df_place own = df_input(0);
  for (uint32_t i = 0; i < l->end - l->first + (r == root ? leaders : 0); i++) {
    uint32_t member = l->first + i, subgroup = i - (l->end - l->first);
    uint32_t from = member < l->end ? member : leader_of(plan, subgroup);
    if (from == r) continue;
    int last = ++n_from == total;
    uint32_t average = last && r == root ? df_plan_average(plan) : 0;
    df_plan_reduce(plan, DF_PRIM_SOURCE_FIRST | average, 0, from,
                   last && r != root ? root : DF_NO_PEER, own,
                   !last       ? df_scratch(0)
                   : r == root ? df_output(0)
                               : df_nowhere());
    own = df_scratch(0);
  }
  if (total == 0) df_plan_send(plan, 0, root, df_input(0));
}

/* Leaders exchange the pieces for each other's subgroups pairwise, one piece at a time: in step d
 * with the subgroups d before and after their own. So one slot suffices for any sizes. */
typedef struct exchange {
  uint32_t to, from;         /* leaders */
  uint32_t to_first, to_end; /* members of their subgroups */
  uint32_t from_first, from_end;
} exchange;

static exchange exchange_of(const df_plan *plan, uint32_t d) {
  const uint32_t n = plan->key.n, split = plan->key.split, groups = DF_DIV_UP(n, split);
  const uint32_t own = plan->key.position / split;
  const uint32_t to = (own + d) % groups, from = (own + groups - d) % groups;
  return (exchange){.to = to * split,
                    .from = from * split,
                    .to_first = to * split,
                    .to_end = DF_MIN((to + 1) * split, n),
                    .from_first = from * split,
                    .from_end = DF_MIN((from + 1) * split, n)};
}

/* Within a subgroup each member sends its piece to each other member. Between subgroups the leaders
 * send. */
static void all_gather(df_plan *plan, const level *l) {
  const uint32_t r = plan->key.position, here = l->end - l->first;
  const uint32_t groups = DF_DIV_UP(plan->key.n, plan->key.split);
  df_plan_copy(plan, 0, r, DF_NO_PEER, df_input(0), df_output(r));
  for (uint32_t d = 1; d < here; d++) {
    const uint32_t to = l->first + (r - l->first + d) % here;
    const uint32_t from = l->first + (r - l->first + here - d) % here;
    df_plan_send(plan, r, to, df_output(r));
    df_plan_receive(plan, from, from, DF_NO_PEER, df_output(from));
  }
  for (uint32_t d = 1; d < groups; d++) {
    const exchange e = exchange_of(plan, d);
    for (uint32_t at = 0; at < plan->key.split; at++) {
      const uint32_t out = l->first + at, in = e.from_first + at;
      if (r == l->leader && out < l->end) df_plan_send(plan, out, e.to, df_output(out));
      if (in >= e.from_end) continue;
      df_plan_receive(plan, in, r == l->leader ? e.from : l->leader, DF_NO_PEER, df_output(in));
      for (uint32_t m = l->first + 1; r == l->leader && m < l->end; m++)
        df_plan_send(plan, in, m, df_output(in));
    }
  }
}

/* The leader combines its subgroup's inputs for a piece, and sends or stores the result. */
static void combine(df_plan *plan, const level *l, uint32_t piece, uint32_t to, df_place into,
                    uint32_t flags) {
  df_place own = df_input(piece);
  for (uint32_t m = l->first + 1; m < l->end; m++) {
    const int last = m + 1 == l->end;
    const df_place place = into.buffer == DF_BUFFER_NONE ? df_scratch(0) : into;
    df_plan_reduce(plan, DF_PRIM_SOURCE_FIRST | (last ? flags : 0), piece, m,
                   last ? to : DF_NO_PEER, own, last ? into : place);
    own = place;
  }
  if (l->end - l->first > 1) return;
  if (to == DF_NO_PEER)
    df_plan_copy(plan, flags, piece, DF_NO_PEER, own, into);
  else
    df_plan_send(plan, piece, to, own);
}

/* A member other than the leader sends its inputs in the order in which the leader receives them.
 * */
static void give_inputs(df_plan *plan, const level *l) {
  const uint32_t groups = DF_DIV_UP(plan->key.n, plan->key.split);
  for (uint32_t d = 1; d < groups || d == 1; d++) {
    const exchange e = exchange_of(plan, d);
    for (uint32_t at = 0; at < plan->key.split; at++) {
      if (groups > 1 && e.to_first + at < e.to_end)
        df_plan_send(plan, e.to_first + at, l->leader, df_input(e.to_first + at));
      if (d == 1 && l->first + at < l->end)
        df_plan_send(plan, l->first + at, l->leader, df_input(l->first + at));
    }
  }
  df_plan_receive(plan, plan->key.position, l->leader, DF_NO_PEER, df_output(0));
}

/* Completes a piece of the leader's subgroup: scratch 1 + at, combined with the received part. */
static void finish_piece(df_plan *plan, uint32_t piece, uint32_t at, uint32_t from) {
  const uint32_t r = plan->key.position, average = df_plan_average(plan);
  const int is_own = piece == r;
  df_plan_reduce(plan, DF_PRIM_SOURCE_FIRST | average, piece, from, is_own ? DF_NO_PEER : piece,
                 df_scratch(1 + at), is_own ? df_output(0) : df_nowhere());
}

/* Scratch 0: a piece for others, while it is combined; 1 + at: the subgroup's own pieces. */
static void reduce_scatter(df_plan *plan, const level *l) {
  const uint32_t r = plan->key.position, groups = DF_DIV_UP(plan->key.n, plan->key.split);
  if (r != l->leader) {
    give_inputs(plan, l);
    return;
  }
  for (uint32_t d = 1; d < groups || d == 1; d++) {
    const exchange e = exchange_of(plan, d);
    for (uint32_t at = 0; at < plan->key.split; at++) {
      const uint32_t out = e.to_first + at, piece = l->first + at;
      if (groups > 1 && out < e.to_end) combine(plan, l, out, e.to, df_nowhere(), 0);
      if (piece >= l->end) continue;
      if (d == 1 && groups > 1) combine(plan, l, piece, DF_NO_PEER, df_scratch(1 + at), 0);
      if (d == 1 && groups == 1)
        combine(plan, l, piece, piece == r ? DF_NO_PEER : piece,
                piece == r ? df_output(0) : df_nowhere(), df_plan_average(plan));
      if (d + 1 < groups)
        df_plan_reduce(plan, DF_PRIM_SOURCE_FIRST, piece, e.from, DF_NO_PEER, df_scratch(1 + at),
                       df_scratch(1 + at));
      else if (groups > 1)
        finish_piece(plan, piece, at, e.from);
    }
  }
}

/* Among leaders as in dissemination.c. */
static void barrier(df_plan *plan, const level *l) {
  const uint32_t split = plan->key.split, own = plan->key.position / split;
  const uint32_t groups = DF_DIV_UP(plan->key.n, split);
  if (plan->key.position != l->leader) {
    df_plan_send(plan, 0, l->leader, df_scratch(0));
    df_plan_receive_empty(plan, l->leader);
    return;
  }
  for (uint32_t m = l->first + 1; m < l->end; m++) df_plan_receive_empty(plan, m);
  for (uint32_t d = 1; d < groups; d *= 2) {
    df_plan_send(plan, 0, (own + d) % groups * split, df_scratch(0));
    df_plan_receive_empty(plan, (own + groups - d) % groups * split);
  }
  for (uint32_t m = l->first + 1; m < l->end; m++) df_plan_send(plan, 0, m, df_scratch(0));
}

void df_plan_two_level(df_plan *plan) {
  const df_operation operation = plan->key.operation;
  level l = level_of(plan);
  const int is_wide = operation == DF_OP_ALL_GATHER || operation == DF_OP_REDUCE_SCATTER;
  plan->geometry = is_wide ? DF_GEOMETRY_PIECES : DF_GEOMETRY_PARTITION;
  plan->pieces = is_wide ? plan->key.n : 1;
  const uint32_t combines = df_operation_reduces(operation) || operation == DF_OP_BARRIER;
  plan->scratch_pieces = operation == DF_OP_REDUCE_SCATTER ? 1 + plan->key.split : combines;
  /* A partner may still read the input when the output is written. */
  plan->direct_in_place = operation != DF_OP_ALL_REDUCE && operation != DF_OP_REDUCE_SCATTER;
  if (operation == DF_OP_BROADCAST) broadcast(plan, &l);
  if (operation == DF_OP_REDUCE) reduce(plan, &l);
  if (operation == DF_OP_ALL_REDUCE) all_reduce(plan, &l);
  if (operation == DF_OP_ALL_GATHER) all_gather(plan, &l);
  if (operation == DF_OP_REDUCE_SCATTER) reduce_scatter(plan, &l);
  if (operation == DF_OP_BARRIER) barrier(plan, &l);
}
