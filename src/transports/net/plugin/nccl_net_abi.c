/* The differences between versions: the place of a function in the table, its parameters, and the
 * properties of a device. */
#include "transports/net/plugin/nccl_net_abi.h"

#include <stdio.h>
#include <string.h>

#include "base/attributes.h"

/* Indices in the table, as from version 6 on. */
enum {
  INIT = 1,
  DEVICES,
  PROPERTIES,
  LISTEN,
  CONNECT,
  ACCEPT,
  REGISTER,
  REGISTER_DMABUF, /* not before version 6 */
  DEREGISTER,
  SEND,
  RECEIVE,
  FLUSH,
  TEST,
  CLOSE_SENDER,
  CLOSE_RECEIVER,
  CLOSE_LISTENER,
  FINALIZE = 20, /* from version 11 on; between them is what devices and virtual devices need */
  HOST_MEMORY = 1,
  TRAFFIC_CLASS_NONE = -1
};

typedef void (*function)(void);

static function at(const df_plugin *plugin, int place) {
  function found;
  const int is_behind = place > REGISTER_DMABUF && plugin->version < 6;
  memcpy(&found, (const char *)plugin->table + (size_t)(place - is_behind) * sizeof found,
         sizeof found);
  return found;
}
DF_STATIC_ASSERT(sizeof(function) == sizeof(char *), "the name is as long as a function's place");

/* The function at an index of the table. of: its type. */
#define AT(of, place) ((of)at(plugin, place))

const char *df_plugin_name(const df_plugin *plugin) {
  const char *name;
  memcpy(&name, plugin->table, sizeof name);
  return name ? name : "without a name";
}

/* ---- opening */

typedef int (*init_4)(df_plugin_log log);
typedef int (*profiler)(void **event, int type, void *parent, int64_t id, void *data);
typedef int (*init_10)(df_plugin_log log, profiler profile);
typedef struct config {
  int traffic_class;
} config;
typedef int (*init_11)(void **context, uint64_t job, config *config, df_plugin_log log,
                       profiler profile);
typedef int (*finalize_11)(void *context);

static int profile_nothing(void **event, int type, void *parent, int64_t id, void *data) {
  (void)event, (void)type, (void)parent, (void)id, (void)data;
  return 0;
}

int df_plugin_init(df_plugin *plugin, df_plugin_log log) {
  config any = {TRAFFIC_CLASS_NONE};
  if (plugin->version < 10) return AT(init_4, INIT)(log);
  if (plugin->version == 10) return AT(init_10, INIT)(log, profile_nothing);
  return AT(init_11, INIT)(&plugin->context, 0, &any, log, profile_nothing);
}

void df_plugin_finalize(df_plugin *plugin) {
  if (plugin->version >= 11 && at(plugin, FINALIZE))
    (void)AT(finalize_11, FINALIZE)(plugin->context);
  plugin->context = NULL;
}

/* ---- devices */

typedef struct properties_4 {
  char *name, *path;
  uint64_t guid;
  int memory, speed, port, communicators_most;
} properties_4;

typedef struct properties_5 {
  char *name, *path;
  uint64_t guid;
  int memory, speed, port;
  float latency;
  int communicators_most, receives_most;
  int offload, offload_version; /* from version 7 on */
} properties_5;

typedef struct properties_8 {
  char *name, *path;
  uint64_t guid;
  int memory, registers_globally, speed, port;
  float latency;
  int communicators_most, receives_most, offload, offload_version;
} properties_8;

typedef struct properties_9 {
  char *name, *path;
  uint64_t guid;
  int memory, registers_globally, flushes_always, speed, port;
  float latency;
  int communicators_most, receives_most, offload, offload_version;
  int n_parts, parts[4];
  size_t message_most, collective_most;
  int requests_most; /* from version 11 on */
} properties_9;

typedef struct properties_12 {
  char *name, *path;
  uint64_t guid;
  int memory, registers_globally, flushes_always, speed, port;
  float latency;
  int communicators_most, receives_most, offload, offload_version;
  int n_parts, parts[8];
  size_t message_most, collective_most;
  int requests_most;
  int16_t rail, plane;
} properties_12;

