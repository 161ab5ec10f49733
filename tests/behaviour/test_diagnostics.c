/*
 * Promise: the user can see what the library is doing. dfcclDump writes a paragraph for each
 * incomplete collective, with its name and the rank that it waits for. It also names the calls in
 * which threads sleep, and the circles in which ranks of this process wait for each other. With
 * DFCCL_DEBUG_SIGNAL=1, SIGUSR2 makes a dump of every context; with DFCCL_DEBUG, a run that times
 * out makes one of its own. Otherwise no call prints anything. If standard error accepts nothing,
 * no thread is delayed: dumps wait in memory, and lines are dropped and counted. DFCCL_RECORD
 * leaves a well-formed schedule file.
 */
#include "support/buffers.h"
#include "support/memory.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 1 << 16 };

static int temporary_file(void) {
  char path[] = "/tmp/dfccl-test-XXXXXX";
  int fd = mkstemp(path);
  CHECK(fd >= 0, "mkstemp");
  unlink(path);
  return fd;
}

static const char *content(int fd) {
  static char text[TEXT_BYTES];
  ssize_t length = pread(fd, text, sizeof text - 1, 0);
  text[length > 0 ? length : 0] = '\0';
  return text;
}

/* Rank 0 of three has one blocked run, named "gradients", that waits for others, and a complete
 * one. */
static void make_stuck(dfcclContext_t *ctxs, df_collective *coll) {
  static int32_t send[100], recv[3][100];
  df_make_contexts(ctxs, 3, NULL);
  *coll = df_simple(100, 3);
  coll->name = "finished";
  df_register_all(ctxs, 1, coll);
  df_exchange(ctxs, 1, coll, 0, 0);
  coll->name = "gradients";
  df_register_all(ctxs, 2, coll);
  for (int rank = 0; rank < 2; rank++)
    OK(dfcclRunAllReduce(ctxs[rank], 2, send, recv[rank], NULL, NULL));
}

static void finish(dfcclContext_t *ctxs) {
  static int32_t send[100], recv[100];
  OK(dfcclRunAllReduce(ctxs[2], 2, send, recv, NULL, NULL));
  for (int rank = 0; rank < 3; rank++) OK(dfcclWaitAll(ctxs[rank]));
  df_free_contexts(ctxs, 3);
}

DF_TEST(diagnostics, dump_names_what_is_stuck, 30) {
  dfcclContext_t ctxs[3];
  df_collective coll;
  make_stuck(ctxs, &coll);
  bool waits_for_2 = false;
  df_waiting_for("a dump that names rank 2");
  while (!waits_for_2) { /* until the run has progressed to that place */
    for (int rank = 0; rank < 2; rank++) {
      int fd = temporary_file();
      OK(dfcclDump(ctxs[rank], fd));
      const char *text = content(fd);
      CHECK(df_mentions(text, "gradients"), "not named:\n%s", text);
      CHECK(!df_mentions(text, "finished"), "a complete collective is listed:\n%s", text);
      waits_for_2 = waits_for_2 || df_mentions(text, "rank 2");
      close(fd);
    }
    df_sleep_ms(2);
  }
  df_waiting_for(NULL);
  finish(ctxs);
}

/* A root that is ahead of the others by more messages than its links hold. */
DF_TEST(diagnostics, dump_names_who_does_not_take_messages, 30) {
  static int32_t buffer[2][20000];
  dfcclContext_t ctxs[2];
  df_collective coll = df_simple(20000, 2);
  coll.kind = DF_BROADCAST;
  df_tune("slots", "2");
  df_tune("slot_bytes", "4096");
  df_tune("ring_bytes", "0");
  df_tune("lend", "0");
  df_make_contexts(ctxs, 2, NULL);
  df_register_all(ctxs, 1, &coll);
  df_exchange(ctxs, 1, &coll, 0, 0); /* the links are connected */
  OK(dfcclRunBroadcast(ctxs[0], 1, buffer[0], buffer[0], NULL, NULL));
  int fd = temporary_file();
  bool waits = false;
  /* The dump knows only the ranks of links in a device's memory. */
  const char *what = df_on_cuda() ? "sends to rank 1" : "waits until rank 1 takes a message";
  df_waiting_for("a dump that says who does not take messages");
  while (!waits) {
    CHECK(ftruncate(fd, 0) == 0 && lseek(fd, 0, SEEK_SET) == 0, "no empty file");
    OK(dfcclDump(ctxs[0], fd));
    waits = df_mentions(content(fd), what);
  }
  df_waiting_for(NULL);
  CHECK(!df_mentions(content(fd), "for a message from"), "it receives nothing:\n%s", content(fd));
  OK(dfcclRunBroadcast(ctxs[1], 1, NULL, buffer[1], NULL, NULL));
  for (int rank = 0; rank < 2; rank++) OK(dfcclWait(ctxs[rank], 1));
  close(fd);
  df_free_contexts(ctxs, 2);
}

