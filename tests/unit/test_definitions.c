/*
 * Promises of src/plans/operations.def and src/primitives/elements/types.def: each operation, data
 * type and reduction operator has the properties that are written here as literals, both in the
 * library and in the reference with which the suites compare (support/). Both are made from these
 * two files, so a wrong row would be wrong on both sides of every other comparison.
 */
#include <math.h>
#include <string.h>

#include "plans/operation.h"
#include "primitives/elements/types.h"
#include "support/harness.h"
#include "support/numbers.h"
#include "support/reference.h"

/* ---- operations, in a group of `n` with the root at position 2 (SendRecv: at position 0) */

typedef struct {
  df_operation operation;
  df_kind kind; /* DF_ALL_KINDS: the reference has none */
  const char *name, *word;
  const char *inputs, *outputs; /* a digit for each position: 1: it has the buffer */
  int wide_input, wide_output;
  const char *operands; /* a digit for each position: inputs that its result combines */
  int reduces, is_scan, one_result, has_root, one_way, only_overwrites;
  df_operation even;
} operation_row;

static const operation_row operation_rows[] = {
    {DF_OP_ALL_REDUCE, DF_ALL_REDUCE, "AllReduce", "allreduce", "1111", "1111", 0, 0, "4444", 1, 0,
     1, 0, 0, 0, DF_OP_ALL_REDUCE},
    {DF_OP_REDUCE, DF_REDUCE, "Reduce", "reduce", "1111", "0010", 0, 0, "4444", 1, 0, 0, 1, 1, 0,
     DF_OP_REDUCE},
    {DF_OP_BROADCAST, DF_BROADCAST, "Broadcast", "broadcast", "0010", "1111", 0, 0, "1111", 0, 0, 0,
     1, 1, 1, DF_OP_BROADCAST},
    {DF_OP_ALL_GATHER, DF_ALL_GATHER, "AllGather", "allgather", "1111", "1111", 0, 1, "1111", 0, 0,
     0, 0, 0, 1, DF_OP_ALL_GATHER},
    {DF_OP_REDUCE_SCATTER, DF_REDUCE_SCATTER, "ReduceScatter", "reducescatter", "1111", "1111", 1,
     0, "4444", 1, 0, 0, 0, 0, 0, DF_OP_REDUCE_SCATTER},
    {DF_OP_ALL_TO_ALL, DF_ALL_TO_ALL, "AllToAll", "alltoall", "1111", "1111", 1, 1, "1111", 0, 0, 0,
     0, 0, 0, DF_OP_ALL_TO_ALL},
    {DF_OP_GATHER, DF_GATHER, "Gather", "gather", "1111", "0010", 0, 1, "1111", 0, 0, 0, 1, 1, 1,
     DF_OP_GATHER},
    {DF_OP_SCATTER, DF_SCATTER, "Scatter", "scatter", "0010", "1111", 1, 0, "1111", 0, 0, 0, 1, 1,
     1, DF_OP_SCATTER},
    {DF_OP_SEND_RECV, DF_SEND_RECV, "SendRecv", "sendrecv", "10", "01", 0, 0, "11", 0, 0, 0, 0, 1,
     1, DF_OP_SEND_RECV},
    {DF_OP_BARRIER, DF_BARRIER, "Barrier", "barrier", "0000", "0000", 0, 0, "1111", 0, 0, 0, 0, 0,
     0, DF_OP_BARRIER},
    {DF_OP_SCAN, DF_SCAN, "Scan", "scan", "1111", "1111", 0, 0, "1234", 1, 1, 0, 0, 1, 0,
     DF_OP_SCAN},
    {DF_OP_EXCLUSIVE_SCAN, DF_EXCLUSIVE_SCAN, "ExclusiveScan", "exclusivescan", "1111", "0111", 0,
     0, "0123", 1, 1, 0, 0, 1, 0, DF_OP_EXCLUSIVE_SCAN},
    {DF_OP_ALL_GATHER_V, DF_ALL_KINDS, "AllGatherV", "allgatherv", "1111", "1111", 0, 0, "1111", 0,
     0, 0, 0, 0, 1, DF_OP_ALL_GATHER},
    {DF_OP_REDUCE_SCATTER_V, DF_ALL_KINDS, "ReduceScatterV", "reducescatterv", "1111", "1111", 0, 0,
     "4444", 1, 0, 0, 0, 0, 0, DF_OP_REDUCE_SCATTER},
    {DF_OP_GATHER_V, DF_ALL_KINDS, "GatherV", "gatherv", "1111", "1111", 0, 0, "1111", 0, 0, 0, 0,
     1, 1, DF_OP_GATHER},
    {DF_OP_SCATTER_V, DF_ALL_KINDS, "ScatterV", "scatterv", "1111", "1111", 0, 0, "1111", 0, 0, 0,
     0, 1, 1, DF_OP_SCATTER},
    {DF_OP_ALL_TO_ALL_V, DF_ALL_KINDS, "AllToAllV", "alltoallv", "1111", "1111", 0, 0, "1111", 0, 0,
     0, 0, 0, 1, DF_OP_ALL_TO_ALL},
    {DF_OP_NEIGHBOURS, DF_ALL_KINDS, "Neighbours", "neighbours", "1111", "1111", 0, 0, "1111", 0, 0,
     0, 0, 1, 1, DF_OP_NEIGHBOURS},
    {DF_OP_ALL_TO_ALL_DYNAMIC, DF_ALL_KINDS, "AllToAllDynamic", "alltoalldynamic", "1111", "1111",
     1, 1, "1111", 0, 0, 0, 0, 0, 1, DF_OP_ALL_TO_ALL},
};

