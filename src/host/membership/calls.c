/* Calls of the application: dfcclExclude and dfcclGetMembership. */
#include "base/clock.h"
#include "base/mutex.h"
#include "host/membership/membership.h"
#include "host/membership/membership_parts.h"

static dfcclResult_t check_excluded(dfcclContext_t context, const int *ranks,
                                    int n) DF_RANK_LOCKED {
  if (context->survival == NULL)
    return df_fail(dfcclInvalidUsage,
                   "dfcclExclude needs config.survive 1 or 2; it is 0 on rank %u", context->rank);
  if (ranks == NULL || n < 1)
    return df_fail(dfcclInvalidArgument, "ranks is %p and n is %d; name at least one rank",
                   (const void *)ranks, n);
  uint32_t members = 0, excluded = 0;
  for (uint32_t rank = 0; rank < context->n_ranks; rank++) {
    int is_named = 0;
    for (int i = 0; i < n; i++) is_named |= ranks[i] == (int)rank;
    members += (uint32_t)df_is_member(context->survival, rank);
    excluded += is_named && df_is_member(context->survival, rank);
  }
  for (int i = 0; i < n; i++) {
    if (ranks[i] < 0 || (uint32_t)ranks[i] >= context->n_ranks)
      return df_fail(dfcclInvalidArgument, "ranks[%d] is %d; ranks go from 0 to %u", i, ranks[i],
                     context->n_ranks - 1);
    if ((uint32_t)ranks[i] == context->rank)
      return df_fail(dfcclInvalidArgument,
                     "ranks[%d] is %d, this rank itself; dfcclDestroy leaves a job", i, ranks[i]);
  }
  if (excluded > 0 && excluded + 1 == members && members > 2)
    return df_fail(dfcclInvalidArgument, "ranks names all other %u members", excluded);
  return dfcclSuccess;
}

dfcclResult_t df_membership_exclude(dfcclContext_t context, const int *ranks, int n) {
  df_rank_lock(&context->lock);
  dfcclResult_t result = check_excluded(context, ranks, n);
  if (result == dfcclSuccess && context->failure.broken != dfcclSuccess)
    result = df_fail_again(context->failure.broken, context->failure.broken_sentence);
  for (int i = 0; result == dfcclSuccess && i < n; i++) {
    if (!df_is_member(context->survival, (uint32_t)ranks[i])) continue;
    df_view_suspect(&df_membership_of(context)->view, (uint32_t)ranks[i], DF_EVIDENCE_ASKED,
                    df_clock_ns());
    df_membership_drive(context);
  }
  df_rank_unlock(&context->lock);
  return result;
}

dfcclResult_t df_membership_get(dfcclContext_t context, dfcclMembership_t *membership) {
  dfcclResult_t result = dfcclSuccess;
  df_rank_lock(&context->lock);
  if (context->survival == NULL)
    result = df_fail(dfcclInvalidUsage,
                     "dfcclGetMembership needs config.survive 1 or 2; it is 0 on rank %u",
                     context->rank);
  else
    df_views_get(&df_membership_of(context)->views, membership);
  df_rank_unlock(&context->lock);
  return result;
}
