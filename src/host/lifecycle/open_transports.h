/* The transport and endpoint to each other rank. */
#ifndef DF_HOST_LIFECYCLE_OPEN_TRANSPORTS_H
#define DF_HOST_LIFECYCLE_OPEN_TRANSPORTS_H

#include "host/state/context.h"

/* Needs peer info and control, not the device. After a failure the caller calls
 * df_transports_close. dfcclOutOfMemory, dfcclSystemError, dfcclInvalidUsage (two ranks have no
 * transport). */
dfcclResult_t df_transports_open(dfcclContext_t context);
/* keep: memory that other processes may have mapped stays until this process ends. */
void df_transports_close(dfcclContext_t context, int keep);

#endif
