/* Deterministic simulation of the library: see sim.h. usage_text has the options. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim.h"

static const char usage_text[] =
    "usage: schedules [OPTION]...\n"
    "         random schedules of random worlds (world.c)\n"
    "       schedules --seed S --world W --schedule K [--until STEP] [--brief]\n"
    "         one schedule again, with its trace\n"
    "       schedules --explore BOUND --variants V [--first-world W]\n"
    "         all schedules of at most BOUND preemptions\n"
    "       schedules --exhaust COLLECTIVES [OPTION]...\n"
    "         all states of a small world (exhaust.c)\n"
    "\n"
    "random schedules:\n"
    "  --schedules N      number of schedules (10000)\n"
    "  --seed S           seed of all random decisions (1)\n"
    "  --each M           schedules of each world (500)\n"
    "  --jobs J           processes (1)\n"
    "  --first-world W    the first world (0)\n"
    "  --failures N       ends after N failures (the first)\n"
    "  --progress SECONDS prints a line so often\n"
    "  --planted N        the program of planted bugs: plants bug N (plant.py)\n"
    "worlds of one kind only:\n"
    "  --small, --large, --crowds, --wires, --hosts, --rails, --relays, --varying,\n"
    "  --others, --switches, --survive, --endings; --some-endings PERCENT\n"
    "                     (docs/TESTING.md)\n"
    "a schedule again:\n"
    "  --until STEP       the trace ends before this step\n"
    "  --brief            prints nothing but the failure\n"
    "all states:\n"
    "  --chunks C         messages of each collective (1)\n"
    "  --runs R           runs of each collective (1)\n"
    "  --depth D          entries of the queue (2)\n"
    "  --cq V             variant of the completion queue: 0 to 2\n"
    "  --callbacks, --background, --naps, --first-turns, --lends\n"
    "                     parts of the library that take part\n"
    "  --most-states N    gives up beyond so many states (4194304)\n";

int sim_planted;

void sim_fail_outside(void) { sim_leave(); }

/* An agent that computes for this long without an access that others could see is in an endless
 * loop: a schedule takes a fraction of a millisecond. Measured in the process's own time, so that a
 * busy machine changes nothing. A loop with accesses ends by the bound on fair steps. */
enum { ENDLESS_S = 2 };

static void on_signal(int number) {
  static uint64_t seen_steps = UINT64_MAX;
  if (number == SIGVTALRM) {
    uint64_t steps = sim_is_running ? sim_runs << 32 | sim_steps : UINT64_MAX;
    int same = steps == seen_steps;
    seen_steps = steps;
    if (!sim_is_running || !same) return;
    sim_fail("an endless loop without any access that others could see");
  }
  if (!sim_is_running) { /* the simulator itself */
    signal(number, SIG_DFL);
    raise(number);
    return;
  }
  sim_fail("it crashed with signal %d", number);
}

static void catch_crashes(void) {
  static uint8_t stack[64 << 10];
  stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  struct sigaction action = {.sa_handler = on_signal,
                             .sa_flags = SA_ONSTACK | SA_NODEFER | SA_RESTART};
  sigaltstack(&alternate, NULL);
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  sigaction(SIGFPE, &action, NULL);
  sigaction(SIGVTALRM, &action, NULL);
}

/* Belongs to this process: children do not inherit it. */
static void watch_for_endless_loops(void) {
  struct itimerval every = {.it_interval.tv_sec = ENDLESS_S, .it_value.tv_sec = ENDLESS_S};
  setitimer(ITIMER_VIRTUAL, &every, NULL);
}

static uint64_t mix(uint64_t a, uint64_t b) {
  sim_random random = {.state = a * 0x2545f4914f6cdd1du + b};
  return sim_next(&random);
}

typedef struct options {
  uint64_t schedules, seed, each, jobs, first_world, progress_s;
  int64_t world, schedule;
  int planted, brief;
  uint64_t explore, variants, failures, exhaust, most_states;
} options;

enum {
  SIM_KINDS = 4,       /* small or large worlds, schedules that end or not */
  SIM_LENGTHS = 8 * 24 /* eighths of powers of two */
};

