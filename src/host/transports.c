#include "host/transports.h"

#include <stdlib.h>

#include "control/service.h"
#include "host/failure.h"
#include "host/memory.h"
#include "host/registry.h"
#include "host/runs.h"
#include "transports/ipc/ipc.h"

/* ---- what endpoints ask ---- */

static void wake(void *owner) { df_service_wake(&((dfcclContext_t)owner)->control); }

static int is_quiet(void *owner, uint32_t member) {
  const dfcclContext_t context = owner;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = context->registry.by_index[i];
    if (coll == NULL || df_runs_in_device(coll) == 0) continue;
    for (uint32_t m = 0; m < coll->n; m++)
      if (coll->ranks[m] == member) return 0;
  }
  return 1;
}

static int is_broken(void *owner) {
  return ((dfcclContext_t)owner)->failure.broken != dfcclSuccess;
}

static void failed(void *owner, dfcclResult_t status, const char *sentence) {
  df_give_up(owner, status, sentence);
}

static void unmapped(void *owner) { df_memory_free_unmapped(owner); }

/* ---- choice ---- */

static const df_transport *const known[] = {&df_transport_shm, &df_transport_ipc};

/* The one of the least cost; NULL: none joins the two. */
static const df_transport *cheapest(const df_transport_card *mine,
                                    const df_transport_card *theirs) {
  const df_transport *best = NULL;
  uint32_t least = UINT32_MAX;
  for (size_t i = 0; i < DF_COUNT_OF(known); i++) {
    uint32_t cost = known[i]->cost(mine, theirs);
    if (cost == 0 || cost >= least) continue;
    least = cost;
    best = known[i];
  }
  return best;
}

static df_shared_memory memory_of(dfcclContext_t context) {
  const df_memory_ops *ops = context->device.memory;
  const df_stream_ops *streams = context->device.streams;
  return (df_shared_memory){.device = &context->device,
                            .sets_up_in_background = ops->sets_up_in_background,
                            .host_sees_links = ops->host_sees_links,
                            .exports_memory = ops->exports_memory,
                            .create = ops->create,
                            .map = ops->map,
                            .clear = ops->clear,
                            .lends_to = ops->lends_to,
                            .pause = streams ? streams->pause : NULL,
                            .resume = streams ? streams->resume : NULL};
}

dfcclResult_t df_transports_open(dfcclContext_t context) {
  df_transports *transports = &context->transports;
  const df_transport_card mine = df_context_transport_card(context, context->rank);
  const df_transport *own = cheapest(&mine, &mine);
  const df_shared_memory memory = memory_of(context);
  df_endpoint *endpoint = NULL;
  transports->to = calloc(context->n_ranks, sizeof *transports->to);
  transports->serves = calloc(context->n_ranks, 1);
  if (transports->to == NULL || transports->serves == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the ways to %u ranks", context->n_ranks);
  for (uint32_t r = 0; r < context->n_ranks; r++) {
    const df_transport_card theirs = df_context_transport_card(context, r);
    transports->serves[r] = cheapest(&mine, &theirs) == own;
    if (own == NULL || !transports->serves[r])
      return df_fail(dfcclInvalidUsage, "rank %u has no way to rank %u", context->rank, r);
  }
  const df_endpoint_owner owner = {.owner = context,
                                   .rank = context->rank,
                                   .n_ranks = context->n_ranks,
                                   .lock = &context->lock,
                                   .serves = transports->serves,
                                   .control = &context->control,
                                   .memory = &memory,
                                   .wake = wake,
                                   .is_quiet = is_quiet,
                                   .is_broken = is_broken,
                                   .failed = failed,
                                   .unmapped = unmapped};
  dfcclResult_t result = own->open(&endpoint, &owner);
  if (result != dfcclSuccess) return result;
  endpoint->transport = own;
  transports->shm = (df_shm_endpoint *)endpoint;
  for (uint32_t r = 0; r < context->n_ranks; r++) transports->to[r] = endpoint;
  return dfcclSuccess;
}

void df_transports_close(dfcclContext_t context, int keep) {
  df_transports *transports = &context->transports;
  if (transports->shm) df_shm_close(&transports->shm->base, keep);
  transports->shm = NULL;
  free(transports->to);
  free(transports->serves);
}
