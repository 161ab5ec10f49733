/*
 * Completion across blocks (df_daemon_complete in src/daemon_kernel/daemon.h). Two blocks execute
 * each run, and the last block that finishes the run writes the CQE. Runs use AHEAD completion
 * counters in turn. The host admits the next run of a counter when it has popped the CQE of the
 * former one. A run may be given up by one block.
 *
 * Holds: each run has one CQE, after both blocks have finished the run, with the failure of the
 * block that gave it up. The CQEs come in the order of the runs.
 * Planted:
 *   RESET_LATE: the counter is reset after the CQE is written.
 *   STATUS_LATE: the status is written after the counter.
 */
#define BLOCKS 2
#define AHEAD 2
#define RUNS 4

byte admitted, cqes;
byte blocks_done[AHEAD], gave_up[AHEAD];
byte through[RUNS]; /* blocks that have finished a run */
byte failing[RUNS]; /* number + 1 of the block that gives the run up; 0: none */

active [BLOCKS] proctype block() {
  byte which = 0, before, status;
  do
  :: which < RUNS ->
    admitted > which;
    through[which]++;
#ifndef STATUS_LATE
    if :: failing[which] == _pid + 1 -> gave_up[which % AHEAD] = 1 :: else fi;
#endif
    d_step { before = blocks_done[which % AHEAD]; blocks_done[which % AHEAD]++ }
    assert(before < BLOCKS);
#ifdef STATUS_LATE
    if :: failing[which] == _pid + 1 -> gave_up[which % AHEAD] = 1 :: else fi;
#endif
    if
    :: before + 1 == BLOCKS ->
#ifndef RESET_LATE
      blocks_done[which % AHEAD] = 0;
#endif
      status = gave_up[which % AHEAD];
      gave_up[which % AHEAD] = 0;
      assert(through[which] == BLOCKS);
      assert(status == (failing[which] != 0 -> 1 : 0));
      d_step { assert(cqes == which); cqes++ } /* the CQE */
#ifdef RESET_LATE
      blocks_done[which % AHEAD] = 0;
#endif
    :: else
    fi;
    which++
  :: else -> break
  od
}

active proctype host() {
  do
  :: admitted < RUNS && admitted - cqes < AHEAD ->
    if :: failing[admitted] = 0 :: failing[admitted] = 1 :: failing[admitted] = 2 fi;
    admitted++
  :: admitted == RUNS && cqes == RUNS -> break
  od
}
