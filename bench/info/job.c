#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mutex.h"
#include "bootstrap/launcher.h"
#include "common/cli.h"
#include "common/clock.h"
#include "common/env.h"
#include "host/state/context.h"
#include "info/net.h"
#include "transports/net/pump/pump.h"

enum {
  RANKS_MAX = 64,
  WARM_UP = 3,
  SMALL_RUNS = 200,
  LARGE_BYTES = 4 << 20,
  LARGE_RUNS = 8,
  RUN_TIMEOUT_MS = 120000
};

typedef enum { WAY_ITSELF, WAY_PROCESS, WAY_MEMORY, WAY_WIRE } way;

/* How a rank reaches another. */
typedef struct {
  way way;
  char address[DF_ADDRESS_TEXT];
  double latency_us;     /* latency of a small message, one way; 0: the lower rank has measured */
  double bandwidth_gbps; /* 10^9 bytes a second */
  int connections;
  df_traffic traffic[DF_PUMP_PORTS_MOST]; /* the lower rank's */
} info_pair;

typedef struct {
  char host[64];
  int process;
  df_interfaces interfaces;
  char network[DF_NETWORK_TEXT]; /* the network of its connections, as DFCCL_NET names it */
  df_security security;          /* protection of its connections */
  info_pair pairs[RANKS_MAX];
} info_rank;

/* Within its host a job needs no interface, so none is no failure. */
static void describe_process(const df_network_settings *network, info_rank *own) {
  gethostname(own->host, sizeof own->host - 1);
  own->process = (int)getpid();
  (void)df_interfaces_find(&own->interfaces, network->interfaces);
}

static void describe(dfcclContext_t context, int rank, info_rank *own) {
  const df_network_settings *network = &context->settings.network;
  describe_process(network, own);
  snprintf(own->network, sizeof own->network, "%s",
           network->net_backend[0] ? network->net_backend : "tcp");
  own->security = network->security;
  for (int r = 0; r < (int)context->n_ranks; r++) {
    info_pair *pair = &own->pairs[r];
    const df_remote_rank *remote = context->mesh.remote;
    pair->way = r == rank                            ? WAY_ITSELF
                : context->mesh.local[r]             ? WAY_PROCESS
                : context->transports.wire_serves[r] ? WAY_WIRE
                                                     : WAY_MEMORY;
    if (remote && remote[r].is_remote)
      df_address_scoped_text(&remote[r].address, remote[r].scope, pair->address);
  }
}

/* The text is "HERE to THERE", or "HERE to THERE (what carries it)". */
static void copy_remote_end(const char *ends, char address[DF_ADDRESS_TEXT]) {
  const char *there = strstr(ends, " to ");
  if (there == NULL) return;
  there += strlen(" to ");
  const char *end = strstr(there, " (");
  snprintf(address, DF_ADDRESS_TEXT, "%.*s", (int)(end ? end - there : DF_ADDRESS_TEXT), there);
}

/* The bytes that the measurement has sent and received. The mesh has no addresses of ranks of this
 * host. */
static void count_traffic(dfcclContext_t context, info_rank *own) {
  df_endpoint *wire = context->transports.wire;
  df_rank_lock(&context->lock);
  for (uint32_t r = 0; wire && r < context->n_ranks; r++) {
    info_pair *pair = &own->pairs[r];
    while (pair->connections < DF_PUMP_PORTS_MOST &&
           wire->network->traffic(wire, r, (uint32_t)pair->connections,
                                  &pair->traffic[pair->connections]))
      pair->connections++;
    if (pair->connections && pair->address[0] == '\0')
      copy_remote_end(pair->traffic[0].ends, pair->address);
  }
  df_rank_unlock(&context->lock);
}

/* Time of one run of the pair's collective, in microseconds; negative: the rank has failed. */
static double time_runs(df_tool_rank *self, dfcclCollId_t id, void *buffer, int runs) {
  uint64_t begin = 0;
  for (int i = -WARM_UP; i < runs; i++) {
    if (i == 0) begin = df_tool_now_ns();
    dfcclResult_t result = dfcclRunAllReduce(self->context, id, buffer, buffer, NULL, NULL);
    if (result == dfcclSuccess) result = dfcclWait(self->context, id);
    if (!df_tool_rank_check(self, result, "a run")) return -1;
  }
  return (double)(df_tool_now_ns() - begin) / 1e3 / runs;
}

