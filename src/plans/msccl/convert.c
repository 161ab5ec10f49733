#include "plans/msccl/convert.h"

#include <stdlib.h>
#include <string.h>

#include "plans/msccl/places.h"

#define NOWHERE DF_BUFFER_NONE

typedef struct value {
  uint64_t contributions;
  uint32_t piece;
} value;

/* Messages from one block to another. */
typedef struct queue {
  value *values;
  uint32_t n, used, capacity;
} queue;

typedef struct converter {
  const df_file_model *model;
  const df_file_order *order;
  const df_file_target *target;
  df_file_diagnostic *diagnostic;
  df_file_places places;
  queue *queues; /* index: the sending block */
  uint64_t all;
  int is_trial; /* 1: this pass finds the chunks that have to be copied */
  int found;
  uint32_t longest;
  uint32_t capacity[DF_FILE_MOST_RANKS]; /* capacity of lines */
} converter;

/* ---- primitives */

/* A chunk of a wide buffer belongs to a rank whose position in the group may differ from its number
 * in the file. */
static uint32_t at_position(const converter *c, df_file_place place) {
  const df_file_model *m = c->model;
  const int output = place.buffer == DF_BUFFER_OUTPUT;
  if (place.buffer == DF_BUFFER_SCRATCH || place.buffer == NOWHERE ||
      !df_operation_is_wide(m->operation, output))
    return place.chunk;
  return c->places.holders[place.chunk / m->pieces].position * m->pieces + place.chunk % m->pieces;
}

static int note_line(converter *c, uint32_t position, uint32_t line) {
  uint32_t **lines = c->target->lines;
  const df_plan *plan = c->target->plans[position];
  if (lines == NULL) return 1;
  if (plan->n_primitives > c->capacity[position]) {
    const uint32_t larger = 2 * plan->n_primitives + 16;
    uint32_t *moved = realloc(lines[position], larger * sizeof *moved);
    if (moved == NULL) return df_file_no_memory(c->diagnostic);
    lines[position] = moved;
    c->capacity[position] = larger;
  }
  lines[position][plan->n_primitives - 1] = line;
  return 1;
}

typedef struct work {
  uint32_t rank, line, count, flags, piece;
  const df_file_block *block;
  df_file_place source, destination;
} work;

static int emit(converter *c, const work *w) {
  const uint32_t position = c->places.holders[w->rank].position;
  df_plan *plan = c->target->plans[position];
  if (c->is_trial || plan == NULL) return 1;
  df_step_spec spec = {.flags = w->flags,
                       .piece = w->piece % c->model->pieces,
                       .pieces = w->count,
                       .stride = w->count > 1,
                       .source = w->source.buffer,
                       .source_piece = at_position(c, w->source),
                       .destination = w->destination.buffer,
                       .destination_piece = at_position(c, w->destination)};
  if (w->flags & DF_PRIM_SEND) spec.send_to = c->places.holders[w->block->send_to].position;
  if (w->flags & DF_PRIM_RECV) spec.recv_from = c->places.holders[w->block->recv_from].position;
  if (w->block) spec.channel = w->block->channel;
  if (plan->n_primitives == UINT16_MAX)
    return df_file_complain(c->diagnostic, w->line, "rank %u has more than %d steps", w->rank,
                            UINT16_MAX);
  df_plan_add(plan, spec);
  if (plan->failed) return df_file_no_memory(c->diagnostic);
  return note_line(c, position, w->line);
}

static int emit_copy(converter *c, uint32_t rank, uint32_t line, uint32_t piece, uint32_t count,
                     df_file_place from, df_file_place to) {
  const work w = {.rank = rank,
                  .line = line,
                  .count = count,
                  .flags = DF_PRIM_STORE,
                  .piece = piece,
                  .source = from,
                  .destination = to};
  return emit(c, &w);
}

/* ---- values */

static queue *queue_of(const converter *c, const df_file_event *e, int sends) {
  return &c->queues[sends ? e->block : c->order->from[e->block]];
}

static int push_value(converter *c, queue *q, value v) {
  if (q->n == q->capacity) {
    const uint32_t larger = q->capacity ? 2 * q->capacity : 16;
    value *moved = realloc(q->values, larger * sizeof *moved);
    if (moved == NULL) return df_file_no_memory(c->diagnostic);
    q->values = moved;
    q->capacity = larger;
  }
  q->values[q->n++] = v;
  return 1;
}

