/*
 * Promise: processes join a job that has lost ranks (dfcclJoin, dfcclAdmit).
 *   (a) Collectives that are registered afterwards have the contributions of all members, the
 *       newcomer included, and those registered before are not disturbed.
 *   (b) A newcomer that dies at any moment changes nothing, or is lost like other members.
 *   (c) dfcclAdmit ends alike on all members, and the application is notified of who has joined.
 *
 * Each job has cycles. In a cycle the members register collectives of several kinds, run them in
 * random orders, call dfcclAdmit until a process has joined, and deregister them. Meanwhile ranks
 * are killed at random moments, and processes are started that join. Some of these are killed, too.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/processes.h"

enum { MOST = 6, CYCLES = 100, ROUNDS = 8, DEPTH = 2, LARGE = 20000, PLAN = 900 };

typedef enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL } kind;
static const struct {
  kind kind;
  int in_place;
  size_t count;
} collectives[] = {
    {ALL_REDUCE, 0, 1},       {ALL_REDUCE, 1, 700}, {ALL_GATHER, 0, 100},
    {REDUCE_SCATTER, 1, 500}, {ALL_TO_ALL, 0, 300}, {ALL_REDUCE, 0, LARGE},
};
enum { COLLECTIVES = sizeof collectives / sizeof *collectives };
enum { FAILED = 1 << 30, HAS_SET = 1 << 29 };

/* Memory that the processes of one job share. */
typedef struct {
  atomic_int lives[MOST]; /* a member's process runs, and nobody kills it yet */
  atomic_int since[MOST]; /* the cycle in which it has joined */
  atomic_int has_id[MOST];
  dfcclUniqueId ids[MOST];
  atomic_int pids[MOST];
  atomic_int begun, cycle, stops, waiting, joined_total, cancelled;
  _Atomic uint32_t ended[CYCLES + 2][COLLECTIVES][ROUNDS];
  _Atomic uint64_t join_ns[CYCLES + 2]; /* from dfcclJoin to the first completed run */
} shared_log;

typedef struct {
  int ranks, survive, cycles, patience_s, blocks, lends, kills_newcomers, kills_more;
  uint64_t seed;
} job;

static shared_log *shared;
static job shape;

/* The state of one process. */
static int self, cycle;
static dfcclContext_t ctx;
static uint64_t *input[COLLECTIVES][DEPTH], *output[COLLECTIVES][DEPTH];
static dfcclResult_t statuses[COLLECTIVES][ROUNDS];
static atomic_int called[COLLECTIVES][ROUNDS], admit_status, joined_seen;
enum { PENDING = -1 };

static size_t pieces_of(kind k, int of_output) {
  const int wide =
      of_output ? k == ALL_GATHER || k == ALL_TO_ALL : k == REDUCE_SCATTER || k == ALL_TO_ALL;
  return wide ? (size_t)shape.ranks : 1;
}

/* The contribution of a rank, in a byte of its own. */
static uint64_t value(int rank, int round, size_t element) {
  return (uint64_t)(1 + ((cycle * 11 + round) * 7 + (int)(element % 5)) % 200) << (8 * rank);
}

static uint32_t set_of(uint64_t sum) {
  uint32_t set = 0;
  for (int r = 0; r < shape.ranks; r++)
    if (sum >> (8 * r) & 255) set |= 1u << r;
  return set;
}

static uint64_t expected_sum(uint32_t set, int round, size_t element) {
  uint64_t sum = 0;
  for (int r = 0; r < shape.ranks; r++)
    if (set >> r & 1) sum += value(r, round, element);
  return sum;
}

/* Members whose processes live and that take part in this cycle. */
static uint32_t alive_now(void) {
  uint32_t set = 0;
  for (int r = 0; r < shape.ranks; r++)
    if (atomic_load(&shared->lives[r]) && atomic_load(&shared->since[r]) <= cycle) set |= 1u << r;
  return set;
}

