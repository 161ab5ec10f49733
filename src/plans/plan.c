#include "plans/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/text.h"

#define BIT(operation) (1u << DF_OP_##operation)

static const struct {
  const char *name;
  uint32_t operations; /* one bit for each df_operation */
  void (*build)(df_plan *plan);
} algorithms[DF_ALGORITHMS] = {
    [DF_RING] = {"ring",
                 BIT(ALL_REDUCE) | BIT(REDUCE) | BIT(BROADCAST) | BIT(ALL_GATHER) |
                     BIT(REDUCE_SCATTER) | BIT(SCAN) | BIT(EXCLUSIVE_SCAN),
                 df_plan_ring},
    [DF_ALL_PAIRS] = {"allpairs", BIT(ALL_REDUCE), df_plan_all_pairs},
    [DF_PAIRWISE] = {"pairwise", BIT(ALL_TO_ALL), df_plan_pairwise},
    [DF_DOUBLING] = {"doubling",
                     BIT(ALL_REDUCE) | BIT(ALL_GATHER) | BIT(SCAN) | BIT(EXCLUSIVE_SCAN),
                     df_plan_doubling},
    [DF_RABENSEIFNER] = {"rabenseifner", BIT(ALL_REDUCE) | BIT(REDUCE), df_plan_rabenseifner},
    [DF_HALVING] = {"halving", BIT(REDUCE_SCATTER), df_plan_halving},
    [DF_BINOMIAL] = {"binomial", BIT(REDUCE) | BIT(BROADCAST), df_plan_binomial},
    [DF_DOUBLE_TREE] = {"doubletree", BIT(ALL_REDUCE) | BIT(REDUCE) | BIT(BROADCAST),
                        df_plan_double_tree},
    [DF_SCATTER_ALL_GATHER] = {"scatter-allgather", BIT(BROADCAST), df_plan_scatter_allgather},
    [DF_BRUCK] = {"bruck", BIT(ALL_GATHER) | BIT(ALL_TO_ALL), df_plan_bruck},
    [DF_DIRECT] = {"direct",
                   BIT(ALL_REDUCE) | BIT(ALL_GATHER) | BIT(REDUCE_SCATTER) | BIT(ALL_TO_ALL) |
                       BIT(SEND_RECV) | BIT(BARRIER),
                   df_plan_direct},
    [DF_FLAT] = {"flat",
                 BIT(ALL_REDUCE) | BIT(REDUCE) | BIT(BROADCAST) | BIT(GATHER) | BIT(SCATTER) |
                     BIT(BARRIER),
                 df_plan_flat},
    [DF_TWO_LEVEL] = {"twolevel",
                      BIT(ALL_REDUCE) | BIT(REDUCE) | BIT(BROADCAST) | BIT(ALL_GATHER) |
                          BIT(REDUCE_SCATTER) | BIT(BARRIER),
                      df_plan_two_level},
    [DF_ORDERED] = {"ordered", BIT(REDUCE) | BIT(REDUCE_SCATTER), df_plan_ordered},
    [DF_PAT] = {"pat", BIT(ALL_GATHER) | BIT(REDUCE_SCATTER), df_plan_pat},
    [DF_HIERARCHICAL] = {"hierarchical",
                         BIT(ALL_REDUCE) | BIT(REDUCE) | BIT(BROADCAST) | BIT(ALL_GATHER) |
                             BIT(REDUCE_SCATTER) | BIT(ALL_TO_ALL),
                         df_plan_hierarchical},
    [DF_BCUBE] = {"bcube", BIT(ALL_REDUCE), df_plan_bcube},
    [DF_BINARY_BLOCKS] = {"binaryblocks", BIT(ALL_REDUCE), df_plan_binary_blocks},
    [DF_TREES] = {"trees",
                  BIT(ALL_REDUCE) | BIT(REDUCE) | BIT(BROADCAST) | BIT(ALL_GATHER) |
                      BIT(REDUCE_SCATTER),
                  df_plan_trees},
    [DF_DISSEMINATION] = {"dissemination", BIT(BARRIER), df_plan_dissemination},
};

const char *df_algorithm_name(int algorithm) {
  return algorithm == DF_FROM_FILE ? "file" : algorithms[algorithm].name;
}

int df_algorithm_by_name(const char *name) {
  for (int i = 0; i < DF_ALGORITHMS; i++)
    if (strcmp(name, algorithms[i].name) == 0) return i;
  return -1;
}

int df_algorithm_has(int algorithm, df_operation operation) {
  if (df_operation_has_piece_table(operation)) return algorithm == DF_DIRECT;
  return algorithms[algorithm].operations >> operation & 1;
}

