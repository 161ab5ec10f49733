/*
 * Processes that enter the job (bootstrap/entry.h):
 *
 *   entrance       a thread of each rank that has called dfcclGetJoinId; it passes requests on
 *   lowest     the lowest member gives each newcomer the number of a lost rank whose process has
 *              ended, and notifies the others; one newcomer at a time
 *   all        connect to the newcomer: the tables of the lost rank are made anew
 *
 * The newcomer is no member before the members admit it (admits.h).
 */
#ifndef DF_HOST_MEMBERSHIP_NEWCOMERS_H
#define DF_HOST_MEMBERSHIP_NEWCOMERS_H

#include <pthread.h>

#include "base/mutex.h"
#include "bootstrap/entry.h"
#include "bootstrap/net/fork_guard.h"
#include "host/state/context.h"

typedef struct df_newcomers {
  /* the entrance; its thread reads these without the lock */
  int has_entrance;
  df_entrance entrance;
  df_listener listener;
  int stop_fd;
  pthread_t thread;

  df_entry_request request; /* for the service thread of the lowest member */
  int has_request;
  int is_joining; /* a process is connected that is not admitted yet */
  int is_ready;   /* it can be admitted */
  int has_left;   /* it said goodbye while the members agreed on it */
  df_newcomer joining;
  uint64_t view; /* in which it was connected */
} df_newcomers;

void df_newcomers_subscribe(dfcclContext_t context);
/* dfcclGetJoinId. */
dfcclResult_t df_newcomers_open_entrance(dfcclContext_t context, dfcclUniqueId *id);
void df_newcomers_close_entrance(dfcclContext_t context);
void df_newcomers_close_in_child(dfcclContext_t context);
/* On the service thread. */
void df_newcomers_progress(dfcclContext_t context) DF_RANK_LOCKED;
/* The connection of the rank has ended, or it has said goodbye. Returns 1 if it is a newcomer that
 * no agreement admits, so that nothing follows. Otherwise it is treated as a member, whose end
 * needs a proof. */
int df_newcomers_lost(dfcclContext_t context, uint32_t rank) DF_RANK_LOCKED;
/* The process with this number was admitted, or is gone. */
void df_newcomers_forget(dfcclContext_t context, uint32_t rank) DF_RANK_LOCKED;

/* On the newcomer: notifies the members that this rank can be admitted. */
void df_newcomer_is_ready(dfcclContext_t context);
/* dfcclInProgress: neither admitted nor refused yet. Another error: the attempt has failed. */
dfcclResult_t df_newcomer_check(dfcclContext_t context);

#endif
