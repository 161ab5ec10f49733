/* The model of runs: what a member has submitted, has the data of, and has completed. A run has its
 * data when all members of the group have submitted it on the same group; it completes when all of
 * them have its data, which the settling round of a plan ensures. */
#include "world.h"

static run_state *state(int p, int c) { return &current.processes[p].runs[c]; }

int runs_group(int p, int c) {
  const process *self = &current.processes[p];
  int mask = 0;
  for (int q = 0; q < world_processes(); q++) {
    const int registered = c == 0   ? q < current.shape.members
                           : c == 1 ? 1
                                    : current.shape.part >> q & 1;
    if (registered && self->view.peers[world_rank(q)].member) mask |= 1 << q;
  }
  return mask;
}

static int runs_of(int c) {
  const world_shape *shape = &current.shape;
  return c == 0 ? shape->runs : c == 1 ? shape->runs_of_all : shape->runs_of_part;
}

static int waits_for_admit(int p, int c) {
  return c == 0 && current.shape.joins && !current.processes[p].admitted;
}

int runs_limit(int p, int c) {
  return waits_for_admit(p, c) ? current.shape.before_admit : runs_of(c);
}

/* Runs that are submitted behind a pending admit are queued, and are not submitted to the group. */
static int submitted(int p, int c) {
  const int n = state(p, c)->submitted, most = runs_limit(p, c);
  return n < most ? n : most;
}

int runs_may_submit(int p, int c) {
  const process *self = &current.processes[p];
  const run_state *runs = state(p, c);
  if (runs->registered != 1 || self->leaves || runs->submitted >= runs_of(c)) return 0;
  return runs->submitted < runs_limit(p, c) || self->admits;
}

static int is_frozen(int p, int c) {
  const int group = runs_group(p, c);
  for (int q = 0; q < world_processes(); q++)
    if (group >> q & 1 && !df_view_survives(&current.processes[p].view, world_rank(q))) return 1;
  return 0;
}

/* Whether all members of the group have come to this number in the same group. */
static int all_have(int p, int c, int number, int data) {
  const int group = runs_group(p, c), in = state(p, c)->changed;
  for (int q = 0; q < world_processes(); q++) {
    const run_state *runs = state(q, c);
    if (group >> q & 1 && (data ? runs->done_in[in] : runs->submitted_in[in]) <= number) return 0;
  }
  return 1;
}

int runs_may_have_data(int p, int c) {
  const run_state *runs = state(p, c);
  return runs->registered == 1 && runs->done < submitted(p, c) && !is_frozen(p, c) &&
         all_have(p, c, runs->done, 0);
}

static int completes_without_settling(void) { return 0; }

int runs_may_complete(int p, int c) {
  const run_state *runs = state(p, c);
  return runs->registered == 1 && runs->completed < runs->done && !is_frozen(p, c) &&
         (completes_without_settling() || all_have(p, c, runs->completed, 1));
}

int runs_are_complete(int p) {
  for (int c = 0; c < COLLECTIVES; c++)
    if (state(p, c)->completed < state(p, c)->submitted) return 0;
  return 1;
}

static void publish(int p, int c) {
  run_state *runs = state(p, c);
  if (runs->registered != 1) return;
  runs->submitted_in[runs->changed] = (uint8_t)submitted(p, c);
  runs->done_in[runs->changed] = runs->done;
}

void runs_submit(int p, int c) {
  state(p, c)->submitted++;
  if (state(p, c)->completed > state(p, c)->submitted) return; /* it fails at once */
  publish(p, c);
}

void runs_have_data(int p, int c) {
  state(p, c)->done++;
  publish(p, c);
}

void runs_complete(int p, int c) {
  run_state *runs = state(p, c);
  runs->result[runs->completed++] = (uint16_t)runs_group(p, c);
}

void runs_admitted(int p) {
  current.processes[p].admitted = 1;
  publish(p, 0);
}

uint32_t runs_report(int p, df_view_runs *list) {
  uint32_t n = 0;
  for (int c = 0; c < COLLECTIVES; c++) {
    run_state *runs = state(p, c);
    if (!(runs_group(p, c) >> p & 1) || !is_frozen(p, c)) continue;
    if (!runs->reported) runs->reported = runs->registered ? 1 : 2;
    if (!runs->registered) continue;
    const int group = runs_group(p, c);
    df_view_runs entry = {.collective = (uint64_t)c + 1, .registration = 1};
    for (int q = 0; q < world_processes(); q++)
      entry.survivors +=
          group >> q & 1 && df_view_survives(&current.processes[p].view, world_rank(q));
    if (entry.survivors == 0) continue;
    entry.done = runs->registered == 2 ? DF_VIEW_TAKEN_BACK : runs->done;
    entry.submitted = (uint64_t)submitted(p, c);
    if (entry.done != DF_VIEW_TAKEN_BACK && entry.submitted < entry.done)
      entry.submitted = entry.done; /* failed runs that were not submitted here */
    list[n++] = entry;
  }
  return n;
}

