/*
 * The claim of the design: RANKS ranks submit the same COLLECTIVES in any orders, and all
 * complete, because a rank whose collective is stuck continues with another one.
 *
 * A collective is a ring of STEPS primitives on each rank. Primitive k > 0 receives the message of
 * the predecessor's primitive k-1. All primitives but the last one send, and need a free slot
 * among the SLOTS of the link to the successor. The daemon of a rank picks any collective that can
 * step: real schedulers pick in some order and set aside the collectives that cannot step, which
 * comes to the same. The order of rank 0 is 0, 1, 2: other orders differ only in names.
 *
 * Holds: all collectives complete on all ranks, whatever the orders.
 * Planted:
 *   IN_ORDER: a rank starts the next collective only when the former is complete, as a blocking
 *     first-come engine does.
 *   ONE_SLOT: a link has one slot, so that the ring blocks itself.
 */
#define RANKS 3
#define COLLECTIVES 3
#define STEPS 3
#ifdef ONE_SLOT
#define SLOTS 1
#else
#define SLOTS 2
#endif
#define POSITION(rank, c) position[((rank) % RANKS) * COLLECTIVES + (c)]
/* Messages sent and not yet received: the successor receives message k with its primitive k+1. */
#define UNDER_WAY(rank, c)                                                                         \
  (POSITION(rank, c) - (POSITION((rank) + 1, c) > 0 -> POSITION((rank) + 1, c) - 1 : 0))
#define RECEIVES(rank, c)                                                                          \
  (POSITION(rank, c) == 0 || POSITION((rank) + RANKS - 1, c) >= POSITION(rank, c))
#define SENDS(rank, c) (POSITION(rank, c) == STEPS - 1 || UNDER_WAY(rank, c) < SLOTS)
#define RUNNABLE(rank, c) (POSITION(rank, c) < STEPS && RECEIVES(rank, c) && SENDS(rank, c))

byte position[RANKS * COLLECTIVES]; /* primitives executed */
byte ready;

proctype daemon(byte rank; byte first; byte second; byte third) {
  do
#ifdef IN_ORDER
  :: atomic { RUNNABLE(rank, first) -> POSITION(rank, first)++ }
  :: atomic { POSITION(rank, first) == STEPS && RUNNABLE(rank, second) -> POSITION(rank, second)++ }
  :: atomic {
       POSITION(rank, first) == STEPS && POSITION(rank, second) == STEPS && RUNNABLE(rank, third) ->
       POSITION(rank, third)++
     }
#else
  :: atomic { RUNNABLE(rank, first) -> POSITION(rank, first)++ }
  :: atomic { RUNNABLE(rank, second) -> POSITION(rank, second)++ }
  :: atomic { RUNNABLE(rank, third) -> POSITION(rank, third)++ }
#endif
  :: POSITION(rank, 0) == STEPS && POSITION(rank, 1) == STEPS && POSITION(rank, 2) == STEPS -> break
  od
}

inline start(rank) {
  if
  :: run daemon(rank, 0, 1, 2)
  :: run daemon(rank, 0, 2, 1)
  :: run daemon(rank, 1, 0, 2)
  :: run daemon(rank, 1, 2, 0)
  :: run daemon(rank, 2, 0, 1)
  :: run daemon(rank, 2, 1, 0)
  fi
}

init {
  atomic {
    run daemon(0, 0, 1, 2);
    start(1);
    start(2)
  }
}
