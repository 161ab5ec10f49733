#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void df_assert_failed(const char *fact, const char *file, int line) {
  fprintf(stderr, "dfccl: broken invariant: %s (%s:%d)\n", fact, file, line);
  abort();
}
