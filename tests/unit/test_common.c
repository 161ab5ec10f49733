/*
 * Promises of src/transports/shm/common_slots.c:
 *   - Data for several processes uses common slots from the first run that begins after all of them
 *     have mapped the slots, and not before. Each peer reads them at an address of its own.
 *   - Common slots exist if the configuration has them, and are returned with the collective.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "stage.h"
#include "base/mutex.h"
#include "control/service.h"
#include "host/state/registry.h"

enum { COLL = 7, COUNT = 1 << 16, COMMONS = 1, RINGS = 1 };

static int8_t input[1 << 21];

/* Delivers the message as if rank `from` had sent it. */
static void handle(const df_stage *s, uint32_t from, df_message message, int fd) {
  message.magic = DF_MESSAGE_MAGIC;
  df_rank_lock(&s->context->lock);
  df_messenger_deliver(&s->context->control, from, &message, fd);
  df_rank_unlock(&s->context->lock);
}

/* Ordinary shared memory of a peer. */
static void offer(const df_stage *s, uint32_t from, uint64_t id, uint64_t bytes, uint64_t use) {
  int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  CHECK(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0, "no memory to offer");
  fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  handle(s, from, (df_message){.kind = DF_MESSAGE_SEGMENT, .id = id, .a = bytes, .b = use}, fd);
}

static df_coll *find(const df_stage *s) {
  df_rank_lock(&s->context->lock);
  df_coll *coll = df_find(s->context, COLL);
  df_rank_unlock(&s->context->lock);
  return coll;
}

static int is_ready(const df_stage *s) {
  const df_coll *coll = find(s);
  df_rank_lock(&s->context->lock);
  int ready = coll->exec.ready;
  df_rank_unlock(&s->context->lock);
  return ready;
}

typedef struct readers {
  uint8_t *rings[STAGE_RANKS]; /* addresses as rank 0 sees them */
  uint32_t stride, n_slots;
} readers;

/* Rank 0 sends that much to both peers, which have rings for it; rank 2's ring is deeper_by times
 * as deep as agreed. Returns when rank 0's run may begin. */
static readers begin(const df_stage *s, size_t bytes, uint32_t deeper_by) {
  const uint32_t ranks[STAGE_RANKS] = {0, 1, 2};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.algorithm = "flat";
  OK(dfcclRegisterBroadcast(s->context, COLL, bytes, dfcclInt8, 0, &options));
  const df_announcement a = stage_announcement_of(s, COLL);
  readers r = {.stride = a.stride, .n_slots = a.n_slots};
  OK(dfcclRunBroadcast(s->context, COLL, input, input, NULL, NULL));
  for (uint32_t rank = 1; rank < STAGE_RANKS; rank++) {
    union {
      df_message message;
      uint8_t bytes[sizeof(df_message) + sizeof(df_announcement) + sizeof ranks];
    } d = {.message = {.magic = DF_MESSAGE_MAGIC, .kind = DF_MESSAGE_ANNOUNCE, .id = COLL}};
    offer(s, rank, 0, DF_PAGE, DF_SEGMENT_HOME);
    d.message.payload_bytes = df_announcement_write(&a, ranks, &d.message + 1);
    df_rank_lock(&s->context->lock);
    df_messenger_deliver(&s->context->control, rank, &d.message, -1);
    df_rank_unlock(&s->context->lock);
    uint32_t n_slots = rank == 2 ? a.n_slots * deeper_by : a.n_slots;
    uint64_t bytes_of_rings = df_link_ring_bytes(a.stride, n_slots) * a.n_blocks;
    offer(s, rank, DF_FIRST_LINKS_SEGMENT + RINGS, DF_ALIGN_UP(bytes_of_rings, (uint64_t)DF_PAGE),
          DF_SEGMENT_LINKS);
    /* A small ring that is deep releases a quarter of its slots at a time. */
    const uint16_t mask = n_slots > a.n_slots ? (uint16_t)(n_slots / 4 - 1) : 0;
    stage_offer_rings(s, rank, COLL,
                      &(df_shm_offer){.segment = DF_FIRST_LINKS_SEGMENT + RINGS,
                                      .n_slots = n_slots,
                                      .release_mask = mask});
  }
  EVENTUALLY(is_ready(s));
  const df_coll *coll = find(s);
  for (uint32_t i = 0; i < coll->exec.plan->n_links; i++)
    r.rings[coll->exec.device.links[i].peer] = coll->exec.device.links[i].slots;
  return r;
}

/* The place where the peer finds the message of run `number`, which it then releases; 0: in its
 * slot. */
static uint64_t take(const readers *r, uint32_t rank, uint64_t number) {
  const uint8_t *slot = r->rings[rank] + (number & (r->n_slots - 1)) * r->stride;
  uint64_t commit;
  EVENTUALLY((commit = df_observe_u64((const uint64_t *)slot)) >> DF_COMMIT_BITS == number);
  uint64_t address = commit & 1 ? *(const uint64_t *)(slot + DF_LINK_FLAGGED_OFFSET) : 0;
  if (!address)
    CHECK(memcmp(slot + DF_LINK_STAGED_OFFSET, input, COUNT) == 0, "the slot of rank %u", rank);
  df_publish_u64((uint64_t *)(r->rings[rank] + (uint64_t)r->stride * r->n_slots), number);
  return address;
}

