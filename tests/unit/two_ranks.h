/* Two ranks of this process on the CPU device, registered with the watchdog: for tests of the
 * library's internals, whose names equal those of support/ranks.h. */
#ifndef DF_TESTS_UNIT_TWO_RANKS_H
#define DF_TESTS_UNIT_TWO_RANKS_H

#include <pthread.h>

#include "support/harness.h"

static inline void two_ranks_open(dfcclContext_t ctxs[2]) {
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCpu;
  OK(dfcclInitAll(ctxs, 2, &config));
  for (int r = 0; r < 2; r++) df_watch(ctxs[r]);
}

/* Runs a thread for each rank, which gets the rank's context. */
static inline void two_ranks_begin(pthread_t threads[2], void *(*body)(void *),
                                   dfcclContext_t ctxs[2]) {
  for (int r = 0; r < 2; r++)
    CHECK(pthread_create(&threads[r], NULL, body, ctxs[r]) == 0, "no thread");
}
static inline void two_ranks_end(pthread_t threads[2]) {
  for (int r = 0; r < 2; r++) pthread_join(threads[r], NULL);
}
static inline void two_ranks_do(void *(*body)(void *), dfcclContext_t ctxs[2]) {
  pthread_t threads[2];
  two_ranks_begin(threads, body, ctxs);
  two_ranks_end(threads);
}

static inline void *two_ranks_destroy(void *context) {
  df_unwatch(context); /* the watchdog must not look into freed memory */
  OK(dfcclDestroy(context));
  return NULL;
}
/* Both destroys run at one time, because one may wait for a peer's runs. */
static inline void two_ranks_close(dfcclContext_t ctxs[2]) {
  two_ranks_do(two_ranks_destroy, ctxs);
}

#endif
