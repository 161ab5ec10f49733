/*
 * Promises of src/transports/net/link_rings.c:
 *   - Rings are zeroed. Small ones are written at once. The pages of large ones are allocated as
 *     messages are written to them, or at once if the route fills its rings.
 *   - The lock of the rank is unlocked meanwhile if patience allows it. Otherwise the pages that
 *     are written count, and if there are too many of them, nothing is made.
 *   - Without memory, making rings fails with a sentence, and the lock is held again.
 *   - Each block has a ring of its own, with two opposite ends: what one end publishes, the other
 *     one sees, and each rings the other one's bell.
 *   - The pieces of a message are those of the primitive that sends or receives it on this link.
 */
#include "transports/net/link_rings.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "context/descriptor.h"
#include "support/harness.h"

enum { SLOTS = 8, STRIDE = 192, BLOCKS = 3, STEP = 2 };

/* The linker leads the calls of aligned_alloc here: they fail on request, and it is noted whether
 * the lock is held at that time. */
static struct {
  df_rank_mutex *lock; /* NULL: calls are not watched */
  int fails, calls, was_held;
} allocation;
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
  if (allocation.lock) {
    allocation.calls++;
    allocation.was_held = 1;
    if (df_rank_trylock(allocation.lock)) {
      allocation.was_held = 0;
      df_rank_unlock(allocation.lock);
    }
    if (allocation.fails) return NULL;
  }
  return __real_aligned_alloc(alignment, bytes);
}

/* Makes the rings as a caller does who holds the lock, and must hold it afterwards. */
static dfcclResult_t make(df_net_rings *rings, const df_route *route, df_patience *patience,
                          int fails) {
  df_rank_mutex lock;
  df_rank_mutex_init(&lock);
  df_rank_lock(&lock);
  allocation.lock = &lock;
  allocation.fails = fails;
  allocation.calls = 0;
  const dfcclResult_t result = df_net_rings_make(rings, route, patience, &lock);
  allocation.lock = NULL;
  const int is_free = df_rank_trylock(&lock);
  CHECK(!is_free, "the lock is not held after the call");
  df_rank_unlock(&lock);
  df_rank_mutex_destroy(&lock);
  return result;
}

static df_route route_of(uint32_t stride, uint32_t n_slots, uint32_t n_blocks, int fills) {
  return (df_route){.n_blocks = n_blocks,
                    .ring = {.stride = stride, .n_slots = n_slots},
                    .fills_rings = (uint8_t)fills};
}
static df_route small_route(void) { return route_of(STRIDE, SLOTS, BLOCKS, 0); }
static df_route large_route(int fills) { return route_of(32832, 64, 2, fills); }

static uint32_t pages_of(const df_route *route) {
  const uint64_t bytes =
      df_link_ring_bytes(route->ring.stride, route->ring.n_slots) * route->n_blocks;
  return (uint32_t)((bytes + DF_PAGE - 1) / DF_PAGE);
}

static df_ring_memory memory_of(const df_net_rings *rings) {
  df_ring_memory memory = {.used = 1000, .reserved = 2000};
  df_net_rings_add_memory(rings, &memory);
  return (df_ring_memory){memory.used - 1000, memory.reserved - 2000};
}

static void check_zero(const df_net_rings *rings) {
  for (uint64_t at = 0; at < rings->bytes; at++)
    CHECK(rings->base[at] == 0, "byte %llu is not zero", (unsigned long long)at);
}

DF_TEST(link_rings, small_ones_are_zeroed_memory, 30) {
  const df_route route = small_route();
  for (int i = 0; i < 20; i++) {
    df_net_rings rings;
    df_patience patience = {.may_wait = 1};
    OK(make(&rings, &route, &patience, 0));
    CHECK(rings.bytes == BLOCKS * df_link_ring_bytes(STRIDE, SLOTS), "%llu bytes",
          (unsigned long long)rings.bytes);
    CHECK((uintptr_t)rings.base % DF_CACHE_LINE == 0, "address %p", (void *)rings.base);
    check_zero(&rings);
    const df_ring_memory memory = memory_of(&rings);
    CHECK(memory.used == rings.bytes && memory.reserved == rings.bytes, "all of it is used");
    memset(rings.base, 0xff, rings.bytes); /* the next one may get the same memory */
    df_net_rings_free(&rings);
  }
}

