/* Schedule: what each GPU of a job submits: written by hand, recorded by the library, or taken from
 * traces of torch and PARAM (trace.h). */
#ifndef DF_TRACES_SCHEDULE_H
#define DF_TRACES_SCHEDULE_H

#include "call_content.h"
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
  uint32_t number;  /* the place among the rank's calls, from 1; 0 for a sync event */
  uint32_t stack;   /* number in stacks, or DF_NO_STACK */
  uint32_t content; /* number in content, or DF_NO_CONTENT */
  uint32_t first_step, step_count; /* in step[]: waits and computing before the call */
} df_call;

/* A program waits for the end of one collective, or of none, and then computes. */
typedef struct {
  uint32_t collective; /* DF_NO_COLLECTIVE: it waits for none */
  double compute_us;
} df_step_before;

#define DF_NO_STACK UINT32_MAX
#define DF_NO_CONTENT UINT32_MAX
#define DF_NO_COLLECTIVE UINT32_MAX
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
  df_names content_texts; /* scope 0; each content once */
  df_call_content *content;
  uint32_t content_room;
  df_step_before *step;
  uint32_t step_count, step_room;
} df_schedule;

/* Waits of a trace's program. */
typedef enum {
  DF_WAITS_AFTER_EACH,  /* calls execute one after the other */
  DF_WAITS_AS_RECORDED, /* calls execute together until the trace says that the program waited; a
                           wait for one call counts as a wait for all */
  DF_WAITS_AS_STEPS /* the same, but waits for one call are steps where the trace has the call */
} df_schedule_waits;

/* Reads and merges files (file_count >= 1): a group that several files define must have the same
 * members in each, and a GPU's events must be in one file. Freed with df_schedule_destroy. */
dfcclResult_t df_schedule_load(df_schedule *schedule, const char *const *files, int file_count,
                               df_schedule_waits waits);

/* The same for replays: waits are steps. ranks: 0, or the number of ranks of the job; then a single
 * trace of one rank is the trace of each of them. */
dfcclResult_t df_schedule_load_program(df_schedule *schedule, const char *const *files,
                                       int file_count, uint32_t ranks);

/* The same for one text in memory. */
dfcclResult_t df_schedule_parse(df_schedule *schedule, const char *file, const char *text,
                                size_t bytes, df_schedule_waits waits);
void df_schedule_destroy(df_schedule *schedule);

#endif