static void apply(int p, int c, int before, int base, int fails_below) {
  run_state *runs = state(p, c);
  if (runs->registered == 2) {
    if (base < runs_of(c)) world_fail("(b) runs of a collective that %d has deregistered", p);
    return;
  }
  if (runs->completed > fails_below || (current.shape.reruns && runs->completed > base))
    world_fail("(b) run %d that %d has completed is executed again", runs->completed - 1, p);
  if (runs->done < base) world_fail("(b) run %d stands at %d without its data", base - 1, p);
  for (int r = 0; r < base && r < RUNS; r++)
    if (!runs->result[r]) runs->result[r] = (uint16_t)before;
  for (int r = base; r < fails_below && r < RUNS; r++) {
    if (runs->result[r] && runs->result[r] != RUN_FAILED)
      world_fail("(b) run %d that %d has completed fails", r, p);
    runs->result[r] = RUN_FAILED;
  }
  runs->completed = runs->done = (uint8_t)fails_below;
}

/* before: the groups of the collectives before the view. */
static void change_groups(int p, const df_view_content *content, const int *before) {
  for (int c = 0; c < COLLECTIVES; c++) {
    run_state *runs = state(p, c);
    if (!(before[c] >> p & 1) || before[c] == (before[c] & runs_group(p, c))) continue;
    int base = 0, fails_below = 0, found = 0;
    for (uint32_t i = 0; i < content->n_outcomes; i++) {
      if (content->outcomes[i].collective != (uint64_t)c + 1) continue;
      base = (int)content->outcomes[i].base;
      fails_below = (int)content->outcomes[i].fails_below;
      found = 1;
    }
    runs->changed = (uint8_t)content->number;
    /* Registered after the report: no run can have begun, so nothing was decided. */
    if (runs->reported == 1 && runs->registered == 1 && !found)
      world_fail("(b) there is no outcome for collective %d at %d", c, p);
    if (found) apply(p, c, before[c], base, fails_below);
    publish(p, c);
  }
}

void runs_install(int p, const df_view_content *content, int is_first) {
  process *self = &current.processes[p];
  int before[COLLECTIVES] = {0};
  if (is_first) {
    self->runs[1].changed = (uint8_t)content->number;
    self->admitted = 1;
    return;
  }
  for (int c = 0; c < COLLECTIVES; c++) {
    before[c] = runs_group(p, c);
    for (uint32_t i = 0; i < content->n_lost; i++) {
      const int q = world_process(content->lost[i].rank);
      const int registered = c == 0   ? q < current.shape.members
                             : c == 1 ? 1
                                      : current.shape.part >> q & 1;
      if (registered) before[c] |= 1 << q;
    }
  }
  if (self->view.peers[world_rank(p)].member) change_groups(p, content, before);
  for (int c = 0; c < COLLECTIVES; c++) self->runs[c].reported = 0;
  if (content->flags) {
    const world_shape *shape = &current.shape;
    if (content->flags & DF_VIEW_CANCELLED &&
        shape->crashes + shape->silences + shape->breaks + shape->excludes + shape->leaves == 0)
      world_fail("(c) the admit of a newcomer that lives is cancelled at %d", p);
    self->admits = 0;
    self->runs[1].changed = (uint8_t)content->number;
    runs_admitted(p);
  }
}

/* (b) A run ends in the same way at all processes, also at those that are dead now. */
void runs_check(void) {
  for (int a = 0; a < world_processes(); a++)
    for (int b = a + 1; b < world_processes(); b++)
      for (int c = 0; c < COLLECTIVES; c++)
        for (int r = 0; r < RUNS; r++) {
          const int at_a = state(a, c)->result[r], at_b = state(b, c)->result[r];
          if (at_a && at_b && at_a != at_b)
            world_fail("(b) run %d of collective %d ended with %#x at %d and with %#x at %d", r, c,
                       at_a, a, at_b, b);
        }
}

void runs_check_end(int p) {
  for (int c = 0; c < COLLECTIVES; c++) {
    const int group = runs_group(p, c);
    if (state(p, c)->registered == 0 || !(group >> p & 1)) continue;
    for (int r = 0; r < runs_of(c); r++)
      if (!state(p, c)->result[r])
        world_fail("(c) run %d of collective %d never ends at %d", r, c, p);
  }
}
