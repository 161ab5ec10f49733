/*
 * Promises of src/primitives/step.h, primitive by primitive:
 *   - A step executes one primitive, or says why not and has changed nothing that counts.
 *   - Empty messages are neither sent nor waited for, and their numbers are released.
 *   - A message lends the buffer only where the receiver may read it for as long as it needs; the
 * run is complete only when all that was lent has been given back.
 *   - In place copies nothing. A cancelled collective is not touched.
 *   - What a peer waits for is announced before this rank's own copy, and after it nothing is read
 * that was released.
 *   - All of that whether the primitives' records are kept or worked out at each step.
 *   - A cursor that is saved and loaded between any two steps gives the same result.
 */
#include "primitives/step.h"

#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

enum { ELEMENTS = 8, SLOTS = 2, STRIDE = 128 };

/* One block of one rank with a link in (0) and a link out (1), both ends of which the test holds.
 */
typedef struct fixture {
  df_descriptor desc;
  df_run_words words;
  df_run_counters counters;
  df_part part;
  df_cursor cursor;
  df_link links[2];
  df_bell bells[2];
  df_lanes lanes;
  df_move move;
  uint64_t progress;
  df_prepared records[DF_PREPARED_MOST];
  DF_ALIGNED(64) uint8_t in_ring[SLOTS * STRIDE + 64], out_ring[SLOTS * STRIDE + 64];
  int32_t input[ELEMENTS], output[ELEMENTS], scratch[ELEMENTS];
} fixture;

static const uint32_t never;
static int keeps; /* records are kept */

/* Executed with records kept, and without. */
#define STEP_TEST(name)                                                                            \
  static void name(void);                                                                          \
  DF_TEST(step, name, 30) {                                                                        \
    for (keeps = 0; keeps < 2; keeps++) name();                                                    \
  }                                                                                                \
  static void name(void)

static void make(fixture *f, const df_primitive *primitives, uint32_t n) {
  memset(f, 0, sizeof *f);
  for (int i = 0; i < ELEMENTS; i++) f->input[i] = i + 1;
  for (int i = 0; i < ELEMENTS; i++) f->output[i] = f->scratch[i] = -1;
  f->part = (df_part){.elements = ELEMENTS, .chunk = ELEMENTS, .loops = 1};
  df_descriptor *d = &f->desc;
  d->primitives = primitives;
  d->n_primitives = n;
  d->links = f->links;
  d->n_links = 2;
  d->parts = &f->part;
  d->progress = &f->progress;
  d->scratch = (uint8_t *)f->scratch;
  d->count = ELEMENTS;
  d->pieces = 1;
  d->n_blocks = 1;
  d->divisor = 4;
  d->type = dfcclInt32;
  d->op = dfcclSum;
  d->element_bytes = 4;
  d->direct_min = UINT64_MAX;
  d->direct_in_place = 1;
  d->words = &f->words;
  d->counters = &f->counters;
  f->words.runs[0] = (df_run_arguments){.send = f->input, .recv = f->output};
  for (int i = 0; i < 2; i++) {
    uint8_t *ring = i ? f->out_ring : f->in_ring;
    f->links[i] = (df_link){.slots = ring,
                            .credit = (uint64_t *)(ring + SLOTS * STRIDE),
                            .peer_bell = &f->bells[i],
                            .stride = STRIDE,
                            .slot_mask = SLOTS - 1,
                            .messages = 1,
                            .peer = (uint32_t)i,
                            .payload_offset = DF_LINK_STAGED_OFFSET,
                            .same_process = 1,
                            .sends = (uint8_t)i};
  }
  f->lanes = (df_lanes){.move = &f->move,
                        .mover = df_mover_cpu_best(),
                        .interrupt = &never,
                        .yield_polls = UINT32_MAX};
}

static df_step_result step(fixture *f) {
  if (keeps && !f->desc.prepared && df_prepared_is_kept(&f->desc))
    df_prepared_keep(&f->desc, f->records);
  return df_coll_step(&f->desc, 0, &f->cursor, &f->lanes);
}

