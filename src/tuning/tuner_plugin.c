#include "tuning/tuner_plugin.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/foreign_log.h"
#include "base/mutex.h"
#include "base/plugin_file.h"
#include "bootstrap/net/fork_guard.h"

enum { OLDEST = 2, NEWEST = 6, NO_VERSION = 0, NAME_BYTES = 80, MAX_CSV_BYTES = 1 << 20 };

/* ---- the tables of plugins, by version */

typedef int nccl_result; /* 0: success */
typedef void (*nccl_log)(int level, unsigned long flags, const char *file, int line,
                         const char *format, ...);
/* Plugins of version 5 and later take and return these; they concern GPUs, so the values that a
 * plugin writes are not used. */
typedef struct nccl_domains {
  int n, least, most;
} nccl_domains;
typedef struct nccl_constants {
  double latencies[DF_NCCL_ALGORITHMS][DF_NCCL_PROTOCOLS];
  double link_latencies[3][DF_NCCL_ALGORITHMS][DF_NCCL_PROTOCOLS];
  double rates[5][4][3];
} nccl_constants;

typedef nccl_result (*init_2)(size_t ranks, size_t nodes, nccl_log log, void **context);
typedef nccl_result (*init_5)(void **context, uint64_t communicator, size_t ranks, size_t nodes,
                              nccl_log log, nccl_domains *domains, nccl_constants *constants);
typedef nccl_result (*info_2)(void *context, int function, size_t bytes, int collnet, int nvls,
                              int operations, int *algorithm, int *protocol, int *channels);
typedef nccl_result (*info_3)(void *context, int function, size_t bytes, int operations,
                              float **table, int algorithms, int protocols, int *channels);
typedef nccl_result (*info_4)(void *context, int function, size_t bytes, int operations,
                              float **table, int algorithms, int protocols, int reg_buff,
                              int *channels);
typedef nccl_result (*end)(void *context);
typedef nccl_result (*chunk_6)(void *context, int function, size_t bytes, int algorithm,
                               int protocol, int channels, size_t *chunk);

/* All versions have these members; the sixth is not read from versions before 6. */
typedef struct nccl_tuner {
  const char *name;
  void (*init)(void);
  void (*info)(void);
  end end;
  chunk_6 chunk;
} nccl_tuner;

/* The context of the plugin for groups of one size. */
typedef struct group_context {
  struct group_context *next;
  uint32_t n, n_hosts;
  void *context;
  nccl_result failed; /* result of init; after a failure the plugin is not asked */
} group_context;

struct df_tuner_plugin {
  const nccl_tuner *table; /* NULL: the advice comes from a file */
  int version;
  uint64_t job;
  char name[NAME_BYTES]; /* "Example (version 6)", or the name of the file */
  group_context *groups;
  df_csv csv;
};

static df_mutex lock = DF_MUTEX_INITIALIZER; /* held during all calls to plugins in the process */
static pthread_once_t once = PTHREAD_ONCE_INIT;
static void note_lock(void) { df_fork_waits_for(&lock, 0); }

static DF_FOREIGN_LOG(write_log, "tuner plugin");

/* ---- the calls; the caller holds the lock */

static nccl_result init(const df_tuner_plugin *plugin, group_context *group) {
  if (plugin->version < 5)
    return ((init_2)plugin->table->init)(group->n, group->n_hosts, write_log, &group->context);
  nccl_domains domains = {.n = (int)group->n_hosts,
                          .least = (int)(group->n / group->n_hosts),
                          .most = (int)((group->n + group->n_hosts - 1) / group->n_hosts)};
  nccl_constants constants;
  memset(&constants, 0, sizeof constants);
  return ((init_5)plugin->table->init)(&group->context, plugin->job, group->n, group->n_hosts,
                                       write_log, &domains, &constants);
}

