/*
 * Link set-up, in the background. When all members' registrations agree and this rank has submitted
 * a first run, it reserves the rings in which it will receive and tells each sender where they are.
 * It is ready when it has done so and has been told where to write for each of its own receivers.
 * Nobody waits: each message makes what progress it can.
 *
 * Memory gets its pages when it is first written, which takes far longer than all else here. Where
 * rings have more than a few, the service thread sets them up, and writes to them without the lock:
 * nobody else knows of a range before its peer is told.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "host/context.h"
#include "control/post.h"
#include "control/service.h"
#include "host/failure.h"
#include "host/link_setup.h"
#include "host/match.h"
#include "host/registry.h"
#include "host/runs.h"
#include "transports/shm/common_slots.h"
#include "host/registry_check.h"

/* ---- how the rings of a collective are made ---- */

typedef struct df_ring_question {
  const df_settings *settings;
  const df_shape *shape;
  uint64_t direct_min;      /* bytes from which messages are lent */
  uint64_t used_bytes;      /* that rings of this rank have taken so far */
  uint32_t n_incoming;      /* links on which this rank receives */
  uint32_t ranks_on_a_core; /* members of the group */
  int runs_ahead;           /* some members wait for nobody */
  int host_sees;            /* the host's processors write the rings */
} df_ring_question;

enum {
  /* Payloads of a few lines cost their crossing, not their bytes. Rings of this many bytes let a
   * rank that waits for nobody run ahead. */
  DF_DEEP_RING_STRIDE = 1024 + DF_CACHE_LINE,
  DF_PAGE_RING_STRIDE = DF_PAGE + DF_CACHE_LINE,
  DF_AHEAD_RING_BYTES = 8192,
  DF_QUARTERED_SLOTS = 8 /* least slots of which three quarters do as well */
};

/*
 * Bytes that each ring should have; the members agreed on the least slots, and the receiver takes
 * more.
 *   - Large messages: as many slots as it takes until the sender finds a slot's lines in the shared
 *     cache, and no longer in the receiver's own. To take lines away from the cache that has read
 *     them is several times slower. Ranks that share a core share its caches, so each has a part of
 *     the depth.
 *   - Messages up to a page, in collectives where all wait for all: few slots, if ranks share
 * cores.
 *   - Small messages that are not lent: deep if the sender may run ahead, because ranks that share
 * a core then take turns less often. docs/PERFORMANCE.md has the measurements.
 */
static uint64_t ring_target(const df_ring_question *q) {
  const uint64_t stride = q->shape->stride;
  uint64_t each = DF_MAX(q->n_incoming, 1u) * (uint64_t)q->shape->n_blocks * q->ranks_on_a_core;
  uint64_t target = (uint64_t)q->settings->ring_bytes / each;
  if (stride <= DF_DEEP_RING_STRIDE)
    return q->runs_ahead && q->direct_min > stride ? DF_MIN(target, (uint64_t)DF_AHEAD_RING_BYTES)
                                                   : 0;
  if (stride <= DF_PAGE_RING_STRIDE && !q->runs_ahead && q->ranks_on_a_core > 1) return 0;
  return target;
}

static uint32_t ring_slots(const df_ring_question *q) {
  uint32_t n_slots = q->shape->n_slots;
  const uint64_t target = ring_target(q);
  if (!q->host_sees || q->settings->slots == DF_MIN_LINK_SLOTS ||
      q->used_bytes >= (uint64_t)q->settings->ring_budget)
    return n_slots;
  /* The power of two nearest to the target, in proportion. */
  while (n_slots < DF_MAX_LINK_SLOTS && 4ull * n_slots * q->shape->stride <= 3 * target)
    n_slots *= 2;
  return n_slots;
}

/* A quarter of the slots at a time is given back in a ring that is deep so that its sender can run
 * ahead, and in a ring of words, where giving back is all that costs a fence. Both ends find the
 * same. */
