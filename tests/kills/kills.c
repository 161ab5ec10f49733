/*
 * Promise: whenever a rank is killed, whatever it is doing, every run that a survivor has submitted
 * ends once, with success (and then the right result) or with dfcclRemoteError. The survivor's
 * calls return, name the dead rank, and leave nothing behind. The next job of the same shape starts
 * at once and completes.
 *
 * Each job follows from its seed: ranks as processes, collectives of every operation in an order of
 * each rank's own, links of every kind, and the moment of the death. That moment is some
 * microseconds into one of the phases of life.h, the n-th system call of the victim, the middle of
 * its n-th movement of data, or a place between two calls of the library.
 *
 * The program prints the Test Anything Protocol; a failure prints the command that repeats it.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "life.h"
#include "support/leftovers.h"
#include "support/processes.h"

enum { WATCHDOG_SECONDS = 60, REACTIONS_MAX = 100000, TOO_LONG_MS = 2000 };

static struct {
  uint64_t seed;
  long jobs;
  double seconds;
  bool verbose;
} options = {.seed = 1, .jobs = 30, .seconds = 1e9};

static kills_job current; /* the job that is being played */

static struct {
  long jobs, died_in[KILLS_PHASES], died_by[KILLS_WAYS];
  long accepted, failed, survivors;
  double reactions[REACTIONS_MAX]; /* milliseconds from a death to a survivor's first error */
  long n_reactions, too_long;
  double longest_init;
} sums;

static const char *const phase_names[] = {"init",       "register", "memory",  "links", "runs",
                                          "deregister", "free",     "destroy", "left"};
static const char *const way_names[] = {"time", "call", "move", "step"};

/* ---- drawing a job ---- */

static void draw_group(df_random *random, int ranks, kills_collective *k) {
  int order[KILLS_RANKS_MAX];
  for (int i = 0; i < ranks; i++) order[i] = i;
  df_random_shuffle(random, order, ranks);
  k->coll.members = ranks;
  if (ranks < 3 || df_random_chance(random, 60)) return;
  k->coll.members = 2 + df_random_below(random, ranks - 1);
  memcpy(k->group, order, sizeof k->group);
  k->coll.group = k->group;
}

static void draw_collective(df_random *random, const kills_job *job, kills_collective *k) {
  static const size_t counts[] = {1, 40, 700, 5000, 20000, 60000};
  df_collective *coll = &k->coll;
  draw_group(random, job->ranks, k);
  coll->kind = (df_kind)df_random_below(random, DF_KIND_COUNT);
  coll->type = df_random_chance(random, 70) ? dfcclInt32 : dfcclFloat32;
  coll->op = dfcclSum;
  coll->root = df_random_below(random, coll->members);
  coll->count = counts[df_random_below(random, 6)] + (size_t)df_random_below(random, 9);
  if (coll->kind == DF_ALL_GATHER || coll->kind == DF_REDUCE_SCATTER || coll->kind == DF_ALL_TO_ALL)
    coll->count = (coll->count + 1) / 2;
  coll->seed = df_random_next(random);
  k->lent = df_random_chance(random, 50);
  k->in_place = coll->kind == DF_ALL_REDUCE && df_random_chance(random, 40);
}

/* Draws small numbers as often as large ones. */
static long draw_position(df_random *random, long most) {
  long limit = 1;
  while (limit < most && df_random_chance(random, 80)) limit *= 2;
  return 1 + df_random_below(random, (int)(limit < most ? limit : most));
}

static void draw_death(df_random *random, kills_job *job) {
  static const int most[KILLS_WAYS] = {20000, 128, 128, 16};
  job->kills = true;
  job->victim = df_random_below(random, job->ranks);
  job->phase = (kills_phase)df_random_below(random, KILLS_LEFT);
  if (df_random_chance(random, 30)) job->phase = KILLS_RUNS;
  job->way = (kills_way)df_random_below(random, KILLS_WAYS);
  bool runs = job->phase == KILLS_LINKS || job->phase == KILLS_RUNS;
  if (job->way == KILLS_BY_MOVE && !runs) job->way = KILLS_BY_CALL;
  job->position = draw_position(random, most[job->way]);
  bool once = job->phase == KILLS_INIT || job->phase == KILLS_DESTROY;
  job->life = once ? 0 : df_random_below(random, job->lives);
  if (job->phase == KILLS_DESTROY) job->life = job->lives - 1;
}

static void draw_setting(df_random *random, const char *name, int percent, const char *value) {
  int is_set = df_random_chance(random, percent);
  if (strncmp(name, "DFCCL_", 6) != 0)
    df_tune(name, is_set ? value : NULL);
  else if (is_set)
    setenv(name, value, 1);
  else
    unsetenv(name);
}

