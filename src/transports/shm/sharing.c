/* Shared user memory: a peer that has mapped it answers with its address there. From then on
 * messages may lend it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mutex.h"
#include "bootstrap/net/sockets.h"
#include "control/messenger.h"
#include "transports/shm/unmap.h"
#include "transports/shm/common_slots.h"
#include "transports/shm/endpoint.h"

static df_shared *find_shared(const df_shm_endpoint *endpoint, uint64_t id) {
  df_shared *shared = endpoint->shared;
  while (shared && shared->segment->id != id) shared = shared->next;
  return shared;
}

static int maps_ours(const df_shm_endpoint *endpoint, uint32_t rank) {
  const df_endpoint_owner *owner = &endpoint->base.owner;
  return owner->serves[rank] && !owner->control->peers[rank].local;
}

/* If there is no memory for the record, messages are copied through slots. */
void df_shm_share(df_endpoint *base, df_segment *segment, uint64_t *mapping) {
  df_shm_endpoint *endpoint = (df_shm_endpoint *)base;
  const df_control *control = base->owner.control;
  DF_ASSERT_RANK_LOCKED(control->lock);
  df_shared *shared = calloc(1, sizeof *shared + control->n_ranks);
  if (shared == NULL) return;
  shared->is_mapped = (uint8_t *)(shared + 1);
  shared->segment = segment;
  shared->mapping = mapping;
  shared->next = endpoint->shared;
  endpoint->shared = shared;
  for (uint32_t r = 0; r < control->n_ranks; r++)
    if (maps_ours(endpoint, r))
      shared->is_mapped[r] = (uint8_t)df_shm_offer_segment(endpoint, r, segment, DF_SEGMENT_USER);
}

void df_shm_share_again(df_shm_endpoint *endpoint, uint32_t rank) {
  DF_ASSERT_RANK_LOCKED(endpoint->base.owner.control->lock);
  for (df_shared *shared = endpoint->shared; shared; shared = shared->next) {
    if (shared->mapping) df_publish_u64(&shared->mapping[rank], DF_NOT_MAPPED);
    shared->is_mapped[rank] = 0;
    if (!shared->is_unshared && maps_ours(endpoint, rank))
      shared->is_mapped[rank] =
          (uint8_t)df_shm_offer_segment(endpoint, rank, shared->segment, DF_SEGMENT_USER);
  }
}

static void report_unshared(df_shm_endpoint *endpoint, df_shared *shared,
                            int may_be_read) DF_RANK_LOCKED {
  df_control *control = endpoint->base.owner.control;
  df_message message = {
      .kind = DF_MESSAGE_UNMAP, .id = shared->segment->id, .a = (uint64_t)may_be_read};
  shared->is_unshared = 1;
  /* A process that maps host memory keeps its pages alive. */
  if (may_be_read && !endpoint->memory.exports_memory) return;
  for (uint32_t r = 0; r < control->n_ranks; r++)
    if (maps_ours(endpoint, r)) df_messenger_send(control, r, &message, NULL, -1);
}

int df_shm_unshare(df_endpoint *base, df_segment *segment, int may_be_read) {
  df_shm_endpoint *endpoint = (df_shm_endpoint *)base;
  DF_ASSERT_RANK_LOCKED(endpoint->base.owner.control->lock);
  df_shared *shared = find_shared(endpoint, segment->id);
  if (shared == NULL) return 1;
  if (!shared->is_unshared) report_unshared(endpoint, shared, may_be_read);
  if (df_is_mapped(endpoint, shared)) return 0;
  df_shared **at = &endpoint->shared;
  while (*at != shared) at = &(*at)->next;
  *at = shared->next;
  free(shared);
  return 1;
}

void df_shm_mapped(df_shm_endpoint *endpoint, uint32_t peer, uint64_t segment, uint64_t address) {
  DF_ASSERT_RANK_LOCKED(endpoint->base.owner.control->lock);
  df_shared *shared = find_shared(endpoint, segment);
  if (shared && !shared->is_unshared && shared->mapping)
    df_publish_u64(&shared->mapping[peer], address - (uint64_t)(uintptr_t)shared->segment->base);
}

/* Checks that the number matches the use of the segment: segments of links are never unmapped. */
static int is_sound_segment(const df_message *message) {
  switch (message->b) {
  case DF_SEGMENT_HOME:
    return message->id == 0 && message->a >= sizeof(df_bell);
  case DF_SEGMENT_LINKS:
    return message->id >= DF_FIRST_LINKS_SEGMENT;
  default:
    return message->b == DF_SEGMENT_USER && message->id > 0 && message->id < DF_FIRST_LINKS_SEGMENT;
  }
}

/* Returns 1 if memory of the peer may be lent. Without a mapped range it is copied through slots. A
 * device does not check mapped ranges. */
static int may_lend(df_shm_endpoint *endpoint, uint32_t rank,
                    const df_segment *segment) DF_RANK_LOCKED {
  if (!endpoint->memory.host_sees_links) return 1;
  if (!df_shm_have_mapped_ranges(endpoint, rank)) return 0;
  df_mapped_ranges *mapped_ranges = endpoint->peers[rank].mapped_ranges; /* NULL for a local peer */
  return mapped_ranges && df_mapped_ranges_open(mapped_ranges, segment->base, segment->bytes);
}

