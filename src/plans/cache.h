/* The plan cache: collectives with equal keys share one plan. The owner of the cache must hold its
 * lock during each call. */
#ifndef DF_PLANS_CACHE_H
#define DF_PLANS_CACHE_H

#include "plans/plan.h"

typedef struct df_plan_entry {
  struct df_plan_entry *next;
  df_plan *plan;
  uint32_t users;
} df_plan_entry;

typedef struct df_plan_cache {
  df_plan_entry *entries;
} df_plan_cache;

/* The plan belongs to the caller until df_plan_release. NULL: out of memory. */
df_plan *df_plan_acquire(df_plan_cache *cache, const df_plan_key *key);
uint64_t df_plan_cache_bytes(const df_plan_cache *cache);
void df_plan_release(df_plan_cache *cache, df_plan *plan);

#endif
