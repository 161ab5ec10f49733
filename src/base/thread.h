/* Creation of the threads of the library. */
#ifndef DF_BASE_THREAD_H
#define DF_BASE_THREAD_H

#include <pthread.h>
#include <stddef.h>

/* Starts a thread that has stack_bytes for its own calls. The C library takes the thread-local
 * storage of all loaded modules from a thread's stack; its size depends on the application, so this
 * function adds it. Returns an errno value. */
int df_thread_create(pthread_t *thread, size_t stack_bytes, int is_detached, void *(*run)(void *),
                     void *argument);

#endif
