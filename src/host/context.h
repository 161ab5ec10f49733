/*
 * The host's view of one rank. One lock protects registry, peers, submission and memory tables; it
 * is held for short, bounded work only: never while the daemon executes or user code runs, never
 * across a system call that waits.
 *
 * Threads of a context: a background thread for each block (executor_cpu), the service thread
 * (control messages, links, deadlines; service.c), the poller (CQ to callbacks; completion.c), and
 * every application thread that calls in.
 */
#ifndef DF_HOST_CONTEXT_H
#define DF_HOST_CONTEXT_H

#include <ck_hs.h>
#include <pthread.h>

#include "bootstrap/bootstrap.h"
#include "host/collective.h"
#include "devices/device.h"
#include "control/message.h"
#include "host/settings.h"
#include "bootstrap/process.h"
#include "control/post.h"
#include "plans/cache.h"
#include "plans/plan.h"
#include "transports/shm/common_slots.h"
#include "transports/shm/endpoint.h"

struct df_recorder;

/* A run that is through and whose callback has not been called: in its collective's list. */
typedef struct df_pending_callback {
  dfcclCallback_t callback;
  void *argument;
  dfcclResult_t status;
  uint32_t next; /* 1 + the index of the entry behind it; 0: none */
} df_pending_callback;

/* Entries for all of a context's collectives; grown when runs are accepted. */
typedef struct df_callback_pool {
  df_pending_callback *entries;
  uint64_t capacity;
  uint32_t used;       /* entries that were in a list before */
  uint32_t first_free; /* 1 + index, of those; 0: none */
} df_callback_pool;

/* Why a context is broken, as it is passed on. */
typedef struct df_cause {
  uint32_t lost, witness; /* the rank that was lost, DF_NOBODY: none; and who saw it */
  char why[DF_SENTENCE_BYTES];
} df_cause;

/* Memory from dfcclMemAlloc. */
typedef struct df_user_memory {
  struct df_user_memory *next;
  df_segment *segment;
  uint64_t *reach; /* [n_ranks] what to add to an address for that peer */
  uint32_t entry;  /* in the context's table of reaches; 0: none was left */
  int buried;      /* freed, but ranks of this process may read it until they leave */
  int may_be_read; /* a run of it has failed: peers may still read it, and not know */
} df_user_memory;

typedef struct df_memory {
  df_user_memory *in_use;
  df_user_memory *retired; /* freed, and still mapped by peers */
} df_memory;

/* The ways to other ranks. */
typedef struct df_transports {
  df_shm_endpoint *shm; /* this rank's memory; always open */
  df_endpoint **to;     /* [n_ranks] what joins the pair */
  uint8_t *serves;      /* [n_ranks] 1: shm does */
} df_transports;

enum { DF_RECENT_IDS = 64 };

/* The registry: collectives by id and by index, and what peers have announced. */
typedef struct df_registry {
  ck_hs_t colls;   /* by id */
  ck_hs_t remotes; /* by peer and id: the oldest that is not bound, and later ones behind it */
  df_coll **by_index;
  uint32_t *generations; /* of each index */
  uint32_t *free_indices;
  uint32_t n_free, n_indices, n_colls;
  df_coll *latest;           /* the collective looked up last */
  df_wait_words *wait_words; /* [capacity] by index */
  void *wait_words_memory;
  /* By id, modulo: 1 + the index looked up last; without the lock. */
  uint32_t recent[DF_RECENT_IDS];
  uint64_t registrations; /* so far */
} df_registry;

/* Runs, from their submission to their callbacks. */
typedef struct df_runs {
  /* submission */
  uint64_t accepted;       /* written under the lock */
  uint64_t surplus;        /* runs in the device beyond the first of their collective */
  uint64_t backlog_length; /* waiting on the host */
  uint32_t held;           /* device synchronisations in progress: nothing is admitted */
  df_coll *listed_first, **listed_last;
  uint32_t has_listed; /* the list is not empty; looked at without the lock */

  /* completion */
  df_callback_pool callbacks;
  TAILQ_HEAD(df_due_colls, df_coll) due; /* have callbacks, and no thread runs them */
  uint32_t n_due;                        /* looked at without the lock */
  uint64_t taken;     /* their statuses are known, their callbacks may still run */
  uint64_t completed; /* written under the lock; outstanding: accepted - completed */
  uint32_t sleeping_waiters;
  uint32_t visitors; /* threads inside calls that wait: df_context_close lets them leave first */
  df_bell poller_bell;
  pthread_t poller;
  int poller_started;
  dfcclResult_t wait_all_status;
  uint64_t callbacks_run, sqes_submitted, cqes_seen;
  uint32_t stopping;       /* the poller ends */
  uint32_t deadlines_idle; /* the service thread sleeps without a limit: wake it when a deadline
                              begins to run */
  uint32_t device_lost;    /* the daemon will complete nothing any more: the host does */
} df_runs;

/* A dump on its way to standard error. */
typedef struct df_pending_dump {
  char *text; /* NULL: none */
  size_t at;  /* what is before it is written */
  int has_turn;
  uint64_t give_up_ns; /* meaningful with the turn */
} df_pending_dump;

/* What went wrong last, and whether the context goes on. */
typedef struct df_failure {
  dfcclResult_t broken; /* not 0: every later registration and run is refused with it */
  char broken_sentence[DF_SENTENCE_BYTES];
  df_cause cause;                   /* meaningful while broken */
  int told_broken;                  /* df_tell_broken was here */
  int given_up;                     /* df_give_up was here */
  char sentence[DF_SENTENCE_BYTES]; /* latest failure */
  int timed_out;            /* [lock] a run has, since the service thread looked */
  uint32_t signals_handled; /* of those that ask for a dump */
  df_pending_dump dump;     /* the service thread's, as late_dump */
  char *late_dump;          /* made when a run timed out, and to be written next; NULL: none */
} df_failure;

struct dfcclContext {
  uint64_t magic;
  uint32_t rank, n_ranks;
  df_settings settings;
  uint32_t max_blocks; /* of a collective: the least that any rank allows */
  df_topology topology;
  df_mesh mesh;
  pthread_mutex_t lock;
  df_registry registry;
  df_plan_cache plans;
  df_runs runs;

  df_rank_device device;
  df_control control;
  df_transports transports;
  df_memory memory;
  uint32_t links_due; /* link set-up for the service thread */
  df_failure failure;
  struct df_recorder *recorder;
  dfcclContext_t next_in_process; /* waits.c's */
  df_fork_guard fork_guard;
};

#define DF_CONTEXT_MAGIC 0x64666363636f6e74ull
#define DF_CONTEXT_MAGIC_IN_CHILD 0x6466636366726b64ull /* of a process that was forked since */

/* [lock] in a header of this room: the function is called with context->lock held. */

dfcclResult_t df_context_open(dfcclContext_t *out, uint32_t n_ranks, uint32_t rank,
                              const df_settings *settings, df_mesh *mesh);
dfcclResult_t df_context_close(dfcclContext_t context);
df_card df_context_card(const df_settings *settings);
df_device_card df_context_peer_card(dfcclContext_t context, uint32_t rank);
df_transport_card df_context_transport_card(dfcclContext_t context, uint32_t rank);

#endif
