/*
 * Promises of src/transports/wire/wire.h:
 *   - Whatever the stream splits and delays, each message comes once, whole, in its slot, and no
 * slot is written before the block that reads it has released it. No message is sent without
 * credit.
 *   - Of a varying collective the first message of each run brings the run's count, even if it is
 * empty.
 *   - Every link goes on as long as its blocks do, however the others stand.
 *   - A lent buffer is not read after it was given back or taken back, and can be taken back
 * between calls whatever the stream does.
 *   - A connection can be lost at any moment and made anew: each message still comes once.
 *   - A link can be released at any time; its memory is not touched any more, others go on.
 *   - A frame that makes no sense ends the connection with a sentence, and writes nothing.
 */
#include <stdlib.h>
#include <string.h>

#include "wire_stage.h"

enum { FLOWS = 6 };

static void pump(wire_stage *stage, int which) {
  wire_side *side = &stage->sides[which];
  wire_side_pump(side);
  CHECK(!side->wire->is_lost, "%s", side->wire->reason);
}

/* One turn of somebody. */
static void turn(wire_stage *stage, wire_flow *flows, int n_flows) {
  const int who = df_random_below(&stage->random, 2 + 2 * n_flows);
  if (who < 2)
    pump(stage, who);
  else if (who % 2)
    wire_flow_send(&flows[(who - 2) / 2]);
  else
    wire_flow_receive(&flows[(who - 2) / 2]);
}

static int all_are_through(const wire_flow *flows, int n_flows) {
  for (int i = 0; i < n_flows; i++)
    if (!wire_flow_is_through(&flows[i])) return 0;
  return 1;
}

static void run(wire_stage *stage, wire_flow *flows, int n_flows) {
  for (uint64_t turns = 0; !all_are_through(flows, n_flows); turns++) {
    CHECK(turns < 20000000, "messages are stuck");
    turn(stage, flows, n_flows);
  }
}

static void go_through(uint64_t seed, int most, int refusals, uint32_t frame_bytes,
                       uint64_t messages) {
  wire_stage stage;
  wire_flow flows[FLOWS];
  wire_stage_make(&stage, seed, frame_bytes);
  stage.most = most;
  stage.refusals = refusals;
  const int n_flows = 1 + df_random_below(&stage.random, FLOWS);
  for (int i = 0; i < n_flows; i++) {
    wire_form form = wire_form_draw(&stage.random);
    wire_flow_make(&flows[i], &stage, df_random_below(&stage.random, 2), (uint32_t)i, &form,
                   messages);
  }
  run(&stage, flows, n_flows);
  for (int i = 0; i < n_flows; i++) {
    wire_flow_release(&flows[i]);
    wire_flow_free(&flows[i]);
  }
  wire_stage_free(&stage);
}

DF_TEST(wire, every_byte_comes_once_and_in_its_place, 60) {
  for (uint64_t seed = 1; seed <= 150; seed++) go_through(seed, 400, 30, 256, 200);
}

DF_TEST(wire, one_byte_at_a_time, 60) {
  for (uint64_t seed = 1; seed <= 20; seed++) go_through(seed, 1, 10, 64, 30);
}

DF_TEST(wire, whole_frames, 60) {
  for (uint64_t seed = 1; seed <= 50; seed++) go_through(seed, 0, 0, DF_WIRE_FRAME_BYTES, 400);
}

/* Messages of several frames, read past the input that is read ahead. */
DF_TEST(wire, long_messages, 60) {
  for (int lends = 0; lends < 2; lends++) {
    wire_stage stage;
    wire_flow flow;
    wire_stage_make(&stage, 5, DF_WIRE_FRAME_BYTES);
    stage.most = 30000;
    const wire_form form = {.chunk = 50000,
                            .loops = 2,
                            .n_messages = 2,
                            .local_slots = 2,
                            .far_slots = 2,
                            .element_bytes = 4,
                            .missing = 12345,
                            .offset = DF_LINK_STAGED_OFFSET,
                            .lends = lends};
    wire_flow_make(&flow, &stage, 0, 1, &form, 40);
    run(&stage, &flow, 1);
    wire_flow_release(&flow);
    wire_flow_free(&flow);
    wire_stage_free(&stage);
  }
}

