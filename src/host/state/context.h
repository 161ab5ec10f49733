/* The host's view of one rank. context->lock protects registry, peers, submission and memory
 * tables. No thread holds it while the daemon executes, while user code runs, or across a system
 * call that waits.
 * Threads: those of the device's executor (devices/cpu/executor.c, devices/cuda/executor.c), the
 * service thread (control/service.c, service_tasks.c), the poller (completion.c), and the callers'
 * threads. */
#ifndef DF_HOST_STATE_CONTEXT_H
#define DF_HOST_STATE_CONTEXT_H

#include <ck_hs.h>
#include <pthread.h>

#include "base/mutex.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/net/fork_guard.h"
#include "control/message.h"
#include "control/messenger.h"
#include "devices/device.h"
#include "host/state/collective.h"
#include "host/state/flight.h"
#include "host/settings/settings.h"
#include "plans/cache.h"
#include "plans/plan.h"
#include "transports/shm/common_slots.h"
#include "transports/shm/endpoint.h"
#include "tuning/tuning_file.h"

struct df_recorder;
struct df_tracer;
struct df_tuner_plugin;
struct df_message_log;
struct df_profiler;
struct df_snapshot_server;
struct df_metrics;

/* A run that has ended. It is in its collective's list until its callback is called. */
typedef struct df_pending_callback {
  dfcclCallback_t callback;
  void *argument;
  dfcclResult_t status;
  uint32_t next; /* 1 + index; 0: none */
} df_pending_callback;

/* The pending callbacks of all collectives. The pool grows when runs are accepted. */
typedef struct df_callback_pool {
  df_pending_callback *entries;
  uint64_t capacity;
  uint32_t used;       /* entries ever used */
  uint32_t first_free; /* 1 + index; 0: none */
} df_callback_pool;

typedef struct df_failure_reason {
  uint32_t lost, witness; /* lost rank and reporting rank; DF_NOBODY: none */
  char why[DF_SENTENCE_BYTES];
} df_failure_reason;

/* Memory from dfcclMemAlloc. */
typedef struct df_user_memory {
  struct df_user_memory *next;
  df_segment *segment;
  uint64_t *mapping; /* [n_ranks] added to an address for that peer */
  uint32_t entry;    /* index in device.mappings; 0: the table was full */
  int buried;        /* freed by the application; ranks of this process may still read it */
  int may_be_read;   /* a run that used it failed: peers may still read it */
} df_user_memory;

typedef struct df_memory {
  df_user_memory *in_use;
  df_user_memory *retired; /* freed, still mapped by peers */
} df_memory;

typedef struct df_transports {
  df_shm_endpoint *shm; /* always open */
  df_endpoint *wire;    /* NULL: no pair needs the network transport */
  df_endpoint **to;
  uint8_t *serves;                 /* [n_ranks] 1: shared memory connects this rank and that one */
  uint8_t *wire_serves;            /* [n_ranks] 1: the network transport does */
  struct df_reported_loss *losses; /* lost connections whose consequences are not decided yet */
  struct df_pings *pings;          /* heartbeats; NULL: no rank needs any */
  int all_have_aes;                /* whether the processor of every rank has AES instructions */
} df_transports;

enum { DF_RECENT_IDS = 64 };

typedef struct df_registry {
  ck_hs_t colls;
  ck_hs_t remotes; /* by peer, id and variant: lists, oldest announcement first */
  df_remote *gone; /* announcements of processes whose numbers belong to others, still bound */
  df_coll **by_index;
  df_coll **by_line;
  uint32_t *generations;
  uint32_t *free_indices;
  uint32_t n_free, n_indices;
  uint32_t *free_lines;
  uint32_t n_free_lines, n_lines;
  uint32_t n_colls, n_variants; /* in the table */
  uint64_t record_bytes;        /* the sum over them */
  uint64_t proposals;           /* plan switches that this rank has proposed */
  uint64_t switches;            /* plan switches that collectives have made */
  df_coll *latest;              /* result of the latest look-up */
  df_wait_words *wait_words;    /* [capacity] by line */
  void *wait_words_memory;
  /* By id modulo DF_RECENT_IDS: 1 + line of the latest look-up. Read without the lock. */
  uint32_t recent[DF_RECENT_IDS];
  uint64_t registrations;
} df_registry;

