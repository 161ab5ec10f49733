/* The data that runs send, and the data that they must receive. */
#include <string.h>

#include "world.h"

/* Every contribution differs, so that nothing can be missing or counted twice. */
int32_t sim_value_of(uint32_t rank, const app_run *run, uint32_t element) {
  return (int32_t)(1 + element * 7 + run->run * 1000 + run->coll * 10000) * (int32_t)(rank * 3 + 1);
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

void sim_take_back(app_run *run) { give_back(run, 0); }
