/*
 * Messages over a connection that breaks (src/transports/wire): credit, resume and shutdown, for
 * one ring. The sender's pump reads the ring of its block and writes frames. The receiver's pump
 * writes them into the ring of the remote block. A message has two parts, each a frame. The
 * connection breaks BREAKS times, at any moments. A new connection is then there for both ends.
 * Each end changes to it at any time, and loses what it has not read from the old one. With PORTS,
 * messages have one connection, and credits and states another (bulk messages); otherwise one
 * connection carries all.
 *
 * LENDS: the last message is a lent buffer. A pump borrows it for one write, and copies the part
 * of the frame that the stream did not take. The sender's run may be cancelled, and the owner then
 * overwrites the buffer.
 * LEAVES: the sender's rank shuts down at the end, after an answered question. Nothing is sent
 * again after that.
 *
 * Holds: the remote block reads each message whole, once and in order. A frame arrives only when
 * its slot is free. The sending block gets a slot back only after its message was read. No side
 * waits for ever, unless the run was cancelled.
 * Planted:
 *   UNACKED: the rest is sent from where the writes to the old connection stopped.
 *   PART_LOST: the rest begins with the next whole message.
 *   TWICE: a credit counts the slots that became free, instead of naming the last message read.
 *   SLOT_EARLY: the sender's slot is free when it was written to the stream.
 *   CREDIT_EARLY: the receiver returns credit when a message has arrived.
 *   NO_EPOCH: the state of an earlier break is accepted.
 *   ASIDE: the question for the received messages uses the connection of credits.
 *   NO_STATE: an answer lost with the connection of credits is not repeated.
 *   COUNT_ON: credits lost with a connection are not repeated.
 *   LENT_WHERE (with LENDS): the rest of a frame is sent from the lent buffer.
 *   NO_QUESTION (with LEAVES): no question is asked.
 *   OLD_ANSWER (with LEAVES): the answer to an earlier question counts.
 */
#define SLOTS 2
#ifdef LEAVES
#define MESSAGES 2
#else
#define MESSAGES 3
#endif
#ifndef BREAKS
#define BREAKS 2
#endif
#define CONNECTIONS (BREAKS + 1)
#define PLACE(message, part) (((message) % SLOTS) * 2 + (part))
#define SPOILT 99

mtype = { OPEN, DATA, HEAD, REST, ASK, STATE, CREDIT, ARRIVED };

/* Frames: kind; message, epoch or number; part; value. */
chan frames[CONNECTIONS] = [3] of { mtype, byte, byte, byte };
chan news[CONNECTIONS] = [3] of { mtype, byte, byte, byte };
byte newest_frames, newest_news; /* connections, from 0 on */

/* The sending rank's ring, and the word of its credit. */
byte out[SLOTS * 2], published, out_credit, buffer;
bool cancelled, revoked;
/* The receiving rank's ring, and the word of its credit. */
byte in[SLOTS * 2], committed[SLOTS], in_credit, received;
bool has_left;

active proctype sending_block() {
  byte s = 1;
  do
  :: s <= MESSAGES ->
    s <= out_credit + SLOTS;
#ifdef LENDS
    if
    :: s == MESSAGES -> buffer = s
    :: else -> d_step { out[PLACE(s, 0)] = s; out[PLACE(s, 1)] = s }
    fi;
#else
    d_step { out[PLACE(s, 0)] = s; out[PLACE(s, 1)] = s };
#endif
    published = s;
    s++
  :: else -> break
  od;
#ifdef LENDS
  if
  :: out_credit == MESSAGES
  :: cancelled = true; revoked = true
  fi;
  buffer = SPOILT
#endif
}

active proctype receiving_block() {
  byte s = 1;
  do
  :: s <= MESSAGES ->
end:
    committed[s % SLOTS] == s;
    assert(in[PLACE(s, 0)] == s && in[PLACE(s, 1)] == s);
    received = s;
    in_credit = s;
    s++
  :: else -> break
  od
}

active proctype breaker() {
  byte breaks;
end:
  do
  :: breaks < BREAKS ->
    atomic {
      breaks++;
#ifdef PORTS
      if
      :: newest_frames++
      :: newest_news++
      fi
#else
      newest_frames++; newest_news++
#endif
    }
  :: breaks == BREAKS -> break
  od
}

/* ---- the sending pump */

byte next = 1, at, credit, epoch, asked, asks, at_frames, at_news, copied, aside;
bool is_open, is_halted, has_rest, has_arrived;

inline change_frames() {
  at_frames = newest_frames;
  is_halted = true; is_open = false; epoch++; has_rest = false;
  asked = 0; has_arrived = false;
#ifdef UNACKED
  is_halted = false; at = 0;
#endif
}

inline take_news() {
  if
  :: kind == CREDIT ->
#ifdef TWICE
    credit = credit + a;
#else
    assert(a >= credit && a < next); /* otherwise the connection fails */
    credit = a;
#endif
#ifndef SLOT_EARLY
    out_credit = credit
#endif
  :: kind == STATE ->
    if
#ifdef NO_EPOCH
    :: is_halted && b > credit ->
#else
    :: is_halted && a == epoch && b > credit ->
#endif
      next = b; at = c; is_halted = false; asked = 0; has_arrived = false
    :: else
    fi
  :: kind == ARRIVED ->
    if
#ifdef OLD_ANSWER
    :: asked -> has_arrived = true
#else
    :: asked && a == asked -> has_arrived = true
#endif
    :: else
    fi
  fi;
  kind = OPEN; a = 0; b = 0; c = 0
}

