/* Links of a collective: reserved at its first run. [lock]: the caller holds context->lock. */
#ifndef DF_HOST_LINK_SETUP_H
#define DF_HOST_LINK_SETUP_H

#include "host/context.h"

/* [lock] Reserves, tells, connects, and becomes ready, as far as it can. */
void df_links_progress(dfcclContext_t context, df_coll *coll);
/* The service thread: for all collectives, if somebody has asked for it. */
void df_links_progress_due(dfcclContext_t context);
/* [lock], which is let go. The service thread: the peer has told where this rank shall write. */
void df_links_told(dfcclContext_t context, df_remote *remote, const df_offer *offer);

#endif