static const wire_form plain = {.chunk = 100,
                                .loops = 1,
                                .n_messages = 1,
                                .local_slots = 4,
                                .far_slots = 4,
                                .element_bytes = 4,
                                .offset = DF_LINK_STAGED_OFFSET};

static void pump_both(wire_stage *stage) {
  for (int i = 0; i < 4; i++)
    for (int side = 0; side < 2; side++) pump(stage, side);
}

/* A run that has lent one message waits for the credits of all its messages. */
DF_TEST(wire, credits_of_what_may_be_lent_are_told_at_once, 30) {
  for (int lends = 0; lends < 2; lends++) {
    wire_stage stage;
    wire_flow flow;
    wire_stage_make(&stage, 1, DF_WIRE_FRAME_BYTES);
    stage.sides[1].wire->lend_min = lends ? 1 : UINT64_MAX;
    wire_flow_make(&flow, &stage, 0, 1, &plain, 100);
    CHECK(wire_flow_send(&flow), "a new ring is full");
    pump_both(&stage);
    CHECK(wire_flow_receive(&flow), "the message is missing");
    pump_both(&stage);
    CHECK(flow.out->rings[0].credit == (uint64_t)lends, "lends %d: credit for %llu", lends,
          (unsigned long long)flow.out->rings[0].credit);
    wire_flow_release(&flow);
    wire_flow_free(&flow);
    wire_stage_free(&stage);
  }
}

/* A receiver that does not receive: no more is sent than it has slots, whatever the block writes;
 * and the block's slots are its own again when the receiver's are. */
DF_TEST(wire, sends_no_more_than_the_credit, 30) {
  wire_stage stage;
  wire_flow flow;
  wire_form form = plain;
  wire_stage_make(&stage, 1, DF_WIRE_FRAME_BYTES);
  form.local_slots = 8; /* as many as 4 would do: here the block runs ahead */
  stage.sides[1].wire->lend_min = UINT64_MAX;
  wire_flow_make(&flow, &stage, 0, 1, &form, 100);
  for (int i = 0; i < 30; i++) {
    wire_flow_send(&flow);
    pump_both(&stage);
  }
  CHECK(flow.sent == 8, "%llu messages were written to 8 slots", (unsigned long long)flow.sent);
  wire_flow_receive(&flow);
  pump_both(&stage);
  CHECK(!wire_flow_send(&flow), "a credit was told that nobody waits for");
  wire_flow_receive(&flow); /* half of the slots */
  pump_both(&stage);
  CHECK(wire_flow_send(&flow) && wire_flow_send(&flow) && !wire_flow_send(&flow),
        "slots are given back for others");
  while (flow.received < flow.sent) {
    CHECK(wire_flow_receive(&flow), "message %llu is missing",
          (unsigned long long)flow.received + 1);
    pump_both(&stage);
  }
  wire_flow_release(&flow);
  wire_flow_free(&flow);
  wire_stage_free(&stage);
}

DF_TEST(wire, a_stuck_stream_holds_no_lent_buffer, 30) {
  wire_stage stage;
  wire_flow flows[2];
  wire_form form = plain;
  wire_stage_make(&stage, 2, 100);
  form.lends = 1;
  wire_flow_make(&flows[0], &stage, 0, 1, &form, 100);
  wire_flow_make(&flows[1], &stage, 0, 2, &plain, 100);
  pump_both(&stage);
  wire_flow_send(&flows[0]);
  stage.most = 50;
  pump(&stage, 0); /* a part of the first frame */
  CHECK(!df_channel_is_clear(&stage.sides[0].wire->ports[0].channel), "the frame is gone");
  stage.sides[0].is_stuck = 1;
  while (wire_side_pump(&stage.sides[0])) continue;
  CHECK(df_link_revoke(&flows[0].writer), "the buffer is held while nothing moves");
  memset(flows[0].lent[1], 0xee, 400); /* as its owner may */
  stage.sides[0].is_stuck = 0;
  stage.most = 0;
  pump_both(&stage);
  CHECK(!wire_flow_receive(&flows[0]), "a message has come that was taken back");
  while (!wire_flow_is_through(&flows[1])) turn(&stage, &flows[1], 1);
  for (int i = 0; i < 2; i++) {
    wire_flow_release(&flows[i]);
    wire_flow_free(&flows[i]);
  }
  wire_stage_free(&stage);
}