DF_TEST(link_rings, large_ones_are_pages_that_come_as_they_are_written, 30) {
  for (int fills = 0; fills < 2; fills++) {
    const df_route route = large_route(fills);
    df_net_rings rings;
    df_patience patience = {.may_wait = 1};
    OK(make(&rings, &route, &patience, 0));
    CHECK((uintptr_t)rings.base % DF_PAGE == 0, "address %p", (void *)rings.base);
    df_ring_memory memory = memory_of(&rings);
    CHECK(memory.reserved == rings.bytes, "reserved");
    CHECK(memory.used == (fills ? rings.bytes : 0), "%llu of %llu bytes are used before a write",
          (unsigned long long)memory.used, (unsigned long long)rings.bytes);
    check_zero(&rings);
    memset(rings.base, 0xff, rings.bytes);
    memory = memory_of(&rings);
    CHECK(memory.used == rings.bytes, "%llu of %llu bytes are used after writes",
          (unsigned long long)memory.used, (unsigned long long)rings.bytes);
    df_net_rings_free(&rings);
    unsigned char exists;
    CHECK(mincore(rings.base, 1, &exists) != 0, "the pages are still mapped");
  }
}

DF_TEST(link_rings, lock_is_unlocked_if_the_caller_may_wait, 30) {
  const df_route route = small_route();
  for (int may_wait = 0; may_wait < 2; may_wait++) {
    df_net_rings rings;
    df_patience patience = {.may_wait = may_wait, .pages_left = 100};
    OK(make(&rings, &route, &patience, 0));
    CHECK(allocation.calls == 1 && allocation.was_held == !may_wait, "may_wait %d: the lock was %s",
          may_wait, allocation.was_held ? "held" : "free");
    CHECK(patience.pages_left == 100 - (may_wait ? 0 : pages_of(&route)), "%u pages are left",
          patience.pages_left);
    df_net_rings_free(&rings);
  }
}

DF_TEST(link_rings, pages_are_limited_if_the_caller_may_not_wait, 30) {
  const df_route routes[] = {small_route(), large_route(1)};
  for (size_t i = 0; i < DF_COUNT_OF(routes); i++) {
    const uint32_t pages = pages_of(&routes[i]);
    df_net_rings rings = {0};
    df_patience patience = {.pages_left = pages - 1};
    RESULT(make(&rings, &routes[i], &patience, 0), dfcclInProgress);
    CHECK(rings.base == NULL && allocation.calls == 0, "something was made");
    CHECK(patience.pages_left == pages - 1, "%u pages are left", patience.pages_left);
    patience.pages_left = pages;
    OK(make(&rings, &routes[i], &patience, 0));
    CHECK(patience.pages_left == 0, "%u pages are left", patience.pages_left);
    df_net_rings_free(&rings);
  }
  /* Pages that are not written now do not count. */
  const df_route route = large_route(0);
  df_net_rings rings;
  df_patience patience = {.pages_left = 0};
  OK(make(&rings, &route, &patience, 0));
  df_net_rings_free(&rings);
}

DF_TEST(link_rings, lack_of_memory_is_a_result, 30) {
  const df_route small = small_route();
  /* No address space has that many bytes. */
  const df_route large[] = {route_of(1u << 31, 256, 1 << 20, 0),
                            route_of(1u << 31, 256, 1 << 20, 1)};
  char wanted[80];
  snprintf(wanted, sizeof wanted, "no memory for rings of %llu bytes",
           (unsigned long long)(BLOCKS * df_link_ring_bytes(STRIDE, SLOTS)));
  for (int may_wait = 0; may_wait < 2; may_wait++) {
    df_net_rings rings;
    df_patience patience = {.may_wait = may_wait, .pages_left = UINT32_MAX};
    RESULT(make(&rings, &small, &patience, 1), dfcclOutOfMemory);
    CHECK(strcmp(dfcclGetLastError(NULL), wanted) == 0, "\"%s\"", dfcclGetLastError(NULL));
    for (size_t i = 0; i < DF_COUNT_OF(large); i++) {
      patience.pages_left = UINT32_MAX;
      RESULT(make(&rings, &large[i], &patience, 0), dfcclOutOfMemory);
    }
  }
}

