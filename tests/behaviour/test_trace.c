/*
 * Promise: DFCCL_TRACE=DIR leaves one file for each rank, with a JSON object in each line. There is
 * a line for every run, callback and synchronisation, and a description of each collective before
 * its first run and after each change of its algorithm. So the file gives the configuration of each
 * run and its reason, on every member, equal to dfcclGetConfiguration's. Failures have their
 * sentences. Runs that wait are in the file before they end. A full disk ends the trace, and never
 * the job. A directory that cannot be written is refused by name.
 */
#include "support/buffers.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { RANKS = 2 };

/* The library's calls come here: failed runs are counted by the writes that contain one. */
static atomic_int failed_writes;

__attribute__((visibility("default"))) ssize_t write(int fd, const void *bytes, size_t length) {
  static const char failed[] = "\"status\":10}";
  if (memmem(bytes, length, failed, sizeof failed - 1)) atomic_fetch_add(&failed_writes, 1);
  return syscall(SYS_write, fd, bytes, length);
}

static char directory[64], text[1 << 20];

static void begin(void) {
  snprintf(directory, sizeof directory, "/tmp/dfccl-trace-XXXXXX");
  CHECK(mkdtemp(directory) != NULL, "mkdtemp");
  setenv("DFCCL_TRACE", directory, 1);
}

static void load(const char *path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
  CHECK(length >= 0, "%s cannot be read", path);
  close(fd);
  text[length] = '\0';
}

/* Reads the rank's trace into text, and removes the file. */
static void read_trace(int rank) {
  char path[128];
  snprintf(path, sizeof path, "%s/rank-%d.trace", directory, rank);
  load(path);
  unlink(path);
}

static void end(void) {
  CHECK(rmdir(directory) == 0, "other files are in %s", directory);
  unsetenv("DFCCL_TRACE");
}

static int count(const char *what) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what)) n++;
  return n;
}

/* Each line is one complete object. */
static void check_lines(void) {
  for (const char *at = text; *at;) {
    const char *line_end = strchr(at, '\n');
    CHECK(line_end != NULL && *at == '{' && line_end[-1] == '}', "a line is cut off: %.100s", at);
    at = line_end + 1;
  }
}

static void nothing(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  (void)id;
  (void)arg;
  CHECK(status == dfcclSuccess, "the run failed");
}

static uint64_t switches_of(dfcclContext_t ctx) {
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  OK(dfcclGetConfiguration(ctx, 1, &c));
  return c.switches;
}

DF_TEST(trace, every_run_callback_and_change, 60) {
  dfcclContext_t ctxs[RANKS];
  float data[RANKS][4] = {{1}};
  begin();
  df_make_contexts(ctxs, RANKS, NULL);
  df_collective coll = df_simple(40, RANKS);
  coll.name = "with \"quotes\" and \\";
  df_register_all(ctxs, 1, &coll);
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRegisterAllReduce(ctxs[r], 2, 4, dfcclFloat32, dfcclSum, NULL));
  uint64_t run = 0;
  for (; run < 3; run++) df_exchange(ctxs, 1, &coll, run, 0);
  OK(dfcclDeviceSynchronize(ctxs[0]));
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRunAllReduce(ctxs[r], 2, data[r], data[r], nothing, NULL));
  for (int r = 0; r < RANKS; r++) OK(dfcclWait(ctxs[r], 2));
  OK(dfcclSetAlgorithm(ctxs[0], 1, "ring"));
  do df_exchange(ctxs, 1, &coll, run++, 0);
  while (switches_of(ctxs[0]) < 1 || switches_of(ctxs[1]) < 1);
  df_exchange(ctxs, 1, &coll, run++, 0);
  df_free_contexts(ctxs, RANKS);
  for (int r = 0; r < RANKS; r++) {
    read_trace(r);
    check_lines();
    CHECK(count("{\"run\":") == (int)run + 1, "%d runs of %d", count("{\"run\":"), (int)run + 1);
    CHECK(count("\"status\":0}") == (int)run + 1, "%d runs ended well", count("\"status\":0}"));
    CHECK(count("{\"callback\":") == 1, "%d callbacks", count("{\"callback\":"));
    CHECK(count("{\"synchronise\":") == (r == 0), "%d synchronisations",
          count("{\"synchronise\":"));
    CHECK(count("{\"collective\":1,") == 2, "%d descriptions", count("{\"collective\":1,"));
    CHECK(count("{\"collective\":2,") == 1, "the other collective is described once");
    CHECK(count("\"algorithm\":\"ring\"") == 1, "the change is not there");
    CHECK(count("\"purpose\":\"registered\",\"why\":\"since this is the first rule that fits") == 2,
          "the rule is not there");
    CHECK(count("\"purpose\":\"asked\",\"why\":\"as dfcclSetAlgorithm says\"") == 1, "the caller");
    CHECK(count("with \\\"quotes\\\" and \\\\") == 2, "the name");
    CHECK(strstr(text, "{\"end\":\"whole\"}\n") != NULL, "the end is not there");
  }
  end();
}

