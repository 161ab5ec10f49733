/* All of them, for the two programs that execute them. */
#ifndef DF_TESTS_LITMUS_TESTS_H
#define DF_TESTS_LITMUS_TESTS_H

#include <stdio.h>

#include "litmus.h"

static const litmus_tests *const litmus_all[] = {&litmus_queues, &litmus_links,   &litmus_sleepers,
                                                 &litmus_host,   &litmus_service, &litmus_gate,
                                                 &litmus_turns,  &litmus_wire};

static inline uint32_t litmus_count(void) {
  uint32_t n = 0;
  for (size_t i = 0; i < DF_COUNT_OF(litmus_all); i++) n += (uint32_t)litmus_all[i]->n;
  return n;
}

/* Calls check for each, or for the one of that name; TAP on standard output. Returns an exit
 * status. */
static inline int litmus_check_all(const char *name, int (*check)(const litmus_test *test)) {
  uint32_t number = 0, failed = 0;
  printf("1..%u\n", name ? 1 : litmus_count());
  for (size_t i = 0; i < DF_COUNT_OF(litmus_all); i++)
    for (size_t t = 0; t < litmus_all[i]->n; t++) {
      const litmus_test *test = &litmus_all[i]->test[t];
      if (name && strcmp(name, test->name) != 0) continue;
      int good = check(test);
      failed += !good;
      printf("%s %u - %s (%s): never: %s\n", good ? "ok" : "not ok", ++number, test->name,
             test->rows, test->never);
      fflush(stdout);
    }
  if (number == 0) printf("Bail out! there is no litmus test %s\n", name);
  return failed != 0 || number == 0;
}

#endif
