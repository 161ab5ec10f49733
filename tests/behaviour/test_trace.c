/*
 * Promise: DFCCL_TRACE=DIR leaves one file for each rank: a JSON object in each line, with a line for
 * every run, callback and synchronisation, and a description of each collective before its first
 * run and after each change of its algorithm. A full disk ends the trace, and never
 * the job. A directory that cannot be written is refused by name.
 */
#include "support/buffers.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { RANKS = 2 };

static char directory[64], text[1 << 20];

static void begin(void) {
  snprintf(directory, sizeof directory, "/tmp/dfccl-trace-XXXXXX");
  CHECK(mkdtemp(directory) != NULL, "mkdtemp");
  setenv("DFCCL_TRACE", directory, 1);
}

/* Reads the rank's trace into text, and removes it. */
static void read_trace(int rank) {
  char path[128];
  snprintf(path, sizeof path, "%s/rank-%d.trace", directory, rank);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  const ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
  CHECK(length >= 0, "%s cannot be read", path);
  close(fd);
  text[length] = '\0';
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

/* Each line begins and ends as an object. */
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
    CHECK(count("with \\\"quotes\\\" and \\\\") == 2, "the name");
    CHECK(strstr(text, "{\"end\":\"whole\"}\n") != NULL, "the end is not there");
  }
  end();
}

DF_TEST(trace, runs_that_fail_say_so, 60) {
  dfcclContext_t ctxs[RANKS];
  float data[4] = {1};
  begin();
  df_make_contexts(ctxs, RANKS, NULL);
  OK(dfcclRegisterAllReduce(ctxs[0], 2, 4, dfcclFloat32, dfcclSum, NULL));
  OK(dfcclRunAllReduce(ctxs[0], 2, data, data, NULL, NULL)); /* its peer never comes */
  OK(dfcclAbort(ctxs[0]));
  df_free_contexts(ctxs, RANKS);
  read_trace(0);
  check_lines();
  CHECK(count("{\"run\":0,") == 1 && count("\"status\":10}") == 1, "dfcclAborted: %s", text);
  read_trace(1);
  check_lines();
  end();
}

DF_TEST(trace, a_full_disk_never_ends_the_job, 60) {
  struct rlimit before, little;
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0, "getrlimit");
  signal(SIGXFSZ, SIG_IGN);
  for (rlim_t room = 0; room < 1500; room += 300) {
    dfcclContext_t ctxs[RANKS];
    begin();
    df_make_contexts(ctxs, RANKS, NULL);
    df_collective coll = df_simple(40, RANKS);
    df_register_all(ctxs, 1, &coll);
    df_exchange(ctxs, 1, &coll, 0, 0); /* its memory stands: files may grow for it */
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
