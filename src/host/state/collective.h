/* The host's record of one registered collective. context->lock protects all of it, except the
 * fields that waiting threads read in df_wait_words. */
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

/* Numbers of elements that this rank sends to and receives from another rank in one run. */
typedef struct df_pair {
  uint64_t sends, receives;
} df_pair;

/* The arguments of one dfcclRun* call. */
typedef struct df_run {
  const void *send;
  void *recv;
  union {
    uint64_t count; /* elements; 0: the registered count */
    /* AllToAllDynamic: the caller's arrays until the run is accepted, then the counts of each pair.
     * Blocks read this pointer in the place of the count. Neither pointer is NULL. */
    const struct df_given_counts *given;
    df_pair_counts *pair_counts;
  };
  uint16_t send_mapping, recv_mapping;
  uint32_t stream_event; /* event of the run's stream; 0: the run is not on a stream */
  dfcclCallback_t callback;
  void *argument;
  uint64_t submitted_ns;    /* 0: the time is not needed */
  uint64_t submitted_ticks; /* df_flight_now; always there */
} df_run;
DF_STATIC_ASSERT(sizeof(df_run) % sizeof(uint64_t) == 0, "blocks step from count to count");
DF_STATIC_ASSERT(sizeof(df_run) == DF_CACHE_LINE, "a run takes a cache line");

/* The links between this rank and a peer, in both directions, through one channel. */
typedef struct df_remote_ends {
  df_offer offer; /* where this rank writes for the peer; valid if has_offer */
  int has_offer;
  int is_connected;
  df_link_handle *connected; /* the transport's handle for this rank's writes; or NULL */
  df_link_handle
      *accepted; /* rings that the peer writes; held until the peer can no longer write */
} df_remote_ends;

/* A peer's announced registration. It is matched with the i-th local registration of the same id.
 */
typedef struct df_remote {
  struct df_remote *next; /* same peer, id and variant, oldest first */
  dfcclCollId_t id;
  uint64_t variant;
  uint32_t peer;
  df_announcement announcement;
  uint32_t first_rank;
  uint32_t *ranks; /* [announcement.group_size]; NULL: computed from first_rank and group_step */
  struct df_coll *bound; /* NULL: no local registration is bound */
  int met;               /* was bound once; the local registration may have been freed */
  df_remote_ends ends;   /* for channel 0 */
  df_remote_ends *more;  /* [n_more] for channels 1 and up, which plans from files have */
  uint32_t n_more;
  uint32_t registration; /* df_coll_survival.registration of the local registration */
  uint64_t since;        /* and its `since` */
  /* The pointer to it in registry.gone, if another process has the number of its process; NULL: it
   * is in the table. */
  struct df_remote **gone_at;
  int moved;        /* deregistered because the peer's runs go on in another home */
  int expected;     /* placeholder: the local registration left before the announcement arrived */
  int deregistered; /* by the peer, after `runs` runs */
  uint64_t runs;
  int leaves;           /* the peer deregistered because it leaves the job */
  int limited;          /* the peer's context is broken: it takes part in no run after `runs` */
  dfcclResult_t failed; /* status that the peer reported */
  char *sentence;       /* the peer's error text; NULL: none, or no memory */
} df_remote;

/* NULL: the peer has announced nothing for this channel, and nothing was set up. */
static inline df_remote_ends *df_ends_of(df_remote *remote, uint32_t channel) {
  if (channel == 0) return &remote->ends;
  return channel <= remote->n_more ? &remote->more[channel - 1] : NULL;
}

/* The fields that a waiting thread reads without the lock. Each record fills one cache line, and
 * all are freed with the context. Registrations own a record one after another. */
typedef struct DF_ALIGNED(64) df_wait_words {
  uint64_t registration; /* owner; 0: none, and the last callback of the last owner has returned */
  uint64_t latest DF_GUARDED_BY(df_rank_role); /* the last owner */
  uint64_t id;
  uint64_t submitted;    /* runs accepted */
  uint64_t completed;    /* callbacks returned */
  uint32_t status;       /* dfcclResult_t: first failure since the last dfcclWait */
  uint32_t due;          /* the collective has callbacks that no thread runs at the moment */
  uint64_t first_failed; /* this run and all later ones fail; UINT64_MAX: none */
  uint32_t failed;       /* their status */
} df_wait_words;

