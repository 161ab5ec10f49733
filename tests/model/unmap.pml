/*
 * Memory of one process that another one maps, is lent, and is freed (src/host/memory.c,
 * handle_segment and handle_unmap of service.c, df_step_may_lend and df_step_may_follow of step.h).
 * For each of RUNS collectives the owner allocates a segment and says so (SEGMENT). The reader's
 * service thread maps it, opens a window, and answers with its place, which the owner's service
 * thread writes into the reach. A run that finds the reach lends its buffer, else it copies; it is
 * complete when the reader has given credit. Then the application frees the memory (UNMAP), and the
 * next segment may lie at the place of the last. A collective may fail at the owner at any time; the
 * reader is told, and gives up in its turn. (What the owner may do with its own mapping by then:
 * lend.pml.)
 *
 * Holds: what is read is mapped, and the run's own; an open window is mapped; without a failure all
 * runs complete, and nothing stays mapped. TOLD_LATE: the reader hears of the failure later, as of
 * another rank's death. READER_ALONE: only the reader keeps what a failed run may read; enough where
 * it is told of each failure at once.
 * Planted: ANYWAY (nobody keeps it), READER_ALONE with TOLD_LATE, NO_DRAIN (a run is complete before
 * the credit), KEPT_REACH (a segment begins with the last one's reach), SAME_NUMBER (and with its
 * number), OPEN_EARLY (a window is open before the mapping), CLOSE_LATE (and closed after the
 * unmapping), NO_WINDOW (any address is followed, and one is told before the mapping).
 */
#define RUNS 2
#define PLACES 2
#define NOWHERE PLACES
#define COPIED PLACES

mtype = {SEGMENT, UNMAP, FAIL};
chan to_reader = [4] of {mtype, byte, byte}; /* number, whose memory it is */
chan to_owner = [2] of {byte, byte};         /* MAPPED: number, place */

byte number_now, reach = NOWHERE; /* of the owner's segment at the moment; 0: none */
byte published[RUNS], credit[RUNS], address[RUNS];
bool cancelled[RUNS], reader_cancelled[RUNS];
bool owner_may_be_read, reader_may_be_read, failed, owner_over;
byte place[PLACES], place_number[PLACES]; /* the reader's address space: whose memory + 1; 0: none */
bool window[PLACES];

/* A collective fails at the owner (df_fail_collective), or not. */
active proctype failure() {
  byte c;
  select (c : 0 .. RUNS);
  if
  :: c < RUNS ->
    atomic {
      cancelled[c] = true; owner_may_be_read = true; failed = true;
#ifndef TOLD_LATE
      to_reader!FAIL(c, 0)
#endif
    }
#ifdef TOLD_LATE
    to_reader!FAIL(c, 0)
#endif
  :: else
  fi
}

/* The application, and the block that executes its runs. */
active proctype owner() {
  byte turn = 0, number = 1, there;
  do
  :: turn == RUNS -> break
  :: turn < RUNS ->
    atomic { /* dfcclMemAlloc, under the lock */
#ifdef SAME_NUMBER
      number_now = 1;
#else
      number_now = number;
#endif
      number++;
#ifndef KEPT_REACH
      reach = NOWHERE;
#endif
      to_reader!SEGMENT(number_now, turn)
    }
    if
    :: cancelled[turn] -> goto complete
    :: there = reach; address[turn] = there; published[turn] = 1 /* NOWHERE: copied */
    fi;
#ifndef NO_DRAIN
    if
    :: cancelled[turn] /* given up; the reader is not waited for */
    :: credit[turn] == 1
    fi;
#endif
complete:
    atomic { /* dfcclMemFree, under the lock */
#if defined(ANYWAY) || defined(READER_ALONE)
      to_reader!UNMAP(number_now, 0);
#else
      if
      :: !owner_may_be_read -> to_reader!UNMAP(number_now, 0)
      :: else
      fi;
#endif
      number_now = 0
    }
    turn++
  od;
  owner_over = true
}

active proctype owner_service() {
  byte number, there;
end:
  do
  :: atomic {
      to_owner?number, there;
      if
      :: number == number_now -> reach = there
      :: else
      fi
    }
  od
}

active proctype reader_service() {
  byte number, whose, at;
end:
  do
  :: to_reader?SEGMENT(number, whose) ->
#ifdef NO_WINDOW
    atomic { if :: place[0] == 0 -> at = 0 :: place[1] == 0 -> at = 1 fi };
    to_owner!number, at;
    atomic { place[at] = whose + 1; place_number[at] = number };
#elif defined(OPEN_EARLY)
    atomic { if :: place[0] == 0 -> at = 0 :: place[1] == 0 -> at = 1 fi };
    window[at] = true;
    atomic { place[at] = whose + 1; place_number[at] = number };
    to_owner!number, at;
#else
    atomic {
      if :: place[0] == 0 -> at = 0 :: place[1] == 0 -> at = 1 fi;
      place[at] = whose + 1; place_number[at] = number
    };
    window[at] = true;
    to_owner!number, at;
#endif
  :: to_reader?UNMAP(number, _) ->
#ifndef ANYWAY
    if
    :: reader_may_be_read -> goto kept
    :: else
    fi;
#endif
    if
    :: place[0] && place_number[0] == number -> at = 0
    :: place[1] && place_number[1] == number -> at = 1
    :: else -> goto kept
    fi;
#ifdef CLOSE_LATE
    atomic { place[at] = 0; place_number[at] = 0 };
    window[at] = false;
#else
    window[at] = false;
    atomic { place[at] = 0; place_number[at] = 0 };
#endif
kept:
    skip
  :: to_reader?FAIL(number, _) ->
    atomic { reader_cancelled[number] = true; reader_may_be_read = true }
  od
}

#ifdef NO_WINDOW
#define MAY_FOLLOW(there) true
#else
#define MAY_FOLLOW(there) window[there]
#endif

/* One block: a step of one collective, then of another, as it likes. */
active proctype reader_block() {
  byte c;
  bool over[RUNS];
end:
  do
  :: c = 1 - c
  :: !over[c] && reader_cancelled[c] -> over[c] = true
  :: !over[c] && !reader_cancelled[c] && published[c] &&
     (address[c] == COPIED || MAY_FOLLOW(address[c])) ->
    if
    :: address[c] == COPIED
    :: else ->
      assert(place[address[c]] == c + 1);
      assert(place[address[c]] == c + 1) /* reading takes a while */
    fi;
    over[c] = true;
    credit[c] = 1
  od
}

active proctype judge() {
end:
  do
  :: atomic { window[0] && !place[0] -> assert(false) }
  :: atomic { window[1] && !place[1] -> assert(false) }
  :: timeout ->
    assert(owner_over);
    assert(failed || (!place[0] && !place[1]));
    break
  od
}
