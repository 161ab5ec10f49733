/* Names: a table from (scope, text) to consecutive numbers. Texts are copied. */
#ifndef DF_TRACES_NAMES_H
#define DF_TRACES_NAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/result.h"

typedef struct {
  uint32_t scope;
  uint64_t text; /* offset into bytes */
} df_name;

typedef struct {
  df_name *name; /* by number */
  uint32_t count, room;
  char *bytes; /* zero-terminated texts */
  uint64_t used, bytes_room;
  uint32_t *slot;  /* open addressing; number + 1, or 0 */
  uint64_t slots;  /* a power of two */
  uint64_t secret; /* secret of the hash, so that no file can contain names that all collide */
} df_names;

dfcclResult_t df_names_create(df_names *names);
void df_names_destroy(df_names *names);

/* The number of text in scope; a new one (names->count before the call) if it was not there. */
dfcclResult_t df_names_intern(df_names *names, uint32_t scope, const char *text, uint32_t *number);

/* The same without adding; false if it is not there. */
bool df_names_find(const df_names *names, uint32_t scope, const char *text, uint32_t *number);

static inline const char *df_names_text(const df_names *names, uint32_t number) {
  return names->bytes + names->name[number].text;
}

#endif