DF_TEST(diagnostics, dump_does_not_disturb, 60) {
  dfcclContext_t ctxs[2];
  int fd = open("/dev/null", O_WRONLY);
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(10000, 2);
  df_register_all(ctxs, 1, &coll);
  for (uint64_t run = 0; run < 50; run++) {
    df_buffers buffers[2];
    for (int rank = 0; rank < 2; rank++) {
      df_buffers_make(&buffers[rank], ctxs[rank], &coll, rank, run, 0);
      OK(df_run(ctxs[rank], 1, coll.kind, buffers[rank].send, buffers[rank].recv, NULL, NULL));
      for (int i = 0; i < 5; i++) OK(dfcclDump(ctxs[i % 2], fd));
    }
    for (int rank = 0; rank < 2; rank++) {
      OK(dfcclWait(ctxs[rank], 1));
      df_buffers_check(&buffers[rank]);
      df_buffers_free(&buffers[rank]);
    }
  }
  close(fd);
  df_free_contexts(ctxs, 2);
}

/* Collective i has these two ranks as members. Only the first of them runs it, and waits. */
typedef struct pairs {
  dfcclContext_t ctxs[4];
  int n_ranks, n_pairs;
  int of[4][2];
  void (*look)(struct pairs *pairs); /* until the dumps contain the expected text */
} pairs;

static const char *dump_of(dfcclContext_t ctx) {
  int fd = temporary_file();
  OK(dfcclDump(ctx, fd));
  const char *text = content(fd);
  close(fd);
  return text;
}

static void await_dump(dfcclContext_t ctx, const char *sentence) {
  df_waiting_for(sentence);
  while (!df_mentions(dump_of(ctx), sentence)) df_sleep_ms(2);
  df_waiting_for(NULL);
}

static void wait_for_the_other(int pair, void *arg) {
  static int32_t send[10], recv[4][2][10];
  pairs *all = arg;
  if (pair < all->n_pairs) {
    dfcclContext_t ctx = all->ctxs[all->of[pair][0]];
    OK(dfcclRunAllReduce(ctx, (dfcclCollId_t)pair, send, recv[pair][0], NULL, NULL));
    if (pair == 1)
      OK(dfcclWaitAll(ctx));
    else
      OK(dfcclWait(ctx, (dfcclCollId_t)pair));
    return;
  }
  all->look(all);
  for (int i = 0; i < all->n_pairs; i++)
    OK(dfcclRunAllReduce(all->ctxs[all->of[i][1]], (dfcclCollId_t)i, send, recv[i][1], NULL, NULL));
}

static void wait_in_pairs(pairs *all) {
  static const char *const names[] = {"a", "b", "c", "d"};
  df_make_contexts(all->ctxs, all->n_ranks, NULL);
  for (int coll = 0; coll < all->n_pairs; coll++) {
    dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
    options.ranks = all->of[coll];
    options.nRanks = 2;
    options.name = names[coll];
    for (int i = 0; i < 2; i++)
      OK(dfcclRegisterAllReduce(all->ctxs[all->of[coll][i]], (dfcclCollId_t)coll, 10, dfcclInt32,
                                dfcclSum, &options));
  }
  df_in_threads(all->n_pairs + 1, wait_for_the_other, all);
  df_free_contexts(all->ctxs, all->n_ranks);
}

static void see_the_circle(pairs *all) {
  await_dump(all->ctxs[0],
             "  rank 0 waits in collective 0 (\"a\") for rank 1, which waits in collective 1 "
             "(\"b\") for rank 2, which waits in collective 2 (\"c\") for rank 0: a circle\n");
  await_dump(all->ctxs[0], "sleeps in dfcclWait for ");
  await_dump(all->ctxs[1], "sleeps in dfcclWaitAll for ");
  await_dump(all->ctxs[1], "until all runs are complete");
  /* Rank 3 waits for a rank of the circle, but is not in the circle. */
  await_dump(all->ctxs[3], "\n  rank 0 waits in collective 0 (\"a\") for rank 1,");
  CHECK(!df_mentions(dump_of(all->ctxs[3]), "(\"d\") for rank 0, which"), "in the circle:\n%s",
        dump_of(all->ctxs[3]));
}

