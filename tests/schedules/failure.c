/* The failure of a schedule, in a sentence. */
#include <stdarg.h>
#include <stdio.h>

#include "sim.h"

const char *sim_failure;
static char text[512];

void df_assert_failed(const char *fact, const char *file, int line);
void df_assert_failed(const char *fact, const char *file, int line) {
  sim_fail("broken invariant: %s (%s:%d)", fact, file, line);
}

void sim_note_failure(const char *format, ...) {
  va_list arguments;
  if (sim_failure) return;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  sim_failure = text;
}

void sim_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  sim_failure = text;
  if (sim_is_running) sim_leave();
  sim_fail_outside();
}
