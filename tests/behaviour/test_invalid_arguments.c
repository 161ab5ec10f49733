/*
 * Promise: each parameter of each function is checked. An invalid value gives dfcclInvalidArgument
 * (or dfcclInvalidUsage if the call comes at a wrong moment) and one sentence that names the value.
 * A refused call changes nothing.
 */
#include "support/buffers.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dfcclContext_t ctxs[3];

/* The call's result, and what its sentence must contain. */
#define REFUSED(call, expected, words)                                                             \
  do {                                                                                             \
    RESULT(call, expected);                                                                        \
    const char *sentence_ = dfcclGetLastError(NULL);                                               \
    CHECK(df_mentions(sentence_, words), "%s: \"%s\" does not mention \"%s\"", #call, sentence_,   \
          words);                                                                                  \
    CHECK(strlen(sentence_) > 10 && strchr(sentence_, '\n') == NULL, "no sentence: \"%s\"",        \
          sentence_);                                                                              \
  } while (0)

DF_TEST(invalid_arguments, lifecycle, 30) {
  dfcclContext_t ctx = NULL;
  dfcclConfig_t config = df_config();
  dfcclUniqueId id;
  REFUSED(dfcclGetVersion(NULL), dfcclInvalidArgument, "version");
  REFUSED(dfcclGetUniqueId(NULL), dfcclInvalidArgument, "id");
  OK(dfcclGetUniqueId(&id));
  REFUSED(dfcclInit(NULL, 1, id, 0, &config), dfcclInvalidArgument, "ctx");
  REFUSED(dfcclInit(&ctx, 0, id, 0, &config), dfcclInvalidArgument, "0");
  REFUSED(dfcclInit(&ctx, -3, id, 0, &config), dfcclInvalidArgument, "-3");
  REFUSED(dfcclInit(&ctx, 100000, id, 0, &config), dfcclInvalidArgument, "100000");
  REFUSED(dfcclInit(&ctx, 2, id, 2, &config), dfcclInvalidArgument, "2");
  REFUSED(dfcclInit(&ctx, 2, id, -1, &config), dfcclInvalidArgument, "-1");
  REFUSED(dfcclInitAll(NULL, 1, &config), dfcclInvalidArgument, "ctx");
  REFUSED(dfcclInitAll(&ctx, 0, &config), dfcclInvalidArgument, "0");
  REFUSED(dfcclInitAll(&ctx, 100000, &config), dfcclInvalidArgument, "100000");
  const int devices[] = {-2};
  REFUSED(dfcclInitAllDevices(NULL, 1, NULL, &config), dfcclInvalidArgument, "ctx");
  REFUSED(dfcclInitAllDevices(&ctx, 0, devices, &config), dfcclInvalidArgument, "0");
  REFUSED(dfcclInitAllDevices(&ctx, 1, devices, &config), dfcclInvalidArgument, "devices[0] is -2");
  REFUSED(dfcclInitFromEnv(NULL, &config), dfcclInvalidArgument, "ctx");
  REFUSED(dfcclDestroy(NULL), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclAbort(NULL), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclGetRank(NULL, NULL, NULL), dfcclInvalidArgument, "NULL");
  CHECK(ctx == NULL, "a refused call set *ctx");
  memset(&id, 0, sizeof id); /* not an identity that dfcclGetUniqueId made */
  dfcclResult_t result = dfcclInit(&ctx, 2, id, 1, &config);
  CHECK(result == dfcclInvalidArgument && ctx == NULL, "an id of zeros: %s",
        df_test_result_name(result));
}

DF_TEST(invalid_arguments, config, 30) {
  dfcclContext_t ctx = NULL;
  dfcclConfig_t config = df_config();
#define BAD_CONFIG(member, value, words)                                                           \
  do {                                                                                             \
    config = df_config();                                                                          \
    config.member = value;                                                                         \
    REFUSED(dfcclInitAll(&ctx, 1, &config), dfcclInvalidArgument, words);                          \
  } while (0)
  BAD_CONFIG(magic, 0x12345678u, "12345678");
  BAD_CONFIG(size, 3, "3");
  BAD_CONFIG(backend, (dfcclBackend_t)9, "9");
  BAD_CONFIG(maxBlocks, -5, "-5");
  BAD_CONFIG(maxBlocks, 1000000, "1000000");
  BAD_CONFIG(queueDepth, -6, "-6");
  BAD_CONFIG(queueDepth, 2147483647, "2147483647");
  BAD_CONFIG(timeoutMs, -7, "-7");
#undef BAD_CONFIG
  CHECK(ctx == NULL, "a refused call set *ctx");
  OK(dfcclInitAll(&ctx, 1, NULL)); /* no configuration: every member has its default */
  OK(dfcclDestroy(ctx));
}

