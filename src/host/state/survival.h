/* State of a job that goes on without lost ranks (config.survive). A context and a collective
 * without survival have NULL pointers to these. The caller holds context->lock. */
#ifndef DF_HOST_STATE_SURVIVAL_H
#define DF_HOST_STATE_SURVIVAL_H

#include "base/mutex.h"
#include "control/view.h"
#include "host/state/context.h"
#include "plans/algorithms/piece_tables.h"

struct df_membership;
struct df_registration;

/* The number of registrations of an id with the same group on this rank. Members of other groups
 * may use the id too, and count for themselves. */
typedef struct df_id_count {
  dfcclCollId_t id;
  uint32_t group; /* a hash */
  uint32_t n;     /* 1 + the number; 0: the entry is free */
} df_id_count;

/* The part of a context. */
typedef struct df_survival {
  int reruns;           /* 1: runs without a result are executed again; 0: they fail */
  uint64_t view;        /* number of the latest view, from 1 on */
  uint64_t told;        /* the latest view of which the application knows */
  uint64_t *lost_in;    /* [n_ranks] the latest view that left the rank out; 0: none has */
  uint64_t *joined_in;  /* [n_ranks] the view that admitted the rank; 0: it began with the job */
  uint64_t admitted_in; /* the latest view that admitted a rank; 0: none has */
  int admits;           /* dfcclAdmit is under way: nothing is registered meanwhile */
  uint8_t *suspected;   /* [n_ranks] 1: a member that is lost for the next view */
  df_id_count *ids;     /* [ids_capacity] hash table with linear probing */
  uint32_t ids_capacity, n_ids;
  df_view_outcome *outcomes; /* [n_outcomes] for registrations that this rank has not made yet */
  uint32_t n_outcomes;
  uint32_t is_frozen;               /* an agreement is under way; read without the lock */
  int has_news;                     /* df_survival_note_news was called */
  struct df_membership *membership; /* owner: membership/membership.c */
} df_survival;

/* A run that was taken back from the blocks. */
typedef struct df_held_run {
  df_run run;
  uint32_t slot; /* the run's slot in the device */
} df_held_run;

/* Runs that failed because a rank was lost, although later runs may succeed. */
typedef struct df_failed_range {
  uint64_t from, until;
  uint64_t view; /* the first view without that rank */
} df_failed_range;

/* The part of a registered collective. */
typedef struct df_coll_survival {
  /* The registration, from which later groups are made: */
  /* Equal on all members: a hash of the group and of `since`, and the number of earlier
   * registrations of the id with both, modulo 256. */
  uint32_t registration;
  uint32_t n, root; /* the group as registered */
  /* df_survival.admitted_in at the registration. Ranks that are admitted later are no members, even
   * if they have the number of a lost one. */
  uint64_t since;
  uint32_t *ranks;  /* [n] */
  uint64_t count;   /* elements of a buffer, or of a piece of a wide buffer */
  uint64_t longest; /* df_registration.longest */
  int tune;         /* options.tune */
  int has_lists;
  df_lists lists; /* own memory */

  /* Runs that were taken back, in order. They end, or return to the front of the backlog, when the
   * next view decides about them. */
  df_held_run held[DF_RUNS_AHEAD];
  uint32_t n_held;
  uint64_t with_data; /* this rank has the data of the runs below it; valid while recalled */
  int has_outcome;    /* the next view has decided, but the runs are not taken back yet */
  uint64_t base, fails_below;

  df_failed_range *failed; /* [n_failed] in order */
  uint32_t n_failed;

  uint64_t before_admit; /* runs submitted before the latest dfcclAdmit ... */
  uint64_t counted_in;   /* ... whose round is this number less 1; 0: none */

  uint64_t home_due;         /* the view whose members the next home needs; 0: the home is right */
  struct df_coll *successor; /* the next home, in preparation; or NULL */
  uint8_t *kept;             /* copies of the inputs of runs in place, one for each slot; or NULL */
} df_coll_survival;

/* dfcclOutOfMemory: nothing has changed. */
dfcclResult_t df_survival_open(dfcclContext_t context, int mode);
void df_survival_close(dfcclContext_t context);
/* The service thread has to look again at collectives whose runs are taken back. */
void df_survival_note_news(dfcclContext_t context) DF_RANK_LOCKED;
/* Forgets a registration that was made and has failed. */
void df_coll_survival_undo(df_survival *survival, const df_coll *coll);
/* Keeps an outcome for a collective that this rank will register later. 0: no memory. */
int df_survival_keep_outcome(df_survival *survival, const df_view_outcome *outcome);
/* Whether it is for a registration that this rank has still to make, if it is in the group. */
int df_survival_is_to_come(const df_survival *survival, const df_view_outcome *outcome);

/* Whether the job can have the collective now; config.survive is set. */
dfcclResult_t df_survival_check(const dfcclContext_t context, const df_coll *coll) DF_RANK_LOCKED;

/* Keeps what is needed of a registration. registration->options is complete. */
dfcclResult_t df_coll_survival_make(dfcclContext_t context, df_coll *coll,
                                    const struct df_registration *registration);
void df_coll_survival_free(df_coll_survival *survival);

/* Whether the rank is a member of the latest view. */
static inline int df_is_member(const df_survival *survival, uint32_t rank) {
  return survival->lost_in[rank] == 0 || survival->joined_in[rank] > survival->lost_in[rank];
}
/* Whether a rank that has now this number took part when a collective was registered. since: that
 * of the collective. */
static inline int df_is_registered_rank(const df_survival *survival, uint32_t rank,
                                        uint64_t since) {
  return df_is_member(survival, rank) && survival->joined_in[rank] <= since;
}
/* Whether a rank of the group as registered is no member any more: it was lost, and its number may
 * belong to another process. coll: also a plan variant, and the next home. 0 without survival. */
int df_coll_has_lost(const dfcclContext_t context, const df_coll *coll, uint32_t rank);
/* Whether a member of the group as registered is lost for the next view. */
int df_coll_has_suspect(const dfcclContext_t context, const df_coll *coll) DF_RANK_LOCKED;
/* The latest view in which the group as registered lost a member, but not below `since`: newcomers
 * have no numbers of earlier losses. 0: the group is whole. */
uint64_t df_coll_lost_in(const dfcclContext_t context, const df_coll *coll) DF_RANK_LOCKED;
/* NULL: the run has not failed because a rank was lost. */
const df_failed_range *df_coll_failed_range(const df_coll *coll, uint64_t run) DF_RANK_LOCKED;

#endif
