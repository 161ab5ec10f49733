/*
 * Promise: an algorithm from a file in MSCCL's XML computes the result of its operation, for any
 * count, type and root, in place or not, in any order, preempted at every step, among threads and
 * processes. Members with different files have a mismatch. A file that cannot be used is refused
 * with the reason.
 */
#include "support/algorithm_files.h"
#include "support/buffers.h"
#include "support/processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 8, FILES_MAX = 16 };

static char names[FILES_MAX][64];

static df_collective of_file(int which, int ranks, size_t count) {
  const df_algorithm_file *file = &df_algorithm_files[which];
  snprintf(names[which], sizeof names[which], "file:%s", file->name);
  return (df_collective){.kind = file->kind,
                         .type = dfcclFloat32,
                         .op = dfcclSum,
                         .root = which % ranks,
                         .count = count,
                         .members = ranks,
                         .algorithm = names[which],
                         .seed = 7};
}

/* ---- counts, types, operators, places */

static void every_count(int ranks) {
  static const size_t counts[] = {1, 2, 7, 64, 1000, 4099, 100003};
  dfcclContext_t ctxs[RANKS_MAX];
  const char *directory = df_algorithm_directory(ranks);
  const bool slow = df_slowdown() > 1; /* half of the counts, by turns */
  dfcclCollId_t id = 1;
  df_make_contexts(ctxs, ranks, NULL);
  for (int which = 0; which < df_algorithm_files_count; which++)
    for (size_t c = slow ? (size_t)which % 2 : 0; c < DF_COUNT_OF(counts); c += slow ? 2 : 1)
      for (int flags = 0; flags <= (DF_IN_PLACE | DF_ZERO_COPY); flags++) {
        df_collective coll = of_file(which, ranks, counts[c]);
        coll.root = (int)(c % (size_t)ranks);
        coll.type = c % 2 ? dfcclInt64 : dfcclFloat32;
        coll.op = df_kind_operator(coll.kind, coll.type, c % 3 == 2 ? dfcclAvg : dfcclSum);
        df_once(ctxs, id++, &coll, flags);
      }
  df_free_contexts(ctxs, ranks);
  df_algorithm_directory_remove(directory);
}

DF_TEST(files, every_count_of_two, 60) { every_count(2); }
DF_TEST(files, every_count_of_four, 60) { every_count(4); }
DF_TEST(files, every_count_of_eight, 120) { every_count(8); }

DF_TEST(files, megabytes, 120) {
  dfcclContext_t ctxs[4];
  const char *directory = df_algorithm_directory(4);
  dfcclConfig_t config = df_config();
  config.maxBlocks = 3;
  const size_t count = df_slowdown() > 1 ? 250007 : 1000003; /* several loops in either case */
  df_make_contexts(ctxs, 4, &config);
  for (int which = 0; which < df_algorithm_files_count; which++)
    for (int flags = 0; flags <= (DF_IN_PLACE | DF_ZERO_COPY); flags++) {
      const df_collective coll = of_file(which, 4, count);
      df_once(ctxs, (dfcclCollId_t)which, &coll, flags);
    }
  df_free_contexts(ctxs, 4);
  df_algorithm_directory_remove(directory);
}

DF_TEST(files, least_slots, 60) {
  df_tune("slots", "2");
  df_tune("slot_bytes", "64");
  dfcclContext_t ctxs[4];
  const char *directory = df_algorithm_directory(4);
  df_make_contexts(ctxs, 4, NULL);
  for (int which = 0; which < df_algorithm_files_count; which++)
    for (int flags = 0; flags <= DF_IN_PLACE; flags++) {
      const df_collective coll = of_file(which, 4, 777);
      df_once(ctxs, (dfcclCollId_t)which, &coll, flags);
    }
  df_free_contexts(ctxs, 4);
  df_algorithm_directory_remove(directory);
}

/* ---- disorder */

