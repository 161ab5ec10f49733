#include "transports/wire/wire.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "primitives/prepared.h"

/* A link's number: its entry, and how often the entry was used. So late frames miss the next
 * link. */
enum { ENTRY_BITS = 20, ENTRIES_MOST = 1 << ENTRY_BITS, GENERATIONS = 1 << (32 - ENTRY_BITS) };

/* ---- links ---- */

dfcclResult_t df_wire_make(df_wire **out, df_stream *stream, uint32_t frame_bytes) {
  df_wire *wire = calloc(1, sizeof *wire);
  uint8_t *memory = malloc(sizeof(df_frame) + frame_bytes + DF_WIRE_INPUT_BYTES);
  if (wire == NULL || memory == NULL) {
    free(wire);
    free(memory);
    return df_fail(dfcclOutOfMemory, "no memory for a connection's pump");
  }
  wire->stream = stream;
  wire->frame_bytes = frame_bytes;
  wire->output = memory;
  wire->input = memory + sizeof(df_frame) + frame_bytes;
  *out = wire;
  return dfcclSuccess;
}

void df_wire_free(df_wire *wire) {
  for (uint32_t i = 0; i < wire->n_links; i++)
    if (wire->links[i]) df_wire_release(wire, wire->links[i]);
  free(wire->links);
  free(wire->generations);
  free(wire->output);
  free(wire);
}

static int grow(df_wire *wire) {
  uint32_t capacity = wire->capacity ? 2 * wire->capacity : 16;
  if (capacity > ENTRIES_MOST) return 0;
  df_wire_link **links = realloc(wire->links, capacity * sizeof(df_wire_link *));
  if (links) wire->links = links;
  uint32_t *generations = realloc(wire->generations, capacity * sizeof *generations);
  if (generations) wire->generations = generations;
  if (links == NULL || generations == NULL) return 0;
  wire->capacity = capacity;
  return 1;
}

static int enter(df_wire *wire, df_wire_link *link) {
  uint32_t entry = 0;
  while (entry < wire->n_links && wire->links[entry]) entry++;
  if (entry == wire->n_links) {
    if (entry == wire->capacity && !grow(wire)) return 0;
    wire->generations[entry] = 0;
    wire->n_links++;
  }
  wire->links[entry] = link;
  link->id = wire->generations[entry] << ENTRY_BITS | entry;
  return 1;
}

static uint32_t loop_of(const df_wire_link *link, const df_wire_ring *ring, uint64_t sequence) {
  return (uint32_t)((sequence - 1) / link->messages % ring->part.loops);
}

static uint16_t piece_of(const df_wire_link *link, uint64_t sequence) {
  return link->piece_of[(sequence - 1) % link->messages];
}

static uint32_t message_bytes(const df_wire_link *link, const df_wire_ring *ring,
                              uint64_t sequence) {
  const uint16_t piece = piece_of(link, sequence);
  if (piece == DF_PIECE_NONE) return 0;
  return link->element_bytes * df_chunk_elements(link->geometry, link->pieces, &ring->run,
                                                 loop_of(link, ring, sequence), piece);
}

/* Such a message is there, even if it is empty. */
static int brings_count(const df_wire_link *link, const df_wire_ring *ring, uint64_t sequence) {
  return link->varying &&
         df_brings_count(loop_of(link, ring, sequence), (uint32_t)((sequence - 1) % link->messages),
                         piece_of(link, sequence));
}

static int is_empty(const df_wire_link *link, const df_wire_ring *ring, uint64_t sequence) {
  return message_bytes(link, ring, sequence) == 0 && !brings_count(link, ring, sequence);
}

static void take_up_run(const df_wire_link *link, df_wire_ring *ring, uint64_t count) {
  const uint32_t pieces = link->geometry == DF_GEOMETRY_PARTITION ? link->pieces : 1;
  ring->run = df_part_of_run(&ring->part, count, pieces, link->element_bytes);
  ring->has_count = 1;
}

