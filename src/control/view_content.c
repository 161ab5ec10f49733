#include <string.h>

#include "control/view_parts.h"

static const df_view_ballot no_ballot = {.rank = DF_NOBODY};

void df_view_content_clear(df_view_content *content) {
  memset(content->members, 0, content->n_members * sizeof *content->members);
  memset(content->lost, 0, content->n_lost * sizeof *content->lost);
  memset(content->outcomes, 0, content->have * sizeof *content->outcomes);
  *content = (df_view_content){.members = content->members,
                               .lost = content->lost,
                               .outcomes = content->outcomes,
                               .ballot = no_ballot};
}

void df_view_content_swap(df_view_content *a, df_view_content *b) {
  df_view_content kept = *a;
  *a = *b;
  *b = kept;
}

df_view_message df_view_content_message(const df_view_content *content, df_view_message_type type) {
  return (df_view_message){.header = {.type = (uint16_t)type,
                                      .flags = content->flags,
                                      .newcomer = content->newcomer,
                                      .n_members = (uint16_t)content->n_members,
                                      .n_lost = (uint16_t)content->n_lost,
                                      .n_outcomes = content->n_outcomes,
                                      .view = content->number,
                                      .ballot = content->ballot,
                                      .accepted = no_ballot},
                           .members = content->members,
                           .lost = content->lost,
                           .outcomes = content->outcomes};
}

static int same_head(const df_view_content *content, const df_view_message *message) {
  const df_view_header *header = &message->header;
  return content->flags == (header->flags & (DF_VIEW_ADMITTED | DF_VIEW_CANCELLED)) &&
         content->newcomer.rank == header->newcomer.rank &&
         content->newcomer.value == header->newcomer.value &&
         content->n_members == header->n_members && content->n_lost == header->n_lost &&
         content->n_outcomes == header->n_outcomes &&
         memcmp(content->members, message->members,
                content->n_members * sizeof *content->members) == 0 &&
         memcmp(content->lost, message->lost, content->n_lost * sizeof *content->lost) == 0;
}

/* The outcomes of a part: the entry with which they begin, and the index of the first outcome. */
static uint32_t outcomes_of(const df_view_message *message, uint32_t *first) {
  const df_view_header *header = &message->header;
  uint32_t skipped = header->first < header->n_runs ? header->n_runs - header->first : 0;
  if (skipped > header->count) skipped = header->count;
  *first = header->first > header->n_runs ? header->first - header->n_runs : 0;
  return skipped;
}

const char *df_view_content_add(df_view_content *content, const df_view_message *message,
                                uint64_t number, const df_view_ballot *ballot) {
  const df_view_header *header = &message->header;
  uint32_t first, entry = outcomes_of(message, &first);
  const int goes_on = df_view_content_is_set(content) && same_head(content, message) &&
                      df_view_ballot_compare(&content->ballot, ballot) == 0;
  if (goes_on) {
    /* also a first part, which another member has sent before */
  } else if (header->first == 0) {
    df_view_content_clear(content);
    content->number = number;
    content->ballot = *ballot;
    content->flags = header->flags & (DF_VIEW_ADMITTED | DF_VIEW_CANCELLED);
    content->newcomer = header->newcomer;
    content->n_members = header->n_members;
    content->n_lost = header->n_lost;
    content->n_outcomes = header->n_outcomes;
    memcpy(content->members, message->members, content->n_members * sizeof *content->members);
    memcpy(content->lost, message->lost, content->n_lost * sizeof *content->lost);
  } else {
    return "a part differs from the part before";
  }
  if (first > content->have) return "a part is missing";
  for (; entry < header->count; entry++, first++) {
    const df_view_outcome outcome = df_view_outcome_at(message, entry);
    if (first == content->have)
      content->outcomes[content->have++] = outcome;
    else if (memcmp(&content->outcomes[first], &outcome, sizeof outcome) != 0)
      return "a part differs from that of another member";
  }
  return NULL;
}

int df_view_content_has(const df_view_content *content, const df_view_message *message) {
  uint32_t first, entry = outcomes_of(message, &first);
  if (!df_view_content_is_whole(content) || !same_head(content, message)) return 0;
  for (; entry < message->header.count; entry++, first++) {
    df_view_outcome outcome = df_view_outcome_at(message, entry);
    if (memcmp(&content->outcomes[first], &outcome, sizeof outcome) != 0) return 0;
  }
  return 1;
}

static const df_view_runs *own_runs(const df_view *view, const df_view_outcome *outcome) {
  for (uint32_t i = 0; i < view->n_own; i++)
    if (view->own[i].collective == outcome->collective &&
        view->own[i].registration == outcome->registration)
      return &view->own[i];
  return NULL;
}

static const char *check_outcomes(const df_view *view, const df_view_message *message) {
  uint32_t first, entry = outcomes_of(message, &first);
  for (; entry < message->header.count; entry++) {
    const df_view_outcome outcome = df_view_outcome_at(message, entry);
    const df_view_runs *own = own_runs(view, &outcome);
    if (own && outcome.base > own->done) return "it completes runs whose data this rank lacks";
    if (view->config.reruns && outcome.base != outcome.fails_below)
      return "it lets runs fail that are executed again";
  }
  return NULL;
}

