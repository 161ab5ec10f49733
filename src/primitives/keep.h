/* A run in place overwrites its input. If the job goes on after the loss of a rank, and executes
 * again what was under way, each block first copies its part of the input, a chunk in each step. */
#ifndef DF_PRIMITIVES_KEEP_H
#define DF_PRIMITIVES_KEEP_H

#include <string.h>

#include "base/atomic.h"
#include "context/cursor.h"
#include "context/descriptor.h"

/* The longest copy of one step. A block attends to other collectives between two of them. */
enum { DF_KEEP_BYTES = 256 * 1024 };

#if !defined(__CUDACC__)
/* The block's part of each row of the run's input, in bytes. A collective with a piece table, or
 * whose runs vary, has one block. */
static inline void df_keep_part(const df_descriptor *desc, uint32_t block, uint32_t slot,
                                uint64_t *at, uint64_t *bytes) {
  const int whole = desc->geometry == DF_GEOMETRY_PIECE_TABLE || desc->count_step != 0;
  *at = whole ? 0 : desc->parts[block].first * desc->element_bytes;
  *bytes = whole ? desc->survivors->kept[slot].row_bytes
                 : desc->parts[block].elements * desc->element_bytes;
}

/* Copies between the input and its copy, a chunk for *loop. Returns 1 when nothing is left. */
static inline int df_keep_chunk(const df_descriptor *desc, uint32_t block, uint32_t slot,
                                uint32_t *loop, uint8_t *to, const uint8_t *from) {
  uint64_t at, bytes;
  df_keep_part(desc, block, slot, &at, &bytes);
  const uint64_t chunks = DF_DIV_UP(bytes, (uint64_t)DF_KEEP_BYTES);
  if (*loop < chunks * desc->survivors->kept[slot].rows) {
    const uint64_t start = *loop % chunks * DF_KEEP_BYTES;
    const uint64_t offset = *loop / chunks * desc->survivors->kept[slot].row_bytes + at + start;
    memcpy(to + offset, from + offset, DF_MIN(bytes - start, (uint64_t)DF_KEEP_BYTES));
    ++*loop;
  }
  return *loop >= chunks * desc->survivors->kept[slot].rows;
}

/* Returns 1 when the block has copied its whole part. */
DF_CORE_APART int df_step_keep(const df_descriptor *desc, uint32_t block, df_cursor *cursor) {
  const uint32_t slot = (uint32_t)(cursor->run % DF_RUNS_AHEAD);
  df_kept_input *kept = &desc->survivors->kept[slot];
  if (!df_keep_chunk(desc, block, slot, &cursor->loop, kept->copy,
                     cursor->buffers[DF_BUFFER_INPUT]))
    return 0;
  df_device_add_u32(&kept->blocks, 1u << block); /* each block's bit is clear */
  cursor->loop = 0;
  return 1;
}
#endif

#endif