DF_TEST(invalid_arguments, every_register_function, 30) {
  df_make_contexts(ctxs, 3, NULL);
  dfcclContext_t c = ctxs[0];
  const dfcclDataType_t f32 = dfcclFloat32, no_type = (dfcclDataType_t)14;
  const dfcclRedOp_t no_op = (dfcclRedOp_t)8;
  const size_t much = (size_t)-1 / 2;
  REFUSED(dfcclRegisterAllReduce(NULL, 1, 1, f32, dfcclSum, NULL), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclRegisterReduce(NULL, 1, 1, f32, dfcclSum, 0, NULL), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclRegisterBroadcast(NULL, 1, 1, f32, 0, NULL), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclRegisterAllGather(NULL, 1, 1, f32, NULL), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclRegisterReduceScatter(NULL, 1, 1, f32, dfcclSum, NULL), dfcclInvalidArgument,
          "NULL");
  REFUSED(dfcclRegisterAllToAll(NULL, 1, 1, f32, NULL), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclRegisterAllReduce(c, 1, 1, no_type, dfcclSum, NULL), dfcclInvalidArgument, "14");
  REFUSED(dfcclRegisterReduce(c, 1, 1, (dfcclDataType_t)-1, dfcclSum, 0, NULL),
          dfcclInvalidArgument, "type");
  REFUSED(dfcclRegisterBroadcast(c, 1, 1, no_type, 0, NULL), dfcclInvalidArgument, "14");
  REFUSED(dfcclRegisterAllGather(c, 1, 1, no_type, NULL), dfcclInvalidArgument, "14");
  REFUSED(dfcclRegisterReduceScatter(c, 1, 1, no_type, dfcclSum, NULL), dfcclInvalidArgument, "14");
  REFUSED(dfcclRegisterAllToAll(c, 1, 1, no_type, NULL), dfcclInvalidArgument, "14");
  REFUSED(dfcclRegisterAllReduce(c, 1, 1, f32, no_op, NULL), dfcclInvalidArgument, "8");
  REFUSED(dfcclRegisterAllReduce(c, 1, 1, f32, dfcclBand, NULL), dfcclInvalidArgument, "bits");
  REFUSED(dfcclRegisterReduce(c, 1, 1, f32, no_op, 0, NULL), dfcclInvalidArgument, "8");
  REFUSED(dfcclRegisterReduceScatter(c, 1, 1, f32, no_op, NULL), dfcclInvalidArgument, "8");
  REFUSED(dfcclRegisterReduce(c, 1, 1, f32, dfcclSum, 3, NULL), dfcclInvalidArgument, "3");
  REFUSED(dfcclRegisterReduce(c, 1, 1, f32, dfcclSum, -2, NULL), dfcclInvalidArgument, "-2");
  REFUSED(dfcclRegisterBroadcast(c, 1, 1, f32, 3, NULL), dfcclInvalidArgument, "3");
  REFUSED(dfcclRegisterBroadcast(c, 1, 1, f32, -2, NULL), dfcclInvalidArgument, "-2");
  REFUSED(dfcclRegisterAllReduce(c, 1, much, f32, dfcclSum, NULL), dfcclInvalidArgument, "count");
  REFUSED(dfcclRegisterAllGather(c, 1, much / 3, f32, NULL), dfcclInvalidArgument, "ount");
  REFUSED(dfcclRegisterReduceScatter(c, 1, much / 3, f32, dfcclSum, NULL), dfcclInvalidArgument,
          "ount");
  REFUSED(dfcclRegisterAllToAll(c, 1, much / 3, f32, NULL), dfcclInvalidArgument, "ount");
  REFUSED(dfcclDeregister(c, 1), dfcclInvalidArgument, "1"); /* none of them registered it */
  OK(dfcclRegisterAllReduce(c, 1, 1, f32, dfcclSum, NULL));
  REFUSED(dfcclRegisterAllToAll(c, 1, 1, f32, NULL), dfcclInvalidUsage, "1");
  df_free_contexts(ctxs, 3);
}

