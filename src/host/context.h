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
#include "control/world.h"
#include "plans/plan.h"
#include "primitives/windows.h"
#include "transports/shm/segment.h"

struct df_recorder;

/* Runs that are through and whose callbacks have not run: a ring, sized when runs are accepted. */
typedef struct df_pending_callback {
  df_coll *coll;
  dfcclCallback_t callback;
  void *argument;
  dfcclResult_t status;
} df_pending_callback;

typedef struct df_callback_queue {
  df_pending_callback *entries;
  uint64_t capacity, head, tail;
  int running; /* the completer has taken one that is not finished yet */
} df_callback_queue;

/* Given up: it called dfcclAbort, sends nonsense, or another rank says that it died. It may still
 * write to us. */
typedef enum { DF_PEER_ALIVE, DF_PEER_LEFT, DF_PEER_GIVEN_UP, DF_PEER_DEAD } df_peer_state;

/* Why a context is broken, as it is passed on. */
typedef struct df_cause {
  uint32_t lost, witness; /* the rank that was lost, DF_NOBODY: none; and who saw it */
  char why[DF_SENTENCE_BYTES];
} df_cause;

typedef struct df_outgoing {
  struct df_outgoing *next;
  int fd; /* to pass along; -1; borrowed from its segment */
  size_t bytes;
  df_message message;
} df_outgoing;

typedef struct df_peer {
  df_peer_state state;
  int local;  /* lives in this process */
  int socket; /* -1 when local */
  int writable_wanted;
  int departing; /* its BYE may be among the letters that are being read, or was lost */
  int is_mute;   /* it had no memory for a message */
  df_outgoing *first, **last;
  df_bell *bell;        /* its work bell, once known */
  df_segment *segments; /* mapped here */
  df_windows *windows;  /* those of them that it may lend from; NULL when local */
  uint64_t *told;       /* ids of our link segments that it has been told */
  uint32_t n_told;
  int maps;    /* it was told of memory of our device, and has not unmapped all of it */
  int cut_off; /* we ended the connection, and it may live: what it has mapped, it keeps */
  int closing; /* our mappings of its device's memory are to be closed; service thread */
  int broken;  /* its context is: what it has not registered, it never will */
  char *cause; /* what broke it */
  dfcclResult_t cause_status;
} df_peer;

/* Memory from dfcclMemAlloc. */
typedef struct df_user_memory {
  struct df_user_memory *next;
  df_segment *segment;
  uint64_t *reach; /* [n_ranks] what to add to an address for that peer */
  uint32_t entry;  /* in the context's table of reaches; 0: none was left */
  uint8_t *mapped; /* [n_ranks] told of it, and has not unmapped it; NULL: host memory */
  int buried;      /* freed, but ranks of this process may read it until they leave */
  int may_be_read; /* a run of it has failed: peers may still read it, and not know */
} df_user_memory;

/* A segment of common slots. */
typedef struct df_common_segment {
  struct df_common_segment *next;
  const df_segment *segment;
  uint64_t *reach; /* [n_ranks] what to add to an address for that peer */
  uint8_t *told;   /* [n_ranks] the segment was offered to it */
} df_common_segment;

enum { DF_RECENT_IDS = 64 };

struct dfcclContext {
  uint64_t magic;
  uint32_t rank, n_ranks;
  df_settings settings;
  df_shape_limits shape_limits;
  uint32_t n_cores; /* that the ranks' processes may use, all together; the same on every rank */
  df_mesh mesh;
  df_world *world;
  pthread_mutex_t lock;

  /* registry */
  ck_hs_t colls;   /* by id */
  ck_hs_t remotes; /* by peer and id: the oldest that is not bound, and later ones behind it */
  df_coll **by_index;
  uint32_t *generations; /* of each index */
  uint32_t *free_indices;
  uint32_t n_free, n_indices, n_colls;
  df_coll *latest;           /* the collective looked up last */
  df_wait_words *wait_words; /* [capacity] by index */
  void *wait_words_memory;
  uint32_t
      recent[DF_RECENT_IDS]; /* by id, modulo: 1 + the index looked up last; without the lock */
  uint64_t registrations;    /* so far */
  struct df_plan_entry *plans;

  /* device */
  const df_device_ops *ops;
  void *device_state; /* the device's own */
  df_device *device;
  df_block *blocks;
  uint32_t capacity; /* collectives that it has room for */
  df_bell *work_bell;

