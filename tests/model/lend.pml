/*
 * Lent buffers when a run fails at their owner (the hold word of src/primitives/link.h, and
 * df_step_take_back in step.h): the sender lends MESSAGES buffers, one after the other. Its host may
 * cancel the run at any time; the sender then revokes before it gives the buffers back to the
 * application, which unmaps them. The receiver holds the word while it reads.
 *
 * Holds: no buffer is read that was given back; without a cancellation every one is read and the run
 * completes; a cancelled sender always ends. (The receiver of a cancelled run waits until it is
 * cancelled itself.) SEIZE: of another process, whose mapping stays: the sender does not wait for a
 * receiver that reads, for it may have died, but takes the buffer from it; nothing counts that was
 * read of a buffer after it was given back.
 * Planted: NO_BORROW (the receiver reads without holding), LOOK_FIRST (it looks whether the buffer
 * is revoked, then reads), NO_REVOKE (the sender gives back at once), REVOKE_ANYWAY (it does not wait
 * for a reader), UNCHECKED (of SEIZE: the receiver does not look whether it was).
 */
#define MESSAGES 3
#define FREE 0
#define READING 1
#define REVOKED 2

byte hold, published, credit;
bool cancelled, mapped = true, sender_over;

active proctype host() {
  if
  :: cancelled = true
  :: true
  fi
}

active proctype sender() {
  do
  :: cancelled ->
#ifdef NO_REVOKE
    break
#elif defined(REVOKE_ANYWAY)
    hold = REVOKED; break
#else
    atomic {
      if
      :: hold == FREE -> hold = REVOKED
      :: hold == REVOKED
#ifdef SEIZE
      :: hold == READING -> hold = REVOKED
#else
      :: hold == READING -> goto again /* it is being read: the next step tries again */
#endif
      fi
    }
    break;
again:
    hold != READING
#endif
  :: !cancelled && published < MESSAGES && published == credit -> published++
  :: !cancelled && credit == MESSAGES -> break /* drained */
  od;
  mapped = false; /* the application has its buffers back */
  sender_over = true
}

active proctype receiver() {
  byte message = 0;
  bool torn;
  do
  :: message == MESSAGES -> break
  :: message < MESSAGES ->
end:
    published > message;
#ifdef NO_BORROW
    skip;
#elif defined(LOOK_FIRST)
    if :: hold == REVOKED -> break :: else fi;
#else
    atomic { if :: hold == FREE -> hold = READING :: else -> break fi }
#endif
#ifdef SEIZE
    torn = !mapped;
    torn = torn || !mapped; /* reading takes a while */
    atomic {
      if
      :: hold == READING -> hold = FREE
#ifdef UNCHECKED
      :: else
#else
      :: else -> break
#endif
      fi
    }
    assert(!torn);
#else
    assert(mapped);
    assert(mapped); /* reading takes a while */
#if !defined(NO_BORROW) && !defined(LOOK_FIRST)
    hold = FREE;
#endif
#endif
    message++;
    credit = message
  od
}

active proctype judge() {
  timeout -> assert(sender_over && (cancelled || credit == MESSAGES))
}
