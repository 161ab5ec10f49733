/* Ranks of the CUDA daemon on the emulated runtime, with memory laid out as daemon_cuda.h
 * prescribes, and a host that submits, launches and collects for all of them. */
#ifndef DF_TESTS_EMULATED_DAEMON_WORLD_H
#define DF_TESTS_EMULATED_DAEMON_WORLD_H

#include "calls.h"
#include "daemon_kernel/daemon_cuda.h"
#include "group.h"

enum {
  MAX_RANKS = 4,
  COLLECTIVES = 6,
  RUNS = 3, /* <= DF_RUNS_AHEAD: no run waits for an earlier one's completion */
  DEPTH = 8,
  CQ_WORDS = 64,
  CONTEXT_SLOTS = 4, /* fewer than collectives: contexts are evicted */
  ARENA_BYTES = 8 << 20
};

/* Memory that is laid out in one step: objects are staged on the host, then copied to the
 * device. */
typedef struct arena {
  uint8_t *base, *staged;
  size_t used;
} arena;
typedef struct options {
  uint32_t ranks, devices, blocks, lanes;
  const char *multiprocessors;
  df_tunables tunables;
  df_cq_variant cq;
  int synchronise, by_priority, relays;
  uint64_t seed;
} options;

typedef struct buffers {
  void *send, *recv; /* in device memory */
  size_t recv_bytes;
  uint8_t *expected; /* NULL: this rank receives nothing */
} buffers;

typedef struct rank {
  df_device *device; /* mapped */
  df_cuda_daemon daemon;
  cudaStream_t stream;
  arena memory, mapped;
  df_descriptor *descriptors[COLLECTIVES]; /* the table's entries */
  df_run_words *words[COLLECTIVES];
  buffers buffers[COLLECTIVES][RUNS];
  df_run_arguments arguments[COLLECTIVES][DF_RUNS_AHEAD]; /* with a relay */
  uint32_t pushed[COLLECTIVES];
  uint32_t order[COLLECTIVES * RUNS], submitted, completed[COLLECTIVES], left, launches, failed;
} rank;

typedef struct world {
  options o;
  df_random random;
  group groups[COLLECTIVES];
  df_shape shapes[COLLECTIVES];    /* kernels whose payloads may travel in words */
  uint64_t first_run[COLLECTIVES]; /* start values of flags and sequence numbers on the device */
  uint32_t in_words;               /* collectives */
  uint8_t *rings[COLLECTIVES][MAX_RANKS][MAX_RANKS]; /* [from][to], in the receiver's memory */
  rank ranks[MAX_RANKS];
} world;
world *open_world(const options *o);
void close_world(world *w);

void enter_device(const world *w, uint32_t r);
void launch_if_gone(world *w, uint32_t r);
/* Submits as many runs as the queue accepts. */
void submit_all(world *w, uint32_t r);
/* Whether every block, or the relay, has read all entries. */
int has_fetched(const world *w, uint32_t r);
/* Submits, launches and collects until every run has completed, with the given status or with
 * success. */
void finish(world *w, uint32_t status);
/* Checks that every byte equals the result of the CPU's mover for the same plan. */
void check_results(world *w);
/* The number of incomplete runs. */
uint64_t count_wrong_bytes(world *w);
/* A sum over all blocks. */
uint64_t sum_of(const world *w, size_t offset);
#define SUM_OF(w, counter) sum_of(w, offsetof(df_block_stats, counter))

#endif
