/* Device memory is released only when peers have closed their mappings, because a kernel may still
 * read it. The owner sends UNMAP or BYE. The service thread of the peer closes the mapping when no
 * run can access it, and answers; then the service thread of the owner releases the memory. A peer
 * whose connection has ended counts as dead, without mappings. If this rank ended the connection,
 * the peer may be alive and keeps its mappings. (A peer that ended the connection without a goodbye
 * may also be alive.) Only dfcclDestroy waits, for a bounded time: then the rest stays until the
 * process ends. Host memory needs none of this. */
#include "transports/shm/unmap.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mutex.h"
#include "control/messenger.h"

enum { DF_UNMAP_WAIT_MS = 2000 };

/* The record stays, because records of collectives point to it. */
static void close_mapping(df_segment *segment) {
  segment->destroy(segment);
  segment->destroy = NULL;
  segment->base = NULL;
  segment->bytes = 0;
}

static void say_unmapped(df_shm_endpoint *endpoint, uint32_t rank, uint64_t id) {
  df_control *control = endpoint->base.owner.control;
  df_message message = {.kind = DF_MESSAGE_UNMAPPED, .id = id};
  df_rank_lock(control->lock);
  df_messenger_send(control, rank, &message, NULL, -1);
  df_rank_unlock(control->lock);
}

/* May wait for the device. */
static void unmap_due(df_shm_endpoint *endpoint, uint32_t rank) {
  const df_endpoint_owner *owner = &endpoint->base.owner;
  df_shm_peer *peer = &endpoint->peers[rank];
  df_rank_lock(owner->control->lock);
  int quiet = owner->is_quiet(owner->owner, rank);
  int broken = owner->is_broken(owner->owner);
  df_rank_unlock(owner->control->lock);
  for (df_segment *segment = peer->segments; segment; segment = segment->next) {
    if (segment->destroy == NULL || !(segment->closing || peer->closing)) continue;
    /* No run uses freed memory, but a failed run may have left a block that reads it. */
    if (!quiet && (peer->closing || segment->may_be_read || broken)) {
      endpoint->unmaps_due = 1;
      continue;
    }
    close_mapping(segment);
    if (!peer->closing) say_unmapped(endpoint, rank, segment->id);
  }
  if (!peer->closing) return;
  if (quiet) {
    peer->closing = 0;
    say_unmapped(endpoint, rank, 0);
  } else {
    endpoint->unmaps_due = 1;
  }
}

void df_unmap_due(df_shm_endpoint *endpoint) {
  const df_endpoint_owner *owner = &endpoint->base.owner;
  const df_shared_memory *memory = &endpoint->memory;
  if (!endpoint->unmaps_due) return;
  if (memory->pause && !memory->pause()) return; /* the service thread tries again soon */
  endpoint->unmaps_due = 0;
  for (uint32_t r = 0; r < owner->control->n_ranks; r++)
    if (!owner->control->peers[r].local) unmap_due(endpoint, r);
  owner->unmapped(owner->owner);
  if (memory->pause) memory->resume();
}

void df_unmap(df_shm_endpoint *endpoint, uint32_t rank, uint64_t id, int may_be_read) {
  df_segment *segment = endpoint->peers[rank].segments;
  while (segment && !(segment->id == id && segment->destroy)) segment = segment->next;
  if (segment) {
    segment->closing = 1;
    segment->may_be_read = may_be_read;
    endpoint->unmaps_due = 1;
  } else { /* the memory could not be mapped, or must not be */
    df_message message = {.kind = DF_MESSAGE_UNMAPPED, .id = id};
    df_messenger_send(endpoint->base.owner.control, rank, &message, NULL, -1);
  }
}

void df_unmap_all(df_shm_endpoint *endpoint, uint32_t rank) {
  if (!endpoint->memory.exports_memory || endpoint->base.owner.control->peers[rank].local) return;
  endpoint->peers[rank].closing = 1;
  endpoint->unmaps_due = 1;
}

static int has_mappings(const df_shm_endpoint *endpoint, uint32_t rank) DF_RANK_LOCKED {
  const df_peer *peer = &endpoint->base.owner.control->peers[rank];
  return endpoint->peers[rank].maps &&
         (peer->cut_off || (peer->socket >= 0 && peer->state != DF_PEER_DEAD));
}

void df_unmapped(df_shm_endpoint *endpoint, uint32_t rank, uint64_t id) {
  DF_ASSERT_RANK_LOCKED(endpoint->base.owner.control->lock);
  if (!endpoint->memory.exports_memory) return; /* the peer has sent it by mistake */
  if (id == 0) endpoint->peers[rank].maps = 0;
  for (df_shared *shared = endpoint->shared; shared; shared = shared->next)
    if (shared->is_unshared && shared->segment->id == id) shared->is_mapped[rank] = 0;
  endpoint->unmaps_due = 1; /* frees memory that no peer has mapped */
}

void df_unmap_disconnected(df_shm_endpoint *endpoint) {
  endpoint->unmaps_due = endpoint->memory.exports_memory;
}

int df_is_mapped(const df_shm_endpoint *endpoint, const df_shared *shared) {
  for (uint32_t r = 0; r < endpoint->base.owner.control->n_ranks; r++)
    if (shared->is_mapped[r] && has_mappings(endpoint, r)) return 1;
  return 0;
}

int df_await_unmapped(df_shm_endpoint *endpoint) {
  const df_control *control = endpoint->base.owner.control;
  for (int ms = 0; ms < DF_UNMAP_WAIT_MS; ms++) {
    int waiting = 0;
    df_rank_lock(control->lock);
    for (uint32_t r = 0; r < control->n_ranks; r++) waiting |= has_mappings(endpoint, r);
    df_rank_unlock(control->lock);
    if (!waiting) return 1;
    usleep(1000);
  }
  df_log(DF_LOG_WARN,
         "rank %u: other processes still have memory of its device mapped; it is kept until this "
         "process ends",
         control->rank);
  return 0;
}
