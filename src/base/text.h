/* Text that is written into a buffer and cut at its end, and numbers that are read from text. */
#ifndef DF_BASE_TEXT_H
#define DF_BASE_TEXT_H

#include <stdarg.h>

#include "base/attributes.h"

/* A zero ends what was written, unless the buffer has no byte. */
typedef struct df_text {
  char *at;
  size_t left;
} df_text;

void df_say(df_text *text, const char *format, ...) DF_PRINTF(2, 3);
void df_say_list(df_text *text, const char *format, va_list arguments) DF_PRINTF(2, 0);

/* Decimal digits; *end: what follows them. 0: there is none, or the number is more than `most`. */
int df_read_digits(const char *text, uint64_t most, uint64_t *number, const char **end);

/* An environment variable's value. NULL: it is not set, or is empty. */
const char *df_variable(const char *name);

#endif
