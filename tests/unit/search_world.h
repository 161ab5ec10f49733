/*
 * A job with the tuner's search policy, in virtual time: the times of runs are given, links are set
 * up and members answer some runs later, and all times are added up. Used by test_search_policy.c
 * and test_search_policy_change.c.
 */
#ifndef DF_TESTS_UNIT_SEARCH_WORLD_H
#define DF_TESTS_UNIT_SEARCH_WORLD_H

#include "support/harness.h"
#include "tuning/search_policy.h"

enum { ALGORITHMS = 10, PLACES = 8, NEVER = 1 << 30, SPRINT = 2 * DF_SEARCH_RUNS };

typedef struct search_world {
  df_search search;
  df_random random;
  uint64_t surface;
  /* The time of the registered variant, and the limits of the others' times relative to it. */
  double baseline_ns, most_ratio, least_ratio;
  double setup_ns, cold_ns; /* added by link set-up, and by the first run */
  double noise;
  /* The ratio of each algorithm's variants, except the registered variant; 0: drawn. */
  double ratios[ALGORITHMS];
  double best_ratio; /* ratio of one algorithm; 0: none is better */
  uint8_t best;      /* the number of that algorithm */
  uint8_t sprinter;  /* an algorithm whose first runs take a third; 0: none */
  int spikes;        /* every fourth run of that algorithm takes three times as long */
  int ahead, lag;    /* runs until all members have switched; until they have reported */
  int runs_ahead;    /* this rank's own times are not used */
  int is_silent;     /* no member reports times */
  uint64_t lost_of;  /* one of this many variants is cancelled; 0: none */

  uint64_t run;
  df_point in_force, next;
  uint64_t over_at; /* NEVER: no switch is in progress */
  uint64_t timed_from, timed_to, report_at;
  uint64_t asked;    /* runs to be timed, of the latest variant */
  uint64_t woken_at; /* runs until the end of a pause or a watch */
  uint32_t rested;   /* times that are reported then */
  int is_first;
  uint32_t on_it; /* runs since the latest switch */
  uint32_t ns[DF_SEARCH_TIMES], own[DF_SEARCH_WINDOW];
  double spent_ns, default_ns, most_over; /* the greatest of spent - 1.01 * default */
  uint64_t switches;
  df_purpose purpose; /* variant in force, or requested */
} search_world;

double search_uniform(df_random *random, double least, double most);
/* part: the share of the runs' time that the tuner may use. */
void search_world_open(search_world *w, double part);
void search_run_once(search_world *w);
void search_run(search_world *w, uint64_t n);

#endif
