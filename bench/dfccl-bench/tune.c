#include "tune.h"

#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "collectives.h"
#include "common/barrier.h"
#include "common/cli.h"
#include "common/clock.h"
#include "common/launch.h"
#include "common/sort.h"

/* Each algorithm gets about this much time for each size and round. Rounds alternate with those
 * of the others; an algorithm that is so much slower than the best gets none. */
enum {
  ROUND_NS = 1140000,
  ROUNDS = 7,
  MIN_REPEATS = 4,
  MAX_REPEATS = 400,
  SHORT_BYTES = 65536, /* a short run may be disturbed by anything */
  SHORT_REPEATS = 64,
  WARM_PASSES = 3
};
enum { RUN_TIMEOUT_MS = 120000 };

/* Shared by all ranks, processes included. Rank 0 writes what all obey. */
typedef struct {
  df_tool_barrier barrier;
  int repeats[DF_TUNE_WAYS]; /* repeats in each round; 0: not measured */
  df_tune_series series[DF_BENCH_TUNED];
  uint64_t times_ns[]; /* [(algorithm * rounds + round) * n_ranks + rank] */
} shared_state;

/* The share that is done: all jobs measure the same sizes of the same operations. */
typedef struct {
  uint64_t start_ns;
  int done, all; /* sizes of operations, in all jobs */
} tune_progress;

typedef struct {
  df_bench_options options; /* its operation: the one at hand */
  df_memory_kind memory;
  tune_progress progress; /* when the job began; rank 0 counts on */
  shared_state *shared;
} tune_job;

typedef struct {
  tune_job *job;
  df_tool_rank *self;
  df_bench_options options;
  tune_progress progress;
  df_operation operation;
  size_t bytes;
  df_bench_shape shape;
  void *send, *recv;
} tune_case;

static bool meet(const tune_case *one) {
  return df_tool_rank_meet(one->self, &one->job->shared->barrier);
}

static bool runs(const tune_case *one, int algorithm, int repeats) {
  dfcclContext_t context = one->self->context;
  dfcclCollId_t id = (dfcclCollId_t)algorithm;
  for (int i = 0; i < repeats; i++) {
    dfcclResult_t result = df_bench_run(one->options.operation, context, id, one->send, one->recv);
    if (result == dfcclSuccess) result = dfcclWait(context, id);
    if (!df_tool_rank_check(one->self, result, "a run")) return false;
  }
  return true;
}

static int rounds_of(const df_bench_options *options) {
  return options->rounds ? DF_MAX(options->rounds, WARM_PASSES) : ROUNDS;
}

static uint64_t *times_of(const tune_case *one, int algorithm, int round) {
  size_t ranks = (size_t)one->self->n_ranks;
  const int rounds = rounds_of(&one->options);
  return one->job->shared->times_ns + (size_t)(algorithm * rounds + round) * ranks;
}

/* One round of one algorithm: every rank's time for a run. */
static bool time_round(const tune_case *one, int algorithm, int round, int repeats) {
  if (!meet(one)) return false;
  uint64_t start = df_tool_now_ns();
  if (!runs(one, algorithm, repeats)) return false;
  times_of(one, algorithm, round)[one->self->rank] = (df_tool_now_ns() - start) / (uint64_t)repeats;
  return true;
}

static uint64_t slowest(const tune_case *one, int algorithm, int round) {
  const uint64_t *times = times_of(one, algorithm, round);
  uint64_t most = 0;
  for (int r = 0; r < one->self->n_ranks; r++)
    if (times[r] > most) most = times[r];
  return most;
}

/* A pass of few runs may be disturbed, and the first ones are cold. */
static uint64_t time_of_passes(const tune_case *one, int algorithm) {
  uint64_t least = UINT64_MAX;
  for (int pass = 1; pass < WARM_PASSES; pass++)
    least = DF_MIN(least, slowest(one, algorithm, pass));
  return least;
}

