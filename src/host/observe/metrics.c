#include "host/observe/metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/whole_file.h"
#include "control/service.h"
#include "host/observe/awaited_ranks.h"
#include "host/state/registry.h"
#include "primitives/elements/types.h"

#define WRITE_NS UINT64_C(5000000000)
#define SAMPLE_NS (DF_METRIC_SAMPLE_MS * UINT64_C(1000000))
enum { AWAITED = 64 };

static const char to_file[] = "file:", to_socket[] = "unix:";

static int has_file(const dfcclContext_t context) {
  return strncmp(context->settings.metrics, to_file, sizeof to_file - 1) == 0;
}

void df_metrics_warn(dfcclContext_t context, int error) {
  df_metrics *metrics = context->metrics;
  if (metrics->has_warned) return;
  metrics->has_warned = 1;
  df_log(DF_LOG_WARN, "rank %u: no metrics at %s (DFCCL_METRICS): %s", context->rank, metrics->path,
         strerror(error));
}

/* ---- runs ---- */

void df_metrics_run(dfcclContext_t context, const df_coll *coll, uint64_t submitted_ns,
                    uint64_t count, dfcclResult_t status) {
  const df_plan_key *key = &coll->exec.plan->key;
  df_metric_cell *cell =
      &context->metrics->cells.of[coll->operation][key->file ? DF_FROM_FILE : key->algorithm];
  if (status != dfcclSuccess) {
    cell->failed++;
    return;
  }
  if (coll->operation == DF_OP_ALL_TO_ALL_DYNAMIC) count = 0; /* it is no count */
  const uint64_t ns = submitted_ns ? df_clock_ns() - submitted_ns : 0,
                 bytes = (count ? count : coll->count) * df_type_size(coll->type);
  cell->runs++;
  cell->ns += ns;
  cell->bytes += bytes;
  cell->seconds[df_metric_seconds_place(ns)]++;
  cell->sizes[df_metric_bytes_place(bytes)]++;
}

/* ---- waits ---- */

/* UINT64_MAX: no run is in the device or behind it. */
static uint64_t oldest_ns(const df_coll *coll) DF_RANK_LOCKED {
  if (df_runs_in_device(coll) > 0)
    return coll->runs.in_device[df_slot_of(coll, coll->runs.retired)].submitted_ns;
  if (coll->runs.backlog_length > 0)
    return coll->runs.backlog[coll->runs.backlog_head].submitted_ns;
  return UINT64_MAX;
}

/* A peer for which several collectives wait counts once. */
static void sample_waits(dfcclContext_t context, uint64_t now) DF_RANK_LOCKED {
  df_metrics *metrics = context->metrics;
  const uint64_t since = metrics->sampled_ns;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = context->registry.by_index[i];
    uint32_t ranks[AWAITED];
    df_wait_cause cause;
    int more;
    if (coll == NULL || coll->registered || oldest_ns(coll) > since) continue;
    const uint32_t n = df_list_awaited(context, coll, &cause, ranks, AWAITED, &more);
    for (uint32_t j = 0; j < n; j++) metrics->waited_ns[ranks[j]] |= UINT64_C(1) << 63;
  }
  for (uint32_t r = 0; r < context->n_ranks; r++) {
    if (!(metrics->waited_ns[r] >> 63)) continue;
    metrics->waited_ns[r] &= ~(UINT64_C(1) << 63);
    metrics->waited_ns[r] += now - since;
  }
}

/* ---- the file ---- */

/* Returns 0, or the number of the error. */
static int write_file(dfcclContext_t context) {
  df_growing_text text = {0};
  const int error = df_metrics_say(context, &text)
                        ? df_write_whole_file(context->metrics->path, text.bytes, text.length)
                        : ENOMEM;
  free(text.bytes);
  return error;
}

static void write_now(dfcclContext_t context) {
  const int error = write_file(context);
  if (error) df_metrics_warn(context, error);
}

/* ---- the service thread ---- */

static int tick(void *room) {
  const dfcclContext_t context = room;
  const int expires = context->metrics->server ? df_metrics_expire(context->metrics) : -1;
  return expires >= 0 && expires < DF_METRIC_SAMPLE_MS ? expires : DF_METRIC_SAMPLE_MS;
}

