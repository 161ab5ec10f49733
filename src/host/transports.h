/* Which transport joins this rank with each other, and their endpoints. */
#ifndef DF_HOST_TRANSPORTS_H
#define DF_HOST_TRANSPORTS_H

#include "host/context.h"

/* Cards and control are there, the device is not open. On failure df_transports_close undoes what
 * was done. dfcclOutOfMemory, dfcclSystemError, dfcclInvalidUsage (two ranks have no transport). */
dfcclResult_t df_transports_open(dfcclContext_t context);
/* keep: what other processes may have mapped stays until this one ends. */
void df_transports_close(dfcclContext_t context, int keep);

#endif
