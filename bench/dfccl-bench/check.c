#include "check.h"

#include <stdlib.h>

#include "common/element.h"
#include "common/memory.h"

static bool refused(df_bench_rank *bench) {
  df_tool_rank_fail(bench->self, dfcclUnhandledCudaError, "copying to or from the GPU failed");
  return false;
}

bool df_bench_clear(df_bench_rank *bench) {
  for (int i = 0; i < 2; i++)
    if (!df_tool_memory_zero(bench->buffers[i], bench->buffer_bytes)) return refused(bench);
  return true;
}

static bool sends(df_bench_operation given, int rank) {
  const df_bench_operation operation = df_bench_even(given);
  const bool only_root = operation == DF_BENCH_BROADCAST || operation == DF_BENCH_SCATTER ||
                         operation == DF_BENCH_SENDRECV;
  return operation != DF_BENCH_BARRIER && (!only_root || rank == DF_BENCH_ROOT);
}

bool df_bench_prepare(df_bench_rank *bench, const df_bench_case *one) {
  const df_bench_job *job = bench->job;
  int rank = bench->self->rank;
  size_t result_bytes = one->shape.recv_count * df_tool_type_of(job->options.type)->bytes;
  if (!df_tool_memory_zero(one->recv, result_bytes)) return refused(bench);
  if (!sends(job->options.operation, rank)) return true;
  if (df_bench_fill(&job->data, job->inputs[rank], one->send, 0, one->shape.send_count) != 0)
    return refused(bench);
  return true;
}

/* AllGather, Gather and AllToAll: part s of the result is what rank s sent, from its position first on. */
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

static int64_t wrong_in_scan(df_bench_rank *bench, const df_bench_case *one) {
  const df_bench_job *job = bench->job;
  void *table = df_bench_prefix_table(&job->data, bench->self->rank + 1);
  if (table == NULL) return -1;
  int64_t wrong = df_bench_count_wrong(&job->data, table, one->recv, 0, one->shape.recv_count);
  free(table);
  return wrong;
}

int64_t df_bench_verify(df_bench_rank *bench, const df_bench_case *one) {
  const df_bench_job *job = bench->job;
  int rank = bench->self->rank;
  size_t count = one->shape.recv_count, own_part = (size_t)rank * one->shape.count;
  const void *reduced = job->reduced;
  const int previous = (rank + bench->self->n_ranks - 1) % bench->self->n_ranks;
  int64_t wrong = 0;
  switch (df_bench_even(job->options.operation)) {
  case DF_BENCH_ALLREDUCE:
    wrong = df_bench_count_wrong(&job->data, reduced, one->recv, 0, count);
    break;
  case DF_BENCH_REDUCE:
    if (rank == DF_BENCH_ROOT)
      wrong = df_bench_count_wrong(&job->data, reduced, one->recv, 0, count);
    break;
  case DF_BENCH_REDUCESCATTER:
    wrong = df_bench_count_wrong(&job->data, reduced, one->recv, own_part, count);
    break;
  case DF_BENCH_BROADCAST:
    wrong = df_bench_count_wrong(&job->data, job->inputs[DF_BENCH_ROOT], one->recv, 0, count);
    break;
  case DF_BENCH_ALLGATHER:
    wrong = wrong_in_parts(bench, one, 0);
    break;
  case DF_BENCH_ALLTOALL:
    wrong = wrong_in_parts(bench, one, own_part);
    break;
  case DF_BENCH_GATHER:
    if (rank == DF_BENCH_ROOT) wrong = wrong_in_parts(bench, one, 0);
    break;
  case DF_BENCH_SCATTER:
    wrong =
        df_bench_count_wrong(&job->data, job->inputs[DF_BENCH_ROOT], one->recv, own_part, count);
    break;
  case DF_BENCH_SENDRECV:
    if (rank != DF_BENCH_ROOT)
      wrong = df_bench_count_wrong(&job->data, job->inputs[DF_BENCH_ROOT], one->recv, 0, count);
    break;
  case DF_BENCH_SCAN:
    wrong = wrong_in_scan(bench, one);
    break;
  case DF_BENCH_NEIGHBOURS:
    wrong = df_bench_count_wrong(&job->data, job->inputs[previous], one->recv, 0, count);
    break;
  default: /* no elements, or no collective */
    break;
  }
  if (wrong < 0) refused(bench);
  return wrong;
}
