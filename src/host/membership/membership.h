/*
 * A job that goes on without lost ranks (config.survive). This room feeds the agreement of the
 * members (control/view.h) with messages, evidence and time, and carries out what they agree on:
 *
 *   freeze    collectives with a suspected member take their runs back (runs/recall.h)
 *   install   their runs are decided, their next homes are prepared (registration/successor.h),
 *             and the poller notifies the application
 *   end       this rank must not go on: its context breaks
 *
 * docs/design/membership.md has the reasons. Nothing here waits, except the application's callback.
 */
#ifndef DF_HOST_MEMBERSHIP_MEMBERSHIP_H
#define DF_HOST_MEMBERSHIP_MEMBERSHIP_H

#include "base/mutex.h"
#include "host/state/context.h"

/* With config.survive 0 it does nothing. After the transports are open, before the service thread
 * starts. */
dfcclResult_t df_membership_open(dfcclContext_t context);
void df_membership_close(dfcclContext_t context);
void df_membership_close_in_child(dfcclContext_t context); /* descriptors, in a forked child */

/* The connection of the rank has ended. */
void df_membership_lost(dfcclContext_t context, uint32_t rank) DF_RANK_LOCKED;
/* The rank has left in order: it takes part in nothing any more. */
void df_membership_left(dfcclContext_t context, uint32_t rank) DF_RANK_LOCKED;
/* The rank's context is broken, by its own word: it takes part in nothing any more. */
void df_membership_gave_up(dfcclContext_t context, uint32_t rank, const char *why) DF_RANK_LOCKED;
/* The rank does not answer, or sends what no correct rank sends. */
void df_membership_suspect(dfcclContext_t context, uint32_t rank, const char *why) DF_RANK_LOCKED;

/* In a job of several hosts it waits until the other members have agreed that this rank leaves. All
 * its runs have ended. */
void df_membership_leave(dfcclContext_t context);

dfcclResult_t df_membership_exclude(dfcclContext_t context, const int *ranks, int n);
dfcclResult_t df_membership_get(dfcclContext_t context, dfcclMembership_t *membership);

#endif
