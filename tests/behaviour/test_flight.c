/*
 * Promise: the flight recorder has the latest runs of a rank, always, in fixed memory.
 * DFCCL_FLIGHT=DIR: at the first failure, and at a dump, DIR/rank-R.flight.json has them, with the
 * name of a lost rank and the last run that it took part in, also if the program ends at the first
 * failure without dfcclDestroy, and also with config.survive. A directory that cannot be written
 * to, or a full disk, costs one warning, and the job goes on.
 * DFCCL_TEST_FLIGHT_JOBS: number of jobs that lose a rank.
 */
#include "support/buffers.h"
#include "support/processes.h"

#include <cjson/cJSON.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 8, TOGETHER = 7, OTHERS = 9, REMEMBERED = 2048 };

static char directory[64], path[128];

static void begin(void) {
  snprintf(directory, sizeof directory, "/tmp/dfccl-flight-XXXXXX");
  CHECK(mkdtemp(directory) != NULL, "mkdtemp");
  setenv("DFCCL_FLIGHT", directory, 1);
}

static void end(void) {
  CHECK(rmdir(directory) == 0, "other files are in %s", directory);
  unsetenv("DFCCL_FLIGHT");
}

/* NULL: there is no file. Removes the file. */
static cJSON *read_flight(int rank) {
  struct stat status;
  snprintf(path, sizeof path, "%s/rank-%d.flight.json", directory, rank);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  CHECK(fstat(fd, &status) == 0, "fstat");
  char *text = malloc((size_t)status.st_size + 1);
  CHECK(text != NULL && read(fd, text, (size_t)status.st_size) == status.st_size, "read");
  text[status.st_size] = '\0';
  close(fd);
  unlink(path);
  cJSON *root = cJSON_Parse(text);
  CHECK(root != NULL, "%s is no JSON: %.200s", path, text);
  free(text);
  return root;
}

static const cJSON *get(const cJSON *object, const char *name) {
  const cJSON *member = cJSON_GetObjectItemCaseSensitive(object, name);
  CHECK(member != NULL, "%s lacks %s", path, name);
  return member;
}

static double number(const cJSON *object, const char *name) {
  const cJSON *member = get(object, name);
  CHECK(cJSON_IsNumber(member), "%s: %s is no number", path, name);
  return member->valuedouble;
}

static bool is(const cJSON *object, const char *name, const char *text) {
  const cJSON *member = get(object, name);
  return cJSON_IsString(member) && strcmp(member->valuestring, text) == 0;
}

/* ---- a killed rank */

typedef struct {
  atomic_int ready, killed, named;
  int victim;
  bool survives;
  atomic_ullong submitted, ended; /* runs of the victim in TOGETHER */
} stage;

static void note_end(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  (void)id;
  *(dfcclResult_t *)arg = status;
}

static void note_view(dfcclContext_t ctx, const dfcclMembership_t *membership, void *arg) {
  (void)ctx, (void)membership;
  atomic_fetch_add(&((stage *)arg)->named, 1);
}

/* Every other survivor waits, the rest have callbacks. Both end the process at once. */
static void work(dfcclContext_t ctx, int rank, stage *scene) {
  static float data[64];
  for (unsigned long long run = 0;; run++) {
    dfcclResult_t status = dfcclSuccess;
    if (rank == scene->victim) atomic_store(&scene->submitted, run + 1);
    dfcclResult_t result = dfcclRunAllReduce(ctx, TOGETHER, data, data, rank % 2 ? note_end : NULL,
                                             rank % 2 ? &status : NULL);
    if (result == dfcclSuccess) result = dfcclWait(ctx, TOGETHER);
    if (result != dfcclSuccess) return;
    if (rank == scene->victim) atomic_store(&scene->ended, run + 1);
    if (run == 20) atomic_fetch_add(&scene->ready, 1);
    if (scene->survives && atomic_load(&scene->named) >= RANKS - 1) return;
    if (rank == scene->victim || scene->survives) continue;
    if (dfcclRunAllReduce(ctx, OTHERS, data, data, NULL, NULL) != dfcclSuccess ||
        dfcclWait(ctx, OTHERS) != dfcclSuccess)
      return;
  }
}

static void be_rank(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  stage *scene = arg;
  dfcclConfig_t config = df_config();
  if (scene->survives) {
    config.survive = 1;
    config.membership = note_view;
    config.membershipArg = scene;
  }
  dfcclContext_t ctx = df_init(rank, ranks, id, &config);
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  int others[RANKS], n = 0;
  for (int r = 0; r < ranks; r++)
    if (r != scene->victim) others[n++] = r;
  options.name = "gradients";
  OK(dfcclRegisterAllReduce(ctx, TOGETHER, 64, dfcclFloat32, dfcclSum, &options));
  options.name = "without the victim";
  options.ranks = others;
  options.nRanks = n;
  if (rank != scene->victim)
    OK(dfcclRegisterAllReduce(ctx, OTHERS, 64, dfcclFloat32, dfcclSum, &options));
  work(ctx, rank, scene);
  CHECK(rank != scene->victim && atomic_load(&scene->killed), "rank %d has failed: %s", rank,
        dfcclGetLastError(ctx));
  if (!scene->survives) _exit(0);
  df_finish(ctx);
}

