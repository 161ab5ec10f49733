/*
 * Promises of src/transports/shm/segment.c:
 *   - A segment is zeroed, at least as large as requested, has memfd seals, and leaves no
 *     descriptor behind.
 *   - A peer's segment is mapped only if it has the announced size and cannot shrink. Its
 *     descriptor is closed either way.
 *   - Populating a range touches whole pages of the machine, which may be larger than DF_PAGE, and
 *     does not go beyond the segment.
 *   - The arena's ranges do not overlap. Released ranges are used again and merge. When no memory
 *     is left, the arena reports it and remains usable.
 *   - Free memory of the arena is zero, and its whole pages are not allocated. If the system
 *     refuses to release pages, they are overwritten. A rank that leaves keeps all contents.
 */
#include "transports/shm/segment.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "support/harness.h"

static int descriptors(void) {
  DIR *directory = opendir("/proc/self/fd");
  CHECK(directory != NULL, "no /proc");
  int n = 0;
  while (readdir(directory) != NULL) n++;
  closedir(directory);
  return n;
}

DF_TEST(segment, create, 30) {
  static const size_t sizes[] = {1, 64, 4096, 4097, 1 << 20};
  int before = descriptors();
  for (size_t i = 0; i < DF_COUNT_OF(sizes); i++) {
    df_segment *s;
    OK(df_segment_create(&s, 5, sizes[i]));
    CHECK(s->id == 5 && s->bytes >= sizes[i] && s->bytes < sizes[i] + DF_PAGE, "%zu bytes",
          s->bytes);
    for (size_t at = 0; at < s->bytes; at++) CHECK(s->base[at] == 0, "byte %zu is not zero", at);
    memset(s->base, 0xff, s->bytes);
    CHECK(ftruncate(s->fd, 0) != 0, "it can be shrunk: accesses would fault");
    df_segment_destroy(s);
  }
  df_segment_destroy(NULL);
  CHECK(descriptors() == before, "%d descriptors instead of %d", descriptors(), before);
}

DF_TEST(segment, two_maps_are_one_memory, 30) {
  df_segment *mine, *theirs;
  int before = descriptors();
  OK(df_segment_create(&mine, 7, 10000));
  OK(df_segment_map(&theirs, 7, mine->bytes, dup(mine->fd)));
  CHECK(theirs->base != mine->base && theirs->bytes == mine->bytes, "another address");
  for (size_t at = 0; at < mine->bytes; at += 1000) {
    mine->base[at] = 1;
    CHECK(theirs->base[at] == 1, "byte %zu", at);
  }
  df_segment_destroy(mine);
  theirs->base[9999] = 2; /* exists while a process maps it */
  df_segment_destroy(theirs);
  CHECK(descriptors() == before, "a descriptor was left");
}

/* The linker leads the calls here, to simulate a machine with other pages and to check the
 * requests. */
long __real_sysconf(int name);
long __wrap_sysconf(int name);
int __wrap_madvise(void *first, size_t bytes, int advice);
int __real_madvise(void *first, size_t bytes, int advice);
static long pages_of;
static struct {
  uint8_t *first;
  size_t bytes;
} advised;

/* A sanitizer's runtime calls it too, before it can check anything. */
#if defined(__clang__)
__attribute__((disable_sanitizer_instrumentation))
#endif
long __wrap_sysconf(int name) {
  return name == _SC_PAGESIZE && pages_of != 0 ? pages_of : __real_sysconf(name);
}

int __wrap_madvise(void *first, size_t bytes, int advice) {
  advised.first = first;
  advised.bytes = bytes;
  return __real_madvise(first, bytes, advice);
}

