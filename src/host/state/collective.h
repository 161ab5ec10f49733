/*
 * The host's record of one registered collective. context->lock protects all of it, except what
 * waiting threads read in df_wait_words.
 */
#ifndef DF_HOST_STATE_COLLECTIVE_H
#define DF_HOST_STATE_COLLECTIVE_H

#include <sys/queue.h>

#include "control/message.h"
#include "devices/memory.h"
#include "plans/plan.h"
#include "transports/shm/common_slots.h"
#include "transports/transport.h"
#include "tuning/configuration.h"

struct df_coll;

/* Elements of a run between this rank and another. */
typedef struct df_pair {
  uint64_t sends, receives;
} df_pair;

/* The arguments of one dfcclRun*. */
typedef struct df_run {
  const void *send;
  void *recv;
  uint64_t count; /* elements; 0: as registered */
  uint32_t send_mapping, recv_mapping;
  uint32_t stream_event; /* of its stream; 0: none */
  dfcclCallback_t callback;
  void *argument;
  uint64_t submitted_ns; /* 0: nobody asks */
} df_run;
DF_STATIC_ASSERT(sizeof(df_run) % sizeof(uint64_t) == 0, "blocks step from count to count");

/* Both ways between two ranks through one channel. */
typedef struct df_remote_ends {
  df_offer offer; /* where this rank writes for the peer; valid if has_offer */
  int has_offer;
  int is_connected;
  df_link_handle *connected; /* what the transport holds for this rank's writing; or NULL */
  df_link_handle *accepted;  /* rings that the peer writes, until it no longer can */
} df_remote_ends;

/* A peer's announced registration. The local registration of the same turn matches it. */
typedef struct df_remote {
  struct df_remote *next; /* same peer, id and variant, oldest first */
  dfcclCollId_t id;
  uint64_t variant;
  uint32_t peer;
  df_announcement announcement;
  uint32_t first_rank;
  uint32_t *ranks;       /* [announcement.group_size]; NULL: a step tells them */
  struct df_coll *bound; /* NULL: no local registration is bound */
  int met;               /* was bound once; the local registration may be gone */
  df_remote_ends ends;   /* of channel 0 */
  df_remote_ends *more;  /* [n_more] of the next channels, which plans from files have */
  uint32_t n_more;
  int expected;     /* placeholder: the local registration left before it came */
  int deregistered; /* by the peer, after `runs` runs */
  uint64_t runs;
  int leaves;           /* ... because it leaves the job */
  int limited;          /* the peer's context is broken: no run after `runs` */
  dfcclResult_t failed; /* as the peer told */
  char *sentence;       /* NULL: none, or no memory */
} df_remote;

/* NULL: the peer has said nothing of it, and nothing was set up. */
static inline df_remote_ends *df_ends_of(df_remote *remote, uint32_t channel) {
  if (channel == 0) return &remote->ends;
  return channel <= remote->n_more ? &remote->more[channel - 1] : NULL;
}

/* What a waiting thread reads without the lock: lines that are freed with the context.
 * Registrations own it in turn. */
typedef struct DF_ALIGNED(64) df_wait_words {
  uint64_t registration; /* owner; 0: none, but only after its last callback returned */
  uint64_t latest;       /* [lock] the last owner */
  uint64_t id;
  uint64_t submitted;    /* runs accepted */
  uint64_t completed;    /* callbacks returned */
  uint32_t status;       /* dfcclResult_t: first failure since the last dfcclWait */
  uint32_t due;          /* has callbacks that no thread runs */
  uint64_t first_failed; /* from this run on all fail; UINT64_MAX: none */
  uint32_t failed;       /* their status */
} df_wait_words;

struct df_plan_switch;

