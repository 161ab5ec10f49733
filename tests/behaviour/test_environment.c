/*
 * Promise: an invalid value of an environment variable is an error that names the variable and the
 * value, and is never ignored silently. Valid values, the extremes included, work.
 */
#include "support/buffers.h"

#include <stdio.h>
#include <stdlib.h>

/* Values that must be refused, in addition to no_numbers for a number; values that must work; and
 * one at the limit, which may be refused but must work if it is accepted. */
static const struct {
  const char *variable;
  bool number;
  const char *bad[3], *good[3], *edge;
} table[] = {
    {"DFCCL_DEBUG", false, {"loud", ""}, {"none", "NONE", "None"}, NULL},
    {"DFCCL_NET", false, {"ib", "udp"}, {"auto", "tcp", "NONE"}, NULL},
    {"DFCCL_NET_INTERFACES", false, {""}, {NULL}, NULL},
    {"DFCCL_NET_PORTS", false, {"", "70000"}, {NULL}, NULL},
    {"DFCCL_NET_ADVERTISE", false, {"", "0.0.0.0", "[ff02::1]:5000"}, {NULL}, NULL},
    {"DFCCL_SECRET", false, {""}, {NULL}, NULL},
    {"DFCCL_SECRET_FILE", false, {""}, {NULL}, NULL},
    {"DFCCL_ROOT", false, {"", "nowhere", "fd00::2:5000"}, {NULL}, NULL},
    {"DFCCL_ISA", false, {"mmx"}, {"plain"}, NULL},
    {"DFCCL_INIT_TIMEOUT_MS", true, {"0"}, {"5000"}, NULL},
    {"DFCCL_TIMEOUT_MS", true, {NULL}, {"0", "60000"}, NULL},
    {"DFCCL_MAX_BLOCKS", true, {"1000"}, {"1", "4"}, NULL},
    {"DFCCL_QUEUE_DEPTH", true, {NULL}, {"2", "4096"}, "1"},
    {"DFCCL_BACKLOG", true, {NULL}, {"10", "100000"}, "1"},
    {"DFCCL_CONTEXT_SLOTS", true, {"0", "3"}, {"2", "4"}, "1"},
    {"DFCCL_DEBUG_SIGNAL", true, {"2"}, {"0", "1"}, NULL},
    {"DFCCL_VIEW", true, {"2"}, {"0", "1"}, NULL},
    {"DFCCL_METRICS", false, {"", "/tmp/x", "unix:relative-%r"}, {NULL}, NULL},
    {"DFCCL_FLIGHT", false, {""}, {NULL}, NULL},
    {"DFCCL_TRACE_TURNS", true, {"2"}, {"0", "1"}, NULL},
};
enum { VARIABLES = sizeof table / sizeof table[0] };

static void expect_refused(const char *variable, const char *value) {
  dfcclContext_t ctxs[2] = {NULL, NULL};
  dfcclConfig_t config = df_config();
  setenv(variable, value, 1);
  dfcclResult_t result = dfcclInitAll(ctxs, 2, &config);
  CHECK(result == dfcclInvalidUsage, "%s=\"%s\": %s", variable, value, df_test_result_name(result));
  const char *sentence = dfcclGetLastError(NULL);
  CHECK(df_mentions(sentence, variable) && df_mentions(sentence, value), "%s=\"%s\": \"%s\"",
        variable, value, sentence);
  CHECK(ctxs[0] == NULL && ctxs[1] == NULL, "a context was made");
  unsetenv(variable);
}

DF_TEST(environment, bad_values_are_named, 30) {
  static const char *const no_numbers[] = {"-1",    "many", "1.5", "1e3",
                                           "12abc", " ",    "",    "99999999999999999999"};
  for (int i = 0; i < VARIABLES; i++) {
    for (int b = 0; b < 3 && table[i].bad[b] != NULL; b++)
      expect_refused(table[i].variable, table[i].bad[b]);
    for (size_t n = 0; table[i].number && n < sizeof no_numbers / sizeof no_numbers[0]; n++)
      expect_refused(table[i].variable, no_numbers[n]);
  }
}

