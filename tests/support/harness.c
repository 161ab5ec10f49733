/* Checks, random numbers and small waits; the watchdog is in watchdog.c. */
#include "support/harness.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "support/watchdog.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_THREAD_SANITIZER 1
#elif __has_feature(address_sanitizer)
#define UNDER_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define UNDER_THREAD_SANITIZER 1
#elif defined(__SANITIZE_ADDRESS__)
#define UNDER_ADDRESS_SANITIZER 1
#endif

int df_slowdown(void) {
  const char *other = getenv("TEST_SLOWDOWN"); /* an emulated device is even slower */
  if (other != NULL && atoi(other) > 0) return atoi(other);
#if defined(UNDER_THREAD_SANITIZER)
  return 10;
#elif defined(UNDER_ADDRESS_SANITIZER)
  return 4;
#elif defined(DF_TEST_EMULATED)
  return 4;
#else
  return 1;
#endif
}

bool df_is_emulated(void) {
#if defined(DF_TEST_EMULATED)
  return true;
#else
  return false;
#endif
}

uint64_t df_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

double df_seconds(void) { return 1e-9 * (double)df_now_ns(); }

void df_nap(void) {
  struct timespec nap = {0, 50000};
  nanosleep(&nap, NULL);
}

void df_sleep_ms(int milliseconds) {
  struct timespec left = {milliseconds / 1000, (long)(milliseconds % 1000) * 1000000};
  while (nanosleep(&left, &left) != 0) {
  }
}

const char *df_test_result_name(dfcclResult_t result) {
  static const char *const names[] = {
      "dfcclSuccess",         "dfcclUnhandledCudaError", "dfcclSystemError", "dfcclInternalError",
      "dfcclInvalidArgument", "dfcclInvalidUsage",       "dfcclRemoteError", "dfcclInProgress",
      "dfcclTimeout",         "dfcclMismatch",           "dfcclAborted",     "dfcclOutOfMemory"};
  if ((int)result < 0 || (size_t)result >= sizeof(names) / sizeof(names[0]))
    return "(no such code)";
  return names[result];
}

static void (*print_repetition)(void);

static void on_abort(int signal_number) {
  df_print_repetition();
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void df_on_failure(void (*print)(void)) {
  print_repetition = print;
  signal(SIGABRT, on_abort); /* assertions of the library, and sanitizers' reports */
}

void df_print_repetition(void) {
  if (print_repetition != NULL) print_repetition();
}

static atomic_flag failing = ATOMIC_FLAG_INIT;

_Noreturn void df_test_fail(const char *file, int line, const char *condition, const char *format,
                            ...) {
  if (atomic_flag_test_and_set(&failing)) { /* another thread is already reporting */
    for (;;) pause();
  }
  char sentence[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  fprintf(stderr, "%s:%d: [%s] is false: %s\n", file, line, condition, sentence);
  df_print_repetition();
  fflush(NULL);
  df_watchdog_end_process(1);
}

void df_check_result(const char *file, int line, const char *call, dfcclResult_t got,
                     dfcclResult_t expected) {
  if (got == expected) return;
  df_test_fail(file, line, call, "returned %s instead of %s; this thread's latest sentence: \"%s\"",
               df_test_result_name(got), df_test_result_name(expected), dfcclGetLastError(NULL));
}

uint64_t df_random_next(df_random *random) {
  uint64_t value = random->state += 0x9E3779B97F4A7C15u;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
  return value ^ (value >> 31);
}

int df_random_below(df_random *random, int limit) {
  return (int)(df_random_next(random) % (uint64_t)limit);
}

bool df_random_chance(df_random *random, int percent) {
  return df_random_below(random, 100) < percent;
}

void df_random_shuffle(df_random *random, int *items, int count) {
  for (int last = count - 1; last > 0; last--) {
    int other = df_random_below(random, last + 1);
    int kept = items[last];
    items[last] = items[other];
    items[other] = kept;
  }
}

/* ---- DFCCL_TUNING=FILE,set:NAME=VALUE,... */

enum { TUNED_MAX = 64, TUNED_BYTES = 64 };
static char tuned_names[TUNED_MAX][TUNED_BYTES], tuned_values[TUNED_MAX][TUNED_BYTES];
static char tuned_file[512];

/* The file and the numbers that the program was started with remain in force. */
static void keep_given_numbers(void) {
  static int is_done;
  const char *given = getenv("DFCCL_TUNING");
  if (is_done) return;
  is_done = 1;
  if (given == NULL) return;
  if (strncmp(given, "set:", 4) != 0) {
    const char *numbers = strstr(given, ",set:");
    const size_t length = numbers ? (size_t)(numbers - given) : strlen(given);
    snprintf(tuned_file, sizeof tuned_file, "%.*s", (int)length, given);
    given = numbers ? numbers + 1 : "set:";
  }
  given += 4;
  for (int i = 0; i < TUNED_MAX - 1 && *given != '\0'; i++) {
    const size_t length = strcspn(given, ",");
    const size_t name_length = strcspn(given, "=,");
    snprintf(tuned_names[i], TUNED_BYTES, "%.*s", (int)name_length, given);
    if (name_length < length)
      snprintf(tuned_values[i], TUNED_BYTES, "%.*s", (int)(length - name_length - 1),
               given + name_length + 1);
    given += length + (given[length] == ',');
  }
}

void df_tune(const char *name, const char *value) {
  char(*names)[TUNED_BYTES] = tuned_names, (*values)[TUNED_BYTES] = tuned_values;
  keep_given_numbers();
  char all[sizeof tuned_file + TUNED_MAX * 2 * TUNED_BYTES];
  int i = 0;
  while (i < TUNED_MAX - 1 && names[i][0] != '\0' && strcmp(names[i], name) != 0) i++;
  snprintf(names[i], sizeof names[i], "%s", name);
  snprintf(values[i], sizeof values[i], "%s", value ? value : "");
  size_t used = (size_t)snprintf(all, sizeof all, "%s", tuned_file);
  const char *before = used > 0 ? ",set:" : "set:";
  for (i = 0; i < TUNED_MAX; i++)
    if (values[i][0] != '\0') {
      used +=
          (size_t)snprintf(all + used, sizeof all - used, "%s%s=%s", before, names[i], values[i]);
      before = ",";
    }
  if (used > 0)
    setenv("DFCCL_TUNING", all, 1);
  else
    unsetenv("DFCCL_TUNING");
}
