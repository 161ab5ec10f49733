/*
 * Promises of src/transports/shm/unmap.c, seen from a rank whose peers are played by this test. Its
 * device is the CPU's, but peers must unmap its memory before it is released, as with a GPU's:
 *   - Memory that a peer has mapped is released when the peer has reported the unmapping, not
 *     before.
 *   - A peer that died has nothing mapped any more.
 *   - A peer that this rank disconnects may be alive: its mappings remain for ever.
 *   - Mappings of a peer's memory are closed when it requests that and when it leaves, and the peer
 *     receives a report.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stage.h"
#include "base/mutex.h"
#include "control/messenger.h"
#include "host/state/registry.h"

enum { BYTES = 1 << 16 };

static uint32_t n_given_back, n_closed, attempts, rounds;
static uint32_t given_back(void) { return df_load_relaxed_u32(&n_given_back); }
static uint32_t closed(void) { return df_load_relaxed_u32(&n_closed); }

/* ---- a device whose memory peers map by a handle */

static void give_back(df_segment *segment) {
  df_system_add_u32(segment->is_mapping ? &n_closed : &n_given_back, 1);
  free(segment->base);
}

static dfcclResult_t make(df_segment **segment, uint64_t id, size_t bytes, int is_mapping) {
  *segment = calloc(1, sizeof **segment);
  **segment = (df_segment){.id = id,
                           .base = malloc(bytes),
                           .bytes = bytes,
                           .fd = -1,
                           .destroy = give_back,
                           .has_handle = !is_mapping,
                           .is_mapping = is_mapping};
  return dfcclSuccess;
}

static dfcclResult_t create_memory(df_rank_device *device, df_segment **segment, uint64_t id,
                                   size_t bytes) {
  (void)device;
  return make(segment, id, bytes, 0);
}

static dfcclResult_t map_memory(df_rank_device *device, uint32_t peer, df_segment **segment,
                                const df_message *message, int fd) {
  (void)device;
  (void)peer;
  (void)fd;
  return make(segment, message->id, message->a, 1);
}

/* In two calls of three, waiting for the device is not allowed. */
static int begin_waiting(void) { return df_system_add_u32(&attempts, 1) % 3 == 2; }
static void end_waiting(void) { df_system_add_u32(&rounds, 1); }

static void open_with_exports(df_stage *s) {
  static df_memory_ops memory;
  stage_open(s);
  df_shared_memory *shared = &s->context->transports.shm->memory;
  df_rank_lock(&s->context->lock);
  memory = *s->context->device.memory;
  memory.exports_memory = 1;
  memory.create = create_memory;
  memory.map = map_memory;
  s->context->device.memory = &memory;
  shared->exports_memory = 1;
  shared->map = map_memory;
  shared->pause = begin_waiting;
  shared->resume = end_waiting;
  df_rank_unlock(&s->context->lock);
}

static void say_unmapped(const df_stage *s, int peer, uint64_t id) {
  stage_say(s, peer, (df_message){.kind = DF_MESSAGE_UNMAPPED, .id = id}, NULL);
}

/* Waits until the rank has checked, from beginning to end, which memory can be unmapped or
 * released. */
static void let_it_look(const df_stage *s) {
  for (int i = 0; i < 2; i++) { /* the first round that ends may have begun before */
    uint32_t before = df_load_relaxed_u32(&rounds);
    say_unmapped(s, 2, 4711); /* memory that no peer has mapped: a reason for a check */
    EVENTUALLY(df_load_relaxed_u32(&rounds) != before);
  }
}

static int is_connected(const df_stage *s, uint32_t peer) {
  df_rank_lock(&s->context->lock);
  int connected = s->context->control.peers[peer].socket >= 0;
  df_rank_unlock(&s->context->lock);
  return connected;
}

/* Allocates and frees: both peers have received the memory's handle and have mapped it. */
static uint64_t free_what_is_mapped(const df_stage *s) {
  void *memory;
  OK(dfcclMemAlloc(s->context, &memory, BYTES));
  uint64_t id = s->context->memory.in_use->segment->id;
  for (int peer = 1; peer < STAGE_RANKS; peer++)
    CHECK(stage_has_received(s, peer, DF_MESSAGE_SEGMENT, id), "rank %d was not offered it", peer);
  OK(dfcclMemFree(s->context, memory));
  return id;
}

/* ---- memory that peers have mapped */

DF_TEST(unmap, mapped_memory_is_kept_until_peers_report, 30) {
  df_stage s;
  open_with_exports(&s);
  uint64_t id = free_what_is_mapped(&s);
  let_it_look(&s);
  say_unmapped(&s, 1, id);
  let_it_look(&s);
  CHECK(given_back() == 0, "rank 2 still has it mapped");
  say_unmapped(&s, 2, id);
  EVENTUALLY(given_back() == 1);
  say_unmapped(&s, 1, 0);
  say_unmapped(&s, 2, 0);
  stage_close(&s);
}

