#include "tuning/space.h"

#include <string.h>

enum {
  DF_SPACE_LEAST_SLOT = 1024, /* bytes: the first place on its axis */
  DF_SPACE_SLOT_PLACES = 13,  /* to 4 MiB */
  DF_SPACE_SLOTS_PLACES = 6,  /* 2 to 64 */
  DF_SPACE_BLOCK_PLACES = 6,  /* 1 to 32 */
  DF_SPACE_SPLIT_PLACES = 8,  /* 2 to 256 */
  DF_SPACE_SHORT = 4096       /* bytes: one message, so neither slots nor blocks matter */
};

typedef enum { AXIS_SLOT_BYTES, AXIS_SLOTS, AXIS_BLOCKS, AXIS_SPLIT, AXIS_COPIES } df_axis;

static uint8_t places_up_to(uint64_t first, uint64_t most, uint8_t limit) {
  uint8_t n = 1;
  while (n < limit && first << n <= most) n++;
  return n;
}

static uint8_t place_of(uint64_t first, uint64_t value, uint8_t size) {
  uint8_t at = 0;
  while (at + 1 < size && first << (at + 1) <= value) at++;
  return at;
}

/* Powers of two, and at the last place the most. */
static uint32_t blocks_at(uint8_t place, uint32_t most) { return DF_MIN(1u << place, most); }

static uint8_t block_places(uint32_t most) {
  uint8_t n = 1;
  while (n < DF_SPACE_BLOCK_PLACES && blocks_at(n - 1, most) < most) n++;
  return n;
}

static uint8_t place_of_blocks(uint32_t blocks, uint32_t most, uint8_t size) {
  uint8_t at = 0;
  while (at + 1 < size && blocks_at(at + 1, most) <= blocks) at++;
  return at;
}

static void add(df_space *space, df_coordinate_descent *descent, uint32_t n, int algorithm,
                const df_plan_file *file, const uint8_t sizes[DF_DESCENT_AXES],
                const uint8_t start[DF_DESCENT_AXES]) {
  const uint32_t at = descent->n_subspaces;
  uint8_t own_sizes[DF_DESCENT_AXES], own_start[DF_DESCENT_AXES];
  if (at == DF_DESCENT_SUBSPACES) return;
  memcpy(own_sizes, sizes, sizeof own_sizes);
  memcpy(own_start, start, sizeof own_start);
  if (algorithm == DF_TWO_LEVEL) { /* subgroups of 2, 4, ... */
    own_sizes[AXIS_SPLIT] = places_up_to(2, n / 2, DF_SPACE_SPLIT_PLACES);
    own_start[AXIS_SPLIT] = own_sizes[AXIS_SPLIT] / 2;
  }
  space->algorithms[at] = (uint32_t)algorithm;
  space->files[at] = file;
  df_coordinate_descent_add(descent, own_sizes, own_start);
}

static void make_axes(const df_space_question *q, uint8_t sizes[DF_DESCENT_AXES],
                      uint8_t start[DF_DESCENT_AXES]) {
  const uint32_t chosen = q->registered->choice.slot_bytes;
  sizes[AXIS_SLOT_BYTES] = places_up_to(DF_SPACE_LEAST_SLOT, 2 * q->bytes, DF_SPACE_SLOT_PLACES);
  start[AXIS_SLOT_BYTES] =
      place_of(DF_SPACE_LEAST_SLOT, chosen ? chosen : (uint64_t)q->policy->slot_bytes,
               sizes[AXIS_SLOT_BYTES]);
  sizes[AXIS_SLOTS] = DF_SPACE_SLOTS_PLACES;
  start[AXIS_SLOTS] = place_of(2, (uint64_t)q->policy->slots, DF_SPACE_SLOTS_PLACES);
  sizes[AXIS_BLOCKS] = block_places(q->max_blocks);
  start[AXIS_BLOCKS] =
      place_of_blocks(q->registered->shape.n_blocks, q->max_blocks, sizes[AXIS_BLOCKS]);
  /* Some algorithms' messages are the whole buffer. */
  if (q->policy->lend && q->bytes >= (uint64_t)q->policy->lend_min) sizes[AXIS_COPIES] = 2;
}

/* minBytes and maxBytes are the range that the file's author recommends. A file by which floats
 * differ from rank to rank is not tried unless a user names it. */
static int is_for(const df_plan_file *file, const df_space_question *q) {
  const df_plan_file_facts facts = df_plan_file_facts_of(file);
  return facts.operation == q->operation && facts.n == q->n && !q->varying && facts.same_bits &&
         facts.least_bytes <= q->bytes && (facts.most_bytes == 0 || q->bytes <= facts.most_bytes) &&
         (!q->registered->choice.is_ordered || facts.ordered) && file != q->registered->choice.file;
}

