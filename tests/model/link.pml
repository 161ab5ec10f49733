/*
 * A link (src/primitives/link.h and the sending half of step.h): a ring of SLOTS slots, sequence
 * numbers modulo WRAP, and a credit word that the sender caches. Message EMPTY is neither sent nor
 * waited for, but its number is released. The last message lends the sender's buffer, which the
 * sender may overwrite only when the link is drained. Payloads have two words, which are written
 * and read one after the other. With LAZY, slots are released GROUP at a time, and no buffer is
 * lent.
 *
 * Holds: the receiver reads every message whole, once and in order. No side waits for ever.
 * Planted:
 *   PUBLISH_EARLY: the commit word is written before the second half of the payload.
 *   RELEASE_EARLY: credit is returned before the payload has been read.
 *   NO_CREDIT: the sender does not wait for credit.
 *   NO_LAP: the receiver accepts any commit word as the expected one.
 *   NO_DRAIN: the sender overwrites the lent buffer at once.
 *   TOO_LAZY (with LAZY): more slots are released at a time than the ring has.
 */
#ifdef LAZY
#define SLOTS 8
#define MESSAGES 24
#define WRAP 32
#ifdef TOO_LAZY
#define GROUP 16
#else
#define GROUP 2
#endif
#else
#define SLOTS 2
#define MESSAGES 10
#define WRAP 8 /* a power of two, above the largest difference of two numbers in use */
#define GROUP 1
#endif
#define EMPTY 4
#define DISTANCE(a, b) (((a) - (b) + WRAP) % WRAP)

byte commit[SLOTS], first[SLOTS], second[SLOTS], credit;
bool direct[SLOTS];
byte buffer = MESSAGES; /* the buffer that the last message lends */

active proctype sender() {
  byte s = 1, seen = 0;
  do
  :: s <= MESSAGES ->
    if
    :: s == EMPTY
    :: else ->
#ifndef NO_CREDIT
      do
      :: DISTANCE(s % WRAP, seen) <= SLOTS -> break
      :: else -> (credit != seen); seen = credit
      od;
#endif
      direct[s % SLOTS] = (GROUP == 1 && s == MESSAGES);
      first[s % SLOTS] = s;
#ifdef PUBLISH_EARLY
      commit[s % SLOTS] = s % WRAP;
      second[s % SLOTS] = s;
#else
      second[s % SLOTS] = s;
      commit[s % SLOTS] = s % WRAP;
#endif
    fi;
    s++
  :: else -> break
  od;
#if !defined(NO_DRAIN) && !defined(LAZY)
  credit == MESSAGES % WRAP; /* drained */
#endif
  buffer = 0
}

active proctype receiver() {
  byte s = 1, a, b;
  do
  :: s <= MESSAGES ->
    if
    :: s == EMPTY
    :: else ->
#ifdef NO_LAP
      commit[s % SLOTS] != 0;
#else
      commit[s % SLOTS] == s % WRAP;
#endif
#ifdef RELEASE_EARLY
      credit = s % WRAP;
#endif
      if
      :: direct[s % SLOTS] -> a = buffer; b = buffer
      :: else -> a = first[s % SLOTS]; b = second[s % SLOTS]
      fi;
      assert(a == s && b == s);
    fi;
    if
    :: s % GROUP == 0 -> credit = s % WRAP
    :: else
    fi;
    s++
  :: else -> break
  od
}