/* Kinds of links, and how often collectives are set aside. */
static void draw_settings(df_random *random) {
  draw_setting(random, "slot_bytes", 40, "1024");
  draw_setting(random, "slots", 30, "2");
  draw_setting(random, "ring_bytes", 50, "65536");
  draw_setting(random, "flagged_max", 30, "0");
  draw_setting(random, "lend_min", 40, "64");
  draw_setting(random, "net_lend_min", 40, "64");
  draw_setting(random, "common", 50, "2");
  draw_setting(random, "lend_in_place_min", 50, "0");
  draw_setting(random, "stream_min", 30, "4096");
  draw_setting(random, "block_min", 50, "4096");
  draw_setting(random, "preempt_every", 20, "1");
}

/* Writes the job into `job`, because the collectives' groups point into it. */
static void draw_job(kills_job *job, uint64_t seed) {
  df_random random = {seed};
  *job = (kills_job){.seed = seed};
  job->ranks = 2 + df_random_below(&random, KILLS_RANKS_MAX - 1);
  job->lives = 1 + df_random_below(&random, KILLS_LIVES_MAX);
  job->rounds = 1 + df_random_below(&random, 4);
  job->depth = 1 + df_random_below(&random, KILLS_DEPTH_MAX);
  job->n_collectives = 1 + df_random_below(&random, KILLS_COLLECTIVES_MAX);
  job->max_blocks = 1 + df_random_below(&random, 2);
  for (int c = 0; c < job->n_collectives; c++) draw_collective(&random, job, &job->collectives[c]);
  draw_death(&random, job);
  draw_settings(&random);
}

static void print_job(FILE *to, const kills_job *job) {
  char what[256];
  fprintf(
      to,
      "seed %llu: %d ranks, %d lives, %d rounds of %d; rank %d dies in life %d, %s, by %s %ld\n",
      (unsigned long long)job->seed, job->ranks, job->lives, job->rounds, job->depth, job->victim,
      job->life, phase_names[job->phase], way_names[job->way], job->position);
  for (int c = 0; c < job->n_collectives; c++) {
    df_describe(&job->collectives[c].coll, what, sizeof what);
    fprintf(to, "  %d: %s%s%s\n", c, what, job->collectives[c].lent ? ", lent" : "",
            job->collectives[c].in_place ? ", in place" : "");
  }
}

static void print_repetition(void) {
  if (!current.kills) fprintf(stderr, "(in the whole job after it) ");
  fprintf(stderr, "to repeat: kills --seed %llu --jobs 1\n", (unsigned long long)current.seed);
  print_job(stderr, &current);
}

/* ---- playing it ---- */

static bool has_ended(pid_t pid) {
  siginfo_t info = {0};
  return waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == pid;
}

static void kill_by_time(const kills_job *job, kills_stage *stage, const df_family *family) {
  pid_t pid = family->pids[job->victim];
  struct timespec pause = {0, job->position * 1000};
  EVENTUALLY(atomic_load(&stage->progress) >= kills_progress(job->life, job->phase) ||
             has_ended(pid));
  nanosleep(&pause, NULL);
  if (has_ended(pid) || atomic_load(&stage->killed)) return;
  atomic_store(&stage->killed_ns, df_now_ns());
  atomic_store(&stage->died_in, atomic_load(&stage->progress));
  atomic_store(&stage->killed, 1);
  kill(pid, SIGKILL);
}

static void play(const kills_job *job, kills_stage *stage) {
  kills_scene scene = {job, stage};
  df_family family;
  int statuses[KILLS_RANKS_MAX];
  char name[100];
  current = *job;
  memset(stage, 0, sizeof *stage);
  atomic_store(&stage->progress, -1); /* the rank has not even begun */
  snprintf(name, sizeof name, "job with seed %llu%s", (unsigned long long)job->seed,
           job->kills ? "" : ", the whole one after it");
  df_watchdog_start(name, WATCHDOG_SECONDS +
                              20); /* the ranks' own watchdogs strike first, and report more */
  /* The other ranks wait this long in dfcclInit for a rank that does not arrive. */
  if (job->kills && job->phase == KILLS_INIT)
    setenv("DFCCL_INIT_TIMEOUT_MS", "1000", 1);
  else
    unsetenv("DFCCL_INIT_TIMEOUT_MS");
  df_fork(&family, job->ranks, WATCHDOG_SECONDS, kills_live, &scene);
  if (job->kills && job->way == KILLS_BY_TIME) kill_by_time(job, stage, &family);
  for (int rank = 0; rank < job->ranks; rank++) {
    statuses[rank] = df_reap(&family, rank);
    if (statuses[rank] != 0 && !(job->kills && rank == job->victim))
      fprintf(stderr, "rank %d ended with wait status %d\n", rank, statuses[rank]);
  }
  for (int rank = 0; rank < job->ranks; rank++) {
    int status = statuses[rank];
    if (job->kills && rank == job->victim)
      CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL,
            "the victim ended with wait status %d", status);
    else
      CHECK(status == 0, "rank %d ended with wait status %d", rank, status);
  }
  CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a process is left");
}

