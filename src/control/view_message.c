#include "control/view_message.h"

#include <string.h>

int df_view_ballot_compare(const df_view_ballot *a, const df_view_ballot *b) {
  int is_a = df_view_ballot_is_set(a), is_b = df_view_ballot_is_set(b);
  if (!is_a || !is_b) return is_a - is_b;
  if (a->attempt != b->attempt) return a->attempt < b->attempt ? -1 : 1;
  return (a->rank > b->rank) - (a->rank < b->rank);
}

df_view_item df_view_item_at(const void *items, uint32_t i) {
  df_view_item item;
  memcpy(&item, (const uint8_t *)items + i * sizeof item, sizeof item);
  return item;
}

df_view_runs df_view_runs_at(const df_view_message *message, uint32_t i) {
  df_view_runs runs;
  memcpy(&runs, (const uint8_t *)message->entries + i * sizeof runs, sizeof runs);
  return runs;
}

df_view_outcome df_view_outcome_at(const df_view_message *message, uint32_t i) {
  df_view_outcome outcome;
  memcpy(&outcome, (const uint8_t *)message->entries + i * sizeof outcome, sizeof outcome);
  return outcome;
}

static uint32_t list_bytes(const df_view_header *header) {
  uint32_t items = (uint32_t)header->n_suspects + header->n_members + header->n_lost;
  return (items + items % 2) * (uint32_t)sizeof(df_view_item);
}

static uint8_t *append(uint8_t *at, const void *from, size_t bytes) {
  if (bytes) memcpy(at, from, bytes);
  return at + bytes;
}

uint32_t df_view_message_write(const df_view_message *message, uint32_t first, uint32_t most,
                               void *bytes, uint32_t *count) {
  df_view_header header = message->header;
  const uint32_t entry = sizeof(df_view_runs), all = header.n_runs + header.n_outcomes;
  const uint32_t head = (uint32_t)sizeof header + list_bytes(&header);
  const uint32_t room = ((uint32_t)DF_VIEW_MESSAGE_BYTES - head) / entry;
  uint32_t left = all - first;
  if (most > room) most = room;
  if (most > left) most = left;
  header.first = first;
  header.count = *count = most;
  uint8_t *at = append(bytes, &header, sizeof header);
  at = append(at, message->suspects, header.n_suspects * sizeof(df_view_item));
  at = append(at, message->members, header.n_members * sizeof(df_view_item));
  at = append(at, message->lost, header.n_lost * sizeof(df_view_item));
  uint8_t *entries = (uint8_t *)bytes + head;
  memset(at, 0, (size_t)(entries - at));
  for (uint32_t i = first; i < first + most; i++, entries += entry) {
    const int is_run = i < header.n_runs;
    const uint8_t *list = is_run ? message->runs : message->outcomes;
    memcpy(entries, list + (size_t)entry * (is_run ? i : i - header.n_runs), entry);
  }
  return head + most * entry;
}

static int reason_is_valid(df_view_item item, uint32_t n_ranks) {
  uint32_t proof = df_view_evidence(item) & ~(uint32_t)DF_EVIDENCE_LEFT;
  return df_view_evidence(item) != DF_EVIDENCE_NONE && proof <= DF_EVIDENCE_BYE &&
         df_view_accuser(item) < n_ranks;
}

static const char *check_ranks(const void *items, uint32_t n, uint32_t n_ranks, int with_reasons) {
  uint32_t next = 0;
  for (uint32_t i = 0; i < n; i++) {
    df_view_item item = df_view_item_at(items, i);
    if (item.rank >= n_ranks) return "it names an unknown rank";
    if (item.rank < next) return "its ranks are not in ascending order";
    if (with_reasons && !reason_is_valid(item, n_ranks)) return "it has invalid evidence";
    next = item.rank + 1u;
  }
  return NULL;
}