/* The peers' sides. */
static void arrive(fixture *f, uint64_t sequence, int32_t value) {
  int32_t *payload = (int32_t *)(df_link_slot(&f->links[0], sequence) + f->links[0].payload_offset);
  for (int i = 0; i < ELEMENTS; i++) payload[i] = value + i;
  df_link_publish(&f->links[0], sequence, 0);
}
static const int32_t *sent(fixture *f, uint64_t sequence) {
  int direct;
  CHECK(df_link_has_message(&f->links[1], sequence, &direct), "message %llu is not there",
        (unsigned long long)sequence);
  const uint8_t *slot = df_link_slot(&f->links[1], sequence);
  if (!direct) return (const int32_t *)(slot + f->links[1].payload_offset);
  return (const int32_t *)(uintptr_t) * (const uint64_t *)(slot + DF_LINK_FLAGGED_OFFSET);
}
static int is_sent(const fixture *f, uint64_t sequence) {
  int direct;
  return df_link_has_message(&f->links[1], sequence, &direct);
}
static uint64_t released(const fixture *f) { return df_observe_u64(f->links[0].credit); }

static void expect_values(const int32_t *got, int32_t first, int32_t slope, const char *what) {
  for (int i = 0; i < ELEMENTS; i++)
    CHECK(got[i] == first + slope * i, "%s: element %d is %d instead of %d", what, i, got[i],
          first + slope * i);
}
static void expect_untouched(const fixture *f) {
  expect_values(f->output, -1, 0, "the output");
  expect_values(f->scratch, -1, 0, "the scratch memory");
  CHECK(!is_sent(f, 1), "something was sent");
  CHECK(released(f) == 0, "something was released");
}

static df_primitive primitive(uint32_t flags, df_buffer source, df_buffer destination) {
  return (df_primitive){.flags = (uint8_t)flags,
                        .source = (uint8_t)source,
                        .destination = (uint8_t)destination,
                        .recv_link = 0,
                        .send_link = 1};
}

/* ---- each kind ---- */

STEP_TEST(copy) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_STORE, DF_BUFFER_INPUT, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  CHECK(step(&f) == DF_STEP_DONE, "one primitive");
  expect_values(f.output, 1, 1, "the output");
}

STEP_TEST(in_place_copies_nothing) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_STORE, DF_BUFFER_INPUT, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  f.words.runs[0].recv = f.input;
  CHECK(step(&f) == DF_STEP_DONE && f.move.kind == DF_MOVE_NOTHING, "nothing to move");
  CHECK(f.cursor.flags & DF_CURSOR_IN_PLACE, "it is in place");
}

STEP_TEST(divide) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_STORE | DF_PRIM_AVERAGE, DF_BUFFER_INPUT, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  for (int i = 0; i < ELEMENTS; i++) f.input[i] = 4 * i + 8;
  CHECK(step(&f) == DF_STEP_DONE, "one primitive");
  expect_values(f.output, 2, 1, "the output");
}

STEP_TEST(send_waits_for_credit) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_SEND, DF_BUFFER_INPUT, DF_BUFFER_NONE);
  make(&f, &p, 1);
  for (uint64_t run = 0; run < SLOTS; run++) {
    f.words.runs[run] = f.words.runs[0];
    CHECK(step(&f) == DF_STEP_DONE, "there is room");
    expect_values(sent(&f, run + 1), 1, 1, "the message");
    f.cursor.run++;
    f.cursor.phase = DF_PHASE_BEGIN;
  }
  f.words.runs[SLOTS] = f.words.runs[0];
  for (int poll = 0; poll < 3; poll++) {
    CHECK(!df_coll_is_runnable(&f.desc, 0, &f.cursor) || poll == 0, "no slot is free");
    CHECK(step(&f) == DF_STEP_BLOCKED, "no slot is free");
  }
  df_link_release(&f.links[1], 1);
  CHECK(df_coll_is_runnable(&f.desc, 0, &f.cursor), "one slot is free");
  CHECK(step(&f) == DF_STEP_DONE, "one slot is free");
  expect_values(sent(&f, 3), 1, 1, "the message");
}

STEP_TEST(receive) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_RECV | DF_PRIM_STORE, DF_BUFFER_NONE, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  CHECK(step(&f) == DF_STEP_BLOCKED, "nothing has come");
  df_cursor before = f.cursor;
  CHECK(step(&f) == DF_STEP_BLOCKED, "nothing has come");
  CHECK(memcmp(&before, &f.cursor, sizeof before) == 0, "a blocked step moved the cursor");
  expect_untouched(&f);
  CHECK(!df_coll_is_runnable(&f.desc, 0, &f.cursor), "nothing has come");
  arrive(&f, 1, 100);
  CHECK(df_coll_is_runnable(&f.desc, 0, &f.cursor), "a message has come");
  CHECK(step(&f) == DF_STEP_DONE, "a message has come");
  expect_values(f.output, 100, 1, "the output");
  CHECK(released(&f) == 1, "released: %llu", (unsigned long long)released(&f));
}

