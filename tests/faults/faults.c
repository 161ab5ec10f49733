/*
 * Promise: whatever allocation, system call or thread creation fails, a program gets an error with
 * a sentence, or is not affected. It never crashes or hangs, it leaks nothing, and its peers end
 * cleanly.
 *
 * Each scenario is played once for each call that the library makes in it, and that call fails
 * (hard: the call is refused; soft: it is interrupted, and everything must then succeed
 * nevertheless).
 *
 * The program prints the Test Anything Protocol; a failure prints the command that repeats it.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "inject.h"
#include "play.h"
#include "support/leftovers.h"
#include "support/processes.h"
#include "support/ranks.h"

enum { RANKS = DF_PLAY_RANKS, POSITIONS_MAX = 20000 };

static struct {
  const char *scenario, *kind;
  long position, sample;
  uint64_t seed;
} options = {.sample = -1, .seed = 1};

/* ---- ranks as threads ---- */

typedef struct {
  dfcclContext_t ctx;
  const dfcclUniqueId *id; /* NULL: the context exists already */
  int rank, ranks;
  dfcclResult_t error;
} player;

static void *be_player(void *arg) {
  player *p = arg;
  dfcclConfig_t config = df_config();
  if (p->id != NULL) {
    df_waiting_for("dfcclInit");
    p->error = dfcclInit(&p->ctx, p->ranks, *p->id, p->rank, &config);
    df_waiting_for(NULL);
    if (p->error != dfcclSuccess) {
      df_play_failed("dfcclInit", p->error);
      return NULL;
    }
  }
  p->error = df_play(p->ctx, p->rank, p->ranks);
  return NULL;
}

/* Returns the first error of the threads. */
static dfcclResult_t play_in_threads(dfcclContext_t *ctxs, const dfcclUniqueId *id, int ranks) {
  pthread_t threads[RANKS];
  player players[RANKS];
  dfcclResult_t error = dfcclSuccess;
  for (int rank = 0; rank < ranks; rank++) {
    players[rank] =
        (player){.ctx = ctxs ? ctxs[rank] : NULL, .id = id, .rank = rank, .ranks = ranks};
    CHECK(df_fault_thread(&threads[rank], be_player, &players[rank]) == 0, "no thread");
  }
  for (int rank = 0; rank < ranks; rank++) pthread_join(threads[rank], NULL);
  for (int rank = 0; rank < ranks && error == dfcclSuccess; rank++) error = players[rank].error;
  return error;
}

static dfcclResult_t play_all_here(int ranks) {
  dfcclContext_t ctxs[RANKS];
  dfcclConfig_t config = df_config();
  config.maxBlocks = 2;
  dfcclResult_t error = dfcclInitAll(ctxs, ranks, &config);
  if (error != dfcclSuccess) {
    df_play_failed("dfcclInitAll", error);
    return error;
  }
  return play_in_threads(ctxs, NULL, ranks);
}

static dfcclResult_t play_alone(void) { return play_all_here(1); }

static dfcclResult_t play_threads(void) { return play_all_here(RANKS); }

static dfcclResult_t play_by_id(void) {
  dfcclUniqueId id;
  dfcclResult_t error = dfcclGetUniqueId(&id);
  if (error == dfcclSuccess) return play_in_threads(NULL, &id, RANKS);
  df_play_failed("dfcclGetUniqueId", error);
  return error;
}

/* The file is empty, or has one whole object. */
static void expect_whole(const char *path) {
  static char text[1 << 16];
  FILE *file = fopen(path, "re");
  if (file == NULL) return; /* the file could not be created */
  size_t length = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[length] = '\0';
  int depth = 0;
  for (const char *at = text; *at; at++)
    depth += (*at == '{' || *at == '[') - (*at == '}' || *at == ']');
  CHECK(length == 0 || (depth == 0 && text[0] == '{' && text[length - 1] == '\n'),
        "the recording is cut off: %s", text + (length > 200 ? length - 200 : 0));
}