static uint16_t release_mask(const df_shape *shape, uint32_t n_slots) {
  if (shape->payload_offset == DF_LINK_WORDS)
    return n_slots >= DF_QUARTERED_SLOTS ? (uint16_t)(n_slots / 4 - 1) : 0;
  int is_ahead = shape->stride <= DF_DEEP_RING_STRIDE && n_slots > shape->n_slots;
  return is_ahead ? (uint16_t)(n_slots / 4 - 1) : 0;
}

/* 0, nothing is looked at, if asking for the time costs more than a line takes to come: on some
 * machines it is a call to the system. */
static uint16_t far_ns(const df_ring_question *q) {
  enum { UNKNOWN, DEAR, CHEAP, TRIES = 64, MOST_NS = 60 };
  static uint32_t known;
  if (!q->host_sees || q->shape->stride <= DF_DEEP_RING_STRIDE) return 0;
  uint32_t clock = df_load_relaxed_u32(&known);
  if (clock == UNKNOWN) {
    uint64_t least = UINT64_MAX, before = df_clock_ns();
    for (int i = 0; i < TRIES; i++) {
      uint64_t now = df_clock_ns();
      least = DF_MIN(least, now - before);
      before = now;
    }
    clock = least <= MOST_NS ? CHEAP : DEAR;
    df_store_relaxed_u32(&known, clock);
  }
  return clock == CHEAP ? (uint16_t)q->settings->far_ns : 0;
}

/* n_slots: as the receiver has made them; 0: this rank is the receiver. */
static df_ring choose_ring(const df_ring_question *q, uint32_t n_slots) {
  if (n_slots == 0) n_slots = ring_slots(q);
  return (df_ring){.stride = q->shape->stride,
                   .n_slots = n_slots,
                   .release_mask = release_mask(q->shape, n_slots),
                   .far_ns = far_ns(q)};
}

/* ---- set-up ---- */

static df_ring_question ring_question(const dfcclContext_t context, const df_coll *coll) {
  uint32_t n_incoming = 0;
  for (uint32_t which = 0; which < coll->plan->n_links; which++)
    n_incoming += !coll->plan->links[which].sends;
  return (df_ring_question){.settings = &context->settings,
                            .shape = &coll->shape,
                            .direct_min = coll->device.descriptor->direct_min,
                            .used_bytes = context->endpoint.arena.used_bytes,
                            .n_incoming = n_incoming,
                            .ranks_on_a_core = df_ranks_on_a_core(context, coll->n),
                            .runs_ahead = df_runs_ahead(coll),
                            .host_sees = context->device.memory->host_sees_links};
}

enum { DF_FIRST_TURN_STEPS = 32 }; /* most primitives of a run that its submitter executes */

/* Where rings are, in one word: their offset in the segment, a multiple of a cache line, and
 * the logarithm of their slots. */
enum { DF_TOLD_SLOTS = DF_CACHE_LINE - 1 };

static uint64_t log2_of(uint32_t power_of_two) {
  return 31u - (uint32_t)__builtin_clz(power_of_two);
}

static uint64_t ring_bytes(const df_ring *ring) {
  return df_link_ring_bytes(ring->stride, ring->n_slots);
}

/* Fills one link end of one block. `rings` is where the pair's rings begin. */
static void fill_link(const dfcclContext_t context, df_coll *coll, uint32_t block, uint32_t which,
                      uint8_t *rings, const df_ring *made) {
  const df_plan_link *planned = &coll->plan->links[which];
  df_link *link = &coll->device.links[block * coll->plan->n_links + which];
  uint32_t peer = coll->ranks[planned->peer];
  uint8_t *ring = rings + block * ring_bytes(made);
  link->slots = ring;
  link->credit = (uint64_t *)(ring + (uint64_t)made->stride * made->n_slots);
  link->peer_bell = context->control.peers[peer].bell;
  link->stride = made->stride;
  link->slot_mask = made->n_slots - 1;
  link->release_mask = made->release_mask;
  link->messages = planned->messages;
  link->peer = peer;
  link->payload_offset = (uint8_t)coll->shape.payload_offset;
  link->same_process = context->control.peers[peer].local &&
                       context->device.memory->lends_to(&context->device, peer);
  link->sends = (uint8_t)planned->sends;
  link->far_ns = made->far_ns;
  /* A device that follows addresses of its own mappings does not see the host's table. */
  link->windows =
      context->device.memory->host_sees_links ? context->control.peers[peer].windows : NULL;
}

