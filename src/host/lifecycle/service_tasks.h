/* Tasks of the service thread for this rank: links, mappings, deadlines, recordings, dumps. */
#ifndef DF_HOST_LIFECYCLE_SERVICE_TASKS_H
#define DF_HOST_LIFECYCLE_SERVICE_TASKS_H

#include "host/state/context.h"

/* Before the service thread starts. */
void df_jobs_add(dfcclContext_t context);
/* After the service thread has ended: frees unwritten dumps. */
void df_jobs_close(dfcclContext_t context);

#endif
