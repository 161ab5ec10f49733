/* The CUDA device of one rank. All CUDA calls are here and in transports/ipc/segment_cuda.c. */
#ifndef DF_DEVICES_CUDA_STATE_H
#define DF_DEVICES_CUDA_STATE_H

#include <cuda_runtime_api.h>

#include "base/mutex.h"
#include "daemon_kernel/daemon_cuda.h"
#include "devices/device.h"
#include "transports/ipc/segment_cuda.h"

enum {
  DF_CUDA_REACHES = 256,                             /* allocations that can be lent */
  DF_CUDA_TICKETS = 1 << DF_STREAM_EVENT_INDEX_BITS, /* runs on streams at one time */
  DF_CUDA_STAGING_BYTES = 65536,
  /* Default numbers of blocks: at most MOST_BLOCKS, and at most one block for BLOCK_SHARE
   * multiprocessors. The SHARED constants apply where ranks share the GPU. */
  DF_CUDA_MOST_BLOCKS = 32,
  DF_CUDA_BLOCK_SHARE = 4,
  DF_CUDA_SHARED_BLOCKS = 8,
  DF_CUDA_SHARED_BLOCK_SHARE = 8
};

typedef struct df_cuda_facts {
  int ordinal, multiprocessors, major, minor;
  int has_stream_operations; /* cuStreamWaitValue64 and cuStreamWriteValue64 */
  uint8_t uuid[16];
  char name[64];
} df_cuda_facts;

typedef int (*df_cuda_stream_operation)(cudaStream_t stream, uint64_t address, uint64_t value,
                                        unsigned flags); /* the signature of the driver functions */

/* stream.c */
typedef struct df_stream_event {
  uint64_t input, wanted, output;
  uint64_t reserved;
} df_stream_event;

typedef struct df_cuda_moment {
  uint64_t device_ns, host_ns;
} df_cuda_moment;

typedef struct df_cuda_state {
  df_cuda_facts facts;
  void *primary;     /* the primary context of the device */
  int *peer_devices; /* [n_ranks] ordinal here; -1: not visible */
  int *peer_lends;   /* [n_ranks] df_memory_ops.lends_memory_to */

  /* mapped page-locked memory */
  void *mapped;
  df_device *device;
  df_run_words *words;       /* [capacity] */
  uint64_t *progress;        /* [capacity][max_blocks] */
  df_stream_event *tickets;  /* [DF_CUDA_TICKETS] */
  const uint64_t **mappings; /* [DF_MAX_MAPPINGS] */
  uint64_t *mapping_rows;    /* [DF_CUDA_REACHES][n_ranks] */
  uint8_t *staging;
  df_time_log *times; /* [max_blocks] NULL: no timers */
  df_cuda_clock *clock;
  df_cuda_pulse *pulse;
  df_cuda_errand *errand;
  uint8_t mapping_taken[DF_CUDA_REACHES];

  /* device memory */
  uint8_t *memory;
  size_t memory_bytes, shared_bytes; /* bytes in total; shared memory of one block */
  df_descriptor *constants;          /* [capacity] */
  uint64_t *inputs;                  /* [DF_CUDA_TICKETS], copies of df_stream_event.input */
  df_cuda_gate *gate;
  df_cuda_relay *relay; /* NULL: all blocks poll the SQ */

  cudaStream_t daemon_stream, upload_stream;

  /* launching: executor.c */
  pthread_t launcher;
  int launcher_started;
  uint32_t stopping, lost;
  uint32_t grid; /* number of blocks of the published collectives */
  uint32_t launch, launched_grid;
  uint32_t urgent;          /* a collective was given up */
  uint32_t notified_before; /* value of work_bell->notifications at the launch */
  uint16_t notified_seen[DF_MAX_BLOCKS];
  uint64_t beat_seen; /* latest beat of the pulse that was seen */
  uint64_t progress_seen, restart_ns, restart_at_ns, launched_ns, ask_at_ns;
  cudaEvent_t asked; /* recorded to check whether the device takes commands */

  /* streams */
  df_cuda_stream_operation write_value, wait_value; /* NULL: small kernels replace them */
  uint32_t next_ticket;

  /* keep_resident.c */
  df_rank_device *next; /* next rank of the process */
  /* Largest number of blocks of a registered collective. */
  uint32_t widest DF_GUARDED_BY(df_rank_role);
  uint32_t launched_stay; /* df_device.stay before the latest launch */
  uint64_t stuck_since_ns, scan_at_ns;
  int has_given_up;

  df_cuda_moment opened; /* timers */
} df_cuda_state;

