/*
 * The next home of a collective that has lost a member: a variant with a group, a plan, links and
 * announcements of its own, whose number follows from the view in which the group changed. It is
 * made when the collective has a run, from the registration less the ranks that are lost. Buffers
 * keep the layout of the registration.
 */
#ifndef DF_HOST_REGISTRATION_SUCCESSOR_H
#define DF_HOST_REGISTRATION_SUCCESSOR_H

#include "base/mutex.h"
#include "host/state/context.h"

/* Homes have numbers from here on; plan variants have lower ones. A number has the registration of
 * the id and the view: late messages about an earlier registration do not concern a later one. */
#define DF_FIRST_HOME ((uint64_t)1 << 63)
static inline uint64_t df_home_number(uint32_t registration, uint64_t view) {
  return DF_FIRST_HOME | (uint64_t)registration << 31 | (view & INT32_MAX);
}
/* Whether messages with this number are about the collective, not about a variant of its plan. */
static inline int df_is_home(uint64_t variant) { return variant == 0 || variant >= DF_FIRST_HOME; }

/* The collective has lost a member in the latest view, or was registered with a lost rank. Fails it
 * if it cannot go on without that rank. */
void df_successor_expect(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* Makes the next home, if it is due and has a run to execute. Drops it if the collective has
 * failed. */
void df_successor_progress(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* The collective leaves: drops its next home. */
void df_successor_drop(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;
/* If the collective's successor is ready, it takes the place of its home. On the service thread.
 * Returns 1 if it did. */
int df_successor_take_over(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED;

#endif
