/*
 * Promise: DFCCL_RECORD=DIR leaves one file for each rank: a well-formed schedule in the form that
 * `dfccl-sim check` reads, with every submission and device synchronisation of that rank in order.
 */
#include "support/buffers.h"

#include <dirent.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void expect_schedule(const char *path) {
  json_error_t error;
  json_t *root = json_load_file(path, 0, &error);
  CHECK(root != NULL, "%s: line %d: %s", path, error.line, error.text);
  CHECK(json_is_object(root), "%s is not an object", path);
  const json_t *groups = json_object_get(root, "groups"), *gpus = json_object_get(root, "gpus");
  CHECK(json_is_object(groups) && json_object_size(groups) >= 1, "%s: groups", path);
  CHECK(json_is_object(gpus) && json_object_size(gpus) >= 1, "%s: gpus", path);
  const char *name;
  json_t *events;
  json_object_foreach((json_t *)gpus, name, events) {
    CHECK(json_is_array(events), "%s: events of %s", path, name);
    CHECK(json_array_size(events) >= 6, "%s: %zu events of rank %s", path, json_array_size(events),
          name);
  }
  json_decref(root);
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
  CHECK(files >= 1, "nothing was recorded");
}
