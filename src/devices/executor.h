/* The execution of the blocks of the daemon, and the part of it that submitters and waiters do. */
#ifndef DF_DEVICES_EXECUTOR_H
#define DF_DEVICES_EXECUTOR_H

#include "base/bell.h"
#include "base/result.h"
#include "primitives/lanes.h"
#include "primitives/timers.h"

typedef struct df_rank_device df_rank_device;

/* This limit bounds the cost of a lost wake-up. */
#define DF_LONGEST_SLEEP_NS ((uint64_t)100 * 1000 * 1000)

/* A borrowed turn: a thread executes one turn of a collective without driving its block. A
 * submitter borrows the first turn of a run, a waiter the next turn. A run that ends in it pushes
 * no CQE. The caller releases the block, and then rings the bells. */
typedef struct df_borrowed_turn {
  uint32_t collective;
  uint32_t n_bells;
  df_bell *bells[DF_NOTED_BELLS];
} df_borrowed_turn;
/* Must follow a df_wake_fence. */
static inline void df_ring_borrowed(const df_borrowed_turn *turn, const df_carrier *carrier) {
  for (uint32_t i = 0; i < turn->n_bells; i++)
    if (DF_UNLIKELY(df_load_relaxed_u32(&turn->bells[i]->sleepers) != 0))
      df_carrier_wake(carrier, turn->bells[i]);
}

/* The thread keeps the blocks that it got, also while it sleeps. */
typedef struct df_progress_thread {
  struct df_executor *executor; /* NULL: the device needs no driver */
  uint64_t held;                /* one bit for each block that the thread has */
  int visits;                   /* 1: the host counts the thread as a waiter */
} df_progress_thread;

typedef struct df_executor_ops {
  /* These two apply to a waiter that does not hold all blocks. */
  uint32_t yields_before_nap;
  uint64_t nap_ns;

  /* stop requires that no run is outstanding. It is safe without a start. */
  dfcclResult_t (*start)(df_rank_device *device);
  void (*stop)(df_rank_device *device);

  /* See cpu/executor.h; NULL: not supported. The caller of claim_first_turn holds the lock. */
  int (*claim_first_turn)(df_rank_device *device, uint32_t collective);
  int (*first_turn)(df_rank_device *device, df_borrowed_turn *turn);
  int (*last_turn)(df_rank_device *device, df_borrowed_turn *turn);
  /* See df_executor_submitted. */
  void (*submitted)(df_rank_device *device, int urgent, int unlocked);

  /* See cpu/executor.h. */
  void (*progress_begin)(df_rank_device *device, df_progress_thread *progress);
  int (*progress_turn)(df_rank_device *device, df_progress_thread *progress, int start);
  int (*progress_has_reason)(df_rank_device *device, const df_progress_thread *progress);
  int (*progress_holds_all)(df_rank_device *device, const df_progress_thread *progress);
  void (*progress_release)(df_rank_device *device, df_progress_thread *progress);
  void (*progress_end)(df_rank_device *device, df_progress_thread *progress);

  /* Waits until every block that was running has left the device once. */
  dfcclResult_t (*synchronize)(df_rank_device *device);
  /* The host holds submissions back while synchronize waits. 0: synchronize may wait for runs. */
  int holds_while_synchronizing;

  /* NULL: the device has no timers. */
  dfcclResult_t (*get_times)(df_rank_device *device, df_timed kind, uint64_t *durations,
                             uint64_t *moments, size_t *count);
  /* NULL: the device records no events. Does the same as dfcclGetEvents, but with the indices of
   * collectives. */
  dfcclResult_t (*get_events)(df_rank_device *device, dfcclEvent_t *events, size_t *count);
} df_executor_ops;

#endif
