#include "control/view.h"

#include <string.h>

#include "base/assert.h"
#include "base/text.h"
#include "control/view_parts.h"

static const df_view_ballot no_ballot = {.rank = DF_NOBODY};

/* ---- memory */

/* memory: NULL only counts. */
static void *reserve(uint8_t *memory, size_t *used, size_t bytes) {
  void *taken = memory ? memory + *used : NULL;
  *used += (bytes + 15) / 16 * 16;
  return taken;
}

static size_t place(df_view *view, const df_view_config *config, uint8_t *memory) {
  df_view_content *contents[] = {&view->accepted, &view->installed, &view->offered, &view->arriving,
                                 &view->best};
  size_t used = 0;
  const size_t ranks = config->n_ranks, most = config->max_collectives;
  for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
    contents[i]->members = reserve(memory, &used, ranks * sizeof(df_view_item));
    contents[i]->lost = reserve(memory, &used, ranks * sizeof(df_view_item));
    contents[i]->outcomes = reserve(memory, &used, most * sizeof(df_view_outcome));
    contents[i]->ballot = no_ballot;
  }
  view->own = reserve(memory, &used, most * sizeof *view->own);
  view->merged = reserve(memory, &used, most * sizeof *view->merged);
  view->peers = reserve(memory, &used, ranks * sizeof *view->peers);
  return used;
}

size_t df_view_memory(const df_view_config *config) {
  df_view unused;
  memset(&unused, 0, sizeof unused);
  return place(&unused, config, NULL);
}

void df_view_open(df_view *view, const df_view_config *config, const df_view_events *events,
                  void *owner, void *memory, void *buffer) {
  DF_ASSERT(config->n_ranks <= DF_MAX_RANKS && config->rank < config->n_ranks);
  DF_ASSERT(config->incarnation <= UINT16_MAX);
  memset(view, 0, sizeof *view);
  view->config = *config;
  view->events = events;
  view->owner = owner;
  view->promised = no_ballot;
  view->buffer = buffer;
  const size_t bytes = place(view, config, NULL);
  if (!config->memory_is_zero) memset(memory, 0, bytes);
  place(view, config, memory);
  view->peers[config->rank].incarnation = (uint16_t)config->incarnation;
}

void df_view_start(df_view *view, uint64_t number, const df_view_item *members, uint32_t n) {
  DF_ASSERT(view->phase == DF_VIEW_JOINING && number > 0);
  view->phase = DF_VIEW_CURRENT;
  view->number = number;
  view->n_members = n;
  for (uint32_t i = 0; i < n; i++) {
    df_view_peer *peer = &view->peers[members[i].rank];
    peer->member = 1;
    peer->open = members[i].rank != view->config.rank;
    peer->incarnation = members[i].value;
  }
  DF_ASSERT(view->peers[view->config.rank].member);
}

int df_view_connected(df_view *view, uint32_t rank) {
  DF_ASSERT(rank < view->config.n_ranks);
  if (view->peers[rank].member || view->peers[rank].open) return 0;
  view->peers[rank] = (df_view_peer){.open = 1};
  return 1;
}

/* The number that the application sees, in sentences. */
static uint64_t shown(uint64_t number) { return number - 1; }

/* ---- facts */

uint32_t df_view_coordinator(const df_view *view) {
  for (uint32_t rank = 0; rank < view->config.n_ranks; rank++)
    if (df_view_votes(view, rank)) return rank;
  return DF_NOBODY;
}

uint64_t df_view_attempt(const df_view *view) {
  return (uint64_t)view->n_suspects + view->n_leaving;
}

int df_view_survives(const df_view *view, uint32_t rank) {
  return df_view_votes(view, rank) && !view->peers[rank].leaving;
}

static df_view_parts parts_of(const df_view *view, int with_held) {
  df_view_parts parts = {.members = view->n_members};
  for (uint32_t rank = 0, n = 0; rank < view->config.n_ranks; rank++) {
    const df_view_peer *peer = &view->peers[rank];
    const int is_cut = with_held && peer->held == DF_HELD_CUT;
    if (!peer->member) continue;
    if (!peer->suspected && !is_cut) {
      parts.present++;
      if (n == 0) parts.has_lowest = 1;
    } else if (is_cut || peer->suspected < DF_EVIDENCE_CERTAIN) {
      parts.unproved++;
    }
    n++;
  }
  return parts;
}

int df_view_is_quorum(const df_view *view, int with_held) {
  df_view_parts parts = parts_of(view, with_held);
  return df_view_has_quorum(view->config.quorum, view->config.on_one_host, &parts);
}

const char *df_evidence_words(uint32_t evidence) {
  switch (evidence & ~(uint32_t)DF_EVIDENCE_LEFT) {
  case DF_EVIDENCE_SILENT:
    return "it did not answer";
  case DF_EVIDENCE_ASKED:
    return "the application excluded it";
  case DF_EVIDENCE_CERTAIN:
    return "its process has ended";
  case DF_EVIDENCE_GAVE_UP:
    return "it has given up";
  case DF_EVIDENCE_BYE:
    return "it has said goodbye";
  default:
    return evidence == DF_EVIDENCE_LEFT ? "it has left" : "unknown";
  }
}