STEP_TEST(receive_and_reduce) {
  fixture f;
  for (uint32_t order = 0; order <= DF_PRIM_SOURCE_FIRST; order += DF_PRIM_SOURCE_FIRST)
    for (uint32_t average = 0; average <= DF_PRIM_AVERAGE; average += DF_PRIM_AVERAGE) {
      df_primitive p = primitive(DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_STORE | order | average,
                                 DF_BUFFER_INPUT, DF_BUFFER_OUTPUT);
      make(&f, &p, 1);
      for (int i = 0; i < ELEMENTS; i++) f.input[i] = 3 * i + 100;
      arrive(&f, 1, 100);
      CHECK(step(&f) == DF_STEP_DONE, "a message has come");
      expect_values(f.output, average ? 50 : 200, average ? 1 : 4, "the output");
      const void *first = order ? (const void *)f.move.b : f.move.a;
      CHECK(first == f.in_ring + STRIDE + DF_LINK_STAGED_OFFSET, "the operands' order");
    }
}

STEP_TEST(receive_reduce_and_send) {
  fixture f;
  df_primitive p =
      primitive(DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_SEND, DF_BUFFER_INPUT, DF_BUFFER_NONE);
  make(&f, &p, 1);
  arrive(&f, 1, 100);
  CHECK(step(&f) == DF_STEP_DONE, "a message has come");
  expect_values(sent(&f, 1), 101, 2, "the message");
  expect_values(f.output, -1, 0, "the output");
  CHECK(released(&f) == 1, "released");
}

/* Neither half is done before both can be. */
STEP_TEST(receive_and_send_at_once_or_not_at_all) {
  fixture f;
  df_primitive p =
      primitive(DF_PRIM_RECV | DF_PRIM_STORE | DF_PRIM_SEND, DF_BUFFER_NONE, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  f.links[1].slot_mask = 0;
  f.cursor.run = 1;
  f.words.runs[1] = f.words.runs[0];
  arrive(&f, 2, 100);
  CHECK(step(&f) == DF_STEP_BLOCKED, "no slot is free");
  expect_untouched(&f);
  df_link_release(&f.links[1], 1);
  CHECK(step(&f) == DF_STEP_DONE, "a slot is free");
  expect_values(f.output, 100, 1, "the output");
  expect_values(sent(&f, 2), 100, 1, "the message");
}

static fixture *watched;
static int copies;
static void watch_copy(void *to, const void *from, size_t bytes) {
  int into_slot = (uint8_t *)to >= watched->out_ring && (uint8_t *)to < (uint8_t *)watched->input;
  CHECK(is_sent(watched, 1) == !into_slot, "copy %d: the message is %s", copies,
        into_slot ? "announced before it is there" : "announced late");
  CHECK(released(watched) == 0, "copy %d: what was received is released", copies);
  memcpy(to, from, bytes);
  copies++;
}

STEP_TEST(peers_are_told_before_the_own_copy) {
  fixture f;
  df_primitive p =
      primitive(DF_PRIM_RECV | DF_PRIM_STORE | DF_PRIM_SEND, DF_BUFFER_NONE, DF_BUFFER_OUTPUT);
  df_mover_cpu mover = *df_mover_cpu_best();
  mover.copy = watch_copy;
  watched = &f;
  copies = 0;
  make(&f, &p, 1);
  f.lanes.mover = &mover;
  arrive(&f, 1, 100);
  CHECK(step(&f) == DF_STEP_DONE && copies == 2, "%d copies", copies);
  expect_values(f.output, 100, 1, "the output");
  CHECK(released(&f) == 1, "released");
}

STEP_TEST(reduce_without_receiving_combines_in_place) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_REDUCE | DF_PRIM_STORE, DF_BUFFER_INPUT, DF_BUFFER_SCRATCH);
  make(&f, &p, 1);
  CHECK(step(&f) == DF_STEP_DONE, "one primitive");
  expect_values(f.scratch, 0, 1, "the scratch memory");
  CHECK(f.move.a == f.scratch && f.move.b == f.input, "destination (op) source");
}

/* ---- empty pieces ---- */

