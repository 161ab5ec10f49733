/*
 * What one device's daemon works on: df_device, which its blocks share, and each block's own
 * df_block. The host lays them out before the first start. From then on a block's state is its
 * executor's.
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

/* Scheduling numbers, in polls of a blocked primitive (an empty look for work counts as one). */
typedef struct df_tunables {
  uint32_t spin_front;    /* threshold at the front; half as much at each later place */
  uint32_t spin_min;      /* but no less than this */
  uint32_t spin_boost;    /* factor after a success, until the collective is set aside */
  uint32_t fetch_polls;   /* FIFO: polls without progress before the next fetch */
  uint32_t quit_polls;    /* polls without progress or SQE before the daemon leaves */
  uint32_t preempt_every; /* 1: set aside after every step (a test mode) */
} df_tunables;

/* Counters of one block: its executor writes, anybody looks. */
typedef struct df_block_stats {
  uint64_t sqes_fetched, cqes_written, preemptions, starts, quits, primitives, bytes_sent;
} df_block_stats;

typedef struct df_device {
  df_sq sq;
  df_cq cq;
  df_descriptor **descriptors; /* [DF_MAX_COLLECTIVES] */
  df_tunables tunables;
  uint32_t n_blocks;
  /* Words that the host writes while blocks run. */
  DF_ALIGNED(16) uint32_t by_priority; /* a priority other than 0 has been registered */
  uint32_t exit;                       /* final exit: leave for good */
  uint32_t failures;                   /* collectives given up; not 0: their cancel words matter */
  uint32_t recalled;                   /* CUDA: the launch that is to end at its next turns */
} df_device;

typedef struct df_block {
  df_device *device;
  uint32_t index;
  uint32_t running; /* on the device: between start and leaving */
  uint64_t read_index;
  df_task_queue tasks;
  df_context_cache cache;

  /* the scheduler's */
  uint32_t place;         /* of the next pick */
  uint32_t quiet_polls;   /* since the last progress or SQE */
  uint32_t blocked_polls; /* since the last progress or fetch */
  /* Places visited since the last progress: every entry has been tried when >= length. */
  uint32_t swept;
  df_context_slot *picked;
  uint32_t spin_limit;
  uint32_t picks;     /* by priority: since the last one out of turn */
  uint32_t fair_next; /* by priority: out of turn comes this collective, or the next larger */
  uint32_t leaves;    /* the turn's last decision, for the lanes that did not take it */

  df_block_stats stats;
} df_block;

#endif