const char *df_view_phase_name(df_view_phase phase) {
  static const char *const names[] = {"joining", "current", "frozen", "stopped", "left"};
  return names[phase];
}

/* ---- the end of a machine */

void df_view_end(df_view *view, df_view_phase phase) {
  view->phase = phase;
  view->awaits_report = 0;
  view->events->end(view->owner, phase == DF_VIEW_LEFT, view->sentence);
}

void df_view_stop_without_quorum(df_view *view, uint32_t from, const char *event) {
  df_view_parts parts = parts_of(view, 1);
  df_text text = {view->sentence, sizeof view->sentence};
  const unsigned long long number = shown(view->number);
  if (from != DF_NOBODY) df_say(&text, "rank %u %s in view %llu; ", from, event, number);
  df_say(&text,
         "rank %u can reach %u of the %u members of view %llu, itself included, which is "
         "not a majority",
         view->config.rank, parts.present, parts.members, number);
  const char *before = " (";
  for (uint32_t rank = 0; rank < view->config.n_ranks; rank++) {
    const df_view_peer *peer = &view->peers[rank];
    if (!peer->member || (!peer->suspected && peer->held != DF_HELD_CUT)) continue;
    df_say(&text, "%srank %u: %s", before, rank,
           peer->suspected ? df_evidence_words(peer->suspected) : "its connection has ended");
    if (peer->suspected && peer->accuser != view->config.rank)
      df_say(&text, ", as rank %u reports", peer->accuser);
    before = ", ";
  }
  df_say(&text, "%s: start the job again, or look at the network between these ranks",
         before[0] == ',' ? ")" : "");
  df_view_end(view, DF_VIEW_STOPPED);
}

/* A peer's reports may name collectives that it has invented, so this is no fault of the caller. */
void df_view_stop_for_collectives(df_view *view) {
  df_text text = {view->sentence, sizeof view->sentence};
  df_say(&text, "rank %u: the members of view %llu report more than %u collectives of lost ranks",
         view->config.rank, (unsigned long long)shown(view->number), view->config.max_collectives);
  df_view_end(view, DF_VIEW_STOPPED);
}

void df_view_end_left(df_view *view, uint64_t number) {
  df_text text = {view->sentence, sizeof view->sentence};
  df_say(&text, "rank %u has left in view %llu", view->config.rank,
         (unsigned long long)shown(number));
  df_view_end(view, DF_VIEW_LEFT);
}

/* ---- messages */

void df_view_send(df_view *view, uint32_t to, const df_view_message *message) {
  if (!view->peers[to].open) return;
  const uint32_t all = message->header.n_runs + message->header.n_outcomes;
  const uint32_t most = view->config.part_entries ? view->config.part_entries : UINT32_MAX;
  uint32_t first = 0;
  do {
    uint32_t count = 0;
    uint32_t bytes = df_view_message_write(message, first, most, view->buffer, &count);
    DF_ASSERT(count > 0 || all == 0);
    view->events->send(view->owner, to, view->buffer, bytes);
    first += count;
  } while (first < all);
}

static void send_install(df_view *view, uint32_t to) {
  view->peers[to].relayed = 1;
  df_view_message message = df_view_content_message(&view->installed, DF_VIEW_INSTALL);
  df_view_send(view, to, &message);
}

void df_view_catch_up(df_view *view, uint32_t to) {
  if (!view->peers[to].relayed && df_view_content_is_set(&view->installed)) send_install(view, to);
}

/* ---- views */

static void forget_rank(df_view *view, df_view_peer *peer) {
  if (peer->member && peer->suspected) view->n_suspects--;
  if (peer->member && peer->leaving) view->n_leaving--;
  *peer = (df_view_peer){.open = peer->open};
}

static void take_members(df_view *view, const df_view_content *content) {
  for (uint32_t rank = 0, i = 0; rank < view->config.n_ranks; rank++) {
    df_view_peer *peer = &view->peers[rank];
    const int is_member = i < content->n_members && content->members[i].rank == rank;
    if (peer->member && !is_member) forget_rank(view, peer);
    if (is_member) {
      peer->member = 1;
      peer->incarnation = content->members[i++].value;
    }
    peer->relayed = 0;
    if (is_member && content->flags & DF_VIEW_ADMITTED && rank == content->newcomer.rank)
      peer->since = content->number;
  }
  view->n_members = content->n_members;
}

static void announce_installed(df_view *view) {
  const df_view_content *content = &view->installed;
  for (uint32_t i = 0; i < content->n_members; i++)
    if (content->members[i].rank != view->config.rank) send_install(view, content->members[i].rank);
  for (uint32_t i = 0; i < content->n_lost; i++)
    if (df_view_evidence(content->lost[i]) == DF_EVIDENCE_LEFT)
      df_view_send_notice(view, content->lost[i].rank, DF_EVIDENCE_LEFT, content->lost[i].rank);
}

