/*
 * Times the CPU movers: every type, operator and instruction set, and the copies, on buffers that
 * stay in the first-level cache, in the second-level cache, and in neither. Each timed variant is
 * first checked against the plain variant.
 *
 * "scalar" is what a loop over the conversions of convert.h costs, one element at a time.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "primitives/elements/convert.h"
#include "primitives/movers/mover_cpu.h"

enum { PLACES = 3, DIVIDE = DF_REDUCE_OPERATORS, OPERATORS, DIVISOR = 7 };

/* Bytes of each buffer; an operation has three of them. */
static const size_t place_bytes[PLACES] = {8 << 10, 256 << 10, 64 << 20};
static const char *const place_names[PLACES] = {"3x8KiB", "3x256KiB", "3x64MiB"};

static const char *const operator_names[OPERATORS] = {
#define DF_REDUCTION(id, name, ...) [dfccl##id] = name,
#include "primitives/elements/types.def"
    [DIVIDE] = "divide"};
static const char *const isa_names[] = {"plain", "avx2", "avx512", "neon"};

static struct {
  const char *type, *op, *isa; /* NULL: all */
  uint64_t cell_ns;            /* time spent on one number of the table */
  char *a, *b, *dst, *expected;
} bench = {.cell_ns = 20000000};

/* ---- One element at a time, for comparison. */

#if defined(__clang__)
#define NO_VECTORS
#define NO_VECTOR_LOOP _Pragma("clang loop vectorize(disable)")
#else
#define NO_VECTORS __attribute__((optimize("no-tree-vectorize")))
#define NO_VECTOR_LOOP
#endif

#define DEFINE_SCALAR_SUM(type, element)                                                           \
  NO_VECTORS static void scalar_sum_##type(void *dst, const void *a, const void *b,                \
                                           size_t count) {                                         \
    element *d = dst;                                                                              \
    const element *x = a, *y = b;                                                                  \
    NO_VECTOR_LOOP                                                                                 \
    for (size_t i = 0; i < count; i++)                                                             \
      d[i] =                                                                                       \
          df_##type##_from_float32(df_float32_from_##type(x[i]) + df_float32_from_##type(y[i]));   \
  }
DEFINE_SCALAR_SUM(float16, uint16_t)
DEFINE_SCALAR_SUM(bfloat16, uint16_t)
DEFINE_SCALAR_SUM(float8e4m3, uint8_t)
DEFINE_SCALAR_SUM(float8e5m2, uint8_t)

static const df_reduce_fn scalar_sums[DF_DATA_TYPES] = {
    [dfcclFloat16] = scalar_sum_float16,
    [dfcclBfloat16] = scalar_sum_bfloat16,
    [dfcclFloat8e4m3] = scalar_sum_float8e4m3,
    [dfcclFloat8e5m2] = scalar_sum_float8e5m2,
};

/* ---- Timing. One of the function pointers is set. */

typedef struct {
  df_reduce_fn reduce;
  df_reduce_average_fn average;
  df_divide_fn divide;
  void (*copy)(void *dst, const void *src, size_t bytes);
  size_t element;
} operation;

static void perform(const operation *o, void *dst, size_t bytes) {
  if (o->reduce) o->reduce(dst, bench.a, bench.b, bytes / o->element);
  if (o->average) o->average(dst, bench.a, bench.b, bytes / o->element, DIVISOR);
  if (o->divide) o->divide(dst, bench.a, bytes / o->element, DIVISOR);
  if (o->copy) o->copy(dst, bench.a, bytes);
}

/* Nanoseconds of one call: the shortest of several rounds, which other programs disturbed least. */
static double time_call(const operation *o, size_t bytes) {
  uint64_t calls = 1, elapsed;
  for (;;) {
    const uint64_t start = df_clock_ns();
    for (uint64_t i = 0; i < calls; i++) perform(o, bench.dst, bytes);
    elapsed = df_clock_ns() - start;
    if (elapsed > bench.cell_ns / 8) break;
    calls *= 2;
  }
  double best = (double)elapsed / (double)calls;
  for (int round = 0; round < 7; round++) {
    const uint64_t start = df_clock_ns();
    for (uint64_t i = 0; i < calls; i++) perform(o, bench.dst, bytes);
    const double each = (double)(df_clock_ns() - start) / (double)calls;
    if (each < best) best = each;
  }
  return best;
}