static void expect_works(const char *variable, const char *value, bool may_be_refused) {
  dfcclContext_t ctxs[3];
  dfcclConfig_t config = df_config();
  char what[80];
  snprintf(what, sizeof what, "%s=%s", variable, value);
  setenv(variable, value, 1);
  dfcclResult_t result = dfcclInitAll(ctxs, 3, &config);
  unsetenv(variable);
  if (may_be_refused && result == dfcclInvalidUsage) return;
  CHECK(result == dfcclSuccess, "%s: %s: \"%s\"", what, df_test_result_name(result),
        dfcclGetLastError(NULL));
  fprintf(stderr, "%s\n", what);
  for (int rank = 0; rank < 3; rank++) df_watch(ctxs[rank]);
  for (int kind = 0; kind < DF_KIND_COUNT; kind++)
    for (size_t count = 3; count < 50000; count *= 100) {
      df_collective coll = df_simple(count, 3);
      coll.kind = (df_kind)kind;
      df_once(ctxs, count, &coll, 0);
      df_once(ctxs, count, &coll, DF_ZERO_COPY);
    }
  df_free_contexts(ctxs, 3);
}

DF_TEST(environment, good_values_work, 120) {
  for (int i = 0; i < VARIABLES; i++)
    for (int g = 0; g < 3 && table[i].good[g] != NULL; g++)
      expect_works(table[i].variable, table[i].good[g], false);
}

DF_TEST(environment, values_at_the_edge_work_or_are_refused, 60) {
  for (int i = 0; i < VARIABLES; i++)
    if (table[i].edge != NULL) expect_works(table[i].variable, table[i].edge, true);
}

/* Variables are read when a context is created; later changes have no effect on it. */
DF_TEST(environment, is_read_at_initialisation, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  df_tune("slots", "nonsense");
  df_tune("spin_front", "nonsense");
  df_collective coll = df_simple(5000, 2);
  df_once(ctxs, 1, &coll, 0);
  df_free_contexts(ctxs, 2);
}

/* dfcclGetUniqueId reads only the variables that it needs. */
DF_TEST(environment, a_unique_id_needs_good_values_too, 30) {
  static const char *const bad[][2] = {
      {"DFCCL_NET", "nnoe"}, {"DFCCL_NET_PORTS", "70000"}, {"DFCCL_NET_PORT", "50000"}};
  dfcclUniqueId id;
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    setenv(bad[i][0], bad[i][1], 1);
    RESULT(dfcclGetUniqueId(&id), dfcclInvalidUsage);
    CHECK(df_mentions(dfcclGetLastError(NULL), bad[i][0]), "%s", dfcclGetLastError(NULL));
    unsetenv(bad[i][0]);
  }
}

/* An unknown name of a variable would otherwise be ignored silently. Its value may be a secret, so
 * the sentence omits it. */
DF_TEST(environment, misspelt_names_are_refused, 30) {
  static const char *const misspelt[][3] = {
      {"DFCCL_QUEUE_DEPHT", "6464", "DFCCL_QUEUE_DEPTH"},
      {"DFCCL_SLOTS", "4444", "TUNING"}, /* it is a number of the tuning table */
      {"DFCCL_SECRETS", "nobody knows it", "DFCCL_SECRET"}};
  for (size_t i = 0; i < sizeof misspelt / sizeof *misspelt; i++) {
    expect_refused(misspelt[i][0], "");
    setenv(misspelt[i][0], misspelt[i][1], 1);
    dfcclContext_t ctx;
    RESULT(dfcclInitAll(&ctx, 1, NULL), dfcclInvalidUsage);
    unsetenv(misspelt[i][0]);
    const char *sentence = dfcclGetLastError(NULL);
    CHECK(df_mentions(sentence, misspelt[i][2]), "\"%s\"", sentence);
    CHECK(!df_mentions(sentence, misspelt[i][1]), "\"%s\"", sentence);
  }
  expect_works("DFCCL_TEST_ANYTHING", "x", false);
}

