/*
 * Promise: when ranks are killed, the others go on, and their results stay right (job.h).
 *
 * The program makes jobs of processes and kills some of the ranks at random moments.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job.h"
#include "support/places.h"

static struct { int kills, together; /* later kills follow within 2 ms */ } plan;
static job_times times;

/* Kills one of the ranks that live. */
static void kill_one(df_family *family, df_random *random) {
  int victim;
  do victim = df_random_below(random, job.ranks);
  while (atomic_load(&job_shared->may_lose) >> victim & 1);
  job_strike(victim);
  kill(family->pids[victim], SIGKILL);
}

static void play(void) {
  df_family family;
  df_random random = {job.seed};
  job_start(&family);
  for (int k = 0; k < plan.kills; k++) {
    df_sleep_ms(plan.together && k > 0 ? df_random_below(&random, 3)
                                       : df_random_below(&random, 40));
    kill_one(&family, &random);
  }
  for (int r = 0; r < job.ranks; r++) {
    const int status = df_reap(&family, r);
    const int was_killed = atomic_load(&job_shared->may_lose) >> r & 1;
    CHECK(status == 0 || (was_killed && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL),
          "the process of rank %d ended with status %d", r, status);
  }
  for (int r = 0; r < job.ranks; r++)
    if (atomic_load(&job_shared->next_ns[r])) job_note(&times, job_shared->next_ns[r]);
}

static void print_command(void) {
  fprintf(stderr, "again: kills --ranks %d --survive %d --kills %d --rounds %d --seed %llu%s\n",
          job.ranks, job.survive, plan.kills, job.rounds, (unsigned long long)job.seed,
          plan.together ? " --together" : "");
  job_say_shape();
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
    "  --hosts PID,...   ranks run on hosts, each given by a process there\n"
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
    } options[] = {
        {"--jobs", &jobs, 1, 1000000},         {"--seed", &seed, 0, 1000000000},
        {"--ranks", &ranks, 2, JOB_RANKS},     {"--survive", &survive, 1, 2},
        {"--kills", &kills, 0, JOB_RANKS - 1}, {"--rounds", &rounds, JOB_DEPTH + 1, JOB_ROUNDS},
        {"--patience", &patience, 1, 3600},    {"--seconds", &seconds, 1, 1000000}};
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
  job_shared = df_shared(sizeof *job_shared);
  df_on_failure(print_command);
  const uint64_t end_ns = df_now_ns() + (uint64_t)seconds * 1000000000;
  long played = 0;
  job.rounds = (int)rounds;
  job.patience_s = (int)patience;
  for (long j = 0; j < jobs && (seconds == 0 || df_now_ns() < end_ns); j++, played++) {
    df_random random;
    job_draw((uint64_t)(seed + j), (int)ranks, (int)survive, &random);
    if (job.ranks < places_count()) job.ranks = places_count();
    places_arrange(df_random_chance(&random, 50));
    const int most = job.ranks - 1;
    plan.kills = kills >= 0 ? (int)(kills < most ? kills : most)
                            : 1 + df_random_below(&random, most < 3 ? most : 3);
    plan.together = together >= 0 ? together : df_random_chance(&random, 50);
    job.any_part = places_count() > 0 && 2 * plan.kills >= job.ranks;
    df_watchdog_start("a job", 30 + (double)patience);
    play();
    df_watchdog_stop();
  }
  printf("%ld jobs\n", played);
  job_print(&times, "from a kill to the next run");
  return 0;
}
