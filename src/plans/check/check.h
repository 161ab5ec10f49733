/*
 * Symbolic execution of the plans of all ranks of a group. The content of a piece is not bytes, but
 * a symbol: the element, the ranks that have contributed, and the order in which the contributions
 * were combined. df_plan_check proves the following for a group, or names the first primitive that
 * is wrong:
 *   - each element of each result has each contribution exactly once, and dfcclAvg divides it once;
 *   - if inputs are scaled, each contribution is multiplied exactly once, also where an output
 *     overwrites an input in place;
 *   - all ranks combine an element in the same order, and a scan combines in the order of the
 *     group;
 *   - a primitive reads only places that have been written, and accesses only the plan's pieces;
 *   - messages are received in the order, with the numbers and with the lengths with which they are
 *     sent;
 *   - a lent place is written only after its reader has finished, at any speed of the ranks:
 *     program order, messages and credits alone make the read *happen before* the write;
 *   - ranks never wait for each other in a circle, with this number of slots in each link;
 *   - in a varying run and a barrier, each rank ends only after it has received messages from all
 *     ranks, directly or through others. Each such message was sent after its sender had compared
 *     counts;
 *   - with a settling round, each rank ends only after it has heard from all ranks that they have
 *     their data.
 *
 * Plans are deterministic, and ranks communicate only through links. So one execution represents
 * all: each has the same messages, the same waits and the same order of events.
 */
#ifndef DF_PLANS_CHECK_CHECK_H
#define DF_PLANS_CHECK_CHECK_H

#include "plans/plan.h"

enum { DF_PLAN_CHECK_MAX_RANKS = 64 };

typedef enum { DF_LENDS_NOTHING, DF_LENDS_ALL, DF_LENDS_SOME } df_plan_lending;

/* The findings of the checker. For a wrong plan: the place of the fault. */
typedef struct df_plan_check_findings {
  int ordered;   /* results are combined in the group's order */
  int same_bits; /* all ranks combine in one order */
  uint32_t rank, primitive;
  int is_result; /* each primitive is correct by itself, but a result is wrong */
} df_plan_check_findings;

typedef struct df_plan_check_options {
  uint32_t slots, loops;
  uint32_t last_pieces; /* PARTITION: number of pieces that are not empty in the last loop;
                           0: all */
  int in_place;
  int ordered;                      /* results must be combined in the group's order */
  int any_order;                    /* ranks may combine in different orders */
  int varying;                      /* messages of the first loop contain counts
                                       (df_brings_count) */
  int scales;                       /* inputs are multiplied where a primitive reads them */
  df_plan_lending lending;          /* lending of the messages that may lend their buffer */
  uint64_t seed;                    /* DF_LENDS_SOME: seed for the choice of the messages
                                       that lend */
  df_plan_check_findings *findings; /* or NULL */
} df_plan_check_options;

/*
 * Checks plans[position], a plan for each position of one group. dfcclSuccess: the plans are
 * proven. dfcclInvalidArgument: a plan is wrong, or the group has more than DF_PLAN_CHECK_MAX_RANKS
 * members. dfcclOutOfMemory: the check was not completed. In the last two cases `sentence`, of
 * `bytes` bytes, gives the reason.
 */
dfcclResult_t df_plan_check(df_plan *const *plans, const df_plan_check_options *options,
                            char *sentence, size_t bytes);

#endif
