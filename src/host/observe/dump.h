/* Dumps and statistics. */
#ifndef DF_HOST_OBSERVE_DUMP_H
#define DF_HOST_OBSERVE_DUMP_H

#include "base/mutex.h"
#include "host/state/context.h"

/* As far as announced, the member has not registered or not run the collective. */
int df_has_not_come(const df_coll *coll, uint32_t position) DF_RANK_LOCKED;

/* A run that is in the daemon, or its links, cannot get on at this moment without the member. */
int df_waits_for_member(dfcclContext_t context, const df_coll *coll,
                        uint32_t position) DF_RANK_LOCKED;

void df_describe_wait(dfcclContext_t context, const df_coll *coll, char *text,
                      size_t bytes) DF_RANK_LOCKED; /* State, and whom it waits for */
dfcclResult_t df_dump(dfcclContext_t context, int fd);
/* The caller holds no lock, and frees the text. NULL: no memory. */
char *df_dump_text(dfcclContext_t context);
dfcclResult_t df_stats(dfcclContext_t context, dfcclStats_t *stats);
dfcclResult_t df_dump_signal_enable(dfcclContext_t context); /* SIGUSR2 */
void df_dump_signal_disable(dfcclContext_t context);
/* In a forked child: the descriptor is the parent's. */
void df_dump_signal_forget(int event_fd);
uint32_t df_dump_signals_seen(void);

#endif
