/*
 * Functions for builders of plans. A *place* is a piece of a buffer. Each function appends one
 * primitive; `piece` determines its length. If `to` is DF_NO_PEER, nothing is sent.
 */
#ifndef DF_PLANS_BUILD_H
#define DF_PLANS_BUILD_H

#include "plans/plan.h"

typedef struct df_place {
  df_buffer buffer;
  uint32_t piece;
} df_place;

static inline df_place df_nowhere(void) { return (df_place){DF_BUFFER_NONE, 0}; }
static inline df_place df_input(uint32_t piece) { return (df_place){DF_BUFFER_INPUT, piece}; }
static inline df_place df_output(uint32_t piece) { return (df_place){DF_BUFFER_OUTPUT, piece}; }
static inline df_place df_scratch(uint32_t piece) { return (df_place){DF_BUFFER_SCRATCH, piece}; }

static inline uint32_t df_plan_average(const df_plan *plan) {
  return plan->key.average ? DF_PRIM_AVERAGE : 0;
}

static inline void df_plan_send(df_plan *plan, uint32_t piece, uint32_t to, df_place from) {
  df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_SEND,
                                   .piece = piece,
                                   .send_to = to,
                                   .source = from.buffer,
                                   .source_piece = from.piece});
}

static inline void df_plan_copy(df_plan *plan, uint32_t flags, uint32_t piece, uint32_t to,
                                df_place from, df_place into) {
  df_plan_add(plan,
              (df_step_spec){.flags = flags | DF_PRIM_STORE | (to == DF_NO_PEER ? 0 : DF_PRIM_SEND),
                             .piece = piece,
                             .send_to = to,
                             .source = from.buffer,
                             .source_piece = from.piece,
                             .destination = into.buffer,
                             .destination_piece = into.piece});
}

static inline void df_plan_receive(df_plan *plan, uint32_t piece, uint32_t from, uint32_t to,
                                   df_place into) {
  df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_RECV | DF_PRIM_STORE |
                                            (to == DF_NO_PEER ? 0 : DF_PRIM_SEND),
                                   .piece = piece,
                                   .recv_from = from,
                                   .send_to = to,
                                   .destination = into.buffer,
                                   .destination_piece = into.piece});
}

/* Gives the message of the latest primitive this number of pieces, `stride` apart. */
static inline void df_plan_widen(df_plan *plan, uint32_t pieces, uint32_t stride) {
  if (plan->failed) return;
  plan->primitives[plan->n_primitives - 1].pieces = (uint16_t)pieces;
  plan->primitives[plan->n_primitives - 1].stride = (uint16_t)stride;
}

/* Returns 1 if all pieces that go the same way are one message. */
static inline int df_plan_is_whole(const df_plan *plan) {
  return plan->key.cuts.row == DF_ROW_WHOLE;
}
/* Number of pieces of a message of at most `left` pieces. */
static inline uint32_t df_plan_row(const df_plan *plan, uint32_t left) {
  return DF_MIN(DF_MAX(plan->key.cuts.row, 1u), left);
}
/* Number of pieces of a member's share. */
static inline uint32_t df_plan_share(const df_plan *plan) {
  return DF_MAX(plan->key.cuts.share, 1u);
}
/* The largest number of pieces of a message, if the plan has up to `most` for the same peer. */
static inline void df_plan_set_longest(df_plan *plan, uint32_t most) {
  plan->longest = DF_MAX(plan->longest, df_plan_row(plan, most));
}

/* A message without data: its arrival is the information. */
static inline void df_plan_receive_empty(df_plan *plan, uint32_t from) {
  df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_RECV, .recv_from = from});
}

/*
 * If `into` is nowhere, the result is not stored. flags: DF_PRIM_SOURCE_FIRST, DF_PRIM_AVERAGE. A
 * message from the output may lend it, so nothing may overwrite it before its reader has finished.
 */
static inline void df_plan_reduce(df_plan *plan, uint32_t flags, uint32_t piece, uint32_t from,
                                  uint32_t to, df_place with, df_place into) {
  uint32_t store = into.buffer == DF_BUFFER_NONE ? 0 : DF_PRIM_STORE;
  df_plan_add(plan, (df_step_spec){.flags = flags | DF_PRIM_RECV | DF_PRIM_REDUCE | store |
                                            (to == DF_NO_PEER ? 0 : DF_PRIM_SEND),
                                   .piece = piece,
                                   .recv_from = from,
                                   .send_to = to,
                                   .source = with.buffer,
                                   .source_piece = with.piece,
                                   .destination = into.buffer,
                                   .destination_piece = into.piece});
}

/* The order of the operands: those of members before `r` come first. */
static inline uint32_t df_plan_order(uint32_t r, uint32_t from) {
  return r < from ? DF_PRIM_SOURCE_FIRST : 0;
}

/*
 * Folding onto a power of two (Rabenseifner, ICCS 2004, section 3). The first 2 * extra members
 * form pairs. Each even one, a *folded* member, leaves its work to the next member, its *host*. The
 * other members are numbered in order. Each of them represents a contiguous range of members.
 */
typedef struct df_fold {
  uint32_t size, extra;
} df_fold;

static inline df_fold df_fold_of(uint32_t n) {
  df_fold fold = {1, 0};
  while (fold.size * 2 <= n) fold.size *= 2;
  fold.extra = n - fold.size;
  return fold;
}
static inline int df_fold_is_folded(df_fold fold, uint32_t member) {
  return member < 2 * fold.extra && member % 2 == 0;
}
static inline int df_fold_is_host(df_fold fold, uint32_t member) {
  return member < 2 * fold.extra && member % 2 == 1;
}
static inline uint32_t df_fold_index(df_fold fold, uint32_t member) {
  return member < 2 * fold.extra ? member / 2 : member - fold.extra;
}
static inline uint32_t df_fold_member(df_fold fold, uint32_t index) {
  return index < fold.extra ? 2 * index + 1 : index + fold.extra;
}
/* The members that `index` represents: first to first + count - 1. */
static inline uint32_t df_fold_first(df_fold fold, uint32_t index) {
  return index < fold.extra ? 2 * index : index + fold.extra;
}
static inline uint32_t df_fold_count(df_fold fold, uint32_t index) {
  return index < fold.extra ? 2 : 1;
}

/* The members that the aligned block of d indices around `index` represents. */
typedef struct df_fold_members {
  uint32_t first, n;
} df_fold_members;
static inline df_fold_members df_fold_range(df_fold fold, uint32_t index, uint32_t d) {
  const uint32_t first = df_fold_first(fold, index & ~(d - 1)), last = (index & ~(d - 1)) + d - 1;
  return (df_fold_members){first, df_fold_first(fold, last) + df_fold_count(fold, last) - first};
}

/* n members, of which `me` is this rank. Member i has position stride * i, or positions[i]. */
typedef struct df_among {
  uint32_t n, me, stride;
  const uint32_t *positions; /* or NULL */
} df_among;

/* doubling.c: all-reduce of one piece. This rank contributes `start` (input or scratch); the result
 * is in the output. A scratch piece of the same number is needed. */
void df_plan_doubling_among(df_plan *plan, df_among among, uint32_t piece, df_place start);

/* scan.c */
void df_plan_scan_chain(df_plan *plan);
void df_plan_scan_doubling(df_plan *plan);

#endif
