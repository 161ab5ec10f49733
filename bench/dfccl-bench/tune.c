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
#include "primitives/elements/types.h"

/* Each algorithm gets about this much time for each size and round. Rounds alternate with those
 * of the others; an algorithm that is so much slower than the best gets none. */
typedef struct {
  int rounds, round_ns, least_repeats;
  int hopeless; /* times the best: not measured any further */
} tune_effort;
static const tune_effort thorough = {7, 1140000, 4, DF_TUNE_HOPELESS};
static const tune_effort quick = {3, 300000, 2, 2};
enum {
  MAX_REPEATS = 400,
  SHORT_BYTES = 65536, /* a short run may be disturbed by anything */
  SHORT_REPEATS = 64,
  WARM_PASSES = 3,
  LINE_WORDS = 64 / sizeof(uint32_t),
  FINALISTS = 4,
  SLOTS_WORTH = 2, /* times the best: other slot sizes may still be the best */
  QUICK_S = 30,    /* --quick leaves out what is not measured by then */
  SITTINGS = 3,
  SETTLING_ROUNDS = 4
};
enum { RUN_TIMEOUT_MS = 120000 };

/* Shared by all ranks, processes included. Rank 0 writes what all obey. */
typedef struct {
  df_tool_barrier barrier;
  bool is_over;                 /* --quick: its time has ended */
  bool is_wanted[DF_TUNE_WAYS]; /* it is registered for the size at hand */
  int repeats[DF_TUNE_WAYS];    /* repeats in each round; 0: not measured */
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
  bool is_registered[DF_TUNE_WAYS], is_warm[DF_TUNE_WAYS];
  void *send, *recv;
} tune_case;

static bool meet(const tune_case *one) {
  return df_tool_rank_meet(one->self, &one->job->shared->barrier);
}

/* As programs do: an input is written before each run, and a result is read. Inputs that nobody
 * writes stay in the caches of their readers, and would make lent memory look too good. */
static void write_input(const tune_case *one, int run) {
  volatile uint32_t *words = one->send;
  const size_t n = one->shape.send_count * df_type_size(one->options.type) / sizeof *words;
  for (size_t i = 0; i < n; i += LINE_WORDS) words[i] = (uint32_t)run & 1;
}

static void read_result(const tune_case *one) {
  const volatile uint32_t *words = one->recv;
  const size_t n = one->shape.recv_count * df_type_size(one->options.type) / sizeof *words;
  for (size_t i = 0; i < n; i += LINE_WORDS) (void)words[i];
}

static bool runs(const tune_case *one, int algorithm, int repeats) {
  dfcclContext_t context = one->self->context;
  dfcclCollId_t id = (dfcclCollId_t)algorithm;
  for (int i = 0; i < repeats; i++) {
    write_input(one, i);
    dfcclResult_t result = df_bench_run(one->options.operation, context, id, one->send, one->recv);
    if (result == dfcclSuccess) result = dfcclWait(context, id);
    if (!df_tool_rank_check(one->self, result, "a run")) return false;
    read_result(one);
  }
  return true;
}

static const tune_effort *effort_of(const df_bench_options *options) {
  return options->quick ? &quick : &thorough;
}

static int rounds_of(const df_bench_options *options) {
  return options->rounds ? DF_MAX(options->rounds, WARM_PASSES) : effort_of(options)->rounds;
}

