#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "control/view_parts.h"

static const df_view_ballot no_ballot = {.rank = DF_NOBODY};

uint16_t df_view_list_suspects(const df_view *view, df_view_item *items) {
  uint16_t n = 0;
  for (uint32_t rank = 0; rank < view->config.n_ranks; rank++) {
    const df_view_peer *peer = &view->peers[rank];
    if (!peer->member || (!peer->suspected && !peer->leaving)) continue;
    uint32_t evidence = peer->suspected | (peer->leaving ? (uint32_t)DF_EVIDENCE_LEFT : 0u);
    items[n++] = (df_view_item){(uint16_t)rank, df_view_reason(evidence, peer->accuser)};
  }
  return n;
}

static void spread(df_view *view) {
  df_view_item items[DF_MAX_RANKS];
  df_view_message message = {.header = {.type = DF_VIEW_SUSPECT,
                                        .n_suspects = df_view_list_suspects(view, items),
                                        .view = view->number,
                                        .ballot = no_ballot,
                                        .accepted = no_ballot},
                             .suspects = items};
  for (uint32_t rank = 0; rank < view->config.n_ranks; rank++) {
    if (rank == view->config.rank || !df_view_votes(view, rank)) continue;
    df_view_catch_up(view, rank);
    df_view_send(view, rank, &message);
  }
}

/* ---- suspicions */

void df_view_send_notice(df_view *view, uint32_t to, uint32_t evidence, uint32_t accuser) {
  df_view_item item = {(uint16_t)to, df_view_reason(evidence, accuser)};
  df_view_message message = {.header = {.type = DF_VIEW_NOTICE,
                                        .n_suspects = 1,
                                        .view = view->number ? view->number : 1,
                                        .ballot = no_ballot,
                                        .accepted = no_ballot},
                             .suspects = &item};
  df_view_send(view, to, &message);
}

void df_view_cut(df_view *view, uint32_t rank, uint32_t evidence, uint32_t accuser) {
  if (!view->peers[rank].open) return;
  df_view_send_notice(view, rank, evidence, accuser);
  view->peers[rank].open = 0;
  view->events->cut(view->owner, rank);
}

/* The weakest evidence of all members counts. A proof that comes later than a suspicion changes
 * nothing: the rank may have gone on alone before its death. */
static int is_weaker(const df_view_peer *peer, uint32_t evidence) {
  return evidence < peer->suspected;
}

/* Stores one suspicion. Returns 1 for a new one, and sets *weaker if known evidence is weakened. */
static int note(df_view *view, df_view_item item, int *weaker) {
  df_view_peer *peer = &view->peers[item.rank];
  uint32_t evidence = df_view_evidence(item);
  int is_new = 0;
  if (!peer->member) return 0;
  if (evidence & DF_EVIDENCE_LEFT && !peer->leaving) {
    peer->leaving = 1;
    if (!peer->suspected) peer->accuser = (uint16_t)df_view_accuser(item);
    view->n_leaving++;
    is_new = 1;
  }
  evidence &= ~(uint32_t)DF_EVIDENCE_LEFT;
  if (!evidence) return is_new;
  /* A death that is proved after a silence counts as silence: the rank may have gone on alone. */
  const int had_proof = peer->held == DF_HELD_LEAVER && peer->held_evidence == DF_EVIDENCE_CERTAIN;
  if (peer->held && !had_proof) evidence = DF_EVIDENCE_SILENT;
  if (peer->suspected && !is_weaker(peer, evidence)) return is_new;
  if (peer->suspected)
    *weaker = 1;
  else
    view->n_suspects++, is_new = 1;
  peer->suspected = (uint8_t)evidence;
  peer->accuser = (uint16_t)df_view_accuser(item);
  peer->held = DF_HELD_NOT;
  return is_new;
}

