/*
 * Promises of src/primitives/move_cuda.h, whose source is compiled for the host (no GPU is needed,
 * and none is tested):
 *   - Every type and operator gives the bits of the CPU mover: all pairs of 8-bit operands, random
 *     and special ones for the other types.
 *   - This holds for any number of lanes, any count, any element-aligned addresses, one destination
 *     or two, and a destination that is a source. Nothing beyond the end is touched.
 *   - The same holds if the received or the sent message is in words (link.h). Nothing is moved if
 *     one word has another message's flag.
 *   - Of a message in words nothing is taken while any lane's part is missing.
 */
#include <stdlib.h>
#include <string.h>

#include "primitives/lanes.h"
#include "support/harness.h"
#include "support/numbers.h"

int df_test_move_cuda(const df_move *move, uint32_t n_lanes); /* at most 96 lanes */
void df_test_move_cuda_some(const df_move *move, uint32_t n_lanes, uint64_t which);

enum { DIVIDE = DF_REDUCE_OPERATORS, COPY, OPERATORS };
enum { GUARD_BYTES = 32, GUARD = 0xa7 };

static const uint32_t divisors[] = {
    1, 2, 3, 5, 7, 49, 127, 128, 129, 255, 65537, 16777217, 0x7fffffff, 0x80000000, UINT32_MAX};

static df_move make_move(dfcclDataType_t type, int op, const void *a, const void *b, uint64_t count,
                         uint32_t divisor) {
  static const df_move_kind kinds[] = {
      [dfcclAvg] = DF_MOVE_REDUCE_AVERAGE, [DIVIDE] = DF_MOVE_DIVIDE, [COPY] = DF_MOVE_COPY};
  const bool reduces = op < DF_REDUCE_OPERATORS && op != dfcclAvg;
  df_move move = {.kind = reduces ? DF_MOVE_REDUCE : kinds[op],
                  .a = a,
                  .b = b,
                  .count = count,
                  .type = (uint8_t)type,
                  .op = (uint8_t)(reduces ? op : dfcclSum),
                  .element_bytes = (uint8_t)df_type_size(type),
                  .divisor = divisor};
  return move;
}

static int next_operator(dfcclDataType_t type, int op) {
  do op++;
  while (op < DF_REDUCE_OPERATORS && !df_type_has_operator(type, (dfcclRedOp_t)op));
  return op;
}

static void reference(void *dst, const df_move *move) {
  const df_mover_cpu *mover = df_mover_cpu_by_name("plain");
  switch (move->kind) {
  case DF_MOVE_REDUCE:
    mover->reduce[move->type][move->op](dst, move->a, move->b, move->count);
    break;
  case DF_MOVE_REDUCE_AVERAGE:
    mover->reduce_average[move->type](dst, move->a, move->b, move->count, move->divisor);
    break;
  case DF_MOVE_DIVIDE:
    mover->divide[move->type](dst, move->a, move->count, move->divisor);
    break;
  default:
    mover->copy(dst, move->a, move->count * move->element_bytes);
  }
}

static void check_bytes(const df_move *move, const char *what, const uint8_t *got,
                        const uint8_t *expected) {
  const size_t bytes = move->count * move->element_bytes;
  for (size_t i = 0; i < bytes; i++)
    CHECK(got[i] == expected[i],
          "%s of %s, kind %u, operator %u, divisor %u: byte %zu of %zu is 0x%02x, expected 0x%02x",
          what, df_type_name((dfcclDataType_t)move->type), move->kind, move->op, move->divisor, i,
          bytes, got[i], expected[i]);
  for (size_t i = bytes; i < bytes + GUARD_BYTES; i++)
    CHECK(got[i] == GUARD, "%s: byte %zu behind the end is touched", what, i - bytes);
}

static uint8_t *allocate(size_t bytes) {
  uint8_t *memory = aligned_alloc(64, DF_ALIGN_UP(bytes + 2 * GUARD_BYTES, (size_t)64));
  CHECK(memory != NULL, "out of memory");
  memset(memory, GUARD, DF_ALIGN_UP(bytes + 2 * GUARD_BYTES, (size_t)64));
  return memory;
}

/* ---- Values */