/* ---- a tuned job */

typedef struct {
  unsigned long long switches, from_run;
  unsigned slot_bytes, slots, blocks, lends;
  char algorithm[24], form[16], purpose[16], why[200];
} described;

enum { DESCRIBED_MAX = 1000 };

static const char *after(const char *line, const char *key) {
  const char *at = strstr(line, key);
  CHECK(at != NULL, "%s is not in %.400s", key, line);
  return at + strlen(key);
}

static int read_descriptions(described *all) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, "{\"collective\":1,")) != NULL; at++, n++) {
    described *d = &all[n];
    CHECK(n < DESCRIBED_MAX, "%d descriptions", n);
    CHECK(sscanf(after(at, "\"algorithm\":"), "\"%23[^\"]\",", d->algorithm) == 1 &&
              sscanf(after(at, "\"blocks\":"), "%u", &d->blocks) == 1 &&
              sscanf(after(at, "\"slot_bytes\":"), "%u", &d->slot_bytes) == 1 &&
              sscanf(after(at, "\"slots\":"), "%u", &d->slots) == 1 &&
              sscanf(after(at, "\"form\":"), "\"%15[^\"]\"", d->form) == 1 &&
              sscanf(after(at, "\"lends\":"), "%u", &d->lends) == 1 &&
              sscanf(after(at, "\"switch\":"), "%llu", &d->switches) == 1 &&
              sscanf(after(at, "\"from_run\":"), "%llu", &d->from_run) == 1 &&
              sscanf(after(at, "\"purpose\":"), "\"%15[^\"]\"", d->purpose) == 1 &&
              sscanf(after(at, "\"why\":"), "\"%199[^\"]\"", d->why) == 1,
          "%.400s", at);
  }
  return n;
}

/* Until the tuner's search has ended, and for some further runs. */
static unsigned long long tune(dfcclContext_t ctxs[RANKS]) {
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  static float data[RANKS][4096];
  dfcclConfiguration_t c;
  unsigned long long runs = 0;
  options.tune = 1;
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRegisterAllReduce(ctxs[r], 1, 4096, dfcclFloat32, dfcclSum, &options));
  for (int more = 0; more < 40; runs++) {
    for (int r = 0; r < RANKS; r++) OK(dfcclRunAllReduce(ctxs[r], 1, data[r], data[r], NULL, NULL));
    for (int r = 0; r < RANKS; r++) OK(dfcclWait(ctxs[r], 1));
    c = (dfcclConfiguration_t)DFCCL_CONFIGURATION_INITIALIZER;
    OK(dfcclGetConfiguration(ctxs[0], 1, &c));
    if (more > 0 || strstr(c.why, "tuner: it is watching")) more++;
  }
  return runs;
}

