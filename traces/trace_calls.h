/* The calls of a rank as recorded in a trace, before they are matched with the calls of other
 * ranks. */
#ifndef DF_TRACES_TRACE_CALLS_H
#define DF_TRACES_TRACE_CALLS_H

#include "call_content.h"
#include "json_input.h"
#include "names.h"
#include "schedule.h"

#define DF_TRACE_NOBODY UINT32_MAX
#define DF_TRACE_UNDESCRIBED UINT32_MAX /* scope of a group whose members no file tells */

typedef struct {
  uint32_t group;      /* number in df_trace.groups */
  uint32_t signature;  /* number in df_trace.signatures */
  uint32_t from, to;   /* ends of a message: places in the group, or ranks if peers_are_ranks */
  uint64_t number;     /* among the rank's calls, from 1 */
  uint64_t sequence;   /* in its group, as the trace counts; 0: it does not */
  const cJSON *frames; /* NULL: none; belongs to the file */
  bool peers_are_ranks;
  bool with_last;  /* launched together with the call before it */
  bool host_waits; /* the program waits before it goes on */
  df_call_content content;
  uint32_t first_step, step_count; /* in df_trace.step: waits and computing before the call */
} df_trace_call;

typedef struct {
  uint64_t awaited; /* the rank's call, from 1; 0: none */
  double compute_us;
} df_trace_step;

/* One file. */
typedef struct {
  const char *file;
  uint32_t rank;
  bool rank_assumed; /* neither the file nor its name has it */
  df_trace_call *call;
  uint64_t count, room;
  bool begins_late;                    /* earlier calls were forgotten */
  bool whole;                          /* all calls of the program are there */
  uint32_t last_step, last_step_count; /* steps after the last call */
} df_trace_rank;

typedef struct {
  uint32_t *rank;
  uint32_t count; /* 0: not known */
  bool everybody; /* if they are not known, all ranks with a file */
} df_trace_members;

/* All files. */
typedef struct {
  df_names groups;     /* scope: number in member_lists, or DF_TRACE_UNDESCRIBED */
  df_names signatures; /* scope 0 */
  df_names member_lists;
  df_trace_members *members; /* by group */
  uint32_t members_room;
  df_trace_rank *rank;
  uint32_t rank_count, rank_room;
  uint32_t job_ranks; /* ranks of the job as the caller gives them; 0: as the files have them */
  df_trace_step *step;
  uint32_t step_count, step_room;
  bool is_replayed;      /* sizes and roots matter */
  bool compute_left_out; /* PARAM's compute kernels have no durations */
  bool messages_left_out;
  bool groups_unnamed;   /* an Execution Trace without names of groups */
  bool waits_are_single; /* the program waits for one call while others go on */
  bool waits_are_named;  /* the same, and the trace has the call */
} df_trace;

/* Where in a file a reader is: LIST[INDEX]KEY, or if there is no list, line INDEX. */
typedef struct {
  const char *file, *list;
  uint64_t index;
} df_trace_place;

dfcclResult_t df_trace_no_memory(const char *file);

/* Appends a rank; *rank is its index in trace->rank, since the array moves. */
dfcclResult_t df_trace_add_rank(df_trace *trace, const char *file, uint32_t *rank);

dfcclResult_t df_trace_bad(const df_trace_place *place, const char *key, const char *what,
                           const cJSON *value);

/* The group of that name and those members: ranks is a list of numbers, or such a list as a
 * text, or NULL if the file does not tell. */
dfcclResult_t df_trace_group(df_trace *trace, const df_trace_place *place, const char *name,
                             const cJSON *ranks, uint32_t *group);

/* Appends a call of group and operation; size is what tells apart calls of one operation ("" if
 * nothing does), name the program's or NULL. */
dfcclResult_t df_trace_add(df_trace *trace, df_trace_rank *rank, const df_trace_place *place,
                           uint32_t group, const char *operation, const char *size,
                           const char *name, df_trace_call **call);

/* Whether members may give different sizes. */
bool df_trace_sizes_differ(const char *operation);

/* The word "rank" and a number in the name. */
bool df_trace_names_rank(const char *file, uint32_t *rank);

/* Finds the rank of trace->file, which is one of the files and has that content. */
dfcclResult_t df_trace_rank_of(df_trace_rank *trace, const char *const *files, int count,
                               const cJSON *root);

/* The readers. */
dfcclResult_t df_trace_read_flight(df_trace *trace, df_trace_rank *rank, const cJSON *root);
dfcclResult_t df_trace_read_execution(df_trace *trace, df_trace_rank *rank, const cJSON *root);
dfcclResult_t df_trace_read_param(df_trace *trace, df_trace_rank *rank, const cJSON *root);

/* Lines of JSON: a file of one rank, or of all. */
dfcclResult_t df_trace_read_lines(df_trace *trace, const char *const *files, int count, int file,
                                  const cJSON *root);

/* trace_members.c: members that no file names, with notes about all assumptions; and start[group]:
 * the first call of the group that every member's ring still has. */
dfcclResult_t df_trace_complete_groups(df_trace *trace, df_schedule *schedule);
dfcclResult_t df_trace_find_starts(const df_trace *trace, df_schedule *schedule, uint64_t *start);
void df_trace_note(df_schedule *schedule, const char *text);

#endif
