/*
 * Promises of src/context/context_cache.h:
 *   - A loaded context is the one that was last written, however often it was evicted.
 *   - A context is saved only if it has progressed since it was last saved, and loaded only if it
 *     is not in its slot (counted by saves and loads).
 *   - After a flush, all contexts are in memory.
 */
#include "context/context_cache.h"

#include <string.h>

#include "support/harness.h"

enum { CONTEXTS = 40 };

DF_TEST(context_cache, lazy_saving_and_eviction, 30) {
  df_context_slot slots[4];
  df_cursor memory[CONTEXTS] = {{0}};
  df_context_cache cache;
  df_context_cache_init(&cache, slots, 4, memory);
  df_context_slot *one = df_context_load(&cache, 1);
  CHECK(one == &slots[1] && cache.loads == 1 && cache.saves == 0, "direct-mapped");
  CHECK(df_context_load(&cache, 1) == one && cache.loads == 1, "it was there already");
  df_context_load(&cache, 5); /* the same slot */
  CHECK(cache.saves == 0 && cache.loads == 2, "nothing had progressed: nothing is saved");
  one = df_context_load(&cache, 1);
  one->cursor.loop = 7;
  one->dirty = 1;
  df_context_load(&cache, 2);
  CHECK(cache.saves == 0, "another slot");
  CHECK(memory[1].loop == 0, "not saved before it must be");
  df_context_load(&cache, 9);
  CHECK(cache.saves == 1 && memory[1].loop == 7, "evicted, and saved");
  df_context_load(&cache, 1);
  df_context_load(&cache, 5);
  CHECK(cache.saves == 1, "it has not progressed since");
}

DF_TEST(context_cache, a_flush_saves_everything_once, 30) {
  df_context_slot slots[8];
  df_cursor memory[CONTEXTS] = {{0}};
  df_context_cache cache;
  df_context_cache_init(&cache, slots, 8, memory);
  for (uint32_t c = 0; c < 8; c++) {
    df_context_slot *slot = df_context_load(&cache, c);
    slot->cursor.primitive = c + 1;
    slot->dirty = c % 2;
  }
  df_context_flush(&cache);
  CHECK(cache.saves == 4, "%llu saved", (unsigned long long)cache.saves);
  for (uint32_t c = 0; c < 8; c++)
    CHECK(memory[c].primitive == (c % 2 ? c + 1 : 0), "context %u", c);
  df_context_flush(&cache);
  CHECK(cache.saves == 4, "nothing has progressed since");
  CHECK(df_context_load(&cache, 3) == &slots[3] && cache.loads == 8, "what is flushed stays");
}

DF_TEST(context_cache, the_last_word_counts, 30) {
  for (uint32_t n_slots = 1; n_slots <= 64; n_slots *= 4) {
    df_context_slot slots[64];
    df_cursor memory[CONTEXTS], model[CONTEXTS];
    df_context_cache cache;
    df_random random = {n_slots};
    memset(memory, 0, sizeof memory);
    memset(model, 0, sizeof model);
    df_context_cache_init(&cache, slots, n_slots, memory);
    for (uint32_t i = 1; i < 50000; i++) {
      uint32_t c = (uint32_t)df_random_below(&random, CONTEXTS);
      df_context_slot *slot = df_context_load(&cache, c);
      CHECK(slot->collective == c && memcmp(&slot->cursor, &model[c], sizeof model[c]) == 0,
            "context %u is not what it was", c);
      if (df_random_chance(&random, 50)) {
        slot->cursor.run = model[c].run = i;
        slot->cursor.flags = model[c].flags = i * 3;
        slot->dirty = 1;
      }
      if (df_random_chance(&random, 1)) {
        df_context_flush(&cache);
        CHECK(memcmp(memory, model, sizeof memory) == 0, "a flush left something behind");
      }
    }
  }
}
