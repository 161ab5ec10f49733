/*
 * Promise: when ranks are killed, the others go on (config.survive).
 *   (a) Each run of each collective ends once, and in the same way on all ranks that end it: with
 *       the contributions of the same ranks, or failed. That includes a rank that is killed later.
 *   (b) Each result has the contribution of every rank that lives, and a set of ranks never grows
 *       again from run to run.
 *   (c) With survive 1 no run fails.
 *   (d) The application is notified of each view, in order, and each time some ranks are lost; and
 *       of a lost rank before a run without that rank completes.
 *
 * The program makes jobs of processes that run collectives of several kinds in random orders, in
 * place and out of place, with several runs of each under way, and kills some of them at random
 * moments.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/places.h"
#include "support/processes.h"

enum { MOST = 8, ROUNDS = 400, DEPTH = 3, LARGE = 30000 };

typedef enum { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_TO_ALL } kind;
static const struct {
  kind kind;
  int in_place;
  size_t count;
} collectives[] = {
    {ALL_REDUCE, 0, 1},   {ALL_REDUCE, 1, 700},    {ALL_GATHER, 0, 100},
    {ALL_GATHER, 1, 900}, {REDUCE_SCATTER, 0, 64}, {REDUCE_SCATTER, 1, 500},
    {ALL_TO_ALL, 0, 300}, {ALL_REDUCE, 1, LARGE},  {ALL_REDUCE, 0, LARGE},
};
enum { COLLECTIVES = sizeof collectives / sizeof *collectives };

/* Memory that the processes of one job share. */
typedef struct {
  atomic_int alive[MOST];
  _Atomic uint64_t killed_ns[MOST], next_ns[MOST];
  _Atomic uint32_t
      ended[COLLECTIVES][ROUNDS]; /* 0: not yet; FAILED; or HAS_SET and a set of ranks */
  atomic_int begun, rounds, repeated_views;
} shared_log;
enum { FAILED = 1 << 30, HAS_SET = 1 << 29 };

typedef struct {
  int ranks, survive, kills, rounds, together, patience_s;
  /* several blocks; memory of the library; a switch after each step; the online tuner */
  int blocks, lends, preempts, tunes;
  int any_part; /* on several hosts: ranks go on that are no majority; all that are lost are dead */
  int uses_again; /* two ranks have used the ids before, with a group of their own */
  uint64_t seed;
} job;

static shared_log *shared;
static job shape;

/* The state of one process. */
static int self;
static dfcclContext_t ctx;
static uint64_t *input[COLLECTIVES][DEPTH], *output[COLLECTIVES][DEPTH];
static atomic_int called[COLLECTIVES][ROUNDS];
static dfcclResult_t statuses[COLLECTIVES][ROUNDS];
static uint32_t latest_set[COLLECTIVES];
static _Atomic uint64_t view;
static _Atomic uint32_t lost_told; /* ranks of whose loss the application has been notified */

static size_t pieces_of(kind k, int of_output) {
  const int wide =
      of_output ? k == ALL_GATHER || k == ALL_TO_ALL : k == REDUCE_SCATTER || k == ALL_TO_ALL;
  return wide ? (size_t)shape.ranks : 1;
}

/* The contribution of a rank, in a byte of its own. */
static uint64_t value(int rank, int round, size_t element) {
  return (uint64_t)(1 + (round * 7 + (int)(element % 5)) % 200) << (8 * rank);
}

