/* Links of a collective, reserved at its first run. */
#ifndef DF_HOST_REGISTRATION_LINK_SETUP_H
#define DF_HOST_REGISTRATION_LINK_SETUP_H

#include "base/mutex.h"
#include "host/state/context.h"

/* Reserves, tells, connects, as far as possible without waiting. */
void df_links_progress(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* On the service thread, for all collectives that need it. */
void df_links_progress_due(dfcclContext_t context);
/* On the service thread; unlocks the lock meanwhile. The peer told where this rank writes. */
void df_links_told(dfcclContext_t context, df_remote *remote, uint32_t channel,
                   const df_offer *offer) DF_RANK_LOCKED;

#endif
