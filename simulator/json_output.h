/* JSON to standard output. A double is printed with as many digits as it needs to be read back. */
#ifndef DF_SIM_JSON_OUTPUT_H
#define DF_SIM_JSON_OUTPUT_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "wilson.h"

/* Adds "name": [low, high]. */
void df_json_add_interval(cJSON *object, const char *name, df_interval interval);

/* Prints object and a line end, and deletes it. False (with a sentence recorded) if it could not.
 */
bool df_json_print(cJSON *object);

#endif
