#include "host/observe/profiler.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/foreign_log.h"
#include "base/mutex.h"
#include "base/plugin_file.h"
#include "host/observe/profiler_steps.h"
#include "host/state/registry.h"
#include "tuning/advice.h"

enum { LINKS_MAX = 8, NAME_BYTES = 32 };

/* A loaded plugin. The plugin keeps the mask's address, so all contexts share one mask. It stays
 * loaded. */
typedef struct library {
  struct library *next;
  df_profiler_table plugin;
  int mask;
} library;

struct profiled_run;

typedef struct df_profiler {
  library *library;
  void *context; /* the plugin's */
  char name[NAME_BYTES];
  uint64_t job;
  df_message_watch watch;
  struct profiled_run
      *running; /* guarded by `lock`: runs whose messages are reported; the oldest is last */
} df_profiler;

/* The argument of the callback that replaces the run's own. */
typedef struct profiled_run {
  df_profiler *profiler;
  dfcclCallback_t callback;
  void *argument;
  void *run, *links[LINKS_MAX];
  uint32_t n_links;
  df_steps *steps; /* [n_links] NULL: no messages are reported */
  struct profiled_run *next, **at;
} profiled_run;

static df_mutex lock = DF_MUTEX_INITIALIZER; /* serialises all plugin calls in the process */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static library *libraries DF_GUARDED_BY(lock);
static void register_lock(void) { df_fork_waits_for(&lock, 0); }

static DF_FOREIGN_LOG(write_log, "profiler plugin");

/* ---- opening and closing */

/* NULL after df_fail. */
static library *load_library(const char *name) DF_REQUIRES(lock) {
  char tried[320] = "";
  df_text text = {tried, sizeof tried};
  df_profiler_table plugin;
  void *file = df_plugin_file_open("profiler", name, &text);
  if (file == NULL) {
    df_fail(dfcclInvalidUsage,
            "DFCCL_PROFILER_PLUGIN names \"%.64s\", which cannot be opened (%s); give its file "
            "(/...), or put its directory into LD_LIBRARY_PATH",
            name, tried);
    return NULL;
  }
  plugin.table = df_plugin_file_table(file, "ncclProfiler", DF_PROFILER_OLDEST, DF_PROFILER_NEWEST,
                                      &plugin.version);
  if (plugin.table == NULL) {
    df_fail(
        dfcclInvalidUsage,
        "DFCCL_PROFILER_PLUGIN names \"%.128s\", which has none of ncclProfiler_v%d to _v%d: it "
        "is no profiler plugin, or for another version of NCCL",
        name, DF_PROFILER_OLDEST, DF_PROFILER_NEWEST);
    return NULL;
  }
  for (library *known = libraries; known; known = known->next)
    if (known->plugin.table == plugin.table) return known;
  library *new = calloc(1, sizeof *new);
  if (new == NULL) {
    df_fail(dfcclOutOfMemory, "no memory for profiler plugin \"%.64s\"", name);
    return NULL;
  }
  *new = (library){.next = libraries, .plugin = plugin};
  return libraries = new;
}

static dfcclResult_t open_profiler(dfcclContext_t context, df_profiler *profiler)
    DF_REQUIRES(lock) {
  profiler->library = load_library(context->settings.profiler_plugin);
  if (profiler->library == NULL) return dfcclInvalidUsage;
  const df_profiler_job job = {.number = profiler->job,
                               .name = profiler->name,
                               .n_hosts = (int)context->topology.n_hosts,
                               .n_ranks = (int)context->n_ranks,
                               .rank = (int)context->rank,
                               .log = write_log};
  const df_profiler_table *plugin = &profiler->library->plugin;
  const int error = df_profiler_init(plugin, &job, &profiler->context, &profiler->library->mask);
  if (error)
    return df_fail(dfcclSystemError, "profiler plugin %.60s (version %d): init fails with %d",
                   df_profiler_name(plugin), plugin->version, error);
  df_log(DF_LOG_INFO, "profiler plugin %s (version %d) wants events %#x", df_profiler_name(plugin),
         plugin->version, (unsigned)profiler->library->mask);
  return dfcclSuccess;
}

