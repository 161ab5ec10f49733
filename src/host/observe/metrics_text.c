#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/observe/dump.h"
#include "host/observe/metrics.h"
#include "host/state/survival.h"

typedef struct df_bound {
  uint64_t most;
  const char *text; /* in the canonical form of OpenMetrics */
} df_bound;

static const df_bound seconds_bounds[DF_METRIC_SECONDS] = {
    {1000, "1e-06"},     {3000, "3e-06"},      {10000, "1e-05"},       {30000, "3e-05"},
    {100000, "0.0001"},  {300000, "0.0003"},   {1000000, "0.001"},     {3000000, "0.003"},
    {10000000, "0.01"},  {30000000, "0.03"},   {100000000, "0.1"},     {300000000, "0.3"},
    {1000000000, "1.0"}, {3000000000u, "3.0"}, {10000000000u, "10.0"},
};
static const df_bound bytes_bounds[DF_METRIC_BYTES] = {
    {64, "64.0"},
    {1u << 10, "1024.0"},
    {4u << 10, "4096.0"},
    {16u << 10, "16384.0"},
    {64u << 10, "65536.0"},
    {256u << 10, "262144.0"},
    {1u << 20, "1.048576e+06"},
    {4u << 20, "4.194304e+06"},
    {16u << 20, "1.6777216e+07"},
    {64u << 20, "6.7108864e+07"},
    {256u << 20, "2.68435456e+08"},
};

static uint32_t place_of(const df_bound *bounds, uint32_t n, uint64_t value) {
  uint32_t place = 0;
  while (place < n && value > bounds[place].most) place++;
  return place;
}
uint32_t df_metric_seconds_place(uint64_t ns) {
  return place_of(seconds_bounds, DF_METRIC_SECONDS, ns);
}
uint32_t df_metric_bytes_place(uint64_t bytes) {
  return place_of(bytes_bounds, DF_METRIC_BYTES, bytes);
}

/* A moment's values, for a writer without the lock. */
typedef struct df_metric_values {
  df_metric_cells cells;
  dfcclStats_t stats;
  uint64_t registered, switches, losses, view, outstanding, failed;
  uint64_t *waited_ns; /* [n_ranks] */
} df_metric_values;

typedef struct df_writer {
  df_growing_text *text;
  uint32_t rank;
  const df_metric_values *values;
} df_writer;

/* ---- values ---- */

static uint64_t count_losses(dfcclContext_t context) DF_RANK_LOCKED {
  df_endpoint *wire = context->transports.wire;
  uint64_t losses = 0;
  df_traffic traffic;
  for (uint32_t r = 0; r < context->n_ranks; r++) {
    const df_peer *peer = &context->control.peers[r];
    if (peer->channel) losses += peer->resumes + (peer->socket < 0 || peer->lost_ns != 0);
    for (uint32_t i = 0; wire && wire->network->traffic(wire, r, i, &traffic); i++)
      losses += traffic.resumes;
  }
  return losses;
}

static df_metric_values *take_values(dfcclContext_t context) {
  df_metric_values *values = calloc(1, sizeof *values);
  if (values == NULL) return NULL;
  values->waited_ns = malloc(context->n_ranks * sizeof *values->waited_ns);
  if (values->waited_ns == NULL) {
    free(values);
    return NULL;
  }
  values->stats = (dfcclStats_t)DFCCL_STATS_INITIALIZER;
  df_rank_lock(&context->lock);
  memcpy(&values->cells, &context->metrics->cells, sizeof values->cells);
  memcpy(values->waited_ns, context->metrics->waited_ns,
         context->n_ranks * sizeof *values->waited_ns);
  values->registered = context->registry.n_colls;
  values->switches = context->registry.switches;
  values->losses = count_losses(context);
  values->view = context->survival ? context->survival->view - 1 : 0;
  values->outstanding = context->runs.accepted - context->runs.completed;
  values->failed = context->failure.broken != dfcclSuccess;
  df_rank_unlock(&context->lock);
  df_stats(context, &values->stats);
  return values;
}

static void free_values(df_metric_values *values) {
  free(values->waited_ns);
  free(values);
}

/* ---- text ---- */

static void say_head(df_writer *w, const char *name, const char *type, const char *unit,
                     const char *help) {
  df_grow_format(w->text, "# TYPE dfccl_%s %s\n", name, type);
  if (unit) df_grow_format(w->text, "# UNIT dfccl_%s %s\n", name, unit);
  df_grow_format(w->text, "# HELP dfccl_%s %s\n", name, help);
}

static void say_one(df_writer *w, const char *name, int is_counter, const char *unit,
                    uint64_t value, const char *help) {
  say_head(w, name, is_counter ? "counter" : "gauge", unit, help);
  df_grow_format(w->text, "dfccl_%s%s{rank=\"%u\"} %" PRIu64 "\n", name, is_counter ? "_total" : "",
                 w->rank, value);
}

static void say_seconds(df_writer *w, uint64_t ns) {
  df_grow_format(w->text, " %" PRIu64 ".%09" PRIu64 "\n", ns / 1000000000u, ns % 1000000000u);
}

static const char *algorithm_name(uint32_t algorithm) {
  return algorithm == DF_FROM_FILE ? "file" : df_algorithm_name((int)algorithm);
}

/* Calls say for each operation and algorithm that has runs. */
static void for_each(df_writer *w,
                     void (*say)(df_writer *w, const df_metric_cell *cell, const char *labels)) {
  char labels[160];
  for (uint32_t op = 0; op < DF_OP_ALL; op++)
    for (uint32_t a = 0; a <= DF_FROM_FILE; a++) {
      const df_metric_cell *cell = &w->values->cells.of[op][a];
      if (cell->runs + cell->failed == 0) continue;
      snprintf(labels, sizeof labels, "rank=\"%u\",collective=\"%s\",algorithm=\"%s\"", w->rank,
               df_operation_word((df_operation)op), algorithm_name(a));
      say(w, cell, labels);
    }
}

