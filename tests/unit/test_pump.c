/*
 * Promises of src/transports/net/pump/pump.h:
 *   - Whatever the stream splits and delays, each message comes once, whole, in its slot, and no
 * slot is written before the block that reads it has released it. No message is sent without
 * credit.
 *   - Of a varying collective the first message of each run brings the run's count, even if it is
 * empty.
 *   - Every link goes on as long as its blocks do, whatever the state of the others.
 *   - A lent buffer is not read after it was given back or taken back, and can be taken back
 * between calls whatever the stream does.
 *   - A connection can be lost at any moment and made anew: each message still comes once.
 *   - A link can be released at any time; its memory is not touched any more, others go on.
 *   - Short messages in a row, in one direction, are gathered by the stream, and come without a
 *     further
 * call of their sender.
 *   - A rank that leaves does so when the remote end has all that was sent, whatever breaks
 *     meanwhile.
 * Malformed frames: test_pump_frames.c.
 */
#include <stdlib.h>
#include <string.h>

#include "pump_stage.h"

enum { FLOWS = 6 };

static int all_are_through(const pump_flow *flows, int n_flows) {
  for (int i = 0; i < n_flows; i++)
    if (!pump_flow_is_through(&flows[i])) return 0;
  return 1;
}

static void run(pump_stage *stage, pump_flow *flows, int n_flows) {
  for (uint64_t turns = 0; !all_are_through(flows, n_flows); turns++) {
    CHECK(turns < 20000000, "messages are stuck");
    pump_stage_turn(stage, flows, n_flows);
  }
}

static void go_through(uint64_t seed, int most, int refusals, uint32_t frame_bytes,
                       uint64_t messages) {
  pump_stage stage;
  pump_flow flows[FLOWS];
  pump_stage_make(&stage, seed, frame_bytes);
  stage.most = most;
  stage.refusals = refusals;
  const int n_flows = 1 + df_random_below(&stage.random, FLOWS);
  for (int i = 0; i < n_flows; i++) {
    wire_form form = wire_form_draw(&stage.random);
    pump_flow_make(&flows[i], &stage, df_random_below(&stage.random, 2), (uint32_t)i, &form,
                   messages);
  }
  run(&stage, flows, n_flows);
  for (int i = 0; i < n_flows; i++) {
    pump_flow_release(&flows[i]);
    pump_flow_free(&flows[i]);
  }
  pump_stage_free(&stage);
}

DF_TEST(wire, every_byte_comes_once_and_in_its_place, 60) {
  for (uint64_t seed = 1; seed <= 150; seed++) go_through(seed, 400, 30, 256, 200);
}

DF_TEST(wire, one_byte_at_a_time, 60) {
  for (uint64_t seed = 1; seed <= 20; seed++) go_through(seed, 1, 10, 64, 30);
}

DF_TEST(wire, whole_frames, 60) {
  for (uint64_t seed = 1; seed <= 50; seed++) go_through(seed, 0, 0, DF_PUMP_FRAME_BYTES, 400);
}

/* Messages of several frames, read past the input that is read ahead. */
DF_TEST(wire, long_messages, 60) {
  for (int lends = 0; lends < 2; lends++) {
    pump_stage stage;
    pump_flow flow;
    pump_stage_make(&stage, 5, DF_PUMP_FRAME_BYTES);
    stage.most = 30000;
    const wire_form form = {.chunk = 50000,
                            .loops = 2,
                            .n_messages = 2,
                            .local_slots = 2,
                            .remote_slots = 2,
                            .element_bytes = 4,
                            .missing = 12345,
                            .offset = DF_LINK_STAGED_OFFSET,
                            .lends = lends};
    pump_flow_make(&flow, &stage, 0, 1, &form, 40);
    run(&stage, &flow, 1);
    pump_flow_release(&flow);
    pump_flow_free(&flow);
    pump_stage_free(&stage);
  }
}