/* Random bit patterns, half of them with an exponent of all ones or all zeros, or near it. */
static void fill(df_random *random, dfcclDataType_t type, uint8_t *to, size_t count) {
  const size_t size = df_type_size(type);
  for (size_t i = 0; i < count; i++) {
    uint64_t bits = df_random_next(random);
    const uint64_t top = (uint64_t)0x7f << (8 * size - 8);
    if (df_random_chance(random, 25)) bits |= top;
    if (df_random_chance(random, 25)) bits &= ~top;
    if (df_random_chance(random, 10)) bits &= (uint64_t)0xfff << (8 * size - (size == 1 ? 8 : 12));
    memcpy(to + i * size, &bits, size);
  }
}

static void check_values(dfcclDataType_t type, const uint8_t *a, const uint8_t *b, size_t count) {
  uint8_t *got = allocate(count * df_type_size(type)), *expected = allocate(count * 8);
  for (int op = 0; op < OPERATORS; op = next_operator(type, op))
    for (size_t d = 0; d < (op == dfcclAvg || op == DIVIDE ? DF_COUNT_OF(divisors) : 1); d++) {
      df_move move = make_move(type, op, a, b, count, divisors[d]);
      move.store = got;
      reference(expected, &move);
      df_test_move_cuda(&move, 32);
      check_bytes(&move, "values", got, expected);
    }
  free(got);
  free(expected);
}

DF_TEST(move_cuda, all_pairs_of_bytes, 120) {
  enum { PAIRS = 65536 };
  uint8_t *a = allocate(PAIRS), *b = allocate(PAIRS);
  for (int i = 0; i < PAIRS; i++) {
    a[i] = (uint8_t)(i >> 8);
    b[i] = (uint8_t)i;
  }
  for (int type = 0; type < DF_DATA_TYPES; type++)
    if (df_type_size((dfcclDataType_t)type) == 1) check_values((dfcclDataType_t)type, a, b, PAIRS);
  free(a);
  free(b);
}

DF_TEST(move_cuda, random_and_special_values, 120) {
  enum { VALUES = 40000 };
  df_random random = {20};
  uint8_t *a = allocate(VALUES * 8), *b = allocate(VALUES * 8);
  for (int t = 0; t < DF_DATA_TYPES; t++) {
    dfcclDataType_t type = (dfcclDataType_t)t;
    fill(&random, type, a, VALUES);
    fill(&random, type, b, VALUES);
    check_values(type, a, b, VALUES);
  }
  free(a);
  free(b);
}

/* ---- Shapes */

enum { STORE = 1, SLOT = 2, STORE_IS_A = 4, STORE_IS_B = 8 };
static const int destinations[] = {
    STORE, SLOT, STORE | SLOT, STORE_IS_A, STORE_IS_A | SLOT, STORE_IS_B, STORE_IS_B | SLOT};

enum { MOST = 700 };
typedef struct area {
  uint8_t *a, *b, *store, *slot, *expected;
} area;

static area allocate_area(void) {
  return (area){allocate(MOST * 8), allocate(MOST * 8), allocate(MOST * 8), allocate(MOST * 8),
                allocate(MOST * 8)};
}

static void free_area(const area *m) {
  free(m->a);
  free(m->b);
  free(m->store);
  free(m->slot);
  free(m->expected);
}

/* One move with a random choice of lanes, count, addresses and destinations. */
static void check_shape(df_random *random, area *m, dfcclDataType_t type, int op) {
  static const uint32_t lanes[] = {1, 3, 32, 96};
  const size_t size = df_type_size(type);
  const uint64_t count =
      (uint64_t)df_random_below(random, df_random_chance(random, 50) ? 40 : MOST);
  size_t at[4];
  const bool aligned = df_random_chance(random, 40);
  for (int i = 0; i < 4; i++)
    at[i] = aligned ? 0 : (size_t)df_random_below(random, (int)(GUARD_BYTES / size)) * size;
  memset(m->store, GUARD, MOST * 8 + 2 * GUARD_BYTES);
  memset(m->slot, GUARD, MOST * 8 + 2 * GUARD_BYTES);
  memset(m->a, GUARD, MOST * 8 + 2 * GUARD_BYTES);
  memset(m->b, GUARD, MOST * 8 + 2 * GUARD_BYTES);
  uint8_t *a = m->a + at[0], *b = m->b + at[1];
  fill(random, type, a, count);
  fill(random, type, b, count);
  df_move move = make_move(type, op, a, b, count, 3);
  const int to = destinations[df_random_below(random, (int)DF_COUNT_OF(destinations))];
  move.store = to & STORE ? m->store + at[2] : to & STORE_IS_A ? a : to & STORE_IS_B ? b : NULL;
  move.slot = to & SLOT ? m->slot + at[3] : NULL;
  reference(m->expected, &move);
  df_test_move_cuda(&move, lanes[df_random_below(random, (int)DF_COUNT_OF(lanes))]);
  if (move.store) check_bytes(&move, "store", move.store, m->expected);
  if (move.slot) check_bytes(&move, "slot", move.slot, m->expected);
}

