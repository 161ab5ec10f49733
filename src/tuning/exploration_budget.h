/*
 * What exploring costs, and may cost: a part of the time of all runs, earned before it is spent. A
 * switch is charged with what it is known to cost, or with all that the runs took beyond the time of
 * the variant at home, if that is more: while links are set up, cold first runs, slow variants. So
 * what is charged is at least what was lost. Pure: run numbers and times come from outside.
 */
#ifndef DF_TUNING_EXPLORATION_BUDGET_H
#define DF_TUNING_EXPLORATION_BUDGET_H

#include <stdint.h>

enum {
  DF_BUDGET_SWITCH_NS = 500000, /* of all members, about: their threads are woken */
};

typedef struct df_budget {
  double part;   /* of the time of runs; 0: no limit */
  double risk;   /* the most that one variant is expected to cost beyond its switches, in runs */
  double run_ns; /* of a run at home */
  uint64_t run;  /* all before it are earned */
  double earned_ns, spent_ns;
  /* After a change: */
  uint64_t granted_to;     /* runs before it have had their grant */
  double earned_before_ns; /* what runs before the latest grant have earned */
  double by_runs_ns;       /* and all runs; without grants */
  double granted_ns, spent_before_ns;
  /* of the exploration at hand, until it is back home */
  double excess_ns;
  uint32_t switches;
} df_budget;

void df_budget_open(df_budget *budget, double part, double risk);
/* Runs up to `run` have ended. */
void df_budget_earn(df_budget *budget, uint64_t run);
/* One of the exploration's runs. */
void df_budget_charge(df_budget *budget, double ns);
/* Back home. */
void df_budget_close(df_budget *budget);
/* Times have changed: twice what the runs since the last grant have earned; more if runs take longer now,
 * as variants will, but at most four times as much, since one look may be wrong. */
void df_budget_add_bonus(df_budget *budget);
/* What of it was not spent. */
void df_budget_take_back(df_budget *budget);
/* Nanoseconds that may be spent; below 0: too much was. */
double df_budget_left(const df_budget *budget);
/* Of so many switches, and one variant between them. */
double df_budget_needed(const df_budget *budget, uint32_t switches);
/* Runs at home until there is enough. */
uint64_t df_budget_runs_until(const df_budget *budget, double needed_ns);

#endif
