/*
 * Promise of src/host: ranks that share a core share its caches. If each core has k of a group's
 * members, results from a k-th of stream_min on are written past the caches. If each core has two
 * or more, links of large messages have half of the least slots, and at least two.
 */
#include <stdlib.h>

#include "stage.h"
#include "base/mutex.h"
#include "host/state/registry.h"

enum { COLL = 1, STREAM_MIN = 8 << 20, SHORT = 64, LARGE = 1 << 20 };

/* How a collective of all three ranks writes a result of that size, with that many cores for
 * them. */
static uint8_t stores_of(uint32_t cores, size_t bytes) {
  df_stage s;
  stage_open(&s);
  s.context->topology.n_cores = cores;
  OK(dfcclRegisterBroadcast(s.context, COLL, bytes, dfcclInt8, 0, NULL));
  df_rank_lock(&s.context->lock);
  uint8_t stream = df_find(s.context, COLL)->exec.device.descriptor->stream;
  df_rank_unlock(&s.context->lock);
  stage_close(&s);
  return stream;
}

DF_TEST(oversubscribed, results_go_past_the_caches, 60) {
  const size_t part = STREAM_MIN / STAGE_RANKS;
  CHECK(stores_of(1, part) == DF_STREAM_ALWAYS, "of three ranks on one core");
  CHECK(stores_of(1, part - 1) == DF_STREAM_NEVER, "less, of three ranks on one core");
  for (uint32_t cores = 2; cores <= STAGE_RANKS; cores++) {
    CHECK(stores_of(cores, STREAM_MIN) == DF_STREAM_ALWAYS, "with %u cores", cores);
    CHECK(stores_of(cores, STREAM_MIN - 1) == DF_STREAM_NEVER, "less, with %u cores", cores);
  }
}

static void expect_slots(uint32_t cores, const char *least, size_t bytes, uint32_t slots) {
  df_stage s;
  df_tune("slots", least);
  stage_open(&s);
  s.context->topology.n_cores = cores;
  OK(dfcclRegisterAllReduce(s.context, COLL, bytes, dfcclInt8, dfcclSum, NULL));
  df_rank_lock(&s.context->lock);
  uint32_t has = df_find(s.context, COLL)->exec.configuration.shape.n_slots;
  df_rank_unlock(&s.context->lock);
  CHECK(has == slots, "%u cores, %zu bytes, at least %s slots: %u instead of %u", cores, bytes,
        least, has, slots);
  stage_close(&s);
}

DF_TEST(oversubscribed, large_messages_have_fewer_slots, 60) {
  expect_slots(2, "8", LARGE, 8);
  expect_slots(1, "8", SHORT, 8);
  expect_slots(1, "8", LARGE, 4);
  expect_slots(1, "4", LARGE, 2);
  expect_slots(1, "2", LARGE, 2);
}
