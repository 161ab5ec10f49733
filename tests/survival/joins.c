/*
 * Promise: processes join a job that has lost ranks (dfcclJoin, dfcclAdmit).
 *   (a) Collectives that are registered afterwards have the contributions of all members, the
 *       newcomer included, and those registered before are not disturbed.
 *   (b) A newcomer that dies at any moment changes nothing, or is lost like other members.
 *   (c) dfcclAdmit ends alike on all members, and the application is notified of who has joined.
 *
 * Results are checked as in job.h. Each job has cycles. In a cycle the members register the
 * collectives, run them, call dfcclAdmit until a process has joined, and deregister them.
 * Meanwhile ranks are killed at random moments, and processes are started that join. Some of these
 * are killed, too.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job.h"

enum { ROUNDS = 8, CYCLES = JOB_ROUNDS / ROUNDS - 1, PLAN = 900 };

/* Memory that the processes of one job share, besides job_shared. */
typedef struct {
  atomic_int lives[JOB_RANKS]; /* a member's process runs, and nobody kills it yet */
  atomic_int since[JOB_RANKS]; /* the cycle in which it has joined */
  atomic_int has_id[JOB_RANKS];
  dfcclUniqueId ids[JOB_RANKS];
  atomic_int pids[JOB_RANKS];
  atomic_int doomed; /* a newcomer's process that is about to be killed */
  atomic_int begun, cycle, stops, joined_total, cancelled;
  _Atomic uint64_t join_ns[CYCLES + 2]; /* from dfcclJoin to the first completed run */
} shared_log;

static shared_log *shared;
static struct { int cycles, kills_newcomers, kills_more; } plan;

/* The state of one process. */
static int self;
static atomic_int cycle;
static dfcclContext_t ctx;
static atomic_int admit_status, joined_seen;
enum { PENDING = -1 };

/* Members whose processes live and that take part in this cycle. */
static int lives(int r) {
  return atomic_load(&shared->lives[r]) &&
         atomic_load(&shared->pids[r]) != atomic_load(&shared->doomed);
}

