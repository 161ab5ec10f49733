/*
 * Promises of DFCCL_TUNER_PLUGIN, on a tuner plugin for tests (tests/plugin):
 *   - The library follows a plugin with a table of any version from 2 to 6, and of several tables
 *     the newest: algorithm, protocol, channels, chunk size. dfcclGetConfiguration names the plugin
 *     as the source.
 *   - It is called once for each registration, after options.algorithm and DFCCL_TUNING.
 *   - Calls that fail, and invalid answers, change nothing, and are logged.
 *   - Members that get different answers have a mismatch that names both.
 *   - A file in the format of NCCL's example plugin is applied; an invalid line is refused by its
 *     number.
 */
#include "support/buffers.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LEAST = 2, MOST = 6, COUNT = 20000, RANKS = 3 };
enum { TREE = 0, RING = 1, PAT = 6 };

static char *file_of(int version) {
  static char file[512];
  snprintf(file, sizeof file, "%s/libnccl-tuner-dfccltest%d.so", DF_NET_PLUGIN_DIRECTORY, version);
  return file;
}

static void choose(int version, const char *answer) {
  setenv("DFCCL_TUNER_PLUGIN", file_of(version), 1);
  setenv("DFCCL_TEST_TUNER", answer, 1);
}

static int asked(int version) {
  void *library = dlopen(file_of(version), RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL, "%s", dlerror());
  int (*calls)(void);
  *(void **)&calls = dlsym(library, "tuner_plugin_asked");
  return calls();
}

static int open_contexts(int version) {
  void *library = dlopen(file_of(version), RTLD_NOW | RTLD_LOCAL);
  int (*n_open)(void);
  *(void **)&n_open = dlsym(library, "tuner_plugin_open");
  return n_open();
}

static dfcclConfiguration_t of(dfcclContext_t ctx) {
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  OK(dfcclGetConfiguration(ctx, 1, &c));
  return c;
}

/* Registers a collective, runs it, and returns rank 0's configuration. */
static dfcclConfiguration_t tried(df_kind kind, size_t count) {
  dfcclContext_t ctxs[RANKS];
  df_collective coll = df_simple(count, RANKS);
  coll.kind = kind;
  df_make_contexts(ctxs, RANKS, NULL);
  df_register_all(ctxs, 1, &coll);
  for (uint64_t run = 0; run < 3; run++) df_exchange(ctxs, 1, &coll, run, 0);
  const dfcclConfiguration_t c = of(ctxs[0]);
  df_free_contexts(ctxs, RANKS);
  return c;
}

static void expect(const dfcclConfiguration_t *c, const char *algorithm, const char *form,
                   const char *why) {
  CHECK(strcmp(c->algorithm, algorithm) == 0, "%s, not %s: %s", c->algorithm, algorithm, c->why);
  CHECK(strcmp(c->form, form) == 0, "%s, not %s: %s", c->form, form, c->why);
  CHECK(strstr(c->why, why) != NULL, "\"%s\" is not in \"%s\"", why, c->why);
}

DF_TEST(tuner_plugin, each_version_decides, 120) {
  for (int version = LEAST; version <= MOST; version++) {
    char source[64];
    snprintf(source, sizeof source, "tuner plugin DfcclTest (version %d) says", version);
    const int before = asked(version);
    choose(version, "0,2");
    dfcclConfiguration_t c = tried(DF_ALL_REDUCE, COUNT);
    expect(&c, "doubletree", "staged", source);
    CHECK(asked(version) == before + RANKS, "asked %d times", asked(version) - before);
    choose(version, "1,0");
    c = tried(DF_ALL_REDUCE, COUNT);
    expect(&c, "ring", "flagged", "says ring, ll");
    CHECK(!c.lendsBuffers, "flagged, but lent");
    choose(version, "6,0");
    c = tried(DF_ALL_GATHER, COUNT);
    expect(&c, "pat", "flagged", source);
    choose(version, "1,2,channels:1");
    c = tried(DF_BROADCAST, COUNT);
    expect(&c, "ring", "staged", "1 channels");
    CHECK(c.predictedUs > 0 && c.boundUs > 0, "%f us predicted, bound %f us", c.predictedUs,
          c.boundUs);
    CHECK(open_contexts(version) == 0, "%d contexts are left", open_contexts(version));
  }
}

DF_TEST(tuner_plugin, chunk_size_is_the_slot, 60) {
  choose(6, "1,2,chunk:4096");
  dfcclConfiguration_t c = tried(DF_ALL_REDUCE, COUNT);
  expect(&c, "ring", "staged", "chunks of 4096 bytes");
  CHECK(c.chunkBytes <= 4096 && c.loops > 1, "%llu bytes", (unsigned long long)c.chunkBytes);
  choose(6, "1,2,chunkfails");
  c = tried(DF_ALL_REDUCE, COUNT);
  expect(&c, "ring", "staged", "says ring, simple");
  choose(6, "1,2,chunk:7");
  c = tried(DF_ALL_REDUCE, COUNT);
  CHECK(strstr(c.why, "is ignored: chunks of 7 bytes"), "\"%s\"", c.why);
}

