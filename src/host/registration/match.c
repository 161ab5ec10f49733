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
#include "host/registration/link_setup.h"
#include "host/registration/match.h"
#include "host/registration/user_operators.h"
#include "host/state/registry.h"
#include "host/state/switch_hooks.h"
#include "plans/msccl/file.h"

static uint32_t operator_of(const df_coll *coll) {
  if (!df_operation_reduces(coll->operation)) return 0;
  return coll->has_user_operator
             ? (uint32_t)df_user_operator_kind_of(df_user_operators[coll->user_operator])
             : (uint32_t)coll->op;
}

/* For plans from files, the file's hash is compared too. */
static uint64_t compared_form(const df_plan *plan) {
  const int several = plan->key.several;
  if (plan->key.file == NULL) return (uint64_t)several;
  return df_plan_file_facts_of(plan->key.file).hash << 1 | (uint64_t)several;
}

df_announcement df_coll_announcement(const df_coll *coll) {
  return (df_announcement){.operation = coll->operation,
                           .type = (uint32_t)coll->type,
                           .op = operator_of(coll),
                           .root = coll->root,
                           .count = coll->pairs ? 0 : coll->count,
                           .group_size = coll->n,
                           .algorithm = (uint32_t)coll->exec.plan->key.algorithm,
                           .n_blocks = coll->exec.configuration.shape.n_blocks,
                           .n_slots = coll->exec.configuration.shape.n_slots,
                           .stride = coll->exec.configuration.shape.stride,
                           .payload_offset =
                               (uint16_t)coll->exec.configuration.shape.payload_offset,
                           .varying = (uint16_t)coll->varying,
                           .split = coll->exec.plan->key.split,
                           .chunk = coll->exec.configuration.shape.parts[0].chunk,
                           .loops = coll->exec.configuration.shape.parts[0].loops,
                           .group_step = coll->group_step,
                           .form = compared_form(coll->exec.plan)};
}

void df_coll_announce(dfcclContext_t context, df_coll *coll, uint32_t from) {
  uint8_t payload[sizeof(df_announcement) + DF_MAX_RANKS * sizeof(uint32_t)];
  df_announcement announcement = df_coll_announcement(coll);
  df_message message = {.kind = DF_MESSAGE_ANNOUNCE, .id = coll->id, .variant = coll->variant};
  message.payload_bytes = df_announcement_write(&announcement, coll->ranks, payload);
  if (coll->pairs == NULL && from == 0) {
    df_coll_send(context, coll, &message, payload);
    return;
  }
  for (uint32_t i = from; i < coll->members.n_paired; i++) {
    if (i == coll->position) continue;
    if (coll->pairs && i < coll->n) {
      announcement.sends = coll->pairs[i].sends;
      announcement.receives = coll->pairs[i].receives;
      df_announcement_write(&announcement, coll->ranks, payload);
    }
    df_messenger_send(&context->control, coll->ranks[i], &message, payload, -1);
  }
}

static uint32_t announced_rank(const df_remote *remote, uint32_t i) {
  return remote->ranks ? remote->ranks[i]
                       : remote->first_rank + i * remote->announcement.group_step;
}

static const char *operator_name(uint32_t op) {
  if (op == DF_KIND_USER_OPERATOR) return "user-defined";
  if (op == DF_KIND_USER_OPERATOR_ORDERED) return "user-defined, not commutative";
  if (op == DF_KIND_SCALED) return "premulsum";
  return df_redop_name((dfcclRedOp_t)op);
}

static const char *algorithm_name(uint32_t algorithm) {
  return algorithm <= DF_FROM_FILE ? df_algorithm_name((int)algorithm) : "unknown";
}

/* Index of the first rank that differs in two groups of one size; the size: there is no difference.
 */
