#include "base/growing_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DF_LONGEST_FORMAT = 1024 };

void df_grow(df_growing_text *text, const char *bytes, size_t length) {
  if (text->length + length > text->capacity) {
    size_t capacity = DF_MAX(text->capacity * 2, text->length + length + 4096);
    char *larger = realloc(text->bytes, capacity);
    if (larger == NULL) {
      text->failed = 1;
      return;
    }
    text->bytes = larger;
    text->capacity = capacity;
  }
  memcpy(text->bytes + text->length, bytes, length);
  text->length += length;
}

void df_grow_text(df_growing_text *text, const char *string) {
  df_grow(text, string, strlen(string));
}

void df_grow_format(df_growing_text *text, const char *format, ...) {
  char line[DF_LONGEST_FORMAT];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  if (length < 0 || length >= DF_LONGEST_FORMAT)
    text->failed = 1;
  else
    df_grow(text, line, (size_t)length);
}

void df_grow_escaped(df_growing_text *text, const char *string) {
  for (; *string; string++) {
    unsigned char c = (unsigned char)*string;
    if (c == '"' || c == '\\')
      df_grow_format(text, "\\%c", c);
    else if (c < 0x20 || c >= 0x7f)
      df_grow_format(text, "\\u%04x", c);
    else
      df_grow(text, string, 1);
  }
}
