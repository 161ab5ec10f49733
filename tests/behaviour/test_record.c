/*
 * Promise: DFCCL_RECORD=DIR leaves one file for each rank: a well-formed schedule, in the form that
 * `dfccl-sim check` reads, with every submission and device synchronisation of that rank in order.
 * The file of a job that hangs has its last submissions, also if they never end.
 */
#include "support/buffers.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static cJSON *parse_file(const char *path) {
  static char text[1 << 20];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
  CHECK(length > 0, "%s cannot be read, or is empty", path);
  close(fd);
  text[length] = '\0';
  const char *end = NULL;
  cJSON *root = cJSON_ParseWithOpts(text, &end, true);
  CHECK(root != NULL, "%s is not JSON, from here on: %.100s", path, end);
  return root;
}

static void expect_schedule(const char *path) {
  cJSON *root = parse_file(path);
  const cJSON *groups = cJSON_GetObjectItemCaseSensitive(root, "groups");
  const cJSON *gpus = cJSON_GetObjectItemCaseSensitive(root, "gpus");
  CHECK(cJSON_IsObject(groups) && cJSON_GetArraySize(groups) >= 1, "%s: groups", path);
  CHECK(cJSON_IsObject(gpus) && cJSON_GetArraySize(gpus) == 1, "%s: gpus", path);
  const cJSON *events = gpus->child, *event;
  int runs = 0, synchronisations = 0;
  CHECK(cJSON_IsArray(events), "%s: events of %s", path, events->string);
  cJSON_ArrayForEach(event, events) {
    const cJSON *group = cJSON_GetObjectItemCaseSensitive(event, "group");
    if (cJSON_IsString(cJSON_GetObjectItemCaseSensitive(event, "coll"))) {
      CHECK(cJSON_IsString(group) &&
                cJSON_GetObjectItemCaseSensitive(groups, group->valuestring) != NULL,
            "%s: a run's group is not among the groups", path);
      runs++;
    }
    synchronisations += cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(event, "sync"));
  }
  CHECK(runs == 6, "%s: %d runs", path, runs);
  CHECK(synchronisations == (atoi(events->string) == 0 ? 3 : 0), "%s: %d synchronisations", path,
        synchronisations);
  cJSON_Delete(root);
}

DF_TEST(diagnostics, record, 30) {
  enum { RANKS = 2 };
  char directory[] = "/tmp/dfccl-record-XXXXXX", path[600];
  CHECK(mkdtemp(directory) != NULL, "mkdtemp");
  setenv("DFCCL_RECORD", directory, 1);
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  df_collective coll = df_simple(10, RANKS);
  df_register_all(ctxs, 1, &coll);
  coll.name = "with \"quotes\" and \\";
  df_register_all(ctxs, 2, &coll);
  for (uint64_t run = 0; run < 3; run++) {
    df_exchange(ctxs, 1, &coll, run, 0);
    df_exchange(ctxs, 2, &coll, run, 0);
    OK(dfcclDeviceSynchronize(ctxs[0]));
  }
  df_free_contexts(ctxs, RANKS);
  DIR *entries = opendir(directory);
  CHECK(entries != NULL, "opendir");
  int files = 0;
  for (const struct dirent *entry; (entry = readdir(entries)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
    expect_schedule(path);
    unlink(path);
    files++;
  }
  closedir(entries);
  rmdir(directory);
  CHECK(files == RANKS, "%d files were recorded", files);
}

static void wait_for_runs(const char *path, int wanted) {
  int runs = -1;
  while (runs != wanted) {
    char text[4096];
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t length = fd >= 0 ? read(fd, text, sizeof text - 1) : -1;
    CHECK(length >= 0, "%s cannot be read", path);
    close(fd);
    text[length] = '\0';
    runs = 0;
    for (const char *at = text; (at = strstr(at, "{\"coll\":")) != NULL; at++) runs++;
    usleep(10000);
  }
}

DF_TEST(diagnostics, record_of_a_job_that_hangs, 60) {
  enum { RANKS = 2 };
  char directory[] = "/tmp/dfccl-record-XXXXXX", path[600];
  float data[RANKS] = {1};
  CHECK(mkdtemp(directory) != NULL, "mkdtemp");
  setenv("DFCCL_RECORD", directory, 1);
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRegisterAllReduce(ctxs[r], 1, 1, dfcclFloat32, dfcclSum, NULL));
  for (int r = 0; r < RANKS; r++) OK(dfcclRunAllReduce(ctxs[r], 1, &data[r], &data[r], NULL, NULL));
  for (int r = 0; r < RANKS; r++) OK(dfcclWait(ctxs[r], 1));
  OK(dfcclRunAllReduce(ctxs[0], 1, &data[0], &data[0], NULL, NULL)); /* its peer never submits it */
  for (int r = 0; r < RANKS; r++) {
    snprintf(path, sizeof path, "%s/rank-%d.json", directory, r);
    wait_for_runs(path, r == 0 ? 2 : 1);
  }
  OK(dfcclAbort(ctxs[0]));
  df_free_contexts(ctxs, RANKS);
  for (int r = 0; r < RANKS; r++) {
    snprintf(path, sizeof path, "%s/rank-%d.json", directory, r);
    unlink(path);
  }
  CHECK(rmdir(directory) == 0, "other files are in %s", directory);
}
