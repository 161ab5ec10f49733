/* Dumps and statistics. */
#ifndef DF_HOST_OBSERVE_DUMP_H
#define DF_HOST_OBSERVE_DUMP_H

#include "base/mutex.h"
#include "host/state/context.h"

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
