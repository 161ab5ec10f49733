/*
 * Link set-up, in the background. When all members' registrations agree and this rank has submitted
 * a first run, each transport reserves the rings in which this rank receives, and the host sends
 * its offer to the sender. The collective is ready when that is done, and when its own receivers'
 * offers have come and were taken. Nobody waits: each message makes what progress it can, and what
 * takes long is left to the service thread.
 */
#include "host/link_setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "control/post.h"
#include "control/service.h"
#include "host/failure.h"
#include "host/match.h"
#include "host/registry.h"
#include "host/registry_check.h"
#include "host/runs.h"

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
  uint64_t target = (uint64_t)q->settings->tuning.policy.ring_bytes / each;
  if (stride <= DF_DEEP_RING_STRIDE)
    return q->runs_ahead && q->direct_min > stride ? DF_MIN(target, (uint64_t)DF_AHEAD_RING_BYTES)
                                                   : 0;
  if (stride <= DF_PAGE_RING_STRIDE && !q->runs_ahead && q->ranks_on_a_core > 1) return 0;
  return target;
}

static uint32_t ring_slots(const df_ring_question *q) {
  uint32_t n_slots = q->shape->n_slots;
  const uint64_t target = ring_target(q);
  if (!q->host_sees || q->settings->tuning.policy.slots == DF_MIN_LINK_SLOTS ||
      q->used_bytes >= (uint64_t)q->settings->tuning.policy.ring_budget)
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
  return clock == CHEAP ? (uint16_t)q->settings->tuning.policy.far_ns : 0;
}

static df_ring choose_ring(const df_ring_question *q) {
  const uint32_t n_slots = ring_slots(q);
  return (df_ring){.stride = q->shape->stride,
                   .n_slots = n_slots,
                   .release_mask = release_mask(q->shape, n_slots),
                   .far_ns = far_ns(q)};
}

/* ---- whether a collective has common slots ---- */

/* Bytes that one peer is sent by way of common slots in a run, about. */
static uint64_t common_bytes_of(const df_coll *coll) {
  uint32_t pieces = coll->plan->geometry == DF_GEOMETRY_PARTITION ? coll->plan->pieces : 1;
  return coll->count * df_type_size(coll->type) / pieces;
}

static uint64_t longest_message(const df_coll *coll) {
  uint64_t elements = 0;
  for (uint32_t block = 0; block < coll->shape.n_blocks; block++)
    elements = DF_MAX(elements, (uint64_t)coll->shape.parts[block].chunk);
  return elements * df_type_size(coll->type);
}

/* Of the messages that a common slot is lent to, either all are lent or none. */
static int has_link_that_lends_nothing(const df_coll *coll) {
  const df_plan *plan = coll->plan;
  for (uint32_t i = 0; i < plan->n_primitives; i++)
    if (plan->primitives[i].common != DF_COMMON_NONE &&
        coll->device.links[plan->primitives[i].send_link].release_mask)
      return 1;
  return 0;
}

/*
 * Is anything gained? Ranks of this process read the buffer itself. If all members' messages of a
 * run fit the caches in slots of their own, those are as fast, and a root need not wait for its
 * readers at the end of each run: docs/PERFORMANCE.md has the measurements, all with several ranks
 * a core.
 */
static int common_has_use(const dfcclContext_t context, const df_coll *coll, uint32_t readers) {
  enum { NEVER, WHERE_IT_GAINS };
  if (context->settings.tuning.policy.common == NEVER || !context->device.memory->host_sees_links ||
      readers < 2 || longest_message(coll) < coll->device.descriptor->direct_min ||
      has_link_that_lends_nothing(coll))
    return 0;
  uint64_t copies = (uint64_t)readers * (df_runs_ahead(coll) ? 1 : coll->n);
  return context->settings.tuning.policy.common != WHERE_IT_GAINS ||
         (df_is_crowded(context, coll->n) &&
          common_bytes_of(coll) > (uint64_t)context->settings.tuning.policy.ring_bytes / copies);
}

/* Slots of each block: in proportion the nearest power of two to what the readers' rings would
 * have, for which they stand. */
static uint32_t common_depth(const dfcclContext_t context, const df_coll *coll, uint32_t readers) {
  uint64_t ring = (uint64_t)context->settings.tuning.policy.ring_bytes / df_ranks_on_a_core(context, coll->n) /
                  (df_runs_ahead(coll) ? 1 : coll->n - 1);
  uint64_t target = ring * readers / coll->shape.n_blocks;
  uint32_t depth = DF_MIN_LINK_SLOTS;
  if (context->settings.tuning.policy.slots == DF_MIN_LINK_SLOTS) return 1; /* the tightest */
  while (depth < DF_MAX_LINK_SLOTS && 4ull * depth * coll->shape.stride <= 3 * target) depth *= 2;
  return depth;
}

/* ---- set-up ---- */

