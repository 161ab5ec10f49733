/* Schedule: what each GPU of a job submits, written by hand or recorded by the library. */
#ifndef DF_SIM_SCHEDULE_H
#define DF_SIM_SCHEDULE_H

#include "names.h"
#include "sequences.h"

/* How much of its program a GPU's list of events holds. The library's recordings say so; of other
 * schedules all is known. */
typedef enum {
  DF_RECORDED_NOTHING, /* no entry under "gpus" */
  DF_RECORDED_WHOLE,
  DF_RECORDED_SO_FAR,   /* the program was still running, or was killed */
  DF_RECORDED_CUT_SHORT /* memory or the disk ran out */
} df_recorded;

extern const char *const df_recorded_names[]; /* by df_recorded, from DF_RECORDED_WHOLE on */

typedef struct {
  df_sequences sequences; /* GPUs are numbered as in the files */
  bool has_sync;
  df_names groups;                                 /* scope 0 */
  df_names collectives;                            /* scope: the group */
  uint32_t *group_first, *group_member, *group_of; /* what sequences borrows */
  uint8_t *recorded;                               /* GPU -> df_recorded */
} df_schedule;

/* Reads and merges files (file_count >= 1): a group that several files define must have the same
 * members in each, and a GPU's events must be in one file. Freed with df_schedule_destroy. */
dfcclResult_t df_schedule_load(df_schedule *schedule, const char *const *files, int file_count);

/* The same for one text in memory. */
dfcclResult_t df_schedule_parse(df_schedule *schedule, const char *file, const char *text,
                                size_t bytes);
void df_schedule_destroy(df_schedule *schedule);

#endif
