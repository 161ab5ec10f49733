/* Declarations that the files of this room share. */
#ifndef DF_HOST_MEMBERSHIP_MEMBERSHIP_PARTS_H
#define DF_HOST_MEMBERSHIP_MEMBERSHIP_PARTS_H

#include "base/mutex.h"
#include "host/membership/admits.h"
#include "host/membership/newcomers.h"
#include "host/membership/process_ends.h"
#include "host/membership/run_report.h"
#include "host/membership/views.h"
#include "host/state/survival.h"

typedef struct df_membership {
  df_view view;
  void *memory;
  size_t memory_bytes;
  uint8_t *buffer; /* DF_VIEW_MESSAGE_BYTES */
  df_process_ends ends;
  df_views views;
  df_run_report report;
  df_newcomers newcomers;
  df_admit admit;
  int is_newcomer; /* it has no view yet */
} df_membership;

static inline df_membership *df_membership_of(const dfcclContext_t context) {
  return context->survival->membership;
}
static inline int df_membership_may_tell(const dfcclContext_t context) DF_RANK_LOCKED {
  return !context->control.said_goodbye && context->failure.broken == dfcclSuccess;
}
/* Gives the agreement what it waits for. Called after each call of it, and at news. */
void df_membership_drive(dfcclContext_t context) DF_RANK_LOCKED;

#endif