typedef struct {
  int ranks, colls;
  uint64_t rounds;
  df_collective of[FILES_MAX];
  dfcclContext_t ctxs[RANKS_MAX];
} scenario;

static void be_rank_with(dfcclContext_t ctx, scenario *s, int rank) {
  df_random random = {(uint64_t)rank + 11};
  for (int c = 0; c < s->colls; c++) OK(df_register(ctx, (dfcclCollId_t)c, &s->of[c]));
  df_take_part_in_disorder(ctx, s->of, s->colls, rank, s->rounds, &random, NULL);
}

static void be_rank(int rank, void *arg) {
  scenario *s = arg;
  be_rank_with(s->ctxs[rank], s, rank);
}

static void be_process(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  be_rank_with(ctx, arg, rank);
  df_finish(ctx);
}

static void in_disorder(int ranks, uint64_t rounds, int processes) {
  scenario s = {.ranks = ranks, .rounds = rounds, .colls = df_algorithm_files_count};
  const char *directory = df_algorithm_directory(ranks);
  for (int c = 0; c < s.colls; c++) s.of[c] = of_file(c, ranks, (size_t)(1 + 997 * c));
  if (processes) {
    df_family family;
    df_fork(&family, ranks, 100, be_process, &s);
    df_join(&family);
  } else {
    df_make_contexts(s.ctxs, ranks, NULL);
    df_in_threads(ranks, be_rank, &s);
    df_free_contexts(s.ctxs, ranks);
  }
  df_algorithm_directory_remove(directory);
}

DF_TEST(files, disorder_of_two, 60) { in_disorder(2, 50, 0); }
DF_TEST(files, disorder_of_four, 60) { in_disorder(4, 30, 0); }
DF_TEST(files, disorder_of_eight, 120) { in_disorder(8, 10, 0); }
DF_TEST(files, disorder_of_processes, 120) { in_disorder(2, 30, 1); }
DF_TEST(files, disorder_of_four_processes, 120) { in_disorder(4, 20, 1); }
DF_TEST(files, disorder_of_eight_processes, 120) { in_disorder(8, 5, 1); }

DF_TEST(files, preempted_at_every_step, 120) {
  df_tune("preempt_every", "1");
  in_disorder(4, 10, 0);
}
DF_TEST(files, processes_preempted_at_every_step, 120) {
  df_tune("preempt_every", "1");
  in_disorder(8, 4, 1);
}
DF_TEST(files, over_connections, 120) {
  setenv("DFCCL_NET", "tcp", 1);
  in_disorder(4, 5, 1);
}

/* ---- choice and refusal */

static void expect_refusal(dfcclContext_t ctx, const char *algorithm, df_kind kind,
                           const char *words) {
  df_collective coll = {.kind = kind,
                        .type = dfcclFloat32,
                        .op = dfcclSum,
                        .count = 100,
                        .members = 2,
                        .algorithm = algorithm};
  RESULT(df_register(ctx, 1, &coll), dfcclInvalidArgument);
  const char *sentence = dfcclGetLastError(ctx);
  CHECK(df_mentions(sentence, words), "\"%s\" does not say \"%s\"", sentence, words);
}

DF_TEST(files, refusals, 30) {
  const char *directory = df_algorithm_directory(2);
  dfcclContext_t ctxs[2];
  df_algorithm_write(directory, "broken", "<algo name=\"x\"\n ngpus=\"two\"/>\n");
  df_make_contexts(ctxs, 2, NULL);
  expect_refusal(ctxs[0], "file:none", DF_ALL_REDUCE, "none");
  expect_refusal(ctxs[0], "file:../ring", DF_ALL_REDUCE, "without a directory");
  expect_refusal(ctxs[0], "file:", DF_ALL_REDUCE, "DFCCL_ALGORITHMS");
  expect_refusal(ctxs[0], "file:ring", DF_ALL_GATHER, "is for AllReduce");
  expect_refusal(ctxs[0], "file:broken", DF_ALL_REDUCE, "broken.xml:2: ");
  df_collective coll = df_simple(10, 2);
  coll.algorithm = "file:ring";
  coll.varying = true;
  RESULT(df_register(ctxs[0], 1, &coll), dfcclInvalidArgument);
  CHECK(df_mentions(dfcclGetLastError(ctxs[0]), "options.varying"), "%s",
        dfcclGetLastError(ctxs[0]));
  df_free_contexts(ctxs, 2);
  unsetenv("DFCCL_ALGORITHMS");
  df_make_contexts(ctxs, 2, NULL);
  expect_refusal(ctxs[0], "file:ring", DF_ALL_REDUCE, "names no directory");
  df_free_contexts(ctxs, 2);
  df_algorithm_directory_remove(directory);
}

