#include "common/tuning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cli.h"

bool df_tool_tuning_add(const char *numbers) {
  const char *given = getenv("DFCCL_TUNING");
  if (given == NULL) given = "";
  const size_t bytes = strlen(given) + strlen(",set:") + strlen(numbers) + 1;
  char *all = malloc(bytes);
  if (all != NULL) snprintf(all, bytes, "%s%sset:%s", given, *given ? "," : "", numbers);
  const bool fine = all != NULL && setenv("DFCCL_TUNING", all, 1) == 0;
  free(all);
  if (!fine) df_tool_error("no memory to add %s to DFCCL_TUNING", numbers);
  return fine;
}