DF_TEST(unmap, a_dead_peer_has_nothing_mapped, 30) {
  df_stage s;
  open_with_exports(&s);
  say_unmapped(&s, 2, free_what_is_mapped(&s));
  let_it_look(&s);
  CHECK(given_back() == 0, "rank 1 still has it mapped");
  stage_die(&s, 1);
  EVENTUALLY(given_back() == 1);
  say_unmapped(&s, 2, 0);
  stage_close(&s);
}

/* A message that cannot be sent reveals the death first. */
DF_TEST(unmap, a_peer_that_dies_during_a_message_has_nothing_mapped, 30) {
  df_stage s;
  const df_message message = {.kind = DF_MESSAGE_UNMAP, .id = 4711};
  open_with_exports(&s);
  say_unmapped(&s, 2, free_what_is_mapped(&s));
  df_rank_lock(&s.context->lock);
  stage_die(&s, 1);
  df_messenger_send(&s.context->control, 1, &message, NULL, -1);
  df_rank_unlock(&s.context->lock);
  EVENTUALLY(given_back() == 1);
  say_unmapped(&s, 2, 0);
  stage_close(&s);
}

/* Also when everything else is released: a kernel of the peer may be reading it. */
DF_TEST(unmap, a_disconnected_peer_keeps_its_mappings, 30) {
  df_stage s;
  open_with_exports(&s);
  say_unmapped(&s, 2, free_what_is_mapped(&s));
  CHECK(send(s.peers[1], "nonsense", 8, MSG_NOSIGNAL) == 8, "rank 1 cannot speak");
  EVENTUALLY(!is_connected(&s, 1));
  let_it_look(&s);
  CHECK(given_back() == 0, "rank 1 lives, and its mapping leads to memory that was given back");
  say_unmapped(&s, 2, 0);
  stage_close(&s);
  CHECK(given_back() == 0, "the memory was given back at the end, and rank 1 lives");
}

/* ---- peers' memory that is mapped here */

static void map(const df_stage *s, uint64_t id) {
  union {
    df_message message;
    uint8_t bytes[sizeof(df_message) + DF_SEGMENT_HANDLE_BYTES];
  } d = {.message = {.kind = DF_MESSAGE_SEGMENT,
                     .id = id,
                     .a = BYTES,
                     .b = DF_SEGMENT_USER,
                     .payload_bytes = DF_SEGMENT_HANDLE_BYTES}};
  stage_handle(s, &d.message, -1);
}

static void unmap(const df_stage *s, uint64_t id, int may_be_read) {
  stage_say(s, 1, (df_message){.kind = DF_MESSAGE_UNMAP, .id = id, .a = (uint64_t)may_be_read},
            NULL);
}

DF_TEST(unmap, mappings_are_closed_when_their_owner_requests_it, 30) {
  df_stage s;
  open_with_exports(&s);
  map(&s, 5);
  map(&s, 6);
  unmap(&s, 6, 0);
  CHECK(stage_has_received(&s, 1, DF_MESSAGE_UNMAPPED, 6), "rank 1 is not notified");
  CHECK(closed() == 1, "%u of 2 mappings were closed", closed());
  unmap(&s, 6, 0);
  CHECK(stage_has_received(&s, 1, DF_MESSAGE_UNMAPPED, 6), "what is not mapped is not answered");
  stage_say(&s, 1, (df_message){.kind = DF_MESSAGE_BYE}, NULL);
  CHECK(stage_has_received(&s, 1, DF_MESSAGE_UNMAPPED, 0), "rank 1 leaves and is not notified");
  CHECK(closed() == 2, "%u of 2 mappings were closed", closed());
  stage_close(&s);
}

DF_TEST(unmap, memory_that_a_run_may_read_stays_mapped, 30) {
  df_stage s;
  int8_t buffer = 0;
  open_with_exports(&s);
  stage_begin_broadcast(&s, 1, 1, &buffer, &buffer);
  map(&s, 5);
  map(&s, 6);
  unmap(&s, 5, 1);
  unmap(&s, 6, 0); /* its owner has a proof that no run reads it */
  CHECK(stage_has_received(&s, 1, DF_MESSAGE_UNMAPPED, 6), "rank 1 is not notified");
  let_it_look(&s);
  CHECK(closed() == 1, "a run may be reading what was closed");
  OK(dfcclAbort(s.context));
  CHECK(stage_has_received(&s, 1, DF_MESSAGE_UNMAPPED, 5), "rank 1 is not notified at the end");
  CHECK(closed() == 2, "%u of 2 mappings were closed", closed());
  stage_close(&s);
}