static uint32_t check_sums(int c, int round) {
  const uint64_t *result = output[c][round % DEPTH];
  const size_t count = collectives[c].count;
  const size_t first = collectives[c].kind == REDUCE_SCATTER ? (size_t)self * count : 0;
  const uint32_t set = set_of(result[0]);
  for (size_t i = 0; i < count; i++)
    CHECK(result[i] == expected_sum(set, round, first + i),
          "cycle %d, collective %d, run %d, element %zu: %llx, but the first element has ranks %x",
          cycle, c, round, i, (unsigned long long)result[i], set);
  return set;
}

static void check_pieces(int c, int round, uint32_t alive) {
  const size_t count = collectives[c].count;
  for (int r = 0; r < shape.ranks; r++)
    for (size_t i = 0; i < count && alive >> r & 1; i++) {
      const size_t element = collectives[c].kind == ALL_TO_ALL ? (size_t)self * count + i : i;
      const uint64_t got = output[c][round % DEPTH][(size_t)r * count + i];
      CHECK(got == value(r, round, element), "cycle %d, collective %d, run %d, piece %d, %zu: %llx",
            cycle, c, round, r, i, (unsigned long long)got);
    }
}

/* Compares with what the other processes have found. */
static void agree(int c, int round, uint32_t found) {
  uint32_t before = 0;
  if (!atomic_compare_exchange_strong(&shared->ended[cycle][c][round], &before, found))
    CHECK(before == found, "cycle %d, collective %d, run %d: %x on rank %d, %x on another", cycle,
          c, round, found, self, before);
}

static void check(int c, int round) {
  const kind k = collectives[c].kind;
  CHECK(atomic_load(&called[c][round]) == 1, "collective %d, run %d: %d callbacks", c, round,
        atomic_load(&called[c][round]));
  if (statuses[c][round] != dfcclSuccess) {
    CHECK(statuses[c][round] == dfcclRemoteError && shape.survive == 2,
          "cycle %d, collective %d, run %d failed: %s, %s", cycle, c, round,
          df_test_result_name(statuses[c][round]), dfcclGetLastError(ctx));
    agree(c, round, FAILED);
    return;
  }
  if (k == ALL_GATHER || k == ALL_TO_ALL) {
    check_pieces(c, round, alive_now());
    agree(c, round, HAS_SET);
    return;
  }
  const uint32_t set = check_sums(c, round), alive = alive_now();
  CHECK((set & alive) == alive, "cycle %d, collective %d, run %d has ranks %x, but %x live", cycle,
        c, round, set, alive);
  agree(c, round, HAS_SET | set);
}

static void call_back(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  const int round = (int)(intptr_t)arg, c = (int)id;
  statuses[c][round] = status;
  atomic_fetch_add(&called[c][round], 1);
}

static void told(dfcclContext_t context, const dfcclMembership_t *m, void *arg) {
  (void)context;
  (void)arg;
  CHECK(m->nLost + m->nJoined > 0, "nothing has changed in view %llu", (unsigned long long)m->view);
  CHECK(m->nJoined <= 1, "%d have joined", m->nJoined);
  for (int i = 0, has = 0; m->nJoined && i < m->nMembers; i++) {
    has |= m->members[i] == m->joined[0];
    CHECK(i + 1 < m->nMembers || has, "rank %d has joined, and is no member", m->joined[0]);
  }
  atomic_fetch_add(&joined_seen, m->nJoined);
}

static void get_memory(int c) {
  const size_t count = collectives[c].count;
  const size_t in = count * pieces_of(collectives[c].kind, 0);
  const size_t out = count * pieces_of(collectives[c].kind, 1);
  for (int d = 0; d < DEPTH; d++) {
    void *memory[2] = {NULL, NULL};
    for (int i = 0; i < (collectives[c].in_place ? 1 : 2); i++) {
      const size_t bytes = (in > out ? in : out) * sizeof(uint64_t);
      if (shape.lends)
        OK(dfcclMemAlloc(ctx, &memory[i], bytes));
      else
        memory[i] = calloc(1, bytes);
    }
    input[c][d] = output[c][d] = memory[0];
    if (!collectives[c].in_place) output[c][d] = memory[1];
    if (collectives[c].in_place && out < in) output[c][d] += (size_t)self * count;
  }
}

