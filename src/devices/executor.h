/*
 * The executor of a rank's device: who executes the daemon's blocks, and what a thread that submits
 * or waits does for it. devices/cpu/device.c and devices/cuda/device.c each fill one table.
 */
#ifndef DF_DEVICES_EXECUTOR_H
#define DF_DEVICES_EXECUTOR_H

#include "base/bell.h"
#include "base/result.h"
#include "primitives/lanes.h"
#include "primitives/timers.h"

typedef struct df_rank_device df_rank_device;

/* Every waker rings. The limit bounds the cost of a lost wake-up while work is outstanding. */
#define DF_LONGEST_SLEEP_NS ((uint64_t)100 * 1000 * 1000)

/*
 * A borrowed turn: a thread executes one turn of one collective without becoming its block's
 * driver. A submitter borrows a run's first turn, a waiter the turn of what is next. When the run
 * is done the caller is told, and no CQE is pushed. The caller rings the bells when it has given
 * the block back.
 */
typedef struct df_borrowed_turn {
  uint32_t collective;
  uint32_t n_bells;
  df_bell *bells[DF_NOTED_BELLS];
} df_borrowed_turn;
/* After a df_wake_fence. */
static inline void df_ring_borrowed(const df_borrowed_turn *turn) {
  for (uint32_t i = 0; i < turn->n_bells; i++)
    if (DF_UNLIKELY(df_load_relaxed_u32(&turn->bells[i]->sleepers) != 0))
      df_bell_wake(turn->bells[i]);
}

/* A thread that drives: begin, any number of turns, end. The thread holds the blocks that it could
 * get, also while it sleeps. */
typedef struct df_driver {
  struct df_executor *executor; /* the CPU's; NULL: the device needs no driver */
  uint64_t held;                /* bit by block */
  int visits;                   /* the host counts it among those that are inside its calls */
} df_driver;

typedef struct df_executor_ops {
  /* A waiter that does not hold all blocks yields so often before it naps, so long each time. */
  uint32_t yields_before_nap;
  uint64_t nap_ns;

  /* stop: final exit; nothing is outstanding. Safe if start failed or was not called. */
  dfcclResult_t (*start)(df_rank_device *device);
  void (*stop)(df_rank_device *device);

  /* Borrowed turns, see cpu/executor.h; NULL: none. A submitter claims a first turn under the lock,
   * and takes the turn without it. */
  int (*claim_first_turn)(df_rank_device *device, uint32_t collective);
  int (*first_turn)(df_rank_device *device, df_borrowed_turn *turn);
  /* A waiter has no lock. */
  int (*last_turn)(df_rank_device *device, df_borrowed_turn *turn);
  /* After an SQE was pushed, or a collective cancelled. urgent: do not count on waiters. unlocked:
   * the lock was let go since. */
  void (*submitted)(df_rank_device *device, int urgent, int unlocked);

  /* A thread that waits: see cpu/executor.h. */
  void (*drive_begin)(df_rank_device *device, df_driver *driver);
  int (*drive_turn)(df_rank_device *device, df_driver *driver, int start);
  int (*drive_has_reason)(df_rank_device *device, const df_driver *driver);
  int (*drive_holds_all)(df_rank_device *device, const df_driver *driver);
  void (*drive_release)(df_rank_device *device, df_driver *driver);
  void (*drive_end)(df_rank_device *device, df_driver *driver);

  /* Waits until every block that ran has left the device once. */
  dfcclResult_t (*synchronize)(df_rank_device *device);
  /* The host keeps back what is submitted meanwhile. 0: synchronize may wait for runs. */
  int holds_while_synchronizing;

  /* dfcclGetTimes; NULL: the device has no timers. */
  dfcclResult_t (*get_times)(df_rank_device *device, df_timed kind, uint64_t *durations,
                             uint64_t *moments, size_t *count);
} df_executor_ops;

#endif
