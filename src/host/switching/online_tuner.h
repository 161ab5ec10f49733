/* The online tuner of one collective, on the group's first member. It executes the decisions of
 * tuning/search_policy.h: it requests plan variants (plan_switch.h), and takes the times of a few
 * of their runs. No run ever waits for it: while it computes, runs continue on the present plan. */
#ifndef DF_HOST_SWITCHING_ONLINE_TUNER_H
#define DF_HOST_SWITCHING_ONLINE_TUNER_H

#include "base/mutex.h"
#include "host/state/context.h"
#include "tuning/search_policy.h"

typedef struct df_tuner_summary {
  df_search_state state;
  uint32_t measured, begun;       /* points; searches */
  double spent_us;                /* cost of exploring, as charged to the budget */
  double registered_us, tuned_us; /* results of the latest comparison; 0: none */
} df_tuner_summary;

/* After a successful registration: starts to tune the collective if the settings or its options
 * request it. */
void df_tuner_consider(dfcclContext_t context, dfcclCollId_t id, const dfcclCollOptions_t *options);
/* The same for a collective whose group has changed. tune: that of its options. */
void df_tuner_begin_anew(dfcclContext_t context, df_coll *registered, int tune) DF_RANK_LOCKED;
/* 0: the collective is not tuned. */
int df_tuner_summarise(const df_coll *registered, df_tuner_summary *summary) DF_RANK_LOCKED;

#endif
