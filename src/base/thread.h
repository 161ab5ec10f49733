/* Threads of the library. */
#ifndef DF_BASE_THREAD_H
#define DF_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* Starts a thread that has stack_bytes for its own calls. The C library takes the thread-local storage of all
 * loaded modules out of a thread's stack, and the amount is the application's, so it is added here.
 * Returns an errno value. */
int df_thread_create(pthread_t *thread, size_t stack_bytes, int is_detached, void *(*run)(void *),
                     void *argument);

#endif