/* [lock] The peer must have the segment before it hears of a range in it. */
static void tell_segment(dfcclContext_t context, uint32_t peer_rank, const df_segment *segment) {
  df_peer *peer = &context->control.peers[peer_rank];
  if (peer->local) return;
  for (uint32_t i = 0; i < peer->n_told; i++)
    if (peer->told[i] == segment->id) return;
  uint64_t *told = realloc(peer->told, (peer->n_told + 1) * sizeof *told);
  if (told) { /* otherwise it is told again, which is only redundant */
    peer->told = told;
    peer->told[peer->n_told++] = segment->id;
  }
  df_segment_offer(&context->control, peer_rank, segment, DF_SEGMENT_LINKS);
}

/* [lock] The collective has failed, or has been deregistered: its links are of no use any more, and
 * its remotes not its own. */
static int is_given_up(const df_coll *coll) {
  return coll->deregistered || coll->failed != dfcclSuccess;
}

/* Deeper than the members agreed on: such a ring gets all of its pages before it is used. */
static int is_deep(const df_coll *coll, const df_ring *ring) {
  return ring->n_slots > coll->shape.n_slots;
}

/* Does set-up write to more pages than the lock may be held for? Of a ring that is not deep, to
 * where its slots begin. */
static int takes_long(const dfcclContext_t context, const df_coll *coll) {
  const df_ring_question question = ring_question(context, coll);
  const df_ring ring = choose_ring(&question, 0);
  uint64_t pages = DF_ALIGN_UP(ring_bytes(&ring), (uint64_t)DF_PAGE) / DF_PAGE;
  if (!is_deep(coll, &ring)) pages = DF_MIN(pages, ring.n_slots + 1ull);
  return question.n_incoming * coll->shape.n_blocks * pages > DF_PAGES_UNDER_LOCK;
}

/* [lock], which is let go in the background. Writes to a range that nobody has been told of yet. */
static dfcclResult_t prepare(dfcclContext_t context, const df_coll *coll, const df_range *range,
                             int in_background) {
  if (in_background) pthread_mutex_unlock(&context->lock);
  if (is_deep(coll, &coll->ring)) df_segment_populate(range->segment, range->offset, range->bytes);
  df_device_rings rings = {.base = range->segment->base + range->offset,
                           .n_blocks = coll->shape.n_blocks,
                           .n_slots = coll->ring.n_slots,
                           .stride = coll->ring.stride};
  dfcclResult_t result = context->device.memory->clear(&context->device, &rings);
  if (in_background) pthread_mutex_lock(&context->lock);
  return result;
}

/* [lock], which is let go in the background. Reserves what peers will write for us and tells them.
 */
static dfcclResult_t reserve_links(dfcclContext_t context, df_coll *coll, int in_background) {
  const df_ring_question question = ring_question(context, coll);
  coll->ring = choose_ring(&question, 0);
  for (uint32_t which = 0; which < coll->plan->n_links; which++) {
    const df_plan_link *planned = &coll->plan->links[which];
    if (planned->sends) continue;
    uint64_t bytes = ring_bytes(&coll->ring) * coll->shape.n_blocks;
    df_range reserved = {0};
    dfcclResult_t result = df_device_take_range(&context->device, bytes, &reserved);
    if (result != dfcclSuccess) return result;
    if (!is_given_up(coll)) result = prepare(context, coll, &reserved, in_background);
    if (result != dfcclSuccess || is_given_up(coll)) {
      df_arena_give(&context->endpoint.arena, &reserved);
      return result;
    }
    df_remote *remote = coll->remotes[planned->peer];
    remote->reserved = reserved;
    remote->has_reserved = 1;
    uint8_t *rings = reserved.segment->base + reserved.offset;
    for (uint32_t block = 0; block < coll->shape.n_blocks; block++)
      fill_link(context, coll, block, which, rings, &coll->ring);
    tell_segment(context, remote->peer, reserved.segment);
    df_message message = {.kind = DF_MESSAGE_LINKS,
                          .id = coll->id,
                          .a = context->control.peers[remote->peer].local
                                   ? (uint64_t)(uintptr_t)reserved.segment
                                   : reserved.segment->id,
                          .b = reserved.offset | log2_of(coll->ring.n_slots)};
    df_post_send(&context->control, remote->peer, &message, NULL, -1);
  }
  coll->links_reserved = 1;
  return dfcclSuccess;
}

