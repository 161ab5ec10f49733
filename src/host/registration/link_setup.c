/*
 * Links are set up in the background, once the registrations of all members agree and this rank has
 * submitted a first run. Each transport reserves the rings that this rank receives in, and the host
 * offers them to the senders. The collective is ready when all rings are reserved and all offers of
 * its receivers have been connected. No thread waits: each message makes as much progress as it
 * can, and the service thread executes the steps that take long.
 */
#include "host/registration/link_setup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/log.h"
#include "base/mutex.h"
#include "control/messenger.h"
#include "control/service.h"
#include "host/runs/collective_failure.h"
#include "host/registration/match.h"
#include "host/state/registry.h"
#include "host/state/survival.h"
#include "host/registration/check_arguments.h"
#include "host/runs/runs.h"
#include "host/state/switch_hooks.h"

static df_configuration_question question_of(const dfcclContext_t context, const df_coll *coll) {
  df_question choice = {.operation = coll->operation, .n = coll->n, .hosts = coll->n_hosts};
  return (df_configuration_question){.tuning = &context->settings.tuning,
                                     .topology = &context->topology,
                                     .choice = choice,
                                     .count = coll->count,
                                     .varying = coll->varying,
                                     .element_bytes = (uint32_t)df_type_size(coll->type),
                                     .host_sees_links = context->device.memory->host_sees_links};
}

static void choose_ring_once(const dfcclContext_t context, df_coll *coll) {
  if (coll->exec.ring.n_slots != 0) return;
  const df_configuration_question question = question_of(context, coll);
  coll->exec.ring = df_configuration_ring(&coll->exec.configuration, &question, coll->exec.plan,
                                          context->transports.shm->arena.used_bytes);
}

/* Memory is reserved when it is first needed: for a collective at its first run, for a variant at
 * once. */
static int is_needed(const df_coll *coll) {
  return coll->runs.submitted != 0 || coll->registered != NULL;
}

/* ---- set-up ---- */

/* A plan switch implies many runs. */
static int fills_rings(const df_coll *coll) {
  return coll->registered != NULL || coll->exec.configuration.policy->pages_after == 0;
}

static df_route route_of(dfcclContext_t context, const df_coll *coll, uint32_t which,
                         const df_ring *ring) {
  return (df_route){.peer = coll->ranks[coll->exec.plan->links[which].peer],
                    .n_blocks = coll->exec.configuration.shape.n_blocks,
                    .ends = &coll->exec.device.links[which],
                    .end_step = coll->exec.plan->n_links,
                    .ring = *ring,
                    .slots_min = coll->exec.configuration.shape.n_slots,
                    .payload_offset = (uint8_t)coll->exec.configuration.shape.payload_offset,
                    .fills_rings = fills_rings(coll),
                    .collective =
                        (uint64_t)context->registry.generations[coll->index] << 32 | coll->index,
                    .plan = coll->exec.plan,
                    .which = which,
                    .parts = coll->exec.configuration.shape.parts,
                    .element_bytes = (uint8_t)df_type_size(coll->type),
                    .varying = (uint8_t)coll->varying,
                    .lend_min = coll->exec.configuration.lend_min,
                    .peers_lend_min = df_configuration_peers_lend_min(&coll->exec.configuration)};
}

/* True if the collective failed, lost a member or was deregistered: its remotes are no longer its
 * own. */
static int is_given_up(const df_coll *coll) DF_RANK_LOCKED {
  return coll->deregistered || coll->failure.failed != dfcclSuccess || coll->runs.is_recalled;
}

static df_remote *remote_of(const df_coll *coll, uint32_t which) {
  return coll->members.remotes[coll->exec.plan->links[which].peer];
}

/* NULL: no memory. */
static df_remote_ends *make_ends(df_remote *remote, uint32_t channel) DF_RANK_LOCKED {
  if (channel > remote->n_more) {
    df_remote_ends *more = realloc(remote->more, channel * sizeof *more);
    if (more == NULL) return NULL;
    memset(more + remote->n_more, 0, (channel - remote->n_more) * sizeof *more);
    remote->more = more;
    remote->n_more = channel;
  }
  return df_ends_of(remote, channel);
}