static void need_no_chunk(void) {
  choose(6, "1,2,chunk:4096");
  dfcclConfiguration_t c = tried(DF_ALL_REDUCE, COUNT);
  expect(&c, "ring", "staged", "says ring, simple");
  CHECK(strstr(c.why, "4096 bytes;") == NULL && c.chunkBytes != 4096, "\"%s\"", c.why);
}

/* Runs in a process of its own, because the library stays loaded. */
DF_TEST(tuner_plugin, may_have_no_chunk_size, 60) {
  setenv("DFCCL_TEST_TUNER_NO_CHUNK", "1", 1);
  need_no_chunk();
}

DF_TEST(tuner_plugin, nonsense_changes_nothing, 120) {
  static const struct {
    int from, to; /* versions of the plugin's table */
    const char *answer, *why;
  } all[] = {{LEAST, MOST, "info", "is ignored: its call fails with 2"},
             {LEAST, MOST, "init", "is ignored: its call fails with 2"},
             {3, MOST, "nan", "is ignored: its cost of ring with simple is not a number"},
             {3, MOST, "infinite", "is ignored: its cost of ring with simple is not a number"},
             {3, MOST, "absent", "it chooses nvls with simple, whose cost was -1"},
             {LEAST, MOST, "1,1", "it chooses ring with ll128, whose cost was -1"},
             {2, 2, "99,2", "algorithm 99 does not exist with its protocol"},
             {2, 2, "1,-1", "it names only one of algorithm and protocol"},
             {LEAST, MOST, "1,2,channels:-3", "is ignored: -3 channels"},
             {LEAST, MOST, "1,2,channels:65", "is ignored: 65 channels"},
             {LEAST, MOST, "none", "names no algorithm"}};
  unsetenv("DFCCL_TUNER_PLUGIN");
  const dfcclConfiguration_t without = tried(DF_ALL_REDUCE, COUNT);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (int version = all[i].from; version <= all[i].to; version++) {
      choose(version, all[i].answer);
      const dfcclConfiguration_t c = tried(DF_ALL_REDUCE, COUNT);
      expect(&c, without.algorithm, without.form, all[i].why);
    }
}

DF_TEST(tuner_plugin, comes_after_names_and_the_users_table, 60) {
  dfcclContext_t ctxs[2];
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  char table[] = "/tmp/dfccl-test-XXXXXX";
  const int fd = mkstemp(table);
  dprintf(fd, "dfccl-tuning 1\nallreduce * * any doubling\n");
  close(fd);
  choose(4, "0,2");
  df_make_contexts(ctxs, 2, NULL);
  options.algorithm = "direct";
  OK(dfcclRegisterAllReduce(ctxs[0], 1, COUNT, dfcclFloat32, dfcclSum, &options));
  CHECK(strcmp(of(ctxs[0]).algorithm, "direct") == 0, "%s", of(ctxs[0]).algorithm);
  df_free_contexts(ctxs, 2);
  setenv("DFCCL_TUNING", table, 1);
  df_make_contexts(ctxs, 2, NULL);
  OK(dfcclRegisterAllReduce(ctxs[0], 1, COUNT, dfcclFloat32, dfcclSum, NULL));
  CHECK(strcmp(of(ctxs[0]).algorithm, "doubling") == 0, "%s", of(ctxs[0]).algorithm);
  df_free_contexts(ctxs, 2);
  unlink(table);
}

DF_TEST(tuner_plugin, different_answers_are_a_mismatch, 60) {
  dfcclContext_t ctxs[2];
  float send[8] = {0}, recv[8];
  choose(5, "1,2,turns");
  df_make_contexts(ctxs, 2, NULL);
  for (int rank = 0; rank < 2; rank++)
    OK(dfcclRegisterAllReduce(ctxs[rank], 1, 8, dfcclFloat32, dfcclSum, NULL));
  const dfcclResult_t result = dfcclRunAllReduce(ctxs[0], 1, send, recv, NULL, NULL);
  RESULT(result == dfcclSuccess ? dfcclWait(ctxs[0], 1) : result, dfcclMismatch);
  const char *sentence = dfcclGetLastError(ctxs[0]);
  CHECK(strstr(sentence, "ring") && strstr(sentence, "doubletree") &&
            strstr(sentence, "DFCCL_TUNER_PLUGIN"),
        "\"%s\"", sentence);
  df_free_contexts(ctxs, 2);
}

