/*
 * Promise of dfcclInit and dfcclInitAll: they start their threads in a program with megabytes of
 * thread-local storage, which the C library takes out of each thread's stack. The same holds for
 * ranks that communicate over TCP.
 */
#include "support/buffers.h"
#include "support/ranks.h"

#include <stdlib.h>

enum { COUNT = 1000 };

static _Thread_local volatile char storage[2 << 20];

static void be_rank(int rank, void *argument) {
  dfcclContext_t ctx = ((dfcclContext_t *)argument)[rank];
  static float in[2][COUNT], out[2][COUNT];
  storage[rank] = 1;
  for (int i = 0; i < COUNT; i++) in[rank][i] = (float)(rank + i);
  OK(dfcclRegisterAllReduce(ctx, 1, COUNT, dfcclFloat32, dfcclSum, NULL));
  OK(dfcclRunAllReduce(ctx, 1, in[rank], out[rank], NULL, NULL));
  OK(dfcclWait(ctx, 1));
  for (int i = 0; i < COUNT; i++)
    CHECK(out[rank][i] == (float)(2 * i + 1), "element %d is %g", i, (double)out[rank][i]);
}

static void reduce_between_two(void) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  df_in_threads(2, be_rank, ctxs);
  df_free_contexts(ctxs, 2);
}

DF_TEST(thread_local_storage, threads_of_the_device_start, 60) { reduce_between_two(); }

DF_TEST(thread_local_storage, threads_of_connections_start, 60) {
  setenv("DFCCL_NET", "tcp", 1);
  reduce_between_two();
  unsetenv("DFCCL_NET");
}