/* State of one job, in memory that it shares with the parent. */
typedef struct totals {
  uint64_t worlds, schedules, steps, failures;
  uint64_t next_world; /* all of the job's before it are through */
  uint64_t failed_world, failed_schedule;
  uint64_t least_steps, most_steps, of_kind[SIM_KINDS], of_length[SIM_LENGTHS];
} totals;

static volatile sig_atomic_t is_to_end, progress_is_due;

/* One schedule; returns 0 and leaves sim_failure when it went wrong. */
static int run_schedule(uint64_t seed) {
  sim_failure = NULL;
  sim_world_restore(seed);
  sim_run();
  if (sim_failure == NULL) {
    sim_world_check();
  }
  return sim_failure == NULL;
}

static int make_world(const options *o, uint64_t world) {
  sim_failure = NULL;
  sim_world_make(mix(o->seed, world));
  return sim_failure == NULL;
}

static uint64_t schedule_seed(const options *o, uint64_t world, uint64_t schedule) {
  return mix(mix(o->seed, world), schedule + 1);
}

/* Repeats it with everything that can be said about it. */
static void explain(const options *o, uint64_t world, uint64_t schedule) {
  printf("FAILED: %s\n", sim_failure);
  printf("  seed %llu, world %llu, schedule %llu; again: schedules --seed %llu --world %llu "
         "--schedule %llu",
         (unsigned long long)o->seed, (unsigned long long)world, (unsigned long long)schedule,
         (unsigned long long)o->seed, (unsigned long long)world, (unsigned long long)schedule);
  if (sim_percent_endings == 100) printf(" --endings");
  if (sim_percent_endings % 100) printf(" --some-endings %u", sim_percent_endings);
  if (sim_percent_small == 0) printf(" --large");
  if (sim_percent_small == 100) printf(" --small");
  if (sim_only_crowds) printf(" --crowds");
  if (sim_only_wires)
    printf(sim_only_rails    ? " --rails"
           : sim_only_relays ? " --relays"
           : sim_only_hosts  ? " --hosts"
                             : " --wires");
  if (sim_only_varying) printf(" --varying");
  if (sim_only_others) printf(" --others");
  if (sim_only_switches) printf(" --switches");
  if (sim_only_survivors) printf(" --survive");
  if (o->planted) printf(" --planted %d", o->planted);
  printf("\n  commit ");
  fflush(stdout);
  if (system("git -C '" DF_SIM_SOURCE "' describe --always --dirty 2>/dev/null || echo unknown"))
    printf("unknown\n");
}

static void replay(const options *o) {
  watch_for_endless_loops();
  uint64_t world = (uint64_t)o->world, schedule = (uint64_t)o->schedule;
  if (!make_world(o, world)) {
    printf("the world could not be made: %s\n", sim_failure);
    return;
  }
  sim_is_tracing = 1;
  sim_trace_begin();
  run_schedule(schedule_seed(o, world, schedule));
  sim_world_print();
  sim_trace_print();
  fflush(stdout);
  sim_world_print_state();
  if (sim_failure)
    explain(o, world, schedule);
  else
    printf("this schedule is good: %llu steps\n", (unsigned long long)sim_steps);
}

static uint32_t class_of_length(uint64_t steps) {
  if (steps < 8) return 0;
  uint32_t power = 63 - (uint32_t)__builtin_clzll(steps);
  uint32_t length = 8 * (power - 3) + (uint32_t)(steps >> (power - 3) & 7);
  return length < SIM_LENGTHS ? length : SIM_LENGTHS - 1;
}
static void count_steps(totals *t, uint64_t steps) {
  t->steps += steps;
  t->of_kind[2 * (sim_endings != 0) + (sim_is_small == 0)]++;
  t->of_length[class_of_length(steps)]++;
  if (t->schedules == 1 || steps < t->least_steps) t->least_steps = steps;
  if (steps > t->most_steps) t->most_steps = steps;
}

