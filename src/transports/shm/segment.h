/* A segment is memory that other processes of the host can map. It is a memfd, so it leaves nothing
 * behind, even after SIGKILL. Its size is fixed by file seals, so no peer can make accesses of this
 * process fault. An arena is many ranges in a few segments. Not thread-safe: the lock of the rank
 * protects both. */
#ifndef DF_TRANSPORTS_SHM_SEGMENT_H
#define DF_TRANSPORTS_SHM_SEGMENT_H

#include "base/atomic.h"
#include "base/limits.h"
#include "base/mutex.h"
#include "base/result.h"
#include "control/messenger.h"
#include "control/process_inbox.h"

typedef struct df_segment {
  df_remains remains; /* must be the first member; used when the segment is buried */
  uint64_t id;
  uint8_t *base;
  size_t bytes;
  int fd; /* -1: a mapping, or device memory */
  struct df_segment *next;

  void (*destroy)(
      struct df_segment *segment); /* releases base; NULL: base is a mapping of a memfd */
  int device, has_handle, is_mapping;
  int closing, may_be_read; /* a mapping that must be closed (transports/shm/unmap.c) */
  void *primary;            /* primary context of the device, retained */
  uint8_t handle[DF_SEGMENT_HANDLE_BYTES];
} df_segment;

/* Makes a zeroed segment; `bytes` is rounded up to pages. Fails with dfcclOutOfMemory or
 * dfcclSystemError. */
dfcclResult_t df_segment_create(df_segment **segment, uint64_t id, size_t bytes);
/* Maps a segment of a peer, after checking the size and the seals of the file. Takes ownership of
 * fd, and closes it. */
dfcclResult_t df_segment_map(df_segment **segment, uint64_t id, size_t bytes, int fd);
void df_segment_destroy(df_segment *segment);
/* Returns how many of these bytes are in pages that exist. Device memory exists as a whole. */
uint64_t df_segment_used(const df_segment *segment, uint64_t offset, uint64_t bytes);
/* The same for memory of pages at any address. */
uint64_t df_segment_used_at(const uint8_t *address, uint64_t bytes);
/* Leaves the segments to the ranks of this process, which may still point into them. */
void df_segment_bury(df_process_inbox *world, df_segment *segments);
/* Keeps the segments until the process ends. */
void df_segment_abandon(df_segment *segments);
/* Allocates the pages now, so that the first lap of a ring has no page faults. Failures are
 * ignored. */
void df_segment_populate(const df_segment *segment, uint64_t offset, uint64_t bytes);
/* The same for memory at an address within a segment. */
void df_segment_populate_at(const uint8_t *address, uint64_t bytes);

typedef struct df_range {
  df_segment *segment;
  uint64_t offset, bytes;
  struct df_range *next;
} df_range;

/* Free memory of an arena of memfds is zero, unless it stays dirty, and its whole pages have been
 * returned to the system. So a range costs only the pages that its owner writes. */
typedef struct df_arena {
  df_segment *segments;
  df_range *free_ranges;  /* sorted by segment and offset; no two are adjacent */
  df_range *dirty_ranges; /* large ranges that were given back, and must become zero first */
  uint32_t is_dirty;      /* there are such ranges; the service thread reads it without the lock */
  /* Its service thread makes dirty ranges zero, without the lock. NULL: df_arena_give does so. */
  df_control *cleaner;
  uint64_t next_id;
  uint64_t used_bytes;
  /* Makes a segment; NULL and segment_bytes 0: memfds of the standard size. */
  dfcclResult_t (*create)(void *owner, df_segment **segment, uint64_t id, size_t bytes);
  void *owner;
  uint64_t segment_bytes;
  /* create may wait: callers make segments without the lock. */
  int grows_apart;
  int keeps_contents; /* ranges that are given back keep their contents, and are not taken again */
  /* Ranges that are given back are not made zero: a peer's block may still read them, whose run was
   * cancelled, and what it reads does not matter. */
  int stays_dirty;
} df_arena;

/* Takes a range, which is zero if the arena has memfds and its ranges do not stay dirty. `bytes`: a
 * multiple of a cache line.
 * dfcclInProgress: first add a segment of df_arena_wants bytes. */
dfcclResult_t df_arena_take(df_arena *arena, uint64_t bytes, df_range *range);
/* The same for grows_apart: unlocks the lock while the arena grows. */
dfcclResult_t df_arena_take_apart(df_arena *arena, df_rank_mutex *lock, uint64_t bytes,
                                  df_range *range) DF_RANK_LOCKED;
uint64_t df_arena_wants(const df_arena *arena, uint64_t bytes);
/* Takes ownership of the segment on dfcclSuccess; fails with dfcclOutOfMemory. */
dfcclResult_t df_arena_add(df_arena *arena, df_segment *segment);
/* Nobody writes to the range any more. */
void df_arena_give(df_arena *arena, const df_range *range);
static inline int df_arena_is_dirty(const df_arena *arena) {
  return df_load_relaxed_u32(&arena->is_dirty) != 0;
}
/* Makes one dirty range zero, and then free. The service thread calls it without the lock. */
void df_arena_clean(df_arena *arena, df_rank_mutex *lock);
/* Returns the bytes of pages that exist. */
uint64_t df_arena_used(const df_arena *arena);
/* Frees everything except the segments, which must outlive readers in this process. */
df_segment *df_arena_dissolve(df_arena *arena);

#endif
