#include "host/membership/admit_counts.h"

#include <stdlib.h>
#include <string.h>

#include "control/messenger.h"
#include "control/service.h"
#include "host/state/registry.h"
#include "host/state/survival.h"

/* A failed collective refuses runs, on some members earlier than on others. */
static int is_counted(const df_admit_counts *counts, const df_coll *coll) DF_RANK_LOCKED {
  return coll && coll->survival && coll->failure.failed == dfcclSuccess &&
         coll->survival->counted_in == 1 + counts->round;
}

static void send_entries(df_admit_counts *counts, const df_run_count *entries, uint32_t first,
                         uint32_t n, int is_last) DF_RANK_LOCKED {
  dfcclContext_t context = counts->context;
  const df_message message = {.kind = DF_MESSAGE_ADMIT_COUNTS,
                              .payload_bytes = n * (uint32_t)sizeof *entries,
                              .id = counts->round,
                              .a = first,
                              .b = (uint64_t)is_last};
  for (uint32_t rank = 0; rank < context->n_ranks; rank++)
    if (rank != context->rank && df_is_member(context->survival, rank))
      df_messenger_send(&context->control, rank, &message, entries, -1);
}

static void send_counts(df_admit_counts *counts) DF_RANK_LOCKED {
  enum { MOST = 100 };
  const dfcclContext_t context = counts->context;
  df_run_count entries[MOST];
  uint32_t first = 0, n = 0;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = df_registered(context, i);
    if (!is_counted(counts, coll)) continue;
    if (n == MOST) {
      send_entries(counts, entries, first, n, 0);
      first += n;
      n = 0;
    }
    entries[n++] = (df_run_count){.collective = coll->id,
                                  .runs = coll->survival->before_admit,
                                  .registration = coll->survival->registration};
  }
  send_entries(counts, entries, first, n, 1);
}

void df_admit_counts_begin(df_admit_counts *counts) {
  const dfcclContext_t context = counts->context;
  counts->is_open = 1;
  memset(counts->compared, 0, context->n_ranks * sizeof *counts->compared);
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = df_registered(context, i);
    if (coll == NULL || coll->survival == NULL) continue;
    coll->survival->before_admit = coll->runs.submitted;
    coll->survival->counted_in = 1 + counts->round;
  }
  send_counts(counts);
}

int df_admit_counts_have_ended(const df_admit_counts *counts) {
  const dfcclContext_t context = counts->context;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = df_registered(context, i);
    if (coll && coll->survival && coll->survival->counted_in == 1 + counts->round &&
        coll->runs.taken < coll->survival->before_admit)
      return 0;
  }
  return 1;
}

uint32_t df_admit_counts_missing(const df_admit_counts *counts) {
  const dfcclContext_t context = counts->context;
  for (uint32_t rank = 0; rank < context->n_ranks; rank++)
    if (rank != context->rank && df_is_member(context->survival, rank) &&
        counts->compared[rank] != DF_COUNTS_COMPARED)
      return rank;
  return DF_NOBODY;
}

const df_count_difference *df_admit_counts_difference(const df_admit_counts *counts) {
  return counts->has_difference && counts->difference_round == counts->round ? &counts->difference
                                                                             : NULL;
}

static void keep(df_admit_counts *counts, uint64_t round, const df_count_difference *difference) {
  if (round < counts->round || (counts->has_difference && counts->difference_round >= round))
    return;
  counts->has_difference = 1;
  counts->difference_round = round;
  counts->difference = *difference;
}

static void differ(df_admit_counts *counts, const df_coll *coll, uint32_t peer,
                   uint64_t runs_of_peer) DF_RANK_LOCKED {
  dfcclContext_t context = counts->context;
  const int own = context->rank > peer; /* place of this rank */
  const df_message message = {.kind = DF_MESSAGE_ADMIT_DIFFERS,
                              .payload_bytes = sizeof(df_count_difference),
                              .id = counts->round};
  df_count_difference difference = {.collective = coll->id};
  difference.ranks[own] = context->rank;
  difference.runs[own] = coll->survival->before_admit;
  difference.ranks[!own] = peer;
  difference.runs[!own] = runs_of_peer;
  if (df_admit_counts_difference(counts)) return; /* all members have one already */
  keep(counts, counts->round, &difference);
  for (uint32_t rank = 0; rank < context->n_ranks; rank++)
    if (rank != context->rank && df_is_member(context->survival, rank))
      df_messenger_send(&context->control, rank, &message, &difference, -1);
}

