/*
 * Random programs against the public API. Every element is checked, and any failure replays from
 * its seed.
 *
 *   property [--seed S] [--programs N] [--first K] [--batch B] [--ranks R] [--preempt]
 *            [--processes] [--single-copy] [--hosts PID,PID...] [--seconds T] [--verbose]
 *
 * Programs K to K + N - 1 of seed S are run; B programs in a row share their contexts and
 * configuration. --preempt forces a preemption at every step. --processes makes every rank a
 * process; with --single-copy these lend what they can, also by calls. --hosts puts these processes
 * on hosts, which are the namespaces of the given processes (tests/hosts/bed.sh makes them); each
 * host has at least one rank. --seconds stops early, after a whole batch. The line that a failure
 * prints repeats exactly this program, with the earlier ones of its batch.
 */
#include <getopt.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "batch.h"
#include "execute.h"
#include "support/places.h"
#include "support/processes.h"

static struct {
  uint64_t seed, programs, first, batch;
  int ranks;
  double seconds;
  bool preempt, processes, single_copy, verbose;
} options = {.seed = 1, .programs = 1000, .batch = 50};

/* Shared with forked ranks: the progress, for the last line. */
typedef struct {
  atomic_ullong runs, elements, preemptions, saves, quits;
} totals;
static totals *total;
static atomic_ullong current; /* program */

static void print_repetition(void) {
  uint64_t number = atomic_load(&current), start = number / options.batch * options.batch;
  if (start < options.first) start = options.first;
  fprintf(stderr, "repeat with: --seed %llu --first %llu --programs %llu --batch %llu%s%s%s",
          (unsigned long long)options.seed, (unsigned long long)start,
          (unsigned long long)(number - start + 1), (unsigned long long)options.batch,
          options.preempt ? " --preempt" : "", options.processes ? " --processes" : "",
          options.single_copy ? " --single-copy" : "");
  if (options.ranks > 0) fprintf(stderr, " --ranks %d", options.ranks);
  if (places_count() > 0) fprintf(stderr, " --hosts, %d of them", places_count());
  fprintf(stderr, "\n");
}

static uint64_t seed_of(uint64_t kind, uint64_t number) {
  df_random random = {options.seed * 0x10001 + kind};
  random.state ^= number * 0x9E3779B97F4A7C15u;
  return df_random_next(&random);
}

static void announce(uint64_t number) {
  char name[96];
  atomic_store(&current, number);
  snprintf(name, sizeof name, "program %llu of seed %llu", (unsigned long long)number,
           (unsigned long long)options.seed);
  df_watchdog_start(name, 60);
}

static void add_up(const execution *e) {
  atomic_fetch_add(&total->runs, e->runs_done);
  atomic_fetch_add(&total->elements, e->elements_done);
}

static void add_stats(dfcclContext_t ctx) {
  dfcclStats_t stats = df_stats(ctx);
  atomic_fetch_add(&total->preemptions, stats.preemptions);
  atomic_fetch_add(&total->saves, stats.contextSaves);
  atomic_fetch_add(&total->quits, stats.voluntaryQuits);
}

static execution executions[RANKS_MAX];

static void play_rank(int rank, void *unused) {
  (void)unused;
  execution_play(&executions[rank]);
}

/* One thread submits for all ranks, in a random order. */
static void play_all(const program *p) {
  df_random random = {p->seed + 1};
  while (execution_begin_phase(&executions[0])) {
    int left = p->ranks, turn[RANKS_MAX];
    for (int rank = 1; rank < p->ranks; rank++) execution_begin_phase(&executions[rank]);
    for (int rank = 0; rank < p->ranks; rank++) turn[rank] = rank;
    while (left > 0) {
      int pick = df_random_below(&random, left);
      if (!execution_step(&executions[turn[pick]])) turn[pick] = turn[--left];
    }
    for (int rank = 0; rank < p->ranks; rank++) execution_end_phase(&executions[rank]);
  }
}

