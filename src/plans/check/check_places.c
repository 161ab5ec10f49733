#include "plans/check/check_places.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"

int df_check_complain(df_checker *c, uint32_t rank, const char *format, ...) {
  va_list arguments;
  if (c->result != dfcclSuccess) return 0;
  const df_check_player *p = &c->players[rank];
  df_text text = {.at = c->sentence, .left = c->sentence_bytes};
  df_say(&text, "%s %s of %u, root %u, %u slots%s, lending %d: rank %u, loop %u, primitive %u: ",
         df_operation_name(c->key.operation), df_algorithm_name(c->key.algorithm), c->n,
         c->key.root, c->o->slots, c->o->in_place ? ", in place" : "", c->o->lending, rank, p->loop,
         p->primitive);
  va_start(arguments, format);
  df_say_list(&text, format, arguments);
  va_end(arguments);
  c->result = dfcclInvalidArgument;
  c->findings.rank = rank;
  c->findings.primitive = p->primitive;
  c->findings.is_result = c->executed;
  return 0;
}

void *df_check_take_memory(df_checker *c, size_t n, size_t item) {
  void *memory = calloc(n ? n : 1, item);
  if (memory == NULL && c->result == dfcclSuccess) {
    snprintf(c->sentence, c->sentence_bytes, "no memory to check the plans of %u ranks", c->n);
    c->result = dfcclOutOfMemory;
  }
  return memory;
}

uint32_t df_check_element(const df_checker *c, uint32_t loop, uint32_t from, uint32_t to,
                          uint32_t piece) {
  const int grid = c->players[0].plan->geometry == DF_GEOMETRY_GRID;
  const uint32_t part = grid ? piece % c->pieces : 0; /* pieces of one rank's share */
  const uint32_t width = c->n * c->n * (grid ? c->pieces : 1) + c->pieces;
  if (grid) {
    from *= c->pieces;
    to *= c->pieces;
  }
  const int is_for_each = df_operation_is_wide(c->key.operation, 0);
  const int is_of_each = df_operation_is_wide(c->key.operation, 1);
  if (!is_for_each && !is_of_each) return 1 + loop * width + piece;
  return 1 + loop * width + (is_of_each ? from * (is_for_each ? c->n : 1) : 0) +
         (is_for_each ? to : 0) + part;
}

int df_check_piece_is_there(const df_checker *c, uint32_t loop, uint32_t piece) {
  const df_geometry geometry = c->players[0].plan->geometry;
  const int is_cut = geometry == DF_GEOMETRY_PARTITION || geometry == DF_GEOMETRY_GRID;
  if (!is_cut || c->o->last_pieces == 0) return 1;
  return loop + 1 < c->o->loops || piece % c->pieces < c->o->last_pieces;
}

uint32_t df_check_length_of(const df_checker *c, uint32_t piece) {
  const df_geometry geometry = c->players[0].plan->geometry;
  return geometry == DF_GEOMETRY_PARTITION ? piece
         : geometry == DF_GEOMETRY_GRID    ? piece % c->pieces
                                           : 0;
}

static int is_listed(const df_checker *c) {
  return c->players[0].plan->geometry == DF_GEOMETRY_PIECE_TABLE;
}

uint32_t df_check_named(const df_checker *c, const df_plan_name *name) {
  enum { CHUNKS = 1024 }; /* chunks of a pair, at most */
  const uint32_t from = c->key.operation == DF_OP_REDUCE_SCATTER_V ? 0 : name->from;
  const uint32_t to = c->key.operation == DF_OP_ALL_GATHER_V ? 0 : name->to;
  return 1 + (from * c->n + to) * CHUNKS + name->chunk;
}

uint32_t df_check_pieces_of(const df_checker *c, uint32_t rank) {
  return is_listed(c) ? c->players[rank].plan->n_extents : c->pieces;
}

/* GRID: chunks of one rank's share of a wide buffer; else 1. */
static uint32_t chunks_of_share(const df_checker *c) {
  return c->players[0].plan->geometry == DF_GEOMETRY_GRID ? c->pieces : 1;
}

/* In place, the narrow buffer is this rank's piece of the wide one. */
static int narrow_in_wide(const df_checker *c, int output) {
  return df_operation_is_wide(c->key.operation, output) &&
         !df_operation_is_wide(c->key.operation, !output);
}

static void fill_input(df_checker *c, uint32_t rank) {
  for (uint32_t loop = 0; loop < c->o->loops; loop++)
    for (uint32_t piece = 0; piece < c->input_pieces; piece++)
      if (df_check_piece_is_there(c, loop, piece))
        c->players[rank].input[loop * c->input_pieces + piece].value = (df_check_value){
            .element = df_check_element(c, loop, rank, piece / chunks_of_share(c), piece),
            .contributions = 1ull << rank,
            .order = (rank + 1) * 0x9e3779b97f4a7c15u};
}

static df_check_cell *take_cells(df_checker *c, df_check_player *p, int which, uint32_t cells) {
  p->memory[which] = df_check_take_memory(c, cells, sizeof(df_check_cell));
  if (p->memory[which]) p->cells[which] = cells;
  return p->memory[which];
}

