/*
 * Batches of the same all-reduces: each rank submits all of a batch, then waits for all (blocking:
 * for each one before it submits the next). Four modes take turns in one run. A turn is many
 * batches back to back; a batch's time is the turn's, of the slowest rank, divided by their number.
 * Ratios compare turns of one round: a machine that changes its speed changes both.
 */
#include "disorder.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "buffers.h"
#include "collectives.h"
#include "common/barrier.h"
#include "common/cli.h"
#include "common/clock.h"
#include "common/element.h"
#include "common/launch.h"
#include "common/memory.h"
#include "common/random.h"
#include "common/tuning.h"
#include "data.h"
#include "disorder_table.h"

enum {
  DEFAULT_ROUNDS = 21,
  TURN_NS = 4000000, /* without -i, about so much time for a turn */
  MIN_BATCHES = 2,
  MAX_BATCHES = 2000,
  ESTIMATES = 3, /* batches; the last count stands */
  RUN_TIMEOUT_MS = 120000
};
/* The largest threshold that the library accepts (docs/CONFIGURATION.md). */
#define NEVER_SET_ASIDE "1000000000"

/* One rank's report of one turn. */
typedef struct {
  _Alignas(64) uint64_t ns;
  uint64_t preemptions, quits;
} turn_report;

/* Shared by all ranks, processes included. Only rank 0 writes the rows. */
typedef struct {
  df_tool_barrier barrier;
  dfcclUniqueId id; /* the id of the patient contexts */
  atomic_llong wrong;
  int rows_done;
  disorder_row rows[DISORDER_MAX_ROWS];
  turn_report reports[];
} shared_state;

typedef struct {
  df_bench_options options;
  df_bench_data data;
  void **inputs, *reduced; /* tables, as in dfccl-bench/data.h; NULL without a check */
  shared_state *shared;
} disorder_job;

/* One context of a rank, and its buffers: of each collective one to send and one to receive. */
typedef struct {
  dfcclContext_t context;
  void *send[DISORDER_BATCH], *recv[DISORDER_BATCH];
} rank_side;

typedef struct {
  disorder_job *job;
  df_tool_rank *self;
  rank_side automatic, patient;
  df_bench_shape shape;
  uint8_t *orders; /* [batch][DISORDER_BATCH], orders of the current turn */
} disorder_rank;

static bool meet(const disorder_rank *rank) {
  return df_tool_rank_meet(rank->self, &rank->job->shared->barrier);
}

static bool refused(const disorder_rank *rank) {
  df_tool_rank_fail(rank->self, dfcclUnhandledCudaError, "copying to or from the GPU failed");
  return false;
}

static rank_side *side_of(disorder_rank *rank, disorder_mode which) {
  return which == MODE_PATIENT ? &rank->patient : &rank->automatic;
}

/* ---- one turn ---- */

static void draw_orders(const disorder_rank *rank, disorder_mode which, int batches, int round) {
  df_tool_random random = {df_tool_mix3(rank->job->options.seed,
                                        (uint64_t)rank->self->rank << 32 | (uint64_t)round,
                                        rank->shape.bytes)};
  int order[DISORDER_BATCH];
  for (int batch = 0; batch < batches; batch++) {
    for (int i = 0; i < DISORDER_BATCH; i++) order[i] = i;
    if (which == MODE_DISORDERED) df_tool_random_order(&random, order, DISORDER_BATCH);
    for (int i = 0; i < DISORDER_BATCH; i++)
      rank->orders[batch * DISORDER_BATCH + i] = (uint8_t)order[i];
  }
}

static dfcclResult_t run_batches(const rank_side *side, const uint8_t *orders, int batches,
                                 bool blocking) {
  for (int i = 0; i < batches * DISORDER_BATCH; i++) {
    dfcclCollId_t id = orders[i];
    dfcclResult_t result =
        dfcclRunAllReduce(side->context, id, side->send[id], side->recv[id], NULL, NULL);
    if (result == dfcclSuccess && blocking) result = dfcclWait(side->context, id);
    if (result == dfcclSuccess && !blocking && i % DISORDER_BATCH == DISORDER_BATCH - 1)
      result = dfcclWaitAll(side->context);
    if (result != dfcclSuccess) return result;
  }
  return dfcclSuccess;
}

static bool clear_results(const disorder_rank *rank, const rank_side *side) {
  size_t bytes = rank->shape.recv_count * df_tool_type_of(rank->job->options.type)->bytes;
  for (int i = 0; i < DISORDER_BATCH; i++)
    if (!df_tool_memory_zero(side->recv[i], bytes)) return refused(rank);
  return true;
}

