/* The functions of the host that a device calls. The host fills in the table before open. The
 * device calls while no block is in the middle of a step. */
#ifndef DF_DEVICES_HOST_CALLBACKS_H
#define DF_DEVICES_HOST_CALLBACKS_H

#include <pthread.h>

#include "base/mutex.h"
#include "base/result.h"
#include "devices/cores.h"

/* The properties of a device that its peers need. */
typedef struct df_device_info {
  uint32_t backend; /* dfcclBackend_t */
  int32_t ordinal;  /* in its process */
  uint8_t uuid[16]; /* CUDA */
  uint32_t has_mps; /* CUDA: processes use the GPU at the same time */
} df_device_info;

/* seen: runs that the device has reported as read. */
typedef struct df_device_runs {
  uint64_t pushed, seen;
} df_device_runs;

typedef struct df_device_host {
  void *host;
  const void *job;           /* the same for all ranks of the job in this process */
  df_rank_mutex *lock;       /* the lock of the rank */
  const df_carrier *carrier; /* carrier of messages to other hosts; NULL: none */
  /* Reports that a CQE may be available. Callbacks are left to the poller. */
  void (*completed)(void *host);
  /* Moves waiting requests into the SQ; cheap if none are waiting. */
  void (*between_turns)(void *host);
  int (*has_outstanding)(void *host);
  df_device_runs (*count_runs)(void *host);
  /* Counts the ranks by their last processors. NULL: executors never move. */
  void (*count_ranks)(void *host, uint16_t ranks[DF_CORES_SEEN]);
  /* Notifies the ranks whose numbers, modulo DF_NOTIFIED_RANKS, are in the mask that they have been
   * sent messages. */
  void (*notify_ranks)(void *host, uint64_t mask);
  /* Reads the device info of a rank, and returns whether the rank is in this process. */
  int (*read_peer_info)(void *host, uint32_t rank, df_device_info *info);
  /* Gives up every run that is on a stream, with the sentence. With NULL, lets the streams of the
   * runs that were given up continue. */
  void (*end_stream_runs)(void *host, const char *sentence);
  /* Reports that the device is lost: no run completes any more, and the host fails every run. */
  void (*lost)(void *host, const char *sentence);
} df_device_host;

#endif