static void handle_message(void *who, df_watch_event what, const df_watched_message *message);

dfcclResult_t df_profiler_open(dfcclContext_t context) {
  const char *choice = context->settings.profiler_plugin;
  if (*choice == '\0' || strcmp(choice, "none") == 0) return dfcclSuccess;
  pthread_once(&once, register_lock);
  df_profiler *profiler = calloc(1, sizeof *profiler);
  if (profiler == NULL) return df_fail(dfcclOutOfMemory, "no memory for a profiler plugin");
  memcpy(&profiler->job, context->mesh.job, sizeof profiler->job);
  snprintf(profiler->name, sizeof profiler->name, "dfccl %u ranks", context->n_ranks);
  profiler->watch = (df_message_watch){.report = handle_message, .who = profiler};
  df_lock(&lock);
  const dfcclResult_t result = open_profiler(context, profiler);
  df_unlock(&lock);
  if (result == dfcclSuccess)
    context->profiler = profiler;
  else
    free(profiler);
  return result;
}

void df_profiler_close(dfcclContext_t context) {
  df_profiler *profiler = context->profiler;
  if (profiler == NULL) return;
  df_lock(&lock);
  if (profiler->context) /* a plugin whose init returned no context crashes in finalize */
    df_profiler_finalize(&profiler->library->plugin, profiler->context);
  df_unlock(&lock);
  context->profiler = NULL;
  free(profiler);
}

/* ---- contents of events ---- */

static const char *const type_names[] = {
#define DF_TYPE(id, name, nccl, ...) [dfccl##id] = nccl,
#include "primitives/elements/types.def"
};

static int nccl_algorithm(int algorithm) {
  return algorithm == DF_DOUBLE_TREE ? DF_NCCL_TREE
         : algorithm == DF_RING      ? DF_NCCL_RING
         : algorithm == DF_PAT       ? DF_NCCL_PAT
                                     : -1;
}

static const char *algorithm_name(int algorithm) {
  return algorithm == DF_DOUBLE_TREE ? "TREE"
         : algorithm == DF_RING      ? "RING"
         : algorithm == DF_PAT       ? "PAT"
                                     : df_algorithm_name(algorithm);
}

/* A run with counts for each peer has no count of its own: the most elements for one peer are
 * reported. */
static df_profiled_run describe_run(const dfcclContext_t context, const df_coll *coll,
                                    const df_run *run, int has_counts) DF_RANK_LOCKED {
  const uint64_t count = has_counts || run->count == 0 ? coll->count : run->count;
  const int is_flagged = coll->exec.configuration.shape.payload_offset != DF_LINK_STAGED_OFFSET;
  return (df_profiled_run){.rank = (int)context->rank,
                           .job_name = context->profiler->name,
                           .job = context->profiler->job,
                           .number = coll->runs.submitted,
                           .on_device = df_device_run(coll, coll->runs.submitted),
                           .function = df_advice_function(coll->operation),
                           .operation = df_operation_name(coll->operation),
                           .type = type_names[coll->type],
                           .algorithm = algorithm_name(coll->exec.plan->key.algorithm),
                           .protocol = is_flagged ? "LL" : "SIMPLE",
                           .nccl_algorithm = nccl_algorithm(coll->exec.plan->key.algorithm),
                           .nccl_protocol = is_flagged ? DF_NCCL_LL : DF_NCCL_SIMPLE,
                           .nccl_type = (int)coll->type,
                           .nccl_operator = (int)coll->op,
                           .send = run->send,
                           .recv = run->recv,
                           .count = count,
                           .bytes = df_larger_buffer(coll->operation, coll->n, count,
                                                     (uint32_t)df_type_size(coll->type)),
                           .root = (int)coll->root,
                           .blocks = (uint8_t)coll->exec.configuration.shape.n_blocks};
}

