/* The sparse engine: rare events first.
 *
 * A round's rare slots (field.h) are grown into blocks; only a block with a barrier strictly inside
 * can turn an order around. Only such blocks lead a circle back in the global order (layout.h,
 * keys). So a circle lies within blocks with overlapping intervals of that order: a cluster. The
 * worklist runs on each cluster's collectives alone. A round without such a block cannot deadlock.
 */
#ifndef DF_SIM_ENGINE_SPARSE_H
#define DF_SIM_ENGINE_SPARSE_H

#include "field.h"
#include "layout.h"

/* A block with a barrier inside: positions first .. last of gpu's order, emitted in another order.
 */
typedef struct {
  uint32_t gpu;
  uint32_t next_on_gpu; /* within a cluster: the GPU's next block + 1, or 0 */
  uint64_t first, last;
  uint64_t key_low, key_high;
} df_block;

typedef struct df_cluster_work df_cluster_work; /* engine_cluster.h */

typedef struct {
  const df_layout *layout;
  const df_field *field;
  df_rare_slots rare;
  df_block *block; /* blocks of the latest round, by key_low */
  size_t block_count, block_room;
  df_cluster_work *work;
} df_sparse;

/* layout and field must outlive the engine. */
dfcclResult_t df_sparse_create(df_sparse *sparse, const df_layout *layout, const df_field *field);
dfcclResult_t df_sparse_round(df_sparse *sparse, uint64_t round, bool *deadlock);
void df_sparse_destroy(df_sparse *sparse);

/* Finds the blocks of a round; for explanations. */
dfcclResult_t df_sparse_find_blocks(df_sparse *sparse, uint64_t round);

#endif