DF_TEST(diagnostics, dump_names_circles_of_waits, 60) {
  static pairs all = {
      .n_ranks = 4, .n_pairs = 4, .of = {{0, 1}, {1, 2}, {2, 0}, {3, 0}}, .look = see_the_circle};
  wait_in_pairs(&all);
}

static void see_the_chain(pairs *all) {
  await_dump(all->ctxs[0],
             "  rank 0 waits in collective 0 (\"a\") for rank 1, which waits in collective 1 "
             "(\"b\") for rank 2\n");
}

/* Rank 2 sleeps in no call of the library. */
DF_TEST(diagnostics, dump_names_the_end_of_a_row_of_waits, 60) {
  static pairs all = {.n_ranks = 3, .n_pairs = 2, .of = {{0, 1}, {1, 2}}, .look = see_the_chain};
  wait_in_pairs(&all);
}

DF_TEST(diagnostics, signal, 30) {
  dfcclContext_t ctxs[3];
  df_collective coll;
  setenv("DFCCL_DEBUG_SIGNAL", "1", 1);
  make_stuck(ctxs, &coll);
  int fd = temporary_file(), standard_error = dup(2);
  dup2(fd, 2);
  kill(getpid(), SIGUSR2);
  EVENTUALLY(df_mentions(content(fd), "gradients"));
  dup2(standard_error, 2);
  finish(ctxs);
}

/* No call prints unless DFCCL_DEBUG requests it; failing calls are no exception. */
DF_TEST(diagnostics, silent, 30) {
  dfcclContext_t ctxs[3];
  df_collective coll;
  fflush(NULL);
  int fd = temporary_file(), standard_error = dup(2), standard_output = dup(1);
  unsetenv("DFCCL_DEBUG");
  dup2(fd, 1);
  dup2(fd, 2);
  make_stuck(ctxs, &coll);
  dfcclResult_t refused = dfcclWait(ctxs[0], 12345);
  finish(ctxs);
  fflush(NULL);
  dup2(standard_error, 2);
  dup2(standard_output, 1);
  CHECK(refused == dfcclInvalidArgument, "%s", df_test_result_name(refused));
  CHECK(strlen(content(fd)) == 0, "printed:\n%s", content(fd));
}

/* Replaces standard error by a pipe that is full; returns the pipe's reading end. */
static int make_standard_error_full(int *standard_error) {
  static const char filler[4096];
  int ends[2];
  CHECK(pipe(ends) == 0, "no pipe");
  CHECK(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0, "no flag");
  while (write(ends[1], filler, sizeof filler) > 0) continue;
  CHECK(fcntl(ends[1], F_SETFL, 0) == 0,
        "no flag"); /* a blocking descriptor, as an application's is */
  CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0, "no flag");
  fflush(stderr);
  *standard_error = dup(2);
  dup2(ends[1], 2);
  close(ends[1]);
  return ends[0];
}

/* Appends the bytes that have arrived to text, without zeros. */
static void read_more(int fd, char *text, size_t bytes) {
  char piece[4096];
  size_t used = strlen(text);
  for (ssize_t got; (got = read(fd, piece, sizeof piece)) > 0;)
    for (ssize_t i = 0; i < got; i++)
      if (piece[i] && used + 1 < bytes) text[used++] = piece[i];
  text[used] = '\0';
}

DF_TEST(diagnostics, a_dump_that_nobody_reads_delays_no_thread, 60) {
  static char text[TEXT_BYTES];
  dfcclContext_t ctxs[3];
  df_collective coll;
  int standard_error;
  setenv("DFCCL_DEBUG_SIGNAL", "1", 1);
  make_stuck(ctxs, &coll);
  int fd = make_standard_error_full(&standard_error);
  kill(getpid(), SIGUSR2);
  df_sleep_ms(200); /* the service threads are writing their dumps */
  /* New links need every service thread. */
  coll.name = "while it is full";
  df_register_all(ctxs, 3, &coll);
  df_waiting_for("a collective while standard error is full");
  df_exchange(ctxs, 3, &coll, 0, 0);
  df_waiting_for("the dump, when somebody reads");
  for (int i = 1; !df_mentions(text, "gradients"); i++) {
    read_more(fd, text, sizeof text);
    df_sleep_ms(2);
    if (i % 1000 == 0)
      kill(getpid(), SIGUSR2); /* the first dump was dropped, because the machine is slow */
  }
  df_waiting_for(NULL);
  finish(ctxs);
  dup2(standard_error, 2);
  close(fd);
}

