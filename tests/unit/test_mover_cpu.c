/*
 * Promises of src/primitives/movers/mover_cpu.h, for each variant that this processor runs:
 *   - Every operator of every type gives exactly the bits of a scalar reference that is computed
 *     from the values (support/numbers.h): all pairs of operands for 8-bit types, all numbers for
 *     16-bit quotients, special and random ones for the rest. So the variants agree bit for bit.
 *   - Any count, any element-aligned pointers, dst equal to a source or to both; nothing beyond the
 *     end is touched.
 *   - Streaming functions give the same bytes as the others.
 */
#include "primitives/movers/mover_cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"
#include "support/numbers.h"

static const char *const variants[] = {"plain", "avx2", "avx512", "neon"};

#define FOR_EACH_MOVER(mover)                                                                      \
  for (size_t variant_ = 0; variant_ < DF_COUNT_OF(variants); variant_++)                          \
    for (const df_mover_cpu *mover = df_mover_cpu_by_name(variants[variant_]); mover != NULL;      \
         mover = NULL)

#define FOR_EACH_TYPE(type) for (dfcclDataType_t type = 0; (int)type < DF_DATA_TYPES; type++)

/* ---- The reference. Operators: those of dfcclRedOp_t, and division of the first operand. */

enum { DIVIDE = DF_REDUCE_OPERATORS, OPERATORS };
static const char *const operator_names[OPERATORS] = {
#define DF_REDUCTION(id, name, ...) [dfccl##id] = name,
#include "primitives/elements/types.def"
    [DIVIDE] = "divide"};

static bool has(dfcclDataType_t type, int op) {
  return op == DIVIDE || df_type_has(type, (dfcclRedOp_t)op);
}

static uint64_t canonical_nan(dfcclDataType_t type) {
  return ((uint64_t)1 << (8 * df_type_bytes(type) - 1)) - 1;
}

static double larger(double a, double b) {
  if (isnan(a) || isnan(b)) return isnan(a) ? b : a;
  if (a == b) return signbit(a) ? b : a;
  return a > b ? a : b;
}

static uint64_t reference_float(dfcclDataType_t type, int op, uint64_t a, uint64_t b,
                                uint32_t divisor) {
  const double x = df_float_decode(type, a), y = df_float_decode(type, b);
  const float p = (float)x, q = (float)y;
  const bool wide = type == dfcclFloat64;
  double result = 0;
  switch (op) {
  case dfcclSum:
    result = wide ? x + y : (double)(float)(p + q);
    break;
  case dfcclProd:
    result = wide ? x * y : (double)(float)(p * q);
    break;
  case dfcclMax:
    result = larger(x, y);
    break;
  case dfcclMin:
    result = -larger(-x, -y);
    break;
  case dfcclAvg:
    result = wide ? (x + y) / (double)divisor : (double)((float)(p + q) / (float)divisor);
    break;
  case DIVIDE:
    result = wide ? x / (double)divisor : (double)(p / (float)divisor);
    break;
  }
  return isnan(result) ? canonical_nan(type) : df_float_encode(type, result);
}

static uint64_t reference_integer(dfcclDataType_t type, int op, uint64_t a, uint64_t b,
                                  uint32_t divisor) {
  const int64_t x = df_integer_wrap(type, a), y = df_integer_wrap(type, b);
  const bool is_signed = df_type_is_signed(type);
  const bool less = is_signed ? x < y : (uint64_t)x < (uint64_t)y;
  const uint64_t sum = (uint64_t)df_integer_wrap(type, op == DIVIDE ? a : a + b);
  uint64_t result = 0;
  switch (op) {
  case dfcclSum:
    result = a + b;
    break;
  case dfcclProd:
    result = a * b;
    break;
  case dfcclMax:
    result = less ? b : a;
    break;
  case dfcclMin:
    result = less ? a : b;
    break;
  case dfcclBand:
    result = a & b;
    break;
  case dfcclBor:
    result = a | b;
    break;
  case dfcclBxor:
    result = a ^ b;
    break;
  case dfcclAvg:
  case DIVIDE:
    result = is_signed ? (uint64_t)((int64_t)sum / (int64_t)divisor) : sum / divisor;
    break;
  }
  const size_t bits = 8 * df_type_bytes(type);
  return bits == 64 ? result : result & (((uint64_t)1 << bits) - 1);
}

