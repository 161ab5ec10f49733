/*
 * A profiler plugin for tests. Library N has the tables of versions 1 to N, and the library must
 * use the newest. The plugin ends the process when its caller does something that plugins do not
 * allow: two calls at one time, an event without its parent, an event that is stopped twice or
 * never.
 *
 * DFCCL_TEST_PROFILER selects its behaviour: events:MASK (the events that it requests; default
 * all), init (that call fails), drop (it accepts no events), idle (init succeeds, and returns no
 * context).
 */
#include "profiler_plugin.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#define EXPORT __attribute__((visibility("default")))
#define OF_SOME_VERSIONS __attribute__((unused))

enum { SUCCESS = 0, SYSTEM_ERROR = 2 };
enum {
  GROUP = 1,
  COLL = 2,
  PROXY_OP = 8,
  PROXY_STEP = 16,
  GROUP_API = 256,
  COLL_API = 512,
  ALL = 0x3ff
};

#define MUST(condition, what)                                                                      \
  ((condition)                                                                                     \
       ? (void)0                                                                                   \
       : (fprintf(stderr, "profiler plugin for tests: %s (%s:%d)\n", what, __FILE__, __LINE__),    \
          abort()))

typedef struct event {
  struct event *before; /* list of all events; freed with the process */
  uint64_t type;
  int is_open;
  int steps, is_send; /* peer of a link; of a message: its link's */
  int latest;         /* state of a message */
} event;

static profiler_plugin_seen seen;
static event *newest; /* number of calls at one time */
static atomic_int n_in_call, n_open;

EXPORT profiler_plugin_seen profiler_plugin_look(void);
profiler_plugin_seen profiler_plugin_look(void) {
  seen.open = atomic_load(&n_open);
  return seen;
}

static const char *behaviour(void) {
  const char *text = getenv("DFCCL_TEST_PROFILER");
  return text ? text : "";
}
static void enter(void) { MUST(atomic_fetch_add(&n_in_call, 1) == 0, "two calls at one time"); }
static int leave(int result) {
  atomic_fetch_sub(&n_in_call, 1);
  return result;
}

static int init(void **context, int *mask) {
  const char *events = strstr(behaviour(), "events:");
  enter();
  if (strcmp(behaviour(), "init") == 0) return leave(SYSTEM_ERROR);
  if (strcmp(behaviour(), "idle") == 0) return leave(SUCCESS);
  *mask = events ? (int)strtol(events + 7, NULL, 0) : ALL;
  *context = malloc(1);
  seen.contexts++;
  return leave(SUCCESS);
}
static int init_1(void **context, int *mask) {
  seen.version = seen.version ? seen.version : 1;
  return init(context, mask);
}
typedef void (*logger)(int level, unsigned long flags, const char *file, int line,
                       const char *format, ...);
static int check_job(const char *name, int nodes, int ranks, int rank, logger log) {
  MUST(name && nodes > 0 && ranks > 0 && rank >= 0 && rank < ranks, "a job");
  log(3, 0, __FILE__, __LINE__, "rank %d", rank);
  return 1;
}
OF_SOME_VERSIONS static int init_4(void **context, int *mask, const char *name, uint64_t job,
                                   int nodes, int ranks, int rank, logger log) {
  check_job(name, nodes, ranks, rank, log);
  seen.job = job;
  return init(context, mask);
}
OF_SOME_VERSIONS static int init_5(void **context, uint64_t job, int *mask, const char *name,
                                   int nodes, int ranks, int rank, logger log) {
  return init_4(context, mask, name, job, nodes, ranks, rank, log);
}

/* ---- events, in the layouts of NCCL's headers */

typedef struct op {
  pid_t pid;
  uint8_t channel;
  int peer, steps, chunk, is_send;
} op;
#define HEAD(integer)                                                                              \
  integer type;                                                                                    \
  void *parent;                                                                                    \
  int rank;
#define NAMED                                                                                      \
  const char *function;                                                                            \
  const void *send;                                                                                \
  void *recv;                                                                                      \
  size_t count;                                                                                    \
  int root;                                                                                        \
  const char *datatype;

