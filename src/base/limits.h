/* Every limit of the library. The code that uses a limit checks it. */
#ifndef DF_BASE_LIMITS_H
#define DF_BASE_LIMITS_H

/* tests/schedules: small tables make a world cheap to copy */
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
  DF_MAX_RANKS = 1024,        /* of a job on one host; tables grow with use */
  DF_MAX_COLLECTIVES = 65536, /* registered at one time on one context */
  DF_POLLER_SPINS = 200,      /* of the poller in vain before it sleeps */
  DF_RUNS_AHEAD_POOL = 8192,  /* that daemons may hold, in sum, beyond each collective's first */
  DF_CQ_SLOTS = 131072,       /* >= DF_MAX_COLLECTIVES + DF_RUNS_AHEAD_POOL: a CQ cannot be full */
  DF_MAX_REACHES = 4096,      /* of dfcclMemAlloc memory, lent at one time; more are copied */
  DF_PAGES_UNDER_LOCK = 16,   /* that a collective's rings get with the context's lock held */
  DF_ARENA_SEGMENT_BYTES = 4 << 20 /* of shared memory for links, at a time */
};
#endif

enum {
  DF_CACHE_LINE = 64,
  DF_PAGE = 4096,
  DF_HUGE_PAGE = 2 << 20,

  DF_MAX_BLOCKS = 32, /* of one daemon */
  DF_MAX_NAME = 64,   /* bytes, the final zero included */

  DF_RUNS_AHEAD = 4, /* of one collective that the daemon may hold at one time */

  DF_MIN_QUEUE_DEPTH = 2,
  DF_MAX_QUEUE_DEPTH = 65536,
  DF_MAX_BACKLOG = 1 << 24,
  DF_MAX_CONTEXT_SLOTS = 64, /* of the direct-mapped context cache */
  /* Of one link. With one slot a ring deadlocks: a primitive that receives and sends needs a free
   * slot before it frees one. */
  DF_MIN_LINK_SLOTS = 2,
  DF_MAX_LINK_SLOTS = 256, /* of one link */
  DF_MAX_SLOT_BYTES = 4 << 20,
  DF_PACKED_MAX = 256, /* payload of slots that share lines: more gained nothing */
  /* Up to here each slot lies within one line. If ranks wait for each other message by message,
   * only such slots gain. */
  DF_PACKED_WHOLE_MAX = 24,
  DF_MAX_SCRATCH_BYTES = 1 << 20, /* of a block for one collective; chunks are cut to fit */
  DF_MAX_MESSAGE_BYTES = 64 << 10 /* of the control plane */
};

/* How long dfcclDestroy waits for a live peer that does not read the last messages. */
#define DF_GOODBYE_NS 10000000000u

#define DF_MAX_COUNT ((uint64_t)1 << 48) /* elements of one buffer */

/* Of a transport (transports/transport.h), as a message carries it. */
enum { DF_OFFER_BYTES = 64 };

/* A process that maps a device's memory is told a handle in place of a descriptor. */
enum { DF_SEGMENT_HANDLE_BYTES = 64 };

#endif
