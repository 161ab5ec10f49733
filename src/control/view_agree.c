#include <string.h>

#include "base/assert.h"
#include "control/view_parts.h"

static const df_view_ballot no_ballot = {.rank = DF_NOBODY};

static df_view_ballot own_ballot(const df_view *view) {
  return (df_view_ballot){.attempt = df_view_attempt(view), .rank = view->config.rank};
}

/* ---- coordinator: what the STATEs of this attempt lead to */

void df_view_forget_states(df_view *view) {
  view->proposing = 0;
  view->best_from = DF_NOBODY;
  view->newcomers_differ = view->reported_gone = view->has_reported_newcomer = 0;
  view->reported_newcomer = view->refusal = (df_view_item){0};
  memset(view->merged, 0, view->n_merged * sizeof *view->merged);
  view->n_merged = 0;
  df_view_content_clear(&view->best);
  for (uint32_t rank = 0; rank < view->config.n_ranks; rank++) {
    df_view_peer *peer = &view->peers[rank];
    peer->state = DF_STATE_NONE;
    peer->accepted = 0;
    peer->next = peer->last_registration = 0;
    peer->last_collective = 0;
  }
}

void df_view_reset_agreement(df_view *view) {
  df_view_forget_states(view);
  df_view_content_clear(&view->accepted);
  df_view_content_clear(&view->offered);
  memset(view->own, 0, view->n_own * sizeof *view->own);
  view->n_own = 0;
  view->promised = no_ballot;
  view->awaits_report = view->reported = 0;
  df_view_content_clear(&view->arriving);
}

/* No survivor lacks the data of a run below the lowest count. */
static uint64_t lower(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Adds the runs of one member. Returns 0 if there are too many collectives. */
static int merge_runs(df_view *view, const df_view_runs *runs) {
  uint32_t low = 0, high = view->n_merged;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    const df_view_runs *there = &view->merged[middle].runs;
    if (there->collective < runs->collective ||
        (there->collective == runs->collective && there->registration < runs->registration))
      low = middle + 1;
    else
      high = middle;
  }
  df_view_merged *at = &view->merged[low];
  const int is_there = low < view->n_merged && at->runs.collective == runs->collective &&
                       at->runs.registration == runs->registration;
  if (!is_there) {
    if (view->n_merged == view->config.max_collectives) return 0;
    memmove(at + 1, at, (view->n_merged++ - low) * sizeof *at);
    *at = (df_view_merged){.runs = *runs};
    if (runs->done == DF_VIEW_TAKEN_BACK) at->runs.submitted = 0;
  }
  df_view_runs *sum = &at->runs;
  at->reporters++;
  if (runs->survivors > sum->survivors) sum->survivors = runs->survivors;
  sum->done = lower(sum->done, runs->done);
  if (runs->done != DF_VIEW_TAKEN_BACK && runs->submitted > sum->submitted)
    sum->submitted = runs->submitted;
  return 1;
}

static int all_states_are_here(const df_view *view) {
  for (uint32_t rank = 0; rank < view->config.n_ranks; rank++)
    if (df_view_votes(view, rank) && view->peers[rank].state != DF_STATE_WHOLE) return 0;
  return 1;
}

static int all_have_accepted(const df_view *view) {
  for (uint32_t rank = 0; rank < view->config.n_ranks; rank++)
    if (df_view_votes(view, rank) && !view->peers[rank].accepted) return 0;
  return 1;
}

static void install_if_accepted(df_view *view) {
  if (all_have_accepted(view)) df_view_install(view, &view->accepted, view->config.rank);
}

static void propose(df_view *view) {
  /* Content that a member has accepted may have been installed somewhere, so it comes first. */
  if (df_view_ballot_compare(&view->best.ballot, &view->accepted.ballot) > 0)
    df_view_content_swap(&view->accepted, &view->best);
  else if (!df_view_content_is_set(&view->accepted))
    df_view_content_make(view, &view->accepted);
  view->accepted.ballot = own_ballot(view);
  view->proposing = 1;
  view->peers[view->config.rank].accepted = 1;
  df_view_message message = df_view_content_message(&view->accepted, DF_VIEW_PROPOSAL);
  message.header.view = view->number;
  for (uint32_t rank = 0; rank < view->config.n_ranks; rank++) {
    if (rank == view->config.rank || !df_view_votes(view, rank)) continue;
    df_view_catch_up(view, rank);
    df_view_send(view, rank, &message);
  }
  install_if_accepted(view);
}

/* Proposes when the STATEs of all are there. Evidence may have become weaker since the proposal. */
void df_view_consider(df_view *view) {
  if (df_view_coordinator(view) != view->config.rank || !all_states_are_here(view)) return;
  if (view->n_suspects > 0 && !df_view_is_quorum(view, 0))
    df_view_stop_without_quorum(view, DF_NOBODY, NULL);
  else if (!view->proposing)
    propose(view);
}

