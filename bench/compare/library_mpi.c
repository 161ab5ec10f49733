/* Open MPI and MPICH: compiled once with the compiler wrapper of each. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "peer.h"

bool peer_open(peer_world *world) {
  int ranks = 0;
  if (MPI_Init(NULL, NULL) != MPI_SUCCESS) return false;
  MPI_Comm_rank(MPI_COMM_WORLD, &world->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != world->n_ranks) fprintf(stderr, "MPI started %d ranks\n", ranks);
  return ranks == world->n_ranks;
}

void peer_close(void) { MPI_Finalize(); }

/* The first line, and of that the first part: "Open MPI v4.1.4", "MPICH Version: 4.0.2". */
void peer_version(char *text, size_t bytes) {
  char whole[MPI_MAX_LIBRARY_VERSION_STRING];
  int length = 0;
  MPI_Get_library_version(whole, &length);
  whole[strcspn(whole, ",\n")] = '\0';
  for (char *at = whole; *at != '\0'; at++)
    if (*at == '\t') *at = ' ';
  snprintf(text, bytes, "%s", whole);
}

bool peer_in_place(const peer_case *one) {
  (void)one;
  return false;
}

void *peer_alloc(int variant, int buffer, size_t bytes) {
  (void)variant, (void)buffer;
  return aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
}

void peer_free(int variant, int buffer, void *memory, size_t bytes) {
  (void)variant, (void)buffer, (void)bytes;
  free(memory);
}

static int counts[PEER_MAX_RANKS], places[PEER_MAX_RANKS];
static MPI_Comm ring = MPI_COMM_NULL; /* the communicator of neighbours */

static bool make_ring(void) {
  int rank = 0, n = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  const int next = (rank + 1) % n, before = (rank + n - 1) % n;
  return MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &before, MPI_UNWEIGHTED, 1, &next,
                                        MPI_UNWEIGHTED, MPI_INFO_NULL, 0, &ring) == MPI_SUCCESS;
}

bool peer_prepare(const peer_case *one) {
  for (int r = 0; r < PEER_MAX_RANKS; r++) {
    counts[r] = (int)one->count;
    places[r] = r * (int)one->count;
  }
  return one->operation != PEER_NEIGHBOURS || ring != MPI_COMM_NULL || make_ring();
}

bool peer_finish(const peer_case *one) {
  (void)one;
  return true;
}

/* A receiver learns what comes from an exchange of counts. */
static int call_dynamic(const peer_case *one) {
  int come[PEER_MAX_RANKS], at[PEER_MAX_RANKS], n = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  const int result = MPI_Alltoall(counts, 1, MPI_INT, come, 1, MPI_INT, MPI_COMM_WORLD);
  if (result != MPI_SUCCESS) return result;
  for (int r = 0; r < n; r++) at[r] = r ? at[r - 1] + come[r - 1] : 0;
  return MPI_Alltoallv(one->send, counts, places, MPI_FLOAT, one->recv, come, at, MPI_FLOAT,
                       MPI_COMM_WORLD);
}

static int call_further(const peer_case *one, int count) {
  int rank = 0;
  switch (one->operation) {
  case PEER_GATHER:
    return MPI_Gather(one->send, count, MPI_FLOAT, one->recv, count, MPI_FLOAT, PEER_ROOT,
                      MPI_COMM_WORLD);
  case PEER_SCATTER:
    return MPI_Scatter(one->send, count, MPI_FLOAT, one->recv, count, MPI_FLOAT, PEER_ROOT,
                       MPI_COMM_WORLD);
  case PEER_ALLGATHERV:
    return MPI_Allgatherv(one->send, count, MPI_FLOAT, one->recv, counts, places, MPI_FLOAT,
                          MPI_COMM_WORLD);
  case PEER_GATHERV:
    return MPI_Gatherv(one->send, count, MPI_FLOAT, one->recv, counts, places, MPI_FLOAT, PEER_ROOT,
                       MPI_COMM_WORLD);
  case PEER_SCATTERV:
    return MPI_Scatterv(one->send, counts, places, MPI_FLOAT, one->recv, count, MPI_FLOAT,
                        PEER_ROOT, MPI_COMM_WORLD);
  case PEER_ALLTOALLV:
    return MPI_Alltoallv(one->send, counts, places, MPI_FLOAT, one->recv, counts, places, MPI_FLOAT,
                         MPI_COMM_WORLD);
  case PEER_REDUCESCATTERV:
    return MPI_Reduce_scatter(one->send, one->recv, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  case PEER_ALLTOALLDYNAMIC:
    return call_dynamic(one);
  case PEER_NEIGHBOURS:
    return MPI_Neighbor_alltoallv(one->send, counts, places, MPI_FLOAT, one->recv, counts, places,
                                  MPI_FLOAT, ring);
  case PEER_SCAN:
    return MPI_Scan(one->send, one->recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  case PEER_BARRIER:
    return MPI_Barrier(MPI_COMM_WORLD);
  case PEER_SENDRECV:
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank == 0
               ? MPI_Send(one->send, count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD)
               : MPI_Recv(one->recv, count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  default:
    return MPI_ERR_OTHER;
  }
}

bool peer_call(const peer_case *one) {
  const int count = (int)one->count;
  switch (one->operation) {
  case PEER_ALLREDUCE:
    return MPI_Allreduce(one->send, one->recv, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) ==
           MPI_SUCCESS;
  case PEER_ALLGATHER:
    return MPI_Allgather(one->send, count, MPI_FLOAT, one->recv, count, MPI_FLOAT,
                         MPI_COMM_WORLD) == MPI_SUCCESS;
  case PEER_REDUCESCATTER:
    return MPI_Reduce_scatter_block(one->send, one->recv, count, MPI_FLOAT, MPI_SUM,
                                    MPI_COMM_WORLD) == MPI_SUCCESS;
  case PEER_BROADCAST:
    return MPI_Bcast(one->recv, count, MPI_FLOAT, PEER_ROOT, MPI_COMM_WORLD) == MPI_SUCCESS;
  case PEER_REDUCE:
    return MPI_Reduce(one->send, one->recv, count, MPI_FLOAT, MPI_SUM, PEER_ROOT, MPI_COMM_WORLD) ==
           MPI_SUCCESS;
  case PEER_ALLTOALL:
    return MPI_Alltoall(one->send, count, MPI_FLOAT, one->recv, count, MPI_FLOAT, MPI_COMM_WORLD) ==
           MPI_SUCCESS;
  default:
    return call_further(one, count) == MPI_SUCCESS;
  }
}
