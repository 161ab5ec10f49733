/* Movement on the CPU device: one lane, the mover of the processor's instruction set, tiles that
 * stay in cache. */
#ifndef DF_PRIMITIVES_MOVE_CPU_H
#define DF_PRIMITIVES_MOVE_CPU_H

#include "primitives/lanes.h"

enum { DF_TILE_BYTES = 16384 }; /* half of a first-level cache: written once, copied from there */

/* Into one destination. */
static inline void df_move_tile(const df_mover_cpu *mover, const df_move *move, void *destination,
                                const uint8_t *a, const uint8_t *b, uint64_t count, int stream) {
  switch (move->kind) {
  case DF_MOVE_COPY:
    (stream ? mover->copy_stream : mover->copy)(destination, a, count * move->element_bytes);
    break;
  case DF_MOVE_REDUCE:
    (stream ? mover->reduce_stream : mover->reduce)[move->type][move->op](destination, a, b, count);
    break;
  case DF_MOVE_REDUCE_AVERAGE:
    mover->reduce_average[move->type](destination, a, b, count, move->divisor);
    break;
  case DF_MOVE_DIVIDE:
    mover->divide[move->type](destination, a, count, move->divisor);
    break;
  default:
    break;
  }
}

static inline void df_move_execute(df_lanes *lanes, const df_move *move) {
  const df_mover_cpu *mover = lanes->mover;
  const uint8_t *a = (const uint8_t *)move->a, *b = (const uint8_t *)move->b;
  if (move->kind == DF_MOVE_NOTHING) return;
  if (!move->store || !move->slot) {
    void *destination = move->store ? move->store : move->slot;
    int stream = move->stream && move->store && move->store != move->a && move->store != move->b;
    if (destination) df_move_tile(mover, move, destination, a, b, move->count, stream);
    return;
  }
  /* Two destinations, tile by tile: compute into the slot, which the peer will read from cache,
   * then copy the tile. An in-place store goes first: its destination is in cache already. */
  uint8_t *store = (uint8_t *)move->store, *slot = (uint8_t *)move->slot;
  int in_place = move->store == move->a || move->store == move->b;
  uint64_t tile = DF_TILE_BYTES / move->element_bytes;
  for (uint64_t done = 0; done < move->count; done += tile) {
    uint64_t count = DF_MIN(tile, move->count - done);
    uint64_t at = done * move->element_bytes, bytes = count * move->element_bytes;
    uint8_t *first = in_place ? store + at : slot + at;
    df_move_tile(mover, move, first, a + at, b ? b + at : NULL, count, 0);
    if (in_place)
      mover->copy(slot + at, first, bytes);
    else
      (move->stream ? mover->copy_stream : mover->copy)(store + at, first, bytes);
  }
}

#endif