/* Returns NULL if out of memory. */
static group_context *group_of(df_tuner_plugin *plugin, const df_advice_question *q) {
  for (group_context *group = plugin->groups; group; group = group->next)
    if (group->n == q->n && group->n_hosts == q->n_hosts) return group;
  group_context *group = calloc(1, sizeof *group);
  if (group == NULL) return NULL;
  group->n = q->n;
  group->n_hosts = q->n_hosts;
  group->failed = init(plugin, group);
  group->next = plugin->groups;
  plugin->groups = group;
  if (group->failed)
    df_log(DF_LOG_WARN, "tuner plugin %s: init for %u ranks fails with %d; the plugin is ignored",
           plugin->name, group->n, group->failed);
  return group;
}

static nccl_result ask_table(const df_tuner_plugin *plugin, void *context,
                             const df_advice_question *q, df_cost_table *table, int *channels) {
  const int function = df_advice_function(q->operation);
  float **as_passed = (float **)(void *)table->us;
  if (plugin->version == 3)
    return ((info_3)plugin->table->info)(context, function, q->bytes, 1, as_passed,
                                         DF_NCCL_ALGORITHMS, DF_NCCL_PROTOCOLS, channels);
  return ((info_4)plugin->table->info)(context, function, q->bytes, 1, as_passed,
                                       DF_NCCL_ALGORITHMS, DF_NCCL_PROTOCOLS, q->reaches_buffers,
                                       channels);
}

static nccl_result ask_choice(const df_tuner_plugin *plugin, void *context,
                              const df_advice_question *q, df_advice *advice) {
  df_cost_table given, table;
  int channels = 0;
  nccl_result result;
  df_advice_fill(&given, q);
  if (plugin->version == 2) {
    int algorithm = -1, protocol = -1;
    result = ((info_2)plugin->table->info)(context, df_advice_function(q->operation), q->bytes, 0,
                                           0, 1, &algorithm, &protocol, &channels);
    if (result == 0) df_advice_name(advice, &given, algorithm, protocol);
  } else {
    table = given;
    result = ask_table(plugin, context, q, &table, &channels);
    if (result == 0) df_advice_choose(advice, &given, &table);
  }
  if (result == 0) df_advice_channels(advice, channels);
  return result;
}

static void ask_chunk(const df_tuner_plugin *plugin, void *context, const df_advice_question *q,
                      df_advice *advice) {
  size_t chunk = q->slot_bytes;
  if (plugin->version < 6 || plugin->table->chunk == NULL || advice->kind != DF_ADVICE_TAKEN)
    return;
  if (plugin->table->chunk(context, df_advice_function(q->operation), q->bytes,
                           advice->nccl_algorithm, advice->nccl_protocol, (int)advice->blocks,
                           &chunk) == 0)
    df_advice_chunk(advice, q->slot_bytes, chunk);
}

static void fail(df_advice *advice, nccl_result result) {
  advice->kind = DF_ADVICE_FAILED;
  advice->value = result;
}

static void ask(df_tuner_plugin *plugin, const df_advice_question *q, df_advice *advice) {
  group_context *group = group_of(plugin, q);
  nccl_result result = group ? group->failed : (nccl_result)dfcclSystemError;
  if (result == 0) result = ask_choice(plugin, group->context, q, advice);
  if (result == 0)
    ask_chunk(plugin, group->context, q, advice);
  else
    fail(advice, result);
}

void df_tuner_plugin_ask(df_tuner_plugin *plugin, const df_advice_question *question,
                         df_advice *advice) {
  *advice = (df_advice){.source = plugin->name, .algorithm = -1};
  if (plugin->table == NULL) {
    df_csv_advise(&plugin->csv, question, advice);
    return;
  }
  df_lock(&lock);
  ask(plugin, question, advice);
  df_unlock(&lock);
  if (advice->kind >= DF_ADVICE_FAILED) {
    char why[DF_SENTENCE_BYTES];
    df_text text = {why, sizeof why};
    df_advice_say(advice, &text);
    df_log(DF_LOG_WARN, "%s", why);
  }
}

/* ---- opening and closing */

