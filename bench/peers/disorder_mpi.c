/* Open MPI and MPICH: compiled once with the compiler wrapper of each. */
#include <mpi.h>
#include <stdio.h>

#include "disorder.h"

enum { MOST = 64 };
static MPI_Comm communicators[MOST];
static MPI_Request requests[MOST];
static bool shared;

bool disorder_open(disorder_job *job) {
  if (MPI_Init(NULL, NULL) != MPI_SUCCESS) return false;
  MPI_Comm_rank(MPI_COMM_WORLD, &job->rank);
  shared = job->same_communicator;
  return true;
}

bool disorder_register(const disorder_collective *one) {
  communicators[one->number] = MPI_COMM_WORLD;
  return shared || MPI_Comm_dup(MPI_COMM_WORLD, &communicators[one->number]) == MPI_SUCCESS;
}

bool disorder_can_start(void) { return true; }

bool disorder_start(const disorder_collective *one) {
  return MPI_Iallreduce(one->send, one->recv, (int)one->count, MPI_FLOAT, MPI_SUM,
                        communicators[one->number], &requests[one->number]) == MPI_SUCCESS;
}

bool disorder_wait(const disorder_collective *one) {
  return MPI_Wait(&requests[one->number], MPI_STATUS_IGNORE) == MPI_SUCCESS;
}

bool disorder_call(const disorder_collective *one) {
  return MPI_Allreduce(one->send, one->recv, (int)one->count, MPI_FLOAT, MPI_SUM,
                       communicators[one->number]) == MPI_SUCCESS;
}

void disorder_close(void) { MPI_Finalize(); }