static bool measure_pair(df_tool_rank *self, int first, int second, void *buffer, info_pair *pair) {
  const int ranks[2] = {first, second};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = ranks;
  options.nRanks = 2;
  dfcclContext_t context = self->context;
  dfcclResult_t result = dfcclRegisterAllReduce(context, 0, 1, dfcclFloat32, dfcclSum, &options);
  if (result == dfcclSuccess)
    result = dfcclRegisterAllReduce(context, 1, LARGE_BYTES / 4, dfcclFloat32, dfcclSum, &options);
  if (!df_tool_rank_check(self, result, "registering")) return false;
  pair->latency_us = time_runs(self, 0, buffer, SMALL_RUNS);
  if (pair->latency_us < 0) return false;
  const double us = time_runs(self, 1, buffer, LARGE_RUNS);
  if (us < 0) return false;
  pair->bandwidth_gbps = LARGE_BYTES / us / 1e3;
  result = dfcclDeregister(context, 0);
  if (result == dfcclSuccess) result = dfcclDeregister(context, 1);
  return df_tool_rank_check(self, result, "dfcclDeregister");
}

/* One pair after the other, so that none disturbs another. */
static bool measure_pairs(df_tool_rank *self, void *buffer, bool shows_progress) {
  info_rank *own = self->report;
  uint64_t one = 1;
  for (int i = 0; i < self->n_ranks; i++)
    for (int j = i + 1; j < self->n_ranks; j++) {
      if (!df_tool_env_reduce(self, &one, 1, dfcclMax)) return false;
      if (shows_progress) df_tool_progress("ranks %d and %d of %d", i, j, self->n_ranks);
      info_pair *pair = &own->pairs[self->rank == i ? j : i];
      if ((self->rank == i || self->rank == j) && !measure_pair(self, i, j, buffer, pair))
        return false;
    }
  return df_tool_env_reduce(self, &one, 1, dfcclMax);
}

static void info_rank_main(df_tool_rank *self) {
  info_rank *own = self->report;
  void *buffer = calloc(1, LARGE_BYTES);
  const bool shows_progress = self->rank == 0 && df_tool_progress_wanted();
  if (buffer == NULL) {
    df_tool_rank_fail(self, -1, "no memory for a buffer");
    return;
  }
  describe(self->context, self->rank, own);
  if (measure_pairs(self, buffer, shows_progress)) count_traffic(self->context, own);
  if (shows_progress) df_tool_progress("%s", "");
  free(buffer);
}

static const char *way_text(const info_rank *rank, const info_pair *pair) {
  static const char *const ways[] = {"itself", "process", "shared memory"};
  return pair->way == WAY_WIRE ? rank->network : ways[pair->way];
}

/* Data in shared memory never leaves the host. */
static const char *security_text(const info_rank *rank, const info_pair *pair) {
  return pair->way == WAY_WIRE ? df_security_names[rank->security] : "within the host";
}

static void add_traffic(cJSON *list, const info_pair *pair) {
  for (int i = 0; i < pair->connections; i++) {
    const df_traffic *t = &pair->traffic[i];
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddStringToObject(entry, "ends", t->ends);
    cJSON_AddBoolToObject(entry, "stands", t->is_connected);
    cJSON_AddNumberToObject(entry, "frames_sent", (double)t->frames_sent);
    cJSON_AddNumberToObject(entry, "bytes_sent", (double)t->bytes_sent);
    cJSON_AddNumberToObject(entry, "frames_received", (double)t->frames_received);
    cJSON_AddNumberToObject(entry, "bytes_received", (double)t->bytes_received);
    cJSON_AddNumberToObject(entry, "resumes", t->resumes);
    cJSON_AddItemToArray(list, entry);
  }
}

static void add_rank(cJSON *list, int number, const info_rank *rank) {
  cJSON *entry = cJSON_CreateObject();
  cJSON_AddNumberToObject(entry, "rank", number);
  cJSON_AddStringToObject(entry, "host", rank->host);
  cJSON_AddNumberToObject(entry, "process", rank->process);
  df_info_add_interfaces(entry, &rank->interfaces);
  cJSON_AddItemToArray(list, entry);
}

static bool print_json(const info_rank *ranks, int n) {
  cJSON *object = cJSON_CreateObject();
  cJSON *list = cJSON_AddArrayToObject(object, "ranks");
  cJSON *pairs = cJSON_AddArrayToObject(object, "pairs");
  for (int i = 0; i < n; i++) {
    add_rank(list, i, &ranks[i]);
    for (int j = i + 1; j < n; j++) {
      const info_pair *pair = &ranks[i].pairs[j];
      cJSON *entry = cJSON_CreateObject();
      cJSON_AddNumberToObject(entry, "from", i);
      cJSON_AddNumberToObject(entry, "to", j);
      cJSON_AddStringToObject(entry, "way", way_text(&ranks[i], pair));
      cJSON_AddStringToObject(entry, "address", pair->address);
      cJSON_AddStringToObject(entry, "security", security_text(&ranks[i], pair));
      cJSON_AddNumberToObject(entry, "latency_us", pair->latency_us);
      cJSON_AddNumberToObject(entry, "bandwidth_GBps", pair->bandwidth_gbps);
      add_traffic(cJSON_AddArrayToObject(entry, "connections"), pair);
      cJSON_AddItemToArray(pairs, entry);
    }
  }
  return df_tool_print_json(object);
}