static uint64_t reference(dfcclDataType_t type, int op, uint64_t a, uint64_t b, uint32_t divisor) {
  return df_type_is_float(type) ? reference_float(type, op, a, b, divisor)
                                : reference_integer(type, op, a, b, divisor);
}

static void run(const df_mover_cpu *mover, dfcclDataType_t type, int op, void *dst, const void *a,
                const void *b, size_t count, uint32_t divisor) {
  if (op == dfcclAvg)
    mover->reduce_average[type](dst, a, b, count, divisor);
  else if (op == DIVIDE)
    mover->divide[type](dst, a, count, divisor);
  else
    mover->reduce[type][op](dst, a, b, count);
}

/* Runs op in every variant and compares every element with the reference. */
static void check_operands(dfcclDataType_t type, int op, const void *a, const void *b, size_t count,
                           uint32_t divisor) {
  const size_t bytes = count * df_type_bytes(type);
  char *expected = malloc(bytes), *got = malloc(bytes);
  CHECK(expected != NULL && got != NULL, "out of memory");
  for (size_t i = 0; i < count; i++)
    df_element_store(
        type, expected, i,
        reference(type, op, df_element_load(type, a, i), df_element_load(type, b, i), divisor));
  FOR_EACH_MOVER(mover) {
    memset(got, 0x5a, bytes);
    run(mover, type, op, got, a, b, count, divisor);
    for (size_t i = 0; i < count; i++)
      CHECK(df_element_load(type, got, i) == df_element_load(type, expected, i),
            "%s: %s of %s, element %zu of %zu: 0x%llx and 0x%llx, divisor %u: 0x%llx, expected "
            "0x%llx",
            mover->name, operator_names[op], df_type_name(type), i, count,
            (unsigned long long)df_element_load(type, a, i),
            (unsigned long long)df_element_load(type, b, i), divisor,
            (unsigned long long)df_element_load(type, got, i),
            (unsigned long long)df_element_load(type, expected, i));
  }
  free(expected);
  free(got);
}

/* 49, 98, 103, 107: in float64, n * (1 / n) is less than 1. */
static const uint32_t divisors[] = {1,    2,     3,        5,          6,          7,         8,
                                    10,   49,    98,       100,        103,        107,       127,
                                    128,  129,   255,      256,        257,        641,       1000,
                                    4096, 65537, 16777217, 0x7fffffff, 0x80000000, UINT32_MAX};

/* Each type has half of the divisors, its neighbours have the others. Sanitizer builds have a
 * quarter, emulated ones three. */
static void check_all_operators(dfcclDataType_t type, const void *a, const void *b, size_t count) {
  const size_t step = df_is_emulated() ? 9 : df_slowdown() > 1 ? 4 : 2;
  for (int op = 0; op < DF_REDUCE_OPERATORS; op++)
    if (op != dfcclAvg && has(type, op)) check_operands(type, op, a, b, count, 1);
  for (size_t i = (size_t)type % step; i < DF_COUNT_OF(divisors); i += step) {
    check_operands(type, dfcclAvg, a, b, count, divisors[i]);
    check_operands(type, DIVIDE, a, b, count, divisors[i]);
  }
}

/* ---- Values. */

DF_TEST(mover_cpu, every_pair_of_8_bit_operands, 120) {
  enum { PAIRS = 65536 };
  uint8_t *a = malloc(PAIRS), *b = malloc(PAIRS);
  CHECK(a != NULL && b != NULL, "out of memory");
  for (size_t i = 0; i < PAIRS; i++) a[i] = (uint8_t)(i >> 8), b[i] = (uint8_t)i;
  FOR_EACH_TYPE(type) {
    if (df_type_bytes(type) == 1) check_all_operators(type, a, b, PAIRS);
  }
  free(a);
  free(b);
}

