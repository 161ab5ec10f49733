/*
 * Promise: a value of an environment variable that makes no sense is an error that names the
 * variable and the value, never silently ignored; sensible values, the extremes included, work.
 */
#include "support/buffers.h"

#include <stdlib.h>

static const struct {
  const char *variable, *bad[4], *good[3];
} table[] = {
    {"DFCCL_DEBUG", {"loud", ""}, {"none"}},
    {"DFCCL_CQ", {"heap", "Ring"}, {"ring", "packed", "slots"}},
    {"DFCCL_ISA", {"mmx"}, {"plain"}},
    {"DFCCL_INIT_TIMEOUT_MS", {"0", "-1", "soon", "99999999999"}, {"1000"}},
    {"DFCCL_TIMEOUT_MS", {"-1", "1e3"}, {"0", "60000"}},
    {"DFCCL_MAX_BLOCKS", {"-1", "1000", "two"}, {"1", "4"}},
    {"DFCCL_QUEUE_DEPTH", {"-1", "3000000000", "x"}, {"1", "2", "4096"}},
    {"DFCCL_BACKLOG", {"0", "none"}, {"1", "100000"}},
    {"DFCCL_SPIN_FRONT", {"0", "-1", "1.5", "1e5"}, {"1", "100000"}},
    {"DFCCL_SPIN_MIN", {"0", "few"}, {"1", "1000"}},
    {"DFCCL_SPIN_BOOST", {"0", "-2"}, {"1", "100"}},
    {"DFCCL_FETCH_POLLS", {"-1", "?"}, {"0", "10000"}},
    {"DFCCL_QUIT_POLLS", {"0", "never"}, {"1", "100000"}},
    {"DFCCL_YIELD_POLLS", {"-1", "yes"}, {"0", "1", "1000"}},
    {"DFCCL_PREEMPT_EVERY", {"2", "-1", "on"}, {"0", "1"}},
    {"DFCCL_CONTEXT_SLOTS", {"0", "3", "100000", "all"}, {"1", "4"}},
    {"DFCCL_SLOT_BYTES", {"0", "-64", "1k", "99999999999"}, {"64", "4096"}},
    {"DFCCL_SLOTS", {"0", "3", "100000"}, {"1", "2", "8"}},
    {"DFCCL_FLAGGED_MAX", {"-1", "big"}, {"0", "100"}},
    {"DFCCL_DIRECT_MIN", {"0", "-1"}, {"1", "1000000"}},
    {"DFCCL_DIRECT", {"2", "yes"}, {"0", "1"}},
    {"DFCCL_DEBUG_SIGNAL", {"2", "USR2"}, {"0", "1"}},
};

DF_TEST(environment, bad_values_are_named, 30) {
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    for (int b = 0; b < 4 && table[i].bad[b] != NULL; b++) {
      dfcclContext_t ctxs[2] = {NULL, NULL};
      dfcclConfig_t config = df_config();
      setenv(table[i].variable, table[i].bad[b], 1);
      dfcclResult_t result = dfcclInitAll(ctxs, 2, &config);
      CHECK(result == dfcclInvalidUsage, "%s=\"%s\": %s", table[i].variable, table[i].bad[b],
            df_test_result_name(result));
      CHECK(df_mentions(dfcclGetLastError(NULL), table[i].variable) &&
                df_mentions(dfcclGetLastError(NULL), table[i].bad[b]),
            "%s=\"%s\": \"%s\"", table[i].variable, table[i].bad[b], dfcclGetLastError(NULL));
      CHECK(ctxs[0] == NULL && ctxs[1] == NULL, "a context was made");
    }
    unsetenv(table[i].variable);
  }
}

DF_TEST(environment, good_values_work, 120) {
  for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
    for (int g = 0; g < 3 && table[i].good[g] != NULL; g++) {
      dfcclContext_t ctxs[3];
      setenv(table[i].variable, table[i].good[g], 1);
      df_waiting_for(table[i].variable);
      df_make_contexts(ctxs, 3, NULL);
      for (size_t count = 3; count < 50000; count *= 100) {
        df_collective coll = df_simple(count, 3);
        df_once(ctxs, count, &coll, 0);
        df_once(ctxs, count, &coll, DF_ZERO_COPY);
      }
      df_free_contexts(ctxs, 3);
    }
    unsetenv(table[i].variable);
  }
}

/* Variables are read when a context is made: later changes do not reach it. */
DF_TEST(environment, is_read_at_initialisation, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  setenv("DFCCL_SLOTS", "nonsense", 1);
  setenv("DFCCL_SPIN_FRONT", "nonsense", 1);
  df_collective coll = df_simple(5000, 2);
  df_once(ctxs, 1, &coll, 0);
  df_free_contexts(ctxs, 2);
}