/* A far end that has closed its connection in order, as when its rank has left: a credit for it is
 * the first thing that fails, and must not hide its last messages. */
DF_TEST(wire, what_was_sent_before_the_end_still_comes, 30) {
  wire_stage stage;
  wire_flow flow;
  wire_stage_make(&stage, 1, 100); /* a call reads less than a message, and then sends */
  wire_flow_make(&flow, &stage, 1, 1, &plain, 100);
  wire_flow_send(&flow);
  pump_both(&stage);
  while (!wire_flow_receive(&flow)) pump_both(&stage);
  wire_flow_send(&flow);
  wire_flow_send(&flow);
  for (int i = 0; i < 100; i++) pump(&stage, 1);
  stage.sides[0].has_left = 1; /* a credit has not been told */
  while (!stage.sides[0].wire->ports[0].why) wire_side_pump(&stage.sides[0]);
  CHECK(wire_flow_receive(&flow) && wire_flow_receive(&flow), "%llu messages came",
        (unsigned long long)flow.received);
  CHECK(!df_wire_has_pending(stage.sides[0].wire), "something waits for who has left");
  wire_flow_release(&flow);
  wire_flow_free(&flow);
  wire_stage_free(&stage);
}

static void release_one_end(wire_flow *flow, int at_sender) {
  df_wire_link **link = at_sender ? &flow->out : &flow->in;
  df_wire_release(flow->stage->sides[at_sender ? flow->from : 1 - flow->from].wire, *link);
  *link = NULL;
}

/* Links come and go at any moment, on one side before the other, and entries are used again. */
DF_TEST(wire, links_are_released_at_any_time, 60) {
  for (uint64_t seed = 1; seed <= 40; seed++) {
    wire_stage stage;
    wire_flow flows[2]; /* the first stays */
    wire_stage_make(&stage, seed, 128);
    stage.most = 300;
    stage.refusals = 20;
    wire_form form = wire_form_draw(&stage.random);
    wire_flow_make(&flows[0], &stage, 0, 1, &form, 1500);
    for (uint32_t number = 2; !wire_flow_is_through(&flows[0]); number++) {
      form = wire_form_draw(&stage.random);
      wire_flow_make(&flows[1], &stage, df_random_below(&stage.random, 2), number, &form, 100);
      for (int i = df_random_below(&stage.random, 400); i > 0; i--) turn(&stage, flows, 2);
      release_one_end(&flows[1], df_random_below(&stage.random, 2));
      for (int i = df_random_below(&stage.random, 50); i > 0; i--) turn(&stage, flows, 1);
      wire_flow_release(&flows[1]);
      wire_flow_free(&flows[1]);
    }
    wire_flow_release(&flows[0]);
    wire_flow_free(&flows[0]);
    wire_stage_free(&stage);
  }
}

/* ---- lost connections ---- */

/* What was under way is gone, of each direction from some byte on. */
static void cut(wire_stage *stage) {
  for (int i = 0; i < 2; i++) {
    wire_pipe *pipe = &stage->pipes[i];
    pipe->at = pipe->end = 0;
    df_wire_detach(stage->sides[i].wire, DF_WIRE_SMALL);
  }
}

static void make_anew(wire_stage *stage) {
  for (int i = 0; i < 2; i++)
    df_wire_attach(stage->sides[i].wire, DF_WIRE_SMALL, &stage->sides[i].stream);
}

