/* Context cache of one block: direct-mapped slots near the executor. An evicted context is written
 * back only if it has progressed. */
#ifndef DF_CONTEXT_CONTEXT_CACHE_H
#define DF_CONTEXT_CONTEXT_CACHE_H

#include "base/assert.h"
#include "base/atomic.h"
#include "base/limits.h"
#include "context/cursor.h"

#define DF_NO_COLLECTIVE UINT32_MAX

typedef struct df_context_slot {
  df_cursor cursor;
  uint32_t collective;
  uint32_t dirty;
} df_context_slot;

typedef struct df_context_cache {
  df_context_slot *slots;
  uint32_t mask;
  df_cursor *memory; /* [DF_MAX_COLLECTIVES] the contexts when they are not in a slot */
  uint64_t saves, loads;
} df_context_cache;

/* n_slots must be a power of two. */
DF_CORE void df_context_cache_attach(df_context_cache *cache, df_context_slot *slots,
                                     uint32_t n_slots) {
  cache->slots = slots;
  cache->mask = n_slots - 1;
  for (uint32_t i = 0; i < n_slots; i++) {
    slots[i].collective = DF_NO_COLLECTIVE;
    slots[i].dirty = 0;
  }
}

static inline void df_context_cache_init(df_context_cache *cache, df_context_slot *slots,
                                         uint32_t n_slots, df_cursor *memory) {
  df_context_cache_attach(cache, slots, n_slots);
  cache->memory = memory;
  cache->saves = cache->loads = 0;
}

DF_CORE void df_context_save(df_context_cache *cache, df_context_slot *slot) {
  if (!slot->dirty) return;
  cache->memory[slot->collective] = slot->cursor;
  slot->dirty = 0;
  df_count(&cache->saves, 1);
}

DF_CORE df_context_slot *df_context_slot_of(const df_context_cache *cache, uint32_t collective) {
  DF_ASSERT(collective < DF_MAX_COLLECTIVES);
  return &cache->slots[collective & cache->mask];
}

DF_CORE void df_context_fill(df_context_cache *cache, df_context_slot *slot, uint32_t collective) {
  DF_ASSERT(!slot->dirty);
  slot->cursor = cache->memory[collective];
  slot->collective = collective;
  df_count(&cache->loads, 1);
}

/* The result is valid until another collective is loaded. */
DF_CORE df_context_slot *df_context_load(df_context_cache *cache, uint32_t collective) {
  df_context_slot *slot = df_context_slot_of(cache, collective);
  if (slot->collective == collective) return slot;
  df_context_save(cache, slot);
  df_context_fill(cache, slot, collective);
  return slot;
}

DF_CORE void df_context_flush(df_context_cache *cache) {
  for (uint32_t i = 0; i <= cache->mask; i++) df_context_save(cache, &cache->slots[i]);
}

#endif
