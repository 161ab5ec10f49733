/* The runs that a rank reports to the agreement on members (df_view_report): for each collective
 * that loses a member, how many have their data here, and how many were submitted. */
#ifndef DF_HOST_MEMBERSHIP_RUN_REPORT_H
#define DF_HOST_MEMBERSHIP_RUN_REPORT_H

#include "base/mutex.h"
#include "host/state/survival.h"

typedef struct df_run_report {
  df_view_runs *entries; /* [capacity]; the owner frees it */
  uint32_t capacity;
} df_run_report;

/* All collectives with a suspected member are taken back. Returns the number of entries;
 * UINT32_MAX: no memory. */
uint32_t df_run_report_make(dfcclContext_t context, df_run_report *report) DF_RANK_LOCKED;
/* Runs without elements end without a message, so there is nothing to agree on. */
static inline int df_run_report_leaves_out(const df_coll *coll) {
  return coll->count == 0 && coll->pairs == NULL;
}

#endif
