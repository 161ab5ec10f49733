/*
 * How much equal registrations differ: a job of processes registers one collective several times,
 * and measures the registrations in turn, in many sittings. For development, not installed.
 *
 *   bench-scatter [-n RANKS] [-k REGISTRATIONS] [-s SITTINGS] [-m MS | -r RUNS] [-b] [-u] [-v]
 *                 OPERATION BYTES
 *
 * OPERATION: allgather, allreduce, alltoall, broadcast, reduce or reducescatter; BYTES: of the
 * larger buffer. A sitting has RUNS runs, or takes about MS milliseconds (3). -b: each registration
 * has buffers of its own; -u: inputs are not written before each run, nor results read after it.
 *
 * A figure is the time of the slowest rank, in nanoseconds a run. A line for each registration has
 * the median of its sittings, the quartiles, the least and the most. The last line has the scatter,
 * the largest median divided by the least. Before each sitting a cache line goes from rank 0 to
 * rank 1 and back, because a host may move the processors of a virtual machine: sittings at another
 * distance than the usual one do not count. -v prints each sitting, with that time and each rank's
 * ways to its peers (dfcclGetConfiguration): through the caches (t), requested ahead (a), past the
 * caches (p), or not measured (?), and L if buffers are lent.
 */
#include <getopt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/barrier.h"
#include "common/clock.h"
#include "common/launch.h"
#include "common/sort.h"

enum {
  TRIPS = 50, /* round trips of a line in each batch */
  BATCHES = 5,
  WARM_RUNS = 2000, /* runs of a registration before its first sitting */
  WARM_RUNS_OF_LONG = 20,
  LONG_BYTES = 65536,
  FIRST_RUNS = 3, /* runs of each sitting that do not count */
  LINE_WORDS = 64 / sizeof(uint32_t),
  SAME_DISTANCE_PERCENT = 175,
  WAYS_BYTES = 64,
  MOST_RANKS = 64,
  MOST_REGISTRATIONS = 512
};

typedef struct {
  df_tool_barrier barrier;
  _Alignas(128) atomic_uint ping;
  _Alignas(128) atomic_uint pong;
  _Alignas(128) uint64_t ns[MOST_RANKS];
  uint64_t runs; /* runs of a sitting */
  char ways[MOST_RANKS][WAYS_BYTES];
} shared;

typedef dfcclResult_t (*run_call)(dfcclContext_t, dfcclCollId_t, const void *, void *,
                                  dfcclCallback_t, void *);
static const struct {
  const char *name;
  run_call run;
} operations[] = {{"allgather", dfcclRunAllGather}, {"allreduce", dfcclRunAllReduce},
                  {"alltoall", dfcclRunAllToAll},   {"broadcast", dfcclRunBroadcast},
                  {"reduce", dfcclRunReduce},       {"reducescatter", dfcclRunReduceScatter}};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static struct {
  int operation, ranks, registrations, sittings, own_buffers, untouched, verbose;
  uint64_t runs; /* 0: by ms */
  double ms;
  size_t bytes;
  shared *world;
} asked = {.ranks = 2, .registrations = 8, .sittings = 15, .ms = 3};

typedef struct {
  double line_ns, ns;
} sitting;

typedef struct {
  df_tool_rank *self;
  char *send, *recv;
  unsigned trips;
  sitting *figures; /* [registrations][sittings] */
} rank_state;

static dfcclResult_t enlist(dfcclContext_t context, dfcclCollId_t id) {
  const size_t all = asked.bytes / sizeof(float), part = all / (size_t)asked.ranks;
  switch (asked.operation) {
  case 0:
    return dfcclRegisterAllGather(context, id, part, dfcclFloat32, NULL);
  case 1:
    return dfcclRegisterAllReduce(context, id, all, dfcclFloat32, dfcclSum, NULL);
  case 2:
    return dfcclRegisterAllToAll(context, id, part, dfcclFloat32, NULL);
  case 3:
    return dfcclRegisterBroadcast(context, id, all, dfcclFloat32, 0, NULL);
  case 4:
    return dfcclRegisterReduce(context, id, all, dfcclFloat32, dfcclSum, 0, NULL);
  default:
    return dfcclRegisterReduceScatter(context, id, part, dfcclFloat32, dfcclSum, NULL);
  }
}

static bool meet(rank_state *r) { return df_tool_rank_meet(r->self, &asked.world->barrier); }

/* Ranks 0 and 1. */
static double line_round_trip(rank_state *r) {
  const bool is_first = r->self->rank == 0;
  atomic_uint *mine = is_first ? &asked.world->ping : &asked.world->pong;
  atomic_uint *theirs = is_first ? &asked.world->pong : &asked.world->ping;
  uint64_t least = UINT64_MAX;
  for (int batch = 0; batch < BATCHES && r->self->rank < 2; batch++) {
    const uint64_t start = df_tool_now_ns();
    for (int trip = 0; trip < TRIPS; trip++) {
      r->trips++;
      if (is_first) atomic_store_explicit(mine, r->trips, memory_order_release);
      while (atomic_load_explicit(theirs, memory_order_acquire) != r->trips &&
             !atomic_load(&asked.world->barrier.broken))
        continue;
      if (!is_first) atomic_store_explicit(mine, r->trips, memory_order_release);
    }
    const uint64_t ns = (df_tool_now_ns() - start) / TRIPS;
    if (ns < least) least = ns;
  }
  return (double)least;
}