struct df_plan_switch;
struct df_coll_survival;

/* The record of a registered collective has five parts, and each part has an owner: the file that
 * changes it. A member that another file changes too is marked with that file's name. The
 * application sees a registered collective. A plan variant has a record of its own, and its plan
 * executes runs of its registered collective after a plan switch. */

/* The other members and their registrations. Owner: registration/match.c. */
typedef struct df_coll_members {
  df_remote **remotes; /* [n] by position; NULL: unbound, or this rank */
  uint32_t n_bound;
  /* n, plus the ranks that only another member's group contains: they are notified too */
  uint32_t n_paired;
  uint32_t limit_rank;   /* the rank that takes part in no run after the first run_limit ones */
  int limit_rank_leaves; /* that rank destroys its context, or its context is broken */
  char *limit_sentence;  /* set if the limit exists because counts differ; else NULL */
  uint64_t run_limit;    /* runs that all members can complete */
} df_coll_members;

/* When deep rings get their pages. */
typedef enum {
  DF_PAGES_AS_USED,
  DF_PAGES_LATER, /* after the first runs */
  DF_PAGES_DUE    /* the service thread allocates them */
} df_ring_pages;

/* The plan that the collective's runs execute, and the plan's links. Owner:
 * registration/link_setup.c; register.c sets plan and configuration. */
typedef struct df_coll_execution {
  df_plan *plan;
  df_configuration configuration;
  df_device_coll device;
  df_ring ring;   /* for each ring that this rank receives in; n_slots 0: not chosen yet */
  int setting_up; /* a transport sets up links, and may have released the lock meanwhile */
  int ready;      /* all links are connected: runs may be admitted */
  df_ring_pages pages;
  int first_turn; /* the thread that submits a run may execute its first turn */
  df_common common;
  df_survivors *survivors; /* NULL: the job ends with the loss of a rank */
} df_coll_execution;

/* The runs of the collective. Owner: runs/submit.c until a run is admitted, runs/completion.c from
 * its CQE on. */
typedef struct df_coll_runs {
  uint64_t submitted;
  uint64_t admitted; /* runs given to the daemon */
  /* Runs from this one on are held back: until links are connected (then it is 0), or until the
   * members agree about a plan variant. switching/plan_switch.c sets it too, and skew. */
  uint64_t admit_below;
  /* A plan switch is notified of the end of this run and of all later ones, as are deep rings that
   * wait for their pages; UINT64_MAX: of no run. switching/switch_timing.c sets it too. */
  uint64_t watched_from;
  uint64_t skew;    /* run r is the device's run r + skew, modulo 2^64 */
  uint64_t retired; /* runs whose CQE was taken */
  uint64_t taken; /* runs that are retired, or failed on the host; their callbacks may still run */
  uint64_t last_flight;  /* 1 + number of its latest entry in the flight recorder; 0: none */
  uint64_t waited_until; /* the run before was the last one that the daemon got from the backlog */
  df_wait_words *words;
  df_run in_device[DF_RUNS_AHEAD]; /* by slot */
  df_run *backlog;                 /* ring of the runs that wait on the host */
  uint32_t backlog_capacity, backlog_head, backlog_length;
  uint64_t first_given_up; /* first run that was given up and is not retired */
  uint32_t n_given_up;     /* runs that were given up and are not retired */
  /* A member is lost: runs are taken back from the blocks (runs/recall.c), and none is admitted
   * until the collective has a home without that member. */
  int is_recalled;
  int is_abandoned; /* failed while it was recalled */
  int listed;       /* the collective is in the context's list: it has runs to admit or to fail */
  struct df_coll *next_listed;
  uint32_t first_callback, last_callback; /* 1 + index in the pool; 0: none */
  int calls_back;                         /* a thread runs one of the collective's callbacks */
  TAILQ_ENTRY(df_coll) next_due;
  df_pair_counts **dynamic_counts; /* AllToAllDynamic: counts of runs in flight; reused */
  uint32_t n_dynamic_counts;
  /* By slot: when the daemon got the latest run that came from the backlog. */
  uint64_t begun_ticks[DF_RUNS_AHEAD];
} df_coll_runs;

