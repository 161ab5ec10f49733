/*
 * Promises of src/transports/net/pump/pump_receive.c:
 *   - A malformed frame ends the connection with a sentence, and writes nothing.
 *   - A frame that is late, or that nobody asked for, changes nothing.
 */
#include <string.h>

#include "pump_stage.h"

/* One link from side 0 to side 1, open. */
static void begin(pump_stage *stage, pump_flow *flow, int varying) {
  wire_form form = wire_plain;
  form.varying = varying;
  pump_stage_make(stage, 1, DF_PUMP_FRAME_BYTES);
  pump_flow_make(flow, stage, 0, 1, &form, 10);
  pump_stage_settle(stage);
}

static void end(pump_stage *stage, pump_flow *flow) {
  pump_flow_release(flow);
  pump_flow_free(flow);
  pump_stage_free(stage);
}

/* ---- quiesced channels */

static uint64_t written;
static int64_t take_half(df_stream *stream, const df_stream_part *parts, uint32_t n_parts) {
  (void)stream;
  (void)n_parts;
  written += parts[0].length / 2;
  return (int64_t)(parts[0].length / 2);
}

/* A rank that leaves may have given up a peer that lives. That peer must not receive other bytes in
 * the place of those whose buffer is released. */
DF_TEST(wire_frames, a_muted_channel_sends_nothing_in_the_place_of_what_goes, 30) {
  static uint8_t payload[4096];
  for (int mutes = 0; mutes < 2; mutes++) {
    df_stream stream = {.write = take_half};
    df_channel channel;
    CHECK(df_channel_make(&channel, DF_PUMP_FRAME_BYTES), "no memory");
    df_channel_attach(&channel, &stream);
    written = 0;
    df_channel_put(&channel, &(df_frame){.kind = DF_FRAME_DATA, .bytes = sizeof payload}, payload,
                   &stream);
    df_channel_write(&channel);
    const uint64_t before = written;
    CHECK(before > 0 && !df_channel_is_clear(&channel), "the stream took all of it");
    if (mutes) df_channel_quiesce(&channel);
    df_channel_disown(&channel, &stream);
    df_channel_write(&channel);
    CHECK((written == before) == mutes, "%llu bytes more", (unsigned long long)(written - before));
    df_channel_free(&channel);
  }
}

enum { TO_SENDER = 1, OF_VARYING = 2 };

typedef struct bad_frame {
  const char *reason;
  df_frame frame;
  int where; /* 0: to the link's receiver; TO_SENDER, OF_VARYING */
} bad_frame;

#define FRAME(...)                                                                                 \
  { __VA_ARGS__ }