/* The victim has ended run `ended` - 1. A survivor may have lost the victim before it took that
 * run's end, but not the end of the run before. */
static void check_loss(const cJSON *root, const stage *scene) {
  const cJSON *loss;
  cJSON_ArrayForEach(loss, get(root, "lost")) if ((int)number(loss, "rank") == scene->victim) break;
  CHECK(loss != NULL, "%s does not name rank %d: %s", path, scene->victim, cJSON_Print(root));
  const cJSON *last = get(loss, "last_run");
  CHECK(cJSON_IsObject(last) && is(last, "collective", "7") && is(last, "name", "gradients"),
        "%s: %s", path, cJSON_Print(loss));
  const double run = number(last, "run"), ended = (double)atomic_load(&scene->ended),
               submitted = (double)atomic_load(&scene->submitted);
  CHECK(run + 2 >= ended && run < submitted, "run %.0f, but rank %d has ended %.0f of %.0f runs",
        run, scene->victim, ended, submitted);
}

static void kill_one(df_random *random, bool survives) {
  stage *scene = df_shared(sizeof *scene);
  df_family family;
  begin();
  scene->victim = (int)df_random_below(random, RANKS);
  scene->survives = survives;
  df_fork(&family, RANKS, 60, be_rank, scene);
  EVENTUALLY(atomic_load(&scene->ready) == RANKS);
  usleep((useconds_t)df_random_below(random, 5000));
  atomic_store(&scene->killed, 1);
  kill(family.pids[scene->victim], SIGKILL);
  for (int rank = 0; rank < RANKS; rank++) {
    const int status = df_reap(&family, rank);
    if (rank != scene->victim) CHECK(status == 0, "rank %d ended with status %d", rank, status);
  }
  for (int rank = 0; rank < RANKS; rank++) {
    if (rank == scene->victim) continue;
    cJSON *root = read_flight(rank);
    CHECK(root != NULL, "rank %d has written no file", rank);
    check_loss(root, scene);
    CHECK(survives || is(get(root, "failure"), "status", "dfcclRemoteError"), "%s", path);
    cJSON_Delete(root);
  }
  end();
}

DF_TEST(flight, a_killed_rank_is_named, 600) {
  const char *jobs = getenv("DFCCL_TEST_FLIGHT_JOBS");
  df_random random = {2026};
  for (int i = 0; i < (jobs ? atoi(jobs) : 4); i++) kill_one(&random, false);
}

DF_TEST(flight, a_lost_rank_is_named_by_those_who_go_on, 120) {
  df_random random = {31};
  for (int i = 0; i < 2; i++) kill_one(&random, true);
}

/* ---- the contents */

static const cJSON *collective(const cJSON *root, const cJSON *run) {
  const cJSON *coll = cJSON_GetArrayItem(get(root, "collectives"), (int)number(run, "of"));
  CHECK(coll != NULL, "%s: a run of no collective", path);
  return coll;
}

static void check_times(const cJSON *root) {
  const cJSON *run;
  double before = 0;
  cJSON_ArrayForEach(run, get(root, "runs")) {
    const double submitted = number(run, "submitted_ns");
    CHECK(submitted >= before && number(run, "slack_ns") >= 0, "%s: order", path);
    before = submitted;
    if (is(run, "state", "waiting")) continue;
    CHECK(number(run, "begun_ns") >= submitted, "%s: begun", path);
    if (is(run, "state", "ended"))
      CHECK(number(run, "ended_ns") >= number(run, "begun_ns") &&
                number(run, "ended_ns") <= number(root, "written_ns"),
            "%s: ended", path);
  }
}

/* Runs of a collective that no longer exists, more runs than the recorder has room for, a run that
 * waits for the other rank, and runs behind it. */