#if UINTPTR_MAX == UINT64_MAX
DF_STATIC_ASSERT(sizeof(properties_4) == 40 && sizeof(properties_5) == 56 &&
                     sizeof(properties_8) == 64,
                 "as plugins were compiled");
DF_STATIC_ASSERT(offsetof(properties_9, message_most) == 88 && sizeof(properties_9) == 112,
                 "as plugins were compiled");
DF_STATIC_ASSERT(offsetof(properties_12, message_most) == 104 && sizeof(properties_12) == 128,
                 "as plugins were compiled");
#endif

typedef union properties {
  properties_4 v4;
  properties_5 v5;
  properties_8 v8;
  properties_9 v9;
  properties_12 v12;
  char bytes[512]; /* room for a plugin that writes more than its version has */
} properties;

typedef int (*devices_4)(int *n);
typedef int (*describe_4)(int device, properties *out);

int df_plugin_devices(const df_plugin *plugin, int *n) { return AT(devices_4, DEVICES)(n); }

int df_plugin_describe(const df_plugin *plugin, int device, df_plugin_device *out) {
  properties all;
  memset(&all, 0, sizeof all);
  const int error = AT(describe_4, PROPERTIES)(device, &all);
  if (error) return error;
  const int memory = plugin->version == 4   ? all.v4.memory
                     : plugin->version < 8  ? all.v5.memory
                     : plugin->version == 8 ? all.v8.memory
                                            : all.v9.memory;
  const size_t most = plugin->version < 9    ? 0
                      : plugin->version < 12 ? all.v9.message_most
                                             : all.v12.message_most;
  snprintf(out->name, sizeof out->name, "%s", all.v4.name ? all.v4.name : "without a name");
  out->takes_host_memory = (memory & HOST_MEMORY) != 0;
  out->message_most = most ? most : UINT64_MAX;
  return 0;
}

/* ---- connecting */

typedef int (*listen_4)(int device, void *handle, void **listener);
typedef int (*listen_11)(void *context, int device, void *handle, void **listener);
typedef int (*connect_4)(int device, void *handle, void **sender);
typedef int (*connect_7)(int device, void *handle, void **sender, void **offloaded);
typedef int (*connect_10)(int device, config *config, void *handle, void **sender,
                          void **offloaded);
typedef int (*connect_11)(void *context, int device, void *handle, void **sender, void **offloaded);
typedef int (*accept_4)(void *listener, void **receiver);
typedef int (*accept_7)(void *listener, void **receiver, void **offloaded);

int df_plugin_connect_waits(const df_plugin *plugin) { return plugin->version < 5; }

int df_plugin_listen(const df_plugin *plugin, int device, void *handle, void **listener) {
  if (plugin->version < 11) return AT(listen_4, LISTEN)(device, handle, listener);
  return AT(listen_11, LISTEN)(plugin->context, device, handle, listener);
}

int df_plugin_connect(const df_plugin *plugin, int device, void *handle, void **sender) {
  config any = {TRAFFIC_CLASS_NONE};
  void *offloaded = NULL; /* no offload */
  if (plugin->version < 7) return AT(connect_4, CONNECT)(device, handle, sender);
  if (plugin->version < 10) return AT(connect_7, CONNECT)(device, handle, sender, &offloaded);
  if (plugin->version == 10)
    return AT(connect_10, CONNECT)(device, &any, handle, sender, &offloaded);
  return AT(connect_11, CONNECT)(plugin->context, device, handle, sender, &offloaded);
}

int df_plugin_accept(const df_plugin *plugin, void *listener, void **receiver) {
  void *offloaded = NULL;
  if (plugin->version < 7) return AT(accept_4, ACCEPT)(listener, receiver);
  return AT(accept_7, ACCEPT)(listener, receiver, &offloaded);
}

/* ---- memory and messages */