static const bad_frame bad_frames[] = {
    {"malformed frame", FRAME(.kind = 0, .sequence = 1), 0},
    {"malformed frame", FRAME(.kind = DF_FRAME_BEYOND, .sequence = 1), 0},
    {"malformed frame", FRAME(.kind = DF_FRAME_LEAVES, .bytes = 1), 0},
    {"malformed frame", FRAME(.kind = DF_FRAME_ASK, .bytes = 1, .sequence = 1), 0},
    {"malformed frame", FRAME(.kind = DF_FRAME_ANSWER, .part = 1, .sequence = 1), 0},
    {"malformed frame", FRAME(.kind = DF_FRAME_DATA, .link = 1, .bytes = 400, .sequence = 1), 0},
    {"malformed frame", FRAME(.kind = DF_FRAME_DATA, .bytes = UINT32_MAX, .sequence = 1), 0},
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
static void forge(pump_side *victim, const df_frame *frame, const void *payload) {
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

DF_TEST(wire_frames, frames_that_make_no_sense_end_the_connection, 30) {
  static const uint8_t payload[64] = {1, 2, 3};
  for (size_t i = 0; i < DF_COUNT_OF(bad_frames); i++) {
    const bad_frame *bad = &bad_frames[i];
    pump_stage stage;
    pump_flow flow;
    begin(&stage, &flow, (bad->where & OF_VARYING) != 0);
    pump_side *victim = &stage.sides[bad->where & TO_SENDER ? 0 : 1];
    forge(victim, &bad->frame, payload);
    pump_side_progress(victim);
    CHECK(victim->wire->is_lost && strstr(victim->wire->reason, bad->reason), "frame %zu: \"%s\"",
          i, victim->wire->reason);
    CHECK(!pump_side_progress(victim), "it goes on");
    CHECK(is_zero(flow.remote, (size_t)flow.reader.stride * 4), "frame %zu was written", i);
    end(&stage, &flow);
  }
}

DF_TEST(wire_frames, messages_without_credit_end_the_connection, 30) {
  static const uint8_t payload[64] = {1, 2, 3};
  pump_stage stage;
  pump_flow flow;
  begin(&stage, &flow, 0);
  pump_side *victim = &stage.sides[1];
  for (uint64_t sequence = 1; sequence <= 5; sequence++) {
    df_frame frame = FRAME(.kind = DF_FRAME_DATA, .bytes = 400, .sequence = sequence);
    CHECK(!victim->wire->is_lost, "%s", victim->wire->reason);
    forge(victim, &frame, payload);
    pump_side_progress(victim);
  }
  CHECK(victim->wire->is_lost && strstr(victim->wire->reason, "without credit"), "\"%s\"",
        victim->wire->reason);
  end(&stage, &flow);
}

/* If only the port of small messages was lost, a bulk link goes on, and its receiver tells where it
 * is nevertheless. */
DF_TEST(wire_frames, a_sender_passes_over_a_state_that_it_has_not_asked_for, 30) {
  pump_stage stage;
  pump_flow flow;
  begin(&stage, &flow, 1);
  pump_side *sender = &stage.sides[0];
  const df_frame count = FRAME(.kind = DF_FRAME_COUNT, .sequence = 50);
  const df_frame state = FRAME(.kind = DF_FRAME_STATE, .sequence = 1);
  forge(sender, &count, NULL);
  forge(sender, &state, NULL);
  pump_side_progress(sender);
  CHECK(!sender->wire->is_lost, "%s", sender->wire->reason);
  while (!pump_flow_is_through(&flow)) pump_stage_turn(&stage, &flow, 1);
  end(&stage, &flow);
}

/* A second count for one message, and one that comes before its slot is free. */
DF_TEST(wire_frames, counts_are_sent_once_and_against_credit, 30) {
  for (int second = 0; second < 2; second++) {
    pump_stage stage;
    pump_flow flow;
    begin(&stage, &flow, 1);
    pump_side *victim = &stage.sides[1];
    for (uint64_t sequence = 1; sequence <= 5; sequence++) {
      static const uint8_t payload[64] = {1, 2, 3};
      const df_frame count = FRAME(.kind = DF_FRAME_COUNT, .sequence = 50);
      const df_frame frame = FRAME(.kind = DF_FRAME_DATA, .bytes = 200, .sequence = sequence);
      CHECK(!victim->wire->is_lost, "%s", victim->wire->reason);
      forge(victim, &count, NULL);
      if (second) forge(victim, &count, NULL);
      forge(victim, &frame, payload);
      pump_side_progress(victim);
      if (second) break;
    }
    const char *reason = second ? "a count in place of message 1" : "message 5 without credit";
    CHECK(victim->wire->is_lost && strstr(victim->wire->reason, reason), "\"%s\"",
          victim->wire->reason);
    end(&stage, &flow);
  }
}

/* A frame that opens the link again, of the present connection or of an earlier one, changes
 * nothing. Otherwise the count that has arrived would be forgotten, and the message that follows it
 * would end the connection. Epochs begin again after the largest. */
DF_TEST(wire_frames, a_late_opening_changes_nothing, 30) {
  static const uint8_t payload[64] = {1, 2, 3};
  static const uint16_t epochs[] = {1, 2, 7, INT16_MAX, UINT16_MAX};
  for (size_t e = 0; e < DF_COUNT_OF(epochs); e++)
    for (uint32_t age = 0; age <= 2; age++) {
      pump_stage stage;
      pump_flow flow;
      const uint16_t epoch = epochs[e];
      const uint16_t late_epoch = age == 2 ? 0 : (uint16_t)(epoch - age);
      const df_frame opening = FRAME(.kind = DF_FRAME_OPEN, .part = epoch);
      const df_frame late = FRAME(.kind = DF_FRAME_OPEN, .part = late_epoch);
      const df_frame count = FRAME(.kind = DF_FRAME_COUNT, .sequence = 50);
      const df_frame message = FRAME(.kind = DF_FRAME_DATA, .bytes = 200, .sequence = 1);
      begin(&stage, &flow, 1);
      pump_side *victim = &stage.sides[1];
      for (uint16_t part = 20000; part < 60000 && epoch == UINT16_MAX; part += 20000) {
        /* An epoch that is larger by more than half of all epochs counts as an old one. */
        const df_frame earlier = FRAME(.kind = DF_FRAME_OPEN, .part = part);
        forge(victim, &earlier, NULL);
      }
      forge(victim, &opening, NULL);
      forge(victim, &count, NULL);
      forge(victim, &late, NULL);
      forge(victim, &message, payload);
      pump_side_progress(victim);
      CHECK(!victim->wire->is_lost, "epoch %u after %u: \"%s\"", late_epoch, epoch,
            victim->wire->reason);
      CHECK(!is_zero(flow.remote, (size_t)flow.reader.stride * 4), "the message was not taken");
      end(&stage, &flow);
    }
}

/* A link whose messages are all empty: its sender learns how far the receiver is. */
DF_TEST(wire_frames, credit_of_empty_messages_is_handed_on, 30) {
  pump_stage stage;
  pump_stage_make(&stage, 1, DF_PUMP_FRAME_BYTES);
  const df_part part = {.elements = 10, .chunk = 10, .loops = 1};
  const df_pump_pieces piece_of = {.piece = 1}; /* the first of two, with all elements */
  DF_ALIGNED(64) uint64_t ring[2 * 8 + 16] = {0};
  df_link block = {.slots = (uint8_t *)ring,
                   .credit = &ring[16],
                   .peer_bell = &stage.sides[0].bell,
                   .stride = 64,
                   .slot_mask = 1};
  const df_pump_route route = {.ends = &block,
                               .parts = &part,
                               .piece_of = &piece_of,
                               .messages = 1,
                               .n_blocks = 1,
                               .pieces = 2,
                               .geometry = DF_GEOMETRY_PARTITION,
                               .element_bytes = 4};
  df_pump_link *link;
  OK(df_pump_connect(stage.sides[0].wire, &route, 0, 2, &link));
  const df_frame frame = FRAME(.kind = DF_FRAME_CREDIT, .sequence = 700);
  forge(&stage.sides[0], &frame, NULL);
  pump_side_progress(&stage.sides[0]);
  CHECK(!stage.sides[0].wire->is_lost, "%s", stage.sides[0].wire->reason);
  CHECK(df_link_is_drained(&block, 700) && !df_link_is_drained(&block, 701), "credit %llu",
        (unsigned long long)ring[16]);
  df_pump_release(stage.sides[0].wire, link);
  pump_stage_free(&stage);
}

/* Messages that were sent before the sender was notified of the release are dropped, and the
 * connection goes on. */
DF_TEST(wire_frames, frames_for_released_links_go_nowhere, 30) {
  pump_stage stage;
  pump_flow flows[2];
  pump_stage_make(&stage, 1, DF_PUMP_FRAME_BYTES);
  for (int i = 0; i < 2; i++) pump_flow_make(&flows[i], &stage, 0, 1, &wire_plain, 10);
  pump_stage_settle(&stage);
  pump_flow_send(&flows[0]);
  pump_flow_send(&flows[1]);
  pump_flow_release_end(&flows[0], 0);
  pump_stage_settle(&stage);
  CHECK(!pump_flow_receive(&flows[0]) && pump_flow_receive(&flows[1]), "only the second comes");
  for (int i = 0; i < 2; i++) {
    pump_flow_release(&flows[i]);
    pump_flow_free(&flows[i]);
  }
  pump_stage_free(&stage);
}