/* The results of the turn's last batch. */
static bool check_results(const disorder_rank *rank, const rank_side *side) {
  for (int i = 0; i < DISORDER_BATCH; i++) {
    int64_t wrong = df_bench_count_wrong(&rank->job->data, rank->job->reduced, side->recv[i],
                                         (size_t)i, rank->shape.recv_count);
    if (wrong < 0) return refused(rank);
    atomic_fetch_add(&rank->job->shared->wrong, wrong);
  }
  return true;
}

/* Untimed batches, from cleared results; then timed ones. */
static bool take_turn(disorder_rank *rank, disorder_mode which, int batches, int round) {
  const rank_side *side = side_of(rank, which);
  turn_report *report = &rank->job->shared->reports[rank->self->rank];
  dfcclStats_t before = DFCCL_STATS_INITIALIZER, after = DFCCL_STATS_INITIALIZER;
  bool blocking = which == MODE_BLOCKING;
  int warmup = rank->job->options.warmup < batches ? rank->job->options.warmup : batches;
  draw_orders(rank, which, batches, round);
  if (rank->self->rank == 0) atomic_store(&rank->job->shared->wrong, 0);
  if (!meet(rank)) return false;
  dfcclResult_t result = run_batches(side, rank->orders, warmup, blocking);
  if (!df_tool_rank_check(rank->self, result, "a batch")) return false;
  if (rank->job->options.check && !clear_results(rank, side)) return false;
  dfcclGetStats(side->context, &before);
  if (!meet(rank)) return false;
  uint64_t start = df_tool_now_ns();
  result = run_batches(side, rank->orders, batches, blocking);
  report->ns = df_tool_now_ns() - start;
  if (!df_tool_rank_check(rank->self, result, "a batch")) return false;
  dfcclGetStats(side->context, &after);
  report->preemptions = after.preemptions - before.preemptions;
  report->quits = after.voluntaryQuits - before.voluntaryQuits;
  if (rank->job->options.check && !check_results(rank, side)) return false;
  return meet(rank);
}

/* Rank 0, before the others go on. */
static void note_turn(disorder_rank *rank, disorder_row *row, disorder_mode which, int round) {
  shared_state *shared = rank->job->shared;
  disorder_result *result = &row->modes[which];
  uint64_t slowest = 0;
  for (int r = 0; r < rank->self->n_ranks; r++) {
    const turn_report *report = &shared->reports[r];
    if (report->ns > slowest) slowest = report->ns;
    double share = 1.0 / row->batches / rank->self->n_ranks / rank->job->options.rounds;
    result->preemptions += (double)report->preemptions * share;
    result->quits += (double)report->quits * share;
  }
  result->us[round] = (double)slowest / row->batches * 1e-3;
  result->wrong = rank->job->options.check ? result->wrong + atomic_load(&shared->wrong) : -1;
}

/* ---- one size ---- */

/* Computes the number of batches in a turn: rank 0 estimates it from a few batches, and sends it to
 * the others. */
static bool plan_turns(disorder_rank *rank, disorder_row *row) {
  int batches = rank->job->options.iterations;
  uint64_t slowest = 0;
  if (!take_turn(rank, MODE_PATIENT, ESTIMATES, 0)) return false;
  if (!take_turn(rank, MODE_DISORDERED, ESTIMATES, 0)) return false;
  for (int r = 0; r < rank->self->n_ranks; r++)
    if (rank->job->shared->reports[r].ns > slowest) slowest = rank->job->shared->reports[r].ns;
  if (batches == 0) {
    uint64_t wanted = (uint64_t)TURN_NS * ESTIMATES / (slowest + 1);
    batches = wanted < MIN_BATCHES ? MIN_BATCHES : wanted > MAX_BATCHES ? MAX_BATCHES : (int)wanted;
  }
  if (rank->self->rank == 0) row->batches = batches;
  return meet(rank);
}

static bool enlist(disorder_rank *rank, const rank_side *side) {
  df_bench_options allreduce = rank->job->options;
  allreduce.operation = DF_BENCH_ALL_REDUCE;
  for (int i = 0; i < DISORDER_BATCH; i++) {
    if (rank->job->options.check &&
        df_bench_fill(&rank->job->data, rank->job->inputs[rank->self->rank], side->send[i],
                      (size_t)i, rank->shape.send_count) != 0)
      return refused(rank);
    dfcclResult_t result =
        df_bench_register(&allreduce, &rank->shape, side->context, (dfcclCollId_t)i);
    if (!df_tool_rank_check(rank->self, result, "registering")) return false;
  }
  return true;
}