/* One link of a plan, with the two ends of each block. */
typedef struct {
  df_plan_link links[2];
  df_plan plan;
  df_link ends[BLOCKS * STEP], pump_ends[BLOCKS];
  df_bell pump_bell, block_bell;
  df_route route;
  df_net_rings rings;
} stage;

static void stage_make(stage *s, int sends, uint32_t longest, uint64_t lend_min) {
  *s = (stage){.links[1] = {.peer = 1, .sends = (uint16_t)sends, .messages = 5}};
  s->plan = (df_plan){.links = s->links, .n_links = 2, .longest = longest};
  memset(s->ends, 0xff, sizeof s->ends);
  memset(s->pump_ends, 0xff, sizeof s->pump_ends);
  s->route = (df_route){.peer = 300,
                        .n_blocks = BLOCKS,
                        .ends = s->ends,
                        .end_step = STEP,
                        .ring = {.stride = STRIDE, .n_slots = SLOTS, .release_mask = 3},
                        .payload_offset = DF_LINK_STAGED_OFFSET,
                        .plan = &s->plan,
                        .which = 1};
  df_patience patience = {.may_wait = 1};
  OK(make(&s->rings, &s->route, &patience, 0));
  df_net_rings_fill_ends(&s->rings, &s->route, &s->pump_bell, &s->block_bell, lend_min,
                         s->pump_ends);
}

static void check_end(const df_link *end, const df_bell *peer_bell, int sends) {
  CHECK(end->peer_bell == peer_bell, "the bell of the other end");
  CHECK(end->sends == sends, "sends: %d", end->sends);
  CHECK(end->stride == STRIDE && end->slot_mask == SLOTS - 1 && end->release_mask == 3,
        "the ring's form");
  CHECK(end->messages == 5 && end->peer == 300 && end->payload_offset == DF_LINK_STAGED_OFFSET &&
            end->same_process == 1,
        "the link's description");
  CHECK(end->credit_seen == 0, "no credit was seen");
}

DF_TEST(link_rings, each_block_has_a_ring_with_two_opposite_ends, 30) {
  const uint64_t ring_bytes = df_link_ring_bytes(STRIDE, SLOTS);
  for (int sends = 0; sends < 2; sends++) {
    stage s;
    stage_make(&s, sends, 1, 777);
    for (uint32_t block = 0; block < BLOCKS; block++) {
      const df_link *mine = &s.ends[block * STEP], *pumps = &s.pump_ends[block];
      check_end(mine, &s.pump_bell, sends);
      check_end(pumps, &s.block_bell, !sends);
      CHECK(mine->slots == s.rings.base + block * ring_bytes && pumps->slots == mine->slots,
            "the slots of block %u", block);
      CHECK((uint8_t *)mine->credit == mine->slots + STRIDE * SLOTS &&
                pumps->credit == mine->credit,
            "the credit of block %u", block);
      /* The ends between them belong to another link. */
      const uint8_t *next = (const uint8_t *)(mine + 1);
      for (size_t i = 0; i < sizeof *mine; i++)
        CHECK(next[i] == 0xff, "the end behind block %u was changed", block);
    }
    df_net_rings_free(&s.rings);
  }
}