static dfcclResult_t open_plugin(df_tuner_plugin *plugin, const char *name) {
  char tried[320] = "";
  df_text text = {tried, sizeof tried};
  void *library = df_plugin_file_open("tuner", name, &text);
  if (library == NULL)
    return df_fail(dfcclInvalidUsage,
                   "DFCCL_TUNER_PLUGIN names \"%.64s\", which cannot be opened (%s): give its "
                   "file (/...), or put its directory into LD_LIBRARY_PATH",
                   name, tried);
  plugin->table =
      df_plugin_file_table(library, "ncclTunerPlugin", OLDEST, NEWEST, &plugin->version);
  if (plugin->table == NULL)
    return df_fail(dfcclInvalidUsage,
                   "DFCCL_TUNER_PLUGIN names \"%.128s\", which has none of ncclTunerPlugin_v%d to "
                   "_v%d: it is no tuner plugin, or for another version of NCCL",
                   name, OLDEST, NEWEST);
  snprintf(plugin->name, sizeof plugin->name, "%.60s (version %d)",
           plugin->table->name ? plugin->table->name : "without a name", plugin->version);
  return dfcclSuccess;
}

static dfcclResult_t open_file(df_tuner_plugin *plugin, const char *path) {
  char sentence[DF_SENTENCE_BYTES];
  snprintf(plugin->name, sizeof plugin->name, "%.79s", path);
  FILE *file = fopen(path, "rb");
  if (file == NULL)
    return df_fail(dfcclInvalidUsage, "DFCCL_TUNER_PLUGIN names file \"%.128s\": %s", path,
                   strerror(errno));
  char *text = malloc(MAX_CSV_BYTES + 1);
  const size_t bytes = text ? fread(text, 1, MAX_CSV_BYTES + 1, file) : 0;
  const int failed = ferror(file);
  fclose(file);
  dfcclResult_t result = dfcclSuccess;
  if (text == NULL)
    result = df_fail(dfcclOutOfMemory, "no memory to read %.128s (DFCCL_TUNER_PLUGIN)", path);
  else if (failed || bytes > MAX_CSV_BYTES)
    result = df_fail(dfcclInvalidUsage,
                     "%.128s (DFCCL_TUNER_PLUGIN) cannot be read, or has more "
                     "than %d bytes",
                     path, MAX_CSV_BYTES);
  else if (!df_csv_parse(&plugin->csv, text, bytes, path, sentence, sizeof sentence))
    result = df_fail(dfcclInvalidUsage, "DFCCL_TUNER_PLUGIN: %s", sentence);
  free(text);
  return result;
}

dfcclResult_t df_tuner_plugin_open(df_tuner_plugin **out, const char *choice, uint64_t job) {
  static const char csv[] = "csv:";
  *out = NULL;
  if (*choice == '\0' || strcmp(choice, "none") == 0) return dfcclSuccess;
  pthread_once(&once, note_lock);
  df_tuner_plugin *plugin = calloc(1, sizeof *plugin);
  if (plugin == NULL) return df_fail(dfcclOutOfMemory, "no memory for a tuner plugin");
  plugin->job = job;
  df_lock(&lock);
  const dfcclResult_t result = strncmp(choice, csv, strlen(csv)) == 0
                                   ? open_file(plugin, choice + strlen(csv))
                                   : open_plugin(plugin, choice);
  df_unlock(&lock);
  if (result == dfcclSuccess)
    *out = plugin;
  else
    df_tuner_plugin_close(plugin);
  return result;
}

void df_tuner_plugin_close(df_tuner_plugin *plugin) {
  if (plugin == NULL) return;
  df_lock(&lock);
  while (plugin->groups) {
    group_context *group = plugin->groups;
    plugin->groups = group->next;
    if (!group->failed && plugin->table->end) plugin->table->end(group->context);
    free(group);
  }
  df_unlock(&lock);
  df_csv_free(&plugin->csv);
  free(plugin);
}
