/* A snapshot of a rank: counters, the collectives that are under way with the ranks that they wait
 * for, and the calls in which threads sleep. dfccl-top asks for it at the rank's socket
 * (snapshot_server.h). All integers have the byte order of the host; the versions of both ends are
 * equal. Design: docs/design/live-view.md. */
#ifndef DF_HOST_OBSERVE_SNAPSHOT_H
#define DF_HOST_OBSERVE_SNAPSHOT_H

#include "base/mutex.h"
#include "host/observe/awaited_ranks.h"
#include "host/state/context.h"

#define DF_SNAPSHOT_MAGIC UINT64_C(0x7761746368636466)
/* The number in the upper byte is incremented when a struct below changes. */
#define DF_SNAPSHOT_VERSION (UINT32_C(1) << 24 | (uint32_t)DFCCL_VERSION_CODE)

/* Sockets are named PREFIX, 16 digits of the job, process and rank, with '-' between. */
#define DF_SNAPSHOT_PREFIX "dfccl-view-"

enum {
  DF_SNAPSHOT_COLLS = 32,            /* collectives of a snapshot, at most */
  DF_SNAPSHOT_AWAITED = 16,          /* awaited ranks of each */
  DF_SNAPSHOT_CALLS = 16,            /* sleeping threads */
  DF_SNAPSHOT_ASKED = DF_MOST_ASKED, /* collectives that a question names */
  DF_SNAPSHOT_RANK_WORDS = (DF_MAX_RANKS + 63) / 64,
  DF_SNAPSHOT_WANTS_FLIGHT = 2 /* in the place of wants_own: the flight recorder's text */
};

/* Every question and answer begins with this header, in all versions. */
typedef struct df_snapshot_header {
  uint64_t magic;
  uint32_t version, bytes; /* bytes: of the whole, with the header */
} df_snapshot_header;

typedef struct df_snapshot_question {
  df_snapshot_header header;
  uint64_t number;    /* the answers have it too */
  uint32_t wants_own; /* 1: a snapshot of the rank itself is wanted; or DF_SNAPSHOT_WANTS_FLIGHT */
  uint32_t n_asked;
  uint64_t asked[DF_SNAPSHOT_ASKED]; /* ids whose state on each rank is wanted */
  /* Other ranks whose snapshots are wanted, one bit each. The rank requests them from its peers. */
  uint64_t ranks[DF_SNAPSHOT_RANK_WORDS];
} df_snapshot_question;

enum {
  DF_SNAPSHOT_AGE_IS_LEAST = 1, /* the run may be older than age_ns */
  DF_SNAPSHOT_CALLS_BACK = 2,   /* a callback of an ended run has not returned */
  DF_SNAPSHOT_MORE_AWAITED = 4  /* it waits for more ranks than the list has */
};

typedef struct df_snapshot_coll {
  uint64_t id, submitted;
  uint64_t taken;                /* the number of the oldest run that has not ended */
  uint64_t age_ns;               /* since that run was submitted */
  uint64_t timed_runs, timed_ns; /* runs that were timed, and the sum of their times */
  uint32_t cause;                /* df_wait_cause */
  uint32_t status;               /* dfcclResult_t */
  uint32_t operation, group_size;
  uint32_t flags, n_awaited;
  uint32_t awaited[DF_SNAPSHOT_AWAITED];
  char name[DF_MAX_NAME];
} df_snapshot_coll;
DF_STATIC_ASSERT(sizeof(df_snapshot_coll) == 200, "a collective of a snapshot has no padding");

/* A thread that sleeps in a call of the library. */
typedef struct df_snapshot_call {
  uint64_t id, age_ns;
  uint32_t thread, is_of_one; /* is_of_one 0: it waits for all runs, and id has no meaning */
  char name[24];
} df_snapshot_call;
DF_STATIC_ASSERT(sizeof(df_snapshot_call) == 48, "a call of a snapshot has no padding");

/* The state of a collective that the question names. */
typedef struct df_snapshot_state {
  uint64_t id, submitted, taken;
  uint32_t is_registered, status;
} df_snapshot_state;
DF_STATIC_ASSERT(sizeof(df_snapshot_state) == 32, "a state of a snapshot has no padding");

typedef enum {
  DF_SNAPSHOT_OF_RANK,
  DF_SNAPSHOT_CLOSED, /* the rank was started with DFCCL_VIEW=0 */
  DF_SNAPSHOT_SENT,   /* the answering rank has sent the question to this peer */
  DF_SNAPSHOT_ABSENT, /* the answering rank has lost this peer; the sentence has the reason */
  DF_SNAPSHOT_FLIGHT, /* it has a descriptor of the flight recorder's text, or a sentence */
  DF_SNAPSHOT_KINDS
} df_snapshot_kind;

/* n_colls collectives, n_calls calls and n_states states follow. */
typedef struct df_snapshot {
  df_snapshot_header header;
  uint64_t number;
  unsigned char job[16];
  uint32_t
      kind; /* df_snapshot_kind; only OF_RANK has the process, and the members from now_ns on */
  uint32_t rank, n_ranks, process;
  char host[DF_HOST_NAME], program[32];
  char sentence[256]; /* why the context is broken, a collective failed, or the rank is absent */
  uint64_t now_ns;
  uint64_t accepted, completed, backlog; /* runs */
  uint64_t bytes_sent, preemptions, starts, quits;
  uint32_t task_queue, registered, status; /* status: dfcclResult_t; not 0: broken */
  uint32_t n_colls, n_calls, n_states;
} df_snapshot;
DF_STATIC_ASSERT(sizeof(df_snapshot) == 464, "a snapshot has no padding");

enum {
  DF_SNAPSHOT_BYTES = sizeof(df_snapshot) + DF_SNAPSHOT_COLLS * sizeof(df_snapshot_coll) +
                      DF_SNAPSHOT_CALLS * sizeof(df_snapshot_call) +
                      DF_SNAPSHOT_ASKED * sizeof(df_snapshot_state)
};

/* The longest answer, with the alignment of its structs. */
typedef union df_snapshot_buffer {
  df_snapshot snapshot;
  uint8_t bytes[DF_SNAPSHOT_BYTES];
} df_snapshot_buffer;

/* Makes the snapshot of this rank. asked: collectives whose states are wanted. The next
 * runs are timed. */
void df_snapshot_take(dfcclContext_t context, const uint64_t *asked, uint32_t n_asked,
                      df_snapshot_buffer *buffer) DF_RANK_LOCKED;
/* Makes an answer without counters, about a rank of the job. */
void df_snapshot_begin(dfcclContext_t context, uint32_t rank, df_snapshot_kind kind,
                       df_snapshot *snapshot);
/* Ends the timing of runs if the last snapshot is old enough. Returns the milliseconds until then;
 * -1: runs are not timed for snapshots. */
int df_snapshot_expire(dfcclContext_t context);

/* Whether the bytes are one whole answer of this version. */
int df_snapshot_is_valid(const void *bytes, size_t length);

static inline const df_snapshot_coll *df_snapshot_colls(const df_snapshot *snapshot) {
  return (const df_snapshot_coll *)(const void *)(snapshot + 1);
}
static inline const df_snapshot_call *df_snapshot_calls(const df_snapshot *snapshot) {
  return (const df_snapshot_call *)(const void *)(df_snapshot_colls(snapshot) + snapshot->n_colls);
}
static inline const df_snapshot_state *df_snapshot_states(const df_snapshot *snapshot) {
  return (const df_snapshot_state *)(const void *)(df_snapshot_calls(snapshot) + snapshot->n_calls);
}

#endif
