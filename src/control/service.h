/* The service thread of a rank: receives control messages, watches peers, and runs the jobs of
 * other rooms. It sleeps in epoll while nothing arrives and no job is due. */
#ifndef DF_CONTROL_SERVICE_H
#define DF_CONTROL_SERVICE_H

#include "control/post.h"

/* Before df_service_start. Jobs run in the order of these calls, without the lock, each time the
 * thread wakes. tick_ms may be NULL. */
void df_service_add_job(df_control *control, void *room, int (*tick_ms)(void *room),
                        void (*run)(void *room));

/* dfcclOutOfMemory, dfcclSystemError. */
dfcclResult_t df_service_open(df_control *control);
dfcclResult_t df_service_start(df_control *control);
/* Returns when the thread has ended. Safe if it was never started. */
void df_service_stop(df_control *control);
void df_service_close(df_control *control);

/* Any thread, with or without the lock; does not block. */
void df_service_wake(df_control *control);

#endif
