/* A text that grows. If memory runs out, `failed` is set and no more text is added. */
#ifndef DF_BASE_GROWING_TEXT_H
#define DF_BASE_GROWING_TEXT_H

#include <stddef.h>

#include "base/attributes.h"

typedef struct df_growing_text {
  char *bytes; /* no zero ends them; the owner frees them */
  size_t length, capacity;
  int failed;
} df_growing_text;

void df_grow(df_growing_text *text, const char *bytes, size_t length);
void df_grow_text(df_growing_text *text, const char *string);
void df_grow_format(df_growing_text *text, const char *format, ...) DF_PRINTF(2, 3);
/* As the inside of a JSON string, each byte as the character of its number: an application's names
 * may hold anything. */
void df_grow_escaped(df_growing_text *text, const char *string);

#endif
