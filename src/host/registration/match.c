/* The i-th registration of an id on this rank is matched with the i-th announcement of that id from
 * each other member. A difference in any field ends the collective with dfcclMismatch on every
 * member. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutex.h"
#include "host/state/context.h"
#include "host/runs/collective_failure.h"
#include "host/registration/announcement.h"
#include "host/registration/link_setup.h"
#include "host/registration/match.h"
#include "host/state/registry.h"
#include "host/state/survival.h"
#include "host/state/switch_hooks.h"

static df_remote *oldest(dfcclContext_t context, uint32_t peer, dfcclCollId_t id,
                         uint64_t variant) {
  df_remote key = {.id = id, .variant = variant, .peer = peer};
  return ck_hs_get(&context->registry.remotes,
                   CK_HS_HASH(&context->registry.remotes, context->registry.remotes.hf, &key),
                   &key);
}

df_remote *df_match_newest(dfcclContext_t context, uint32_t peer, const df_message *message) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_remote *newest = NULL;
  for (df_remote *remote = oldest(context, peer, message->id, message->variant); remote;
       remote = remote->next)
    if (!remote->expected) newest = remote;
  return newest;
}

/* Appends the remote to the list of its peer and id. Returns 0 if there is no memory. */
static int append_remote(dfcclContext_t context, df_remote *remote) {
  df_remote *last = oldest(context, remote->peer, remote->id, remote->variant);
  while (last && last->next) last = last->next;
  if (last) {
    last->next = remote;
    return 1;
  }
  return ck_hs_put(&context->registry.remotes,
                   CK_HS_HASH(&context->registry.remotes, context->registry.remotes.hf, remote),
                   remote);
}

/* Pairs the collective with the ranks that the member's group contains and this rank's group does
 * not. Their announcements are matched with this registration, and they wait for this rank's.
 * Pairing keeps the order of later registrations in step. The caller binds what these ranks have
 * announced. */
static void pair_with_other_ranks(dfcclContext_t context, df_coll *coll,
                                  const df_remote *member) DF_RANK_LOCKED {
  for (uint32_t i = 0; i < member->announcement.group_size; i++) {
    uint32_t other = df_announced_rank(member, i);
    if (other >= context->n_ranks ||
        df_coll_place_of(coll, other, coll->members.n_paired) < coll->members.n_paired)
      continue;
    uint32_t *ranks = realloc(coll->ranks, (coll->members.n_paired + 1) * sizeof *ranks);
    if (ranks) coll->ranks = ranks;
    df_remote **remotes =
        realloc(coll->members.remotes, (coll->members.n_paired + 1) * sizeof(df_remote *));
    if (remotes) coll->members.remotes = remotes;
    if (ranks == NULL || remotes == NULL) {
      df_give_up(context, dfcclOutOfMemory, "no memory to pair mismatched groups");
      return;
    }
    coll->ranks[coll->members.n_paired] = other;
    coll->members.remotes[coll->members.n_paired++] = NULL;
    df_coll_announce(context, coll, coll->members.n_paired - 1);
  }
}

static uint32_t registration_of(const df_coll *coll) {
  const df_coll *registered = coll->registered ? coll->registered : coll;
  return registered->survival ? registered->survival->registration : 0;
}

static uint64_t since_of(const df_coll *coll) {
  const df_coll *registered = coll->registered ? coll->registered : coll;
  return registered->survival ? registered->survival->since : 0;
}

static void bind_one(dfcclContext_t context, df_coll *coll, df_remote *remote) DF_RANK_LOCKED {
  char difference[384], sentence[DF_SENTENCE_BYTES], label[DF_MAX_NAME + 40];
  remote->bound = coll;
  remote->met = 1;
  remote->registration = registration_of(coll);
  remote->since = since_of(coll);
  uint32_t position = df_coll_place_of(coll, remote->peer, coll->members.n_paired);
  coll->members.remotes[position] = remote;
  if (position < coll->n) coll->members.n_bound++;
  if (df_announcement_describe_difference(coll, remote, difference, sizeof difference)) {
    const int same = remote->announcement.operation == (uint32_t)coll->operation;
    snprintf(sentence, sizeof sentence, "%s%s%s: %s", df_coll_label(coll, label, sizeof label),
             same ? ", " : "", same ? df_operation_name(coll->operation) : "", difference);
    df_fail_collective(context, coll, dfcclMismatch, 1, sentence);
    if (coll->registered == NULL) pair_with_other_ranks(context, coll, remote);
  } else if (remote->failed != dfcclSuccess) {
    df_fail_collective(context, coll, remote->failed, 0,
                       remote->sentence ? remote->sentence
                                        : "a member has ended it because of a failure");
  } else if (remote->deregistered) {
    df_match_deregistered(context, remote, remote->runs, remote->leaves);
  } else if (remote->limited) {
    df_match_limited(context, remote, remote->runs);
  } else if (context->control.peers[remote->peer].state == DF_PEER_LEFT) {
    df_match_left(context, remote);
  }
}