static df_ring_question ring_question(const dfcclContext_t context, const df_coll *coll) {
  uint32_t n_incoming = 0;
  for (uint32_t which = 0; which < coll->plan->n_links; which++)
    n_incoming += !coll->plan->links[which].sends;
  return (df_ring_question){.settings = &context->settings,
                            .shape = &coll->shape,
                            .direct_min = coll->device.descriptor->direct_min,
                            .used_bytes = context->transports.shm->arena.used_bytes,
                            .n_incoming = n_incoming,
                            .ranks_on_a_core = df_ranks_on_a_core(context, coll->n),
                            .runs_ahead = df_runs_ahead(coll),
                            .host_sees = context->device.memory->host_sees_links};
}

static void choose_ring_once(const dfcclContext_t context, df_coll *coll) {
  if (coll->ring.n_slots != 0) return;
  const df_ring_question question = ring_question(context, coll);
  coll->ring = choose_ring(&question);
}

static df_route route_of(const df_coll *coll, uint32_t which, const df_ring *ring) {
  return (df_route){.peer = coll->ranks[coll->plan->links[which].peer],
                    .n_blocks = coll->shape.n_blocks,
                    .ends = &coll->device.links[which],
                    .end_step = coll->plan->n_links,
                    .ring = *ring,
                    .slots_min = coll->shape.n_slots,
                    .payload_offset = (uint8_t)coll->shape.payload_offset,
                    .plan = coll->plan,
                    .which = which,
                    .parts = coll->shape.parts,
                    .element_bytes = (uint8_t)df_type_size(coll->type)};
}

/* [lock] The collective has failed, or has been deregistered: its links are of no use any more, and
 * its remotes not its own. */
static int is_given_up(const df_coll *coll) {
  return coll->deregistered || coll->failed != dfcclSuccess;
}

static df_remote *remote_of(const df_coll *coll, uint32_t which) {
  return coll->remotes[coll->plan->links[which].peer];
}

/* [lock], which a patient call lets go. Reserves what the peer will write for this rank, and tells
 * the peer. */
static dfcclResult_t accept_link(dfcclContext_t context, df_coll *coll, uint32_t which,
                                 df_patience *patience) {
  df_endpoint *endpoint = context->transports.to[remote_of(coll, which)->peer];
  choose_ring_once(context, coll);
  const df_route route = route_of(coll, which, &coll->ring);
  df_ticket *ticket = NULL;
  df_offer offer = {0};
  coll->setting_up = 1;
  dfcclResult_t result = endpoint->transport->accept(endpoint, &route, patience, &offer, &ticket);
  coll->setting_up = 0;
  if (result != dfcclSuccess) return result;
  if (is_given_up(coll)) {
    endpoint->transport->release(endpoint, ticket);
    return dfcclSuccess;
  }
  remote_of(coll, which)->accepted = ticket;
  df_message message = {.kind = DF_MESSAGE_LINKS, .payload_bytes = sizeof offer, .id = coll->id};
  df_post_send(&context->control, route.peer, &message, &offer, -1);
  return dfcclSuccess;
}

/* [lock], which a patient call lets go. Takes the peer's offer. */
static dfcclResult_t connect_link(dfcclContext_t context, df_coll *coll, uint32_t which,
                                  df_patience *patience) {
  df_remote *remote = remote_of(coll, which);
  df_endpoint *endpoint = context->transports.to[remote->peer];
  choose_ring_once(context, coll);
  const df_route route = route_of(coll, which, &coll->ring);
  const df_offer offer = remote->offer; /* the record may go while the lock is let go */
  df_ticket *ticket = NULL;
  coll->setting_up = 1;
  dfcclResult_t result = endpoint->transport->connect(endpoint, &route, patience, &offer, &ticket);
  coll->setting_up = 0;
  if (result != dfcclSuccess) return result;
  if (is_given_up(coll)) {
    endpoint->transport->release(endpoint, ticket);
    return dfcclSuccess;
  }
  remote = remote_of(coll, which);
  remote->connected = ticket;
  remote->is_connected = 1;
  return dfcclSuccess;
}

/* [lock] What can be done now. dfcclInProgress: something takes longer than patience allows. */
static dfcclResult_t set_up_links(dfcclContext_t context, df_coll *coll, df_patience *patience) {
  dfcclResult_t all = dfcclSuccess;
  for (uint32_t which = 0; which < coll->plan->n_links && !is_given_up(coll); which++) {
    const df_remote *remote = remote_of(coll, which);
    dfcclResult_t result = dfcclSuccess;
    if (coll->plan->links[which].sends) {
      if (remote->has_offer && !remote->is_connected)
        result = connect_link(context, coll, which, patience);
    } else if (remote->accepted == NULL && coll->submitted != 0) {
      result = accept_link(context, coll, which, patience);
    }
    if (result == dfcclInProgress)
      all = result;
    else if (result != dfcclSuccess)
      return result;
  }
  return all;
}

