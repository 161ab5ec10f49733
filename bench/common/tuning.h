/* Numbers of the tuning table that a tool needs for contexts that it opens. */
#ifndef DF_BENCH_COMMON_TUNING_H
#define DF_BENCH_COMMON_TUNING_H

#include <stdbool.h>

/* Adds "NAME=VALUE,..." to DFCCL_TUNING. A user's file and numbers stay in force, but the added
 * numbers count more. Returns false with the reason on standard error. */
bool df_tool_tuning_add(const char *numbers);

#endif
