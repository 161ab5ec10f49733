/*
 * Promise: whatever keeps ranks from each other, at most one part of a job goes on, with right
 * results (job.h); the part that has the majority does; and all other ranks end their runs with a
 * sentence that says why.
 *
 * The program makes jobs of processes, and one event happens to each. Hosts are network namespaces.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "job.h"
#include "support/places.h"

typedef enum { STOP, SLOW, LATE, CUT, PAIR, REFUSE, EVENTS } event;
static const char *const event_names[EVENTS] = {"stop", "slow", "late", "cut", "pair", "refuse"};

enum { RAILS = 2, HOSTS = 16 };

static struct {
  event event;
  int timeout_ms;
  const char *network_switch; /* the namespace of the switch between the hosts */
} options;

static struct {
  uint32_t victims; /* ranks, or hosts for cut and refuse; the first host for pair */
  uint32_t second;  /* pair: the other host */
  int heals_early;
  int strict;
} plan;

static job_times next_run, to_stop, after_waking;
static int went_on, stopped, healed_and_whole;

static int count(uint32_t set) { return __builtin_popcount(set); }
static int is_between_hosts(void) { return options.event >= CUT; }
static uint32_t all_ranks(void) { return (1u << job.ranks) - 1; }

static uint32_t ranks_of(uint32_t hosts) {
  uint32_t set = 0;
  for (int r = 0; r < job.ranks; r++)
    if (hosts >> places_host_of(r, job.ranks) & 1) set |= 1u << r;
  return set;
}

/* ---- events */

static void order(const char *command) { CHECK(system(command) == 0, "%s", command); }

static void set_cable(int host, const char *state) {
  char command[200];
  for (int rail = 0; rail < RAILS; rail++) {
    snprintf(command, sizeof command,
             "nsenter --net=/run/netns/%s bridge link set dev host%d-%d state %s",
             options.network_switch, host + 1, rail, state);
    order(command);
  }
}

/* Packets of a host to another one disappear, or are refused as by a firewall. */
static void filter(int from, int to, int refuses) {
  char command[1000];
  snprintf(command, sizeof command,
           "nsenter --net --target %d nft 'add table inet df; "
           "add chain inet df out { type filter hook output priority 0 ; }; "
           "add rule inet df out ip daddr { 10.77.0.%d, 10.77.1.%d } %s; "
           "add rule inet df out ip6 daddr { fd77:0::%d, fd77:1::%d } %s'",
           places_keeper(from), to + 1, to + 1,
           refuses ? "meta l4proto tcp reject with tcp reset" : "drop", to + 1, to + 1,
           refuses ? "meta l4proto tcp reject with tcp reset" : "drop");
  order(command);
}

static void separate(uint32_t some, uint32_t others, int refuses) {
  for (int a = 0; a < places_count(); a++)
    for (int b = 0; b < places_count(); b++)
      if ((some >> a & 1 && others >> b & 1) || (some >> b & 1 && others >> a & 1))
        filter(a, b, refuses);
}

static void cut(void) {
  const uint32_t all_hosts = (1u << places_count()) - 1;
  if (options.event == PAIR) separate(plan.victims, plan.second, 0);
  if (options.event == REFUSE) separate(plan.victims, all_hosts & ~plan.victims, 1);
  for (int host = 0; options.event == CUT && host < places_count(); host++)
    if (plan.victims >> host & 1) set_cable(host, "disabled");
}

static void heal(void) {
  char command[200];
  for (int host = 0; host < places_count(); host++) {
    if (options.event == CUT) {
      if (plan.victims >> host & 1) set_cable(host, "forwarding");
      continue;
    }
    snprintf(command, sizeof command, "nsenter --net --target %d nft flush ruleset",
             places_keeper(host));
    order(command);
  }
}

static void signal_victims(const df_family *family, int number) {
  for (int r = 0; r < job.ranks; r++)
    if (plan.victims >> r & 1) kill(family->pids[r], number);
}

