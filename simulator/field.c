#include "field.h"

#include <math.h>
#include <stdlib.h>

#include "philox.h"
#include "portable_log.h"

/* Draws of different purposes must not meet: the counter's highest byte says which. */
typedef enum { DRAW_GAP = 0, DRAW_RARE = 1, DRAW_COMMON = 2 } purpose;

static df_philox_block draw(const df_field *field, uint64_t round, purpose why, uint64_t index) {
  df_philox_block counter = {{(uint32_t)round, (uint32_t)(round >> 32), (uint32_t)index,
                              (uint32_t)(index >> 32) | (uint32_t)why << 24}};
  return df_philox(field->seed, counter);
}

/* (0, 1]: a logarithm of it exists. */
static double open_below(uint64_t bits) {
  return ((double)(bits >> 11) + 1.0) * (1.0 / 9007199254740992.0);
}

/* [0, 1): below p with probability p. */
static double open_above(uint64_t bits) {
  return (double)(bits >> 11) * (1.0 / 9007199254740992.0);
}

void df_field_init(df_field *field, uint64_t seed, uint64_t slot_count, double disorder,
                   double barrier) {
  double far = disorder * disorder, near = disorder - far;
  double common_skip = near * (1.0 - barrier), common_barrier = (1.0 - disorder) * barrier;
  *field = (df_field){.seed = seed,
                      .slot_count = slot_count,
                      .disorder = disorder,
                      .barrier = barrier,
                      .rare = far + near * barrier};
  double common = common_skip + common_barrier + (1.0 - disorder) * (1.0 - barrier);
  field->far_share = field->rare > 0.0 ? far / field->rare : 0.0;
  if (common > 0.0) {
    field->common_skip = common_skip / common;
    field->common_skip_or_barrier = (common_skip + common_barrier) / common;
  }
  if (barrier >= 1.0) field->common_skip_or_barrier = 1.0; /* whatever the rounding above gave */
  if (field->rare > 0.0 && field->rare < 1.0) {
    double log_common = df_log_one_minus(field->rare);
    field->inverse_log_common = 1.0 / log_common;
    /* Only a short cut past the logarithm: the margin makes sure that it never decides. */
    field->surely_none = exp(log_common * (double)slot_count) * (1.0 - 1e-6);
  }
  if (disorder > 0.0 && disorder < 1.0) field->inverse_log_disorder = 1.0 / df_log(disorder);
}

/* K of a slot that has K >= 2: each further step again with probability d. */
static uint64_t far_skip(const df_field *field, uint64_t bits) {
  if (field->disorder >= 1.0) return field->slot_count;
  double steps = floor(df_log(open_below(bits)) * field->inverse_log_disorder);
  return steps < (double)field->slot_count ? 2 + (uint64_t)steps : field->slot_count;
}

static bool append(df_rare_slots *rare, df_rare_slot slot) {
  if (rare->count == rare->room) {
    size_t room = rare->room ? 2 * rare->room : 16;
    df_rare_slot *grown = realloc(rare->slot, room * sizeof *grown);
    if (!grown) return false;
    rare->slot = grown;
    rare->room = room;
  }
  rare->slot[rare->count++] = slot;
  return true;
}

static df_rare_slot fill(const df_field *field, uint64_t round, uint64_t slot) {
  df_philox_block bits = draw(field, round, DRAW_RARE, slot);
  uint64_t low = df_philox_low(bits), high = df_philox_high(bits);
  double which = open_above(low);
  if (which >= field->far_share) return (df_rare_slot){slot, 1, true};
  df_philox_block more = draw(field, round, DRAW_RARE, slot | UINT64_C(1) << 55);
  return (df_rare_slot){slot, far_skip(field, high),
                        open_above(df_philox_low(more)) < field->barrier};
}

dfcclResult_t df_field_rare(const df_field *field, uint64_t round, df_rare_slots *rare) {
  rare->count = 0;
  if (field->rare <= 0.0) return dfcclSuccess;
  df_philox_block bits = {{0}};
  uint64_t slot = 0;
  for (uint64_t index = 0; slot < field->slot_count; index++) {
    if (field->rare < 1.0) {
      if (index % 2 == 0) bits = draw(field, round, DRAW_GAP, index / 2);
      double u = open_below(index % 2 == 0 ? df_philox_low(bits) : df_philox_high(bits));
      if (index == 0 && u < field->surely_none) break;
      double gap = floor(df_log(u) * field->inverse_log_common);
      if (gap >= (double)(field->slot_count - slot)) break;
      slot += (uint64_t)gap;
    }
    if (!append(rare, fill(field, round, slot)))
      return df_fail(dfcclOutOfMemory, "no memory for the %zu disorders of one round", rare->count);
    slot++;
  }
  return dfcclSuccess;
}

df_common_slot df_field_common(const df_field *field, df_field_cursor *cursor, uint64_t slot) {
  if (cursor->pair != slot / 2) {
    df_philox_block bits = draw(field, cursor->round, DRAW_COMMON, slot / 2);
    cursor->pair = slot / 2;
    cursor->draw[0] = df_philox_low(bits);
    cursor->draw[1] = df_philox_high(bits);
  }
  double u = open_above(cursor->draw[slot & 1]);
  bool skip = u < field->common_skip;
  return (df_common_slot){skip, !skip && u < field->common_skip_or_barrier};
}
