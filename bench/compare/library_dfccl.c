/* This library. Variant 0: ordinary memory; variant 1: dfcclMemAlloc memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dfccl.h"
#include "peer.h"

static dfcclContext_t context;
static const dfcclCollId_t id = 1;

static bool fine(dfcclResult_t result, const char *what) {
  if (result == dfcclSuccess) return true;
  fprintf(stderr, "%s: %s (%s)\n", what, dfcclGetErrorString(result), dfcclGetLastError(context));
  return false;
}

bool peer_open(peer_world *world) {
  dfcclUniqueId unique;
  if (world->rank == 0) {
    if (!fine(dfcclGetUniqueId(&unique), "dfcclGetUniqueId")) return false;
    memcpy(peer_exchange(), &unique, sizeof unique);
  }
  peer_connect();
  memcpy(&unique, peer_exchange(), sizeof unique);
  return fine(dfcclInit(&context, world->n_ranks, unique, world->rank, NULL), "dfcclInit");
}

void peer_close(void) { fine(dfcclDestroy(context), "dfcclDestroy"); }

void peer_version(char *text, size_t bytes) {
  int version = 0;
  dfcclGetVersion(&version);
  snprintf(text, bytes, "DFCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

bool peer_in_place(const peer_case *one) {
  (void)one;
  return false;
}

void *peer_alloc(int variant, int buffer, size_t bytes) {
  (void)buffer;
  void *memory = NULL;
  if (variant == 0) return aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  return fine(dfcclMemAlloc(context, &memory, bytes), "dfcclMemAlloc") ? memory : NULL;
}

void peer_free(int variant, int buffer, void *memory, size_t bytes) {
  (void)buffer, (void)bytes;
  if (variant == 0)
    free(memory);
  else
    fine(dfcclMemFree(context, memory), "dfcclMemFree");
}

static size_t counts[PEER_MAX_RANKS];

static dfcclResult_t start_neighbours(size_t count) {
  int rank = 0, n = 0;
  const dfcclResult_t result = dfcclGetRank(context, &rank, &n);
  if (result != dfcclSuccess) return result;
  const int next = (rank + 1) % n, before = (rank + n - 1) % n;
  return dfcclRegisterNeighbours(context, id, 1, &next, &count, 1, &before, &count, dfcclFloat32,
                                 NULL);
}

static dfcclResult_t start_further(const peer_case *one) {
  for (int r = 0; r < PEER_MAX_RANKS; r++) counts[r] = one->count;
  switch (one->operation) {
  case PEER_GATHER:
    return dfcclRegisterGather(context, id, one->count, dfcclFloat32, PEER_ROOT, NULL);
  case PEER_SCATTER:
    return dfcclRegisterScatter(context, id, one->count, dfcclFloat32, PEER_ROOT, NULL);
  case PEER_ALLGATHERV:
    return dfcclRegisterAllGatherV(context, id, counts, NULL, dfcclFloat32, NULL);
  case PEER_GATHERV:
    return dfcclRegisterGatherV(context, id, one->count, counts, NULL, dfcclFloat32, PEER_ROOT,
                                NULL);
  case PEER_SCATTERV:
    return dfcclRegisterScatterV(context, id, counts, NULL, one->count, dfcclFloat32, PEER_ROOT,
                                 NULL);
  case PEER_ALLTOALLV:
    return dfcclRegisterAllToAllV(context, id, counts, NULL, counts, NULL, dfcclFloat32, NULL);
  case PEER_REDUCESCATTERV:
    return dfcclRegisterReduceScatterV(context, id, counts, dfcclFloat32, dfcclSum, NULL);
  case PEER_ALLTOALLDYNAMIC:
    return dfcclRegisterAllToAllDynamic(context, id, one->count, dfcclFloat32, NULL);
  case PEER_NEIGHBOURS:
    return start_neighbours(one->count);
  case PEER_SCAN:
    return dfcclRegisterScan(context, id, one->count, dfcclFloat32, dfcclSum, 0, NULL);
  case PEER_BARRIER:
    return dfcclRegisterBarrier(context, id, NULL);
  case PEER_SENDRECV:
    return dfcclRegisterSendRecv(context, id, one->count, dfcclFloat32, 0, 1, NULL);
  default:
    return dfcclInvalidArgument;
  }
}

static dfcclResult_t start(const peer_case *one) {
  switch (one->operation) {
  case PEER_ALLREDUCE:
    return dfcclRegisterAllReduce(context, id, one->count, dfcclFloat32, dfcclSum, NULL);
  case PEER_ALLGATHER:
    return dfcclRegisterAllGather(context, id, one->count, dfcclFloat32, NULL);
  case PEER_REDUCESCATTER:
    return dfcclRegisterReduceScatter(context, id, one->count, dfcclFloat32, dfcclSum, NULL);
  case PEER_BROADCAST:
    return dfcclRegisterBroadcast(context, id, one->count, dfcclFloat32, PEER_ROOT, NULL);
  case PEER_REDUCE:
    return dfcclRegisterReduce(context, id, one->count, dfcclFloat32, dfcclSum, PEER_ROOT, NULL);
  case PEER_ALLTOALL:
    return dfcclRegisterAllToAll(context, id, one->count, dfcclFloat32, NULL);
  default:
    return start_further(one);
  }
}

bool peer_prepare(const peer_case *one) { return fine(start(one), "dfcclRegister"); }

bool peer_finish(const peer_case *one) {
  (void)one;
  return fine(dfcclDeregister(context, id), "dfcclDeregister");
}

static dfcclResult_t run_dynamic(const peer_case *one) {
  static size_t come[PEER_MAX_RANKS];
  return dfcclRunAllToAllDynamic(context, id, one->send, counts, NULL, one->recv, come, NULL, NULL);
}

static dfcclResult_t run_further(const peer_case *one) {
  switch (one->operation) {
  case PEER_GATHER:
    return dfcclRunGather(context, id, one->send, one->recv, NULL, NULL);
  case PEER_SCATTER:
    return dfcclRunScatter(context, id, one->send, one->recv, NULL, NULL);
  case PEER_ALLGATHERV:
    return dfcclRunAllGatherV(context, id, one->send, one->recv, NULL, NULL);
  case PEER_GATHERV:
    return dfcclRunGatherV(context, id, one->send, one->recv, NULL, NULL);
  case PEER_SCATTERV:
    return dfcclRunScatterV(context, id, one->send, one->recv, NULL, NULL);
  case PEER_ALLTOALLV:
    return dfcclRunAllToAllV(context, id, one->send, one->recv, NULL, NULL);
  case PEER_REDUCESCATTERV:
    return dfcclRunReduceScatterV(context, id, one->send, one->recv, NULL, NULL);
  case PEER_ALLTOALLDYNAMIC:
    return run_dynamic(one);
  case PEER_NEIGHBOURS:
    return dfcclRunNeighbours(context, id, one->send, one->recv, NULL, NULL);
  case PEER_SCAN:
    return dfcclRunScan(context, id, one->send, one->recv, NULL, NULL);
  case PEER_BARRIER:
    return dfcclRunBarrier(context, id, NULL, NULL);
  case PEER_SENDRECV:
    return dfcclRunSendRecv(context, id, one->send, one->recv, NULL, NULL);
  default:
    return dfcclInvalidArgument;
  }
}

static dfcclResult_t run(const peer_case *one) {
  switch (one->operation) {
  case PEER_ALLREDUCE:
    return dfcclRunAllReduce(context, id, one->send, one->recv, NULL, NULL);
  case PEER_ALLGATHER:
    return dfcclRunAllGather(context, id, one->send, one->recv, NULL, NULL);
  case PEER_REDUCESCATTER:
    return dfcclRunReduceScatter(context, id, one->send, one->recv, NULL, NULL);
  case PEER_BROADCAST:
    return dfcclRunBroadcast(context, id, one->send, one->recv, NULL, NULL);
  case PEER_REDUCE:
    return dfcclRunReduce(context, id, one->send, one->recv, NULL, NULL);
  case PEER_ALLTOALL:
    return dfcclRunAllToAll(context, id, one->send, one->recv, NULL, NULL);
  default:
    return run_further(one);
  }
}

bool peer_call(const peer_case *one) {
  dfcclResult_t result = run(one);
  if (result == dfcclSuccess) result = dfcclWait(context, id);
  return result == dfcclSuccess || fine(result, "a run");
}