static void run(void *room) {
  dfcclContext_t context = room;
  df_metrics *metrics = context->metrics;
  const uint64_t now = df_clock_ns();
  if (now - metrics->sampled_ns < SAMPLE_NS) return;
  df_rank_lock(&context->lock);
  sample_waits(context, now);
  df_rank_unlock(&context->lock);
  metrics->sampled_ns = now;
  if (!has_file(context) || now - metrics->written_ns < WRITE_NS) return;
  metrics->written_ns = now;
  write_now(context);
}

/* ---- opening and closing ---- */

/* Replaces %r by the rank and %p by the process. Returns 0 if the path is too long. */
static int expand(const dfcclContext_t context, const char *pattern, char *path, size_t bytes) {
  size_t used = 0;
  for (; *pattern && used < bytes; pattern++) {
    const int is_rank = pattern[0] == '%' && pattern[1] == 'r',
              is_process = pattern[0] == '%' && pattern[1] == 'p';
    if (is_rank || is_process) pattern++;
    if (is_rank)
      used += (size_t)snprintf(path + used, bytes - used, "%u", context->rank);
    else if (is_process)
      used += (size_t)snprintf(path + used, bytes - used, "%d", (int)getpid());
    else
      used += (size_t)snprintf(path + used, bytes - used, "%c", *pattern);
  }
  return used < bytes;
}

static dfcclResult_t check_value(const dfcclContext_t context) {
  const char *value = context->settings.metrics;
  const struct sockaddr_un *address = NULL;
  char path[sizeof context->metrics->path];
  const int is_socket = strncmp(value, to_socket, sizeof to_socket - 1) == 0;
  if ((!has_file(context) && !is_socket) || value[sizeof to_file - 1] != '/')
    return df_fail(dfcclInvalidUsage,
                   "environment variable DFCCL_METRICS is \"%s\"; it must be file:PATH or "
                   "unix:PATH, and PATH must begin with /",
                   value);
  if (context->n_ranks > 1 && strstr(value, "%r") == NULL)
    return df_fail(dfcclInvalidUsage,
                   "environment variable DFCCL_METRICS is \"%s\"; the path must contain %%r, which "
                   "is replaced by the rank, because the job has %u ranks",
                   value, context->n_ranks);
  const size_t most = is_socket ? sizeof address->sun_path - sizeof ".new" : sizeof path - 1;
  if (!expand(context, value + sizeof to_file - 1, path, sizeof path) || strlen(path) > most)
    return df_fail(dfcclInvalidUsage,
                   "environment variable DFCCL_METRICS is \"%s\"; the path of a %s has at most "
                   "%zu characters",
                   value, is_socket ? "socket" : "file", most);
  return dfcclSuccess;
}

static void free_metrics(dfcclContext_t context) {
  free(context->metrics->waited_ns);
  free(context->metrics);
  context->metrics = NULL;
}

dfcclResult_t df_metrics_open(dfcclContext_t context) {
  if (context->settings.metrics[0] == '\0') return dfcclSuccess;
  const dfcclResult_t result = check_value(context);
  if (result != dfcclSuccess) return result;
  df_metrics *metrics = context->metrics = calloc(1, sizeof *metrics);
  if (metrics != NULL) metrics->waited_ns = calloc(context->n_ranks, sizeof *metrics->waited_ns);
  if (metrics == NULL || metrics->waited_ns == NULL) {
    if (metrics) free_metrics(context);
    return df_fail(dfcclOutOfMemory, "no memory for the metrics");
  }
  expand(context, context->settings.metrics + sizeof to_file - 1, metrics->path,
         sizeof metrics->path);
  metrics->sampled_ns = df_clock_ns();
  df_store_relaxed_u32(&context->runs.timing, context->runs.timing + 1);
  if (has_file(context)) {
    write_now(context);
  } else {
    const int error = df_metrics_listen(context);
    if (error) df_metrics_warn(context, error);
  }
  df_service_add_job(&context->control, context, tick, run);
  return dfcclSuccess;
}

void df_metrics_close(dfcclContext_t context) {
  if (context->metrics == NULL) return;
  if (has_file(context)) write_now(context);
  df_metrics_server_close(context);
  free_metrics(context);
}