static void check(const operation *o, const operation *reference, const char *what) {
  const size_t bytes = place_bytes[1] - o->element; /* the last vector is not whole */
  memset(bench.dst, 0, bytes);
  perform(o, bench.dst, bytes);
  perform(reference, bench.expected, bytes);
  if (memcmp(bench.dst, bench.expected, bytes) == 0) return;
  fprintf(stderr, "%s differs from the plain variant\n", what);
  exit(1);
}

static void print_row(const char *type, const char *op, const char *isa, const operation *o) {
  const double streams = o->reduce || o->average ? 3 : 2;
  printf("%-11s %-11s %-7s", type, op, isa);
  for (int place = 0; place < PLACES; place++) {
    const double ns = time_call(o, place_bytes[place]);
    printf(" %9.1f", streams * (double)place_bytes[place] / ns);
    fflush(stdout);
  }
  printf("\n");
}

static operation operation_of(const df_mover_cpu *mover, int type, int op, int stream) {
  operation o = {.element = df_type_size((dfcclDataType_t)type)};
  if (op == dfcclAvg)
    o.average = mover->reduce_average[type];
  else if (op == DIVIDE)
    o.divide = mover->divide[type];
  else
    o.reduce = stream ? mover->reduce_stream[type][op] : mover->reduce[type][op];
  return o;
}

static int wanted(const char *choice, const char *name) {
  return choice == NULL || strcmp(choice, name) == 0;
}

static void bench_operator(int type, int op) {
  const df_mover_cpu *plain = df_mover_cpu_by_name("plain");
  const operation reference = operation_of(plain, type, op, 0);
  if (op == dfcclSum && scalar_sums[type] && wanted(bench.isa, "scalar")) {
    const operation o = {.reduce = scalar_sums[type], .element = reference.element};
    check(&o, &reference, "scalar sum");
    print_row(df_type_name((dfcclDataType_t)type), operator_names[op], "scalar", &o);
  }
  for (size_t k = 0; k < DF_COUNT_OF(isa_names); k++) {
    const df_mover_cpu *mover = df_mover_cpu_by_name(isa_names[k]);
    if (mover == NULL || !wanted(bench.isa, mover->name)) continue;
    for (int stream = 0; stream <= (op == dfcclSum); stream++) {
      const operation o = operation_of(mover, type, op, stream);
      if (stream && o.reduce == mover->reduce[type][op]) continue;
      check(&o, &reference, operator_names[op]);
      print_row(df_type_name((dfcclDataType_t)type), stream ? "sum_stream" : operator_names[op],
                mover->name, &o);
    }
  }
}

static void copy_by_memcpy(void *dst, const void *src, size_t bytes) { memcpy(dst, src, bytes); }

/* The cost of a small operation is that of the call, and of what the function decides. */
static void print_small_row(const char *type, const char *op, const char *isa, const operation *o) {
  static const size_t bytes[] = {4, 8, 16, 24, 32, 64, 128, 256};
  if (o == NULL) {
    printf("\nnanoseconds a call, by bytes\n%-31s", "");
    for (size_t k = 0; k < DF_COUNT_OF(bytes); k++) printf(" %6zu", bytes[k]);
  } else {
    printf("%-11s %-11s %-7s", type, op, isa);
    for (size_t k = 0; k < DF_COUNT_OF(bytes); k++) printf(" %6.2f", time_call(o, bytes[k]));
  }
  printf("\n");
}

static void bench_copies(void) {
  const operation reference = {.copy = copy_by_memcpy, .element = 1};
  for (int small = 0; small < 2; small++) {
    void (*print)(const char *, const char *, const char *, const operation *) =
        small ? print_small_row : print_row;
    if (small) print_small_row(NULL, NULL, NULL, NULL);
    print("bytes", "memcpy", "libc", &reference);
    for (size_t k = 0; k < DF_COUNT_OF(isa_names); k++) {
      const df_mover_cpu *mover = df_mover_cpu_by_name(isa_names[k]);
      if (mover == NULL || !wanted(bench.isa, mover->name)) continue;
      const operation copy = {.copy = mover->copy, .element = 1};
      const operation stream = {.copy = mover->copy_stream, .element = 1};
      check(&copy, &reference, "copy");
      check(&stream, &reference, "copy_stream");
      print("bytes", "copy", mover->name, &copy);
      print("bytes", "copy_stream", mover->name, &stream);
      for (int type = 0; small && type < DF_DATA_TYPES; type++) {
        const operation sum = operation_of(mover, type, dfcclSum, 0);
        if (type >= dfcclInt64)
          print(df_type_name((dfcclDataType_t)type), "sum", mover->name, &sum);
      }
    }
  }
}