/* Rank 0: how often each is repeated. */
static void plan_rounds(const tune_case *one) {
  int *repeats = one->job->shared->repeats;
  uint64_t best = UINT64_MAX;
  for (int a = 0; a < DF_TUNE_WAYS; a++)
    if (repeats[a]) best = DF_MIN(best, time_of_passes(one, a));
  for (int a = 0; a < DF_TUNE_WAYS; a++) {
    uint64_t time = repeats[a] ? time_of_passes(one, a) + 1 : 0;
    if (time > best * DF_TUNE_HOPELESS) repeats[a] = 0;
    if (!repeats[a]) continue;
    uint64_t wanted = ROUND_NS / time;
    if (one->options.iterations) wanted = (uint64_t)one->options.iterations;
    repeats[a] = wanted < MIN_REPEATS   ? MIN_REPEATS
                 : wanted > MAX_REPEATS ? MAX_REPEATS
                                        : (int)wanted;
  }
}

/* Rank 0: the median over the rounds of what the slowest rank took. */
static void summarise(const tune_case *one) {
  shared_state *shared = one->job->shared;
  df_tune_series *series = &shared->series[one->options.operation];
  double *us = series->sizes[series->n_sizes].us;
  const int n = rounds_of(&one->options);
  for (int a = 0; a < DF_TUNE_WAYS; a++) {
    uint64_t rounds[DF_BENCH_MAX_ROUNDS];
    us[a] = 0;
    if (!shared->repeats[a]) continue;
    for (int i = 0; i < n; i++) rounds[i] = slowest(one, a, i);
    df_tool_sort_u64(rounds, (size_t)n);
    us[a] = (double)rounds[n / 2] * 1e-3;
    series->sizes[series->n_sizes].spread[a] =
        (double)(rounds[n - 2] - rounds[1]) * 1e-3 / (us[a] > 0 ? us[a] : 1);
  }
  series->sizes[series->n_sizes++].bytes = one->bytes;
}

static bool measure(tune_case *one) {
  shared_state *shared = one->job->shared;
  const int repeats = one->bytes <= SHORT_BYTES ? SHORT_REPEATS : MIN_REPEATS;
  if (!meet(one)) return false;
  for (int pass = 0; pass < WARM_PASSES; pass++)
    for (int a = 0; a < DF_TUNE_WAYS; a++) {
      bool has = df_tune_has(a, one->operation, one->self->n_ranks);
      if (one->self->rank == 0) shared->repeats[a] = has;
      if (has && !time_round(one, a, pass, repeats)) return false;
    }
  if (!meet(one)) return false;
  if (one->self->rank == 0) plan_rounds(one);
  if (!meet(one)) return false;
  for (int round = 0; round < rounds_of(&one->options); round++)
    for (int a = 0; a < DF_TUNE_WAYS; a++)
      if (shared->repeats[a] && !time_round(one, a, round, shared->repeats[a])) return false;
  if (!meet(one)) return false;
  if (one->self->rank == 0) summarise(one);
  return meet(one);
}

static bool measure_size(tune_case *one) {
  dfcclContext_t context = one->self->context;
  one->shape = df_bench_shape_of(&one->options, one->bytes);
  if (one->shape.count == 0) return true;
  for (int a = 0; a < DF_TUNE_WAYS; a++) {
    if (!df_tune_has(a, one->operation, one->self->n_ranks)) continue;
    one->options.algorithm = df_tune_name(a);
    dfcclResult_t result = df_bench_register(&one->options, &one->shape, context, (dfcclCollId_t)a);
    if (!df_tool_rank_check(one->self, result, "registering")) return false;
  }
  if (!measure(one)) return false;
  for (int a = 0; a < DF_TUNE_WAYS; a++)
    if (df_tune_has(a, one->operation, one->self->n_ranks) &&
        !df_tool_rank_check(one->self, dfcclDeregister(context, (dfcclCollId_t)a),
                            "dfcclDeregister"))
      return false;
  return true;
}

