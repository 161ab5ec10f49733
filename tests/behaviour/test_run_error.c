/*
 * Promises of dfcclGetRunError, and of the reasons of aborts:
 *   - The sentence is that of the run, whatever has failed before or after it, also inside the
 *     run's callback and after the collective was deregistered.
 *   - A run that has succeeded or is outstanding has no sentence.
 *   - The last 8 deregistered failures are kept. Other questions are refused.
 *   - A rank that aborts with a reason is reported with it, and not as a caller of dfcclAbort.
 */
#include "support/buffers.h"

#include <stdio.h>
#include <string.h>

enum { RANKS = 2, COUNT = 100, KEPT = 8, TEXT = 512 };

typedef struct told {
  dfcclContext_t ctx;
  uint64_t run;
  dfcclResult_t status;
  char text[TEXT];
  atomic_int calls;
} told;

static int32_t send[COUNT], recv[RANKS][COUNT];

static void ask_in_callback(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  told *t = arg;
  OK(dfcclGetRunError(t->ctx, id, t->run, &t->status, t->text, sizeof t->text));
  RESULT(t->status, status);
  atomic_fetch_add(&t->calls, 1);
}

static dfcclResult_t submit(dfcclContext_t ctx, dfcclCollId_t id, dfcclCallback_t callback,
                            void *arg) {
  int rank;
  OK(dfcclGetRank(ctx, &rank, NULL));
  return dfcclRunAllReduce(ctx, id, send, recv[rank], callback, arg);
}

static void open_job(dfcclContext_t *ctxs, dfcclCollId_t first, int n) {
  const df_collective coll = df_simple(COUNT, RANKS);
  df_make_contexts(ctxs, RANKS, NULL);
  for (int i = 0; i < n; i++) df_register_all(ctxs, first + (dfcclCollId_t)i, &coll);
}

static void has_failed(dfcclContext_t ctx, dfcclCollId_t id, uint64_t run, dfcclResult_t expected,
                       const char *words) {
  char text[TEXT] = "?";
  dfcclResult_t status = dfcclSuccess;
  OK(dfcclGetRunError(ctx, id, run, &status, text, sizeof text));
  RESULT(status, expected);
  CHECK(strstr(text, words), "collective %d: \"%s\" lacks \"%s\"", (int)id, text, words);
}

DF_TEST(run_error, each_run_has_its_own_sentence, 30) {
  dfcclContext_t ctxs[RANKS];
  told first = {0}, second = {0};
  open_job(ctxs, 7, 3);
  first.ctx = second.ctx = ctxs[0];
  OK(submit(ctxs[0], 7, ask_in_callback, &first));
  OK(submit(ctxs[0], 8, ask_in_callback, &second));
  OK(dfcclAbortCollectivesWithReason(ctxs[0], (dfcclCollId_t[]){7}, 1, "the first reason"));
  OK(dfcclAbortCollectivesWithReason(ctxs[0], (dfcclCollId_t[]){8}, 1, "the second reason"));
  RESULT(dfcclWait(ctxs[0], 7), dfcclAborted);
  RESULT(dfcclWait(ctxs[0], 8), dfcclAborted);
  RESULT(dfcclWait(ctxs[0], 12345), dfcclInvalidArgument);
  CHECK(atomic_load(&first.calls) == 1 && strstr(first.text, "the first reason"), "\"%s\"",
        first.text);
  CHECK(atomic_load(&second.calls) == 1 && strstr(second.text, "the second reason"), "\"%s\"",
        second.text);
  has_failed(ctxs[0], 7, 0, dfcclAborted, "the first reason");
  has_failed(ctxs[0], 8, 0, dfcclAborted, "the second reason");
  OK(dfcclDeregister(ctxs[0], 7));
  has_failed(ctxs[0], 7, 0, dfcclAborted, "the first reason");
  df_free_contexts(ctxs, RANKS);
}

