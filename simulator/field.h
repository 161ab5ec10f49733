/* Field: the chances of one round, independent for each slot.
 *
 * The model's generator is: skip elements of the remainder with probability d, then emit one. The
 * same comes of two independent draws for each slot: a *skip* K (K >= j with probability d^j), and
 * a *barrier* behind the slot (probability s; always in the single-queue model). Slot t emits
 * rem[K]. The skip disturbs slots t .. t + K, clipped to the GPU's last slot. Slots t and t + 1 of
 * a GPU belong to one *block* if some skip reaches over the gap between them. Outside blocks a GPU
 * runs in its expected order. Slots are independent, so rare slots can be drawn first, by geometric
 * skips over all slots of all GPUs. Common slots are drawn if somebody asks:
 *
 *   rare     K >= 2 (probability d^2), or K = 1 with a barrier behind it (probability (d - d^2) s)
 *   common   everything else: K = 1 without a barrier, or K = 0 with or without one
 *
 * A block can only contain a barrier if it contains a rare slot. Every engine sees the same round:
 * the draws of common slots are a function of (seed, round, slot), for all callers in every order.
 */
#ifndef DF_SIM_FIELD_H
#define DF_SIM_FIELD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/result.h"

typedef struct {
  uint64_t seed, slot_count;
  double disorder;               /* d */
  double rare;                   /* the probability that a slot is rare */
  double far_share;              /* share of the rare slots with K >= 2 */
  double barrier;                /* s; 1 in the single-queue model */
  double common_skip;            /* share of the common slots with K = 1 */
  double common_skip_or_barrier; /* and with those that have a barrier */
  double inverse_log_common;     /* 1 / log(1 - rare) */
  double inverse_log_disorder;   /* 1 / log(d) */
  double surely_none;            /* a first draw below this leaves the round without rare slots */
} df_field;

void df_field_init(df_field *field, uint64_t seed, uint64_t slot_count, double disorder,
                   double barrier);

typedef struct {
  uint64_t slot;
  uint64_t skip; /* K, not clipped yet */
  bool barrier;
} df_rare_slot;

typedef struct {
  df_rare_slot *slot;
  size_t count, room;
} df_rare_slots;

/* Draws the rare slots of a round, ascending. rare->slot is the caller's to free. */
dfcclResult_t df_field_rare(const df_field *field, uint64_t round, df_rare_slots *rare);

typedef struct {
  uint64_t round, pair; /* the draws at hand are of slots 2 * pair and 2 * pair + 1 */
  uint64_t draw[2];
} df_field_cursor;

typedef struct {
  bool skip; /* K = 1; else K = 0 */
  bool barrier;
} df_common_slot;

static inline df_field_cursor df_field_cursor_start(uint64_t round) {
  return (df_field_cursor){.round = round, .pair = UINT64_MAX};
}

/* Returns the content of a slot that is not rare. The cursor stores the draw of its neighbour. */
df_common_slot df_field_common(const df_field *field, df_field_cursor *cursor, uint64_t slot);

#endif
