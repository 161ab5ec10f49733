/*
 * Asynchronous use: nobody waits. Each run ends in a callback, which may start the next one. Two
 * ranks in one process start two collectives in opposite orders. Each callback runs its collective
 * again, ten times in all.
 */
#include <dfccl.h>
#include <semaphore.h>
#include <stdio.h>

enum { RANKS = 2, COLLECTIVES = 2, TIMES = 10, COUNT = 1024 };

typedef struct {
  dfcclContext_t ctx;
  int times; /* only the callback touches it, and a collective's next run starts there */
  float send[COUNT], recv[COUNT];
} work;

static work works[RANKS][COLLECTIVES];
static sem_t finished;

static void start(work *one, dfcclCollId_t id);

static void on_complete(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  work *one = arg;
  if (status != dfcclSuccess)
    fprintf(stderr, "collective %d: %s\n", (int)id, dfcclGetErrorString(status));
  else if (++one->times < TIMES)
    start(one, id);
  if (status != dfcclSuccess || one->times == TIMES) sem_post(&finished);
}

/* Returns at once. */
static void start(work *one, dfcclCollId_t id) {
  if (dfcclRunAllReduce(one->ctx, id, one->send, one->recv, on_complete, one) == dfcclSuccess)
    return;
  fprintf(stderr, "%s\n", dfcclGetLastError(NULL));
  one->times = TIMES;
  sem_post(&finished);
}

int main(void) {
  dfcclContext_t ctx[RANKS];
  sem_init(&finished, 0, 0);
  if (dfcclInitAll(ctx, RANKS, NULL) != dfcclSuccess) {
    fprintf(stderr, "%s\n", dfcclGetLastError(NULL));
    return 1;
  }
  for (int rank = 0; rank < RANKS; rank++)
    for (int i = 0; i < COLLECTIVES; i++) {
      int id = rank == 0 ? i : COLLECTIVES - 1 - i; /* opposite orders */
      work *one = &works[rank][id];
      one->ctx = ctx[rank];
      for (int e = 0; e < COUNT; e++) one->send[e] = (float)(rank + id);
      if (dfcclRegisterAllReduce(ctx[rank], (dfcclCollId_t)id, COUNT, dfcclFloat32, dfcclSum,
                                 NULL) != dfcclSuccess)
        fprintf(stderr, "%s\n", dfcclGetLastError(NULL));
      start(one, (dfcclCollId_t)id);
    }
  /* This thread has nothing to do with the collectives: it could compute. */
  for (int i = 0; i < RANKS * COLLECTIVES; i++) sem_wait(&finished);
  int status = 0;
  for (int rank = 0; rank < RANKS; rank++) {
    dfcclDestroy(ctx[rank]);
    for (int id = 0; id < COLLECTIVES; id++) {
      printf("rank %d, collective %d: ran %d times, result %g\n", rank, id, works[rank][id].times,
             works[rank][id].recv[COUNT - 1]);
      if (works[rank][id].recv[COUNT - 1] != (float)(2 * id + 1)) status = 1;
    }
  }
  return status;
}