DF_TEST(invalid_arguments, options, 30) {
  df_make_contexts(ctxs, 3, NULL);
  dfcclCollOptions_t options;
  static const int repeated[] = {0, 2, 0}, outside[] = {0, 7}, negative[] = {-4, 0},
                   without_me[] = {1, 2};
#define BAD_OPTIONS(statement, words)                                                              \
  do {                                                                                             \
    options = (dfcclCollOptions_t)DFCCL_COLL_OPTIONS_INITIALIZER;                                  \
    statement;                                                                                     \
    REFUSED(dfcclRegisterAllReduce(ctxs[0], 1, 1, dfcclInt8, dfcclSum, &options),                  \
            dfcclInvalidArgument, words);                                                          \
  } while (0)
  BAD_OPTIONS(options.magic = 0xABCDEFu, "abcdef");
  BAD_OPTIONS(options.size = 2, "2");
  BAD_OPTIONS((options.ranks = repeated, options.nRanks = 3), "0");
  BAD_OPTIONS((options.ranks = outside, options.nRanks = 2), "7");
  BAD_OPTIONS((options.ranks = negative, options.nRanks = 2), "-4");
  BAD_OPTIONS((options.ranks = without_me, options.nRanks = 2), "0");
  BAD_OPTIONS((options.ranks = outside, options.nRanks = 0), "0");
  BAD_OPTIONS((options.ranks = NULL, options.nRanks = 2), "2");
  BAD_OPTIONS((options.ranks = outside, options.nRanks = -1), "-1");
  BAD_OPTIONS((options.ranks = repeated, options.nRanks = 100), "100");
  BAD_OPTIONS(options.algorithm = "quantum", "quantum");
  BAD_OPTIONS(options.algorithm = "", "algorithm");
#undef BAD_OPTIONS
  static const int pair[] = {1, 0};
  options = (dfcclCollOptions_t)DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = pair;
  options.nRanks = 2;
  REFUSED(dfcclRegisterBroadcast(ctxs[0], 1, 1, dfcclInt8, 2, &options), dfcclInvalidArgument, "2");
  df_free_contexts(ctxs, 3);
}

DF_TEST(invalid_arguments, every_run_function, 30) {
  dfcclContext_t two[2];
  static float send[4], recv[8];
  df_make_contexts(two, 2, NULL);
  for (int kind = 0; kind < DF_KIND_COUNT; kind++) {
    df_collective coll = {
        .kind = (df_kind)kind, .type = dfcclFloat32, .count = 2, .members = 2, .root = 0};
    df_kind other = (df_kind)((kind + 2) % DF_KIND_COUNT);
    dfcclCollId_t id = 50 + (dfcclCollId_t)kind;
    OK(df_register(two[0], id, &coll));
    REFUSED(df_run(NULL, id, coll.kind, send, recv, NULL, NULL), dfcclInvalidArgument, "NULL");
    REFUSED(df_run(two[0], 999, coll.kind, send, recv, NULL, NULL), dfcclInvalidArgument, "999");
    REFUSED(df_run(two[0], id, other, send, recv, NULL, NULL), dfcclInvalidArgument, "");
    CHECK(strcasestr(dfcclGetLastError(NULL), df_kind_name(coll.kind)) != NULL,
          "the kind is not named: \"%s\"", dfcclGetLastError(NULL));
    REFUSED(df_run(two[0], id, coll.kind, NULL, recv, NULL, NULL), dfcclInvalidArgument, "sendBuf");
    REFUSED(df_run(two[0], id, coll.kind, (char *)send + 1, recv, NULL, NULL), dfcclInvalidArgument,
            "sendBuf");
    if (!df_receives(&coll, 0)) continue;
    REFUSED(df_run(two[0], id, coll.kind, send, NULL, NULL, NULL), dfcclInvalidArgument, "recvBuf");
    REFUSED(df_run(two[0], id, coll.kind, send, (char *)recv + 2, NULL, NULL), dfcclInvalidArgument,
            "recvBuf");
  }
  dfcclStats_t stats = df_stats(two[0]);
  CHECK(stats.sqesSubmitted == 0, "a refused run was counted as submitted");
  df_free_contexts(two, 2);
}

