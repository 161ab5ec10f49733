/*
 * Memory of a device that peer processes have mapped goes back when they have closed their
 * mappings: what a kernel there still reads must not become somebody else's. The owner tells (an
 * UNMAP for one allocation, BYE for all of it), the peer's service thread closes the mapping as
 * soon as no run of its own can touch it and says so, and the owner's service thread gives the
 * memory back. A peer whose connection has ended is taken for dead, and has no mappings any more;
 * where this rank ended it, the peer may live, and keeps them. (So may one that ended it itself
 * without a goodbye.) Nobody waits for this but dfcclDestroy, and that for a bounded time: what is
 * still mapped then is kept until the process ends.
 *
 * Memory of the host needs none of it: each process has pages of its own reference.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "host/context.h"
#include "control/post.h"
#include "host/memory.h"
#include "host/runs.h"
#include "transports/ipc/unmap.h"

enum { DF_UNMAP_WAIT_MS = 2000 };

/* ---- mappings of others' memory: the service thread's */

/* [lock] No run of a collective with that member is in the daemon. */
static int is_quiet(dfcclContext_t context, uint32_t member) {
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = context->registry.by_index[i];
    if (coll == NULL || df_runs_in_device(coll) == 0) continue;
    for (uint32_t m = 0; m < coll->n; m++)
      if (coll->ranks[m] == member) return 0;
  }
  return 1;
}

/* The record stays: collectives' records point to it. */
static void close_mapping(df_segment *segment) {
  segment->destroy(segment);
  segment->destroy = NULL;
  segment->base = NULL;
  segment->bytes = 0;
}

static void say_unmapped(dfcclContext_t context, uint32_t rank, uint64_t id) {
  df_message message = {.kind = DF_MESSAGE_UNMAPPED, .id = id};
  pthread_mutex_lock(&context->lock);
  df_post_send(&context->control, rank, &message, NULL, -1);
  pthread_mutex_unlock(&context->lock);
}

/* Closing a mapping waits for the device, perhaps. */
static void unmap_due(dfcclContext_t context, uint32_t rank) {
  df_peer *peer = &context->control.peers[rank];
  pthread_mutex_lock(&context->lock);
  int quiet = is_quiet(context, rank);
  int broken = context->failure.broken != dfcclSuccess;
  pthread_mutex_unlock(&context->lock);
  for (df_segment *segment = peer->segments; segment; segment = segment->next) {
    if (segment->destroy == NULL || !(segment->closing || peer->closing)) continue;
    /* No run uses freed memory, unless one that failed has left a block reading it. */
    if (!quiet && (peer->closing || segment->may_be_read || broken)) {
      context->endpoint.unmaps_due = 1;
      continue;
    }
    close_mapping(segment);
    if (!peer->closing) say_unmapped(context, rank, segment->id);
  }
  if (!peer->closing) return;
  if (quiet) {
    peer->closing = 0;
    say_unmapped(context, rank, 0);
  } else {
    context->endpoint.unmaps_due = 1;
  }
}

void df_unmap_due(dfcclContext_t context) {
  if (!context->endpoint.unmaps_due) return;
  if (!context->device.streams->pause()) return; /* the next look is soon */
  context->endpoint.unmaps_due = 0;
  for (uint32_t r = 0; r < context->n_ranks; r++)
    if (!context->control.peers[r].local) unmap_due(context, r);
  df_memory_free_unmapped(context);
  context->device.streams->resume();
}

void df_unmap(dfcclContext_t context, uint32_t rank, uint64_t id, int may_be_read) {
  df_segment *segment = context->control.peers[rank].segments;
  while (segment && !(segment->id == id && segment->destroy)) segment = segment->next;
  if (segment) {
    segment->closing = 1;
    segment->may_be_read = may_be_read;
    context->endpoint.unmaps_due = 1;
  } else { /* it could not be mapped, or may not be */
    df_message message = {.kind = DF_MESSAGE_UNMAPPED, .id = id};
    df_post_send(&context->control, rank, &message, NULL, -1);
  }
}

void df_unmap_all(dfcclContext_t context, uint32_t rank) {
  if (!context->device.memory->exports_memory || context->control.peers[rank].local) return;
  context->control.peers[rank].closing = 1;
  context->endpoint.unmaps_due = 1;
}

/* ---- own memory, mapped by others */

/* [lock] */
static int has_mappings(const df_peer *peer) {
  return peer->maps && (peer->cut_off || (peer->socket >= 0 && peer->state != DF_PEER_DEAD));
}

void df_unmapped(dfcclContext_t context, uint32_t rank, uint64_t id) {
  if (!context->device.memory->exports_memory) return; /* the peer is mistaken */
  if (id == 0) context->control.peers[rank].maps = 0;
  for (df_user_memory *memory = context->endpoint.retired; memory; memory = memory->next)
    if (memory->segment->id == id) memory->mapped[rank] = 0;
  context->endpoint.unmaps_due = 1; /* what nobody has mapped any more is freed */
}

int df_is_mapped(dfcclContext_t context, const df_user_memory *memory) {
  for (uint32_t r = 0; r < context->n_ranks && memory->mapped; r++)
    if (memory->mapped[r] && has_mappings(&context->control.peers[r])) return 1;
  return 0;
}

int df_await_unmapped(dfcclContext_t context) {
  for (int ms = 0; ms < DF_UNMAP_WAIT_MS; ms++) {
    int waiting = 0;
    pthread_mutex_lock(&context->lock);
    for (uint32_t r = 0; r < context->n_ranks; r++)
      waiting |= has_mappings(&context->control.peers[r]);
    pthread_mutex_unlock(&context->lock);
    if (!waiting) return 1;
    usleep(1000);
  }
  df_log(DF_LOG_WARN,
         "rank %u: other processes still have memory of its device mapped; it is kept until this "
         "process ends",
         context->rank);
  return 0;
}
