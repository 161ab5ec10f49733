/*
 * Dynamic context: how far one block is in one collective. A context switch copies it out and
 * another one in. Every message's sequence number follows from it, so that nothing is sent,
 * received or reduced twice.
 */
#ifndef DF_CONTEXT_CURSOR_H
#define DF_CONTEXT_CURSOR_H

#include "base/attributes.h"

typedef enum {
  DF_PHASE_BEGIN = 0, /* the next run's arguments are not loaded yet */
  DF_PHASE_MOVE = 1,  /* executing primitives */
  DF_PHASE_DRAIN = 2  /* done, but peers still read buffers that this rank lent */
} df_phase;

typedef struct DF_ALIGNED(64) df_cursor {
  uint64_t run;  /* runs that this block has finished: the current one's number */
  uint32_t loop; /* over the chunks of the block's part */
  uint32_t primitive;
  uint32_t phase;                  /* df_phase */
  uint32_t flags;                  /* DF_CURSOR_ */
  uint8_t *buffers[4];             /* of the current run, by df_buffer; the input is only read */
  uint32_t generation;             /* of the descriptor that this context belongs to */
  uint16_t send_reach, recv_reach; /* as in df_run_arguments */
} df_cursor;

enum {
  DF_CURSOR_DIRECT_SENT = 1, /* a message of this run lent a buffer: drain before completing */
  DF_CURSOR_IN_PLACE = 2,
  DF_CURSOR_COMMON = 4 /* messages to several peers go through common slots */
};

DF_STATIC_ASSERT(sizeof(df_cursor) == 64, "a dynamic context is one cache line");

/* A cursor in one word, for dumps: they look while the block runs. */
DF_CORE uint64_t df_cursor_progress(const df_cursor *cursor) {
  return cursor->run << 44 | (uint64_t)(cursor->loop & 0xffffff) << 20 |
         (uint64_t)(cursor->primitive & 0xffff) << 4 | cursor->phase;
}

#endif
