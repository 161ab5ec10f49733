/*
 * NCCL network plugins: one set of calls for versions 4 to 12 of their table. Only the functions
 * that are called are declared. One thread makes all calls (plugin_thread.h).
 *
 * A call returns 0, or the error of the plugin. A communicator carries one direction. An error is
 * final for its communicator.
 */
#ifndef DF_TRANSPORTS_NET_PLUGIN_NCCL_NET_ABI_H
#define DF_TRANSPORTS_NET_PLUGIN_NCCL_NET_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
  DF_PLUGIN_OLDEST = 4,
  DF_PLUGIN_NEWEST = 12,
  DF_PLUGIN_HANDLE_BYTES = 128, /* version 4 uses 64 */
  DF_PLUGIN_NAME_BYTES = 64,
  DF_PLUGIN_MESSAGE_LEAST = 512 /* size of messages that a device must accept, at least */
};

typedef struct df_plugin {
  const void *table; /* in the library: the name, followed by the functions */
  int version;
  void *context; /* from version 11 on */
} df_plugin;

typedef struct df_plugin_device {
  char name[DF_PLUGIN_NAME_BYTES];
  int takes_host_memory;
  uint64_t message_most; /* bytes; UINT64_MAX: no limit */
} df_plugin_device;

typedef void (*df_plugin_log)(int level, unsigned long flags, const char *file, int line,
                              const char *format, ...);

/* Valid after df_plugin_init has succeeded, because some plugins fill the table there. */
const char *df_plugin_name(const df_plugin *plugin);
int df_plugin_init(df_plugin *plugin, df_plugin_log log);
void df_plugin_finalize(df_plugin *plugin); /* does nothing before version 11 */
int df_plugin_devices(const df_plugin *plugin, int *n);
int df_plugin_describe(const df_plugin *plugin, int device, df_plugin_device *out);
/* Version 4 may wait in connect and accept. Other versions return no communicator if they would
 * wait: call again, with the same memory for the handle. */
int df_plugin_connect_waits(const df_plugin *plugin);
int df_plugin_listen(const df_plugin *plugin, int device, void *handle, void **listener);
int df_plugin_connect(const df_plugin *plugin, int device, void *handle, void **sender);
int df_plugin_accept(const df_plugin *plugin, void *listener, void **receiver);
int df_plugin_register(const df_plugin *plugin, void *communicator, void *memory, size_t bytes,
                       void **registration);
void df_plugin_deregister(const df_plugin *plugin, void *communicator, void *registration);
/* *request is NULL if the plugin cannot accept it at the moment. bytes: less than 2^31. */
int df_plugin_send(const df_plugin *plugin, void *sender, void *memory, size_t bytes,
                   void *registration, void **request);
int df_plugin_receive(const df_plugin *plugin, void *receiver, void *memory, size_t bytes,
                      void *registration, void **request);
/* The number of bytes is not returned, because one plugin never writes it. */
int df_plugin_test(const df_plugin *plugin, void *request, int *is_done);
void df_plugin_close_sender(const df_plugin *plugin, void *sender);
void df_plugin_close_receiver(const df_plugin *plugin, void *receiver);
void df_plugin_close_listener(const df_plugin *plugin, void *listener);

/* Returns the name of an error of the plugin interface. */
const char *df_plugin_error(int error);

#endif
