/*
 * A plan switch: a collective changes to another plan exactly at one run, and without a stop.
 * Member 0 leads SWITCHES switches between two variants.
 *
 *   leader           other members
 *   PROPOSE  ------>                        a switch is proposed
 *            <------ READY(floor) | REFUSE  a member that is ready admits no run from its floor on
 *   COMMIT   ------>                        the first run on the other variant
 *   (CANCEL) ------>                        instead, as soon as one member has refused
 *            <------ RETIRED                the member has changed its variant
 *
 * Each switch has a number, and the leader ignores answers to another switch. A member changes its
 * variant when its runs before the first one are retired. The leader proposes the next switch when
 * it has cancelled one, or when all members have changed.
 *
 * A run ends when all members have admitted it. Messages between two members keep their order, and
 * take any time. With DEATH the leader may die between any two steps, also between two COMMITs.
 * The other members are notified after its last message, and fail their runs that have not ended.
 *
 * Holds: a run is on one variant on all members; the runs that a member has in its device are on
 * one variant; every run ends.
 * Planted:
 *   LEAST_FLOOR, OWN_FLOOR: the first run is the least floor, or the leader's own.
 *   NO_HOLD: a member admits runs beyond its floor.
 *   EARLY: a member changes before its old runs are retired.
 *   AT_ONCE: the leader proposes again before all members have changed.
 *   NO_CANCEL: the leader forgets the switch after a refusal, without a CANCEL.
 *   HOLDS_ON: a member keeps its runs back after the leader's death.
 *   DEATH+COMMITS: after the leader's death a member changes at its own floor.
 *   ANY_NUMBER: answers to a cancelled switch count for the next one.
 */
#define N 3
#ifdef DEATH
#define RUNS 3
#else
#define RUNS 4
#endif
#define SWITCHES 2
#define NONE 255

mtype = { PROPOSE, READY, REFUSE, COMMIT, CANCEL, RETIRED, DIED };
chan to[N] = [5] of { mtype, byte, byte }; /* from the leader: type, value, number */
chan from[N] = [4] of { mtype, byte, byte };
byte admitted[N], retired[N], limit[N] = NONE, first[N] = NONE, variant[N], held[N] = NONE;
byte variant_of[RUNS] = NONE;
bool broken[N], dead;

#define all_admitted(r) (admitted[0] > r && admitted[1] > r && admitted[2] > r)

inline step_runs(i) {
  if
  :: admitted[i] < RUNS && admitted[i] < limit[i] && admitted[i] - retired[i] < 2 && !broken[i] ->
    assert(variant_of[admitted[i]] == NONE || variant_of[admitted[i]] == variant[i]);
    variant_of[admitted[i]] = variant[i];
    admitted[i]++
  :: retired[i] < admitted[i] && (all_admitted(retired[i]) || broken[i]) -> retired[i]++
  :: broken[i] && retired[i] == admitted[i] && admitted[i] < RUNS -> /* failed on the host */
    admitted[i]++; retired[i]++
  fi
}

inline set_hold(i, floor) {
#ifndef NO_HOLD
  limit[i] = floor;
#endif
  held[i] = floor
}

inline set_first(i, at) {
#ifdef NO_HOLD
  first[i] = (at > admitted[i] -> at : admitted[i]);
#else
  first[i] = at;
#endif
  limit[i] = first[i]; held[i] = NONE
}

#ifdef EARLY
#define may_switch(i) (admitted[i] == first[i] && !broken[i])
#else
#define may_switch(i) (admitted[i] == first[i] && retired[i] == first[i] && !broken[i])
#endif

inline go_over(i) {
  assert(retired[i] == admitted[i]);
  variant[i] = 1 - variant[i]; first[i] = NONE; limit[i] = NONE
}

proctype member(byte i) {
  byte value, number, asked;
end:
  do
  :: atomic { to[i] ? PROPOSE(_, asked) } /* the member makes the variant */
  :: atomic { asked != 0 ->
      if
      :: value = admitted[i]; set_hold(i, value); from[i] ! READY(value, asked)
      :: value = admitted[i] + 1; set_hold(i, value); from[i] ! READY(value, asked)
      :: from[i] ! REFUSE(0, asked)
      fi;
      asked = 0 }
  :: atomic { to[i] ? COMMIT(value, number) -> set_first(i, value) }
  :: atomic { to[i] ? CANCEL(_, number) -> limit[i] = NONE; held[i] = NONE; asked = 0 }
  :: atomic { to[i] ? DIED(_, number) ->
      asked = 0;
#ifdef COMMITS
      if
      :: held[i] != NONE -> value = held[i]; set_first(i, value)
      :: else
      fi
#else
#ifndef HOLDS_ON
      broken[i] = true
#endif
#endif
      }
  :: atomic { may_switch(i) -> go_over(i); from[i] ! RETIRED(0, 0) }
  :: atomic { step_runs(i) }
  od
}

#ifdef ANY_NUMBER
#define is_asked true
#else
#define is_asked (number == switches)
#endif

inline take_answer() {
  if
  :: asking && is_asked ->
    answers++;
    most = (value > most -> value : most);
    least = (value < least -> value : least)
  :: else
  fi
}

proctype leader() {
  byte switches, answers, most, least, own, value, missing, number;
  bool refused, asking, committing;
end:
  do
  :: atomic { !asking && !committing && switches < SWITCHES && missing == 0 ->
      switches++; asking = true; answers = 0; refused = false;
      if
      :: own = admitted[0]
      :: own = admitted[0] + 1
      fi;
      set_hold(0, own); most = own; least = own;
      to[1] ! PROPOSE(0, switches); to[2] ! PROPOSE(0, switches) }
  :: atomic { from[1] ? READY(value, number) -> take_answer() }
  :: atomic { from[2] ? READY(value, number) -> take_answer() }
  :: atomic { from[1] ? REFUSE(_, number) -> refused = refused || (asking && is_asked) }
  :: atomic { from[2] ? REFUSE(_, number) -> refused = refused || (asking && is_asked) }
  :: atomic { from[1] ? RETIRED(_, _) -> missing-- }
  :: atomic { from[2] ? RETIRED(_, _) -> missing-- }
  :: atomic { asking && refused ->
      asking = false;
#ifndef NO_CANCEL
      limit[0] = NONE; held[0] = NONE; to[1] ! CANCEL(0, switches); to[2] ! CANCEL(0, switches)
#endif
    }
  :: atomic { asking && answers == 2 && !refused -> /* two COMMITs: the leader may die between */
#ifdef LEAST_FLOOR
      most = least;
#endif
#ifdef OWN_FLOOR
      most = own;
#endif
      asking = false; committing = true; to[1] ! COMMIT(most, switches) }
  :: atomic { committing -> committing = false; to[2] ! COMMIT(most, switches); set_first(0, most);
#ifndef AT_ONCE
      missing = 3
#endif
    }
  :: atomic { may_switch(0) -> go_over(0);
#ifndef AT_ONCE
      missing--
#endif
    }
  :: atomic { step_runs(0) }
#ifdef DEATH
  :: atomic { to[1] ! DIED(0, 0); to[2] ! DIED(0, 0); dead = true; break }
#endif
  od
}

init { atomic { run leader(); run member(1); run member(2) }
  timeout ->
    assert(dead || retired[0] == RUNS);
    assert(retired[1] == RUNS && retired[2] == RUNS);
}