/* NULL: all are bound. */
static df_remote *first_unbound(dfcclContext_t context, uint32_t peer, const df_coll *coll) {
  df_remote *remote = oldest(context, peer, coll->id, coll->variant);
  while (remote && remote->met) remote = remote->next;
  return remote;
}

/* Binds the remote, and those of the ranks that only one of the two groups contains. */
static void bind(dfcclContext_t context, df_coll *coll, df_remote *remote) DF_RANK_LOCKED {
  uint32_t next = coll->members.n_paired;
  bind_one(context, coll, remote);
  for (; next < coll->members.n_paired; next++) {
    df_remote *announced = first_unbound(context, coll->ranks[next], coll);
    if (announced) bind_one(context, coll, announced);
  }
}

void df_match_bind(dfcclContext_t context, df_coll *coll) {
  for (uint32_t i = 0; i < coll->n && !coll->deregistered; i++) {
    uint32_t peer = coll->ranks[i];
    if (peer == context->rank || df_coll_has_lost(context, coll, peer)) continue;
    df_remote *remote = first_unbound(context, peer, coll);
    if (remote)
      bind(context, coll, remote);
    else if (coll->registered == NULL && context->survival == NULL &&
             (context->control.peers[peer].state != DF_PEER_ALIVE ||
              context->control.peers[peer].broken))
      df_fail_unannounced(context, coll, peer);
  }
}

/* The placeholder of a local registration that was made and deregistered before the announcement
 * arrived; NULL: none. */
static df_remote *first_expected(dfcclContext_t context, uint32_t peer, dfcclCollId_t id) {
  df_remote *remote = oldest(context, peer, id, 0);
  while (remote && !remote->expected) remote = remote->next;
  return remote;
}

dfcclResult_t df_match_announced(dfcclContext_t context, uint32_t peer, const df_message *message) {
  df_remote *place = message->variant
                         ? NULL
                         : first_expected(context, peer, message->id); /* variants are unique */
  if (place) { /* the local registration is gone: there is nothing to compare */
    place->expected = 0;
    return dfcclSuccess;
  }
  df_remote *remote = calloc(1, sizeof *remote);
  df_announcement announcement;
  const uint8_t *payload = df_message_payload(message);
  memcpy(&announcement, payload, sizeof announcement);
  size_t rank_bytes = announcement.group_size * sizeof(uint32_t);
  uint32_t *ranks = announcement.group_step ? NULL : malloc(rank_bytes);
  if (remote == NULL || (ranks == NULL && !announcement.group_step)) goto no_memory;
  *remote = (df_remote){.id = message->id,
                        .variant = message->variant,
                        .peer = peer,
                        .announcement = announcement,
                        .ranks = ranks};
  payload += sizeof announcement;
  memcpy(&remote->first_rank, payload, sizeof remote->first_rank);
  if (ranks) memcpy(ranks, payload, rank_bytes);
  if (!append_remote(context, remote)) goto no_memory;
  df_coll *coll = df_find_variant(context, message->id, message->variant);
  if (coll && !df_coll_has_lost(context, coll, peer)) {
    uint32_t i = df_coll_place_of(coll, peer, coll->members.n_paired);
    if (i < coll->members.n_paired && coll->members.remotes[i] == NULL) {
      coll->references++; /* a variant that differs is freed at once */
      bind(context, coll, remote);
      df_links_progress(context, coll);
      df_coll_unreference(context, coll);
    }
  }
  return dfcclSuccess;
no_memory:
  free(ranks);
  free(remote);
  return df_fail(dfcclOutOfMemory, "no memory for rank %u's announcement of collective %" PRIu64,
                 peer, message->id);
}