static size_t part_of(bool is_divided) {
  return asked.bytes / (is_divided ? (size_t)asked.ranks : 1) / sizeof(uint32_t);
}

/* As programs do: one word of each cache line. */
static void write_input(char *send, uint64_t run) {
  volatile uint32_t *words = (volatile uint32_t *)send;
  const size_t n = part_of(operations[asked.operation].run == dfcclRunAllGather);
  for (size_t i = 0; i < n; i += LINE_WORDS) words[i] = run & 1;
}
static void read_result(const char *recv) {
  const volatile uint32_t *words = (const volatile uint32_t *)recv;
  const size_t n = part_of(operations[asked.operation].run == dfcclRunReduceScatter);
  for (size_t i = 0; i < n; i += LINE_WORDS) (void)words[i];
}

static bool run(rank_state *r, int i, uint64_t runs) {
  const size_t at = asked.own_buffers ? (size_t)i * asked.bytes : 0;
  dfcclContext_t context = r->self->context;
  const dfcclCollId_t id = (dfcclCollId_t)i;
  for (uint64_t n = 0; n < runs; n++) {
    if (!asked.untouched) write_input(r->send + at, n);
    dfcclResult_t result =
        operations[asked.operation].run(context, id, r->send + at, r->recv + at, NULL, NULL);
    if (result == dfcclSuccess) result = dfcclWait(context, id);
    if (!df_tool_rank_check(r->self, result, "a run")) return false;
    if (!asked.untouched) read_result(r->recv + at);
  }
  return true;
}

/* *slowest: nanoseconds a run of the slowest rank. */
static bool sit(rank_state *r, int i, uint64_t runs, double *slowest) {
  uint64_t most = 0;
  if (!meet(r)) return false;
  const uint64_t start = df_tool_now_ns();
  if (!run(r, i, runs)) return false;
  asked.world->ns[r->self->rank] = df_tool_now_ns() - start;
  if (!meet(r)) return false;
  for (int rank = 0; rank < asked.ranks; rank++)
    if (asked.world->ns[rank] > most) most = asked.world->ns[rank];
  *slowest = (double)most / (double)runs;
  return meet(r);
}

/* One word for each peer, such as "p", "tL". */
static bool note_ways(rank_state *r, int i) {
  dfcclConfiguration_t configuration = DFCCL_CONFIGURATION_INITIALIZER;
  char *ways = asked.world->ways[r->self->rank];
  size_t used = 0;
  const dfcclResult_t result =
      dfcclGetConfiguration(r->self->context, (dfcclCollId_t)i, &configuration);
  if (!df_tool_rank_check(r->self, result, "dfcclGetConfiguration")) return false;
  char *rest = configuration.why, *line;
  while ((line = strtok_r(rest, "\n", &rest)) != NULL && used + 4 < WAYS_BYTES) {
    if (strncmp(line, "way to rank ", 12) != 0) continue;
    ways[used++] = strstr(line, "not measured")      ? '?'
                   : strstr(line, "requested ahead") ? 'a'
                   : strstr(line, "past the caches") ? 'p'
                                                     : 't';
    if (strstr(line, "lent where")) ways[used++] = 'L';
    ways[used++] = ' ';
  }
  ways[used] = 0;
  return meet(r);
}

static void print_sitting(int i, const sitting *s) {
  printf("registration %3d, line %5.0f ns: %9.1f ns, ways", i, s->line_ns, s->ns);
  for (int rank = 0; rank < asked.ranks; rank++) printf(" | %s", asked.world->ways[rank]);
  printf("\n");
}

/* Each registration has sent some messages; then all have sittings of equally many runs. */
static bool warm_up(rank_state *r) {
  const uint64_t runs = asked.bytes > LONG_BYTES ? WARM_RUNS_OF_LONG : WARM_RUNS;
  double ns = 0;
  for (int i = 0; i < asked.registrations; i++) {
    const dfcclResult_t result = enlist(r->self->context, (dfcclCollId_t)i);
    if (!df_tool_rank_check(r->self, result, "registering")) return false;
    if (!run(r, i, FIRST_RUNS) || !sit(r, i, runs, &ns)) return false;
  }
  if (r->self->rank == 0)
    asked.world->runs = asked.runs ? asked.runs : (uint64_t)(asked.ms * 1e6 / ns) + 1;
  return meet(r);
}

/* The sittings of each lap go through the registrations in another order. */
static bool measure(rank_state *r) {
  const int k = asked.registrations;
  for (int lap = 0; lap < asked.sittings; lap++)
    for (int n = 0; n < k; n++) {
      const int i = ((lap % 2 ? k - 1 - n : n) + lap) % k;
      sitting *s = &r->figures[i * asked.sittings + lap];
      if (!meet(r)) return false;
      s->line_ns = line_round_trip(r);
      if (!run(r, i, FIRST_RUNS) || !sit(r, i, asked.world->runs, &s->ns)) return false;
      if (!asked.verbose) continue;
      if (!note_ways(r, i)) return false;
      if (r->self->rank == 0) print_sitting(i, s);
      if (!meet(r)) return false;
    }
  return true;
}