DF_TEST(move_cuda, any_lanes_count_address_destination, 120) {
  df_random random = {21};
  area m = allocate_area();
  for (int type = 0; type < DF_DATA_TYPES; type++)
    for (int op = 0; op < OPERATORS; op = next_operator((dfcclDataType_t)type, op))
      for (int i = 0; i < 150; i++) check_shape(&random, &m, (dfcclDataType_t)type, op);
  free_area(&m);
}

/* ---- Words */

#define FLAG 0x80000005u
enum { WORDS = 2 * (MOST + 4) };

static void pack(uint64_t *words, const uint8_t *payload, size_t bytes, uint32_t flag) {
  for (size_t i = 0; i < DF_ALIGN_UP(bytes, (size_t)8); i += 4) {
    uint32_t part = 0;
    if (i < bytes) memcpy(&part, payload + i, DF_MIN(bytes - i, (size_t)4));
    words[i / 4] = part | (uint64_t)flag << 32;
  }
}

static void check_words(const df_move *move, const uint64_t *words, const uint8_t *expected) {
  const size_t bytes = move->count * move->element_bytes;
  uint64_t guard;
  memset(&guard, GUARD, sizeof guard);
  for (size_t i = 0; i < DF_ALIGN_UP(bytes, (size_t)8); i += 4) {
    CHECK(words[i / 4] >> 32 == move->send_flag, "word %zu has flag %llx", i / 4,
          (unsigned long long)(words[i / 4] >> 32));
    for (size_t k = 0; k < 4 && i + k < bytes; k++)
      CHECK((uint8_t)(words[i / 4] >> 8 * k) == expected[i + k],
            "%s, kind %u, operator %u: byte %zu of %zu in words",
            df_type_name((dfcclDataType_t)move->type), move->kind, move->op, i + k, bytes);
  }
  CHECK(words[DF_ALIGN_UP(bytes, (size_t)8) / 4] == guard, "a word behind the end is touched");
}

static void check_words_shape(df_random *random, area *m, uint64_t *in, uint64_t *out,
                              dfcclDataType_t type, int op) {
  static const uint32_t lanes[] = {1, 3, 32, 96};
  const size_t size = df_type_size(type);
  const uint64_t count =
      1 + (uint64_t)df_random_below(random, df_random_chance(random, 50) ? 40 : MOST - 1);
  const uint32_t n_lanes = lanes[df_random_below(random, (int)DF_COUNT_OF(lanes))];
  const bool odd = df_random_chance(random, 60);
  uint8_t *local =
      m->a + (odd ? (size_t)df_random_below(random, (int)(GUARD_BYTES / size)) * size : 0);
  uint8_t *store = m->store + (odd ? size : 0);
  const int receives = df_random_below(random, 3); /* 0: no operand is in words; 1: a is; 2: b is */
  const bool two = op != DIVIDE && op != COPY;
  memset(m->store, GUARD, MOST * 8 + 2 * GUARD_BYTES);
  memset(m->slot, GUARD, MOST * 8 + 2 * GUARD_BYTES);
  memset(in, 0, WORDS * sizeof *in);
  memset(out, GUARD, WORDS * sizeof *out);
  fill(random, type, local, count);
  fill(random, type, m->b, count); /* the operand in words, or another source */
  df_move move =
      make_move(type, op, receives == 2 ? local : m->b, receives == 2 ? m->b : local, count, 3);
  if (receives == 2 && !two) move.a = m->b;
  reference(m->expected, &move);
  if (receives) {
    pack(in, m->b, count * size, FLAG);
    move.recv_flagged = in;
    move.recv_flag = FLAG;
    if (move.a == m->b) move.a = in;
    if (move.b == m->b) move.b = in;
  }
  const int to = 1 + df_random_below(random, 3);
  if (to & STORE) move.store = df_random_chance(random, 30) && two ? local : store;
  if (to & SLOT) {
    move.slot = out;
    move.send_flag = FLAG + 1;
  }
  if (receives && df_random_chance(random, 20)) {
    uint64_t *word = &in[(size_t)df_random_below(random, (int)DF_DIV_UP(count * size, (size_t)4))];
    *word -= (uint64_t)4 << 32; /* a round of four slots before */
    CHECK(!df_test_move_cuda(&move, n_lanes), "a word of the round before was taken");
    CHECK(move.store != store || store[0] == GUARD, "it was moved");
    CHECK(((uint8_t *)out)[0] == GUARD, "it was sent on");
    *word += (uint64_t)4 << 32;
  }
  CHECK(df_test_move_cuda(&move, n_lanes), "a message was not seen");
  if (move.store == store) check_bytes(&move, "store", move.store, m->expected);
  if (move.store == local)
    CHECK(memcmp(local, m->expected, count * size) == 0, "in place: another result");
  if (move.slot == out) check_words(&move, out, m->expected);
}

