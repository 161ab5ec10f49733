/* Runs in the order of a stream of the application. */
#ifndef DF_DEVICES_STREAM_H
#define DF_DEVICES_STREAM_H

#include "base/result.h"

typedef struct df_stream_run {
  uint32_t stream_event; /* 0: the run is not on a stream */
  uint64_t number;
} df_stream_run;

typedef struct df_rank_device df_rank_device;

typedef struct df_stream_ops {
  /* begin reserves a stream event that the stream will write. end makes the stream wait for the
   * run. release is called with the lock when the run has ended or was not accepted. */
  dfcclResult_t (*begin)(df_rank_device *device, void *stream, df_stream_run *run);
  dfcclResult_t (*end)(df_rank_device *device, void *stream, const df_stream_run *run);
  void (*release)(df_rank_device *device, uint32_t stream_event);

  /* These two enclose calls of the library that wait for the device. Such a call would wait for the
   * stream of a run, and prevent launches of the daemon. So pause returns 0 while runs are
   * outstanding, and no run begins until resume. */
  int (*pause)(void);
  void (*resume)(void);
} df_stream_ops;

#endif