DF_TEST(diagnostics, lines_that_nobody_reads_are_counted, 60) {
  static char text[TEXT_BYTES];
  dfcclContext_t ctxs[2];
  int standard_error;
  df_collective coll = df_simple(10, 2);
  setenv("DFCCL_DEBUG", "trace", 1);
  int fd = make_standard_error_full(&standard_error);
  df_waiting_for("a job while standard error is full");
  df_make_contexts(ctxs, 2, NULL);
  df_once(ctxs, 1, &coll, 0);
  df_waiting_for(NULL);
  read_more(fd, text, sizeof text);
  CHECK(strlen(text) == 0, "written to a full pipe:\n%s", text);
  df_free_contexts(ctxs, 2);
  read_more(fd, text, sizeof text);
  dup2(standard_error, 2);
  CHECK(df_mentions(text, "lines before this one are lost"), "not counted:\n%s", text);
  close(fd);
}

DF_TEST(diagnostics, lines_to_a_reader_that_has_gone_end_nobody, 30) {
  dfcclContext_t ctxs[2];
  int ends[2], standard_error = dup(2);
  df_collective coll = df_simple(10, 2);
  setenv("DFCCL_DEBUG", "trace", 1);
  CHECK(pipe(ends) == 0, "no pipe");
  close(ends[0]);
  dup2(ends[1], 2);
  df_make_contexts(ctxs, 2, NULL);
  df_once(ctxs, 1, &coll, 0);
  df_free_contexts(ctxs, 2);
  dup2(standard_error, 2);
  close(ends[1]);
}

/* Runs until collectives have timed out twice on rank 0. The output goes to the file. */
static void time_out(const char *debug, int fd) {
  static int32_t send[10], recv[2][10];
  dfcclContext_t ctxs[2];
  dfcclConfig_t config = df_config();
  df_collective coll = df_simple(10, 2);
  int standard_error = dup(2);
  coll.name = "";         /* the collective has no name, so its number is printed */
  config.timeoutMs = 500; /* both runs are submitted before the first one is late */
  setenv("DFCCL_DEBUG", debug, 1);
  df_make_contexts(ctxs, 2, &config);
  df_register_all(ctxs, 4711, &coll);
  df_register_all(ctxs, 4712, &coll);
  dup2(fd, 2);
  OK(dfcclRunAllReduce(ctxs[0], 4711, send, recv[0], NULL, NULL));
  OK(dfcclRunAllReduce(ctxs[0], 4712, send, recv[1], NULL, NULL));
  RESULT(dfcclWait(ctxs[0], 4711), dfcclTimeout);
  RESULT(dfcclWait(ctxs[0], 4712), dfcclTimeout);
  df_free_contexts(ctxs, 2);
  dup2(standard_error, 2);
}

DF_TEST(diagnostics, a_run_that_times_out_prints_a_dump_if_one_asks_for_it, 30) {
  int fd = temporary_file();
  time_out("none", fd);
  CHECK(strlen(content(fd)) == 0, "printed:\n%s", content(fd));
  time_out("error", fd);
  const char *text = strstr(content(fd), "dfccl rank 0 of 2");
  CHECK(text != NULL, "no dump:\n%s", content(fd));
  /* One dump names both runs, and the rank that each of them waits for. */
  const char *first = strstr(text, "  collective 4711, AllReduce");
  const char *second = strstr(text, "  collective 4712, AllReduce");
  const char *waits = first ? strstr(first, "run by rank 1") : NULL;
  CHECK(waits && second && waits < second && df_mentions(second, "run by rank 1"),
        "it does not say what it waited for:\n%s", text);
}

/* Number of lines of the log that contain the words. */
static int lines_with(const char *text, const char *words) {
  int n = 0;
  for (const char *line = text; line; line = strchr(line, '\n')) {
    line += *line == '\n';
    const char *found = strstr(line, words), *end = strchr(line, '\n');
    n += found && (end == NULL || found < end);
    if (*line == '\0') break;
  }
  return n;
}

typedef enum { MISMATCH, ABORT, TIMEOUT } way_to_fail;