typedef struct df_coll {
  dfcclCollId_t id;           /* id and variant first: key of the hash set */
  uint64_t variant;           /* 0: as registered */
  struct df_coll *registered; /* of a variant: the collective whose runs it takes over; else NULL */
  struct df_plan_switch
      *plan_switch;      /* of a front that was asked to go over to a variant; else NULL */
  df_policy *own_policy; /* of a variant; else NULL */
  uint32_t index;        /* in the device, and in by_index */
  uint32_t line;         /* of `words`, and in by_line */
  int deregistered;      /* kept only by references */
  uint32_t references;   /* of the registry, each pending callback and each dfcclWaitAll */
  df_operation operation;
  uint64_t count;
  int varying; /* df_varies: runs may have fewer elements */
  dfcclDataType_t type;
  dfcclRedOp_t op;
  uint32_t root, n, position;
  int reads_input, writes_output; /* This rank's runs use the buffer. */
  uint32_t element_mask;          /* address bits that must be 0 */
  uint32_t *ranks;                /* [n_paired] in group order */
  uint32_t n_hosts;               /* that the group is on */
  uint32_t group_step;            /* Difference between neighbours of the first n ranks. */
  df_remote **remotes;            /* [n] by position; NULL: unbound, or this rank */
  uint32_t n_bound;
  uint32_t n_paired; /* n, plus ranks that another member's group names: they must hear of us */
  int32_t priority;
  uint32_t trace_number; /* in this rank's trace; 0: none yet */
  int is_described;      /* there, as it travels now */
  char name[DF_MAX_NAME];
  int has_user_operator;        /* `own` is used */
  uint32_t own;                 /* the operator's number (primitives/user_operator.h) */
  df_pair *pairs;               /* [n] of uneven pieces; else NULL */
  df_pair_counts **runs_counts; /* AllToAllDynamic: of runs that are not through; used again */
  uint32_t n_runs_counts;
  df_plan *plan;
  df_configuration configuration;
  df_device_coll device;
  df_ring ring;   /* Of each ring that this rank receives in; n_slots 0: not chosen yet. */
  int setting_up; /* a transport works on it, perhaps without the lock */
  int ready;      /* all links stand: runs may be admitted */
  int first_turn; /* a run's submitter may take its first turn */
  df_common common;

  dfcclResult_t failed;
  char sentence[DF_SENTENCE_BYTES];
  uint64_t first_differing; /* run whose counts differ; earlier ones complete. 0: all failed */
  uint64_t run_limit;       /* runs that all members can meet; limit_rank ends after so many */
  uint32_t limit_rank;
  int limit_rank_leaves; /* limit_rank destroys its context, or that is broken */
  char *limit_sentence;  /* limit_rank found that counts differ; else NULL */

  uint64_t submitted;
  uint64_t admitted; /* Runs given to the daemon. */
  /* Runs from here on wait: for links (0), or for the members' agreement about a variant. */
  uint64_t admit_below;
  uint64_t heeded_from; /* whose end a switch must hear of, and all later ones; UINT64_MAX: none */
  uint64_t skew;        /* Run r is the device's run r + skew, modulo 2^64. */
  uint64_t retired;     /* Runs whose CQE was taken. */
  uint64_t taken;       /* retired, or failed on the host; the callback may still run */
  df_wait_words *words;
  df_run in_device[DF_RUNS_AHEAD]; /* by slot */
  df_run *backlog;                 /* ring of runs that wait on the host */
  uint32_t backlog_capacity, backlog_head, backlog_length;
  uint64_t first_given_up; /* first run that was given up and is not retired */
  uint32_t n_given_up;     /* Runs that were given up and are not retired. */
  int listed;              /* in the context's list: has runs to admit or to fail */
  struct df_coll *next_listed;
  uint32_t first_callback, last_callback; /* 1 + index in the pool; 0: none */
  int calls_back;                         /* a thread runs one of its callbacks */
  TAILQ_ENTRY(df_coll) next_due;
} df_coll;

/* The place of a rank among the first n of `ranks`; n: it is not there. */
static inline uint32_t df_coll_place_of(const df_coll *coll, uint32_t rank, uint32_t n) {
  uint32_t i = 0;
  while (i < n && coll->ranks[i] != rank) i++;
  return i;
}

/* Writes 'collective 7 ("grad")' to text and returns it. */
const char *df_coll_label(const df_coll *coll, char *text, size_t bytes);

/* [lock] Runs that the daemon has and whose CQEs were not taken. */
static inline uint32_t df_runs_in_device(const df_coll *coll) {
  return (uint32_t)(coll->admitted - coll->retired);
}

/* The device counts a variant's runs, and these may begin with any run of the collective. */
static inline uint64_t df_device_run(const df_coll *coll, uint64_t run) { return run + coll->skew; }
static inline uint32_t df_slot_of(const df_coll *coll, uint64_t run) {
  return (uint32_t)(df_device_run(coll, run) % DF_RUNS_AHEAD);
}
static inline df_run *df_run_in_device(df_coll *coll, uint64_t run) {
  return &coll->in_device[df_slot_of(coll, run)];
}

#endif
