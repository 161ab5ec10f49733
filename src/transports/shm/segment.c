#include "transports/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mutex.h"
#include "base/quiet_signals.h"
#include "base/limits.h"
#include "bootstrap/net/sockets.h"
#include "control/service.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14; older kernels refuse it */
#endif

#define DF_SEALS (F_SEAL_SHRINK | F_SEAL_GROW)

static dfcclResult_t system_failure(const char *what, size_t bytes) {
  int error = errno;
  char why[DF_WHY_BYTES];
  return df_fail(df_is_exhausted(error) || error == ENOSPC ? dfcclOutOfMemory : dfcclSystemError,
                 "%s of %zu bytes of shared memory failed: %s", what, bytes, df_why(error, why));
}

/* Requests huge pages for large segments, if the system permits them for shared memory: they cause
 * fewer page faults. */
static void *map_shared(size_t bytes, int fd) {
  void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (base != MAP_FAILED && bytes >= DF_HUGE_PAGE) (void)madvise(base, bytes, MADV_HUGEPAGE);
  return base;
}

dfcclResult_t df_segment_create(df_segment **out, uint64_t id, size_t bytes) {
  if (bytes > SIZE_MAX / 2 - DF_PAGE)
    return df_fail(dfcclOutOfMemory, "%zu bytes of shared memory are too many", bytes);
  bytes = DF_ALIGN_UP(bytes, (size_t)DF_PAGE);
  df_segment *segment = malloc(sizeof *segment);
  if (segment == NULL) return df_fail(dfcclOutOfMemory, "no memory for a segment's record");
  dfcclResult_t result;
  int fd = memfd_create("dfccl", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) {
    result = system_failure("creation", bytes);
    goto free_record;
  }
  df_quiet_signals quiet;
  df_quiet_signals_begin(&quiet);
  const int is_sized = ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, DF_SEALS) == 0;
  df_quiet_signals_end(&quiet);
  if (!is_sized) {
    result = system_failure("sizing", bytes);
    goto close_file;
  }
  void *base = map_shared(bytes, fd);
  if (base == MAP_FAILED) {
    result = system_failure("mapping", bytes);
    goto close_file;
  }
  *segment = (df_segment){.id = id, .base = base, .bytes = bytes, .fd = fd};
  *out = segment;
  return dfcclSuccess;
close_file:
  close(fd);
free_record:
  free(segment);
  return result;
}

dfcclResult_t df_segment_map(df_segment **out, uint64_t id, size_t bytes, int fd) {
  dfcclResult_t result;
  struct stat status;
  int seals = fcntl(fd, F_GET_SEALS);
  df_segment *segment = malloc(sizeof *segment);
  if (segment == NULL) {
    result = df_fail(dfcclOutOfMemory, "no memory for a segment's record");
    goto close_file;
  }
  if (seals < 0 || (seals & DF_SEALS) != DF_SEALS || fstat(fd, &status) != 0 ||
      (uint64_t)status.st_size != bytes) {
    result =
        df_fail(dfcclRemoteError,
                "segment %llu of a peer differs from its announcement (%zu bytes, with file seals)",
                (unsigned long long)id, bytes);
    goto free_record;
  }
  void *base = map_shared(bytes, fd);
  if (base == MAP_FAILED) {
    result = system_failure("mapping", bytes);
    goto free_record;
  }
  close(fd);
  *segment = (df_segment){.id = id, .base = base, .bytes = bytes, .fd = -1};
  *out = segment;
  return dfcclSuccess;
free_record:
  free(segment);
close_file:
  close(fd);
  return result;
}

static uint64_t page_bytes(void) {
  return (uint64_t)sysconf(_SC_PAGESIZE); /* Arm also has larger pages than DF_PAGE */
}

void df_segment_populate(const df_segment *segment, uint64_t offset, uint64_t bytes) {
  const uint64_t page = page_bytes();
  uint64_t first = offset / page * page;
  uint64_t last = DF_MIN(DF_ALIGN_UP(offset + bytes, page), segment->bytes);
  (void)madvise(segment->base + first, last - first, MADV_POPULATE_WRITE);
}

void df_segment_populate_at(const uint8_t *address, uint64_t bytes) {
  const uint64_t page = page_bytes(), before = (uintptr_t)address % page;
  (void)madvise((void *)(uintptr_t)(address - before), before + bytes, MADV_POPULATE_WRITE);
}

uint64_t df_segment_used_at(const uint8_t *address, uint64_t bytes) {
  enum { PAGES_AT_ONCE = 256 };
  const uint64_t page = page_bytes(), first = (uintptr_t)address, end = first + bytes;
  unsigned char exists[PAGES_AT_ONCE];
  uint64_t used = 0;
  for (uint64_t at = first / page * page; at < end; at += PAGES_AT_ONCE * page) {
    const uint64_t length = DF_MIN(DF_ALIGN_UP(end - at, page), PAGES_AT_ONCE * page);
    if (mincore((void *)(uintptr_t)at, length, exists) != 0) return bytes; /* forbidden */
    for (uint64_t i = 0; i < length / page; i++)
      if (exists[i] & 1) used += DF_MIN(end, at + (i + 1) * page) - DF_MAX(first, at + i * page);
  }
  return used;
}