/* Waits until the others have a view without the victims. */
static void await_others(void) {
  for (int r = 0; r < job.ranks; r++)
    while (!(plan.victims >> r & 1) &&
           (atomic_load(&job_shared->view_of[r]) == 0 ||
            atomic_load(&job_shared->view_of[r]) & plan.victims) &&
           atomic_load(&job_shared->outcome[r]) == JOB_RUNS)
      df_nap();
}

static uint64_t woken_ns;

static void happen(const df_family *family, df_random *random) {
  const int begin = df_random_below(random, job.rounds / 2);
  while (atomic_load(&job_shared->rounds) < begin) df_nap();
  switch (options.event) {
  case STOP:
    signal_victims(family, SIGSTOP);
    await_others();
    df_sleep_ms(df_random_below(random, 200));
    woken_ns = df_now_ns();
    signal_victims(family, SIGCONT);
    break;
  case SLOW:
    for (int i = 0; i < 3; i++) {
      signal_victims(family, SIGSTOP);
      df_sleep_ms(options.timeout_ms / 10 + df_random_below(random, options.timeout_ms / 3));
      signal_victims(family, SIGCONT);
      df_sleep_ms(options.timeout_ms / 2);
    }
    break;
  case LATE:
    atomic_store(&job_shared->late_ms, 3 * options.timeout_ms / 2);
    atomic_store(&job_shared->late_rank, __builtin_ctz(plan.victims));
    break;
  default:
    cut();
    if (!plan.heals_early) break;
    df_sleep_ms(df_random_below(random, 2 * options.timeout_ms));
    heal();
  }
}

/* ---- outcomes */

/* Whether a part of the members of the first view may go on. */
static int has_majority(uint32_t part) {
  return 2 * count(part) > job.ranks || (2 * count(part) == job.ranks && part & 1);
}

/* Ranks that must go on, if the network stays as it is. */
static uint32_t expected(void) {
  switch (options.event) {
  case SLOW:
  case LATE:
    return all_ranks();
  case STOP:
    return all_ranks() & ~plan.victims;
  default:;
  }
  const uint32_t hit = ranks_of(plan.victims), rest = all_ranks() & ~hit;
  if (has_majority(rest)) return rest;
  if (options.event == REFUSE) return has_majority(hit) ? hit : 0;
  for (int host = 0; host < places_count(); host++)
    if (plan.victims >> host & 1 && has_majority(ranks_of(1u << host))) return ranks_of(1u << host);
  return 0;
}

static void check_outcome(uint32_t on) {
  if (options.event == PAIR) {
    const uint32_t a = ranks_of(plan.victims), b = ranks_of(plan.second);
    const uint32_t others = all_ranks() & ~(a | b);
    CHECK((on & others) == others && has_majority(on) && !((on & a) && (on & b)),
          "ranks %x go on, but %x do not reach %x", on, a, b);
    return;
  }
  CHECK(on == expected(), "ranks %x go on, but %x are to", on, expected());
}

static void judge(void) {
  uint32_t on = 0;
  for (int r = 0; r < job.ranks; r++) {
    const int outcome = atomic_load(&job_shared->outcome[r]);
    CHECK(outcome != JOB_RUNS, "rank %d has no outcome", r);
    if (outcome == JOB_WENT_ON) on |= 1u << r;
    CHECK(outcome == JOB_WENT_ON || strstr(job_shared->sentence[r], "not a majority"),
          "rank %d has stopped: %s", r, job_shared->sentence[r]);
  }
  if (!plan.heals_early) check_outcome(on);
  went_on += count(on);
  stopped += job.ranks - count(on);
  healed_and_whole += plan.heals_early && on == all_ranks();
  for (int r = 0; r < job.ranks; r++) {
    const uint64_t end = atomic_load(&job_shared->stopped_ns[r]);
    const uint64_t next = on ? atomic_load(&job_shared->next_ns[r]) : 0;
    if (next) job_note(&next_run, next);
    if (next / 1000000 > (uint64_t)options.timeout_ms + 1000)
      printf("  seed %llu, heals early %d: the run without rank %d came after %.0f ms\n",
             (unsigned long long)job.seed, plan.heals_early, r, (double)next / 1e6);
    if (end && options.event == STOP) job_note(&after_waking, end > woken_ns ? end - woken_ns : 0);
    if (end && options.event != STOP) job_note(&to_stop, end - job_shared->struck_ns[r]);
  }
}

