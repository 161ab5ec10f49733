#include "collectives.h"

#include "common/cli.h"
#include "common/element.h"
#include "plans/operation.h"

static df_operation even(df_bench_operation operation) {
  return df_operation_even((df_operation)operation);
}

df_bench_operation df_bench_even(df_bench_operation operation) {
  return operation < DF_BENCH_OVERHEAD ? (df_bench_operation)even(operation) : operation;
}

static bool divides_input(df_bench_operation operation) {
  return operation < DF_BENCH_OVERHEAD && df_operation_is_wide(even(operation), 0);
}

static bool divides_output(df_bench_operation operation) {
  return operation < DF_BENCH_OVERHEAD && df_operation_is_wide(even(operation), 1);
}

static bool divides_among_ranks(df_bench_operation operation) {
  return divides_input(operation) || divides_output(operation);
}

df_bench_shape df_bench_shape_of(const df_bench_options *options, size_t bytes) {
  size_t element = df_tool_type_of(options->type)->bytes;
  size_t ranks = (size_t)options->n_ranks;
  size_t count = bytes / element;
  df_bench_shape shape = {count, count, count, count * element};
  if (options->operation == DF_BENCH_BARRIER) return (df_bench_shape){0};
  if (divides_among_ranks(options->operation)) {
    size_t part = count / ranks / (16 / element) * (16 / element);
    shape.count = part;
    shape.send_count = divides_input(options->operation) ? part * ranks : part;
    shape.recv_count = divides_output(options->operation) ? part * ranks : part;
    shape.bytes = part * ranks * element;
  }
  return shape;
}

double df_bench_bus_factor(df_bench_operation operation, int n_ranks) {
  double n = n_ranks;
  if (operation == DF_BENCH_ALL_REDUCE) return 2 * (n - 1) / n;
  return divides_among_ranks(operation) ? (n - 1) / n : 1;
}

bool df_bench_has_operator(df_bench_operation operation) {
  return operation < DF_BENCH_OVERHEAD && df_operation_reduces(even(operation));
}

bool df_bench_has_root(df_bench_operation operation) {
  return operation < DF_BENCH_OVERHEAD && df_operation_has_root(even(operation));
}

void df_bench_in_place(const df_bench_options *options, const df_bench_shape *shape, int rank,
                       void *buffer, void **send, void **recv) {
  char *part = (char *)buffer + (size_t)rank * shape->count * df_tool_type_of(options->type)->bytes;
  const bool gathers = divides_output(options->operation) && !divides_input(options->operation);
  const bool scatters = divides_input(options->operation) && !divides_output(options->operation);
  *send = gathers ? part : buffer;
  *recv = scatters ? part : buffer;
}

/* Pieces of equal length, so that times compare with those of the even operations. */
static dfcclResult_t register_vector(const df_bench_options *options, size_t count,
                                     dfcclContext_t context, dfcclCollId_t id,
                                     const dfcclCollOptions_t *how) {
  const dfcclDataType_t type = options->type;
  size_t counts[DF_TOOL_MAX_RANKS];
  int rank = 0;
  dfcclResult_t result = dfcclGetRank(context, &rank, NULL);
  if (result != dfcclSuccess) return result;
  for (int i = 0; i < options->n_ranks; i++) counts[i] = count;
  const int to = (rank + 1) % options->n_ranks;
  const int from = (rank + options->n_ranks - 1) % options->n_ranks;
  switch (options->operation) {
  case DF_BENCH_ALL_GATHER_V:
    return dfcclRegisterAllGatherV(context, id, counts, NULL, type, how);
  case DF_BENCH_REDUCE_SCATTER_V:
    return dfcclRegisterReduceScatterV(context, id, counts, type, options->op, how);
  case DF_BENCH_GATHER_V:
    return dfcclRegisterGatherV(context, id, count, counts, NULL, type, DF_BENCH_ROOT, how);
  case DF_BENCH_SCATTER_V:
    return dfcclRegisterScatterV(context, id, counts, NULL, count, type, DF_BENCH_ROOT, how);
  case DF_BENCH_ALL_TO_ALL_V:
    return dfcclRegisterAllToAllV(context, id, counts, NULL, counts, NULL, type, how);
  default:
    return dfcclRegisterNeighbours(context, id, 1, &to, counts, 1, &from, counts, type, how);
  }
}

