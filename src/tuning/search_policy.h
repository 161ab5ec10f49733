/*
 * Search policy: the tuner's decisions for one collective. Pure: the times of runs come in, and the
 * next request goes out; there is no clock, no lock and no message (host/switching/online_tuner.c
 * has those), so the policy is tested in virtual time. The baseline is the variant that stays in
 * force between explorations: the registered variant, or the latest winner.
 *
 *   warming    The registered variant runs; the policy learns how long its runs take on this rank.
 *   measuring  The search (coordinate_descent.h) names a variant, which gets DF_SEARCH_RUNS timed
 *              runs. A variant that is far slower, or costs more than the exploration budget has
 *              (exploration_budget.h), is left after its first runs.
 *   returning  The collective goes back to the baseline.
 *   resting    The baseline runs until the budget can pay for the next variant.
 *   comparing  The winner runs, the registered variant twice, the winner again. The winner stays
 *              only if both of its medians are 2 % less than both others, and its sums are less,
 *              too; twice in a row. If no variant was faster, there is no comparison. If the winner
 *              loses, its measurement was luck: the next fastest variant is compared if it was 10 %
 *              faster than the registered one; three variants in all.
 *   watching   A window of 32 runs is timed periodically, also while resting. If the runs take 15 %
 *              longer or shorter, twice in a row, the search begins anew. After searches that found
 *              nothing, more windows in a row are needed, unless the change is 50 %. A winner whose
 *              runs take longer on this rank than those of the registered variant did is compared
 *              again.
 *
 * A new search measures first the registered variant, the baseline, and the runner-ups, the fastest
 * of before first; a bonus of the budget pays for them. A runner-up that is 10 % faster than the
 * baseline takes its place at once, because the change has shown that earlier results are worth
 * less; unless the earlier baseline is as fast when it is measured once more. Then the search goes
 * on from there as usual, and ends with the comparison.
 *
 * Source: AutoCCL (NSDI 2025), sections 4 and 5; budget, comparison and watch are additions.
 */
#ifndef DF_TUNING_SEARCH_POLICY_H
#define DF_TUNING_SEARCH_POLICY_H

#include "control/message.h"
#include "tuning/drift.h"
#include "tuning/exploration_budget.h"
#include "tuning/coordinate_descent.h"
#include "tuning/times.h"

enum {
  DF_SEARCH_RUNS = 8,    /* timed, of each variant; more if their mean counts (runs_of_mean) */
  DF_SEARCH_WARM = 16,   /* before the first search, and after a switch that was cancelled */
  DF_SEARCH_WINDOW = 32, /* runs in a watch, and in each turn of a comparison */
  DF_SEARCH_TIMES = DF_TIMES_MOST /* most in one request */
};

typedef enum {
  DF_SEARCH_WARMING,
  DF_SEARCH_MEASURING,
  DF_SEARCH_RETURNING,
  DF_SEARCH_RESTING,
  DF_SEARCH_COMPARING,
  DF_SEARCH_WATCHING,
  DF_SEARCH_STOPPED /* too many switches were cancelled, or a member has left */
} df_search_state;

typedef enum {
  DF_REQUEST_NOTHING, /* no change */
  DF_REQUEST_VARIANT, /* switch to the point; its first run, then `runs` timed ones */
  DF_REQUEST_REST,  /* df_search_rested after `runs` runs, with the last DF_SEARCH_WINDOW if any */
  DF_REQUEST_WATCH, /* df_search_watched after `runs` runs, with the last DF_SEARCH_WINDOW */
  DF_REQUEST_STOP
} df_search_request_kind;

typedef struct df_search_request {
  df_search_request_kind kind;
  df_point point;
  uint64_t runs;
  /* The purpose of the point; during a rest or a watch, that of the variant in force. DF_PURPOSES:
   * unchanged. */
  df_purpose purpose;
} df_search_request;

typedef struct df_search {
  df_search_state state, then; /* then: after a return */
  df_coordinate_descent descent;
  df_budget budget;
  int runs_ahead;    /* some members wait for nobody: this rank's times mean little */
  int by_mean;       /* Runs come in groups, between which ranks wait: only their sum counts. */
  int is_remembered; /* the winner comes from the tuning file; there was no search yet */
  df_point registered, baseline, winner;
  df_point asked, in_force;
  df_point before; /* the winner of the search before */
  double needed_ns;
  /* runs since the request for `asked`; the first run on it is cold */
  uint32_t since, there, n_own;
  double there_ns;
  uint32_t own[DF_SEARCH_TIMES];
  uint32_t awaited; /* number of members' times that the request will report */

  uint32_t lost;            /* cancelled switches, in a row */
  uint32_t begun;           /* searches */
  uint32_t wins;            /* comparisons, in a row */
  uint32_t losses;          /* comparisons of this search */
  uint32_t turn;            /* current turn of the comparison */
  double turns_ns[4];       /* winner, registered, registered, winner */
  double sums_ns[3];        /* winner, registered, winner: of all runs of the turn */
  double registered_own_ns; /* on this rank, while it was compared; 0: never */
  double baseline_ns;       /* time of the baseline over all members; 0: not known */
  double registered_ns, tuned_ns;
  int has_result;       /* a comparison has a new result; the reader clears it */
  df_drift drift;       /* the baseline's times have changed */
  int has_drifted;      /* the search has begun anew */
  uint32_t probes;      /* remaining probes of runner-ups that the bonus pays for */
  df_point displaced;   /* the baseline until a probe took its place ... */
  int checks_displaced; /* ... which is measured once more */
  int worse;            /* windows in a row: than the registered variant was */
} df_search;

/* The descent has its subspaces already; its first point is the registered variant. part: share of
 * the time of all runs that exploring may cost; 0: no limit. */
void df_search_open(df_search *search, double part, int runs_ahead, int by_mean);
/* Before the first search: the winner of another job. */
void df_search_remember(df_search *search, const df_point *point);

/* In all of these, `run` is the number of runs that have ended. */
/* Times of this rank's runs of the registered variant. */
df_search_request df_search_begin(df_search *search, uint64_t run, const uint32_t *ns, uint32_t n);
/* One run of this rank, while df_search_counts. is_there: the run used the requested variant.
 * may_ask: all members have switched. */
df_search_request df_search_ran(df_search *search, uint64_t run, uint32_t ns, int is_there,
                                int may_ask);
/* All members' times of the requested runs; sum_ns: the sum of all runs of one member. */
df_search_request df_search_reported(df_search *search, uint64_t run, const uint32_t *ns,
                                     uint32_t n, double sum_ns);
/* ns: times of the last runs. Fewer than DF_SEARCH_WINDOW times are ignored. */
df_search_request df_search_rested(df_search *search, uint64_t run, const uint32_t *ns, uint32_t n,
                                   int may_ask);
df_search_request df_search_watched(df_search *search, uint64_t run, const uint32_t *ns, uint32_t n,
                                    int may_ask);
/* The requested switch was cancelled. */
df_search_request df_search_called_off(df_search *search, uint64_t run);
void df_search_stop(df_search *search);

/* Whether df_search_ran must be called for each run: until the baseline is in force again. */
int df_search_counts(const df_search *search);
const char *df_search_state_name(df_search_state state);

#endif