static double usual_line(const rank_state *r, double *values) {
  const size_t n = (size_t)asked.registrations * (size_t)asked.sittings;
  for (size_t i = 0; i < n; i++) values[i] = r->figures[i].line_ns;
  df_tool_sort_doubles(values, n);
  printf("a line there and back: median %.0f ns, %.0f to %.0f; %llu runs a sitting\n",
         values[n / 2], values[0], values[n - 1], (unsigned long long)asked.world->runs);
  return values[n / 2];
}

static bool is_near(double a, double b) {
  return a * 100 <= b * SAME_DISTANCE_PERCENT && b * 100 <= a * SAME_DISTANCE_PERCENT;
}

static void report(const rank_state *r, double *values) {
  const double line_ns = usual_line(r, values);
  double least = 0, most = 0;
  int left_out = 0;
  printf("%12s %9s %9s %9s %9s %9s\n", "registration", "median", "quarter", "3/4", "least", "most");
  for (int i = 0; i < asked.registrations; i++) {
    int n = 0;
    for (int lap = 0; lap < asked.sittings; lap++) {
      const sitting *s = &r->figures[i * asked.sittings + lap];
      if (is_near(s->line_ns, line_ns)) values[n++] = s->ns;
    }
    left_out += asked.sittings - n;
    if (n == 0) continue;
    df_tool_sort_doubles(values, (size_t)n);
    const double median = values[n / 2];
    printf("%12d %9.1f %9.1f %9.1f %9.1f %9.1f\n", i, median, values[n / 4], values[n - 1 - n / 4],
           values[0], values[n - 1]);
    if (least == 0 || median < least) least = median;
    if (median > most) most = median;
  }
  printf("sittings at another distance: %d\nscatter %.2f\n", left_out, most / least);
}

static void rank_main(df_tool_rank *self) {
  const size_t bytes = (asked.own_buffers ? (size_t)asked.registrations : 1) * asked.bytes;
  const size_t n = (size_t)asked.registrations * (size_t)asked.sittings;
  rank_state r = {.self = self, .send = malloc(bytes), .recv = malloc(bytes)};
  double *values = calloc(n, sizeof *values);
  r.figures = calloc(n, sizeof *r.figures);
  if (r.send && r.recv && r.figures && values) {
    memset(r.send, 0, bytes);
    memset(r.recv, 0, bytes);
    if (warm_up(&r) && measure(&r) && self->rank == 0) report(&r, values);
  } else {
    df_tool_rank_fail(self, -1, "no memory");
  }
  free(r.send);
  free(r.recv);
  free(r.figures);
  free(values);
}

static void on_failure(void *argument) {
  (void)argument;
  df_tool_barrier_break(&asked.world->barrier);
}

static int usage(void) {
  fprintf(stderr, "usage: bench-scatter [-n RANKS] [-k REGISTRATIONS] [-s SITTINGS] [-m MS | "
                  "-r RUNS] [-b] [-u] [-v] OPERATION BYTES\n");
  return 2;
}

static bool read_options(int argc, char **argv) {
  int option;
  while ((option = getopt(argc, argv, "n:k:s:m:r:buv")) != -1) {
    if (option == 'n') asked.ranks = atoi(optarg);
    if (option == 'k') asked.registrations = atoi(optarg);
    if (option == 's') asked.sittings = atoi(optarg);
    if (option == 'm') asked.ms = atof(optarg);
    if (option == 'r') asked.runs = strtoul(optarg, NULL, 10);
    if (option == 'b') asked.own_buffers = 1;
    if (option == 'u') asked.untouched = 1;
    if (option == 'v') asked.verbose = 1;
    if (option == '?') return false;
  }
  if (argc - optind != 2) return false;
  while (asked.operation < OPERATIONS &&
         strcmp(operations[asked.operation].name, argv[optind]) != 0)
    asked.operation++;
  asked.bytes = strtoul(argv[optind + 1], NULL, 10);
  return asked.operation < OPERATIONS && asked.ranks >= 2 && asked.ranks <= MOST_RANKS &&
         asked.registrations >= 1 && asked.registrations <= MOST_REGISTRATIONS &&
         asked.sittings >= 1 && asked.ms > 0 && asked.bytes >= sizeof(float) * (size_t)asked.ranks;
}

int main(int argc, char **argv) {
  if (!read_options(argc, argv)) return usage();
  asked.world = df_tool_shared_alloc(sizeof *asked.world);
  if (asked.world == NULL) return 1;
  df_tool_barrier_init(&asked.world->barrier, (unsigned)asked.ranks);
  const df_tool_job job = {.n_ranks = asked.ranks,
                           .processes = true,
                           .config = DFCCL_CONFIG_INITIALIZER,
                           .rank_main = rank_main,
                           .on_failure = on_failure};
  return df_tool_launch(&job) ? 0 : 1;
}
