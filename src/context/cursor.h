/* Dynamic context: how far one block is in one collective. Sequence numbers follow from it, so that
 * nothing is sent, received or reduced twice. */
#ifndef DF_CONTEXT_CURSOR_H
#define DF_CONTEXT_CURSOR_H

#include "base/attributes.h"

typedef enum {
  DF_PHASE_BEGIN = 0, /* arguments not loaded yet */
  DF_PHASE_MOVE = 1,
  DF_PHASE_DRAIN = 2 /* peers still read lent buffers */
} df_phase;

typedef struct DF_ALIGNED(64) df_cursor {
  uint64_t run;  /* Runs that this block has finished. */
  uint32_t loop; /* over the part's chunks */
  uint32_t primitive;
  uint32_t phase;                      /* df_phase */
  uint32_t flags;                      /* DF_CURSOR_ */
  uint8_t *buffers[4];                 /* by df_buffer */
  uint32_t generation;                 /* of the descriptor */
  uint16_t send_mapping, recv_mapping; /* as in df_run_arguments */
} df_cursor;

enum {
  DF_CURSOR_DIRECT_SENT = 1, /* drain before completing */
  DF_CURSOR_IN_PLACE = 2,
  DF_CURSOR_COMMON = 4 /* uses common slots */
};

DF_STATIC_ASSERT(sizeof(df_cursor) == 64, "a dynamic context is one cache line");

/* For dumps, which look while the block runs. */
DF_CORE uint64_t df_cursor_progress(const df_cursor *cursor) {
  return cursor->run << 44 | (uint64_t)(cursor->loop & 0xffffff) << 20 |
         (uint64_t)(cursor->primitive & 0xffff) << 4 | cursor->phase;
}

#endif