/* Numbers of the tuning table are set without a file. */
static const struct {
  const char *name, *bad[3], *good[3];
} numbers[] = {
    {"slot_bytes", {"0", "1x"}, {"256", "4096", "4K"}},
    {"slots", {"0", "3", "many"}, {"2", "8"}},
    {"flagged_max", {"-1"}, {"0", "100"}},
    {"lend_min", {"0"}, {"1", "1000000"}},
    {"lend", {"2"}, {"0", "1"}},
    {"ring_bytes", {"2T"}, {"0", "100000"}},
    {"ring_budget", {"x"}, {"0", "100000"}},
    {"common", {"3"}, {"0", "2"}},
    {"lend_in_place_min", {""}, {"0", "1000"}},
    {"stream_min", {"1,"}, {"0", "1000"}},
    {"way", {"6"}, {"0", "5"}},
    {"borrowed_turn_max", {"8M"}, {"0", "1000000"}},
    {"block_min", {"0"}, {"1", "1000000"}},
    {"split", {"4097"}, {"0", "1", "3"}},
    {"words_max", {"65537"}, {"0", "65536"}},
    {"cq", {"heap", "rings", "1"}, {"ring", "packed", "SLOTS"}},
    {"spin_front", {"0", "-1", "many"}, {"1", "100000"}},
    {"spin_min", {"0", "1.5", "2G"}, {"1", "1000"}},
    {"spin_boost", {"0", "1001", "1e3"}, {"1", "100"}},
    {"fetch_polls", {"-1", "12abc", "2G"}, {"0", "1", "10000"}},
    {"quit_polls", {"0", "99999999999999999999"}, {"1", "100000"}},
    {"yield_polls", {"0", "x"}, {"1", "1000"}},
    {"preempt_every", {"2", "-1"}, {"0", "1"}},
    {"pages_after", {"-1", "1000001"}, {"0", "1", "1000000"}},
    {"spread", {"2", "-1"}, {"0", "1"}},
    {"nap_us", {"9", "1000001"}, {"10", "10000"}},
    {"cuda_collectives", {"0", "65537"}, {"1", "65536"}},
    {"cuda_timers", {"2", "-1"}, {"0", "1"}},
    {"cuda_threads", {"0", "48", "1024"}, {"32", "512"}},
    {"cuda_relay", {"2"}, {"0", "1"}},
    {"cuda_restart_us", {"0"}, {"1"}},
    {"cuda_nap_us", {"0", "100001"}, {"1"}},
    {"cuda_patience_ms", {"1"}, {"2"}},
    {"no_such_name", {"1"}, {NULL}},
};

DF_TEST(environment, numbers_of_the_tuning_table, 120) {
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    char value[64];
    for (int k = 0; k < 3; k++) {
      if (numbers[i].bad[k] != NULL) {
        dfcclContext_t ctxs[2];
        dfcclConfig_t config = df_config();
        df_tune(numbers[i].name, numbers[i].bad[k][0] ? numbers[i].bad[k] : " ");
        RESULT(dfcclInitAll(ctxs, 2, &config), dfcclInvalidUsage);
        CHECK(df_mentions(dfcclGetLastError(NULL), "DFCCL_TUNING") &&
                  df_mentions(dfcclGetLastError(NULL), numbers[i].name),
              "%s: \"%s\"", numbers[i].name, dfcclGetLastError(NULL));
        df_tune(numbers[i].name, NULL);
      }
      if (numbers[i].good[k] != NULL && (k == 0 || df_slowdown() == 1)) {
        snprintf(value, sizeof value, "set:%s=%s", numbers[i].name, numbers[i].good[k]);
        expect_works("DFCCL_TUNING", value, false);
      }
    }
  }
}

/* Variables of earlier versions that have become numbers of the tuning table. */
DF_TEST(environment, moved_variables_are_refused_with_the_new_spelling, 30) {
  static const char *const moved[][2] = {{"DFCCL_SPIN_FRONT", "set:spin_front="},
                                         {"DFCCL_SPIN_MIN", "set:spin_min="},
                                         {"DFCCL_SPIN_BOOST", "set:spin_boost="},
                                         {"DFCCL_FETCH_POLLS", "set:fetch_polls="},
                                         {"DFCCL_QUIT_POLLS", "set:quit_polls="},
                                         {"DFCCL_YIELD_POLLS", "set:yield_polls="},
                                         {"DFCCL_SPREAD", "set:spread="},
                                         {"DFCCL_PREEMPT_EVERY", "set:preempt_every="},
                                         {"DFCCL_NAP_US", "set:nap_us="},
                                         {"DFCCL_CQ", "set:cq="},
                                         {"DFCCL_CUDA_COLLECTIVES", "set:cuda_collectives="},
                                         {"DFCCL_CUDA_TIMERS", "set:cuda_timers="},
                                         {"DFCCL_CUDA_THREADS", "set:cuda_threads="},
                                         {"DFCCL_CUDA_RELAY", "set:cuda_relay="},
                                         {"DFCCL_CUDA_RESTART_US", "set:cuda_restart_us="},
                                         {"DFCCL_CUDA_NAP_US", "set:cuda_nap_us="},
                                         {"DFCCL_CUDA_PATIENCE_MS", "set:cuda_patience_ms="}};
  for (size_t i = 0; i < sizeof moved / sizeof *moved; i++) {
    expect_refused(moved[i][0], "");
    setenv(moved[i][0], "1", 1);
    dfcclContext_t ctx;
    RESULT(dfcclInitAll(&ctx, 1, NULL), dfcclInvalidUsage);
    unsetenv(moved[i][0]);
    CHECK(df_mentions(dfcclGetLastError(NULL), moved[i][1]), "%s", dfcclGetLastError(NULL));
  }
}
