/* Static context: the constants of a collective. The host writes df_descriptor before the first
 * run, and df_run_words (host memory) during runs. The blocks write df_run_counters. */
#ifndef DF_CONTEXT_DESCRIPTOR_H
#define DF_CONTEXT_DESCRIPTOR_H

#include "base/atomic.h"
#include "base/limits.h"
#include "queues/record.h"

struct df_link;
struct df_prepared;

/* A primitive computes v = [received] (op) [source], stores v and sends v. If it reduces without
 * receiving, v = destination (op) source. */
typedef enum {
  DF_PRIM_RECV = 1,
  DF_PRIM_REDUCE = 2,
  DF_PRIM_STORE = 4,
  DF_PRIM_SEND = 8,
  DF_PRIM_AVERAGE = 16,       /* dfcclAvg: divides the result */
  DF_PRIM_STORE_TO_LEND = 32, /* stores only if the message lends the buffer */
  DF_PRIM_SOURCE_FIRST = 64   /* v = [source] (op) [received] */
} df_prim_flags;

typedef enum { DF_BUFFER_NONE, DF_BUFFER_INPUT, DF_BUFFER_OUTPUT, DF_BUFFER_SCRATCH } df_buffer;

/* A piece that is sent to several peers may be written once, to a common slot. */
typedef enum { DF_COMMON_NONE, DF_COMMON_WRITES, DF_COMMON_LENDS } df_common_use;

/* The value of `piece` for a message without elements, in the first loop of a varying run
 * (plans/algorithms/agree.c). */
#define DF_PIECE_NONE UINT16_MAX
/* The same in the last loop of any run (plans/algorithms/settle.c). */
#define DF_PIECE_SETTLES (UINT16_MAX - 1)

typedef struct df_primitive {
  uint8_t flags;
  uint8_t source; /* df_buffer */
  uint8_t destination;
  uint8_t common; /* df_common_use */
  uint16_t piece; /* the piece whose length the primitive has */
  /* Number of pieces of one message (0 counts as 1). In each place, piece i is i * stride further
   * (df_piece_further). */
  uint16_t pieces, stride;
  uint16_t source_piece;
  uint16_t destination_piece;
  uint16_t recv_link; /* index among the block's links */
  uint16_t send_link;
  uint16_t recv_ordinal; /* number of the message within the loop, on that link */
  uint16_t send_ordinal;
} df_primitive;
DF_STATIC_ASSERT(sizeof(df_primitive) == 22, "plans are shared with the device as they are");

typedef enum {
  DF_GEOMETRY_PARTITION, /* piece p is the p-th chunk of the loop */
  /* a row of pieces; a loop processes one chunk of each */
  DF_GEOMETRY_PIECES,
  DF_GEOMETRY_PIECE_TABLE, /* pieces are df_extents; there is one block and one loop */
  /* a row of equal buffers, each cut as PARTITION cuts: piece p is chunk p % pieces of buffer p /
   * pieces */
  DF_GEOMETRY_GRID
} df_geometry;

/* The first element of a piece in its buffer, and the number of its elements. */
typedef struct df_extent {
  uint64_t at;
  uint32_t elements;
} df_extent;

/* A block's part of the buffer or, with PIECES, of each piece. Units are elements. */
typedef struct df_part {
  uint64_t first, elements;
  uint32_t chunk; /* largest number of elements of one message */
  uint32_t loops;
} df_part;

typedef struct df_run_words {
  DF_ALIGNED(64) df_run_arguments runs[DF_RUNS_AHEAD]; /* run r is at r % DF_RUNS_AHEAD */
  /* Status of a collective that is given up (dfcclResult_t); 0: none. */
  uint32_t cancel;
  /* Number of common slots of each block, minus one. */
  uint32_t common_mask;
  /* Address of the common slots, which are a link's stride apart. 0: there are none, or not every
   * reader has mapped them yet. */
  uint64_t common;
  const uint64_t *common_mapping; /* by rank: address at the peer minus address here */
  /* Varying: run r has counts[r % DF_RUNS_AHEAD * count_step] elements; 0: the registered count. */
  const uint64_t *counts;
} df_run_words;
DF_STATIC_ASSERT(sizeof(df_run_words) == 128, "1,000 collectives fit the design's limit");

/* The ways in which runs of a collective differ in their counts. */
typedef enum { DF_VARIES_NOT, DF_VARIES_BY_RUN, DF_VARIES_BY_PAIR } df_varies;

/* The counts of one run of a dynamic all-to-all, between this rank and one position. The host makes
 * them. */
typedef struct df_peer_count {
  uint64_t sends, send_at, recv_at; /* counts and displacements in elements */
  uint64_t receives;                /* DF_COUNT_UNKNOWN until the first message has arrived */
} df_peer_count;
#define DF_COUNT_UNKNOWN UINT64_MAX

