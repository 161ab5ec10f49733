/* Matching of local registrations with those that peers announce. */
#ifndef DF_HOST_REGISTRATION_MATCH_H
#define DF_HOST_REGISTRATION_MATCH_H

#include "base/mutex.h"
#include "host/state/context.h"

dfcclResult_t df_match_announced(dfcclContext_t context, uint32_t peer,
                                 const df_message *message) DF_RANK_LOCKED;
/* Binds the collective to what peers have announced. */
void df_match_bind(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* At local deregistration. */
void df_match_unbind(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* The peer's registration or variant to which the message belongs; or NULL. */
df_remote *df_match_newest(dfcclContext_t context, uint32_t peer,
                           const df_message *message) DF_RANK_LOCKED;
void df_match_deregistered(dfcclContext_t context, df_remote *remote, uint64_t runs,
                           int leaves) DF_RANK_LOCKED;
/* The peer's runs go on in another home: its rings there are of no use any more. */
void df_match_moved(dfcclContext_t context, df_remote *remote) DF_RANK_LOCKED;
/* Finds the limit of runs anew, without members that are lost. */
void df_match_limit_anew(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* The peer's context is broken: it takes part in no run after the first `runs`. */
void df_match_limited(dfcclContext_t context, df_remote *remote, uint64_t runs) DF_RANK_LOCKED;
/* The peer has found that the counts of the run after the first `runs` differ. */
void df_match_differing(dfcclContext_t context, df_remote *remote, uint64_t runs,
                        const char *sentence) DF_RANK_LOCKED;
/* The peer has left the job. */
void df_match_left(dfcclContext_t context, df_remote *remote) DF_RANK_LOCKED;
/* The peer's process has ended, and another one takes its number: forgets what it has announced. */
void df_match_replaced(dfcclContext_t context, uint32_t peer) DF_RANK_LOCKED;
void df_match_free(dfcclContext_t context) DF_RANK_LOCKED;
void df_remote_free(dfcclContext_t context, df_remote *remote) DF_RANK_LOCKED;

#endif
