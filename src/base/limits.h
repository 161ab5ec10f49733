/* The code that uses a limit checks it. */
#ifndef DF_BASE_LIMITS_H
#define DF_BASE_LIMITS_H

/* The simulation copies its worlds, so they are small. */
#if defined(DF_SIMULATION)
enum {
  DF_MAX_RANKS = 16,
  DF_MAX_COLLECTIVES = 8,
  DF_RUNS_AHEAD_POOL = 8,
  DF_POLLER_SPINS = 3,
  DF_CQ_SLOTS = 16,
  DF_MAX_REACHES = 16,
  DF_PAGES_UNDER_LOCK = 1,
  DF_ARENA_SEGMENT_BYTES = 12288
};
#else
enum {
  DF_MAX_RANKS = 4096,             /* of a job */
  DF_MAX_COLLECTIVES = 65536,      /* of one context */
  DF_POLLER_SPINS = 200,           /* Looks in vain before the poller sleeps. */
  DF_RUNS_AHEAD_POOL = 8192,       /* Runs in the device beyond each collective's first. */
  DF_CQ_SLOTS = 131072,            /* so a CQ is never full */
  DF_MAX_REACHES = 4096,           /* Allocations that are lent at one time; others are copied. */
  DF_PAGES_UNDER_LOCK = 16,        /* Pages of rings that one call may write under the lock. */
  DF_ARENA_SEGMENT_BYTES = 4 << 20 /* Least memory that a context takes for rings. */
};
#endif

enum {
  DF_CACHE_LINE = 64,
  DF_PAGE = 4096,
  DF_HUGE_PAGE = 2 << 20,

  DF_MAX_BLOCKS = 32, /* of one daemon */
  DF_TOLD_RANKS = 48, /* A block notes these ranks, a bit each, when it sends to them. */
  DF_TOLD_WORDS = 8,
  DF_MAX_NAME = 64,  /* with the final zero */
  DF_HOST_NAME = 32, /* the same; of a longer one the beginning */

  DF_RUNS_AHEAD = 4, /* Runs of one collective that the daemon may hold. */

  DF_MIN_QUEUE_DEPTH = 2,
  DF_MAX_QUEUE_DEPTH = 65536,
  DF_MAX_BACKLOG = 1 << 24,
  DF_MAX_CONTEXT_SLOTS = 64,
  /* With one slot a ring deadlocks: receive and send needs a free slot before it frees one. */
  DF_MIN_LINK_SLOTS = 2,
  DF_MAX_LINK_SLOTS = 256,
  DF_MAX_CHANNELS = 1024, /* between two ranks, in one direction, of one collective */
  DF_MAX_SLOT_BYTES = 4 << 20,
  DF_PACKED_MAX = 256, /* Payload bytes; longer slots gained nothing by sharing lines. */
  /* Slots within one line: only these gain if ranks wait message by message. */
  DF_PACKED_WHOLE_MAX = 24,
  DF_MAX_SCRATCH_BYTES = 1 << 20, /* A block's scratch memory for one collective. */
  DF_MAX_MESSAGE_BYTES = 64 << 10 /* Longest control message. */
};

/* dfcclDestroy waits so long for a live peer that is silent; BROKEN: of a context that is. */
#if defined(DF_SIMULATION) /* whose adversary lets any time pass */
#define DF_GOODBYE_NS (UINT64_MAX / 2)
#define DF_BROKEN_GOODBYE_NS DF_GOODBYE_NS
#else
#define DF_GOODBYE_NS 10000000000u
#define DF_BROKEN_GOODBYE_NS 500000000u
#endif

#define DF_MAX_COUNT ((uint64_t)1 << 48) /* elements */

/* A transport's. */
enum { DF_OFFER_BYTES = 64 };

/* In place of a device memory's descriptor. */
enum { DF_SEGMENT_HANDLE_BYTES = 64 };

#endif
