/*
 * Symbolic execution of the plans of all ranks. A piece of a buffer is not bytes but what it stands
 * for: which element, whose contributions, combined in which order. Proves for a group, or names
 * the first primitive where it is not so:
 *   - every element of every result is made of each contribution exactly once (and divided once by
 *     dfcclAvg), and combined in the same order wherever it is computed;
 *   - nothing is read that was not written before; nothing outside of the plan's pieces;
 *   - messages are received in the order, with the numbers, and as long as they are sent;
 *   - no place that is lent is written before its reader is done, whatever the ranks' speeds: the
 *     read must *happen before* the write by program order, messages and credits alone;
 *   - ranks never wait for each other in a circle, with so many slots in each link.
 *
 * Plans are deterministic, and ranks talk through links only. So one execution stands for all: what
 * is received, who waits for whom and what happens before what is the same in each.
 */
#ifndef DF_TESTS_UNIT_PLAN_CHECK_H
#define DF_TESTS_UNIT_PLAN_CHECK_H

#include "plans/plan.h"

enum { PLAN_CHECK_MAX_RANKS = 64 };

typedef enum { PLAN_LENDS_NOTHING, PLAN_LENDS_ALL, PLAN_LENDS_SOME } plan_lending;

typedef struct plan_check_options {
  uint32_t slots, loops;
  uint32_t last_pieces; /* PARTITION: pieces that are not empty in the last loop; 0: all */
  int in_place;
  plan_lending lending; /* of the messages that may lend their buffer */
  uint64_t seed;        /* which ones do */
} plan_check_options;

/* plans[position]: of one group. 0: they are wrong; *sentence says how. */
int plan_check(df_plan *const *plans, const plan_check_options *options, char *sentence,
               size_t bytes);

#endif
