/*
 * The CPU's executor: threads that execute a daemon's blocks. Each block has one background thread.
 * A thread inside dfcclWait* may take blocks over and run their turns itself ("waiters drive"), so
 * a blocking collective costs no hand-over between threads. The owner word gives a block one
 * executor at a time.
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
#include "devices/cpu/cores.h"
#include "devices/executor.h"
#include "devices/upward.h"

typedef struct DF_ALIGNED(64) df_executor_block {
  uint32_t owner; /* 0: nobody, 1: somebody executes the block */
  df_block *block;
  df_lanes lanes;
  df_move move;
  df_cores cores;
  uint32_t first_turns; /* [owner] since the task queue was empty or had a turn */
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
  DF_ALIGNED(64) uint32_t wanted; /* 1: somebody wants to drive: background threads make way */
  /* DF_INTERRUPT_LEAVES for each device synchronisation in progress. A driver's block that cannot
   * go on then leaves at once, because its patience would only delay the synchronisation. */
  uint32_t synchronizers;
  uint32_t expects_waiter; /* the latest runs were waited for: a submission need not wake anybody */
  uint32_t deep_sleepers;  /* background threads that only the idle bell wakes */
  uint32_t activity;       /* changes whenever somebody drove */
  uint32_t exit;
} df_executor;

/* Starts the background threads. The blocks are laid out. A failure leaves nothing behind. */
dfcclResult_t df_executor_start(df_executor *executor, df_device *device, df_block *blocks,
                                const df_mover_cpu *mover, uint32_t yield_polls, uint64_t nap_ns,
                                df_bell *work_bell, df_device_host host);
/* Final exit: blocks leave and threads end. Nothing is outstanding. */
void df_executor_stop(df_executor *executor);

/* After an SQE was pushed or a collective cancelled: somebody will look. urgent: do not count on
 * waiters. unlocked: the caller has let go of a mutex since. */
void df_executor_submitted(df_executor *executor, int urgent, int unlocked);

/* May the caller borrow the first turn of a run, and push no SQE? Returns 1 if block 0 is on the
 * device, nobody executed it, and no order is lost: the SQ is empty, and the task queue has no
 * earlier run of the collective. If priorities count, the task queue must be empty. The caller then
 * owns the block until df_executor_first_turn. Never waits. */
int df_executor_claim_first_turn(df_executor *executor, uint32_t collective);

/* Borrows the claimed turn. The arguments of the run of turn->collective are recorded, the
 * collective has one block, and its earlier runs are through. Gives the block back. Returns 1 when
 * the run is done. 0: the run is in the task queue, and the caller must call df_executor_submitted.
 * The caller rings the bells in either case. */
int df_executor_first_turn(df_executor *executor, df_borrowed_turn *turn);

/* A waiter's attempt to finish its run. The caller borrows the next turn of block 0 if the block is
 * on the device, nobody executes it, and the next collective has no other block. Returns 1 when a
 * run of turn->collective is done: the caller rings the bells. 0: nothing is left to the caller. */
int df_executor_last_turn(df_executor *executor, df_borrowed_turn *turn);

void df_driver_begin(df_driver *driver, df_executor *executor);
/* One turn of every block that the driver could get. start: blocks that have left start again if
 * they have a reason. Returns 1 when anything happened, 0 when nothing can progress now. */
int df_driver_turn(df_driver *driver, int start);
void df_driver_release(df_driver *driver); /* lets go of the blocks, before user code runs */
void df_driver_end(df_driver *driver);
/* Is there a reason to start a held block? The last look before sleep asks. */
int df_driver_has_reason(const df_driver *driver);

/* Waits until every block that is on the device has left once, whoever executes it. The caller
 * drives, and starts no block. */
void df_executor_synchronize(df_executor *executor);

#endif
