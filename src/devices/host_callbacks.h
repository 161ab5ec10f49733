/*
 * What a device asks of the host. The host fills the table before open. The device calls with no
 * block in mid-step.
 */
#ifndef DF_DEVICES_HOST_CALLBACKS_H
#define DF_DEVICES_HOST_CALLBACKS_H

#include <pthread.h>

#include "base/result.h"
#include "devices/cores.h"

/* What peers must know of a device. */
typedef struct df_device_info {
  uint32_t backend; /* dfcclBackend_t */
  int32_t ordinal;  /* in its process */
  uint8_t uuid[16]; /* CUDA */
  uint32_t has_mps; /* CUDA: processes share the GPU at one time */
} df_device_info;

/* seen: the device has told. */
typedef struct df_device_runs {
  uint64_t pushed, seen;
} df_device_runs;

typedef struct df_device_host {
  void *host;
  const void *job;           /* the same for the job's ranks in this process */
  pthread_mutex_t *lock;     /* [lock] in the headers of this room */
  const df_carrier *carrier; /* of messages to other hosts; NULL: none */
  /* A CQE may be there. Callbacks are left to the poller. */
  void (*completed)(void *host);
  /* Moves waiting requests into the SQ; cheap when none wait. */
  void (*between_turns)(void *host);
  int (*has_outstanding)(void *host);
  df_device_runs (*count_runs)(void *host);
  /* Ranks by last processor. NULL: executors never move. */
  void (*count_ranks)(void *host, uint16_t ranks[DF_CORES_SEEN]);
  /* Those whose numbers, modulo DF_TOLD_RANKS, are in the mask have news. */
  void (*tell_ranks)(void *host, uint64_t mask);
  /* Is the rank in this process? */
  int (*read_peer_info)(void *host, uint32_t rank, df_device_info *info);
  /* Gives up every run that is on a stream; NULL: lets the streams of those that were given up go
   * on.
   */
  void (*end_stream_runs)(void *host, const char *sentence);
  /* Nothing completes any more: the host fails every run. */
  void (*lost)(void *host, const char *sentence);
} df_device_host;

#endif