static dfcclResult_t play_recorded(void) {
  char directory[] = "/tmp/dfccl-faults-XXXXXX", name[64];
  CHECK(mkdtemp(directory) != NULL, "no temporary directory");
  setenv("DFCCL_RECORD", directory, 1);
  setenv("DFCCL_TRACE", directory, 1);
  dfcclResult_t error = play_all_here(2);
  unsetenv("DFCCL_RECORD");
  unsetenv("DFCCL_TRACE");
  for (int rank = 0; rank < 2; rank++) {
    snprintf(name, sizeof name, "%s/rank-%d.json", directory, rank);
    expect_whole(name);
    unlink(name);
    snprintf(name, sizeof name, "%s/rank-%d.trace", directory, rank);
    unlink(name);
  }
  rmdir(directory);
  return error;
}

/* ---- ranks as processes: a call fails in one of them ---- */

typedef struct {
  long position, calls;
  df_fault_kind kind;
  int victim;
  int errors[RANKS];
  bool fired;
} stage;

static void be_process(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  stage *scene = arg;
  dfcclContext_t ctx = NULL;
  dfcclConfig_t config = df_config();
  if (rank == scene->victim) df_fault_arm(scene->position, scene->kind);
  df_waiting_for("dfcclInit");
  dfcclResult_t error = dfcclInit(&ctx, ranks, *id, rank, &config);
  df_waiting_for(NULL);
  if (error != dfcclSuccess)
    df_play_failed("dfcclInit", error);
  else
    error = df_play(ctx, rank, ranks);
  scene->errors[rank] = (int)error;
  if (rank == scene->victim) {
    scene->calls = df_fault_disarm();
    scene->fired = df_fault_fired() != NULL;
  }
}

static stage *scene; /* shared with the ranks' processes */

static dfcclResult_t play_processes(void) {
  df_family family;
  df_fork(&family, RANKS, 60, be_process, scene);
  df_join(&family);
  for (int rank = 0; rank < RANKS; rank++)
    if (scene->errors[rank] != dfcclSuccess) return (dfcclResult_t)scene->errors[rank];
  return dfcclSuccess;
}

/* The ranks share no memory. */
static dfcclResult_t play_over_tcp(void) {
  setenv("DFCCL_NET", "tcp", 1);
  dfcclResult_t error = play_processes();
  unsetenv("DFCCL_NET");
  return error;
}

/* ---- all scenarios, all positions ---- */

static const struct scenario {
  const char *name;
  dfcclResult_t (*play)(void);
  int processes; /* the ranks are processes, and this one is the victim, from 1 */
  bool lingers;  /* the root of an id may exist for some seconds after a failure */
} scenarios[] = {
    {"alone", play_alone, 0, false},         {"threads", play_threads, 0, false},
    {"recorded", play_recorded, 0, false},   {"by-id", play_by_id, 0, true},
    {"process-0", play_processes, 1, false}, {"process-1", play_processes, 2, false},
    {"tcp-0", play_over_tcp, 1, false},      {"tcp-1", play_over_tcp, 2, false},
};

static struct {
  const struct scenario *scenario;
  df_fault_kind kind;
  long position;
} current;

static void print_repetition(void) {
  fprintf(stderr, "to repeat: faults --scenario %s --kind %s --position %ld (%s failed)\n",
          current.scenario->name, current.kind == DF_FAULT_HARD ? "hard" : "soft", current.position,
          df_fault_fired() ? df_fault_fired() : "nothing in this process");
}