void df_view_begin_attempt(df_view *view) {
  view->phase = DF_VIEW_FROZEN;
  view->reported = 0;
  df_view_forget_states(view);
  spread(view);
  view->awaits_report = 1;
  view->events->freeze(view->owner);
}

void df_view_add_suspects(df_view *view, const df_view_item *items, uint32_t n) {
  int is_new = 0, weaker = 0;
  for (uint32_t i = 0; i < n; i++) is_new |= note(view, items[i], &weaker);
  for (uint32_t rank = 0; is_new && rank < view->config.n_ranks; rank++) {
    const df_view_peer *peer = &view->peers[rank];
    if (peer->member && peer->suspected) df_view_cut(view, rank, peer->suspected, peer->accuser);
  }
  if (is_new) {
    df_view_begin_attempt(view);
  } else if (weaker) {
    spread(view);
    if (view->reported) df_view_send_state(view);
  }
}

void df_view_merge(df_view *view, const df_view_message *message) {
  df_view_item items[DF_MAX_RANKS];
  uint32_t n = 0;
  for (uint32_t i = 0; i < message->header.n_suspects; i++) {
    items[n] = df_view_item_at(message->suspects, i);
    /* The suspect of an older view was an earlier incarnation. */
    if (message->header.view >= view->peers[items[n].rank].since) n++;
  }
  df_view_add_suspects(view, items, n);
}

static void suspect_one(df_view *view, uint32_t rank, uint32_t evidence) {
  df_view_item item = {(uint16_t)rank, df_view_reason(evidence, view->config.rank)};
  df_view_add_suspects(view, &item, 1);
}

static void hold(df_view *view, uint32_t rank, df_view_held held, df_evidence evidence) {
  df_view_peer *peer = &view->peers[rank];
  if (peer->suspected || peer->held >= held) return;
  const int is_first = peer->held == DF_HELD_NOT;
  if (is_first) peer->held_until = view->now_ns + view->config.grace_ns;
  peer->held = (uint8_t)held;
  peer->held_evidence = (uint8_t)(is_first ? evidence : DF_EVIDENCE_SILENT);
}

/* A newcomer that no member can reach. */
static void check_alone(df_view *view) {
  for (uint32_t rank = 0; rank < view->config.n_ranks; rank++)
    if (view->peers[rank].open) return;
  df_text text = {view->sentence, sizeof view->sentence};
  df_say(&text, "rank %u has not been admitted: all members have closed their connections",
         view->config.rank);
  df_view_end(view, DF_VIEW_STOPPED);
}

void df_view_refuse(df_view *view, uint32_t from, const char *why) {
  view->events->refused(view->owner, from, why);
  if (view->peers[from].member && view->phase != DF_VIEW_JOINING)
    suspect_one(view, from, DF_EVIDENCE_SILENT);
  else
    df_view_cut(view, from, DF_EVIDENCE_SILENT, view->config.rank);
  if (view->phase == DF_VIEW_JOINING) check_alone(view);
}

/* The connection of a member was cut from its side, or the rank is unreachable. */
static void cut_by(df_view *view, uint32_t rank, const char *event) {
  hold(view, rank, DF_HELD_CUT, DF_EVIDENCE_SILENT);
  if (!view->peers[rank].suspected && !df_view_is_quorum(view, 1))
    df_view_stop_without_quorum(view, rank, event);
}

void df_view_disconnected(df_view *view, uint32_t rank, int gone, uint64_t now_ns) {
  DF_ASSERT(rank < view->config.n_ranks);
  df_view_peer *peer = &view->peers[rank];
  view->now_ns = now_ns;
  if (df_view_has_ended(view) || !peer->open) return;
  peer->open = 0;
  if (view->phase == DF_VIEW_JOINING) {
    check_alone(view);
  } else if (!peer->member) {
    view->newcomer_gone |= view->admits && rank == view->newcomer.rank;
  } else if (peer->leaving && !peer->suspected) {
    hold(view, rank, DF_HELD_LEAVER, gone ? DF_EVIDENCE_CERTAIN : DF_EVIDENCE_SILENT);
  } else if (gone) {
    suspect_one(view, rank, DF_EVIDENCE_CERTAIN);
  } else if (rank < view->config.rank) {
    cut_by(view, rank, "has ended its connection");
  } else {
    suspect_one(view, rank, DF_EVIDENCE_SILENT);
  }
}

