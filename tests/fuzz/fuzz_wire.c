/*
 * The bytes that a peer process can send through a connection's stream: malformed frames, in pieces
 * of any size. Whatever arrives, the pump stays within its rings, returns, and does nothing more
 * after the first malformed frame. A message that a block finds published has its own length and
 * number.
 *
 * The input selects in turn the frames of the remote pump (mostly valid ones, so that the
 * connection continues) and the actions of this process's blocks.
 */
#include <stdlib.h>
#include <string.h>

#include "input.h"
#include "transports/net/pump/pump.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
  SLOTS = 8,
  CHUNK = 40,
  SHORT = 7,
  LOOPS = 2,
  MESSAGES = 2,
  GUARD_BYTES = 64,
  PIPE_BYTES = 4096
};
enum { FRAME = 16 };
enum { INCOMING, OUTGOING, VARYING, LINKS };

typedef struct victim {
  df_stream stream;
  uint8_t pipe[PIPE_BYTES];
  size_t at, end;
  uint8_t portion;
  df_pump *wire;
  df_pump_link *links[LINKS];
  uint8_t *rings[LINKS];
  df_link blocks[LINKS]; /* the ends of this process's blocks */
  df_bell bell;
  uint64_t done[LINKS]; /* messages that they have received, or sent */
} victim;

static int64_t victim_write(df_stream *stream, const df_stream_part *parts, uint32_t n_parts) {
  victim *v = (victim *)stream;
  size_t length = 0;
  for (uint32_t i = 0; i < n_parts; i++) length += parts[i].length;
  return (int64_t)DF_MIN(length, (size_t)v->portion);
}

static int64_t victim_read(df_stream *stream, const df_stream_room *rooms, uint32_t n_rooms) {
  victim *v = (victim *)stream;
  size_t left = 1 + (size_t)v->portion, given = 0;
  for (uint32_t i = 0; i < n_rooms && left; i++) {
    const size_t now = DF_MIN(DF_MIN(rooms[i].length, v->end - v->at), left);
    memcpy(rooms[i].bytes, v->pipe + v->at, now);
    v->at += now;
    given += now;
    left -= now;
  }
  return (int64_t)given;
}

static const char *no_reason(df_stream *stream) {
  (void)stream;
  return "";
}

static void make_link(victim *v, int which) {
  static const df_pump_pieces piece_of[MESSAGES] = {{.piece = 1}, {.piece = 0}};
  const df_part part = {.elements = 3 * CHUNK + SHORT, .chunk = CHUNK, .loops = LOOPS};
  const uint8_t offset = which == VARYING ? DF_LINK_STAGED_OFFSET : DF_LINK_FLAGGED_OFFSET;
  const uint32_t stride = df_link_stride(CHUNK, offset);
  const size_t bytes = df_link_ring_bytes(stride, SLOTS);
  uint8_t *ring = aligned_alloc(64, bytes + GUARD_BYTES);
  DF_ASSERT(ring != NULL);
  memset(ring, 0, bytes + GUARD_BYTES);
  v->rings[which] = ring;
  v->blocks[which] = (df_link){.slots = ring,
                               .credit = (uint64_t *)(ring + (size_t)stride * SLOTS),
                               .peer_bell = &v->bell,
                               .stride = stride,
                               .slot_mask = SLOTS - 1,
                               .messages = MESSAGES,
                               .payload_offset = offset};
  const df_pump_route route = {.ends = &v->blocks[which],
                               .parts = &part,
                               .piece_of = piece_of,
                               .messages = MESSAGES,
                               .n_blocks = 1,
                               .pieces = MESSAGES,
                               .element_bytes = 1,
                               .varying = which == VARYING};
  dfcclResult_t result = which != OUTGOING
                             ? df_pump_accept(v->wire, &route, &v->links[which])
                             : df_pump_connect(v->wire, &route, 0, SLOTS, &v->links[which]);
  DF_ASSERT(result == dfcclSuccess);
}

static void append(victim *v, const void *bytes, size_t length) {
  if (v->at == v->end) v->at = v->end = 0;
  length = DF_MIN(length, PIPE_BYTES - v->end);
  memcpy(v->pipe + v->end, bytes, length);
  v->end += length;
}

