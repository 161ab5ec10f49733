/*
 * A full submission queue (df_sq_push_spmc in src/queues/sq.h, df_admit_listed and
 * df_between_turns in src/host/runs/submit.c). Runs that find no room wait in a list on the host.
 * A block that has read an entry looks whether runs are listed, and admits them. The queue has one
 * slot, which its last reader frees. Stores are buffered as in bell.pml; read-modify-writes and
 * the lock wait until the buffer is empty.
 *
 * Holds: every run is admitted.
 * Planted:
 *   LOAD: the producer finds by a plain load that there is no room.
 *   CLEAR_EARLY: has_listed is cleared before the search for room, and set again after it.
 *   LOOK_EARLY: a reader looks for listed runs before it has released the slot.
 */
#define RUNS 3
#define READERS 2
#define NONE 255
#define SUBMITTER READERS

byte waiting, pushed, readers_left, has_listed;
byte buffered[READERS + 1] = NONE; /* stores to has_listed, not yet in memory */
bool locked;

proctype buffer(byte me) {
end:
  do
  :: d_step { buffered[me] != NONE -> has_listed = buffered[me]; buffered[me] = NONE }
  od
}

inline lock() { atomic { !locked -> locked = true } }
inline unlock(me) { atomic { buffered[me] == NONE -> locked = false } }
inline set_listed(me, value) { atomic { buffered[me] == NONE -> buffered[me] = value } }

inline admit(me, no_room) {
  no_room = false;
#ifdef CLEAR_EARLY
  set_listed(me, 0);
#endif
  do
  :: waiting > 0 && !no_room ->
    if
    :: readers_left != 0 ->
#ifdef LOAD
      no_room = true
#else
      atomic { buffered[me] == NONE -> no_room = (readers_left != 0) } /* the read-modify-write */
#endif
    :: else
    fi;
    if
    :: !no_room -> readers_left = READERS; d_step { pushed++; waiting-- }
    :: else
    fi
  :: else -> break
  od;
  if
  :: waiting > 0 ->
#ifdef CLEAR_EARLY
    set_listed(me, 1);
#endif
    skip
  :: else -> set_listed(me, 0)
  fi
}

active proctype submitter() {
  byte n = 0;
  bool no_room;
  do
  :: n < RUNS ->
    lock();
    waiting++;
    set_listed(SUBMITTER, 1);
    admit(SUBMITTER, no_room);
    unlock(SUBMITTER);
    n++
  :: else -> break
  od
}

proctype reader(byte me) {
  byte index = 0;
  bool no_room, looked;
  do
  :: index < RUNS ->
    pushed > index;
#ifdef LOOK_EARLY
    looked = (has_listed != 0);
#endif
    atomic { buffered[me] == NONE -> readers_left-- }
    index++;
#ifndef LOOK_EARLY
    looked = (has_listed != 0);
#endif
    if
    :: looked -> lock(); admit(me, no_room); unlock(me)
    :: else
    fi
  :: else -> break
  od
}

init {
  atomic {
    run buffer(0); run buffer(1); run buffer(SUBMITTER);
    run reader(0); run reader(1)
  }
}
