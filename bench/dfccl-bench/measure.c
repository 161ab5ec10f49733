#include "measure.h"

#include "bound.h"

#include <stdlib.h>

#include "buffers.h"
#include "check.h"
#include "common/cli.h"
#include "common/clock.h"
#include "common/env.h"
#include "common/element.h"
#include "common/memory.h"
#include "common/sort.h"
#include "reference_cuda.h"
#include "table.h"

/* Without -i each size gets about this much time, within these bounds. */
enum { BUDGET_NS = 250000000, MIN_ITERATIONS = 5, MAX_ITERATIONS = 1000, ESTIMATES = 3 };

bool df_bench_job_init(df_bench_job *job, const df_bench_options *options) {
  size_t ranks = (size_t)options->n_ranks;
  size_t iterations = options->iterations != 0 ? (size_t)options->iterations : MAX_ITERATIONS;
  *job =
      (df_bench_job){.options = *options, .data = {options->type, options->op, options->n_ranks}};
  /* Data that is only moved may have any value: the values for max use the whole range of a
   * type. */
  if (!df_bench_has_operator(options->operation)) job->data.op = dfcclMax;
  job->shared_bytes = sizeof(df_bench_shared) + iterations * ranks * sizeof(uint64_t);
  job->shared = df_tool_shared_alloc(job->shared_bytes);
  if (job->shared == NULL) return false;
  df_tool_barrier_init(&job->shared->barrier, (unsigned)ranks);
  if (!options->check) return true;
  job->inputs = calloc(ranks, sizeof *job->inputs);
  if (job->inputs == NULL) return false;
  for (int r = 0; r < options->n_ranks; r++)
    if ((job->inputs[r] = df_bench_table(&job->data, r)) == NULL) return false;
  if (!df_bench_has_operator(options->operation)) return true;
  job->reduced = df_bench_table(&job->data, -1);
  return job->reduced != NULL;
}

void df_bench_job_destroy(df_bench_job *job) {
  for (int r = 0; job->inputs != NULL && r < job->options.n_ranks; r++) free(job->inputs[r]);
  free(job->inputs);
  free(job->reduced);
  df_tool_shared_free(job->shared, job->shared_bytes);
}

void df_bench_on_failure(void *argument) {
  df_tool_barrier_break(&((df_bench_job *)argument)->shared->barrier);
}

static bool meet(df_bench_rank *bench) {
  return df_tool_rank_meet(bench->self, &bench->job->shared->barrier);
}

static bool run_and_wait(df_bench_rank *bench, const df_bench_case *one) {
  dfcclContext_t context = bench->self->context;
  dfcclResult_t result =
      df_bench_run(bench->job->options.operation, context, one->id, one->send, one->recv);
  if (result == dfcclSuccess) result = dfcclWait(context, one->id);
  return df_tool_rank_check(bench->self, result, "a run");
}

/* With --env each rank has a record of its own: rank 0's number is everybody's. */
static bool share_iterations(df_bench_rank *bench) {
  df_bench_shared *shared = bench->job->shared;
  uint64_t iterations = bench->self->rank == 0 ? (uint64_t)shared->iterations : 0;
  if (bench->self->env_job == NULL) return true;
  if (!df_tool_env_reduce(bench->self, &iterations, 1, dfcclMax)) return false;
  shared->iterations = (int)iterations;
  return true;
}

/* The same of times: each rank has its own column only, and then the slowest's in its place. */
static bool share_times(df_bench_rank *bench) {
  df_bench_shared *shared = bench->job->shared;
  const size_t ranks = (size_t)bench->self->n_ranks, n = (size_t)shared->iterations;
  uint64_t *times = shared->times_ns + bench->self->rank;
  if (bench->self->env_job == NULL) return true;
  uint64_t *packed = malloc(n * sizeof *packed);
  if (packed == NULL) {
    df_tool_rank_fail(bench->self, -1, "no memory for %zu times", n);
    return false;
  }
  for (size_t i = 0; i < n; i++) packed[i] = times[i * ranks];
  const bool fine = df_tool_env_reduce(bench->self, packed, n, dfcclMax);
  for (size_t i = 0; i < n; i++) times[i * ranks] = packed[i];
  free(packed);
  return fine;
}

/* Untimed iterations; then all ranks agree on the number of timed ones. */
static bool warm_up(df_bench_rank *bench, const df_bench_case *one) {
  const df_bench_options *options = &bench->job->options;
  df_bench_shared *shared = bench->job->shared;
  if (!meet(bench)) return false;
  for (int i = 0; i < options->warmup; i++)
    if (!run_and_wait(bench, one)) return false;
  int iterations = options->iterations;
  for (int i = 0; iterations == 0 && i < ESTIMATES; i++) {
    uint64_t start = df_tool_now_ns();
    if (!run_and_wait(bench, one)) return false;
    uint64_t wanted = BUDGET_NS / (df_tool_now_ns() - start + 1);
    if (i < ESTIMATES - 1) continue;
    iterations = wanted > MAX_ITERATIONS ? MAX_ITERATIONS : (int)wanted;
    if (iterations < MIN_ITERATIONS) iterations = MIN_ITERATIONS;
  }
  if (bench->self->rank == 0) shared->iterations = iterations;
  return meet(bench) && share_iterations(bench);
}

static bool time_iterations(df_bench_rank *bench, const df_bench_case *one) {
  df_bench_shared *shared = bench->job->shared;
  int iterations = shared->iterations;
  uint64_t *times = shared->times_ns + bench->self->rank;
  uint64_t before = df_tool_now_ns();
  for (int i = 0; i < iterations; i++) {
    if (!run_and_wait(bench, one)) return false;
    uint64_t after = df_tool_now_ns();
    times[(size_t)i * (size_t)bench->self->n_ranks] = after - before;
    before = after;
  }
  return meet(bench) && share_times(bench);
}