typedef int (*register_4)(void *communicator, void *memory, int bytes, int type, void **made);
typedef int (*register_8)(void *communicator, void *memory, size_t bytes, int type, void **made);
typedef int (*deregister_4)(void *communicator, void *registration);
typedef int (*send_4)(void *sender, void *memory, int bytes, void *registration, void **request);
typedef int (*send_5)(void *sender, void *memory, int bytes, int tag, void *registration,
                      void **request);
typedef int (*send_9)(void *sender, void *memory, size_t bytes, int tag, void *registration,
                      void **request);
typedef int (*send_10)(void *sender, void *memory, size_t bytes, int tag, void *registration,
                       void *event, void **request);
typedef int (*receive_4)(void *receiver, void *memory, int bytes, void *registration,
                         void **request);
typedef int (*receive_5)(void *receiver, int n, void **memory, int *bytes, int *tags,
                         void **registrations, void **request);
typedef int (*receive_9)(void *receiver, int n, void **memory, size_t *bytes, int *tags,
                         void **registrations, void **request);
typedef int (*receive_10)(void *receiver, int n, void **memory, size_t *bytes, int *tags,
                          void **registrations, void **events, void **request);
typedef int (*test_4)(void *request, int *is_done, int *bytes);
typedef int (*close_4)(void *communicator);

int df_plugin_register(const df_plugin *plugin, void *communicator, void *memory, size_t bytes,
                       void **registration) {
  if (plugin->version < 8)
    return AT(register_4, REGISTER)(communicator, memory, (int)bytes, HOST_MEMORY, registration);
  return AT(register_8, REGISTER)(communicator, memory, bytes, HOST_MEMORY, registration);
}

void df_plugin_deregister(const df_plugin *plugin, void *communicator, void *registration) {
  (void)AT(deregister_4, DEREGISTER)(communicator, registration);
}

int df_plugin_send(const df_plugin *plugin, void *sender, void *memory, size_t bytes,
                   void *registration, void **request) {
  *request = NULL;
  if (plugin->version == 4)
    return AT(send_4, SEND)(sender, memory, (int)bytes, registration, request);
  if (plugin->version < 9)
    return AT(send_5, SEND)(sender, memory, (int)bytes, 0, registration, request);
  if (plugin->version == 9)
    return AT(send_9, SEND)(sender, memory, bytes, 0, registration, request);
  return AT(send_10, SEND)(sender, memory, bytes, 0, registration, NULL, request);
}

int df_plugin_receive(const df_plugin *plugin, void *receiver, void *memory, size_t bytes,
                      void *registration, void **request) {
  int few = (int)bytes, tag = 0;
  void *event = NULL;
  *request = NULL; /* the plugin may read the value before the call as a request */
  if (plugin->version == 4)
    return AT(receive_4, RECEIVE)(receiver, memory, few, registration, request);
  if (plugin->version < 9)
    return AT(receive_5, RECEIVE)(receiver, 1, &memory, &few, &tag, &registration, request);
  if (plugin->version == 9)
    return AT(receive_9, RECEIVE)(receiver, 1, &memory, &bytes, &tag, &registration, request);
  return AT(receive_10, RECEIVE)(receiver, 1, &memory, &bytes, &tag, &registration, &event,
                                 request);
}

int df_plugin_test(const df_plugin *plugin, void *request, int *is_done) {
  int bytes[8] = {0}; /* one for each part of a request */
  *is_done = 0;
  return AT(test_4, TEST)(request, is_done, bytes);
}

void df_plugin_close_sender(const df_plugin *plugin, void *sender) {
  (void)AT(close_4, CLOSE_SENDER)(sender);
}

void df_plugin_close_receiver(const df_plugin *plugin, void *receiver) {
  (void)AT(close_4, CLOSE_RECEIVER)(receiver);
}

void df_plugin_close_listener(const df_plugin *plugin, void *listener) {
  (void)AT(close_4, CLOSE_LISTENER)(listener);
}

const char *df_plugin_error(int error) {
  static const char *const names[] = {"success",        "unhandled CUDA error", "system error",
                                      "internal error", "invalid argument",     "invalid usage",
                                      "remote error",   "in progress"};
  return error >= 0 && error < (int)DF_COUNT_OF(names) ? names[error] : "unknown error";
}
