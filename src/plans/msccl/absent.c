/* The build uses this file in place of parse.c if the library is built without libxml2. */
#include "plans/msccl/model.h"

#include <string.h>

int df_file_parse(df_file_model *model, const char *text, size_t bytes,
                  df_file_diagnostic *diagnostic) {
  (void)text, (void)bytes;
  memset(model, 0, sizeof *model);
  return df_file_complain(diagnostic, 0,
                          "it cannot be read: the library was built without libxml2 (meson setup "
                          "-Dfiles=enabled)");
}
