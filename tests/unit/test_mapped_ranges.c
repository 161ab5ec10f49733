/*
 * Promise of src/primitives/mapped_ranges.h: an address is accepted only if it is inside one open
 * range, whichever address and length a peer sends. A closed range is not accepted, and its entry
 * is reused.
 */
#include "primitives/mapped_ranges.h"

#include <stdlib.h>

#include "support/harness.h"

static df_mapped_ranges *make(void) {
  df_mapped_ranges *mapped_ranges = calloc(1, sizeof *mapped_ranges);
  CHECK(mapped_ranges != NULL, "no memory");
  return mapped_ranges;
}
static void *at(uint64_t page) { return (void *)(uintptr_t)(page * DF_PAGE); }

DF_TEST(mapped_ranges, cover_what_lies_within_one_of_them, 30) {
  df_mapped_ranges *w = make();
  const uint64_t base = 100 * DF_PAGE, end = 103 * DF_PAGE;
  CHECK(!df_mapped_ranges_cover(w, 0, 0) && !df_mapped_ranges_cover(w, base, 1), "nothing is open");
  CHECK(df_mapped_ranges_open(w, at(100), 3 * DF_PAGE), "the first");
  CHECK(df_mapped_ranges_open(w, at(103), DF_PAGE), "its neighbour");
  CHECK(df_mapped_ranges_cover(w, base, end - base) && df_mapped_ranges_cover(w, end - 1, 1),
        "within");
  CHECK(!df_mapped_ranges_cover(w, base - 1, 2) && !df_mapped_ranges_cover(w, base - 1, 1),
        "before");
  CHECK(!df_mapped_ranges_cover(w, end - 1, 2), "across two");
  CHECK(!df_mapped_ranges_cover(w, end + DF_PAGE, 1) &&
            !df_mapped_ranges_cover(w, end, DF_PAGE + 1),
        "behind");
  CHECK(!df_mapped_ranges_cover(w, base, UINT64_MAX) &&
            !df_mapped_ranges_cover(w, UINT64_MAX, UINT64_MAX) &&
            !df_mapped_ranges_cover(w, UINT64_MAX - 1, 4) && !df_mapped_ranges_cover(w, 0, 1) &&
            !df_mapped_ranges_cover(w, base + 8, (uint64_t)0 - 8),
        "sums that wrap around");
  free(w);
}

DF_TEST(mapped_ranges, places_are_used_again_and_run_out, 30) {
  df_mapped_ranges *w = make();
  for (uint64_t i = 0; i < DF_MAX_MAPPINGS; i++)
    CHECK(df_mapped_ranges_open(w, at(2 * i + 1), DF_PAGE), "window %llu", (unsigned long long)i);
  CHECK(!df_mapped_ranges_open(w, at(1 << 20), DF_PAGE), "one too many");
  df_mapped_ranges_close(w, at(7));
  CHECK(!df_mapped_ranges_cover(w, 7 * DF_PAGE, 1) && df_mapped_ranges_cover(w, 9 * DF_PAGE, 1),
        "closed");
  CHECK(df_mapped_ranges_open(w, at(1 << 20), DF_PAGE), "in its place");
  CHECK(df_mapped_ranges_cover(w, (uint64_t)DF_PAGE << 20, DF_PAGE) && w->used == DF_MAX_MAPPINGS,
        "the new one");
  CHECK(!df_mapped_ranges_open(w, at(3), DF_PAGE - 1), "less than a page");
  df_mapped_ranges *empty = make();
  CHECK(!df_mapped_ranges_open(empty, at(3), (uint64_t)DF_PAGE << DF_WINDOW_SIZE_BITS) &&
            !df_mapped_ranges_open(empty, at(3), 0) && empty->used == 0,
        "what a word cannot tell");
  free(empty);
  free(w);
}