dfcclResult_t df_bench_register(const df_bench_options *options, const df_bench_shape *shape,
                                dfcclContext_t context, dfcclCollId_t id) {
  size_t count = shape->count;
  dfcclDataType_t type = options->type;
  dfcclCollOptions_t how = DFCCL_COLL_OPTIONS_INITIALIZER;
  how.algorithm = options->algorithm;
  switch (options->operation) {
#define CALL(ID, NAME, ...)                                                                        \
  case DF_BENCH_##ID:                                                                              \
    return dfcclRegister##NAME(context, id, __VA_ARGS__);
#define DF_API_REDUCTION(ID, NAME) CALL(ID, NAME, count, type, options->op, &how)
#define DF_API_ROOTED_REDUCTION(ID, NAME)                                                          \
  CALL(ID, NAME, count, type, options->op, DF_BENCH_ROOT, &how)
#define DF_API_ROOTED(ID, NAME) CALL(ID, NAME, count, type, DF_BENCH_ROOT, &how)
#define DF_API_MOVE(ID, NAME) CALL(ID, NAME, count, type, &how)
#define DF_API_PAIR(ID, NAME) CALL(ID, NAME, count, type, 0, 1, &how)
#define DF_API_BARRIER(ID, NAME) CALL(ID, NAME, &how)
#define DF_API_SCAN(ID, NAME) CALL(ID, Scan, count, type, options->op, 0, &how)
#define DF_API_EXCLUSIVE_SCAN(ID, NAME) CALL(ID, Scan, count, type, options->op, 1, &how)
#define DF_API_VECTOR(ID, NAME)                                                                    \
  case DF_BENCH_##ID:                                                                              \
    return register_vector(options, count, context, id, &how);
#define DF_API_DYNAMIC(ID, NAME)
#define DF_OPERATION(ID, NAME, word, family, ...) family(ID, NAME)
#define DF_VECTOR_OPERATION(ID, NAME, word, family, ...) family(ID, NAME)
#include "plans/operations.def"
#undef CALL
#undef DF_API_REDUCTION
#undef DF_API_ROOTED_REDUCTION
#undef DF_API_ROOTED
#undef DF_API_MOVE
#undef DF_API_PAIR
#undef DF_API_BARRIER
#undef DF_API_SCAN
#undef DF_API_EXCLUSIVE_SCAN
#undef DF_API_VECTOR
  default:
    return dfcclInvalidArgument;
  }
}

dfcclResult_t df_bench_run(df_bench_operation operation, dfcclContext_t context, dfcclCollId_t id,
                           const void *send, void *recv) {
  switch (operation) {
#define RUN(ID, NAME)                                                                              \
  case DF_BENCH_##ID:                                                                              \
    return dfcclRun##NAME(context, id, send, recv, NULL, NULL);
#define DF_API_REDUCTION RUN
#define DF_API_ROOTED_REDUCTION RUN
#define DF_API_ROOTED RUN
#define DF_API_MOVE RUN
#define DF_API_PAIR RUN
#define DF_API_VECTOR RUN
#define DF_API_SCAN RUN
#define DF_API_EXCLUSIVE_SCAN(ID, NAME) RUN(ID, Scan)
#define DF_API_BARRIER(ID, NAME)                                                                   \
  case DF_BENCH_##ID:                                                                              \
    return dfcclRun##NAME(context, id, NULL, NULL);
#define DF_OPERATION(ID, NAME, word, family, ...) family(ID, NAME)
#define DF_VECTOR_OPERATION(ID, NAME, word, family, ...) family(ID, NAME)
#include "plans/operations.def"
  default:
    return dfcclInvalidArgument;
  }
}
