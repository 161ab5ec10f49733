#include "host/api/memory_use.h"

#include <inttypes.h>
#include <string.h>

#include "base/mutex.h"
#include "host/state/registry.h"

/* The caller's struct may be shorter or longer. */
static void answer(dfcclMemory_t *memory, dfcclMemory_t *whole, const df_ring_memory *rings) {
  whole->ringBytes = rings->used;
  whole->reservedBytes = rings->reserved;
  whole->size = memory->size;
  whole->version = memory->version;
  memcpy(memory, whole, DF_MIN(whole->size, sizeof *whole));
}

void df_get_memory(dfcclContext_t context, dfcclMemory_t *memory) {
  dfcclMemory_t whole = DFCCL_MEMORY_INITIALIZER;
  df_ring_memory rings = {0};
  df_rank_lock(&context->lock);
  df_endpoint *const endpoints[] = {&context->transports.shm->base, context->transports.wire};
  whole.collectives = context->registry.n_colls + context->registry.n_variants;
  whole.recordBytes = context->registry.record_bytes + df_plan_cache_bytes(&context->plans);
  for (size_t i = 0; i < DF_COUNT_OF(endpoints); i++)
    if (endpoints[i]) endpoints[i]->transport->add_all_memory(endpoints[i], &rings);
  for (const df_user_memory *user = context->memory.in_use; user; user = user->next)
    whole.userBytes += user->segment->bytes;
  df_rank_unlock(&context->lock);
  answer(memory, &whole, &rings);
}

static void add_rings(dfcclContext_t context, const df_coll *coll,
                      df_ring_memory *rings) DF_RANK_LOCKED {
  const df_range *common = &coll->exec.common.range;
  for (uint32_t i = 0; i < coll->members.n_paired; i++) {
    df_remote *remote = coll->members.remotes[i];
    if (remote == NULL) continue;
    df_endpoint *endpoint = context->transports.to[remote->peer];
    for (uint32_t channel = 0; channel <= remote->n_more; channel++) {
      const df_remote_ends *ends = df_ends_of(remote, channel);
      endpoint->transport->add_memory(endpoint, ends->accepted, rings);
      endpoint->transport->add_memory(endpoint, ends->connected, rings);
    }
  }
  if (common->segment == NULL) return;
  rings->reserved += common->bytes;
  rings->used += df_segment_used(common->segment, common->offset, common->bytes);
}

dfcclResult_t df_get_collective_memory(dfcclContext_t context, dfcclCollId_t id,
                                       dfcclMemory_t *memory) {
  dfcclMemory_t whole = DFCCL_MEMORY_INITIALIZER;
  df_ring_memory rings = {0};
  df_rank_lock(&context->lock);
  const df_coll *registered = df_find(context, id);
  for (uint32_t i = 0; registered && i < context->registry.n_indices; i++) {
    const df_coll *coll = df_registered(context, i);
    if (coll == NULL || (coll != registered && coll->registered != registered)) continue;
    whole.collectives++;
    whole.recordBytes += coll->record_bytes;
    add_rings(context, coll, &rings);
  }
  df_rank_unlock(&context->lock);
  if (registered == NULL)
    return df_fail(dfcclInvalidArgument, "collective %" PRIu64 " is not registered on rank %u", id,
                   context->rank);
  answer(memory, &whole, &rings);
  return dfcclSuccess;
}
