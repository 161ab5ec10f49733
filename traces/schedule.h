/* Schedule: what each GPU of a job submits: written by hand, recorded by the library, or taken from
 * traces of torch and PARAM (trace.h). */
#ifndef DF_TRACES_SCHEDULE_H
#define DF_TRACES_SCHEDULE_H

#include "events.h"
#include "names.h"

/* Completeness of the list of events of a GPU. The recordings of the library report it; other
 * schedules are complete. */
typedef enum {
  DF_RECORDED_NOTHING, /* no entry under "gpus" */
  DF_RECORDED_WHOLE,
  DF_RECORDED_SO_FAR,   /* the program was still running, or was killed */
  DF_RECORDED_CUT_SHORT /* memory or the disk ran out */
} df_recorded;

extern const char *const df_recorded_names[]; /* by df_recorded, from DF_RECORDED_WHOLE on */

/* The record of a call in a trace. */
typedef struct {
  uint32_t number; /* the place among the rank's calls, from 1; 0 for a sync event */
  uint32_t stack;  /* number in stacks, or DF_NO_STACK */
} df_call;

#define DF_NO_STACK UINT32_MAX
enum { DF_MAX_NOTES = 8, DF_NOTE_BYTES = 256 };

typedef struct {
  df_sequences sequences; /* GPUs are numbered as in the files */
  bool has_sync;
  df_names groups;                                 /* scope 0 */
  df_names collectives;                            /* scope: the group */
  uint32_t *group_first, *group_member, *group_of; /* memory that sequences borrows */
  uint8_t *recorded;                               /* GPU -> df_recorded */

  bool of_traces;
  df_call *call;                          /* parallel to sequences.event; NULL without traces */
  df_names stacks;                        /* scope 0; "at a.py:3 in f < ..." */
  char note[DF_MAX_NOTES][DF_NOTE_BYTES]; /* assumptions that were necessary */
  int note_count;
} df_schedule;

/* Reads and merges files (file_count >= 1): a group that several files define must have the same
 * members in each, and a GPU's events must be in one file. Freed with df_schedule_destroy.
 * waits_only: calls of a trace execute together until the trace says that the program waited; else
 * one after the other. */
dfcclResult_t df_schedule_load(df_schedule *schedule, const char *const *files, int file_count,
                               bool waits_only);

/* The same for one text in memory. */
dfcclResult_t df_schedule_parse(df_schedule *schedule, const char *file, const char *text,
                                size_t bytes, bool waits_only);
void df_schedule_destroy(df_schedule *schedule);

#endif
