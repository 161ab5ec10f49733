/*
 * One rank of one library in a comparison. peer.c is the same for all of them: it takes commands
 * from the driver, fills and checks buffers, and times the loop of calls. Each library has an
 * adapter, library_NAME.c, which implements the functions at the end.
 */
#ifndef DF_COMPARE_PEER_H
#define DF_COMPARE_PEER_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  PEER_ALLREDUCE,
  PEER_ALLGATHER,
  PEER_REDUCESCATTER,
  PEER_BROADCAST,
  PEER_REDUCE,
  PEER_ALLTOALL,
  PEER_GATHER,
  PEER_SCATTER,
  PEER_ALLGATHERV, /* a vector collective, here with equal pieces, as are the following four */
  PEER_REDUCESCATTERV,
  PEER_GATHERV,
  PEER_SCATTERV,
  PEER_ALLTOALLV,
  PEER_ALLTOALLDYNAMIC, /* receivers do not have the counts: MPI's exchange them in each call */
  PEER_NEIGHBOURS,      /* each rank sends to the next one, the last to the first */
  PEER_SCAN,            /* inclusive */
  PEER_BARRIER,
  PEER_SENDRECV, /* from rank 0 to rank 1 of two */
  PEER_OPERATIONS
} peer_operation;

enum { PEER_ROOT = 0, PEER_MAX_RANKS = 64, PEER_EXCHANGE_BYTES = 256 };

typedef struct {
  const char *directory; /* the driver's, of this group of ranks alone; holds nothing yet of ours */
  int rank, n_ranks;     /* rank -1: the library says */
} peer_world;

/*
 * One collective on float32 with operator sum. count is what dfcclRegister* wants: the elements of
 * a buffer; of each rank's part for all-gather, reduce-scatter, all-to-all, gather and scatter.
 * Broadcast: send == recv. The other operations are out of place, unless the adapter says otherwise
 * (in_place).
 */
typedef struct {
  peer_operation operation;
  size_t count;
  int variant; /* which of the library's variants; 0 the first */
  float *send, *recv;
} peer_case;

/* Shared by the ranks of a group, by whichever library: a barrier, and a place for one message. */
void peer_connect(void);
void *peer_exchange(void); /* PEER_EXCHANGE_BYTES */

/* ---- functions of an adapter. Those that return false have printed a sentence. */

bool peer_open(peer_world *world);
void peer_close(void);
void peer_version(char *text, size_t bytes);

/* Whether the operation overwrites its send buffer and leaves the result at its beginning. */
bool peer_in_place(const peer_case *one);

/* Memory for one buffer (0 send, 1 receive); the pages are touched by the caller. */
void *peer_alloc(int variant, int buffer, size_t bytes);
void peer_free(int variant, int buffer, void *memory, size_t bytes);

/* Everything that is done once for each collective, however often it is run. */
bool peer_prepare(const peer_case *one);
bool peer_finish(const peer_case *one);

/* The collective, blocking as the library's own: what is timed. */
bool peer_call(const peer_case *one);

#ifdef __cplusplus
}
#endif

#endif
