/* The outputs of dfccl-trace. A function returns false if it failed and has printed the reason. */
#ifndef DF_BENCH_TRACE_REPORT_H
#define DF_BENCH_TRACE_REPORT_H

#include <cjson/cJSON.h>

#include "trace/summary.h"

/* Tables with a line for each of these signatures, of the summary. */
bool df_job_print(const df_job_summary *summary, const df_signatures *lines);
bool df_job_print_json(const df_job_summary *summary);
/* A file for Perfetto or chrome://tracing, with a track for each of these signatures. */
bool df_job_write(const df_job_summary *summary, const df_signatures *lines, const char *file);

/* Parts of the first two about the daemon's turns, if the traces have any. */
void df_job_print_turns(const df_job_summary *summary);
void df_job_add_turns(cJSON *root, const df_job_summary *summary);
/* The messages that networks have carried, if the traces have any. */
void df_job_print_messages(const df_job_trace *job);
void df_job_add_messages(cJSON *root, const df_job_trace *job);
/* A picture of preemptions and of the task queue by collective, as Figure 11 of the paper. */
bool df_job_draw_figure11(const df_job_summary *summary, const char *file);
/* The time that the outputs begin with: the first one of all traces. */
int64_t df_job_first_time(const df_job_trace *job);

/* "ring, 1 block, 8 slots of 4096 bytes, flagged" */
void df_traced_choice(const df_traced_configuration *c, char *text, size_t bytes);

#endif
