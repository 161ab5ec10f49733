/* Movement of data on the CPU: one lane, and tiles that stay in the cache. */
#ifndef DF_PRIMITIVES_MOVE_CPU_H
#define DF_PRIMITIVES_MOVE_CPU_H

#include <string.h>

#include "primitives/lanes.h"
#include "primitives/mapped_ranges.h"
#include "primitives/ways.h"
#include "primitives/user_operator.h"

enum {
  DF_TILE_BYTES = 16384, /* half of a first-level cache */
  DF_BLOCK_BYTES = 4096,
  DF_SHORT_BYTES = 1024, /* too short to bypass the caches */
  DF_PAST_TILE_BYTES = 8192,
  DF_OWNED_TILE_BYTES = 1024,
  DF_OWNED_AHEAD_BYTES = 2048
};

/* Stores past the caches, through a block in the first-level cache. */
static inline void df_move_divided_stream(const df_mover_cpu *mover, const df_move *move,
                                          uint8_t *destination, const uint8_t *a, const uint8_t *b,
                                          uint64_t count) {
  DF_ALIGNED(64) uint8_t block[DF_BLOCK_BYTES];
  uint64_t bytes = count * move->element_bytes;
  uint64_t part = DF_BLOCK_BYTES - (uintptr_t)destination % DF_CACHE_LINE;
  part -= part % move->element_bytes; /* the destination may be misaligned */
  for (uint64_t at = 0; at < bytes; at += part, part = DF_BLOCK_BYTES) {
    part = DF_MIN(part, bytes - at);
    uint64_t elements = part / move->element_bytes;
    if (move->kind == DF_MOVE_DIVIDE)
      mover->divide[move->type](block, a + at, elements, move->divisor);
    else
      mover->reduce_average[move->type](block, a + at, b + at, elements, move->divisor);
    mover->copy_stream(destination + at, block, part);
  }
}

/* dst may be one of the sources. */
static inline void df_move_user_operator(const df_move *move, uint8_t *dst, const uint8_t *a,
                                         const uint8_t *b, uint64_t count) {
  const df_user_operator *own = df_user_operators[move->divisor];
  DF_ALIGNED(64) uint8_t second[DF_OWN_BLOCK_BYTES];
  const uint64_t most = DF_OWN_BLOCK_BYTES / move->element_bytes;
  for (uint64_t done = 0; done < count; done += most) {
    const uint64_t n = DF_MIN(most, count - done), at = done * move->element_bytes;
    const uint64_t bytes = n * move->element_bytes;
    if (dst == b) memcpy(second, b + at, bytes);
    if (dst != a) memcpy(dst + at, a + at, bytes);
    own->function(dst + at, dst == b ? second : b + at, n, (dfcclDataType_t)move->type,
                  own->argument);
  }
}

static inline void df_move_scaled(const df_mover_cpu *mover, const df_move *move, uint8_t *dst,
                                  const uint8_t *a, const uint8_t *b, uint64_t count) {
  const df_user_operator *own = df_user_operators[move->divisor];
  const df_reduce_fn prod = mover->reduce[move->type][dfcclProd];
  const df_reduce_fn sum = mover->reduce[move->type][dfcclSum];
  DF_ALIGNED(64) uint8_t product[DF_OWN_BLOCK_BYTES];
  const uint64_t most = DF_OWN_BLOCK_BYTES / move->element_bytes;
  for (uint64_t done = 0; done < count; done += most) {
    const uint64_t n = DF_MIN(most, count - done), at = done * move->element_bytes;
    if (move->kind == DF_MOVE_SCALE) {
      prod(dst + at, a + at, own->scalars, n);
    } else {
      prod(product, b + at, own->scalars, n);
      sum(dst + at, a + at, product, n);
    }
  }
}

static inline void df_move_tile(const df_mover_cpu *mover, const df_move *move, void *destination,
                                const uint8_t *a, const uint8_t *b, uint64_t count, int stream) {
  if (stream && (move->kind == DF_MOVE_REDUCE_AVERAGE || move->kind == DF_MOVE_DIVIDE)) {
    df_move_divided_stream(mover, move, (uint8_t *)destination, a, b, count);
    return;
  }
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
  case DF_MOVE_USER_OPERATOR:
    df_move_user_operator(move, (uint8_t *)destination, a, b, count);
    break;
  case DF_MOVE_SCALE:
  case DF_MOVE_REDUCE_SCALED:
    df_move_scaled(mover, move, (uint8_t *)destination, a, b, count);
    break;
  default:
    break;
  }
}

