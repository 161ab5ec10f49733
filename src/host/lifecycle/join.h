/* A process that joins a running job (dfcclJoin). */
#ifndef DF_HOST_LIFECYCLE_JOIN_H
#define DF_HOST_LIFECYCLE_JOIN_H

#include "host/state/context.h"

dfcclResult_t df_job_join(dfcclContext_t *context, const dfcclUniqueId *id,
                          const df_settings *settings);

#endif
