/* Promise of src/host/registration/link_setup.c: the distance to a peer is measured on links of
 * large messages, unless a clock read costs more time than a cache line takes to arrive. */
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

static uint32_t looked_at(uint64_t ns) {
  dfcclContext_t ctxs[2];
  two_ranks_open(ctxs);
  for (int r = 0; r < 2; r++)
    OK(dfcclRegisterAllReduce(ctxs[r], 1, LARGE, dfcclInt8, dfcclSum, NULL));
  atomic_store(&cost_ns, ns);
  two_ranks_do(run, ctxs);
  atomic_store(&cost_ns, 0);
  df_rank_lock(&ctxs[0]->lock);
  const df_coll *coll = df_find(ctxs[0], 1);
  uint32_t links = coll->exec.plan->n_links, far_ns = coll->exec.device.links[0].far_ns;
  CHECK(links > 0, "no links");
  for (uint32_t i = 0; i < links; i++)
    CHECK(coll->exec.device.links[i].far_ns == far_ns,
          "link %u is looked at otherwise than the first", i);
  df_rank_unlock(&ctxs[0]->lock);
  two_ranks_close(ctxs);
  return far_ns;
}

DF_TEST(distances, are_measured_if_the_clock_is_cheap, 30) {
  uint32_t far_ns = looked_at(60);
  CHECK(far_ns == 110, "from %u ns on", far_ns);
}

DF_TEST(distances, are_not_measured_if_the_clock_is_slow, 30) {
  uint32_t far_ns = looked_at(61);
  CHECK(far_ns == 0, "from %u ns on", far_ns);
}