static void on_crash(int signal_number) {
  print_repetition();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

static void expect_nothing_left(const df_belongings *before) {
  df_waiting_for(
      "the library's threads to end, its descriptors to be closed, its memory to be freed");
  EVENTUALLY(df_thread_count() <= before->threads);
  EVENTUALLY(df_descriptor_count() <= before->descriptors);
  EVENTUALLY(df_fault_live_blocks() <= before->blocks);
}

/* Plays the scenario once. Returns the number of calls that could have failed; *fired: one did
 * fail. */
static long play_once(const struct scenario *scenario, df_fault_kind kind, long position,
                      bool *fired) {
  char name[100];
  dfcclResult_t error;
  long calls;
  current.scenario = scenario;
  current.kind = kind;
  current.position = position;
  snprintf(name, sizeof name, "scenario %s, position %ld", scenario->name, position);
  df_watchdog_start(name, 60);
  /* The other ranks wait this long for a rank that fails before it has joined. */
  if (position > 0 && kind == DF_FAULT_HARD)
    setenv("DFCCL_INIT_TIMEOUT_MS", "2000", 1);
  else
    unsetenv("DFCCL_INIT_TIMEOUT_MS");
  if (scenario->processes > 0) {
    *scene = (stage){.position = position, .kind = kind, .victim = scenario->processes - 1};
    error = scenario->play();
    calls = scene->calls;
    *fired = scene->fired;
  } else {
    df_fault_arm(position, kind);
    error = scenario->play();
    calls = df_fault_disarm();
    *fired = df_fault_fired() != NULL;
  }
  bool may_fail = position > 0 && kind == DF_FAULT_HARD;
  CHECK(error == dfcclSuccess || may_fail, "%s although nothing failed that must not",
        df_test_result_name(error));
  return calls;
}

static void play_positions(const struct scenario *scenario, df_fault_kind kind) {
  bool fired;
  play_once(scenario, kind, 0, &fired); /* memory that the C library keeps from its first use */
  df_belongings before = df_take_stock();
  long calls = play_once(scenario, kind, 0, &fired), played = 0, hits = 0;
  df_random random = {options.seed};
  CHECK(calls < POSITIONS_MAX, "%ld calls", calls);
  bool sampled = options.sample >= 0 && options.sample < calls;
  long most = sampled ? options.sample : calls;
  for (long i = 0; i < most; i++) {
    long position = sampled ? 1 + df_random_below(&random, (int)calls) : i + 1;
    if (options.position > 0) position = options.position;
    play_once(scenario, kind, position, &fired);
    if (!scenario->lingers) expect_nothing_left(&before);
    played++;
    hits += fired;
    if (options.position > 0) break;
  }
  expect_nothing_left(&before);
  df_watchdog_stop();
  printf("ok - %s, %s: %ld calls, %ld played, %ld failed\n", scenario->name,
         kind == DF_FAULT_HARD ? "hard" : "soft", calls, played, hits);
  fflush(stdout);
}

static bool chosen(const char *wanted, const char *name) {
  return wanted == NULL || strcmp(wanted, name) == 0;
}

static const char usage[] =
    "usage: faults [--scenario NAME] [--kind hard|soft] [--position N]\n"
    "              [--sample N] [--seed S]\n"
    "  --scenario NAME   plays this scenario only\n"
    "  --kind hard|soft  calls that are refused, or calls that are interrupted;\n"
    "                    without it both\n"
    "  --position N      the N-th call fails; without it each call in turn\n"
    "  --sample N        plays N positions of each scenario, drawn from the seed\n"
    "  --seed S          seed of the sample\n";

static void read_options(int argc, char **argv) {
  for (int i = 1; i < argc; i += 2) {
    const char *value = argv[i + 1];
    if (strcmp(argv[i], "--help") == 0) exit(fputs(usage, stdout) == EOF);
    if (value != NULL && strcmp(argv[i], "--scenario") == 0)
      options.scenario = value;
    else if (value != NULL && strcmp(argv[i], "--kind") == 0)
      options.kind = value;
    else if (value != NULL && strcmp(argv[i], "--position") == 0)
      options.position = atol(value);
    else if (value != NULL && strcmp(argv[i], "--sample") == 0)
      options.sample = atol(value);
    else if (value != NULL && strcmp(argv[i], "--seed") == 0)
      options.seed = strtoull(value, NULL, 10);
    else {
      fprintf(stderr, "faults: %s is not an option, or has no value\n%s", argv[i], usage);
      exit(2);
    }
  }
}

int main(int argc, char **argv) {
  read_options(argc, argv);
  static const char *const kinds[] = {"hard", "soft"};
  const int n = (int)(sizeof scenarios / sizeof scenarios[0]);
  int plan = 0;
  scene = df_shared(sizeof *scene);
  current.scenario = scenarios;
  df_on_failure(print_repetition);
  signal(SIGSEGV, on_crash);
  signal(SIGBUS, on_crash);
  printf("TAP version 13\n");
  for (int s = 0; s < n; s++)
    for (int kind = 0; kind <= 1; kind++) {
      if (!chosen(options.scenario, scenarios[s].name) || !chosen(options.kind, kinds[kind]))
        continue;
      play_positions(&scenarios[s], (df_fault_kind)kind);
      plan++;
    }
  printf("1..%d\n", plan);
  return plan > 0 ? 0 : 2;
}