DF_TEST(invalid_arguments, every_run_function_on_a_stream, 30) {
  static dfcclResult_t (*const runs[])(dfcclContext_t, dfcclCollId_t, const void *, void *, void *,
                                       dfcclCallback_t, void *) = {
      dfcclRunAllReduceOnStream, dfcclRunReduceOnStream,        dfcclRunBroadcastOnStream,
      dfcclRunAllGatherOnStream, dfcclRunReduceScatterOnStream, dfcclRunAllToAllOnStream};
  dfcclContext_t alone;
  dfcclConfig_t config = df_config();
  float send = 0, recv = 0;
  config.backend = dfcclBackendCpu;
  OK(dfcclInitAll(&alone, 1, &config));
  OK(dfcclRegisterAllReduce(alone, 1, 1, dfcclFloat32, dfcclSum, NULL));
  for (size_t i = 0; i < sizeof runs / sizeof runs[0]; i++) {
    REFUSED(runs[i](NULL, 1, &send, &recv, NULL, NULL, NULL), dfcclInvalidArgument, "NULL");
    REFUSED(runs[i](alone, 1, &send, &recv, NULL, NULL, NULL), dfcclInvalidUsage, "streams");
  }
  CHECK(df_stats(alone).sqesSubmitted == 0, "a refused run was counted as submitted");
  OK(dfcclDestroy(alone));
}

DF_TEST(invalid_arguments, the_others, 30) {
  int done = 0;
  void *memory = NULL;
  dfcclStats_t stats = DFCCL_STATS_INITIALIZER;
  df_make_contexts(ctxs, 1, NULL);
  OK(dfcclRegisterAllReduce(ctxs[0], 5, 1, dfcclInt8, dfcclSum, NULL));
  REFUSED(dfcclTest(NULL, 5, &done), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclTest(ctxs[0], 6, &done), dfcclInvalidArgument, "6");
  REFUSED(dfcclTest(ctxs[0], 5, NULL), dfcclInvalidArgument, "done");
  REFUSED(dfcclWait(NULL, 5), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclWait(ctxs[0], 6), dfcclInvalidArgument, "6");
  REFUSED(dfcclWaitAll(NULL), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclDeviceSynchronize(NULL), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclDeregister(NULL, 5), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclDeregister(ctxs[0], 6), dfcclInvalidArgument, "6");
  REFUSED(dfcclMemAlloc(NULL, &memory, 10), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclMemAlloc(ctxs[0], NULL, 10), dfcclInvalidArgument, "ptr");
  REFUSED(dfcclMemAlloc(ctxs[0], &memory, 0), dfcclInvalidArgument, "0");
  REFUSED(dfcclMemFree(NULL, &done), dfcclInvalidArgument, "NULL");
  OK(dfcclMemFree(ctxs[0], NULL)); /* as free */
  REFUSED(dfcclMemFree(ctxs[0], &done), dfcclInvalidArgument, "");
  REFUSED(dfcclGetStats(NULL, &stats), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclGetStats(ctxs[0], NULL), dfcclInvalidArgument, "stats");
  dfcclMemory_t use = DFCCL_MEMORY_INITIALIZER;
  REFUSED(dfcclGetMemory(NULL, &use), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclGetMemory(ctxs[0], NULL), dfcclInvalidArgument, "memory");
  REFUSED(dfcclGetCollectiveMemory(NULL, 5, &use), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclGetCollectiveMemory(ctxs[0], 5, NULL), dfcclInvalidArgument, "memory");
  REFUSED(dfcclGetCollectiveMemory(ctxs[0], 6, &use), dfcclInvalidArgument, "6");
  use.size = 20;
  REFUSED(dfcclGetMemory(ctxs[0], &use), dfcclInvalidArgument, "20");
  size_t count = 0;
  REFUSED(dfcclGetTimes(NULL, dfcclTimeFetch, NULL, NULL, &count), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclGetTimes(ctxs[0], dfcclTimeFetch, NULL, NULL, NULL), dfcclInvalidArgument, "count");
  REFUSED(dfcclGetTimes(ctxs[0], (dfcclTime_t)77, NULL, NULL, &count), dfcclInvalidArgument, "77");
  REFUSED(dfcclGetTimes(ctxs[0], (dfcclTime_t)-1, NULL, NULL, &count), dfcclInvalidArgument, "-1");
  REFUSED(dfcclGetTimes(ctxs[0], dfcclTimeFetch, NULL, NULL, &count), dfcclInvalidUsage, "timers");
  REFUSED(dfcclGetEvents(NULL, NULL, &count), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclGetEvents(ctxs[0], NULL, NULL), dfcclInvalidArgument, "count");
  REFUSED(dfcclGetEvents(ctxs[0], NULL, &count), dfcclInvalidUsage, "timers");
  stats.magic = 0x77;
  REFUSED(dfcclGetStats(ctxs[0], &stats), dfcclInvalidArgument, "77");
  REFUSED(dfcclDump(NULL, 2), dfcclInvalidArgument, "NULL");
  REFUSED(dfcclDump(ctxs[0], -1), dfcclSystemError, "-1");
  REFUSED(dfcclDump(ctxs[0], 987), dfcclSystemError, "987");
  df_free_contexts(ctxs, 1);
}

