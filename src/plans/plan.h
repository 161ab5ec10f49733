/*
 * Plans: the work of each rank in one loop of a collective, as data for the step function. A plan
 * does not depend on the count, so collectives can share it. A new algorithm needs a builder
 * (build.h) and an entry in the table of plan.c.
 */
#ifndef DF_PLANS_PLAN_H
#define DF_PLANS_PLAN_H

#include "base/result.h"
#include "context/descriptor.h"
#include "plans/cuts.h"
#include "plans/levels.h"
#include "plans/operation.h"
#include "primitives/link.h"

/* Members compare these numbers. */
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
  DF_DISSEMINATION,
  DF_ORDERED,
  DF_PAT,
  DF_HIERARCHICAL,
  DF_BCUBE,
  DF_BINARY_BLOCKS,
  DF_TREES,
  DF_ALGORITHMS,
  DF_FROM_FILE = DF_ALGORITHMS /* the algorithm is in the key's file (plans/msccl/file.h) */
} df_algorithm;

const char *df_algorithm_name(int algorithm);
int df_algorithm_by_name(const char *name); /* -1: unknown name */
int df_algorithm_has(int algorithm, df_operation operation);
enum { DF_ALGORITHM_SENTENCE_BYTES = 384 };
/* Writes why no algorithm of that name can be used, and which ones can, and returns the text.
 * operation, with its name for the reader: -1 and NULL if it is not known. */
const char *df_algorithm_explain(const char *name, int operation, const char *operation_name,
                                 char text[DF_ALGORITHM_SENTENCE_BYTES]);
/* Returns 1 if operands are combined in the order of the group, for any root (proven in
 * unit/test_plan_check.c). */
int df_algorithm_keeps_order(int algorithm, df_operation operation);

typedef struct df_plan_key {
  df_operation operation;
  int algorithm; /* df_algorithm */
  uint32_t n, position, root;
  uint32_t split; /* number of neighbours in a subgroup; 0: one level */
  int average;
  int agrees;  /* 1: the plan ends with an agreement (plans/algorithms/agree.c) */
  int settles; /* 1: the plan ends with a settling round (plans/algorithms/settle.c) */
  df_cuts cuts;
  /* Levels of DF_HIERARCHICAL. NULL: subgroups of `split` neighbours are hosts. The plan has its
   * own copy. */
  const df_levels *levels;
  const struct df_plan_file *file; /* the file of DF_FROM_FILE */
  /* The trees of DF_TREES, which outlive the plan. NULL: stars, as in direct.c and flat.c. */
  const struct df_trees *trees;
} df_plan_key;

typedef struct df_plan_link {
  uint16_t peer;    /* position in the group */
  uint16_t sends;   /* 1: to the peer; 0: from the peer */
  uint16_t channel; /* number among the channels between two ranks in one direction */
  uint32_t messages;
} df_plan_link;

/* PIECE_TABLE, for the checker: chunk `chunk` of the data from one position to another. */
typedef struct df_plan_name {
  uint32_t from, to, chunk;
  int output;
} df_plan_name;

typedef struct df_plan {
  df_plan_key key;
  df_levels *own_levels; /* the memory of key.levels, or NULL */
  df_primitive *primitives;
  df_plan_link *links;
  uint32_t n_primitives, n_links;
  df_extent *extents;  /* PIECE_TABLE: the pieces; else NULL */
  df_plan_name *names; /* [n_extents] */
  uint32_t n_extents;
  uint32_t chunk; /* PIECE_TABLE: largest number of elements of a message, equal at all positions */
  /* The following members are equal at all positions: */
  df_geometry geometry;
  uint32_t pieces;         /* PARTITION: number of chunks of one loop */
  uint32_t scratch_pieces; /* number of chunks of scratch memory for each block */
  uint32_t longest;        /* largest number of pieces of a message */
  int direct_in_place;     /* 1: an in-place run may lend */
  int lends_all;           /* 1: all messages can be lent, since none comes from scratch memory */
  int lends_nothing;       /* 1: nothing may be lent, since it might be overwritten */
  uint32_t least_slots;    /* least number of slots of a link without which ranks would wait for
                              each other; 0: any number */
  /* The following members are used only while the plan is built: */
  uint32_t primitive_capacity, link_capacity;
  uint16_t *link_of; /* [2][channels][n] by direction and peer: the link's number + 1 */
  uint32_t channels;
  int failed;
} df_plan;