typedef struct event_1 {
  HEAD(uint8_t) union {
    struct {
      const char *name;
      uint64_t job, number;
      uint8_t function;
      const void *send;
      void *recv;
      size_t count;
      int root;
      uint8_t datatype;
      uint32_t op;
      size_t bytes;
      uint8_t channels, warps, algorithm, protocol;
    } coll;
    op proxy;
    int step;
  } u;
} event_1;
typedef struct event_2 {
  HEAD(uint8_t) struct {
    const char *name;
    uint64_t job, number;
    NAMED size_t bytes;
    uint8_t channels, warps;
    const char *algorithm, *protocol;
  } coll;
} event_2;
typedef struct event_3 {
  HEAD(uint8_t) struct {
    const char *name;
    uint64_t job, number;
    NAMED uint8_t channels, warps;
    const char *algorithm, *protocol;
  } coll;
} event_3;
typedef struct coll_4 {
  uint64_t number;
  NAMED uint8_t channels, warps;
  const char *algorithm, *protocol;
} coll_4;
typedef struct event_4 {
  HEAD(uint8_t) coll_4 coll;
} event_4;
typedef struct event_5 {
  HEAD(uint64_t) union {
    coll_4 coll;
    struct {
      const char *function;
      size_t count;
      const char *datatype;
      int root;
      void *stream;
      bool is_captured;
    } call;
    op proxy;
    int step;
  } u;
} event_5;

static int start(void **handle, uint64_t type, void *parent, uint64_t parents) {
  event *above = parent;
  if (strcmp(behaviour(), "drop") == 0) return leave(SUCCESS);
  MUST(parents == 0 ? above == NULL : above && (above->type & parents), "the event's parent");
  event *new = calloc(1, sizeof *new);
  *new = (event){.before = newest, .type = type, .is_open = 1};
  newest = new;
  atomic_fetch_add(&n_open, 1);
  seen.groups += type == GROUP;
  seen.colls += type == COLL;
  seen.links += type == PROXY_OP;
  seen.steps += type == PROXY_STEP;
  seen.group_calls += type == GROUP_API;
  seen.calls += type == COLL_API;
  *handle = new;
  return leave(SUCCESS);
}

static int start_link(void **handle, const op *link, void *parent) {
  MUST(link->peer >= 0 && link->steps > 0, "a link");
  const int result = start(handle, PROXY_OP, parent, COLL);
  event *e = *handle;
  if (e) e->steps = link->steps, e->is_send = link->is_send;
  return result;
}
static int start_step(void **handle, int step, void *parent) {
  const event *link = parent;
  MUST(link && link->is_open, "a message of a link that is not open");
  MUST(step >= 0 && step < link->steps, "a message of the run");
  const int result = start(handle, PROXY_STEP, parent, PROXY_OP);
  event *e = *handle;
  if (e) e->is_send = link->is_send;
  return result;
}

static void note(uint64_t number, const char *function, size_t count, int root, uint8_t channels,
                 const char *algorithm, const char *protocol, const char *datatype) {
  seen.number = number;
  seen.count = count;
  seen.root = root;
  seen.channels = channels;
  snprintf(seen.function, sizeof seen.function, "%s", function);
  snprintf(seen.algorithm, sizeof seen.algorithm, "%s", algorithm);
  snprintf(seen.protocol, sizeof seen.protocol, "%s", protocol);
  snprintf(seen.datatype, sizeof seen.datatype, "%s", datatype);
}

#define NOTE(c)                                                                                    \
  note((c).number, (c).function, (c).count, (c).root, (c).channels, (c).algorithm, (c).protocol,   \
       (c).datatype)

