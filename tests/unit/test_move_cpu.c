/*
 * Promise of src/primitives/move_cpu.h: a step moves the same bytes in each way, past the caches
 * and through them, for every type, kind, count and address, with one destination or two, in place
 * or not, and changes nothing beyond the end. Only DF_WAY_PAST writes a slot past the caches. A
 * lent buffer of a peer is not read after it has been returned, which happens between the execution
 * and the remaining stores.
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
/* Where the results of a move go. */
enum { TO_STORE = 1, TO_SLOT = 2, IN_PLACE = 4, IN_SECOND = 8 };

static void execute(destinations *to, df_move move, size_t offset, int has_slot) {
  df_lanes lanes = {.mover = df_mover_cpu_best()};
  memset(to, 0xa5, sizeof *to);
  move.store = to->store + MARGIN + offset;
  move.slot = has_slot ? to->slot + MARGIN : NULL;
  df_move_execute(&lanes, &move);
  df_move_finish(&lanes, &move);
}

static void execute_to(destinations *to, df_move move, size_t offset, int where, uint32_t way) {
  df_lanes lanes = {.mover = df_mover_cpu_best()};
  memset(to, 0xa5, sizeof *to);
  if (where & TO_STORE) move.store = to->store + MARGIN + offset;
  if (where & TO_SLOT) move.slot = to->slot + MARGIN;
  if (where & IN_PLACE) {
    memcpy(move.store, move.a, move.count * move.element_bytes);
    move.a = move.store;
  }
  if (where & IN_SECOND) {
    memcpy(move.store, move.b, move.count * move.element_bytes);
    move.b = move.store;
  }
  move.way = (uint8_t)way;
  df_move_execute(&lanes, &move);
  df_move_finish(&lanes, &move);
}

static void compare_ways(df_move move, size_t offset) {
  static const int wheres[] = {TO_SLOT, TO_SLOT | TO_STORE, TO_SLOT | TO_STORE | IN_PLACE,
                               TO_SLOT | TO_STORE | IN_SECOND};
  for (size_t w = 0; w < DF_COUNT_OF(wheres); w++)
    for (move.stream = 0; move.stream <= 1; move.stream++) {
      if (move.kind == DF_MOVE_COPY && wheres[w] & IN_PLACE) continue; /* a step has no such move */
      if (move.kind != DF_MOVE_REDUCE && wheres[w] & IN_SECOND) continue;
      execute_to(&cached, move, offset, wheres[w], DF_WAY_CACHED);
      for (uint32_t way = DF_WAY_OWNED; way <= DF_WAY_PAST; way++) {
        execute_to(&streamed, move, offset, wheres[w], way);
        CHECK(memcmp(&cached, &streamed, sizeof cached) == 0,
              "way %u, kind %u, type %u, %llu elements at offset %zu, destinations %d: other bytes",
              way, move.kind, move.type, (unsigned long long)move.count, offset, wheres[w]);
      }
    }
}

static void compare(df_move move, size_t offset) {
  compare_ways(move, offset);
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

static df_mover_cpu counting;
static uint64_t streamed_bytes;

static void count_stream(void *dst, const void *src, size_t bytes) {
  streamed_bytes += bytes;
  memcpy(dst, src, bytes);
}

DF_TEST(move_cpu, one_way_writes_slots_past_the_caches, 30) {
  df_lanes lanes = {.mover = &counting};
  counting = *df_mover_cpu_best();
  counting.copy_stream = count_stream;
  for (uint32_t kind = DF_MOVE_COPY; kind <= DF_MOVE_REDUCE; kind++)
    for (uint32_t way = DF_WAY_CACHED; way <= DF_WAY_PAST; way++)
      for (int stores = 0; stores <= 1; stores++) {
        if (kind == DF_MOVE_REDUCE && !stores) continue; /* not by a copy */
        df_move move = {.kind = kind,
                        .type = dfcclUint8,
                        .op = dfcclSum,
                        .element_bytes = 1,
                        .count = LONGEST,
                        .a = inputs[0],
                        .b = inputs[1],
                        .store = stores ? cached.store : NULL,
                        .slot = cached.slot,
                        .way = (uint8_t)way};
        streamed_bytes = 0;
        df_move_execute(&lanes, &move);
        df_move_finish(&lanes, &move);
        CHECK(streamed_bytes == (way == DF_WAY_PAST ? LONGEST : 0), "kind %u, way %u, %llu bytes",
              kind, way, (unsigned long long)streamed_bytes);
      }
}

static df_move borrowing(uint32_t kind, uint64_t count, const void *lent) {
  return (df_move){.kind = kind,
                   .type = dfcclInt32,
                   .op = dfcclSum,
                   .element_bytes = 4,
                   .divisor = 3,
                   .count = count,
                   .borrows = 1,
                   .a = lent,
                   .b = inputs[1]};
}

/* The owner writes to it again as soon as it has it back. */
static void execute_borrowing(destinations *to, uint32_t kind, uint64_t count, int stream,
                              int where, int overwrite) {
  static DF_ALIGNED(64) uint8_t lent[LONGEST];
  df_lanes lanes = {.mover = df_mover_cpu_best()};
  df_move move = borrowing(kind, count, lent);
  memcpy(lent, inputs[0], sizeof lent);
  memset(to, 0xa5, sizeof *to);
  move.stream = (uint32_t)stream;
  if (where & TO_STORE) move.store = to->store;
  if (where & TO_SLOT) move.slot = to->slot;
  df_move_execute(&lanes, &move);
  if (overwrite) memset(lent, 0x5a, sizeof lent);
  df_move_finish(&lanes, &move);
}

DF_TEST(move_cpu, a_lent_buffer_is_not_read_after_it_was_given_back, 30) {
  const uint64_t counts[] = {1, DF_SHORT_BYTES / 4, DF_SHORT_BYTES / 4 + 1, DF_TILE_BYTES / 4,
                             LONGEST / 4};
  for (uint32_t kind = DF_MOVE_COPY; kind <= DF_MOVE_REDUCE; kind++)
    for (size_t c = 0; c < DF_COUNT_OF(counts); c++)
      for (int stream = 0; stream <= 1; stream++)
        for (int where = TO_STORE; where <= (TO_STORE | TO_SLOT); where++) {
          execute_borrowing(&cached, kind, counts[c], stream, where, 0);
          execute_borrowing(&streamed, kind, counts[c], stream, where, 1);
          CHECK(memcmp(&cached, &streamed, sizeof cached) == 0,
                "kind %u, %llu elements, stream %d, destinations %d: read too late", kind,
                (unsigned long long)counts[c], stream, where);
        }
}