/* Returns 0 if it has recorded a diagnostic. */
static int read_cell(converter *c, uint32_t rank, const df_file_step *step, df_file_place named,
                     value *v, df_file_place *at) {
  df_file_cell *from = df_file_cell_of(&c->places, rank, named);
  static const char *const names[] = {"?", "i", "o", "s"};
  if (from->contributions == 0)
    return df_file_complain(c->diagnostic, step->line,
                            "reads chunk %u of buffer %s of rank %u, which was never written",
                            named.chunk, names[named.buffer], rank);
  if (from->is_spoiled && from->at.buffer == DF_BUFFER_INPUT &&
      !c->places.holders[rank].copied[from->at.chunk]) {
    c->places.holders[rank].copied[from->at.chunk] = 1;
    c->found = 1;
  }
  *v = (value){from->contributions, from->piece};
  *at = from->at;
  return 1;
}

static int add(converter *c, uint32_t rank, const df_file_step *step, value *sum, value other) {
  const uint32_t pieces = c->model->pieces;
  if (sum->piece % pieces != other.piece % pieces)
    return df_file_complain(c->diagnostic, step->line,
                            "rank %u combines chunks %u and %u, which are not the same element",
                            rank, sum->piece, other.piece);
  if (sum->contributions & other.contributions)
    return df_file_complain(c->diagnostic, step->line, "rank %u adds a contribution a second time",
                            rank);
  sum->contributions |= other.contributions;
  return 1;
}

static void write_cell(converter *c, uint32_t rank, df_file_place named, df_file_place home,
                       value v) {
  df_file_cell *into = df_file_cell_of(&c->places, rank, named);
  df_file_spoil(&c->places, rank, home, into);
  into->contributions = v.contributions;
  into->piece = v.piece;
  into->at = home;
  into->is_spoiled = 0;
}

static uint64_t highest(uint64_t contributions) {
  return 63 - (uint64_t)__builtin_clzll(contributions);
}

/* Keeps the order of the group where the file allows it. */
static int source_is_first(value source, value received) {
  return highest(source.contributions) < (uint64_t)__builtin_ctzll(received.contributions);
}

/* ---- steps */

/* The common properties of the chunks of one step; without them the step must be split. */
typedef struct row {
  df_file_place source, home, other; /* places of the first chunk; other: where the destination of a
                                        local reduce is stored at the moment */
  uint32_t piece;
  int average, source_first;
} row;

/* One chunk of the step: its value and its places. */
static int look_at(converter *c, const df_file_event *e, const df_file_step *step, uint32_t at,
                   value *v, row *here) {
  value source = {0};
  *here = (row){0};
  if (df_file_reads(step->kind) &&
      !read_cell(c, e->rank, step, df_file_further(step->source, at), &source, &here->source))
    return 0;
  *v = source;
  if (df_file_receives(step->kind)) {
    queue *q = queue_of(c, e, 0);
    *v = q->values[q->used++];
    if (df_file_reduces(step->kind)) {
      here->source_first = source_is_first(source, *v);
      if (!add(c, e->rank, step, v, source)) return 0;
    }
  } else if (step->kind == DF_FILE_REDUCE) {
    if (!read_cell(c, e->rank, step, df_file_further(step->destination, at), v, &here->other) ||
        !add(c, e->rank, step, v, source))
      return 0;
  }
  here->average = df_file_reduces(step->kind) && v->contributions == c->all;
  here->piece = v->piece;
  if (df_file_stores(step->kind))
    here->home =
        df_file_home_of(&c->places, e->rank, df_file_further(step->destination, at), v->piece);
  return 1;
}

static int is_wide(const converter *c) {
  return df_operation_is_wide(c->model->operation, 0) ||
         df_operation_is_wide(c->model->operation, 1);
}

/* The parts of ranks with permuted positions are not side by side. */
static int stays_in_part(const converter *c, df_file_place place, uint32_t at) {
  const uint32_t pieces = c->model->pieces;
  return c->target->root == c->model->root || !is_wide(c) || place.buffer == NOWHERE ||
         place.buffer == DF_BUFFER_SCRATCH || place.chunk / pieces == (place.chunk + at) / pieces;
}

static int fits(const converter *c, const row *first, const row *next, uint32_t at) {
  const uint32_t pieces = c->model->pieces;
  return (first->source.buffer == NOWHERE || df_file_is_beside(first->source, next->source, at)) &&
         (first->home.buffer == NOWHERE || df_file_is_beside(first->home, next->home, at)) &&
         (first->other.buffer == NOWHERE || df_file_is_beside(first->other, next->other, at)) &&
         (first->piece + at) % pieces == next->piece % pieces && first->average == next->average &&
         first->source_first == next->source_first &&
         (is_wide(c) || next->piece == first->piece + at) && stays_in_part(c, first->source, at) &&
         stays_in_part(c, first->home, at);
}