/* Each of the 65,536 numbers as first operand, with second operands that are itself, its negative,
 * its neighbour, and a random one. */
DF_TEST(mover_cpu, every_16_bit_number_as_an_operand, 120) {
  enum { NUMBERS = 65536 };
  uint16_t *a = malloc(NUMBERS * sizeof *a), *b = malloc(NUMBERS * sizeof *b);
  CHECK(a != NULL && b != NULL, "out of memory");
  df_random random = {16};
  for (int with = 0; with < 4; with++) {
    for (size_t i = 0; i < NUMBERS; i++) {
      const uint16_t others[] = {(uint16_t)i, (uint16_t)(i ^ 0x8000), (uint16_t)(i + 1),
                                 (uint16_t)df_random_next(&random)};
      a[i] = (uint16_t)i, b[i] = others[with];
    }
    FOR_EACH_TYPE(type) {
      if (df_type_bytes(type) == 2) check_all_operators(type, a, b, NUMBERS);
    }
  }
  free(a);
  free(b);
}

/* Bit patterns where something happens: zeros, ones, signs, exponents' ends, NaNs of both kinds. */
static uint64_t special(dfcclDataType_t type, int index) {
  static const uint64_t patterns[] = {0, 1, 2, 3, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff};
  static const uint64_t single[] = {0x3f800000, 0xbf800000, 0x00800000, 0x007fffff, 0x80000001,
                                    0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7f800001,
                                    0xff800001, 0x7fc00000, 0xffc12345, 0x7fffffff, 0x80000000,
                                    0xffffffff, 0x4b800000, 0x33800000};
  static const uint64_t twice[] = {0x3ff0000000000000, 0xbff0000000000000, 0x0010000000000000,
                                   0x000fffffffffffff, 0x8000000000000001, 0x7fefffffffffffff,
                                   0xffefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000,
                                   0x7ff0000000000001, 0xfff0000000000001, 0x7ff8000000000000,
                                   0xfff8000000012345, 0x7fffffffffffffff, 0x8000000000000000,
                                   0xffffffffffffffff, 0x3ca0000000000000, 0x4340000000000000};
  const int common = DF_COUNT_OF(patterns);
  if (index < common) return patterns[index];
  return df_type_bytes(type) == 8 ? twice[index - common] : single[index - common];
}
enum { SPECIALS = 28 };

DF_TEST(mover_cpu, special_and_random_operands_of_32_and_64_bits, 120) {
  const size_t count = SPECIALS * SPECIALS + (size_t)(20000 / df_slowdown());
  uint64_t *a = malloc(count * sizeof *a), *b = malloc(count * sizeof *b);
  CHECK(a != NULL && b != NULL, "out of memory");
  df_random random = {3264};
  FOR_EACH_TYPE(type) {
    if (df_type_bytes(type) < 4) continue;
    for (size_t i = 0; i < count; i++) {
      uint64_t x = df_random_next(&random), y = df_random_next(&random);
      if (i < SPECIALS * SPECIALS) {
        x = special(type, (int)(i / SPECIALS)), y = special(type, (int)(i % SPECIALS));
      } else if (i % 4 == 0) { /* close to multiples of a divisor */
        const uint64_t divisor = divisors[x % DF_COUNT_OF(divisors)];
        x = i % 8 == 0 ? x / divisor * divisor : divisor << (x >> 59);
        x += (uint64_t)df_random_below(&random, 3) - 1, y = y % 3;
      } else if (i % 4 == 1) { /* float exponents near each other */
        y = x ^ (y >> (df_type_bytes(type) == 4 ? 40 : 12));
      }
      df_element_store(type, a, i, x);
      df_element_store(type, b, i, y);
    }
    check_all_operators(type, a, b, count);
  }
  free(a);
  free(b);
}

/* ---- Shapes. */

