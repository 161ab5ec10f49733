#include "host/observe/profiler_abi.h"

#include <stdbool.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

/* ---- layouts */

typedef void (*nccl_log)(int level, unsigned long flags, const char *file, int line,
                         const char *format, ...);

typedef struct proxy_op {
  pid_t process;
  uint8_t channel;
  int peer, steps, chunk, is_send;
} proxy_op;

typedef struct proxy_step {
  int number;
} proxy_step;

typedef struct event_1 {
  uint8_t type;
  void *parent;
  int rank;
  union {
    struct {
      const char *name;
      uint64_t job, number;
      uint8_t function;
      const void *send;
      void *recv;
      size_t count;
      int root;
      uint8_t type;
      uint32_t op;
      size_t bytes;
      uint8_t channels, warps, algorithm, protocol;
      int is_collnet, is_nvls;
    } run;
    proxy_op link;
    proxy_step step;
    uint8_t room[256]; /* for members of events that this library does not start */
  } u;
} event_1;

typedef struct event_2 {
  uint8_t type;
  void *parent;
  int rank;
  union {
    struct {
      const char *name;
      uint64_t job, number;
      const char *function;
      const void *send;
      void *recv;
      size_t count;
      int root;
      const char *type;
      size_t bytes;
      uint8_t channels, warps;
      const char *algorithm, *protocol;
    } run;
    proxy_op link;
    uint8_t room[256];
  } u;
} event_2;

typedef struct event_3 {
  uint8_t type;
  void *parent;
  int rank;
  union {
    struct {
      const char *name;
      uint64_t job, number;
      const char *function;
      const void *send;
      void *recv;
      size_t count;
      int root;
      const char *type;
      uint8_t channels, warps;
      const char *algorithm, *protocol;
    } run;
    proxy_op link;
    uint8_t room[256];
  } u;
} event_3;

/* The run of versions 4, 5 and 6; versions 5 and 6 have a group too. */
typedef struct run_4 {
  uint64_t number;
  const char *function;
  const void *send;
  void *recv;
  size_t count;
  int root;
  const char *type;
  uint8_t channels, warps;
  const char *algorithm, *protocol;
  void *group;
} run_4;

typedef struct event_4 {
  uint8_t type;
  void *parent;
  int rank;
  union {
    run_4 run;
    proxy_op link;
    uint8_t room[256];
  } u;
} event_4;

typedef struct event_5 {
  uint64_t type;
  void *parent;
  int rank;
  union {
    struct {
      bool is_captured;
      int depth;
    } group_api;
    struct {
      const char *function;
      size_t count;
      const char *type;
      int root;
      void *stream;
      bool is_captured;
    } call;
    run_4 run;
    proxy_op link;
    proxy_step step;
    uint8_t room[256];
  } u;
} event_5;

/* The state of a step, from version 4 on. In older versions NCCL passes none. */
typedef struct step_state {
  union {
    size_t bytes;
    uint8_t room[64];
  } u;
} step_state;

enum {
  SEND_GPU_WAIT = 8,
  SEND_WAIT = 9,
  RECV_WAIT = 10,
  RECV_FLUSH_WAIT = 11,
  RECV_GPU_WAIT = 12,
  SEND_PEER_WAIT = 20 /* from version 4 on */
};

/* All versions have these members at these places. */
typedef struct profiler {
  const char *name;
  void (*init)(void);
  int (*start)(void *context, void **handle, void *event);
  int (*stop)(void *handle);
  int (*record)(void *handle, int state, void *arguments);
  int (*finalize)(void *context);
} profiler;

typedef int (*init_1)(void **context, int *mask);
typedef int (*init_4)(void **context, int *mask, const char *name, uint64_t job, int hosts,
                      int ranks, int rank, nccl_log log);
typedef int (*init_5)(void **context, uint64_t job, int *mask, const char *name, int hosts,
                      int ranks, int rank, nccl_log log);

/* ---- calls */

static const profiler *table_of(const df_profiler_table *plugin) { return plugin->table; }

