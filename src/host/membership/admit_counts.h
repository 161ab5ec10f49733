/*
 * Comparison of the runs that the members have submitted before dfcclAdmit. Each member sends its
 * counts to all others when it calls. A member that has called already compares them with its own,
 * and answers. So of each pair at least the member that called first compares, and nothing needs to
 * be stored for a later call. A difference is sent to all members, whose admits end with it.
 */
#ifndef DF_HOST_MEMBERSHIP_ADMIT_COUNTS_H
#define DF_HOST_MEMBERSHIP_ADMIT_COUNTS_H

#include "base/mutex.h"
#include "control/message.h"
#include "host/state/context.h"

typedef struct df_admit_counts {
  dfcclContext_t context;
  int is_open;    /* this rank has called, and its admit has not ended */
  uint64_t round; /* view that ended the latest admit; 0: none has. It is equal on all members */
  /* [n_ranks] entries of the peer that were compared; DF_COUNTS_COMPARED: all */
  uint32_t *compared;
  int has_difference; /* difference is of an admit in difference_round */
  uint64_t difference_round;
  df_count_difference difference;
} df_admit_counts;
#define DF_COUNTS_COMPARED UINT32_MAX

/* 0: no memory. */
int df_admit_counts_open(dfcclContext_t context, df_admit_counts *counts);
void df_admit_counts_close(df_admit_counts *counts);
/* At the call: counts the runs so far, and sends the counts. */
void df_admit_counts_begin(df_admit_counts *counts) DF_RANK_LOCKED;
/* Whether all runs that were counted have ended here. Their callbacks may still run. */
int df_admit_counts_have_ended(const df_admit_counts *counts) DF_RANK_LOCKED;
/* The first member whose counts have not been compared, which may not have called yet; DF_NOBODY:
 * none. */
uint32_t df_admit_counts_missing(const df_admit_counts *counts) DF_RANK_LOCKED;
/* NULL: no difference is known in this round. */
const df_count_difference *df_admit_counts_difference(const df_admit_counts *counts) DF_RANK_LOCKED;

#endif