static void print_traffic(const info_pair *pair) {
  for (int i = 0; i < pair->connections; i++) {
    const df_traffic *t = &pair->traffic[i];
    printf("%13s%s%s: sent %" PRIu64 " frames, %" PRIu64 " bytes; received %" PRIu64
           " frames, %" PRIu64 " bytes; resumed %u times\n",
           "", t->ends[0] ? t->ends : "a spare connection",
           t->is_connected ? "" : " (not connected)", t->frames_sent, t->bytes_sent,
           t->frames_received, t->bytes_received, t->resumes);
  }
}

static void print_ranks(const info_rank *ranks, int n) {
  char prefix[16];
  for (int i = 0; i < n; i++)
    printf("rank %d: host %s, process %d\n", i, ranks[i].host, ranks[i].process);
  puts("");
  df_info_print_interfaces_head(" rank  ");
  for (int i = 0; i < n; i++) {
    snprintf(prefix, sizeof prefix, "%5d  ", i);
    df_info_print_interfaces(&ranks[i].interfaces, prefix);
  }
}

static void print_text(const info_rank *ranks, int n) {
  print_ranks(ranks, n);
  printf("\n%5s %5s  %-14s %-32s %-16s %12s %10s\n", "from", "to", "by", "address", "security",
         "latency (us)", "GB/s");
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j < n; j++) {
      const info_pair *pair = &ranks[i].pairs[j];
      printf("%5d %5d  %-14s %-32s %-16s %12.2f %10.3f\n", i, j, way_text(&ranks[i], pair),
             pair->address, security_text(&ranks[i], pair), pair->latency_us, pair->bandwidth_gbps);
      print_traffic(pair);
    }
  puts("\nlatency: of an all-reduce of 4 bytes between the two; GB/s: of one of 4 MiB.");
}

/* Prints the facts that a rank has before it has joined. */
typedef struct {
  df_network_settings network;
  df_launch launch; /* without ranks: nothing is known of the job */
} info_start;

/* Faults of it are found and reported by the join, too. */
static void read_start(info_start *start) {
  df_net net;
  *start = (info_start){0};
  (void)df_settings_read_network(&start->network, &net);
  (void)df_launcher_read(&start->launch, start->network.root);
}

/* Rank 0 prints for the job, as it does when the job comes up; or a process without a launcher. */
static void print_failure(const info_start *start, const char *sentence) {
  info_rank *own = calloc(1, sizeof *own);
  if (own == NULL || start->launch.rank != 0) {
    free(own);
    return;
  }
  describe_process(&start->network, own);
  cJSON *object = cJSON_CreateObject();
  cJSON_AddStringToObject(object, "error", sentence);
  cJSON *list = cJSON_AddArrayToObject(object, "ranks");
  if (start->launch.n_ranks > 0) add_rank(list, 0, own);
  cJSON_AddArrayToObject(object, "pairs");
  (void)df_tool_print_json(object);
  free(own);
}

static bool join(df_tool_env *env, const dfcclConfig_t *config, bool json) {
  char sentence[DF_SENTENCE_BYTES];
  info_start start;
  read_start(&start);
  const int n = start.launch.n_ranks;
  if (n <= RANKS_MAX && df_tool_env_join(env, config)) return true;
  snprintf(sentence, sizeof sentence, "%s", df_last_sentence());
  if (n > RANKS_MAX) {
    snprintf(sentence, sizeof sentence, "%d ranks are too many: at most %d", n, RANKS_MAX);
    df_tool_error("%s", sentence);
  }
  if (json) print_failure(&start, sentence);
  return false;
}

bool df_info_job(bool json) {
  df_tool_env env;
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCpu;
  config.timeoutMs = RUN_TIMEOUT_MS;
  if (!join(&env, &config, json)) return false;
  info_rank *ranks = calloc((size_t)env.n_ranks, sizeof *ranks);
  if (ranks == NULL) {
    df_tool_error("no memory for the reports of %d ranks", env.n_ranks);
    dfcclAbort(env.context);
    dfcclDestroy(env.context);
    return false;
  }
  const df_tool_job job = {.n_ranks = env.n_ranks,
                           .processes = true,
                           .config = config,
                           .rank_main = info_rank_main,
                           .report_bytes = sizeof *ranks,
                           .reports = ranks};
  bool fine = df_tool_env_launch(&job, &env);
  if (fine && env.rank == 0 && json) fine = print_json(ranks, env.n_ranks);
  if (fine && env.rank == 0 && !json) print_text(ranks, env.n_ranks);
  free(ranks);
  return fine;
}