/* [lock] All rings that we write into are known? Fills the sending ends. */
static int connect_links(dfcclContext_t context, df_coll *coll) {
  for (uint32_t which = 0; which < coll->plan->n_links; which++) {
    const df_plan_link *planned = &coll->plan->links[which];
    if (!planned->sends) continue;
    const df_segment *segment = coll->remotes[planned->peer]->links_segment;
    if (segment == NULL || segment->base == NULL) return 0; /* not told yet, or unmapped again */
  }
  const df_ring_question question = ring_question(context, coll);
  for (uint32_t which = 0; which < coll->plan->n_links; which++) {
    const df_plan_link *planned = &coll->plan->links[which];
    if (!planned->sends) continue;
    df_remote *remote = coll->remotes[planned->peer];
    const df_ring made = choose_ring(&question, remote->links_slots);
    uint8_t *rings = remote->links_segment->base + remote->links_offset;
    for (uint32_t block = 0; block < coll->shape.n_blocks; block++)
      fill_link(context, coll, block, which, rings, &made);
  }
  return 1;
}

/* [lock] */
static void give_up(dfcclContext_t context, df_coll *coll, dfcclResult_t status) {
  if (is_given_up(coll)) return;
  char sentence[DF_SENTENCE_BYTES], label[DF_MAX_NAME + 40];
  snprintf(sentence, sizeof sentence, "%s on rank %u: %.300s",
           df_coll_label(coll, label, sizeof label), context->rank, df_last_sentence());
  df_fail_collective(context, coll, status, 1, sentence);
}

/* Are its runs so short that a submitter may execute them, as far as they come without waiting? */
static int is_short(const dfcclContext_t context, const df_coll *coll) {
  const df_descriptor *d = coll->device.descriptor;
  uint64_t most = (uint64_t)context->settings.first_turn_max;
  uint64_t pieces = d->geometry == DF_GEOMETRY_PIECES ? d->pieces : 1;
  return most != 0 && context->device.executor->first_turn != NULL && coll->shape.n_blocks == 1 &&
         coll->count <= most && pieces <= DF_FIRST_TURN_STEPS &&
         coll->count * pieces * df_type_size(coll->type) <= most &&
         (uint64_t)coll->shape.parts[0].loops * coll->plan->n_primitives <= DF_FIRST_TURN_STEPS;
}

/* [lock], which is let go in the background: on the service thread. */
static void progress(dfcclContext_t context, df_coll *coll, int in_background) {
  if (coll->ready || coll->failed != dfcclSuccess || coll->n_bound + 1 < coll->n) return;
  if (coll->submitted == 0) return; /* memory is taken when it is first needed */
  int has_links = coll->count != 0 && coll->n > 1;
  int reserves = has_links && !coll->links_reserved;
  if (!in_background && reserves && coll->ring.n_slots != 0)
    return; /* the service thread is at it */
  if (!in_background &&
      (context->device.memory->sets_up_in_background || (reserves && takes_long(context, coll)))) {
    df_store_relaxed_u32(&context->endpoint.links_due, 1);
    df_service_wake(&context->control);
    return;
  }
  if (reserves) {
    dfcclResult_t result = reserve_links(context, coll, in_background);
    if (result != dfcclSuccess) {
      give_up(context, coll, result);
      return;
    }
    if (is_given_up(coll)) return;
  }
  if (has_links && !connect_links(context, coll)) return;
  if (has_links) df_common_reserve(context, coll);
  dfcclResult_t result = context->device.memory->publish(&context->device, &coll->device);
  if (result != dfcclSuccess) {
    give_up(context, coll, result);
    return;
  }
  if (is_given_up(coll)) return;
  coll->ready = 1;
  coll->first_turn = is_short(context, coll);
  df_log(DF_LOG_TRACE, "rank %u: the links of collective %llu stand", context->rank,
         (unsigned long long)coll->id);
  df_list(context, coll);
  df_admit_listed(context);
}