/* In place, rank 0's copies to the output overwrite inputs that it sends afterwards. */
static void write_reads_twice(const char *directory) {
  char text[4096];
  int at = snprintf(text, sizeof text,
                    "<algo name=\"twice\" proto=\"Simple\" nchannels=\"1\" nchunksperloop=\"2\" "
                    "ngpus=\"2\" coll=\"allreduce\" inplace=\"0\">\n");
  for (int rank = 0; rank < 2; rank++) {
    static const char *const types[2][6] = {{"cpy", "cpy", "s", "s", "r", "r"}, {"rrcs", "rrcs"}};
    at += snprintf(text + at, sizeof text - (size_t)at,
                   "<gpu id=\"%d\" i_chunks=\"2\" o_chunks=\"2\" s_chunks=\"0\">"
                   "<tb id=\"0\" send=\"%d\" recv=\"%d\" chan=\"0\">\n",
                   rank, 1 - rank, 1 - rank);
    for (int step = 0; step < 6 && types[rank][step]; step++)
      at += snprintf(text + at, sizeof text - (size_t)at,
                     "<step s=\"%d\" type=\"%s\" srcbuf=\"i\" srcoff=\"%d\" dstbuf=\"o\" "
                     "dstoff=\"%d\" cnt=\"1\" depid=\"-1\" deps=\"-1\" hasdep=\"0\"/>\n",
                     step, types[rank][step], step % 2, step % 2);
    at += snprintf(text + at, sizeof text - (size_t)at, "</tb></gpu>\n");
  }
  snprintf(text + at, sizeof text - (size_t)at, "</algo>\n");
  df_algorithm_write(directory, "twice", text);
}

/* Pre-multiplied operators: each input is scaled once, also in place. */
DF_TEST(files, inputs_are_scaled_once, 30) {
  static const char *const files[] = {"file:twice", "file:ring"};
  enum { COUNT = 5000 };
  const char *directory = df_algorithm_directory(2);
  dfcclContext_t ctxs[2];
  dfcclRedOp_t ops[2];
  static int64_t data[2][2][COUNT];
  write_reads_twice(directory);
  df_make_contexts(ctxs, 2, NULL);
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  for (int rank = 0; rank < 2; rank++) {
    const int64_t scalar = 2 + rank;
    OK(dfcclRedOpCreatePreMulSum(ctxs[rank], &ops[rank], &scalar, dfcclInt64, 0));
    for (dfcclCollId_t id = 0; id < 2; id++) {
      options.algorithm = files[id];
      for (int i = 0; i < COUNT; i++) data[rank][id][i] = 100 + 1000 * rank + i;
      OK(dfcclRegisterAllReduce(ctxs[rank], id, COUNT, dfcclInt64, ops[rank], &options));
      OK(dfcclRunAllReduce(ctxs[rank], id, data[rank][id], data[rank][id], NULL, NULL));
    }
  }
  for (int rank = 0; rank < 2; rank++)
    for (dfcclCollId_t id = 0; id < 2; id++) {
      OK(dfcclWait(ctxs[rank], id));
      for (int i = 0; i < COUNT; i++)
        CHECK(data[rank][id][i] == 2 * (100 + i) + 3 * (1100 + i), "rank %d, %s, element %d: %lld",
              rank, files[id], i, (long long)data[rank][id][i]);
    }
  df_free_contexts(ctxs, 2);
  df_algorithm_directory_remove(directory);
}

