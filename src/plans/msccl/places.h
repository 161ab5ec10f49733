/* The places of a file's chunks during conversion: their contents, and where they are stored. */
#ifndef DF_PLANS_MSCCL_PLACES_H
#define DF_PLANS_MSCCL_PLACES_H

#include "plans/msccl/model.h"

/* A chunk that a file names. */
typedef struct df_file_cell {
  uint64_t contributions; /* one bit for each position; 0: nothing has been written */
  uint32_t piece;         /* piece whose length the chunk has */
  df_file_place at;       /* place where its content is stored */
  uint32_t shadow;        /* its own place in scratch memory + 1; 0: none */
  uint8_t is_spoiled;     /* 1: in place, its place in the input has been overwritten */
} df_file_cell;

typedef struct df_file_holder {
  df_file_cell *input, *output, *scratch;
  uint8_t *copied;         /* [inputs] 1: copied to scratch memory at the beginning */
  uint32_t scratch_pieces; /* number of scratch pieces so far */
  uint32_t position;
} df_file_holder;

typedef struct df_file_places {
  const df_file_model *model;
  df_file_holder *holders;  /* index: the file's rank */
  uint32_t inputs, outputs; /* numbers of chunks */
} df_file_places;

/* Returns 1 if the rank has an input, or an output. */
int df_file_uses(const df_file_places *c, uint32_t rank, int output);
/* In place: the chunk of the input that is this chunk of the output. UINT32_MAX: there is none. */
uint32_t df_file_input_of(const df_file_places *c, uint32_t rank, uint32_t output);
df_file_cell *df_file_cell_of(const df_file_places *c, uint32_t rank, df_file_place place);
/* NULL: no cell of the input is stored at this chunk of it. */
df_file_cell *df_file_cell_in_input(const df_file_places *c, uint32_t rank, uint32_t input);
/* The place where a chunk as long as `piece` is stored. */
df_file_place df_file_home_of(df_file_places *c, uint32_t rank, df_file_place named,
                              uint32_t piece);
/* In place, that chunk of the output is also a chunk of the input, whose content is lost. */
void df_file_spoil(df_file_places *c, uint32_t rank, df_file_place home,
                   const df_file_cell *writer);

static inline df_file_place df_file_further(df_file_place place, uint32_t by) {
  return (df_file_place){place.buffer, place.chunk + by};
}

static inline int df_file_is_beside(df_file_place first, df_file_place next, uint32_t by) {
  return next.buffer == first.buffer && next.chunk == first.chunk + by;
}

#endif
