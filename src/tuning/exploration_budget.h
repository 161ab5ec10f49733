/*
 * Exploration budget: exploring may cost a part of the time of all runs, earned before it is spent.
 * A switch is charged with its known cost, or with all time that the runs took beyond the time of
 * the baseline, if that is more: link set-up, cold first runs, slow variants. So the charge is at
 * least the loss. Pure: run numbers and times come from outside.
 */
#ifndef DF_TUNING_EXPLORATION_BUDGET_H
#define DF_TUNING_EXPLORATION_BUDGET_H

#include <stdint.h>

enum {
  DF_BUDGET_SWITCH_NS = 500000, /* approximate cost for all members: their threads are woken */
};

typedef struct df_budget {
  double part;   /* share of the time of runs; 0: no limit */
  double risk;   /* the most that one variant is expected to cost beyond its switches, in runs */
  double run_ns; /* time of a run of the baseline */
  uint64_t run;  /* all before it are earned */
  double earned_ns, spent_ns;
  /* After a change: */
  uint64_t bonus_until;    /* runs before it have had their bonus */
  double earned_before_ns; /* earned by runs before the latest bonus */
  double by_runs_ns;       /* earned by all runs, without bonuses */
  double bonus_ns, spent_before_ns;
  /* These describe the current exploration, until the baseline is in force again. */
  double excess_ns;
  uint32_t switches;
} df_budget;

void df_budget_open(df_budget *budget, double part, double risk);
/* Runs up to `run` have ended. */
void df_budget_earn(df_budget *budget, uint64_t run);
/* One of the exploration's runs. */
void df_budget_charge(df_budget *budget, double ns);
/* The baseline is in force again. */
void df_budget_close(df_budget *budget);
/* A bonus after a change: twice what the runs since the last bonus have earned; more if runs take
 * longer now, as variants will, but at most four times as much, since one look may be wrong. */
void df_budget_add_bonus(df_budget *budget);
/* Takes back the unspent part of the bonus. */
void df_budget_take_back(df_budget *budget);
/* Nanoseconds that may be spent; below 0: too much was spent. */
double df_budget_left(const df_budget *budget);
/* The cost of so many switches, and of one variant between them. */
double df_budget_needed(const df_budget *budget, uint32_t switches);
/* Number of runs of the baseline until the budget has enough. */
uint64_t df_budget_runs_until(const df_budget *budget, double needed_ns);

#endif
