/*
 * Runs beyond a member's last run (df_check_run_limit in src/host/runs/collective_failure.c, which
 * match.c, submit.c and completion.c call). A member ends after LAST runs, because it deregisters
 * or its context has failed, and announces its last run. This rank submits up to RUNS runs
 * meanwhile. It refuses runs beyond a known limit. Accepted runs beyond the limit are given up
 * after the runs before them have come back.
 *
 * The member submits its runs and then announces the limit. The daemon completes a run when the
 * member has submitted it, or with a failure when the host has given the collective up. The steps
 * of the host are under its lock.
 *
 * Holds: every accepted run completes, and with success if the member has submitted it.
 * Planted:
 *   ONLY_ON_ARRIVAL: the limit is checked when it arrives, but not when a run comes back.
 *   AT_ONCE: runs before the limit are given up too.
 *   ACCEPT: a run beyond the limit is accepted.
 */
#define RUNS 3
#define LAST 1
#define NO_LIMIT 255

byte member_submitted, announced = NO_LIMIT; /* runs of the member; the limit that it announces */
byte limit = NO_LIMIT;                  /* the limit that this rank has received */
byte submitted, done, retired;          /* runs accepted; completed by the daemon; taken back */
byte succeeded;
bool cancelled, refused;

inline check_limit() {
  if
#ifdef AT_ONCE
  :: submitted > limit -> cancelled = true
#else
  :: submitted > limit && retired >= limit -> cancelled = true
#endif
  :: else
  fi
}

active proctype member() {
  do
  :: member_submitted < LAST -> member_submitted++
  :: else -> break
  od;
  announced = member_submitted
}

active proctype daemon() {
end:
  do
  :: atomic { done < submitted && done < member_submitted && !cancelled -> done++; succeeded++ }
  :: atomic { done < submitted && cancelled -> done++ }
  od
}

active proctype application() {
  do
  :: submitted < RUNS && !refused ->
    atomic {
#ifdef ACCEPT
      submitted++
#else
      if
      :: submitted < limit && !cancelled -> submitted++
      :: else -> refused = true
      fi
#endif
    }
  :: else -> break
  od
}

active proctype service() { /* receives the limit */
  atomic { announced != NO_LIMIT -> limit = announced; check_limit() }
}

active proctype reaper() {
end:
  do
  :: atomic {
       retired < done -> retired++;
#ifndef ONLY_ON_ARRIVAL
       check_limit()
#endif
     }
  od
}

active proctype judge() {
  timeout ->
    assert(retired == submitted);
    assert(succeeded == (submitted < LAST -> submitted : LAST))
}