static void check_against(const described *last, const dfcclConfiguration_t *c) {
  char line[300];
  CHECK(
      last->switches == c->switches && strcmp(last->algorithm, c->algorithm) == 0 &&
          strcmp(last->form, c->form) == 0 && last->blocks == c->blocks &&
          last->slot_bytes == c->slotBytes && last->slots == c->slots &&
          last->lends == c->lendsBuffers,
      "trace: switch %llu, %s, %s, %u blocks, %u slots of %u; configuration: %llu, %s, %s, %u, %u "
      "of %llu",
      last->switches, last->algorithm, last->form, last->blocks, last->slots, last->slot_bytes,
      (unsigned long long)c->switches, c->algorithm, c->form, c->blocks, c->slots,
      (unsigned long long)c->slotBytes);
  snprintf(line, sizeof line, "registered, %s\n", last->why);
  CHECK(strstr(c->why, line) != NULL, "\"%s\" is not in \"%s\"", line, c->why);
}

DF_TEST(trace, every_member_traces_the_reason_of_a_switch, 120) {
  dfcclContext_t ctxs[RANKS];
  static described all[RANKS][DESCRIBED_MAX];
  int n[RANKS], candidates = 0;
  dfcclConfiguration_t last[RANKS];
  setenv("DFCCL_TUNE_BUDGET", "0", 1);
  begin();
  df_make_contexts(ctxs, RANKS, NULL);
  const unsigned long long runs = tune(ctxs);
  for (int r = 0; r < RANKS; r++) {
    last[r] = (dfcclConfiguration_t)DFCCL_CONFIGURATION_INITIALIZER;
    OK(dfcclGetConfiguration(ctxs[r], 1, &last[r]));
  }
  df_free_contexts(ctxs, RANKS);
  for (int r = 0; r < RANKS; r++) {
    read_trace(r);
    check_lines();
    CHECK((unsigned long long)count("{\"run\":") == runs, "%d runs", count("{\"run\":"));
    n[r] = read_descriptions(all[r]);
    check_against(&all[r][n[r] - 1], &last[r]);
  }
  end();
  unsetenv("DFCCL_TUNE_BUDGET");
  CHECK(n[0] == n[1] && n[0] > 4, "%d and %d descriptions", n[0], n[1]);
  for (int i = 0; i < n[0]; i++) {
    const described *a = &all[0][i], *b = &all[1][i];
    /* The other member receives the winner's purpose some runs later. */
    const int is_switch = i == 0 || a->switches != all[0][i - 1].switches;
    CHECK(a->switches == b->switches && (!is_switch || a->from_run == b->from_run) &&
              strcmp(a->algorithm, b->algorithm) == 0 && strcmp(a->purpose, b->purpose) == 0 &&
              strcmp(a->why, b->why) == 0,
          "%llu from %llu: %s, %s; %llu from %llu: %s, %s", a->switches, a->from_run, a->algorithm,
          a->purpose, b->switches, b->from_run, b->algorithm, b->purpose);
    candidates += strcmp(a->purpose, "candidate") == 0;
  }
  CHECK(strcmp(all[0][0].purpose, "registered") == 0 && candidates >= 4, "%d candidates",
        candidates);
  CHECK(strcmp(all[0][n[0] - 1].purpose, "back") == 0 ||
            strcmp(all[0][n[0] - 1].purpose, "adopted") == 0,
        "at the end: %s", all[0][n[0] - 1].purpose);
}

static void leave_with_the_last(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  (void)status;
  OK(dfcclDeregister(arg, id));
}

/* The last run after a plan switch is traced before the run's callback deregisters the
 * collective. */
DF_TEST(trace, a_collective_deregistered_in_its_callback, 60) {
  dfcclContext_t ctxs[RANKS];
  float data[RANKS][4] = {{1}};
  begin();
  df_make_contexts(ctxs, RANKS, NULL);
  df_collective coll = df_simple(4, RANKS);
  df_register_all(ctxs, 1, &coll);
  uint64_t run = 0;
  for (; run < 3; run++) df_exchange(ctxs, 1, &coll, run, 0);
  OK(dfcclSetAlgorithm(ctxs[0], 1, "ring"));
  do df_exchange(ctxs, 1, &coll, run++, 0);
  while (switches_of(ctxs[0]) < 1 || switches_of(ctxs[1]) < 1);
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRunAllReduce(ctxs[r], 1, data[r], data[r], leave_with_the_last, ctxs[r]));
  for (int r = 0; r < RANKS; r++) OK(dfcclWaitAll(ctxs[r]));
  df_free_contexts(ctxs, RANKS);
  for (int r = 0; r < RANKS; r++) {
    read_trace(r);
    CHECK(count("{\"collective\":1,") == 2, "%d descriptions", count("{\"collective\":1,"));
    const char *ring = strstr(text, "\"algorithm\":\"ring\"");
    CHECK(ring && strstr(ring, "\"switch\":1,"), "the change is not there");
    CHECK(strstr(ring + 1, "\"algorithm\":") == NULL, "something is described after it");
  }
  end();
}

