/*
 * The host's record of one registered collective. context->lock protects all of it, except what
 * waiting threads read in df_wait_words.
 */
#ifndef DF_HOST_STATE_COLLECTIVE_H
#define DF_HOST_STATE_COLLECTIVE_H

#include <sys/queue.h>

#include "base/mutex.h"
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
  union {
    uint64_t count; /* elements; 0: as registered */
    /* AllToAllDynamic: the caller's arrays until the run is accepted, then the counts of each pair,
     * which blocks read in the place of the count. Neither is NULL. */
    const struct df_given_counts *given;
    df_pair_counts *pair_counts;
  };
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
  uint64_t latest DF_GUARDED_BY(df_rank_role); /* the last owner */
  uint64_t id;
  uint64_t submitted;    /* runs accepted */
  uint64_t completed;    /* callbacks returned */
  uint32_t status;       /* dfcclResult_t: first failure since the last dfcclWait */
  uint32_t due;          /* has callbacks that no thread runs */
  uint64_t first_failed; /* from this run on all fail; UINT64_MAX: none */
  uint32_t failed;       /* their status */
} df_wait_words;

struct df_plan_switch;

/*
 * The record of a registered collective has five parts, and each part has an owner: the file that
 * changes it. A member that another file changes names it. What the application sees is a registered
 * collective. A plan variant has a record of its own, and executes runs of its registered collective
 * after a plan switch.
 */

/* The other members and their registrations. Owner: registration/match.c. */
typedef struct df_coll_members {
  df_remote **remotes; /* [n] by position; NULL: unbound, or this rank */
  uint32_t n_bound;
  uint32_t
      n_paired; /* n, plus ranks that only another member's group names: they are notified too */
  uint32_t limit_rank;   /* the rank that ends after run_limit runs */
  int limit_rank_leaves; /* it destroys its context, or its context is broken */
  char *limit_sentence;  /* it found that counts differ; else NULL */
  uint64_t run_limit;    /* runs that all members can complete */
} df_coll_members;

/* The plan that its runs execute, and the plan's links. Owner: registration/link_setup.c; plan and
 * configuration are set by register.c. */
typedef struct df_coll_execution {
  df_plan *plan;
  df_configuration configuration;
  df_device_coll device;
  df_ring ring;   /* of each ring that this rank receives in; n_slots 0: not chosen yet */
  int setting_up; /* a transport sets up links, perhaps without the lock */
  int ready;      /* all links are connected: runs may be admitted */
  int first_turn; /* the thread that submits a run may execute its first turn */
  df_common common;
} df_coll_execution;

/* Its runs. Owner: runs/submit.c until a run is admitted, runs/completion.c from its CQE on. */
typedef struct df_coll_runs {
  uint64_t submitted;
  uint64_t admitted; /* runs given to the daemon */
  /* Runs from this one on wait: for links (0), or for the members' agreement about a plan variant.
   * Set by switching/plan_switch.c too, as is skew. */
  uint64_t admit_below;
  /* A plan switch is notified of the end of this run and of later ones; UINT64_MAX: of none. Set by
   * switching/switch_timing.c. */
  uint64_t watched_from;
  uint64_t skew;    /* run r is the device's run r + skew, modulo 2^64 */
  uint64_t retired; /* runs whose CQE was taken */
  uint64_t taken; /* runs that are retired, or failed on the host; their callbacks may still run */
  df_wait_words *words;
  df_run in_device[DF_RUNS_AHEAD]; /* by slot */
  df_run *backlog;                 /* ring of runs that wait on the host */
  uint32_t backlog_capacity, backlog_head, backlog_length;
  uint64_t first_given_up; /* first run that was given up and is not retired */
  uint32_t n_given_up;     /* runs that were given up and are not retired */
  int listed;              /* in the context's list: has runs to admit or to fail */
  struct df_coll *next_listed;
  uint32_t first_callback, last_callback; /* 1 + index in the pool; 0: none */
  int calls_back;                         /* a thread runs one of its callbacks */
  TAILQ_ENTRY(df_coll) next_due;
  df_pair_counts **dynamic_counts; /* AllToAllDynamic: counts of runs in flight; reused */
  uint32_t n_dynamic_counts;
} df_coll_runs;

