#include "host/state/collective.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *df_coll_label(const df_coll *coll, char *text, size_t bytes) {
  char number[24];
  snprintf(number, sizeof number, "%" PRIu64, coll->id);
  if (strcmp(number, coll->name) == 0)
    snprintf(text, bytes, "collective %s", number);
  else
    snprintf(text, bytes, "collective %s (\"%s\")", number, coll->name);
  return text;
}
