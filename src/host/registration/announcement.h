/* The fields of a registration that all members must share: announced, and compared. */
#ifndef DF_HOST_REGISTRATION_ANNOUNCEMENT_H
#define DF_HOST_REGISTRATION_ANNOUNCEMENT_H

#include "base/mutex.h"
#include "host/state/context.h"

df_announcement df_coll_announcement(const df_coll *coll);
/* Announces the collective to its members from position `from` on, and to the ranks that only
 * another member's group contains. */
void df_coll_announce(dfcclContext_t context, df_coll *coll, uint32_t from) DF_RANK_LOCKED;

/* The rank at position `i` of the announced group. */
uint32_t df_announced_rank(const df_remote *remote, uint32_t i);
/* Describes the first field that differs, with what each of the two ranks registered; the text is
 * the same on both. Returns 0 if nothing differs. */
int df_announcement_describe_difference(const df_coll *coll, const df_remote *remote, char *text,
                                        size_t bytes);

#endif