static void register_all(void) {
  for (int c = 0; c < COLLECTIVES; c++) {
    const size_t count = collectives[c].count;
    const dfcclCollId_t id = (dfcclCollId_t)c;
    switch (collectives[c].kind) {
    case ALL_REDUCE:
      OK(dfcclRegisterAllReduce(ctx, id, count, dfcclUint64, dfcclSum, NULL));
      break;
    case ALL_GATHER:
      OK(dfcclRegisterAllGather(ctx, id, count, dfcclUint64, NULL));
      break;
    case REDUCE_SCATTER:
      OK(dfcclRegisterReduceScatter(ctx, id, count, dfcclUint64, dfcclSum, NULL));
      break;
    case ALL_TO_ALL:
      OK(dfcclRegisterAllToAll(ctx, id, count, dfcclUint64, NULL));
    }
  }
  OK(dfcclRegisterAllReduce(ctx, PLAN, 1, dfcclInt32, dfcclMax, NULL));
}

static void deregister_all(void) {
  for (int c = 0; c < COLLECTIVES; c++) OK(dfcclDeregister(ctx, (dfcclCollId_t)c));
  OK(dfcclDeregister(ctx, PLAN));
}

/* The largest number of all members. A run that fails does so on all of them. */
static int32_t largest(dfcclCollId_t id, int32_t mine) {
  int32_t all = -2;
  dfcclResult_t result = dfcclRemoteError;
  while (result != dfcclSuccess) {
    OK(dfcclRunAllReduce(ctx, id, &mine, &all, NULL, NULL));
    result = dfcclWait(ctx, id);
    CHECK(result == dfcclSuccess || (result == dfcclRemoteError && shape.survive == 2), "%s: %s",
          df_test_result_name(result), dfcclGetLastError(ctx));
  }
  return all;
}

static void submit(int c, int round) {
  dfcclRun_t run = DFCCL_RUN_INITIALIZER;
  uint64_t *to = input[c][round % DEPTH];
  for (size_t i = 0; i < collectives[c].count * pieces_of(collectives[c].kind, 0); i++)
    to[i] = value(self, round, i);
  run.sendBuf = to;
  run.recvBuf = output[c][round % DEPTH];
  run.callback = call_back;
  run.arg = (void *)(intptr_t)round;
  OK(dfcclRun(ctx, (dfcclCollId_t)c, &run));
}

static void end_run(int c, int round) {
  const dfcclResult_t status = dfcclWaitRun(ctx, (dfcclCollId_t)c, (uint64_t)round, -1);
  CHECK(status == statuses[c][round], "dfcclWaitRun returns %s, the callback had %s",
        df_test_result_name(status), df_test_result_name(statuses[c][round]));
  check(c, round);
}

static void run_all(df_random *random) {
  int order[COLLECTIVES];
  for (int c = 0; c < COLLECTIVES; c++) order[c] = c;
  memset(called, 0, sizeof called);
  for (int round = 0; round < ROUNDS; round++) {
    df_random_shuffle(random, order, COLLECTIVES);
    for (int i = 0; i < COLLECTIVES; i++) {
      if (round >= DEPTH) end_run(order[i], round - DEPTH);
      submit(order[i], round);
    }
  }
  for (int round = ROUNDS - DEPTH; round < ROUNDS; round++)
    for (int c = 0; c < COLLECTIVES; c++) end_run(c, round);
}

static void admitted(dfcclContext_t context, dfcclResult_t status, void *arg) {
  (void)context;
  (void)arg;
  atomic_store(&admit_status, (int)status);
}