/* Keys ascend within the runs and within the outcomes. */
static const char *check_entries(const df_view_message *message) {
  const df_view_header *header = &message->header;
  df_view_outcome before = {0};
  for (uint32_t i = 0; i < header->count; i++) {
    df_view_runs runs = df_view_runs_at(message, i);
    df_view_outcome key = {.collective = runs.collective, .registration = runs.registration};
    if (i > 0 && header->first + i != header->n_runs &&
        (key.collective < before.collective ||
         (key.collective == before.collective && key.registration <= before.registration)))
      return "its collectives are not in ascending order";
    before = key;
    if (header->first + i < header->n_runs) {
      if (runs.done != DF_VIEW_TAKEN_BACK && runs.done > runs.submitted)
        return "it has more runs with data than submitted ones";
      if (runs.survivors < 1) return "it has runs of a group without survivors";
    } else {
      df_view_outcome outcome = df_view_outcome_at(message, i);
      if (outcome.base > outcome.fails_below || outcome.reserved)
        return "it has an outcome that contradicts itself";
    }
  }
  return NULL;
}

static int ballot_is_valid(const df_view_ballot *ballot, uint32_t n_ranks) {
  if (ballot->reserved) return 0;
  if (!df_view_ballot_is_set(ballot)) return ballot->attempt == 0;
  return ballot->rank < n_ranks && ballot->attempt <= 2u * (uint64_t)n_ranks;
}

/* Whether the message has exactly the lists and ballots of its type. */
static int has_form(const df_view_header *header) {
  const int has_ballot = df_view_ballot_is_set(&header->ballot);
  const int has_accepted = df_view_ballot_is_set(&header->accepted);
  const uint32_t content = (uint32_t)header->n_members + header->n_lost + header->n_outcomes;
  const uint32_t decided = header->flags & (DF_VIEW_ADMITTED | DF_VIEW_CANCELLED);
  const uint32_t asked = header->flags & (DF_VIEW_ADMITS | DF_VIEW_NEWCOMER_GONE);
  if (decided == (DF_VIEW_ADMITTED | DF_VIEW_CANCELLED)) return 0;
  switch ((df_view_message_type)header->type) {
  case DF_VIEW_SUSPECT:
  case DF_VIEW_NOTICE:
    return header->n_suspects >= 1 &&
           (header->type == DF_VIEW_SUSPECT || header->n_suspects == 1) && !content &&
           !header->n_runs && !has_ballot && !has_accepted && !header->flags;
  case DF_VIEW_STATE:
    return has_ballot && (has_accepted || (!content && !decided)) &&
           (asked ? (asked & DF_VIEW_ADMITS) && !header->n_suspects && !header->n_runs
                  : header->n_suspects >= 1);
  case DF_VIEW_PROPOSAL:
  case DF_VIEW_INSTALL:
    return has_ballot && !has_accepted && !header->n_suspects && !header->n_runs && !asked;
  case DF_VIEW_ACCEPT:
    return has_ballot && !has_accepted && !header->n_suspects && !content && !header->n_runs &&
           !header->flags;
  default:
    return 0;
  }
}

const char *df_view_message_read(const void *bytes, size_t length, uint32_t n_ranks,
                                 df_view_message *message) {
  df_view_header *header = &message->header;
  memset(message, 0, sizeof *message);
  if (length < sizeof *header || length > DF_VIEW_MESSAGE_BYTES) return "its length is invalid";
  memcpy(header, bytes, sizeof *header);
  if (header->flags & ~DF_VIEW_FLAGS || header->reserved || header->view == 0 ||
      header->newcomer.rank >= n_ranks || !ballot_is_valid(&header->ballot, n_ranks) ||
      !ballot_is_valid(&header->accepted, n_ranks) || !has_form(header))
    return "its header is invalid";
  const uint64_t all = (uint64_t)header->n_runs + header->n_outcomes;
  if (all > UINT32_MAX || (uint64_t)header->first + header->count > all)
    return "its part is outside of its list";
  if (header->count == 0 && all > 0) return "its part is empty";
  const uint64_t head = sizeof *header + list_bytes(header);
  if (length != head + (uint64_t)header->count * sizeof(df_view_runs))
    return "its length differs from its lists";
  const uint8_t *at = (const uint8_t *)bytes + sizeof *header;
  message->suspects = at;
  message->members = at += header->n_suspects * sizeof(df_view_item);
  message->lost = at + header->n_members * sizeof(df_view_item);
  message->entries = (const uint8_t *)bytes + head;
  const char *why = check_ranks(message->suspects, header->n_suspects, n_ranks, 1);
  if (!why) why = check_ranks(message->members, header->n_members, n_ranks, 0);
  if (!why) why = check_ranks(message->lost, header->n_lost, n_ranks, 1);
  return why ? why : check_entries(message);
}
