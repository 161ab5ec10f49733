/*
 * Two levels (Karonis et al., IPDPS 2000, section 3): ranks exchange with their leader, leaders
 * with each other, so few messages go far. A subgroup is `split` neighbours; its leader is its
 * first member, or the root.
 */
#include "plans/build.h"

typedef struct level {
  uint32_t first, end; /* this rank's subgroup */
  uint32_t leader;
} level;

static uint32_t leader_of(const df_plan *plan, uint32_t subgroup) {
  uint32_t root = plan->key.root, split = plan->key.split;
  int rooted = plan->key.operation != DF_OP_ALL_REDUCE;
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
  if (leaders > 1) df_plan_doubling_among(plan, leaders, split, r / split, own);
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

void df_plan_two_level(df_plan *plan) {
  level l = level_of(plan);
  plan->geometry = DF_GEOMETRY_PARTITION;
  if (plan->key.operation == DF_OP_BROADCAST) {
    broadcast(plan, &l);
    return;
  }
  plan->scratch_pieces = 1;
  if (plan->key.operation == DF_OP_REDUCE) {
    reduce(plan, &l);
    return;
  }
  plan->direct_in_place = 0; /* The partner may still read the input. */
  all_reduce(plan, &l);
}