void df_space_make(df_space *space, const df_space_question *q, df_coordinate_descent *descent) {
  const df_choice *choice = &q->registered->choice;
  const int is_long = q->bytes > DF_SPACE_SHORT;
  uint8_t sizes[DF_DESCENT_AXES] = {1, 1, 1, 1, 1}, start[DF_DESCENT_AXES] = {0};
  if (is_long) make_axes(q, sizes, start);
  memset(space, 0, sizeof *space);
  space->max_blocks = q->max_blocks;
  space->of_registered = *choice;
  df_coordinate_descent_begin(descent, DF_DESCENT_MOST);
  add(space, descent, q->n, choice->algorithm, choice->file, sizes, start);
  space->registered = descent->climbs[0].best.point;
  for (int algorithm = 0; algorithm < DF_ALGORITHMS; algorithm++)
    if (algorithm != choice->algorithm && df_algorithm_has(algorithm, q->operation) &&
        (algorithm != DF_HIERARCHICAL || choice->is_spread) &&
        (!choice->is_ordered || df_algorithm_keeps_order(algorithm, q->operation)))
      add(space, descent, q->n, algorithm, NULL, sizes, start);
  for (uint32_t i = 0; q->files && i < q->files->n; i++)
    if (is_for(q->files->files[i], q))
      add(space, descent, q->n, DF_FROM_FILE, q->files->files[i], sizes, start);
}

static int is_registered(const df_space *space, const df_point *point) {
  return memcmp(point, &space->registered, sizeof *point) == 0;
}

df_variant_spec df_space_variant(const df_space *space, const df_coordinate_descent *descent,
                                 const df_point *point) {
  const df_plan_file *file = space->files[point->subspace];
  df_variant_spec spec = {.algorithm = space->algorithms[point->subspace],
                          .file = file ? df_plan_file_facts_of(file).hash : 0,
                          .copies = point->at[AXIS_COPIES]};
  const df_line_search *line_search = &descent->climbs[point->subspace];
  if (is_registered(space, point)) return (df_variant_spec){.algorithm = DF_AS_REGISTERED};
  if (line_search->sizes[AXIS_SLOT_BYTES] > 1)
    spec.slot_bytes = DF_SPACE_LEAST_SLOT << point->at[AXIS_SLOT_BYTES];
  if (line_search->sizes[AXIS_SLOTS] > 1) spec.slots = 2u << point->at[AXIS_SLOTS];
  if (line_search->sizes[AXIS_BLOCKS] > 1)
    spec.blocks = blocks_at(point->at[AXIS_BLOCKS], space->max_blocks);
  if (spec.algorithm == DF_TWO_LEVEL) spec.split = 2u << point->at[AXIS_SPLIT];
  return spec;
}

df_rule df_space_rule(const df_space *space, const df_coordinate_descent *descent,
                      const df_point *point) {
  const df_choice *choice = &space->of_registered;
  const df_variant_spec spec = df_space_variant(space, descent, point);
  if (is_registered(space, point))
    return (df_rule){.algorithm = (df_algorithm)choice->algorithm,
                     .loaded = choice->file,
                     .blocks = choice->blocks,
                     .slot_bytes = choice->slot_bytes,
                     .split = choice->split};
  return (df_rule){.algorithm = (df_algorithm)spec.algorithm,
                   .loaded = space->files[point->subspace],
                   .blocks = spec.blocks,
                   .slot_bytes = spec.slot_bytes,
                   .split = spec.split,
                   .slots = spec.slots,
                   .copies = spec.copies};
}

int df_space_find(const df_space *space, const df_coordinate_descent *descent, const df_rule *rule,
                  df_point *point) {
  const df_rule registered = df_space_rule(space, descent, &space->registered);
  *point = space->registered;
  if (registered.algorithm == rule->algorithm && registered.loaded == rule->loaded &&
      registered.blocks == rule->blocks && registered.slot_bytes == rule->slot_bytes &&
      registered.split == rule->split && rule->slots == 0 && rule->copies == 0)
    return 1;
  for (uint32_t i = 0; i < descent->n_subspaces; i++) {
    const df_line_search *line_search = &descent->climbs[i];
    if (space->algorithms[i] != (uint32_t)rule->algorithm || space->files[i] != rule->loaded)
      continue;
    *point = line_search->best.point;
    if (rule->slot_bytes)
      point->at[AXIS_SLOT_BYTES] =
          place_of(DF_SPACE_LEAST_SLOT, rule->slot_bytes, line_search->sizes[AXIS_SLOT_BYTES]);
    if (rule->slots)
      point->at[AXIS_SLOTS] = place_of(2, rule->slots, line_search->sizes[AXIS_SLOTS]);
    if (rule->blocks)
      point->at[AXIS_BLOCKS] =
          place_of_blocks(rule->blocks, space->max_blocks, line_search->sizes[AXIS_BLOCKS]);
    if (rule->split)
      point->at[AXIS_SPLIT] = place_of(2, rule->split, line_search->sizes[AXIS_SPLIT]);
    if (rule->copies && line_search->sizes[AXIS_COPIES] > 1) point->at[AXIS_COPIES] = 1;
    return 1;
  }
  return 0;
}
