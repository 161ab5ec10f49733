/* The service thread: receives messages, watches peers, and runs the periodic jobs of other rooms.
 * Otherwise it sleeps in epoll_wait. */
#ifndef DF_CONTROL_SERVICE_H
#define DF_CONTROL_SERVICE_H

#include "base/mutex.h"
#include "control/messenger.h"

/* Call before df_service_start. Jobs run at each wake, in the order of these calls, without the
 * lock. */
void df_service_add_job(df_control *control, void *room, int (*tick_ms)(void *room),
                        void (*run)(void *room));

/* Call after df_service_open and before df_service_start; at most DF_MAX_SERVICE_SOURCES times.
 * Returns 0 if the system refuses it. */
int df_service_add_source(df_control *control, int fd, void *room, void (*ready)(void *room));
/* Only the service thread: it ignores the source from now on (0), or watches it again. */
void df_service_watch_source(df_control *control, int fd, int on);
/* The service thread does not run. Safe if the descriptor is no source. */
void df_service_forget_source(df_control *control, int fd);

/* Only the service thread: another process has the number of a rank whose connection has ended.
 * Takes over the socket on success. */
dfcclResult_t df_service_replace_peer(df_control *control, uint32_t rank,
                                      int socket) DF_RANK_LOCKED;

dfcclResult_t df_service_open(df_control *control);
dfcclResult_t df_service_start(df_control *control);
/* Returns when the thread has ended. May be called if the thread was not started. */
void df_service_stop(df_control *control);
void df_service_close(df_control *control);

/* Any thread, with or without the lock; does not block. */
void df_service_wake(df_control *control);

/* In jobs with relays: sends the loss to all ranks with which this rank has a connection, also
 * after its own goodbye. Each of them forwards it, so that the ranks whose messages passed a lost
 * relay are notified too. */
void df_service_announce_lost(df_control *control, uint32_t rank, const char *why) DF_RANK_LOCKED;
/* The relay has left, or is lost to this rank while this rank waits in its goodbye. The ranks
 * behind the relay are lost with it. If a relay is lost earlier, the owner decides what follows. */
void df_service_lose_ranks_behind(df_control *control, uint32_t relay) DF_RANK_LOCKED;

#endif
