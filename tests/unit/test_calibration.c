/*
 * Promises: rules of the machine's calibration are used by groups of one host, unless
 * DFCCL_CALIBRATION is 0 or the ranks have different ones. A file that is damaged, of another
 * machine, or too long is left out, and the job goes on. Limits behind a name reach the
 * configuration, and members that name different ones fail with both.
 */
#include "support/processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tuning/calibration.h"

enum { RANKS = 3, ID = 5, COUNT = 1000 };

static char home[] = "/tmp/dfccl-calibration-XXXXXX";

static void make_home(void) {
  strcpy(home + strlen(home) - 6, "XXXXXX");
  CHECK(mkdtemp(home) != NULL, "mkdtemp");
  setenv("XDG_CACHE_HOME", home, 1);
  setenv("DFCCL_CALIBRATION", "1", 1);
}

static const char *path_of_file(void) {
  static char path[DF_CALIBRATION_PATH_BYTES];
  CHECK(df_calibration_path(home, NULL, path), "no path");
  CHECK(strncmp(path, home, strlen(home)) == 0, "%s is not in %s", path, home);
  return path;
}

/* machine NULL: this one. */
static void write_calibration(const char *machine, const char *rules) {
  char directory[200], own[DF_CALIBRATION_MACHINE_BYTES];
  df_calibration_describe_machine(own);
  snprintf(directory, sizeof directory, "%s/dfccl", home);
  mkdir(directory, 0700);
  FILE *file = fopen(path_of_file(), "w");
  CHECK(file != NULL, "cannot write %s", path_of_file());
  fprintf(file, "dfccl-tuning 1\n# calibrated: %s\n%s", machine ? machine : own, rules);
  fclose(file);
}

static void drop_home(void) {
  char directory[200];
  unlink(path_of_file());
  snprintf(directory, sizeof directory, "%s/dfccl", home);
  rmdir(directory);
  rmdir(home);
  unsetenv("XDG_CACHE_HOME");
  setenv("DFCCL_CALIBRATION", "0", 1);
}

static void end(dfcclContext_t *ctxs) {
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclDestroy(ctxs[rank]));
}

static void expect_why(const char *expected, int is_there) {
  dfcclContext_t ctxs[RANKS];
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  OK(dfcclInitAll(ctxs, RANKS, NULL));
  for (int rank = 0; rank < RANKS; rank++)
    OK(dfcclRegisterAllReduce(ctxs[rank], ID, COUNT, dfcclInt32, dfcclSum, NULL));
  OK(dfcclGetConfiguration(ctxs[0], ID, &c));
  CHECK((strstr(c.why, expected) != NULL) == is_there, "\"%s\": %s", expected, c.why);
  end(ctxs);
}

static const char rule[] = "allreduce 3 * process doubletree slot=256\n";
static const char used[] =
    "of the machine's calibration (DFCCL_CALIBRATION), line 3: allreduce     3";

DF_TEST(calibration, rules_are_used_unless_switched_off, 60) {
  make_home();
  expect_why(used, 0); /* there is no file */
  write_calibration(NULL, rule);
  expect_why(used, 1);
  setenv("DFCCL_CALIBRATION", "0", 1);
  expect_why(used, 0);
  drop_home();
}

DF_TEST(calibration, a_wrong_file_is_left_out, 60) {
  char *many = calloc(1, 100 << 10);
  make_home();
  write_calibration("dfccl 0.0.1; a processor; 2 processors", rule);
  expect_why(used, 0);
  write_calibration(NULL, "allreduce 3 * process fastest\n");
  expect_why(used, 0);
  write_calibration(NULL, "allreduce 3 * process file:own\n");
  expect_why(used, 0);
  for (size_t i = 0; i < 2000; i++) strcat(many + i * strlen(rule), rule);
  write_calibration(NULL, many); /* too many rules, and too long */
  expect_why(used, 0);
  write_calibration(NULL, "");
  expect_why(used, 0);
  CHECK(chmod(path_of_file(), 0) == 0, "chmod");
  expect_why(used, 0);
  drop_home();
  free(many);
}

/* Runs on each rank of a job of processes. Rank 1 has another calibration, or none. */
static void join_with_own(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  int32_t *memory = calloc(2 * COUNT, sizeof *memory);
  make_home();
  if (rank != 1) write_calibration(NULL, "allreduce 2-4 * host doubletree slot=256\n");
  (void)arg;
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  OK(dfcclRegisterAllReduce(ctx, ID, COUNT, dfcclInt32, dfcclSum, NULL));
  OK(dfcclGetConfiguration(ctx, ID, &c));
  CHECK(strstr(c.why, "calibration") == NULL, "rank %d: %s", rank, c.why);
  OK(dfcclRunAllReduce(ctx, ID, memory, memory + COUNT, NULL, NULL));
  OK(dfcclWait(ctx, ID));
  df_finish(ctx);
  drop_home();
  free(memory);
}

DF_TEST(calibration, ranks_with_different_ones_use_none, 60) {
  df_family family;
  df_fork(&family, RANKS, 50, join_with_own, NULL);
  df_join(&family);
}

DF_TEST(calibration, limits_behind_a_name_reach_the_configuration, 60) {
  dfcclContext_t ctxs[RANKS];
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  OK(dfcclInitAll(ctxs, RANKS, NULL));
  options.algorithm = "ring slot=512 slots=16";
  OK(dfcclRegisterAllReduce(ctxs[0], ID, COUNT, dfcclInt32, dfcclSum, &options));
  OK(dfcclGetConfiguration(ctxs[0], ID, &c));
  CHECK(strcmp(c.algorithm, "ring") == 0 && c.chunkBytes <= 512 && c.slots >= 16, "%s, %llu, %u",
        c.algorithm, (unsigned long long)c.chunkBytes, c.slots);
  CHECK(strstr(c.why, "it is named, with limits in options.algorithm") != NULL, "%s", c.why);
  options.algorithm = "ring slot=512 slots=17";
  RESULT(dfcclRegisterAllReduce(ctxs[0], ID + 1, COUNT, dfcclInt32, dfcclSum, &options),
         dfcclInvalidArgument);
  const char *sentence = dfcclGetLastError(ctxs[0]);
  CHECK(strstr(sentence, "\"slots=17\": it must be a power of two") != NULL, "%s", sentence);
  options.algorithm = "ring slot=256";
  for (int rank = 1; rank < RANKS; rank++)
    OK(dfcclRegisterAllReduce(ctxs[rank], ID, COUNT, dfcclInt32, dfcclSum, &options));
  int32_t *memory = calloc(2 * COUNT, sizeof *memory);
  dfcclResult_t result = dfcclRunAllReduce(ctxs[0], ID, memory, memory + COUNT, NULL, NULL);
  if (result == dfcclSuccess) result = dfcclWait(ctxs[0], ID);
  CHECK(result == dfcclMismatch, "result %d", (int)result);
  end(ctxs);
  free(memory);
}
