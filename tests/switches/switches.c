/*
 * Collectives that switch to other algorithms all the time. Every rank runs six collectives in an
 * order of its own, several runs at once. The first member of each requests another algorithm every
 * 1 to 20 runs of it. Every element of every run is checked.
 *
 * With --kills the tuner is on, and the rank that leads five of the six collectives is killed at a
 * moment drawn from the seed, after its first switch: rank 0, and in each second job the last rank,
 * which the root survives. Every survivor must get an error within LATEST_S seconds.
 *
 * Each rank prints one line: its runs and switches. The exit status is 0 on success, and 1 after a
 * wrong element, an unexpected error, or a survivor without an error.
 */
#include <dfccl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/processes.h"

enum { RANKS_MAX = 16, COLLECTIVES = 6, AHEAD = 3, NOTIFIED = 3, WRONG = 4 };
enum { LATEST_S = 20, ROUND_S = 60 };
typedef enum { ALL_REDUCE, BROADCAST, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL } operation_kind;

static const struct {
  operation_kind operation;
  size_t count; /* as registered */
} kinds[COLLECTIVES] = {{ALL_REDUCE, 5},   {ALL_REDUCE, 9000},     {BROADCAST, 700},
                        {ALL_GATHER, 300}, {REDUCE_SCATTER, 2000}, {ALL_TO_ALL, 64}};

static struct {
  int ranks;
  uint64_t rounds, seed, kills;
  int preempt, processes, env, tune;
} options = {.ranks = 4, .rounds = 1000, .seed = 1};

static int leader; /* the rank that leads five of the six collectives */

typedef struct one_rank {
  dfcclContext_t ctx;
  int rank, ranks;
  uint64_t random, runs, asked;
  uint64_t submitted[COLLECTIVES], next_switch[COLLECTIVES];
  int32_t *sends[COLLECTIVES][AHEAD], *receives[COLLECTIVES][AHEAD];
} one_rank;

static uint64_t draw(uint64_t *state, uint64_t below) {
  uint64_t z = *state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return (z ^ z >> 31) % below;
}

static void must(const one_rank *r, dfcclResult_t result) {
  if (result == dfcclSuccess) return;
  if (options.kills) _exit(result == dfcclRemoteError ? NOTIFIED : 1);
  fprintf(stderr, "switches: rank %d: %s\n", r->rank, dfcclGetLastError(r->ctx));
  exit(1);
}

/* Element `i` of the send buffer of rank `rank`. */
static int32_t value(int rank, uint64_t run, size_t i) {
  return (int32_t)((rank + 1) * (int)(i % 97 + 1) + (int)(run % 1013));
}
static int32_t sum(int ranks, uint64_t run, size_t i) {
  return (int32_t)(ranks * (ranks + 1) / 2 * (int)(i % 97 + 1) + ranks * (int)(run % 1013));
}

static int is_wide(operation_kind kind, int output) {
  return kind == ALL_TO_ALL || kind == (output ? ALL_GATHER : REDUCE_SCATTER);
}

/* The second collective is led from the other end of the ranks: its group has the opposite
 * order. */
static int is_reversed(int c) { return (c == 1) != (leader != 0); }
/* From a rank to its position in the group, and back. */
static int across(const one_rank *r, int c, int which) {
  return is_reversed(c) ? r->ranks - 1 - which : which;
}

static int32_t expected(const one_rank *r, int c, uint64_t run, size_t i) {
  const size_t count = kinds[c].count, position = (size_t)across(r, c, r->rank);
  switch (kinds[c].operation) {
  case ALL_REDUCE:
    return sum(r->ranks, run, i);
  case BROADCAST:
    return value(across(r, c, 0), run, i);
  case ALL_GATHER:
    return value(across(r, c, (int)(i / count)), run, i % count);
  case REDUCE_SCATTER:
    return sum(r->ranks, run, position * count + i);
  default:
    return value(across(r, c, (int)(i / count)), run, position * count + i % count);
  }
}

