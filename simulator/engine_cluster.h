/* Cluster: the worklist on the collectives between two keys, for the sparse engine. */
#ifndef DF_SIM_ENGINE_CLUSTER_H
#define DF_SIM_ENGINE_CLUSTER_H

#include "engine_sparse.h"

typedef struct {
  df_block *block; /* ascending by key_low; next_on_gpu is scratch */
  size_t block_count;
  uint64_t key_low, key_high;
} df_cluster;

dfcclResult_t df_cluster_work_create(df_cluster_work **work, const df_layout *layout,
                                     const df_field *field);
void df_cluster_work_destroy(df_cluster_work *work);

/* True if the cluster's part of a round deadlocks. */
dfcclResult_t df_cluster_deadlocks(df_cluster_work *work, uint64_t round, const df_rare_slots *rare,
                                   const df_cluster *cluster, bool *deadlock);

#endif
