/* Dynamic context: the progress of one block in one collective. Message sequence numbers are
 * computed from it, so that no message is sent, received or reduced twice. */
#ifndef DF_CONTEXT_CURSOR_H
#define DF_CONTEXT_CURSOR_H

#include "base/attributes.h"

typedef enum {
  DF_PHASE_BEGIN = 0, /* the run's arguments have not been loaded yet */
  DF_PHASE_MOVE = 1,
  DF_PHASE_DRAIN = 2, /* waits while peers still read lent buffers */
  DF_PHASE_KEEP = 3   /* copies the input of a run in place; `loop` counts chunks of it */
} df_phase;

typedef struct DF_ALIGNED(64) df_cursor {
  uint64_t run;  /* number of runs that this block has finished */
  uint32_t loop; /* number of the loop over the part's chunks */
  uint32_t primitive;
  uint32_t phase;                      /* df_phase */
  uint32_t flags;                      /* bits DF_CURSOR_* */
  uint8_t *buffers[4];                 /* address of each df_buffer */
  uint32_t generation;                 /* the descriptor's generation when the run began */
  uint16_t send_mapping, recv_mapping; /* as in df_run_arguments */
} df_cursor;

enum {
  DF_CURSOR_DIRECT_SENT = 1, /* lent buffers must be drained before the run completes */
  DF_CURSOR_IN_PLACE = 2,
  DF_CURSOR_COMMON = 4 /* the run uses common slots */
};

DF_STATIC_ASSERT(sizeof(df_cursor) == 64, "a dynamic context is one cache line");

/* The progress in one word, for dumps, which read it while the block runs. */
DF_CORE uint64_t df_cursor_progress(const df_cursor *cursor) {
  return cursor->run << 44 | (uint64_t)(cursor->loop & 0xffffff) << 20 |
         (uint64_t)(cursor->primitive & 0xffff) << 4 | cursor->phase;
}

#endif