static void pass_empty(const df_wire_link *link, df_wire_ring *ring) {
  while (is_empty(link, ring, ring->next)) ring->next++;
}

static void finish_message(const df_wire_link *link, df_wire_ring *ring) {
  ring->at = 0;
  ring->has_count = 0;
  ring->next++;
  pass_empty(link, ring);
}

static void begin_ring(const df_wire_link *link, df_wire_ring *ring, const df_wire_route *route,
                       uint32_t block) {
  *ring = (df_wire_ring){.end = route->ends[block],
                         .part = route->parts[block],
                         .run = route->parts[block],
                         .next = 1};
  ring->end.release_mask = 0; /* the far end's block decides how often it tells */
  ring->end.far_ns = 0;
  if (ring->part.loops == 0) return;
  /* No later loop has more messages than the first. */
  for (uint32_t i = 0; i < link->messages && !ring->has_messages; i++)
    ring->has_messages = !is_empty(link, ring, i + 1);
  if (ring->has_messages) pass_empty(link, ring);
}

static dfcclResult_t make_link(df_wire *wire, const df_wire_route *route, df_wire_link **out) {
  const size_t rings = route->n_blocks * sizeof(df_wire_ring);
  df_wire_link *link = aligned_alloc(DF_CACHE_LINE, DF_ALIGN_UP(sizeof *link + rings, (size_t)64));
  uint16_t *piece_of = malloc((route->messages + 1) * sizeof *piece_of);
  if (link == NULL || piece_of == NULL) goto no_memory;
  memcpy(piece_of, route->piece_of, route->messages * sizeof *piece_of);
  *link = (df_wire_link){.messages = route->messages,
                         .n_blocks = route->n_blocks,
                         .piece_of = piece_of,
                         .pieces = route->pieces,
                         .geometry = route->geometry,
                         .element_bytes = route->element_bytes,
                         .varying = route->varying};
  for (uint32_t block = 0; block < route->n_blocks; block++)
    begin_ring(link, &link->rings[block], route, block);
  if (!enter(wire, link)) goto no_memory;
  *out = link;
  return dfcclSuccess;
no_memory:
  free(link);
  free(piece_of);
  return df_fail(dfcclOutOfMemory, "no memory for a link of a connection");
}

dfcclResult_t df_wire_accept(df_wire *wire, const df_wire_route *route, df_wire_link **link) {
  dfcclResult_t result = make_link(wire, route, link);
  if (result == dfcclSuccess) (*link)->incoming = 1;
  return result;
}

dfcclResult_t df_wire_connect(df_wire *wire, const df_wire_route *route, uint32_t far_id,
                              uint32_t far_slots, df_wire_link **link) {
  dfcclResult_t result = make_link(wire, route, link);
  if (result != dfcclSuccess) return result;
  (*link)->far_id = far_id;
  (*link)->far_slots = far_slots;
  return dfcclSuccess;
}

void df_wire_release(df_wire *wire, df_wire_link *link) {
  const uint32_t entry = link->id % ENTRIES_MOST;
  wire->links[entry] = NULL;
  wire->generations[entry] = (wire->generations[entry] + 1) % GENERATIONS;
  if (wire->target == link) wire->target = NULL;
  free(link->piece_of);
  free(link);
}

/* ---- common to both ways ---- */

static void lose(df_wire *wire, const char *format, ...) DF_PRINTF(2, 3);
static void lose(df_wire *wire, const char *format, ...) {
  if (wire->is_lost) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(wire->reason, sizeof wire->reason, format, arguments);
  va_end(arguments);
  wire->is_lost = 1;
}

static void note_bell(df_wire *wire, df_bell *bell) {
  if (wire->noted && wire->noted != bell) df_bell_ring(wire->noted);
  wire->noted = bell;
}

/* ---- outgoing ---- */

/* A far end that has left takes nothing more, but its last bytes may be unread. So the connection is
 * lost only when reading comes to the end. */