enum { GUARD = 64, LONGEST = 300, ROOM = LONGEST * 8 + 4 * GUARD };
typedef enum { APART, ONTO_FIRST, ONTO_SECOND, ALL_ONE, PLACINGS } placing;

/* One call on buffers that start anywhere, with guard bytes around dst. */
static void check_shape(const df_mover_cpu *mover, dfcclDataType_t type, int op, placing where,
                        size_t count, df_random *random) {
  static DF_ALIGNED(64) char room[3][ROOM], before[3][ROOM];
  const size_t element = df_type_bytes(type);
  for (int k = 0; k < 3; k++)
    for (size_t i = 0; i < ROOM; i++) room[k][i] = (char)df_random_next(random);
  memcpy(before, room, sizeof room);
  size_t at[3];
  for (int k = 0; k < 3; k++) at[k] = GUARD + element * (size_t)df_random_below(random, GUARD / 8);
  const int d = 0, a = where == ONTO_FIRST || where == ALL_ONE ? 0 : 1;
  const int b = where == ONTO_SECOND || where == ALL_ONE ? 0 : 2;
  const uint32_t divisor = 3;
  run(mover, type, op, room[d] + at[d], room[a] + at[a], room[b] + at[b], count, divisor);
  for (size_t i = 0; i < count; i++) {
    const uint64_t expected = reference(type, op, df_element_load(type, before[a] + at[a], i),
                                        df_element_load(type, before[b] + at[b], i), divisor);
    CHECK(df_element_load(type, room[d] + at[d], i) == expected,
          "%s: %s of %s, placing %d, element %zu of %zu: 0x%llx, expected 0x%llx", mover->name,
          operator_names[op], df_type_name(type), (int)where, i, count,
          (unsigned long long)df_element_load(type, room[d] + at[d], i),
          (unsigned long long)expected);
  }
  memcpy(before[d] + at[d], room[d] + at[d], count * element);
  CHECK(memcmp(before, room, sizeof room) == 0,
        "%s: %s of %s, placing %d, count %zu: bytes outside of dst were written", mover->name,
        operator_names[op], df_type_name(type), (int)where, count);
}

DF_TEST(mover_cpu, any_count_alignment_and_aliasing, 120) {
  df_random random = {7};
  FOR_EACH_MOVER(mover) FOR_EACH_TYPE(type) for (int op = 0; op < OPERATORS; op++) {
    if (!has(type, op)) continue;
    for (int where = 0; where < PLACINGS; where++) {
      for (size_t count = 0; count < 20; count++)
        check_shape(mover, type, op, (placing)where, count, &random);
      for (int repeat = 0; repeat < 12 / df_slowdown() + 1; repeat++)
        check_shape(mover, type, op, (placing)where, (size_t)df_random_below(&random, LONGEST),
                    &random);
    }
  }
}

DF_TEST(mover_cpu, streamed_reductions_give_the_same_bytes, 120) {
  enum { BYTES = 40000, SLACK = 128 };
  char *a = aligned_alloc(64, BYTES + 2 * SLACK), *b = aligned_alloc(64, BYTES + 2 * SLACK);
  char *plain = aligned_alloc(64, BYTES + 2 * SLACK), *got = aligned_alloc(64, BYTES + 2 * SLACK);
  CHECK(a && b && plain && got, "out of memory");
  df_random random = {11};
  for (size_t i = 0; i < BYTES + 2 * SLACK; i++)
    a[i] = (char)df_random_next(&random), b[i] = (char)df_random_next(&random);
  FOR_EACH_MOVER(mover) FOR_EACH_TYPE(type) for (int op = 0; op < DF_REDUCE_OPERATORS; op++) {
    if (op == dfcclAvg || !has(type, op)) continue;
    const size_t element = df_type_bytes(type);
    const size_t counts[] = {0,
                             1,
                             5,
                             63,
                             64,
                             65,
                             4096 / element,
                             4096 / element + 1,
                             (size_t)df_random_below(&random, (int)(BYTES / element)),
                             BYTES / element};
    for (size_t k = 0; k < DF_COUNT_OF(counts); k++) {
      const size_t at = element * (size_t)df_random_below(&random, 64 / (int)element);
      memset(plain, 0x3c, BYTES + 2 * SLACK);
      memset(got, 0x3c, BYTES + 2 * SLACK);
      df_mover_cpu_by_name("plain")->reduce[type][op](plain + at, a + element, b, counts[k]);
      mover->reduce_stream[type][op](got + at, a + element, b, counts[k]);
      CHECK(memcmp(plain, got, BYTES + 2 * SLACK) == 0, "%s: %s of %s, %zu elements at +%zu",
            mover->name, operator_names[op], df_type_name(type), counts[k], at);
    }
  }
  free(a), free(b), free(plain), free(got);
}