/* A frame as the remote pump would send it next, except for the fields that the input changes. */
static void send_frame(victim *v, input *in) {
  static const uint8_t payload[256];
  const df_pump_link *incoming = v->links[INCOMING], *outgoing = v->links[OUTGOING];
  const uint8_t choice = next_byte(in);
  df_frame frame = {.link = 0};
  if (v->at != v->end || v->wire->ports[0].rest) return;
  if (!incoming->is_open) {
    frame.kind = DF_FRAME_OPEN;
    frame.sequence = choice;
  } else if (choice % 2) {
    frame.kind = DF_FRAME_CREDIT;
    frame.link = outgoing->id;
    frame.sequence =
        (uint32_t)DF_MIN(outgoing->rings[0].credit + choice / 64, outgoing->rings[0].next - 1);
  } else {
    const df_pump_ring *ring = &incoming->rings[0];
    const uint64_t have = ring->have[ring->next & (SLOTS - 1)];
    frame.kind = choice % 16 == 8 ? DF_FRAME_LENT : DF_FRAME_DATA;
    frame.link = incoming->id;
    frame.sequence = (uint32_t)ring->next;
    frame.part = (uint16_t)__builtin_ctzll(~have);
    const uint32_t length = frame.sequence % 4 == 3 ? SHORT : CHUNK; /* the same as in make_link */
    frame.bytes = choice % 8 < 6 ? DF_MIN(length - frame.part * FRAME, (uint32_t)FRAME) : 1;
  }
  if (choice == 13) frame.kind = DF_FRAME_STATE;
  if (choice == 15) frame.part = 1; /* a repetition */
  if (choice == 11) ((uint8_t *)&frame)[next_byte(in) % sizeof frame] = next_byte(in);
  append(v, &frame, sizeof frame);
  append(v, payload, DF_MIN(frame.bytes, (uint32_t)sizeof payload));
}

/* A frame of the link whose runs vary: the count is the input's. */
static void send_varying(victim *v, input *in) {
  static const uint8_t payload[256];
  const df_pump_link *link = v->links[VARYING];
  const df_pump_ring *ring = &link->rings[0];
  const uint8_t choice = next_byte(in);
  df_frame frame = {.link = link->id};
  if (v->at != v->end || v->wire->ports[0].rest) return;
  if (!link->is_open) {
    frame.kind = DF_FRAME_OPEN;
  } else if (choice % 8 < 3) {
    frame.kind = DF_FRAME_COUNT;
    frame.sequence = choice / 2;
  } else {
    frame.kind = DF_FRAME_DATA;
    frame.sequence = (uint32_t)ring->next;
    frame.part = (uint16_t)__builtin_ctzll(~ring->have[ring->next & (SLOTS - 1)]);
    frame.bytes = choice % 2 ? DF_MIN(ring->run.chunk - frame.part * FRAME, (uint32_t)FRAME) : 1;
  }
  append(v, &frame, sizeof frame);
  if (frame.kind == DF_FRAME_DATA)
    append(v, payload, DF_MIN(frame.bytes, (uint32_t)sizeof payload));
}

static void be_block(victim *v, int which) {
  df_link *block = &v->blocks[which];
  const uint64_t sequence = v->done[which] + 1;
  int is_direct;
  if (which != OUTGOING) {
    const int is_empty = which == VARYING && sequence < v->links[which]->rings[0].next;
    if (!is_empty && !df_link_has_message(block, sequence, &is_direct)) return;
    DF_ASSERT(is_empty || !is_direct);
    df_link_release(block, sequence);
  } else {
    if (!df_link_may_send(block, sequence)) return;
    df_link_publish(block, sequence, 0);
  }
  v->done[which] = sequence;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  input in = {data, size};
  victim *v = aligned_alloc(64, DF_ALIGN_UP(sizeof *v, (size_t)64));
  DF_ASSERT(v != NULL);
  memset(v, 0, sizeof *v);
  v->stream = (df_stream){.write = victim_write, .read = victim_read, .reason = no_reason};
  DF_ASSERT(df_pump_make(&v->wire, FRAME) == dfcclSuccess);
  DF_ASSERT(df_pump_add_port(v->wire) == dfcclSuccess);
  df_pump_attach(v->wire, DF_PUMP_SMALL, &v->stream);
  for (int which = 0; which < LINKS; which++) make_link(v, which);
  while (in.size > 0) {
    const uint8_t what = next_byte(&in), was_lost = (uint8_t)v->wire->is_lost;
    v->portion = next_byte(&in);
    if (what % 4 == 0)
      be_block(v, what / 4 % VARYING);
    else if (what % 4 < 3)
      send_frame(v, &in);
    else if (what % 64 == 7)
      be_block(v, VARYING);
    else if (what % 64 == 11)
      send_varying(v, &in);
    else if (what % 64 == 3)
      append(v, &v->portion, 1);
    if (what == 0xff)
      df_pump_attach(v->wire, DF_PUMP_SMALL, &v->stream); /* the connection was lost */
    int did = df_pump_receive(v->wire, DF_PUMP_SMALL);
    df_pump_ring_peers(v->wire);
    did |= df_pump_send(v->wire);
    DF_ASSERT(!did || !was_lost);
    DF_ASSERT(!v->wire->is_lost || v->wire->reason[0] != 0);
  }
  df_pump_free(v->wire);
  for (int which = 0; which < LINKS; which++) {
    const uint8_t *guard = (const uint8_t *)(v->blocks[which].credit + 2);
    for (size_t i = 0;
         guard + i <
         v->rings[which] + df_link_ring_bytes(v->blocks[which].stride, SLOTS) + GUARD_BYTES;
         i++)
      DF_ASSERT(guard[i] == 0);
    free(v->rings[which]);
  }
  free(v);
  return 0;
}
