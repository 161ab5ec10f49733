/*
 * Lent buffers when a run fails at their owner (the hold word of src/primitives/link.h, and
 * df_step_take_back in step.h). The sender lends MESSAGES buffers, one after the other. Its host
 * may cancel the run at any time. The sender then revokes the buffer before it returns the buffers
 * to the application, which unmaps them. The receiver holds the word while it reads.
 *
 * With SEIZE the receiver is another process, which keeps its mapping. That process may have died,
 * so the sender does not wait for its read, but seizes the buffer. The receiver discards what it
 * has read of a seized buffer.
 *
 * Holds: no buffer is read after it was returned. Without a cancellation every buffer is read and
 * the run completes. A cancelled sender always ends. (The receiver of a cancelled run waits until
 * the run is cancelled on its own rank.)
 * Planted:
 *   NO_BORROW: the receiver reads without holding the word.
 *   LOOK_FIRST: the receiver checks whether the buffer is revoked, and then reads.
 *   NO_REVOKE: the sender returns the buffer at once.
 *   REVOKE_ANYWAY: the sender does not wait for a reader.
 *   UNCHECKED (with SEIZE): the receiver does not check whether the buffer was seized.
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