static uint32_t write_parts(df_wire *wire, const df_stream_part *parts, uint32_t n_parts,
                            uint32_t bytes) {
  int64_t taken = wire->stream->write(wire->stream, parts, n_parts);
  if (taken != DF_STREAM_ENDED) return (uint32_t)taken;
  wire->is_mute = 1;
  return bytes;
}

/* 1: nothing is left. */
static int flush(df_wire *wire) {
  if (wire->output_at == wire->output_end) return 1;
  const uint32_t bytes = wire->output_end - wire->output_at;
  const df_stream_part rest = {wire->output + wire->output_at, bytes};
  wire->output_at += write_parts(wire, &rest, 1, bytes);
  return wire->output_at == wire->output_end;
}

/* Copies what the stream does not take: the payload may be written again. */
static void send_frame(df_wire *wire, const df_frame *frame, const uint8_t *payload) {
  df_stream_part parts[2] = {{frame, sizeof *frame}, {payload, frame->bytes}};
  uint32_t taken =
      write_parts(wire, parts, frame->bytes ? 2 : 1, (uint32_t)sizeof *frame + frame->bytes);
  uint32_t header = taken < sizeof *frame ? taken : (uint32_t)sizeof *frame;
  uint32_t header_left = (uint32_t)sizeof *frame - header;
  uint32_t payload_left = frame->bytes - (taken - header);
  memcpy(wire->output, (const uint8_t *)frame + header, header_left);
  if (payload_left)
    memcpy(wire->output + header_left, payload + frame->bytes - payload_left, payload_left);
  wire->output_at = 0;
  wire->output_end = header_left + payload_left;
}

static int has_sendable(const df_wire_link *link, df_wire_ring *ring, int *is_direct) {
  if (!ring->has_messages) return 0;
  if (ring->next > ring->credit + link->far_slots) return 0; /* no slot is free for it */
  return df_link_has_message(&ring->end, ring->next, is_direct) &&
         !(*is_direct && df_link_is_revoked(&ring->end));
}

static uint64_t *count_of(df_wire_ring *ring) {
  return (uint64_t *)(df_link_slot(&ring->end, ring->next) + DF_LINK_COUNT_OFFSET);
}

/* Returns its bytes. */
static uint32_t send_count(df_wire *wire, df_wire_link *link, uint32_t block) {
  df_wire_ring *ring = &link->rings[block];
  df_frame frame = {.magic = DF_FRAME_MAGIC,
                    .kind = DF_FRAME_COUNT,
                    .block = (uint8_t)block,
                    .link = link->far_id,
                    .sequence = *count_of(ring)};
  take_up_run(link, ring, frame.sequence);
  send_frame(wire, &frame, NULL);
  if (message_bytes(link, ring, ring->next) == 0) finish_message(link, ring);
  return (uint32_t)sizeof frame;
}

/* Returns its bytes. */
static uint32_t send_part(df_wire *wire, df_wire_link *link, uint32_t block) {
  df_wire_ring *ring = &link->rings[block];
  int is_direct = 0;
  if (!has_sendable(link, ring, &is_direct)) return 0;
  if (brings_count(link, ring, ring->next) && !ring->has_count)
    return send_count(wire, link, block);
  if (is_direct && !df_link_borrow(&ring->end)) return 0;
  const uint8_t *payload = df_link_payload(&ring->end, ring->next);
  if (is_direct) {
    const uint8_t *slot = df_link_slot(&ring->end, ring->next);
    payload = *(const uint8_t *const *)(slot + DF_LINK_FLAGGED_OFFSET);
  }
  const uint32_t bytes = message_bytes(link, ring, ring->next);
  df_frame frame = {.magic = DF_FRAME_MAGIC,
                    .kind = DF_FRAME_DATA,
                    .block = (uint8_t)block,
                    .link = link->far_id,
                    .at = ring->at,
                    .bytes = DF_MIN(bytes - ring->at, wire->frame_bytes),
                    .sequence = ring->next};
  send_frame(wire, &frame, payload + ring->at);
  /* The owner is in this process, and takes away nothing that is being read. */
  if (is_direct) DF_ASSERT(df_link_return(&ring->end));
  ring->at += frame.bytes;
  if (ring->at == bytes) finish_message(link, ring);
  return (uint32_t)sizeof frame + frame.bytes;
}

