/*
 * The wait words that a waiter reads without the lock (df_wait_words: take_line and give_line in
 * src/host/state/registry.c, finish in completion.c, coll_done and sleep_until_news in wait.c).
 * They belong to one collective after the other. The first collective runs RUNS times and is
 * deregistered; the next one is registered and never runs. The waiter has found the first one, and
 * waits for all of its runs.
 *
 * Holds: the waiter returns, after the callbacks of the first collective have returned.
 * Planted:
 *   COUNT_FIRST: the counts restart before the registration is cleared.
 *   GONE_EARLY: the registration is cleared before the last callback has returned.
 *   NO_REGISTRATION: the waiter reads only the count.
 *   LOOK_FIRST: the waiter reads the registration before the count.
 */
#define RUNS 2
#define FIRST 1
#define NEXT 2

byte registration = FIRST, completed;
byte returned; /* callbacks of the first collective */
byte sleepers, sequence;
bool asleep;

inline ring() {
  if
  :: sleepers != 0 -> sequence++; asleep = false
  :: else
  fi
}

active proctype host() {
  byte n = 0;
  do
  :: n < RUNS ->
#ifdef GONE_EARLY
    if :: n == RUNS - 1 -> registration = 0 :: else fi;
#endif
    returned++;
    completed++;
    ring();
    n++
  :: else -> break
  od;
#ifdef COUNT_FIRST
  completed = 0;
#endif
  registration = 0;
  completed = 0;
  registration = NEXT
}

inline look() {
#ifdef LOOK_FIRST
  its = (registration == FIRST);
  done = (completed >= RUNS || !its)
#elif defined(NO_REGISTRATION)
  done = (completed >= RUNS)
#else
  done = (completed >= RUNS);
  if
  :: !done -> done = (registration != FIRST)
  :: else
  fi
#endif
}

active proctype waiter() {
  byte ticket;
  bool done, its;
  do
  :: look();
    if
    :: done -> break
    :: else
    fi;
    ticket = sequence;
    sleepers++;
    look();
    if
    :: done
    :: else ->
      atomic { if :: sequence == ticket -> asleep = true :: else fi }
      !asleep
    fi;
    sleepers--
  od;
  assert(returned == RUNS)
}