/* ---- STATE */

/* All members must have called admit for the same newcomer. The first report sets it: the
 * coordinator may be the last to call. */
static void take_newcomer(df_view *view, df_view_item item, int gone) {
  if (!view->has_reported_newcomer) view->reported_newcomer = item;
  view->has_reported_newcomer = 1;
  if (view->peers[item.rank].member && item.value != 0) view->refusal = item;
  view->newcomers_differ |=
      item.rank != view->reported_newcomer.rank || item.value != view->reported_newcomer.value;
  view->reported_gone |= gone;
}

static void take_own_state(df_view *view) {
  df_view_peer *self = &view->peers[view->config.rank];
  if (self->state != DF_STATE_WHOLE) {
    for (uint32_t i = 0; i < view->n_own && !self->leaving; i++) {
      if (merge_runs(view, &view->own[i])) continue;
      df_view_stop_for_collectives(view);
      return;
    }
    if (df_view_attempt(view) == 0) take_newcomer(view, view->newcomer, view->newcomer_gone);
    self->state = DF_STATE_WHOLE;
  }
  df_view_consider(view);
}

void df_view_send_state(df_view *view) {
  df_view_item items[DF_MAX_RANKS];
  const uint32_t to = df_view_coordinator(view);
  df_view_message message = df_view_content_message(&view->accepted, DF_VIEW_STATE);
  df_view_header *header = &message.header;
  view->promised = (df_view_ballot){.attempt = df_view_attempt(view), .rank = to};
  if (to == view->config.rank) {
    take_own_state(view);
    return;
  }
  header->n_suspects = df_view_list_suspects(view, items);
  header->view = view->number;
  header->accepted = view->accepted.ballot;
  header->ballot = view->promised;
  if (df_view_attempt(view) == 0) {
    header->flags |= DF_VIEW_ADMITS | (view->newcomer_gone ? DF_VIEW_NEWCOMER_GONE : 0);
    header->newcomer = view->newcomer;
  }
  header->n_runs = view->n_own;
  message.suspects = items;
  message.runs = view->own;
  df_view_catch_up(view, to);
  df_view_send(view, to, &message);
}

int df_view_awaits_report(const df_view *view) { return view->awaits_report; }

void df_view_report(df_view *view, const df_view_runs *runs, uint32_t n, uint64_t now_ns) {
  view->now_ns = now_ns;
  if (!view->awaits_report) return;
  DF_ASSERT(n <= view->config.max_collectives);
  if (view->n_own > n) memset(view->own + n, 0, (view->n_own - n) * sizeof *runs);
  if (n) memcpy(view->own, runs, n * sizeof *runs);
  view->n_own = n;
  view->awaits_report = 0;
  view->reported = 1;
  df_view_send_state(view);
}

/* The accepted content of a STATE counts if its ballot is the highest so far. */
static const char *take_accepted(df_view *view, uint32_t from, const df_view_message *message) {
  const df_view_header *header = &message->header;
  if (!df_view_ballot_is_set(&header->accepted)) return NULL;
  const char *why = df_view_content_check(view, message);
  if (why) return why;
  if (header->first == 0) {
    if (df_view_ballot_compare(&header->accepted, &view->best.ballot) <= 0) return NULL;
    view->best_from = from;
  }
  if (view->best_from != from) return NULL;
  return df_view_content_add(&view->best, message, view->number + 1, &header->accepted);
}

static const char *take_runs(df_view *view, uint32_t from, const df_view_message *message) {
  df_view_peer *peer = &view->peers[from];
  const df_view_header *header = &message->header;
  for (uint32_t i = 0; i < header->count && header->first + i < header->n_runs; i++) {
    df_view_runs runs = df_view_runs_at(message, i);
    if (header->first + i > 0 &&
        (runs.collective < peer->last_collective || (runs.collective == peer->last_collective &&
                                                     runs.registration <= peer->last_registration)))
      return "its collectives are not in ascending order";
    peer->last_collective = runs.collective;
    peer->last_registration = runs.registration;
    if (!peer->leaving && !merge_runs(view, &runs)) return "it has too many collectives";
  }
  return NULL;
}

/* Returns NULL, or the reason why the part does not follow the earlier ones. */
static const char *take_part(df_view *view, uint32_t from, const df_view_message *message) {
  df_view_peer *peer = &view->peers[from];
  const df_view_header *header = &message->header;
  const df_view_ballot ballot = own_ballot(view);
  if (df_view_coordinator(view) != view->config.rank ||
      df_view_ballot_compare(&header->ballot, &ballot) != 0)
    return "it promises another ballot than its suspects lead to";
  if (peer->state == DF_STATE_WHOLE) return NULL; /* only the evidence is new */
  if (header->first != peer->next) return "a part is missing";
  if (header->flags & DF_VIEW_ADMITS)
    take_newcomer(view, header->newcomer, (header->flags & DF_VIEW_NEWCOMER_GONE) != 0);
  const char *why = take_runs(view, from, message);
  if (!why) why = take_accepted(view, from, message);
  peer->next += header->count;
  peer->state = peer->next == header->n_runs + header->n_outcomes ? DF_STATE_WHOLE : DF_STATE_PART;
  if (!why && peer->state == DF_STATE_WHOLE && view->best_from == from &&
      !df_view_content_is_whole(&view->best))
    why = "a part of its content is missing";
  return why;
}