static void batch_in_threads(const batch *b, uint64_t first, uint64_t end) {
  static program p;
  dfcclContext_t ctxs[RANKS_MAX];
  dfcclConfig_t config = batch_apply(b);
  announce(first);
  df_make_contexts(ctxs, b->ranks, &config);
  for (uint64_t number = first; number < end; number++) {
    announce(number);
    program_make(&p, seed_of(2, number), b->ranks, b->largest_bytes);
    if (options.verbose) program_print(&p);
    for (int rank = 0; rank < b->ranks; rank++)
      execution_begin(&executions[rank], &p, ctxs[rank], rank);
    if (p.one_driver)
      play_all(&p);
    else
      df_in_threads(b->ranks, play_rank, NULL);
    for (int rank = 0; rank < b->ranks; rank++) add_up(&executions[rank]);
  }
  for (int rank = 0; rank < b->ranks; rank++) add_stats(ctxs[rank]);
  df_free_contexts(ctxs, b->ranks);
}

typedef struct {
  const batch *batch;
  uint64_t first, end;
} range;

static void be_rank(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  static program p;
  const range *programs = arg;
  dfcclConfig_t config = batch_apply(programs->batch);
  dfcclContext_t ctx = df_init(rank, ranks, id, &config);
  for (uint64_t number = programs->first; number < programs->end; number++) {
    announce(number);
    program_make(&p, seed_of(2, number), ranks, programs->batch->largest_bytes);
    if (options.verbose && rank == 0) program_print(&p);
    execution_begin(&executions[rank], &p, ctx, rank);
    execution_play(&executions[rank]);
    add_up(&executions[rank]);
  }
  add_stats(ctx);
  df_finish(ctx);
}

static void batch_in_processes(const batch *b, uint64_t first, uint64_t end) {
  df_family family;
  range programs = {b, first, end};
  atomic_store(&current, end - 1);
  df_watchdog_start("a batch in processes", 70.0 * (double)(end - first));
  df_fork(&family, b->ranks, 60, be_rank, &programs);
  df_join(&family);
}

static const char usage_text[] =
    "usage: property [OPTION]...\n"
    "\n"
    "Random programs against the public API (docs/TESTING.md):\n"
    "\n"
    "  --seed S          seed of all programs\n"
    "  --programs N      number of programs\n"
    "  --first K         number of the first program\n"
    "  --batch B         programs that share a job and its settings\n"
    "  --ranks R         ranks of each job; 0: drawn\n"
    "  --seconds T       begins no batch after T seconds\n"
    "  --preempt         the daemons preempt after every step\n"
    "  --processes       one process for each rank; otherwise one thread\n"
    "  --single-copy     ranks are processes, and lend what they can\n"
    "  --hosts PID,...   the ranks' network namespaces: those of these processes\n"
    "  --verbose         prints each program\n";

static void refuse(void) {
  fputs(usage_text, stderr);
  exit(2);
}

static uint64_t number_or_usage(const char *text) {
  char *end = NULL;
  uint64_t value = strtoull(text, &end, 10);
  if (end == text || *end != '\0') refuse();
  return value;
}

