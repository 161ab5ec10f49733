/*
 * What one device's daemon works on. The host lays everything out; after the first start a block's
 * state is its executor's.
 */
#ifndef DF_DAEMON_KERNEL_BLOCK_H
#define DF_DAEMON_KERNEL_BLOCK_H

#include "base/atomic.h"
#include "base/limits.h"
#include "context/context_cache.h"
#include "context/descriptor.h"
#include "queues/cq.h"
#include "queues/sq.h"
#include "queues/task_queue.h"

/* CPU: in polls of a blocked primitive; an empty look for work is one poll. CUDA: in ns. */
typedef struct df_tunables {
  uint32_t spin_front;    /* At the front of the task queue; half as much at each later place. */
  uint32_t spin_min;      /* Least at any place. */
  uint32_t spin_boost;    /* Factor of the threshold after a success, until set aside. */
  uint32_t fetch_polls;   /* FIFO: fruitless polls before the next fetch. */
  uint32_t quit_polls;    /* Fruitless polls before the daemon leaves. */
  uint32_t preempt_every; /* test mode: set aside after every step */
  uint32_t life;          /* CUDA: of a launch; 0: no end */
  uint32_t doze;          /* CUDA: longest pause of a block that can only wait for input */
} df_tunables;

/* Its executor writes, anybody reads. */
typedef struct df_block_stats {
  uint64_t sqes_fetched, cqes_written, preemptions, starts, quits, primitives, bytes_sent;
} df_block_stats;

typedef struct df_device {
  df_sq sq;
  df_cq cq;
  df_descriptor **descriptors; /* [DF_MAX_COLLECTIVES] */
  df_tunables tunables;
  uint32_t n_blocks;
  /* The host writes these while blocks run. The first four are one look of 16 bytes on CUDA. */
  DF_ALIGNED(16) uint32_t by_priority; /* A collective has a priority that is not 0. */
  uint32_t exit;                       /* Blocks leave for good. */
  uint32_t failures;                   /* not 0: cancel words matter */
  uint32_t recalled;                   /* CUDA: the launch that must end */
  DF_ALIGNED(8) uint32_t stay;         /* CUDA: odd: blocks stay though there is nothing to do */
  uint32_t errands;                    /* CUDA: df_cuda_errand, the latest */
} df_device;

typedef struct df_block {
  df_device *device;
  uint32_t index;
  uint32_t running; /* The daemon was started and has not left. */
  uint64_t read_index;
  df_task_queue tasks;
  df_context_cache cache;

  uint32_t place;         /* Where the next pick begins in the task queue. */
  uint32_t quiet_polls;   /* Polls since progress or an SQE. */
  uint32_t blocked_polls; /* Polls since progress or a fetch. */
  /* Places tried since progress. From the queue's length on, each entry was tried. */
  uint32_t swept;
  df_context_slot *picked;
  uint32_t spin_limit;
  uint32_t picks;     /* Picks since the last one out of turn. */
  uint32_t fair_next; /* The next pick out of turn is this collective, or the next larger number. */
  uint32_t leaves;    /* One lane decides this; the others read it. */

  df_block_stats stats;

  /* CUDA */
  df_cq_end cq_end; /* of a launch */
  /* For the host, which tells ranks whose daemons may have left (df_told_encode). */
  uint64_t told[DF_TOLD_WORDS];
  uint64_t tellings;
} df_block;

/* Layout of a word: number of the telling, modulo 2^16 | ranks, modulo DF_TOLD_RANKS. So the words
 * need no order. */
DF_CORE uint64_t df_told_encode(uint64_t telling, uint64_t ranks) {
  return telling << DF_TOLD_RANKS | ranks;
}

/* Ranks of all tellings after *seen; all ranks if some are lost. */
static inline uint64_t df_told_since(const df_block *image, uint16_t *seen) {
  uint16_t most = 0, found = 0;
  uint64_t ranks = 0;
  for (uint32_t i = 0; i < DF_TOLD_WORDS; i++) {
    uint64_t word = df_load_relaxed_u64(&image->told[i]);
    uint16_t ahead = (uint16_t)((word >> DF_TOLD_RANKS) - *seen);
    if (ahead == 0 || ahead > UINT16_MAX / 2) continue;
    found++;
    most = DF_MAX(most, ahead);
    ranks |= word;
  }
  *seen = (uint16_t)(*seen + most);
  return (found == most ? ranks : ~(uint64_t)0) & (((uint64_t)1 << DF_TOLD_RANKS) - 1);
}

#endif