static int start_old(int version, void *context, void **handle, void *descriptor) {
  const event_1 *e = descriptor;
  enter();
  seen.version = version;
  MUST(context && *handle == NULL, "a context, and no handle yet");
  if (e->type == PROXY_OP) return start_link(handle, &e->u.proxy, e->parent);
  if (e->type == PROXY_STEP) return start_step(handle, e->u.step, e->parent);
  MUST(e->type == GROUP || e->type == COLL, "a type");
  if (e->type == COLL && version == 1)
    note(e->u.coll.number, e->u.coll.function == 4 ? "AllReduce" : "another", e->u.coll.count,
         e->u.coll.root, e->u.coll.channels, e->u.coll.algorithm == 1 ? "RING" : "another",
         e->u.coll.protocol == 2 ? "SIMPLE" : "LL",
         e->u.coll.datatype == 2 ? "ncclInt32" : "another");
  if (e->type == COLL && version == 2) NOTE(((const event_2 *)descriptor)->coll);
  if (e->type == COLL && version == 3) NOTE(((const event_3 *)descriptor)->coll);
  if (e->type == COLL && version == 4) NOTE(((const event_4 *)descriptor)->coll);
  return start(handle, e->type, e->parent, e->type == COLL ? GROUP : 0);
}

OF_SOME_VERSIONS static int start_new(int version, void *context, void **handle, void *descriptor) {
  const event_5 *e = descriptor;
  enter();
  seen.version = version;
  MUST(context && *handle == NULL, "a context, and no handle yet");
  if (e->type == COLL) NOTE(e->u.coll);
  if (e->type == COLL_API) MUST(e->u.call.count > 0 && e->u.call.function, "a call");
  if (e->type == PROXY_OP) return start_link(handle, &e->u.proxy, e->parent);
  if (e->type == PROXY_STEP) return start_step(handle, e->u.step, e->parent);
  return start(handle, e->type, e->parent,
               e->type == GROUP_API ? 0
               : e->type == COLL    ? COLL_API
                                    : GROUP_API);
}

/* Events stay in memory, because their children may start later. */
static int stop(void *handle) {
  event *e = handle;
  enter();
  MUST(e && e->is_open, "stopped twice");
  e->is_open = 0;
  atomic_fetch_sub(&n_open, 1);
  return leave(SUCCESS);
}

/* Reports the states of messages, in order: 8, 20 (from version 4 on) and 9 for a message that is
 * sent; 10, 11 and 12 for a received one. From version 4 on, the first argument is the message's
 * length. */
static int record(void *handle, int state, void *arguments) {
  event *e = handle;
  enter();
  MUST(e && e->is_open && e->type == PROXY_STEP, "a message's state");
  const int before = e->latest;
  if (e->is_send)
    MUST(state == 8    ? before == 0
         : state == 20 ? before == 8 && seen.version >= 4
                       : state == 9 && before == (seen.version >= 4 ? 20 : 8),
         "a state of a message that is sent");
  else
    MUST(state == 10 ? before == 0 : (state == 11 || state == 12) && before == state - 1,
         "a state of a message that comes");
  MUST((arguments != NULL) == (seen.version >= 4), "arguments");
  if (arguments && (state == 9 || state == 10)) MUST(*(const size_t *)arguments > 0, "a length");
  e->latest = state;
  seen.states++;
  return leave(SUCCESS);
}

static int finalize(void *context) {
  enter();
  MUST(context, "a context");
  free(context);
  seen.contexts--;
  return leave(SUCCESS);
}

#define TABLE(version, begin, ask)                                                                 \
  static int start_##version(void *context, void **handle, void *descriptor) {                     \
    return ask(version, context, handle, descriptor);                                              \
  }                                                                                                \
  EXPORT const struct {                                                                            \
    const char *name;                                                                              \
    __typeof__(&begin) init;                                                                       \
    int (*start)(void *, void **, void *);                                                         \
    int (*stop)(void *);                                                                           \
    int (*record)(void *, int, void *);                                                            \
    int (*finalize)(void *);                                                                       \
  } ncclProfiler_v##version = {"DfcclTest", begin, start_##version, stop, record, finalize};

TABLE(1, init_1, start_old)
#if PLUGIN_VERSION >= 2
TABLE(2, init_1, start_old)
#endif
#if PLUGIN_VERSION >= 3
TABLE(3, init_1, start_old)
#endif
#if PLUGIN_VERSION >= 4
TABLE(4, init_4, start_old)
#endif
#if PLUGIN_VERSION >= 5
TABLE(5, init_5, start_new)
#endif
#if PLUGIN_VERSION >= 6
TABLE(6, init_5, start_new)
#endif
