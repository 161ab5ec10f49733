/* Limits of the library. The code that uses a limit checks it. */
#ifndef DF_BASE_LIMITS_H
#define DF_BASE_LIMITS_H

/* The simulation copies its worlds, so its limits are small. */
#if defined(DF_SIMULATION)
enum {
  DF_MAX_RANKS = 16,
  DF_MAX_COLLECTIVES = 8,
  DF_RUNS_AHEAD_POOL = 8,
  DF_POLLER_SPINS = 3,
  DF_CQ_SLOTS = 16,
  DF_MAX_MAPPINGS = 16,
  DF_PAGES_UNDER_LOCK = 1,
  DF_CLEARED_UNDER_LOCK = 256,
  DF_ARENA_SEGMENT_BYTES = 12288
};
#else
enum {
  DF_MAX_RANKS = 4096,        /* ranks of a job */
  DF_MAX_COLLECTIVES = 65536, /* collectives of one context */
  DF_POLLER_SPINS = 200,      /* polls without success before the poller sleeps */
  DF_RUNS_AHEAD_POOL = 8192,  /* runs in the device beyond the first one of each collective */
  DF_CQ_SLOTS = 131072,       /* chosen so that a CQ is never full */
  DF_MAX_MAPPINGS = 4096,     /* allocations that are lent at one time; others are copied */
  DF_PAGES_UNDER_LOCK = 16,   /* pages of rings that one call may write while it holds the lock */
  DF_CLEARED_UNDER_LOCK = 64 << 10, /* bytes of a longer range are cleared without the lock */
  DF_ARENA_SEGMENT_BYTES = 4 << 20  /* least memory that a context allocates for rings */
};
#endif

enum {
  DF_CACHE_LINE = 64,
  DF_PAGE = 4096,
  DF_HUGE_PAGE = 2 << 20,

  DF_MAX_BLOCKS = 32,     /* blocks of one daemon */
  DF_NOTIFIED_RANKS = 48, /* ranks for which a block has a bit that it sets when it sends to them */
  DF_NOTIFIED_WORDS = 8,
  DF_MAX_NAME = 64,  /* bytes, including the terminating zero */
  DF_HOST_NAME = 32, /* the same; a longer name is truncated */

  DF_RUNS_AHEAD = 4, /* runs of one collective that the daemon may hold */

  DF_MIN_QUEUE_DEPTH = 2,
  DF_MAX_QUEUE_DEPTH = 65536,
  DF_MAX_BACKLOG = 1 << 24,
  DF_MAX_CONTEXT_SLOTS = 64,
  /* With one slot a ring deadlocks: a receive-and-send primitive needs a free slot before it frees
   * one. */
  DF_MIN_LINK_SLOTS = 2,
  DF_MAX_LINK_SLOTS = 256,
  DF_MAX_CHANNELS = 1024, /* channels between two ranks, in one direction, of one collective */
  DF_MAX_SLOT_BYTES = 4 << 20,
  /* Payload bytes of a packed slot; larger slots do not gain from shared cache lines. */
  DF_PACKED_MAX = 256,
  /* Slots that lie within one cache line: only these gain if ranks wait for every message. */
  DF_PACKED_WHOLE_MAX = 24,
  DF_MAX_SCRATCH_BYTES = 1 << 20, /* scratch memory of a block for one collective */
  DF_MAX_MESSAGE_BYTES = 64 << 10 /* longest control message */
};

/* dfcclDestroy waits up to DF_GOODBYE_NS for a live peer that sends nothing, and a broken context
 * up to DF_BROKEN_GOODBYE_NS. */
#if defined(DF_SIMULATION) /* the adversary of the simulation lets any amount of time pass */
#define DF_GOODBYE_NS (UINT64_MAX / 2)
#define DF_BROKEN_GOODBYE_NS DF_GOODBYE_NS
#else
#define DF_GOODBYE_NS 10000000000u
#define DF_BROKEN_GOODBYE_NS 500000000u
#endif

#define DF_MAX_COUNT ((uint64_t)1 << 48) /* elements */

/* Bytes of the offer of a transport. */
enum { DF_OFFER_BYTES = 64 };

/* Bytes of the handle that stands for device memory, which has no descriptor. */
enum { DF_SEGMENT_HANDLE_BYTES = 64 };

#endif
