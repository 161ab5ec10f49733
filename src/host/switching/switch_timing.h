/* Times of runs, for whoever asks for switches (plan_switch.h): which runs are timed, and who is told. */
#ifndef DF_HOST_SWITCHING_SWITCH_TIMING_H
#define DF_HOST_SWITCHING_SWITCH_TIMING_H

#include "host/switching/plan_switch.h"

/* [lock] all of them. From `from` on, below `to`; equal: none. number: the switch that asked for
 * them, whose leader is told; 0: this rank's owner. */
void df_plan_switch_set_range(dfcclContext_t context, df_coll *registered, uint64_t from,
                              uint64_t to, uint64_t number);
/* A run from front->heeded_from on has retired. */
void df_plan_switch_timed(dfcclContext_t context, df_coll *registered, const df_run *run);
/* On the leader, from the member at `position` of the group. */
void df_plan_switch_receive_times(dfcclContext_t context, df_coll *registered, uint32_t position,
                                  const df_message *message);

#endif
