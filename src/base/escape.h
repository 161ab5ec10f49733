/* Text that a program has given, for sentences and logs: on one line, without control characters.
 */
#ifndef DF_BASE_ESCAPE_H
#define DF_BASE_ESCAPE_H

#include <stddef.h>

/* Writes at most bytes - 1 characters and a zero. A control character, or a backslash, becomes an
 * escape as in C: whole, or not at all. */
void df_escape(char *to, size_t bytes, const char *text);

#endif