static uint64_t *times_of(const tune_case *one, int algorithm, int round) {
  size_t ranks = (size_t)one->self->n_ranks;
  const int rounds = rounds_of(&one->options) * SITTINGS;
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

static uint64_t best_of_passes(const tune_case *one, int ways) {
  uint64_t best = UINT64_MAX;
  for (int way = 0; way < ways; way++)
    if (one->is_warm[way]) best = DF_MIN(best, time_of_passes(one, way));
  return best;
}

/* Rank 0: leaves out what is far slower than the best. */
static void leave_out(const tune_case *one) {
  const uint64_t best = best_of_passes(one, DF_TUNE_WAYS);
  for (int way = 0; way < DF_TUNE_WAYS; way++)
    if (one->is_warm[way] &&
        time_of_passes(one, way) > best * (uint64_t)effort_of(&one->options)->hopeless)
      one->job->shared->is_wanted[way] = false;
}

/* Rank 0: other slot sizes of algorithms that are not much slower than the best of them. */
static void want_slot_sizes(const tune_case *one) {
  const uint64_t most = best_of_passes(one, DF_ALGORITHMS) * SLOTS_WORTH;
  for (int algorithm = 0; algorithm < DF_ALGORITHMS; algorithm++) {
    if (!one->is_warm[algorithm] || time_of_passes(one, algorithm) > most) continue;
    for (int i = 0; i < DF_TUNE_SLOT_SIZES; i++) {
      const int way = df_tune_with_slot(algorithm, i);
      one->job->shared->is_wanted[way] = one->bytes > df_tune_slot_bytes(way) / 2;
    }
  }
}

/* Rank 0: how often each is repeated. */
static void plan_rounds(const tune_case *one) {
  const tune_effort *effort = effort_of(&one->options);
  int *repeats = one->job->shared->repeats;
  for (int way = 0; way < DF_TUNE_WAYS; way++) {
    repeats[way] = 0;
    if (!one->job->shared->is_wanted[way]) continue;
    const uint64_t time = time_of_passes(one, way) + 1;
    uint64_t wanted = (uint64_t)effort->round_ns / time;
    if (one->options.iterations) wanted = (uint64_t)one->options.iterations;
    repeats[way] = (int)DF_MIN(DF_MAX(wanted, (uint64_t)effort->least_repeats), MAX_REPEATS);
  }
}

/* Rank 0: the median over the rounds of what the slowest rank took. */
static void summarise(const tune_case *one, int rounds) {
  shared_state *shared = one->job->shared;
  df_tune_series *series = &shared->series[one->options.operation];
  double *us = series->sizes[series->n_sizes].us;
  for (int way = 0; way < DF_TUNE_WAYS; way++) {
    uint64_t times[DF_BENCH_MAX_ROUNDS * SITTINGS];
    if (!shared->repeats[way]) continue;
    for (int i = 0; i < rounds; i++) times[i] = slowest(one, way, i);
    df_tool_sort_u64(times, (size_t)rounds);
    us[way] = (double)times[rounds / 2] * 1e-3;
    series->sizes[series->n_sizes].spread[way] =
        (double)(times[rounds - 2] - times[1]) * 1e-3 / (us[way] > 0 ? us[way] : 1);
  }
}

/* Whether the way does just what the library's choice does. */
static bool is_the_choice(const tune_case *one, int way) {
  dfcclConfiguration_t a = DFCCL_CONFIGURATION_INITIALIZER, b = DFCCL_CONFIGURATION_INITIALIZER;
  if (dfcclGetConfiguration(one->self->context, (dfcclCollId_t)way, &a) != dfcclSuccess ||
      dfcclGetConfiguration(one->self->context, DF_TUNE_CHOICE, &b) != dfcclSuccess)
    return false;
  return strcmp(a.algorithm, b.algorithm) == 0 && a.chunkBytes == b.chunkBytes &&
         a.loops == b.loops && a.blocks == b.blocks && a.slotBytes == b.slotBytes;
}

/* Rank 0: the fastest ones, and the library's choice, are measured again. */
static void choose_finalists(const tune_case *one) {
  shared_state *shared = one->job->shared;
  df_tune_series *series = &shared->series[one->options.operation];
  const double *us = series->sizes[series->n_sizes].us;
  df_tune_standing *standing = series->sizes[series->n_sizes].standing;
  for (int place = 0; place < FINALISTS; place++) {
    int best = -1;
    for (int way = 0; way < DF_TUNE_CHOICE; way++)
      if (us[way] > 0 && standing[way] == DF_TUNE_MEASURED && (best < 0 || us[way] < us[best]) &&
          !is_the_choice(one, way))
        best = way;
    if (best >= 0) standing[best] = DF_TUNE_FINALIST;
  }
  for (int way = 0; way < DF_TUNE_CHOICE; way++) {
    shared->is_wanted[way] = standing[way] == DF_TUNE_FINALIST;
    if (!shared->is_wanted[way]) shared->repeats[way] = 0;
  }
}

/* Rank 0: winners beat the library's choice in three rounds of four, and in most of each sitting.
 * The rounds of a pair follow each other, so that changes of the machine's speed meet both. */
static void choose_winners(const tune_case *one, int rounds) {
  df_tune_series *series = &one->job->shared->series[one->options.operation];
  df_tune_standing *standing = series->sizes[series->n_sizes].standing;
  for (int way = 0; way < DF_TUNE_CHOICE; way++) {
    int won = 0;
    bool wins_each = true;
    if (standing[way] != DF_TUNE_FINALIST) continue;
    for (int sitting = 0; sitting < SITTINGS; sitting++) {
      int here = 0;
      for (int i = 0; i < rounds; i++)
        here += slowest(one, way, sitting * rounds + i) <
                slowest(one, DF_TUNE_CHOICE, sitting * rounds + i);
      if (here * 2 <= rounds) wins_each = false;
      won += here;
    }
    if (wins_each && won * 4 >= rounds * SITTINGS * 3) standing[way] = DF_TUNE_WINNER;
  }
}

/* Registers what is wanted and is not registered, and the reverse. Then rank 0 may change what is
 * wanted. */
static bool follow(tune_case *one) {
  dfcclContext_t context = one->self->context;
  for (int way = 0; way < DF_TUNE_WAYS; way++) {
    const bool wanted = one->job->shared->is_wanted[way];
    if (wanted == one->is_registered[way]) continue;
    one->options.algorithm = df_tune_name(way);
    const dfcclResult_t result =
        wanted ? df_bench_register(&one->options, &one->shape, context, (dfcclCollId_t)way)
               : dfcclDeregister(context, (dfcclCollId_t)way);
    if (!df_tool_rank_check(one->self, result, wanted ? "registering" : "dfcclDeregister"))
      return false;
    one->is_registered[way] = wanted;
    if (!wanted) one->is_warm[way] = false;
  }
  return meet(one);
}

/* A few runs of each new one, and rank 0 leaves out those that are hopeless. */
static bool warm(tune_case *one) {
  const int repeats =
      one->bytes <= SHORT_BYTES ? SHORT_REPEATS : effort_of(&one->options)->least_repeats;
  if (!meet(one) || !follow(one)) return false;
  for (int pass = 0; pass < WARM_PASSES; pass++)
    for (int way = 0; way < DF_TUNE_WAYS; way++)
      if (one->is_registered[way] && !one->is_warm[way] && !time_round(one, way, pass, repeats))
        return false;
  if (!meet(one)) return false;
  for (int way = 0; way < DF_TUNE_WAYS; way++) one->is_warm[way] = one->is_registered[way];
  if (one->self->rank == 0) leave_out(one);
  return meet(one) && follow(one);
}

static bool race(const tune_case *one, int first, int rounds) {
  for (int round = first; round < first + rounds; round++)
    for (int way = 0; way < DF_TUNE_WAYS; way++)
      if (one->job->shared->repeats[way] &&
          !time_round(one, way, round, one->job->shared->repeats[way]))
        return false;
  return meet(one);
}

/* The ways of a registration's messages settle within some thousand messages, and may settle
 * differently. So each sitting begins with new registrations, whose first runs do not count. */
static bool sit(tune_case *one, int sitting, int rounds) {
  bool *wanted = one->job->shared->is_wanted;
  const bool is_judge = one->self->rank == 0;
  bool again[DF_TUNE_WAYS];
  memcpy(again, wanted, sizeof again);
  if (!meet(one)) return false;
  if (is_judge) memset(wanted, 0, sizeof again);
  if (!meet(one) || !follow(one)) return false;
  if (is_judge) memcpy(wanted, again, sizeof again);
  if (!meet(one) || !follow(one)) return false;
  for (int way = 0; way < DF_TUNE_WAYS; way++)
    if (again[way] && !runs(one, way, SETTLING_ROUNDS * one->job->shared->repeats[way]))
      return false;
  return race(one, sitting * rounds, rounds);
}

static bool measure(tune_case *one) {
  const int rounds = rounds_of(&one->options);
  const bool is_judge = one->self->rank == 0;
  shared_state *shared = one->job->shared;
  if (is_judge) {
    for (int way = 0; way < DF_TUNE_WAYS; way++)
      shared->is_wanted[way] = (way < DF_TUNE_NAMED || way == DF_TUNE_CHOICE) &&
                               df_tune_has(way, one->operation, one->self->n_ranks);
    shared->is_over = one->options.quick &&
                      df_tool_now_ns() - one->progress.start_ns > (uint64_t)QUICK_S * 1000000000u;
  }
  if (!meet(one)) return false;
  if (shared->is_over) {
    if (is_judge) shared->series[one->options.operation].is_cut = true;
    return meet(one);
  }
  if (!warm(one)) return false;
  if (is_judge) want_slot_sizes(one);
  if (!warm(one)) return false;
  if (is_judge) plan_rounds(one);
  if (!meet(one) || !race(one, 0, rounds)) return false;
  if (is_judge) {
    summarise(one, rounds);
    choose_finalists(one);
  }
  if (!meet(one)) return false;
  for (int sitting = 0; sitting < SITTINGS; sitting++)
    if (!sit(one, sitting, rounds)) return false;
  if (is_judge) {
    df_tune_series *series = &shared->series[one->options.operation];
    summarise(one, rounds * SITTINGS);
    choose_winners(one, rounds);
    series->sizes[series->n_sizes++].bytes = one->bytes;
    memset(shared->is_wanted, 0, sizeof shared->is_wanted);
  }
  return meet(one) && follow(one);
}

static bool measure_size(tune_case *one) {
  one->shape = df_bench_shape_of(&one->options, one->bytes);
  return one->shape.count == 0 || measure(one);
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
  size_t bytes = sizeof(shared_state) + sizeof(uint64_t) * DF_TUNE_WAYS *
                                            (size_t)rounds_of(options) * SITTINGS * (size_t)n_ranks;
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

static void write_table(FILE *file, bool is_calibration, const int *sizes, int n_sizes,
                        df_tune_series (*all)[DF_BENCH_TUNED], int argc, char **argv) {
  df_tune_write_header(file, is_calibration, argc, argv);
  for (int operation = 0; operation < DF_BENCH_TUNED; operation++)
    for (int kind = 0; kind < 2; kind++)
      for (int g = 0; g < n_sizes; g++) {
        uint32_t least = g == 0 ? 1 : (uint32_t)(sizes[g] - sizes[g] / 4);
        uint32_t most =
            g + 1 == n_sizes ? DF_MAX_RANKS : (uint32_t)(sizes[g + 1] - sizes[g + 1] / 4 - 1);
        df_tune_write_rules(file, &all[kind * MAX_GROUPS + g][operation], least, most);
      }
  if (is_calibration) return; /* every job reads it */
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
  df_tune_output out;
  if (all == NULL) df_tool_error("out of memory for the measurements");
  if (all == NULL || !df_tune_open(options, &out)) {
    free(all);
    return DF_TOOL_FAILED;
  }
  bool fine = true;
  setenv("DFCCL_CALIBRATION", "0", 1); /* it is compared with the library's own choice */
  if (out.is_calibration) {
    unsetenv("DFCCL_TUNING");
    unsetenv("DFCCL_ALGORITHMS"); /* jobs may have other files */
  }
  df_tune_name_ways();
  /* Processes first: after threads of the library a fork is no longer possible. */
  const int steps = DF_BENCH_TUNED * sizes_of(options);
  tune_progress progress = {.start_ns = df_tool_now_ns(), .all = 2 * n_sizes * steps};
  for (int kind = 1; fine && kind >= 0; kind--)
    for (int g = 0; fine && g < n_sizes; g++) {
      fine = measure_job(options, sizes[g], kind == 1, &progress, all[kind * MAX_GROUPS + g]);
      progress.done += steps;
    }
  if (options->progress) df_tool_progress("%s", "");
  if (fine) write_table(out.file, out.is_calibration, sizes, n_sizes, all, argc, argv);
  fine = df_tune_close(&out, fine);
  free(all);
  return fine ? DF_TOOL_SUCCESS : DF_TOOL_FAILED;
}
