/*
 * The threads that run callbacks (src/host/runs/completion.c). Any thread that passes by reaps
 * what has completed: CQEs, and runs of failed collectives, which have no CQE. Callbacks wait in a
 * list of their collective. One thread at a time runs the callbacks of a collective, after it has
 * claimed the collective under the lock. The poller runs callbacks of any collective; a waiting
 * thread runs only those of the collectives that it waits for. The poller sleeps when no callback
 * is due.
 *
 * The waiter waits for collective A. Each callback of collective B returns only after the waiter
 * has returned. A background thread and the waiter progress and reap runs of both collectives, and
 * the service thread fails a run of one. Memory is in order here: bell.pml checks the fences.
 *
 * Holds: the waiter returns, and every callback runs once, whichever threads sleep.
 * Planted:
 *   NO_LAST_LOOK: before it sleeps, the poller checks CQEs and callbacks, but not failures.
 *   NO_HAND_OVER: a waiter does not ring the poller for the callbacks that it leaves.
 *   NO_CLAIM: two threads run callbacks of one collective.
 *   FOREIGN: a waiter runs callbacks of other collectives.
 *   NO_WAKE: a callback that becomes due does not wake the waiter, while the poller is inside a
 *     callback that blocks.
 */
#define A 0
#define B 1
#define AWAITED 1 /* runs of A; one more run of A or B has no CQE */
#define RUNS 3

byte in_daemon[2] = 1;
byte cq[2], listed[2], queued[2], ran[2]; /* CQEs; failed runs; callbacks due; returned */
bool running[2];
byte inside[2]; /* threads in callbacks of a collective */
bool returned;
/* A bell: a sleep is announced; it was rung after that. */
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

/* No process can step. */
active proctype judge() {
  timeout -> assert(ALL_RAN && returned)
}