static void say_buckets(df_writer *w, const char *name, const char *labels, const df_bound *bounds,
                        const uint64_t *counts, uint32_t n) {
  uint64_t sum = 0;
  for (uint32_t i = 0; i <= n; i++) {
    sum += counts[i];
    df_grow_format(w->text, "dfccl_%s_bucket{%s,le=\"%s\"} %" PRIu64 "\n", name, labels,
                   i < n ? bounds[i].text : "+Inf", sum);
  }
  df_grow_format(w->text, "dfccl_%s_count{%s} %" PRIu64 "\n", name, labels, sum);
}

static void say_cell_seconds(df_writer *w, const df_metric_cell *cell, const char *labels) {
  say_buckets(w, "run_seconds", labels, seconds_bounds, cell->seconds, DF_METRIC_SECONDS);
  df_grow_format(w->text, "dfccl_run_seconds_sum{%s}", labels);
  say_seconds(w, cell->ns);
}

static void say_cell_bytes(df_writer *w, const df_metric_cell *cell, const char *labels) {
  say_buckets(w, "run_bytes", labels, bytes_bounds, cell->sizes, DF_METRIC_BYTES);
  df_grow_format(w->text, "dfccl_run_bytes_sum{%s} %" PRIu64 "\n", labels, cell->bytes);
}

static void say_cell_failed(df_writer *w, const df_metric_cell *cell, const char *labels) {
  df_grow_format(w->text, "dfccl_failed_runs_total{%s} %" PRIu64 "\n", labels, cell->failed);
}

static void say_runs(df_writer *w) {
  say_head(w, "run_seconds", "histogram", "seconds",
           "Time of runs that succeeded, from dfcclRun to the end.");
  for_each(w, say_cell_seconds);
  say_head(w, "run_bytes", "histogram", "bytes",
           "Elements of runs that succeeded, times the size of an element.");
  for_each(w, say_cell_bytes);
  say_head(w, "failed_runs", "counter", NULL, "Runs that failed.");
  for_each(w, say_cell_failed);
}

static void say_waits(df_writer *w, uint32_t n_ranks) {
  say_head(w, "peer_wait_seconds", "counter", "seconds",
           "Time in which runs waited for the peer, sampled once a second.");
  for (uint32_t r = 0; r < n_ranks; r++) {
    if (w->values->waited_ns[r] == 0) continue;
    df_grow_format(w->text, "dfccl_peer_wait_seconds_total{rank=\"%u\",peer=\"%u\"}", w->rank, r);
    say_seconds(w, w->values->waited_ns[r]);
  }
}

static void say_statistics(df_writer *w) {
  const dfcclStats_t *s = &w->values->stats;
  say_one(w, "submitted_sqes", 1, NULL, s->sqesSubmitted, "sqesSubmitted of dfcclGetStats.");
  say_one(w, "fetched_sqes", 1, NULL, s->sqesFetched, "sqesFetched of dfcclGetStats.");
  say_one(w, "written_cqes", 1, NULL, s->cqesWritten, "cqesWritten of dfcclGetStats.");
  say_one(w, "callbacks", 1, NULL, s->callbacksRun, "Callbacks that have returned.");
  say_one(w, "preemptions", 1, NULL, s->preemptions, "Times that a collective was set aside.");
  say_one(w, "context_saves", 1, NULL, s->contextSaves, "Contexts that a block saved.");
  say_one(w, "context_loads", 1, NULL, s->contextLoads, "Contexts that a block loaded.");
  say_one(w, "daemon_starts", 1, NULL, s->daemonStarts, "Starts of the daemon.");
  say_one(w, "voluntary_quits", 1, NULL, s->voluntaryQuits, "Times that the daemon left.");
  say_one(w, "primitives", 1, NULL, s->primitivesExecuted, "Primitives that were executed.");
  say_one(w, "sent_bytes", 1, "bytes", s->bytesSent, "Bytes that were sent to other ranks.");
  say_one(w, "task_queue_length", 0, NULL, s->taskQueueLength,
          "Collectives in the task queues at the moment.");
  say_one(w, "task_queue_high_water", 0, NULL, s->taskQueueHighWater,
          "The longest task queue so far.");
}

static void say_job(df_writer *w) {
  const df_metric_values *v = w->values;
  say_one(w, "plan_switches", 1, NULL, v->switches, "Changes of a collective's algorithm.");
  say_one(w, "lost_connections", 1, NULL, v->losses, "Connections to other hosts that were lost.");
  say_one(w, "view", 0, NULL, v->view, "Number of the view of members; 0: the first one.");
  say_one(w, "registered_collectives", 0, NULL, v->registered, "Collectives at the moment.");
  say_one(w, "outstanding_runs", 0, NULL, v->outstanding, "Runs that have not ended.");
  say_one(w, "broken", 0, NULL, v->failed, "1: the context has failed.");
}

int df_metrics_say(dfcclContext_t context, df_growing_text *text) {
  df_metric_values *values = take_values(context);
  if (values == NULL) return 0;
  df_writer w = {.text = text, .rank = context->rank, .values = values};
  say_runs(&w);
  say_waits(&w, context->n_ranks);
  say_statistics(&w);
  say_job(&w);
  df_grow_text(text, "# EOF\n");
  free_values(values);
  return !text->failed;
}
