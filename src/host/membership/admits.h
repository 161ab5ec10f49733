/*
 * dfcclAdmit: all members take a newcomer in, between the same runs. An admit waits until the runs
 * that were submitted before have ended on this rank, the other members have called it, and a
 * newcomer is ready. It ends with a view that has the newcomer, or has the same members.
 */
#ifndef DF_HOST_MEMBERSHIP_ADMITS_H
#define DF_HOST_MEMBERSHIP_ADMITS_H

#include "base/mutex.h"
#include "control/view.h"
#include "host/membership/admit_counts.h"
#include "host/state/context.h"

typedef struct df_admit {
  dfcclAdmitCallback_t callback; /* NULL: none */
  void *argument;
  int is_pending;   /* the callback has not been called */
  int is_closing;   /* dfcclDestroy has begun */
  int calls_back;   /* a callback of an earlier admit, or of this one, runs */
  int is_reported;  /* the agreement has this rank's part */
  uint32_t is_over; /* `status` is known; read without the lock */
  dfcclResult_t status;
  uint64_t begin_ns, deadline_ns; /* for a newcomer */
  int has_warned;                 /* a member has not called yet */
  df_admit_counts counts;
} df_admit;

dfcclResult_t df_admit_begin(dfcclContext_t context, dfcclAdmitCallback_t callback, void *argument);
/* On the service thread. */
void df_admit_progress(dfcclContext_t context) DF_RANK_LOCKED;
int df_admit_tick_ms(dfcclContext_t context) DF_RANK_LOCKED;
/* A view ends an admit. */
void df_admit_installed(dfcclContext_t context, const df_view_content *content) DF_RANK_LOCKED;
/* On the poller: calls the callback, if it is due. Returns 1 if it did. */
int df_admit_tell(dfcclContext_t context);
/* The rank leaves: its admit fails. Returns after the callback. */
void df_admit_end(dfcclContext_t context);

#endif
