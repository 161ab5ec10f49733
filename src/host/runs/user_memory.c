/*
 * dfcclMemAlloc: each allocation is a segment, which is offered to every peer process in the
 * background. A peer that has mapped it answers with its address; from then on messages to that
 * peer may lend the memory. Memory that peers must unmap first is freed through a list.
 */
#include "host/runs/user_memory.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mutex.h"
#include "control/messenger.h"

/* Enters the mapping in the device's table. Entry 0 means no mapping, and is never used. */
static void enter_mapping(dfcclContext_t context, df_user_memory *memory) DF_RANK_LOCKED {
  uint32_t entry = 1;
  while (entry < DF_MAX_MAPPINGS && context->device.mappings[entry]) entry++;
  if (entry == DF_MAX_MAPPINGS) return; /* messages copy the memory's data then */
  context->device.mappings[entry] = memory->mapping;
  memory->entry = entry;
}

static void offer_memory(dfcclContext_t context, df_user_memory *memory) DF_RANK_LOCKED {
  df_endpoint *shm = &context->transports.shm->base;
  memory->mapping = context->device.memory->take_mapping(&context->device);
  for (uint32_t r = 0; r < context->n_ranks && memory->mapping; r++) {
    int reads = context->control.peers[r].local &&
                context->device.memory->lends_memory_to(&context->device, r);
    memory->mapping[r] = reads ? 0 : DF_NOT_MAPPED;
  }
  if (memory->mapping) enter_mapping(context, memory); /* without mapping, messages copy the data */
  memory->next = context->memory.in_use;
  context->memory.in_use = memory;
  shm->transport->share(shm, memory->segment, memory->mapping);
}

dfcclResult_t df_memory_alloc(dfcclContext_t context, void **ptr, size_t bytes) {
  df_user_memory *memory = calloc(1, sizeof *memory);
  if (memory == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the record of %zu bytes", bytes);
  df_rank_lock(&context->lock);
  dfcclResult_t result = context->failure.broken;
  if (result != dfcclSuccess) df_fail_again(result, context->failure.broken_sentence);
  uint64_t id = context->transports.shm->next_segment_id++;
  df_rank_unlock(&context->lock);
  if (result == dfcclSuccess)
    result = context->device.memory->create(&context->device, &memory->segment, id, bytes);
  if (result != dfcclSuccess) {
    free(memory);
    return result;
  }
  df_rank_lock(&context->lock);
  offer_memory(context, memory);
  *ptr = memory->segment->base;
  df_rank_unlock(&context->lock);
  return dfcclSuccess;
}

static void release_mapping(dfcclContext_t context, df_user_memory *memory) DF_RANK_LOCKED {
  if (memory->mapping) context->device.memory->give_mapping(&context->device, memory->mapping);
  memory->mapping = NULL;
}

/* Whether a peer may still read the memory. Successful runs were drained; a failed run's lent
 * buffers were not. */
static int may_be_read(const dfcclContext_t context, const df_user_memory *memory) DF_RANK_LOCKED {
  return context->failure.broken != dfcclSuccess || memory->may_be_read;
}

/* Buried memory stays until all ranks of this process have left, because they may read it. */
static void free_memory(dfcclContext_t context, df_user_memory *memory) {
  if (memory->buried)
    df_segment_bury(context->control.process_inbox, memory->segment);
  else
    df_segment_destroy(memory->segment);
  free(memory);
}

/* Returns 1 when no other process has the memory mapped. */
static int unshare_memory(dfcclContext_t context, df_user_memory *memory, int read) DF_RANK_LOCKED {
  df_endpoint *shm = &context->transports.shm->base;
  if (!shm->transport->unshare(shm, memory->segment, read)) return 0;
  release_mapping(context, memory);
  return 1;
}

dfcclResult_t df_memory_free(dfcclContext_t context, void *ptr) {
  int is_free = 0;
  df_rank_lock(&context->lock);
  df_user_memory **at = &context->memory.in_use;
  while (*at && (*at)->segment->base != ptr) at = &(*at)->next;
  df_user_memory *memory = *at;
  if (memory) {
    *at = memory->next;
    if (memory->entry) context->device.mappings[memory->entry] = NULL;
    int read = may_be_read(context, memory);
    memory->buried = context->device.memory->exports_memory && read;
    is_free = unshare_memory(context, memory, read);
  }
  if (memory && !is_free) {
    memory->next = context->memory.retired;
    context->memory.retired = memory;
  }
  df_rank_unlock(&context->lock);
  if (memory == NULL)
    return df_fail(dfcclInvalidArgument,
                   "%p was not allocated by dfcclMemAlloc on rank %u, or is freed already", ptr,
                   context->rank);
  if (is_free) free_memory(context, memory);
  return dfcclSuccess;
}

void df_memory_free_unmapped(dfcclContext_t context) {
  df_user_memory *unmapped = NULL, **at = &context->memory.retired;
  df_rank_lock(&context->lock);
  while (*at) {
    df_user_memory *memory = *at;
    if (!unshare_memory(context, memory, 0)) {
      at = &memory->next;
      continue;
    }
    *at = memory->next;
    memory->next = unmapped;
    unmapped = memory;
  }
  df_rank_unlock(&context->lock);
  while (unmapped) { /* without the lock: freeing waits for the device */
    df_user_memory *next = unmapped->next;
    free_memory(context, unmapped);
    unmapped = next;
  }
}

static int is_within(const df_user_memory *memory, const void *ptr) {
  uintptr_t base = (uintptr_t)memory->segment->base;
  return (uintptr_t)ptr >= base && (uintptr_t)ptr - base < memory->segment->bytes;
}

uint32_t df_memory_mapping(dfcclContext_t context, const void *ptr) {
  for (df_user_memory *memory = context->memory.in_use; memory; memory = memory->next)
    if (is_within(memory, ptr)) return memory->entry;
  return 0;
}

void df_memory_keep_lent(dfcclContext_t context, const df_coll *coll) {
  for (uint64_t number = coll->runs.retired; number != coll->runs.admitted; number++) {
    const df_run *run = &coll->runs.in_device[df_slot_of(coll, number)];
    for (df_user_memory *memory = context->memory.in_use; memory; memory = memory->next)
      memory->may_be_read |= is_within(memory, run->send) || is_within(memory, run->recv);
  }
}

static void release_list(dfcclContext_t context, df_user_memory *memory, int keep) DF_RANK_LOCKED {
  while (memory) {
    df_user_memory *next = memory->next;
    release_mapping(context, memory); /* no other thread is left that could need the lock */
    if (keep) {
      memory->segment->next = NULL;
      df_segment_abandon(memory->segment);
      free(memory);
    } else {
      memory->buried |= context->device.memory->exports_memory && may_be_read(context, memory);
      free_memory(context, memory);
    }
    memory = next;
  }
}

void df_memory_release(dfcclContext_t context, int keep) {
  release_list(context, context->memory.in_use, keep);
  release_list(context, context->memory.retired, keep);
  context->memory = (df_memory){0};
}