/* Requests the lines for writing. A processor without the instruction ignores it. */
static inline void df_own_lines(uint8_t *at, const uint8_t *end) {
  for (; at < end; at += DF_CACHE_LINE)
#if defined(__x86_64__)
    __asm__ volatile("prefetchw %0" ::"m"(*at));
#else
    __builtin_prefetch(at, 1, 3);
#endif
}

/* Writes a slot through the caches. DF_WAY_OWNED requests each line some time before it is written,
 * because it is in the receiver's cache. */
static inline void df_move_to_slot(const df_mover_cpu *mover, const df_move *move, uint8_t *slot,
                                   const uint8_t *a, const uint8_t *b, uint64_t count) {
  const uint8_t *end = (uint8_t *)move->slot + move->count * move->element_bytes;
  const uint64_t tile =
      move->way == DF_WAY_OWNED ? DF_OWNED_TILE_BYTES / move->element_bytes : count;
  for (uint64_t done = 0; done < count; done += tile) {
    const uint64_t n = DF_MIN(tile, count - done), at = done * move->element_bytes;
    uint8_t *ahead = slot + at + DF_OWNED_AHEAD_BYTES;
    if (move->way == DF_WAY_OWNED && ahead < end)
      df_own_lines(ahead, DF_MIN(end, ahead + DF_OWNED_TILE_BYTES));
    df_move_tile(mover, move, slot + at, a + at, b ? b + at : NULL, n, 0);
  }
}

/* Writes the slot past the caches. Tiles are computed in memory that stays cached. */
static inline void df_move_past(const df_mover_cpu *mover, const df_move *move, const uint8_t *a,
                                const uint8_t *b) {
  DF_ALIGNED(64) uint8_t block[DF_PAST_TILE_BYTES];
  uint8_t *store = (uint8_t *)move->store, *slot = (uint8_t *)move->slot;
  int in_place = store == a || store == b;
  uint64_t tile = DF_PAST_TILE_BYTES / move->element_bytes;
  for (uint64_t done = 0; done < move->count; done += tile) {
    uint64_t count = DF_MIN(tile, move->count - done);
    uint64_t at = done * move->element_bytes, bytes = count * move->element_bytes;
    const uint8_t *first = move->kind == DF_MOVE_COPY ? a + at : in_place ? store + at : block;
    if (move->kind != DF_MOVE_COPY)
      df_move_tile(mover, move, in_place ? store + at : block, a + at, b ? b + at : NULL, count, 0);
    if (first != store + at)
      (move->stream ? mover->copy_stream : mover->copy)(store + at, first, bytes);
    mover->copy_stream(slot + at, first, bytes);
  }
}

/* On the CPU a message arrives as a whole. */
static inline int df_move_has_arrived(df_lanes *lanes, const df_move *move) {
  (void)lanes;
  (void)move;
  return 1;
}

DF_CORE_APART void df_move_any(df_lanes *lanes, const df_move *move);

/* Returns 0 if the rest of the move must not be executed. */
static inline int df_move_read(df_lanes *lanes, const df_move *move, void *to, uint64_t at,
                               uint64_t bytes) {
  df_foreign_memory *memory = &move->recv_link->mapped_ranges->foreign;
  if (!lanes->unread)
    lanes->unread = df_foreign_memory_read(memory, to, (const uint8_t *)move->lent + at, bytes);
  return !lanes->unread;
}

/* The received buffer is read by calls. A copy goes to its place at once, and from there to the
 * slot. Operands go through a tile that stays in the cache. */