#define SAME(found, expected, name)                                                                \
  CHECK((int)(found) == (int)(expected), "%s: " #found " is %d, not %d", name, (int)(found),       \
        (int)(expected))

static void compare_with_library(const operation_row *row, uint32_t n, uint32_t root) {
  const df_operation operation = row->operation;
  const char *name = row->name;
  CHECK(strcmp(df_operation_name(operation), name) == 0, "%s", df_operation_name(operation));
  CHECK(strcmp(df_operation_word(operation), row->word) == 0, "%s", df_operation_word(operation));
  SAME(df_operation_is_wide(operation, 0), row->wide_input, name);
  SAME(df_operation_is_wide(operation, 1), row->wide_output, name);
  SAME(df_operation_reduces(operation), row->reduces, name);
  SAME(df_operation_is_scan(operation), row->is_scan, name);
  SAME(df_operation_has_one_result(operation), row->one_result, name);
  SAME(df_operation_has_root(operation), row->has_root, name);
  SAME(df_operation_needs_agreement(operation), row->one_way, name);
  SAME(df_operation_runs_ahead(operation), row->one_way, name);
  SAME(df_operation_only_overwrites(operation), row->only_overwrites, name);
  SAME(df_operation_even(operation), row->even, name);
  for (uint32_t position = 0; position < n; position++) {
    SAME(df_operation_uses(operation, 0, position, root, n), row->inputs[position] - '0', name);
    SAME(df_operation_uses(operation, 1, position, root, n), row->outputs[position] - '0', name);
    SAME(df_operation_operands(operation, position, n), (uint32_t)row->operands[position] - '0',
         name);
  }
}

static void compare_with_reference(const operation_row *row, uint32_t n, uint32_t root) {
  const df_collective coll = {.kind = row->kind, .count = 10, .members = (int)n, .root = (int)root};
  const size_t most = row->operation == DF_OP_BARRIER ? 0 : 10;
  CHECK(strcmp(df_kind_name(row->kind), row->name) == 0, "%s", df_kind_name(row->kind));
  SAME(df_kind_reduces(row->kind), row->reduces, row->name);
  SAME(df_kind_has_root(row->kind), row->has_root, row->name);
  SAME(df_send_elements(&coll), row->wide_input ? most * n : most, row->name);
  SAME(df_recv_elements(&coll), row->wide_output ? most * n : most, row->name);
  for (uint32_t position = 0; position < n; position++) {
    SAME(df_sends(&coll, (int)position), row->inputs[position] - '0', row->name);
    SAME(df_receives(&coll, (int)position), row->outputs[position] - '0', row->name);
  }
}

DF_TEST(definitions, operations, 30) {
  SAME(DF_COUNT_OF(operation_rows), DF_OP_ALL, "operations");
  SAME(DF_ALL_KINDS, DF_OP_COUNT, "operations");
  for (size_t i = 0; i < DF_COUNT_OF(operation_rows); i++) {
    const operation_row *row = &operation_rows[i];
    const uint32_t n = (uint32_t)strlen(row->inputs);
    const uint32_t root = row->operation == DF_OP_SEND_RECV ? 0 : 2;
    SAME(row->operation, i, row->name);
    compare_with_library(row, n, root);
    if (i < DF_OP_COUNT)
      compare_with_reference(row, n, root);
    else
      SAME(row->kind, DF_ALL_KINDS, row->name);
    SAME(df_operation_by_word(row->word), i < DF_OP_COUNT ? (int)i : -1, row->name);
  }
}

/* ---- data types */

typedef struct {
  dfcclDataType_t type;
  int number; /* its value in dfccl.h */
  const char *name;
  size_t bytes;
  int is_integer, is_signed;
  double largest, smallest_normal, epsilon;          /* floats */
  uint64_t largest_bits, smallest_bits, beyond_bits; /* beyond: the encoding of 1e300 */
} type_row;