static int may_tell(const df_admit_counts *counts, uint32_t from) DF_RANK_LOCKED {
  const dfcclContext_t context = counts->context;
  return !context->control.said_goodbye && context->failure.broken == dfcclSuccess &&
         df_is_member(context->survival, from);
}

/* Whether this rank is in the same admit as the sender of the message. */
static int is_in_round(const df_admit_counts *counts, uint32_t from,
                       const df_message *message) DF_RANK_LOCKED {
  return may_tell(counts, from) && counts->is_open && message->id == counts->round;
}

static void handle_counts(void *room, uint32_t from, const df_message *message,
                          int fd) DF_RANK_LOCKED {
  df_admit_counts *counts = room;
  dfcclContext_t context = counts->context;
  const uint8_t *payload = df_message_payload(message);
  const uint32_t n = message->payload_bytes / (uint32_t)sizeof(df_run_count);
  (void)fd;
  /* A rank that calls in the middle of the parts compares none of them: its own are answered. */
  if (!is_in_round(counts, from, message) || counts->compared[from] == DF_COUNTS_COMPARED ||
      counts->compared[from] != message->a)
    return;
  for (uint32_t i = 0; i < n; i++) {
    df_run_count entry;
    memcpy(&entry, payload + i * sizeof entry, sizeof entry);
    const df_coll *coll = df_find(context, entry.collective);
    if (!is_counted(counts, coll) || coll->survival->registration != entry.registration ||
        coll->survival->before_admit == entry.runs)
      continue;
    differ(counts, coll, from, entry.runs);
    return;
  }
  counts->compared[from] += n;
  if (message->b == 0) return;
  const df_message answer = {.kind = DF_MESSAGE_ADMIT_COMPARED, .id = counts->round};
  counts->compared[from] = DF_COUNTS_COMPARED;
  df_messenger_send(&context->control, from, &answer, NULL, -1);
}

static void handle_compared(void *room, uint32_t from, const df_message *message,
                            int fd) DF_RANK_LOCKED {
  df_admit_counts *counts = room;
  (void)fd;
  if (is_in_round(counts, from, message)) counts->compared[from] = DF_COUNTS_COMPARED;
}

/* The difference may concern an admit that this rank has not called yet. */
static void handle_difference(void *room, uint32_t from, const df_message *message,
                              int fd) DF_RANK_LOCKED {
  df_admit_counts *counts = room;
  dfcclContext_t context = counts->context;
  df_count_difference difference;
  (void)fd;
  if (!may_tell(counts, from)) return;
  memcpy(&difference, df_message_payload(message), sizeof difference);
  /* Nobody can be more than one view ahead of this rank. */
  if (message->id > context->survival->view + 1 || difference.ranks[0] >= difference.ranks[1] ||
      difference.ranks[1] >= context->n_ranks || difference.runs[0] == difference.runs[1])
    context->control.events.refused(context->control.events.owner, from);
  else
    keep(counts, message->id, &difference);
}

int df_admit_counts_open(dfcclContext_t context, df_admit_counts *counts) {
  df_control *control = &context->control;
  counts->context = context;
  counts->compared = calloc(context->n_ranks, sizeof *counts->compared);
  if (counts->compared == NULL) return 0;
  df_messenger_subscribe(control, DF_MESSAGE_ADMIT_COUNTS, handle_counts, counts, 0);
  df_messenger_subscribe(control, DF_MESSAGE_ADMIT_COMPARED, handle_compared, counts, 0);
  df_messenger_subscribe(control, DF_MESSAGE_ADMIT_DIFFERS, handle_difference, counts, 0);
  return 1;
}

void df_admit_counts_close(df_admit_counts *counts) { free(counts->compared); }
