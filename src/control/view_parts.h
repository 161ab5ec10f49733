/* Declarations that the files of the agreement share: view.c (views, reading), view_evidence.c
 * (suspicions), view_agree.c (messages of the agreement), view_content.c (contents of views). */
#ifndef DF_CONTROL_VIEW_PARTS_H
#define DF_CONTROL_VIEW_PARTS_H

#include "control/view.h"

/* ---- view.c */
static inline int df_view_has_ended(const df_view *view) {
  return view->phase == DF_VIEW_STOPPED || view->phase == DF_VIEW_LEFT;
}
void df_view_end(df_view *view, df_view_phase phase);
void df_view_end_left(df_view *view, uint64_t number);
static inline int df_view_votes(const df_view *view, uint32_t rank) {
  return view->peers[rank].member && !view->peers[rank].suspected;
}
uint32_t df_view_coordinator(const df_view *view);
uint64_t df_view_attempt(const df_view *view);
/* with_held: those whose suspicion is held back count as lost. */
int df_view_is_quorum(const df_view *view, int with_held);
/* Ends the machine because the rest is no quorum. from: the rank whose message or end was the
 * reason, or DF_NOBODY. */
void df_view_stop_without_quorum(df_view *view, uint32_t from, const char *event);
void df_view_stop_for_collectives(df_view *view);
/* from: the sender of INSTALL; the own rank: this rank is the coordinator. */
void df_view_install(df_view *view, df_view_content *content, uint32_t from);
void df_view_send(df_view *view, uint32_t to, const df_view_message *message);
/* Sends INSTALL of the current view, once. */
void df_view_catch_up(df_view *view, uint32_t to);

/* ---- view_evidence.c */
/* Lists suspects and leaving ranks. items: room for all ranks. Returns their number. */
uint16_t df_view_list_suspects(const df_view *view, df_view_item *items);
void df_view_add_suspects(df_view *view, const df_view_item *items, uint32_t n);
/* Adds the suspects of a message. */
void df_view_merge(df_view *view, const df_view_message *message);
/* The suspects or the view have changed: sends SUSPECT to all, and asks for a report. */
void df_view_begin_attempt(df_view *view);
void df_view_send_notice(df_view *view, uint32_t to, uint32_t evidence, uint32_t accuser);
void df_view_cut(df_view *view, uint32_t rank, uint32_t evidence, uint32_t accuser);
void df_view_take_notice(df_view *view, uint32_t from, uint32_t evidence, uint64_t number);
/* The sender of a malformed message counts as silent. */
void df_view_refuse(df_view *view, uint32_t from, const char *why);

/* ---- view_agree.c */
void df_view_send_state(df_view *view);
void df_view_forget_states(df_view *view);
void df_view_reset_agreement(df_view *view);
void df_view_consider(df_view *view);
void df_view_take_state(df_view *view, uint32_t from, const df_view_message *message);
void df_view_take_proposal(df_view *view, uint32_t from, const df_view_message *message);
void df_view_take_accept(df_view *view, uint32_t from, const df_view_message *message);
void df_view_take_install(df_view *view, uint32_t from, const df_view_message *message);

/* ---- view_content.c */
static inline int df_view_content_is_set(const df_view_content *content) {
  return df_view_ballot_is_set(&content->ballot);
}
static inline int df_view_content_is_whole(const df_view_content *content) {
  return df_view_content_is_set(content) && content->have == content->n_outcomes;
}
void df_view_content_clear(df_view_content *content);
void df_view_content_swap(df_view_content *a, df_view_content *b);
/* A message of this type with the content. */
df_view_message df_view_content_message(const df_view_content *content, df_view_message_type type);
/* The first part begins the content anew; a later one adds its outcomes. Returns NULL or the reason
 * why the part contradicts the earlier ones. */
const char *df_view_content_add(df_view_content *content, const df_view_message *message,
                                uint64_t number, const df_view_ballot *ballot);
/* Whether the part belongs to this content. The ballot may differ. */
int df_view_content_has(const df_view_content *content, const df_view_message *message);
/* Returns NULL, or the reason why the part is no next view of this member. */
const char *df_view_content_check(const df_view *view, const df_view_message *message);
/* The content that the STATEs lead to, if no member has accepted one. */
void df_view_content_make(df_view *view, df_view_content *content);

#endif