/* The members of the next view and the lost ones are together those of this view, and the
 * newcomer. */
static const char *check_members(const df_view *view, const df_view_message *message) {
  const df_view_header *header = &message->header;
  const int admits = header->flags & DF_VIEW_ADMITTED;
  uint32_t m = 0, l = 0, n_new = 0;
  for (uint32_t rank = 0; rank < view->config.n_ranks; rank++) {
    const df_view_peer *peer = &view->peers[rank];
    df_view_item item = {0};
    int stays = m < header->n_members, goes = l < header->n_lost;
    if (stays) stays = (item = df_view_item_at(message->members, m)).rank == rank;
    if (goes) goes = df_view_item_at(message->lost, l).rank == rank;
    m += (uint32_t)stays;
    l += (uint32_t)goes;
    const int is_new = stays && admits && rank == header->newcomer.rank;
    if (is_new && (peer->member || item.value != header->newcomer.value))
      return "it admits a rank that is a member";
    n_new += (uint32_t)is_new;
    if (peer->member && stays == goes)
      return rank == view->config.rank ? "it leaves out this rank without a reason"
                                       : "it leaves out a member without a reason";
    if (!peer->member && (goes || (stays && !is_new))) return "it has a member of no earlier view";
    if (peer->member && stays && item.value != peer->incarnation)
      return "it has another incarnation of a member";
  }
  if (admits && n_new != 1) return "it admits a newcomer that is no member";
  /* A view either loses members, or ends an admit. */
  const int ends_admit = (header->flags & (DF_VIEW_ADMITTED | DF_VIEW_CANCELLED)) != 0;
  if (ends_admit == (header->n_lost > 0))
    return ends_admit ? "it ends an admit and loses members" : "it changes nothing";
  return NULL;
}

const char *df_view_content_check(const df_view *view, const df_view_message *message) {
  const df_view_header *header = &message->header;
  const uint32_t rank = view->config.rank;
  if (header->n_outcomes > view->config.max_collectives) return "it has too many collectives";
  if (view->phase != DF_VIEW_JOINING) {
    if (header->flags & (DF_VIEW_ADMITTED | DF_VIEW_CANCELLED) && !view->admits)
      return "it ends an admit that this rank has not called";
    const char *why = check_members(view, message);
    for (uint32_t i = 0; !why && i < header->n_lost; i++) {
      df_view_item lost = df_view_item_at(message->lost, i);
      if (lost.rank == rank &&
          (df_view_evidence(lost) != DF_EVIDENCE_LEFT || !view->peers[rank].leaving))
        why = "it leaves out this rank without a reason";
    }
    return why ? why : check_outcomes(view, message);
  }
  for (uint32_t i = 0; i < header->n_members; i++) {
    df_view_item item = df_view_item_at(message->members, i);
    if (item.rank == rank && item.value == view->config.incarnation) return NULL;
  }
  return "this rank is no member of its first view";
}

static void add_outcomes(df_view *view, df_view_content *content) {
  for (uint32_t i = 0; i < view->n_merged; i++) {
    const df_view_merged *merged = &view->merged[i];
    /* A survivor without a report has not registered the collective yet, so no run has ended. */
    uint64_t base = merged->reporters < merged->runs.survivors ? 0 : merged->runs.done;
    if (base == DF_VIEW_TAKEN_BACK) continue; /* all survivors have deregistered it */
    uint64_t fails_below = base;
    if (!view->config.reruns && merged->runs.submitted > base) fails_below = merged->runs.submitted;
    content->outcomes[content->n_outcomes++] =
        (df_view_outcome){.collective = merged->runs.collective,
                          .registration = merged->runs.registration,
                          .base = base,
                          .fails_below = fails_below};
  }
  content->have = content->n_outcomes;
}

void df_view_content_make(df_view *view, df_view_content *content) {
  const int changes = view->n_suspects + view->n_leaving > 0;
  df_view_content_clear(content);
  content->number = view->number + 1;
  if (!changes) {
    const int cancelled =
        view->reported_gone || view->newcomers_differ || view->peers[view->newcomer.rank].member;
    content->flags = cancelled ? DF_VIEW_CANCELLED : DF_VIEW_ADMITTED;
    content->newcomer = cancelled && view->refusal.value != 0 ? view->refusal : view->newcomer;
  }
  for (uint32_t rank = 0; rank < view->config.n_ranks; rank++) {
    const df_view_peer *peer = &view->peers[rank];
    df_view_item member = {(uint16_t)rank, peer->incarnation};
    if (df_view_survives(view, rank)) {
      content->members[content->n_members++] = member;
    } else if (peer->member) {
      uint32_t evidence = peer->suspected ? peer->suspected : (uint32_t)DF_EVIDENCE_LEFT;
      content->lost[content->n_lost++] =
          (df_view_item){(uint16_t)rank, df_view_reason(evidence, peer->accuser)};
    } else if (content->flags & DF_VIEW_ADMITTED && rank == view->newcomer.rank) {
      content->members[content->n_members++] = view->newcomer;
    }
  }
  if (changes) add_outcomes(view, content);
}
