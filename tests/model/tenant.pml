/*
 * The line that a waiter looks at without the lock (df_wait_words: take_words and give_index in
 * src/host/state/registry.c, finish in completion.c, coll_done and sleep_until_news in wait.c). It belongs
 * to one collective after the other: the first one runs RUNS times and is deregistered, the next one
 * is registered and never runs. A waiter that has found the first one waits for all of its runs.
 *
 * Holds: the waiter returns, when the first one's callbacks have returned.
 * Planted: COUNT_FIRST (the counts begin anew before the line is nobody's), GONE_EARLY (the line is
 * given up before the last callback has returned), NO_REGISTRATION (the waiter looks at the count
 * only), LOOK_FIRST (it looks at the registration before the count).
 */
#define RUNS 2
#define FIRST 1
#define NEXT 2

byte registration = FIRST, completed;
byte returned; /* of the first one's callbacks */
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
