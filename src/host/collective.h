/*
 * The host's record of one registered collective: what it is, how it meets its members'
 * registrations, where its runs are. All of it is read and written under the context's lock, but
 * for what threads that wait look at (df_wait_words).
 */
#ifndef DF_HOST_COLLECTIVE_H
#define DF_HOST_COLLECTIVE_H

#include <sys/queue.h>

#include "control/message.h"
#include "devices/memory.h"
#include "plans/plan.h"
#include "tuning/manner.h"
#include "transports/shm/common_slots.h"
#include "transports/transport.h"

struct df_coll;

/* What one dfcclRun* was given. */
typedef struct df_run {
  const void *send;
  void *recv;
  uint64_t count; /* elements; 0: as registered */
  uint32_t send_reach, recv_reach;
  uint32_t ticket; /* of a stream; 0: none */
  dfcclCallback_t callback;
  void *argument;
  uint64_t submitted_ns; /* 0 where no timeout is configured */
} df_run;

/* A registration that a peer has announced; matched with the local one of the same turn. */
typedef struct df_remote {
  struct df_remote *next; /* of the same peer and id, oldest first */
  dfcclCollId_t id;
  uint32_t peer;
  df_announcement announcement;
  uint32_t first_rank;
  uint32_t *ranks;       /* [announcement.group_size]; NULL: told by a step */
  struct df_coll *bound; /* the local registration that it meets */
  int met;               /* it has met one, which may be deregistered by now */
  df_offer offer;        /* where this rank writes for the peer; meaningful if has_offer */
  int has_offer;
  int is_connected;
  df_ticket *connected; /* the transport's, if it holds anything for what this rank writes */
  df_ticket *accepted;  /* rings in which the peer writes for this rank, until it no longer can */
  int expected;     /* only its place: the announcement is still to come, the local registration has
                       left */
  int deregistered; /* the peer has deregistered it, after `runs` runs */
  uint64_t runs;
  int leaves;           /* ... because it leaves the job */
  int limited;          /* its context is broken: it runs no more than `runs` */
  dfcclResult_t failed; /* told by the peer */
  char *sentence;       /* NULL: none, or no memory for it */
} df_remote;

/* What a thread that waits for a collective looks at without the lock: one line for each index of
 * the registry, there as long as the context. */
typedef struct DF_ALIGNED(64) df_wait_words {
  uint64_t registration; /* which of the context's registrations the line belongs to; 0: none. From
                            one to none only when no callback of it is still to return */
  uint64_t latest;       /* which it belonged to last; [lock] */
  uint64_t id;
  uint64_t submitted;    /* runs accepted */
  uint64_t completed;    /* callbacks returned */
  uint32_t status;       /* dfcclResult_t: the first failure since the last dfcclWait */
  uint32_t due;          /* it has callbacks to run, and no thread runs them */
  uint64_t first_failed; /* the first run that failed; all later ones do. UINT64_MAX: none */
  uint32_t failed;       /* their status */
} df_wait_words;

typedef struct df_coll {
  dfcclCollId_t id; /* first: the hash set's key */
  uint32_t index;
  int deregistered;    /* its callback, or dfcclWaitAll, still holds it */
  uint32_t references; /* the registry's, one for each pending callback and each dfcclWaitAll */
  df_operation operation;
  uint64_t count;
  dfcclDataType_t type;
  dfcclRedOp_t op;
  uint32_t root, n, position;
  int reads_input, writes_output; /* this rank, of the buffers of a run */
  uint32_t element_mask;          /* bits of an address that must be 0 in them */
  uint32_t *ranks;                /* [n_paired] group order */
  uint32_t group_step;            /* of the first n of them */
  df_remote **remotes;            /* [n] by position; NULL until bound, and for this rank */
  uint32_t n_bound;
  uint32_t
      n_paired; /* n, and ranks that a member with another group counts in: they must hear of us */
  int32_t priority;
  char name[DF_MAX_NAME];
  df_plan *plan;
  df_manner manner; /* how it travels, and its shape */
  df_device_coll device;
  df_ring ring;     /* each in which this rank receives; no slots: not chosen yet */
  int setting_up;   /* a transport is at it, and may have let go of the lock */
  int ready;        /* all links stand: runs may be admitted */
  int first_turn;   /* ... and its submitter may take a run's first turn: it is short */
  df_common common; /* its common slots */

  dfcclResult_t failed;
  char sentence[DF_SENTENCE_BYTES];
  uint64_t run_limit; /* runs that all members can meet; a member has deregistered after so many */
  uint32_t limit_rank;
  int limit_rank_leaves; /* it is destroying its context, or that is broken */

  uint64_t submitted; /* runs accepted */
  uint64_t admitted;  /* given to the daemon */
  uint64_t retired;   /* taken back from it, by a CQE */
  uint64_t
      taken; /* through: retired, or failed while waiting on the host; the callback may still run */
  df_wait_words *words;
  df_run in_device[DF_RUNS_AHEAD]; /* by run */
  df_run *backlog;                 /* ring of waiting runs */
  uint32_t backlog_capacity, backlog_head, backlog_length;
  uint64_t first_given_up; /* of the runs that the daemon gave up and that are not retired yet */
  uint32_t n_given_up;     /* how many of them CQEs have told of */
  int listed; /* on the context's list of collectives with something to admit or to fail */
  struct df_coll *next_listed;
  uint32_t first_callback, last_callback; /* 1 + index in the pool; 0: none */
  int calls_back;                         /* a thread runs one of its callbacks */
  TAILQ_ENTRY(df_coll) next_due;
} df_coll;

#endif
