/* Traces of torch and PARAM as schedules: Flight Recorder dumps, Execution Traces (Chakra), and
 * PARAM's basic lists. One file is one rank's. A call's identity is its group, operation, type,
 * size and name, and how often the rank has made such a call before: two ranks that make the
 * same calls in different orders wait for each other in a library that executes calls in order. */
#ifndef DF_TRACES_TRACE_H
#define DF_TRACES_TRACE_H

#include "json_input.h"
#include "schedule_build.h"

/* *traces: whether the files are traces. Fails if only some are. */
dfcclResult_t df_trace_recognise(const char *const *files, const df_json *json, int count,
                                 bool *traces);

/* Adds what the traces say to build, and finishes it. ranks as in df_schedule_load_program. */
dfcclResult_t df_trace_build(df_schedule_builder *build, const char *const *files,
                             const df_json *json, int count, df_schedule_waits waits,
                             uint32_t ranks);

#endif