DF_TEST(run_error, other_runs_have_none, 30) {
  dfcclContext_t ctxs[RANKS];
  dfcclResult_t status = dfcclInternalError;
  char text[TEXT] = "?";
  open_job(ctxs, 7, 1);
  OK(submit(ctxs[0], 7, NULL, NULL));
  OK(dfcclGetRunError(ctxs[0], 7, 0, &status, text, sizeof text));
  CHECK(status == dfcclInProgress && *text == '\0', "%d, \"%s\"", (int)status, text);
  OK(submit(ctxs[1], 7, NULL, NULL));
  OK(dfcclWait(ctxs[0], 7));
  OK(submit(ctxs[0], 7, NULL, NULL));
  OK(dfcclAbortCollectives(ctxs[0], (dfcclCollId_t[]){7}, 1));
  RESULT(dfcclWait(ctxs[0], 7), dfcclAborted);
  has_failed(ctxs[0], 7, 0, dfcclSuccess, "");
  has_failed(ctxs[0], 7, 1, dfcclAborted, "rank 0 called dfcclAbortCollectives");
  OK(dfcclDeregister(ctxs[0], 7));
  has_failed(ctxs[0], 7, 0, dfcclSuccess, "");
  has_failed(ctxs[0], 7, 1, dfcclAborted, "rank 0 called dfcclAbortCollectives");
  df_free_contexts(ctxs, RANKS);
}

DF_TEST(run_error, the_last_failures_are_kept, 30) {
  dfcclContext_t ctxs[RANKS];
  dfcclResult_t status = dfcclInternalError;
  open_job(ctxs, 20, KEPT + 1);
  for (dfcclCollId_t id = 20; id <= 20 + KEPT; id++) {
    char reason[32];
    snprintf(reason, sizeof reason, "reason %d", (int)id);
    OK(submit(ctxs[0], id, NULL, NULL));
    OK(dfcclAbortCollectivesWithReason(ctxs[0], &id, 1, reason));
    RESULT(dfcclWait(ctxs[0], id), dfcclAborted);
    OK(dfcclDeregister(ctxs[0], id));
  }
  for (dfcclCollId_t id = 21; id <= 20 + KEPT; id++) {
    char reason[32];
    snprintf(reason, sizeof reason, "reason %d", (int)id);
    has_failed(ctxs[0], id, 0, dfcclAborted, reason);
  }
  RESULT(dfcclGetRunError(ctxs[0], 20, 0, &status, NULL, 0), dfcclInvalidArgument);
  CHECK(status == dfcclInternalError, "%d", (int)status);
  df_free_contexts(ctxs, RANKS);
}

DF_TEST(run_error, other_questions_are_refused, 30) {
  dfcclContext_t ctxs[RANKS];
  char text[12] = "?";
  open_job(ctxs, 7, 1);
  RESULT(dfcclGetRunError(ctxs[0], 7, 0, NULL, text, sizeof text), dfcclInvalidArgument);
  CHECK(df_mentions(dfcclGetLastError(NULL), "0 runs of collective 7"), "\"%s\"",
        dfcclGetLastError(NULL));
  RESULT(dfcclGetRunError(ctxs[0], 99, 0, NULL, text, sizeof text), dfcclInvalidArgument);
  RESULT(dfcclGetRunError(ctxs[0], 7, 0, NULL, NULL, 4), dfcclInvalidArgument);
  RESULT(dfcclGetRunError(NULL, 7, 0, NULL, text, sizeof text), dfcclInvalidArgument);
  CHECK(strcmp(text, "?") == 0, "\"%s\"", text);
  OK(submit(ctxs[0], 7, NULL, NULL));
  OK(dfcclAbort(ctxs[0]));
  OK(dfcclGetRunError(ctxs[0], 7, 0, NULL, text, sizeof text));
  CHECK(strcmp(text, "rank 0 call") == 0, "\"%s\"", text);
  df_free_contexts(ctxs, RANKS);
}

DF_TEST(run_error, an_abort_has_its_reason, 30) {
  dfcclContext_t ctxs[RANKS];
  open_job(ctxs, 7, 1);
  OK(submit(ctxs[0], 7, NULL, NULL));
  OK(submit(ctxs[1], 7, NULL, NULL));
  OK(dfcclWait(ctxs[0], 7));
  OK(dfcclWait(ctxs[1], 7));
  OK(submit(ctxs[0], 7, NULL, NULL));
  OK(dfcclAbortWithReason(ctxs[1], "the program\nhas ended"));
  RESULT(dfcclWait(ctxs[0], 7), dfcclRemoteError);
  has_failed(ctxs[0], 7, 1, dfcclRemoteError, "rank 1 aborted, because: the program?has ended");
  CHECK(!strstr(dfcclGetLastError(ctxs[0]), "called dfcclAbort"), "\"%s\"",
        dfcclGetLastError(ctxs[0]));
  RESULT(submit(ctxs[1], 7, NULL, NULL), dfcclAborted);
  CHECK(df_mentions(dfcclGetLastError(NULL), "because: the program?has ended"), "\"%s\"",
        dfcclGetLastError(NULL));
  df_free_contexts(ctxs, RANKS);
}