DF_TEST(segment, populates_whole_pages_of_the_machine, 30) {
  static const long pages[] = {4096, 16384, 65536};
  df_segment *s;
  OK(df_segment_create(&s, 9, 5 * 65536 + 4096));
  for (size_t i = 0; i < DF_COUNT_OF(pages); i++) {
    for (uint64_t at = 64; at < s->bytes; at += 20480) {
      const uint64_t bytes = DF_MIN((uint64_t)9000, s->bytes - at);
      pages_of = pages[i];
      df_segment_populate(s, at, bytes);
      pages_of = 0;
      const uint64_t first = (uint64_t)(advised.first - s->base);
      CHECK(first % (uint64_t)pages[i] == 0 && first <= at && at - first < (uint64_t)pages[i],
            "%ld: from %llu for %llu", pages[i], (unsigned long long)first, (unsigned long long)at);
      CHECK(first + advised.bytes >= at + bytes && first + advised.bytes <= s->bytes, "%ld: %zu",
            pages[i], advised.bytes);
    }
  }
  df_segment_destroy(s);
}

DF_TEST(segment, a_segment_unlike_its_announcement_is_refused, 30) {
  df_segment *mine, *theirs = NULL;
  OK(df_segment_create(&mine, 7, 8192));
  int before = descriptors();
  RESULT(df_segment_map(&theirs, 7, 4096, dup(mine->fd)), dfcclRemoteError);
  RESULT(df_segment_map(&theirs, 7, 12288, dup(mine->fd)), dfcclRemoteError);
  RESULT(df_segment_map(&theirs, 7, 0, dup(mine->fd)), dfcclRemoteError);
  int unsealed = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CHECK(unsealed >= 0 && ftruncate(unsealed, 8192) == 0, "memfd");
  RESULT(df_segment_map(&theirs, 7, 8192, unsealed), dfcclRemoteError);
  int not_memory = open("/dev/null", O_RDWR | O_CLOEXEC);
  RESULT(df_segment_map(&theirs, 7, 8192, not_memory), dfcclRemoteError);
  CHECK(theirs == NULL, "the output was set");
  CHECK(descriptors() == before, "a refused descriptor was left open");
  df_segment_destroy(mine);
}

DF_TEST(segment, too_large, 30) {
  df_segment *s = NULL;
  int before = descriptors();
  RESULT(df_segment_create(&s, 1, SIZE_MAX), dfcclOutOfMemory);
  CHECK(df_segment_create(&s, 1, SIZE_MAX / 2 - 4096) != dfcclSuccess && s == NULL, "8 EB");
  CHECK(descriptors() == before, "a descriptor was left");
}

/* ---- arena ---- */

static uint32_t segments_of(const df_arena *arena) {
  uint32_t n = 0;
  for (const df_segment *s = arena->segments; s; s = s->next) n++;
  return n;
}

static void destroy(df_arena *arena) {
  df_segment *s = df_arena_dissolve(arena);
  CHECK(arena->segments == NULL && arena->free_ranges == NULL, "not dissolved");
  while (s) {
    df_segment *next = s->next;
    df_segment_destroy(s);
    s = next;
  }
}

/* Free ranges are ordered, not adjacent, and inside their segments. With the used ranges they cover
 * all. */
static void check_free_ranges(const df_arena *arena) {
  uint64_t free_bytes = 0, all = 0;
  for (const df_range *r = arena->free_ranges; r; r = r->next) {
    CHECK(r->bytes > 0 && r->offset + r->bytes <= r->segment->bytes, "a range of %llu at %llu",
          (unsigned long long)r->bytes, (unsigned long long)r->offset);
    if (r->next)
      CHECK(r->segment->id < r->next->segment->id ||
                (r->segment == r->next->segment && r->offset + r->bytes < r->next->offset),
            "out of order, or adjacent");
    free_bytes += r->bytes;
  }
  for (const df_segment *s = arena->segments; s; s = s->next) all += s->bytes;
  CHECK(free_bytes + arena->used_bytes == all, "%llu free, %llu used, %llu in all",
        (unsigned long long)free_bytes, (unsigned long long)arena->used_bytes,
        (unsigned long long)all);
}

