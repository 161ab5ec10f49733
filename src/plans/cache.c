#include "plans/cache.h"

#include <stdlib.h>

static int same_key(const df_plan_key *a, const df_plan_key *b) {
  return a->operation == b->operation && a->algorithm == b->algorithm && a->n == b->n &&
         a->position == b->position && a->root == b->root && a->split == b->split &&
         a->average == b->average && a->agrees == b->agrees && a->settles == b->settles &&
         a->cuts.row == b->cuts.row && a->cuts.share == b->cuts.share && a->file == b->file &&
         a->trees == b->trees && df_levels_equal(a->levels, b->levels);
}

df_plan *df_plan_acquire(df_plan_cache *cache, const df_plan_key *key) {
  df_plan_entry *entry = cache->entries;
  while (entry && !same_key(&entry->plan->key, key)) entry = entry->next;
  if (entry == NULL) {
    entry = calloc(1, sizeof *entry);
    df_plan *plan = df_plan_make(key);
    if (entry == NULL || plan == NULL) {
      free(entry);
      df_plan_free(plan);
      return NULL;
    }
    entry->plan = plan;
    entry->next = cache->entries;
    cache->entries = entry;
  }
  entry->users++;
  return entry->plan;
}

void df_plan_release(df_plan_cache *cache, df_plan *plan) {
  /* Such a plan belongs to one collective. */
  if (df_operation_has_piece_table(plan->key.operation)) {
    df_plan_free(plan);
    return;
  }
  df_plan_entry **at = &cache->entries;
  while ((*at)->plan != plan) at = &(*at)->next;
  df_plan_entry *entry = *at;
  if (--entry->users > 0) return;
  *at = entry->next;
  df_plan_free(plan);
  free(entry);
}

uint64_t df_plan_cache_bytes(const df_plan_cache *cache) {
  uint64_t bytes = 0;
  for (const df_plan_entry *entry = cache->entries; entry; entry = entry->next)
    bytes += sizeof *entry + df_plan_bytes(entry->plan);
  return bytes;
}
