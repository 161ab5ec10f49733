/*
 * The tuner's decisions for one collective. Pure: what its runs took comes in, and what to do next
 * goes out; no clock, no lock, no message (host/switching/online_tuner.c has those). So it is tested in virtual time.
 *
 *   begins     on the registered variant: how long its runs take on this rank
 *   searches   the search (coordinate_descent.h) names a variant; it gets DF_SEARCH_RUNS timed runs. One that is
 *              far slower, or costs more than there is (exploration_budget.h), is left after its first runs.
 *   returns    to the variant at home: the registered one, or the latest winner
 *   rests      there, until the next variant can be paid
 *   compares   the winner, the registered variant twice, the winner again: it stays only if both of
 *              its medians are 2 % less than both others, and its sums less, too; twice in a row. If no
 *              variant was faster there is nothing to compare. If it has lost, what was measured of it
 *              was luck: the next fastest is compared, if it was 10 % faster than the registered one;
 *              three in all.
 *   watches    32 runs now and then, and also while it rests: if they take 15 % longer, or shorter,
 *              twice in a row, it begins anew; after searches that found nothing only if they do so
 *              more often in a row, unless it is 50 %. A winner whose runs take longer on this rank
 *              than those of the registered variant did is compared again.
 *
 * Anew: first the registered variant, the one at home, and the runner-ups, the fastest of before first,
 * paid by a grant (exploration_budget.h). One that is 10 % faster than what is at home now takes its place at
 * once, since the change has shown that what was found before is worth less; unless what was at home is
 * as fast when it is measured once more. Then the search goes on from there as usual, and ends with the
 * comparison.
 *
 * Source: AutoCCL (NSDI 2025), sections 4 and 5; account, comparison and watch are additions.
 */
#ifndef DF_TUNING_SEARCH_POLICY_H
#define DF_TUNING_SEARCH_POLICY_H

#include "control/message.h"
#include "tuning/exploration_budget.h"
#include "tuning/coordinate_descent.h"
#include "tuning/times.h"

enum {
  DF_SEARCH_RUNS = 8,    /* timed, of each variant; if their mean counts, as search_policy.c says */
  DF_SEARCH_WARM = 16,   /* before it begins, and after a switch that was called off */
  DF_SEARCH_WINDOW = 32, /* that are watched, and of each turn of a comparison */
  DF_SEARCH_TIMES = DF_TIMES_MOST /* at once, at most */
};

typedef enum {
  DF_SEARCH_BEGINS,
  DF_SEARCH_SEARCHES,
  DF_SEARCH_RETURNS,
  DF_SEARCH_RESTS,
  DF_SEARCH_COMPARES,
  DF_SEARCH_WATCHES,
  DF_SEARCH_STOPPED /* too many variants could not be had, or a member has left */
} df_search_state;

typedef enum {
  DF_REQUEST_NOTHING, /* go on as it is */
  DF_REQUEST_VARIANT, /* go over to the point; its first run, then so many timed ones */
  DF_REQUEST_REST, /* df_search_rested after so many runs, with the last DF_SEARCH_WINDOW if there are */
  DF_REQUEST_WATCH, /* df_search_watched after so many runs, with the last DF_SEARCH_WINDOW */
  DF_REQUEST_STOP
} df_search_request_kind;

typedef struct df_search_request {
  df_search_request_kind kind;
  df_point point;
  uint64_t runs;
  df_purpose
      purpose; /* of the point; of a rest or a watch: of what is in force; DF_PURPOSES: no other */
} df_search_request;

typedef struct df_search {
  df_search_state state, then; /* then: after a return */
  df_descent descent;
  df_budget budget;
  int runs_ahead;    /* some members wait for nobody: own times tell little */
  int by_mean;       /* Runs come in groups, between which ranks wait: only their sum counts. */
  int is_remembered; /* the winner is another job's, and nothing was searched yet */
  df_point registered, baseline, winner;
  df_point asked, in_force;
  df_point before; /* the winner of the search before */
  double needed_ns;
  /* runs since `asked` was asked for; of those on it, the first is cold */
  uint32_t since, there, n_own;
  double there_ns;
  uint32_t own[DF_SEARCH_TIMES];
  uint32_t told; /* members' times that are awaited */

  uint32_t lost;            /* variants that could not be had, in a row */
  uint32_t begun;           /* searches */
  uint32_t wins;            /* comparisons, in a row */
  uint32_t losses;          /* comparisons of this search */
  uint32_t turn;            /* of the comparison */
  double turns_ns[4];       /* winner, registered, registered, winner */
  double sums_ns[3];        /* winner, registered, winner: of all runs of the turn */
  double registered_own_ns; /* on this rank, while it was compared; 0: never */
  double baseline_ns;       /* of all members; 0: not known */
  double registered_ns, tuned_ns;
  int has_news;         /* of a comparison; whoever reads it clears it */
  double watched_ns;    /* when the watch began; 0: not known yet */
  int drifted;          /* windows in a row: positive slower, negative faster */
  int greatly;          /* likewise, by half and more */
  int has_drifted;      /* the search has begun anew */
  uint32_t probes;      /* of runner-ups, that are still paid by the grant */
  df_point displaced;   /* was at home until a probe took its place ... */
  int checks_displaced; /* ... and is measured once more */
  int worse;            /* windows in a row: than the registered variant was */
  uint32_t patience;    /* doublings of how many windows must have drifted, unless greatly */
} df_search;

/* The search has its subspaces; its first point is the registered variant. part: of the time of all
 * runs, which exploring may cost; 0: no limit. */
void df_search_open(df_search *search, double part, int runs_ahead, int by_mean);
/* Before it begins: what another job has found. */
void df_search_remember(df_search *search, const df_point *point);

/* run: how many have ended. */
/* This rank's own, of the registered variant. */
df_search_request df_search_begin(df_search *search, uint64_t run, const uint32_t *ns, uint32_t n);
/* One run while df_search_counts: of this rank. is_there: it was on what was asked for. may_ask: all
 * members have gone over. */
df_search_request df_search_ran(df_search *search, uint64_t run, uint32_t ns, int is_there,
                                int may_ask);
/* All members' times of the runs that were asked for; sum_ns: of one member, all of them. */
df_search_request df_search_told(df_search *search, uint64_t run, const uint32_t *ns, uint32_t n,
                                 double sum_ns);
/* With DF_SEARCH_WINDOW times: of the last runs. With fewer: they tell nothing. */
df_search_request df_search_rested(df_search *search, uint64_t run, const uint32_t *ns, uint32_t n,
                                   int may_ask);
df_search_request df_search_watched(df_search *search, uint64_t run, const uint32_t *ns, uint32_t n,
                                    int may_ask);
/* What was asked for will not be. */
df_search_request df_search_called_off(df_search *search, uint64_t run);
void df_search_stop(df_search *search);

/* Whether df_search_ran wants to hear: until it is back home. */
int df_search_counts(const df_search *search);
const char *df_search_state_name(df_search_state state);

#endif
