/*
 * Plans of uneven pieces, from lists of who sends how much to whom. Such a plan is one collective's
 * own: it has offsets and lengths, and a message for each chunk. So only the two ends of a link
 * must know how much goes through it.
 */
#ifndef DF_PLANS_ALGORITHMS_PIECE_TABLES_H
#define DF_PLANS_ALGORITHMS_PIECE_TABLES_H

#include "plans/plan.h"

typedef struct df_list_item {
  uint32_t peer;      /* position; a member has at most one item in each list */
  uint64_t at, count; /* in the buffer; elements */
} df_list_item;

typedef struct df_lists {
  const df_list_item *sends, *receives;
  uint32_t n_sends, n_receives;
} df_lists;

/* Messages and copies of a run. Ends of a link agree on a chunk, the most elements of a message. */
uint64_t df_lists_steps(const df_lists *lists, uint32_t chunk);
/* More do not fit a plan. */
#define DF_LISTS_MOST_STEPS 65535u

/*
 * The caller frees it. NULL: out of memory. A reducing operation receives the same elements from
 * all others, and combines them with what it would send to itself.
 */
df_plan *df_plan_make_piece_table(const df_plan_key *key, const df_lists *lists, uint32_t chunk);

#endif
