/*
 * Promises of src/host/epochs.c to a rank whose peer, played by this test, takes part in a switch:
 *   - A member that has not answered yet answers when it hears that the leader admits no more runs:
 *     the leader waits for each answer, and so do its runs.
 *   - A proposal for a collective that has no variants is refused.
 */
#include <string.h>

#include "host/epochs.h"
#include "host/match.h"
#include "host/registry.h"
#include "stage.h"

enum { COLL = 7 };
#define VARIANT ((uint64_t)2 << 40 | 1)

/* Rank 1 says it, with a payload. */
static void say(const df_stage *s, df_message message, const void *payload, size_t bytes) {
  union {
    df_message message;
    uint8_t bytes[512];
  } d = {.message = message};
  d.message.payload_bytes = (uint32_t)bytes;
  CHECK(sizeof message + bytes <= sizeof d, "too long");
  memcpy(&d.message + 1, payload, bytes);
  stage_handle(s, &d.message, -1);
}

static void announce(const df_stage *s, uint64_t variant, uint32_t first, uint32_t second) {
  const uint32_t ranks[] = {first, second};
  uint8_t payload[sizeof(df_announcement) + sizeof ranks];
  pthread_mutex_lock(&s->context->lock);
  const df_announcement own = df_coll_announcement(df_find_variant(s->context, COLL, variant));
  pthread_mutex_unlock(&s->context->lock);
  const uint32_t bytes = df_announcement_write(&own, ranks, payload);
  say(s, (df_message){.kind = DF_MESSAGE_ANNOUNCE, .id = COLL, .variant = variant}, payload, bytes);
}

static dfcclCollOptions_t of(const int *ranks) {
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = ranks;
  options.nRanks = 2;
  return options;
}

/* Without elements, so that no links are needed. */
static void run_empty(df_stage *s, int leader) {
  const int ranks[] = {leader, 1 - leader};
  const dfcclCollOptions_t options = of(ranks);
  stage_open_with_bell(s);
  OK(dfcclRegisterAllReduce(s->context, COLL, 0, dfcclInt8, dfcclSum, &options));
  announce(s, 0, (uint32_t)ranks[0], (uint32_t)ranks[1]);
  OK(dfcclRunAllReduce(s->context, COLL, NULL, NULL, NULL, NULL));
  OK(dfcclWait(s->context, COLL));
}

static void propose(const df_stage *s, df_algorithm algorithm) {
  const df_variant_spec spec = {.algorithm = algorithm};
  say(s, (df_message){.kind = DF_MESSAGE_PROPOSE, .id = COLL, .variant = VARIANT}, &spec,
      sizeof spec);
}

/* ... before it has deregistered the collective. */
static int refuses(const df_stage *s) {
  static df_datagram heard;
  const df_message *message = &heard.message;
  OK(dfcclDeregister(s->context, COLL));
  while (stage_hear(s, 1, &heard)) {
    if (message->kind == DF_MESSAGE_READY && message->variant == VARIANT) return message->b == 1;
    if (message->kind == DF_MESSAGE_DEREGISTER && message->variant == 0) return 0;
  }
  return 0;
}

DF_TEST(epochs, a_leader_that_gives_up_is_answered, 30) {
  df_stage s;
  run_empty(&s, 1);
  propose(&s, DF_DOUBLING);
  say(&s, (df_message){.kind = DF_MESSAGE_LIMIT, .id = COLL, .a = 1}, "", 0);
  CHECK(refuses(&s), "rank 0 has not answered");
  stage_close(&s);
}

DF_TEST(epochs, uneven_pieces_have_no_variants, 30) {
  df_stage s;
  const int ranks[] = {1, 0};
  const size_t counts[] = {0, 0};
  const dfcclCollOptions_t options = of(ranks);
  stage_open_with_bell(&s);
  OK(dfcclRegisterAllGatherV(s.context, COLL, counts, NULL, dfcclInt8, &options));
  announce(&s, 0, 1, 0);
  OK(dfcclRunAllGatherV(s.context, COLL, NULL, NULL, NULL, NULL));
  OK(dfcclWait(s.context, COLL));
  propose(&s, DF_DIRECT);
  CHECK(refuses(&s), "rank 0 has not refused");
  stage_close(&s);
}
