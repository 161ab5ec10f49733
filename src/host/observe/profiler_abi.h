/* The calls of profiler plugins made for NCCL, of versions 1 to 6 (ncclProfiler_vN). */
#ifndef DF_HOST_OBSERVE_PROFILER_ABI_H
#define DF_HOST_OBSERVE_PROFILER_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { DF_PROFILER_OLDEST = 1, DF_PROFILER_NEWEST = 6 };

/* Bits of the events that a plugin requests. */
enum {
  DF_PROFILE_GROUP = 1 << 0,
  DF_PROFILE_COLL = 1 << 1,
  DF_PROFILE_PROXY_OP = 1 << 3,
  DF_PROFILE_PROXY_STEP = 1 << 4,
  DF_PROFILE_GROUP_API = 1 << 8, /* from version 5 on, like the next */
  DF_PROFILE_COLL_API = 1 << 9
};

typedef struct df_profiler_job {
  uint64_t number;
  const char *name; /* the plugin keeps the pointer */
  int n_hosts, n_ranks, rank;
  void (*log)(int level, unsigned long flags, const char *file, int line, const char *format, ...);
} df_profiler_job;

typedef struct df_profiled_run {
  int rank;
  const char *job_name;
  uint64_t job, number; /* identity of the job; number of the run */
  uint64_t on_device;   /* its number among the runs of the plan in use */
  int function;         /* NCCL's number; -1: NCCL has no such function */
  const char *operation, *type, *algorithm, *protocol;
  int nccl_algorithm, nccl_protocol; /* -1: NCCL has none */
  int nccl_type, nccl_operator;
  const void *send;
  void *recv;
  size_t count, bytes;
  int root;
  uint8_t blocks;
} df_profiled_run;

/* A network link of a run. */
typedef struct df_profiled_link {
  int rank, peer, sends;
  int messages, chunk_bytes;
  const uint8_t *ring; /* NULL: its messages are not reported */
  uint8_t block;
} df_profiled_link;

typedef struct df_profiler_table {
  const void *table;
  int version;
} df_profiler_table;

/* All functions return NCCL's result, 0 for success. A handle may stay NULL: the plugin has dropped
 * the event. */
const char *df_profiler_name(const df_profiler_table *plugin);
int df_profiler_init(const df_profiler_table *plugin, const df_profiler_job *job, void **context,
                     int *mask);
int df_profiler_start_group(const df_profiler_table *plugin, void *context, int rank, void *parent,
                            void **handle);
int df_profiler_start_group_api(const df_profiler_table *plugin, void *context, int rank,
                                void **handle);
int df_profiler_start_call(const df_profiler_table *plugin, void *context,
                           const df_profiled_run *run, void *parent, void **handle);
int df_profiler_start_run(const df_profiler_table *plugin, void *context,
                          const df_profiled_run *run, void *parent, void *group, void **handle);
int df_profiler_start_link(const df_profiler_table *plugin, void *context,
                           const df_profiled_link *link, void *parent, void **handle);
int df_profiler_start_step(const df_profiler_table *plugin, void *context, int rank, int step,
                           void *parent, void **handle);
/* Reports the phases of a step in one call: the data to be sent is there already, and received data
 * needs no flush, so the phases in between take no time. */
void df_profiler_step_moves(const df_profiler_table *plugin, void *handle, int sends, size_t bytes);
void df_profiler_step_moved(const df_profiler_table *plugin, void *handle, int sends);
int df_profiler_stop(const df_profiler_table *plugin, void *handle);
int df_profiler_finalize(const df_profiler_table *plugin, void *context);

#endif
