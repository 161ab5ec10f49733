#include "view_stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "control/view_parts.h"

view_member view_members[RANKS];
view_note view_queue[QUEUE];
uint32_t view_first, view_last, view_sent_of_type[DF_VIEW_MESSAGES];
static uint8_t buffer[DF_VIEW_MESSAGE_BYTES];

static uint32_t rank_of(const void *owner) {
  return (uint32_t)((const view_member *)owner - view_members);
}

static void take_send(void *owner, uint32_t to, const void *payload, uint32_t bytes) {
  df_view_header header;
  memcpy(&header, payload, sizeof header);
  view_sent_of_type[header.type]++;
  CHECK(view_last < QUEUE && bytes <= ROOM, "%u bytes", bytes);
  view_queue[view_last] = (view_note){.from = rank_of(owner), .to = to, .bytes = bytes};
  memcpy(view_queue[view_last++].payload, payload, bytes);
}
static void take_cut(void *owner, uint32_t rank) { ((view_member *)owner)->cut |= 1u << rank; }
static void take_freeze(void *owner) { ((view_member *)owner)->freezes++; }
static void take_install(void *owner, const df_view_content *content) {
  ((view_member *)owner)->installed = content->number;
}
static void take_end(void *owner, int left, const char *sentence) {
  view_member *self = owner;
  self->ended = 1;
  self->left = left;
  snprintf(self->sentence, sizeof self->sentence, "%s", sentence);
}
static void take_refusal(void *owner, uint32_t from, const char *why) {
  view_member *self = owner;
  (void)from;
  self->refusals++;
  snprintf(self->why, sizeof self->why, "%s", why);
}
static const df_view_events events = {take_send,    take_cut, take_freeze,
                                      take_install, take_end, take_refusal};

void view_open_member(uint32_t rank, const df_view_config *base) {
  df_view_config config = *base;
  view_member *self = &view_members[rank];
  free(self->memory);
  memset(self, 0, sizeof *self);
  config.rank = rank;
  self->memory = malloc(df_view_memory(&config));
  CHECK(self->memory, "no memory");
  df_view_open(&self->view, &config, &events, self, self->memory, buffer);
}

const df_view_config view_plain = {
    .n_ranks = RANKS, .max_collectives = MOST, .grace_ns = 100, .on_one_host = 1, .reruns = 1};

/* Opens n view_members, in view 1. */
void view_begin(const df_view_config *config, uint32_t n) {
  df_view_item items[RANKS];
  view_first = view_last = 0;
  memset(view_sent_of_type, 0, sizeof view_sent_of_type);
  for (uint32_t rank = 0; rank < n; rank++) items[rank] = (df_view_item){(uint16_t)rank, 0};
  for (uint32_t rank = 0; rank < RANKS; rank++) {
    free(view_members[rank].memory);
    view_members[rank].memory = NULL;
  }
  for (uint32_t rank = 0; rank < n; rank++) {
    view_open_member(rank, config);
    df_view_start(&view_members[rank].view, 1, items, n);
  }
}

void view_deliver(uint32_t dead) {
  for (int again = 1; again;) {
    again = 0;
    for (; view_first < view_last; view_first++) {
      const view_note *n = &view_queue[view_first];
      view_member *to = &view_members[n->to];
      if (dead >> n->to & 1 || to->cut >> n->from & 1) continue;
      df_view_receive(&to->view, n->from, n->payload, n->bytes, 0);
      again = 1;
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
      view_member *self = &view_members[rank];
      if (dead >> rank & 1 || !self->memory || !df_view_awaits_report(&self->view)) continue;
      df_view_report(&self->view, self->runs, self->n_runs, 0);
      again = 1;
    }
  }
}

void view_dies(uint32_t rank, uint32_t n) {
  for (uint32_t other = 0; other < n; other++)
    if (other != rank && view_members[other].memory)
      df_view_disconnected(&view_members[other].view, rank, 1, 0);
}

static uint32_t mask_of(uint32_t rank) {
  uint32_t mask = 0;
  for (uint32_t other = 0; other < RANKS; other++)
    mask |= (uint32_t)view_members[rank].view.peers[other].member << other;
  return mask;
}

void view_check(uint32_t rank, uint64_t number, uint32_t mask) {
  const df_view *view = &view_members[rank].view;
  CHECK(view->phase == DF_VIEW_CURRENT && view->number == number && mask_of(rank) == mask,
        "rank %u is %s in view %d, view_members %#x", rank, df_view_phase_name(view->phase),
        (int)view->number, mask_of(rank));
}

void view_refuse(uint32_t to, uint32_t from, const df_view_message *message, const char *why) {
  uint8_t bytes[DF_VIEW_MESSAGE_BYTES];
  uint32_t count = 0;
  uint32_t length = df_view_message_write(message, message->header.first, 100, bytes, &count);
  const int before = view_members[to].refusals;
  df_view_receive(&view_members[to].view, from, bytes, length, 0);
  CHECK(view_members[to].refusals == before + 1, "it is not refused (%s)", why);
  CHECK(strstr(view_members[to].why, why), "refused as \"%s\", not \"%s\"", view_members[to].why,
        why);
  CHECK(view_members[to].view.peers[from].suspected == DF_EVIDENCE_SILENT, "its sender is trusted");
}