const char *df_algorithm_explain(const char *name, int operation, const char *operation_name,
                                 char text[DF_ALGORITHM_SENTENCE_BYTES]) {
  df_text out = {.at = text, .left = DF_ALGORITHM_SENTENCE_BYTES};
  char shown[64];
  df_escape(shown, sizeof shown, name);
  if (df_algorithm_by_name(name) < 0)
    df_say(&out, "unknown algorithm \"%s\";%s", shown, operation < 0 ? " known are" : "");
  else
    df_say(&out, "%s has no algorithm \"%s\";", operation_name, shown);
  if (operation >= 0) df_say(&out, " %s has", operation_name);
  int n = 0;
  for (int i = 0; i < DF_ALGORITHMS; i++)
    if (operation < 0 || df_algorithm_has(i, (df_operation)operation))
      df_say(&out, "%s%s", n++ > 0 ? ", " : " ", algorithms[i].name);
  return text;
}

int df_algorithm_keeps_order(int algorithm, df_operation operation) {
  if (operation == DF_OP_ALL_REDUCE) return algorithm == DF_DOUBLING;
  return df_operation_is_scan(operation) || algorithm == DF_ORDERED;
}

/* Returns 1 if `next` only sends the data again that `first` has sent. */
static int sends_again(const df_primitive *first, const df_primitive *next) {
  if (next->flags != DF_PRIM_SEND || next->piece != first->piece) return 0;
  if (first->pieces > 1 || next->pieces > 1) return 0;
  int stores = (first->flags & DF_PRIM_STORE) && next->source == first->destination &&
               next->source_piece == first->destination_piece;
  int computes = (first->flags & (DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_AVERAGE)) != 0;
  return stores ||
         (!computes && next->source == first->source && next->source_piece == first->source_piece);
}

/* Marks the longest row of primitives that send the same data to several peers. */
void df_plan_mark_common(df_plan *plan) {
  uint32_t at = 0, longest = 1;
  for (uint32_t i = 0, n = 1; i < plan->n_primitives; i += n, n = 1) {
    const df_primitive *first = &plan->primitives[i];
    if (!(first->flags & DF_PRIM_SEND)) continue;
    while (i + n < plan->n_primitives && sends_again(first, first + n)) n++;
    if (n <= longest) continue;
    at = i;
    longest = n;
  }
  for (uint32_t i = 0; longest > 1 && i < longest; i++)
    plan->primitives[at + i].common = i == 0 ? DF_COMMON_WRITES : DF_COMMON_LENDS;
}

static void take_levels(df_plan *plan) {
  if (plan->key.algorithm != DF_HIERARCHICAL || plan->key.n == 1) {
    plan->key.levels = NULL;
    return;
  }
  plan->own_levels = plan->key.levels ? df_levels_copy(plan->key.levels)
                                      : df_levels_of_neighbours(plan->key.n, plan->key.split, 1);
  plan->key.levels = plan->own_levels;
  plan->failed |= plan->own_levels == NULL;
}

df_plan *df_plan_begin(const df_plan_key *key) {
  df_plan *plan = calloc(1, sizeof *plan);
  if (plan == NULL) return NULL;
  plan->key = *key;
  plan->pieces = plan->longest = 1;
  plan->direct_in_place = 1;
  plan->channels = key->file ? df_plan_file_channels(key->file) : 1;
  plan->link_of = calloc(2 * (size_t)plan->channels * key->n, sizeof *plan->link_of);
  plan->failed = plan->link_of == NULL;
  return plan;
}

void df_plan_empty(df_plan *plan) {
  plan->n_primitives = plan->n_links = 0;
  if (plan->link_of)
    memset(plan->link_of, 0, 2 * (size_t)plan->channels * plan->key.n * sizeof *plan->link_of);
}

/* The plan of a group of one. The only member's piece of a wide buffer need not be the first, if
 * the others have been lost. */
static void build_copy(df_plan *plan) {
  const df_operation operation = plan->key.operation;
  if (df_operation_is_wide(operation, 0) || df_operation_is_wide(operation, 1))
    plan->geometry = DF_GEOMETRY_PIECES;
  if (df_operation_uses(operation, 1, 0, plan->key.root, 1))
    df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_STORE,
                                     .source = DF_BUFFER_INPUT,
                                     .destination = DF_BUFFER_OUTPUT});
}

df_plan *df_plan_make(const df_plan_key *key) {
  df_plan *plan = df_plan_begin(key);
  if (plan == NULL) return NULL;
  take_levels(plan);
  if (plan->failed) {
    df_plan_free(plan);
    return NULL;
  }
  if (key->file)
    df_plan_from_file(plan);
  else if (key->n > 1)
    algorithms[key->algorithm].build(plan);
  else
    build_copy(plan);
  if (key->agrees && key->n > 1)
    df_plan_agree(plan);
  else if (key->file == NULL && !plan->failed)
    df_plan_mark_common(plan);
  if (key->settles && key->n > 1) df_plan_settle(plan);
  free(plan->link_of);
  plan->link_of = NULL;
  if (plan->failed) {
    df_plan_free(plan);
    return NULL;
  }
  return plan;
}

