/*
 * The test harness: one way to write a test, two ways to run it.
 *
 *   DF_TEST(sq_full, nothing_is_lost, 30) { ... }
 *
 * defines a test that may take 30 seconds. Built with DF_TEST_WITH_CRITERION it is a Criterion
 * test; otherwise tests/support/plain_main.c runs it in a process of its own (ThreadSanitizer:
 * Criterion's runner does not start there). Either way a watchdog ends a stuck test: it prints what
 * each context waits for and where each thread is, and the test has failed.
 *
 * Checks may be used from any thread. The first one that fails ends the process.
 */
#ifndef DF_TESTS_SUPPORT_HARNESS_H
#define DF_TESTS_SUPPORT_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdatomic.h>

#include "dfccl.h"

#define DF_TEST_PRINTF(text, first) __attribute__((format(printf, text, first)))

#ifdef DF_TEST_WITH_CRITERION
#include <criterion/criterion.h>
#define DF_TEST(suite, name, seconds)                                                              \
  static void suite##_##name(void);                                                                \
  Test(suite, name) { df_test_run(#suite "/" #name, seconds, suite##_##name); }                    \
  static void suite##_##name(void)
/* Ends the running test as skipped; only from the thread that runs the test's body. */
#define DF_SKIP(...) (df_watchdog_stop(), cr_skip_test(__VA_ARGS__))
#else
#define DF_TEST(suite, name, seconds)                                                              \
  static void suite##_##name(void);                                                                \
  __attribute__((constructor)) static void suite##_##name##_enlist(void) {                         \
    df_plain_enlist(#suite, #name, seconds, suite##_##name);                                       \
  }                                                                                                \
  static void suite##_##name(void)
#define DF_SKIP(...) df_plain_skip(__VA_ARGS__)
#endif

/* Ends the process, and with it the test, if the condition is false; prints the formatted
 * sentence. */
#define CHECK(condition, ...)                                                                      \
  ((condition) ? (void)0 : df_test_fail(__FILE__, __LINE__, #condition, __VA_ARGS__))
/* The call must return this code; otherwise prints both codes and the library's sentence. */
#define RESULT(call, expected) df_check_result(__FILE__, __LINE__, #call, (call), (expected))
#define OK(call) RESULT(call, dfcclSuccess)
/* Waits, under the watchdog, until the expression is true. */
#define EVENTUALLY(expression)                                                                     \
  do {                                                                                             \
    df_waiting_for(#expression);                                                                   \
    while (!(expression)) df_nap();                                                                \
    df_waiting_for(NULL);                                                                          \
  } while (0)

typedef void (*df_test_body)(void);

/* Runs body under a watchdog of that many seconds (more under a sanitizer). */
void df_test_run(const char *name, double seconds, df_test_body body);

/* The watchdog by itself, for processes that a test has forked and for the property program. To
 * start it again moves the deadline. In a forked child the parent's watchdog does not run, so the
 * child must start its own. */
void df_watchdog_start(const char *name, double seconds);
void df_watchdog_stop(void);
/* A function that is called, if set, when a check fails, the watchdog strikes or the process
 * aborts. It prints the command that repeats the case. */
void df_on_failure(void (*print)(void));
/* Sets a number of the tuning table for the contexts that this process creates from now on; value
 * NULL: the library's default. */
void df_tune(const char *name, const char *value);
/* Sets the text for the watchdog's report about the calling thread's present wait; NULL: none. */
void df_waiting_for(const char *what);

/* Contexts that the watchdog dumps. */
void df_watch(dfcclContext_t ctx);
void df_unwatch(dfcclContext_t ctx);
/* Processes that must not outlive a failing test. */
void df_watch_child(int pid);
void df_unwatch_child(int pid);

_Noreturn void df_test_fail(const char *file, int line, const char *condition, const char *format,
                            ...) DF_TEST_PRINTF(4, 5);
void df_check_result(const char *file, int line, const char *call, dfcclResult_t got,
                     dfcclResult_t expected);
const char *df_test_result_name(dfcclResult_t result);

/* Sleeps some tens of microseconds. */
void df_nap(void);
void df_sleep_ms(int milliseconds);
uint64_t df_now_ns(void); /* CLOCK_MONOTONIC */
double df_seconds(void);  /* the same */
/* The rough factor by which this build is slower than a plain one: 1, more under a sanitizer or an
 * emulator, or the value of TEST_SLOWDOWN. */
int df_slowdown(void);
/* Whether the tests run under an emulator, as those of a cross build do. */
bool df_is_emulated(void);

/* A random number generator with a seed: splitmix64. */
typedef struct {
  uint64_t state;
} df_random;
uint64_t df_random_next(df_random *random);
int df_random_below(df_random *random, int limit); /* 0..limit-1; limit >= 1 */
bool df_random_chance(df_random *random, int percent);
void df_random_shuffle(df_random *random, int *items, int count);

/* The plain runner: adds a test to its list, and skips the running test. */
void df_plain_enlist(const char *suite, const char *name, double seconds, df_test_body body);
_Noreturn void df_plain_skip(const char *format, ...) DF_TEST_PRINTF(1, 2);

#endif