static inline df_cuda_state *df_cuda_state_of(df_rank_device *device) { return device->state; }

/* facts.c */
dfcclResult_t df_cuda_fail(cudaError_t error, const char *what); /* records the sentence */
dfcclResult_t df_cuda_read_facts(df_cuda_facts *facts, int ordinal);
/* Loads all kernels now, because a later load would wait for the daemon. */
dfcclResult_t df_cuda_load_everything(df_rank_device *device);
dfcclResult_t df_cuda_find_peers(df_rank_device *device);

/* device.c */
dfcclResult_t df_cuda_upload(df_rank_device *device, void *to, const void *from, size_t bytes);
dfcclResult_t df_cuda_clear_memory(df_rank_device *device, void *to, size_t bytes);
dfcclResult_t df_cuda_clear_rings(df_rank_device *device, const df_device_rings *rings);

/* collectives.c */
dfcclResult_t df_cuda_describe(df_rank_device *device, df_device_coll *coll);
void df_cuda_forget(df_rank_device *device, df_device_coll *coll);
dfcclResult_t df_cuda_publish(df_rank_device *device, df_device_coll *coll) DF_RANK_LOCKED;
dfcclResult_t df_cuda_clear(df_rank_device *device, const df_device_rings *rings);

/* executor.c */
dfcclResult_t df_cuda_start(df_rank_device *device);
void df_cuda_stop(df_rank_device *device);
void df_cuda_submitted(df_rank_device *device, int urgent, int unlocked);
void df_cuda_grow(df_rank_device *device,
                  uint32_t blocks) DF_RANK_LOCKED; /* to at least this many blocks */
dfcclResult_t df_cuda_synchronize(df_rank_device *device);

/* times.c */
dfcclResult_t df_cuda_compare_clocks(df_cuda_state *state, df_cuda_moment *now);
uint64_t df_cuda_host_ns(const df_cuda_moment *first, const df_cuda_moment *last, uint64_t moment);
double df_cuda_ns_of_cycle(const df_time_log *log); /* cycles of a block in nanoseconds */
dfcclResult_t df_cuda_get_times(df_rank_device *device, df_timed kind, uint64_t *durations,
                                uint64_t *moments, size_t *count);

/* events.c */
dfcclResult_t df_cuda_reported_times(df_rank_device *device, df_timed kind,
                                     const df_cuda_moment *now, uint64_t *durations,
                                     uint64_t *moments, size_t *count);
dfcclResult_t df_cuda_get_events(df_rank_device *device, dfcclEvent_t *events, size_t *count);

/* stream.c */
void df_cuda_find_stream_operations(df_cuda_state *state);
dfcclResult_t df_cuda_stream_begin(df_rank_device *device, void *stream, df_stream_run *run);
dfcclResult_t df_cuda_stream_end(df_rank_device *device, void *stream, const df_stream_run *run);
void df_cuda_stream_release(df_rank_device *device, uint32_t stream_event);
uint32_t df_cuda_runs_on_streams(void); /* outstanding runs on streams of the process */
/* Returns whether daemons need not stay: there is no run on a stream of the process, and there has
 * been none for this time, or a call of the library waits for the device. */
int df_cuda_streams_are_idle(uint64_t ns);
int df_cuda_pause_streams(void);
void df_cuda_resume_streams(void);

/* keep_resident.c */
void df_cuda_enlist(df_rank_device *device);
void df_cuda_delist(df_rank_device *device);
/* Must precede the wait of a stream. Ensures that every rank of the process on the GPU has a launch
 * that stays. Polls, then sleeps, until the launchers have launched, for at most patience_ns. */
void df_cuda_reside(df_rank_device *device);
/* Returns whether another rank of the job, on this GPU and in this process, has a run on a
 * stream. */
int df_cuda_has_streaming_mate(const df_rank_device *device, uint32_t *rank);
/* Called by the launcher. */
void df_cuda_end_residence(df_rank_device *device);
int df_cuda_stays_on_device(const df_cuda_state *state);
/* Called by the launcher. late_since_ns: time since which a launch has not begun; 0: it has begun,
 * or there is none. */
void df_cuda_guard(df_rank_device *device, uint64_t late_since_ns);

#endif
