/*
 * Who runs the callbacks (src/host/completion.c): whoever comes by reaps what is through (CQEs, and
 * runs of failed collectives that have no CQE); callbacks are run by one completer at a time, the
 * poller or a thread that waits. The poller sleeps when it finds nothing due; a completer that lets
 * go looks once more, because the poller may have left something to it. A waiter runs only so many
 * callbacks of others; when it goes away, it rings the poller if it leaves some behind.
 *
 * A background thread completes a run, the service thread fails a collective, a waiter completes
 * what is there and goes away. Memory is in order here: bell.pml checks the fences.
 *
 * Holds: every callback is run, once, whoever sleeps.
 * Planted: NO_LAST_LOOK (about to sleep, the poller looks for CQEs and callbacks only, not for
 * failures), NO_HAND_OVER (a waiter goes away without a ring), NO_CLAIM (two completers). It holds
 * with NO_RELOOK too (a completer that has let go does not look again): then the ring, or the
 * poller's own last look, finds what was left; the second look saves that.
 */
#define CQES 2
#define FAILURES 1

byte cq, listed, queued, ran; /* CQEs, failed runs that wait, callbacks to run, callbacks run */
byte completer;
byte sleepers, sequence;
bool asleep;
byte inside; /* completers that run callbacks */

inline reap() { d_step { queued = queued + cq + listed; cq = 0; listed = 0 } }

inline ring() {
  if
  :: sleepers != 0 -> sequence++; asleep = false
  :: else
  fi
}

/* left: callbacks that it runs at most. */
inline complete(left) {
  reap();
  do
  :: queued > 0 && left > 0 ->
#ifndef NO_CLAIM
    if
    :: d_step { completer == 0 -> completer = 1 }
    :: completer != 0 -> break
    fi;
#endif
    inside++;
    assert(inside == 1);
    do
    :: d_step { queued > 0 && left > 0 -> queued--; left-- }
       ran++;
       reap()
    :: queued == 0 || left == 0 -> break
    od;
    inside--;
    completer = 0
#ifdef NO_RELOOK
    ; break
#endif
  :: else -> break
  od
}

active proctype poller() {
  byte ticket, all = 0;
  do
  :: ran < CQES + FAILURES ->
    all = CQES + FAILURES;
    complete(all);
    ticket = sequence;
    sleepers++;
#ifndef NO_LAST_LOOK
    reap();
#endif
    if
    :: cq > 0 || (queued > 0 && completer == 0)
    :: else ->
      atomic { if :: sequence == ticket -> asleep = true :: else fi }
end_asleep:
      !asleep
    fi;
    sleepers--
  :: else -> break
  od
}

active proctype background() {
  byte n = 0;
  do
  :: n < CQES ->
    cq++;
    reap();
    if :: queued > 0 -> ring() :: else fi;
    n++
  :: else -> break
  od
}

active proctype service() {
  listed++;
  ring()
}

active proctype waiter() {
  byte left = 1;
  complete(left);
#ifndef NO_HAND_OVER
  if
  :: cq > 0 || (queued > 0 && completer == 0) -> ring()
  :: else
  fi
#endif
}

/* Nothing moves any more, and something has not run. */
active proctype judge() {
  timeout -> assert(ran == CQES + FAILURES && queued == 0 && cq == 0 && listed == 0)
}
