/* Promise of src/host/registration/link_setup.c: messages are measured on links of large messages,
 * unless a clock read costs more time than a cache line takes to arrive. */
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mutex.h"
#include "host/state/context.h"
#include "host/state/registry.h"
#include "two_ranks.h"

enum { LARGE = 1 << 20 };

/* Replaces the C library's function: the cost of a clock read is added to the time. */
static _Atomic uint64_t cost_ns, passed_ns, looks;
int clock_gettime(clockid_t clock, struct timespec *now) {
  int result = (int)syscall(SYS_clock_gettime, clock, now);
  uint64_t cost = atomic_load(&cost_ns);
  if (clock != CLOCK_MONOTONIC || cost == 0) return result;
  /* Adds exactly that much at one read in eight, whatever the machine does; the other reads take
   * longer. */
  if (atomic_fetch_add(&looks, 1) % 8 != 0) cost *= 10;
  uint64_t ns = atomic_fetch_add(&passed_ns, cost) + (uint64_t)1000000000 * 1000000;
  *now = (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  return 0;
}

static void *run(void *context) {
  static int8_t buffers[2][LARGE];
  dfcclContext_t ctx = context;
  OK(dfcclRunAllReduce(ctx, 1, buffers[ctx->rank], buffers[ctx->rank], NULL, NULL));
  OK(dfcclWait(ctx, 1));
  return NULL;
}

static int is_measured(uint64_t ns) {
  dfcclContext_t ctxs[2];
  two_ranks_open(ctxs);
  for (int r = 0; r < 2; r++)
    OK(dfcclRegisterAllReduce(ctxs[r], 1, LARGE, dfcclInt8, dfcclSum, NULL));
  atomic_store(&cost_ns, ns);
  two_ranks_do(run, ctxs);
  atomic_store(&cost_ns, 0);
  df_rank_lock(&ctxs[0]->lock);
  const df_coll *coll = df_find(ctxs[0], 1);
  uint32_t senders = 0, measured = 0;
  for (uint32_t i = 0; i < coll->exec.plan->n_links; i++) {
    const df_link *link = &coll->exec.device.links[i];
    senders += link->sends;
    measured += link->sends && link->ways != NULL;
  }
  CHECK(senders > 0 && (measured == 0 || measured == senders), "%u of %u links", measured, senders);
  df_rank_unlock(&ctxs[0]->lock);
  two_ranks_close(ctxs);
  return measured != 0;
}

DF_TEST(link_times, are_measured_if_the_clock_is_cheap, 30) {
  CHECK(is_measured(60), "not measured");
}

DF_TEST(link_times, are_not_measured_if_the_clock_is_slow, 30) {
  CHECK(!is_measured(61), "measured");
}