static void go_through_losses(uint64_t seed, int cuts) {
  wire_stage stage;
  wire_flow flows[FLOWS];
  wire_stage_make(&stage, seed, 64);
  stage.most = 300;
  stage.refusals = 20;
  const int n_flows = 1 + df_random_below(&stage.random, FLOWS);
  for (int i = 0; i < n_flows; i++) {
    wire_form form = wire_form_draw(&stage.random);
    wire_flow_make(&flows[i], &stage, df_random_below(&stage.random, 2), (uint32_t)i, &form, 200);
  }
  for (uint64_t turns = 0; !all_are_through(flows, n_flows); turns++) {
    CHECK(turns < 20000000, "messages are stuck");
    turn(&stage, flows, n_flows);
    if (df_random_below(&stage.random, 1000) >= cuts) continue;
    cut(&stage);
    for (int i = df_random_below(&stage.random, 20); i > 0; i--) turn(&stage, flows, n_flows);
    make_anew(&stage);
  }
  for (int i = 0; i < n_flows; i++) {
    wire_flow_release(&flows[i]);
    wire_flow_free(&flows[i]);
  }
  wire_stage_free(&stage);
}

DF_TEST(wire, a_connection_may_be_lost_at_any_moment, 60) {
  for (uint64_t seed = 1; seed <= 200; seed++) go_through_losses(seed, 1 + (int)(seed % 5));
}

/* ---- frames that make no sense ---- */

enum { TO_SENDER = 1, OF_VARYING = 2 };

typedef struct bad_frame {
  const char *reason;
  df_frame frame;
  int where; /* 0: to the link's receiver; TO_SENDER, OF_VARYING */
} bad_frame;

#define FRAME(...)                                                                                 \
  { __VA_ARGS__ }
static const bad_frame bad_frames[] = {
    {"no frame", FRAME(.kind = 0, .sequence = 1), 0},
    {"no frame", FRAME(.kind = DF_FRAME_BEYOND, .sequence = 1), 0},
    {"no frame", FRAME(.kind = DF_FRAME_LEAVES, .bytes = 1), 0},
    {"no frame", FRAME(.kind = DF_FRAME_DATA, .link = 1, .bytes = 400, .sequence = 1), 0},
    {"no frame", FRAME(.kind = DF_FRAME_DATA, .bytes = UINT32_MAX, .sequence = 1), 0},
    {"a block", FRAME(.kind = DF_FRAME_DATA, .block = 1, .bytes = 400, .sequence = 1), 0},
    {"cannot open", FRAME(.kind = DF_FRAME_OPEN), 0}, /* a second time */
    {"cannot open", FRAME(.kind = DF_FRAME_OPEN), TO_SENDER},
    {"cannot open", FRAME(.kind = DF_FRAME_OPEN, .part = 1, .sequence = 7), 0},
    {"carries none", FRAME(.kind = DF_FRAME_DATA, .bytes = 400, .sequence = 1), TO_SENDER},
    {"in place of", FRAME(.kind = DF_FRAME_DATA, .bytes = 400, .sequence = 0), 0},
    {"without credit", FRAME(.kind = DF_FRAME_DATA, .bytes = 400, .sequence = 5), 0},
    {"of a message of 400", FRAME(.kind = DF_FRAME_DATA, .part = 1, .bytes = 4, .sequence = 1), 0},
    {"of a message of 400", FRAME(.kind = DF_FRAME_DATA, .bytes = 404, .sequence = 1), 0},
    {"of a message of 400", FRAME(.kind = DF_FRAME_DATA, .sequence = 1), 0},
    {"was not sent", FRAME(.kind = DF_FRAME_CREDIT, .sequence = 1), TO_SENDER},
    {"was not sent", FRAME(.kind = DF_FRAME_CREDIT, .sequence = UINT32_MAX), TO_SENDER},
    {"was not sent", FRAME(.kind = DF_FRAME_CREDIT, .bytes = 4, .sequence = 0), TO_SENDER},
    {"was not sent", FRAME(.kind = DF_FRAME_CREDIT, .sequence = 0), 0},
    {"was not sent", FRAME(.kind = DF_FRAME_STATE, .sequence = 1), 0},
    {"was not sent", FRAME(.kind = DF_FRAME_STATE, .sequence = 100), TO_SENDER},
    {"sent a count in place", FRAME(.kind = DF_FRAME_COUNT, .sequence = 50), 0},
    {"elements of 100", FRAME(.kind = DF_FRAME_COUNT, .bytes = 4, .sequence = 50), OF_VARYING},
    {"0 elements of 100", FRAME(.kind = DF_FRAME_COUNT, .sequence = 0), OF_VARYING},
    {"101 elements of 100", FRAME(.kind = DF_FRAME_COUNT, .sequence = 101), OF_VARYING},
    {"without its run's count", FRAME(.kind = DF_FRAME_DATA, .bytes = 400, .sequence = 1),
     OF_VARYING},
};

