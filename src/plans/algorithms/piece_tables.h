/*
 * Plans of pieces of unequal lengths, from lists of the elements that each member sends and
 * receives. Such a plan belongs to one collective: it contains offsets and lengths, and a message
 * for each chunk. So only the two ends of a link must have the same counts.
 */
#ifndef DF_PLANS_ALGORITHMS_PIECE_TABLES_H
#define DF_PLANS_ALGORITHMS_PIECE_TABLES_H

#include "plans/plan.h"

typedef struct df_list_item {
  uint32_t peer;      /* position of the peer, which occurs at most once in each list */
  uint64_t at, count; /* offset in the buffer, and number of elements */
} df_list_item;

typedef struct df_lists {
  const df_list_item *sends, *receives;
  uint32_t n_sends, n_receives;
} df_lists;

/* Number of messages and copies of a run. The ends of a link use the same chunk, the largest number
 * of elements of a message. */
uint64_t df_lists_steps(const df_lists *lists, uint32_t chunk);
/* The largest number of steps that fits a plan. */
#define DF_LISTS_MOST_STEPS 65535u

/*
 * The caller frees the plan. NULL: out of memory. A reducing operation receives the same elements
 * from all others, and combines them with the elements that its own list sends to itself.
 */
df_plan *df_plan_make_piece_table(const df_plan_key *key, const df_lists *lists, uint32_t chunk);

#endif