typedef struct df_pair_counts {
  uint64_t run;
  size_t *recv_counts; /* [n] the application's recvCounts; or NULL */
  df_peer_count of[];  /* [n] by position */
} df_pair_counts;

typedef struct df_run_counters {
  uint32_t blocks_done[DF_RUNS_AHEAD];
  uint32_t blocks_gave_up[DF_RUNS_AHEAD]; /* Status with which a block has given the run up; 0:
                                             none. */
  /* The reason why a block gave up, written before words->cancel. Varying: a count, and its rank,
   * that differs. CPU: a buffer, and the rank that lent it, that could not be read by a call. */
  union {
    uint64_t differing_count;
    uint64_t unread_address;
  };
  union {
    uint32_t differing_rank;
    uint32_t unread_rank;
  };
  uint32_t unread_error; /* error number; 0: none */
} df_run_counters;

/* Status of a block that gives a run up because it is taken back (host/runs/recall.c). It is no
 * dfcclResult_t. */
enum { DF_CANCEL_RECALLED = 63 };

/* CPU, in jobs that go on without lost ranks. */
/* A run in place overwrites its input, which must be there if the run is executed again. */
typedef struct df_kept_input {
  uint8_t *copy;      /* NULL: the input is not kept */
  uint64_t rows;      /* rows of the input: each block keeps its part of each */
  uint64_t row_bytes; /* a varying run may have shorter rows */
  uint32_t blocks;    /* bits of the blocks that have copied their part */
} df_kept_input;

typedef struct df_survivors {
  /* Input and output have the layout of the registration. Numbers of the pieces of the present
   * members; NULL: the pieces are side by side. */
  const uint32_t *places[2];
  df_kept_input kept[DF_RUNS_AHEAD]; /* by slot */
} df_survivors;

/* When results are stored past the caches. In place, this is a detour if the run has just read
 * those lines. */
typedef enum {
  DF_STREAM_NEVER,
  DF_STREAM_OUT_OF_PLACE,
  DF_STREAM_ALWAYS /* the run reads nothing that it overwrites */
} df_stream_results;

/* Bits of df_descriptor.lends: the buffers that may be lent besides those that are only read, and
 * related flags. */
typedef enum {
  DF_LENDS_IN_PLACE = 1,
  DF_LENDS_STREAMED = 2,  /* results that would otherwise bypass the caches */
  DF_SCALES_INPUT = 4,    /* inputs are multiplied when they are read, so they are not lent */
  DF_COUNTS_OF_PEERS = 8, /* varying: `counts` contains the address of a df_pair_counts */
  DF_SURVIVES = 16        /* CPU: `survivors` is valid */
} df_may_lend;

typedef struct df_descriptor {
  const df_primitive *primitives;
  struct df_link *links; /* [n_blocks][n_links] */
  uint8_t *scratch;      /* [n_blocks][scratch_bytes]; or NULL */
  df_part *parts;        /* [n_blocks]; PIECE_TABLE: df_extents follow the only part */
  df_run_words *words;
  df_run_counters *counters;
  uint64_t *progress;  /* [n_blocks] df_cursor_progress of each block */
  uint64_t count;      /* number of elements; with PIECES, of a piece */
  uint64_t direct_min; /* least number of bytes of a message that lends */
  uint64_t scratch_bytes;
  const uint64_t *const *mappings; /* by the number of a mapped range; entry 0 is NULL */
  union {
    const uint64_t *inputs;  /* input words of stream events, by index, in device memory */
    df_survivors *survivors; /* with DF_SURVIVES */
  };
  union {
    const struct df_prepared *prepared; /* CPU: prepared primitives; or NULL */
    df_run_arguments *near_runs;        /* CUDA with a relay: copy of words->runs in device
                                           memory */
  };
  int32_t priority;
  uint32_t generation; /* number of earlier registrations of this index */
  uint16_t n_primitives, n_links;
  uint16_t pieces;
  uint16_t divisor; /* dfcclAvg: the divisor; or the number of an operator
                       (primitives/user_operator.h) */
  uint8_t n_blocks;
  uint8_t geometry, type;
  uint8_t op; /* dfcclRedOp_t; dfcclSum for dfcclAvg */
  uint8_t element_bytes;
  uint8_t lends;  /* bits df_may_lend */
  uint8_t stream; /* df_stream_results */
  /* Varying: distance from one run's count to the next in words->counts, which are in the host's
   * record. 0: all runs have `count` elements. */
  uint8_t count_step;
} df_descriptor;
DF_STATIC_ASSERT(sizeof(df_descriptor) == 128, "1,000 collectives fit the design's limit");

#endif
