/* Included by net_plugin.c, once for each PLUGIN_VERSION: the table in the layout of that
 * version. */

typedef struct config {
  int traffic_class;
} config;

#if PLUGIN_VERSION >= 11
static int context_of_host;
#define CONTEXT void *context,
#define CHECK_CONTEXT() MUST(context == &context_of_host, "another context")
static int table_init(void **context, uint64_t id, config *settings, logger log, void *profiler) {
  (void)id;
  MUST(settings && settings->traffic_class == -1 && profiler, "no settings");
  *context = &context_of_host;
  return begin(log);
}
static int table_finalize(void *context) {
  CHECK_CONTEXT();
  check_caller();
  MUST(atomic_load(&n_open) == 0, "finalized too early");
  return SUCCESS;
}
#else
#define CONTEXT
#define CHECK_CONTEXT() (void)0
#if PLUGIN_VERSION == 10
static int table_init(logger log, void *profiler) {
  MUST(profiler, "no profiler");
  return begin(log);
}
#else
static int table_init(logger log) { return begin(log); }
#endif
#endif

static int table_listen(CONTEXT int device, void *there, void **made) {
  CHECK_CONTEXT();
  return net_listen(device, there, made);
}

#if PLUGIN_VERSION >= 7
#define OFFLOADED , void **offloaded
#define CHECK_OFFLOADED() MUST(offloaded &&*offloaded == NULL, "offload is asked for")
#else
#define OFFLOADED
#define CHECK_OFFLOADED() (void)0
#endif

#if PLUGIN_VERSION == 10
static int table_connect(int device, config *settings, void *there, void **made OFFLOADED) {
  MUST(settings && settings->traffic_class == -1, "no settings");
#else
static int table_connect(CONTEXT int device, void *there, void **made OFFLOADED) {
  CHECK_CONTEXT();
#endif
  CHECK_OFFLOADED();
  return net_connect(device, there, made);
}

static int table_accept(void *there, void **made OFFLOADED) {
  CHECK_OFFLOADED();
  return net_accept(there, made);
}

#if PLUGIN_VERSION >= 8
typedef size_t registered_size;
#else
typedef int registered_size;
#endif
#if PLUGIN_VERSION >= 9
typedef size_t message_size;
#else
typedef int message_size;
#endif

static int table_register(void *there, void *data, registered_size bytes, int type, void **made) {
  return net_register(there, data, (size_t)bytes, type, made);
}

#if PLUGIN_VERSION == 4
static int table_send(void *there, void *data, int bytes, void *registered, void **out) {
  return post(there, data, (size_t)bytes, registered, out);
}
static int table_receive(void *there, void *data, int bytes, void *registered, void **out) {
  return post(there, data, (size_t)bytes, registered, out);
}
#else
#if PLUGIN_VERSION >= 10
#define EVENT void *event,
#define EVENTS void **events,
#define CHECK_EVENT() MUST(event == NULL, "an event")
#define CHECK_EVENTS() MUST(events &&*events == NULL, "an event")
#else
#define EVENT
#define EVENTS
#define CHECK_EVENT() (void)0
#define CHECK_EVENTS() (void)0
#endif
static int table_send(void *there, void *data, message_size bytes, int tag, void *registered,
                      EVENT void **out) {
  CHECK_EVENT();
  MUST(tag == 0, "another tag");
  return post(there, data, (size_t)bytes, registered, out);
}
static int table_receive(void *there, int n, void **data, message_size *bytes, int *tags,
                         void **registered, EVENTS void **out) {
  CHECK_EVENTS();
  MUST(n == 1 && *tags == 0, "another tag");
  return post(there, *data, (size_t)*bytes, *registered, out);
}
#endif

static int never(void) {
  MUST(0, "nobody needs this");
  return INTERNAL_ERROR;
}

typedef struct table {
  const char *name;
#if PLUGIN_VERSION >= 11
  int (*init)(void **, uint64_t, config *, logger, void *);
#elif PLUGIN_VERSION == 10
  int (*init)(logger, void *);
#else
  int (*init)(logger);
#endif
  int (*devices)(int *);
  int (*properties)(int, properties *);
  int (*listen)(CONTEXT int, void *, void **);
#if PLUGIN_VERSION == 10
  int (*connect)(int, config *, void *, void **OFFLOADED);
#else
  int (*connect)(CONTEXT int, void *, void **OFFLOADED);
#endif
  int (*accept)(void *, void **OFFLOADED);
  int (*registers)(void *, void *, registered_size, int, void **);
#if PLUGIN_VERSION >= 6
  int (*register_file)(void);
#endif
  int (*deregister)(void *, void *);
#if PLUGIN_VERSION == 4
  int (*send)(void *, void *, int, void *, void **);
  int (*receive)(void *, void *, int, void *, void **);
#else
  int (*send)(void *, void *, message_size, int, void *, EVENT void **);
  int (*receive)(void *, int, void **, message_size *, int *, void **, EVENTS void **);
#endif
  int (*flush)(void);
  int (*test)(void *, int *, int *);
  int (*close_sender)(void *);
  int (*close_receiver)(void *);
  int (*close_listener)(void *);
#if PLUGIN_VERSION >= 7
  int (*device_memory)(void);
  int (*consumed)(void);
#endif
#if PLUGIN_VERSION >= 9
  int (*make_device)(void);
#endif
#if PLUGIN_VERSION >= 11
  int (*finalize)(void *);
  int (*set_attributes)(void);
#endif
} table;

#define PASTE(a, b) a##b
#define SYMBOL(version) PASTE(ncclNetPlugin_v, version)

EXPORT extern table SYMBOL(PLUGIN_VERSION);

/* As in one real plugin, only the name and init are set before init. */
table SYMBOL(PLUGIN_VERSION) = {.name = "DfcclTest", .init = table_init};

static void fill(void) {
  table *mine = &SYMBOL(PLUGIN_VERSION);
  if (has_fault("name", NULL)) mine->name = "Another";
  mine->devices = net_devices;
  mine->properties = net_properties;
  mine->listen = table_listen;
  mine->connect = table_connect;
  mine->accept = table_accept;
  mine->registers = table_register;
  mine->deregister = net_deregister;
  mine->send = table_send;
  mine->receive = table_receive;
  mine->flush = never;
  mine->test = net_test;
  mine->close_sender = mine->close_receiver = mine->close_listener = net_close;
#if PLUGIN_VERSION >= 6
  mine->register_file = never;
#endif
#if PLUGIN_VERSION >= 7
  mine->device_memory = mine->consumed = never;
#endif
#if PLUGIN_VERSION >= 9
  mine->make_device = never;
#endif
#if PLUGIN_VERSION >= 11
  mine->finalize = table_finalize;
  mine->set_attributes = never;
#endif
}
