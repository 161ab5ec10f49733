/* The calls of a rank as recorded in a trace, before they are matched with the calls of other
 * ranks. */
#ifndef DF_TRACES_TRACE_CALLS_H
#define DF_TRACES_TRACE_CALLS_H

#include "json_input.h"
#include "names.h"

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
} df_trace_call;

/* One file. */
typedef struct {
  const char *file;
  uint32_t rank;
  bool rank_assumed; /* neither the file nor its name has it */
  df_trace_call *call;
  uint64_t count, room;
  bool begins_late; /* earlier calls were forgotten */
  bool whole;       /* all calls of the program are there */
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
  int rank_count;
  bool messages_left_out;
  bool groups_unnamed;   /* an Execution Trace without names of groups */
  bool waits_are_single; /* the program waits for one call while others go on */
} df_trace;

/* Where in a file a reader is: LIST[INDEX]KEY. */
typedef struct {
  const char *file, *list;
  uint64_t index;
} df_trace_place;

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

/* Finds the rank of trace->file, which is one of the files and has that content. */
dfcclResult_t df_trace_rank_of(df_trace_rank *trace, const char *const *files, int count,
                               const cJSON *root);

/* The readers. */
dfcclResult_t df_trace_read_flight(df_trace *trace, df_trace_rank *rank, const cJSON *root);
dfcclResult_t df_trace_read_execution(df_trace *trace, df_trace_rank *rank, const cJSON *root);
dfcclResult_t df_trace_read_param(df_trace *trace, df_trace_rank *rank, const cJSON *root);

#endif
