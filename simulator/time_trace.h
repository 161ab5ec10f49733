/* A picture of a collective in simulated time, for ui.perfetto.dev or chrome://tracing. */
#ifndef DF_SIM_TIME_TRACE_H
#define DF_SIM_TIME_TRACE_H

#include "synthesis/timeline.h"

/* Hosts are processes, ranks are threads; messages are drawn at their sender, waits at who waits.
 * Besides df_timeline_run's errors: dfcclSystemError, dfcclInvalidArgument if there are more than
 * DF_SIM_MAX_TRACE_EVENTS. */
dfcclResult_t df_time_trace(const df_timeline_question *question, const char *file,
                            df_timeline_answer *answer);

#endif