static void check_copy(void (*copy)(void *, const void *, size_t), const char *name, size_t bytes,
                       size_t to, size_t from) {
  enum { SIZE = 12000 };
  static DF_ALIGNED(64) char src[SIZE], dst[SIZE], expected[SIZE];
  for (size_t i = 0; i < SIZE; i++) src[i] = (char)(i * 7 + i / 256 + 1);
  memset(dst, 0x3c, SIZE);
  memset(expected, 0x3c, SIZE);
  for (size_t i = 0; i < bytes; i++) expected[to + i] = src[from + i];
  copy(dst + to, src + from, bytes);
  CHECK(memcmp(dst, expected, SIZE) == 0, "%s: %zu bytes from +%zu to +%zu", name, bytes, from, to);
  copy(dst + to, dst + to, bytes);
  CHECK(memcmp(dst, expected, SIZE) == 0, "%s: %zu bytes onto themselves", name, bytes);
}

DF_TEST(mover_cpu, copies_of_any_size_and_alignment, 60) {
  df_random random = {13};
  FOR_EACH_MOVER(mover) {
    for (size_t bytes = 0; bytes < 400; bytes++) {
      const size_t to = (size_t)df_random_below(&random, 64),
                   from = (size_t)df_random_below(&random, 64);
      check_copy(mover->copy, mover->name, bytes, to, from);
      check_copy(mover->copy_stream, mover->name, bytes, to, from);
      check_copy(mover->copy, mover->name, bytes, 0, 0);
      check_copy(mover->copy_stream, mover->name, bytes, 0, 0);
    }
    check_copy(mover->copy, mover->name, 10001, 3, 5);
    check_copy(mover->copy_stream, mover->name, 10001, 3, 5);
  }
}

/* ---- The choice. */

DF_TEST(mover_cpu, tables_are_complete_and_found_by_name, 10) {
  int found = 0;
  FOR_EACH_MOVER(mover) {
    found++;
    CHECK(strcmp(mover->name, variants[variant_]) == 0, "%s is called %s", variants[variant_],
          mover->name);
    FOR_EACH_TYPE(type) {
      for (int op = 0; op < DF_REDUCE_OPERATORS; op++)
        CHECK((op != dfcclAvg && has(type, op)) == (mover->reduce[type][op] != NULL) &&
                  (mover->reduce[type][op] != NULL) == (mover->reduce_stream[type][op] != NULL),
              "%s: operator %d of type %d", mover->name, op, (int)type);
      CHECK(mover->reduce_average[type] != NULL && mover->divide[type] != NULL,
            "%s lacks a division of type %d", mover->name, (int)type);
    }
    CHECK(mover->copy != NULL && mover->copy_stream != NULL, "%s lacks a copy", mover->name);
  }
  CHECK(found >= 1, "the plain variant is always there");
  CHECK(df_mover_cpu_by_name("AVX2") == NULL && df_mover_cpu_by_name("") == NULL, "no such names");
}

DF_TEST(mover_cpu, best_is_the_last_variant_that_runs_here, 10) {
  const df_mover_cpu *last = NULL;
  FOR_EACH_MOVER(mover) last = mover;
  CHECK(df_mover_cpu_best() == last, "best is %s", df_mover_cpu_best()->name);
}
