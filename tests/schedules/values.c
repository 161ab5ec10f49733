/* The data that runs send, and the data that they must receive. */
#include <string.h>

#include "world.h"

/* Sums of contributions differ for any two sets of ranks, so that nothing can be missing or counted
 * twice. */
int32_t sim_value_of(uint32_t rank, const app_run *run, uint32_t element) {
  return (int32_t)(1 + element * 7 + run->run * 1000 + run->coll * 10000) *
         (int32_t)(1u << 2 * rank);
}

uint32_t sim_count_of(const app_run *run) {
  const coll_plan *coll = &sim_plan.coll[run->coll];
  return coll->counts[run->run] ? coll->counts[run->run] : coll->count;
}

uint32_t sim_elements_of(const coll_plan *coll, uint32_t count, int output) {
  return count * (df_operation_is_wide(coll->operation, output) ? coll->n_members : 1);
}

int sim_is_member(uint32_t rank, uint32_t coll) {
  return (int)(sim_plan.coll[coll].members >> rank & 1);
}

/* A member's position in its group, which is in the order of the ranks; and the other way round. */
static uint32_t position_of(const coll_plan *coll, uint32_t rank) {
  return (uint32_t)__builtin_popcount(coll->members & ((1u << rank) - 1));
}
static uint32_t member_at(const coll_plan *coll, uint32_t position) {
  uint32_t left = coll->members;
  while (position--) left &= left - 1;
  return (uint32_t)__builtin_ctz(left);
}

/* The sum of the first n members' elements. */
static int32_t sum_of(const app_run *run, uint32_t n, uint32_t i) {
  int32_t sum = 0;
  for (uint32_t p = 0; p < n; p++)
    sum += sim_value_of(member_at(&sim_plan.coll[run->coll], p), run, i);
  return sum;
}

static int uses(const app_run *run, int output) {
  const coll_plan *coll = &sim_plan.coll[run->coll];
  return df_operation_uses(coll->operation, output, position_of(coll, run->rank), coll->root,
                           coll->n_members);
}

static int32_t expected(const app_run *run, uint32_t i) {
  const coll_plan *coll = &sim_plan.coll[run->coll];
  const uint32_t position = position_of(coll, run->rank), count = sim_count_of(run);
  /* In an input with a piece for each member, the piece at this position counts. */
  const uint32_t skipped = df_operation_is_wide(coll->operation, 0) ? position * count : 0;
  if (df_operation_reduces(coll->operation))
    return sum_of(run, df_operation_operands(coll->operation, position, coll->n_members),
                  skipped + i);
  if (df_operation_is_wide(coll->operation, 1))
    return sim_value_of(member_at(coll, i / count), run, skipped + i % count);
  return sim_value_of(member_at(coll, coll->root), run, skipped + i);
}

/* The buffers are the application's again: nobody may look at them any more. Another process may
 * still read the mapping of a failed run, which is no race; but its result must not come from that.
 * */
static void give_back(app_run *run, int succeeded) {
  const coll_plan *coll = &sim_plan.coll[run->coll];
  size_t sent = sim_elements_of(coll, sim_count_of(run), 0) * sizeof(int32_t);
  size_t received = sim_elements_of(coll, sim_count_of(run), 1) * sizeof(int32_t);
  int sends = uses(run, 0);
  if (sends && (succeeded || !sim_plan.processes)) sim_touch(run->send, sent, 1);
  if (sends) {
    sim_written(run->send, sent);
    memset(run->send, 0x5a, sent);
  }
  if (succeeded) return;
  if (!sim_plan.processes) sim_touch(run->recv, received, 1);
  sim_written(run->recv, received);
  memset(run->recv, 0x5a, received);
}

void sim_check_run(app_run *run) {
  const coll_plan *coll = &sim_plan.coll[run->coll];
  if (run->checked++)
    sim_fail("rank %u: run %u of collective %u is through a second time", run->rank, run->run,
             run->coll);
  uint32_t n = sim_elements_of(coll, sim_count_of(run), 1);
  if (uses(run, 1)) {
    sim_touch(run->recv, n * sizeof(int32_t), 0);
    for (uint32_t i = 0; i < n; i++)
      if (run->recv[i] != expected(run, i))
        sim_fail("rank %u: element %u of run %u of collective %u is %d instead of %d", run->rank, i,
                 run->run, run->coll, run->recv[i], expected(run, i));
  }
  give_back(run, 1);
}

/* Whether element i is the sum of the contributions of these members. */
static int is_sum_of(const app_run *run, uint32_t set, uint32_t i) {
  const coll_plan *coll = &sim_plan.coll[run->coll];
  const uint32_t before = (1u << run->rank) - 1;
  if (coll->operation == DF_OP_SCAN) set &= before | 1u << run->rank;
  if (coll->operation == DF_OP_EXCLUSIVE_SCAN) set &= before;
  const uint32_t position = position_of(coll, run->rank), count = sim_count_of(run);
  const uint32_t skipped = df_operation_is_wide(coll->operation, 0) ? position * count : 0;
  int32_t sum = 0;
  for (uint32_t r = 0; r < sim_plan.n_ranks; r++)
    if (set >> r & 1) sum += sim_value_of(r, run, skipped + i);
  return run->recv[i] == sum;
}

/* The members whose contributions the sums have: all except for some of those that may be lost. */
static uint32_t find_set(const app_run *run, uint32_t n, uint32_t lost) {
  const uint32_t members = sim_plan.coll[run->coll].members;
  for (uint32_t without = lost & members;; without = (without - 1) & lost & members) {
    uint32_t i = 0;
    while (i < n && is_sum_of(run, members & ~without, i)) i++;
    if (i == n) return members & ~without;
    if (without == 0) break;
  }
  sim_fail("rank %u: run %u of collective %u has the sum of no set of members; element 0 is %d",
           run->rank, run->run, run->coll, run->recv[0]);
  return 0;
}

static void check_pieces(const app_run *run, uint32_t n, uint32_t lost) {
  const coll_plan *coll = &sim_plan.coll[run->coll];
  const int is_wide = df_operation_is_wide(coll->operation, 1);
  for (uint32_t i = 0; i < n; i++) {
    const uint32_t from = is_wide ? member_at(coll, i / sim_count_of(run)) : coll->root;
    if (is_wide && lost >> from & 1) continue;
    if (run->recv[i] != expected(run, i))
      sim_fail("rank %u: element %u of run %u of collective %u is %d instead of %d", run->rank, i,
               run->run, run->coll, run->recv[i], expected(run, i));
  }
}

uint32_t sim_check_survivors(app_run *run, uint32_t lost) {
  const coll_plan *coll = &sim_plan.coll[run->coll];
  const uint32_t n = sim_elements_of(coll, sim_count_of(run), 1);
  uint32_t set = 0;
  run->checked++;
  if (uses(run, 1)) {
    sim_touch(run->recv, n * sizeof(int32_t), 0);
    const int is_first = (coll->members & ~lost & ((1u << run->rank) - 1)) == 0;
    if (coll->operation == DF_OP_EXCLUSIVE_SCAN && is_first)
      set = 0; /* it has no result, if those before it are lost */
    else if (df_operation_reduces(coll->operation))
      set = find_set(run, n, lost);
    else
      check_pieces(run, n, lost);
  }
  give_back(run, 1);
  return df_operation_is_scan(coll->operation) ? 0 : set;
}

void sim_take_back(app_run *run) { give_back(run, 0); }
