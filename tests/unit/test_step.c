/*
 * Promises of src/primitives/step.h, primitive by primitive:
 *   - A step executes one primitive, or says why not and has changed nothing that counts.
 *   - Empty messages are neither sent nor waited for, and their numbers are released.
 *   - In place copies nothing. A cancelled collective is not touched.
 *   - Messages that a peer waits for are announced before this rank's own copy, and after it
 *     nothing is read
 * that was released.
 *   - All of that whether the primitives' records are kept or worked out at each step.
 *   - A cursor that is saved and loaded between any two steps gives the same result.
 * Lent buffers: test_lending.c.
 */
#include "stepper.h"

/* ---- each kind ---- */

STEP_TEST(step, copy) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_STORE, DF_BUFFER_INPUT, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  CHECK(step(&f) == DF_STEP_DONE, "one primitive");
  expect_values(f.output, 1, 1, "the output");
}

STEP_TEST(step, in_place_copies_nothing) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_STORE, DF_BUFFER_INPUT, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  f.words.runs[0].recv = f.input;
  CHECK(step(&f) == DF_STEP_DONE && f.move.kind == DF_MOVE_NOTHING, "nothing to move");
  CHECK(f.cursor.flags & DF_CURSOR_IN_PLACE, "it is in place");
}

STEP_TEST(step, divide) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_STORE | DF_PRIM_AVERAGE, DF_BUFFER_INPUT, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  for (int i = 0; i < ELEMENTS; i++) f.input[i] = 4 * i + 8;
  CHECK(step(&f) == DF_STEP_DONE, "one primitive");
  expect_values(f.output, 2, 1, "the output");
}

STEP_TEST(step, send_waits_for_credit) {
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

STEP_TEST(step, receive) {
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

STEP_TEST(step, receive_and_reduce) {
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

STEP_TEST(step, receive_reduce_and_send) {
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
STEP_TEST(step, receive_and_send_at_once_or_not_at_all) {
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

STEP_TEST(step, peers_are_notified_before_the_own_copy) {
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

STEP_TEST(step, reduce_without_receiving_combines_in_place) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_REDUCE | DF_PRIM_STORE, DF_BUFFER_INPUT, DF_BUFFER_SCRATCH);
  make(&f, &p, 1);
  CHECK(step(&f) == DF_STEP_DONE, "one primitive");
  expect_values(f.scratch, 0, 1, "the scratch memory");
  CHECK(f.move.a == f.scratch && f.move.b == f.input, "destination (op) source");
}

/* ---- how many primitives ---- */

static void execute_copies(fixture *f, uint32_t n) {
  df_primitive p[DF_PREPARED_MOST + 1];
  for (uint32_t i = 0; i < DF_COUNT_OF(p); i++)
    p[i] = primitive(DF_PRIM_STORE, DF_BUFFER_INPUT, DF_BUFFER_OUTPUT);
  make(f, p, n);
  for (uint32_t i = 1; i < n; i++) CHECK(step(f) == DF_STEP_PROGRESSED, "copy %u of %u", i, n);
  CHECK(step(f) == DF_STEP_DONE, "the last of %u", n);
  CHECK((f->desc.prepared != NULL) == (keeps && n > 0 && n <= DF_PREPARED_MOST), "%u records", n);
  expect_values(f->output, n ? 1 : -1, n ? 1 : 0, "the output");
}

STEP_TEST(step, any_number_of_primitives) {
  fixture f;
  execute_copies(&f, 0);
  execute_copies(&f, 1);
  execute_copies(&f, DF_PREPARED_MOST);
  execute_copies(&f, DF_PREPARED_MOST + 1);
}

/* ---- empty pieces ---- */

STEP_TEST(step, empty_messages_are_skipped_and_released) {
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

STEP_TEST(step, nothing_to_do_is_done_at_once) {
  fixture f;
  df_primitive p = primitive(DF_PRIM_RECV | DF_PRIM_STORE, DF_BUFFER_NONE, DF_BUFFER_OUTPUT);
  make(&f, &p, 1);
  f.part = (df_part){0};
  CHECK(step(&f) == DF_STEP_DONE, "no loops");
  expect_untouched(&f);
}

STEP_TEST(step, the_last_message_is_as_long_as_what_is_left) {
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

/* ---- cancelling ---- */

STEP_TEST(step, a_cancelled_collective_is_not_touched) {
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

STEP_TEST(step, a_cut_before_any_step_changes_nothing) {
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