DF_TEST(trace, failed_runs_are_traced, 60) {
  dfcclContext_t ctxs[RANKS];
  float data[4] = {1};
  begin();
  df_make_contexts(ctxs, RANKS, NULL);
  OK(dfcclRegisterAllReduce(ctxs[0], 2, 4, dfcclFloat32, dfcclSum, NULL));
  OK(dfcclRunAllReduce(ctxs[0], 2, data, data, NULL, NULL)); /* its peer never submits it */
  OK(dfcclAbort(ctxs[0]));
  df_free_contexts(ctxs, RANKS);
  read_trace(0);
  check_lines();
  CHECK(count("{\"run\":0,") == 1 && count("\"status\":10}") == 1, "dfcclAborted: %s", text);
  CHECK(count("{\"broken\":1,\"status\":10,") == 1 && count("{\"failure\":1,\"status\":10,") == 1 &&
            count("\"why\":\"rank 0 called dfcclAbort\"") == 2,
        "the reason: %s", text);
  read_trace(1);
  check_lines();
  end();
}

DF_TEST(trace, a_mismatch_is_traced_with_its_sentence, 60) {
  dfcclContext_t ctxs[RANKS];
  float data[4] = {1};
  begin();
  df_make_contexts(ctxs, RANKS, NULL);
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRegisterAllReduce(ctxs[r], 2, (size_t)(3 + r % 2), dfcclFloat32, dfcclSum, NULL));
  for (int r = 0; r < RANKS; r++)
    while (dfcclRunAllReduce(ctxs[r], 2, data, data, NULL, NULL) == dfcclSuccess) usleep(1000);
  df_free_contexts(ctxs, RANKS);
  for (int r = 0; r < RANKS; r++) {
    read_trace(r);
    check_lines();
    CHECK(count("{\"failure\":1,\"status\":9,") == 1 &&
              count("rank 0 registered 3 elements, rank 1 registered 4") == 1,
          "%s", text);
  }
  end();
}

/* The file has the runs in which a job hangs, although none of them has ended. A program that is
 * killed leaves it so. */
DF_TEST(trace, runs_that_wait_are_in_the_file, 60) {
  dfcclContext_t ctxs[RANKS];
  float data[RANKS][4] = {{1}};
  char path[200];
  begin();
  df_make_contexts(ctxs, RANKS, NULL);
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRegisterAllReduce(ctxs[r], 2, 4, dfcclFloat32, dfcclSum, NULL));
  for (int r = 0; r < RANKS; r++) OK(dfcclRunAllReduce(ctxs[r], 2, data[r], data[r], NULL, NULL));
  for (int r = 0; r < RANKS; r++) OK(dfcclWait(ctxs[r], 2));
  for (int run = 0; run < 2; run++) /* its peer never submits them */
    OK(dfcclRunAllReduce(ctxs[0], 2, data[0], data[0], NULL, NULL));
  for (int r = 0; r < RANKS; r++) {
    const char *last =
        r == 0 ? "{\"waiting\":1,\"from_run\":1,\"until_run\":3,\"from\":" : "{\"run\":0,\"of\":1,";
    snprintf(path, sizeof path, "%s/rank-%d.trace", directory, r);
    do {
      usleep(10000);
      load(path);
    } while (strstr(text, last) == NULL);
    CHECK(count("{\"run\":") == 1, "%s", text);
  }
  OK(dfcclAbort(ctxs[0]));
  df_free_contexts(ctxs, RANKS);
  for (int r = 0; r < RANKS; r++) read_trace(r);
  end();
}

