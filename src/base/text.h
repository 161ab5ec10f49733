/* Text that is written into a buffer and truncated at its end, and numbers that are parsed from
 * text. */
#ifndef DF_BASE_TEXT_H
#define DF_BASE_TEXT_H

#include <stdarg.h>

#include "base/attributes.h"

/* The text always ends with a zero, unless the buffer has no byte. */
typedef struct df_text {
  char *at;
  size_t left;
} df_text;

void df_say(df_text *text, const char *format, ...) DF_PRINTF(2, 3);
void df_say_list(df_text *text, const char *format, va_list arguments) DF_PRINTF(2, 0);

/* Parses decimal digits; *end points behind them. Returns 0 if there is no digit or the number is
 * larger than `most`. */
int df_read_digits(const char *text, uint64_t most, uint64_t *number, const char **end);

/* Returns the number of bytes of the UTF-8 byte order mark with which the text begins, or 0. */
size_t df_byte_order_mark(const char *text, size_t bytes);

/* Finds the end of the first line, which is LF, CR LF, CR, or the end of the text. *length gets the
 * bytes before it. Returns the bytes up to the next line. */
size_t df_line_length(const char *text, size_t bytes, size_t *length);

/* Returns the word that the text was probably meant to be: the one with the fewest characters to
 * insert, delete or change, at most 3 and at most a third of the text's, rounded up. NULL: there is
 * none. */
const char *df_nearest_word(const char *text, size_t length, const char *const *words, size_t n);

/* Returns an environment variable's value, or NULL if it is not set or is empty. */
const char *df_variable(const char *name);

#endif
