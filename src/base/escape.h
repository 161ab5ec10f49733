/* Given text on one line, without control characters. */
#ifndef DF_BASE_ESCAPE_H
#define DF_BASE_ESCAPE_H

#include <stddef.h>

/* Writes bytes - 1 characters and a zero at most. Control characters and backslashes become C's
 * escapes, never cut. */
void df_escape(char *to, size_t bytes, const char *text);

#endif
