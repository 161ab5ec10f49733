/*
 * Who runs the callbacks (src/host/runs/completion.c). Whoever comes by reaps what is through: CQEs, and
 * runs of failed collectives that have no CQE. Callbacks wait in a list of their collective, and
 * one thread at a time runs those of a collective, claimed under the lock: the poller any, a thread
 * that waits only those that it waits for. The poller sleeps when it finds nothing due.
 *
 * A waiter waits for collective A. Each callback of collective B returns only when the waiter has
 * returned. A background thread and the waiter drive and reap runs of both, the service thread fails one. Memory is in order
 * here: bell.pml checks the fences.
 *
 * Holds: the waiter returns, and every callback is run, once, whoever sleeps.
 * Planted: NO_LAST_LOOK (about to sleep, the poller looks for CQEs and callbacks only, not for
 * failures), NO_HAND_OVER (a waiter rings nobody for what it leaves), NO_CLAIM (two threads run
 * callbacks of one collective), FOREIGN (a waiter runs others' callbacks), NO_WAKE (a callback that
 * becomes due wakes no waiter: the poller is inside one that blocks).
 */
#define A 0
#define B 1
#define AWAITED 1 /* of A; one more run of A or B has no CQE */
#define RUNS 3

byte in_daemon[2] = 1;
byte cq[2], listed[2], queued[2], ran[2]; /* CQEs, failed runs that wait, callbacks to run and run */
bool running[2];
byte inside[2]; /* threads in callbacks of it */
bool returned;
/* A bell: somebody has announced a sleep, and was rung since. */
bool poller_sleeps, poller_rung, waiter_sleeps, waiter_rung;

#ifdef NO_CLAIM
#define IS_DUE(c) (queued[c] > 0)
#else
#define IS_DUE(c) (queued[c] > 0 && !running[c])
#endif
#define ALL_RAN (ran[A] + ran[B] == RUNS)

inline ring_poller() {
  if
  :: poller_sleeps -> poller_rung = true
  :: else
  fi
}

inline wake_waiter() {
  if
  :: waiter_sleeps -> waiter_rung = true
  :: else
  fi
}

inline reap() {
  d_step {
    news = cq[A] + cq[B] + listed[A] + listed[B] > 0;
    queued[A] = queued[A] + cq[A] + listed[A]; queued[B] = queued[B] + cq[B] + listed[B];
    cq[A] = 0; cq[B] = 0; listed[A] = 0; listed[B] = 0
  }
#ifndef NO_WAKE
  if :: news -> wake_waiter() :: else fi;
#endif
  news = false
}

#define DRIVE(c) d_step { in_daemon[c] > 0 -> in_daemon[c]--; cq[c]++ }
#define CLAIM(c) d_step { IS_DUE(c) -> queued[c]--; running[c] = true }

inline call(c) {
  inside[c]++;
  assert(inside[c] == 1);
  if
  :: c == B -> returned
  :: else
  fi;
  inside[c]--;
  d_step { ran[c]++; running[c] = false }
  wake_waiter()
}

active proctype poller() {
  bool news;
  do
  :: !ALL_RAN ->
    reap();
    if
    :: CLAIM(A) -> call(A)
    :: CLAIM(B) -> call(B)
    :: else ->
      d_step { poller_rung = false; poller_sleeps = true }
#ifndef NO_LAST_LOOK
      reap();
#endif
      if
      :: cq[A] + cq[B] > 0 || IS_DUE(A) || IS_DUE(B)
      :: else ->
end_asleep:
        poller_rung
      fi;
      poller_sleeps = false
    fi
  :: else -> break
  od
}

active proctype background() {
  bool news;
  do
  :: DRIVE(A) -> reap(); if :: IS_DUE(A) || IS_DUE(B) -> ring_poller() :: else fi
  :: DRIVE(B) -> reap(); if :: IS_DUE(A) || IS_DUE(B) -> ring_poller() :: else fi
  :: in_daemon[A] + in_daemon[B] == 0 -> break
  od
}

active proctype service() {
  if :: listed[A]++ :: listed[B]++ fi;
  wake_waiter();
  ring_poller()
}

active proctype waiter() {
  bool news;
  do
  :: ran[A] < AWAITED ->
    if :: DRIVE(A) :: DRIVE(B) :: true fi;
    reap();
    if
    :: CLAIM(A) -> call(A)
#ifdef FOREIGN
    :: CLAIM(B) -> call(B)
#endif
    :: else ->
#ifndef NO_HAND_OVER
      if :: IS_DUE(B) -> ring_poller() :: else fi;
#endif
      d_step { waiter_rung = false; waiter_sleeps = true }
      if
      :: ran[A] >= AWAITED || cq[A] + cq[B] > 0 || IS_DUE(A)
      :: else ->
end_asleep:
        waiter_rung
      fi;
      waiter_sleeps = false
    fi
  :: else -> break
  od;
#ifndef NO_HAND_OVER
  if :: cq[A] + cq[B] > 0 || IS_DUE(B) -> ring_poller() :: else fi;
#endif
  returned = true
}

/* Nothing moves any more, and something has not run. */
active proctype judge() {
  timeout -> assert(ALL_RAN && returned)
}