  /* submission */
  uint64_t surplus;        /* runs in the device beyond the first of their collective */
  uint64_t backlog_length; /* waiting on the host */
  uint32_t held;           /* device synchronisations in progress: nothing is admitted */
  df_coll *listed_first, **listed_last;
  uint32_t has_listed;    /* the list is not empty; looked at without the lock */
  uint64_t runs_accepted; /* written under the lock */

  /* completion */
  uint32_t completer; /* 1: somebody runs callbacks */
  df_callback_queue callbacks;
  uint64_t runs_taken;     /* their statuses are known, their callbacks may still run */
  uint64_t runs_completed; /* written by the completer; outstanding: accepted - completed */
  uint32_t sleeping_waiters;
  uint32_t visitors; /* threads inside calls that wait: df_context_close lets them leave first */
  df_bell poller_bell;
  pthread_t poller;
  int poller_started;
  dfcclResult_t wait_all_status;
  uint64_t callbacks_run, sqes_submitted, cqes_seen;
  uint32_t device_lost;  /* the daemon will complete nothing any more: the host does */
  uint32_t service_idle; /* it sleeps without a limit: wake it when a deadline begins to run */

  /* service */
  pthread_t service;
  int service_started;
  int epoll_fd, event_fd;
  uint8_t *receive_buffer; /* the service thread's */
  uint32_t departures_seen;
  uint32_t stopping;
  char *timeout_dump; /* [lock] what there was to say when a run timed out; not written yet */
  uint32_t links_due; /* link set-up for the service thread */
  int unmaps_due;     /* the service thread's: a device's memory may be unmapped or go back */

  /* peers and memory */
  df_peer *peers;
  df_segment *home; /* holds the work bell */
  df_arena arena;
  df_arena commons; /* common slots */
  df_common_segment *common_segments;
  df_user_memory *user_memory;
  df_user_memory *retired;  /* freed, and still mapped by peers */
  const uint64_t **reaches; /* [DF_MAX_REACHES] by entry */
  uint64_t next_segment_id;

  dfcclResult_t broken; /* not 0: every later registration and run is refused with it */
  char broken_sentence[DF_SENTENCE_BYTES];
  df_cause cause;                   /* meaningful while broken */
  int told_broken;                  /* df_tell_broken was here */
  int given_up;                     /* df_give_up was here */
  int said_goodbye;                 /* df_peers_say_goodbye was here: no message leaves any more */
  char sentence[DF_SENTENCE_BYTES]; /* latest failure */
  struct df_recorder *recorder;
  uint32_t signals_handled;
};

#define DF_CONTEXT_MAGIC 0x64666363636f6e74ull

/* Names by file. Functions marked [lock] are called with context->lock held. */

/* init.c */
dfcclResult_t df_context_open(dfcclContext_t *out, uint32_t n_ranks, uint32_t rank,
                              const df_settings *settings, df_mesh *mesh);
dfcclResult_t df_context_close(dfcclContext_t context);
df_card df_context_card(const df_settings *settings);
df_device_card df_context_peer_card(dfcclContext_t context, uint32_t rank);

/* registry.c */
typedef struct df_registration {
  df_operation operation;
  dfcclCollId_t id;
  uint64_t count;
  dfcclDataType_t type;
  dfcclRedOp_t op;
  int root;
  const dfcclCollOptions_t *options;
} df_registration;
dfcclResult_t df_register(dfcclContext_t context, const df_registration *registration);
dfcclResult_t df_deregister(dfcclContext_t context, dfcclCollId_t id);
df_coll *df_look_up(dfcclContext_t context, dfcclCollId_t id); /* [lock] */
/* [lock] NULL: not registered. */
static inline df_coll *df_find(dfcclContext_t context, dfcclCollId_t id) {
  if (DF_LIKELY(context->latest && context->latest->id == id)) return context->latest;
  return df_look_up(context, id);
}
/* [lock] NULL: none, or one that is deregistered and kept by its callback. */
static inline df_coll *df_registered(const dfcclContext_t context, uint32_t index) {
  df_coll *coll = context->by_index[index];
  return coll && !coll->deregistered ? coll : NULL;
}
const df_wait_words *df_look_up_words(dfcclContext_t context, dfcclCollId_t id,
                                      uint64_t *registration);