/* Handles memory that could not be mapped: user memory is then copied through slots, but rings and
 * bells are indispensable. */
static void not_mapped(df_shm_endpoint *endpoint, uint32_t from, const df_message *message,
                       dfcclResult_t result) {
  const df_endpoint_owner *owner = &endpoint->base.owner;
  char sentence[DF_SENTENCE_BYTES];
  if (message->b == DF_SEGMENT_USER) return;
  snprintf(sentence, sizeof sentence, "rank %u cannot map rank %u's memory: %.300s",
           owner->control->rank, from, df_last_sentence());
  owner->failed(owner->owner, result, sentence);
}

static void handle_segment(void *room, uint32_t from, const df_message *message,
                           int fd) DF_RANK_LOCKED {
  df_shm_endpoint *endpoint = room;
  const df_endpoint_owner *owner = &endpoint->base.owner;
  DF_ASSERT_RANK_LOCKED(owner->control->lock);
  df_shm_peer *peer = &endpoint->peers[from];
  df_segment *segment;
  if (fd == DF_FD_LOST) {
    char why[DF_WHY_BYTES];
    not_mapped(endpoint, from, message, df_fail(dfcclOutOfMemory, "%s", df_why(EMFILE, why)));
    return;
  }
  if (fd < 0 && message->payload_bytes == 0) {
    char sentence[DF_SENTENCE_BYTES];
    snprintf(sentence, sizeof sentence,
             "rank %u announced shared memory to rank %u without its descriptor", from,
             owner->control->rank);
    owner->failed(owner->owner, dfcclRemoteError, sentence);
    return;
  }
  if (!is_sound_segment(message)) {
    if (fd >= 0) close(fd);
    owner->control->events.refused(owner->control->events.owner, from);
    return;
  }
  for (segment = peer->segments; segment; segment = segment->next)
    if (segment->id == message->id) {
      if (fd >= 0) close(fd);
      return;
    }
  /* The device may make the call wait. No other thread changes the list of segments. */
  df_rank_unlock(owner->control->lock);
  dfcclResult_t result = endpoint->memory.map(endpoint->memory.device, from, &segment, message, fd);
  df_rank_lock(owner->control->lock);
  if (result != dfcclSuccess) {
    not_mapped(endpoint, from, message, result);
    return;
  }
  segment->next = peer->segments;
  peer->segments = segment;
  if (message->b == DF_SEGMENT_HOME) peer->bell = (df_bell *)segment->base;
  if (message->b == DF_SEGMENT_USER && may_lend(endpoint, from, segment)) {
    df_message reply = {
        .kind = DF_MESSAGE_MAPPED, .id = message->id, .a = (uint64_t)(uintptr_t)segment->base};
    df_messenger_send(owner->control, from, &reply, NULL, -1);
  }
}

static void handle_unmap(void *room, uint32_t from, const df_message *message,
                         int fd) DF_RANK_LOCKED {
  (void)fd;
  df_shm_endpoint *endpoint = room;
  const df_endpoint_owner *owner = &endpoint->base.owner;
  DF_ASSERT_RANK_LOCKED(owner->control->lock);
  uint64_t id = message->id;
  if (id == 0 || id >= DF_FIRST_LINKS_SEGMENT)
    return; /* the home segment and those of links stay mapped */
  if (endpoint->memory.exports_memory) {
    df_unmap(endpoint, from, id, message->a != 0);
    return;
  }
  /* A broken rank keeps everything until the end. Otherwise the owner ensures that no block reads
   * the memory. */
  if (owner->is_broken(owner->owner)) return;
  df_segment **at = &endpoint->peers[from].segments;
  while (*at && (*at)->id != id) at = &(*at)->next;
  df_segment *segment = *at;
  if (segment == NULL) return;
  *at = segment->next;
  if (endpoint->peers[from].mapped_ranges)
    df_mapped_ranges_close(endpoint->peers[from].mapped_ranges, segment->base);
  df_segment_destroy(segment);
}

static void handle_mapped(void *room, uint32_t from, const df_message *message,
                          int fd) DF_RANK_LOCKED {
  (void)fd;
  df_shm_mapped(room, from, message->id, message->a);
  df_common_mapped(room, from, message->id, message->a);
}

static void handle_unmapped(void *room, uint32_t from, const df_message *message,
                            int fd) DF_RANK_LOCKED {
  (void)fd;
  df_unmapped(room, from, message->id);
}

void df_shm_subscribe(df_shm_endpoint *endpoint) {
  df_control *control = endpoint->base.owner.control;
  df_messenger_subscribe(control, DF_MESSAGE_SEGMENT, handle_segment, endpoint, 1);
  df_messenger_subscribe(control, DF_MESSAGE_MAPPED, handle_mapped, endpoint, 0);
  df_messenger_subscribe(control, DF_MESSAGE_UNMAP, handle_unmap, endpoint, 0);
  df_messenger_subscribe(control, DF_MESSAGE_UNMAPPED, handle_unmapped, endpoint, 0);
}