static const type_row type_rows[] = {
    {dfcclInt8, 0, "int8", 1, 1, 1, 0, 0, 0, 0, 0, 0},
    {dfcclUint8, 1, "uint8", 1, 1, 0, 0, 0, 0, 0, 0, 0},
    {dfcclInt32, 2, "int32", 4, 1, 1, 0, 0, 0, 0, 0, 0},
    {dfcclUint32, 3, "uint32", 4, 1, 0, 0, 0, 0, 0, 0, 0},
    {dfcclInt64, 4, "int64", 8, 1, 1, 0, 0, 0, 0, 0, 0},
    {dfcclUint64, 5, "uint64", 8, 1, 0, 0, 0, 0, 0, 0, 0},
    {dfcclFloat16, 6, "float16", 2, 0, 1, 65504, 0x1p-14, 0x1p-10, 0x7bff, 0x0400, 0x7c00},
    {dfcclFloat32, 7, "float32", 4, 0, 1, 0x1.fffffep127, 0x1p-126, 0x1p-23, 0x7f7fffff, 0x00800000,
     0x7f800000},
    {dfcclFloat64, 8, "float64", 8, 0, 1, 0x1.fffffffffffffp1023, 0x1p-1022, 0x1p-52,
     0x7fefffffffffffff, 0x0010000000000000, 0x7e37e43c8800759c},
    {dfcclBfloat16, 9, "bfloat16", 2, 0, 1, 0x1.fep127, 0x1p-126, 0x1p-7, 0x7f7f, 0x0080, 0x7f80},
    {dfcclFloat8e4m3, 10, "float8e4m3", 1, 0, 1, 448, 0x1p-6, 0x1p-3, 0x7e, 0x08, 0x7e},
    {dfcclFloat8e5m2, 11, "float8e5m2", 1, 0, 1, 57344, 0x1p-14, 0x1p-2, 0x7b, 0x04, 0x7b},
    {dfcclInt16, 12, "int16", 2, 1, 1, 0, 0, 0, 0, 0, 0},
    {dfcclUint16, 13, "uint16", 2, 1, 0, 0, 0, 0, 0, 0, 0},
};

static void compare_float(const type_row *row) {
  const dfcclDataType_t type = row->type;
  const double largest = df_float_decode(type, row->largest_bits);
  const double smallest = df_float_decode(type, row->smallest_bits);
  CHECK(largest == row->largest, "%s: the largest number is %a", row->name, largest);
  CHECK(smallest == row->smallest_normal, "%s: the smallest number is %a", row->name, smallest);
  CHECK(df_type_epsilon(type) == row->epsilon, "%s: %a", row->name, df_type_epsilon(type));
  CHECK((double)df_type_exact_integers(type) == 2 / row->epsilon, "%s", row->name);
  const struct {
    double value;
    uint64_t bits;
  } encodings[] = {{row->largest, row->largest_bits},
                   {row->smallest_normal, row->smallest_bits},
                   {1e300, row->beyond_bits}};
  for (size_t i = 0; i < DF_COUNT_OF(encodings); i++) {
    const uint64_t bits = df_float_encode(type, encodings[i].value);
    CHECK(bits == encodings[i].bits, "%s: %a is 0x%llx, not 0x%llx", row->name, encodings[i].value,
          (unsigned long long)bits, (unsigned long long)encodings[i].bits);
  }
}

DF_TEST(definitions, types, 30) {
  SAME(DF_COUNT_OF(type_rows), DF_DATA_TYPES, "types");
  for (size_t i = 0; i < DF_COUNT_OF(type_rows); i++) {
    const type_row *row = &type_rows[i];
    SAME(row->type, row->number, row->name);
    SAME(row->number, i, row->name);
    CHECK(strcmp(df_type_name(row->type), row->name) == 0, "%s", df_type_name(row->type));
    SAME(df_type_size(row->type), row->bytes, row->name);
    SAME(df_type_bytes(row->type), row->bytes, row->name);
    SAME(df_type_is_integer(row->type), row->is_integer, row->name);
    SAME(df_type_is_float(row->type), !row->is_integer, row->name);
    SAME(df_type_is_signed(row->type), row->is_signed, row->name);
    if (!row->is_integer) compare_float(row);
  }
}

/* ---- reduction operators */

DF_TEST(definitions, operators, 30) {
  static const struct {
    dfcclRedOp_t op;
    const char *name;
    int is_bitwise;
  } rows[] = {{dfcclSum, "sum", 0}, {dfcclProd, "prod", 0}, {dfcclMax, "max", 0},
              {dfcclMin, "min", 0}, {dfcclAvg, "avg", 0},   {dfcclBand, "band", 1},
              {dfcclBor, "bor", 1}, {dfcclBxor, "bxor", 1}};
  SAME(DF_COUNT_OF(rows), DF_REDUCE_OPERATORS, "operators");
  for (size_t i = 0; i < DF_COUNT_OF(rows); i++) {
    SAME(rows[i].op, i, rows[i].name);
    CHECK(strcmp(df_redop_name(rows[i].op), rows[i].name) == 0, "%s", df_redop_name(rows[i].op));
    SAME(df_operator_is_bitwise(rows[i].op), rows[i].is_bitwise, rows[i].name);
    for (int type = 0; type < DF_DATA_TYPES; type++) {
      const int has = !rows[i].is_bitwise || type_rows[type].is_integer;
      SAME(df_type_has_operator((dfcclDataType_t)type, rows[i].op), has, rows[i].name);
      SAME(df_type_has((dfcclDataType_t)type, rows[i].op), has, rows[i].name);
    }
  }
}