void df_view_suspect(df_view *view, uint32_t rank, df_evidence evidence, uint64_t now_ns) {
  DF_ASSERT(rank < view->config.n_ranks);
  view->now_ns = now_ns;
  if (df_view_has_ended(view) || !view->peers[rank].member || rank == view->config.rank) return;
  if (evidence == DF_EVIDENCE_SILENT && rank < view->config.rank)
    hold(view, rank, DF_HELD_SILENCE, evidence);
  else
    suspect_one(view, rank, evidence);
}

void df_view_take_notice(df_view *view, uint32_t rank, uint32_t evidence, uint64_t number) {
  df_view_peer *peer = &view->peers[rank];
  char event[80];
  if (evidence == DF_EVIDENCE_LEFT && view->peers[view->config.rank].leaving) {
    df_view_end_left(view, number);
    return;
  }
  snprintf(event, sizeof event, "has excluded this rank (%s)", df_evidence_words(evidence));
  if (peer->open) view->events->cut(view->owner, rank);
  peer->open = 0;
  if (view->phase == DF_VIEW_JOINING)
    check_alone(view);
  else if (peer->member)
    cut_by(view, rank, event);
  else
    view->newcomer_gone |= view->admits && rank == view->newcomer.rank;
}

void df_view_noticed(df_view *view, uint32_t rank, uint64_t now_ns) {
  DF_ASSERT(rank < view->config.n_ranks);
  view->now_ns = now_ns;
  if (!df_view_has_ended(view)) df_view_take_notice(view, rank, DF_EVIDENCE_SILENT, view->number);
}

void df_view_leave(df_view *view, uint64_t now_ns) {
  view->now_ns = now_ns;
  if (df_view_has_ended(view) || view->phase == DF_VIEW_JOINING ||
      view->peers[view->config.rank].leaving)
    return;
  suspect_one(view, view->config.rank, DF_EVIDENCE_LEFT);
}

void df_view_admit(df_view *view, uint32_t rank, uint32_t incarnation, uint64_t now_ns) {
  DF_ASSERT(rank < view->config.n_ranks && incarnation <= UINT16_MAX);
  view->now_ns = now_ns;
  if (df_view_has_ended(view) || view->admits) return;
  view->admits = 1;
  view->newcomer = (df_view_item){(uint16_t)rank, (uint16_t)incarnation};
  view->newcomer_gone = !view->peers[rank].open;
  if (view->phase == DF_VIEW_CURRENT) df_view_send_state(view);
}

uint64_t df_view_deadline(const df_view *view) {
  uint64_t first = UINT64_MAX;
  if (df_view_has_ended(view)) return first;
  for (uint32_t rank = 0; rank < view->config.n_ranks; rank++) {
    const df_view_peer *peer = &view->peers[rank];
    if (peer->member && peer->held && peer->held_until < first) first = peer->held_until;
  }
  return first;
}

void df_view_tick(df_view *view, uint64_t now_ns) {
  df_view_item items[DF_MAX_RANKS];
  uint32_t n = 0;
  view->now_ns = now_ns;
  if (df_view_has_ended(view)) return;
  for (uint32_t rank = 0; rank < view->config.n_ranks; rank++) {
    df_view_peer *peer = &view->peers[rank];
    if (!peer->member || !peer->held || peer->held_until > now_ns) continue;
    items[n++] =
        (df_view_item){(uint16_t)rank, df_view_reason(peer->held_evidence, view->config.rank)};
  }
  if (n) df_view_add_suspects(view, items, n);
}