DF_TEST(flight, dumps_have_all_states, 60) {
  enum { RUNS = 5000, OPEN = 10 };
  dfcclContext_t ctxs[2];
  static float data[2][16];
  begin();
  df_make_contexts(ctxs, 2, NULL);
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.name = "many \"runs\"";
  for (int r = 0; r < 2; r++)
    OK(dfcclRegisterAllReduce(ctxs[r], 1, 16, dfcclFloat32, dfcclSum, &options));
  options.name = "gone";
  for (int r = 0; r < 2; r++) OK(dfcclRegisterBroadcast(ctxs[r], 2, 3, dfcclInt64, 1, &options));
  for (int i = 0; i < RUNS; i++) {
    for (int r = 0; r < 2; r++) OK(dfcclRunAllReduce(ctxs[r], 1, data[r], data[r], NULL, NULL));
    for (int r = 0; r < 2; r++) OK(dfcclWait(ctxs[r], 1));
  }
  for (int r = 0; r < 2; r++) OK(dfcclRunBroadcast(ctxs[r], 2, data[r], data[r], NULL, NULL));
  for (int r = 0; r < 2; r++) OK(dfcclWait(ctxs[r], 2));
  for (int r = 0; r < 2; r++) OK(dfcclDeregister(ctxs[r], 2));
  for (int i = 0; i < OPEN; i++) OK(dfcclRunAllReduce(ctxs[0], 1, data[0], data[0], NULL, NULL));
  const int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
  OK(dfcclDump(ctxs[0], fd));
  close(fd);
  cJSON *root = read_flight(0);
  CHECK(root != NULL && is(root, "reason", "dump"), "no dump");
  CHECK(cJSON_IsNull(get(root, "failure")) && cJSON_GetArraySize(get(root, "lost")) == 0, "lost");
  CHECK(number(root, "forgotten") == RUNS + 1 - REMEMBERED && number(root, "open") == OPEN,
        "%.0f forgotten, %.0f open", number(root, "forgotten"), number(root, "open"));
  const cJSON *runs = get(root, "runs"), *run;
  CHECK(cJSON_GetArraySize(runs) == REMEMBERED + OPEN, "%d runs", cJSON_GetArraySize(runs));
  CHECK(cJSON_GetArraySize(get(root, "entries")) == REMEMBERED + OPEN, "entries");
  check_times(root);
  int waiting = 0, running = 0, gone = 0;
  double next = RUNS + 1 - REMEMBERED;
  cJSON_ArrayForEach(run, runs) {
    waiting += is(run, "state", "waiting");
    running += is(run, "state", "running");
    if (is(collective(root, run), "name", "gone")) {
      gone++;
      CHECK(is(collective(root, run), "operation", "Broadcast") && number(run, "bytes") == 24,
            "the broadcast");
    } else {
      CHECK(number(run, "run") == next && number(run, "bytes") == 64, "run %.0f", next);
      next++;
    }
  }
  CHECK(gone == 1 && running > 0 && waiting + running == OPEN, "%d, %d and %d runs", gone, running,
        waiting);
  cJSON_Delete(root);
  for (int i = 0; i < OPEN; i++) OK(dfcclRunAllReduce(ctxs[1], 1, data[1], data[1], NULL, NULL));
  df_free_contexts(ctxs, 2);
  end();
}

/* ---- no room */

static int warnings(const char *log) {
  static char text[1 << 16];
  const int fd = open(log, O_RDONLY | O_CLOEXEC);
  const ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
  CHECK(length >= 0, "%s cannot be read", log);
  text[length] = '\0';
  close(fd);
  int n = 0;
  for (const char *at = text; (at = strstr(at, "cannot write the flight recorder's file")); at++)
    n++;
  return n;
}

/* Two dumps, which nobody can write. The program's standard error goes to a file. */
static void dump_without_room(const char *where, bool is_full) {
  char log[] = "/tmp/dfccl-flight-log-XXXXXX";
  static float data[16];
  dfcclContext_t ctx;
  const int errors = dup(STDERR_FILENO), fd = mkstemp(log);
  const struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY}, small = {4096, RLIM_INFINITY};
  CHECK(errors >= 0 && fd >= 0 && dup2(fd, STDERR_FILENO) >= 0, "standard error");
  setenv("DFCCL_FLIGHT", where, 1);
  setenv("DFCCL_DEBUG", "warn", 1);
  df_make_contexts(&ctx, 1, NULL);
  OK(dfcclRegisterAllReduce(ctx, 1, 16, dfcclFloat32, dfcclSum, NULL));
  if (is_full) CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0, "setrlimit");
  const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
  for (int i = 0; i < 200; i++) {
    OK(dfcclRunAllReduce(ctx, 1, data, data, NULL, NULL));
    OK(dfcclWait(ctx, 1));
    if (i % 100 == 99) OK(dfcclDump(ctx, null));
  }
  if (is_full) CHECK(setrlimit(RLIMIT_FSIZE, &unlimited) == 0, "setrlimit");
  df_free_contexts(&ctx, 1);
  unsetenv("DFCCL_DEBUG");
  unsetenv("DFCCL_FLIGHT");
  dup2(errors, STDERR_FILENO);
  close(errors);
  close(fd);
  close(null);
  CHECK(warnings(log) == 1, "%d warnings about %s", warnings(log), where);
  unlink(log);
}

DF_TEST(flight, without_room_the_job_goes_on, 60) {
  dump_without_room("/no/such/directory", false);
  begin();
  dump_without_room(directory, true);
  CHECK(read_flight(0) == NULL, "a part of a file is there");
  end();
}
