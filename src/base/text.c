#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

size_t df_byte_order_mark(const char *text, size_t bytes) {
  return bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

size_t df_line_length(const char *text, size_t bytes, size_t *length) {
  size_t at = 0;
  while (at < bytes && text[at] != '\n' && text[at] != '\r') at++;
  *length = at;
  if (at + 1 < bytes && text[at] == '\r' && text[at + 1] == '\n') return at + 2;
  return at < bytes ? at + 1 : at;
}

/* Number of characters to insert, delete or change (Wagner and Fischer, 1974). */
static int distance(const char *a, size_t a_length, const char *b) {
  enum { LONGEST = 64 };
  int row[LONGEST];
  size_t b_length = strlen(b);
  if (b_length >= LONGEST || a_length >= LONGEST) return LONGEST;
  for (size_t j = 0; j <= b_length; j++) row[j] = (int)j;
  for (size_t i = 1; i <= a_length; i++) {
    int diagonal = row[0];
    row[0] = (int)i;
    for (size_t j = 1; j <= b_length; j++) {
      int changed = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = DF_MIN(changed, DF_MIN(row[j], row[j - 1]) + 1);
    }
  }
  return row[b_length];
}

const char *df_nearest_word(const char *text, size_t length, const char *const *words, size_t n) {
  const char *nearest = NULL;
  int least = (int)DF_MIN((size_t)3, (length + 2) / 3) + 1;
  if (length < 2) return NULL; /* a single character is near to any other */
  for (size_t i = 0; i < n; i++) {
    const int away = distance(text, length, words[i]);
    if (away < least) nearest = words[i];
    least = DF_MIN(least, away);
  }
  return nearest;
}

const char *df_variable(const char *name) {
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}