/* A program that was compiled with a header with fewer members: the others keep their defaults, and
 * nothing is written behind the members that the program has. */
DF_TEST(invalid_arguments, structs_of_an_older_header, 30) {
  dfcclContext_t ctx;
  dfcclConfig_t config = df_config();
  config.size = offsetof(dfcclConfig_t, timeoutMs);
  config.timeoutMs = -7; /* the library must not read this */
  OK(dfcclInitAll(&ctx, 1, &config));
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.size = offsetof(dfcclCollOptions_t, algorithm);
  options.name = "older";
  options.algorithm = "quantum"; /* the library must not write this */
  OK(dfcclRegisterAllReduce(ctx, 1, 1, dfcclInt8, dfcclSum, &options));
  dfcclStats_t stats = DFCCL_STATS_INITIALIZER;
  stats.size = offsetof(dfcclStats_t, taskQueueLength);
  stats.version = DFCCL_VERSION_CODE + 1;
  stats.blocks = 12345;
  OK(dfcclGetStats(ctx, &stats));
  CHECK(stats.blocks == 12345, "written behind the struct");
  CHECK(stats.size == offsetof(dfcclStats_t, taskQueueLength) &&
            stats.version == DFCCL_VERSION_CODE + 1,
        "what the caller has set: size %zu, version %u", stats.size, stats.version);
  OK(dfcclDestroy(ctx));
}

/* Every result code has a sentence, and so has a code that does not exist. */
DF_TEST(invalid_arguments, error_strings, 30) {
  for (int code = 0; code <= dfcclOutOfMemory; code++)
    for (int other = 0; other < code; other++) {
      const char *text = dfcclGetErrorString((dfcclResult_t)code);
      CHECK(text != NULL && text[0] != '\0', "code %d", code);
      CHECK(strcmp(text, dfcclGetErrorString((dfcclResult_t)other)) != 0, "%d and %d are the same",
            code, other);
    }
  CHECK(dfcclGetErrorString((dfcclResult_t)99) != NULL, "an unknown code");
  CHECK(dfcclGetErrorString((dfcclResult_t)-1) != NULL, "a negative code");
}

/* Each thread has its own latest sentence; it is "no error" before any failure. */
static void no_error_here(int rank, void *arg) {
  (void)rank;
  (void)arg;
  CHECK(strcmp(dfcclGetLastError(NULL), "no error") == 0, "\"%s\"", dfcclGetLastError(NULL));
}

DF_TEST(invalid_arguments, the_latest_sentence, 30) {
  REFUSED(dfcclWait(NULL, 1), dfcclInvalidArgument, "NULL");
  df_in_threads(1, no_error_here, NULL);
  char kept[512];
  const char *sentence = dfcclGetLastError(NULL);
  snprintf(kept, sizeof kept, "%s", sentence);
  RESULT(dfcclGetVersion(NULL), dfcclInvalidArgument);
  CHECK(strcmp(sentence, kept) == 0, "the text is now \"%s\"", sentence);
  df_make_contexts(ctxs, 1, NULL);
  CHECK(strcmp(dfcclGetLastError(ctxs[0]), "no error") == 0, "\"%s\"", dfcclGetLastError(ctxs[0]));
  RESULT(dfcclWait(ctxs[0], 4321), dfcclInvalidArgument);
  CHECK(df_mentions(dfcclGetLastError(ctxs[0]), "4321"), "\"%s\"", dfcclGetLastError(ctxs[0]));
  df_free_contexts(ctxs, 1);
}

/* A count that tiny slots would cut into more loops than can be counted is refused, not wrapped. */
DF_TEST(invalid_arguments, too_many_loops, 30) {
  dfcclContext_t pair[2];
  df_tune("slot_bytes", "64");
  df_make_contexts(pair, 2, NULL);
  df_tune("slot_bytes", NULL);
  RESULT(dfcclRegisterReduce(pair[0], 1, (size_t)1 << 46, dfcclInt8, dfcclSum, 0, NULL),
         dfcclInvalidArgument); /* no rule sets another slot size */
  CHECK(df_mentions(dfcclGetLastError(pair[0]), "70368744177664"), "\"%s\"",
        dfcclGetLastError(pair[0]));
  df_free_contexts(pair, 2);
}
