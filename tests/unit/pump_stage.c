#include "pump_stage.h"

#include "primitives/prepared.h"

#include <stdlib.h>
#include <string.h>

enum { GUARD = 0x5a, GUARD_BYTES = 64, PIPE_BYTES = 1 << 20 };

/* ---- pipes ---- */

static size_t granted(pump_stage *stage, size_t most) {
  if (most == 0 || df_random_chance(&stage->random, stage->refusals)) return 0;
  if (stage->most == 0) return most;
  return 1 + (size_t)df_random_below(&stage->random, stage->most) % most;
}

static int64_t pipe_write(df_stream *stream, const df_stream_part *parts, uint32_t n_parts) {
  pump_side *side = (pump_side *)stream;
  wire_pipe *pipe = side->out;
  size_t length = 0;
  for (uint32_t i = 0; i < n_parts; i++) length += parts[i].length;
  if (side->has_left) return DF_STREAM_ENDED;
  if (side->is_stuck) return 0;
  if (pipe->at == pipe->end) pipe->at = pipe->end = 0;
  const size_t room = pipe->capacity - pipe->end;
  const size_t most = granted(side->stage, length < room ? length : room);
  size_t taken = 0;
  for (uint32_t i = 0; i < n_parts && taken < most; i++) {
    size_t now = most - taken < parts[i].length ? most - taken : parts[i].length;
    memcpy(pipe->bytes + pipe->end, parts[i].bytes, now);
    pipe->end += now;
    taken += now;
  }
  pipe->hidden = side->gathers && pipe->under_way ? pipe->hidden + taken : 0;
  pipe->under_way |= taken > 0;
  return (int64_t)taken;
}

static void pipe_gather(df_stream *stream, int gathers) {
  pump_side *side = (pump_side *)stream;
  side->gathers = gathers;
  if (!gathers) side->out->hidden = 0;
}

/* Nothing else is acknowledged here, however long it takes. */
static void pipe_acknowledge(df_stream *stream) {
  wire_pipe *pipe = ((pump_side *)stream)->in;
  if (pipe->end - pipe->at > pipe->hidden) return;
  pipe->under_way = pipe->hidden > 0;
  pipe->hidden = 0;
}

static int64_t pipe_read(df_stream *stream, const df_stream_room *rooms, uint32_t n_rooms) {
  pump_side *side = (pump_side *)stream;
  wire_pipe *pipe = side->in;
  size_t most = 0, filled = 0;
  for (uint32_t i = 0; i < n_rooms; i++) most += rooms[i].length;
  if (side->is_stuck) return 0;
  const size_t there = pipe->end - pipe->at - pipe->hidden;
  if (side->has_left && there == 0) return DF_STREAM_ENDED;
  const size_t given = granted(side->stage, most < there ? most : there);
  for (uint32_t i = 0; i < n_rooms && filled < given; i++) {
    const size_t now = given - filled < rooms[i].length ? given - filled : rooms[i].length;
    memcpy(rooms[i].bytes, pipe->bytes + pipe->at, now);
    pipe->at += now;
    filled += now;
  }
  return (int64_t)given;
}

static const char *no_reason(df_stream *stream) {
  (void)stream;
  return "memory does not end";
}

void pump_stage_make(pump_stage *stage, uint64_t seed, uint32_t frame_bytes) {
  *stage = (pump_stage){.random = {seed}};
  for (int i = 0; i < 2; i++) {
    pump_side *side = &stage->sides[i];
    stage->pipes[i].bytes = malloc(PIPE_BYTES);
    CHECK(stage->pipes[i].bytes != NULL, "no memory");
    stage->pipes[i].capacity = PIPE_BYTES;
    side->stage = stage;
    side->out = &stage->pipes[i];
    side->in = &stage->pipes[1 - i];
    side->stream = (df_stream){.write = pipe_write,
                               .read = pipe_read,
                               .reason = no_reason,
                               .gather = pipe_gather,
                               .acknowledge = pipe_acknowledge};
    OK(df_pump_make(&side->wire, frame_bytes));
    OK(df_pump_add_port(side->wire));
    df_pump_attach(side->wire, DF_PUMP_SMALL, &side->stream);
  }
}