/* At most 64 KB. A full part and a tiny one would take longer. */
DF_TEST(wire, parts_of_a_message_are_equal, 30) {
  static const struct {
    uint32_t elements, part_bytes;
    int varying;
  } all[] = {{1, 64, 0},        {15616, 61 << 10, 0}, {16384, 64 << 10, 0},
             {16400, 32832, 0}, {31232, 61 << 10, 0}, {50000, 50048, 0},
             {1, 64 << 10, 1},  {31232, 64 << 10, 1}}; /* a shorter run's may be longer */
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    pump_stage stage;
    pump_flow flow;
    pump_stage_make(&stage, 7, DF_PUMP_FRAME_BYTES);
    wire_form form = wire_plain;
    form.chunk = all[i].elements;
    form.varying = all[i].varying;
    pump_flow_make(&flow, &stage, 0, 1, &form, 20);
    CHECK(flow.out->part_bytes == all[i].part_bytes && flow.in->part_bytes == all[i].part_bytes,
          "%u elements go in parts of %u bytes, and come in parts of %u", all[i].elements,
          flow.out->part_bytes, flow.in->part_bytes);
    run(&stage, &flow, 1);
    pump_flow_release(&flow);
    pump_flow_free(&flow);
    pump_stage_free(&stage);
  }
}

/* A run that has lent one message waits for the credits of all its messages. */
DF_TEST(wire, credits_for_lent_messages_are_sent_at_once, 30) {
  for (int lends = 0; lends < 2; lends++) {
    pump_stage stage;
    pump_flow flow;
    pump_stage_make(&stage, 1, DF_PUMP_FRAME_BYTES);
    stage.sides[1].wire->lend_min = lends ? 1 : UINT64_MAX;
    pump_flow_make(&flow, &stage, 0, 1, &wire_plain, 100);
    CHECK(pump_flow_send(&flow), "a new ring is full");
    pump_stage_settle(&stage);
    CHECK(pump_flow_receive(&flow), "the message is missing");
    pump_stage_settle(&stage);
    CHECK(flow.out->rings[0].credit == (uint64_t)lends, "lends %d: credit for %llu", lends,
          (unsigned long long)flow.out->rings[0].credit);
    pump_flow_release(&flow);
    pump_flow_free(&flow);
    pump_stage_free(&stage);
  }
}

/* A receiver that does not receive: no more is sent than it has slots, whatever the block writes;
 * and the block's slots are its own again when the receiver's are. */
DF_TEST(wire, sends_no_more_than_the_credit, 30) {
  pump_stage stage;
  pump_flow flow;
  wire_form form = wire_plain;
  pump_stage_make(&stage, 1, DF_PUMP_FRAME_BYTES);
  form.local_slots = 8; /* as many as 4 would do: here the block runs ahead */
  stage.sides[1].wire->lend_min = UINT64_MAX;
  pump_flow_make(&flow, &stage, 0, 1, &form, 100);
  for (int i = 0; i < 30; i++) {
    pump_flow_send(&flow);
    pump_stage_settle(&stage);
  }
  CHECK(flow.sent == 8, "%llu messages were written to 8 slots", (unsigned long long)flow.sent);
  pump_flow_receive(&flow);
  pump_stage_settle(&stage);
  CHECK(!pump_flow_send(&flow), "a credit was sent that nobody waits for");
  pump_flow_receive(&flow); /* half of the slots */
  pump_stage_settle(&stage);
  CHECK(pump_flow_send(&flow) && pump_flow_send(&flow) && !pump_flow_send(&flow),
        "slots are given back for others");
  while (flow.received < flow.sent) {
    CHECK(pump_flow_receive(&flow), "message %llu is missing",
          (unsigned long long)flow.received + 1);
    pump_stage_settle(&stage);
  }
  pump_flow_release(&flow);
  pump_flow_free(&flow);
  pump_stage_free(&stage);
}

/* A plan that needs free slots gets them without any other frame: at most the slots that it can
 * do without are withheld, together with those that the far block has not released. */
