/*
 * Promise of src/primitives/move_cpu.h: what a step moves past the caches are the same bytes as
 * what it moves through them, for every type, kind, count and address, with one destination or two,
 * and nothing beyond the end is touched.
 */
#include "primitives/move.h"

#include <string.h>

#include "support/harness.h"
#include "support/numbers.h"
#include "support/reference.h"

enum { LONGEST = 5 * DF_BLOCK_BYTES, MARGIN = 128 };

typedef struct {
  DF_ALIGNED(64) uint8_t store[LONGEST + 2 * MARGIN];
  DF_ALIGNED(64) uint8_t slot[LONGEST + 2 * MARGIN];
} destinations;

static DF_ALIGNED(64) uint8_t inputs[2][LONGEST + 2 * MARGIN];
static destinations cached, streamed;

static void execute(destinations *to, df_move move, size_t offset, int has_slot) {
  df_lanes lanes = {.mover = df_mover_cpu_best()};
  memset(to, 0xa5, sizeof *to);
  move.store = to->store + MARGIN + offset;
  move.slot = has_slot ? to->slot + MARGIN : NULL;
  df_move_execute(&lanes, &move);
}

static void compare(df_move move, size_t offset) {
  for (int has_slot = 0; has_slot <= 1; has_slot++) {
    move.stream = 0;
    execute(&cached, move, offset, has_slot);
    move.stream = 1;
    execute(&streamed, move, offset, has_slot);
    CHECK(memcmp(&cached, &streamed, sizeof cached) == 0,
          "kind %u, type %u, %llu elements at offset %zu, %d slots: other bytes", move.kind,
          move.type, (unsigned long long)move.count, offset, has_slot);
  }
}

DF_TEST(move_cpu, past_the_caches_come_the_same_bytes, 60) {
  df_random random = {17};
  for (size_t i = 0; i < sizeof inputs; i++)
    ((uint8_t *)inputs)[i] = (uint8_t)df_random_below(&random, 256);
  for (uint32_t kind = DF_MOVE_COPY; kind <= DF_MOVE_DIVIDE; kind++)
    for (int type = 0; type < DF_DATA_TYPES; type++) {
      size_t element = df_type_size((dfcclDataType_t)type);
      const size_t counts[] = {1, 63 / element + 1, DF_BLOCK_BYTES / element,
                               DF_BLOCK_BYTES / element + 1, LONGEST / element};
      const size_t offsets[] = {0, element, 64 - element, 40};
      for (size_t c = 0; c < DF_COUNT_OF(counts); c++)
        for (size_t o = 0; o < DF_COUNT_OF(offsets); o++)
          compare((df_move){.kind = kind,
                            .type = (uint8_t)type,
                            .op = dfcclSum,
                            .element_bytes = (uint8_t)element,
                            .divisor = 3,
                            .count = counts[c],
                            .a = inputs[0] + MARGIN,
                            .b = inputs[1] + MARGIN},
                  offsets[o]);
    }
}