uint64_t df_segment_used(const df_segment *segment, uint64_t offset, uint64_t bytes) {
  return segment->destroy ? bytes : df_segment_used_at(segment->base + offset, bytes);
}

void df_segment_destroy(df_segment *segment) {
  if (segment == NULL) return;
  if (segment->destroy)
    segment->destroy(segment);
  else if (segment->base)
    munmap(segment->base, segment->bytes);
  if (segment->fd >= 0) close(segment->fd);
  free(segment);
}

static void destroy_remains(df_remains *remains) { df_segment_destroy((df_segment *)remains); }

void df_segment_bury(df_process_inbox *world, df_segment *segments) {
  while (segments) {
    df_segment *next = segments->next;
    segments->remains.destroy = destroy_remains;
    df_process_inbox_bury(world, &segments->remains);
    segments = next;
  }
}

void df_segment_abandon(df_segment *segments) {
  static df_mutex lock = DF_MUTEX_INITIALIZER;
  static df_segment *abandoned; /* a reachable list, so that leak checkers do not report them */
  df_segment **last = &segments;
  while (*last) last = &(*last)->next;
  df_lock(&lock);
  *last = abandoned;
  abandoned = segments;
  df_unlock(&lock);
}

static int comes_before(const df_range *a, const df_range *b) {
  return a->segment->id != b->segment->id ? a->segment->id < b->segment->id : a->offset < b->offset;
}

static int touches(const df_range *a, const df_range *b) {
  return a->segment == b->segment && a->offset + a->bytes == b->offset;
}

uint64_t df_arena_wants(const df_arena *arena, uint64_t bytes) {
  uint64_t least = arena->segment_bytes ? arena->segment_bytes : DF_ARENA_SEGMENT_BYTES;
  return DF_MAX(bytes, least);
}

dfcclResult_t df_arena_add(df_arena *arena, df_segment *segment) {
  df_range **at = &arena->free_ranges, *whole = malloc(sizeof *whole);
  if (whole == NULL) return df_fail(dfcclOutOfMemory, "no memory for a free range's record");
  segment->next = arena->segments;
  arena->segments = segment;
  *whole = (df_range){.segment = segment, .bytes = segment->bytes};
  while (*at && (*at)->segment->id < segment->id) at = &(*at)->next;
  whole->next = *at;
  *at = whole; /* ranges of the newest segment come last */
  return dfcclSuccess;
}

/* Adds a segment to the arena. */
static dfcclResult_t grow(df_arena *arena, uint64_t bytes) {
  df_segment *segment;
  uint64_t wanted = df_arena_wants(arena, bytes);
  dfcclResult_t result = arena->create
                             ? arena->create(arena->owner, &segment, arena->next_id, wanted)
                             : df_segment_create(&segment, arena->next_id, wanted);
  if (result != dfcclSuccess) return result;
  arena->next_id++;
  result = df_arena_add(arena, segment);
  if (result != dfcclSuccess) df_segment_destroy(segment);
  return result;
}

static df_range **find_range(df_arena *arena, uint64_t bytes) {
  df_range **at = &arena->free_ranges;
  while (*at && (*at)->bytes < bytes) at = &(*at)->next;
  return at;
}

/* Memory of a device is cleared at set-up. A rank that leaves keeps what its peers may read. */
static int must_be_zero(const df_arena *arena) {
  return arena->create == NULL && !arena->keeps_contents && !arena->stays_dirty;
}

/* Returns the pages to the system; they read as zero. */
static void release_pages(const df_segment *segment, uint64_t first, uint64_t last) {
  if (first >= last || fallocate(segment->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                                 (off_t)first, (off_t)(last - first)) == 0)
    return;
  memset(segment->base + first, 0, last - first); /* a filter of system calls may forbid it */
}

/* Makes the range zero. The free range that contains it decides which of its pages are free as a
 * whole. */
static void clear(const df_range *range, uint64_t free_from, uint64_t free_to) {
  const uint64_t page = page_bytes(), end = range->offset + range->bytes;
  const uint64_t first = DF_MAX(DF_ALIGN_UP(free_from, page), range->offset / page * page);
  const uint64_t last = DF_MIN(free_to / page * page, DF_ALIGN_UP(end, page));
  uint8_t *base = range->segment->base;
  if (first >= last) {
    memset(base + range->offset, 0, range->bytes);
    return;
  }
  if (first > range->offset) memset(base + range->offset, 0, first - range->offset);
  if (last < end) memset(base + last, 0, end - last);
  release_pages(range->segment, first, last);
}