/* Describes the links of the first block whose transport is a network connection. */
static uint32_t describe_links(const dfcclContext_t context, const df_coll *coll,
                               df_profiled_link links[LINKS_MAX]) DF_RANK_LOCKED {
  uint32_t n = 0;
  const df_part *part = &coll->exec.configuration.shape.parts[0];
  const int is_ready = coll->exec.ready && !coll->varying;
  for (uint32_t which = 0; which < coll->exec.plan->n_links && n < LINKS_MAX; which++) {
    const uint32_t peer = coll->ranks[coll->exec.plan->links[which].peer];
    if (!context->transports.wire_serves[peer]) continue;
    links[n++] =
        (df_profiled_link){.rank = (int)context->rank,
                           .peer = (int)peer,
                           .sends = coll->exec.plan->links[which].sends,
                           .messages = (int)(part->loops * coll->exec.plan->links[which].messages),
                           .chunk_bytes = (int)(part->chunk * (uint32_t)df_type_size(coll->type)),
                           .ring = is_ready ? coll->exec.device.links[which].slots : NULL};
  }
  return n;
}

/* ---- events; the caller holds the plugin lock ---- */

/* A run's event is the parent of the other events. */
enum { RUN_EVENTS = DF_PROFILE_COLL | DF_PROFILE_PROXY_OP | DF_PROFILE_PROXY_STEP };

static void stop_event(const df_profiler *profiler, void *handle) {
  if (handle) df_profiler_stop(&profiler->library->plugin, handle);
}

static int wants(const df_profiler *profiler, int events) {
  return (df_load_relaxed_u32((const uint32_t *)&profiler->library->mask) & (uint32_t)events) != 0;
}

/* Up to version 4 a group contains runs. From version 5 on a group of calls contains calls, and a
 * call contains runs. */
static void *start_parents(const dfcclContext_t context, const df_profiled_run *run,
                           df_profiled_call *call) {
  const df_profiler *profiler = context->profiler;
  const df_profiler_table *plugin = &profiler->library->plugin;
  if (plugin->version < 5) {
    if (wants(profiler, DF_PROFILE_GROUP | RUN_EVENTS))
      df_profiler_start_group(plugin, profiler->context, run->rank, NULL, &call->group);
    return call->group;
  }
  if (!wants(profiler, DF_PROFILE_GROUP_API | DF_PROFILE_COLL_API | DF_PROFILE_GROUP | RUN_EVENTS))
    return NULL;
  df_profiler_start_group_api(plugin, profiler->context, run->rank, &call->group_api);
  if (wants(profiler, DF_PROFILE_GROUP))
    df_profiler_start_group(plugin, profiler->context, run->rank, call->group_api, &call->group);
  if (wants(profiler, DF_PROFILE_COLL_API | RUN_EVENTS))
    df_profiler_start_call(plugin, profiler->context, run, call->group_api, &call->call);
  return call->call;
}

/* Without memory no steps are reported. run: its number on the device. */
static void begin_steps(profiled_run *profiled, const df_profiled_link *links, uint64_t run) {
  df_profiler *profiler = profiled->profiler;
  df_steps *steps = calloc(profiled->n_links, sizeof *steps);
  if (steps == NULL) return;
  for (uint32_t i = 0; i < profiled->n_links; i++) {
    const uint64_t messages = (uint64_t)links[i].messages;
    steps[i] = (df_steps){.ring = links[i].ring,
                          .first = run * messages + 1,
                          .end = (run + 1) * messages + 1,
                          .rank = links[i].rank,
                          .sends = links[i].sends,
                          .parent = profiled->links[i]};
  }
  profiled->steps = steps;
  profiled->next = profiler->running;
  profiled->at = &profiler->running;
  if (profiled->next) profiled->next->at = &profiled->next;
  profiler->running = profiled;
}

static void end_steps(profiled_run *profiled) {
  if (profiled->steps == NULL) return;
  *profiled->at = profiled->next;
  if (profiled->next) profiled->next->at = profiled->at;
  for (uint32_t i = 0; i < profiled->n_links; i++)
    df_steps_stop(&profiled->steps[i], &profiled->profiler->library->plugin);
  free(profiled->steps);
}