static uint32_t alive_now(void) {
  uint32_t set = 0;
  for (int r = 0; r < job.ranks; r++)
    if (lives(r) && atomic_load(&shared->since[r]) <= atomic_load(&cycle)) set |= 1u << r;
  return set;
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

/* The largest number of all members. A run that fails does so on all of them. */
static int32_t largest(dfcclCollId_t id, int32_t mine) {
  int32_t all = -2;
  dfcclResult_t result = dfcclRemoteError;
  while (result != dfcclSuccess) {
    OK(dfcclRunAllReduce(ctx, id, &mine, &all, NULL, NULL));
    result = dfcclWait(ctx, id);
    CHECK(result == dfcclSuccess || (result == dfcclRemoteError && job.survive == 2), "%s: %s",
          df_test_result_name(result), dfcclGetLastError(ctx));
  }
  return all;
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
  job_be(ctx, self);
  for (;;) {
    OK(dfcclRegisterAllReduce(ctx, PLAN, 1, dfcclInt32, dfcclMax, NULL));
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
    job_register(cycle * ROUNDS);
    job_run(random, (cycle + 1) * ROUNDS);
    if (cycle >= plan.cycles) break;
    admit();
    job_deregister();
    OK(dfcclDeregister(ctx, PLAN));
    cycle++;
  }
  df_finish(ctx);
}

static void be_rank(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  const dfcclConfig_t config = job_configure(told);
  df_random random = {job.seed * 31 + (uint64_t)rank};
  (void)arg;
  self = rank;
  ctx = df_init(rank, ranks, id, &config);
  atomic_fetch_add(&shared->begun, 1);
  be_member(&random, 0);
}

/* A newcomer asks any member that lives. */
static void be_newcomer(uint64_t seed) {
  df_random random = {seed};
  const dfcclConfig_t config = job_configure(told);
  const uint64_t begin_ns = df_now_ns();
  dfcclResult_t result = dfcclRemoteError;
  while (result != dfcclSuccess) {
    const int r = df_random_below(&random, job.ranks);
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
  CHECK(ranks == job.ranks, "%d ranks", ranks);
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
  df_watchdog_start("a newcomer", job.patience_s);
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
  for (int r = 0; r < job.ranks; r++) n += lives(r);
  return n;
}

static void kill_member(df_random *random) {
  int victim;
  do victim = df_random_below(random, job.ranks);
  while (!lives(victim));
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
             atomic_load(&shared->cycle) >= plan.cycles);
  if (count_alive() < 2) return; /* the job ends */
  df_sleep_ms(df_random_below(random, 15));
  kill_member(random);
  if (plan.kills_more && count_alive() > 2 && df_random_chance(random, 40)) kill_member(random);
  if (df_random_chance(random, 50)) df_sleep_ms(df_random_below(random, 10));
  pid_t newcomer = start_one(random);
  for (int i = 0; i < 2 && plan.kills_newcomers && df_random_chance(random, 50); i++) {
    const int before = atomic_load(&shared->joined_total);
    df_sleep_ms(df_random_below(random, 25));
    if (atomic_load(&shared->joined_total) != before) break;
    /* Between this look and the signal it may become a member: then it is lost like others. */
    atomic_store(&shared->doomed, newcomer);
    kill_process(newcomer);
    for (int r = 0; r < job.ranks; r++)
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

static job_times times;
static long n_joined, n_cancelled;

static void play(void) {
  df_family family;
  df_random random = {job.seed};
  memset(shared, 0, sizeof *shared);
  memset(job_shared, 0, sizeof *job_shared);
  atomic_store(&job_shared->late_rank, -1);
  n_started = 0;
  memset(is_killed, 0, sizeof is_killed);
  df_fork(&family, job.ranks, job.patience_s, be_rank, NULL);
  for (int r = 0; r < job.ranks; r++) {
    atomic_store(&shared->pids[r], family.pids[r]);
    atomic_store(&shared->lives[r], 1);
    started[n_started++] = family.pids[r];
  }
  EVENTUALLY(atomic_load(&shared->begun) == job.ranks);
  for (int k = 0; k < plan.cycles; k++) play_cycle(&random, k);
  EVENTUALLY(atomic_load(&shared->cycle) >= plan.cycles);
  atomic_store(&shared->stops, 1);
  for (int i = 0; i < n_started; i++) reap(started[i], is_killed[i]);
  for (int k = 0; k <= plan.cycles; k++)
    if (atomic_load(&shared->join_ns[k])) job_note(&times, atomic_load(&shared->join_ns[k]));
  n_joined += atomic_load(&shared->joined_total);
  n_cancelled += atomic_load(&shared->cancelled);
}

static void print_command(void) {
  fprintf(stderr, "again: joins --ranks %d --survive %d --cycles %d --seed %llu\n", job.ranks,
          job.survive, plan.cycles, (unsigned long long)job.seed);
  job_say_shape();
}

static const char usage[] =
    "Kills ranks of jobs, and starts processes that join them.\n"
    "\n"
    "  joins [OPTION...]\n"
    "\n"
    "  --jobs N          jobs, one for each seed (default 1)\n"
    "  --seed N          first seed (default 1)\n"
    "  --ranks N         processes of a job, 2 to 8 (default: by seed)\n"
    "  --survive N       config.survive, 1 or 2 (default: by seed)\n"
    "  --cycles N        ranks that are killed and join again, 1 to 48 (default 5)\n"
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
                   {"--ranks", &ranks, 2, JOB_RANKS},    {"--survive", &survive, 1, 2},
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
  job_shared = df_shared(sizeof *job_shared);
  job_needed = alive_now;
  job.patience_s = (int)patience;
  df_on_failure(print_command);
  const uint64_t end_ns = df_now_ns() + (uint64_t)seconds * 1000000000;
  long played = 0;
  for (long j = 0; j < jobs && (seconds == 0 || df_now_ns() < end_ns); j++, played++) {
    df_random random;
    job_draw((uint64_t)(seed + j), (int)ranks, (int)survive, &random);
    plan.cycles = (int)cycles;
    plan.kills_newcomers = df_random_chance(&random, 50);
    plan.kills_more = df_random_chance(&random, 40);
    df_watchdog_start("a job", 30 + (double)patience);
    play();
    df_watchdog_stop();
  }
  printf("%ld jobs, %ld processes have joined, %ld admits ended without one\n", played, n_joined,
         n_cancelled);
  job_print(&times, "from dfcclJoin to the first completed run");
  return 0;
}