/* What to look at to wait for a collective; *registration tells it from others that use the line
 * later. Takes the lock only for one that was not looked up lately. NULL: not registered. */
static inline const df_wait_words *df_find_words(dfcclContext_t context, dfcclCollId_t id,
                                                 uint64_t *registration) {
  uint32_t index = df_load_relaxed_u32(&context->recent[id % DF_RECENT_IDS]);
  if (DF_LIKELY(index != 0)) {
    const df_wait_words *words = &context->wait_words[index - 1];
    *registration = df_observe_u64(&words->registration);
    if (DF_LIKELY(*registration != 0 && df_load_relaxed_u64(&words->id) == id)) return words;
  }
  return df_look_up_words(context, id, registration);
}
void df_coll_unreference(dfcclContext_t context, df_coll *coll); /* [lock] */
/* [lock] To the members from this position on, strangers included. */
void df_coll_announce(dfcclContext_t context, df_coll *coll, uint32_t from);
void df_registry_free(dfcclContext_t context);
dfcclResult_t df_registry_init(dfcclContext_t context);
void df_coll_send(dfcclContext_t context, df_coll *coll, const df_message *message,
                  const void *payload); /* [lock] to all other members */

/* plan_cache.c */
df_plan *df_plan_acquire(dfcclContext_t context, const df_plan_key *key); /* [lock] */
void df_plan_release(dfcclContext_t context, df_plan *plan);              /* [lock] */

/* match.c */
dfcclResult_t df_match_announced(dfcclContext_t context, uint32_t peer,
                                 const df_message *message); /* [lock] */
void df_match_bind(dfcclContext_t context,
                   df_coll *coll); /* [lock] binds what peers have announced */
void df_match_unbind(dfcclContext_t context, df_coll *coll); /* [lock] local deregistration */
df_remote *df_match_newest(dfcclContext_t context, uint32_t peer, dfcclCollId_t id); /* [lock] */
void df_match_deregistered(dfcclContext_t context, df_remote *remote, uint64_t runs,
                           int leaves); /* [lock] */
void df_match_limited(dfcclContext_t context, df_remote *remote,
                      uint64_t runs); /* [lock] its context is broken: it runs no more */
void df_match_left(dfcclContext_t context, df_remote *remote); /* [lock] its rank has left */
void df_match_free(dfcclContext_t context);
void df_remote_free(dfcclContext_t context, df_remote *remote); /* [lock] */
df_announcement df_coll_announcement(const df_coll *coll);

/* link_setup.c */
void df_links_progress(dfcclContext_t context,
                       df_coll *coll);              /* [lock] reserves, tells, and becomes ready */
void df_links_progress_due(dfcclContext_t context); /* the service thread, where devices want it */
/* [lock] A range of the arena. Where a device must allocate for it the lock is let go meanwhile.
 * Not zeroed. */
dfcclResult_t df_take_range(dfcclContext_t context, uint64_t bytes, df_range *range);
void df_links_told(dfcclContext_t context, df_remote *remote, uint64_t segment,
                   uint64_t offset); /* [lock] */

/* submit.c */
/* Fills in what the run's record lacks. */
dfcclResult_t df_submit_run(dfcclContext_t context, df_operation operation, dfcclCollId_t id,
                            df_run *run);
static inline dfcclResult_t df_submit(dfcclContext_t context, df_operation operation,
                                      dfcclCollId_t id, const void *send, void *recv,
                                      dfcclCallback_t callback, void *argument) {
  df_run run = {.send = send, .recv = recv, .callback = callback, .argument = argument};
  return df_submit_run(context, operation, id, &run);
}
/* Begins when the stream comes to this call; the stream then waits until it is through. */
dfcclResult_t df_submit_on_stream(dfcclContext_t context, df_operation operation, dfcclCollId_t id,
                                  const void *send, void *recv, void *stream,
                                  dfcclCallback_t callback, void *argument);
void df_list(dfcclContext_t context, df_coll *coll); /* [lock] has something to admit or to fail */
void df_unlist(dfcclContext_t context, df_coll *coll); /* [lock] */
void df_admit_listed(dfcclContext_t context);          /* [lock] */
void df_between_turns(void *context);
/* [lock] */
static inline uint32_t df_runs_in_device(const df_coll *coll) {
  return (uint32_t)(coll->admitted - coll->retired);
}
df_run df_backlog_pop(dfcclContext_t context, df_coll *coll); /* [lock] */