static void enroll(const one_rank *r, int c) {
  dfcclCollOptions_t o = DFCCL_COLL_OPTIONS_INITIALIZER;
  int reversed[RANKS_MAX];
  const dfcclCollId_t id = (dfcclCollId_t)c;
  const size_t n = kinds[c].count;
  for (int i = 0; i < r->ranks; i++) reversed[i] = r->ranks - 1 - i;
  if (is_reversed(c)) {
    o.ranks = reversed;
    o.nRanks = r->ranks;
  }
  o.tune = options.tune ? 1 : -1;
  switch (kinds[c].operation) {
  case ALL_REDUCE:
    must(r, dfcclRegisterAllReduce(r->ctx, id, n, dfcclInt32, dfcclSum, &o));
    return;
  case BROADCAST:
    must(r, dfcclRegisterBroadcast(r->ctx, id, n, dfcclInt32, 0, &o));
    return;
  case ALL_GATHER:
    must(r, dfcclRegisterAllGather(r->ctx, id, n, dfcclInt32, &o));
    return;
  case REDUCE_SCATTER:
    must(r, dfcclRegisterReduceScatter(r->ctx, id, n, dfcclInt32, dfcclSum, &o));
    return;
  default:
    must(r, dfcclRegisterAllToAll(r->ctx, id, n, dfcclInt32, &o));
  }
}

static size_t length(const one_rank *r, int c, int output) {
  return kinds[c].count * (is_wide(kinds[c].operation, output) ? (size_t)r->ranks : 1);
}

static void submit(one_rank *r, int c) {
  const uint64_t run = r->submitted[c]++;
  int32_t *send = r->sends[c][run % AHEAD], *recv = r->receives[c][run % AHEAD];
  dfcclRun_t arguments = DFCCL_RUN_INITIALIZER;
  for (size_t i = 0; i < length(r, c, 0); i++) send[i] = value(r->rank, run, i);
  memset(recv, 0xff, length(r, c, 1) * sizeof *recv);
  arguments.sendBuf = send;
  arguments.recvBuf = recv;
  must(r, dfcclRun(r->ctx, (dfcclCollId_t)c, &arguments));
  r->runs++;
}

static void check(const one_rank *r, int c, uint64_t run) {
  const int32_t *recv = r->receives[c][run % AHEAD];
  for (size_t i = 0; i < length(r, c, 1); i++)
    if (recv[i] != expected(r, c, run, i)) {
      fprintf(stderr, "switches: rank %d, collective %d, run %llu: element %zu is %d, not %d\n",
              r->rank, c, (unsigned long long)run, i, recv[i], expected(r, c, run, i));
      _exit(WRONG);
    }
}

/* Names that the operation lacks are refused, and so are requests at moments when it cannot
 * switch. */
static void perhaps_switch(one_rank *r, int c) {
  static const char *const names[] = {
      "ring",     "doubling", "direct", "flat",     "allpairs", "doubletree", "halving",
      "binomial", "bruck",    "pat",    "pairwise", "twolevel", NULL,         "rabenseifner"};
  if (options.tune || r->submitted[c] < r->next_switch[c]) return;
  const char *name = names[draw(&r->random, sizeof names / sizeof *names)];
  const dfcclResult_t result = dfcclSetAlgorithm(r->ctx, (dfcclCollId_t)c, name);
  r->asked += result == dfcclSuccess;
  if (result == dfcclSuccess) r->next_switch[c] = r->submitted[c] + 1 + draw(&r->random, 20);
}

/* Written by the leader, for the process that will kill it. */
static atomic_ullong *explored;

static void note_explored(const one_rank *r) {
  unsigned long long switches = 0;
  for (int c = 0; c < COLLECTIVES; c++) {
    dfcclConfiguration_t found = DFCCL_CONFIGURATION_INITIALIZER;
    must(r, dfcclGetConfiguration(r->ctx, (dfcclCollId_t)c, &found));
    switches += found.switches;
  }
  atomic_store(explored, switches);
}

/* Moves the watchdog's deadline: a rank that makes no progress for ROUND_S is stuck. */
static void begin_round(void) { df_watchdog_start("a round of switches", ROUND_S); }