static df_remote_ends *ends_of_link(const df_coll *coll, uint32_t which) {
  return df_ends_of(remote_of(coll, which), coll->exec.plan->links[which].channel);
}

/* Reserves the ring that the peer writes, and sends the peer an offer. If patience permits waiting,
 * the transport may release the lock meanwhile. */
static dfcclResult_t accept_link(dfcclContext_t context, df_coll *coll, uint32_t which,
                                 df_patience *patience) DF_RANK_LOCKED {
  df_endpoint *endpoint = context->transports.to[remote_of(coll, which)->peer];
  choose_ring_once(context, coll);
  const df_route route = route_of(context, coll, which, &coll->exec.ring);
  df_link_handle *handle = NULL;
  df_offer offer = {0};
  coll->exec.setting_up = 1;
  dfcclResult_t result = endpoint->transport->accept(endpoint, &route, patience, &offer, &handle);
  coll->exec.setting_up = 0;
  if (result != dfcclSuccess) return result;
  if (is_given_up(coll)) {
    endpoint->transport->release(endpoint, handle);
    return dfcclSuccess;
  }
  ends_of_link(coll, which)->accepted = handle;
  df_message message = {.kind = DF_MESSAGE_LINKS,
                        .payload_bytes = sizeof offer,
                        .id = coll->id,
                        .a = coll->exec.plan->links[which].channel,
                        .variant = coll->home};
  df_messenger_send(&context->control, route.peer, &message, &offer, -1);
  return dfcclSuccess;
}

/* Connects to the ring that the peer offered. If patience permits waiting, the transport may
 * release the lock meanwhile. */
static dfcclResult_t connect_link(dfcclContext_t context, df_coll *coll, uint32_t which,
                                  df_patience *patience) DF_RANK_LOCKED {
  df_endpoint *endpoint = context->transports.to[remote_of(coll, which)->peer];
  choose_ring_once(context, coll);
  const df_route route = route_of(context, coll, which, &coll->exec.ring);
  const df_offer offer =
      ends_of_link(coll, which)->offer; /* a copy: remote may be freed while the lock is released */
  df_link_handle *handle = NULL;
  coll->exec.setting_up = 1;
  dfcclResult_t result = endpoint->transport->connect(endpoint, &route, patience, &offer, &handle);
  coll->exec.setting_up = 0;
  if (result != dfcclSuccess) return result;
  if (is_given_up(coll)) {
    for (uint32_t block = 0; block < route.n_blocks; block++)
      route.ends[block * route.end_step].ways = NULL; /* they belong to the handle */
    endpoint->transport->release(endpoint, handle);
    return dfcclSuccess;
  }
  df_remote_ends *ends = ends_of_link(coll, which);
  ends->connected = handle;
  ends->is_connected = 1;
  return dfcclSuccess;
}

/* Returns dfcclInProgress if some step takes longer than patience allows. */
static dfcclResult_t set_up_links(dfcclContext_t context, df_coll *coll,
                                  df_patience *patience) DF_RANK_LOCKED {
  dfcclResult_t all = dfcclSuccess;
  for (uint32_t which = 0; which < coll->exec.plan->n_links && !is_given_up(coll); which++) {
    const df_plan_link *link = &coll->exec.plan->links[which];
    const df_remote_ends *ends = make_ends(remote_of(coll, which), link->channel);
    dfcclResult_t result = dfcclSuccess;
    if (ends == NULL)
      return df_fail(dfcclOutOfMemory, "no memory for channel %u of a collective's links",
                     link->channel);
    if (link->sends) {
      if (ends->has_offer && !ends->is_connected)
        result = connect_link(context, coll, which, patience);
    } else if (ends->accepted == NULL && is_needed(coll)) {
      result = accept_link(context, coll, which, patience);
    }
    if (result == dfcclInProgress)
      all = result;
    else if (result != dfcclSuccess)
      return result;
  }
  return all;
}

