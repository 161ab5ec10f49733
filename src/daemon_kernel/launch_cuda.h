/* What a launch of the CUDA daemon is given, and what its blocks share. */
#ifndef DF_DAEMON_KERNEL_LAUNCH_CUDA_H
#define DF_DAEMON_KERNEL_LAUNCH_CUDA_H

#include "daemon_kernel/block.h"
#include "primitives/timers.h"

/* At launch any multiple of 32. */
enum { DF_CUDA_MAX_LANES = 512 };

/* df_device's words that the host writes while blocks run. */
typedef struct DF_ALIGNED(16) df_host_words {
  uint64_t priority_and_exit, failures_and_recalled; /* the former's words below */
} df_host_words;

/*
 * Blocks leave together: if one left alone, its collectives would wait for the busy blocks. A block
 * that has left its turns parks, and goes back if it has a reason, until no block is active.
 *
 * Nothing waits for a block that has not started: other kernels may be in its place. In device
 * memory, zeroed before the first launch.
 */
typedef struct df_cuda_gate {
  uint32_t active; /* started, and neither parked nor gone */
  uint32_t left;   /* latest launch that a block has left */
  uint32_t shown;  /* latest launch of block 0, which shows the host's words to the others: */
  uint32_t reserved;
  df_host_words words;
} df_cuda_gate;

/* One block polls the SQ across the bus for all. */
typedef struct df_cuda_relay {
  df_sq queue; /* in device memory, zeroed; as long as the SQ */
} df_cuda_relay;

/* Mapped. The host asks for the k-th time, and sees the k-th answer. */
typedef struct df_cuda_clock {
  uint64_t asked, answered, ns;
} df_cuda_clock;

/* Mapped. Block 0's signs of life. */
typedef struct df_cuda_pulse {
  uint64_t seen; /* launch << 32 | the df_device.stay that the launch obeys */
  uint64_t beat; /* changes every few ms */
} df_cuda_pulse;

/* Mapped. What block 0 copies for the host, who has no stream to itself: `words` words of 8 bytes.
 * One at a time: the host writes df_device.errands last, block 0 `done`. */
typedef struct df_cuda_errand {
  uint64_t *to;
  const uint64_t *from; /* mapped; NULL: zeros */
  uint64_t words;
  uint32_t done; /* the latest */
} df_cuda_errand;

typedef struct df_cuda_daemon {
  /* Copied at the start. */
  const df_device *device;
  /* Images: read at the start; written when a block begins to wait (without running), and at the
   * end (running last). The host sets running before the launch. cache.mask + 1 is a power of
   * two, at most DF_MAX_CONTEXT_SLOTS. */
  df_block *blocks;
  df_cuda_gate *gate;
  df_cuda_relay *relay;   /* NULL: all poll the SQ */
  uint32_t launch;        /* from 1 */
  df_time_log *times;     /* [n_blocks] mapped */
  df_cuda_pulse *pulse;   /* NULL: nobody looks */
  df_cuda_errand *errand; /* NULL: there are none */
} df_cuda_daemon;

#endif
