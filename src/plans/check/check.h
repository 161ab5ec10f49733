/*
 * Symbolic execution of the plans of all ranks of a group. A piece of a buffer is not bytes: it
 * says which element it is, who contributed, and in which order the contributions were combined.
 * df_plan_check proves for a group, or names the first primitive that is wrong:
 *   - each element of each result has each contribution exactly once, and dfcclAvg divides it once;
 *   - if inputs are scaled, each contribution is multiplied exactly once, also where an output
 *     overwrites an input in place;
 *   - all ranks combine an element in the same order; a scan's is the group's;
 *   - a primitive reads only what was written before, and touches only the plan's pieces;
 *   - messages are received in the order, with the numbers, and with the lengths they are sent
 *     with;
 *   - a lent place is written only after its reader is done, at any speed of the ranks: program
 *     order, messages and credits alone make the read *happen before* the write;
 *   - ranks never wait for each other in a circle, with this number of slots in each link;
 *   - varying, and a barrier: each rank ends only after messages have come to it, directly or by way of others,
 *     from all ranks. Each such message was sent after its sender had compared counts.
 *
 * Plans are deterministic, and ranks talk through links only. So one execution stands for all: each
 * has the same messages, the same waits and the same order of events.
 */
#ifndef DF_PLANS_CHECK_CHECK_H
#define DF_PLANS_CHECK_CHECK_H

#include "plans/plan.h"

enum { DF_PLAN_CHECK_MAX_RANKS = 64 };

typedef enum { DF_LENDS_NOTHING, DF_LENDS_ALL, DF_LENDS_SOME } df_plan_lending;

/* What it has found. Of a wrong plan: where. */
typedef struct df_plan_check_findings {
  int ordered;   /* results are combined in the group's order */
  int same_bits; /* ... and in one order on all ranks */
  uint32_t rank, primitive;
  int is_result; /* each primitive is right by itself */
} df_plan_check_findings;

typedef struct df_plan_check_options {
  uint32_t slots, loops;
  uint32_t last_pieces; /* PARTITION: pieces that are not empty in the last loop; 0: all */
  int in_place;
  int ordered;                      /* results must be combined in the group's order */
  int any_order;                    /* ranks may combine in different orders */
  int varying;                      /* the first loop's counts travel (df_brings_count) */
  int scales;                       /* inputs are multiplied where a primitive reads them */
  df_plan_lending lending;          /* of the messages that may lend their buffer */
  uint64_t seed;                    /* DF_LENDS_SOME: draws the messages that lend */
  df_plan_check_findings *findings; /* or NULL */
} df_plan_check_options;

/*
 * plans[position]: a plan for each position of one group. dfcclSuccess: proven.
 * dfcclInvalidArgument: a plan is wrong, or the group has more than DF_PLAN_CHECK_MAX_RANKS.
 * dfcclOutOfMemory: nothing is known. In both cases `sentence`, of `bytes` bytes, says what.
 */
dfcclResult_t df_plan_check(df_plan *const *plans, const df_plan_check_options *options,
                            char *sentence, size_t bytes);

#endif