/* Each collective's first run waits until its links stand. The first runs come one by one:
 * collectives that are never set aside would wait for ever if two of them changed places. */
static bool make_links(disorder_rank *rank, const rank_side *side) {
  draw_orders(rank, MODE_BLOCKING, 1, 0);
  return df_tool_rank_check(rank->self, run_batches(side, rank->orders, 1, true), "a first run");
}

static bool delist(disorder_rank *rank, const rank_side *side) {
  for (int i = 0; i < DISORDER_BATCH; i++)
    if (!df_tool_rank_check(rank->self, dfcclDeregister(side->context, (dfcclCollId_t)i),
                            "dfcclDeregister"))
      return false;
  return true;
}

static bool measure_size(disorder_rank *rank, size_t bytes, int number) {
  const df_bench_options *options = &rank->job->options;
  disorder_row *row = &rank->job->shared->rows[number];
  df_bench_options allreduce = *options;
  allreduce.operation = DF_BENCH_ALL_REDUCE;
  rank->shape = df_bench_shape_of(&allreduce, bytes);
  if (rank->self->rank == 0) *row = (disorder_row){.bytes = bytes, .count = rank->shape.count};
  if (!enlist(rank, &rank->automatic) || !enlist(rank, &rank->patient)) return false;
  if (!make_links(rank, &rank->automatic) || !make_links(rank, &rank->patient)) return false;
  if (!plan_turns(rank, row)) return false;
  for (int round = 0; round < options->rounds; round++)
    for (int i = 0; i < MODES; i++) {
      disorder_mode which =
          (disorder_mode)((i + round) % MODES); /* each mode takes each place in turn */
      if (!take_turn(rank, which, row->batches, round)) return false;
      if (rank->self->rank == 0) note_turn(rank, row, which, round);
    }
  if (!meet(rank)) return false;
  if (!delist(rank, &rank->automatic) || !delist(rank, &rank->patient)) return false;
  if (rank->self->rank != 0) return true;
  rank->job->shared->rows_done = number + 1;
  if (!options->json && !df_disorder_print_row(options, row))
    df_tool_rank_fail(rank->self, -1, "standard output cannot be written");
  if (options->json && options->progress) df_tool_progress("%zu bytes measured", bytes);
  return rank->self->outcome.code == 0;
}

/* ---- one rank ---- */

static bool make_buffers(const disorder_rank *rank, rank_side *side) {
  const df_bench_options *options = &rank->job->options;
  for (int i = 0; i < 2 * DISORDER_BATCH; i++) {
    void **buffer = i < DISORDER_BATCH ? &side->send[i] : &side->recv[i - DISORDER_BATCH];
    if (!df_bench_buffer_take(rank->self, options, side->context, buffer)) return false;
    if (!df_tool_memory_zero(*buffer, options->max_bytes)) return refused(rank);
  }
  return true;
}

static void give_buffers(const disorder_rank *rank, rank_side *side) {
  for (int i = 0; i < 2 * DISORDER_BATCH; i++)
    if (!df_bench_buffer_give(rank->self, &rank->job->options, side->context,
                              i < DISORDER_BATCH ? side->send[i] : side->recv[i - DISORDER_BATCH]))
      return;
}

/* Makes the rank's second context: one that reads other settings. A process's environment is set
 * by one of its ranks while the others wait. */
static bool open_patient(disorder_rank *rank) {
  static const char numbers[] = "spin_front=" NEVER_SET_ASIDE ",spin_min=" NEVER_SET_ASIDE;
  df_tool_rank *self = rank->self;
  shared_state *shared = rank->job->shared;
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  bool sets = rank->job->options.processes || self->rank == 0;
  config.backend = rank->job->options.backend;
  config.timeoutMs = RUN_TIMEOUT_MS;
  if (self->rank == 0 &&
      !df_tool_rank_check(self, dfcclGetUniqueId(&shared->id), "dfcclGetUniqueId"))
    return false;
  if (sets && !df_tool_tuning_add(numbers)) {
    df_tool_rank_fail(self, dfcclOutOfMemory, "no memory for the environment");
    return false;
  }
  if (!meet(rank)) return false;
  dfcclResult_t result =
      dfcclInit(&rank->patient.context, self->n_ranks, shared->id, self->rank, &config);
  if (result == dfcclSuccess) return true;
  df_tool_rank_fail(self, result, "dfcclInit with thresholds at infinity: %s (%s)",
                    dfcclGetErrorString(result), dfcclGetLastError(NULL));
  return false;
}

