/*
 * Plan switch: a collective changes to another plan variant (algorithm, slots, ...) at one run, the
 * same run on all members, and without a stop. tests/model/epoch.pml is the model.
 *
 *   leader (the group's first member)      member
 *     PROPOSE variant            ------->  makes the variant: it is announced, bound and linked
 *                                          as a registration is, but no run is admitted on it
 *     (its own likewise)         <-------  READY floor: it admits no run from the floor on
 *     COMMIT first = highest floor ----->  admits runs below `first`; when those have retired, the
 *                                          variant takes the collective's place in the device
 *                                <-------  RETIRED
 *
 * If a member refuses, or leaves, the leader sends CANCEL: the variant is freed, and runs continue
 * on the present plan. Variants have unique numbers, so late answers are recognised and ignored.
 * The leader proposes again only when all members have switched. If the leader dies, the collective
 * fails as it does with any member.
 *
 * With COMMIT the leader may request the times of the first runs on the variant. Each member
 * reports its own times: from submission, or from the end of the run before, to the end. The last
 * member to arrive waits least, so the time of a run is the minimum over its members.
 *
 * Source: AutoCCL (NSDI 2025), 5.1 and 5.2, updates a replicated table; here the run is exact.
 */
#ifndef DF_HOST_SWITCHING_PLAN_SWITCH_H
#define DF_HOST_SWITCHING_PLAN_SWITCH_H

#include "base/mutex.h"
#include "host/state/context.h"
#include "host/state/switch_hooks.h"

/* The part that requests switches, on the leader. The caller holds the lock. */
typedef struct df_plan_switch_owner {
  /* A member's times of the runs that were requested; once from each member. */
  void (*reported)(dfcclContext_t context, df_coll *registered, const uint32_t *ns, uint32_t n);
  /* This rank's times, which df_plan_switch_time has requested. */
  void (*own)(dfcclContext_t context, df_coll *registered, const uint32_t *ns, uint32_t n);
  /* The time of one run of this rank, while df_plan_switch_count is on. */
  void (*ran)(dfcclContext_t context, df_coll *registered, uint32_t ns);
  void (*called_off)(dfcclContext_t context, df_coll *registered);
} df_plan_switch_owner;

/* State of the plan switches of one registered collective. */
typedef struct df_plan_switch {
  const df_switch_events *events; /* first: switch_hooks.h */
  df_coll *current;   /* the variant whose place in the device the collective has; NULL: its own */
  df_coll *candidate; /* variant in preparation; NULL: none, or the registered plan */
  uint64_t number;    /* identifies the switch in progress */
  df_purpose asked;   /* its purpose */
  df_purpose purpose; /* purpose of the plan in use; no meaning before the first switch */
  int is_pending;     /* the switch is neither committed nor cancelled */
  int has_answered;
  uint64_t
      first; /* committed: the first run on the candidate; UINT64_MAX: no switch is committed */
  uint64_t switches;             /* done on this rank */
  uint64_t timed_from, timed_to; /* equal: no runs are timed */
  uint64_t timed_number; /* the switch whose runs are timed; 0: only this rank's owner asked */
  uint64_t last_end_ns;
  uint32_t times[DF_MOST_TIMES];
  int counts;                        /* the owner receives the time of every run */
  int is_measuring;                  /* counted in runs.timing */
  const df_plan_switch_owner *owner; /* NULL: no times are requested */
  struct df_tuner *tuner;            /* the owner's; freed with this record */
                                     /* the members below are used on the leader */
  int asks;                          /* a proposal of the leader is not decided yet */
  uint8_t *received; /* [n] by position in the group: bits of messages that have arrived */
  uint32_t answers, reporters; /* members that have answered; whose times have arrived */
  uint32_t to_retire;          /* members that have not switched yet */
  uint64_t most;               /* highest floor of the members that have answered */
  uint32_t to_time;            /* number of runs that the members time */
} df_plan_switch;

/* Messages that the leader accepts once from each member in a switch. */
typedef enum {
  DF_RECEIVED_ANSWER = 1,
  DF_RECEIVED_TIMES = 2,
  DF_RECEIVED_RETIRED = 4
} df_received_kind;

static inline int df_plan_switch_is_first(df_coll *registered, uint32_t position,
                                          df_received_kind what) {
  uint8_t *received = &registered->plan_switch->received[position];
  if (*received & what) return 0;
  *received |= (uint8_t)what;
  return 1;
}

/* Proposes a switch, on the group's first member. dfcclInvalidUsage, with a sentence: the
 * collective cannot switch now, or never. */
dfcclResult_t df_plan_switch_propose(dfcclContext_t context, df_coll *registered,
                                     const df_variant_spec *spec, df_purpose purpose,
                                     uint32_t to_time) DF_RANK_LOCKED;
/* On the leader: the plan in use stays, for another purpose than that of its switch. All members
 * are notified. Without a previous switch, or while one is in progress, this does nothing. */
void df_plan_switch_keep(dfcclContext_t context, df_coll *registered,
                         df_purpose purpose) DF_RANK_LOCKED;
/* Makes the record if it does not exist. NULL: no memory. */
df_plan_switch *df_plan_switch_of(df_coll *registered) DF_RANK_LOCKED;
/* Times the runs of this rank alone, from `from` until `until`, at most the last DF_MOST_TIMES of
 * them, and passes the times to the owner. For a single run the owner only learns that it has
 * ended. The collective has an owner. */
void df_plan_switch_time(dfcclContext_t context, df_coll *registered, uint64_t from,
                         uint64_t until) DF_RANK_LOCKED;
/* Passes the time of every run of this rank to the owner, until this is turned off. */
void df_plan_switch_count(dfcclContext_t context, df_coll *registered, int on) DF_RANK_LOCKED;
/* Whether this rank has performed the switch that was requested last. */
int df_plan_switch_is_complete(const df_coll *registered) DF_RANK_LOCKED;
/* Whether a switch is in progress on any member. On the leader. */
int df_plan_switch_is_busy(const df_coll *registered) DF_RANK_LOCKED;
void df_plan_switch_receive(dfcclContext_t context, uint32_t from,
                            const df_message *message) DF_RANK_LOCKED;

/* df_plan_switch_propose, by id. */
dfcclResult_t df_plan_switch_ask(dfcclContext_t context, dfcclCollId_t id,
                                 const df_variant_spec *spec);
/* The implementation of dfcclSetAlgorithm. */
dfcclResult_t df_set_algorithm(dfcclContext_t context, dfcclCollId_t id, const char *algorithm);

#endif
