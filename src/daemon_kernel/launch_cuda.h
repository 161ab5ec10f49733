/* The arguments of a launch of the CUDA daemon, and the memory that its blocks share. */
#ifndef DF_DAEMON_KERNEL_LAUNCH_CUDA_H
#define DF_DAEMON_KERNEL_LAUNCH_CUDA_H

#include "daemon_kernel/block.h"
#include "primitives/timers.h"

/* The number of lanes at launch is any multiple of 32. */
enum { DF_CUDA_MAX_LANES = 512 };

/* The words of df_device that the host writes while blocks run. */
typedef struct DF_ALIGNED(16) df_host_words {
  /* The first of the two names is the lower half. */
  uint64_t priority_and_exit, failures_and_recalled;
} df_host_words;

/*
 * Blocks leave together. If one left alone, its collectives would wait for the busy blocks. A block
 * that has ended its turns parks. It returns to work if it has a reason, until no block is active.
 *
 * No block waits for a block that has not started, because other kernels may occupy its place. The
 * gate is in device memory, zeroed before the first launch.
 */
typedef struct df_cuda_gate {
  uint32_t active; /* number of blocks that have started and are neither parked nor gone */
  uint32_t left;   /* number of the latest launch that a block has left */
  uint32_t shown;  /* number of the latest launch in which block 0 has copied the host's words here
                      for the other blocks: */
  uint32_t reserved;
  df_host_words words;
} df_cuda_gate;

/* With a relay, one block polls the SQ across the bus for all blocks. */
typedef struct df_cuda_relay {
  df_sq queue; /* in device memory, zeroed, with as many slots as the SQ */
} df_cuda_relay;

/* In mapped memory. The host asks for the k-th time, and reads the k-th answer. */
typedef struct df_cuda_clock {
  uint64_t asked, answered, ns;
} df_cuda_clock;

/* In mapped memory. Shows that block 0 is alive. */
typedef struct df_cuda_pulse {
  uint64_t seen; /* launch << 32 | the value of df_device.stay that the launch has read */
  uint64_t beat; /* a time that changes every few milliseconds */
} df_cuda_pulse;

/* A copy, or a fill with zeros, that block 0 executes for the host, which has no stream of its
 * own. */
typedef struct df_cuda_transfer {
  uint64_t *to;
  const uint64_t *from; /* mapped memory; NULL: the destination is zeroed */
  uint64_t words;       /* number of words of 8 bytes, one after the other; 0: rings */
  /* The destination is n_rings rings of links in a row. Only the words that an end reads before the
   * other end has written them are zeroed: each slot's first word, the credit and the hold word. */
  uint32_t n_rings, n_slots, stride;
} df_cuda_transfer;

/* In mapped memory. There is one transfer at a time. The host writes df_device.errands last, and
 * block 0 writes `done` last. */
typedef struct df_cuda_errand {
  df_cuda_transfer transfer;
  uint32_t done; /* number of the latest completed transfer */
} df_cuda_errand;

typedef struct df_cuda_daemon {
  /* Copied at the start of the launch. */
  const df_device *device;
  /* Images of blocks. A block reads its image at the start, and writes it when it begins to wait
   * (without running) and at the end (running last). The host sets running before the launch.
   * cache.mask + 1 is a power of two, at most DF_MAX_CONTEXT_SLOTS. */
  df_block *blocks;
  df_cuda_gate *gate;
  df_cuda_relay *relay;   /* NULL: all blocks poll the SQ */
  uint32_t launch;        /* number of the launch, from 1 */
  df_time_log *times;     /* [n_blocks] in mapped memory */
  df_cuda_pulse *pulse;   /* NULL: not read by the host */
  df_cuda_errand *errand; /* NULL: no copies for the host */
} df_cuda_daemon;

#endif
