/* Schedule: what each GPU of a job submits, written by hand or recorded by the library. */
#ifndef DF_SIM_SCHEDULE_H
#define DF_SIM_SCHEDULE_H

#include "names.h"
#include "sequences.h"

typedef struct {
  df_sequences sequences; /* GPUs are numbered as in the files */
  bool has_sync;
  df_names groups;                                 /* scope 0 */
  df_names collectives;                            /* scope: the group */
  uint32_t *group_first, *group_member, *group_of; /* what sequences borrows */
  bool *recorded; /* GPU -> has an entry under "gpus", even an empty one */
} df_schedule;

/* Reads and merges files (file_count >= 1): a group that several files define must have the same
 * members in each, and a GPU's events must be in one file. Freed with df_schedule_destroy. */
dfcclResult_t df_schedule_load(df_schedule *schedule, const char *const *files, int file_count);

/* The same for one text in memory. */
dfcclResult_t df_schedule_parse(df_schedule *schedule, const char *file, const char *text,
                                size_t bytes);
void df_schedule_destroy(df_schedule *schedule);

#endif