DF_TEST(segment, ranges_grow_together, 30) {
  static const int orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {0, 2, 1, 3}, {1, 3, 0, 2}};
  for (size_t k = 0; k < DF_COUNT_OF(orders); k++) {
    df_arena arena = {0};
    df_range ranges[4], whole;
    for (int i = 0; i < 4; i++) OK(df_arena_take(&arena, DF_ARENA_SEGMENT_BYTES / 4, &ranges[i]));
    CHECK(segments_of(&arena) == 1 && arena.free_ranges == NULL, "it is full");
    for (int i = 0; i < 4; i++) {
      df_arena_give(&arena, &ranges[orders[k][i]]);
      check_free_ranges(&arena);
    }
    OK(df_arena_take(&arena, DF_ARENA_SEGMENT_BYTES, &whole));
    CHECK(segments_of(&arena) == 1 && whole.offset == 0, "they did not grow together");
    df_arena_give(&arena, &whole);
    destroy(&arena);
  }
}

enum { RANGES = 300 };

DF_TEST(segment, ranges_never_overlap, 60) {
  df_arena arena = {.next_id = 100};
  df_range ranges[RANGES];
  uint8_t marks[RANGES], taken[RANGES] = {0};
  df_random random = {4};
  for (int i = 0; i < 20000; i++) {
    int which = df_random_below(&random, RANGES);
    df_range *r = &ranges[which];
    if (taken[which]) {
      const uint8_t *at = r->segment->base + r->offset;
      CHECK(at[0] == marks[which] && at[r->bytes - 1] == marks[which], "somebody wrote into it");
      df_arena_give(&arena, r);
    } else {
      uint64_t bytes = 64 * (1 + (uint64_t)df_random_below(&random, i % 100 ? 400 : 40000));
      OK(df_arena_take(&arena, bytes, r));
      CHECK(r->bytes == bytes && r->offset % 64 == 0, "%llu at %llu", (unsigned long long)bytes,
            (unsigned long long)r->offset);
      CHECK(r->offset + bytes <= r->segment->bytes, "outside of its segment");
      marks[which] = (uint8_t)i;
      r->segment->base[r->offset] = r->segment->base[r->offset + bytes - 1] = (uint8_t)i;
    }
    taken[which] ^= 1;
    if (i % 100 == 0) check_free_ranges(&arena);
  }
  uint32_t segments = segments_of(&arena);
  for (int i = 0; i < RANGES; i++)
    if (taken[i]) df_arena_give(&arena, &ranges[i]);
  check_free_ranges(&arena);
  CHECK(arena.used_bytes == 0, "%llu bytes are used", (unsigned long long)arena.used_bytes);
  CHECK(segments < 30, "%u segments", segments);
  destroy(&arena);
}

static uint64_t allocated_bytes(const df_arena *arena) {
  uint64_t bytes = 0;
  for (const df_segment *segment = arena->segments; segment; segment = segment->next) {
    struct stat status;
    CHECK(fstat(segment->fd, &status) == 0, "no state of a segment");
    bytes += (uint64_t)status.st_blocks * 512;
  }
  return bytes;
}

/* Takes ranges of all sizes, writes to all of them, and gives them back in any order. */
static void use_all(df_arena *arena, uint64_t *most) {
  df_range ranges[RANGES];
  df_random random = {7};
  for (int i = 0; i < RANGES; i++) {
    const uint64_t bytes = 64 * (1 + (uint64_t)df_random_below(&random, i % 10 ? 200 : 4000));
    OK(df_arena_take(arena, bytes, &ranges[i]));
    uint8_t *at = ranges[i].segment->base + ranges[i].offset;
    for (uint64_t b = 0; b < bytes; b++) CHECK(at[b] == 0, "byte %llu", (unsigned long long)b);
    memset(at, 0xab, bytes);
  }
  *most = allocated_bytes(arena);
  for (int left = RANGES; left > 0; left--) {
    const int which = (int)df_random_below(&random, left);
    df_arena_give(arena, &ranges[which]);
    ranges[which] = ranges[left - 1];
    for (int i = 0; i < left - 1; i += 37) {
      const uint8_t *at = ranges[i].segment->base + ranges[i].offset;
      CHECK(at[0] == 0xab && at[ranges[i].bytes - 1] == 0xab, "a range in use was cleared");
    }
  }
}

