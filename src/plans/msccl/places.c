#include "plans/msccl/places.h"

int df_file_uses(const df_file_places *c, uint32_t rank, int output) {
  const df_file_model *m = c->model;
  return df_operation_uses(m->operation, output, rank, m->root, m->n);
}

static int gathers(const df_file_places *c) {
  return !df_operation_is_wide(c->model->operation, 0) &&
         df_operation_is_wide(c->model->operation, 1);
}
static int scatters(const df_file_places *c) {
  return df_operation_is_wide(c->model->operation, 0) &&
         !df_operation_is_wide(c->model->operation, 1);
}

/* In place: the chunk of the output that is this chunk of the input. UINT32_MAX: none. */
static uint32_t output_of(const df_file_places *c, uint32_t rank, uint32_t input) {
  const uint32_t base = rank * c->model->pieces;
  if (gathers(c)) return base + input;
  if (!scatters(c)) return input;
  return input >= base && input < base + c->model->pieces ? input - base : UINT32_MAX;
}
uint32_t df_file_input_of(const df_file_places *c, uint32_t rank, uint32_t output) {
  const uint32_t base = rank * c->model->pieces;
  if (scatters(c)) return base + output;
  if (!gathers(c)) return output;
  return output >= base && output < base + c->model->pieces ? output - base : UINT32_MAX;
}

df_file_cell *df_file_cell_of(const df_file_places *c, uint32_t rank, df_file_place place) {
  df_file_holder *p = &c->holders[rank];
  if (place.buffer == DF_BUFFER_SCRATCH) return &p->scratch[place.chunk];
  if (place.buffer == DF_BUFFER_INPUT && c->model->in_place) {
    const uint32_t output = output_of(c, rank, place.chunk);
    if (output != UINT32_MAX) return &p->output[output];
  }
  return place.buffer == DF_BUFFER_INPUT ? &p->input[place.chunk] : &p->output[place.chunk];
}

df_file_cell *df_file_cell_in_input(const df_file_places *c, uint32_t rank, uint32_t input) {
  return df_file_cell_of(c, rank, (df_file_place){DF_BUFFER_INPUT, input});
}

static df_file_place take_shadow(df_file_places *c, uint32_t rank, df_file_cell *of) {
  if (of->shadow == 0) of->shadow = ++c->holders[rank].scratch_pieces;
  return (df_file_place){DF_BUFFER_SCRATCH, of->shadow - 1};
}

df_file_place df_file_home_of(df_file_places *c, uint32_t rank, df_file_place named,
                              uint32_t piece) {
  df_file_cell *into = df_file_cell_of(c, rank, named);
  if (named.buffer == DF_BUFFER_SCRATCH) return named;
  uint32_t output = named.chunk;
  if (named.buffer == DF_BUFFER_INPUT)
    output = c->model->in_place ? output_of(c, rank, named.chunk) : UINT32_MAX;
  const uint32_t pieces = c->model->pieces;
  if (output == UINT32_MAX || !df_file_uses(c, rank, 1) || output % pieces != piece % pieces)
    return take_shadow(c, rank, into);
  return (df_file_place){DF_BUFFER_OUTPUT, output};
}

void df_file_spoil(df_file_places *c, uint32_t rank, df_file_place home,
                   const df_file_cell *writer) {
  if (home.buffer != DF_BUFFER_OUTPUT) return;
  const uint32_t input = df_file_input_of(c, rank, home.chunk);
  if (input == UINT32_MAX || input >= c->inputs) return;
  df_file_cell *lost = df_file_cell_in_input(c, rank, input);
  if (lost == writer) return;
  if (lost->at.buffer == DF_BUFFER_INPUT && lost->at.chunk == input) lost->is_spoiled = 1;
  if (lost->at.buffer == DF_BUFFER_OUTPUT && lost->at.chunk == home.chunk) {
    lost->at = (df_file_place){DF_BUFFER_INPUT, input};
    lost->is_spoiled = 1;
  }
}
