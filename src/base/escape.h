/* Escaping of foreign text, so that it fits on one line and has no control characters. */
#ifndef DF_BASE_ESCAPE_H
#define DF_BASE_ESCAPE_H

#include <stddef.h>

/* Writes at most bytes - 1 characters and a terminating zero. Control characters and backslashes
 * become escape sequences of C, which are never truncated. */
void df_escape(char *to, size_t bytes, const char *text);

#endif
