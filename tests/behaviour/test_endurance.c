/*
 * Promise: neither memory nor descriptors nor threads grow with the number of runs, and allocations
 * do not grow with the number of registrations. The long suite runs the same test a million times.
 * One growth is expected: each run uses another word of the CQ (a megabyte for each rank) for the
 * first time, so the resident memory grows by 8 bytes for each run until all of it is resident.
 */
#include "endurance.h"

#include <malloc.h>

static long shortened(long runs) { return df_slowdown() == 1 ? runs : runs / 50; }

DF_TEST(endurance, a_chain_of_callbacks, 150) { endure(chain, shortened(200000)); }
DF_TEST(endurance, submit_and_wait, 150) { endure(wait_loop, shortened(200000)); }

static void register_run_deregister(dfcclContext_t *ctxs, int cycles) {
  static int32_t send[2][32], recv[2][32];
  const df_collective coll = df_simple(32, 2);
  for (int i = 0; i < cycles; i++) {
    const dfcclCollId_t id = 10 + (dfcclCollId_t)i % 3;
    df_register_all(ctxs, id, &coll);
    for (int rank = 0; rank < 2; rank++)
      OK(dfcclRunAllReduce(ctxs[rank], id, send[rank], recv[rank], NULL, NULL));
    for (int rank = 0; rank < 2; rank++) OK(dfcclWait(ctxs[rank], id));
    for (int rank = 0; rank < 2; rank++) OK(dfcclDeregister(ctxs[rank], id));
  }
}

DF_TEST(endurance, registrations_keep_no_memory, 150) {
  enum {
    CYCLES = 4000,
    RECORDED = 2200, /* the flight recorder keeps the collectives of its latest 2,048 runs */
    NOISE = 2 * CYCLES
  }; /* less than any allocation that would be kept at each registration */
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  register_run_deregister(ctxs, RECORDED);
  size_t before = mallinfo2().uordblks;
  register_run_deregister(ctxs, (int)shortened(CYCLES));
  size_t after = mallinfo2().uordblks;
  CHECK(after < before + NOISE, "%zu bytes grew to %zu", before, after);
  df_free_contexts(ctxs, 2);
}