static int sizes_of(const df_bench_options *options) {
  int n = 0;
  for (size_t bytes = options->min_bytes; bytes <= options->max_bytes; bytes *= options->factor)
    n++;
  return n;
}

/* "12%, about 3 min left: allreduce, 4 ranks, processes, 65536 bytes" */
static void show_progress(const tune_case *one) {
  const tune_progress *progress = &one->progress;
  char left[48] = "";
  if (progress->done > 0) {
    const double spent = (double)(df_tool_now_ns() - progress->start_ns) * 1e-9;
    const double seconds = spent * (progress->all - progress->done) / progress->done;
    if (seconds < 90)
      snprintf(left, sizeof left, ", about %.0f s left", seconds);
    else
      snprintf(left, sizeof left, ", about %.0f min left", seconds / 60);
  }
  df_tool_progress("%d%%%s: %s, %d ranks%s, %zu bytes", 100 * progress->done / progress->all, left,
                   df_bench_operation_name(one->options.operation), one->self->n_ranks,
                   one->options.processes ? ", processes" : "", one->bytes);
}

static bool measure_operation(tune_case *one, df_bench_operation operation) {
  df_tune_series *series = &one->job->shared->series[operation];
  one->options.operation = operation;
  one->operation = (df_operation)df_operation_by_word(df_bench_operation_name(operation));
  if (one->self->rank == 0)
    *series = (df_tune_series){
        .operation = one->operation, .n_ranks = one->self->n_ranks, .memory = one->job->memory};
  for (one->bytes = one->options.min_bytes; one->bytes <= one->options.max_bytes;
       one->bytes *= one->options.factor) {
    if (one->self->rank == 0 && one->options.progress) show_progress(one);
    if (!measure_size(one)) return false;
    one->progress.done++;
  }
  return true;
}

static void rank_main(df_tool_rank *self) {
  tune_job *job = self->argument;
  tune_case one = {.job = job, .self = self, .options = job->options, .progress = job->progress};
  bool fine = df_bench_buffer_take(self, &one.options, self->context, &one.send) &&
              df_bench_buffer_take(self, &one.options, self->context, &one.recv);
  for (int operation = 0; fine && operation < DF_BENCH_TUNED; operation++)
    fine = measure_operation(&one, (df_bench_operation)operation);
  if (fine && df_bench_buffer_give(self, &one.options, self->context, one.send))
    df_bench_buffer_give(self, &one.options, self->context, one.recv);
}

static void on_failure(void *argument) {
  df_tool_barrier_break(&((tune_job *)argument)->shared->barrier);
}

/* One job of n ranks; its series are copied to `series`, one for each operation. */
static bool measure_job(const df_bench_options *options, int n_ranks, bool processes,
                        const tune_progress *progress, df_tune_series *series) {
  size_t bytes = sizeof(shared_state) +
                 sizeof(uint64_t) * DF_TUNE_WAYS * (size_t)rounds_of(options) * (size_t)n_ranks;
  tune_job job = {.options = *options,
                  .memory = processes ? DF_MEMORY_HOST : DF_MEMORY_PROCESS,
                  .progress = *progress,
                  .shared = df_tool_shared_alloc(bytes)};
  char *reports = calloc((size_t)n_ranks, 1);
  bool fine = job.shared != NULL && reports != NULL;
  if (fine) {
    job.options.n_ranks = n_ranks;
    job.options.processes = processes;
    df_tool_barrier_init(&job.shared->barrier, (unsigned)n_ranks);
    df_tool_job launch = {.n_ranks = n_ranks,
                          .processes = processes,
                          .config = DFCCL_CONFIG_INITIALIZER,
                          .rank_main = rank_main,
                          .argument = &job,
                          .on_failure = on_failure,
                          .report_bytes = 1,
                          .reports = reports};
    launch.config.backend = options->backend;
    launch.config.timeoutMs = RUN_TIMEOUT_MS;
    fine = df_tool_launch(&launch);
    memcpy(series, job.shared->series, sizeof job.shared->series);
  } else {
    df_tool_error("out of memory for %d ranks", n_ranks);
  }
  if (job.shared) df_tool_shared_free(job.shared, bytes);
  free(reports);
  return fine;
}