/* As if the other pump had sent it. */
static void forge(wire_side *victim, const df_frame *frame, const void *payload) {
  wire_pipe *pipe = victim->in;
  memcpy(pipe->bytes + pipe->end, frame, sizeof *frame);
  pipe->end += sizeof *frame;
  for (uint32_t i = 0; payload && i < frame->bytes && i < 4096; i++)
    pipe->bytes[pipe->end++] = ((const uint8_t *)payload)[i % 64];
}

static int is_zero(const uint8_t *bytes, size_t length) {
  for (size_t i = 0; i < length; i++)
    if (bytes[i]) return 0;
  return 1;
}

DF_TEST(wire, frames_that_make_no_sense_end_the_connection, 30) {
  static const uint8_t payload[64] = {1, 2, 3};
  for (size_t i = 0; i < DF_COUNT_OF(bad_frames); i++) {
    const bad_frame *bad = &bad_frames[i];
    wire_stage stage;
    wire_flow flow;
    wire_stage_make(&stage, 1, DF_WIRE_FRAME_BYTES);
    wire_form form = plain;
    form.varying = (bad->where & OF_VARYING) != 0;
    wire_flow_make(&flow, &stage, 0, 1, &form, 10);
    pump_both(&stage);
    wire_side *victim = &stage.sides[bad->where & TO_SENDER ? 0 : 1];
    forge(victim, &bad->frame, payload);
    wire_side_pump(victim);
    CHECK(victim->wire->is_lost && strstr(victim->wire->reason, bad->reason), "frame %zu: \"%s\"",
          i, victim->wire->reason);
    CHECK(!wire_side_pump(victim), "it goes on");
    CHECK(is_zero(flow.far, (size_t)flow.reader.stride * 4), "frame %zu was written", i);
    wire_flow_release(&flow);
    wire_flow_free(&flow);
    wire_stage_free(&stage);
  }
}

DF_TEST(wire, messages_without_credit_end_the_connection, 30) {
  static const uint8_t payload[64] = {1, 2, 3};
  wire_stage stage;
  wire_flow flow;
  wire_stage_make(&stage, 1, DF_WIRE_FRAME_BYTES);
  wire_flow_make(&flow, &stage, 0, 1, &plain, 10);
  pump_both(&stage);
  wire_side *victim = &stage.sides[1];
  for (uint64_t sequence = 1; sequence <= 5; sequence++) {
    df_frame frame = FRAME(.kind = DF_FRAME_DATA, .bytes = 400, .sequence = sequence);
    CHECK(!victim->wire->is_lost, "%s", victim->wire->reason);
    forge(victim, &frame, payload);
    wire_side_pump(victim);
  }
  CHECK(victim->wire->is_lost && strstr(victim->wire->reason, "without credit"), "\"%s\"",
        victim->wire->reason);
  wire_flow_release(&flow);
  wire_flow_free(&flow);
  wire_stage_free(&stage);
}

/* If only the port of small messages was lost, a bulk link goes on, and its receiver tells where it
 * is nevertheless. */
DF_TEST(wire, a_sender_passes_over_a_state_that_it_has_not_asked_for, 30) {
  wire_stage stage;
  wire_flow flow;
  wire_form form = plain;
  form.varying = 1;
  wire_stage_make(&stage, 1, DF_WIRE_FRAME_BYTES);
  wire_flow_make(&flow, &stage, 0, 1, &form, 10);
  pump_both(&stage);
  wire_side *sender = &stage.sides[0];
  const df_frame count = FRAME(.kind = DF_FRAME_COUNT, .sequence = 50);
  const df_frame state = FRAME(.kind = DF_FRAME_STATE, .sequence = 1);
  forge(sender, &count, NULL);
  forge(sender, &state, NULL);
  wire_side_pump(sender);
  CHECK(!sender->wire->is_lost, "%s", sender->wire->reason);
  while (!wire_flow_is_through(&flow)) turn(&stage, &flow, 1);
  wire_flow_release(&flow);
  wire_flow_free(&flow);
  wire_stage_free(&stage);
}