STEP_TEST(empty_messages_are_skipped_and_released) {
  fixture f;
  df_primitive p[2] = {
      primitive(DF_PRIM_RECV | DF_PRIM_STORE | DF_PRIM_SEND, DF_BUFFER_NONE, DF_BUFFER_OUTPUT),
      primitive(DF_PRIM_SEND, DF_BUFFER_INPUT, DF_BUFFER_NONE)};
  p[0].piece = p[0].destination_piece = 1; /* behind the end of the buffer */
  p[1].send_ordinal = 1;
  make(&f, p, 2);
  f.desc.pieces = 2;
  f.links[1].messages = 2;
  CHECK(step(&f) == DF_STEP_PROGRESSED, "an empty message is not waited for");
  CHECK(!is_sent(&f, 1), "an empty message was sent");
  CHECK(released(&f) == 1, "its number is released");
  expect_values(f.output, -1, 0, "the output");
  CHECK(step(&f) == DF_STEP_DONE, "the second one is not empty");
  expect_values(sent(&f, 2), 1, 1, "the message");
}

STEP_TEST(nothing_to_do_is_done_at_once) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_RECV | DF_PRIM_STORE, DF_BUFFER_NONE, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  f.part = (df_part){0};
  CHECK(step(&f) == DF_STEP_DONE, "no loops");
  expect_untouched(&f);
}

STEP_TEST(the_last_message_is_as_long_as_what_is_left) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_STORE, DF_BUFFER_INPUT, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  f.part = (df_part){.first = 1, .elements = 5, .chunk = 2, .loops = 3};
  static const uint64_t lengths[] = {2, 2, 1};
  for (int loop = 0; loop < 3; loop++) {
    CHECK(step(&f) == (loop < 2 ? DF_STEP_PROGRESSED : DF_STEP_DONE), "loop %d", loop);
    CHECK(f.move.count == lengths[loop], "loop %d: %llu", loop, (unsigned long long)f.move.count);
  }
  for (int i = 0; i < ELEMENTS; i++)
    CHECK(f.output[i] == (i >= 1 && i < 6 ? i + 1 : -1), "element %d", i);
}

/* ---- lending ---- */

STEP_TEST(a_lent_buffer_is_waited_for) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_SEND, DF_BUFFER_INPUT, DF_BUFFER_NONE);
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  CHECK(step(&f) == DF_STEP_PROGRESSED && f.move.lends, "it lends");
  CHECK(sent(&f, 1) == f.input, "the buffer itself");
  CHECK(f.cursor.phase == DF_PHASE_DRAIN, "and waits");
  df_cursor before = f.cursor;
  for (int poll = 0; poll < 3; poll++) CHECK(step(&f) == DF_STEP_BLOCKED, "the peer still reads");
  CHECK(memcmp(&before, &f.cursor, sizeof before) == 0, "a blocked step moved the cursor");
  CHECK(!df_coll_is_runnable(&f.desc, 0, &f.cursor), "the peer still reads");
  df_link_release(&f.links[1], 1);
  CHECK(df_coll_is_runnable(&f.desc, 0, &f.cursor), "it has read");
  CHECK(step(&f) == DF_STEP_DONE, "it has read");
}

static int lends(fixture *f) {
  CHECK(step(f) != DF_STEP_BLOCKED, "there is room");
  return (int)f->move.lends;
}

STEP_TEST(what_must_not_be_lent_is_copied) {
  fixture f;
  uint64_t reach[2] = {0, 4096};
  const uint64_t *const reaches[2] = {NULL, reach};
  df_primitive p = primitive(DF_PRIM_SEND, DF_BUFFER_INPUT, DF_BUFFER_NONE);
  make(&f, &p, 1);
  f.desc.direct_min = ELEMENTS * 4;
  CHECK(lends(&f), "as long as the least");
  make(&f, &p, 1);
  f.desc.direct_min = ELEMENTS * 4 + 1;
  CHECK(!lends(&f), "shorter than the least");
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  f.words.runs[0].recv = f.input;
  CHECK(lends(&f), "in place, and the plan allows it");
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  f.desc.direct_in_place = 0;
  f.words.runs[0].recv = f.input;
  CHECK(!lends(&f), "in place, and the plan forbids it");
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  f.links[1].same_process = 0;
  CHECK(!lends(&f), "another process that does not see this memory");
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  f.links[1].same_process = 0;
  f.desc.reaches = reaches;
  f.words.runs[0].send_reach = 1;
  CHECK(lends(&f), "another process that has mapped this memory");
  CHECK((uintptr_t)sent(&f, 1) == (uintptr_t)f.input + 4096, "where the peer sees it");
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  f.links[1].same_process = 0;
  f.desc.reaches = reaches;
  f.words.runs[0].send_reach = 1;
  reach[1] = DF_OUT_OF_REACH;
  CHECK(!lends(&f), "another process that has not mapped it yet");
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  f.links[1].release_mask = 1;
  CHECK(!lends(&f), "slots come back some at a time, and lent buffers must at once");
  df_primitive scratch = primitive(DF_PRIM_SEND, DF_BUFFER_SCRATCH, DF_BUFFER_NONE);
  make(&f, &scratch, 1);
  f.desc.direct_min = 1;
  CHECK(!lends(&f), "scratch memory is reused in the next loop");
}

