/*
 * Promise: dfcclGetConfiguration returns the configuration of a registered collective, with a
 * reason for each decision. Values of the tuning table and of the caller show in it.
 */
#include "support/buffers.h"
#include "support/memory.h"

#include <stdlib.h>
#include <string.h>

static dfcclConfiguration_t of(dfcclContext_t ctx, dfcclCollId_t id) {
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  OK(dfcclGetConfiguration(ctx, id, &c));
  return c;
}

DF_TEST(configuration, decisions_and_reasons, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  OK(dfcclRegisterBroadcast(ctxs[0], 1, 512, dfcclFloat32, 0, NULL));
  OK(dfcclRegisterAllReduce(ctxs[0], 2, 4 << 20, dfcclFloat32, dfcclSum, NULL));
  OK(dfcclRegisterAllReduce(ctxs[0], 3, 0, dfcclFloat32, dfcclSum, NULL));
  dfcclConfiguration_t small = of(ctxs[0], 1), large = of(ctxs[0], 2), empty = of(ctxs[0], 3);
  CHECK(strcmp(small.algorithm, "flat") == 0 || strcmp(small.algorithm, "binomial") == 0, "%s",
        small.algorithm);
  CHECK(small.chunkBytes == 2048 && small.loops == 1, "%llu bytes, %u loops",
        (unsigned long long)small.chunkBytes, small.loops);
  CHECK(strcmp(empty.form, "none") == 0, "%s", empty.form);
  CHECK(large.slotBytes > small.slotBytes, "%llu and %llu bytes",
        (unsigned long long)large.slotBytes, (unsigned long long)small.slotBytes);
  static const char *const decisions[] = {
      "algorithm: ", "cut: ", "form: ", "rings: ", "lend: ", "stores: ", "turns: "};
  for (size_t i = 0; i < sizeof decisions / sizeof decisions[0]; i++) {
    const char *line = strstr(small.why, decisions[i]);
    CHECK(line != NULL && strstr(line, "since") != NULL, "no reason of \"%s\" in \"%s\"",
          decisions[i], small.why);
  }
  CHECK(df_mentions(small.why, "2048 bytes") && df_mentions(small.why, "2 ranks"), "\"%s\"",
        small.why);
  df_free_contexts(ctxs, 2);
}

DF_TEST(configuration, follows_table_and_name, 30) {
  dfcclContext_t ctxs[2];
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.algorithm = "ring";
  df_tune("flagged_max", "0");
  df_tune("lend", "0");
  df_make_contexts(ctxs, 2, NULL);
  OK(dfcclRegisterAllReduce(ctxs[0], 1, 100000, dfcclFloat32, dfcclSum, &options));
  dfcclConfiguration_t c = of(ctxs[0], 1);
  CHECK(strcmp(c.algorithm, "ring") == 0 && df_mentions(c.why, "it is named"), "%s: %s",
        c.algorithm, c.why);
  CHECK(c.lendsBuffers == 0 && df_mentions(c.why, "lend is 0"), "%s", c.why);
  if (!df_on_cuda()) CHECK(strcmp(c.form, "staged") == 0, "%s", c.form);
  df_free_contexts(ctxs, 2);
}

/* Runs an all-reduce and returns the configuration. */
static dfcclConfiguration_t after_runs(int runs) {
  enum { COUNT = 1 << 15, ID = 1 };
  static float buffers[2][COUNT];
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  for (int r = 0; r < 2; r++)
    OK(dfcclRegisterAllReduce(ctxs[r], ID, COUNT, dfcclFloat32, dfcclSum, NULL));
  for (int i = 0; i < runs; i++) {
    for (int r = 0; r < 2; r++)
      OK(dfcclRunAllReduce(ctxs[r], ID, buffers[r], buffers[r], NULL, NULL));
    for (int r = 0; r < 2; r++) OK(dfcclWait(ctxs[r], ID));
  }
  const dfcclConfiguration_t c = of(ctxs[0], ID);
  df_free_contexts(ctxs, 2);
  return c;
}

DF_TEST(configuration, names_the_way_of_messages, 60) {
  if (df_on_cuda()) DF_SKIP("a CUDA device has no ways");
  dfcclConfiguration_t c = after_runs(200);
  /* If the clock is slow, nothing is measured, and there is no line. */
  CHECK(!df_mentions(c.why, "way to rank") ||
            (df_mentions(c.why, "way to rank 1: slots ") && df_mentions(c.why, "64 KB take")),
        "%s", c.why);
  df_tune("way", "3");
  c = after_runs(1);
  CHECK(df_mentions(c.why, "way to rank 1: forced"), "%s", c.why);
}

DF_TEST(configuration, bad_arguments_are_refused, 30) {
  dfcclContext_t ctxs[1];
  df_make_contexts(ctxs, 1, NULL);
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  RESULT(dfcclGetConfiguration(ctxs[0], 77, &c), dfcclInvalidArgument);
  CHECK(df_mentions(dfcclGetLastError(ctxs[0]), "77"), "\"%s\"", dfcclGetLastError(ctxs[0]));
  RESULT(dfcclGetConfiguration(ctxs[0], 77, NULL), dfcclInvalidArgument);
  c.magic = 1;
  RESULT(dfcclGetConfiguration(ctxs[0], 77, &c), dfcclInvalidArgument);
  df_free_contexts(ctxs, 1);
}