/* A second count for one message, and one that comes before its slot is free. */
DF_TEST(wire, counts_are_sent_once_and_against_credit, 30) {
  for (int second = 0; second < 2; second++) {
    wire_stage stage;
    wire_flow flow;
    wire_form form = plain;
    form.varying = 1;
    wire_stage_make(&stage, 1, DF_WIRE_FRAME_BYTES);
    wire_flow_make(&flow, &stage, 0, 1, &form, 10);
    pump_both(&stage);
    wire_side *victim = &stage.sides[1];
    for (uint64_t sequence = 1; sequence <= 5; sequence++) {
      static const uint8_t payload[64] = {1, 2, 3};
      const df_frame count = FRAME(.kind = DF_FRAME_COUNT, .sequence = 50);
      const df_frame frame = FRAME(.kind = DF_FRAME_DATA, .bytes = 200, .sequence = sequence);
      CHECK(!victim->wire->is_lost, "%s", victim->wire->reason);
      forge(victim, &count, NULL);
      if (second) forge(victim, &count, NULL);
      forge(victim, &frame, payload);
      wire_side_pump(victim);
      if (second) break;
    }
    const char *reason = second ? "a count in place of message 1" : "message 5 without credit";
    CHECK(victim->wire->is_lost && strstr(victim->wire->reason, reason), "\"%s\"",
          victim->wire->reason);
    wire_flow_release(&flow);
    wire_flow_free(&flow);
    wire_stage_free(&stage);
  }
}

/* A link whose messages are all empty: its sender learns how far the receiver is. */
DF_TEST(wire, credit_of_empty_messages_is_handed_on, 30) {
  wire_stage stage;
  wire_stage_make(&stage, 1, DF_WIRE_FRAME_BYTES);
  const df_part part = {.elements = 10, .chunk = 10, .loops = 1};
  const uint16_t piece_of = 1; /* of two, of which the first has all elements */
  DF_ALIGNED(64) uint64_t ring[2 * 8 + 16] = {0};
  df_link block = {.slots = (uint8_t *)ring,
                   .credit = &ring[16],
                   .peer_bell = &stage.sides[0].bell,
                   .stride = 64,
                   .slot_mask = 1};
  const df_wire_route route = {.ends = &block,
                               .parts = &part,
                               .piece_of = &piece_of,
                               .messages = 1,
                               .n_blocks = 1,
                               .pieces = 2,
                               .geometry = DF_GEOMETRY_PARTITION,
                               .element_bytes = 4};
  df_wire_link *link;
  OK(df_wire_connect(stage.sides[0].wire, &route, 0, 2, &link));
  const df_frame frame = FRAME(.kind = DF_FRAME_CREDIT, .sequence = 700);
  forge(&stage.sides[0], &frame, NULL);
  wire_side_pump(&stage.sides[0]);
  CHECK(!stage.sides[0].wire->is_lost, "%s", stage.sides[0].wire->reason);
  CHECK(df_link_is_drained(&block, 700) && !df_link_is_drained(&block, 701), "credit %llu",
        (unsigned long long)ring[16]);
  df_wire_release(stage.sides[0].wire, link);
  wire_stage_free(&stage);
}

/* What was sent before its sender heard of the release goes nowhere, and the connection goes on. */
DF_TEST(wire, frames_for_released_links_go_nowhere, 30) {
  wire_stage stage;
  wire_flow flows[2];
  wire_stage_make(&stage, 1, DF_WIRE_FRAME_BYTES);
  for (int i = 0; i < 2; i++) wire_flow_make(&flows[i], &stage, 0, 1, &plain, 10);
  pump_both(&stage);
  wire_flow_send(&flows[0]);
  wire_flow_send(&flows[1]);
  release_one_end(&flows[0], 0);
  pump_both(&stage);
  CHECK(!wire_flow_receive(&flows[0]) && wire_flow_receive(&flows[1]), "only the second comes");
  for (int i = 0; i < 2; i++) {
    wire_flow_release(&flows[i]);
    wire_flow_free(&flows[i]);
  }
  wire_stage_free(&stage);
}