/* Worlds first, first + stride, ... Returns 0 at the first failure. */
static int campaign(const options *o, uint64_t first, uint64_t stride, totals *t) {
  uint64_t share = o->schedules / stride + (first < o->schedules % stride);
  for (t->next_world = o->first_world + first; t->schedules < share; t->next_world += stride) {
    uint64_t world = t->next_world;
    if (!make_world(o, world)) {
      printf("world %llu of seed %llu could not be made: %s\n", (unsigned long long)world,
             (unsigned long long)o->seed, sim_failure);
      return 0;
    }
    t->worlds++;
    for (uint64_t k = 0; k < o->each && t->schedules < share; k++) {
      if (is_to_end) return 1;
      t->schedules++;
      sim_compare_next = sim_failure != NULL;
      int good = run_schedule(schedule_seed(o, world, k));
      count_steps(t, sim_steps);
      if (good) continue;
      t->failures++;
      t->failed_world = world;
      t->failed_schedule = k;
      if (t->failures >= o->failures) return 0;
    }
  }
  return 1;
}

static int run_job(const options *o, uint64_t first, totals *t) {
  watch_for_endless_loops();
  int good = campaign(o, first, o->jobs, t);
  if (!good && sim_failure) explain(o, t->failed_world, t->failed_schedule);
  if (!good && sim_failure && !o->brief) {
    options again = *o;
    again.world = (int64_t)t->failed_world;
    again.schedule = (int64_t)t->failed_schedule;
    replay(&again);
  }
  fflush(stdout);
  return !good;
}

/* Sums over the processes that have ended. */
static double processor_seconds(void) {
  struct rusage used;
  getrusage(RUSAGE_CHILDREN, &used);
  return (double)used.ru_utime.tv_sec + (double)used.ru_utime.tv_usec * 1e-6;
}

static uint64_t least_of_class(uint32_t length) { return (8ull + length % 8) << length / 8; }

static void print_lengths(const totals *jobs, uint64_t n_jobs) {
  static const double shares[] = {0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99};
  uint64_t all = 0, least = UINT64_MAX, most = 0, before = 0, schedules[SIM_KINDS] = {0};
  for (uint64_t j = 0; j < n_jobs; j++) {
    for (uint32_t l = 0; l < SIM_LENGTHS; l++) all += jobs[j].of_length[l];
    for (uint32_t k = 0; k < SIM_KINDS; k++) schedules[k] += jobs[j].of_kind[k];
    if (jobs[j].schedules && jobs[j].least_steps < least) least = jobs[j].least_steps;
    if (jobs[j].most_steps > most) most = jobs[j].most_steps;
  }
  if (all == 0) return;
  printf("schedules of small worlds: %llu, of large ones: %llu, that end, in small ones: %llu, in "
         "large ones: %llu\n",
         (unsigned long long)schedules[0], (unsigned long long)schedules[1],
         (unsigned long long)schedules[2], (unsigned long long)schedules[3]);
  printf("steps of a schedule: at least %llu;", (unsigned long long)least);
  for (uint32_t i = 0, l = 0; i < sizeof shares / sizeof *shares; i++) {
    for (; l < SIM_LENGTHS; l++) {
      uint64_t here = 0;
      for (uint64_t j = 0; j < n_jobs; j++) here += jobs[j].of_length[l];
      if ((double)(before + here) >= shares[i] * (double)all) break;
      before += here;
    }
    printf(" %.0f%%: %llu,", shares[i] * 100, (unsigned long long)least_of_class(l));
  }
  printf(" at most %llu; the smallest is a run of one collective on two ranks\n",
         (unsigned long long)most);
}

static void report(const options *o, const totals *jobs, double seconds, const char *how) {
  totals all = {.next_world = UINT64_MAX};
  for (uint64_t j = 0; j < o->jobs; j++) {
    all.worlds += jobs[j].worlds;
    all.schedules += jobs[j].schedules;
    all.steps += jobs[j].steps;
    all.failures += jobs[j].failures;
    if (jobs[j].next_world < all.next_world) all.next_world = jobs[j].next_world;
  }
  print_lengths(jobs, o->jobs);
  printf(
      "simulation: seed %llu, %llu worlds, %llu schedules, %llu steps in %.1f s (%.0f schedules/s, "
      "%.1f million steps/s, %.2f s of processor time, %llu job(s), %llu of each world; next: "
      "--first-world %llu): %llu failure(s), %s\n",
      (unsigned long long)o->seed, (unsigned long long)all.worlds,
      (unsigned long long)all.schedules, (unsigned long long)all.steps, seconds,
      (double)all.schedules / seconds, (double)all.steps / seconds * 1e-6, processor_seconds(),
      (unsigned long long)o->jobs, (unsigned long long)o->each, (unsigned long long)all.next_world,
      (unsigned long long)all.failures, how);
  fflush(stdout);
}