void df_plan_free(df_plan *plan) {
  if (plan == NULL) return;
  free(plan->primitives);
  free(plan->links);
  free(plan->link_of);
  free(plan->extents);
  free(plan->names);
  free(plan->own_levels);
  free(plan);
}

uint64_t df_plan_bytes(const df_plan *plan) {
  return sizeof *plan + plan->primitive_capacity * sizeof *plan->primitives +
         plan->link_capacity * sizeof *plan->links +
         plan->n_extents * (sizeof *plan->extents + sizeof *plan->names);
}

static void *grow(void *array, uint32_t used, uint32_t *capacity, size_t item, df_plan *plan) {
  if (used < *capacity) return array;
  uint32_t larger = *capacity ? *capacity * 2 : 8;
  void *moved = realloc(array, larger * item);
  if (moved == NULL) {
    plan->failed = 1;
    return array;
  }
  *capacity = larger;
  return moved;
}

/* *ordinal: the number of the link's next message. */
static uint16_t take_link(df_plan *plan, uint32_t peer, uint32_t channel, uint16_t sends,
                          uint16_t *ordinal) {
  uint16_t *number = &plan->link_of[(sends * plan->channels + channel) * plan->key.n + peer];
  if (*number == 0) {
    plan->links = grow(plan->links, plan->n_links, &plan->link_capacity, sizeof *plan->links, plan);
    if (plan->failed) return 0;
    plan->links[plan->n_links++] =
        (df_plan_link){.peer = (uint16_t)peer, .sends = sends, .channel = (uint16_t)channel};
    *number = (uint16_t)plan->n_links;
  }
  *ordinal = (uint16_t)plan->links[*number - 1].messages++;
  return (uint16_t)(*number - 1);
}

void df_plan_add(df_plan *plan, df_step_spec spec) {
  plan->failed |= plan->n_primitives == UINT16_MAX; /* descriptors have 16 bits for the number */
  if (plan->failed) return;
  plan->primitives = grow(plan->primitives, plan->n_primitives, &plan->primitive_capacity,
                          sizeof *plan->primitives, plan);
  if (plan->failed) return;
  df_primitive prim = {.flags = (uint8_t)spec.flags,
                       .source = (uint8_t)spec.source,
                       .destination = (uint8_t)spec.destination,
                       .piece = (uint16_t)spec.piece,
                       .pieces = (uint16_t)DF_MAX(spec.pieces, 1u),
                       .stride = (uint16_t)spec.stride,
                       .source_piece = (uint16_t)spec.source_piece,
                       .destination_piece = (uint16_t)spec.destination_piece};
  if (spec.flags & DF_PRIM_RECV)
    prim.recv_link = take_link(plan, spec.recv_from, spec.channel, 0, &prim.recv_ordinal);
  if (spec.flags & DF_PRIM_SEND)
    prim.send_link = take_link(plan, spec.send_to, spec.channel, 1, &prim.send_ordinal);
  if (!plan->failed) plan->primitives[plan->n_primitives++] = prim;
}

/* Chunks are equal in all loops, so that the last loop is not much shorter. */
static void cut(df_part *part, uint64_t elements, uint32_t pieces, uint64_t chunk_max,
                uint32_t grain) {
  part->elements = elements;
  part->loops = 0;
  part->chunk = 0;
  if (elements == 0) return;
  uint64_t loops = DF_DIV_UP(elements, chunk_max * pieces);
  uint64_t chunk = DF_ALIGN_UP(DF_DIV_UP(elements, loops * pieces), (uint64_t)grain);
  part->chunk = (uint32_t)DF_MIN(chunk, chunk_max);
  part->loops = (uint32_t)DF_DIV_UP(elements, (uint64_t)part->chunk * pieces);
}