/* The reason why the collective ends. Owner: runs/collective_failure.c. */
typedef struct df_coll_failure {
  char sentence[DF_SENTENCE_BYTES];
  uint64_t first_differing; /* run whose counts differ; earlier runs complete. 0: all runs failed */
  dfcclResult_t failed;     /* other than dfcclSuccess: later runs are refused */
  int is_alone;             /* the remote error does not affect other collectives */
} df_coll_failure;

/* The collective's place in this rank's trace. Owner: observe/trace.c. */
typedef struct df_coll_trace {
  uint32_t number;  /* 0: none yet */
  int is_described; /* the trace describes the collective with its present plan */
  uint64_t waiting_from, waiting_until; /* the waiting runs that were traced last */
} df_coll_trace;

/* Facts about the collective's runs for snapshots. Owner: observe/snapshot.c. */
typedef struct df_coll_watch {
  /* runs that ended while runs were timed for snapshots, and the sum of their times from submission
   * to end; runs/completion.c adds to both */
  uint64_t timed_runs, timed_ns;
  uint64_t seen_ns;    /* the oldest run was seen first at this time; 0: never */
  uint64_t seen_taken; /* its number */
} df_coll_watch;

/* The members of this struct itself describe the registration. registration/register.c sets them
 * once, except references, deregistered and plan_switch. */
typedef struct df_coll {
  dfcclCollId_t id;           /* id and variant first: key of the hash set */
  uint64_t variant;           /* 0: as registered */
  struct df_coll *registered; /* a variant's registered collective; else NULL */
  /* Number of the announcements that its links belong to: `variant`, or after the loss of a member
   * the number of the successor whose home it has taken over. */
  uint64_t home;
  int is_successor; /* the variant is the next home of a collective that has lost a member */
  struct df_coll_survival *survival; /* a registered one's; NULL: losses end the job */
  /* a registered collective's, after the first request for a switch; else NULL */
  struct df_plan_switch *plan_switch;
  df_policy *own_policy; /* a variant's; else NULL */
  uint32_t index;        /* in the device, and in by_index */
  uint32_t line;         /* index of runs.words, and in by_line */
  int deregistered;      /* the record is kept only by its references */
  uint32_t references;   /* held by the registry, each pending callback and each dfcclWaitAll */
  df_operation operation;
  uint64_t count;
  int varying; /* df_varies: whether runs may have fewer elements */
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
  df_pair *pairs;         /* [n]; NULL: not a vector collective */
  uint64_t record_bytes;  /* memory of this process that the registration has */
  df_coll_trace trace;
  df_coll_watch watch;
  df_coll_execution exec;
  df_coll_failure failure;
  df_coll_members members;
  df_coll_runs runs;
} df_coll;
/* The members that each submission and each retirement reads are adjacent. */
DF_STATIC_ASSERT(offsetof(df_coll, runs.retired) + sizeof(uint64_t) -
                         offsetof(df_coll, failure.failed) <=
                     2 * DF_CACHE_LINE,
                 "the hot members of a collective take two cache lines at most");

/* Position of the rank among the first n of `ranks`; n: the rank is not there. */
static inline uint32_t df_coll_place_of(const df_coll *coll, uint32_t rank, uint32_t n) {
  uint32_t i = 0;
  while (i < n && coll->ranks[i] != rank) i++;
  return i;
}

/* Writes 'collective 7 ("grad")' to text and returns it. */
const char *df_coll_label(const df_coll *coll, char *text, size_t bytes);

/* Number of runs that the daemon has and whose CQEs were not taken. */
static inline uint32_t df_runs_in_device(const df_coll *coll) DF_RANK_LOCKED {
  return (uint32_t)(coll->runs.admitted - coll->runs.retired);
}

/* Number of the run in the device. The device counts the runs of a variant from 0, but a variant
 * may begin with any run of the collective. */
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