static int has_credit(const df_wire_link *link, const df_wire_ring *ring) {
  return link->is_open && df_observe_u64(ring->end.credit) != ring->credit;
}

static uint32_t send_credit(df_wire *wire, df_wire_link *link, uint32_t block) {
  df_wire_ring *ring = &link->rings[block];
  if (!has_credit(link, ring)) return 0;
  /* Observes the block's release: its reads of a slot precede what comes for this credit. */
  ring->credit = df_observe_u64(ring->end.credit);
  df_frame frame = {.magic = DF_FRAME_MAGIC,
                    .kind = DF_FRAME_CREDIT,
                    .block = (uint8_t)block,
                    .link = link->far_id,
                    .sequence = ring->credit};
  send_frame(wire, &frame, NULL);
  return (uint32_t)sizeof frame;
}

/* One frame for each block, while the stream takes more. */
static uint32_t send_for(df_wire *wire, df_wire_link *link) {
  uint32_t sent = 0;
  if (!link->incoming && !link->is_open) {
    df_frame frame = {
        .magic = DF_FRAME_MAGIC, .kind = DF_FRAME_OPEN, .link = link->far_id, .sequence = link->id};
    send_frame(wire, &frame, NULL);
    link->is_open = 1;
    sent = (uint32_t)sizeof frame;
  }
  for (uint32_t block = 0; block < link->n_blocks && flush(wire); block++)
    sent += link->incoming ? send_credit(wire, link, block) : send_part(wire, link, block);
  return sent;
}

static int send_all(df_wire *wire) {
  const uint64_t most = (uint64_t)DF_WIRE_BUDGET * wire->frame_bytes;
  uint64_t sent = 0;
  for (uint32_t idle = 0; idle < wire->n_links && sent < most; idle++) {
    if (!flush(wire) || wire->is_mute) break;
    df_wire_link *link = wire->links[wire->turn % wire->n_links];
    wire->turn = (wire->turn + 1) % wire->n_links;
    uint32_t now = link ? send_for(wire, link) : 0;
    if (now) idle = 0;
    sent += now;
  }
  return sent != 0;
}

/* ---- incoming ---- */

static uint32_t read_some(df_wire *wire, void *bytes, uint32_t most) {
  int64_t came = wire->stream->read(wire->stream, bytes, most);
  if (came == 0) wire->has_more = 0;
  if (came != DF_STREAM_ENDED) return (uint32_t)came;
  lose(wire, "%s", wire->stream->reason(wire->stream));
  return 0;
}

/* there NULL: nowhere. */
static uint32_t take(df_wire *wire, uint8_t *there, uint32_t most) {
  if (wire->input_at == wire->input_end) {
    if (there && most >= DF_WIRE_INPUT_BYTES) return read_some(wire, there, most);
    wire->input_at = 0;
    wire->input_end = read_some(wire, wire->input, DF_WIRE_INPUT_BYTES);
  }
  const uint32_t taken = DF_MIN(most, wire->input_end - wire->input_at);
  if (there) memcpy(there, wire->input + wire->input_at, taken);
  wire->input_at += taken;
  return taken;
}

/* NULL: it was released. *is_known 0: there never was one. */
static df_wire_link *find(const df_wire *wire, uint32_t id, int *is_known) {
  const uint32_t entry = id % ENTRIES_MOST;
  *is_known = entry < wire->n_links;
  df_wire_link *link = *is_known ? wire->links[entry] : NULL;
  return link && link->id == id ? link : NULL;
}