/* Piece tables have one loop and are never in place. */
static int give_listed_memory(df_checker *c, uint32_t rank) {
  df_check_player *p = &c->players[rank];
  if (p->plan->geometry != DF_GEOMETRY_PIECE_TABLE || c->o->loops != 1 || c->o->in_place)
    return df_check_complain(c, rank, "a plan of lists is checked in one loop, not in place");
  p->scratch = take_cells(c, p, 2, p->plan->scratch_pieces);
  p->input = take_cells(c, p, 0, p->plan->n_extents);
  p->output = take_cells(c, p, 1, p->plan->n_extents);
  if (c->result != dfcclSuccess) return 0;
  for (uint32_t piece = 0; piece < p->plan->n_extents; piece++)
    if (!p->plan->names[piece].output)
      p->input[piece].value = (df_check_value){.element = df_check_named(c, &p->plan->names[piece]),
                                               .contributions = 1ull << rank,
                                               .order = (rank + 1) * 0x9e3779b97f4a7c15u};
  return 1;
}

int df_check_give_memory(df_checker *c, uint32_t rank) {
  df_check_player *p = &c->players[rank];
  if (is_listed(c)) return give_listed_memory(c, rank);
  uint32_t loops = c->o->loops;
  df_operation operation = c->key.operation;
  int has_input = df_operation_uses(operation, 0, rank, c->key.root, c->n);
  int has_output = df_operation_uses(operation, 1, rank, c->key.root, c->n);
  p->scratch = take_cells(c, p, 2, p->plan->scratch_pieces);
  if (has_input) p->input = take_cells(c, p, 0, loops * c->input_pieces);
  if (has_output) p->output = take_cells(c, p, 1, loops * c->output_pieces);
  if (c->result != dfcclSuccess) return 0;
  if (has_input) fill_input(c, rank);
  if (operation == DF_OP_BARRIER && p->plan->scratch_pieces) p->scratch->value.element = 1;
  const int is_part = narrow_in_wide(c, 1);
  for (uint32_t loop = 0; is_part && has_output && c->o->in_place && loop < loops; loop++)
    for (uint32_t k = 0; k < c->input_pieces; k++)
      p->output[loop * c->output_pieces + rank * chunks_of_share(c) % c->output_pieces + k].value =
          p->input[loop * c->input_pieces + k].value;
  return 1;
}

df_check_cell *df_check_place(df_checker *c, uint32_t rank, uint32_t buffer, uint32_t piece) {
  df_check_player *p = &c->players[rank];
  uint32_t limit = buffer == DF_BUFFER_INPUT    ? c->input_pieces
                   : buffer == DF_BUFFER_OUTPUT ? c->output_pieces
                                                : p->plan->scratch_pieces;
  if (buffer == DF_BUFFER_NONE || buffer > DF_BUFFER_SCRATCH)
    return df_check_complain(c, rank, "no buffer"), NULL;
  if (is_listed(c) && buffer != DF_BUFFER_SCRATCH) limit = p->plan->n_extents;
  if (piece >= limit)
    return df_check_complain(c, rank, "piece %u of buffer %u, which has %u", piece, buffer, limit),
           NULL;
  if (buffer == DF_BUFFER_SCRATCH) return &p->scratch[piece];
  if (c->o->in_place && p->input && p->output) { /* the smaller buffer is a part of the larger */
    const int gathers = narrow_in_wide(c, 1), scatters = narrow_in_wide(c, 0);
    if (gathers && buffer == DF_BUFFER_INPUT)
      return &p->output[p->loop * c->output_pieces + rank * chunks_of_share(c) % c->output_pieces +
                        piece];
    if (scatters && buffer == DF_BUFFER_OUTPUT)
      return &p->input[p->loop * c->input_pieces + rank * chunks_of_share(c) + piece];
    if (!gathers) buffer = DF_BUFFER_INPUT;
  }
  df_check_cell *cells = buffer == DF_BUFFER_INPUT ? p->input : p->output;
  uint32_t pieces = buffer == DF_BUFFER_INPUT ? c->input_pieces : c->output_pieces;
  if (cells == NULL)
    return df_check_complain(c, rank, "buffer %u, which it need not have", buffer), NULL;
  return &cells[p->loop * pieces + piece];
}

int df_check_read(df_checker *c, uint32_t rank, const df_check_cell *from, uint32_t piece,
                  df_check_value *v) {
  if (from == NULL) return 0;
  *v = from->value;
  if (v->element == 0) return df_check_complain(c, rank, "reads what was never written");
  if (c->players[rank].plan->geometry == DF_GEOMETRY_PARTITION &&
      c->key.operation != DF_OP_BARRIER) {
    uint32_t right = df_check_element(c, c->players[rank].loop, rank, piece, piece);
    if (v->element != right)
      return df_check_complain(c, rank, "reads element %u as element %u", v->element, right);
  }
  if (c->players[rank].plan->geometry == DF_GEOMETRY_GRID &&
      (v->element - 1) % c->pieces != piece % c->pieces)
    return df_check_complain(c, rank, "reads chunk %u of a share as chunk %u",
                             (v->element - 1) % c->pieces, piece % c->pieces);
  return 1;
}

int df_check_write(df_checker *c, uint32_t rank, df_check_cell *into, const df_check_value *v) {
  if (into->lent > 0)
    return df_check_complain(c, rank, "overwrites what it has lent, and %u ranks have not read",
                             into->lent);
  for (uint32_t r = 0; into->read && r < c->n; r++)
    if (into->read[r] > c->players[rank].now.after[r])
      return df_check_complain(c, rank, "overwrites what it has lent, and rank %u may be reading",
                               r);
  into->value = *v;
  return 1;
}