static uint32_t first_difference(const df_coll *coll, const df_remote *remote) {
  uint32_t i = 0;
  if (coll->group_step && coll->group_step == remote->announcement.group_step &&
      coll->ranks[0] == remote->first_rank)
    return coll->n;
  while (i < coll->n && coll->ranks[i] == announced_rank(remote, i)) i++;
  return i;
}

static int describe_pair(const df_coll *coll, const df_remote *remote, const df_pair *pair,
                         char *text, size_t bytes) {
  const df_announcement *there = &remote->announcement;
  const uint32_t rank = coll->ranks[coll->position];
  if (pair->sends != there->receives)
    return snprintf(text, bytes,
                    "rank %u sends %" PRIu64 " elements to rank %u, which receives %" PRIu64, rank,
                    pair->sends, remote->peer, there->receives);
  return snprintf(text, bytes,
                  "rank %u receives %" PRIu64 " elements from rank %u, which sends %" PRIu64, rank,
                  pair->receives, remote->peer, there->sends);
}

/* Returns 0 when nothing differs. */
static int describe_difference(const df_coll *coll, const df_remote *remote, char *text,
                               size_t bytes) {
  const df_announcement announced = df_coll_announcement(coll);
  const df_announcement *here = &announced, *there = &remote->announcement;
  if (here->operation != there->operation) {
    const char *name = there->operation < DF_OP_ALL
                           ? df_operation_name((df_operation)there->operation)
                           : "unknown";
    return snprintf(text, bytes, "operation is %s here and %s there",
                    df_operation_name((df_operation)here->operation), name);
  }
  if (here->type != there->type)
    return snprintf(text, bytes, "data type is %s here and %s there",
                    df_type_name((dfcclDataType_t)here->type),
                    df_type_name((dfcclDataType_t)there->type));
  if (here->op != there->op)
    return snprintf(text, bytes, "reduction operator is %s here and %s there",
                    operator_name(here->op), operator_name(there->op));
  const struct {
    const char *what;
    uint64_t a, b;
  } fields[] = {{"count", here->count, there->count},
                {"options.varying", here->varying, there->varying},
                {"root", here->root, there->root},
                {"group size", here->group_size, there->group_size}};
  for (size_t i = 0; i < DF_COUNT_OF(fields); i++)
    if (fields[i].a != fields[i].b)
      return snprintf(text, bytes, "%s is %" PRIu64 " here and %" PRIu64 " there", fields[i].what,
                      fields[i].a, fields[i].b);
  uint32_t position = first_difference(coll, remote);
  if (position < coll->n)
    return snprintf(text, bytes, "position %u of the group is rank %u here and rank %u there",
                    position, coll->ranks[position], announced_rank(remote, position));
  if (coll->pairs) {
    const df_pair *pair =
        &coll->pairs[df_coll_place_of(coll, remote->peer, coll->members.n_paired)];
    if (pair->sends != there->receives || pair->receives != there->sends)
      return describe_pair(coll, remote, pair, text, bytes);
  }
  if (here->algorithm != there->algorithm)
    return snprintf(
        text, bytes,
        "algorithm (options.algorithm, DFCCL_TUNING or DFCCL_TUNER_PLUGIN) is %s here and %s there",
        algorithm_name(here->algorithm), algorithm_name(there->algorithm));
  const struct {
    const char *what;
    uint32_t a, b;
  } shapes[] = {
      {"number of blocks (block_min, net_blocks or blocks of DFCCL_TUNING, channels of "
       "DFCCL_TUNER_PLUGIN)",
       here->n_blocks, there->n_blocks},
      {"number of link slots (slots of DFCCL_TUNING)", here->n_slots, there->n_slots},
      {"slot size (slot_bytes, words_max or slot of DFCCL_TUNING)", here->stride, there->stride},
      {"payload offset (flagged_max or words_max of DFCCL_TUNING, protocol of DFCCL_TUNER_PLUGIN)",
       here->payload_offset, there->payload_offset},
      {"chunk (slot_bytes or slot of DFCCL_TUNING)", here->chunk, there->chunk},
      {"number of loops (slot_bytes or slot of DFCCL_TUNING)", here->loops, there->loops},
      {"levels of the group (split or lanes of DFCCL_TUNING)", here->split, there->split}};
  if (here->algorithm == DF_FROM_FILE && here->form >> 1 != there->form >> 1)
    return snprintf(text, bytes,
                    "algorithm's file (DFCCL_ALGORITHMS) has the hash %016" PRIx64
                    " here and %016" PRIx64 " there",
                    here->form >> 1, there->form >> 1);
  if (here->form != there->form)
    return snprintf(text, bytes,
                    "pieces of a message (slot_bytes of DFCCL_TUNING) are %s here and %s there",
                    here->form & 1 ? "several" : "one", there->form & 1 ? "several" : "one");
  for (size_t i = 0; i < DF_COUNT_OF(shapes); i++)
    if (shapes[i].a != shapes[i].b)
      return snprintf(text, bytes, "%s is %u here and %u there", shapes[i].what, shapes[i].a,
                      shapes[i].b);
  return 0;
}

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
static int enter(dfcclContext_t context, df_remote *remote) {
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
static void pair_with_strangers(dfcclContext_t context, df_coll *coll,
                                const df_remote *member) DF_RANK_LOCKED {
  for (uint32_t i = 0; i < member->announcement.group_size; i++) {
    uint32_t stranger = announced_rank(member, i);
    if (stranger >= context->n_ranks ||
        df_coll_place_of(coll, stranger, coll->members.n_paired) < coll->members.n_paired)
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
    coll->ranks[coll->members.n_paired] = stranger;
    coll->members.remotes[coll->members.n_paired++] = NULL;
    df_coll_announce(context, coll, coll->members.n_paired - 1);
  }
}

static void bind_one(dfcclContext_t context, df_coll *coll, df_remote *remote) DF_RANK_LOCKED {
  char difference[200], sentence[DF_SENTENCE_BYTES], label[DF_MAX_NAME + 40];
  remote->bound = coll;
  remote->met = 1;
  uint32_t position = df_coll_place_of(coll, remote->peer, coll->members.n_paired);
  coll->members.remotes[position] = remote;
  if (position < coll->n) coll->members.n_bound++;
  if (describe_difference(coll, remote, difference, sizeof difference)) {
    snprintf(sentence, sizeof sentence, "%s: %s (here: rank %u, there: rank %u)",
             df_coll_label(coll, label, sizeof label), difference, context->rank, remote->peer);
    df_fail_collective(context, coll, dfcclMismatch, 1, sentence);
    if (coll->registered == NULL) pair_with_strangers(context, coll, remote);
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
    if (peer == context->rank) continue;
    df_remote *remote = first_unbound(context, peer, coll);
    if (remote)
      bind(context, coll, remote);
    else if (coll->registered == NULL && (context->control.peers[peer].state != DF_PEER_ALIVE ||
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
  if (!enter(context, remote)) goto no_memory;
  df_coll *coll = df_find_variant(context, message->id, message->variant);
  if (coll) {
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

static void drop(dfcclContext_t context, df_remote *remote) DF_RANK_LOCKED {
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
  if ((remote->deregistered || has_left) && was_met && remote->bound == NULL) drop(context, remote);
}

/* Keeps the place of an announcement that has not arrived, so that later announcements are matched
 * with later registrations. */
static void expect(dfcclContext_t context, const df_coll *coll, uint32_t peer) DF_RANK_LOCKED {
  df_peer_state state = context->control.peers[peer].state;
  if (state == DF_PEER_LEFT || state == DF_PEER_DEAD) return; /* no announcement will come */
  df_remote *place = calloc(1, sizeof *place);
  if (place) *place = (df_remote){.id = coll->id, .peer = peer, .met = 1, .expected = 1};
  if (place && enter(context, place)) return;
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

void df_match_free(dfcclContext_t context) {
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