static void read_options(int argc, char **argv) {
  static const struct option known[] = {{"seed", required_argument, NULL, 's'},
                                        {"programs", required_argument, NULL, 'n'},
                                        {"first", required_argument, NULL, 'k'},
                                        {"batch", required_argument, NULL, 'b'},
                                        {"ranks", required_argument, NULL, 'r'},
                                        {"seconds", required_argument, NULL, 't'},
                                        {"preempt", no_argument, NULL, 'p'},
                                        {"processes", no_argument, NULL, 'f'},
                                        {"single-copy", no_argument, NULL, 'c'},
                                        {"verbose", no_argument, NULL, 'v'},
                                        {"hosts", required_argument, NULL, 'h'},
                                        {"help", no_argument, NULL, '?' + 256},
                                        {0}};
  for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
    const bool is_number = optarg != NULL && option != 'h';
    uint64_t value = is_number ? number_or_usage(optarg) : 0;
    switch (option) {
    case 's':
      options.seed = value;
      break;
    case 'n':
      options.programs = value;
      break;
    case 'k':
      options.first = value;
      break;
    case 'b':
      options.batch = value;
      break;
    case 'r':
      options.ranks = (int)value;
      break;
    case 't':
      options.seconds = (double)value;
      break;
    case 'p':
      options.preempt = true;
      break;
    case 'c':
      options.single_copy = true;
      options.processes = true;
      break;
    case 'f':
      options.processes = true;
      break;
    case 'h':
      if (!places_read(optarg)) refuse();
      options.processes = true;
      break;
    case 'v':
      options.verbose = true;
      break;
    case '?' + 256:
      exit(fputs(usage_text, stdout) == EOF);
    default:
      refuse();
    }
  }
  if (optind != argc || options.batch == 0 || options.ranks < 0 || options.ranks > RANKS_MAX)
    refuse();
}

/* The allocated memory while no context is open. It is exact, while resident memory depends on what
 * malloc keeps. -1: unknown. */
static long allocated_bytes(void) {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  struct mallinfo2 info = mallinfo2();
  return (long)(info.uordblks + info.hblkhd);
#else
  return -1;
#endif
}

/* The resident memory in KB, after malloc has returned what it can. -1: unknown. */
static long resident_kilobytes(void) {
  long pages = -1;
#ifdef __GLIBC__
  malloc_trim(0);
#endif
  FILE *file = fopen("/proc/self/statm", "r");
  if (file != NULL && fscanf(file, "%*s %ld", &pages) != 1) pages = -1;
  if (file != NULL) fclose(file);
  return pages < 0 ? -1 : pages * (sysconf(_SC_PAGESIZE) / 1024);
}

int main(int argc, char **argv) {
  read_options(argc, argv);
  total = df_shared(sizeof *total);
  df_on_failure(print_repetition);
  const double start = df_seconds();
  const uint64_t last = options.first + options.programs;
  uint64_t number = options.first;
  while (number < last && (options.seconds == 0 || df_seconds() - start < options.seconds)) {
    const uint64_t index = number / options.batch;
    uint64_t end = (index + 1) * options.batch;
    if (end > last) end = last;
    batch b;
    batch_make(&b, seed_of(1, index), options.preempt, options.ranks);
    if (options.single_copy) batch_lend_by_calls(&b, seed_of(3, index));
    if (b.ranks < places_count()) b.ranks = places_count();
    places_arrange(index % 2 == 1);
    if (options.verbose) batch_print(&b);
    const double batch_start = df_seconds();
    if (options.processes)
      batch_in_processes(&b, number, end);
    else
      batch_in_threads(&b, number, end);
    if (options.verbose) {
      const double seconds = df_seconds() - batch_start;
      printf("batch %llu took %.2f s and left %ld bytes allocated, %ld KB resident\n",
             (unsigned long long)index, seconds, allocated_bytes(), resident_kilobytes());
    }
    number = end;
  }
  df_watchdog_stop();
  char where[32] = "";
  if (places_count() > 0) snprintf(where, sizeof where, ", %d hosts", places_count());
  printf("property: seed %llu, %llu programs%s%s%s in %.1f s: %llu runs, %llu elements checked; "
         "%llu preemptions, %llu context saves, %llu voluntary quits\n",
         (unsigned long long)options.seed, (unsigned long long)(number - options.first),
         options.preempt ? ", preempted at every step" : "",
         options.processes ? ", ranks as processes" : "", where, df_seconds() - start,
         (unsigned long long)atomic_load(&total->runs),
         (unsigned long long)atomic_load(&total->elements),
         (unsigned long long)atomic_load(&total->preemptions),
         (unsigned long long)atomic_load(&total->saves),
         (unsigned long long)atomic_load(&total->quits));
  return 0;
}