void df_links_progress(dfcclContext_t context, df_coll *coll) { progress(context, coll, 0); }

void df_links_progress_due(dfcclContext_t context) {
  if (!df_load_relaxed_u32(&context->endpoint.links_due)) return;
  pthread_mutex_lock(&context->lock);
  df_store_relaxed_u32(&context->endpoint.links_due, 0);
  for (uint32_t i = 0; i < context->registry.n_indices; i++)
    if (df_registered(context, i) && !context->registry.by_index[i]->ready) {
      df_coll *coll = context->registry.by_index[i];
      coll->references++; /* the lock is let go in between */
      progress(context, coll, 1);
      df_coll_unreference(context, coll);
    }
  pthread_mutex_unlock(&context->lock);
}

/* [lock] Where a peer offers rings, and of how many slots. Returns 0 where it cannot. */
static int find_offered(const dfcclContext_t context, const df_remote *remote, uint64_t segment_id,
                        uint64_t place, df_range *offered, uint64_t *slots) {
  uint64_t offset = place / DF_CACHE_LINE * DF_CACHE_LINE;
  uint64_t n_slots = 1ull << (place & DF_TOLD_SLOTS);
  const df_peer *peer = &context->control.peers[remote->peer];
  df_segment *segment = peer->local ? (df_segment *)(uintptr_t)segment_id : peer->segments;
  if (!peer->local) {
    while (segment && segment->id != segment_id) segment = segment->next;
    if (segment_id < DF_FIRST_LINKS_SEGMENT) segment = NULL; /* that memory may be unmapped */
  }
  const df_announcement *a = &remote->announcement;
  int possible = n_slots >= a->n_slots && n_slots <= DF_MAX_LINK_SLOTS &&
                 a->n_blocks <= DF_MAX_BLOCKS; /* so that the product is exact */
  uint64_t bytes = possible ? df_link_ring_bytes(a->stride, (uint32_t)n_slots) * a->n_blocks : 0;
  *offered = (df_range){.segment = segment, .offset = offset, .bytes = bytes};
  *slots = n_slots;
  return possible && segment != NULL && bytes <= segment->bytes && offset <= segment->bytes - bytes;
}

/* [lock], which is let go where the mapping gets its pages. Segments stay meanwhile: only the
 * service thread, which this is, takes them away. The announcement may not. */
void df_links_told(dfcclContext_t context, df_remote *remote, uint64_t segment_id, uint64_t place) {
  df_range offered;
  uint64_t n_slots;
  int possible = find_offered(context, remote, segment_id, place, &offered, &n_slots);
  if (possible && n_slots > remote->announcement.n_slots &&
      !context->control.peers[remote->peer].local) {
    uint32_t peer = remote->peer;
    dfcclCollId_t id = remote->id;
    pthread_mutex_unlock(&context->lock);
    df_segment_populate(offered.segment, offered.offset, offered.bytes);
    pthread_mutex_lock(&context->lock);
    remote = df_match_newest(context, peer, id);
    if (remote == NULL) return;
    possible = find_offered(context, remote, segment_id, place, &offered, &n_slots);
  }
  if (!possible) {
    char sentence[DF_SENTENCE_BYTES];
    snprintf(sentence, sizeof sentence,
             "rank %u offered links for collective %llu outside of the memory that it shares with "
             "rank %u",
             remote->peer, (unsigned long long)remote->id, context->rank);
    df_give_up(context, dfcclRemoteError, sentence);
    return;
  }
  remote->links_segment = offered.segment;
  remote->links_offset = offered.offset;
  remote->links_slots = (uint32_t)n_slots;
  if (remote->bound) df_links_progress(context, remote->bound);
}