/* Sizes of groups: 2, 4, 8, ... up to n. Each speaks for those around it. */
enum { MAX_GROUPS = 11 };

static int group_sizes(int n, int *sizes) {
  int count = 0;
  for (int size = 2; size <= n && count < MAX_GROUPS; size *= 2) sizes[count++] = size;
  return count;
}

static void write_table(FILE *file, const int *sizes, int n_sizes,
                        df_tune_series (*all)[DF_BENCH_TUNED], int argc, char **argv) {
  df_tune_write_header(file, argc, argv);
  for (int operation = 0; operation < DF_BENCH_TUNED; operation++)
    for (int kind = 0; kind < 2; kind++)
      for (int g = 0; g < n_sizes; g++) {
        uint32_t least = g == 0 ? 1 : (uint32_t)(sizes[g] - sizes[g] / 4);
        uint32_t most =
            g + 1 == n_sizes ? DF_MAX_RANKS : (uint32_t)(sizes[g + 1] - sizes[g + 1] / 4 - 1);
        df_tune_write_rules(file, &all[kind * MAX_GROUPS + g][operation], least, most);
      }
  fprintf(file, "#\n# operation, ranks, memory, bytes: microseconds\n");
  for (int operation = 0; operation < DF_BENCH_TUNED; operation++)
    for (int kind = 0; kind < 2; kind++)
      for (int g = 0; g < n_sizes; g++)
        df_tune_write_times(file, &all[kind * MAX_GROUPS + g][operation]);
  fprintf(file, "#\n# fits: microseconds for a message of no bytes, and for each KB\n");
  for (int operation = 0; operation < DF_BENCH_TUNED; operation++)
    for (int kind = 0; kind < 2; kind++)
      for (int g = 0; g < n_sizes; g++)
        df_tune_write_fits(file, &all[kind * MAX_GROUPS + g][operation]);
}

int df_bench_tune(const df_bench_options *options, int argc, char **argv) {
  int sizes[MAX_GROUPS], n_sizes = group_sizes(options->n_ranks, sizes);
  df_tune_series(*all)[DF_BENCH_TUNED] = calloc(2 * MAX_GROUPS, sizeof *all);
  FILE *file = options->out ? fopen(options->out, "w") : stdout;
  bool fine = all != NULL && file != NULL;
  if (all == NULL) df_tool_error("out of memory for the measurements");
  if (file == NULL) df_tool_error("cannot write %s", options->out);
  df_tune_read_files();
  /* Processes first: after threads of the library a fork is no longer possible. */
  const int steps = DF_BENCH_TUNED * sizes_of(options);
  tune_progress progress = {.start_ns = df_tool_now_ns(), .all = 2 * n_sizes * steps};
  for (int kind = 1; fine && kind >= 0; kind--)
    for (int g = 0; fine && g < n_sizes; g++) {
      fine = measure_job(options, sizes[g], kind == 1, &progress, all[kind * MAX_GROUPS + g]);
      progress.done += steps;
    }
  if (options->progress) df_tool_progress("%s", "");
  if (fine) write_table(file, sizes, n_sizes, all, argc, argv);
  bool written = file != NULL && fflush(file) == 0 && !ferror(file);
  if (file != NULL && file != stdout && fclose(file) != 0) written = false;
  if (fine && !written) df_tool_error("cannot write the table");
  fine = fine && written;
  free(all);
  return fine ? DF_TOOL_SUCCESS : DF_TOOL_FAILED;
}
