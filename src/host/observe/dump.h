/* Dumps and statistics. */
#ifndef DF_HOST_OBSERVE_DUMP_H
#define DF_HOST_OBSERVE_DUMP_H

#include "base/mutex.h"
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
dfcclResult_t df_dump(dfcclContext_t context, int fd);
/* The caller holds no lock, and frees the text. NULL: no memory. */
char *df_dump_text(dfcclContext_t context);
dfcclResult_t df_stats(dfcclContext_t context, dfcclStats_t *stats);
dfcclResult_t df_dump_signal_enable(dfcclContext_t context); /* handles SIGUSR2 */
void df_dump_signal_disable(dfcclContext_t context);
/* In a forked child, where the descriptor is the parent's: the signal no longer writes to it. */
void df_dump_signal_forget(int event_fd);
uint32_t df_dump_signals_seen(void);

#endif