DF_TEST(wire, withholds_only_credits_that_the_plan_can_do_without, 30) {
  enum { SLOTS = 8 };
  for (uint32_t least = 0; least <= SLOTS; least++)
    for (int mask = 0; mask <= 1; mask++) {
      pump_stage stage;
      pump_flow flow;
      wire_form form = wire_plain;
      uint32_t received = 0;
      pump_stage_make(&stage, 1, DF_PUMP_FRAME_BYTES);
      form.local_slots = form.remote_slots = SLOTS;
      form.least_slots = least;
      form.release_mask = mask;
      stage.sides[1].wire->lend_min = UINT64_MAX;
      pump_flow_make(&flow, &stage, 0, 1, &form, 100);
      while (flow.sent < SLOTS) {
        pump_flow_send(&flow);
        pump_stage_settle(&stage);
      }
      for (; received < SLOTS && !pump_flow_send(&flow); received++) {
        pump_flow_receive(&flow);
        pump_stage_settle(&stage);
      }
      /* Before the last of these messages was received, this many slots were withheld. */
      const uint32_t withheld = received - 1, spare = SLOTS - (least ? least : 1);
      CHECK(withheld <= spare || withheld <= (uint32_t)mask,
            "a plan of %u slots waits until %u of %u are free, mask %d", least, received, SLOTS,
            mask);
      CHECK(least > 4 || received == SLOTS / 2, "a credit for %u slots is sent alone", received);
      while (flow.received < flow.sent) {
        CHECK(pump_flow_receive(&flow), "message %llu is missing",
              (unsigned long long)flow.received + 1);
        pump_stage_settle(&stage);
      }
      pump_flow_release(&flow);
      pump_flow_free(&flow);
      pump_stage_free(&stage);
    }
}

enum { IN_A_ROW = 20, TRIES = 1000 };

/* Returns whether the stream has held some back. Too much time may pass at any moment. */
static int send_in_a_row(pump_stage *stage, pump_flow *flow) {
  int were_held = 0;
  for (int i = 0; i < IN_A_ROW; i++) {
    CHECK(pump_flow_send(flow), "the ring is full");
    df_pump_send(stage->sides[0].wire);
    were_held |= stage->pipes[0].hidden != 0;
  }
  while (flow->received < flow->sent) {
    pump_stage_pump(stage, 1);
    CHECK(pump_flow_receive(flow), "message %llu is held", (unsigned long long)flow->received + 1);
  }
  pump_stage_settle(stage);
  return were_held;
}

static int sends_in_a_row(uint32_t elements) {
  pump_stage stage;
  pump_flow flow;
  wire_form form = wire_plain;
  int were_held = 0;
  form.chunk = elements;
  form.local_slots = form.remote_slots = 64;
  pump_stage_make(&stage, 1, DF_PUMP_FRAME_BYTES);
  pump_flow_make(&flow, &stage, 0, 1, &form, IN_A_ROW * TRIES);
  for (int i = 0; i < TRIES && !were_held; i++) were_held = send_in_a_row(&stage, &flow);
  pump_flow_release(&flow);
  pump_flow_free(&flow);
  pump_stage_free(&stage);
  return were_held;
}

DF_TEST(wire, short_messages_in_a_row_are_gathered, 60) {
  CHECK(sends_in_a_row(10), "each had a packet of its own");
  CHECK(!sends_in_a_row(100), "longer ones are gathered, too");
}

/* The sender waits for each peer that answers. */
DF_TEST(wire, nothing_is_gathered_while_messages_come_back, 60) {
  pump_stage stage;
  pump_flow flows[2];
  wire_form form = wire_plain;
  form.chunk = 10;
  pump_stage_make(&stage, 1, DF_PUMP_FRAME_BYTES);
  for (uint32_t i = 0; i < 2; i++) pump_flow_make(&flows[i], &stage, (int)i, i + 1, &form, 100);
  for (int i = 0; i < 30; i++) {
    CHECK(pump_flow_send(&flows[0]) && pump_flow_send(&flows[1]), "a ring is full");
    pump_stage_settle(&stage);
    CHECK(!stage.sides[0].gathers && !stage.sides[1].gathers, "message %d", i);
    CHECK(pump_flow_receive(&flows[0]) && pump_flow_receive(&flows[1]), "message %d", i);
    pump_stage_settle(&stage);
  }
  for (int i = 0; i < 2; i++) {
    pump_flow_release(&flows[i]);
    pump_flow_free(&flows[i]);
  }
  pump_stage_free(&stage);
}