static void run(const df_stage *s) {
  OK(dfcclRunBroadcast(s->context, COLL, input, input, NULL, NULL));
}

static void say_mapped(const df_stage *s, uint32_t rank, uint64_t at) {
  handle(s, rank, (df_message){.kind = DF_MESSAGE_MAPPED, .id = COMMONS, .a = at}, -1);
}

DF_TEST(common, slots_are_lent_when_all_have_mapped_them, 60) {
  const uint64_t views[] = {0, 0x10000000, 0x20000000};
  df_stage s;
  df_tune("common", "2");
  stage_open(&s);
  for (size_t i = 0; i < COUNT; i++) input[i] = (int8_t)(i * 7 % 101);
  readers r = begin(&s, COUNT, 1);
  const df_coll *coll = find(&s);
  CHECK(coll->exec.common.range.segment != NULL, "it has common slots");
  for (int rank = 1; rank < STAGE_RANKS; rank++)
    CHECK(stage_has_received(&s, rank, DF_MESSAGE_SEGMENT, COMMONS), "rank %d is not notified",
          rank);
  uint64_t number = 1;
  for (; number <= 2; number++) { /* none of them, then one of them has mapped it */
    if (number == 2) {
      say_mapped(&s, 1, views[1]);
      run(&s);
    }
    for (uint32_t rank = 1; rank < STAGE_RANKS; rank++)
      CHECK(take(&r, rank, number) == 0, "run %d lends to rank %u", (int)number, rank);
    OK(dfcclWait(s.context, COLL));
  }
  say_mapped(&s, 2, views[2]);
  int timed = 0;
  for (; number <= 5; number++) {
    input[0]++;
    run(&s);
    for (uint32_t rank = 1; rank < STAGE_RANKS; rank++) {
      const uint8_t *slot = r.rings[rank] + (number & (r.n_slots - 1)) * r.stride;
      EVENTUALLY(df_observe_u64((const uint64_t *)slot) >> DF_COMMIT_BITS == number);
      const uint64_t tag = *(const uint64_t *)slot & ((1u << DF_COMMIT_BITS) - 1);
      CHECK(tag & DF_COMMIT_DIRECT, "rank %u is not lent it", rank);
      CHECK(rank == 1 || tag == DF_COMMIT_DIRECT, "only the first reader's times count");
      timed += (tag & DF_COMMIT_TIMED) != 0;
      uint64_t at = *(const uint64_t *)(slot + DF_LINK_FLAGGED_OFFSET) - views[rank];
      CHECK(at >= coll->exec.common.range.offset &&
                at + COUNT <= coll->exec.common.range.offset + coll->exec.common.range.bytes,
            "rank %u is lent %llu", rank, (unsigned long long)at);
      CHECK(memcmp(coll->exec.common.range.segment->base + at, input, COUNT) == 0,
            "what rank %u reads", rank);
    }
    int done;
    OK(dfcclTest(s.context, COLL, &done));
    CHECK(!done, "both still read");
    for (uint32_t rank = 1; rank < STAGE_RANKS; rank++)
      CHECK(take(&r, rank, number) != 0, "run %d", (int)number);
    OK(dfcclWait(s.context, COLL));
  }
  CHECK(timed > 0, "both ends of the first reader's link measure new slots");
  CHECK(s.context->transports.shm->commons.used_bytes != 0, "they are taken");
  OK(dfcclDeregister(s.context, COLL));
  CHECK(s.context->transports.shm->commons.used_bytes == 0, "they have gone back");
  stage_close(&s);
}

/* Whether the messages of a broadcast of that size have common slots, with that many cores for
 * three ranks. */
static int has_common_if(const char *setting, uint32_t cores, size_t bytes, uint32_t deeper_by) {
  df_stage s;
  df_tune("common", setting);
  stage_open(&s);
  s.context->topology.n_cores = cores;
  begin(&s, bytes, deeper_by);
  int has = find(&s)->exec.common.range.segment != NULL;
  for (int rank = 1; rank < STAGE_RANKS; rank++) stage_die(&s, rank);
  (void)dfcclWait(s.context, COLL);
  stage_close(&s);
  return has;
}

static int has_common(const char *setting, uint32_t cores, size_t bytes) {
  return has_common_if(setting, cores, bytes, 1);
}

DF_TEST(common, slots_are_where_they_gain, 60) {
  const size_t most = 1 << 20; /* both readers' copies fill ring_bytes */
  CHECK(has_common("1", 1, most + 4096), "three ranks on one core");
  CHECK(!has_common("1", 1, most), "no more than the rings' part of the caches");
  CHECK(!has_common("1", 2, most + 4096), "a core for most of them");
  CHECK(!has_common("0", 1, most + 4096), "asked for none");
  CHECK(has_common("2", 3, 16384), "asked for all");
  CHECK(!has_common("2", 3, 16384 - DF_CACHE_LINE), "too short to be lent");
}

/* A ring that is deep so that its sender can run ahead lends nothing. One reader's ring is, because
 * its settings differ: no rank would have written the buffer that the other reader would be
 * lent. */
DF_TEST(common, slots_are_lent_to_all_or_none, 60) {
  df_tune("lend_min", "1");
  CHECK(has_common_if("2", 3, 512, 1), "both rings as agreed on");
  CHECK(!has_common_if("2", 3, 512, 2), "a deep ring");
}