static void write_table(const char *directory, const char *rule, char *path, size_t bytes) {
  snprintf(path, bytes, "%s/table", directory);
  FILE *out = fopen(path, "w");
  CHECK(out != NULL, "%s", path);
  fprintf(out, "dfccl-tuning 1\n%s\n", rule);
  fclose(out);
  setenv("DFCCL_TUNING", path, 1);
}

DF_TEST(files, by_a_rule, 30) {
  const char *directory = df_algorithm_directory(2);
  char path[200];
  dfcclContext_t ctxs[2];
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  write_table(directory, "allreduce 2 1K- any file:ring slot=4K", path, sizeof path);
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(1000, 2), shorter = df_simple(10, 2);
  df_register_all(ctxs, 1, &coll);
  df_register_all(ctxs, 2, &shorter);
  OK(dfcclGetConfiguration(ctxs[0], 1, &c));
  CHECK(strcmp(c.algorithm, "file:ring.xml") == 0 && df_mentions(c.why, "file:ring.xml slot=4K"),
        "%s: %s", c.algorithm, c.why);
  OK(dfcclGetConfiguration(ctxs[0], 2, &c));
  CHECK(strncmp(c.algorithm, "file", 4) != 0, "%s", c.algorithm);
  df_exchange(ctxs, 1, &coll, 0, 0);
  df_free_contexts(ctxs, 2);
  df_algorithm_directory_remove(directory);
}

static void expect_no_start(const char *rule, const char *words) {
  const char *directory = df_algorithm_directory(2);
  char path[200];
  dfcclContext_t ctxs[2];
  const dfcclConfig_t config = df_config();
  write_table(directory, rule, path, sizeof path);
  RESULT(dfcclInitAll(ctxs, 2, &config), dfcclInvalidUsage);
  CHECK(df_mentions(dfcclGetLastError(NULL), words), "%s", dfcclGetLastError(NULL));
  df_algorithm_directory_remove(directory);
}

DF_TEST(files, rules_of_files_that_do_not_fit, 30) {
  expect_no_start("allreduce 2 * any file:none", "none");
  expect_no_start("allgather 2 * any file:ring", "is for allreduce");
  expect_no_start("allreduce 3-9 * any file:ring", "is for 2");
}

/* Each rank's process has a directory of its own. */
static void be_different(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  char(*directories)[64] = arg;
  setenv("DFCCL_ALGORITHMS", directories[rank], 1);
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  df_collective coll = df_simple(100, 2);
  int send[100] = {0}, recv[100];
  coll.algorithm = "file:ring";
  OK(df_register(ctx, 1, &coll));
  const dfcclResult_t result = dfcclRunAllReduce(ctx, 1, send, recv, NULL, NULL);
  RESULT(result == dfcclSuccess ? dfcclWait(ctx, 1) : result, dfcclMismatch);
  CHECK(df_mentions(dfcclGetLastError(ctx), "hash"), "%s", dfcclGetLastError(ctx));
  df_finish(ctx);
}

DF_TEST(files, different_files_are_a_mismatch, 30) {
  char directories[2][64];
  df_family family;
  for (int rank = 0; rank < 2; rank++) strcpy(directories[rank], df_algorithm_directory(2));
  char path[128];
  snprintf(path, sizeof path, "%s/ring.xml", directories[1]);
  FILE *out = fopen(path, "a");
  CHECK(out != NULL, "%s", path);
  fputs("<!-- another -->\n", out);
  fclose(out);
  df_fork(&family, 2, 25, be_different, directories);
  df_join(&family);
  for (int rank = 0; rank < 2; rank++) df_algorithm_directory_remove(directories[rank]);
}
