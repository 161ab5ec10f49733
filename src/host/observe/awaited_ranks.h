/* The ranks that a collective of this rank waits for. */
#ifndef DF_HOST_OBSERVE_AWAITED_RANKS_H
#define DF_HOST_OBSERVE_AWAITED_RANKS_H

#include "base/mutex.h"
#include "base/text.h"
#include "host/state/context.h"

/* Whether the member has not registered or not run the collective, according to its announcements.
 */
int df_has_not_come(const df_coll *coll, uint32_t position) DF_RANK_LOCKED;

/* Whether a run in the daemon, or its links, cannot progress at this moment without the member. */
int df_waits_for_member(dfcclContext_t context, const df_coll *coll,
                        uint32_t position) DF_RANK_LOCKED;

/* Describes the collective's state, and the ranks that it waits for. */
void df_describe_wait(dfcclContext_t context, const df_coll *coll, char *text,
                      size_t bytes) DF_RANK_LOCKED;
void df_say_wait(dfcclContext_t context, const df_coll *coll, df_text *text) DF_RANK_LOCKED;

#endif
