/*
 * dfcclMemAlloc: a segment of its own for each allocation, offered to every peer process in the
 * background. A peer that has mapped it answers with its address; from then on messages to that
 * peer may lend the memory instead of copying it.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "host/context.h"

/* [lock] Gives the memory a number that runs can carry; entry 0 is never used. */
static void enter_reach(dfcclContext_t context, df_user_memory *memory) {
  uint32_t entry = 1;
  while (entry < DF_MAX_REACHES && context->reaches[entry]) entry++;
  if (entry == DF_MAX_REACHES) return; /* it is copied through slots then */
  context->reaches[entry] = memory->reach;
  memory->entry = entry;
}

dfcclResult_t df_memory_alloc(dfcclContext_t context, void **ptr, size_t bytes) {
  df_user_memory *memory = calloc(1, sizeof *memory);
  if (memory == NULL) {
    return df_fail(dfcclOutOfMemory, "no memory for the record of %zu bytes", bytes);
  }
  pthread_mutex_lock(&context->lock);
  dfcclResult_t result =
      context->ops->create_memory(context, &memory->segment, context->next_segment_id, bytes);
  if (result == dfcclSuccess) {
    context->next_segment_id++;
    memory->reach = context->ops->take_reach(context);
    for (uint32_t r = 0; r < context->n_ranks && memory->reach; r++) {
      int reads = context->peers[r].local && context->ops->lends_memory_to(context, r);
      memory->reach[r] = reads ? 0 : DF_OUT_OF_REACH;
    }
    if (memory->reach) enter_reach(context, memory); /* else it is copied through slots */
    memory->next = context->user_memory;
    context->user_memory = memory;
    for (uint32_t r = 0; r < context->n_ranks; r++)
      if (!context->peers[r].local) df_send_segment(context, r, memory->segment, DF_SEGMENT_USER);
    *ptr = memory->segment->base;
  }
  pthread_mutex_unlock(&context->lock);
  if (result != dfcclSuccess) free(memory);
  return result;
}

static void free_memory(dfcclContext_t context, df_user_memory *memory) {
  df_segment_destroy(memory->segment);
  if (memory->reach) context->ops->give_reach(context, memory->reach);
  free(memory);
}

dfcclResult_t df_memory_free(dfcclContext_t context, void *ptr) {
  pthread_mutex_lock(&context->lock);
  df_user_memory **at = &context->user_memory;
  while (*at && (*at)->segment->base != ptr) at = &(*at)->next;
  df_user_memory *memory = *at;
  if (memory) {
    *at = memory->next;
    if (memory->entry) context->reaches[memory->entry] = NULL;
    df_message message = {.kind = DF_MESSAGE_UNMAP, .id = memory->segment->id};
    /* Runs that succeeded were drained: nobody reads what they lent. After a failure a peer may,
     * and may not have heard of it: its mapping stays until its end. */
    int read_no_more = context->broken == dfcclSuccess && !context->may_be_read;
    for (uint32_t r = 0; r < context->n_ranks && read_no_more; r++)
      if (!context->peers[r].local) df_send(context, r, &message, NULL, -1);
  }
  pthread_mutex_unlock(&context->lock);
  if (memory == NULL)
    return df_fail(dfcclInvalidArgument,
                   "%p was not allocated by dfcclMemAlloc on rank %u, or is freed already", ptr,
                   context->rank);
  free_memory(context, memory);
  return dfcclSuccess;
}

uint32_t df_memory_reach(dfcclContext_t context, const void *ptr) {
  for (df_user_memory *memory = context->user_memory; memory; memory = memory->next) {
    uintptr_t base = (uintptr_t)memory->segment->base;
    if ((uintptr_t)ptr >= base && (uintptr_t)ptr - base < memory->segment->bytes)
      return memory->entry;
  }
  return 0;
}

void df_memory_mapped(dfcclContext_t context, uint32_t peer, uint64_t segment, uint64_t address) {
  for (df_user_memory *memory = context->user_memory; memory; memory = memory->next)
    if (memory->segment->id == segment && memory->reach)
      df_publish_u64(&memory->reach[peer], address - (uint64_t)(uintptr_t)memory->segment->base);
}

void df_memory_release(dfcclContext_t context) {
  while (context->user_memory) {
    df_user_memory *next = context->user_memory->next;
    free_memory(context, context->user_memory);
    context->user_memory = next;
  }
}