static void on_end(int number) {
  (void)number;
  is_to_end = 1;
}

static void on_progress(int number) {
  (void)number;
  progress_is_due = 1;
}

/* Signals end a wait, so that they are attended to at once. */
static void attend_to_signals(const options *o) {
  struct sigaction end = {.sa_handler = on_end}, progress = {.sa_handler = on_progress};
  sigaction(SIGTERM, &end, NULL);
  sigaction(SIGINT, &end, NULL);
  sigaction(SIGALRM, &progress, NULL);
  struct itimerval every = {.it_interval.tv_sec = (time_t)o->progress_s,
                            .it_value.tv_sec = (time_t)o->progress_s};
  if (o->progress_s) setitimer(ITIMER_REAL, &every, NULL);
}

/* A process for each job. SIGTERM ends all of them after their schedule, with the totals so far. */
static int run_jobs(const options *o) {
  uint64_t begin = sim_seconds_ns(), left = 0;
  int failed = 0, has_forwarded = 0;
  size_t bytes = o->jobs * sizeof(totals);
  totals *jobs = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pid_t *children = calloc(o->jobs, sizeof *children);
  if (jobs == MAP_FAILED || children == NULL) return 1;
  attend_to_signals(o);
  fflush(stdout);
  for (; left < o->jobs; left++) {
    children[left] = fork();
    if (children[left] < 0) return 1;
    if (children[left] == 0) _exit(run_job(o, left, &jobs[left]));
  }
  while (left > 0) {
    int status;
    pid_t ended = wait(&status);
    double seconds = (double)(sim_seconds_ns() - begin) * 1e-9;
    if (ended > 0) {
      left--;
      if (status != 0) failed = 1;
      for (uint64_t j = 0; j < o->jobs; j++)
        if (children[j] == ended) children[j] = 0;
    } else if (errno != EINTR) {
      return 1;
    }
    for (uint64_t j = 0; is_to_end && !has_forwarded && j < o->jobs; j++)
      if (children[j] > 0) kill(children[j], SIGTERM);
    has_forwarded = is_to_end;
    if (progress_is_due && left > 0) report(o, jobs, seconds, failed ? "FAILED" : "good so far");
    progress_is_due = 0;
  }
  report(o, jobs, (double)(sim_seconds_ns() - begin) * 1e-9,
         failed      ? "FAILED"
         : is_to_end ? "ended by a signal, all good"
                     : "all good");
  free(children);
  return failed;
}

static uint64_t number(int argc, char **argv, int *i) {
  if (*i + 1 < argc) return strtoull(argv[++*i], NULL, 10);
  fprintf(stderr, "%s needs a number\n", argv[*i]);
  exit(2);
}

