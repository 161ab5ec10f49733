/*
 * What a device asks of the host above it. The host fills the table before it opens the device; the
 * device calls it with no block in mid-step.
 */
#ifndef DF_DEVICES_UPWARD_H
#define DF_DEVICES_UPWARD_H

#include <pthread.h>

#include "base/result.h"
#include "devices/cpu/cores.h"

/* Part of a rank's card: what its peers must know about its device. */
typedef struct df_device_card {
  uint32_t backend; /* dfcclBackend_t */
  int32_t ordinal;  /* in its process */
  uint8_t uuid[16]; /* CUDA */
} df_device_card;

/* Runs that the device was given, and that it has told of. */
typedef struct df_device_runs {
  uint64_t pushed, seen;
} df_device_runs;

typedef struct df_device_host {
  void *host;            /* the argument of all of them */
  pthread_mutex_t *lock; /* [lock] in the headers of this room */
  /* A CQE may have been written: the host reaps it, and leaves callbacks to its poller. */
  void (*completed)(void *host);
  /* Moves waiting requests into the SQ; cheap when there are none. */
  void (*between_turns)(void *host);
  int (*has_outstanding)(void *host); /* runs submitted and not completed */
  df_device_runs (*count_runs)(void *host);
  /* Ranks by the processor that they were last seen on; NULL: executors do not look for emptier
   * cores. */
  void (*count_ranks)(void *host, uint16_t ranks[DF_CORES_SEEN]);
  /* Returns whether that rank lives in this process. */
  int (*read_card)(void *host, uint32_t rank, df_device_card *card);
  /* The daemon will complete nothing any more: the host fails every run, for this reason. */
  void (*lost)(void *host, const char *sentence);
} df_device_host;

#endif
