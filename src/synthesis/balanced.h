/* Trees of an all-reduce that make the ports and pairs of any network equally busy, as far as a
 * greedy choice can. Trees are shallow, so that the pipeline of pieces is soon full; the forest's
 * trees (synthesis/forest.h) meet the bound of the tightest cut, but may be deep. */
#ifndef DF_SYNTHESIS_BALANCED_H
#define DF_SYNTHESIS_BALANCED_H

#include "plans/trees.h"
#include "topology/network.h"

/* pieces: of all trees. dfcclInvalidArgument: ranks cannot reach each other; dfcclOutOfMemory. The
 * caller frees the trees in any case. */
dfcclResult_t df_balanced_make(df_trees *trees, const df_network *network, uint32_t pieces);

#endif
