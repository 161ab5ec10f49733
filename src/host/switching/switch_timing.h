/* Times of runs for the owner of plan switches (plan_switch.h): which runs are timed, and where the
 * times go. */
#ifndef DF_HOST_SWITCHING_SWITCH_TIMING_H
#define DF_HOST_SWITCHING_SWITCH_TIMING_H

#include "base/mutex.h"
#include "host/switching/plan_switch.h"

/* Replaces the range of timed runs: from `from` on, below `to`; equal: none. number: the switch
 * whose leader receives the times; 0: this rank's owner receives them. */
void df_plan_switch_set_range(dfcclContext_t context, df_coll *registered, uint64_t from,
                              uint64_t to, uint64_t number) DF_RANK_LOCKED;
/* A run from registered->runs.watched_from on has retired. */
void df_plan_switch_timed(dfcclContext_t context, df_coll *registered,
                          const df_run *run) DF_RANK_LOCKED;
/* On the leader: handles times from the member at `position` of the group. */
void df_plan_switch_receive_times(dfcclContext_t context, df_coll *registered, uint32_t position,
                                  const df_message *message);

#endif
