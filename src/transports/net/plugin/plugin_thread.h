/*
 * The thread that makes all calls of a network plugin: one for each plugin in use in this process,
 * since plugins are written for one caller, and some of their calls wait. Whoever uses a plugin talks
 * to the thread in words (plugin_stream.h), and never waits for it but in open and close.
 */
#ifndef DF_TRANSPORTS_NET_PLUGIN_PLUGIN_THREAD_H
#define DF_TRANSPORTS_NET_PLUGIN_PLUGIN_THREAD_H

#include "base/bell.h"
#include "transports/net/plugin/plugin_library.h"

typedef struct df_plugin_thread df_plugin_thread;
struct df_plugin_stream;

/* The same for all who name the same plugin. Waits until it is initialized. What
 * df_plugin_load and df_plugin_start fail with; dfcclOutOfMemory. */
dfcclResult_t df_plugin_thread_open(df_plugin_thread **thread, const char *name);
/* No stream of the caller's is left. The last one waits until all streams are closed, for some
 * seconds: a plugin that does not return is given up, with its thread. */
void df_plugin_thread_close(df_plugin_thread *thread);

/* The thread takes it over, and frees it when its is_over was published. */
void df_plugin_thread_adopt(df_plugin_thread *thread, struct df_plugin_stream *stream);
/* The thread looks at what was published before. Any thread. */
void df_plugin_thread_ring(df_plugin_thread *thread);

/* What does not change while it is open. */
const df_plugin *df_plugin_thread_plugin(const df_plugin_thread *thread);
const df_plugin_device *df_plugin_thread_device(const df_plugin_thread *thread, int *number);

/* One lock for what threads change rarely: who is to be told. A fork waits for it. */
void df_plugin_lock(void);
void df_plugin_unlock(void);

#endif
