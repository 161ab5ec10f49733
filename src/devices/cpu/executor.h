/*
 * The CPU's executor: one background thread for each block. A thread inside dfcclWait* may take
 * blocks over ("waiters drive"), so a blocking collective needs no hand-over.
 *
 * Who sleeps where:
 *   work bell   (shared with peers) the executor of a block that has left with work outstanding
 *   idle bell   background threads without work, or whose block somebody else drives
 */
#ifndef DF_DEVICES_CPU_EXECUTOR_H
#define DF_DEVICES_CPU_EXECUTOR_H

#include <pthread.h>

#include "base/bell.h"
#include "base/result.h"
#include "daemon_kernel/daemon.h"
#include "devices/cores.h"
#include "devices/executor.h"
#include "devices/host_callbacks.h"

typedef struct DF_ALIGNED(64) df_executor_block {
  uint32_t owner; /* 0: nobody */
  df_block *block;
  df_lanes lanes;
  df_move move;
  df_cores cores;
  uint32_t first_turns; /* [owner] since the queue was empty or had a turn */
  struct df_executor *executor;
  pthread_t thread;
} df_executor_block;

typedef struct df_executor {
  df_device *device;
  df_executor_block *blocks;
  uint32_t n_blocks, n_threads;
  df_device_host host;
  df_bell *work_bell;
  uint64_t nap_ns;
  DF_ALIGNED(64) df_bell idle_bell;
  DF_ALIGNED(64) uint32_t wanted; /* background threads make way */
  /* DF_INTERRUPT_LEAVES for each device synchronisation: a driver's stuck block leaves at once. */
  uint32_t synchronizers;
  uint32_t expects_waiter; /* submissions need not wake anybody */
  uint32_t deep_sleepers;  /* threads that only the idle bell wakes */
  uint32_t activity;       /* changes when somebody drove */
  uint32_t exit;
} df_executor;

/* A failure leaves nothing behind. */
dfcclResult_t df_executor_start(df_executor *executor, df_device *device, df_block *blocks,
                                const df_mover_cpu *mover, uint32_t yield_polls, uint64_t nap_ns,
                                df_bell *work_bell, df_device_host host);
/* Nothing is outstanding. */
void df_executor_stop(df_executor *executor);

/* After an SQE was pushed or a collective cancelled. urgent: do not count on waiters. unlocked:
 * a mutex was let go since. */
void df_executor_submitted(df_executor *executor, int urgent, int unlocked);

/* May the caller borrow a run's first turn, and push no SQE? Returns 1 if block 0 is on the
 * device and free, and no order is lost. The caller then owns the block until
 * df_executor_first_turn. Never waits. */
int df_executor_claim_first_turn(df_executor *executor, uint32_t collective);

/* Borrows the claimed turn, and gives the block back. The run's arguments are recorded, the
 * collective has one block, and its earlier runs are through. Returns 1 when the run is done. 0:
 * the run is queued; call df_executor_submitted. The caller rings the bells in either case. */
int df_executor_first_turn(df_executor *executor, df_borrowed_turn *turn);

/* A waiter borrows block 0's next turn if the block is free and the next collective has no other
 * block. Returns 1 when a run of turn->collective is done: the caller rings the bells. */
int df_executor_last_turn(df_executor *executor, df_borrowed_turn *turn);

void df_progress_begin(df_progress_thread *progress, df_executor *executor);
/* One turn of every block that the driver can get. start: blocks that have left may start.
 * Returns 0 when nothing can progress now. */
int df_progress_turn(df_progress_thread *progress, int start);
void df_progress_release(df_progress_thread *progress); /* before user code runs */
void df_progress_end(df_progress_thread *progress);
/* A reason to start a held block, looked for before sleep. */
int df_progress_has_reason(const df_progress_thread *progress);

/* Until every block on the device has left once. The caller drives, and starts no block. */
void df_executor_synchronize(df_executor *executor);

#endif