/* Numbers between -2 and 2 (integers: any bits): on subnormal results some processors take long. */
static void fill(char *buffer, int type, uint32_t seed) {
  const size_t element = df_type_size((dfcclDataType_t)type), period = place_bytes[1];
  uint64_t state = seed;
  for (size_t i = 0; i < period; i += element) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double real = (double)(int32_t)(state >> 32) / (1 << 30);
    const float single = (float)real;
    const uint16_t half = df_float16_from_float32(single), brain = df_bfloat16_from_float32(single);
    const uint8_t e4m3 = df_float8e4m3_from_float32(single),
                  e5m2 = df_float8e5m2_from_float32(single);
    const uint64_t bits = state >> 5;
    const void *const values[DF_DATA_TYPES] = {
        [dfcclFloat16] = &half, [dfcclBfloat16] = &brain,  [dfcclFloat32] = &single,
        [dfcclFloat64] = &real, [dfcclFloat8e4m3] = &e4m3, [dfcclFloat8e5m2] = &e5m2};
    memcpy(buffer + i, values[type] != NULL ? values[type] : &bits, element);
  }
  for (size_t i = period; i < place_bytes[PLACES - 1]; i += period)
    memcpy(buffer + i, buffer, period);
}

static int parse(int argc, char **argv) {
  int option;
  while ((option = getopt(argc, argv, "t:o:i:m:h")) != -1) {
    switch (option) {
    case 't':
      bench.type = optarg;
      break;
    case 'o':
      bench.op = optarg;
      break;
    case 'i':
      bench.isa = optarg;
      break;
    case 'm':
      bench.cell_ns = strtoull(optarg, NULL, 10) * 1000000;
      break;
    default:
      fprintf(option == 'h' ? stdout : stderr,
              "usage: %s [-t TYPE|copy] [-o OPERATOR] [-i plain|avx2|avx512|neon|scalar] "
              "[-m MILLISECONDS for each number]\n",
              argv[0]);
      return option == 'h' ? 0 : 2;
    }
  }
  return -1;
}

int main(int argc, char **argv) {
  const int status = parse(argc, argv);
  if (status >= 0) return status;
  char **const buffers[] = {&bench.a, &bench.b, &bench.dst, &bench.expected};
  for (size_t k = 0; k < DF_COUNT_OF(buffers); k++) {
    *buffers[k] = aligned_alloc(4096, place_bytes[PLACES - 1]);
    if (*buffers[k] == NULL) {
      fprintf(stderr, "cannot allocate %zu bytes\n", place_bytes[PLACES - 1]);
      return 1;
    }
    memset(*buffers[k], 0, place_bytes[PLACES - 1]);
  }
  printf("GB/s read and written; best here: %s\n%-11s %-11s %-7s", df_mover_cpu_best()->name,
         "type", "operation", "isa");
  for (int place = 0; place < PLACES; place++) printf(" %9s", place_names[place]);
  printf("\n");
  for (int type = 0; type < DF_DATA_TYPES; type++) {
    if (!wanted(bench.type, df_type_name((dfcclDataType_t)type))) continue;
    fill(bench.a, type, 1);
    fill(bench.b, type, 2);
    for (int op = 0; op < OPERATORS; op++)
      if (wanted(bench.op, operator_names[op]) &&
          (op == DIVIDE || df_type_has_operator((dfcclDataType_t)type, (dfcclRedOp_t)op)))
        bench_operator(type, op);
  }
  if (wanted(bench.type, "copy") && bench.op == NULL) bench_copies();
  for (size_t k = 0; k < DF_COUNT_OF(buffers); k++) free(*buffers[k]);
  return 0;
}