/* Takes the record out of the table. */
static void take_from_table(dfcclContext_t context, df_remote *remote) DF_RANK_LOCKED {
  unsigned long hash = CK_HS_HASH(&context->registry.remotes, context->registry.remotes.hf, remote);
  df_remote *first = ck_hs_get(&context->registry.remotes, hash, remote);
  if (first == remote) {
    ck_hs_remove(&context->registry.remotes, hash, remote);
    if (remote->next && !ck_hs_put(&context->registry.remotes, hash, remote->next))
      df_give_up(context, dfcclOutOfMemory, "no memory to keep the table of announcements");
  } else {
    while (first->next != remote) first = first->next;
    first->next = remote->next;
  }
}

static void drop(dfcclContext_t context, df_remote *remote) DF_RANK_LOCKED {
  if (remote->gone_at == NULL) {
    take_from_table(context, remote);
  } else {
    *remote->gone_at = remote->next;
    if (remote->next) remote->next->gone_at = remote->gone_at;
  }
  df_remote_free(context, remote);
}

void df_remote_free(dfcclContext_t context, df_remote *remote) {
  df_endpoint *endpoint = context->transports.to[remote->peer];
  for (uint32_t channel = 0; channel <= remote->n_more; channel++) {
    const df_remote_ends *ends = channel ? &remote->more[channel - 1] : &remote->ends;
    endpoint->transport->release(endpoint, ends->accepted);
    endpoint->transport->release(endpoint, ends->connected);
  }
  free(remote->more);
  free(remote->sentence);
  free(remote->ranks);
  free(remote);
}

/* Frees the record and its rings when neither side writes to the other's rings. The end of a
 * connection is no proof of that: either end may have closed it because of a failure, and the
 * peer's block continues until it observes the failure. In that case the record is kept: this
 * context is broken, and makes few more rings. */
static void drop_if_finished(dfcclContext_t context, df_remote *remote) DF_RANK_LOCKED {
  int has_left = context->control.peers[remote->peer].state == DF_PEER_LEFT;
  int was_met = remote->met ||
                remote->variant; /* the peer makes and frees a variant together with this rank */
  /* The process of a rank that the job survives has ended, or it writes nowhere itself. */
  has_left |= context->survival && context->control.peers[remote->peer].state == DF_PEER_DEAD;
  has_left |= context->survival && !df_is_member(context->survival, remote->peer) &&
              context->transports.to[remote->peer] == context->transports.wire;
  has_left |= remote->gone_at != NULL;
  if ((remote->deregistered || has_left) && was_met && remote->bound == NULL) drop(context, remote);
}

/* Keeps the place of an announcement that has not arrived, so that later announcements are matched
 * with later registrations. */
static void expect(dfcclContext_t context, const df_coll *coll, uint32_t peer) DF_RANK_LOCKED {
  df_peer_state state = context->control.peers[peer].state;
  if (state == DF_PEER_LEFT || state == DF_PEER_DEAD) return; /* no announcement will come */
  if (df_coll_has_lost(context, coll, peer)) return;
  df_remote *place = calloc(1, sizeof *place);
  uint32_t *ranks = place && context->survival ? malloc(coll->n * sizeof *ranks) : NULL;
  if (place && (ranks || context->survival == NULL)) {
    *place = (df_remote){.id = coll->id, .peer = peer, .met = 1, .expected = 1};
    if (ranks) { /* for the agreement on members */
      memcpy(ranks, coll->ranks, coll->n * sizeof *ranks);
      place->ranks = ranks;
      place->announcement.group_size = coll->n;
      place->registration = registration_of(coll);
      place->since = since_of(coll);
    }
    if (append_remote(context, place)) return;
  }
  free(ranks);
  free(place);
  df_give_up(context, dfcclOutOfMemory, "no memory to keep the order of announcements");
}

void df_match_unbind(dfcclContext_t context, df_coll *coll) {
  for (uint32_t i = 0; i < coll->members.n_paired; i++) {
    df_remote *remote = coll->members.remotes[i];
    if (remote == NULL) {
      if (i != coll->position && coll->registered == NULL) expect(context, coll, coll->ranks[i]);
      continue;
    }
    coll->members.remotes[i] = NULL;
    remote->bound = NULL;
    drop_if_finished(context, remote);
  }
}

static void limit_runs(dfcclContext_t context, df_coll *coll, const df_remote *remote,
                       int leaves) DF_RANK_LOCKED {
  if (leaves && context->survival) return; /* the next view is without the rank */
  if (coll->is_successor) coll = coll->registered;
  if (coll->registered) {
    df_switch_lost(context, coll);
    return;
  }
  if (remote->runs < coll->members.run_limit) {
    coll->members.run_limit = remote->runs;
    coll->members.limit_rank = remote->peer;
    coll->members.limit_rank_leaves = leaves;
    free(coll->members.limit_sentence);
    coll->members.limit_sentence = NULL;
  }
  df_switch_limited(context, coll, remote->peer);
  df_check_run_limit(context, coll);
}

