/* Runs in the order of an application's stream. */
#ifndef DF_DEVICES_STREAM_H
#define DF_DEVICES_STREAM_H

#include "base/result.h"

typedef struct df_stream_run {
  uint32_t ticket; /* 0: not on a stream */
  uint64_t number;
} df_stream_run;

typedef struct df_rank_device df_rank_device;

typedef struct df_stream_ops {
  /* begin: takes a ticket, and lets the stream say when it has come here. end: lets the stream wait
   * for the run. release [lock]: the run is through, or was never accepted. */
  dfcclResult_t (*begin)(df_rank_device *device, void *stream, df_stream_run *run);
  dfcclResult_t (*end)(df_rank_device *device, void *stream, const df_stream_run *run);
  void (*release)(df_rank_device *device, uint32_t ticket);

  /* Around calls of the library's own that wait for the device. While a run on a stream is
   * outstanding such a call would wait for the stream, and keep the daemon out: pause returns 0,
   * and the call must wait. Until resume, no run on a stream begins. */
  int (*pause)(void);
  void (*resume)(void);
} df_stream_ops;

#endif