static int emit_step(converter *c, const df_file_event *e, const df_file_step *step, uint32_t count,
                     const row *r) {
  work w = {.rank = e->rank,
            .line = step->line,
            .count = count,
            .piece = r->piece,
            .block = &c->model->blocks[e->block],
            .source = r->source,
            .destination = r->home};
  if (step->kind == DF_FILE_REDUCE && !df_file_is_beside(r->other, r->home, 0) &&
      !emit_copy(c, e->rank, step->line, r->piece, count, r->other, r->home))
    return 0;
  if (df_file_sends(step->kind)) w.flags |= DF_PRIM_SEND;
  if (df_file_receives(step->kind)) w.flags |= DF_PRIM_RECV;
  if (df_file_stores(step->kind)) w.flags |= DF_PRIM_STORE;
  if (df_file_reduces(step->kind)) w.flags |= DF_PRIM_REDUCE;
  if (df_file_receives(step->kind) && r->source_first) w.flags |= DF_PRIM_SOURCE_FIRST;
  if (c->target->average && r->average) w.flags |= DF_PRIM_AVERAGE;
  if (step->kind == DF_FILE_COPY && df_file_is_beside(r->source, r->home, 0)) return 1;
  return emit(c, &w);
}

static int convert_step(converter *c, const df_file_event *e) {
  const df_file_step *step = &c->model->steps[e->step];
  const uint32_t first = c->target->one_by_one ? e->part : 0;
  const uint32_t count = c->target->one_by_one ? 1 : step->count;
  row row_of = {0};
  value values[64];
  value *v = count <= 64 ? values : malloc(count * sizeof *v);
  if (v == NULL) return df_file_no_memory(c->diagnostic);
  int fine = 1;
  for (uint32_t i = 0; fine == 1 && i < count; i++) {
    row here;
    fine = look_at(c, e, step, first + i, &v[i], &here);
    if (fine && i == 0) row_of = here;
    if (fine && i > 0 && !fits(c, &row_of, &here, i)) fine = -1;
  }
  for (uint32_t i = 0; fine == 1 && i < count; i++) {
    if (df_file_stores(step->kind))
      write_cell(c, e->rank, df_file_further(step->destination, first + i),
                 df_file_further(row_of.home, i), v[i]);
    if (df_file_sends(step->kind)) fine = push_value(c, queue_of(c, e, 1), v[i]);
  }
  /* A copy within a buffer that is one in place: both names refer to the copy from here on. */
  if (fine == 1 && step->kind == DF_FILE_COPY && row_of.source.buffer == DF_BUFFER_INPUT &&
      row_of.home.buffer == DF_BUFFER_OUTPUT)
    for (uint32_t i = 0; i < count; i++)
      if (df_file_input_of(&c->places, e->rank, row_of.home.chunk + i) == row_of.source.chunk + i) {
        df_file_cell *from = df_file_cell_in_input(&c->places, e->rank, row_of.source.chunk + i);
        from->at = df_file_further(row_of.home, i);
        from->is_spoiled = 0;
      }
  c->longest = count > c->longest ? count : c->longest;
  if (fine == 1) fine = emit_step(c, e, step, count, &row_of);
  if (v != values) free(v);
  return fine;
}

/* ---- beginning and end */

static void begin_rank(converter *c, uint32_t r) {
  df_file_holder *p = &c->places.holders[r];
  const df_file_model *m = c->model;
  memset(p->input, 0, (c->places.inputs + 1u) * sizeof *p->input);
  memset(p->output, 0, (c->places.outputs + 1u) * sizeof *p->output);
  memset(p->scratch, 0, (m->ranks[r].scratch_chunks + 1u) * sizeof *p->scratch);
  p->scratch_pieces = m->ranks[r].scratch_chunks;
  for (uint32_t i = 0; i < c->places.inputs && df_file_uses(&c->places, r, 0); i++) {
    df_file_cell *one = df_file_cell_in_input(&c->places, r, i);
    *one = (df_file_cell){
        .contributions = 1ull << p->position, .piece = i, .at = {DF_BUFFER_INPUT, i}};
    if (!p->copied[i]) continue;
    one->at = (df_file_place){DF_BUFFER_SCRATCH, p->scratch_pieces++};
  }
}

static int emit_first_copies(converter *c, uint32_t r) {
  const df_file_holder *p = &c->places.holders[r];
  for (uint32_t i = 0; i < c->places.inputs && df_file_uses(&c->places, r, 0); i++)
    if (p->copied[i] &&
        !emit_copy(c, r, c->model->ranks[r].line, i, 1, (df_file_place){DF_BUFFER_INPUT, i},
                   df_file_cell_in_input(&c->places, r, i)->at))
      return 0;
  return 1;
}