const char *df_profiler_name(const df_profiler_table *plugin) {
  const char *name = table_of(plugin)->name;
  return name ? name : "without a name";
}

int df_profiler_init(const df_profiler_table *plugin, const df_profiler_job *job, void **context,
                     int *mask) {
  void (*init)(void) = table_of(plugin)->init;
  if (plugin->version < 4) return ((init_1)init)(context, mask);
  if (plugin->version == 4)
    return ((init_4)init)(context, mask, job->name, job->number, job->n_hosts, job->n_ranks,
                          job->rank, job->log);
  return ((init_5)init)(context, job->number, mask, job->name, job->n_hosts, job->n_ranks,
                        job->rank, job->log);
}

static int start_event(const df_profiler_table *plugin, void *context, void **handle, void *event) {
  return table_of(plugin)->start(context, handle, event);
}

int df_profiler_start_group(const df_profiler_table *plugin, void *context, int rank, void *parent,
                            void **handle) {
  event_1 old = {.type = DF_PROFILE_GROUP, .rank = rank};
  event_5 new = {.type = DF_PROFILE_GROUP, .rank = rank, .parent = parent};
  return plugin->version < 5 ? start_event(plugin, context, handle, &old)
                             : start_event(plugin, context, handle, &new);
}

int df_profiler_start_group_api(const df_profiler_table *plugin, void *context, int rank,
                                void **handle) {
  event_5 event = {.type = DF_PROFILE_GROUP_API, .rank = rank};
  event.u.group_api.depth = 1;
  return start_event(plugin, context, handle, &event);
}

int df_profiler_start_call(const df_profiler_table *plugin, void *context,
                           const df_profiled_run *run, void *parent, void **handle) {
  event_5 event = {.type = DF_PROFILE_COLL_API, .rank = run->rank, .parent = parent};
  event.u.call.function = run->operation;
  event.u.call.count = run->count;
  event.u.call.type = run->type;
  event.u.call.root = run->root;
  return start_event(plugin, context, handle, &event);
}

static int start_1(const df_profiler_table *plugin, void *context, const df_profiled_run *run,
                   void *parent, void **handle) {
  event_1 event = {.type = DF_PROFILE_COLL, .rank = run->rank, .parent = parent};
  if (run->function < 0) return 0; /* in this version functions are numbers */
  event.u.run.name = run->job_name;
  event.u.run.job = run->job;
  event.u.run.number = run->number;
  event.u.run.function = (uint8_t)run->function;
  event.u.run.send = run->send;
  event.u.run.recv = run->recv;
  event.u.run.count = run->count;
  event.u.run.root = run->root;
  event.u.run.type = (uint8_t)run->nccl_type;
  event.u.run.op = (uint32_t)run->nccl_operator;
  event.u.run.bytes = run->bytes;
  event.u.run.channels = run->blocks;
  event.u.run.warps = 1;
  event.u.run.algorithm = (uint8_t)run->nccl_algorithm;
  event.u.run.protocol = (uint8_t)run->nccl_protocol;
  return start_event(plugin, context, handle, &event);
}

#define FILL_NAMED(event, run)                                                                     \
  do {                                                                                             \
    (event).number = (run)->number;                                                                \
    (event).function = (run)->operation;                                                           \
    (event).send = (run)->send;                                                                    \
    (event).recv = (run)->recv;                                                                    \
    (event).count = (run)->count;                                                                  \
    (event).root = (run)->root;                                                                    \
    (event).type = (run)->type;                                                                    \
    (event).channels = (run)->blocks;                                                              \
    (event).warps = 1;                                                                             \
    (event).algorithm = (run)->algorithm;                                                          \
    (event).protocol = (run)->protocol;                                                            \
  } while (0)

static int start_2(const df_profiler_table *plugin, void *context, const df_profiled_run *run,
                   void *parent, void **handle) {
  event_2 event = {.type = DF_PROFILE_COLL, .rank = run->rank, .parent = parent};
  FILL_NAMED(event.u.run, run);
  event.u.run.name = run->job_name;
  event.u.run.job = run->job;
  event.u.run.bytes = run->bytes;
  return start_event(plugin, context, handle, &event);
}

