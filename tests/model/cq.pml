/*
 * The completion queue (src/queues/cq.h) in its three variants, VARIANT 0 ring, 1 packed, 2 slots:
 * two blocks produce, one consumer pops. The host admits no more runs than the queue has slots.
 *
 * Holds: every CQE is popped once, those of a block in order, with the results that the block
 * wrote before it; the queue is never found full.
 * Planted: RESULT_LATE (results written after the CQE); ring: TAIL_EARLY (tail published before
 * the word); packed: NO_LAP (any word is taken for the expected one); slots: TORN_TICKET (the
 * ticket is read and written in two steps), NOT_FREED (a popped slot is not cleared).
 */
#define PRODUCERS 2
#define ENTRIES 4
#define SLOTS 2
#if VARIANT == 2
#define RINGS 1
#else
#define RINGS PRODUCERS
#endif
#define AT(ring, index) words[(ring) * SLOTS + (index) % SLOTS]

byte words[RINGS * SLOTS]; /* lap << 4 | producer << 3 | entry + 1; 0: free */
byte head[RINGS], tail[RINGS];
byte outstanding;
bool result[PRODUCERS * ENTRIES];

proctype producer(byte me) {
  byte entry = 0, at;
  byte ring = (RINGS == 1 -> 0 : me);
  do
  :: entry < ENTRIES ->
    atomic { outstanding < SLOTS; outstanding++ } /* admitted */
#ifndef RESULT_LATE
    result[me * ENTRIES + entry] = true;
#endif
#if VARIANT == 0
    assert(tail[ring] - head[ring] < SLOTS);
    at = tail[ring];
#ifdef TAIL_EARLY
    tail[ring] = at + 1;
    AT(ring, at) = 16 | me << 3 | (entry + 1);
#else
    AT(ring, at) = 16 | me << 3 | (entry + 1);
    tail[ring] = at + 1;
#endif
#elif VARIANT == 1
    assert(tail[ring] - head[ring] < SLOTS);
    at = tail[ring];
    tail[ring] = at + 1;
    AT(ring, at) = (at + 1) << 4 | me << 3 | (entry + 1);
#else
#ifdef TORN_TICKET
    at = tail[0];
    tail[0] = at + 1;
#else
    d_step { at = tail[0]; tail[0] = at + 1 }
#endif
    d_step {
      assert(AT(0, at) == 0);
      AT(0, at) = 16 | me << 3 | (entry + 1);
    }
#endif
#ifdef RESULT_LATE
    result[me * ENTRIES + entry] = true;
#endif
    entry++
  :: else -> break
  od
}

#if VARIANT == 0
#define IS_THERE(ring) (tail[ring] != head[ring])
#elif VARIANT == 1 && !defined(NO_LAP)
#define IS_THERE(ring) (AT(ring, head[ring]) >> 4 == head[ring] + 1)
#else
#define IS_THERE(ring) (AT(ring, head[ring]) != 0)
#endif

proctype consumer() {
  byte popped[PRODUCERS], total = 0, ring, word, who;
  do
  :: total < PRODUCERS * ENTRIES ->
    if
    :: IS_THERE(0) -> ring = 0
#if RINGS == 2
    :: IS_THERE(1) -> ring = 1
#endif
    fi;
    word = AT(ring, head[ring]);
    assert(word != 0);
    who = (word >> 3) & 1;
    assert((word & 7) == popped[who] + 1);
    assert(result[who * ENTRIES + popped[who]]);
#if VARIANT == 2 && !defined(NOT_FREED)
    AT(ring, head[ring]) = 0;
#endif
    popped[who]++;
    head[ring]++;
    outstanding--; /* the host may admit another run */
    total++
  :: else -> break
  od
}

init {
  atomic { run producer(0); run producer(1); run consumer() }
}