/* Calls dfcclAdmit until a process has joined. */
static void admit(void) {
  int status = PENDING;
  while (status != dfcclSuccess) {
    const int before = atomic_load(&joined_seen);
    atomic_store(&admit_status, PENDING);
    OK(dfcclAdmit(ctx, admitted, NULL));
    EVENTUALLY(atomic_load(&admit_status) != PENDING);
    status = atomic_load(&admit_status);
    CHECK(status == dfcclSuccess || status == dfcclRemoteError || status == dfcclTimeout,
          "dfcclAdmit: %s, %s", df_test_result_name((dfcclResult_t)status), dfcclGetLastError(ctx));
    CHECK((status == dfcclSuccess) == (atomic_load(&joined_seen) - before == 1),
          "dfcclAdmit: %s, but %d have joined", df_test_result_name((dfcclResult_t)status),
          atomic_load(&joined_seen) - before);
    if (status != dfcclSuccess) atomic_fetch_add(&shared->cancelled, 1);
  }
}

/* The life of a member, from a registration on. begin_ns: of dfcclJoin, or 0. */
static void be_member(df_random *random, uint64_t begin_ns) {
  OK(dfcclGetJoinId(ctx, &shared->ids[self]));
  atomic_store(&shared->has_id[self], 1);
  for (int c = 0; c < COLLECTIVES; c++) get_memory(c);
  for (;;) {
    register_all();
    /* If the others have died meanwhile, the newcomer begins a cycle of its own. */
    const int planned = largest(PLAN, begin_ns ? -1 : cycle);
    cycle = planned >= 0 ? planned : atomic_load(&shared->cycle) + 1;
    if (begin_ns) {
      atomic_store(&shared->join_ns[cycle], df_now_ns() - begin_ns);
      atomic_store(&shared->since[self], cycle);
      atomic_store(&shared->lives[self], 1);
      atomic_fetch_add(&shared->joined_total, 1);
      begin_ns = 0;
    }
    int known = atomic_load(&shared->cycle);
    while (known < cycle && !atomic_compare_exchange_weak(&shared->cycle, &known, cycle)) {
    }
    run_all(random);
    if (cycle >= shape.cycles) break;
    admit();
    deregister_all();
    cycle++;
  }
  df_finish(ctx);
}

static dfcclConfig_t configure(void) {
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCpu;
  config.survive = shape.survive;
  config.maxBlocks = shape.blocks;
  config.membership = told;
  if (shape.blocks) df_tune("block_min", "4096");
  return config;
}

static void be_rank(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  const dfcclConfig_t config = configure();
  df_random random = {shape.seed * 31 + (uint64_t)rank};
  (void)arg;
  self = rank;
  ctx = df_init(rank, ranks, id, &config);
  atomic_fetch_add(&shared->begun, 1);
  be_member(&random, 0);
}

/* A newcomer asks any member that lives. */
static void be_newcomer(uint64_t seed) {
  df_random random = {seed};
  const dfcclConfig_t config = configure();
  const uint64_t begin_ns = df_now_ns();
  dfcclResult_t result = dfcclRemoteError;
  while (result != dfcclSuccess) {
    const int r = df_random_below(&random, shape.ranks);
    if (atomic_load(&shared->stops)) return;
    if (!atomic_load(&shared->has_id[r]) || !atomic_load(&shared->lives[r])) continue;
    const dfcclUniqueId id = shared->ids[r];
    result = dfcclJoin(&ctx, &id, &config);
    CHECK(result == dfcclSuccess || result == dfcclRemoteError ||
              (result == dfcclTimeout && atomic_load(&shared->stops)),
          "dfcclJoin: %s, %s", df_test_result_name(result), dfcclGetLastError(NULL));
  }
  int ranks;
  df_watch(ctx);
  OK(dfcclGetRank(ctx, &self, &ranks));
  CHECK(ranks == shape.ranks, "%d ranks", ranks);
  atomic_store(&shared->has_id[self], 0);
  atomic_store(&shared->pids[self], getpid());
  be_member(&random, begin_ns);
}

