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

void df_segment_populate(const df_segment *segment, uint64_t offset, uint64_t bytes) {
  /* The page size of the machine: Arm also has larger ones. */
  const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
  uint64_t first = offset / page * page;
  uint64_t last = DF_MIN(DF_ALIGN_UP(offset + bytes, page), segment->bytes);
  (void)madvise(segment->base + first, last - first, MADV_POPULATE_WRITE);
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

dfcclResult_t df_arena_take(df_arena *arena, uint64_t bytes, df_range *range) {
  df_range **at = find_range(arena, bytes);
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

void df_arena_give(df_arena *arena, const df_range *range) {
  arena->used_bytes -= range->bytes;
  df_range *before = NULL, *after = arena->free_ranges;
  while (after && comes_before(after, range)) {
    before = after;
    after = after->next;
  }
  if (before && touches(before, range)) {
    before->bytes += range->bytes;
    if (after && touches(before, after)) {
      before->bytes += after->bytes;
      before->next = after->next;
      free(after);
    }
    return;
  }
  if (after && touches(range, after)) {
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

df_segment *df_arena_dissolve(df_arena *arena) {
  while (arena->free_ranges) {
    df_range *next = arena->free_ranges->next;
    free(arena->free_ranges);
    arena->free_ranges = next;
  }
  df_segment *segments = arena->segments;
  arena->segments = NULL;
  return segments;
}