DF_TEST(move_cuda, words, 120) {
  df_random random = {22};
  area m = allocate_area();
  uint64_t *in = (uint64_t *)allocate(WORDS * 8), *out = (uint64_t *)allocate(WORDS * 8);
  for (int type = 0; type < DF_DATA_TYPES; type++)
    for (int op = 0; op < OPERATORS; op = next_operator((dfcclDataType_t)type, op))
      for (int i = 0; i < 150; i++)
        check_words_shape(&random, &m, in, out, (dfcclDataType_t)type, op);
  free_area(&m);
  free(in);
  free(out);
}

/* ---- Torn messages: some lanes of a warp have stored their parts, and others have not */

enum { TORN_LANES = 32, TORN_BYTES = 960 }; /* several words for each lane */

typedef struct torn {
  uint8_t payload[TORN_BYTES], got[TORN_BYTES + GUARD_BYTES], *slot;
  df_move send, receive;
} torn;

static void make_torn(torn *t) {
  t->slot = aligned_alloc(DF_CACHE_LINE, 2 * TORN_BYTES);
  CHECK(t->slot != NULL, "out of memory");
  for (int i = 0; i < TORN_BYTES; i++) t->payload[i] = (uint8_t)(1 + i % 251);
  t->send = make_move(dfcclUint8, COPY, t->payload, t->payload, TORN_BYTES, 1);
  t->send.slot = t->slot;
  t->receive = make_move(dfcclUint8, COPY, t->slot, t->slot, TORN_BYTES, 1);
  t->receive.store = t->got;
  t->receive.recv_flagged = t->slot;
  t->send.send_flag = t->receive.recv_flag = FLAG;
}

/* Stores the parts of these lanes to a cleared slot. Returns whether the receiver takes the
 * message. */
static int takes(torn *t, uint64_t stored) {
  memset(t->slot, 0, 2 * TORN_BYTES);
  memset(t->got, GUARD, sizeof t->got);
  df_test_move_cuda_some(&t->send, TORN_LANES, stored);
  return df_test_move_cuda(&t->receive, TORN_LANES);
}

DF_TEST(move_cuda, torn_messages_are_not_taken, 30) {
  const uint64_t all = (1ull << TORN_LANES) - 1;
  df_random random = {24};
  torn t;
  make_torn(&t);
  for (int i = 0; i < 2000; i++) {
    const uint64_t missing = df_random_next(&random) & df_random_next(&random) & all;
    if (missing == 0) continue;
    CHECK(!takes(&t, all & ~missing), "words were taken without those of lanes %llx",
          (unsigned long long)missing);
    CHECK(t.got[0] == GUARD, "and moved");
  }
  for (int lane = 0; lane < TORN_LANES; lane++)
    CHECK(!takes(&t, all & ~(1ull << lane)), "words were taken without those of lane %d", lane);
  CHECK(takes(&t, all) && memcmp(t.got, t.payload, TORN_BYTES) == 0, "another message");
  free(t.slot);
}
