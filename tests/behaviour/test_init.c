/*
 * Promise: ranks join by an id that the application passes on by any means, as threads or
 * processes, in any order of arrival; or by a launcher's environment. The call names a rank that
 * has not arrived when the time is up. Disagreement between ranks, a rank that joins twice, and
 * invalid variables are errors on all ranks concerned, and a failed call leaves nothing allocated.
 */
#include "support/buffers.h"
#include "support/processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
  dfcclUniqueId id;
  int ranks;
  dfcclResult_t results[8];
  int as_rank[8]; /* the rank that each thread passes */
  int of_ranks[8];
} arrival;

static void arrive_late(int rank, void *arg) {
  arrival *a = arg;
  df_sleep_ms((a->ranks - rank) * 5); /* the last rank first */
  dfcclContext_t ctx = df_init(rank, a->ranks, &a->id, NULL);
  int mine = -1, all = -1;
  OK(dfcclGetRank(ctx, &mine, &all));
  OK(dfcclGetRank(ctx, NULL, NULL));
  CHECK(mine == rank && all == a->ranks, "rank %d of %d", mine, all);
  df_collective coll = df_simple(1000, a->ranks);
  OK(df_register(ctx, 1, &coll));
  for (uint64_t run = 0; run < 5; run++) df_take_part(ctx, 1, &coll, rank, run, 0);
  df_finish(ctx);
}

DF_TEST(init, threads_by_unique_id, 60) {
  arrival a = {.ranks = 5};
  OK(dfcclGetUniqueId(&a.id));
  df_in_threads(a.ranks, arrive_late, &a);
}

DF_TEST(init, one_rank, 30) {
  arrival a = {.ranks = 1};
  OK(dfcclGetUniqueId(&a.id));
  df_in_threads(1, arrive_late, &a);
}

static void in_process(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)arg;
  arrival a = {.id = *id, .ranks = ranks};
  arrive_late(rank, &a);
}

DF_TEST(init, processes_by_unique_id, 60) {
  df_family family;
  df_fork(&family, 6, 50, in_process, NULL);
  df_join(&family);
}

/* No two ids are equal. */
DF_TEST(init, ids_differ, 30) {
  dfcclUniqueId ids[50];
  for (int i = 0; i < 50; i++) {
    OK(dfcclGetUniqueId(&ids[i]));
    for (int j = 0; j < i; j++)
      CHECK(memcmp(&ids[i], &ids[j], sizeof ids[i]) != 0, "ids %d and %d are the same", i, j);
  }
}

static void try_to_join(int thread, void *arg) {
  arrival *a = arg;
  dfcclContext_t ctx = NULL;
  dfcclConfig_t config = df_config();
  a->results[thread] = dfcclInit(&ctx, a->of_ranks[thread], a->id, a->as_rank[thread], &config);
  const char *sentence = dfcclGetLastError(NULL);
  fprintf(stderr, "as rank %d of %d: %s: %s\n", a->as_rank[thread], a->of_ranks[thread],
          df_test_result_name(a->results[thread]), sentence);
  if (a->results[thread] == dfcclSuccess)
    OK(dfcclDestroy(ctx));
  else
    CHECK(ctx == NULL && strlen(sentence) > 10, "\"%s\"", sentence);
}

DF_TEST(init, a_missing_rank_is_named, 30) {
  arrival a = {.ranks = 3, .as_rank = {0, 1}, .of_ranks = {3, 3}};
  setenv("DFCCL_INIT_TIMEOUT_MS", "400", 1);
  OK(dfcclGetUniqueId(&a.id));
  df_in_threads(2, try_to_join, &a);
  CHECK(a.results[0] == dfcclTimeout || a.results[1] == dfcclTimeout, "no dfcclTimeout");
  for (int i = 0; i < 2; i++)
    CHECK(a.results[i] == dfcclTimeout || a.results[i] == dfcclRemoteError, "%s",
          df_test_result_name(a.results[i]));
}

DF_TEST(init, ranks_disagree_about_their_number, 30) {
  arrival a = {.ranks = 2, .as_rank = {0, 1}, .of_ranks = {2, 3}};
  setenv("DFCCL_INIT_TIMEOUT_MS", "2000", 1);
  OK(dfcclGetUniqueId(&a.id));
  df_in_threads(2, try_to_join, &a);
  for (int i = 0; i < 2; i++)
    CHECK(a.results[i] != dfcclSuccess && a.results[i] != dfcclInternalError, "%s",
          df_test_result_name(a.results[i]));
}