int main(int argc, char **argv) {
  options o = {
      .schedules = 10000, .seed = 1, .each = 500, .jobs = 1, .world = -1, .most_states = 1 << 22};
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--schedules") == 0)
      o.schedules = number(argc, argv, &i);
    else if (strcmp(argv[i], "--seed") == 0)
      o.seed = number(argc, argv, &i);
    else if (strcmp(argv[i], "--each") == 0)
      o.each = number(argc, argv, &i);
    else if (strcmp(argv[i], "--jobs") == 0)
      o.jobs = number(argc, argv, &i);
    else if (strcmp(argv[i], "--progress") == 0)
      o.progress_s = number(argc, argv, &i);
    else if (strcmp(argv[i], "--world") == 0)
      o.world = (int64_t)number(argc, argv, &i);
    else if (strcmp(argv[i], "--explore") == 0)
      o.explore = number(argc, argv, &i);
    else if (strcmp(argv[i], "--exhaust") == 0)
      o.exhaust = number(argc, argv, &i);
    else if (strcmp(argv[i], "--chunks") == 0)
      sim_smallest_now.chunks = (uint32_t)number(argc, argv, &i);
    else if (strcmp(argv[i], "--runs") == 0)
      sim_smallest_now.runs = (uint32_t)number(argc, argv, &i);
    else if (strcmp(argv[i], "--depth") == 0)
      sim_smallest_now.depth = (uint32_t)number(argc, argv, &i);
    else if (strcmp(argv[i], "--cq") == 0)
      sim_smallest_now.cq = (uint32_t)number(argc, argv, &i);
    else if (strcmp(argv[i], "--callbacks") == 0)
      sim_smallest_now.callbacks = sim_smallest_now.background = 1;
    else if (strcmp(argv[i], "--background") == 0)
      sim_smallest_now.background = 1;
    else if (strcmp(argv[i], "--naps") == 0)
      sim_smallest_now.naps = sim_smallest_now.background = 1;
    else if (strcmp(argv[i], "--first-turns") == 0)
      sim_smallest_now.first_turns = 1;
    else if (strcmp(argv[i], "--lends") == 0)
      sim_smallest_now.lends = 1;
    else if (strcmp(argv[i], "--most-states") == 0)
      o.most_states = number(argc, argv, &i);
    else if (strcmp(argv[i], "--variants") == 0)
      o.variants = number(argc, argv, &i);
    else if (strcmp(argv[i], "--first-world") == 0)
      o.first_world = number(argc, argv, &i);
    else if (strcmp(argv[i], "--schedule") == 0)
      o.schedule = (int64_t)number(argc, argv, &i);
    else if (strcmp(argv[i], "--failures") == 0)
      o.failures = number(argc, argv, &i);
    else if (strcmp(argv[i], "--large") == 0)
      sim_percent_small = 0;
    else if (strcmp(argv[i], "--small") == 0)
      sim_percent_small = 100;
    else if (strcmp(argv[i], "--some-endings") == 0)
      sim_percent_endings = (uint32_t)number(argc, argv, &i);
    else if (strcmp(argv[i], "--endings") == 0)
      sim_percent_endings = 100;
    else if (strcmp(argv[i], "--crowds") == 0)
      sim_only_crowds = 1;
    else if (strcmp(argv[i], "--wires") == 0)
      sim_only_wires = 1;
    else if (strcmp(argv[i], "--hosts") == 0)
      sim_only_wires = sim_only_hosts = 1;
    else if (strcmp(argv[i], "--rails") == 0)
      sim_only_wires = sim_only_hosts = sim_only_rails = 1;
    else if (strcmp(argv[i], "--relays") == 0)
      sim_only_wires = sim_only_hosts = sim_only_relays = 1;
    else if (strcmp(argv[i], "--varying") == 0)
      sim_only_varying = 1;
    else if (strcmp(argv[i], "--others") == 0)
      sim_only_others = 1;
    else if (strcmp(argv[i], "--switches") == 0)
      sim_only_switches = 1;
    else if (strcmp(argv[i], "--survive") == 0)
      sim_only_survivors = 1, sim_percent_endings = 100;
    else if (strcmp(argv[i], "--brief") == 0)
      o.brief = 1;
    else if (strcmp(argv[i], "--until") == 0)
      sim_trace_until = number(argc, argv, &i);
    else if (strcmp(argv[i], "--planted") == 0)
      o.planted = sim_planted = (int)number(argc, argv, &i);
    else if (strcmp(argv[i], "--help") == 0)
      return fputs(usage_text, stdout) == EOF;
    else {
      fprintf(stderr, "schedules: unknown option %s\n%s", argv[i], usage_text);
      return 2;
    }
  }
  if (o.jobs == 0) o.jobs = 1;
  catch_crashes();
  if (o.exhaust > 0) {
    sim_percent_small = 0;
    sim_smallest_now.colls = (uint32_t)o.exhaust;
    if (sim_smallest_now.chunks == 0) sim_smallest_now.chunks = 1;
    if (sim_smallest_now.runs == 0) sim_smallest_now.runs = 1;
    if (sim_smallest_now.depth == 0) sim_smallest_now.depth = 2;
    watch_for_endless_loops();
    return !sim_exhaust(o.most_states);
  }
  if (o.variants > 0) {
    sim_percent_small = 0; /* the variants are drawn as large worlds are */
    watch_for_endless_loops();
    return !sim_explore(o.first_world, o.variants, (uint32_t)o.explore);
  }
  if (o.world >= 0) {
    replay(&o);
    return sim_failure != NULL;
  }
  return run_jobs(&o);
}
