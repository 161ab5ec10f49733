/*
 * A rank's device: CPU or GPU. The host calls it through executor.h, memory.h and stream.h; the
 * device calls the host through host_callbacks.h.
 */
#ifndef DF_DEVICES_DEVICE_H
#define DF_DEVICES_DEVICE_H

#include "base/result.h"
#include "daemon_kernel/block.h"
#include "devices/executor.h"
#include "devices/memory.h"
#include "devices/stream.h"
#include "devices/host_callbacks.h"

typedef struct df_device_kind {
  const char *name;
  const df_executor_ops *executor;
  const df_memory_ops *memory;
  const df_stream_ops *streams; /* NULL: none */
  int has_varying;              /* runs may have fewer elements than registered */
  int has_user_operators;       /* calls the application's functions, multiplies by its scalars */
  /* close also undoes an open that failed half-way. */
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
    uint64_t nap_ns; /* A waiter's sleep while others execute blocks. */
  } cpu;
  struct {
    int ordinal;
    uint32_t threads, collectives;
    int relays, has_timers;
    int one_queue;        /* of hardware, for all streams */
    uint64_t arena_bytes; /* Least size of a segment. */
    uint64_t restart_ns, restart_most_ns, nap_ns;
    uint64_t patience_ns; /* of a stream with what does not begin */
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
  const uint64_t **mappings; /* [DF_MAX_REACHES] what to add to addresses */
  uint32_t capacity;

  /* Filled by the host before open: */
  uint32_t rank, n_ranks;
  df_bell *work_bell; /* in memory that peers map */
  df_arena *arena;    /* [lock] rings; GPU: collectives' arrays, too */
  df_device_host host;
  df_device_options options;
};

extern const df_device_kind df_device_cpu;
extern const df_device_kind df_device_cuda;

/* Open: the automatic backend, ordinal -1, 0 blocks. */
typedef struct df_device_choice {
  dfcclBackend_t backend;
  int ordinal;
  int max_blocks;
  int shared_blocks;  /* CUDA, the library's choice: least of max_blocks where ranks share a GPU */
  int launches_block; /* CUDA_LAUNCH_BLOCKING is on */
} df_device_choice;
dfcclResult_t df_device_choose(df_device_choice *choice);

void df_device_init(df_rank_device *device, dfcclBackend_t backend);

void df_device_fill_info(dfcclBackend_t backend, int ordinal, df_device_info *info);

/* [lock], let go while the arena grows. */
dfcclResult_t df_device_take_range(df_rank_device *device, uint64_t bytes, df_range *range);

/* Only with CUDA: cuda/facts.c. */
dfcclResult_t df_cuda_choose(df_device_choice *choice);
void df_cuda_fill_info(int ordinal, df_device_info *info);

#endif