DF_TEST(wire, a_stuck_stream_holds_no_lent_buffer, 30) {
  pump_stage stage;
  pump_flow flows[2];
  wire_form form = wire_plain;
  pump_stage_make(&stage, 2, 100);
  form.lends = 1;
  pump_flow_make(&flows[0], &stage, 0, 1, &form, 100);
  pump_flow_make(&flows[1], &stage, 0, 2, &wire_plain, 100);
  pump_stage_settle(&stage);
  pump_flow_send(&flows[0]);
  stage.most = 50;
  pump_stage_pump(&stage, 0); /* a part of the first frame */
  CHECK(!df_channel_is_clear(&stage.sides[0].wire->ports[0].channel), "the frame is gone");
  stage.sides[0].is_stuck = 1;
  while (pump_side_progress(&stage.sides[0])) continue;
  CHECK(df_link_revoke(&flows[0].writer), "the buffer is held while nothing moves");
  memset(flows[0].lent[1], 0xee, 400); /* as its owner may */
  stage.sides[0].is_stuck = 0;
  stage.most = 0;
  pump_stage_settle(&stage);
  CHECK(!pump_flow_receive(&flows[0]), "a message has come that was taken back");
  while (!pump_flow_is_through(&flows[1])) pump_stage_turn(&stage, &flows[1], 1);
  for (int i = 0; i < 2; i++) {
    pump_flow_release(&flows[i]);
    pump_flow_free(&flows[i]);
  }
  pump_stage_free(&stage);
}

/* A remote end that has closed its connection in order, as when its rank has left: a credit for it
 * is the first thing that fails, and must not hide its last messages. */
DF_TEST(wire, what_was_sent_before_the_end_still_comes, 30) {
  pump_stage stage;
  pump_flow flow;
  pump_stage_make(&stage, 1, 100); /* a call reads less than a message, and then sends */
  pump_flow_make(&flow, &stage, 1, 1, &wire_plain, 100);
  pump_flow_send(&flow);
  pump_stage_settle(&stage);
  while (!pump_flow_receive(&flow)) pump_stage_settle(&stage);
  pump_flow_send(&flow);
  pump_flow_send(&flow);
  for (int i = 0; i < 100; i++) pump_stage_pump(&stage, 1);
  stage.sides[0].has_left = 1; /* a credit has not been sent */
  while (!stage.sides[0].wire->ports[0].why) pump_side_progress(&stage.sides[0]);
  CHECK(pump_flow_receive(&flow) && pump_flow_receive(&flow), "%llu messages came",
        (unsigned long long)flow.received);
  pump_flow_release(&flow);
  pump_flow_free(&flow);
  pump_stage_free(&stage);
}

/* Links come and go at any moment, on one side before the other, and entries are used again. */
DF_TEST(wire, links_are_released_at_any_time, 60) {
  for (uint64_t seed = 1; seed <= 40; seed++) {
    pump_stage stage;
    pump_flow flows[2]; /* the first stays */
    pump_stage_make(&stage, seed, 128);
    stage.most = 300;
    stage.refusals = 20;
    wire_form form = wire_form_draw(&stage.random);
    pump_flow_make(&flows[0], &stage, 0, 1, &form, 1500);
    for (uint32_t number = 2; !pump_flow_is_through(&flows[0]); number++) {
      form = wire_form_draw(&stage.random);
      pump_flow_make(&flows[1], &stage, df_random_below(&stage.random, 2), number, &form, 100);
      for (int i = df_random_below(&stage.random, 400); i > 0; i--)
        pump_stage_turn(&stage, flows, 2);
      pump_flow_release_end(&flows[1], df_random_below(&stage.random, 2));
      for (int i = df_random_below(&stage.random, 50); i > 0; i--)
        pump_stage_turn(&stage, flows, 1);
      pump_flow_release(&flows[1]);
      pump_flow_free(&flows[1]);
    }
    pump_flow_release(&flows[0]);
    pump_flow_free(&flows[0]);
    pump_stage_free(&stage);
  }
}

/* ---- lost connections ---- */

/* The bytes under way are lost, in each direction from some byte on. */
static void cut(pump_stage *stage) {
  for (int i = 0; i < 2; i++) {
    wire_pipe *pipe = &stage->pipes[i];
    pipe->at = pipe->end = pipe->hidden = 0;
    pipe->under_way = stage->sides[i].gathers = 0;
    df_pump_detach(stage->sides[i].wire, DF_PUMP_SMALL);
  }
}

