/*
 * Static context: what a collective is. Three structs, by writer. Each has memory of its own if a
 * device's memory is not the host's:
 *
 *   df_descriptor    constants: the host writes them at registration and link set-up, the daemon
 *                    reads them from the first submission on; in the device's memory
 *   df_run_words     the host writes them while the daemon runs; in host memory
 *   df_run_counters  the daemon's blocks write them for each other; in the device's memory
 */
#ifndef DF_CONTEXT_DESCRIPTOR_H
#define DF_CONTEXT_DESCRIPTOR_H

#include "base/atomic.h"
#include "base/limits.h"

struct df_link;     /* primitives/link.h */
struct df_prepared; /* primitives/prepared.h */

/*
 * One primitive: v = [received] (op) [source]; store v to the destination; send v. A plan is a list
 * of primitives. A reduction that receives nothing works in place: v = destination (op) source.
 */
typedef enum {
  DF_PRIM_RECV = 1,
  DF_PRIM_REDUCE = 2, /* combine what was received with the source */
  DF_PRIM_STORE = 4,  /* write to the destination */
  DF_PRIM_SEND = 8,
  DF_PRIM_AVERAGE = 16,       /* last reduction of dfcclAvg: divide by the group's size */
  DF_PRIM_STORE_TO_LEND = 32, /* write to the destination only if the message lends it */
  DF_PRIM_SOURCE_FIRST = 64   /* v = [source] (op) [received]: keeps the group's order */
} df_prim_flags;

typedef enum { DF_BUFFER_NONE, DF_BUFFER_INPUT, DF_BUFFER_OUTPUT, DF_BUFFER_SCRATCH } df_buffer;

/* A piece that goes to several peers in a row may go through one common slot in the sender's
 * memory: written once, and lent to each peer. */
typedef enum {
  DF_COMMON_NONE,
  DF_COMMON_WRITES, /* the first of these messages */
  DF_COMMON_LENDS   /* the others */
} df_common_use;

typedef struct df_primitive {
  uint8_t flags;
  uint8_t source;      /* df_buffer */
  uint8_t destination; /* df_buffer */
  uint8_t common;      /* df_common_use */
  uint16_t piece;      /* decides the length */
  uint16_t source_piece;
  uint16_t destination_piece;
  uint16_t recv_link; /* index into the block's links */
  uint16_t send_link;
  uint16_t recv_ordinal; /* which of the loop's messages on that link */
  uint16_t send_ordinal;
} df_primitive;
DF_STATIC_ASSERT(sizeof(df_primitive) == 18, "plans are shared with the device as they are");

/* How pieces lie in a buffer. */
typedef enum {
  DF_GEOMETRY_PARTITION, /* in each loop, piece p is the p-th chunk of the buffer */
  /* The buffer is a row of pieces of `count` elements: in each loop, the same chunk of each. */
  DF_GEOMETRY_PIECES
} df_geometry;

/* One block's part of the buffer (PARTITION) or of each piece (PIECES), in elements. */
typedef struct df_part {
  uint64_t first, elements;
  uint32_t chunk; /* most elements of one message */
  uint32_t loops;
} df_part;

typedef struct df_run_arguments {
  const void *send;
  void *recv;
  uint16_t send_reach, recv_reach; /* in the descriptor's table of reaches; 0: none */
  uint32_t ticket; /* in the descriptor's table of tickets: a stream owns the buffers; 0: none */
} df_run_arguments;
DF_STATIC_ASSERT(DF_MAX_REACHES <= UINT16_MAX, "a reach's number fits a run's arguments");

typedef struct df_run_words {
  DF_ALIGNED(64) df_run_arguments runs[DF_RUNS_AHEAD]; /* by run number */
  uint32_t cancel;      /* dfcclResult_t: not 0: give up, complete every run with it */
  uint32_t common_mask; /* common slots of each block, a power of two, less one */
  /* The common slots, a link's stride apart; 0: none, or some reader has not mapped them yet. */
  uint64_t common;
  const uint64_t *common_reach; /* by rank: added to an address there, the peer's address */
} df_run_words;
DF_STATIC_ASSERT(sizeof(df_run_words) == 128, "1,000 collectives fit the design's limit");

typedef struct df_run_counters {
  uint32_t blocks_done[DF_RUNS_AHEAD];    /* across blocks */
  uint32_t blocks_gave_up[DF_RUNS_AHEAD]; /* status of a block that saw cancel, 0: none */
} df_run_counters;

/* A run whose buffers belong to a stream, which the daemon cannot see. The stream writes `input`
 * when it has reached the run; the run begins once input >= wanted (modulo 2^64). The host writes
 * `output` when the run is through. Numbers only grow, so an entry can be used again. */
typedef struct df_stream_ticket {
  uint64_t input, wanted, output;
  uint64_t reserved;
} df_stream_ticket;

/* Results that are too large for the caches are written past them. In place this is a detour if the
 * run has just read the same lines, and none if it only overwrites them. */
typedef enum {
  DF_STREAM_NEVER,
  DF_STREAM_OUT_OF_PLACE,
  DF_STREAM_ALWAYS /* the operation reads nothing that it overwrites */
} df_stream_results;

/* What a run may lend besides the buffers that it only reads. */
typedef enum {
  DF_LENDS_IN_PLACE = 1, /* buffers of a run in place */
  DF_LENDS_STREAMED = 2  /* results that, not lent, would be written past the caches */
} df_may_lend;

typedef struct df_descriptor {
  const df_primitive *primitives;
  struct df_link *links; /* [n_blocks][n_links] */
  uint8_t *scratch;      /* [n_blocks][scratch_bytes]; NULL: the plan has none */
  df_part *parts;        /* [n_blocks] */
  df_run_words *words;
  df_run_counters *counters;
  uint64_t *progress;  /* [n_blocks] df_cursor_progress, for the host's dumps */
  uint64_t count;      /* elements of the buffer (PARTITION) or of a piece (PIECES) */
  uint64_t direct_min; /* bytes from which a message lends its buffer; UINT64_MAX: never */
  uint64_t scratch_bytes;
  const uint64_t *const *reaches; /* [DF_MAX_REACHES] see df_cursor; entry 0 is NULL */
  const df_stream_ticket *tickets;
  const struct df_prepared *prepared; /* [n_primitives] of block 0; NULL: not kept */
  int32_t priority;
  uint32_t generation; /* registrations of this entry before */
  uint16_t n_primitives, n_links;
  uint16_t pieces;
  uint16_t divisor; /* of dfcclAvg */
  uint8_t n_blocks;
  uint8_t geometry, type;
  uint8_t op; /* dfcclSum for dfcclAvg: plans divide */
  uint8_t element_bytes;
  uint8_t lends;  /* df_may_lend */
  uint8_t stream; /* df_stream_results */
} df_descriptor;
DF_STATIC_ASSERT(sizeof(df_descriptor) == 128, "1,000 collectives fit the design's limit");

#endif