static void disorder_rank_main(df_tool_rank *self) {
  disorder_rank rank = {
      .job = self->argument, .self = self, .automatic = {.context = self->context}};
  const df_bench_options *options = &rank.job->options;
  int most = options->iterations > MAX_BATCHES ? options->iterations : MAX_BATCHES;
  int number = 0;
  rank.orders = malloc((size_t)most * DISORDER_BATCH);
  if (rank.orders == NULL)
    df_tool_rank_fail(self, dfcclOutOfMemory, "no memory for the orders of %d batches", most);
  bool fine = rank.orders != NULL && open_patient(&rank) && make_buffers(&rank, &rank.automatic) &&
              make_buffers(&rank, &rank.patient);
  for (size_t bytes = options->min_bytes; fine && bytes <= options->max_bytes;
       bytes *= options->factor)
    fine = measure_size(&rank, bytes, number++);
  if (self->rank == 0 && options->json && options->progress) df_tool_progress("%s", "");
  if (fine) give_buffers(&rank, &rank.automatic);
  if (fine) give_buffers(&rank, &rank.patient);
  if (rank.patient.context != NULL) {
    if (!fine) dfcclAbort(rank.patient.context);
    df_tool_rank_check(self, dfcclDestroy(rank.patient.context), "dfcclDestroy");
  }
  free(rank.orders);
}

static void on_failure(void *argument) {
  df_tool_barrier_break(&((disorder_job *)argument)->shared->barrier);
}

/* ---- the job ---- */

static bool make_tables(disorder_job *job) {
  size_t ranks = (size_t)job->options.n_ranks;
  if (!job->options.check) return true;
  job->inputs = calloc(ranks, sizeof *job->inputs);
  for (size_t r = 0; job->inputs != NULL && r < ranks; r++)
    if ((job->inputs[r] = df_bench_table(&job->data, (int)r)) == NULL) return false;
  job->reduced = df_bench_table(&job->data, -1);
  return job->inputs != NULL && job->reduced != NULL;
}

static void drop_tables(disorder_job *job) {
  for (int r = 0; job->inputs != NULL && r < job->options.n_ranks; r++) free(job->inputs[r]);
  free(job->inputs);
  free(job->reduced);
}

static bool measure(disorder_job *job) {
  const df_bench_options *options = &job->options;
  char *reports = calloc((size_t)options->n_ranks, 1);
  df_tool_job launch = {.n_ranks = options->n_ranks,
                        .processes = options->processes,
                        .config = DFCCL_CONFIG_INITIALIZER,
                        .rank_main = disorder_rank_main,
                        .argument = job,
                        .on_failure = on_failure,
                        .report_bytes = 1,
                        .reports = reports};
  launch.config.backend = options->backend;
  launch.config.timeoutMs = RUN_TIMEOUT_MS;
  bool headed = options->json || df_disorder_print_header(options);
  bool fine = headed && reports != NULL && df_tool_launch(&launch);
  if (options->json)
    fine = df_disorder_print_json(options, job->shared->rows, job->shared->rows_done) && fine;
  free(reports);
  return fine && df_disorder_all_right(job->shared->rows, job->shared->rows_done);
}

int df_bench_disorder(const df_bench_options *options) {
  disorder_job job = {.options = *options, .data = {options->type, options->op, options->n_ranks}};
  size_t bytes = sizeof *job.shared + (size_t)options->n_ranks * sizeof(turn_report);
  int sizes = 0;
  if (job.options.rounds == 0) job.options.rounds = DEFAULT_ROUNDS;
  for (size_t size = options->min_bytes; size <= options->max_bytes; size *= options->factor)
    sizes++;
  if (sizes > DISORDER_MAX_ROWS) df_tool_usage_error("more than %d sizes", DISORDER_MAX_ROWS);
  job.shared = df_tool_shared_alloc(bytes);
  bool fine = job.shared != NULL && make_tables(&job);
  if (fine) {
    df_tool_barrier_init(&job.shared->barrier, (unsigned)options->n_ranks);
    fine = measure(&job);
  } else {
    df_tool_error("out of memory for %d ranks", options->n_ranks);
  }
  drop_tables(&job);
  if (job.shared != NULL) df_tool_shared_free(job.shared, bytes);
  return fine ? DF_TOOL_SUCCESS : DF_TOOL_FAILED;
}
