/*
 * The CPU device: threads that execute a daemon's blocks. Each block has one background thread, and
 * any thread inside dfcclWait* may take blocks over and run their turns itself ("waiters drive"),
 * so that a blocking collective costs no hand-over between threads. A block has one executor at a
 * time: its ownership word.
 *
 * Who sleeps where:
 *   work bell   (shared with peers) whoever executes a block that has left with work outstanding
 *   idle bell   background threads that have nothing to do, or whose block somebody else drives
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
  uint32_t first_turns; /* [owner] taken since the task queue was empty or had a turn */
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
  /* DF_INTERRUPT_LEAVES for each device synchronisation in progress: a driver's block that cannot
   * go on leaves at once, for patience would only keep who synchronises. */
  uint32_t synchronizers;
  uint32_t expects_waiter; /* the latest runs were waited for: a submission need not wake anybody */
  uint32_t deep_sleepers;  /* background threads that only the idle bell wakes */
  uint32_t activity;       /* changes whenever somebody drove */
  uint32_t exit;
} df_executor;

/* Starts the background threads. blocks[] of the device are laid out. Undoes everything on failure.
 */
dfcclResult_t df_executor_start(df_executor *executor, df_device *device, df_block *blocks,
                                const df_mover_cpu *mover, uint32_t yield_polls, uint64_t nap_ns,
                                df_bell *work_bell, df_device_host host);
/* Final exit: blocks leave, threads end. Nothing is outstanding. */
void df_executor_stop(df_executor *executor);

/* After an SQE was pushed, or a collective cancelled: makes sure that somebody will look. urgent:
 * do not count on waiters. unlocked: the caller has let go of a mutex since. */
void df_executor_submitted(df_executor *executor, int urgent, int unlocked);

/* May the caller borrow the first turn of a run? Then its SQE is not pushed. Returns 1 if block 0
 * is on the device, was executed by nobody, and would lose no order: nothing is in the SQ, no
 * earlier run of the collective is in the task queue, and nothing else either where priorities
 * count. The block is the caller's now, and waits for df_executor_first_turn. Never waits. */
int df_executor_claim_first_turn(df_executor *executor, uint32_t collective);

/* Borrows the claimed turn: of a run of turn->collective, whose arguments are recorded. The
 * collective has one block, and its earlier runs are through. Gives the block back. Returns 1 when
 * the run is done. 0: it is in the task queue, and df_executor_submitted is to tell of it. The
 * bells are to be rung in either case. */
int df_executor_first_turn(df_executor *executor, df_borrowed_turn *turn);

/* A waiter's attempt to finish what it waits for: if block 0 is on the device and is executed by
 * nobody, and the collective that is next there has no other block, the caller borrows its turn.
 * Returns 1 when a run of turn->collective is done; the bells are to be rung. 0: nothing is left to
 * the caller. */
int df_executor_last_turn(df_executor *executor, df_borrowed_turn *turn);

void df_driver_begin(df_driver *driver, df_executor *executor);
/* One turn of every block that could be had. start: blocks that have left are started if they have
 * a reason. Returns 1 when anything happened, 0 when nothing can progress at the moment. */
int df_driver_turn(df_driver *driver, int start);
void df_driver_release(df_driver *driver); /* lets go of the blocks, before user code runs */
void df_driver_end(df_driver *driver);
/* Is there a reason to start a held block? For the look between announcing sleep and sleeping. */
int df_driver_has_reason(const df_driver *driver);

/* Until every block that is on the device has left once, whoever executes it. The caller drives,
 * and starts no block. */
void df_executor_synchronize(df_executor *executor);

#endif
