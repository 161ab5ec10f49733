/* Segment: memory that other processes of the host can map. As a memfd it leaves nothing behind,
 * even after SIGKILL. Its size is sealed: no peer can make our accesses fault. Arena: many ranges
 * in a few segments. Not thread-safe: the context's lock protects both. */
#ifndef DF_TRANSPORTS_SHM_SEGMENT_H
#define DF_TRANSPORTS_SHM_SEGMENT_H

#include "base/limits.h"
#include "base/result.h"
#include "control/process_inbox.h"

typedef struct df_segment {
  df_remains remains; /* first: of one that is buried */
  uint64_t id;
  uint8_t *base;
  size_t bytes;
  int fd; /* -1: a mapping, or a device's memory */
  struct df_segment *next;

  void (*destroy)(struct df_segment *segment); /* gives base back; NULL: a memfd's mapping */
  int device, has_handle, is_mapping;
  int closing, may_be_read; /* a mapping that must go (transports/shm/unmap.c) */
  void *primary;            /* the device's context, retained */
  uint8_t handle[DF_SEGMENT_HANDLE_BYTES];
} df_segment;

/* Zeroed, `bytes` rounded up to pages. dfcclOutOfMemory or dfcclSystemError. */
dfcclResult_t df_segment_create(df_segment **segment, uint64_t id, size_t bytes);
/* Takes fd, closes it. Checks the file's size and seals. */
dfcclResult_t df_segment_map(df_segment **segment, uint64_t id, size_t bytes, int fd);
void df_segment_destroy(df_segment *segment);
/* Hands them to the ranks of this process, who may still point into them. */
void df_segment_bury(df_process_inbox *world, df_segment *segments);
/* Keeps them until the process ends. */
void df_segment_abandon(df_segment *segments);
/* Best effort: takes the pages now, so that a ring's first lap has no page faults. */
void df_segment_populate(const df_segment *segment, uint64_t offset, uint64_t bytes);

typedef struct df_range {
  df_segment *segment;
  uint64_t offset, bytes;
  struct df_range *next;
} df_range;

typedef struct df_arena {
  df_segment *segments;
  df_range *free_ranges; /* by segment and offset, never two adjacent */
  uint64_t next_id;
  uint64_t used_bytes;
  /* NULL, 0: memfds of the standard size. */
  dfcclResult_t (*create)(void *owner, df_segment **segment, uint64_t id, size_t bytes);
  void *owner;
  uint64_t segment_bytes;
  /* create may wait: callers make segments outside of the lock. */
  int grows_apart;
} df_arena;

/* `bytes`: a multiple of a cache line; not zeroed. dfcclInProgress: add a segment of
 * df_arena_wants. */
dfcclResult_t df_arena_take(df_arena *arena, uint64_t bytes, df_range *range);
/* For grows_apart: lets the lock, which is held, go while it grows. */
dfcclResult_t df_arena_take_apart(df_arena *arena, pthread_mutex_t *lock, uint64_t bytes,
                                  df_range *range);
uint64_t df_arena_wants(const df_arena *arena, uint64_t bytes);
/* Takes the segment on dfcclSuccess; else dfcclOutOfMemory. */
dfcclResult_t df_arena_add(df_arena *arena, df_segment *segment);
void df_arena_give(df_arena *arena, const df_range *range);
/* Frees all but the segments, which must outlive readers in this process. */
df_segment *df_arena_dissolve(df_arena *arena);

#endif