/* A program that ends at its first failure, without dfcclDestroy, leaves it in the file. */
DF_TEST(trace, failures_are_written_at_once, 60) {
  dfcclContext_t ctxs[RANKS];
  float data[4] = {1};
  char path[200];
  begin();
  df_make_contexts(ctxs, RANKS, NULL);
  OK(dfcclRegisterAllReduce(ctxs[0], 2, 4, dfcclFloat32, dfcclSum, NULL));
  OK(dfcclRunAllReduce(ctxs[0], 2, data, data, NULL, NULL)); /* its peer never submits it */
  OK(dfcclAbort(ctxs[0]));
  RESULT(dfcclWait(ctxs[0], 2), dfcclAborted);
  snprintf(path, sizeof path, "%s/rank-0.trace", directory);
  load(path);
  CHECK(count("\"status\":10}") == 1, "the run has ended, and the file has: %s", text);
  df_free_contexts(ctxs, RANKS);
  for (int r = 0; r < RANKS; r++) read_trace(r);
  end();
}

/* Each write takes time under the lock of the context. */
DF_TEST(trace, failures_of_one_moment_are_one_write, 60) {
  enum { COLLECTIVES = 50 };
  dfcclContext_t ctxs[RANKS];
  float data[4] = {1};
  begin();
  df_make_contexts(ctxs, RANKS, NULL);
  for (dfcclCollId_t id = 0; id < COLLECTIVES; id++) {
    OK(dfcclRegisterAllReduce(ctxs[0], id, 4, dfcclFloat32, dfcclSum, NULL));
    OK(dfcclRunAllReduce(ctxs[0], id, data, data, NULL, NULL)); /* its peer never submits it */
  }
  OK(dfcclAbort(ctxs[0]));
  for (dfcclCollId_t id = 0; id < COLLECTIVES; id++) RESULT(dfcclWait(ctxs[0], id), dfcclAborted);
  df_free_contexts(ctxs, RANKS);
  CHECK(atomic_load(&failed_writes) > 0 && atomic_load(&failed_writes) < COLLECTIVES / 2,
        "%d writes", atomic_load(&failed_writes));
  read_trace(0);
  CHECK(count("\"status\":10}") == COLLECTIVES, "%s", text);
  read_trace(1);
  end();
}

DF_TEST(trace, a_full_disk_never_ends_the_job, 60) {
  struct rlimit before, little;
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0, "getrlimit");
  for (rlim_t room = 0; room < 1500; room += 300) {
    dfcclContext_t ctxs[RANKS];
    begin();
    df_make_contexts(ctxs, RANKS, NULL);
    df_collective coll = df_simple(40, RANKS);
    df_register_all(ctxs, 1, &coll);
    df_exchange(ctxs, 1, &coll, 0,
                0); /* the mapping is made before the limit: files may grow for it */
    little = (struct rlimit){room, before.rlim_max};
    CHECK(setrlimit(RLIMIT_FSIZE, &little) == 0, "setrlimit");
    for (uint64_t run = 1; run < 50; run++) df_exchange(ctxs, 1, &coll, run, 0);
    df_free_contexts(ctxs, RANKS);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0, "setrlimit");
    for (int r = 0; r < RANKS; r++) {
      read_trace(r);
      CHECK(count("{\"run\":") < 50 && count("\"end\"") == 0, "%zu bytes", strlen(text));
    }
    end();
  }
}

DF_TEST(trace, a_directory_that_cannot_be_written_is_named, 30) {
  dfcclContext_t ctxs[RANKS];
  setenv("DFCCL_TRACE", "/no/such/directory", 1);
  RESULT(dfcclInitAll(ctxs, RANKS, NULL), dfcclInvalidUsage);
  CHECK(strstr(dfcclGetLastError(NULL), "DFCCL_TRACE: cannot write /no/such/directory/rank-0") !=
            NULL,
        "\"%s\"", dfcclGetLastError(NULL));
  unsetenv("DFCCL_TRACE");
}