/* Makes the range zero, if the arena requires that, and free. */
static void make_free(df_arena *arena, const df_range *range) {
  df_range *before = NULL, *after = arena->free_ranges;
  while (after && comes_before(after, range)) {
    before = after;
    after = after->next;
  }
  const int joins_before = before && touches(before, range);
  const int joins_after = after && touches(range, after);
  if (must_be_zero(arena))
    clear(range, joins_before ? before->offset : range->offset,
          joins_after ? after->offset + after->bytes : range->offset + range->bytes);
  if (joins_before) {
    before->bytes += range->bytes;
    if (joins_after) {
      before->bytes += after->bytes;
      before->next = after->next;
      free(after);
    }
    return;
  }
  if (joins_after) {
    after->offset = range->offset;
    after->bytes += range->bytes;
    return;
  }
  df_range *record = malloc(sizeof *record);
  if (record == NULL) return; /* the range stays unused until the context ends */
  *record = *range;
  record->next = after;
  if (before)
    before->next = record;
  else
    arena->free_ranges = record;
}

/* Returns 0 if the range must be made free at once. */
static int leave_dirty(df_arena *arena, const df_range *range) {
  if (arena->cleaner == NULL || !must_be_zero(arena) || range->bytes <= DF_CLEARED_UNDER_LOCK)
    return 0;
  df_range *record = malloc(sizeof *record);
  if (record == NULL) return 0;
  *record = *range;
  record->next = arena->dirty_ranges;
  arena->dirty_ranges = record;
  df_store_relaxed_u32(&arena->is_dirty, 1);
  df_service_wake(arena->cleaner);
  return 1;
}

void df_arena_give(df_arena *arena, const df_range *range) {
  arena->used_bytes -= range->bytes;
  if (!leave_dirty(arena, range)) make_free(arena, range);
}

static int take_dirty(df_arena *arena, df_range *range) {
  df_range *first = arena->dirty_ranges;
  if (first == NULL) return 0;
  *range = *first;
  arena->dirty_ranges = first->next;
  df_store_relaxed_u32(&arena->is_dirty, arena->dirty_ranges != NULL);
  free(first);
  return 1;
}

void df_arena_clean(df_arena *arena, df_rank_mutex *lock) {
  df_range range;
  df_rank_lock(lock);
  if (take_dirty(arena, &range)) {
    df_rank_unlock(lock);
    clear(&range, range.offset, range.offset + range.bytes);
    df_rank_lock(lock);
    make_free(arena, &range); /* finds little left to clear: pages that neighbours share */
  }
  df_rank_unlock(lock);
}

dfcclResult_t df_arena_take(df_arena *arena, uint64_t bytes, df_range *range) {
  df_range **at = find_range(arena, bytes), dirty;
  while (*at == NULL && take_dirty(arena, &dirty)) { /* rather than grow */
    make_free(arena, &dirty);
    at = find_range(arena, bytes);
  }
  if (*at == NULL) {
    if (arena->grows_apart) return dfcclInProgress;
    dfcclResult_t result = grow(arena, bytes);
    if (result != dfcclSuccess) return result;
    at = find_range(arena, bytes);
  }
  df_range *found = *at;
  *range = (df_range){.segment = found->segment, .offset = found->offset, .bytes = bytes};
  found->offset += bytes;
  found->bytes -= bytes;
  if (found->bytes == 0) {
    *at = found->next;
    free(found);
  }
  arena->used_bytes += bytes;
  return dfcclSuccess;
}

dfcclResult_t df_arena_take_apart(df_arena *arena, df_rank_mutex *lock, uint64_t bytes,
                                  df_range *range) {
  dfcclResult_t result;
  while ((result = df_arena_take(arena, bytes, range)) == dfcclInProgress) {
    df_segment *segment;
    uint64_t id = arena->next_id++, wanted = df_arena_wants(arena, bytes);
    df_rank_unlock(lock);
    result = arena->create(arena->owner, &segment, id, wanted);
    df_rank_lock(lock);
    if (result != dfcclSuccess) return result;
    result = df_arena_add(arena, segment);
    if (result == dfcclSuccess) continue;
    df_segment_destroy(segment);
    return result;
  }
  return result;
}

uint64_t df_arena_used(const df_arena *arena) {
  enum { BLOCK = 512 }; /* st_blocks counts these, whatever the file system's are */
  if (arena->create) return arena->used_bytes;
  uint64_t used = 0;
  for (const df_segment *segment = arena->segments; segment; segment = segment->next) {
    struct stat status;
    used += fstat(segment->fd, &status) == 0 ? (uint64_t)status.st_blocks * BLOCK : segment->bytes;
  }
  return used;
}

static void free_records(df_range **ranges) {
  while (*ranges) {
    df_range *next = (*ranges)->next;
    free(*ranges);
    *ranges = next;
  }
}

df_segment *df_arena_dissolve(df_arena *arena) {
  free_records(&arena->free_ranges);
  free_records(&arena->dirty_ranges);
  df_segment *segments = arena->segments;
  arena->segments = NULL;
  return segments;
}
