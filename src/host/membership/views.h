/* The views of a job as the application sees them, in order. */
#ifndef DF_HOST_MEMBERSHIP_VIEWS_H
#define DF_HOST_MEMBERSHIP_VIEWS_H

#include "base/mutex.h"
#include "host/state/survival.h"

/* One view. Its arrays follow the struct. */
typedef struct df_view_record {
  struct df_view_record *next; /* the view after it */
  uint64_t number;             /* as in df_survival */
  int n_members, n_lost, n_joined;
  int *members, *lost, joined;
  dfcclResult_t *reasons;
} df_view_record;

typedef struct df_views {
  df_view_record *first, *latest; /* all views: the application may read each until dfcclDestroy */
  const df_view_record *told;     /* the latest one of which the application has been notified */
} df_views;

dfcclResult_t df_views_open(dfcclContext_t context, df_views *views);
void df_views_close(df_views *views);
/* 0: no memory. */
int df_views_add(df_views *views, const df_view_content *content) DF_RANK_LOCKED;
/* The application is not notified of the views so far: this rank begins with the latest one. */
void df_views_skip(df_views *views) DF_RANK_LOCKED;
/* On the poller: notifies the application of the next view, if the callbacks of all runs that ended
 * before it have returned. Returns 1 if it did. */
int df_views_tell(dfcclContext_t context, df_views *views);
void df_views_get(const df_views *views, dfcclMembership_t *membership) DF_RANK_LOCKED;

#endif
