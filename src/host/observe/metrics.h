/* Metrics of a rank in the text format of OpenMetrics (DFCCL_METRICS=file:PATH or unix:PATH). The
 * service thread samples waits once a second, writes the file, and answers at the socket.
 * docs/METRICS.md lists the metrics. */
#ifndef DF_HOST_OBSERVE_METRICS_H
#define DF_HOST_OBSERVE_METRICS_H

#include "base/growing_text.h"
#include "base/mutex.h"
#include "host/state/context.h"

enum {
  DF_METRIC_SECONDS = 15, /* bounds of the histograms, without infinity */
  DF_METRIC_BYTES = 11,
  DF_METRIC_SAMPLE_MS = 1000
};

/* The runs of one operation by one algorithm. */
typedef struct df_metric_cell {
  uint64_t runs, failed, ns, bytes;
  uint64_t seconds[DF_METRIC_SECONDS + 1]; /* runs up to each bound, and beyond the last */
  uint64_t sizes[DF_METRIC_BYTES + 1];
} df_metric_cell;

typedef struct df_metric_cells {
  df_metric_cell of[DF_OP_ALL][DF_FROM_FILE + 1];
} df_metric_cells;

struct df_metrics_server;

typedef struct df_metrics {
  df_metric_cells cells; /* under the lock */
  uint64_t *waited_ns;   /* [n_ranks] sampled; under the lock */
  uint64_t sampled_ns;   /* the service thread owns this and the members below */
  uint64_t written_ns;   /* time of the latest file */
  char path[512];        /* %r and %p are replaced */
  int has_warned;
  struct df_metrics_server *server; /* NULL: there is a file, or no socket could be made */
} df_metrics;

/* From here on df_submit_run takes the time of every run. The service thread does not run yet.
 * dfcclInvalidUsage: DFCCL_METRICS has an invalid value. A file or socket that cannot be made costs
 * one warning. */
dfcclResult_t df_metrics_open(dfcclContext_t context);
/* The service thread does not run any more. Writes the file the last time. */
void df_metrics_close(dfcclContext_t context);
/* In a forked child: closes the descriptors. The file and the socket's name are the parent's. */
void df_metrics_close_in_child(dfcclContext_t context);

/* A run has ended that was submitted at that time. count: its elements, or 0 for the registered
 * count. */
void df_metrics_run(dfcclContext_t context, const df_coll *coll, uint64_t submitted_ns,
                    uint64_t count, dfcclResult_t status) DF_RANK_LOCKED;

/* Logs the first problem only. */
void df_metrics_warn(dfcclContext_t context, int error);

/* ---- metrics_text.c */

/* Returns 0 if there is no memory. The caller frees text->bytes in any case. */
int df_metrics_say(dfcclContext_t context, df_growing_text *text);
/* The place of a value in a histogram. */
uint32_t df_metric_seconds_place(uint64_t ns);
uint32_t df_metric_bytes_place(uint64_t bytes);

/* ---- metrics_socket.c */

/* Returns 0, or the number of the error. */
int df_metrics_listen(dfcclContext_t context);
void df_metrics_server_close(dfcclContext_t context);
/* Disconnects callers that have not read their answer in time. Returns the milliseconds until the
 * next one is due; -1: there is none. */
int df_metrics_expire(df_metrics *metrics);

#endif
