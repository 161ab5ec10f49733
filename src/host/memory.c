/*
 * dfcclMemAlloc: a segment of its own for each allocation, offered to every peer process in the
 * background. A peer that has mapped it answers with its address; from then on messages to that
 * peer may lend the memory instead of copying it. Where a mapping must be closed before its memory
 * goes back, freeing is putting it on a list until the peers have done so.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "host/context.h"
#include "control/post.h"
#include "host/memory.h"
#include "transports/ipc/unmap.h"

/* [lock] Gives the memory a number that runs can carry; entry 0 is never used. */
static void enter_reach(dfcclContext_t context, df_user_memory *memory) {
  uint32_t entry = 1;
  while (entry < DF_MAX_REACHES && context->device.reaches[entry]) entry++;
  if (entry == DF_MAX_REACHES) return; /* it is copied through slots then */
  context->device.reaches[entry] = memory->reach;
  memory->entry = entry;
}

static void free_record(df_user_memory *memory) {
  free(memory->mapped);
  free(memory);
}

static df_user_memory *make_memory_record(dfcclContext_t context) {
  const int exported = context->device.memory->exports_memory;
  df_user_memory *memory = calloc(1, sizeof *memory);
  if (memory && exported) memory->mapped = calloc(context->n_ranks, 1);
  if (memory && (memory->mapped || !exported)) return memory;
  free(memory);
  df_fail(dfcclOutOfMemory, "no memory for the record of an allocation");
  return NULL;
}

/* [lock] */
static void offer_memory(dfcclContext_t context, df_user_memory *memory) {
  memory->reach = context->device.memory->take_reach(&context->device);
  for (uint32_t r = 0; r < context->n_ranks && memory->reach; r++) {
    int reads = context->control.peers[r].local &&
                context->device.memory->lends_memory_to(&context->device, r);
    memory->reach[r] = reads ? 0 : DF_OUT_OF_REACH;
  }
  if (memory->reach) enter_reach(context, memory); /* else it is copied through slots */
  memory->next = context->endpoint.user_memory;
  context->endpoint.user_memory = memory;
  for (uint32_t r = 0; r < context->n_ranks; r++)
    if (!context->control.peers[r].local) {
      int maps = df_segment_offer(&context->control, r, memory->segment, DF_SEGMENT_USER);
      if (memory->mapped) memory->mapped[r] = (uint8_t)maps;
    }
}

dfcclResult_t df_memory_alloc(dfcclContext_t context, void **ptr, size_t bytes) {
  df_user_memory *memory = make_memory_record(context);
  if (memory == NULL) return dfcclOutOfMemory;
  pthread_mutex_lock(&context->lock);
  dfcclResult_t result = context->failure.broken;
  if (result != dfcclSuccess) df_fail(result, "%s", context->failure.broken_sentence);
  uint64_t id = context->endpoint.next_segment_id++;
  pthread_mutex_unlock(&context->lock);
  if (result == dfcclSuccess)
    result = context->device.memory->create(&context->device, &memory->segment, id, bytes);
  if (result != dfcclSuccess) {
    free_record(memory);
    return result;
  }
  pthread_mutex_lock(&context->lock);
  offer_memory(context, memory);
  *ptr = memory->segment->base;
  pthread_mutex_unlock(&context->lock);
  return dfcclSuccess;
}

/* [lock] */
static void give_reach(dfcclContext_t context, df_user_memory *memory) {
  if (memory->reach) context->device.memory->give_reach(&context->device, memory->reach);
  memory->reach = NULL;
}

/* [lock] Runs that succeeded were drained: nobody reads what they lent. What a failed one has lent
 * a peer may read, and may not have heard of it. */
static int may_be_read(const dfcclContext_t context, const df_user_memory *memory) {
  return context->failure.broken != dfcclSuccess || memory->may_be_read;
}

/* What a rank of this process may be reading stays until they have all gone. */
static void free_memory(dfcclContext_t context, df_user_memory *memory) {
  if (memory->buried)
    df_segment_bury(context->control.world, memory->segment);
  else
    df_segment_destroy(memory->segment);
  free_record(memory);
}

