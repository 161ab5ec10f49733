#include "host/membership/views.h"

#include <stdlib.h>

#include "host/runs/recall.h"
#include "host/runs/runs.h"
#include "host/state/registry.h"

static df_view_record *make(uint64_t number, uint32_t n_members, uint32_t n_lost) {
  df_view_record *record = calloc(1, sizeof *record + (n_members + n_lost) * sizeof(int) +
                                         n_lost * sizeof(dfcclResult_t));
  if (record == NULL) return NULL;
  record->number = number;
  record->n_members = (int)n_members;
  record->n_lost = (int)n_lost;
  record->members = (int *)(record + 1);
  record->lost = record->members + n_members;
  record->reasons = (dfcclResult_t *)(record->lost + n_lost);
  return record;
}

dfcclResult_t df_views_open(dfcclContext_t context, df_views *views) {
  df_view_record *record = make(context->survival->view, context->n_ranks, 0);
  if (record == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the %u members of the job", context->n_ranks);
  for (uint32_t rank = 0; rank < context->n_ranks; rank++) record->members[rank] = (int)rank;
  views->first = views->latest = record;
  views->told = record;
  return dfcclSuccess;
}

void df_views_close(df_views *views) {
  while (views->first) {
    df_view_record *next = views->first->next;
    free(views->first);
    views->first = next;
  }
}

static dfcclResult_t reason_of(df_view_item lost) {
  switch (df_view_evidence(lost)) {
  case DF_EVIDENCE_BYE:
  case DF_EVIDENCE_LEFT:
    return dfcclSuccess;
  case DF_EVIDENCE_ASKED:
    return dfcclAborted;
  case DF_EVIDENCE_SILENT:
    return dfcclTimeout;
  default:
    return dfcclRemoteError;
  }
}

int df_views_add(df_views *views, const df_view_content *content) {
  df_view_record *record = make(content->number, content->n_members, content->n_lost);
  if (record == NULL) return 0;
  for (uint32_t i = 0; i < content->n_members; i++) record->members[i] = content->members[i].rank;
  for (uint32_t i = 0; i < content->n_lost; i++) {
    record->lost[i] = content->lost[i].rank;
    record->reasons[i] = reason_of(content->lost[i]);
  }
  if (content->flags & DF_VIEW_ADMITTED) {
    record->n_joined = 1;
    record->joined = content->newcomer.rank;
  }
  views->latest->next = record;
  views->latest = record;
  return 1;
}

static void fill(const df_view_record *record, dfcclMembership_t *membership) {
  membership->view = record->number - 1;
  membership->members = record->members;
  membership->nMembers = record->n_members;
  membership->lost = record->lost;
  membership->reasons = record->reasons;
  membership->nLost = record->n_lost;
  membership->joined = &record->joined;
  membership->nJoined = record->n_joined;
}

void df_views_skip(df_views *views) { views->told = views->latest; }

void df_views_get(const df_views *views, dfcclMembership_t *membership) {
  fill(views->latest, membership);
}

/* Whether all runs that ended before the view have had their callbacks. */
static int all_have_returned(const dfcclContext_t context) DF_RANK_LOCKED {
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = df_registered(context, i);
    if (coll == NULL || coll->survival == NULL || !coll->runs.is_recalled) continue;
    if (coll->survival->has_outcome || coll->runs.words->completed != coll->runs.taken) return 0;
  }
  return 1;
}

int df_views_tell(dfcclContext_t context, df_views *views) {
  const df_settings *settings = &context->settings;
  dfcclMembership_t membership = DFCCL_MEMBERSHIP_INITIALIZER;
  df_rank_lock(&context->lock);
  const df_view_record *record = views->told->next;
  if (record == NULL || !all_have_returned(context)) {
    df_rank_unlock(&context->lock);
    return 0;
  }
  fill(record, &membership);
  df_rank_unlock(&context->lock);

  /* The end of an admit without a newcomer is a view, too. */
  if (settings->membership && record->n_lost + record->n_joined > 0) {
    df_enter_callback(NULL);
    settings->membership(context, &membership, settings->membership_arg);
    df_leave_callback();
  }

  df_rank_lock(&context->lock);
  views->told = record;
  df_store_relaxed_u64(&context->survival->told, record->number);
  df_survival_note_news(context); /* homes of the view may be taken over */
  df_rank_unlock(&context->lock);
  return 1;
}
