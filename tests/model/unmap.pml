/*
 * Memory of one process that another process maps, borrows, and unmaps when its owner frees it
 * (src/host/runs/user_memory.c, handle_segment and handle_unmap of src/transports/shm/sharing.c,
 * df_step_may_lend and df_step_may_follow of step.h).
 *
 * For each of RUNS collectives the owner allocates a segment and announces it (SEGMENT). The
 * reader's service thread maps it, adds a mapped range, and answers with the address, which the
 * owner's service thread writes into the remote mapping. A run that finds a remote mapping lends
 * its buffer; otherwise it copies. The run is complete when the reader has returned credit. The
 * application then frees the memory (UNMAP), and the next segment may be mapped at the address of
 * the last.
 *
 * A collective may fail at the owner at any time. The reader is notified, and gives up as well.
 * The owner does not ask for the unmapping of memory that the failed run may have lent. (lend.pml
 * shows what the owner may do with its own mapping by then.)
 *
 * With NOTIFIED_LATE the reader is notified of the failure later, as of the death of another rank.
 * With EXPORTED (unmap.c) a mapping does not keep a device's memory alive: the owner frees the
 * memory when the reader has confirmed the unmapping, and after a failure the reader unmaps when
 * no run of its own may touch it.
 *
 * Holds: memory that is read is mapped, belongs to the run, and (EXPORTED) has not been freed. A
 * mapped range is mapped. Without a failure all runs complete. Nothing stays mapped but memory of
 * failed runs; with EXPORTED all memory is freed.
 * Planted:
 *   ANYWAY: the memory of a failed run is unmapped too.
 *   NO_DRAIN: a run is complete before the credit.
 *   KEPT_REACH, SAME_NUMBER: a segment starts with the remote mapping, or the number, of the last.
 *   OPEN_EARLY, CLOSE_LATE: the range is added before the mapping, or removed after the unmapping.
 *   NO_WINDOW: any address is followed, and is announced before the mapping.
 *   FREE_AT_ONCE (with EXPORTED): the owner does not wait for the reader.
 *   CLOSE_AT_ONCE (with EXPORTED): the reader does not wait for its own runs.
 */
#define RUNS 2
#define PLACES 2
#define NOWHERE PLACES
#define COPIED PLACES
#define UNMAPPED (PLACES + 1) /* as a place: the reader has unmapped the segment */

mtype = {SEGMENT, UNMAP, FAIL};
chan to_reader = [4] of {mtype, byte, byte}; /* number; its collective, or whether it may be read */
chan to_owner = [2] of {byte, byte};         /* MAPPED: number, place */

byte number_now, reach = NOWHERE; /* the owner's current segment; 0: none */
byte published[RUNS], credit[RUNS], address[RUNS];
bool cancelled[RUNS], reader_cancelled[RUNS];
bool kept[RUNS], owner_over;
byte place[PLACES], place_number[PLACES]; /* the reader's address space: collective + 1; 0: none */
bool window[PLACES], closing[PLACES], closing_read[PLACES];
bool over[RUNS], gone[RUNS]; /* the reader's run; the owner's memory */

/* A collective fails at the owner (df_fail_collective), or not. */
active proctype failure() {
  byte c;
  select (c : 0 .. RUNS);
  if
  :: c < RUNS ->
    atomic {
      cancelled[c] = true;
#ifndef NOTIFIED_LATE
      to_reader!FAIL(c, 0)
#endif
    }
#ifdef NOTIFIED_LATE
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
    :: cancelled[turn] -> kept[turn] = true; goto complete
    :: there = reach; address[turn] = there; published[turn] = 1 /* NOWHERE: copied */
    fi;
#ifndef NO_DRAIN
    if
    :: cancelled[turn] -> kept[turn] = true /* given up, without waiting for the reader */
    :: credit[turn] == 1
    fi;
#endif
complete:
    atomic { /* dfcclMemFree, under the lock */
#ifdef EXPORTED
      to_reader!UNMAP(number_now, kept[turn]);
#ifdef FREE_AT_ONCE
      gone[turn] = true;
#endif
#elif defined(ANYWAY)
      to_reader!UNMAP(number_now, 0);
#else
      if
      :: !kept[turn] -> to_reader!UNMAP(number_now, 0)
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
      :: there == UNMAPPED -> gone[number - 1] = true
      :: there != UNMAPPED && number == number_now -> reach = there
      :: else
      fi
    }
  od
}

#ifdef CLOSE_AT_ONCE
#define MAY_CLOSE(there) closing[there]
#else
#define MAY_CLOSE(there) (closing[there] && (!closing_read[there] || (over[0] && over[1])))
#endif

active proctype reader_service() {
  byte number, whose, at;
  bool read;
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
#ifdef EXPORTED
  :: to_reader?UNMAP(number, read) ->
    if
    :: place[0] && place_number[0] == number -> closing_read[0] = read; closing[0] = true
    :: place[1] && place_number[1] == number -> closing_read[1] = read; closing[1] = true
    fi
  :: MAY_CLOSE(0) -> at = 0; goto close
  :: MAY_CLOSE(1) -> at = 1;
close:
    atomic { window[at] = false; closing[at] = false };
    number = place_number[at];
    atomic { place[at] = 0; place_number[at] = 0 };
    to_owner!number, UNMAPPED
#else
  :: to_reader?UNMAP(number, read) ->
    if
    :: place[0] && place_number[0] == number -> at = 0
    :: place[1] && place_number[1] == number -> at = 1
    :: else -> goto unknown
    fi;
#ifdef CLOSE_LATE
    atomic { place[at] = 0; place_number[at] = 0 };
    window[at] = false;
#else
    window[at] = false;
    atomic { place[at] = 0; place_number[at] = 0 };
#endif
unknown:
    skip
#endif
  :: to_reader?FAIL(number, _) ->
    reader_cancelled[number] = true
  od
}

#if defined(NO_WINDOW) || defined(EXPORTED) /* a device does not check windows */
#define MAY_FOLLOW(there) true
#else
#define MAY_FOLLOW(there) window[there]
#endif

/* One block: steps of either collective, in any order. */
active proctype reader_block() {
  byte c;
end:
  do
  :: c = 1 - c
  :: !over[c] && reader_cancelled[c] -> over[c] = true
  :: !over[c] && !reader_cancelled[c] && published[c] &&
     (address[c] == COPIED || MAY_FOLLOW(address[c])) ->
    if
    :: address[c] == COPIED
    :: else ->
      assert(place[address[c]] == c + 1 && !gone[c]);
      assert(place[address[c]] == c + 1 && !gone[c]) /* reading takes a while */
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
#ifdef EXPORTED
    assert(gone[0] && gone[1]);
#else
    assert(!place[0] || kept[place[0] - 1]);
    assert(!place[1] || kept[place[1] - 1]);
#endif
    break
  od
}