int pump_side_progress(pump_side *side) {
  const int received = df_pump_receive(side->wire, DF_PUMP_SMALL);
  df_pump_ring_peers(side->wire);
  return received | df_pump_send(side->wire);
}

void pump_stage_free(pump_stage *stage) {
  for (int i = 0; i < 2; i++) {
    df_pump_free(stage->sides[i].wire);
    free(stage->pipes[i].bytes);
  }
}

/* ---- flows ---- */

wire_form wire_form_draw(df_random *random) {
  static const uint32_t sizes[] = {1, 2, 4, 8};
  wire_form form = {.chunk = 1 + (uint32_t)df_random_below(random, 200),
                    .loops = 1 + (uint32_t)df_random_below(random, 4),
                    .n_messages = 1 + (uint32_t)df_random_below(random, PUMP_FLOW_MESSAGES),
                    .remote_slots = 2u << df_random_below(random, 4),
                    .element_bytes = sizes[df_random_below(random, 4)],
                    .geometry = df_random_below(random, 2),
                    .lends = df_random_chance(random, 50)};
  form.local_slots = form.remote_slots;
  form.offset = df_random_chance(random, 50) ? DF_LINK_FLAGGED_OFFSET : DF_LINK_STAGED_OFFSET;
  form.is_packed = form.offset == DF_LINK_FLAGGED_OFFSET && form.remote_slots >= DF_PACKED_SLOTS &&
                   df_random_chance(random, 50);
  form.release_mask = form.remote_slots >= 8 && df_random_chance(random, 50) ? 3 : 0;
  if (form.release_mask) form.lends = 0; /* as prepared.h says */
  form.varying = form.offset == DF_LINK_STAGED_OFFSET && form.release_mask == 0 &&
                 df_random_chance(random, 50);
  const uint32_t in_a_loop = form.geometry ? form.chunk : form.chunk * form.n_messages;
  form.missing = (uint32_t)df_random_below(random, (int)in_a_loop);
  return form;
}

static uint32_t stride_of(const wire_form *form) {
  const uint64_t bytes = (uint64_t)form->chunk * form->element_bytes;
  return form->is_packed ? df_link_packed_stride(bytes) : df_link_stride(bytes, form->offset);
}

static uint8_t *make_ring(const wire_form *form, uint32_t n_slots, df_link *end) {
  const uint32_t stride = stride_of(form);
  const size_t bytes = df_link_ring_bytes(stride, n_slots);
  uint8_t *ring = aligned_alloc(64, DF_ALIGN_UP(bytes + GUARD_BYTES, (size_t)64));
  CHECK(ring != NULL, "no memory");
  memset(ring, 0, bytes);
  memset(ring + bytes, GUARD, GUARD_BYTES);
  *end = (df_link){.slots = ring,
                   .credit = (uint64_t *)(ring + (uint64_t)stride * n_slots),
                   .stride = stride,
                   .slot_mask = n_slots - 1,
                   .messages = form->n_messages,
                   .payload_offset = (uint8_t)form->offset,
                   .same_process = 1};
  return ring;
}

static void check_guard(const wire_form *form, const uint8_t *ring, uint32_t n_slots) {
  const uint8_t *guard = ring + df_link_ring_bytes(stride_of(form), n_slots);
  for (int i = 0; i < GUARD_BYTES; i++) CHECK(guard[i] == GUARD, "a pump wrote behind its ring");
}

