/* Receives messages, watches peers, and runs other rooms' jobs; sleeps in epoll otherwise. */
#ifndef DF_CONTROL_SERVICE_H
#define DF_CONTROL_SERVICE_H

#include "base/mutex.h"
#include "control/messenger.h"

/* Before df_service_start. Jobs run in the order of these calls, without the lock, on each wake. */
void df_service_add_job(df_control *control, void *room, int (*tick_ms)(void *room),
                        void (*run)(void *room));

dfcclResult_t df_service_open(df_control *control);
dfcclResult_t df_service_start(df_control *control);
/* Returns when the thread has ended. Safe without start. */
void df_service_stop(df_control *control);
void df_service_close(df_control *control);

/* Any thread, with or without the lock; does not block. */
void df_service_wake(df_control *control);

/* With relays: tells those with whom this rank has a connection, also after its goodbye. Each
 * tells its own in turn, so that also those hear of a lost relay whose messages passed it. */
void df_service_tell_lost(df_control *control, uint32_t rank, const char *why) DF_RANK_LOCKED;
/* The relay has left, or is lost to this rank, which waits in its goodbye: so are those behind
 * it. Of a relay that is lost earlier the owner knows what it means. */
void df_service_leave_those_behind(df_control *control, uint32_t relay) DF_RANK_LOCKED;

#endif
