/* The ranks that a collective of this rank waits for. */
#ifndef DF_HOST_OBSERVE_AWAITED_RANKS_H
#define DF_HOST_OBSERVE_AWAITED_RANKS_H

#include "base/mutex.h"
#include "base/text.h"
#include "host/state/context.h"

/* Whether the member has not registered or not run the collective, according to its announcements.
 */
int df_has_not_come(const df_coll *coll, uint32_t position) DF_RANK_LOCKED;

/* Whether a run in the daemon, or its links, cannot progress at this moment without the member. */
int df_waits_for_member(dfcclContext_t context, const df_coll *coll,
                        uint32_t position) DF_RANK_LOCKED;

/* Describes the collective's state, and the ranks that it waits for. */
void df_describe_wait(dfcclContext_t context, const df_coll *coll, char *text,
                      size_t bytes) DF_RANK_LOCKED;
void df_say_wait(dfcclContext_t context, const df_coll *coll, df_text *text) DF_RANK_LOCKED;

/* The reason why the oldest run of a collective does not end. */
typedef enum {
  DF_WAIT_NONE,            /* no run is outstanding */
  DF_WAIT_FAILED,          /* the collective has failed */
  DF_WAIT_REGISTRATION,    /* members have not registered it */
  DF_WAIT_RUN,             /* members have not run it; the links are not connected */
  DF_WAIT_LINKS,           /* its links are being set up */
  DF_WAIT_SYNCHRONISATION, /* the end of a device synchronisation */
  DF_WAIT_ROOM,            /* room in the submission queue */
  DF_WAIT_MESSAGES,        /* messages or credit of other ranks */
  DF_WAIT_UNKNOWN,  /* as before, if the host cannot read the links: the ranks are possible ones */
  DF_WAIT_PROGRESS, /* it waits for no rank at this moment */
  DF_WAIT_CAUSES
} df_wait_cause;

/* Writes the ranks that the oldest run of the collective waits for, at most `most`, and returns
 * their number. *more: 1 if it waits for further ranks. */
uint32_t df_list_awaited(dfcclContext_t context, const df_coll *coll, df_wait_cause *cause,
                         uint32_t *ranks, uint32_t most, int *more) DF_RANK_LOCKED;

#endif