static void play(void) {
  df_family family;
  df_random random = {job.seed};
  job_start(&family);
  uint32_t may_lose = 0;
  if (options.event == STOP) may_lose = plan.victims;
  if (is_between_hosts()) may_lose = all_ranks();
  for (int r = 0; r < job.ranks; r++)
    if (may_lose >> r & 1) job_strike(r);
  happen(&family, &random);
  atomic_store(&job_shared->may_end, 1);
  for (int r = 0; r < job.ranks; r++) {
    const int status = df_reap(&family, r);
    CHECK(status == 0, "the process of rank %d ended with status %d", r, status);
  }
  if (is_between_hosts() && !plan.heals_early) heal();
  judge();
}

/* A set of 1 to most of n. */
static uint32_t draw_set(df_random *random, int n, int most) {
  uint32_t set = 0;
  const int wanted = 1 + df_random_below(random, most);
  while (count(set) < wanted) set |= 1u << df_random_below(random, n);
  return set;
}

static void draw(df_random *random) {
  memset(&plan, 0, sizeof plan);
  places_arrange(df_random_chance(random, 50));
  plan.strict = df_random_chance(random, 50);
  job.may_stop = 1;
  switch (options.event) {
  case STOP:
    plan.victims = draw_set(random, job.ranks, job.ranks < 4 ? 1 : (job.ranks - 1) / 2);
    /* The lower one of two ranks can go on alone. */
    if (!has_majority(all_ranks() & ~plan.victims)) plan.victims = 1u << (job.ranks - 1);
    break;
  case SLOW:
  case LATE:
    plan.victims = draw_set(random, job.ranks, options.event == LATE ? 1 : job.ranks);
    break;
  default:
    plan.victims = draw_set(random, places_count(), options.event == PAIR ? 1 : places_count() - 1);
    do plan.second = draw_set(random, places_count(), 1);
    while (plan.second == plan.victims);
    plan.heals_early = df_random_chance(random, 30);
  }
}

static void print_command(void) {
  fprintf(
      stderr,
      "again: partitions --event %s --ranks %d --survive %d --rounds %d --seed %llu; victims %x, "
      "heals early: %d\n",
      event_names[options.event], job.ranks, job.survive, job.rounds, (unsigned long long)job.seed,
      plan.victims, plan.heals_early);
  job_say_shape();
  for (int r = 0; r < job.ranks; r++)
    fprintf(stderr, "  rank %d: outcome %d, view %x %s\n", r, job_shared->outcome[r],
            job_shared->view_of[r], job_shared->sentence[r]);
}

static const char usage[] =
    "Keeps ranks of jobs from each other, and checks that one part at most goes on.\n"
    "\n"
    "  partitions --event EVENT [OPTION...]\n"
    "\n"
    "  --event EVENT     stop: processes are stopped for longer than the timeout;\n"
    "                    slow: for less; late: a rank does not submit for longer;\n"
    "                    cut: hosts lose their network; pair: two hosts lose each\n"
    "                    other; refuse: hosts refuse each other\n"
    "  --jobs N          jobs, one for each seed (default 1)\n"
    "  --seed N          first seed (default 1)\n"
    "  --ranks N         processes of a job, 2 to 8 (default: by seed)\n"
    "  --survive N       config.survive, 1 or 2 (default: by seed)\n"
    "  --rounds N        runs of each collective, 4 to 400 (default 60)\n"
    "  --timeout N       DFCCL_NET_TIMEOUT_MS, from 200 (default 1000)\n"
    "  --patience N      seconds until a job that has not ended is reported (60)\n"
    "  --hosts PID,...   ranks run on hosts, each given by a process there\n"
    "  --help            this text\n";

