/* Who executes the daemon's blocks, and what submitters and waiters do for it. */
#ifndef DF_DEVICES_EXECUTOR_H
#define DF_DEVICES_EXECUTOR_H

#include "base/bell.h"
#include "base/result.h"
#include "primitives/lanes.h"
#include "primitives/timers.h"

typedef struct df_rank_device df_rank_device;

/* Bounds the cost of a lost wake-up. */
#define DF_LONGEST_SLEEP_NS ((uint64_t)100 * 1000 * 1000)

/*
 * A borrowed turn: a thread executes one turn of a collective without driving its block: a
 * submitter a run's first turn, a waiter the next turn. A finished run pushes no CQE. The caller
 * gives the block back, and then rings the bells.
 */
typedef struct df_borrowed_turn {
  uint32_t collective;
  uint32_t n_bells;
  df_bell *bells[DF_NOTED_BELLS];
} df_borrowed_turn;
/* After a df_wake_fence. */
static inline void df_ring_borrowed(const df_borrowed_turn *turn, const df_carrier *carrier) {
  for (uint32_t i = 0; i < turn->n_bells; i++)
    if (DF_UNLIKELY(df_load_relaxed_u32(&turn->bells[i]->sleepers) != 0))
      df_carrier_wake(carrier, turn->bells[i]);
}

/* The thread keeps the blocks that it got, also asleep. */
typedef struct df_progress_thread {
  struct df_executor *executor; /* NULL: no driver is needed */
  uint64_t held;                /* A bit for each block that the thread has. */
  int visits;                   /* 1: the host counts the thread among its visitors. */
} df_progress_thread;

typedef struct df_executor_ops {
  /* For a waiter that does not hold all blocks. */
  uint32_t yields_before_nap;
  uint64_t nap_ns;

  /* stop: nothing is outstanding. Safe without a start. */
  dfcclResult_t (*start)(df_rank_device *device);
  void (*stop)(df_rank_device *device);

  /* See cpu/executor.h; NULL: none. [lock] for claim_first_turn only. */
  int (*claim_first_turn)(df_rank_device *device, uint32_t collective);
  int (*first_turn)(df_rank_device *device, df_borrowed_turn *turn);
  int (*last_turn)(df_rank_device *device, df_borrowed_turn *turn);
  /* As df_executor_submitted. */
  void (*submitted)(df_rank_device *device, int urgent, int unlocked);

  /* See cpu/executor.h. */
  void (*progress_begin)(df_rank_device *device, df_progress_thread *progress);
  int (*progress_turn)(df_rank_device *device, df_progress_thread *progress, int start);
  int (*progress_has_reason)(df_rank_device *device, const df_progress_thread *progress);
  int (*progress_holds_all)(df_rank_device *device, const df_progress_thread *progress);
  void (*progress_release)(df_rank_device *device, df_progress_thread *progress);
  void (*progress_end)(df_rank_device *device, df_progress_thread *progress);

  /* Until every block that ran has left the device once. */
  dfcclResult_t (*synchronize)(df_rank_device *device);
  /* The host keeps submissions back meanwhile. 0: synchronize may wait for runs. */
  int holds_while_synchronizing;

  /* NULL: no timers. */
  dfcclResult_t (*get_times)(df_rank_device *device, df_timed kind, uint64_t *durations,
                             uint64_t *moments, size_t *count);
  /* As dfcclGetEvents, but with the collectives' indices. */
  dfcclResult_t (*get_events)(df_rank_device *device, dfcclEvent_t *events, size_t *count);
} df_executor_ops;

#endif