/* On the thread that moves the bytes. */
static void handle_message(void *who, df_watch_event what, const df_watched_message *message) {
  df_profiler *profiler = who;
  df_lock(&lock);
  for (profiled_run *run = profiler->running; run; run = run->next)
    for (uint32_t i = 0; i < run->n_links; i++)
      df_steps_receive(&run->steps[i], &profiler->library->plugin, profiler->context, what,
                       message);
  df_unlock(&lock);
}

const df_message_watch *df_profiler_watch(const dfcclContext_t context,
                                          const df_message_watch *other) {
  df_profiler *profiler = context->profiler;
  if (profiler == NULL || !wants(profiler, DF_PROFILE_PROXY_STEP)) return other;
  profiler->watch.next = other;
  return &profiler->watch;
}

static void start_run(const dfcclContext_t context, const df_profiled_run *run,
                      const df_profiled_link *links, uint32_t n_links, df_profiled_call *call,
                      profiled_run *profiled) {
  const df_profiler *profiler = context->profiler;
  const df_profiler_table *plugin = &profiler->library->plugin;
  void *parent = start_parents(context, run, call);
  if (!wants(profiler, RUN_EVENTS)) return;
  df_profiler_start_run(plugin, profiler->context, run, parent, call->group, &profiled->run);
  if (!wants(profiler, DF_PROFILE_PROXY_OP | DF_PROFILE_PROXY_STEP) || profiled->run == NULL)
    return;
  for (uint32_t i = 0; i < n_links; i++)
    df_profiler_start_link(plugin, profiler->context, &links[i], profiled->run,
                           &profiled->links[i]);
  profiled->n_links = n_links;
  if (n_links && wants(profiler, DF_PROFILE_PROXY_STEP))
    begin_steps(profiled, links, run->on_device);
}

static void stop_run(profiled_run *profiled) {
  end_steps(profiled);
  for (uint32_t i = 0; i < profiled->n_links; i++)
    stop_event(profiled->profiler, profiled->links[i]);
  stop_event(profiled->profiler, profiled->run);
}

/* ---- a run */

static void ended(dfcclCollId_t id, dfcclResult_t status, void *argument) {
  profiled_run *profiled = argument;
  const dfcclCallback_t callback = profiled->callback;
  void *const given = profiled->argument;
  df_lock(&lock);
  stop_run(profiled);
  df_unlock(&lock);
  free(profiled);
  if (callback) callback(id, status, given);
}

df_profiled_call df_profiler_begin(dfcclContext_t context, dfcclCollId_t id, df_run *run,
                                   int has_counts) {
  df_profiled_call call = {0};
  df_profiled_run description;
  df_profiled_link links[LINKS_MAX];
  uint32_t n_links = 0;
  profiled_run *profiled = calloc(1, sizeof *profiled);
  if (profiled == NULL) return call; /* this run is not reported */
  df_rank_lock(&context->lock);
  const df_coll *coll = df_find(context, id);
  if (coll) {
    description = describe_run(context, coll, run, has_counts);
    n_links = describe_links(context, coll, links);
  }
  df_rank_unlock(&context->lock);
  if (coll == NULL) {
    free(profiled);
    return call;
  }
  *profiled = (profiled_run){
      .profiler = context->profiler, .callback = run->callback, .argument = run->argument};
  df_lock(&lock);
  start_run(context, &description, links, n_links, &call, profiled);
  df_unlock(&lock);
  run->callback = ended;
  run->argument = profiled;
  return call;
}

void df_profiler_submitted(dfcclContext_t context, const df_profiled_call *call, df_run *run,
                           int accepted) {
  df_lock(&lock);
  stop_event(context->profiler, call->call);
  stop_event(context->profiler, call->group);
  stop_event(context->profiler, call->group_api);
  if (!accepted && run->callback == ended) stop_run(run->argument);
  df_unlock(&lock);
  if (accepted || run->callback != ended) return;
  profiled_run *profiled = run->argument;
  run->callback = profiled->callback;
  run->argument = profiled->argument;
  free(profiled);
}
