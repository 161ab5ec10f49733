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

bool peer_prepare(const peer_case *one) {
  for (int r = 0; r < PEER_MAX_RANKS; r++) {
    counts[r] = (int)one->count;
    places[r] = r * (int)one->count;
  }
  return true;
}

bool peer_finish(const peer_case *one) {
  (void)one;
  return true;
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