dfcclResult_t df_memory_free(dfcclContext_t context, void *ptr) {
  pthread_mutex_lock(&context->lock);
  df_user_memory **at = &context->endpoint.user_memory;
  while (*at && (*at)->segment->base != ptr) at = &(*at)->next;
  df_user_memory *memory = *at;
  if (memory) {
    *at = memory->next;
    if (memory->entry) context->device.reaches[memory->entry] = NULL;
    int read = may_be_read(context, memory), exported = context->device.memory->exports_memory;
    df_message message = {.kind = DF_MESSAGE_UNMAP, .id = memory->segment->id, .a = (uint64_t)read};
    /* Who may read it keeps its mapping until its end, where it is the host's. */
    for (uint32_t r = 0; r < context->n_ranks && (exported || !read); r++)
      if (!context->control.peers[r].local) df_post_send(&context->control, r, &message, NULL, -1);
    memory->buried = exported && read;
  }
  int retires = memory && df_is_mapped(context, memory);
  if (retires) {
    memory->next = context->endpoint.retired;
    context->endpoint.retired = memory;
  } else if (memory) {
    give_reach(context, memory);
  }
  pthread_mutex_unlock(&context->lock);
  if (memory == NULL)
    return df_fail(dfcclInvalidArgument,
                   "%p was not allocated by dfcclMemAlloc on rank %u, or is freed already", ptr,
                   context->rank);
  if (!retires) free_memory(context, memory);
  return dfcclSuccess;
}

void df_memory_free_unmapped(dfcclContext_t context) {
  df_user_memory *unmapped = NULL, **at = &context->endpoint.retired;
  pthread_mutex_lock(&context->lock);
  while (*at) {
    df_user_memory *memory = *at;
    if (df_is_mapped(context, memory)) {
      at = &memory->next;
      continue;
    }
    *at = memory->next;
    give_reach(context, memory);
    memory->next = unmapped;
    unmapped = memory;
  }
  pthread_mutex_unlock(&context->lock);
  while (unmapped) { /* without the lock: it waits for the device */
    df_user_memory *next = unmapped->next;
    free_memory(context, unmapped);
    unmapped = next;
  }
}

static int is_within(const df_user_memory *memory, const void *ptr) {
  uintptr_t base = (uintptr_t)memory->segment->base;
  return (uintptr_t)ptr >= base && (uintptr_t)ptr - base < memory->segment->bytes;
}

uint32_t df_memory_reach(dfcclContext_t context, const void *ptr) {
  for (df_user_memory *memory = context->endpoint.user_memory; memory; memory = memory->next)
    if (is_within(memory, ptr)) return memory->entry;
  return 0;
}

void df_memory_keep_lent(dfcclContext_t context, const df_coll *coll) {
  for (uint64_t number = coll->retired; number != coll->admitted; number++) {
    const df_run *run = &coll->in_device[number % DF_RUNS_AHEAD];
    for (df_user_memory *memory = context->endpoint.user_memory; memory; memory = memory->next)
      memory->may_be_read |= is_within(memory, run->send) || is_within(memory, run->recv);
  }
}

void df_memory_mapped(dfcclContext_t context, uint32_t peer, uint64_t segment, uint64_t address) {
  for (df_user_memory *memory = context->endpoint.user_memory; memory; memory = memory->next)
    if (memory->segment->id == segment && memory->reach)
      df_publish_u64(&memory->reach[peer], address - (uint64_t)(uintptr_t)memory->segment->base);
}

static void release_list(dfcclContext_t context, df_user_memory *memory, int keep) {
  while (memory) {
    df_user_memory *next = memory->next;
    give_reach(context, memory); /* nobody else is left who would take the lock */
    if (keep) {
      memory->segment->next = NULL;
      df_segment_abandon(memory->segment);
      free_record(memory);
    } else {
      memory->buried |= context->device.memory->exports_memory && may_be_read(context, memory);
      free_memory(context, memory);
    }
    memory = next;
  }
}

void df_memory_release(dfcclContext_t context, int keep) {
  release_list(context, context->endpoint.user_memory, keep);
  release_list(context, context->endpoint.retired, keep);
  context->endpoint.user_memory = context->endpoint.retired = NULL;
}
