/*
 * The bell (src/base/bell.h) on a machine that delays stores. Each process has a store buffer: its
 * stores reach memory later, in order, while the process itself sees them at once. A fence waits
 * until the buffer is empty. Weaker machines reorder more, but store buffering is the reordering
 * that the bell must survive.
 *
 * The sleeper waits for a number of events (NEWS), as the CPU executor, completion.c and wait.c
 * do: it announces itself, executes a fence, looks for events, and sleeps. The ringer publishes an
 * event, executes a fence, looks for sleepers, and wakes them. With DEEP the sleeper also
 * announces that only the bell wakes it (deep_sleepers), and the ringer wakes only such sleepers:
 * sleep_idle and df_executor_submitted.
 *
 * Holds: the sleeper sees all events. A lost wake-up is an invalid end state.
 * Planted:
 *   NO_FENCE_RINGER, NO_FENCE_SLEEPER: a fence is missing.
 *   NO_RECHECK: the sleeper looks before it announces itself, and not again.
 *   TICKET_LATE: the sleeper takes its ticket after the look.
 *   DEEP_LATE: deep_sleepers is announced after the fence.
 */
#define NEWS 2
#define NONE 255

byte news, sleepers, deep, sequence; /* memory */
bool asleep;

/* Store buffers: the ringer's of `news`, the sleeper's of `sleepers` and `deep`. */
byte buffered_news = NONE, buffered_sleepers = NONE, buffered_deep = NONE;
bool sleepers_first; /* which of the sleeper's two buffered stores is the older one */

active proctype ringer_buffer() {
end:
  do
  :: atomic { buffered_news != NONE -> news = buffered_news; buffered_news = NONE }
  od
}

active proctype sleeper_buffer() {
end:
  do
  :: atomic {
       buffered_sleepers != NONE && (buffered_deep == NONE || sleepers_first) ->
       sleepers = buffered_sleepers; buffered_sleepers = NONE
     }
  :: atomic {
       buffered_deep != NONE && (buffered_sleepers == NONE || !sleepers_first) ->
       deep = buffered_deep; buffered_deep = NONE
     }
  od
}

active proctype ringer() {
  byte n = 1;
  bool looks_asleep;
  do
  :: n <= NEWS ->
    atomic { buffered_news == NONE -> buffered_news = n } /* publish */
#ifndef NO_FENCE_RINGER
    buffered_news == NONE; /* the fence */
#endif
#ifdef DEEP
    if
    :: sleepers == 0 -> looks_asleep = false
    :: else -> looks_asleep = (deep != 0) /* other sleepers nap, and look again themselves */
    fi;
#else
    looks_asleep = (sleepers != 0);
#endif
    if
    :: looks_asleep -> sequence++; asleep = false /* df_bell_wake */
    :: else
    fi;
    n++
  :: else -> break
  od
}

active proctype sleeper() {
  byte seen = 0, ticket;
  do
  :: seen < NEWS ->
    if
    :: news > seen -> seen = news /* found by a look */
    :: news <= seen ->
#ifdef NO_RECHECK
      ticket = sequence;
      atomic {
        buffered_sleepers == NONE -> buffered_sleepers = 1;
        sleepers_first = (buffered_deep == NONE)
      }
      buffered_sleepers == NONE;
      atomic { if :: sequence == ticket -> asleep = true :: else fi }
      !asleep;
      atomic {
        buffered_sleepers == NONE -> buffered_sleepers = 0;
        sleepers_first = (buffered_deep == NONE)
      }
#else
#if defined(DEEP) && !defined(DEEP_LATE)
      atomic {
        buffered_deep == NONE -> buffered_deep = 1;
        sleepers_first = (buffered_sleepers != NONE)
      }
#endif
#ifndef TICKET_LATE
      ticket = sequence;
#endif
      atomic {
        buffered_sleepers == NONE -> buffered_sleepers = 1;
        sleepers_first = (buffered_deep == NONE)
      }
#ifndef NO_FENCE_SLEEPER
      (buffered_sleepers == NONE && buffered_deep == NONE); /* the fence */
#endif
#if defined(DEEP) && defined(DEEP_LATE)
      atomic {
        buffered_deep == NONE -> buffered_deep = 1;
        sleepers_first = (buffered_sleepers != NONE)
      }
#endif
      if
      :: news > seen /* cancel */
      :: news <= seen ->
#ifdef TICKET_LATE
        ticket = sequence;
#endif
        atomic { if :: sequence == ticket -> asleep = true :: else fi } /* the futex */
        !asleep
      fi;
      atomic {
        buffered_sleepers == NONE -> buffered_sleepers = 0;
        sleepers_first = (buffered_deep == NONE)
      }
#ifdef DEEP
      atomic {
        buffered_deep == NONE -> buffered_deep = 0;
        sleepers_first = (buffered_sleepers != NONE)
      }
#endif
#endif
    fi
  :: else -> break
  od
}
