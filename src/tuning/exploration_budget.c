#include "tuning/exploration_budget.h"

#include <math.h>
#include <string.h>

#include "base/attributes.h"

void df_budget_open(df_budget *budget, double part, double risk) {
  memset(budget, 0, sizeof *budget);
  budget->part = part;
  budget->risk = risk;
}

void df_budget_earn(df_budget *budget, uint64_t run) {
  if (run <= budget->run) return;
  const double earned = budget->part * budget->run_ns * (double)(run - budget->run);
  budget->earned_ns += earned;
  budget->by_runs_ns += earned;
  budget->run = run;
}

void df_budget_charge(df_budget *budget, double ns) { budget->excess_ns += ns - budget->run_ns; }

static double at_hand(const df_budget *budget) {
  const double known = (double)budget->switches * DF_BUDGET_SWITCH_NS;
  return budget->excess_ns > known ? budget->excess_ns : known;
}

void df_budget_close(df_budget *budget) {
  budget->spent_ns += at_hand(budget);
  budget->excess_ns = 0;
  budget->switches = 0;
}

void df_budget_add_bonus(df_budget *budget) {
  df_budget_take_back(budget);
  const double earned = budget->by_runs_ns - budget->earned_before_ns;
  const double now = budget->part * budget->run_ns * (double)(budget->run - budget->granted_to);
  budget->granted_ns = 2 * DF_MIN(DF_MAX(now, earned), 4 * earned);
  budget->earned_before_ns = budget->by_runs_ns;
  budget->granted_to = budget->run;
  budget->earned_ns += budget->granted_ns;
  budget->spent_before_ns = budget->spent_ns + at_hand(budget);
}

void df_budget_take_back(df_budget *budget) {
  const double used = budget->spent_ns + at_hand(budget) - budget->spent_before_ns;
  const double unused = budget->granted_ns - (used > 0 ? used : 0);
  if (unused > 0) budget->earned_ns -= unused;
  budget->granted_ns = 0;
}

double df_budget_left(const df_budget *budget) {
  if (budget->part == 0) return HUGE_VAL;
  return budget->earned_ns - budget->spent_ns - at_hand(budget);
}

double df_budget_needed(const df_budget *budget, uint32_t switches) {
  return (double)switches * DF_BUDGET_SWITCH_NS + budget->risk * budget->run_ns;
}

uint64_t df_budget_runs_until(const df_budget *budget, double needed_ns) {
  enum { MOST = 1000000 }; /* it looks again */
  const double missing = needed_ns - df_budget_left(budget);
  const double of_run = budget->part * budget->run_ns;
  if (missing <= 0) return 1;
  return of_run * MOST <= missing ? MOST : (uint64_t)(missing / of_run) + 1;
}