DF_CORE_APART void df_move_called(df_lanes *lanes, const df_move *move) {
  DF_ALIGNED(64) uint8_t tile[DF_CALL_TILE_BYTES];
  const int copies = move->kind == DF_MOVE_COPY && move->a == move->lent;
  uint64_t most = sizeof tile / move->element_bytes;
  if (copies && !(move->store && move->slot)) most = move->count;
  for (uint64_t done = 0; done < move->count; done += most) {
    df_move part = *move;
    const uint64_t at = done * move->element_bytes;
    part.count = DF_MIN(most, move->count - done);
    if (move->store) part.store = (uint8_t *)move->store + at;
    if (move->slot) part.slot = (uint8_t *)move->slot + at;
    void *to = !copies ? tile : move->store ? part.store : part.slot;
    if (!df_move_read(lanes, move, to, at, part.count * move->element_bytes)) return;
    part.lent = to;
    part.a = move->a == move->lent ? to : (const uint8_t *)move->a + at;
    if (move->b) part.b = move->b == move->lent ? to : (const uint8_t *)move->b + at;
    if (copies) part.store = NULL;
    if (!copies || (move->store && move->slot)) df_move_any(lanes, &part);
  }
}

void df_move_any(df_lanes *lanes, const df_move *move) {
  const df_mover_cpu *mover = lanes->mover;
  const uint8_t *a = (const uint8_t *)move->a, *b = (const uint8_t *)move->b;
  if (move->kind == DF_MOVE_NOTHING) return;
  if (DF_UNLIKELY(move->borrows && df_is_lent_by_call(move->lent)) &&
      move->recv_link->mapped_ranges) {
    df_move_called(lanes, move);
    return;
  }
  uint8_t *store = (uint8_t *)move->store, *slot = (uint8_t *)move->slot;
  const int past = slot && move->way == DF_WAY_PAST;
  const int in_place = move->store == move->a || move->store == move->b;
  if (!slot && store) {
    df_move_tile(mover, move, store, a, b, move->count, move->stream && !in_place);
    return;
  }
  if (past) {
    if (store)
      df_move_past(mover, move, a, b);
    else
      df_move_tile(mover, move, slot, a, b, move->count, 1);
    return;
  }
  /* The slot is written now, because a peer may be waiting for it, and the store follows the
   * announcement. A borrowed buffer must not be read then, because it has been returned. A move
   * that is measured has no part after the announcement. */
  const int is_late =
      move->count * move->element_bytes <= DF_TILE_BYTES && !move->borrows && !move->measures;
  if (!store || is_late) {
    if (slot) df_move_to_slot(mover, move, slot, a, b, move->count);
    if (store) lanes->late = move->kind == DF_MOVE_COPY ? a : slot;
    return;
  }
  /* For each tile, the slot is written first, because the peer reads it from the cache, and then
   * the store. In place, the cached store is written first. */
  df_move copy = *move;
  copy.kind = DF_MOVE_COPY;
  uint64_t tile = DF_TILE_BYTES / move->element_bytes;
  for (uint64_t done = 0; done < move->count; done += tile) {
    uint64_t count = DF_MIN(tile, move->count - done);
    uint64_t at = done * move->element_bytes, bytes = count * move->element_bytes;
    if (in_place) {
      df_move_tile(mover, move, store + at, a + at, b ? b + at : NULL, count, 0);
      df_move_to_slot(mover, &copy, slot + at, store + at, NULL, count);
    } else {
      df_move_to_slot(mover, move, slot + at, a + at, b ? b + at : NULL, count);
      (move->stream ? mover->copy_stream : mover->copy)(store + at, slot + at, bytes);
    }
  }
}

/* Moves the data that must be in place before the announcement. */
static inline void df_move_execute(df_lanes *lanes, const df_move *move) {
  const uint64_t bytes = move->count * move->element_bytes;
  lanes->late = NULL;
  if (move->kind != DF_MOVE_COPY || bytes > DF_SHORT_BYTES || move->stream || move->borrows) {
    df_move_any(lanes, move);
    return;
  }
  if (move->slot) lanes->late = move->store ? move->a : NULL;
  lanes->mover->copy(move->slot ? move->slot : move->store, move->a, bytes);
}

/* Called after the announcement, and before the received message is released. */
static inline void df_move_finish(df_lanes *lanes, const df_move *move) {
  if (lanes->late)
    (move->stream ? lanes->mover->copy_stream : lanes->mover->copy)(
        move->store, lanes->late, move->count * move->element_bytes);
}

#endif