static void count_reactions(const kills_job *job, const kills_stage *stage) {
  unsigned long long killed = atomic_load(&stage->killed_ns);
  for (int rank = 0; rank < job->ranks; rank++) {
    unsigned long long noticed = atomic_load(&stage->noticed_ns[rank]);
    if (rank == job->victim) continue;
    sums.survivors++;
    if (noticed <= killed) continue; /* no error, or an earlier time-out of dfcclInit */
    double ms = 1e-6 * (double)(noticed - killed);
    if (!atomic_load(&stage->came[rank])) {
      sums.longest_init = ms > sums.longest_init ? ms : sums.longest_init;
      continue;
    }
    sums.too_long += ms > TOO_LONG_MS;
    if (sums.n_reactions < REACTIONS_MAX) sums.reactions[sums.n_reactions++] = ms;
  }
}

static void play_job(uint64_t seed, kills_stage *stage) {
  kills_job job;
  draw_job(&job, seed);
  if (options.verbose) print_job(stdout, &job);
  play(&job, stage);
  count_reactions(&job, stage);
  sums.jobs++;
  sums.died_in[atomic_load(&stage->died_in) % KILLS_PHASES]++;
  sums.died_by[job.way]++;
  sums.accepted += atomic_load(&stage->accepted);
  sums.failed += atomic_load(&stage->failed);
  job.kills = false;
  play(&job, stage);
  CHECK(atomic_load(&stage->accepted) == atomic_load(&stage->succeeded),
        "%d runs were accepted and %d succeeded", atomic_load(&stage->accepted),
        atomic_load(&stage->succeeded));
}

/* ---- the summary ---- */

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void print_sums(void) {
  double *r = sums.reactions;
  qsort(r, (size_t)sums.n_reactions, sizeof *r, ascending);
  printf("# died in:");
  for (int p = 0; p < KILLS_PHASES; p++) printf(" %s %ld", phase_names[p], sums.died_in[p]);
  printf("; planned by:");
  for (int w = 0; w < KILLS_WAYS; w++) printf(" %s %ld", way_names[w], sums.died_by[w]);
  printf("\n# %ld jobs lost a rank, %ld ran whole after them; of %ld survivors %ld met an error,"
         " median %.2f ms after the death, at most %.2f ms, %ld beyond 2 s (in dfcclInit, bounded"
         " by its time-out: at most %.0f ms); %ld runs accepted, %ld of the survivors' ended with"
         " an error, none was lost; seeds %llu to %llu\n",
         sums.jobs, sums.jobs, sums.survivors, sums.n_reactions,
         sums.n_reactions > 0 ? r[sums.n_reactions / 2] : 0.0,
         sums.n_reactions > 0 ? r[sums.n_reactions - 1] : 0.0, sums.too_long, sums.longest_init,
         sums.accepted, sums.failed, (unsigned long long)options.seed,
         (unsigned long long)(options.seed + (uint64_t)sums.jobs - 1));
}

static const char usage[] = "usage: kills [--seed S] [--jobs N] [--seconds T] [--verbose]\n"
                            "  --seed S      seed of the first job; job i has seed S + i (1)\n"
                            "  --jobs N      number of jobs (30)\n"
                            "  --seconds T   begins no job after T seconds\n"
                            "  --verbose     prints each job\n";

static void read_options(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    bool takes_value = true;
    if (strcmp(argv[i], "--seed") == 0) {
      options.seed = strtoull(value, NULL, 10);
    } else if (strcmp(argv[i], "--jobs") == 0) {
      options.jobs = atol(value);
    } else if (strcmp(argv[i], "--seconds") == 0) {
      options.seconds = atof(value);
    } else if (strcmp(argv[i], "--verbose") == 0) {
      options.verbose = true;
      takes_value = false;
    } else if (strcmp(argv[i], "--help") == 0) {
      exit(fputs(usage, stdout) == EOF);
    } else {
      fprintf(stderr, "kills: unknown option %s\n%s", argv[i], usage);
      exit(2);
    }
    i += takes_value;
  }
}

int main(int argc, char **argv) {
  double start = df_seconds();
  read_options(argc, argv);
  kills_stage *stage = df_shared(sizeof *stage);
  df_on_failure(print_repetition);
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("TAP version 13\n");
  for (long i = 0; i < options.jobs && df_seconds() - start < options.seconds; i++)
    play_job(options.seed + (uint64_t)i, stage);
  df_watchdog_stop();
  print_sums();
  printf("%sok 1 - ranks killed at any moment\n1..1\n", sums.jobs > 0 ? "" : "not ");
  return sums.jobs > 0 ? 0 : 2;
}