static void fail(dfcclContext_t *ctxs, way_to_fail way) {
  static int32_t send[10], recv[10];
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.name = "grad";
  for (dfcclCollId_t id = 1; id <= 3; id++)
    for (int rank = 0; rank < 2; rank++)
      OK(dfcclRegisterAllReduce(ctxs[rank], id, way == MISMATCH && id == 1 && rank == 1 ? 9 : 10,
                                dfcclInt32, dfcclSum, &options));
  for (dfcclCollId_t id = 1; id <= 3; id++) {
    dfcclResult_t result = dfcclRunAllReduce(ctxs[0], id, send, recv, NULL, NULL);
    CHECK(result == dfcclSuccess || way != ABORT, "%s", dfcclGetLastError(NULL));
  }
  if (way == MISMATCH) dfcclRunAllReduce(ctxs[1], 1, send, recv, NULL, NULL);
  if (way == ABORT) OK(dfcclAbort(ctxs[1]));
  for (int again = 0; again < 3; again++) {
    for (dfcclCollId_t id = 1; id <= (way == MISMATCH ? 1 : 3); id++) {
      const dfcclResult_t waited = dfcclWait(ctxs[0], id);
      CHECK(waited != dfcclSuccess || way == MISMATCH, "it has not failed");
    }
    CHECK(dfcclRunAllReduce(ctxs[0], 1, send, recv, NULL, NULL) != dfcclSuccess, "it can run");
  }
}

/* Calls that return the failure again, and other collectives that it ends, print no more lines. */
DF_TEST(diagnostics, a_failure_is_printed_once, 60) {
  for (way_to_fail way = MISMATCH; way <= TIMEOUT; way++) {
    dfcclContext_t ctxs[2];
    dfcclConfig_t config = df_config();
    if (way == TIMEOUT) config.timeoutMs = 300;
    int fd = temporary_file(), standard_error = dup(2);
    setenv("DFCCL_DEBUG", "warn", 1);
    df_make_contexts(ctxs, 2, &config);
    dup2(fd, 2);
    fail(ctxs, way);
    dup2(standard_error, 2);
    const char *text = content(fd);
    CHECK(lines_with(text, "error: rank 0: dfccl") == 1 && lines_with(text, "warn: ") == 0,
          "way %d:\n%s", (int)way, text);
    if (way == MISMATCH)
      CHECK(df_mentions(text, "(\"grad\"), AllReduce: rank 0 registered 10 elements, rank 1 "
                              "registered 9"),
            "%s", text);
    for (int rank = 0; rank < 2; rank++) dfcclAbort(ctxs[rank]);
    df_free_contexts(ctxs, 2);
    close(standard_error);
  }
}

DF_TEST(diagnostics, debug_output, 30) {
  dfcclContext_t ctxs[2];
  setenv("DFCCL_DEBUG", "trace", 1);
  int fd = temporary_file(), standard_error = dup(2);
  dup2(fd, 2);
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(10, 2);
  df_once(ctxs, 1, &coll, 0);
  df_free_contexts(ctxs, 2);
  dup2(standard_error, 2);
  CHECK(strlen(content(fd)) > 0, "DFCCL_DEBUG=trace printed nothing");
}

/* A collective's name cannot forge a line of a log or of a dump. */
DF_TEST(diagnostics, names_stay_on_one_line, 30) {
  dfcclContext_t ctxs[2];
  static int32_t send[4], recv[2][4];
  df_make_contexts(ctxs, 2, NULL);
  df_collective coll = df_simple(4, 2);
  coll.name = "a\nrank 7: all is well\x1b[2J";
  df_register_all(ctxs, 1, &coll);
  OK(dfcclRunAllReduce(ctxs[0], 1, send, recv[0], NULL, NULL));
  int fd = temporary_file();
  OK(dfcclDump(ctxs[0], fd));
  const char *text = content(fd);
  CHECK(df_mentions(text, "a\\nrank 7: all is well\\x1b[2J"), "not escaped:\n%s", text);
  CHECK(!df_mentions(text, "\nrank 7") && !df_mentions(text, "\x1b"), "forged:\n%s", text);
  close(fd);
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.algorithm = "ring\n";
  RESULT(dfcclRegisterAllReduce(ctxs[0], 2, 4, dfcclInt32, dfcclSum, &options),
         dfcclInvalidArgument);
  CHECK(df_mentions(dfcclGetLastError(NULL), "ring\\n"), "\"%s\"", dfcclGetLastError(NULL));
  OK(dfcclRunAllReduce(ctxs[1], 1, send, recv[1], NULL, NULL));
  df_free_contexts(ctxs, 2);
}
