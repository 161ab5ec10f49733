/*
 * The thread that makes all calls of a network plugin. There is one for each plugin in use in this
 * process, because plugins are written for one caller, and some of their calls wait. Users of a
 * plugin communicate with the thread through shared words (plugin_stream.h), and wait for it only
 * in open and close.
 */
#ifndef DF_TRANSPORTS_NET_PLUGIN_PLUGIN_THREAD_H
#define DF_TRANSPORTS_NET_PLUGIN_PLUGIN_THREAD_H

#include "base/bell.h"
#include "transports/net/plugin/plugin_library.h"

typedef struct df_plugin_thread df_plugin_thread;
struct df_plugin_stream;

/* Opens the thread of a plugin; all users of the same name share one. Waits until the plugin is
 * initialized. Fails as df_plugin_load and df_plugin_start, and with dfcclOutOfMemory. */
dfcclResult_t df_plugin_thread_open(df_plugin_thread **thread, const char *name);
/* Closes a use; no stream of the caller may be left. The last close waits some seconds until all
 * streams are closed: a plugin that does not return from a call is given up, with its thread. */
void df_plugin_thread_close(df_plugin_thread *thread);

/* Passes a stream to the thread, which frees it after its is_over was published. */
void df_plugin_thread_adopt(df_plugin_thread *thread, struct df_plugin_stream *stream);
/* Makes the thread look at everything that was published before. Any thread. */
void df_plugin_thread_ring(df_plugin_thread *thread);

/* Properties that do not change while the thread is open. */
const df_plugin *df_plugin_thread_plugin(const df_plugin_thread *thread);
const df_plugin_device *df_plugin_thread_device(const df_plugin_thread *thread, int *number);

/* One lock for state that threads change rarely: the owner to notify. A fork waits for it. */
void df_plugin_lock(void);
void df_plugin_unlock(void);

#endif