/* Rank 0: the slowest rank of each iteration; of these the smallest and the median. */
static void summarise(const df_bench_job *job, const df_bench_shape *shape,
                      df_bench_timing *timing) {
  df_bench_shared *shared = job->shared;
  size_t ranks = (size_t)job->options.n_ranks, iterations = (size_t)shared->iterations;
  for (size_t i = 0; i < iterations; i++) {
    uint64_t slowest = 0;
    for (size_t r = 0; r < ranks; r++)
      if (shared->times_ns[i * ranks + r] > slowest) slowest = shared->times_ns[i * ranks + r];
    shared->times_ns[i] = slowest; /* entry i <= i * ranks: read already */
  }
  df_tool_sort_u64(shared->times_ns, iterations);
  timing->min_us = (double)shared->times_ns[0] * 1e-3;
  timing->median_us =
      (double)(shared->times_ns[(iterations - 1) / 2] + shared->times_ns[iterations / 2]) * 0.5e-3;
  timing->algbw_gbps = (double)shape->bytes / (timing->median_us * 1e3);
  timing->busbw_gbps =
      timing->algbw_gbps * df_bench_bus_factor(job->options.operation, job->options.n_ranks);
}

/* One more run, from known data, and every element of its result. */
static bool check(df_bench_rank *bench, const df_bench_case *one) {
  df_bench_shared *shared = bench->job->shared;
  if (!df_bench_prepare(bench, one)) return false;
  if (bench->self->rank == 0 || bench->self->env_job) atomic_store(&shared->wrong, 0);
  if (!meet(bench) || !run_and_wait(bench, one)) return false;
  int64_t wrong = df_bench_verify(bench, one);
  if (wrong < 0) return false;
  uint64_t all = (uint64_t)wrong;
  if (bench->self->env_job && !df_tool_env_reduce(bench->self, &all, 1, dfcclSum)) return false;
  atomic_fetch_add(&shared->wrong, (long long)all);
  atomic_fetch_add(&shared->wrong_in_all, (long long)all);
  return meet(bench);
}

static bool measure(df_bench_rank *bench, const df_bench_case *one, df_bench_timing *timing) {
  const df_bench_job *job = bench->job;
  if (!df_bench_clear(bench)) return false;
  if (!warm_up(bench, one) || !time_iterations(bench, one)) return false;
  if (bench->self->rank == 0) summarise(job, &one->shape, timing);
  if (job->options.check && !check(bench, one)) return false;
  if (bench->self->rank == 0) {
    timing->wrong = job->options.check ? (int64_t)atomic_load(&job->shared->wrong) : -1;
    timing->measured = true;
  }
  return meet(bench);
}

static bool measure_size(df_bench_rank *bench, size_t bytes, int number) {
  const df_bench_options *options = &bench->job->options;
  df_bench_row *row = &bench->job->shared->rows[number];
  df_bench_case one = {.id = (dfcclCollId_t)number, .shape = df_bench_shape_of(options, bytes)};
  dfcclResult_t result = df_bench_register(options, &one.shape, bench->self->context, one.id);
  if (!df_tool_rank_check(bench->self, result, "registering")) return false;
  if (bench->self->rank == 0) {
    row->shape = one.shape;
    if (options->bound) row->bound_us = df_bench_bound_us(options, &one.shape);
  }
  if (!options->in_place) {
    one.send = bench->buffers[0];
    one.recv = bench->buffers[1];
    if (!measure(bench, &one, &row->out_of_place)) return false;
  }
  if ((options->in_place || !options->json) && df_bench_has_in_place(options->operation)) {
    df_bench_in_place(options, &one.shape, bench->self->rank, bench->buffers[1], &one.send,
                      &one.recv);
    if (!measure(bench, &one, &row->in_place)) return false;
  }
  result = dfcclDeregister(bench->self->context, one.id);
  if (!df_tool_rank_check(bench->self, result, "dfcclDeregister")) return false;
  if (bench->self->rank == 0) {
    bench->job->shared->rows_done = number + 1;
    if (!options->json && !df_bench_print_row(options, row))
      df_tool_rank_fail(bench->self, -1, "standard output cannot be written");
    if (options->json && options->progress) df_tool_progress("%zu bytes measured", bytes);
  }
  return bench->self->outcome.code == 0;
}

static bool make_buffers(df_bench_rank *bench) {
  bench->buffer_bytes = bench->job->options.max_bytes;
  for (int i = 0; i < 2; i++)
    if (!df_bench_buffer_take(bench->self, &bench->job->options, bench->self->context,
                              &bench->buffers[i]))
      return false;
  return true;
}

static void give_buffers(df_bench_rank *bench) {
  for (int i = 0; i < 2; i++)
    if (!df_bench_buffer_give(bench->self, &bench->job->options, bench->self->context,
                              bench->buffers[i]))
      return;
}

void df_bench_rank_main(df_tool_rank *self) {
  df_bench_rank bench = {.job = self->argument, .self = self};
  const df_bench_options *options = &bench.job->options;
  bool fine = make_buffers(&bench);
  int number = 0;
  for (size_t bytes = options->min_bytes; fine && bytes <= options->max_bytes;
       bytes *= options->factor)
    fine = measure_size(&bench, bytes, number++);
  if (self->rank == 0 && options->json && options->progress) df_tool_progress("%s", "");
  if (fine && self->rank == 0 && options->backend == dfcclBackendCuda &&
      !df_bench_time_copy(options->max_bytes, &bench.job->shared->copy_gbps))
    df_tool_rank_fail(self, dfcclUnhandledCudaError, "timing a copy within the GPU failed");
  if (fine) give_buffers(&bench);
}
