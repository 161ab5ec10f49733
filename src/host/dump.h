/* Dumps and statistics. [lock]: the caller holds context->lock. */
#ifndef DF_HOST_DUMP_H
#define DF_HOST_DUMP_H

#include "host/context.h"

void df_describe_wait(dfcclContext_t context, const df_coll *coll, char *text,
                      size_t bytes); /* [lock] state and for whom it waits */
dfcclResult_t df_dump(dfcclContext_t context, int fd);
char *df_dump_text(const dfcclContext_t context); /* [lock] the caller's; NULL: no memory */
dfcclResult_t df_stats(dfcclContext_t context, dfcclStats_t *stats);
dfcclResult_t df_dump_signal_enable(dfcclContext_t context); /* SIGUSR2 */
void df_dump_signal_disable(dfcclContext_t context);
/* In a forked child: the descriptor is the parent's. */
void df_dump_signal_forget(int event_fd);
uint32_t df_dump_signals_seen(void);

#endif
