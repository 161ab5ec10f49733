/*
 * Epochs: a collective goes over to another variant (algorithm, slots, ...) at one run, the same
 * on all members, and without a stop. tests/model/epoch.pml is the model.
 *
 *   leader (the group's first member)      member
 *     PROPOSE variant            ------->  makes the variant: announced, bound, linked as a
 *                                          registration is, but no run is admitted on it
 *     (its own likewise)         <-------  READY floor: it admits no run from the floor on
 *     COMMIT first = highest floor ----->  admits runs below `first`; when those have retired, the
 *                                          variant takes the collective's place in the device
 *                                <-------  RETIRED
 *
 * A refusal, or a member that leaves, ends in CANCEL: the variant goes, and the runs go on. Variants
 * have unique numbers, so late answers count for nothing. The leader asks again when all have gone
 * over. If it dies, the collective fails as it does with any member.
 *
 * With COMMIT the leader may ask for the times of the first runs on the variant. Each member tells
 * how long they took there: from submission, or from the end of the run before it, to the end.
 * Whoever came last waited least, so a run took the least of its members' times.
 *
 * Source: AutoCCL (NSDI 2025), 5.1 and 5.2, updates a replicated table; here the run is exact.
 */
#ifndef DF_HOST_SWITCHING_PLAN_SWITCH_H
#define DF_HOST_SWITCHING_PLAN_SWITCH_H

#include "host/state/context.h"
#include "host/state/switch_hooks.h"

/* Who asks for switches, on the leader. [lock] */
typedef struct df_plan_switch_owner {
  /* A member's times of the runs that were asked for, once from each. */
  void (*told)(dfcclContext_t context, df_coll *registered, const uint32_t *ns, uint32_t n);
  /* What df_plan_switch_time has asked for. */
  void (*own)(dfcclContext_t context, df_coll *registered, const uint32_t *ns, uint32_t n);
  /* One run, of this rank, while df_plan_switch_count is on. */
  void (*ran)(dfcclContext_t context, df_coll *registered, uint32_t ns);
  void (*called_off)(dfcclContext_t context, df_coll *registered);
} df_plan_switch_owner;

/* Of a front. */
typedef struct df_plan_switch {
  const df_switch_events *events; /* first: switch_hooks.h */
  df_coll *current;               /* whose place in the device the front has; NULL: its own */
  df_coll *candidate; /* being made, or to be gone over to; NULL: none, or as registered */
  uint64_t number;    /* of the switch in progress */
  df_purpose asked;   /* its purpose */
  df_purpose purpose; /* of what is in force; of none, if there was no switch */
  int is_pending;     /* neither committed nor cancelled */
  int has_answered;
  uint64_t first;    /* committed: the first run on the candidate; UINT64_MAX: none is */
  uint64_t switches; /* done on this rank */
  uint64_t timed_from, timed_to; /* equal: no runs are timed */
  uint64_t timed_number;         /* the switch whose runs are timed; 0: this rank's own only */
  uint64_t last_end_ns;
  uint32_t times[DF_MOST_TIMES];
  int counts;                        /* every run is told to the owner */
  int is_measuring;                  /* counted in runs.timing */
  const df_plan_switch_owner *owner; /* NULL: nobody asks for times */
  struct df_tuner *tuner;            /* the owner's; freed with the epoch */
  /* the leader's */
  int asks;
  uint8_t *heard;            /* [n] of the group: bits, by position */
  uint32_t answers, tellers; /* members that have answered; whose times have come */
  uint32_t to_retire;        /* members that have not gone over yet */
  uint64_t most;             /* floor */
  uint32_t to_time;          /* runs */
} df_plan_switch;

/* Once from each member, in a switch. */
typedef enum { DF_HEARD_ANSWER = 1, DF_HEARD_TIMES = 2, DF_HEARD_RETIRED = 4 } df_heard;

static inline int df_plan_switch_is_first(df_coll *registered, uint32_t position, df_heard what) {
  uint8_t *heard = &registered->plan_switch->heard[position];
  if (*heard & what) return 0;
  *heard |= (uint8_t)what;
  return 1;
}

/* [lock] On the group's first member. dfcclInvalidUsage, with a sentence: not now, or never. */
dfcclResult_t df_plan_switch_propose(dfcclContext_t context, df_coll *registered,
                                     const df_variant_spec *spec, df_purpose purpose,
                                     uint32_t to_time);
/* [lock] On the leader: what is in force stays, for another purpose than it was asked for. Told to all;
 * nothing, if there was no switch, or one is in progress. */
void df_plan_switch_keep(dfcclContext_t context, df_coll *registered, df_purpose purpose);
/* [lock] NULL: no memory. */
df_plan_switch *df_plan_switch_of(df_coll *registered);
/* [lock] Times runs of this rank alone, from `from` until `until`, the last DF_MOST_TIMES at most, and
 * tells the owner. One run: it is only told that it has ended. The front has an owner. */
void df_plan_switch_time(dfcclContext_t context, df_coll *registered, uint64_t from,
                         uint64_t until);
/* [lock] Every run of this rank is told to the owner, until it is off again. */
void df_plan_switch_count(dfcclContext_t context, df_coll *registered, int on);
/* [lock] This rank has gone over to what was asked for last. */
int df_plan_switch_is_complete(const df_coll *registered);
/* [lock] A switch is in progress somewhere. On the leader. */
int df_plan_switch_is_busy(const df_coll *registered);
void df_plan_switch_receive(dfcclContext_t context, uint32_t from,
                            const df_message *message); /* [lock] */

/* The same, by id. */
dfcclResult_t df_plan_switch_ask(dfcclContext_t context, dfcclCollId_t id,
                                 const df_variant_spec *spec);
/* dfcclSetAlgorithm. */
dfcclResult_t df_set_algorithm(dfcclContext_t context, dfcclCollId_t id, const char *algorithm);

#endif