void pump_flow_make(pump_flow *flow, pump_stage *stage, int from, uint32_t number,
                    const wire_form *form, uint64_t messages) {
  *flow = (pump_flow){
      .stage = stage, .from = from, .form = *form, .number = number, .written_most = messages};
  const uint32_t n = form->n_messages;
  const uint64_t whole =
      (uint64_t)form->chunk * form->loops * (form->geometry == DF_GEOMETRY_PARTITION ? n : 1);
  flow->part =
      (df_part){.elements = whole - form->missing, .chunk = form->chunk, .loops = form->loops};
  for (uint32_t i = 0; i < n; i++) flow->piece_of[i].piece = (uint16_t)(n - 1 - i);
  flow->local = make_ring(form, form->local_slots, &flow->writer);
  flow->remote = make_ring(form, form->remote_slots, &flow->reader);
  flow->reader.release_mask = (uint16_t)form->release_mask;
  flow->lent = calloc(form->local_slots, sizeof *flow->lent);
  CHECK(flow->lent != NULL, "no memory");
  for (uint32_t i = 0; i < form->local_slots; i++) {
    flow->lent[i] = malloc((size_t)form->chunk * form->element_bytes);
    CHECK(flow->lent[i] != NULL, "no memory");
  }

  df_link receives = flow->writer, sends = flow->reader;
  receives.peer_bell = &stage->sides[from].bell;
  sends.peer_bell = &stage->sides[1 - from].bell;
  df_pump_route route = {.ends = &sends,
                         .parts = &flow->part,
                         .piece_of = flow->piece_of,
                         .messages = n,
                         .n_blocks = 1,
                         .least_slots = form->least_slots,
                         .pieces = (uint16_t)n,
                         .geometry = (uint8_t)form->geometry,
                         .element_bytes = (uint8_t)form->element_bytes,
                         .varying = (uint8_t)form->varying};
  OK(df_pump_accept(stage->sides[1 - from].wire, &route, &flow->in));
  route.ends = &receives;
  OK(df_pump_connect(stage->sides[from].wire, &route, flow->in->id, form->remote_slots,
                     &flow->out));
}

void pump_flow_release(pump_flow *flow) {
  if (flow->out) df_pump_release(flow->stage->sides[flow->from].wire, flow->out);
  if (flow->in) df_pump_release(flow->stage->sides[1 - flow->from].wire, flow->in);
  flow->out = flow->in = NULL;
}

void pump_flow_free(pump_flow *flow) {
  check_guard(&flow->form, flow->local, flow->form.local_slots);
  check_guard(&flow->form, flow->remote, flow->form.remote_slots);
  for (uint32_t i = 0; i < flow->form.local_slots; i++) free(flow->lent[i]);
  free(flow->lent);
  free(flow->local);
  free(flow->remote);
}

static uint64_t count_of(const pump_flow *flow, uint64_t sequence) {
  const uint64_t run = (sequence - 1) / ((uint64_t)flow->form.loops * flow->form.n_messages);
  df_random random = {flow->number * 1000 + run};
  if (!flow->form.varying || df_random_chance(&random, 20)) return flow->part.elements;
  return 1 + (uint64_t)df_random_below(&random, (int)flow->part.elements);
}

static uint64_t loop_of(const pump_flow *flow, uint64_t sequence) {
  return (sequence - 1) / flow->form.n_messages % flow->form.loops;
}

uint32_t pump_flow_bytes(const pump_flow *flow, uint64_t sequence) {
  const wire_form *form = &flow->form;
  const int partition = form->geometry == DF_GEOMETRY_PARTITION;
  const df_part part = df_part_of_run(&flow->part, count_of(flow, sequence),
                                      partition ? form->n_messages : 1, form->element_bytes);
  uint64_t chunk = loop_of(flow, sequence);
  if (partition)
    chunk = chunk * form->n_messages + flow->piece_of[(sequence - 1) % form->n_messages].piece;
  const uint64_t first = chunk * part.chunk, behind = first + part.chunk;
  const uint64_t end = behind < part.elements ? behind : part.elements;
  return end > first ? (uint32_t)(end - first) * form->element_bytes : 0;
}

static int brings_count(const pump_flow *flow, uint64_t sequence) {
  return flow->form.varying && loop_of(flow, sequence) == 0 &&
         (sequence - 1) % flow->form.n_messages == 0;
}

static uint64_t *count_in(const df_link *link, uint64_t sequence) {
  return (uint64_t *)(df_link_slot(link, sequence) + DF_LINK_COUNT_OFFSET);
}