#define MAY_SEND (is_open && !is_halted && !has_rest && next <= published && next <= credit + SLOTS)
#ifdef LENDS
#define IS_LENT (next == MESSAGES)
#else
#define IS_LENT false
#endif

active proctype sending_pump() {
  mtype kind = OPEN;
  byte a, b, c;
end:
  do
  :: atomic { at_frames < newest_frames ->
      change_frames();
#ifndef PORTS
      at_news = newest_news
#endif
    }
#ifdef PORTS
  :: atomic { at_news < newest_news -> at_news = newest_news; asked = 0; has_arrived = false }
#endif
#ifdef ASIDE
  :: atomic { !is_open && nfull(frames[0]) -> is_open = true; aside = epoch + 1 }
#else
  :: atomic { !is_open && nfull(frames[at_frames]) ->
      frames[at_frames]!OPEN(epoch, 0, 0); is_open = true }
#endif
  :: atomic { MAY_SEND && !IS_LENT && nfull(frames[at_frames]) ->
      frames[at_frames]!DATA(next, at, out[PLACE(next, at)]);
      at++;
      if
      :: at == 2 ->
#ifdef SLOT_EARLY
        out_credit = next;
#endif
        next++; at = 0
      :: else
      fi
    }
  :: atomic { MAY_SEND && IS_LENT && !revoked && nfull(frames[at_frames]) ->
      frames[at_frames]!HEAD(next, 0, buffer); copied = buffer; has_rest = true }
  :: atomic { has_rest && nfull(frames[at_frames]) ->
#ifdef LENT_WHERE
      copied = buffer;
#endif
      frames[at_frames]!REST(next, 1, copied); has_rest = false; next++; copied = 0 }
  :: atomic { news[at_news]?kind(a, b, c) -> take_news() }
#ifdef LEAVES
#ifdef NO_QUESTION
  :: atomic { is_open && next > MESSAGES && !is_halted -> has_left = true; break }
#else
  :: atomic { is_open && !asked && published == MESSAGES && !MAY_SEND &&
      (is_halted || next > MESSAGES) && nfull(frames[at_frames]) ->
      asks++; asked = asks; frames[at_frames]!ASK(asked, 0, 0) }
  :: atomic { has_arrived -> has_left = true; break }
#endif
#endif
  od
}

/* ---- the receiving pump */

byte in_next = 1, sent_credit, in_epoch, have, question, from_frames, from_news;
bool in_open, state_is_due;

inline take_frame() {
  if
  :: kind == OPEN -> in_open = true; in_epoch = a; state_is_due = (a != 0)
  :: kind == ASK -> question = a
  :: kind == DATA || kind == HEAD || kind == REST ->
    assert(a == in_next);                 /* neither repeated nor left out */
    assert(a <= in_credit + SLOTS);       /* the slot is free */
    in[PLACE(a, b)] = c;
    assert(b == have);
    have++;
    if
    :: have == 2 -> have = 0; committed[a % SLOTS] = a; in_next++
    :: else
    fi
  fi;
  kind = OPEN; a = 0; b = 0; c = 0
}

#ifdef CREDIT_EARLY
#define MAY_SEND (in_next - 1)
#else
#define MAY_SEND in_credit
#endif

active proctype receiving_pump() {
  mtype kind = OPEN;
  byte a, b, c;
end:
  do
  :: atomic { from_frames < newest_frames ->
      from_frames = newest_frames; question = 0;
#ifdef LENDS
      have = 0; /* a frame that was not received whole is discarded */
#endif
#ifndef PORTS
      from_news = newest_news;
#ifndef NO_STATE
      state_is_due = in_open
#endif
#endif
    }
#ifdef PORTS
  :: atomic { from_news < newest_news ->
      from_news = newest_news;
#ifndef NO_STATE
      state_is_due = in_open
#endif
    }
#endif
#ifdef ASIDE
  :: atomic { aside -> in_open = true; in_epoch = aside - 1; state_is_due = (aside > 1); aside = 0 }
#endif
  :: atomic { frames[from_frames]?kind(a, b, c) -> take_frame() }
  :: atomic { state_is_due && len(news[from_news]) < 2 ->
      news[from_news]!STATE(in_epoch,
#ifdef PART_LOST
                            in_next + (have != 0), 0);
#else
                            in_next, have);
#endif
      state_is_due = false;
#ifdef TWICE
      news[from_news]!CREDIT(in_credit - sent_credit, 0, 0);
#elif !defined(COUNT_ON)
      news[from_news]!CREDIT(MAY_SEND, 0, 0);
#endif
      sent_credit = MAY_SEND }
  :: atomic { in_open && !state_is_due && MAY_SEND != sent_credit && nfull(news[from_news]) ->
#ifdef TWICE
      news[from_news]!CREDIT(in_credit - sent_credit, 0, 0);
#else
      news[from_news]!CREDIT(MAY_SEND, 0, 0);
#endif
      sent_credit = MAY_SEND }
  :: atomic { question && !state_is_due && nfull(news[from_news]) ->
      news[from_news]!ARRIVED(question, 0, 0); question = 0 }
  od
}

active proctype judge() {
  timeout -> assert(received == MESSAGES || cancelled)
}