void df_view_take_state(df_view *view, uint32_t from, const df_view_message *message) {
  const df_view_header *header = &message->header;
  uint32_t n_suspects = 0, n_leaving = 0;
  for (uint32_t i = 0; i < header->n_suspects; i++) {
    df_view_item item = df_view_item_at(message->suspects, i);
    const uint32_t evidence = df_view_evidence(item);
    n_leaving += (evidence & DF_EVIDENCE_LEFT) != 0;
    n_suspects += evidence != DF_EVIDENCE_LEFT;
  }
  df_view_merge(view, message);
  if (!df_view_votes(view, from)) return;
  /* After the merge the suspects of this rank include those of the sender. */
  if (n_suspects != view->n_suspects || n_leaving != view->n_leaving) return;
  const char *why = take_part(view, from, message);
  if (why)
    df_view_refuse(view, from, why);
  else if (view->peers[from].state == DF_STATE_WHOLE)
    df_view_consider(view);
}

/* ---- PROPOSAL, ACCEPT, INSTALL */

void df_view_take_proposal(df_view *view, uint32_t from, const df_view_message *message) {
  const df_view_header *header = &message->header;
  const int order = df_view_ballot_compare(&header->ballot, &view->promised);
  if (header->ballot.rank != from || order > 0) {
    df_view_refuse(view, from, "this rank has not promised its ballot");
    return;
  }
  if (order < 0) return; /* promised a higher one */
  const char *why = df_view_content_check(view, message);
  if (!why) why = df_view_content_add(&view->offered, message, view->number + 1, &header->ballot);
  if (why) {
    df_view_refuse(view, from, why);
    return;
  }
  if (!df_view_content_is_whole(&view->offered)) return;
  df_view_content_swap(&view->accepted, &view->offered);
  df_view_content_clear(&view->offered);
  df_view_message answer = {.header = {.type = DF_VIEW_ACCEPT,
                                       .view = view->number,
                                       .ballot = header->ballot,
                                       .accepted = no_ballot}};
  df_view_send(view, from, &answer);
}

void df_view_take_accept(df_view *view, uint32_t from, const df_view_message *message) {
  const df_view_ballot *ballot = &message->header.ballot;
  const df_view_ballot mine = own_ballot(view);
  const int order = df_view_ballot_compare(ballot, &mine);
  if (ballot->rank != view->config.rank || order > 0 || (order == 0 && !view->proposing)) {
    df_view_refuse(view, from, "it accepts a ballot that was not proposed");
    return;
  }
  if (order < 0) return;
  view->peers[from].accepted = 1;
  install_if_accepted(view);
}

/* The next view. A member that is suspected by the others has not accepted it, if the others have
 * repeated an earlier content. */
static const char *take_next(df_view *view, const df_view_message *message) {
  const df_view_header *header = &message->header;
  df_view_content *arriving = &view->arriving;
  const df_view_ballot *ballot =
      df_view_content_is_set(arriving) ? &arriving->ballot : &header->ballot;
  const char *why = df_view_content_check(view, message);
  return why ? why : df_view_content_add(arriving, message, header->view, ballot);
}

/* A newcomer may pass on the view that admits it. */
static int is_or_becomes_member(const df_view *view, uint32_t rank,
                                const df_view_message *message) {
  for (uint32_t i = 0; i < message->header.n_members; i++)
    if (df_view_item_at(message->members, i).rank == rank) return 1;
  return view->peers[rank].member;
}

void df_view_take_install(df_view *view, uint32_t from, const df_view_message *message) {
  const df_view_header *header = &message->header;
  const char *why = NULL;
  const int joins = view->phase == DF_VIEW_JOINING;
  if (header->view < view->number) {
    if (view->peers[from].member) df_view_catch_up(view, from);
    return;
  }
  if (header->view == view->number) {
    view->peers[from].relayed = 1;
    if (!df_view_content_is_set(&view->installed) ||
        !df_view_content_has(&view->installed, message))
      why = "it differs from the installed view of this number";
  } else if (!joins && header->view > view->number + 1) {
    why = "a view between it and the installed one is missing";
  } else {
    why = joins || is_or_becomes_member(view, from, message)
              ? take_next(view, message)
              : "it is from a rank that is no member";
  }
  if (why) {
    df_view_refuse(view, from, why);
    return;
  }
  if (header->view > view->number && df_view_content_is_whole(&view->arriving))
    df_view_install(view, &view->arriving, from);
}