static void make_anew(pump_stage *stage) {
  for (int i = 0; i < 2; i++)
    df_pump_attach(stage->sides[i].wire, DF_PUMP_SMALL, &stage->sides[i].stream);
}

static void go_through_losses(uint64_t seed, int cuts) {
  pump_stage stage;
  pump_flow flows[FLOWS];
  pump_stage_make(&stage, seed, 64);
  stage.most = 300;
  stage.refusals = 20;
  const int n_flows = 1 + df_random_below(&stage.random, FLOWS);
  for (int i = 0; i < n_flows; i++) {
    wire_form form = wire_form_draw(&stage.random);
    pump_flow_make(&flows[i], &stage, df_random_below(&stage.random, 2), (uint32_t)i, &form, 200);
  }
  for (uint64_t turns = 0; !all_are_through(flows, n_flows); turns++) {
    CHECK(turns < 20000000, "messages are stuck");
    pump_stage_turn(&stage, flows, n_flows);
    if (df_random_below(&stage.random, 1000) >= cuts) continue;
    cut(&stage);
    for (int i = df_random_below(&stage.random, 20); i > 0; i--)
      pump_stage_turn(&stage, flows, n_flows);
    make_anew(&stage);
  }
  for (int i = 0; i < n_flows; i++) {
    pump_flow_release(&flows[i]);
    pump_flow_free(&flows[i]);
  }
  pump_stage_free(&stage);
}

DF_TEST(wire, a_connection_may_be_lost_at_any_moment, 60) {
  for (uint64_t seed = 1; seed <= 200; seed++) go_through_losses(seed, 1 + (int)(seed % 5));
}

/* ---- leaving ---- */

static int has_come(const pump_flow *flow) {
  uint64_t commit;
  memcpy(&commit, df_link_slot(&flow->reader, flow->sent), sizeof commit);
  return commit >> DF_COMMIT_BITS == flow->sent;
}

/* A rank leaves with messages in its slots, and the connection breaks while it does. */
DF_TEST(wire, a_rank_leaves_when_all_has_come_whatever_breaks, 60) {
  for (uint64_t seed = 1; seed <= 300; seed++) {
    pump_stage stage;
    pump_flow flow;
    pump_stage_make(&stage, seed, 64);
    stage.most = 300;
    pump_flow_make(&flow, &stage, 0, 0, &wire_plain, 3);
    while (pump_flow_send(&flow)) continue;
    df_pump_leave(stage.sides[0].wire);
    int cuts = df_random_below(&stage.random, 4);
    for (int turns = 0; df_pump_has_pending(stage.sides[0].wire); turns++) {
      CHECK(turns < 100000, "seed %llu: a rank does not leave", (unsigned long long)seed);
      pump_side_progress(&stage.sides[df_random_below(&stage.random, 2)]);
      if (cuts == 0 || !df_random_chance(&stage.random, 5)) continue;
      cuts--;
      cut(&stage);
      make_anew(&stage);
    }
    CHECK(df_pump_has_left(stage.sides[0].wire), "it does not say that it leaves");
    CHECK(flow.sent == 3 && has_come(&flow), "seed %llu: its last message has not come",
          (unsigned long long)seed);
    pump_flow_release(&flow);
    pump_flow_free(&flow);
    pump_stage_free(&stage);
  }
}

/* Nobody answers for a link that the remote end has released. */
DF_TEST(wire, a_released_link_holds_up_nobody_who_leaves, 30) {
  pump_stage stage;
  pump_flow flow;
  pump_stage_make(&stage, 1, 64);
  pump_flow_make(&flow, &stage, 0, 0, &wire_plain, 3);
  while (pump_flow_send(&flow)) continue;
  pump_stage_settle(&stage);
  pump_flow_release_end(&flow, 0);
  cut(&stage);
  make_anew(&stage);
  df_pump_leave(stage.sides[0].wire);
  pump_stage_settle(&stage);
  CHECK(!df_pump_has_pending(stage.sides[0].wire), "a rank does not leave");
  pump_flow_release_end(&flow, 1);
  pump_flow_free(&flow);
  pump_stage_free(&stage);
}
