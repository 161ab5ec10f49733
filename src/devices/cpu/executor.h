/*
 * The executor of the CPU: one background thread for each block. A thread in dfcclWait* may take
 * blocks over ("waiters drive"), so a blocking collective needs no hand-over between threads.
 *
 * Threads sleep at two bells:
 *   work bell   (shared with peers) the executor of a block that has left with work outstanding
 *   idle bell   background threads without work, or whose block another thread drives
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
  uint32_t owner; /* 0: the block is free */
  df_block *block;
  df_lanes lanes;
  df_move move;
  df_cores cores;
  uint32_t first_turns; /* [owner] first turns since the queue was empty or had a turn */
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
  DF_ALIGNED(64) uint32_t wanted; /* background threads give up their blocks */
  /* DF_INTERRUPT_LEAVES for each device synchronisation: a stuck block of a driver leaves at
   * once. */
  uint32_t synchronizers;
  uint32_t expects_waiter; /* submissions need not wake a thread */
  uint32_t deep_sleepers;  /* number of threads that only the idle bell wakes */
  uint32_t activity;       /* changes when a driver has executed a turn */
  uint32_t exit;
} df_executor;

/* Starts the threads. turns: a log for each block, or NULL. After a failure no thread and no memory
 * remains. */
dfcclResult_t df_executor_start(df_executor *executor, df_device *device, df_block *blocks,
                                const df_mover_cpu *mover, uint32_t yield_polls, uint64_t nap_ns,
                                df_bell *work_bell, df_device_host host, df_turn_log *turns);
/* Stops the threads. No run is outstanding. */
void df_executor_stop(df_executor *executor);

/* Must follow the push of an SQE or the cancellation of a collective. urgent: do not rely on
 * waiters. unlocked: the caller has unlocked a mutex since. */
void df_executor_submitted(df_executor *executor, int urgent, int unlocked);

/* Returns 1 if the caller may borrow the first turn of a run and push no SQE: block 0 is on the
 * device and free, and the order of runs is kept. The caller then owns the block until
 * df_executor_first_turn. Never waits. */
int df_executor_claim_first_turn(df_executor *executor, uint32_t collective);

/* Executes the claimed turn and releases the block. The arguments of the run are recorded, the
 * collective has one block, and its earlier runs have ended. Returns 1 if the run has ended, and 0
 * if it is queued; then call df_executor_submitted. The caller rings the bells in either case. */
int df_executor_first_turn(df_executor *executor, df_borrowed_turn *turn);

/* A waiter executes the next turn of block 0 if the block is free and the next collective has no
 * other block. Returns 1 if a run of turn->collective has ended; the caller then rings the
 * bells. */
int df_executor_last_turn(df_executor *executor, df_borrowed_turn *turn);

void df_progress_begin(df_progress_thread *progress, df_executor *executor);
/* Executes one turn of every block that the driver can get. start: blocks that have left may start.
 * Returns 0 if no block can progress at present. */
int df_progress_turn(df_progress_thread *progress, int start);
void df_progress_release(df_progress_thread *progress); /* call it before user code runs */
void df_progress_end(df_progress_thread *progress);
/* Returns whether there is a reason to start a held block; checked before sleep. */
int df_progress_has_reason(const df_progress_thread *progress);

/* Waits until every block on the device has left once. The caller drives, and starts no block. */
void df_executor_synchronize(df_executor *executor);

#endif
