/* Links of a collective: reserved at its first run. [lock]: the caller holds context->lock. */
#ifndef DF_HOST_LINK_SETUP_H
#define DF_HOST_LINK_SETUP_H

#include "host/context.h"

void df_links_progress(dfcclContext_t context,
                       df_coll *coll);              /* [lock] reserves, tells, and becomes ready */
void df_links_progress_due(dfcclContext_t context); /* the service thread, where devices want it */
void df_links_told(dfcclContext_t context, df_remote *remote, uint64_t segment,
                   uint64_t offset); /* [lock] */

#endif
