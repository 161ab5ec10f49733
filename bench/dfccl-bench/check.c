#include "check.h"

#include <stdlib.h>

#include "common/element.h"
#include "common/memory.h"
#include "plans/operation.h"

static bool refused(df_bench_rank *bench) {
  df_tool_rank_fail(bench->self, dfcclUnhandledCudaError, "copying to or from the GPU failed");
  return false;
}

bool df_bench_clear(df_bench_rank *bench) {
  for (int i = 0; i < 2; i++)
    if (!df_tool_memory_zero(bench->buffers[i], bench->buffer_bytes)) return refused(bench);
  return true;
}

/* Does the rank have an input, or an output? */
static bool uses(const df_bench_rank *bench, int output) {
  const df_bench_operation operation = df_bench_even(bench->job->options.operation);
  return operation < DF_BENCH_OVERHEAD &&
         df_operation_uses((df_operation)operation, output, (uint32_t)bench->self->rank,
                           DF_BENCH_ROOT, (uint32_t)bench->self->n_ranks);
}

bool df_bench_prepare(df_bench_rank *bench, const df_bench_case *one) {
  const df_bench_job *job = bench->job;
  int rank = bench->self->rank;
  size_t result_bytes = one->shape.recv_count * df_tool_type_of(job->options.type)->bytes;
  if (!df_tool_memory_zero(one->recv, result_bytes)) return refused(bench);
  if (!uses(bench, 0)) return true;
  if (df_bench_fill(&job->data, job->inputs[rank], one->send, 0, one->shape.send_count) != 0)
    return refused(bench);
  return true;
}

/* Part s of the result is what rank s sent, from its position first on. */
static int64_t wrong_in_parts(df_bench_rank *bench, const df_bench_case *one, size_t first) {
  const df_bench_job *job = bench->job;
  size_t part_bytes = one->shape.count * df_tool_type_of(job->options.type)->bytes;
  int64_t wrong = 0;
  for (int s = 0; s < bench->self->n_ranks; s++) {
    int64_t here = df_bench_count_wrong(&job->data, job->inputs[s],
                                        (const char *)one->recv + (size_t)s * part_bytes, first,
                                        one->shape.count);
    if (here < 0) return -1;
    wrong += here;
  }
  return wrong;
}

/* The first ranks' inputs are combined. */
static int64_t wrong_in_prefix(df_bench_rank *bench, const df_bench_case *one, uint32_t ranks) {
  const df_bench_job *job = bench->job;
  void *table = df_bench_prefix_table(&job->data, (int)ranks);
  if (table == NULL) return -1;
  int64_t wrong = df_bench_count_wrong(&job->data, table, one->recv, 0, one->shape.recv_count);
  free(table);
  return wrong;
}

static int64_t wrong_elements(df_bench_rank *bench, const df_bench_case *one) {
  const df_bench_job *job = bench->job;
  const int rank = bench->self->rank, ranks = bench->self->n_ranks;
  const df_operation operation = (df_operation)df_bench_even(job->options.operation);
  /* An input may have a part for each rank; this rank's part counts. */
  const size_t first = df_operation_is_wide(operation, 0) ? (size_t)rank * one->shape.count : 0;
  const size_t count = one->shape.recv_count;
  if (df_operation_is_scan(operation))
    return wrong_in_prefix(bench, one,
                           df_operation_operands(operation, (uint32_t)rank, (uint32_t)ranks));
  if (df_operation_reduces(operation))
    return df_bench_count_wrong(&job->data, job->reduced, one->recv, first, count);
  if (df_operation_is_wide(operation, 1)) return wrong_in_parts(bench, one, first);
  const int sender = operation == DF_OP_NEIGHBOURS ? (rank + ranks - 1) % ranks : DF_BENCH_ROOT;
  return df_bench_count_wrong(&job->data, job->inputs[sender], one->recv, first, count);
}

int64_t df_bench_verify(df_bench_rank *bench, const df_bench_case *one) {
  const int64_t wrong = uses(bench, 1) ? wrong_elements(bench, one) : 0;
  if (wrong < 0) refused(bench);
  return wrong;
}
