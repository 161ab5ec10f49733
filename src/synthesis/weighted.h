/* Trees for hosts of one rank each below one switch, whose ports differ: closed forms. An all-
 * reduce has stars, whose weights make all ports equally busy: rank i, which is the root of the
 * share w of all pieces, carries 1 + (n - 2) w in each direction. Other operations have trees of
 * up to two hops: the root gives a piece to a member with a fast port, which serves the others. */
#ifndef DF_SYNTHESIS_WEIGHTED_H
#define DF_SYNTHESIS_WEIGHTED_H

#include "plans/trees.h"
#include "topology/network.h"

/* Whether the network is of this kind. */
int df_weighted_fits(const df_network *network);
/* pieces_most: of all trees; the number with the least time is taken. *seconds for each byte of a
 * rank's larger buffer. dfcclOutOfMemory. The caller frees the trees in any case. */
dfcclResult_t df_weighted_make(df_trees *trees, const df_network *network, df_operation operation,
                               uint32_t root, uint32_t pieces_most, double *seconds);

#endif
