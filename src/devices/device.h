/* The device of a rank: CPU or GPU. The host calls it through executor.h, memory.h and stream.h;
 * the device calls the host through host_callbacks.h. */
#ifndef DF_DEVICES_DEVICE_H
#define DF_DEVICES_DEVICE_H

#include "base/mutex.h"
#include "base/result.h"
#include "daemon_kernel/block.h"
#include "devices/executor.h"
#include "devices/memory.h"
#include "devices/stream.h"
#include "devices/host_callbacks.h"
#include "primitives/turn_log.h"

typedef struct df_device_kind {
  const char *name;
  const df_executor_ops *executor;
  const df_memory_ops *memory;
  const df_stream_ops *streams; /* NULL: the device has no streams */
  int has_varying;              /* runs may have fewer elements than registered */
  /* The device calls functions of the application and multiplies by its scalars. */
  int has_user_operators;
  /* close also undoes an open that has failed halfway. */
  dfcclResult_t (*open)(df_rank_device *device);
  void (*close)(df_rank_device *device);
} df_device_kind;

typedef struct df_device_options {
  uint32_t n_blocks, queue_depth, context_slots;
  df_cq_variant cq;
  df_tunables tunables;
  struct {
    const df_mover_cpu *mover;
    uint32_t yield_polls;
    uint64_t nap_ns; /* sleep of a waiter while other threads execute blocks */
    int logs_turns;
  } cpu;
  struct {
    int ordinal;
    uint32_t threads, collectives;
    int relays, has_timers;
    int one_queue;        /* all streams share one hardware queue */
    uint64_t arena_bytes; /* least size of a segment */
    uint64_t restart_ns, restart_most_ns, nap_ns;
    uint64_t patience_ns; /* how long a stream waits for a launch that does not begin */
    uint64_t keep_ns;     /* how long daemons stay after the last run on a stream */
  } cuda;
} df_device_options;

struct df_rank_device {
  const df_device_kind *kind;
  const df_executor_ops *executor;
  const df_memory_ops *memory;
  const df_stream_ops *streams;

  /* Filled by open: */
  void *state;
  df_device *shared;
  df_block *blocks;          /* [shared->n_blocks] */
  const uint64_t **mappings; /* [DF_MAX_MAPPINGS] offsets to add to addresses */
  df_turn_log *turns;        /* [shared->n_blocks] NULL: turns are not recorded */
  uint32_t capacity;

  /* Filled by the host before open: */
  uint32_t rank, n_ranks;
  df_bell *work_bell; /* in memory that peers map */
  /* Used under the lock; has rings, and on the GPU also the arrays of collectives. */
  df_arena *arena;
  df_device_host host;
  df_device_options options;
};

extern const df_device_kind df_device_cpu;
extern const df_device_kind df_device_cuda;

/* Values that are still open: the automatic backend, ordinal -1, 0 blocks. */
typedef struct df_device_choice {
  dfcclBackend_t backend;
  int ordinal;
  int max_blocks;
  /* CUDA: least max_blocks where ranks share a GPU, if the library chooses it. */
  int shared_blocks;
  int launches_block; /* CUDA_LAUNCH_BLOCKING is on */
} df_device_choice;
dfcclResult_t df_device_choose(df_device_choice *choice);

void df_device_init(df_rank_device *device, dfcclBackend_t backend);

void df_device_fill_info(dfcclBackend_t backend, int ordinal, df_device_info *info);

/* The lock is released while the arena grows. */
dfcclResult_t df_device_take_range(df_rank_device *device, uint64_t bytes,
                                   df_range *range) DF_RANK_LOCKED;

/* These exist only in builds with CUDA: cuda/facts.c. */
dfcclResult_t df_cuda_choose(df_device_choice *choice);
void df_cuda_fill_info(int ordinal, df_device_info *info);

#endif