static void play(one_rank *r) {
  r->random = options.seed * 1000 + (uint64_t)r->rank;
  for (int c = 0; c < COLLECTIVES; c++) {
    enroll(r, c);
    for (int i = 0; i < AHEAD; i++) {
      r->sends[c][i] = calloc(length(r, c, 0), sizeof(int32_t));
      r->receives[c][i] = calloc(length(r, c, 1), sizeof(int32_t));
      if (r->sends[c][i] == NULL || r->receives[c][i] == NULL) exit(1);
    }
  }
  for (uint64_t round = 0; round < options.rounds; round++) {
    int left[COLLECTIVES], n = COLLECTIVES * AHEAD;
    begin_round();
    for (int c = 0; c < COLLECTIVES; c++) left[c] = AHEAD;
    while (n > 0) {
      const int c = (int)draw(&r->random, COLLECTIVES);
      if (left[c] == 0) continue;
      left[c]--;
      n--;
      perhaps_switch(r, c);
      submit(r, c);
    }
    must(r, dfcclWaitAll(r->ctx));
    if (explored && r->rank == leader) note_explored(r);
    for (int c = 0; c < COLLECTIVES; c++)
      for (uint64_t i = 1; i <= AHEAD; i++) check(r, c, r->submitted[c] - i);
  }
}

static void report(const one_rank *r) {
  uint64_t switches = 0;
  for (int c = 0; c < COLLECTIVES; c++) {
    dfcclConfiguration_t found = DFCCL_CONFIGURATION_INITIALIZER;
    must(r, dfcclGetConfiguration(r->ctx, (dfcclCollId_t)c, &found));
    switches += found.switches;
  }
  printf("rank %d of %d: %llu runs, %llu switches, asked %llu times\n", r->rank, r->ranks,
         (unsigned long long)r->runs, (unsigned long long)switches, (unsigned long long)r->asked);
  fflush(stdout);
}

static void free_all(one_rank *r) {
  for (int c = 0; c < COLLECTIVES; c++)
    for (int i = 0; i < AHEAD; i++) {
      free(r->sends[c][i]);
      free(r->receives[c][i]);
    }
}

static void *be_rank(void *argument) {
  one_rank *r = argument;
  df_watch(r->ctx);
  play(r);
  report(r);
  df_unwatch(r->ctx);
  dfcclDestroy(r->ctx);
  free_all(r);
  return NULL;
}

static int in_threads(void) {
  static one_rank all[RANKS_MAX];
  pthread_t threads[RANKS_MAX];
  dfcclContext_t ctxs[RANKS_MAX];
  begin_round();
  if (dfcclInitAll(ctxs, options.ranks, NULL) != dfcclSuccess) return 1;
  for (int i = 0; i < options.ranks; i++) {
    all[i] = (one_rank){.ctx = ctxs[i], .rank = i, .ranks = options.ranks};
    pthread_create(&threads[i], NULL, be_rank, &all[i]);
  }
  for (int i = 0; i < options.ranks; i++) pthread_join(threads[i], NULL);
  df_watchdog_stop();
  return 0;
}

static void be_process(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  static one_rank r;
  (void)arg;
  r = (one_rank){.rank = rank, .ranks = ranks};
  must(&r, dfcclInit(&r.ctx, ranks, *id, rank, NULL));
  be_rank(&r);
}

static int in_processes(void) {
  df_family family;
  df_fork(&family, options.ranks, ROUND_S, be_process, NULL);
  df_join(&family);
  return 0;
}

static int as_environment_says(void) {
  static one_rank r;
  begin_round();
  if (dfcclInitFromEnv(&r.ctx, NULL) != dfcclSuccess) {
    fprintf(stderr, "switches: %s\n", dfcclGetLastError(NULL));
    return 1;
  }
  dfcclGetRank(r.ctx, &r.rank, &r.ranks);
  be_rank(&r);
  df_watchdog_stop();
  return 0;
}

/* ---- the leader dies */

static void pause_us(uint64_t us) {
  const struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
  nanosleep(&t, NULL);
}

/* Returns the status, or -1 after LATEST_S seconds. */
static int await_end(pid_t pid) {
  int status = 0;
  for (int i = 0; i < LATEST_S * 1000; i++) {
    if (waitpid(pid, &status, WNOHANG) == pid) return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
    pause_us(1000);
  }
  return -1;
}