DF_TEST(init, one_rank_comes_twice, 30) {
  arrival a = {.ranks = 2, .as_rank = {1, 1}, .of_ranks = {2, 2}};
  setenv("DFCCL_INIT_TIMEOUT_MS", "1000", 1);
  OK(dfcclGetUniqueId(&a.id));
  df_in_threads(2, try_to_join, &a);
  for (int i = 0; i < 2; i++)
    CHECK(a.results[i] != dfcclSuccess && a.results[i] != dfcclInternalError, "%s",
          df_test_result_name(a.results[i]));
}

/* ---- a launcher's environment */

static void set_number(const char *variable, int value) {
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  setenv(variable, text, 1);
}

static void torchrun_rank(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  const int *port = arg;
  (void)id;
  set_number("RANK", rank);
  set_number("WORLD_SIZE", ranks);
  set_number("LOCAL_RANK", rank);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  set_number("MASTER_PORT", *port);
  dfcclConfig_t config = df_config();
  for (int job = 0; job < 3; job++) { /* the i-th call creates the i-th job */
    dfcclContext_t ctx = NULL;
    int mine = -1, all = -1;
    OK(dfcclInitFromEnv(&ctx, &config));
    df_watch(ctx);
    OK(dfcclGetRank(ctx, &mine, &all));
    CHECK(mine == rank && all == ranks, "rank %d of %d", mine, all);
    df_collective coll = df_simple(100 + (size_t)job, ranks);
    OK(df_register(ctx, 1, &coll));
    df_take_part(ctx, 1, &coll, rank, 0, 0);
    df_finish(ctx);
  }
}

DF_TEST(init, from_the_environment_of_torchrun, 60) {
  int port = 20000 + (int)getpid() % 20000;
  df_family family;
  df_fork(&family, 4, 50, torchrun_rank, &port);
  df_join(&family);
}

static const char *const launcher_variables[] = {
    "RANK",     "WORLD_SIZE", "MASTER_ADDR",  "MASTER_PORT",  "OMPI_COMM_WORLD_RANK",
    "PMI_RANK", "PMI_SIZE",   "SLURM_PROCID", "SLURM_NTASKS", "OMPI_COMM_WORLD_SIZE"};

static void forget_launchers(void) {
  for (size_t i = 0; i < sizeof launcher_variables / sizeof launcher_variables[0]; i++)
    unsetenv(launcher_variables[i]);
}

/* The call fails with dfcclInvalidUsage and a sentence that mentions the words. */
static void expect_refused(const char *words) {
  dfcclContext_t ctx = NULL;
  dfcclConfig_t config = df_config();
  RESULT(dfcclInitFromEnv(&ctx, &config), dfcclInvalidUsage);
  CHECK(ctx == NULL, "a context was made");
  CHECK(df_mentions(dfcclGetLastError(NULL), words), "\"%s\" does not mention \"%s\"",
        dfcclGetLastError(NULL), words);
}

DF_TEST(init, from_an_invalid_environment, 30) {
  forget_launchers();
  expect_refused(
      "RANK"); /* no environment at all: the sentence names the variables that would be needed */
  setenv("WORLD_SIZE", "2", 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", "29500", 1);
  expect_refused("RANK");
  setenv("RANK", "zero", 1);
  expect_refused("zero");
  setenv("RANK", "2", 1);
  expect_refused("2");
  setenv("RANK", "-1", 1);
  expect_refused("-1");
  setenv("RANK", "0", 1);
  setenv("WORLD_SIZE", "0", 1);
  expect_refused("WORLD_SIZE");
  setenv("WORLD_SIZE", "2x", 1);
  expect_refused("2x");
  setenv("WORLD_SIZE", "2", 1);
  unsetenv("MASTER_ADDR");
  expect_refused("MASTER_ADDR");
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", "70000", 1);
  expect_refused("70000");
  setenv("MASTER_PORT", "29500", 1);
  df_tune("slots", "3");
  expect_refused("slots");
}

DF_TEST(init, alone_in_the_environment_of_torchrun, 30) {
  dfcclContext_t ctx = NULL;
  dfcclConfig_t config = df_config();
  set_number("RANK", 1);
  set_number("WORLD_SIZE", 2);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  set_number("MASTER_PORT", 20000 + (int)getpid() % 20000);
  setenv("DFCCL_INIT_TIMEOUT_MS", "300", 1);
  RESULT(dfcclInitFromEnv(&ctx, &config), dfcclTimeout);
  CHECK(ctx == NULL, "a context was made");
}