/* Suspicions outlive a view, and so does the end of a connection to a rank that was no member. */
static void go_on(df_view *view) {
  df_view_item gone[DF_MAX_RANKS];
  uint32_t n = 0;
  if (view->n_suspects + view->n_leaving > 0)
    df_view_begin_attempt(view);
  else if (view->admits)
    df_view_send_state(view);
  for (uint32_t rank = 0; rank < view->config.n_ranks; rank++) {
    df_view_peer *peer = &view->peers[rank];
    if (rank == view->config.rank || !df_view_votes(view, rank) || peer->open || peer->held)
      continue;
    if (rank > view->config.rank) {
      gone[n++] =
          (df_view_item){(uint16_t)rank, df_view_reason(DF_EVIDENCE_SILENT, view->config.rank)};
    } else { /* if a pair is cut, only the lower rank suspects at once */
      peer->held = DF_HELD_CUT;
      peer->held_evidence = DF_EVIDENCE_SILENT;
      peer->held_until = view->now_ns + view->config.grace_ns;
    }
  }
  if (n && !df_view_has_ended(view)) df_view_add_suspects(view, gone, n);
}

void df_view_install(df_view *view, df_view_content *content, uint32_t from) {
  const uint64_t number = content->number;
  df_view_content_swap(&view->installed, content);
  df_view_reset_agreement(view);
  view->number = number;
  view->phase = DF_VIEW_CURRENT;
  take_members(view, &view->installed);
  if (view->installed.flags) {
    view->admits = view->newcomer_gone = 0;
    if (view->installed.flags & DF_VIEW_CANCELLED && !view->peers[view->newcomer.rank].member)
      df_view_cut(view, view->newcomer.rank, DF_EVIDENCE_ASKED, view->config.rank);
  }
  view->events->install(view->owner, &view->installed);
  if (from == view->config.rank)
    announce_installed(view);
  else
    view->peers[from].relayed = 1;
  if (view->peers[view->config.rank].member)
    go_on(view);
  else
    df_view_end_left(view, number);
}

/* ---- reading */

/* A member that suspects this rank sends it a NOTICE and nothing else. */
static const char *check_suspects(const df_view *view, const df_view_message *message) {
  for (uint32_t i = 0; i < message->header.n_suspects; i++) {
    df_view_item item = df_view_item_at(message->suspects, i);
    if (item.rank == view->config.rank &&
        (df_view_evidence(item) != DF_EVIDENCE_LEFT || !view->peers[view->config.rank].leaving))
      return "it excludes this rank without a notice";
    if (message->header.view == view->number && !view->peers[item.rank].member)
      return "it suspects a rank that is no member";
  }
  return NULL;
}

static void take_message(df_view *view, uint32_t from, const df_view_message *message) {
  switch ((df_view_message_type)message->header.type) {
  case DF_VIEW_SUSPECT:
    df_view_merge(view, message);
    break;
  case DF_VIEW_STATE:
    df_view_take_state(view, from, message);
    break;
  case DF_VIEW_PROPOSAL:
    df_view_take_proposal(view, from, message);
    break;
  default:
    df_view_take_accept(view, from, message);
  }
}

void df_view_receive(df_view *view, uint32_t from, const void *payload, size_t bytes,
                     uint64_t now_ns) {
  df_view_message message;
  view->now_ns = now_ns;
  if (df_view_has_ended(view) || from >= view->config.n_ranks || from == view->config.rank ||
      !view->peers[from].open)
    return;
  if (view->peers[from].held == DF_HELD_SILENCE) view->peers[from].held = DF_HELD_NOT;
  const char *why = df_view_message_read(payload, bytes, view->config.n_ranks, &message);
  const df_view_header *header = &message.header;
  if (!why && header->type == DF_VIEW_NOTICE) {
    df_view_take_notice(view, from, df_view_evidence(df_view_item_at(message.suspects, 0)),
                        header->view);
    return;
  }
  if (!why && header->type == DF_VIEW_INSTALL) {
    df_view_take_install(view, from, &message);
    return;
  }
  if (!why && header->view > view->number) why = "its view has not been installed here";
  if (!why) why = check_suspects(view, &message);
  if (why) {
    df_view_refuse(view, from, why);
  } else if (header->view < view->number) {
    /* Its sender may have missed INSTALL, or that it has left, since the coordinator died. */
    if (view->peers[from].member)
      df_view_catch_up(view, from);
    else
      df_view_send_notice(view, from, DF_EVIDENCE_LEFT, from);
    if (view->peers[from].member) df_view_merge(view, &message);
  } else if (!view->peers[from].member) {
    df_view_refuse(view, from, "it is from a rank that is no member");
  } else {
    take_message(view, from, &message);
  }
}
