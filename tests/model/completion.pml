/*
 * Completion across blocks (df_daemon_complete in src/daemon_kernel/daemon.h): two blocks execute
 * each run; the last one to be through with it writes the CQE. Runs use RUNS_AHEAD completion
 * counters in turn, and the host admits the next run of a counter when it has seen the CQE of the
 * former one. A run may be given up by one block.
 *
 * Holds: one CQE for each run, when both blocks are through with it, with the status of the one that
 * gave up; the CQEs come in the order of the runs.
 * Planted: RESET_LATE (the counter is reset after the CQE), STATUS_LATE (the status is written after
 * the counter).
 */
#define BLOCKS 2
#define AHEAD 2
#define RUNS 4

byte admitted, cqes;
byte blocks_done[AHEAD], gave_up[AHEAD];
byte through[RUNS];   /* blocks that are through with a run */
byte failing[RUNS];   /* block + 1 that gives the run up; 0: none */

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