/* completion.c */
dfcclResult_t df_poller_start(dfcclContext_t context);
void df_poller_stop(dfcclContext_t context);
/* Reaps, and runs callbacks if nobody else does; returns how many runs were finished. driver (may
 * be NULL) is released around user code; a thread that drives leaves callbacks beyond some number
 * for its next call, or rings the poller. */
uint32_t df_complete(dfcclContext_t context, df_driver *driver);
void df_reap_and_ring(void *context);             /* reaps, and leaves callbacks to the poller */
int df_completion_is_due(dfcclContext_t context); /* would df_complete find something? */
/* A run of this collective is through, and no CQE tells of it: what reaping one does, and rings
 * the bells. Returns whether the run was finished and nothing is left to do; 0: df_complete will
 * find something, as its callback. */
int df_complete_untold(dfcclContext_t context, uint32_t collective, const df_noted_bells *bells);
dfcclResult_t df_grow_callbacks(dfcclContext_t context); /* [lock] */
/* [lock] Room for one more outstanding run's callback, made before the run is accepted: completing
 * needs no memory. */
static inline dfcclResult_t df_reserve_callback(dfcclContext_t context) {
  uint64_t outstanding = context->runs_accepted - context->runs_completed;
  if (DF_LIKELY(outstanding < context->callbacks.capacity)) return dfcclSuccess;
  return df_grow_callbacks(context);
}
int df_has_outstanding(void *context);
void df_ring_poller(void *context);
int df_in_callback(void); /* the calling thread is inside a callback */

/* wait.c */
dfcclResult_t df_wait(dfcclContext_t context, dfcclCollId_t id);
dfcclResult_t df_wait_all(dfcclContext_t context);
dfcclResult_t df_device_synchronize(dfcclContext_t context);
/* Until nothing is outstanding and nobody is inside a call that waits. */
void df_wait_settled(dfcclContext_t context);
/* The driving thread counts among the context's visitors from here on. */
void df_visit(dfcclContext_t context, df_driver *driver);
/* Until every run's status is known, or so long; callbacks are left to the poller. */
void df_wait_decided(dfcclContext_t context, uint64_t most_ns);

/* failure.c */
dfcclResult_t df_remember_failure(dfcclContext_t context, dfcclResult_t result);
/* A failing call's sentence is the context's latest failure too. Returns result. */
static inline dfcclResult_t df_remember(dfcclContext_t context, dfcclResult_t result) {
  return DF_LIKELY(result == dfcclSuccess) ? result : df_remember_failure(context, result);
}
void df_fail_collective(dfcclContext_t context, df_coll *coll, dfcclResult_t status, int tell,
                        const char *sentence);                                     /* [lock] */
void df_break(dfcclContext_t context, dfcclResult_t status, const char *sentence); /* [lock] */
/* [lock] What keeps peers in step was lost (a message, for want of memory): breaks the context and
 * ends every collective, here and on its members. */
void df_give_up(dfcclContext_t context, dfcclResult_t status, const char *sentence);
void df_check_run_limit(dfcclContext_t context, df_coll *coll); /* [lock] */
/* [lock] Why the run after the limit can never complete; returns its status. */
dfcclResult_t df_describe_limit(dfcclContext_t context, const df_coll *coll, char *text,
                                size_t bytes);
void df_check_deadlines(dfcclContext_t context); /* [lock] */
void df_peer_lost(dfcclContext_t context, uint32_t peer, df_peer_state state,
                  const char *why); /* [lock] as this rank sees it */
/* [lock] It is alive, but says what makes no sense: nothing more is heard from it, and it is told.
 */
void df_peer_refuse(dfcclContext_t context, uint32_t peer);
/* [lock] Once, to all others: what broke this rank's context, and how many runs of each collective
 * it has accepted, since it will accept no more. Else peers would wait for those, and, when it
 * leaves, take that for the cause. */
void df_tell_broken(dfcclContext_t context);
void df_hear_cause(dfcclContext_t context, uint32_t from, const df_message *message); /* [lock] */
void df_peer_left(dfcclContext_t context, uint32_t peer); /* [lock] in order */
/* [lock] A member that has left, or whose context is broken, never announced it. */
void df_fail_unannounced(dfcclContext_t context, df_coll *coll, uint32_t peer);
dfcclResult_t df_abort(dfcclContext_t context);
const char *df_coll_label(const df_coll *coll, char *text,
                          size_t bytes); /* "collective 7 (\"grad\")" */