/* Results that are still in the input, such as an all-gather's own piece out of place. */
static int end_rank(converter *c, uint32_t r) {
  const uint32_t line = c->model->ranks[r].line;
  for (uint32_t i = 0; i < c->places.outputs && df_file_uses(&c->places, r, 1); i++) {
    const df_file_place named = {DF_BUFFER_OUTPUT, i};
    const df_file_cell *result = df_file_cell_of(&c->places, r, named);
    if (result->contributions == 0)
      return df_file_complain(c->diagnostic, line, "rank %u ends without chunk %u of its result", r,
                              i);
    if (result->at.buffer == DF_BUFFER_OUTPUT && result->at.chunk == i) continue;
    if (result->piece % c->model->pieces != i % c->model->pieces)
      return df_file_complain(c->diagnostic, line,
                              "rank %u ends with chunk %u as chunk %u of its result", r,
                              result->piece, i);
    value v;
    df_file_place from;
    const df_file_step at_end = {.line = line};
    if (!read_cell(c, r, &at_end, named, &v, &from)) return 0;
    write_cell(c, r, named, named, v);
    if (!emit_copy(c, r, line, v.piece, 1, from, named)) return 0;
  }
  return 1;
}

static int pass(converter *c) {
  const df_file_model *m = c->model;
  int fine = 1;
  c->found = 0;
  for (uint32_t r = 0; r < m->n; r++) begin_rank(c, r);
  for (uint32_t b = 0; b < m->n_blocks; b++) c->queues[b].n = c->queues[b].used = 0;
  for (uint32_t r = 0; fine == 1 && r < m->n; r++) fine = emit_first_copies(c, r);
  for (uint32_t i = 0; fine == 1 && i < c->order->n_events; i++)
    fine = convert_step(c, &c->order->events[i]);
  for (uint32_t r = 0; fine == 1 && r < m->n; r++) fine = end_rank(c, r);
  return fine;
}

static int take_memory(converter *c) {
  const df_file_model *m = c->model;
  c->places.inputs = df_file_chunks(m, 0, DF_BUFFER_INPUT);
  c->places.outputs = df_file_chunks(m, 0, DF_BUFFER_OUTPUT);
  c->all = m->n == 64 ? UINT64_MAX : (1ull << m->n) - 1;
  c->places.holders = calloc(m->n, sizeof *c->places.holders);
  c->queues = calloc(m->n_blocks + 1u, sizeof *c->queues);
  int made = c->places.holders && c->queues;
  for (uint32_t r = 0; made && r < m->n; r++) {
    df_file_holder *p = &c->places.holders[r];
    p->position = (r + m->n - m->root + c->target->root) % m->n;
    p->input = malloc((c->places.inputs + 1u) * sizeof *p->input);
    p->output = malloc((c->places.outputs + 1u) * sizeof *p->output);
    p->scratch = malloc((m->ranks[r].scratch_chunks + 1u) * sizeof *p->scratch);
    p->copied = calloc(c->places.inputs + 1u, 1);
    made = p->input && p->output && p->scratch && p->copied;
  }
  return made || df_file_no_memory(c->diagnostic);
}

static void give_memory_back(converter *c) {
  for (uint32_t r = 0; c->places.holders && r < c->model->n; r++) {
    free(c->places.holders[r].input);
    free(c->places.holders[r].output);
    free(c->places.holders[r].scratch);
    free(c->places.holders[r].copied);
  }
  for (uint32_t b = 0; c->queues && b < c->model->n_blocks; b++) free(c->queues[b].values);
  free(c->places.holders);
  free(c->queues);
}

static void say_shape(const converter *c) {
  const df_file_model *m = c->model;
  const int wide = is_wide(c);
  uint32_t scratch = 0;
  for (uint32_t r = 0; r < m->n; r++)
    scratch = c->places.holders[r].scratch_pieces > scratch ? c->places.holders[r].scratch_pieces
                                                            : scratch;
  for (uint32_t r = 0; r < m->n; r++) {
    df_plan *plan = c->target->plans[r];
    if (plan == NULL) continue;
    plan->geometry = wide ? DF_GEOMETRY_GRID : DF_GEOMETRY_PARTITION;
    plan->pieces = m->pieces;
    plan->scratch_pieces = scratch;
    plan->longest = c->longest;
  }
}

int df_file_convert(const df_file_model *model, const df_file_order *order,
                    const df_file_target *target, df_file_diagnostic *diagnostic) {
  converter c = {.model = model,
                 .places = {.model = model},
                 .order = order,
                 .target = target,
                 .diagnostic = diagnostic,
                 .longest = 1,
                 .is_trial = 1};
  int fine = take_memory(&c);
  /* An additional copy does not change earlier findings, so the loop ends. */
  do {
    if (fine == 1) fine = pass(&c);
  } while (fine == 1 && c.found);
  c.is_trial = 0;
  if (fine == 1) fine = pass(&c);
  if (fine == 1) say_shape(&c);
  give_memory_back(&c);
  return fine;
}
