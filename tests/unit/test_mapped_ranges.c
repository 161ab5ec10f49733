/*
 * Promise of src/primitives/mapped_ranges.h: an address is followed only within one open window, whatever
 * address and length a peer names; what was closed is not covered, and its place is used again.
 */
#include "primitives/mapped_ranges.h"

#include <stdlib.h>

#include "support/harness.h"

static df_windows *make(void) {
  df_windows *windows = calloc(1, sizeof *windows);
  CHECK(windows != NULL, "no memory");
  return windows;
}
static void *at(uint64_t page) { return (void *)(uintptr_t)(page * DF_PAGE); }

DF_TEST(windows, cover_what_lies_within_one_of_them, 30) {
  df_windows *w = make();
  const uint64_t base = 100 * DF_PAGE, end = 103 * DF_PAGE;
  CHECK(!df_windows_cover(w, 0, 0) && !df_windows_cover(w, base, 1), "nothing is open");
  CHECK(df_windows_open(w, at(100), 3 * DF_PAGE), "the first");
  CHECK(df_windows_open(w, at(103), DF_PAGE), "its neighbour");
  CHECK(df_windows_cover(w, base, end - base) && df_windows_cover(w, end - 1, 1), "within");
  CHECK(!df_windows_cover(w, base - 1, 2) && !df_windows_cover(w, base - 1, 1), "before");
  CHECK(!df_windows_cover(w, end - 1, 2), "across two");
  CHECK(!df_windows_cover(w, end + DF_PAGE, 1) && !df_windows_cover(w, end, DF_PAGE + 1), "behind");
  CHECK(!df_windows_cover(w, base, UINT64_MAX) && !df_windows_cover(w, UINT64_MAX, UINT64_MAX) &&
            !df_windows_cover(w, UINT64_MAX - 1, 4) && !df_windows_cover(w, 0, 1) &&
            !df_windows_cover(w, base + 8, (uint64_t)0 - 8),
        "sums that wrap around");
  free(w);
}

DF_TEST(windows, places_are_used_again_and_run_out, 30) {
  df_windows *w = make();
  for (uint64_t i = 0; i < DF_MAX_REACHES; i++)
    CHECK(df_windows_open(w, at(2 * i + 1), DF_PAGE), "window %llu", (unsigned long long)i);
  CHECK(!df_windows_open(w, at(1 << 20), DF_PAGE), "one too many");
  df_windows_close(w, at(7));
  CHECK(!df_windows_cover(w, 7 * DF_PAGE, 1) && df_windows_cover(w, 9 * DF_PAGE, 1), "closed");
  CHECK(df_windows_open(w, at(1 << 20), DF_PAGE), "in its place");
  CHECK(df_windows_cover(w, (uint64_t)DF_PAGE << 20, DF_PAGE) && w->used == DF_MAX_REACHES,
        "the new one");
  CHECK(!df_windows_open(w, at(3), DF_PAGE - 1), "less than a page");
  df_windows *empty = make();
  CHECK(!df_windows_open(empty, at(3), (uint64_t)DF_PAGE << DF_WINDOW_SIZE_BITS) &&
            !df_windows_open(empty, at(3), 0) && empty->used == 0,
        "what a word cannot tell");
  free(empty);
  free(w);
}