/* peers.c */
dfcclResult_t df_peers_init(dfcclContext_t context);
void df_peers_free(dfcclContext_t context);
void df_send(dfcclContext_t context, uint32_t peer, const df_message *message, const void *payload,
             int fd); /* [lock] */
/* [lock] 1: the peer will map memory of our device. */
int df_send_segment(dfcclContext_t context, uint32_t rank, const df_segment *segment, uint64_t use);
void df_peer_flush(dfcclContext_t context, uint32_t peer); /* [lock] */
void df_peer_cut_off(df_peer *peer); /* [lock] ends the connection of a peer that may live */
void df_peers_say_goodbye(dfcclContext_t context);

/* service.c */
dfcclResult_t df_service_start(dfcclContext_t context);
void df_service_stop(dfcclContext_t context);
void df_service_wake(dfcclContext_t context);
void df_service_handle(dfcclContext_t context, uint32_t from, const df_message *message,
                       int fd); /* [lock] takes fd */

/* common.c */
void df_common_reserve(dfcclContext_t context, df_coll *coll); /* [lock] when its links stand */
void df_common_mapped(dfcclContext_t context, uint32_t peer, uint64_t segment,
                      uint64_t address);                    /* [lock] */
void df_common_give(dfcclContext_t context, df_coll *coll); /* [lock] */
df_segment *df_common_dissolve(dfcclContext_t context);

/* memory.c */
dfcclResult_t df_memory_alloc(dfcclContext_t context, void **ptr, size_t bytes);
dfcclResult_t df_memory_free(dfcclContext_t context, void *ptr);
uint32_t df_memory_reach(dfcclContext_t context, const void *ptr); /* [lock] 0: not reachable */
void df_memory_mapped(dfcclContext_t context, uint32_t peer, uint64_t segment,
                      uint64_t address);              /* [lock] */
void df_memory_free_unmapped(dfcclContext_t context); /* what peers have unmapped meanwhile */
/* [lock] The collective fails: what its runs in the daemon have lent may still be read. */
void df_memory_keep_lent(dfcclContext_t context, const df_coll *coll);
/* Everything; keep: until the process ends, since peers have some of it mapped. */
void df_memory_release(dfcclContext_t context, int keep);

/* unmap.c */
/* [lock] When it can be done. may_be_read: by a run that failed. */
void df_unmap(dfcclContext_t context, uint32_t rank, uint64_t id, int may_be_read);
void df_unmap_all(dfcclContext_t context, uint32_t rank); /* [lock] the same */
void df_unmap_due(dfcclContext_t context);                /* the service thread */
void df_unmapped(dfcclContext_t context, uint32_t rank,
                 uint64_t id); /* [lock] the peer has unmapped it */
int df_is_mapped(dfcclContext_t context, const df_user_memory *memory); /* [lock] */
/* After BYE: until no process has our device's memory mapped. 0: some still have. */
int df_await_unmapped(dfcclContext_t context);

/* dump.c */
void df_describe_wait(dfcclContext_t context, const df_coll *coll, char *text,
                      size_t bytes); /* [lock] state and for whom it waits */
dfcclResult_t df_dump(dfcclContext_t context, int fd);
char *df_dump_text(const dfcclContext_t context); /* [lock] the caller's; NULL: no memory */
dfcclResult_t df_dump_write(char *text, int fd);  /* and frees it */
dfcclResult_t df_stats(dfcclContext_t context, dfcclStats_t *stats);
dfcclResult_t df_dump_signal_enable(dfcclContext_t context); /* SIGUSR2 */
void df_dump_signal_disable(dfcclContext_t context);
uint32_t df_dump_signals_seen(void);

/* record.c */
dfcclResult_t df_recorder_open(dfcclContext_t context);
void df_record_run(dfcclContext_t context, const df_coll *coll, uint64_t run); /* [lock] */
void df_record_sync(dfcclContext_t context);                                   /* [lock] */
void df_record_flush(dfcclContext_t context);                                  /* [lock] */
void df_recorder_close(dfcclContext_t context);

#endif
