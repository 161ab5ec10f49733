/*
 * The submission queue (src/queues/sq.h): one producer and two readers, the last of which frees a
 * slot. Sequence numbers are taken modulo LAPS, so that they wrap around as the 32-bit ones do.
 *
 * Holds: every reader takes every entry once and in order, and finds the run's record (arguments
 * and callback), which was written before the entry was published. No side waits for ever.
 * Planted:
 *   RECORD_LATE: the record is written after the entry is published.
 *   COUNT_LATE: readers_left is set after the entry is published.
 *   NO_LAP: a reader accepts any word.
 *   FIRST_FREES: one reader frees the slot for both.
 *   NO_FULL: the producer does not check whether the slot is free.
 */
#define DEPTH 2
#define READERS 2
#define ENTRIES 7
#define LAPS 4 /* twice DEPTH: words of two laps differ */

byte sequence[DEPTH], value[DEPTH]; /* one commit word: written and read at once */
byte readers_left[DEPTH];
bool recorded[ENTRIES];

active proctype producer() {
  byte ticket = 0;
  do
  :: ticket < ENTRIES ->
#ifndef NO_FULL
    readers_left[ticket % DEPTH] == 0; /* the queue is full: retried */
#endif
#ifndef RECORD_LATE
    recorded[ticket] = true;
#endif
#ifndef COUNT_LATE
    readers_left[ticket % DEPTH] = READERS;
#endif
    d_step {
      sequence[ticket % DEPTH] = (ticket + 1) % LAPS;
      value[ticket % DEPTH] = ticket;
    }
#ifdef COUNT_LATE
    readers_left[ticket % DEPTH] = READERS;
#endif
#ifdef RECORD_LATE
    recorded[ticket] = true;
#endif
    ticket++
  :: else -> break
  od
}

active [READERS] proctype reader() {
  byte index = 0, got;
  do
  :: index < ENTRIES ->
    atomic {
#ifdef NO_LAP
      sequence[index % DEPTH] != 0;
#else
      sequence[index % DEPTH] == (index + 1) % LAPS;
#endif
      got = value[index % DEPTH]
    }
    assert(got == index);
    assert(recorded[got]);
    d_step {
      assert(readers_left[index % DEPTH] >= 1);
#ifdef FIRST_FREES
      readers_left[index % DEPTH] = 0;
#else
      readers_left[index % DEPTH]--;
#endif
    }
    index++
  :: else -> break
  od
}
