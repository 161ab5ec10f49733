/* The checker's memory: the buffers of all ranks, with symbols in place of bytes. */
#ifndef DF_PLANS_CHECK_CHECK_PLACES_H
#define DF_PLANS_CHECK_CHECK_PLACES_H

#include "plans/check/check.h"

/* A vector clock: the number of primitives of each rank that precede an event. */
typedef struct df_check_moment {
  uint32_t after[DF_PLAN_CHECK_MAX_RANKS];
} df_check_moment;

/* The symbolic content of a piece. element 0: nothing has been written. Values are compared with
 * memcmp, so the struct has no padding. */
typedef struct df_check_value {
  uint32_t element, divided;
  uint32_t scaled;        /* 1: the contributions have been multiplied */
  uint32_t disordered;    /* an operand came before one of an earlier position */
  uint64_t contributions; /* one bit for each rank */
  uint64_t order;         /* a fingerprint of the order of reductions */
} df_check_value;

typedef struct df_check_cell {
  df_check_value value;
  uint32_t lent; /* number of readers that have not finished */
  /* For each rank, its own time when it last read the lent cell. NULL: the cell was never lent. */
  uint32_t *read;
} df_check_cell;

/* A piece of a message. */
typedef struct df_check_part {
  df_check_value value;
  df_check_cell *lent; /* place of the sender that the receiver reads; or NULL */
} df_check_part;

typedef struct df_check_message {
  df_check_part only, *parts; /* [pieces]: `only`, or memory of its own */
  uint32_t piece, pieces, stride;
  df_check_moment sent, released;
} df_check_message;

/* All messages from one rank to another through one channel. */
typedef struct df_check_pipe {
  df_check_message *messages;
  uint32_t total, sent, released; /* total: number of messages in all loops */
} df_check_pipe;

typedef struct df_check_player {
  const df_plan *plan;
  df_check_cell *input, *output, *scratch;
  df_check_cell
      *memory[3]; /* the allocations behind input, output and scratch; NULL: there is none */
  uint32_t cells[3];
  uint32_t loop, primitive;
  df_check_moment now;
  uint32_t has_data; /* its own time at its latest primitive that is not of a settling round */
} df_check_player;

typedef struct df_checker {
  const df_plan_check_options *o;
  df_plan_key key;
  uint32_t n, pieces, input_pieces, output_pieces, channels;
  df_check_player players[DF_PLAN_CHECK_MAX_RANKS];
  df_check_pipe *pipes; /* [from][to][channels] */
  uint64_t random;
  char *sentence;
  size_t sentence_bytes;
  dfcclResult_t result;
  int executed;
  df_plan_check_findings findings;
} df_checker;

static inline df_check_pipe *df_check_pipe_of(const df_checker *c, uint32_t from, uint32_t to,
                                              uint32_t channel) {
  return &c->pipes[((uint64_t)from * c->n + to) * c->channels + channel];
}

/* Records a diagnostic and returns 0, as all functions here do that find a fault in the plans. The
 * first diagnostic is kept. */
int df_check_complain(df_checker *c, uint32_t rank, const char *format, ...) DF_PRINTF(3, 4);
/* NULL: out of memory, which is then the result of the check. */
void *df_check_take_memory(df_checker *c, size_t n, size_t item);

/* The number of an element, equal in all inputs and outputs. from, to: the ranks to which its piece
 * of a wide buffer belongs. */
uint32_t df_check_element(const df_checker *c, uint32_t loop, uint32_t from, uint32_t to,
                          uint32_t piece);
int df_check_piece_is_there(const df_checker *c, uint32_t loop, uint32_t piece);
/* The length class of a piece: pieces with equal results have equal lengths in every loop. */
uint32_t df_check_length_of(const df_checker *c, uint32_t piece);
/* PIECE_TABLE: the number of a named chunk. */
uint32_t df_check_named(const df_checker *c, const df_plan_name *name);
/* The number of pieces that a primitive of this rank may name. */
uint32_t df_check_pieces_of(const df_checker *c, uint32_t rank);

/* Allocates the buffers of the rank and fills its input. */
int df_check_give_memory(df_checker *c, uint32_t rank);
/* A place in the rank's present loop. NULL: the place does not exist, and a diagnostic has been
 * recorded. */
df_check_cell *df_check_place(df_checker *c, uint32_t rank, uint32_t buffer, uint32_t piece);
/* from: NULL is an invalid place. */
int df_check_read(df_checker *c, uint32_t rank, const df_check_cell *from, uint32_t piece,
                  df_check_value *v);
int df_check_write(df_checker *c, uint32_t rank, df_check_cell *into, const df_check_value *v);

#endif
