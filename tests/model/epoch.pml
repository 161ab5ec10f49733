/*
 * How a collective goes over to another plan in mid-run: exactly at one run, and without a stop.
 * Member 0 leads SWITCHES switches between two variants. It asks (PROPOSE). Each member answers with
 * a floor (READY), and admits no run from the floor on. The leader tells the first run on the other
 * variant (COMMIT), or that there is no switch (CANCEL), as soon as one member refuses: the others may
 * not have answered yet. Each switch has a number, and answers to another one count for nothing. A
 * member goes over when its runs before that one are retired, and says so (RETIRED). The leader asks
 * again when it has called a switch off, or when all have gone over.
 *
 * A run ends when all have admitted it. Messages between two members keep their order, and take any
 * time. With DEATH the leader may die between any two steps, also between two COMMITs; the others
 * hear of it after its last message, and fail what has not ended.
 *
 * Holds: a run is on one variant on all members, a member's runs in the device are on one variant,
 * and every run ends.
 * Planted: LEAST_FLOOR (first = the least floor), OWN_FLOOR (first = the leader's), NO_HOLD (a
 * member goes on beyond its floor), EARLY (a member goes over before its old runs are retired),
 * AT_ONCE (the leader asks again before all went over), NO_CANCEL (after a refusal the leader
 * forgets the switch), HOLDS_ON (a member that hears of the death keeps its runs back),
 * DEATH+COMMITS (it goes over at its own floor instead), ANY_NUMBER (answers to a switch that was
 * called off count for the next one).
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
chan to[N] = [5] of { mtype, byte, byte };   /* from the leader: what, value, number */
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
  :: atomic { to[i] ? PROPOSE(_, asked) } /* it makes the variant */
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
  bool refused, asking, telling;
end:
  do
  :: atomic { !asking && !telling && switches < SWITCHES && missing == 0 ->
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
      asking = false; telling = true; to[1] ! COMMIT(most, switches) }
  :: atomic { telling -> telling = false; to[2] ! COMMIT(most, switches); set_first(0, most);
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