typedef struct df_runs {
  /* submission */
  uint64_t accepted;       /* runs; written under the lock */
  uint64_t surplus;        /* runs in the device beyond each collective's first */
  uint64_t backlog_length; /* runs that wait on the host */
  uint32_t held; /* device synchronisations in progress: while any is, no run is admitted */
  df_coll *listed_first, **listed_last;
  uint32_t has_listed; /* read without the lock */

  /* completion */
  df_callback_pool callbacks;
  TAILQ_HEAD(df_due_colls, df_coll)
  due;                /* collectives with callbacks that no thread runs at the moment */
  uint32_t n_due;     /* read without the lock */
  uint64_t taken;     /* runs whose status is known; their callbacks may still run */
  uint64_t completed; /* runs; written under the lock. Outstanding: accepted - completed */
  uint32_t sleeping_waiters;
  uint32_t waiters; /* threads in calls that wait; df_context_close waits for them */
  df_bell poller_bell;
  pthread_t poller;
  int poller_started;
  dfcclResult_t wait_all_status;
  uint32_t timing;     /* collectives whose runs are timed; read without the lock */
  uint32_t is_watched; /* 1: snapshots need times of runs; counted in timing */
  uint32_t timed_left; /* runs that are still timed for snapshots; valid if is_watched */
  uint64_t watched_until_ns;
  uint64_t callbacks_run, sqes_submitted, cqes_seen;
  uint32_t stopping;       /* the poller is to end */
  uint32_t deadlines_idle; /* the service thread sleeps without limit: a submitter must wake it */
  uint32_t device_lost;    /* the daemon completes no more runs; the host completes them */
} df_runs;

typedef struct df_pending_dump {
  char *text; /* NULL: none */
  size_t at;  /* bytes written so far */
  int has_turn;
  uint64_t give_up_ns; /* valid if has_turn */
} df_pending_dump;

enum { DF_KEPT_FAILURES = 8 };

/* The failure of one registration: its runs from the first one on. */
typedef struct df_kept_failure {
  dfcclCollId_t id;
  uint64_t registration; /* df_wait_words.latest */
  uint64_t first;
  dfcclResult_t status;
  char sentence[DF_SENTENCE_BYTES];
} df_kept_failure;

typedef struct df_failure {
  dfcclResult_t broken; /* other than dfcclSuccess: every later registration and run is refused */
  char broken_sentence[DF_SENTENCE_BYTES];
  df_failure_reason failure_reason; /* valid if broken */
  int has_reported_broken;          /* the peers have been notified */
  int given_up;
  char sentence[DF_SENTENCE_BYTES]; /* text of the latest failure */
  /* The latest failures of registrations: the newest is kept[(n_kept - 1) % DF_KEPT_FAILURES].
   * runs/run_failures.c owns both. */
  df_kept_failure kept[DF_KEPT_FAILURES];
  uint64_t n_kept;
  int timed_out
      DF_GUARDED_BY(df_rank_role); /* a run has timed out since the service thread last checked */
  uint32_t signals_handled;
  df_pending_dump dump; /* owned by the service thread, as is late_dump */
  char *late_dump;      /* made when a run timed out; written after `dump`. NULL: none */
} df_failure;

struct dfcclContext {
  uint64_t magic;
  uint32_t rank, n_ranks;
  df_settings settings;
  uint32_t max_blocks;  /* for any collective: the least maximum of all ranks */
  uint32_t near_blocks; /* maximum for collectives whose members are on one host, or share cores */
  df_topology topology;
  df_mesh mesh;
  df_rank_mutex lock;
  df_registry registry;
  /* Sets up all links of the collective that can be set up without waiting
   * (registration/link_setup.c). The caller holds the lock. */
  void (*links_progress)(dfcclContext_t context, df_coll *coll);
  struct df_survival *survival; /* NULL: the job ends with the loss of a rank */
  /* Prepares the next home of a collective that has lost a member (registration/successor.c). The
   * caller holds the lock. */
  void (*home_progress)(dfcclContext_t context, df_coll *coll);
  /* Called before the device's index of a collective may serve another one (observe/turns.c). NULL:
   * nobody needs it. The caller holds the lock. */
  void (*before_index_is_free)(dfcclContext_t context);
  /* On the poller: notifies the application of a view (membership/membership.c). Returns 1 if it
   * did. */
  int (*tell_view)(dfcclContext_t context);
  df_plan_cache plans;
  df_runs runs;

  df_rank_device device;
  df_control control;
  df_transports transports;
  df_memory memory;
  uint32_t links_due; /* the service thread has links to set up */
  df_failure failure;
  df_flight *flight; /* NULL: no memory for the flight recorder */
  struct df_recorder *recorder;
  struct df_tracer *tracer;
  struct df_metrics *metrics;           /* NULL: DFCCL_METRICS is not set */
  struct df_tuner_plugin *tuner_plugin; /* NULL: none */
  struct df_message_log *messages;      /* NULL: no turns are traced */
  struct df_profiler *profiler;         /* NULL: none; read without the lock */
  struct df_snapshot_server *snapshots; /* NULL: the rank has no socket for dfccl-top */
  df_tuning_store tuning_cache;
  dfcclContext_t next_in_process; /* list of observe/wait_graph.c */
  df_fork_guard fork_guard;
};

#define DF_CONTEXT_MAGIC 0x64666363636f6e74ull
#define DF_CONTEXT_MAGIC_IN_CHILD 0x6466636366726b64ull /* in a forked child */

dfcclResult_t df_context_open(dfcclContext_t *out, uint32_t n_ranks, uint32_t rank,
                              const df_settings *settings, df_mesh *mesh);
dfcclResult_t df_context_close(dfcclContext_t context);

#endif
