/*
 * Promises of src/host/observe/dump.c about readers and about other handlers of the signal:
 *   - A dump that cannot be written is an error with a sentence. A reader that has closed its end
 *     never ends the process, and leaves no signal behind.
 *   - A run waits for the members whose messages are missing, and for no others.
 *   - SIGUSR2 still reaches the handler that was installed before the library's.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage.h"
#include "base/mutex.h"
#include "host/observe/awaited_ranks.h"
#include "host/observe/dump.h"
#include "host/state/registry.h"

static int has_pending_pipe_signal(void) {
  sigset_t pending;
  sigpending(&pending);
  return sigismember(&pending, SIGPIPE);
}

static void says(dfcclResult_t result, const char *words) {
  RESULT(result, dfcclSystemError);
  CHECK(strstr(df_last_sentence(), words) != NULL, "\"%s\"", df_last_sentence());
}

DF_TEST(dump, with_a_closed_reader, 30) {
  df_stage s;
  int ends[2];
  stage_open(&s);
  CHECK(pipe(ends) == 0, "no pipe");
  close(ends[0]);
  says(df_dump(s.context, ends[1]), "Broken pipe");
  CHECK(!has_pending_pipe_signal(), "a signal is left behind");
  sigset_t set;
  pthread_sigmask(SIG_SETMASK, NULL, &set);
  CHECK(!sigismember(&set, SIGPIPE), "the signal is blocked from now on");
  /* a pending signal of the application remains */
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  raise(SIGPIPE);
  says(df_dump(s.context, ends[1]), "Broken pipe");
  CHECK(has_pending_pipe_signal(), "the application's own signal is lost");
  close(ends[1]);
  stage_close(&s);
}

DF_TEST(dump, without_room, 30) {
  df_stage s;
  stage_open(&s);
  int full = open("/dev/full", O_WRONLY);
  if (full < 0) DF_SKIP("no /dev/full");
  says(df_dump(s.context, full), "No space left");
  close(full);
  says(df_dump(s.context, -1), "Bad file");
  stage_close(&s);
}

static volatile sig_atomic_t plain_calls, detailed_calls;
static void plain(int number) { plain_calls += number == SIGUSR2; }
static void detailed(int number, siginfo_t *info, void *machine) {
  detailed_calls += number == SIGUSR2 && info->si_signo == SIGUSR2 && machine != NULL;
}

static void signal_reaches(struct sigaction action, volatile sig_atomic_t *calls) {
  setenv("DFCCL_DEBUG_SIGNAL", "1", 1);
  df_stage s;
  uint32_t before = df_dump_signals_seen();
  if (action.sa_handler) CHECK(sigaction(SIGUSR2, &action, NULL) == 0, "no handler");
  stage_open(&s);
  raise(SIGUSR2);
  CHECK(df_dump_signals_seen() == before + 1, "the library did not see it");
  if (calls)
    CHECK(*calls == 1, "the handler that was there before was called %d times", (int)*calls);
  stage_close(&s);
}

DF_TEST(dump, signal_with_a_plain_handler_before, 30) {
  signal_reaches((struct sigaction){.sa_handler = plain}, &plain_calls);
}

DF_TEST(dump, signal_with_a_detailed_handler_before, 30) {
  signal_reaches((struct sigaction){.sa_sigaction = detailed, .sa_flags = SA_SIGINFO},
                 &detailed_calls);
}

DF_TEST(dump, signal_that_was_ignored_before, 30) {
  signal_reaches((struct sigaction){.sa_handler = SIG_IGN}, NULL);
}

/* The hub of a flat all-reduce, for whose second run only rank 1 has submitted at first. */
DF_TEST(dump, a_run_waits_for_the_missing_members, 30) {
  enum { RANKS = 3 };
  dfcclContext_t ctxs[RANKS];
  float data[RANKS] = {1, 2, 4};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  char text[512] = "";
  options.algorithm = "flat";
  OK(dfcclInitAll(ctxs, RANKS, NULL));
  for (int r = 0; r < RANKS; r++)
    OK(dfcclRegisterAllReduce(ctxs[r], 5, 1, dfcclFloat32, dfcclSum, &options));
  for (int r = 0; r < RANKS; r++) OK(dfcclRunAllReduce(ctxs[r], 5, &data[r], &data[r], NULL, NULL));
  for (int r = 0; r < RANKS; r++) OK(dfcclWait(ctxs[r], 5));
  for (int r = 0; r < 2; r++) OK(dfcclRunAllReduce(ctxs[r], 5, &data[r], &data[r], NULL, NULL));
  df_waiting_for("rank 0 to wait for rank 2");
  int waits[RANKS] = {0};
  while (strstr(text, "waits for a message from rank 2") == NULL) {
    df_rank_lock(&ctxs[0]->lock);
    const df_coll *coll = df_find(ctxs[0], 5);
    for (uint32_t i = 1; i < RANKS; i++) waits[i] = df_waits_for_member(ctxs[0], coll, i);
    df_describe_wait(ctxs[0], coll, text, sizeof text);
    df_rank_unlock(&ctxs[0]->lock);
    df_sleep_ms(1);
  }
  df_waiting_for(NULL);
  CHECK(waits[2] && !waits[1], "it waits for rank 1: %d, for rank 2: %d", waits[1], waits[2]);
  OK(dfcclRunAllReduce(ctxs[2], 5, &data[2], &data[2], NULL, NULL));
  for (int r = 0; r < RANKS; r++) OK(dfcclWait(ctxs[r], 5));
  for (int r = 0; r < RANKS; r++) CHECK(data[r] == 21, "%g", (double)data[r]);
  for (int r = 0; r < RANKS; r++) OK(dfcclDestroy(ctxs[r]));
}
