/* Receives messages, watches peers, and runs other rooms' jobs; sleeps in epoll otherwise. */
#ifndef DF_CONTROL_SERVICE_H
#define DF_CONTROL_SERVICE_H

#include "control/post.h"

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

#endif