void df_match_deregistered(dfcclContext_t context, df_remote *remote, uint64_t runs, int leaves) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  remote->deregistered = 1;
  remote->runs = runs;
  remote->leaves = leaves;
  if (remote->bound)
    limit_runs(context, remote->bound, remote, leaves);
  else
    drop_if_finished(context, remote);
}

void df_match_moved(dfcclContext_t context, df_remote *remote) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  remote->deregistered = remote->moved = 1;
  drop_if_finished(context, remote);
}

void df_match_limit_anew(dfcclContext_t context, df_coll *coll) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  free(coll->members.limit_sentence);
  coll->members.limit_sentence = NULL;
  coll->members.run_limit = UINT64_MAX;
  for (uint32_t i = 0; i < coll->n; i++) {
    const df_remote *remote = coll->members.remotes[i];
    if (remote && remote->deregistered && !remote->moved &&
        !df_coll_has_lost(context, coll, remote->peer))
      limit_runs(context, coll, remote, remote->leaves);
  }
}

void df_match_limited(dfcclContext_t context, df_remote *remote, uint64_t runs) {
  remote->limited = 1;
  remote->runs = runs;
  if (remote->bound) limit_runs(context, remote->bound, remote, 1);
}

void df_match_differing(dfcclContext_t context, df_remote *remote, uint64_t runs,
                        const char *sentence) {
  df_coll *coll = remote->bound;
  char *kept = strdup(sentence);
  if (kept == NULL || coll->runs.retired >= runs) {
    free(kept);
    df_fail_collective(context, coll, dfcclMismatch, 0, sentence);
  } else if (runs < coll->members.run_limit) {
    coll->members.run_limit = runs;
    coll->members.limit_rank = remote->peer;
    coll->members.limit_rank_leaves = 0;
    free(coll->members.limit_sentence);
    coll->members.limit_sentence = kept;
  } else {
    free(kept);
  }
}

/* A leaving rank deregisters its collectives first. If that message was lost, the runs in which the
 * rank took part are unknown, so all runs submitted so far may complete. */
void df_match_left(dfcclContext_t context, df_remote *remote) {
  if (remote->deregistered || remote->limited) return;
  df_match_deregistered(context, remote, remote->bound ? remote->bound->runs.submitted : 0, 1);
}

/* All announcements of the peer in the table, linked by next. A removal leaves a tombstone in the
 * table and moves no entry, so the iteration continues. */
static df_remote *take_all(dfcclContext_t context, uint32_t peer) DF_RANK_LOCKED {
  ck_hs_t *table = &context->registry.remotes;
  ck_hs_iterator_t iterator = CK_HS_ITERATOR_INITIALIZER;
  df_remote *taken = NULL;
  void *entry;
  while (ck_hs_next(table, &iterator, &entry)) {
    df_remote *last = entry;
    if (last->peer != peer) continue;
    ck_hs_remove(table, CK_HS_HASH(table, table->hf, entry), entry);
    while (last->next) last = last->next;
    last->next = taken;
    taken = entry;
  }
  return taken;
}

void df_match_replaced(dfcclContext_t context, uint32_t peer) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  for (df_remote *next, *remote = take_all(context, peer); remote; remote = next) {
    next = remote->next;
    if (remote->bound == NULL) {
      df_remote_free(context, remote);
      continue;
    }
    remote->next = context->registry.gone;
    if (remote->next) remote->next->gone_at = &remote->next;
    remote->gone_at = &context->registry.gone;
    context->registry.gone = remote;
  }
}

void df_match_free(dfcclContext_t context) {
  for (df_remote *next, *remote = context->registry.gone; remote; remote = next) {
    next = remote->next;
    df_remote_free(context, remote);
  }
  context->registry.gone = NULL;
  if (context->registry.remotes.map == NULL) return;
  ck_hs_iterator_t iterator = CK_HS_ITERATOR_INITIALIZER;
  void *entry;
  while (ck_hs_next(&context->registry.remotes, &iterator, &entry)) {
    df_remote *remote = entry;
    while (remote) {
      df_remote *next = remote->next;
      df_remote_free(context, remote);
      remote = next;
    }
  }
  ck_hs_destroy(&context->registry.remotes);
}
