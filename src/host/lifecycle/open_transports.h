/* The transport and endpoint to each other rank. */
#ifndef DF_HOST_LIFECYCLE_OPEN_TRANSPORTS_H
#define DF_HOST_LIFECYCLE_OPEN_TRANSPORTS_H

#include "host/state/context.h"

/* Needs cards and control, not the device. After a failure call df_transports_close.
 * dfcclOutOfMemory, dfcclSystemError, dfcclInvalidUsage (two ranks have no transport). */
dfcclResult_t df_transports_open(dfcclContext_t context);
/* keep: what other processes may have mapped stays until this process ends. */
void df_transports_close(dfcclContext_t context, int keep);

#endif
