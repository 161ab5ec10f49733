#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/clock.h"
#include "common/env.h"
#include "host/context.h"
#include "info/net.h"

enum {
  RANKS_MAX = 64,
  CONNECTIONS_MOST = 2,
  WARM_UP = 3,
  SMALL_RUNS = 200,
  LARGE_BYTES = 4 << 20,
  LARGE_RUNS = 8,
  RUN_TIMEOUT_MS = 120000
};

typedef enum { WAY_ITSELF, WAY_PROCESS, WAY_MEMORY, WAY_TCP } way;
static const char *const ways[] = {"itself", "process", "shared memory", "tcp"};

/* How a rank reaches another. */
typedef struct {
  way way;
  char address[DF_ADDRESS_TEXT];
  double latency_us;     /* of a small message, one way; 0: the lower rank has measured */
  double bandwidth_gbps; /* 10^9 bytes a second */
  int connections;
  df_traffic traffic[CONNECTIONS_MOST]; /* the lower rank's */
} info_pair;

typedef struct {
  char host[64];
  int process;
  info_pair pairs[RANKS_MAX];
} info_rank;

static void describe(dfcclContext_t context, int rank, info_rank *own) {
  gethostname(own->host, sizeof own->host - 1);
  own->process = (int)getpid();
  for (int r = 0; r < (int)context->n_ranks; r++) {
    info_pair *pair = &own->pairs[r];
    const df_far_rank *far = context->mesh.far;
    pair->way = r == rank                            ? WAY_ITSELF
                : context->mesh.local[r]             ? WAY_PROCESS
                : context->transports.wire_serves[r] ? WAY_TCP
                                                     : WAY_MEMORY;
    if (far && far[r].is_far) df_address_scoped_text(&far[r].address, far[r].scope, pair->address);
  }
}

/* What the measurement has sent and received. */
static void count_traffic(dfcclContext_t context, info_rank *own) {
  df_endpoint *wire = context->transports.wire;
  pthread_mutex_lock(&context->lock);
  for (uint32_t r = 0; wire && r < context->n_ranks; r++) {
    info_pair *pair = &own->pairs[r];
    while (pair->connections < CONNECTIONS_MOST &&
           wire->transport->traffic(wire, r, (uint32_t)pair->connections,
                                    &pair->traffic[pair->connections]))
      pair->connections++;
  }
  pthread_mutex_unlock(&context->lock);
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
static void info_rank_main(df_tool_rank *self) {
  info_rank *own = self->report;
  void *buffer = calloc(1, LARGE_BYTES);
  uint64_t one = 1;
  if (buffer == NULL) {
    df_tool_rank_fail(self, -1, "no memory for a buffer");
    return;
  }
  describe(self->context, self->rank, own);
  for (int i = 0; i < self->n_ranks; i++)
    for (int j = i + 1; j < self->n_ranks; j++) {
      if (!df_tool_env_reduce(self, &one, 1, dfcclMax)) return;
      info_pair *pair = &own->pairs[self->rank == i ? j : i];
      if ((self->rank == i || self->rank == j) && !measure_pair(self, i, j, buffer, pair)) return;
    }
  if (!df_tool_env_reduce(self, &one, 1, dfcclMax)) return;
  count_traffic(self->context, own);
  free(buffer);
}

static void add_traffic(cJSON *list, const info_pair *pair) {
  for (int i = 0; i < pair->connections; i++) {
    const df_traffic *t = &pair->traffic[i];
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddStringToObject(entry, "ends", t->ends);
    cJSON_AddNumberToObject(entry, "frames_sent", (double)t->frames_sent);
    cJSON_AddNumberToObject(entry, "bytes_sent", (double)t->bytes_sent);
    cJSON_AddNumberToObject(entry, "frames_received", (double)t->frames_received);
    cJSON_AddNumberToObject(entry, "bytes_received", (double)t->bytes_received);
    cJSON_AddNumberToObject(entry, "resumes", t->resumes);
    cJSON_AddItemToArray(list, entry);
  }
}

static bool print_json(const info_rank *ranks, int n) {
  cJSON *object = cJSON_CreateObject();
  cJSON *list = cJSON_AddArrayToObject(object, "ranks");
  cJSON *pairs = cJSON_AddArrayToObject(object, "pairs");
  for (int i = 0; i < n; i++) {
    cJSON *entry = cJSON_CreateObject();
    cJSON_AddNumberToObject(entry, "rank", i);
    cJSON_AddStringToObject(entry, "host", ranks[i].host);
    cJSON_AddNumberToObject(entry, "process", ranks[i].process);
    cJSON_AddItemToArray(list, entry);
    for (int j = i + 1; j < n; j++) {
      const info_pair *pair = &ranks[i].pairs[j];
      entry = cJSON_CreateObject();
      cJSON_AddNumberToObject(entry, "from", i);
      cJSON_AddNumberToObject(entry, "to", j);
      cJSON_AddStringToObject(entry, "way", ways[pair->way]);
      cJSON_AddStringToObject(entry, "address", pair->address);
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
    printf("%13s%s: sent %" PRIu64 " frames, %" PRIu64 " bytes; received %" PRIu64
           " frames, %" PRIu64 " bytes; resumed %u times\n",
           "", t->ends, t->frames_sent, t->bytes_sent, t->frames_received, t->bytes_received,
           t->resumes);
  }
}

static void print_text(const info_rank *ranks, int n) {
  for (int i = 0; i < n; i++)
    printf("rank %d: host %s, process %d\n", i, ranks[i].host, ranks[i].process);
  printf("\n%5s %5s  %-14s %-32s %12s %10s\n", "from", "to", "by", "address", "latency (us)",
         "GB/s");
  for (int i = 0; i < n; i++)
    for (int j = i + 1; j < n; j++) {
      const info_pair *pair = &ranks[i].pairs[j];
      printf("%5d %5d  %-14s %-32s %12.2f %10.3f\n", i, j, ways[pair->way], pair->address,
             pair->latency_us, pair->bandwidth_gbps);
      print_traffic(pair);
    }
  puts("\nlatency: of an all-reduce of 4 bytes between the two; GB/s: of one of 4 MiB.");
}

bool df_info_job(bool json) {
  df_tool_env env;
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCpu;
  config.timeoutMs = RUN_TIMEOUT_MS;
  if (!df_tool_env_join(&env, &config)) return false;
  info_rank *ranks = env.n_ranks <= RANKS_MAX ? calloc((size_t)env.n_ranks, sizeof *ranks) : NULL;
  if (ranks == NULL) {
    df_tool_error("%d ranks are too many: at most %d", env.n_ranks, RANKS_MAX);
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