static int links_are_connected(const df_coll *coll) DF_RANK_LOCKED {
  for (uint32_t which = 0; which < coll->exec.plan->n_links; which++) {
    const df_remote_ends *ends = ends_of_link(coll, which);
    if (ends == NULL) return 0;
    if (coll->exec.plan->links[which].sends ? !ends->is_connected : ends->accepted == NULL)
      return 0;
  }
  return 1;
}

static void reserve_common(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  df_shm_endpoint *shm = context->transports.shm;
  const uint32_t readers = df_common_count_readers(shm, coll->exec.plan, coll->ranks);
  if (coll->exec.common.range.segment) return;
  const df_configuration_question question = question_of(context, coll);
  const uint32_t depth = df_configuration_common_slots(
      &coll->exec.configuration, &question, coll->exec.plan, coll->exec.device.links, readers,
      shm->arena.used_bytes + shm->commons.used_bytes);
  if (depth == 0) return;
  df_common_reserve(shm, &coll->exec.common, coll->exec.plan, coll->ranks,
                    (uint64_t)coll->exec.configuration.shape.stride * depth *
                        coll->exec.configuration.shape.n_blocks,
                    depth, coll->exec.device.descriptor->words);
}

/* Ends the collective. Only a malformed message of a peer ends more than the collective. */
static void give_up(dfcclContext_t context, df_coll *coll, dfcclResult_t status) DF_RANK_LOCKED {
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

/* ---- pages of deep rings ---- */

/* A ring of fewer pages is not worth waking the service thread. */
static int is_deep(const df_coll *coll, const df_link *link) {
  enum { LEAST_PAGES = 16 };
  const uint32_t n_slots = link->slot_mask + 1;
  return n_slots > coll->exec.configuration.shape.n_slots &&
         df_link_ring_bytes(link->stride, n_slots) >= LEAST_PAGES * (uint64_t)DF_PAGE;
}

/* Rings of other transports are memory of this process alone. */
static int has_shared_rings(const dfcclContext_t context, const df_coll *coll, uint32_t which) {
  return context->transports.to[remote_of(coll, which)->peer] == &context->transports.shm->base;
}

static int has_deep_rings(const dfcclContext_t context, const df_coll *coll) DF_RANK_LOCKED {
  for (uint32_t which = 0; which < coll->exec.plan->n_links; which++)
    if (has_shared_rings(context, coll, which) && is_deep(coll, &coll->exec.device.links[which]))
      return 1;
  return 0;
}

/* A collective that runs once has the pages of its own messages only. One that runs again gets all
 * pages at once, so that its runs have no faults. Runs of a collective with a plan switch are
 * watched for the switch. */
static void expect_more_runs(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  if (fills_rings(coll) || !context->device.memory->host_sees_links ||
      !has_deep_rings(context, coll))
    return;
  coll->exec.pages = coll->plan_switch ? DF_PAGES_DUE : DF_PAGES_LATER;
  if (coll->plan_switch)
    ask_service(context);
  else
    coll->runs.watched_from = (uint64_t)coll->exec.configuration.policy->pages_after - 1;
}

/* A few pages at a time, under the lock: a ring that has been given back must get no more pages.
 * Between them the collective may be given up, a switch may exchange its plan and what is due, and
 * the context may leave. */
static void get_pages(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  const uint64_t most = DF_PAGES_UNDER_LOCK * (uint64_t)DF_PAGE;
  coll->references++;
  uint64_t at = 0;
  for (uint32_t i = 0; coll->exec.pages == DF_PAGES_DUE && !is_given_up(coll);) {
    const uint32_t n_links = coll->exec.plan->n_links;
    if (i >= n_links * coll->exec.configuration.shape.n_blocks) {
      coll->exec.pages = DF_PAGES_AS_USED;
      break;
    }
    const df_link *link = &coll->exec.device.links[i];
    const uint64_t bytes = df_link_ring_bytes(link->stride, link->slot_mask + 1);
    if (at >= bytes || !has_shared_rings(context, coll, i % n_links) || !is_deep(coll, link)) {
      at = 0;
      i++;
      continue;
    }
    df_segment_populate_at(link->slots + at, DF_MIN(most, bytes - at));
    at += most;
    df_rank_unlock(&context->lock);
    df_cpu_yield(); /* a thread that waits for the lock must first wake up */
    df_rank_lock(&context->lock);
  }
  df_coll_unreference(context, coll);
}

/* Sets up links. In the background, on the service thread, it releases the lock meanwhile. */
static void progress(dfcclContext_t context, df_coll *coll, int in_background) DF_RANK_LOCKED {
  if (coll->exec.ready || is_given_up(coll) || coll->members.n_bound + 1 < coll->n) return;
  if (coll->exec.setting_up) return; /* the service thread works on it */
  /* A member of a vector collective may have no elements, and yet settle with the others. */
  const int has_links =
      coll->n > 1 && (coll->count != 0 || (coll->pairs && coll->exec.plan->n_links > 0));
  df_patience patience = {.may_wait = in_background, .pages_left = DF_PAGES_UNDER_LOCK};
  dfcclResult_t result = dfcclSuccess;
  int was_needed;
  do { /* a first run may be submitted while the lock is released */
    was_needed = is_needed(coll);
    if (has_links) result = set_up_links(context, coll, &patience);
  } while (result == dfcclSuccess && !was_needed && is_needed(coll));
  if (result == dfcclInProgress && !in_background) ask_service(context);
  if (result == dfcclInProgress) return;
  if (result != dfcclSuccess) {
    give_up(context, coll, result);
    return;
  }
  if (is_given_up(coll)) return;
  if (!is_needed(coll)) return;
  if (has_links && !links_are_connected(coll)) return;
  if (!in_background && context->device.memory->sets_up_in_background) {
    ask_service(context);
    return;
  }
  if (has_links) reserve_common(context, coll);
  result = context->device.memory->publish(&context->device, &coll->exec.device);
  if (result != dfcclSuccess) {
    give_up(context, coll, result);
    return;
  }
  if (is_given_up(coll)) return;
  coll->exec.ready = 1;
  coll->exec.first_turn = coll->exec.configuration.borrowed_turn;
  df_log(DF_LOG_TRACE, "rank %u: the links of collective %llu are connected", context->rank,
         (unsigned long long)coll->id);
  if (coll->is_successor) {
    df_survival_note_news(context); /* the service thread makes it the collective's home */
    return;
  }
  if (coll->registered) {
    df_switch_links_connected(context, coll);
    return;
  }
  coll->runs.admit_below = UINT64_MAX;
  expect_more_runs(context, coll);
  df_list(context, coll);
  df_admit_listed(context);
}

void df_links_progress(dfcclContext_t context, df_coll *coll) { progress(context, coll, 0); }

/* Releases the lock meanwhile, so a reference keeps the collective. */
static void progress_in_background(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  coll->references++;
  progress(context, coll, 1);
  df_coll_unreference(context, coll);
}

void df_links_progress_due(dfcclContext_t context) {
  if (!df_load_relaxed_u32(&context->links_due)) return;
  df_rank_lock(&context->lock);
  df_store_relaxed_u32(&context->links_due, 0);
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = context->registry.by_index[i];
    if (!df_registered(context, i)) continue;
    if (!coll->exec.ready)
      progress_in_background(context, coll);
    else if (coll->exec.pages == DF_PAGES_DUE)
      get_pages(context, coll);
  }
  df_rank_unlock(&context->lock);
}

void df_links_take_offer(dfcclContext_t context, df_remote *remote, uint32_t channel,
                         const df_offer *offer) {
  df_remote_ends *ends = make_ends(remote, channel);
  if (ends == NULL) {
    df_give_up(context, dfcclOutOfMemory, "no memory for a channel of a collective's links");
    return;
  }
  if (ends->has_offer) return; /* the peer has sent a second offer: it is ignored */
  ends->offer = *offer;
  ends->has_offer = 1;
  if (remote->bound) progress_in_background(context, remote->bound);
}