static int read_event(const char *word) {
  for (int e = 0; e < EVENTS; e++)
    if (strcmp(word, event_names[e]) == 0) return e;
  return -1;
}

int main(int argc, char **argv) {
  long jobs = 1, seed = 1, ranks = 0, survive = 0, rounds = 60, patience = 60, timeout = 1000;
  int event_read = -1;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--help") == 0) {
      fputs(usage, stdout);
      return 0;
    }
    if (strcmp(argv[i], "--event") == 0 && i + 1 < argc &&
        (event_read = read_event(argv[i + 1])) >= 0) {
      i++;
      continue;
    }
    if (strcmp(argv[i], "--hosts") == 0 && i + 1 < argc && places_read(argv[i + 1])) {
      i++;
      continue;
    }
    const struct {
      const char *name;
      long *number, least, most;
    } numbers[] = {{"--jobs", &jobs, 1, 1000000},
                   {"--seed", &seed, 0, 1000000000},
                   {"--ranks", &ranks, 2, JOB_RANKS},
                   {"--survive", &survive, 1, 2},
                   {"--rounds", &rounds, JOB_DEPTH + 1, JOB_ROUNDS},
                   {"--patience", &patience, 1, 3600},
                   {"--timeout", &timeout, 200, 60000}};
    size_t o = 0;
    while (o < sizeof numbers / sizeof *numbers && strcmp(argv[i], numbers[o].name) != 0) o++;
    char *end = NULL;
    if (o == sizeof numbers / sizeof *numbers || i + 1 == argc ||
        (*numbers[o].number = strtol(argv[++i], &end, 10), *end != '\0') ||
        *numbers[o].number < numbers[o].least || *numbers[o].number > numbers[o].most) {
      fprintf(stderr, "partitions: invalid option %s; partitions --help prints all\n", argv[i]);
      return 2;
    }
  }
  options.event = (event)event_read;
  options.timeout_ms = (int)timeout;
  options.network_switch = getenv("BED_SWITCH");
  const int has_hosts = places_count() > 0 && options.network_switch != NULL;
  if (event_read < 0 || (is_between_hosts() && !has_hosts)) {
    fprintf(stderr, "partitions: %s\n",
            event_read < 0 ? "--event is missing" : "this event needs hosts: tests/hosts/property");
    return 2;
  }
  job_shared = df_shared(sizeof *job_shared);
  df_on_failure(print_command);
  job.rounds = (int)rounds;
  job.patience_s = (int)patience;
  for (long j = 0; j < jobs; j++) {
    df_random random;
    char text[20];
    job_draw((uint64_t)(seed + j), (int)ranks, (int)survive, &random);
    if (job.ranks < places_count()) job.ranks = places_count();
    draw(&random);
    snprintf(text, sizeof text, "%d", options.timeout_ms);
    setenv("DFCCL_NET_TIMEOUT_MS", text, 1);
    setenv("DFCCL_SURVIVE_QUORUM", plan.strict ? "strict" : "default", 1);
    df_watchdog_start("a job", 30 + (double)patience);
    play();
    df_watchdog_stop();
  }
  printf("%s: %ld jobs; %d ranks went on, %d stopped; %d jobs were whole again\n",
         event_names[options.event], jobs, went_on, stopped, healed_and_whole);
  job_print(&next_run, "from the event to the next run");
  job_print(&to_stop, "from the event to the end of runs that must not go on");
  job_print(&after_waking, "from waking to the end of runs that must not go on");
  return 0;
}