static int take_open(df_wire *wire, df_wire_link *link, const df_frame *frame) {
  if (!link->incoming || link->is_open || frame->sequence > UINT32_MAX || frame->bytes) {
    lose(wire, "it opened a link that it cannot open");
    return 0;
  }
  link->is_open = 1;
  link->far_id = (uint32_t)frame->sequence;
  return 1;
}

/* Before the first byte of a message that brings a count, against credit. */
static int take_count(df_wire *wire, df_wire_link *link, const df_frame *frame) {
  df_wire_ring *ring = &link->rings[frame->block];
  if (!link->incoming || !link->is_open || !ring->has_messages || frame->bytes ||
      !brings_count(link, ring, ring->next) || ring->has_count) {
    lose(wire, "it sent a count in place of message %llu", (unsigned long long)ring->next);
    return 0;
  }
  if (frame->sequence == 0 || frame->sequence > ring->part.elements) {
    lose(wire, "it sent a count of %llu elements of %llu", (unsigned long long)frame->sequence,
         (unsigned long long)ring->part.elements);
    return 0;
  }
  if (!df_link_may_send(&ring->end, ring->next)) {
    lose(wire, "it sent the count of message %llu without credit", (unsigned long long)ring->next);
    return 0;
  }
  *count_of(ring) = frame->sequence;
  take_up_run(link, ring, frame->sequence);
  if (message_bytes(link, ring, ring->next) != 0) return 1;
  df_link_publish(&ring->end, ring->next, 0);
  note_bell(wire, ring->end.peer_bell);
  finish_message(link, ring);
  return 1;
}

/* Only the next part of the next message, against credit. */
static int take_data(df_wire *wire, df_wire_link *link, const df_frame *frame) {
  df_wire_ring *ring = &link->rings[frame->block];
  if (!link->incoming || !link->is_open || !ring->has_messages) {
    lose(wire, "it sent a message through a link that carries none from it");
    return 0;
  }
  if (frame->sequence != ring->next || frame->at != ring->at) {
    lose(wire, "it sent message %llu, byte %u, in place of message %llu, byte %u",
         (unsigned long long)frame->sequence, frame->at, (unsigned long long)ring->next, ring->at);
    return 0;
  }
  if (brings_count(link, ring, ring->next) && !ring->has_count) {
    lose(wire, "it sent message %llu without its run's count", (unsigned long long)ring->next);
    return 0;
  }
  if (frame->bytes == 0 || frame->bytes > message_bytes(link, ring, ring->next) - ring->at) {
    lose(wire, "it sent %u bytes from byte %u on of a message of %u", frame->bytes, frame->at,
         message_bytes(link, ring, ring->next));
    return 0;
  }
  if (!df_link_may_send(&ring->end, ring->next)) {
    lose(wire, "it sent message %llu without credit", (unsigned long long)ring->next);
    return 0;
  }
  wire->target = link;
  return 1;
}

/* Only for messages that were sent, or empty. */
static int take_credit(df_wire *wire, df_wire_link *link, const df_frame *frame) {
  df_wire_ring *ring = &link->rings[frame->block];
  const uint64_t credit = frame->sequence;
  if (link->incoming || frame->bytes || credit < ring->credit || credit > DF_SEQUENCE_MASK ||
      (ring->has_messages && credit >= ring->next)) {
    lose(wire, "it gave credit for message %llu, which was not sent", (unsigned long long)credit);
    return 0;
  }
  ring->credit = credit;
  df_link_release(&ring->end, credit);
  note_bell(wire, ring->end.peer_bell);
  return 1;
}

