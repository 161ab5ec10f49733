/* What the service thread does for this rank besides hearing messages: links, mappings, deadlines,
 * recordings and dumps. */
#ifndef DF_HOST_JOBS_H
#define DF_HOST_JOBS_H

#include "host/context.h"

/* Before the service thread starts. */
void df_jobs_add(dfcclContext_t context);
/* When it has ended: frees what it has not written. */
void df_jobs_close(dfcclContext_t context);

#endif