DF_TEST(link_rings, both_ends_exchange_messages, 30) {
  for (int sends = 0; sends < 2; sends++) {
    stage s;
    stage_make(&s, sends, 1, 0);
    for (uint32_t block = 0; block < BLOCKS; block++) {
      df_link *from = sends ? &s.ends[block * STEP] : &s.pump_ends[block];
      df_link *to = sends ? &s.pump_ends[block] : &s.ends[block * STEP];
      for (uint64_t sequence = 1; sequence <= SLOTS; sequence++) {
        int is_direct = 1;
        CHECK(df_link_may_send(from, sequence), "the ring has room");
        CHECK(!df_link_has_message(to, sequence, &is_direct), "nothing was sent");
        df_link_payload(from, sequence)[0] = (uint8_t)(10 * block + sequence);
        df_link_publish(from, sequence, 0);
        CHECK(df_link_has_message(to, sequence, &is_direct) && !is_direct, "it has arrived");
        CHECK(df_link_payload(to, sequence)[0] == 10 * block + sequence, "its payload");
      }
      CHECK(!df_link_may_send(from, SLOTS + 1), "the ring is full");
      df_link_release(to, SLOTS);
      CHECK(df_link_may_send(from, SLOTS + 1), "all slots were released");
    }
    df_net_rings_free(&s.rings);
  }
}

DF_TEST(link_rings, only_long_messages_of_one_piece_are_lent, 30) {
  for (uint32_t longest = 0; longest < 3; longest++) {
    stage s;
    stage_make(&s, 1, longest, 777);
    for (uint32_t block = 0; block < BLOCKS; block++)
      CHECK(s.ends[block * STEP].lend_min == (longest > 1 ? UINT64_MAX : 777),
            "messages of %u pieces are lent from %llu bytes on", longest,
            (unsigned long long)s.ends[block * STEP].lend_min);
    df_net_rings_free(&s.rings);
    stage_make(&s, 0, longest, 777);
    for (uint32_t block = 0; block < BLOCKS; block++)
      CHECK(s.ends[block * STEP].mapped_ranges == NULL, "lent buffers may be anywhere");
    df_net_rings_free(&s.rings);
  }
}

DF_TEST(link_rings, pieces_are_those_of_the_messages_of_this_link, 30) {
  df_primitive primitives[] = {
      {.flags = DF_PRIM_RECV, .piece = 5, .pieces = 2, .stride = 8, .recv_link = 1},
      /* on other links, and with a member that is not valid */
      {.flags = DF_PRIM_SEND, .piece = 90, .send_link = 0, .recv_link = 1},
      {.flags = DF_PRIM_RECV, .piece = 91, .recv_link = 2, .send_link = 1},
      {.flags = DF_PRIM_STORE, .piece = 92, .send_link = 1, .recv_link = 1},
      {.flags = DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_SEND,
       .piece = 6,
       .pieces = 3,
       .stride = 7,
       .recv_link = 1,
       .send_link = 1,
       .recv_ordinal = 2,
       .send_ordinal = 1},
      {.flags = DF_PRIM_RECV, .piece = DF_PIECE_NONE, .recv_link = 1, .recv_ordinal = 1},
      {.flags = DF_PRIM_SEND, .piece = 4, .pieces = 1, .stride = 9, .send_link = 1},
  };
  static const df_pump_pieces sent[] = {{4, 1, 9}, {6, 3, 7}};
  static const df_pump_pieces received[] = {{5, 2, 8}, {DF_PIECE_NONE, 0, 0}, {6, 3, 7}};
  static const df_pump_pieces other = {1234, 1234, 1234};
  for (int sends = 0; sends < 2; sends++) {
    df_plan_link links[3] = {[1] = {.sends = (uint16_t)sends}};
    const df_plan plan = {.primitives = primitives,
                          .n_primitives = DF_COUNT_OF(primitives),
                          .links = links,
                          .n_links = 3};
    const df_route route = {.plan = &plan, .which = 1};
    df_pump_pieces pieces[4] = {other, other, other, other};
    const df_pump_pieces *wanted = sends ? sent : received;
    const size_t n = sends ? DF_COUNT_OF(sent) : DF_COUNT_OF(received);
    df_net_rings_find_pieces(&route, pieces);
    for (size_t i = 0; i < DF_COUNT_OF(pieces); i++)
      CHECK(memcmp(&pieces[i], i < n ? &wanted[i] : &other, sizeof pieces[i]) == 0,
            "message %zu, sends %d: %u, %u, %u", i, sends, pieces[i].piece, pieces[i].pieces,
            pieces[i].stride);
  }
}