static void fill(int c, int round) {
  const size_t count = collectives[c].count;
  uint64_t *to = input[c][round % DEPTH];
  for (size_t i = 0; i < count * pieces_of(collectives[c].kind, 0); i++)
    to[i] = value(self, round, i);
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

static uint32_t alive_now(void) {
  uint32_t set = 0;
  for (int r = 0; r < shape.ranks; r++)
    if (atomic_load(&shared->alive[r])) set |= 1u << r;
  return set;
}

static uint32_t check_sums(int c, int round) {
  const uint64_t *result = output[c][round % DEPTH];
  const size_t count = collectives[c].count;
  const size_t first = collectives[c].kind == REDUCE_SCATTER ? (size_t)self * count : 0;
  const uint32_t set = set_of(result[0]);
  for (size_t i = 0; i < count; i++)
    CHECK(result[i] == expected_sum(set, round, first + i),
          "collective %d, run %d, element %zu: %llx, but the first element has ranks %x", c, round,
          i, (unsigned long long)result[i], set);
  return set;
}

static void check_pieces(int c, int round, uint32_t alive) {
  const size_t count = collectives[c].count;
  for (int r = 0; r < shape.ranks; r++)
    for (size_t i = 0; i < count && alive >> r & 1; i++) {
      const size_t element = collectives[c].kind == ALL_TO_ALL ? (size_t)self * count + i : i;
      const uint64_t got = output[c][round % DEPTH][(size_t)r * count + i];
      CHECK(got == value(r, round, element), "collective %d, run %d, piece %d, element %zu: %llx",
            c, round, r, i, (unsigned long long)got);
    }
}

/* (a): compares with what the other processes have found. */
static void agree(int c, int round, uint32_t found) {
  uint32_t before = 0;
  if (!atomic_compare_exchange_strong(&shared->ended[c][round], &before, found))
    CHECK(before == found, "collective %d, run %d: %x on rank %d, %x on another", c, round, found,
          self, before);
}

static void check(int c, int round) {
  const kind k = collectives[c].kind;
  CHECK(atomic_load(&called[c][round]) == 1, "collective %d, run %d: %d callbacks", c, round,
        atomic_load(&called[c][round]));
  if (statuses[c][round] != dfcclSuccess) {
    CHECK(statuses[c][round] == dfcclRemoteError && shape.survive == 2,
          "collective %d, run %d failed: %s, %s", c, round, df_test_result_name(statuses[c][round]),
          dfcclGetLastError(ctx));
    agree(c, round, FAILED);
    return;
  }
  if (k == ALL_GATHER || k == ALL_TO_ALL) {
    check_pieces(c, round, alive_now());
    agree(c, round, HAS_SET);
    return;
  }
  const uint32_t set = check_sums(c, round), alive = alive_now();
  CHECK((set & alive) == alive, "collective %d, run %d has ranks %x, but %x live", c, round, set,
        alive);
  CHECK((set & latest_set[c]) == set, "collective %d, run %d has ranks %x after %x", c, round, set,
        latest_set[c]);
  latest_set[c] = set;
  agree(c, round, HAS_SET | set);
}

static void note_next(uint32_t set) {
  for (int r = 0; r < shape.ranks; r++) {
    const uint64_t killed = atomic_load(&shared->killed_ns[r]);
    uint64_t none = 0;
    if (killed && !(set >> r & 1))
      atomic_compare_exchange_strong(&shared->next_ns[r], &none, df_now_ns() - killed);
  }
}

static void call_back(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  const int round = (int)(intptr_t)arg, c = (int)id;
  statuses[c][round] = status;
  if (c == 0 && status == dfcclSuccess) {
    const uint32_t set = set_of(output[0][round % DEPTH][0]), all = (1u << shape.ranks) - 1;
    CHECK(((set | atomic_load(&lost_told)) & all) == all, "run %d has ranks %x, but %x are lost",
          round, set, atomic_load(&lost_told));
    note_next(set);
  }
  atomic_fetch_add(&called[c][round], 1);
}

static void told(dfcclContext_t context, const dfcclMembership_t *m, void *arg) {
  dfcclMembership_t latest = DFCCL_MEMBERSHIP_INITIALIZER;
  (void)arg;
  CHECK(m->view == atomic_load(&view) + 1, "view %llu after %llu", (unsigned long long)m->view,
        (unsigned long long)atomic_load(&view));
  CHECK(m->nLost > 0 && m->nJoined == 0, "%d are lost in view %llu", m->nLost,
        (unsigned long long)m->view);
  int has_self = 0;
  for (int i = 0; i < m->nMembers; i++) {
    has_self |= m->members[i] == self;
    CHECK(i == 0 || m->members[i - 1] < m->members[i], "members are not in order");
  }
  CHECK(has_self, "rank %d is not in its view", self);
  OK(dfcclGetMembership(context, &latest));
  CHECK(latest.view >= m->view, "the latest view is older");
  for (int i = 0; i < m->nLost; i++) atomic_fetch_or(&lost_told, 1u << m->lost[i]);
  atomic_store(&view, m->view);
}

static uint64_t *get_memory(size_t elements) {
  void *memory = NULL;
  if (shape.lends)
    OK(dfcclMemAlloc(ctx, &memory, elements * sizeof(uint64_t)));
  else
    memory = calloc(elements, sizeof(uint64_t));
  CHECK(memory != NULL, "no memory");
  return memory;
}

static void use_ids(void) {
  const int two[] = {0, 1};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = two;
  options.nRanks = 2;
  for (int c = 0; c < COLLECTIVES && self < 2; c++) {
    OK(dfcclRegisterAllReduce(ctx, (dfcclCollId_t)c, 1, dfcclInt64, dfcclSum, &options));
    OK(dfcclDeregister(ctx, (dfcclCollId_t)c));
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
    for (int d = 0; d < DEPTH; d++) {
      const size_t in = count * pieces_of(collectives[c].kind, 0);
      const size_t out = count * pieces_of(collectives[c].kind, 1);
      input[c][d] = output[c][d] = get_memory(in > out ? in : out);
      if (!collectives[c].in_place) output[c][d] = get_memory(out);
      if (collectives[c].in_place && out > in) input[c][d] += (size_t)self * count;
      if (collectives[c].in_place && out < in) output[c][d] += (size_t)self * count;
    }
  }
}

static void submit(int c, int round) {
  dfcclRun_t run = DFCCL_RUN_INITIALIZER;
  fill(c, round);
  run.sendBuf = input[c][round % DEPTH];
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

static void be_rank(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  df_random random = {shape.seed * 31 + (uint64_t)rank};
  int order[COLLECTIVES];
  (void)arg;
  self = rank;
  config.backend = dfcclBackendCpu;
  config.survive = shape.survive;
  config.maxBlocks = shape.blocks;
  if (shape.blocks) df_tune("block_min", "4096");
  if (shape.tunes) setenv("DFCCL_TUNE", "2", 1);
  if (shape.any_part) setenv("DFCCL_SURVIVE_QUORUM", "none", 1);
  if (shape.preempts) df_tune("preempt_every", "1");
  config.membership = told;
  for (int c = 0; c < COLLECTIVES; c++) {
    order[c] = c;
    latest_set[c] = ~0u;
  }
  ctx = df_init(rank, ranks, id, &config);
  if (shape.uses_again && ranks > 2) use_ids();
  register_all();
  atomic_fetch_add(&shared->begun, 1);
  for (int round = 0; round < shape.rounds; round++) {
    df_random_shuffle(&random, order, COLLECTIVES);
    for (int i = 0; i < COLLECTIVES; i++) {
      if (round >= DEPTH) end_run(order[i], round - DEPTH);
      submit(order[i], round);
    }
    if (rank == 0) atomic_store(&shared->rounds, round);
  }
  for (int round = shape.rounds - DEPTH; round < shape.rounds; round++)
    for (int c = 0; c < COLLECTIVES; c++) end_run(c, round);
  df_finish(ctx);
}

/* Kills one of the ranks that live. */
static void kill_one(df_family *family, df_random *random) {
  int victim;
  do victim = df_random_below(random, shape.ranks);
  while (!atomic_load(&shared->alive[victim]));
  atomic_store(&shared->alive[victim], 0);
  atomic_store(&shared->killed_ns[victim], df_now_ns());
  kill(family->pids[victim], SIGKILL);
}

static int compare(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static uint64_t times[100000];
static int n_times;

static void play(void) {
  df_family family;
  df_random random = {shape.seed};
  memset(shared, 0, sizeof *shared);
  for (int r = 0; r < shape.ranks; r++) atomic_store(&shared->alive[r], 1);
  df_fork(&family, shape.ranks, shape.patience_s, be_rank, NULL);
  while (atomic_load(&shared->begun) < shape.ranks) df_nap();
  for (int k = 0; k < shape.kills; k++) {
    df_sleep_ms(shape.together && k > 0 ? df_random_below(&random, 3)
                                        : df_random_below(&random, 40));
    kill_one(&family, &random);
  }
  for (int r = 0; r < shape.ranks; r++) {
    const int status = df_reap(&family, r), lives = atomic_load(&shared->alive[r]);
    CHECK(status == 0 || (!lives && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL),
          "the process of rank %d ended with status %d", r, status);
  }
  for (int r = 0; r < shape.ranks && n_times < (int)(sizeof times / sizeof *times); r++)
    if (atomic_load(&shared->next_ns[r])) times[n_times++] = atomic_load(&shared->next_ns[r]);
}

static void print_command(void) {
  fprintf(stderr, "again: kills --ranks %d --survive %d --kills %d --rounds %d --seed %llu%s\n",
          shape.ranks, shape.survive, shape.kills, shape.rounds, (unsigned long long)shape.seed,
          shape.together ? " --together" : "");
}

static const char usage[] =
    "Kills ranks of jobs that go on without them.\n"
    "\n"
    "  kills [OPTION...]\n"
    "\n"
    "  --jobs N          jobs, one for each seed (default 1)\n"
    "  --seed N          first seed (default 1)\n"
    "  --ranks N         processes of a job, 2 to 8 (default: by seed)\n"
    "  --survive N       config.survive, 1 or 2 (default: by seed)\n"
    "  --kills N         ranks to kill, fewer than ranks (default: by seed)\n"
    "  --rounds N        runs of each collective, 4 to 400 (default 100)\n"
    "  --together        later kills follow within 2 ms (default: by seed)\n"
    "  --patience N      seconds until a job that has not ended is reported (60)\n"
    "  --hosts PID,...   ranks run on hosts, each given by a process there (tests/hosts/bed.sh)\n"
    "  --seconds N       begin no job after this time (default: no limit)\n"
    "  --help            this text\n";

int main(int argc, char **argv) {
  long jobs = 1, seed = 1, ranks = 0, survive = 0, kills = -1, rounds = 100, patience = 60,
       seconds = 0;
  int together = -1;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0) {
      fputs(usage, stdout);
      return 0;
    }
    if (strcmp(argv[i], "--together") == 0) {
      together = 1;
      continue;
    }
    if (strcmp(argv[i], "--hosts") == 0 && i + 1 < argc && places_read(argv[i + 1])) {
      i++;
      continue;
    }
    const struct {
      const char *name;
      long *number, least, most;
    } options[] = {{"--jobs", &jobs, 1, 1000000},      {"--seed", &seed, 0, 1000000000},
                   {"--ranks", &ranks, 2, MOST},       {"--survive", &survive, 1, 2},
                   {"--kills", &kills, 0, MOST - 1},   {"--rounds", &rounds, DEPTH + 1, ROUNDS},
                   {"--patience", &patience, 1, 3600}, {"--seconds", &seconds, 1, 1000000}};
    size_t o = 0;
    while (o < sizeof options / sizeof *options && strcmp(argv[i], options[o].name) != 0) o++;
    char *end = NULL;
    if (o == sizeof options / sizeof *options || i + 1 == argc ||
        (*options[o].number = strtol(argv[++i], &end, 10), *end != '\0') ||
        *options[o].number < options[o].least || *options[o].number > options[o].most) {
      fprintf(stderr, "kills: invalid option %s; kills --help prints all\n", argv[i]);
      return 2;
    }
  }
  shared = df_shared(sizeof *shared);
  df_on_failure(print_command);
  const uint64_t end_ns = df_now_ns() + (uint64_t)seconds * 1000000000;
  long played = 0;
  for (long j = 0; j < jobs && (seconds == 0 || df_now_ns() < end_ns); j++, played++) {
    df_random random = {(uint64_t)(seed + j) * 977};
    shape = (job){.seed = (uint64_t)(seed + j), .rounds = (int)rounds, .patience_s = (int)patience};
    shape.ranks = ranks ? (int)ranks : 2 + df_random_below(&random, MOST - 1);
    if (shape.ranks < places_count()) shape.ranks = places_count();
    places_arrange(df_random_chance(&random, 50));
    shape.survive = survive ? (int)survive : 1 + df_random_below(&random, 2);
    const int most = shape.ranks - 1;
    shape.kills = kills >= 0 ? (int)(kills < most ? kills : most)
                             : 1 + df_random_below(&random, most < 3 ? most : 3);
    shape.any_part = places_count() > 0 && 2 * shape.kills >= shape.ranks;
    shape.together = together >= 0 ? together : df_random_chance(&random, 50);
    shape.blocks = df_random_chance(&random, 30) ? 3 : 0;
    shape.lends = df_random_chance(&random, 30);
    shape.preempts = df_random_chance(&random, 15);
    shape.tunes = df_random_chance(&random, 20);
    shape.uses_again = df_random_chance(&random, 30);
    df_watchdog_start("a job", 30 + (double)patience);
    play();
    df_watchdog_stop();
  }
  qsort(times, (size_t)n_times, sizeof *times, compare);
  printf(
      "%ld jobs, %d kills with a later run; from the kill to it: median %.2f ms, worst %.2f ms\n",
      played, n_times, n_times ? (double)times[n_times / 2] / 1e6 : 0.0,
      n_times ? (double)times[n_times - 1] / 1e6 : 0.0);
  return 0;
}
