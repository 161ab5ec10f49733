/*
 * Segment: memory that other processes of the host can map. A memfd, so that nothing has a name and
 * nothing stays behind, even after SIGKILL; its size is sealed, so that no peer can make our
 * accesses fault. And an arena: many small ranges (links) in a few segments. Not thread-safe: the
 * context's lock protects both.
 */
#ifndef DF_TRANSPORTS_SHM_SEGMENT_H
#define DF_TRANSPORTS_SHM_SEGMENT_H

#include "base/limits.h"
#include "base/result.h"
#include "control/world.h"

typedef struct df_segment {
  df_remains remains; /* first: of one that is buried */
  uint64_t id;        /* unique in its context */
  uint8_t *base;
  size_t bytes;
  int fd;                  /* -1: a mapping, or a device's memory */
  struct df_segment *next; /* owner's list */

  /* A device's memory (segment_cuda.h): what peers get in place of a file descriptor. */
  void (*destroy)(struct df_segment *segment); /* gives base back; NULL: a memfd's mapping */
  int device, has_handle, is_mapping;
  int closing, may_be_read; /* a mapping that is to be closed, see transports/ipc/unmap.c */
  void *primary;            /* the device's context, which the segment retains */
  uint8_t handle[DF_SEGMENT_HANDLE_BYTES];
} df_segment;

/* Zeroed memory of at least `bytes`, rounded up to pages. dfcclOutOfMemory or dfcclSystemError. */
dfcclResult_t df_segment_create(df_segment **segment, uint64_t id, size_t bytes);
/* Maps a segment received from a peer; takes fd, closes it. The size is checked against the file's
 * and its seals. */
dfcclResult_t df_segment_map(df_segment **segment, uint64_t id, size_t bytes, int fd);
void df_segment_destroy(df_segment *segment);
/* Hands a list of them to the ranks of this process, who may still point into them. */
void df_segment_bury(df_world *world, df_segment *segments);
/* Keeps a list of them until the process ends. */
void df_segment_abandon(df_segment *segments);
/* Gives the range its pages now, in this process, so that the first lap of a ring takes no page
 * faults. Best effort. */
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
  /* How segments are made, and how large at least; NULL, 0: memfds of the standard size. */
  dfcclResult_t (*create)(void *owner, df_segment **segment, uint64_t id, size_t bytes);
  void *owner;
  uint64_t segment_bytes;
  /* Not 0: segments are made by who takes ranges, outside of the lock, since the call may wait. */
  int grows_apart;
} df_arena;

/* A range of `bytes` (a multiple of a cache line), not zeroed. dfcclInProgress: the arena has none
 * and grows_apart: a segment of df_arena_wants bytes is to be added. */
dfcclResult_t df_arena_take(df_arena *arena, uint64_t bytes, df_range *range);
/* The same, for an arena that grows_apart: the lock, which is held, is let go while it grows. */
dfcclResult_t df_arena_take_apart(df_arena *arena, pthread_mutex_t *lock, uint64_t bytes,
                                  df_range *range);
uint64_t df_arena_wants(const df_arena *arena, uint64_t bytes);
/* The segment is the arena's after dfcclSuccess; else dfcclOutOfMemory. */
dfcclResult_t df_arena_add(df_arena *arena, df_segment *segment);
void df_arena_give(df_arena *arena, const df_range *range);
/* Detaches the list of segments (they must outlive readers in this process) and frees the rest. */
df_segment *df_arena_dissolve(df_arena *arena);

#endif
