#include "data.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/element.h"
#include "common/memory.h"
#include "common/random.h"

static uint64_t hash(int rank, size_t position) {
  return df_tool_mix3(UINT64_C(0x5eed), (uint64_t)rank, position);
}

/* A window of ranks, placed at random for each position. Only ranks inside contribute more than a
 * neutral value: a type with very few exact numbers then serves many ranks. */
static bool in_window(const df_bench_data *data, int rank, size_t position, int width) {
  uint64_t n = (uint64_t)data->n_ranks;
  uint64_t start = df_tool_mix(position) % n;
  return ((uint64_t)rank + n - start) % n < (uint64_t)width;
}

/* Numbers of either sign; the sum over all ranks has at most the magnitude limit. */
static int64_t small_summand(const df_bench_data *data, int rank, size_t position, int64_t limit,
                             bool negative_too) {
  uint64_t bits = hash(rank, position);
  int64_t bound = limit / data->n_ranks;
  bool counts = true;
  if (bound == 0) {
    counts = in_window(data, rank, position, (int)limit);
    bound = 1;
  }
  int64_t value = (int64_t)((bits >> 8) % (uint64_t)(bound + 1));
  if (!counts) value = 0;
  return negative_too && (bits & 1) != 0 ? -value : value;
}

/* ---- Integers ---- */

/* Cut to the type's width, and extended again according to its sign. */
static uint64_t to_width(const df_tool_type *type, uint64_t value) {
  if (type->bytes == 8) return value;
  int unused = 64 - 8 * (int)type->bytes;
  value <<= unused;
  return type->is_signed ? (uint64_t)((int64_t)value >> unused) : value >> unused;
}

static uint64_t integer_input(const df_bench_data *data, int rank, size_t position) {
  const df_tool_type *type = df_tool_type_of(data->type);
  if (data->op == dfcclAvg) /* without overflow: nobody needs the average of a wrapped sum */
    return (uint64_t)small_summand(data, rank, position,
                                   type->bytes == 1   ? 127
                                   : type->bytes == 2 ? 32767
                                                      : 1 << 24,
                                   type->is_signed);
  uint64_t value = hash(rank, position);
  if (data->op == dfcclProd) value |= 1; /* a product of odd numbers does not fade to 0 */
  return to_width(type, value);
}

static bool integer_less(const df_tool_type *type, uint64_t a, uint64_t b) {
  return type->is_signed ? (int64_t)a < (int64_t)b : a < b;
}

/* Reduces the values of the first n ranks. */
static uint64_t integer_reduced(const df_bench_data *data, int n, size_t position) {
  const df_tool_type *type = df_tool_type_of(data->type);
  uint64_t result = integer_input(data, 0, position);
  for (int r = 1; r < n; r++) {
    uint64_t next = integer_input(data, r, position);
    switch (data->op) {
    case dfcclSum:
    case dfcclAvg:
      result += next;
      break;
    case dfcclProd:
      result *= next;
      break;
    case dfcclMax:
      result = integer_less(type, result, next) ? next : result;
      break;
    case dfcclMin:
      result = integer_less(type, next, result) ? next : result;
      break;
    case dfcclBand:
      result &= next;
      break;
    case dfcclBor:
      result |= next;
      break;
    case dfcclBxor:
      result ^= next;
      break;
    default: /* none that -o names */
      break;
    }
  }
  if (data->op == dfcclAvg)
    result = type->is_signed ? (uint64_t)((int64_t)result / data->n_ranks)
                             : result / (uint64_t)data->n_ranks;
  return to_width(type, result);
}

/* ---- Floats ---- */

enum { PRODUCT_WINDOW = 3, MAX_EXACT_BITS = 24 };

static double float_input(const df_bench_data *data, int rank, size_t position) {
  const df_tool_type *type = df_tool_type_of(data->type);
  int exact_bits = type->mantissa_bits + 1;
  if (exact_bits > MAX_EXACT_BITS) exact_bits = MAX_EXACT_BITS;
  int64_t limit = INT64_C(1) << exact_bits; /* every whole number up to it is exact */
  uint64_t bits = hash(rank, position);
  switch (data->op) {
  case dfcclProd: { /* powers of two, at most 2^3 in all, and signs */
    double magnitude =
        in_window(data, rank, position, PRODUCT_WINDOW) && (bits & 2) != 0 ? 2.0 : 1.0;
    return (bits & 1) != 0 ? -magnitude : magnitude;
  }
  case dfcclMax:
  case dfcclMin:
    return (double)((int64_t)(bits % (uint64_t)(2 * limit + 1)) - limit);
  default:
    return (double)small_summand(data, rank, position, limit, true);
  }
}