static void *register_many(void *arg) {
  dfcclContext_t ctx = arg;
  for (dfcclCollId_t id = 100; id < 400; id++)
    OK(dfcclRegisterAllReduce(ctx, id, 4, dfcclFloat32, dfcclSum, NULL));
  return NULL;
}

/* The plugin ends the process if two calls overlap. */
DF_TEST(tuner_plugin, is_called_by_one_thread_at_a_time, 60) {
  dfcclContext_t ctxs[4];
  pthread_t threads[4];
  choose(6, "1,2,chunk:4096");
  df_make_contexts(ctxs, 4, NULL);
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, register_many, ctxs[i]);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  df_free_contexts(ctxs, 4);
}

static void expect_refusal(const char *choice, const char *what) {
  dfcclContext_t ctxs[1];
  setenv("DFCCL_TUNER_PLUGIN", choice, 1);
  RESULT(dfcclInitAll(ctxs, 1, NULL), dfcclInvalidUsage);
  CHECK(strstr(dfcclGetLastError(NULL), what) != NULL, "\"%s\"", dfcclGetLastError(NULL));
}

DF_TEST(tuner_plugin, other_libraries_are_named, 30) {
  char net[512];
  snprintf(net, sizeof net, "%s/libnccl-net-dfccltest4.so", DF_NET_PLUGIN_DIRECTORY);
  expect_refusal("/nowhere.so", "/nowhere.so");
  expect_refusal("dfcclnowhere", "libnccl-tuner-dfcclnowhere.so");
  expect_refusal(net, "has none of ncclTunerPlugin_v2 to _v6");
  expect_refusal("csv:/nowhere", "/nowhere");
  setenv("DFCCL_TUNER_PLUGIN", "none", 1);
  const dfcclConfiguration_t c = tried(DF_ALL_REDUCE, 8);
  CHECK(strstr(c.why, "plugin") == NULL, "\"%s\"", c.why);
}

static char *table_of(const char *text) {
  static char choice[64], name[32];
  snprintf(name, sizeof name, "/tmp/dfccl-test-XXXXXX");
  const int fd = mkstemp(name);
  CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s", name);
  close(fd);
  snprintf(choice, sizeof choice, "csv:%s", name);
  return choice;
}

DF_TEST(tuner_plugin, reads_files_of_the_example, 60) {
  char *choice = table_of("# comment\n\n"
                          "allreduce, 0, 1000, tree, ll, -1, -1, -1\n"
                          "allreduce,1001,4294967295,nvls,simple,-1,-1,-1,-1,-1\n"
                          "allreduce,1001,4294967295,ring,simple,1,1,3,1,1\n"
                          "allgather,0,4294967295,pat,simple,2,-1,-1,-1\n"
                          "reduce,0,4294967295,tree,simple,-1,2,-1\n");
  setenv("DFCCL_TUNER_PLUGIN", choice, 1);
  dfcclConfiguration_t c = tried(DF_ALL_REDUCE, 100);
  expect(&c, "doubletree", "flagged", ":3 says tree, ll");
  c = tried(DF_ALL_REDUCE, COUNT);
  expect(&c, "ring", "staged", ":5 says ring, simple, 1 channels");
  c = tried(DF_ALL_GATHER, COUNT);
  expect(&c, "pat", "staged", ":6 says pat, simple, 2 channels");
  c = tried(DF_REDUCE, COUNT);
  CHECK(strstr(c.why, "names no algorithm"), "\"%s\"", c.why);
  unlink(choice + 4);
}

DF_TEST(tuner_plugin, files_that_are_wrong_are_refused, 30) {
  static const char *const all[][2] = {
      {"allreduce,0,1,ring,simple,1,1\n", ":1: 7 fields"},
      {"#\nallreduce,0,1,ring,simple,1,1,1,1,1,1\n", ":2: more than 10 fields"},
      {"alltoall,0,1,ring,simple,1,1,1\n", "collective \"alltoall\""},
      {"allreduce,0,1,chain,simple,1,1,1\n", "algorithm \"chain\""},
      {"allreduce,0,1,ring,fast,1,1,1\n", "protocol \"fast\""},
      {"allreduce,0,x,ring,simple,1,1,1\n", "size \"x\""},
      {"allreduce,2,1,ring,simple,1,1,1\n", "sizes from 2 to 1"},
      {"allreduce,0,1,ring,simple,0,1,1\n", "channels is 0"},
      {"allreduce,0,1,ring,simple,1,-2,1\n", "nNodes \"-2\""},
      {"allreduce,0,1,ring,simple,1,1,1,1,yes\n", "regBuff \"yes\""}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    char *choice = table_of(all[i][0]);
    expect_refusal(choice, all[i][1]);
    unlink(choice + 4);
  }
}