static int start_3(const df_profiler_table *plugin, void *context, const df_profiled_run *run,
                   void *parent, void **handle) {
  event_3 event = {.type = DF_PROFILE_COLL, .rank = run->rank, .parent = parent};
  FILL_NAMED(event.u.run, run);
  event.u.run.name = run->job_name;
  event.u.run.job = run->job;
  return start_event(plugin, context, handle, &event);
}

static int start_4(const df_profiler_table *plugin, void *context, const df_profiled_run *run,
                   void *parent, void *group, void **handle) {
  event_4 old = {.type = DF_PROFILE_COLL, .rank = run->rank, .parent = parent};
  event_5 new = {.type = DF_PROFILE_COLL, .rank = run->rank, .parent = parent};
  FILL_NAMED(old.u.run, run);
  FILL_NAMED(new.u.run, run);
  new.u.run.group = group;
  return plugin->version == 4 ? start_event(plugin, context, handle, &old)
                              : start_event(plugin, context, handle, &new);
}

int df_profiler_start_run(const df_profiler_table *plugin, void *context,
                          const df_profiled_run *run, void *parent, void *group, void **handle) {
  switch (plugin->version) {
  case 1:
    return start_1(plugin, context, run, parent, handle);
  case 2:
    return start_2(plugin, context, run, parent, handle);
  case 3:
    return start_3(plugin, context, run, parent, handle);
  default:
    return start_4(plugin, context, run, parent, group, handle);
  }
}

int df_profiler_start_link(const df_profiler_table *plugin, void *context,
                           const df_profiled_link *link, void *parent, void **handle) {
  const proxy_op content = {.process = getpid(),
                            .channel = link->block,
                            .peer = link->peer,
                            .steps = link->messages,
                            .chunk = link->chunk_bytes,
                            .is_send = link->sends};
  event_1 old = {.type = DF_PROFILE_PROXY_OP, .rank = link->rank, .parent = parent};
  event_5 new = {.type = DF_PROFILE_PROXY_OP, .rank = link->rank, .parent = parent};
  old.u.link = new.u.link = content;
  return plugin->version < 5 ? start_event(plugin, context, handle, &old)
                             : start_event(plugin, context, handle, &new);
}

int df_profiler_start_step(const df_profiler_table *plugin, void *context, int rank, int step,
                           void *parent, void **handle) {
  event_1 old = {.type = DF_PROFILE_PROXY_STEP, .rank = rank, .parent = parent};
  event_5 new = {.type = DF_PROFILE_PROXY_STEP, .rank = rank, .parent = parent};
  old.u.step.number = new.u.step.number = step;
  return plugin->version < 5 ? start_event(plugin, context, handle, &old)
                             : start_event(plugin, context, handle, &new);
}

static void record(const df_profiler_table *plugin, void *handle, int state, size_t bytes) {
  step_state arguments = {.u.bytes = bytes};
  if (table_of(plugin)->record)
    table_of(plugin)->record(handle, state, plugin->version < 4 ? NULL : &arguments);
}

void df_profiler_step_moves(const df_profiler_table *plugin, void *handle, int sends,
                            size_t bytes) {
  if (!sends) {
    record(plugin, handle, RECV_WAIT, bytes);
    return;
  }
  record(plugin, handle, SEND_GPU_WAIT, bytes);
  if (plugin->version >= 4) record(plugin, handle, SEND_PEER_WAIT, bytes);
  record(plugin, handle, SEND_WAIT, bytes);
}

void df_profiler_step_moved(const df_profiler_table *plugin, void *handle, int sends) {
  if (sends) return;
  record(plugin, handle, RECV_FLUSH_WAIT, 0);
  record(plugin, handle, RECV_GPU_WAIT, 0);
}

int df_profiler_stop(const df_profiler_table *plugin, void *handle) {
  return table_of(plugin)->stop(handle);
}

int df_profiler_finalize(const df_profiler_table *plugin, void *context) {
  return table_of(plugin)->finalize(context);
}