/* Chooses the format of messages of at most `payload` bytes in this number of loops. */
static void choose_form(df_shape *shape, uint64_t payload, uint32_t loops,
                        const df_shape_limits *limits) {
  static const uint32_t offsets[] = {[DF_FORM_BY_COUNT] = DF_LINK_STAGED_OFFSET,
                                     [DF_FORM_BY_WORDS] = DF_LINK_LL,
                                     [DF_FORM_BY_FLAGGED] = DF_LINK_FLAGGED_OFFSET,
                                     [DF_FORM_BY_LENGTH] = DF_LINK_STAGED_OFFSET};
  shape->form = limits->varying                                             ? DF_FORM_BY_COUNT
                : payload <= limits->words_max && loops <= DF_LINK_LL_LOOPS ? DF_FORM_BY_WORDS
                : payload <= limits->flagged_max                            ? DF_FORM_BY_FLAGGED
                                                                            : DF_FORM_BY_LENGTH;
  shape->payload_offset = offsets[shape->form];
  shape->n_slots = payload <= 4096 ? DF_MAX(limits->slots, 8u) : limits->slots;
  /* The least number of slots was requested. */
  if (limits->slots == DF_MIN_LINK_SLOTS) shape->n_slots = limits->slots;
  /* The LL protocol cannot lend. */
  if (limits->lent_bytes && shape->payload_offset != DF_LINK_LL)
    payload = DF_MIN(payload, limits->lent_min);
  payload = DF_MAX(payload, 8u);
  int is_packed = payload <= limits->packed_max && shape->n_slots >= DF_PACKED_SLOTS &&
                  shape->payload_offset == DF_LINK_FLAGGED_OFFSET;
  shape->stride =
      is_packed ? df_link_packed_stride(payload) : df_link_stride(payload, shape->payload_offset);
}

/* `count` belongs to this member only, so no number that members compare may depend on it. */
static void make_listed(df_shape *shape, const df_plan *plan, uint64_t count,
                        uint32_t element_bytes, const df_shape_limits *limits) {
  const uint64_t payload = (uint64_t)plan->chunk * element_bytes;
  df_shape_limits copied = *limits;
  copied.lent_bytes = 0; /* the last chunk of a piece may be too short to be lent */
  shape->n_blocks = 1;
  shape->parts[0] = (df_part){.elements = count, .chunk = plan->chunk, .loops = 1};
  shape->scratch_bytes = DF_ALIGN_UP(plan->scratch_pieces * payload, (uint64_t)DF_CACHE_LINE);
  choose_form(shape, payload, 1, &copied);
}

/* The number of elements of the longest message, at most `count` even if the chunk has been rounded
 * up. */
static uint64_t longest_message(const df_plan *plan, const df_part *part, uint64_t count) {
  const uint64_t piece = DF_MIN((uint64_t)part->chunk, count);
  const uint64_t elements = piece * plan->longest;
  return plan->geometry == DF_GEOMETRY_PARTITION ? DF_MIN(elements, count) : elements;
}

uint32_t df_shape_blocks(uint64_t count, uint32_t element_bytes, const df_shape_limits *limits) {
  const uint64_t wanted = DF_DIV_UP(count * element_bytes, limits->block_min);
  const uint32_t most = limits->varying ? 1 : limits->max_blocks;
  return (uint32_t)DF_MAX(DF_MIN(wanted, (uint64_t)most), 1u);
}

void df_shape_make(df_shape *shape, const df_plan *plan, uint64_t count, uint32_t element_bytes,
                   const df_shape_limits *limits) {
  memset(shape, 0, sizeof *shape);
  if (plan->geometry == DF_GEOMETRY_PIECE_TABLE) {
    make_listed(shape, plan, count, element_bytes, limits);
    return;
  }
  uint32_t pieces = plan->geometry == DF_GEOMETRY_PIECES ? 1 : plan->pieces;
  uint32_t grain = DF_CACHE_LINE / element_bytes;
  shape->n_blocks = df_shape_blocks(count, element_bytes, limits);
  uint64_t share = DF_ALIGN_UP(DF_DIV_UP(count, shape->n_blocks), (uint64_t)grain);
  const uint64_t longest = DF_MAX(limits->slot_bytes, limits->lent_bytes);
  uint64_t chunk_max =
      DF_MAX(longest / plan->longest / element_bytes / grain * grain, (uint64_t)grain);
  if (plan->scratch_pieces)
    chunk_max = DF_MIN(chunk_max, DF_MAX(DF_MAX_SCRATCH_BYTES / element_bytes /
                                             plan->scratch_pieces / grain * grain,
                                         (uint64_t)grain));
  uint64_t payload = 0, message = 0;
  uint32_t loops = 0;
  for (uint32_t b = 0; b < shape->n_blocks; b++) {
    df_part *part = &shape->parts[b];
    part->first = DF_MIN(b * share, count);
    cut(part, DF_MIN(share, count - part->first), pieces, chunk_max, grain);
    payload = DF_MAX(payload, (uint64_t)part->chunk * element_bytes);
    message = DF_MAX(message, longest_message(plan, part, count) * element_bytes);
    loops = DF_MAX(loops, part->loops);
  }
  /* The maximum over all blocks: a shorter part may have larger chunks. */
  shape->scratch_bytes = DF_ALIGN_UP(plan->scratch_pieces * payload, (uint64_t)DF_CACHE_LINE);
  choose_form(shape, DF_MAX(message, 1u), loops, limits);
  shape->n_slots = DF_MAX(shape->n_slots, plan->least_slots);
}
