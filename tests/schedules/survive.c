/*
 * Worlds whose ranks die while the others go on (config.survive). Whatever the moments, each run
 * ends in the same way on all ranks that end it, also on one that dies later: with the
 * contributions of the same ranks, or failed. A run has the contributions of all members of whose
 * loss the rank has not been notified, and no rank returns. With survive 1 only runs of a lost root
 * fail.
 */
#include "endings.h"

enum { FAILED = 1 << 30, HAS_SET = 1 << 29 };

/* Ranks that may be lost in a view: their processes have ended, or they have left. */
static uint32_t may_be_lost(void) {
  uint32_t set = 0;
  for (uint32_t r = 0; r < sim_plan.n_ranks; r++) {
    const rank_state *state = &sim_endings_now->rank[r];
    if (state->is_dead || state->closes) set |= 1u << r;
  }
  return set;
}

void sim_survive_notified(dfcclContext_t context, const dfcclMembership_t *membership, void *arg) {
  uint32_t rank = 0;
  (void)arg;
  while (sim_app->rank[rank].context != context) rank++;
  rank_state *state = &sim_endings_now->rank[rank];
  if (membership->view != ++state->views)
    sim_fail("rank %u: view %u instead of view %u", rank, (uint32_t)membership->view, state->views);
  if (membership->nLost == 0) sim_fail("rank %u: a view loses nobody", rank);
  for (int i = 0; i < membership->nLost; i++) {
    const uint32_t lost = (uint32_t)membership->lost[i];
    if (!(may_be_lost() >> lost & 1)) sim_fail("rank %u: rank %u is lost, but lives", rank, lost);
    state->lost |= 1u << lost;
  }
}

/* Whether a run may fail: a member is dead, and it is the root, or nobody executes runs again. */
int sim_survive_may_fail(uint32_t coll) {
  const coll_plan *plan = &sim_plan.coll[coll];
  const uint32_t lost = may_be_lost() & plan->members;
  const int has_root = df_operation_has_root(plan->operation);
  uint32_t left = plan->members;
  for (uint32_t p = 0; p < plan->root; p++) left &= left - 1;
  const int needs_root = has_root && (lost & left & -left);
  return lost &&
         (sim_plan.settings.survive == 2 || needs_root || plan->operation == DF_OP_SEND_RECV);
}

/* Only ranks with a sum know whose contributions a run has. */
static void agree(const app_run *run, uint32_t found) {
  uint32_t *ended = &sim_endings_now->ended[run->coll][run->run];
  const uint32_t known = *ended & ~HAS_SET && found & ~HAS_SET ? UINT32_MAX : FAILED | HAS_SET;
  if (*ended && (*ended & known) != (found & known))
    sim_fail("rank %u: run %u of collective %u ended as %x, on another rank as %x", run->rank,
             run->run, run->coll, found, *ended);
  *ended |= found;
}

void sim_survive_ended(app_run *run, dfcclResult_t status) {
  rank_state *state = &sim_endings_now->rank[run->rank];
  if (status != dfcclSuccess) {
    if (!sim_survive_may_fail(run->coll))
      sim_fail("rank %u: run %u of collective %u failed with %d", run->rank, run->run, run->coll,
               (int)status);
    sim_take_back(run);
    agree(run, FAILED);
    return;
  }
  const uint32_t members = sim_plan.coll[run->coll].members, needed = members & ~state->lost;
  const uint32_t set = sim_check_survivors(run, may_be_lost());
  if (set == 0) { /* a result without sums */
    agree(run, HAS_SET);
    return;
  }
  uint32_t *latest = &state->latest_set[run->coll];
  if ((set & needed) != needed)
    sim_fail("rank %u: run %u of collective %u has ranks %x, but %x are members", run->rank,
             run->run, run->coll, set, needed);
  if (*latest && (set & *latest) != set)
    sim_fail("rank %u: run %u of collective %u has ranks %x after %x", run->rank, run->run,
             run->coll, set, *latest);
  if (set & state->lost)
    sim_fail("rank %u: run %u of collective %u has ranks %x after a notification that %x are lost",
             run->rank, run->run, run->coll, set, state->lost);
  *latest = set;
  agree(run, HAS_SET | set);
}

/* The next rank that dies, some steps later; one lives. */
void sim_survive_next_death(uint64_t begin) {
  uint32_t living = 0, victim = 0;
  for (uint32_t r = 0; r < sim_plan.n_ranks; r++) living += !sim_endings_now->rank[r].is_dead;
  sim_endings_now->dying = -1;
  sim_death_step = UINT64_MAX;
  if (living < 2 || sim_endings_now->deaths_left == 0) return;
  sim_endings_now->deaths_left--;
  do victim = sim_below(&sim_random_now, sim_plan.n_ranks);
  while (sim_endings_now->rank[victim].is_dead);
  static const uint16_t within[] = {40, 300, 1000, 3000};
  sim_endings_now->dying = (int)victim;
  sim_death_step = begin + sim_below(&sim_random_now, within[sim_below(&sim_random_now, 4)]);
}
