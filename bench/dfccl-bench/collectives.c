#include "collectives.h"

#include "common/cli.h"
#include "common/element.h"

df_bench_operation df_bench_even(df_bench_operation operation) {
  switch (operation) {
  case DF_BENCH_ALLGATHERV:
    return DF_BENCH_ALLGATHER;
  case DF_BENCH_REDUCESCATTERV:
    return DF_BENCH_REDUCESCATTER;
  case DF_BENCH_GATHERV:
    return DF_BENCH_GATHER;
  case DF_BENCH_SCATTERV:
    return DF_BENCH_SCATTER;
  case DF_BENCH_ALLTOALLV:
    return DF_BENCH_ALLTOALL;
  default:
    return operation;
  }
}

static bool divides_input(df_bench_operation given) {
  const df_bench_operation operation = df_bench_even(given);
  return operation == DF_BENCH_REDUCESCATTER || operation == DF_BENCH_ALLTOALL ||
         operation == DF_BENCH_SCATTER;
}

static bool divides_output(df_bench_operation given) {
  const df_bench_operation operation = df_bench_even(given);
  return operation == DF_BENCH_ALLGATHER || operation == DF_BENCH_ALLTOALL ||
         operation == DF_BENCH_GATHER;
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
  if (operation == DF_BENCH_ALLREDUCE) return 2 * (n - 1) / n;
  return divides_among_ranks(operation) ? (n - 1) / n : 1;
}

bool df_bench_has_operator(df_bench_operation given) {
  const df_bench_operation operation = df_bench_even(given);
  return operation == DF_BENCH_ALLREDUCE || operation == DF_BENCH_REDUCESCATTER ||
         operation == DF_BENCH_REDUCE || operation == DF_BENCH_SCAN;
}

bool df_bench_has_root(df_bench_operation given) {
  const df_bench_operation operation = df_bench_even(given);
  return operation == DF_BENCH_BROADCAST || operation == DF_BENCH_REDUCE ||
         operation == DF_BENCH_GATHER || operation == DF_BENCH_SCATTER;
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
  case DF_BENCH_ALLGATHERV:
    return dfcclRegisterAllGatherV(context, id, counts, NULL, type, how);
  case DF_BENCH_REDUCESCATTERV:
    return dfcclRegisterReduceScatterV(context, id, counts, type, options->op, how);
  case DF_BENCH_GATHERV:
    return dfcclRegisterGatherV(context, id, count, counts, NULL, type, DF_BENCH_ROOT, how);
  case DF_BENCH_SCATTERV:
    return dfcclRegisterScatterV(context, id, counts, NULL, count, type, DF_BENCH_ROOT, how);
  case DF_BENCH_ALLTOALLV:
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
  case DF_BENCH_ALLREDUCE:
    return dfcclRegisterAllReduce(context, id, count, type, options->op, &how);
  case DF_BENCH_ALLGATHER:
    return dfcclRegisterAllGather(context, id, count, type, &how);
  case DF_BENCH_REDUCESCATTER:
    return dfcclRegisterReduceScatter(context, id, count, type, options->op, &how);
  case DF_BENCH_BROADCAST:
    return dfcclRegisterBroadcast(context, id, count, type, DF_BENCH_ROOT, &how);
  case DF_BENCH_REDUCE:
    return dfcclRegisterReduce(context, id, count, type, options->op, DF_BENCH_ROOT, &how);
  case DF_BENCH_ALLTOALL:
    return dfcclRegisterAllToAll(context, id, count, type, &how);
  case DF_BENCH_GATHER:
    return dfcclRegisterGather(context, id, count, type, DF_BENCH_ROOT, &how);
  case DF_BENCH_SCATTER:
    return dfcclRegisterScatter(context, id, count, type, DF_BENCH_ROOT, &how);
  case DF_BENCH_SENDRECV:
    return dfcclRegisterSendRecv(context, id, count, type, 0, 1, &how);
  case DF_BENCH_BARRIER:
    return dfcclRegisterBarrier(context, id, &how);
  case DF_BENCH_SCAN:
    return dfcclRegisterScan(context, id, count, type, options->op, 0, &how);
  case DF_BENCH_ALLGATHERV:
  case DF_BENCH_REDUCESCATTERV:
  case DF_BENCH_GATHERV:
  case DF_BENCH_SCATTERV:
  case DF_BENCH_ALLTOALLV:
  case DF_BENCH_NEIGHBOURS:
    return register_vector(options, count, context, id, &how);
  case DF_BENCH_OVERHEAD:
  case DF_BENCH_TUNE:
  case DF_BENCH_DISORDER:
  case DF_BENCH_EVENTS:
    break;
  }
  return dfcclInvalidArgument;
}

dfcclResult_t df_bench_run(df_bench_operation operation, dfcclContext_t context, dfcclCollId_t id,
                           const void *send, void *recv) {
  switch (operation) {
  case DF_BENCH_ALLREDUCE:
    return dfcclRunAllReduce(context, id, send, recv, NULL, NULL);
  case DF_BENCH_ALLGATHER:
    return dfcclRunAllGather(context, id, send, recv, NULL, NULL);
  case DF_BENCH_REDUCESCATTER:
    return dfcclRunReduceScatter(context, id, send, recv, NULL, NULL);
  case DF_BENCH_BROADCAST:
    return dfcclRunBroadcast(context, id, send, recv, NULL, NULL);
  case DF_BENCH_REDUCE:
    return dfcclRunReduce(context, id, send, recv, NULL, NULL);
  case DF_BENCH_ALLTOALL:
    return dfcclRunAllToAll(context, id, send, recv, NULL, NULL);
  case DF_BENCH_GATHER:
    return dfcclRunGather(context, id, send, recv, NULL, NULL);
  case DF_BENCH_SCATTER:
    return dfcclRunScatter(context, id, send, recv, NULL, NULL);
  case DF_BENCH_SENDRECV:
    return dfcclRunSendRecv(context, id, send, recv, NULL, NULL);
  case DF_BENCH_BARRIER:
    return dfcclRunBarrier(context, id, NULL, NULL);
  case DF_BENCH_SCAN:
    return dfcclRunScan(context, id, send, recv, NULL, NULL);
  case DF_BENCH_ALLGATHERV:
    return dfcclRunAllGatherV(context, id, send, recv, NULL, NULL);
  case DF_BENCH_REDUCESCATTERV:
    return dfcclRunReduceScatterV(context, id, send, recv, NULL, NULL);
  case DF_BENCH_GATHERV:
    return dfcclRunGatherV(context, id, send, recv, NULL, NULL);
  case DF_BENCH_SCATTERV:
    return dfcclRunScatterV(context, id, send, recv, NULL, NULL);
  case DF_BENCH_ALLTOALLV:
    return dfcclRunAllToAllV(context, id, send, recv, NULL, NULL);
  case DF_BENCH_NEIGHBOURS:
    return dfcclRunNeighbours(context, id, send, recv, NULL, NULL);
  case DF_BENCH_OVERHEAD:
  case DF_BENCH_TUNE:
  case DF_BENCH_DISORDER:
  case DF_BENCH_EVENTS:
    break;
  }
  return dfcclInvalidArgument;
}
