/*
 * Promise: DFCCL_TUNING names a table of rules that select a collective's algorithm and its shape;
 * results are the same with each. A wrong table ends the initialisation with file, line and value.
 * The line of the applied rule is reported. Members that choose differently fail, with both
 * choices.
 */
#include "support/buffers.h"
#include "support/memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANKS = 3, ID = 5 };

static char path[] = "/tmp/dfccl-tuning-XXXXXX";

static void write_table(const char *text) {
  strcpy(path + strlen(path) - 6, "XXXXXX");
  int fd = mkstemp(path);
  CHECK(fd >= 0, "mkstemp");
  CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text), "write");
  close(fd);
  setenv("DFCCL_TUNING", path, 1);
}

static void drop_table(void) {
  unlink(path);
  unsetenv("DFCCL_TUNING");
}

static void refused(const char *text, const char *place, const char *value) {
  dfcclContext_t ctxs[RANKS] = {NULL};
  write_table(text);
  RESULT(dfcclInitAll(ctxs, RANKS, NULL), dfcclInvalidUsage);
  const char *sentence = dfcclGetLastError(NULL);
  CHECK(df_mentions(sentence, path) && df_mentions(sentence, place) &&
            df_mentions(sentence, value) && df_mentions(sentence, "DFCCL_TUNING"),
        "\"%s\" lacks %s, %s or %s", sentence, path, place, value);
  drop_table();
}

DF_TEST(tuning, a_wrong_table_is_refused, 30) {
  refused("dfccl-tuning 1\n\nallreduce 2 * any fastest\n", ":3: ", "fastest");
  refused("dfccl-tuning 1\nallreduce 2 * any bruck\n", ":2: ", "bruck");
  refused("tuning\n", ":1: ", "tuning");
  dfcclContext_t ctxs[RANKS];
  setenv("DFCCL_TUNING", "/no such directory/table", 1);
  RESULT(dfcclInitAll(ctxs, RANKS, NULL), dfcclInvalidUsage);
  CHECK(df_mentions(dfcclGetLastError(NULL), "/no such directory/table"), "\"%s\"",
        dfcclGetLastError(NULL));
  unsetenv("DFCCL_TUNING");
}

/* The algorithm that the dump names for a run that is blocked, because only rank 0 has submitted
 * it. */
static void expect_algorithm(dfcclContext_t *ctxs, size_t count, const char *algorithm) {
  static char text[1 << 16];
  df_collective coll = df_simple(count, RANKS);
  df_register_all(ctxs, ID, &coll);
  size_t bytes = count * (RANKS + 1) * sizeof(int32_t);
  int32_t *memory = memset(df_memory_take(bytes), 0, bytes);
  OK(dfcclRunAllReduce(ctxs[0], ID, memory, memory + count, NULL, NULL));
  FILE *file = tmpfile();
  CHECK(file != NULL, "no file");
  OK(dfcclDump(ctxs[0], fileno(file)));
  ssize_t length = pread(fileno(file), text, sizeof text - 1, 0);
  text[length > 0 ? length : 0] = '\0';
  fclose(file);
  char expected[64];
  snprintf(expected, sizeof expected, "group of %d, %s (", RANKS, algorithm);
  CHECK(df_mentions(text, expected), "%zu elements are not by %s: %s", count, algorithm, text);
  for (int rank = 1; rank < RANKS; rank++)
    OK(dfcclRunAllReduce(ctxs[rank], ID, memory, memory + count * (size_t)(rank + 1), NULL, NULL));
  for (int rank = 0; rank < RANKS; rank++) OK(dfcclWait(ctxs[rank], ID));
  df_exchange(ctxs, ID, &coll, 1, 0);
  df_deregister_all(ctxs, ID, &coll);
  df_memory_give(memory);
}

DF_TEST(tuning, the_table_decides, 60) {
  dfcclContext_t ctxs[RANKS];
  write_table("# a table\ndfccl-tuning 1\n"
              "allreduce 3 0-400   any     flat\n"
              "allreduce 3 401-4K  process doubletree slot=256\n"
              "allreduce 3 401-4K  host    ring\n"
              "allreduce 3 8K-     any     twolevel split=2 blocks=1 slot=1K\n");
  df_make_contexts(ctxs, RANKS, NULL);
  drop_table(); /* the file is read once */
  expect_algorithm(ctxs, 100, "flat");
  expect_algorithm(ctxs, 101, "doubletree");
  expect_algorithm(ctxs, 1024, "doubletree");
  expect_algorithm(ctxs, 2048, "twolevel");
  expect_algorithm(ctxs, 50001, "twolevel");
  OK(dfcclRegisterAllReduce(ctxs[0], ID, 1024, dfcclInt32, dfcclSum, NULL));
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  OK(dfcclGetConfiguration(ctxs[0], ID, &c));
  CHECK(df_mentions(c.why, "the first rule that fits, of DFCCL_TUNING, line 4: allreduce"),
        "\"%s\"", c.why);
  df_free_contexts(ctxs, RANKS);
}