static uint8_t byte_of(const pump_flow *flow, uint64_t sequence, uint32_t i) {
  return (uint8_t)(flow->number * 31 + sequence * 7 + i * 13 + (i >> 8));
}

int pump_flow_send(pump_flow *flow) {
  const uint64_t sequence = flow->sent + 1;
  if (flow->sent == flow->written_most) return 0;
  const uint32_t bytes = pump_flow_bytes(flow, sequence);
  const int counts = brings_count(flow, sequence);
  if ((bytes || counts) && !df_link_may_send(&flow->writer, sequence)) return 0;
  flow->sent = sequence;
  if (bytes == 0 && !counts) return 1;
  if (counts) *count_in(&flow->writer, sequence) = count_of(flow, sequence);
  const int lends = bytes && flow->form.lends && sequence % 3 != 0;
  uint8_t *lent = flow->lent[sequence % flow->form.local_slots];
  uint8_t *payload = lends ? lent : df_link_payload(&flow->writer, sequence);
  for (uint32_t i = 0; i < bytes; i++) payload[i] = byte_of(flow, sequence, i);
  if (lends) {
    uint8_t *slot = df_link_slot(&flow->writer, sequence);
    *(uint64_t *)(slot + DF_LINK_FLAGGED_OFFSET) = (uint64_t)(uintptr_t)lent;
  }
  df_link_publish(&flow->writer, sequence, lends);
  return 1;
}

int pump_flow_receive(pump_flow *flow) {
  const uint64_t sequence = flow->received + 1;
  if (flow->received == flow->written_most) return 0;
  const uint32_t bytes = pump_flow_bytes(flow, sequence);
  int is_direct = 0;
  const int counts = brings_count(flow, sequence);
  if ((bytes || counts) && !df_link_has_message(&flow->reader, sequence, &is_direct)) return 0;
  CHECK(!counts || *count_in(&flow->reader, sequence) == count_of(flow, sequence),
        "flow %u, message %llu: a count of %llu", flow->number, (unsigned long long)sequence,
        (unsigned long long)*count_in(&flow->reader, sequence));
  CHECK(!is_direct, "a pump lent something to its receiver");
  CHECK(bytes == 0 || sequence <= flow->sent, "message %llu was not sent yet",
        (unsigned long long)sequence);
  const uint8_t *payload = df_link_payload(&flow->reader, sequence);
  for (uint32_t i = 0; i < bytes; i++)
    CHECK(payload[i] == byte_of(flow, sequence, i), "flow %u, message %llu: byte %u of %u is %u",
          flow->number, (unsigned long long)sequence, i, bytes, payload[i]);
  flow->received = sequence;
  df_link_release(&flow->reader, sequence);
  return 1;
}

const wire_form wire_plain = {.chunk = 100,
                              .loops = 1,
                              .n_messages = 1,
                              .local_slots = 4,
                              .remote_slots = 4,
                              .element_bytes = 4,
                              .offset = DF_LINK_STAGED_OFFSET};

void pump_stage_pump(pump_stage *stage, int which) {
  pump_side *side = &stage->sides[which];
  pump_side_progress(side);
  CHECK(!side->wire->is_lost, "%s", side->wire->reason);
}

void pump_stage_turn(pump_stage *stage, pump_flow *flows, int n_flows) {
  const int who = df_random_below(&stage->random, 2 + 2 * n_flows);
  if (who < 2)
    pump_stage_pump(stage, who);
  else if (who % 2)
    pump_flow_send(&flows[(who - 2) / 2]);
  else
    pump_flow_receive(&flows[(who - 2) / 2]);
}

void pump_stage_settle(pump_stage *stage) {
  for (int i = 0; i < 4; i++)
    for (int side = 0; side < 2; side++) pump_stage_pump(stage, side);
}

void pump_flow_release_end(pump_flow *flow, int at_sender) {
  df_pump_link **link = at_sender ? &flow->out : &flow->in;
  df_pump_release(flow->stage->sides[at_sender ? flow->from : 1 - flow->from].wire, *link);
  *link = NULL;
}
