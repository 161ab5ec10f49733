/* A list of ranks as text: "rank 3", "ranks 0, 2-5 and 9". */
#ifndef DF_BOOTSTRAP_NET_RANK_LIST_H
#define DF_BOOTSTRAP_NET_RANK_LIST_H

#include <stddef.h>

enum { DF_RANK_LIST_BYTES = 160 };

/* Writes the ranks with chosen[r] != 0 and a terminating zero. If bytes are too few, the text ends
 * like this: "ranks 1, 3, 5 and 40 more". */
void df_rank_list(char *text, size_t bytes, const unsigned char *chosen, int n_ranks);

#endif
