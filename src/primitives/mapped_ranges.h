/* Mapped ranges: memory of a peer that this process has mapped; lent addresses must be inside one,
 * or be marked as addresses of the peer's process (foreign_memory.h).
 * The host writes them under the context's lock. The daemon reads them without a lock, because each
 * is one word. */
#ifndef DF_PRIMITIVES_MAPPED_RANGES_H
#define DF_PRIMITIVES_MAPPED_RANGES_H

#include "base/atomic.h"
#include "base/limits.h"
#include "primitives/foreign_memory.h"

enum { DF_WINDOW_SIZE_BITS = 28 }; /* bits for the number of pages of a range */

typedef struct df_mapped_ranges {
  uint64_t used;                           /* number of ranges that have been open; it only grows */
  uint64_t mapped_ranges[DF_MAX_MAPPINGS]; /* first page << 28 | pages; 0: closed */
  df_foreign_memory foreign;               /* the rest of the peer's memory */
} df_mapped_ranges;

DF_CORE int df_mapped_ranges_cover(const df_mapped_ranges *mapped_ranges, uint64_t address,
                                   uint64_t bytes) {
  /* Ranges below this number are or were open. */
  uint64_t used = df_observe_u64(&mapped_ranges->used);
  for (uint64_t i = 0; i < used; i++) {
    uint64_t word = df_observe_u64(&mapped_ranges->mapped_ranges[i]);
    uint64_t base = (word >> DF_WINDOW_SIZE_BITS) * DF_PAGE;
    uint64_t size = (word & ((1ull << DF_WINDOW_SIZE_BITS) - 1)) * DF_PAGE;
    if (address >= base && bytes <= size && address - base <= size - bytes) return 1;
  }
  return 0;
}

/* One writer at a time. Returns 0 if there is no room, or if the memory is not a valid range. */
static inline int df_mapped_ranges_open(df_mapped_ranges *mapped_ranges, const void *memory,
                                        uint64_t bytes) {
  uint64_t page = (uint64_t)(uintptr_t)memory / DF_PAGE, pages = bytes / DF_PAGE, i = 0;
  if (pages == 0 || pages >> DF_WINDOW_SIZE_BITS || page >> (64 - DF_WINDOW_SIZE_BITS)) return 0;
  while (i < mapped_ranges->used && mapped_ranges->mapped_ranges[i] != 0) i++;
  if (i == DF_MAX_MAPPINGS) return 0;
  df_publish_u64(&mapped_ranges->mapped_ranges[i], page << DF_WINDOW_SIZE_BITS | pages);
  if (i == mapped_ranges->used) df_publish_u64(&mapped_ranges->used, i + 1);
  return 1;
}

static inline void df_mapped_ranges_close(df_mapped_ranges *mapped_ranges, const void *memory) {
  uint64_t page = (uint64_t)(uintptr_t)memory / DF_PAGE;
  for (uint64_t i = 0; i < mapped_ranges->used; i++)
    if (mapped_ranges->mapped_ranges[i] >> DF_WINDOW_SIZE_BITS == page)
      df_publish_u64(&mapped_ranges->mapped_ranges[i], 0);
}

#endif