static int take_frame(df_wire *wire, const df_frame *frame) {
  int is_known;
  df_wire_link *link = find(wire, frame->link, &is_known);
  if (frame->magic != DF_FRAME_MAGIC || frame->kind >= DF_FRAME_KINDS || frame->kind == 0 ||
      !is_known) {
    lose(wire, "it sent what is no frame");
    return 0;
  }
  wire->rest = frame->bytes;
  if (link == NULL) return 1; /* the payload goes nowhere */
  if (frame->block >= link->n_blocks) {
    lose(wire, "it sent a frame for a block that the link does not have");
    return 0;
  }
  if (frame->kind == DF_FRAME_OPEN) return take_open(wire, link, frame);
  if (frame->kind == DF_FRAME_DATA) return take_data(wire, link, frame);
  if (frame->kind == DF_FRAME_COUNT) return take_count(wire, link, frame);
  return take_credit(wire, link, frame);
}

static uint32_t receive_payload(df_wire *wire) {
  df_wire_link *link = wire->target;
  df_wire_ring *ring = link ? &link->rings[wire->frame.block] : NULL;
  uint8_t *there = ring ? df_link_payload(&ring->end, ring->next) + ring->at : NULL;
  const uint32_t came = take(wire, there, wire->rest);
  wire->rest -= came;
  if (link == NULL) return came;
  ring->at += came;
  if (wire->rest == 0) wire->target = NULL;
  if (ring->at == message_bytes(link, ring, ring->next)) {
    df_link_publish(&ring->end, ring->next, 0);
    note_bell(wire, ring->end.peer_bell);
    finish_message(link, ring);
  }
  return came;
}

/* May come byte by byte, and stays in front of the input. */
static uint32_t receive_header(df_wire *wire) {
  const uint32_t had = wire->input_end - wire->input_at;
  if (had < sizeof(df_frame)) {
    memmove(wire->input, wire->input + wire->input_at, had);
    wire->input_at = 0;
    wire->input_end = had + read_some(wire, wire->input + had, DF_WIRE_INPUT_BYTES - had);
    if (wire->input_end < sizeof(df_frame)) return wire->input_end - had;
  }
  memcpy(&wire->frame, wire->input + wire->input_at, sizeof(df_frame));
  wire->input_at += (uint32_t)sizeof(df_frame);
  take_frame(wire, &wire->frame);
  return (uint32_t)sizeof(df_frame);
}

static int receive_all(df_wire *wire) {
  const uint64_t most = (uint64_t)DF_WIRE_BUDGET * wire->frame_bytes;
  uint64_t came = 0;
  wire->has_more = 1;
  while (came < most && !wire->is_lost) {
    uint32_t now = wire->rest ? receive_payload(wire) : receive_header(wire);
    if (now == 0) break;
    came += now;
  }
  return came != 0;
}

/* ---- both ---- */

int df_wire_pump(df_wire *wire) {
  if (wire->is_lost) return 0;
  int received = receive_all(wire);
  int sent = !wire->is_lost && !wire->is_mute && send_all(wire);
  if (wire->noted) df_bell_ring(wire->noted);
  wire->noted = NULL;
  return received || sent;
}

/* A link has news for the far end. */
static int has_news(df_wire_link *link) {
  if (!link->incoming && !link->is_open) return 1;
  for (uint32_t block = 0; block < link->n_blocks; block++) {
    int is_direct;
    if (link->incoming ? has_credit(link, &link->rings[block])
                       : has_sendable(link, &link->rings[block], &is_direct))
      return 1;
  }
  return 0;
}

static int any_has_news(df_wire *wire) {
  for (uint32_t i = 0; i < wire->n_links; i++)
    if (wire->links[i] && has_news(wire->links[i])) return 1;
  return 0;
}

int df_wire_is_due(df_wire *wire) {
  if (wire->is_lost) return 0;
  if (wire->has_more) return 1;
  if (wire->is_mute) return 0;
  if (wire->output_at != wire->output_end) return 0; /* the stream says when it takes more */
  return any_has_news(wire);
}

int df_wire_has_pending(df_wire *wire) {
  return !wire->is_lost && !wire->is_mute &&
         (wire->output_at != wire->output_end || any_has_news(wire));
}
