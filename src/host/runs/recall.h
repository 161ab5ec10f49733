/*
 * Runs are taken back from the blocks when a member of their collective is lost, until the next
 * view (control/view.h) decides about them:
 *
 *   df_recall_begin     the blocks give the runs up; no run is admitted any more
 *   (completion.c)      each run is held when its CQE arrives
 *   df_recall_is_quiet  no run is in the device: this rank can report what it has
 *   df_recall_decide    runs below the view's base end, the others fail or return to the front of
 *                       the backlog, where they wait for the collective's next home
 *
 * Nothing here waits.
 */
#ifndef DF_HOST_RUNS_RECALL_H
#define DF_HOST_RUNS_RECALL_H

#include "base/mutex.h"
#include "host/state/survival.h"

void df_recall_begin(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* A run of a recalled collective has left the device. has_data: it has its data on this rank. */
void df_recall_hold(dfcclContext_t context, df_coll *coll, const df_run *run, uint32_t slot,
                    int has_data) DF_RANK_LOCKED;
static inline int df_recall_is_quiet(const df_coll *coll) DF_RANK_LOCKED {
  return coll->runs.is_recalled && df_runs_in_device(coll) == 0;
}
/* Whether the view's decision was executed: only the backlog has runs. */
static inline int df_recall_is_decided(const df_coll *coll) DF_RANK_LOCKED {
  return df_recall_is_quiet(coll) && coll->survival->n_held == 0 && !coll->survival->has_outcome;
}
/* Runs below base end. In a job that does not execute runs again, those below fails_below fail. If
 * the runs are not all taken back yet, this is done when they are. */
void df_recall_decide(dfcclContext_t context, df_coll *coll, uint64_t base,
                      uint64_t fails_below) DF_RANK_LOCKED;
/* A run of a recalled collective was submitted: fails it if the view has decided so. */
void df_recall_submitted(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* The collective has failed: ends the runs that are held. */
void df_recall_abandon(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* Prepares the copy of a run's input before it is accepted, if it will be overwritten. */
dfcclResult_t df_recall_prepare_copy(dfcclContext_t context, df_coll *coll,
                                     const df_run *run) DF_RANK_LOCKED;
/* Notifies the blocks whether they copy the input of the run in this slot. */
void df_recall_admit(const dfcclContext_t context, df_coll *coll, const df_run *run,
                     uint32_t slot) DF_RANK_LOCKED;
/* Writes why a run failed. */
void df_recall_describe(const df_coll *coll, const df_failed_range *range, char *text,
                        size_t bytes) DF_RANK_LOCKED;

#endif
