#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>

void df_say_list(df_text *text, const char *format, va_list arguments) {
  int n = vsnprintf(text->at, text->left, format, arguments);
  size_t used = DF_MIN((size_t)(n < 0 ? 0 : n), text->left ? text->left - 1 : 0);
  text->at += used;
  text->left -= used;
}

void df_say(df_text *text, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  df_say_list(text, format, arguments);
  va_end(arguments);
}

int df_read_digits(const char *text, uint64_t most, uint64_t *number, const char **end) {
  uint64_t value = 0;
  const char *at = text;
  for (; *at >= '0' && *at <= '9'; at++) {
    const uint64_t digit = (uint64_t)(*at - '0');
    if (digit > most || value > (most - digit) / 10) return 0;
    value = value * 10 + digit;
  }
  *number = value;
  *end = at;
  return at != text;
}

const char *df_variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}