/* [lock] */
static int links_stand(const df_coll *coll) {
  for (uint32_t which = 0; which < coll->plan->n_links; which++) {
    const df_remote *remote = remote_of(coll, which);
    if (coll->plan->links[which].sends ? !remote->is_connected : remote->accepted == NULL) return 0;
  }
  return 1;
}

/* [lock] */
static void reserve_common(dfcclContext_t context, df_coll *coll) {
  df_shm_endpoint *shm = context->transports.shm;
  const uint32_t readers = df_common_count_readers(shm, coll->plan, coll->ranks);
  if (coll->common.range.segment || !common_has_use(context, coll, readers)) return;
  if (shm->arena.used_bytes + shm->commons.used_bytes >= (uint64_t)context->settings.tuning.policy.ring_budget)
    return;
  const uint32_t depth = common_depth(context, coll, readers);
  df_common_reserve(shm, &coll->common, coll->plan, coll->ranks,
                    (uint64_t)coll->shape.stride * depth * coll->shape.n_blocks, depth,
                    coll->device.descriptor->words);
}

/* [lock] Only a peer that makes no sense ends more than the collective. */
static void give_up(dfcclContext_t context, df_coll *coll, dfcclResult_t status) {
  if (is_given_up(coll)) return;
  char sentence[DF_SENTENCE_BYTES], label[DF_MAX_NAME + 40];
  snprintf(sentence, sizeof sentence, "%s on rank %u: %.300s",
           df_coll_label(coll, label, sizeof label), context->rank, df_last_sentence());
  if (status == dfcclRemoteError)
    df_give_up(context, status, sentence);
  else
    df_fail_collective(context, coll, status, 1, sentence);
}

static void ask_service(dfcclContext_t context) {
  df_store_relaxed_u32(&context->links_due, 1);
  df_service_wake(&context->control);
}

enum { DF_FIRST_TURN_STEPS = 32 }; /* most primitives of a run that its submitter executes */

/* Are its runs so short that a submitter may execute them, as far as they come without waiting? */
static int is_short(const dfcclContext_t context, const df_coll *coll) {
  const df_descriptor *d = coll->device.descriptor;
  uint64_t most = (uint64_t)context->settings.tuning.policy.borrowed_turn_max;
  uint64_t pieces = d->geometry == DF_GEOMETRY_PIECES ? d->pieces : 1;
  return most != 0 && context->device.executor->first_turn != NULL && coll->shape.n_blocks == 1 &&
         coll->count <= most && pieces <= DF_FIRST_TURN_STEPS &&
         coll->count * pieces * df_type_size(coll->type) <= most &&
         (uint64_t)coll->shape.parts[0].loops * coll->plan->n_primitives <= DF_FIRST_TURN_STEPS;
}

/* [lock], which is let go in the background: on the service thread. */
static void progress(dfcclContext_t context, df_coll *coll, int in_background) {
  if (coll->ready || coll->failed != dfcclSuccess || coll->n_bound + 1 < coll->n) return;
  if (coll->setting_up) return; /* the service thread is at it */
  const int has_links = coll->count != 0 && coll->n > 1;
  df_patience patience = {.may_wait = in_background, .pages_left = DF_PAGES_UNDER_LOCK};
  dfcclResult_t result = dfcclSuccess;
  uint64_t submitted;
  do { /* a first run may have been submitted while the lock was let go */
    submitted = coll->submitted;
    if (has_links) result = set_up_links(context, coll, &patience);
  } while (result == dfcclSuccess && submitted == 0 && coll->submitted != 0);
  if (result == dfcclInProgress && !in_background) ask_service(context);
  if (result == dfcclInProgress) return;
  if (result != dfcclSuccess) {
    give_up(context, coll, result);
    return;
  }
  if (is_given_up(coll)) return;
  if (coll->submitted == 0) return; /* memory is taken when it is first needed */
  if (has_links && !links_stand(coll)) return;
  if (!in_background && context->device.memory->sets_up_in_background) {
    ask_service(context);
    return;
  }
  if (has_links) reserve_common(context, coll);
  result = context->device.memory->publish(&context->device, &coll->device);
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

/* [lock], which is let go: the collective stays meanwhile. */
static void progress_in_background(dfcclContext_t context, df_coll *coll) {
  coll->references++;
  progress(context, coll, 1);
  df_coll_unreference(context, coll);
}

void df_links_progress_due(dfcclContext_t context) {
  if (!df_load_relaxed_u32(&context->links_due)) return;
  pthread_mutex_lock(&context->lock);
  df_store_relaxed_u32(&context->links_due, 0);
  for (uint32_t i = 0; i < context->registry.n_indices; i++)
    if (df_registered(context, i) && !context->registry.by_index[i]->ready)
      progress_in_background(context, context->registry.by_index[i]);
  pthread_mutex_unlock(&context->lock);
}

void df_links_told(dfcclContext_t context, df_remote *remote, const df_offer *offer) {
  if (remote->has_offer) return; /* the peer is mistaken */
  remote->offer = *offer;
  remote->has_offer = 1;
  if (remote->bound) progress_in_background(context, remote->bound);
}