static int kill_leaders(void) {
  uint64_t random = options.seed, notified = 0, other = 0, wrong = 0, switches = 0;
  explored = df_shared(sizeof *explored);
  options.rounds = UINT64_MAX;
  options.tune = 1;
  for (uint64_t job = 0; job < options.kills && wrong == 0; job++) {
    df_family family;
    atomic_store(explored, 0);
    leader = job % 2 ? options.ranks - 1 : 0;
    df_fork(&family, options.ranks, ROUND_S, be_process, NULL);
    for (int ms = 0; atomic_load(explored) == 0 && ms < LATEST_S * 1000; ms++) pause_us(1000);
    pause_us(draw(&random, 300000));
    kill(family.pids[leader], SIGKILL);
    switches += atomic_load(explored);
    df_reap(&family, leader);
    for (int i = 0; i < options.ranks; i++) {
      if (i == leader) continue;
      const int status = await_end(family.pids[i]);
      df_unwatch_child(family.pids[i]);
      notified += status == NOTIFIED;
      other += status == 1;
      if (status == NOTIFIED || status == 1) continue;
      fprintf(stderr, "switches: job %llu: rank %d ends with %d (-1: not within %d s)\n",
              (unsigned long long)job, i, status, LATEST_S);
      wrong++;
      for (int j = i; j < options.ranks; j++)
        if (j != leader) kill(family.pids[j], SIGKILL);
    }
  }
  printf(
      "%llu leaders killed, after %llu switches together: %llu survivors were notified, %llu had "
      "another error, %llu wrong\n",
      (unsigned long long)options.kills, (unsigned long long)switches, (unsigned long long)notified,
      (unsigned long long)other, (unsigned long long)wrong);
  return wrong != 0;
}

static const char usage[] =
    "usage: switches [--ranks N] [--rounds N] [--seed S] [--preempt]\n"
    "                [--processes | --env] [--tune]\n"
    "       switches --kills JOBS [--ranks N] [--seed S]\n"
    "  --ranks N     ranks of the job\n"
    "  --rounds N    rounds of 18 runs of each rank\n"
    "  --seed S      seed of orders, sizes and switches\n"
    "  --processes   one process for each rank; otherwise one thread\n"
    "  --env         this process is one rank, as the environment says\n"
    "                (dfcclInitFromEnv)\n"
    "  --preempt     the daemons preempt after every step\n"
    "  --tune        the tuner requests the switches\n"
    "  --kills JOBS  jobs of processes whose leader is killed after its first switch\n";

static int read_options(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const struct {
      const char *name;
      int *flag;
    } flags[] = {{"--preempt", &options.preempt},
                 {"--processes", &options.processes},
                 {"--env", &options.env},
                 {"--tune", &options.tune}};
    uint64_t number = 0;
    int known = 0;
    for (size_t f = 0; f < sizeof flags / sizeof *flags; f++)
      if (strcmp(argv[i], flags[f].name) == 0) known = *flags[f].flag = 1;
    if (known) continue;
    if (i + 1 == argc || sscanf(argv[i + 1], "%llu", (unsigned long long *)&number) != 1) return 0;
    if (strcmp(argv[i], "--ranks") == 0)
      options.ranks = (int)number;
    else if (strcmp(argv[i], "--rounds") == 0)
      options.rounds = number;
    else if (strcmp(argv[i], "--seed") == 0)
      options.seed = number;
    else if (strcmp(argv[i], "--kills") == 0)
      options.kills = number;
    else
      return 0;
    i++;
  }
  return options.ranks >= 1 && options.ranks <= RANKS_MAX;
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "--help") == 0) return fputs(usage, stdout) == EOF;
  if (!read_options(argc, argv)) {
    fputs(usage, stderr);
    return 2;
  }
  if (options.preempt) df_tune("preempt_every", "1");
  if (options.tune || options.kills)
    setenv("DFCCL_TUNE_BUDGET", "0", 1); /* the tuner explores all the time */
  return options.kills       ? kill_leaders()
         : options.env       ? as_environment_says()
         : options.processes ? in_processes()
                             : in_threads();
}
