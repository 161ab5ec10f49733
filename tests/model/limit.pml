/*
 * Runs beyond a member's last run (df_check_run_limit in src/host/runs/collective_failure.c; its callers in match.c,
 * submit.c and completion.c): a member ends after LAST runs, by deregistering or because its context
 * broke, and tells so. This rank submits up to RUNS runs meanwhile; it refuses what it knows to be
 * beyond the limit, and gives up what it has accepted beyond it, once the runs before have come back.
 *
 * The member submits its runs, then tells. The daemon completes a run when the member has submitted
 * it, or with a failure when the host has given the collective up. The host's steps are under its
 * lock.
 *
 * Holds: every accepted run completes, those that the member has submitted with success.
 * Planted: ONLY_WHEN_TOLD (the limit is looked at when it is told, not when a run comes back),
 * AT_ONCE (runs before the limit are given up, too), ACCEPT (a run beyond the limit is accepted).
 */
#define RUNS 3
#define LAST 1
#define NO_LIMIT 255

byte member_submitted, told = NO_LIMIT; /* the member's, and its message */
byte limit = NO_LIMIT;                  /* what this rank knows */
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
  told = member_submitted
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

active proctype service() { /* hears it */
  atomic { told != NO_LIMIT -> limit = told; check_limit() }
}

active proctype reaper() {
end:
  do
  :: atomic {
       retired < done -> retired++;
#ifndef ONLY_WHEN_TOLD
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
