/*
 * A rank's device: the CPU (devices/cpu) or a GPU (devices/cuda). The host knows it by three
 * interfaces: executor.h, memory.h, stream.h.
 */
#ifndef DF_DEVICES_DEVICE_H
#define DF_DEVICES_DEVICE_H

#include "base/result.h"
#include "daemon_kernel/block.h"
#include "devices/executor.h"
#include "devices/memory.h"
#include "devices/stream.h"

struct df_settings;

typedef struct df_device_kind {
  const char *name;
  const df_executor_ops *executor;
  const df_memory_ops *memory;
  const df_stream_ops *streams; /* NULL: the device has none */
  /* open: fills in all that a df_rank_device lacks; the shared memory is laid out and zeroed.
   * close undoes it, also if open failed half-way. */
  dfcclResult_t (*open)(dfcclContext_t context);
  void (*close)(dfcclContext_t context);
} df_device_kind;

/* One rank's device. */
typedef struct df_rank_device {
  const df_device_kind *kind;
  const df_executor_ops *executor; /* the kind's, one step nearer */
  const df_memory_ops *memory;
  const df_stream_ops *streams;
  void *state;        /* the device's own */
  df_device *shared;  /* what the daemon's blocks share */
  df_block *blocks;   /* [shared->n_blocks] */
  uint32_t capacity;  /* collectives that the device has room for */
  df_bell *work_bell; /* the host's, in memory that peers map */
} df_rank_device;

extern const df_device_kind df_device_cpu;
/* Of a library that was built with CUDA. */
extern const df_device_kind df_device_cuda;

/* Chooses the kind. The device is not open. */
void df_device_init(df_rank_device *device, const struct df_settings *settings);

/* Part of a rank's card: what its peers must know about its device. */
typedef struct df_device_card {
  uint32_t backend; /* dfcclBackend_t */
  int32_t ordinal;  /* in its process */
  uint8_t uuid[16]; /* CUDA */
} df_device_card;
void df_device_fill_card(const struct df_settings *settings, df_device_card *card);

/* Of a library that was built with CUDA: cuda/facts.c. */
dfcclResult_t df_cuda_choose(struct df_settings *settings);
void df_cuda_fill_card(const struct df_settings *settings, df_device_card *card);

#endif