/* Why it ends. Owner: runs/collective_failure.c. */
typedef struct df_coll_failure {
  char sentence[DF_SENTENCE_BYTES];
  uint64_t first_differing; /* run whose counts differ; earlier ones complete. 0: all failed */
  dfcclResult_t failed;     /* not dfcclSuccess: later runs are refused */
} df_coll_failure;

/* Its place in this rank's trace. Owner: observe/trace.c. */
typedef struct df_coll_trace {
  uint32_t number;  /* 0: none yet */
  int is_described; /* with its present plan */
} df_coll_trace;

/* The members of this struct itself are the registration. registration/register.c sets them once,
 * except references, deregistered and plan_switch. */
typedef struct df_coll {
  dfcclCollId_t id;           /* id and variant first: key of the hash set */
  uint64_t variant;           /* 0: as registered */
  struct df_coll *registered; /* of a variant: its registered collective; else NULL */
  struct df_plan_switch
      *plan_switch;      /* of a registered collective after the first request; else NULL */
  df_policy *own_policy; /* of a variant; else NULL */
  uint32_t index;        /* in the device, and in by_index */
  uint32_t line;         /* of runs.words, and in by_line */
  int deregistered;      /* only references keep the record */
  uint32_t references;   /* of the registry, each pending callback and each dfcclWaitAll */
  df_operation operation;
  uint64_t count;
  int varying; /* df_varies: runs may have fewer elements */
  dfcclDataType_t type;
  dfcclRedOp_t op;
  uint32_t root, n, position;
  int reads_input, writes_output; /* this rank's runs use the buffer */
  uint32_t element_mask;          /* address bits that must be 0 */
  uint32_t *ranks;                /* [members.n_paired] in group order */
  uint32_t n_hosts;               /* hosts of the group */
  uint32_t group_step;            /* difference between neighbours of the first n ranks */
  int32_t priority;
  char name[DF_MAX_NAME];
  int has_user_operator;  /* user_operator is used */
  uint32_t user_operator; /* number of the operator (primitives/user_operator.h) */
  df_pair *pairs;         /* [n] of a vector collective; else NULL */
  df_coll_trace trace;
  df_coll_execution exec;
  df_coll_failure failure;
  df_coll_members members;
  df_coll_runs runs;
} df_coll;
/* What each submission and each retirement reads lies side by side. */
DF_STATIC_ASSERT(offsetof(df_coll, runs.retired) + sizeof(uint64_t) -
                         offsetof(df_coll, failure.failed) <=
                     2 * DF_CACHE_LINE,
                 "the hot members of a collective take two cache lines at most");

/* The place of a rank among the first n of `ranks`; n: it is not there. */
static inline uint32_t df_coll_place_of(const df_coll *coll, uint32_t rank, uint32_t n) {
  uint32_t i = 0;
  while (i < n && coll->ranks[i] != rank) i++;
  return i;
}

/* Writes 'collective 7 ("grad")' to text and returns it. */
const char *df_coll_label(const df_coll *coll, char *text, size_t bytes);

/* Runs that the daemon has and whose CQEs were not taken. */
static inline uint32_t df_runs_in_device(const df_coll *coll) DF_RANK_LOCKED {
  return (uint32_t)(coll->runs.admitted - coll->runs.retired);
}

/* The device counts a variant's runs, and these may begin with any run of the collective. */
static inline uint64_t df_device_run(const df_coll *coll, uint64_t run) {
  return run + coll->runs.skew;
}
static inline uint32_t df_slot_of(const df_coll *coll, uint64_t run) {
  return (uint32_t)(df_device_run(coll, run) % DF_RUNS_AHEAD);
}
static inline df_run *df_run_in_device(df_coll *coll, uint64_t run) {
  return &coll->runs.in_device[df_slot_of(coll, run)];
}

#endif