static double float_reduced(const df_bench_data *data, int n, size_t position) {
  double result = float_input(data, 0, position);
  for (int r = 1; r < n; r++) {
    double next = float_input(data, r, position);
    switch (data->op) {
    case dfcclSum:
    case dfcclAvg:
      result += next;
      break;
    case dfcclProd:
      result *= next;
      break;
    case dfcclMax:
      result = result < next ? next : result;
      break;
    case dfcclMin:
      result = next < result ? next : result;
      break;
    default: /* bitwise: floats have none */
      break;
    }
  }
  if (data->op != dfcclAvg) return result;
  /* The sum is exact; the division is the only rounding, in float32 for the narrow types. */
  result /= data->n_ranks;
  return data->type == dfcclFloat64 ? result : (double)(float)result;
}

/* ---- Tables and buffers ---- */

uint64_t df_bench_input(const df_bench_data *data, int rank, size_t position) {
  if (!df_tool_type_of(data->type)->is_float) return integer_input(data, rank, position);
  return df_tool_float_bits(data->type, float_input(data, rank, position));
}

uint64_t df_bench_reduced(const df_bench_data *data, int n, size_t position) {
  if (!df_tool_type_of(data->type)->is_float) return integer_reduced(data, n, position);
  return df_tool_float_bits(data->type, float_reduced(data, n, position));
}

static void *make_table(const df_bench_data *data, int rank, int n) {
  void *table = malloc(2 * DF_BENCH_PERIOD * df_tool_type_of(data->type)->bytes);
  if (table == NULL) return NULL;
  for (size_t position = 0; position < DF_BENCH_PERIOD; position++) {
    uint64_t bits =
        n > 0 ? df_bench_reduced(data, n, position) : df_bench_input(data, rank, position);
    df_tool_element_store(data->type, table, position, bits);
    df_tool_element_store(data->type, table, position + DF_BENCH_PERIOD, bits);
  }
  return table;
}

void *df_bench_table(const df_bench_data *data, int rank) {
  return make_table(data, rank, rank < 0 ? data->n_ranks : 0);
}

void *df_bench_prefix_table(const df_bench_data *data, int n) { return make_table(data, 0, n); }

/* A run of at most one period, from element number done on: its place in the table. */
static const char *piece(const void *table, size_t bytes, size_t first, size_t done, size_t count,
                         size_t *length) {
  size_t left = count - done;
  *length = left < DF_BENCH_PERIOD ? left : DF_BENCH_PERIOD;
  return (const char *)table + (first + done) % DF_BENCH_PERIOD * bytes;
}

int df_bench_fill(const df_bench_data *data, const void *table, void *buffer, size_t first,
                  size_t count) {
  size_t bytes = df_tool_type_of(data->type)->bytes, length = 0;
  for (size_t done = 0; done < count; done += length) {
    const char *from = piece(table, bytes, first, done, count, &length);
    if (!df_tool_memory_put((char *)buffer + done * bytes, from, length * bytes)) return -1;
  }
  return 0;
}

static int64_t count_differing(const char *a, const char *b, size_t bytes, size_t count) {
  int64_t differing = 0;
  if (memcmp(a, b, bytes * count) == 0) return 0;
  for (size_t i = 0; i < count; i++) differing += memcmp(a + i * bytes, b + i * bytes, bytes) != 0;
  return differing;
}

int64_t df_bench_count_wrong(const df_bench_data *data, const void *table, const void *buffer,
                             size_t first, size_t count) {
  size_t bytes = df_tool_type_of(data->type)->bytes, length = 0;
  bool on_host = df_tool_memory_is_host();
  char *copy = on_host ? NULL : malloc(DF_BENCH_PERIOD * bytes);
  int64_t wrong = on_host || copy != NULL ? 0 : -1;
  for (size_t done = 0; done < count && wrong >= 0; done += length) {
    const char *expected = piece(table, bytes, first, done, count, &length);
    const char *got = (const char *)buffer + done * bytes;
    if (!on_host && !df_tool_memory_get(copy, got, length * bytes))
      wrong = -1;
    else
      wrong += count_differing(on_host ? got : copy, expected, bytes, length);
  }
  free(copy);
  return wrong;
}