static pid_t start_newcomer(uint64_t seed) {
  fflush(NULL);
  const pid_t pid = fork();
  CHECK(pid >= 0, "fork: %s", strerror(errno));
  if (pid > 0) {
    df_watch_child(pid);
    return pid;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  df_watchdog_start("a newcomer", shape.patience_s);
  be_newcomer(seed);
  df_watchdog_stop();
  fflush(NULL);
  _exit(0);
}

/* ---- the job */

static pid_t started[4 * CYCLES];
static int is_killed[4 * CYCLES], n_started;

static void kill_process(pid_t pid) {
  for (int i = 0; i < n_started; i++)
    if (started[i] == pid) is_killed[i] = 1;
  kill(pid, SIGKILL);
}

static int count_alive(void) {
  int n = 0;
  for (int r = 0; r < shape.ranks; r++) n += atomic_load(&shared->lives[r]);
  return n;
}

static void kill_member(df_random *random) {
  int victim;
  do victim = df_random_below(random, shape.ranks);
  while (!atomic_load(&shared->lives[victim]));
  atomic_store(&shared->lives[victim], 0);
  kill_process(atomic_load(&shared->pids[victim]));
}

static pid_t start_one(df_random *random) {
  CHECK(n_started < 4 * CYCLES, "too many processes");
  return started[n_started++] = start_newcomer(df_random_next(random));
}

/* Kills a member, and starts processes until one of them has joined. The process of an earlier
 * cycle may have been killed after it had joined, so that another one is still to come. */
static void play_cycle(df_random *random, int number) {
  EVENTUALLY((atomic_load(&shared->cycle) >= number && count_alive() >= 2) ||
             atomic_load(&shared->cycle) >= shape.cycles);
  if (count_alive() < 2) return; /* the job ends */
  df_sleep_ms(df_random_below(random, 15));
  kill_member(random);
  if (shape.kills_more && count_alive() > 2 && df_random_chance(random, 40)) kill_member(random);
  if (df_random_chance(random, 50)) df_sleep_ms(df_random_below(random, 10));
  pid_t newcomer = start_one(random);
  for (int i = 0; i < 2 && shape.kills_newcomers && df_random_chance(random, 50); i++) {
    const int before = atomic_load(&shared->joined_total);
    df_sleep_ms(df_random_below(random, 25));
    if (atomic_load(&shared->joined_total) != before) break;
    /* Between this look and the signal it may become a member: then it is lost like others. */
    kill_process(newcomer);
    for (int r = 0; r < shape.ranks; r++)
      if (atomic_load(&shared->pids[r]) == newcomer) atomic_store(&shared->lives[r], 0);
    newcomer = start_one(random);
  }
}

static void reap(pid_t pid, int killed) {
  int status = 0;
  df_waiting_for("a process to end");
  while (waitpid(pid, &status, 0) < 0) CHECK(errno == EINTR, "waitpid: %s", strerror(errno));
  df_waiting_for(NULL);
  df_unwatch_child(pid);
  CHECK(status == 0 || (killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL),
        "process %d ended with status %d", (int)pid, status);
}

static uint64_t times[100000];
static int n_times;
static long n_joined, n_cancelled;

static void play(void) {
  df_family family;
  df_random random = {shape.seed};
  memset(shared, 0, sizeof *shared);
  n_started = 0;
  memset(is_killed, 0, sizeof is_killed);
  df_fork(&family, shape.ranks, shape.patience_s, be_rank, NULL);
  for (int r = 0; r < shape.ranks; r++) {
    atomic_store(&shared->pids[r], family.pids[r]);
    atomic_store(&shared->lives[r], 1);
    started[n_started++] = family.pids[r];
  }
  EVENTUALLY(atomic_load(&shared->begun) == shape.ranks);
  for (int k = 0; k < shape.cycles; k++) play_cycle(&random, k);
  EVENTUALLY(atomic_load(&shared->cycle) >= shape.cycles);
  atomic_store(&shared->stops, 1);
  for (int i = 0; i < n_started; i++) reap(started[i], is_killed[i]);
  for (int k = 0; k <= shape.cycles && n_times < (int)(sizeof times / sizeof *times); k++)
    if (atomic_load(&shared->join_ns[k])) times[n_times++] = atomic_load(&shared->join_ns[k]);
  n_joined += atomic_load(&shared->joined_total);
  n_cancelled += atomic_load(&shared->cancelled);
}

static int compare(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static void print_command(void) {
  fprintf(stderr, "again: joins --ranks %d --survive %d --cycles %d --seed %llu\n", shape.ranks,
          shape.survive, shape.cycles, (unsigned long long)shape.seed);
}

static const char usage[] =
    "Kills ranks of jobs, and starts processes that join them.\n"
    "\n"
    "  joins [OPTION...]\n"
    "\n"
    "  --jobs N          jobs, one for each seed (default 1)\n"
    "  --seed N          first seed (default 1)\n"
    "  --ranks N         processes of a job, 2 to 6 (default: by seed)\n"
    "  --survive N       config.survive, 1 or 2 (default: by seed)\n"
    "  --cycles N        ranks that are killed and join again, 1 to 99 (default 5)\n"
    "  --patience N      seconds until a job that has not ended is reported (60)\n"
    "  --seconds N       begin no job after this time (default: no limit)\n"
    "  --help            this text\n";

int main(int argc, char **argv) {
  long jobs = 1, seed = 1, ranks = 0, survive = 0, cycles = 5, patience = 60, seconds = 0;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0) {
      fputs(usage, stdout);
      return 0;
    }
    const struct {
      const char *name;
      long *number, least, most;
    } options[] = {{"--jobs", &jobs, 1, 1000000},        {"--seed", &seed, 0, 1000000000},
                   {"--ranks", &ranks, 2, MOST},         {"--survive", &survive, 1, 2},
                   {"--cycles", &cycles, 1, CYCLES - 1}, {"--patience", &patience, 1, 3600},
                   {"--seconds", &seconds, 1, 1000000}};
    size_t o = 0;
    while (o < sizeof options / sizeof *options && strcmp(argv[i], options[o].name) != 0) o++;
    char *end = NULL;
    if (o == sizeof options / sizeof *options || i + 1 == argc ||
        (*options[o].number = strtol(argv[++i], &end, 10), *end != '\0') ||
        *options[o].number < options[o].least || *options[o].number > options[o].most) {
      fprintf(stderr, "joins: invalid option %s; joins --help prints all\n", argv[i]);
      return 2;
    }
  }
  shared = df_shared(sizeof *shared);
  df_on_failure(print_command);
  const uint64_t end_ns = df_now_ns() + (uint64_t)seconds * 1000000000;
  long played = 0;
  for (long j = 0; j < jobs && (seconds == 0 || df_now_ns() < end_ns); j++, played++) {
    df_random random = {(uint64_t)(seed + j) * 977};
    shape = (job){.seed = (uint64_t)(seed + j), .cycles = (int)cycles, .patience_s = (int)patience};
    shape.ranks = ranks ? (int)ranks : 2 + df_random_below(&random, MOST - 1);
    shape.survive = survive ? (int)survive : 1 + df_random_below(&random, 2);
    shape.blocks = df_random_chance(&random, 30) ? 3 : 0;
    shape.lends = df_random_chance(&random, 30);
    shape.kills_newcomers = df_random_chance(&random, 50);
    shape.kills_more = df_random_chance(&random, 40);
    df_watchdog_start("a job", 30 + (double)patience);
    play();
    df_watchdog_stop();
  }
  qsort(times, (size_t)n_times, sizeof *times, compare);
  printf("%ld jobs, %ld processes have joined, %ld admits ended without one; from dfcclJoin to the "
         "first run: median %.2f ms, worst %.2f ms\n",
         played, n_joined, n_cancelled, n_times ? (double)times[n_times / 2] / 1e6 : 0.0,
         n_times ? (double)times[n_times - 1] / 1e6 : 0.0);
  return 0;
}