/* Is a received result written past the caches? */
static int streams(uint8_t stream, int in_place, int lent) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_RECV | DF_PRIM_STORE, DF_BUFFER_NONE, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  f.desc.stream = stream;
  if (in_place) f.words.runs[0].recv = f.input;
  if (lent) {
    uint8_t *slot = df_link_slot(&f.links[0], 1);
    *(uint64_t *)(slot + DF_LINK_FLAGGED_OFFSET) = (uint64_t)(uintptr_t)f.scratch;
    df_link_publish(&f.links[0], 1, 1);
  } else {
    arrive(&f, 1, 7);
  }
  CHECK(step(&f) == DF_STEP_DONE, "the message is there");
  expect_values(in_place ? f.input : f.output, lent ? -1 : 7, lent ? 0 : 1, "the result");
  return f.move.stream;
}

STEP_TEST(what_was_read_moments_ago_is_not_written_past_the_caches) {
  for (int in_place = 0; in_place < 2; in_place++)
    for (int lent = 0; lent < 2; lent++) {
      CHECK(!streams(DF_STREAM_NEVER, in_place, lent), "never");
      CHECK(streams(DF_STREAM_ALWAYS, in_place, lent), "always");
      CHECK(streams(DF_STREAM_OUT_OF_PLACE, in_place, lent) == (!in_place || lent),
            "in place, from a slot: no; otherwise: yes");
    }
}

/* A step whose message the peer reads where it is lent from, of a run whose result is large. */
static int lends_large(fixture *f, uint32_t flags, int in_place, int passes) {
  df_primitive p = primitive((uint8_t)flags, DF_BUFFER_INPUT, DF_BUFFER_OUTPUT);
  make(f, &p, 1);
  f->desc.direct_min = 1;
  f->desc.stream = DF_STREAM_OUT_OF_PLACE;
  f->desc.passes_results = (uint8_t)passes;
  if (in_place) f->words.runs[0].recv = f->input;
  arrive(f, 1, 100);
  return lends(f);
}

STEP_TEST(a_copy_goes_past_the_caches_while_its_source_is_lent) {
  fixture f;
  for (int passes = 0; passes < 2; passes++) {
    CHECK(lends_large(&f, DF_PRIM_STORE | DF_PRIM_SEND, 0, passes), "the input");
    CHECK(sent(&f, 1) == f.input, "the input");
    CHECK(f.move.stream, "the peer does not read the copy");
    expect_values(f.output, 1, 1, "the output");
  }
}

STEP_TEST(results_are_lent_from_the_caches_or_passed_on) {
  fixture f;
  const uint32_t reduces = DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_STORE | DF_PRIM_SEND;
  CHECK(lends_large(&f, reduces, 0, 0), "the output");
  CHECK(sent(&f, 1) == f.output && !f.move.stream, "where the peer finds it in a cache");
  CHECK(!lends_large(&f, reduces, 0, 1), "larger than the caches by far");
  CHECK(f.move.stream, "past the caches");
  expect_values(sent(&f, 1), 101, 2, "the message");
  expect_values(f.output, 101, 2, "the output");
  CHECK(lends_large(&f, reduces, 1, 1), "its lines have been read, and are in a cache");
  CHECK(sent(&f, 1) == f.input, "in place");
}

STEP_TEST(store_to_lend) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_SEND | DF_PRIM_STORE_TO_LEND,
                             DF_BUFFER_INPUT, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  arrive(&f, 1, 100);
  CHECK(step(&f) == DF_STEP_DONE, "copied");
  expect_values(f.output, -1, 0, "not lent, not stored: the output");
  expect_values(sent(&f, 1), 101, 2, "the message");
  make(&f, &p, 1);
  f.desc.direct_min = 1;
  arrive(&f, 1, 100);
  CHECK(step(&f) == DF_STEP_PROGRESSED && sent(&f, 1) == f.output, "lent");
  expect_values(f.output, 101, 2, "the output");
}

