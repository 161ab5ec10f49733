/* How many pieces a message has, and how many pieces a member's share has. */
#ifndef DF_PLANS_CUTS_H
#define DF_PLANS_CUTS_H

#include <stdint.h>

#include "plans/operation.h"

/* The whole collective fits one slot: all pieces that go the same way are one message. */
#define DF_ROW_WHOLE 0xffffu

/* Members compare both. 0 counts as 1. */
typedef struct df_cuts {
  uint32_t row;   /* most pieces of a message: a power of two, or DF_ROW_WHOLE */
  uint32_t share; /* pieces of each member's share of a buffer, for algorithms that halve: a power
                     of two. More than one: a share is longer than a slot */
} df_cuts;

typedef struct df_cut_question {
  df_operation operation;
  int algorithm; /* df_algorithm */
  uint32_t n;
  uint64_t bytes;      /* length of the larger buffer */
  uint32_t n_blocks;   /* blocks that divide it */
  uint64_t slot_bytes; /* most payload of a message */
  uint64_t lend_min;   /* messages of this length are lent one by one */
  int is_far;          /* 1: between hosts, where a message costs far more than its slot's lines */
} df_cut_question;

/*
 * Algorithms with log2(n) rounds have this latency only if a round's pieces are not sent and
 * awaited one by one. A short collective has one message a round. A longer one has messages as long
 * as a slot: rows of short pieces, or a long share in several pieces, of which the next is sent
 * before the one before has come (df_plan_row).
 */
df_cuts df_plan_cuts(const df_cut_question *question);

#endif
