/* Links of a collective. They are set up at its first run. */
#ifndef DF_HOST_REGISTRATION_LINK_SETUP_H
#define DF_HOST_REGISTRATION_LINK_SETUP_H

#include "base/mutex.h"
#include "host/state/context.h"

/* Reserves rings, sends offers and connects, as far as this is possible without waiting. */
void df_links_progress(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* Sets up the links of all collectives that need it. On the service thread. */
void df_links_progress_due(dfcclContext_t context);
/* Handles a peer's offer, which describes where this rank writes. On the service thread; releases
 * the lock meanwhile. */
void df_links_take_offer(dfcclContext_t context, df_remote *remote, uint32_t channel,
                         const df_offer *offer) DF_RANK_LOCKED;

#endif