STEP_TEST(what_a_peer_lends_is_read_where_it_is) {
  fixture f;
  int32_t theirs[ELEMENTS];
  df_primitive p =
      primitive(DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_STORE, DF_BUFFER_INPUT, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  for (int i = 0; i < ELEMENTS; i++) theirs[i] = 1000;
  *(uint64_t *)(df_link_slot(&f.links[0], 1) + DF_LINK_FLAGGED_OFFSET) =
      (uint64_t)(uintptr_t)theirs;
  df_link_publish(&f.links[0], 1, 1);
  CHECK(step(&f) == DF_STEP_DONE, "a message has come");
  expect_values(f.output, 1001, 1, "the output");
  CHECK(released(&f) == 1, "given back");
}

/* ---- cancelling ---- */

STEP_TEST(a_cancelled_collective_is_not_touched) {
  fixture f;
  df_primitive p =
      primitive(DF_PRIM_RECV | DF_PRIM_STORE | DF_PRIM_SEND, DF_BUFFER_NONE, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  arrive(&f, 1, 100);
  df_publish_u32(&f.words.cancel, dfcclAborted);
  df_cursor before = f.cursor;
  CHECK(df_coll_is_runnable(&f.desc, 0, &f.cursor), "its end is something to do");
  CHECK(step(&f) == DF_STEP_CANCELLED, "cancelled");
  CHECK(memcmp(&before, &f.cursor, sizeof before) == 0, "the cursor moved");
  expect_untouched(&f);
}

/* ---- saving and loading ---- */

/* Two loops of: send; receive, reduce and send on; receive. The context is taken out of its slot
 * before step `cut`, another one is executed there meanwhile, and it is put back. */
static void cut_before(fixture *f, int cut) {
  static const int32_t arrivals[] = {100, 200, 300, 400};
  df_primitive p[3] = {
      primitive(DF_PRIM_SEND, DF_BUFFER_INPUT, DF_BUFFER_NONE),
      primitive(DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_SEND, DF_BUFFER_INPUT, DF_BUFFER_NONE),
      primitive(DF_PRIM_RECV | DF_PRIM_STORE, DF_BUFFER_NONE, DF_BUFFER_OUTPUT)};
  p[1].send_ordinal = p[2].recv_ordinal = 1;
  make(f, p, 3);
  f->part.chunk = ELEMENTS / 2;
  f->part.loops = 2;
  f->links[0].messages = f->links[1].messages = 2;
  df_cursor slot = f->cursor;
  df_step_result result = DF_STEP_PROGRESSED;
  int taken = 0;
  uint64_t sum = 0;
  for (int i = 0; result != DF_STEP_DONE; i++) {
    if (i == cut) { /* preempted: another collective uses the slot */
      df_cursor memory = slot;
      memset(&slot, 0xa5, sizeof slot);
      slot = memory;
    }
    result = df_coll_step(&f->desc, 0, &slot, &f->lanes);
    if (result == DF_STEP_BLOCKED && released(f) == (uint64_t)taken && taken < 4) {
      arrive(f, (uint64_t)taken + 1, arrivals[taken]);
      taken++;
    }
    uint64_t seen = *f->links[1].credit;
    if (is_sent(f, seen + 1)) { /* the receiver takes it, half a buffer long */
      for (int k = 0; k < ELEMENTS / 2; k++) sum = sum * 31 + (uint32_t)sent(f, seen + 1)[k];
      df_link_release(&f->links[1], seen + 1);
    }
    CHECK(i < 100, "it does not end");
  }
  CHECK(taken == 4 && *f->links[1].credit == 4, "%d received, %llu sent", taken,
        (unsigned long long)*f->links[1].credit);
  memcpy(f->scratch, &sum, sizeof sum);
}

STEP_TEST(a_cut_before_any_step_changes_nothing) {
  fixture whole, cut;
  cut_before(&whole, -1);
  for (int at = 0; at < 20; at++) {
    cut_before(&cut, at);
    CHECK(memcmp(whole.output, cut.output, sizeof whole.output) == 0, "another output: cut at %d",
          at);
    CHECK(memcmp(whole.scratch, cut.scratch, sizeof whole.scratch) == 0,
          "other messages: cut at %d", at);
  }
}
