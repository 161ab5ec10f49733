/*
 * Plans: what each rank of a group does in one loop of a collective, as data for the step function.
 * A plan depends on operation, algorithm, group size, position and root, never on the count:
 * collectives share it. To add an algorithm, write a builder (build.h) and name it in plan.c's
 * table. The daemon does not change.
 */
#ifndef DF_PLANS_PLAN_H
#define DF_PLANS_PLAN_H

#include "base/result.h"
#include "context/descriptor.h"
#include "primitives/link.h"

typedef enum {
  DF_OP_ALL_REDUCE,
  DF_OP_REDUCE,
  DF_OP_BROADCAST,
  DF_OP_ALL_GATHER,
  DF_OP_REDUCE_SCATTER,
  DF_OP_ALL_TO_ALL,
  DF_OP_COUNT
} df_operation;

const char *df_operation_name(df_operation operation); /* "AllReduce", ... */
int df_operation_reduces(df_operation operation);

/* Members compare these numbers: they belong to the library's version. */
typedef enum {
  DF_RING,
  DF_ALL_PAIRS,
  DF_PAIRWISE,
  DF_DOUBLING,
  DF_RABENSEIFNER,
  DF_HALVING,
  DF_BINOMIAL,
  DF_DOUBLE_TREE,
  DF_SCATTER_ALL_GATHER,
  DF_BRUCK,
  DF_DIRECT,
  DF_FLAT,
  DF_TWO_LEVEL,
  DF_ALGORITHMS
} df_algorithm;

const char *df_algorithm_name(int algorithm);
int df_algorithm_by_name(const char *name); /* -1: there is none */
int df_algorithm_has(int algorithm, df_operation operation);

typedef struct df_plan_key {
  df_operation operation;
  int algorithm; /* df_algorithm */
  uint32_t n, position, root;
  uint32_t split; /* neighbours in a subgroup, for algorithms with two levels; else 0 */
  int average;    /* dfcclAvg: the last reduction divides */
} df_plan_key;

typedef struct df_plan_link {
  uint16_t peer;  /* position in the group */
  uint16_t sends; /* 1: from this rank to the peer; 0: from the peer */
  uint32_t messages;
} df_plan_link;

typedef struct df_plan {
  df_plan_key key;
  df_primitive *primitives;
  df_plan_link *links;
  uint32_t n_primitives, n_links;
  /* The same at all positions: */
  df_geometry geometry;
  uint32_t pieces;         /* PARTITION: chunks that one loop covers */
  uint32_t scratch_pieces; /* chunks of scratch memory for each block */
  int direct_in_place;     /* an in-place run may lend buffers to peers */
  /* the builder's */
  uint32_t primitive_capacity, link_capacity;
  int failed;
} df_plan;

/* Makes a plan; the caller frees it. NULL: out of memory. */
df_plan *df_plan_make(const df_plan_key *key);
void df_plan_free(df_plan *plan);

/* For builders: appends a primitive. Peers are positions, or DF_NO_PEER. Links and ordinals follow.
 */
#define DF_NO_PEER UINT32_MAX
typedef struct df_step_spec {
  uint32_t flags, piece;
  uint32_t recv_from, send_to;
  df_buffer source;
  uint32_t source_piece;
  df_buffer destination;
  uint32_t destination_piece;
} df_step_spec;
void df_plan_add(df_plan *plan, df_step_spec spec);

/* The builders, one file each. Groups of one have a plan of their own. */
void df_plan_ring(df_plan *plan);
void df_plan_all_pairs(df_plan *plan);
void df_plan_pairwise(df_plan *plan);
void df_plan_doubling(df_plan *plan);
void df_plan_rabenseifner(df_plan *plan);
void df_plan_halving(df_plan *plan);
void df_plan_binomial(df_plan *plan);
void df_plan_double_tree(df_plan *plan);
void df_plan_scatter_allgather(df_plan *plan);
void df_plan_bruck(df_plan *plan);
void df_plan_direct(df_plan *plan);
void df_plan_flat(df_plan *plan);
void df_plan_two_level(df_plan *plan);

/* How the elements are cut: blocks, chunks, loops, slots. All members must agree. */
typedef struct df_shape_limits {
  uint64_t slot_bytes;  /* most payload of a slot */
  uint32_t slots;       /* of a link for large payloads */
  uint32_t flagged_max; /* bytes up to which a link is flagged */
  uint32_t packed_max;  /* bytes up to which flagged slots may share their lines */
  uint32_t words_max;   /* bytes up to which payload travels in words; 0: never */
  uint64_t block_min;   /* bytes below which another block is not worth it */
  uint32_t max_blocks;
} df_shape_limits;

typedef struct df_shape {
  uint32_t n_blocks;
  uint32_t n_slots, stride, payload_offset; /* of every link */
  uint64_t scratch_bytes;                   /* of each block */
  df_part parts[DF_MAX_BLOCKS];
} df_shape;

void df_shape_make(df_shape *shape, const df_plan *plan, uint64_t count, uint32_t element_bytes,
                   const df_shape_limits *limits);

#endif
