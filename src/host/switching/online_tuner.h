/*
 * The online tuner: for one collective, on the group's first member. It does what tuning/search_policy.h
 * decides: it asks for variants (plan_switch.h), and takes the times of a few of their runs. Nobody ever
 * waits for it: while it thinks, runs go on as they are.
 */
#ifndef DF_HOST_SWITCHING_ONLINE_TUNER_H
#define DF_HOST_SWITCHING_ONLINE_TUNER_H

#include "host/state/context.h"
#include "tuning/search_policy.h"

typedef struct df_tuner_summary {
  df_search_state state;
  uint32_t measured, begun;       /* points; searches */
  double spent_us;                /* by exploring, as charged */
  double registered_us, tuned_us; /* of the latest comparison; 0: none */
} df_tuner_summary;

/* After a registration that has succeeded: tunes it if settings and options say so. */
void df_tuner_consider(dfcclContext_t context, dfcclCollId_t id, const dfcclCollOptions_t *options);
/* [lock] 0: it is not tuned. */
int df_tuner_summarise(const df_coll *registered, df_tuner_summary *summary);

#endif