/* The caller frees it. NULL: out of memory. */
df_plan *df_plan_make(const df_plan_key *key);
void df_plan_free(df_plan *plan);
/* Bytes of memory of the plan. */
uint64_t df_plan_bytes(const df_plan *plan);
/* For builders outside of df_plan_make: a plan without primitives. */
df_plan *df_plan_begin(const df_plan_key *key);
void df_plan_empty(df_plan *plan);
/* Finds messages that may use common slots. The plan must be finished. */
void df_plan_mark_common(df_plan *plan);

/* For builders. Peers are positions or DF_NO_PEER. */
#define DF_NO_PEER UINT32_MAX
typedef struct df_step_spec {
  uint32_t flags, piece;
  uint32_t pieces, stride; /* pieces 0 counts as 1 */
  uint32_t recv_from, send_to, channel;
  df_buffer source;
  uint32_t source_piece;
  df_buffer destination;
  uint32_t destination_piece;
} df_step_spec;
void df_plan_add(df_plan *plan, df_step_spec spec);

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
void df_plan_dissemination(df_plan *plan);
void df_plan_pat(df_plan *plan);
void df_plan_hierarchical(df_plan *plan);
void df_plan_bcube(df_plan *plan);
void df_plan_binary_blocks(df_plan *plan);
void df_plan_trees(df_plan *plan);
void df_plan_ordered(df_plan *plan);
/* Makes a plan from a file (plans/msccl/file.h); the proof of a file needs it too. */
void df_plan_from_file(df_plan *plan);
uint32_t df_plan_file_channels(const struct df_plan_file *file);
/* Appends the agreement to one of the plans above. */
void df_plan_agree(df_plan *plan);
/* Appends the settling round to any plan, after everything else. */
void df_plan_settle(df_plan *plan);

/* The limits of a shape, equal on all members. */
typedef struct df_shape_limits {
  uint64_t slot_bytes;  /* largest payload of a slot, in bytes */
  uint64_t lent_bytes;  /* largest message, in bytes, that is certainly lent; 0: none is */
  uint64_t lent_min;    /* least number of bytes of a message that is lent; shorter ones
                           need slots */
  uint32_t slots;       /* number of slots for large payloads */
  uint32_t flagged_max; /* largest payload of a flagged link, in bytes */
  uint32_t packed_max;  /* largest payload of slots that share lines, in bytes */
  uint32_t words_max;   /* largest payload of the LL protocol, in bytes; 0: never used */
  uint64_t block_min;   /* least number of bytes of a block */
  uint32_t max_blocks;
  int varying;
} df_shape_limits;

/* The limit that has determined the place of the payload (payload_offset). */
typedef enum {
  DF_FORM_BY_COUNT,   /* varying: a count precedes the payload */
  DF_FORM_BY_WORDS,   /* at most words_max bytes */
  DF_FORM_BY_FLAGGED, /* at most flagged_max bytes */
  DF_FORM_BY_LENGTH   /* longer than both limits */
} df_form_reason;

typedef struct df_shape {
  uint32_t n_blocks;
  uint32_t n_slots, stride, payload_offset; /* equal for every link */
  df_form_reason form;                      /* not compared between members */
  uint64_t scratch_bytes;                   /* bytes of scratch memory of each block */
  df_part parts[DF_MAX_BLOCKS];
} df_shape;

/* The number of blocks among which the count is divided. */
uint32_t df_shape_blocks(uint64_t count, uint32_t element_bytes, const df_shape_limits *limits);
void df_shape_make(df_shape *shape, const df_plan *plan, uint64_t count, uint32_t element_bytes,
                   const df_shape_limits *limits);

#endif
