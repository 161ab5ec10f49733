/*
 * Runs the tests of one program without Criterion, each in a process of its own, and reports in the
 * Test Anything Protocol on standard output, as Criterion does with --tap.
 *
 * Usage: PROGRAM [--list] [--no-fork] [TEXT]     only tests whose name contains TEXT
 */
#include "support/harness.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/watchdog.h"

enum { TESTS_MAX = 256, SKIPPED = 77, REASON_BYTES = 200 };

static struct {
  const char *suite, *name;
  double seconds;
  df_test_body body;
} tests[TESTS_MAX];
static int test_count;
static int reason_pipe[2] = {-1, -1};

void df_plain_enlist(const char *suite, const char *name, double seconds, df_test_body body) {
  if (test_count == TESTS_MAX) abort();
  tests[test_count].suite = suite;
  tests[test_count].name = name;
  tests[test_count].seconds = seconds;
  tests[test_count].body = body;
  test_count++;
}

_Noreturn void df_plain_skip(const char *format, ...) {
  char reason[REASON_BYTES];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(reason, sizeof reason, format, arguments);
  va_end(arguments);
  if (length >= REASON_BYTES) length = REASON_BYTES - 1;
  if (reason_pipe[1] < 0 || write(reason_pipe[1], reason, (size_t)length) < 0)
    fprintf(stderr, "skipped: %s\n", reason);
  df_watchdog_stop();
  df_watchdog_end_process(SKIPPED);
}

/* Returns the wait status of the test's process. If the test was skipped, fills reason. */
static int run_in_child(int test, char reason[REASON_BYTES]) {
  if (pipe(reason_pipe) != 0) abort();
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) {
    char name[200];
    snprintf(name, sizeof name, "%s/%s", tests[test].suite, tests[test].name);
    close(reason_pipe[0]);
    df_test_run(name, tests[test].seconds, tests[test].body);
    exit(0); /* runs the exit handlers, one of which is the sanitizers' leak check */
  }
  close(reason_pipe[1]);
  ssize_t length = read(reason_pipe[0], reason, REASON_BYTES - 1);
  reason[length > 0 ? length : 0] = '\0';
  close(reason_pipe[0]);
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid) status = 1 << 8;
  return status;
}

static bool selected(int test, const char *text) {
  char name[200];
  snprintf(name, sizeof name, "%s/%s", tests[test].suite, tests[test].name);
  return text == NULL || strstr(name, text) != NULL;
}

static bool run_one(int test) {
  char reason[REASON_BYTES] = "";
  double start = df_seconds();
  int status = run_in_child(test, reason);
  bool skipped = WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED;
  bool good = status == 0 || skipped;
  printf("%s - %s::%s (%.2fs)%s%s\n", good ? "ok" : "not ok", tests[test].suite, tests[test].name,
         df_seconds() - start, skipped ? " # SKIP " : "", skipped ? reason : "");
  if (WIFSIGNALED(status)) printf("# ended by signal %d\n", WTERMSIG(status));
  fflush(stdout);
  return good;
}

int main(int argc, char **argv) {
  bool list = false, in_this_process = false;
  const char *text = NULL;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--list") == 0)
      list = true;
    else if (strcmp(argv[i], "--no-fork") == 0)
      in_this_process = true;
    else
      text = argv[i];
  }
  int count = 0, failed = 0;
  for (int i = 0; i < test_count; i++) count += selected(i, text);
  if (!list) printf("TAP version 13\n1..%d\n", count);
  for (int i = 0; i < test_count; i++) {
    if (!selected(i, text)) continue;
    if (list)
      printf("%s/%s\n", tests[i].suite, tests[i].name);
    else if (in_this_process)
      df_test_run(tests[i].name, tests[i].seconds, tests[i].body);
    else
      failed += !run_one(i);
  }
  return failed != 0;
}
