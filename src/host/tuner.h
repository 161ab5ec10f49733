/*
 * The online tuner: for one collective, on the group's first member. It asks for variants
 * (epochs.c), takes the times of a few of their runs, and keeps the fastest. Nobody ever waits for
 * it: while it thinks, runs go on as they are.
 *
 *   searches   the search (tuning/descent.h) names a variant; it gets DF_TUNER_RUNS timed runs
 *   rests      on the registered variant, or the latest winner, until what slow variants and
 *              switches cost is paid: at most a twentieth of the time of all runs since the beginning
 *   compares   the winner, the registered variant twice, the winner again, 16 runs each: it stays
 *              only if both of its medians are 2 % less than both others
 *   watches    32 runs of each 1,024, or of each 64 long ones: if they take 15 % longer, or shorter,
 *              three times in a row, it begins anew; less often after searches that found nothing
 *
 * Source: AutoCCL (NSDI 2025), sections 4 and 5; budget, comparison and watch are additions.
 */
#ifndef DF_HOST_TUNER_H
#define DF_HOST_TUNER_H

#include "host/context.h"

typedef enum {
  DF_TUNER_BEGINS,
  DF_TUNER_SEARCHES,
  DF_TUNER_RESTS,
  DF_TUNER_COMPARES,
  DF_TUNER_WATCHES,
  DF_TUNER_STOPPED /* too many variants could not be had, or a member has left */
} df_tuner_state;

typedef struct df_tuner_summary {
  df_tuner_state state;
  uint32_t measured, begun;       /* points; searches */
  double registered_us, tuned_us; /* of the latest comparison; 0: none */
} df_tuner_summary;

/* After a registration that has succeeded: tunes it if settings and options say so. */
void df_tuner_consider(dfcclContext_t context, dfcclCollId_t id, const dfcclCollOptions_t *options);
/* [lock] 0: it is not tuned. */
int df_tuner_summarise(const df_coll *front, df_tuner_summary *summary);
const char *df_tuner_state_name(df_tuner_state state);

#endif
