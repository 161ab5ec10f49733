/*
 * A job with a tuner's leader in virtual time: the times of runs are given, links are set up and members
 * answer some runs later, and all of it is added up. Used by test_leader.c and test_leader_change.c.
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
  double baseline_ns, most_ratio, least_ratio; /* of variants, by the registered one's */
  double setup_ns, cold_ns;                    /* until links stand; of the first run */
  double noise;
  double ratios[ALGORITHMS]; /* of all an algorithm's, but the registered one; 0: drawn */
  double best_ratio;         /* of one algorithm; 0: none is better */
  uint8_t best;              /* which one */
  uint8_t sprinter;          /* an algorithm whose first runs take a third; 0: none */
  int spikes;                /* every fourth run of that algorithm takes three times as long */
  int ahead, lag;            /* runs until all have gone over; until they have told */
  int runs_ahead;            /* this rank's own runs tell nothing */
  int is_mute;               /* no times are told */
  uint64_t lost_of;          /* one of so many variants is called off; 0: none */

  uint64_t run;
  df_point in_force, next;
  uint64_t over_at; /* NEVER: no switch is in progress */
  uint64_t timed_from, timed_to, tell_at;
  uint64_t asked;    /* to be timed, of the latest variant */
  uint64_t woken_at; /* of a rest or a watch */
  uint32_t rested;   /* times that are told then */
  int is_first;
  uint32_t on_it; /* runs since the latest switch */
  uint32_t ns[DF_SEARCH_TIMES], own[DF_SEARCH_WINDOW];
  double spent_ns, default_ns, most_over; /* the greatest of spent - 1.01 * default */
  uint64_t switches;
  df_purpose purpose; /* of what is in force, or asked for */
} search_world;

double search_uniform(df_random *random, double least, double most);
/* part: of the runs' time that the tuner may take. */
void search_world_open(search_world *w, double part);
void search_run_once(search_world *w);
void search_run(search_world *w, uint64_t n);

#endif
