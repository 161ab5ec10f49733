/* Registration of collectives. */
#ifndef DF_HOST_REGISTRATION_REGISTER_H
#define DF_HOST_REGISTRATION_REGISTER_H

#include "base/mutex.h"
#include "host/state/registry.h"

dfcclResult_t df_register(dfcclContext_t context, const df_registration *registration);
dfcclResult_t df_deregister(dfcclContext_t context, dfcclCollId_t id);
/* Enters a variant of the registered collective. It is not announced yet. */
dfcclResult_t df_register_variant(dfcclContext_t context, df_coll *registered, uint64_t number,
                                  const df_variant_spec *spec, df_coll **out) DF_RANK_LOCKED;
/* Notifies the members, and removes the collective: look-ups no longer find it. */
void df_coll_leave(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* The second half: the members are notified already. */
void df_coll_forget(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;

#endif
