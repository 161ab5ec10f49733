/* Static context: what a collective is. The host writes df_descriptor before the first run, and
 * df_run_words (host memory) during runs. Blocks write df_run_counters. */
#ifndef DF_CONTEXT_DESCRIPTOR_H
#define DF_CONTEXT_DESCRIPTOR_H

#include "base/atomic.h"
#include "base/limits.h"
#include "queues/record.h"

struct df_link;
struct df_prepared;

/* v = [received] (op) [source]; store v; send v. Receiving nothing: v = destination (op) source. */
typedef enum {
  DF_PRIM_RECV = 1,
  DF_PRIM_REDUCE = 2,
  DF_PRIM_STORE = 4,
  DF_PRIM_SEND = 8,
  DF_PRIM_AVERAGE = 16,       /* dfcclAvg: divide */
  DF_PRIM_STORE_TO_LEND = 32, /* store only if the message lends */
  DF_PRIM_SOURCE_FIRST = 64   /* v = [source] (op) [received] */
} df_prim_flags;

typedef enum { DF_BUFFER_NONE, DF_BUFFER_INPUT, DF_BUFFER_OUTPUT, DF_BUFFER_SCRATCH } df_buffer;

/* A piece for several peers may be written once, to a common slot. */
typedef enum { DF_COMMON_NONE, DF_COMMON_WRITES, DF_COMMON_LENDS } df_common_use;

/* In place of a piece: a message without elements, in a varying run's first loop
 * (plans/algorithms/agree.c). */
#define DF_PIECE_NONE UINT16_MAX

typedef struct df_primitive {
  uint8_t flags;
  uint8_t source; /* df_buffer */
  uint8_t destination;
  uint8_t common; /* df_common_use */
  uint16_t piece; /* decides the length */
  /* Of one message; 0 counts as 1. Piece i of each place is i * stride further
   * (df_piece_further). */
  uint16_t pieces, stride;
  uint16_t source_piece;
  uint16_t destination_piece;
  uint16_t recv_link; /* of the block's links */
  uint16_t send_link;
  uint16_t recv_ordinal; /* message of the loop, on that link */
  uint16_t send_ordinal;
} df_primitive;
DF_STATIC_ASSERT(sizeof(df_primitive) == 22, "plans are shared with the device as they are");

typedef enum {
  DF_GEOMETRY_PARTITION, /* piece p is the loop's p-th chunk */
  /* a row of pieces; one chunk of each in a loop */
  DF_GEOMETRY_PIECES,
  DF_GEOMETRY_PIECE_TABLE, /* pieces are df_extents; one block, one loop */
  /* a row of equal buffers, each cut as PARTITION cuts: piece p is chunk p % pieces of buffer
   * p / pieces */
  DF_GEOMETRY_GRID
} df_geometry;

/* Where a piece begins in its buffer, and how long it is; in elements. */
typedef struct df_extent {
  uint64_t at;
  uint32_t elements;
} df_extent;

/* A block's part of the buffer or, with PIECES, of each piece; in elements. */
typedef struct df_part {
  uint64_t first, elements;
  uint32_t chunk; /* most of one message */
  uint32_t loops;
} df_part;

typedef struct df_run_words {
  DF_ALIGNED(64) df_run_arguments runs[DF_RUNS_AHEAD]; /* Run r is at r modulo DF_RUNS_AHEAD. */
  uint32_t cancel;                                     /* dfcclResult_t; 0: not given up */
  uint32_t common_mask;                                /* slots of each block, less one */
  /* Slots a link's stride apart. 0: none, or not mapped by every reader yet. */
  uint64_t common;
  const uint64_t *common_mapping; /* by rank: the peer's address less ours */
  /* Varying: run r has counts[r % DF_RUNS_AHEAD * count_step] elements; 0: as registered. */
  const uint64_t *counts;
} df_run_words;
DF_STATIC_ASSERT(sizeof(df_run_words) == 128, "1,000 collectives fit the design's limit");

/* How runs vary. */
typedef enum { DF_VARIES_NOT, DF_VARIES_BY_RUN, DF_VARIES_BY_PAIR } df_varies;

/* All-to-all of the moment's counts: of one run, by position. The host makes it. */
typedef struct df_peer_count {
  uint64_t sends, send_at, recv_at; /* elements */
  uint64_t receives;                /* DF_COUNT_UNKNOWN until the first message tells */
} df_peer_count;
#define DF_COUNT_UNKNOWN UINT64_MAX

typedef struct df_pair_counts {
  uint64_t run;
  size_t *told;       /* [n] the application's; or NULL */
  df_peer_count of[]; /* [n] */
} df_pair_counts;

typedef struct df_run_counters {
  uint32_t blocks_done[DF_RUNS_AHEAD];
  uint32_t blocks_gave_up[DF_RUNS_AHEAD]; /* What a block gave the run up with; 0: nothing. */
  /* Varying: what made the block give up. Written before words->cancel. */
  uint64_t differing_count;
  uint32_t differing_rank;
} df_run_counters;

/* Bypassing the caches is a detour if a run in place has just read those lines. */
typedef enum {
  DF_STREAM_NEVER,
  DF_STREAM_OUT_OF_PLACE,
  DF_STREAM_ALWAYS /* it reads nothing that it overwrites */
} df_stream_results;

/* Besides buffers that are only read. */
typedef enum {
  DF_LENDS_IN_PLACE = 1,
  DF_LENDS_STREAMED = 2, /* results that would bypass the caches */
  DF_SCALES_INPUT = 4,   /* no lending: inputs are multiplied where they enter */
  DF_COUNTS_OF_PEERS = 8 /* varying: `counts` has the address of a df_pair_counts */
} df_may_lend;

typedef struct df_descriptor {
  const df_primitive *primitives;
  struct df_link *links; /* [n_blocks][n_links] */
  uint8_t *scratch;      /* [n_blocks][scratch_bytes] or NULL */
  df_part *parts;        /* [n_blocks]; LISTED: df_extents follow the only one */
  df_run_words *words;
  df_run_counters *counters;
  uint64_t *progress;  /* [n_blocks] df_cursor_progress */
  uint64_t count;      /* elements; with PIECES, of a piece */
  uint64_t direct_min; /* bytes from which messages lend */
  uint64_t scratch_bytes;
  const uint64_t *const *mappings; /* entry 0 is NULL */
  const uint64_t *inputs;          /* of tickets, by index: device memory */
  union {
    const struct df_prepared *prepared; /* CPU; or NULL */
    df_run_arguments *near_runs;        /* CUDA with a relay: as words->runs, in device memory */
  };
  int32_t priority;
  uint32_t generation; /* Earlier registrations of this index. */
  uint16_t n_primitives, n_links;
  uint16_t pieces;
  uint16_t divisor; /* of dfcclAvg; or the number of an operator (primitives/user_operator.h) */
  uint8_t n_blocks;
  uint8_t geometry, type;
  uint8_t op; /* dfcclSum for dfcclAvg */
  uint8_t element_bytes;
  uint8_t lends;  /* df_may_lend */
  uint8_t stream; /* df_stream_results */
  /* Varying: from run to run in words->counts, which lie in the host's record. 0: all runs have
   * `count` elements. */
  uint8_t count_step;
} df_descriptor;
DF_STATIC_ASSERT(sizeof(df_descriptor) == 128, "1,000 collectives fit the design's limit");

#endif
