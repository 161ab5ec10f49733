/*
 * The state of one device's daemon. The host initialises all of it. After the first start only a
 * block's executor changes the block's state.
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

/* Thresholds of the daemon. On the CPU the unit is a poll of a blocked primitive, and a look for
 * work that finds none counts as one poll. On CUDA the unit is a nanosecond. */
typedef struct df_tunables {
  uint32_t spin_front;    /* threshold at the front of the task queue; half as much at each later
                             place */
  uint32_t spin_min;      /* least threshold at any place */
  uint32_t spin_boost;    /* factor of the threshold after a success, until the collective is set
                             aside */
  uint32_t fetch_polls;   /* FIFO: polls without success before the next fetch */
  uint32_t quit_polls;    /* polls without success before the daemon leaves */
  uint32_t preempt_every; /* test mode: a collective is set aside after every step */
  uint32_t life;          /* CUDA: duration of a launch; 0: unlimited */
  uint32_t doze;          /* CUDA: longest pause of a block that can only wait for input */
} df_tunables;

/* The block's executor writes the counters, and any thread may read them. */
typedef struct df_block_stats {
  uint64_t sqes_fetched, cqes_written, preemptions, starts, quits, primitives, bytes_sent;
} df_block_stats;

typedef struct df_device {
  df_sq sq;
  df_cq cq;
  df_descriptor **descriptors; /* [DF_MAX_COLLECTIVES] */
  df_tunables tunables;
  uint32_t n_blocks;
  /* The host writes the following words while blocks run. On CUDA one access of 16 bytes reads the
   * first four. */
  DF_ALIGNED(16) uint32_t by_priority; /* 1: a collective has a priority other than 0 */
  uint32_t exit;                       /* 1: blocks leave and are not started again */
  uint32_t failures;                   /* not 0: a collective has been given up, so cancel words
                                          must be read */
  uint32_t recalled;                   /* CUDA: number of the launch that must end */
  DF_ALIGNED(8) uint32_t stay;         /* CUDA: odd: blocks stay even if there is nothing to do */
  uint32_t errands;                    /* CUDA: number of the latest df_cuda_errand */
} df_device;

typedef struct df_block {
  df_device *device;
  uint32_t index;
  uint32_t running; /* 1: the daemon was started and has not left */
  uint64_t read_index;
  df_task_queue tasks;
  df_context_cache cache;

  uint32_t place;         /* place in the task queue at which the next pick begins */
  uint32_t quiet_polls;   /* polls since the last progress or SQE */
  uint32_t blocked_polls; /* polls since the last progress or fetch */
  /* Number of places that were tried since the last progress. From the queue's length on, each
   * entry has been tried. */
  uint32_t swept;
  df_context_slot *picked;
  uint32_t spin_limit;
  uint32_t picks;     /* picks since the last one out of turn */
  uint32_t fair_next; /* collective that the next pick out of turn takes, or the next
                         larger number */
  uint32_t leaves;    /* one lane decides this, and the others read it */

  df_block_stats stats;

  /* CUDA only: */
  df_cq_end cq_end; /* this block's end of the CQ during a launch */
  /* Ranks that the host must wake, since their daemons may have left (df_notified_encode). */
  uint64_t notified[DF_NOTIFIED_WORDS];
  uint64_t n_notifications;
} df_block;

/* Layout of a word: number of the entry, modulo 2^16 | bits of ranks, modulo DF_NOTIFIED_RANKS.
 * Each word has its number, so the words need no order. */
DF_CORE uint64_t df_notified_encode(uint64_t entry, uint64_t ranks) {
  return entry << DF_NOTIFIED_RANKS | ranks;
}

/* Returns the ranks of all entries after number *seen; if some entries have been overwritten, all
 * ranks. */
static inline uint64_t df_notified_since(const df_block *image, uint16_t *seen) {
  uint16_t most = 0, found = 0;
  uint64_t ranks = 0;
  for (uint32_t i = 0; i < DF_NOTIFIED_WORDS; i++) {
    uint64_t word = df_load_relaxed_u64(&image->notified[i]);
    uint16_t ahead = (uint16_t)((word >> DF_NOTIFIED_RANKS) - *seen);
    if (ahead == 0 || ahead > UINT16_MAX / 2) continue;
    found++;
    most = DF_MAX(most, ahead);
    ranks |= word;
  }
  *seen = (uint16_t)(*seen + most);
  return (found == most ? ranks : ~(uint64_t)0) & (((uint64_t)1 << DF_NOTIFIED_RANKS) - 1);
}

#endif
