#include "json_output.h"

#include <stdio.h>

#include "base/result.h"

void df_json_add_interval(cJSON *object, const char *name, df_interval interval) {
  cJSON *pair = cJSON_AddArrayToObject(object, name);
  cJSON_AddItemToArray(pair, cJSON_CreateNumber(interval.low));
  cJSON_AddItemToArray(pair, cJSON_CreateNumber(interval.high));
}

bool df_json_print(cJSON *object) {
  char *text = cJSON_PrintUnformatted(object);
  cJSON_Delete(object);
  if (!text) {
    df_fail(dfcclOutOfMemory, "no memory for the output");
    return false;
  }
  bool printed = puts(text) >= 0 && fflush(stdout) == 0;
  cJSON_free(text);
  if (!printed) df_fail(dfcclSystemError, "standard output cannot be written");
  return printed;
}