DF_TEST(segment, free_memory_is_zero_and_has_no_pages, 60) {
  df_arena arena = {0};
  uint64_t most = 0;
  for (int round = 0; round < 3; round++) {
    use_all(&arena, &most);
    CHECK(most > 1 << 20, "%llu bytes of pages in use", (unsigned long long)most);
    CHECK(allocated_bytes(&arena) == 0, "round %d: %llu bytes of pages are left", round,
          (unsigned long long)allocated_bytes(&arena));
  }
  destroy(&arena);
}

static int is_refused, releases, first_has_lock;
static df_rank_mutex lock;
int __wrap_fallocate64(int fd, int mode, off_t offset, off_t bytes);
int __real_fallocate64(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate64(int fd, int mode, off_t offset, off_t bytes) {
  if (releases++ == 0) {
    first_has_lock = !df_rank_trylock(&lock);
    if (!first_has_lock) df_rank_unlock(&lock);
  }
  return is_refused ? -1 : __real_fallocate64(fd, mode, offset, bytes);
}

DF_TEST(segment, free_memory_is_zero_without_release_of_pages, 60) {
  df_arena arena = {0};
  uint64_t most;
  is_refused = 1;
  for (int round = 0; round < 2; round++) use_all(&arena, &most);
  is_refused = 0;
  destroy(&arena);
}

/* A service thread that the test plays: its event_fd is never read. */
static df_arena arena_with_cleaner(df_control *service) {
  df_rank_mutex_init(&lock);
  service->event_fd = -1;
  return (df_arena){.cleaner = service};
}

DF_TEST(segment, a_large_range_is_made_zero_without_the_lock, 30) {
  static df_control service;
  df_arena arena = arena_with_cleaner(&service);
  df_range range;
  OK(df_arena_take(&arena, DF_ARENA_SEGMENT_BYTES - 64, &range));
  memset(range.segment->base, 5, range.bytes);
  df_rank_lock(&lock);
  releases = 0;
  df_arena_give(&arena, &range);
  CHECK(releases == 0 && range.segment->base[0] == 5, "cleared under the lock");
  CHECK(df_arena_is_dirty(&arena) && arena.used_bytes == 0, "it was not given back");
  df_rank_unlock(&lock);
  df_arena_clean(&arena, &lock);
  CHECK(releases > 0 && !first_has_lock, "pages are released under the lock");
  CHECK(!df_arena_is_dirty(&arena) && allocated_bytes(&arena) == 0, "%llu bytes of pages are left",
        (unsigned long long)allocated_bytes(&arena));
  check_free_ranges(&arena);
  destroy(&arena);
}

DF_TEST(segment, dirty_memory_is_used_before_the_arena_grows, 30) {
  static df_control service;
  df_arena arena = arena_with_cleaner(&service);
  df_range range;
  for (int round = 0; round < 3; round++) {
    OK(df_arena_take(&arena, DF_ARENA_SEGMENT_BYTES, &range));
    CHECK(segments_of(&arena) == 1 && range.segment->base[100] == 0, "round %d", round);
    memset(range.segment->base, 5, range.bytes);
    df_arena_give(&arena, &range);
  }
  destroy(&arena);
}

DF_TEST(segment, dirty_ranges_of_all_sizes_become_free, 60) {
  static df_control service;
  df_arena arena = arena_with_cleaner(&service);
  uint64_t most;
  for (int round = 0; round < 3; round++) {
    use_all(&arena, &most);
    CHECK(df_arena_is_dirty(&arena), "no range was large");
    while (round != 1 && df_arena_is_dirty(&arena)) df_arena_clean(&arena, &lock);
  }
  check_free_ranges(&arena);
  CHECK(allocated_bytes(&arena) == 0, "%llu bytes of pages are left",
        (unsigned long long)allocated_bytes(&arena));
  destroy(&arena);
}

DF_TEST(segment, a_rank_that_leaves_keeps_contents, 30) {
  df_arena arena = {0};
  df_range range;
  OK(df_arena_take(&arena, 3 * DF_PAGE, &range));
  memset(range.segment->base + range.offset, 5, range.bytes);
  arena.keeps_contents = 1;
  df_arena_give(&arena, &range);
  for (uint64_t b = 0; b < range.bytes; b++)
    CHECK(range.segment->base[range.offset + b] == 5, "byte %llu", (unsigned long long)b);
  destroy(&arena);
}

DF_TEST(segment, larger_than_a_segment, 30) {
  df_arena arena = {0};
  df_range range;
  OK(df_arena_take(&arena, 3 * (uint64_t)DF_ARENA_SEGMENT_BYTES, &range));
  range.segment->base[range.offset + range.bytes - 1] = 1;
  df_arena_give(&arena, &range);
  check_free_ranges(&arena);
  destroy(&arena);
}

DF_TEST(segment, an_arena_that_grows_apart_says_when, 30) {
  df_arena arena = {.grows_apart = 1};
  df_range first, second;
  RESULT(df_arena_take(&arena, 64, &first), dfcclInProgress);
  for (uint64_t id = 0; id < 2; id++) {
    df_segment *segment;
    OK(df_segment_create(&segment, id, df_arena_wants(&arena, 64)));
    OK(df_arena_add(&arena, segment));
    check_free_ranges(&arena);
  }
  OK(df_arena_take(&arena, DF_ARENA_SEGMENT_BYTES, &first));
  OK(df_arena_take(&arena, 64, &second));
  CHECK(first.segment->id == 0 && second.segment->id == 1, "the newest segment comes last");
  RESULT(df_arena_take(&arena, DF_ARENA_SEGMENT_BYTES, &first), dfcclInProgress);
  CHECK(df_arena_wants(&arena, 3 * (uint64_t)DF_ARENA_SEGMENT_BYTES) ==
            3 * (uint64_t)DF_ARENA_SEGMENT_BYTES,
        "what does not fit a segment has one of its own");
  check_free_ranges(&arena);
  destroy(&arena);
}

DF_TEST(segment, exhaustion_leaves_the_arena_as_it_was, 30) {
  df_arena arena = {0};
  df_range first, second, none;
  OK(df_arena_take(&arena, DF_ARENA_SEGMENT_BYTES - 64, &first));
  struct rlimit usual, few;
  CHECK(getrlimit(RLIMIT_NOFILE, &usual) == 0, "getrlimit");
  few = usual;
  few.rlim_cur = 0; /* no new descriptor */
  CHECK(setrlimit(RLIMIT_NOFILE, &few) == 0, "setrlimit");
  RESULT(df_arena_take(&arena, 128, &none), dfcclOutOfMemory);
  CHECK(setrlimit(RLIMIT_NOFILE, &usual) == 0, "setrlimit");
  CHECK(segments_of(&arena) == 1 && arena.used_bytes == DF_ARENA_SEGMENT_BYTES - 64, "as it was");
  check_free_ranges(&arena);
  OK(df_arena_take(&arena, 64, &second));
  CHECK(second.segment == first.segment, "the last 64 bytes");
  OK(df_arena_take(&arena, 128, &none));
  CHECK(none.segment != first.segment && none.segment->id == 1, "and now a second segment");
  destroy(&arena);
}
