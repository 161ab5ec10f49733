/* The receiving part of the pump. Each frame is checked before it changes anything. A malformed
 * frame ends the connection with a sentence. */
#include <stdarg.h>
#include <stdio.h>

#include "transports/net/pump/pump.h"

static void lose(df_pump *pump, const char *format, ...) DF_PRINTF(2, 3);
static void lose(df_pump *pump, const char *format, ...) {
  if (pump->is_lost) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(pump->reason, sizeof pump->reason, format, arguments);
  va_end(arguments);
  pump->is_lost = 1;
}

static void note_bell(df_pump *pump, df_bell *bell) {
  if (pump->noted && pump->noted != bell) df_bell_ring(pump->noted);
  pump->noted = bell;
}

void df_pump_ring_peers(df_pump *pump) {
  if (pump->noted) df_bell_ring(pump->noted);
  pump->noted = NULL;
}

static uint64_t count_in(const df_frame *frame) {
  return (uint64_t)frame->bytes << 32 | frame->sequence;
}

static void take_open(df_pump *pump, const df_pump_port *port, df_pump_link *link,
                      const df_frame *frame) {
  const int is_old = link->incoming && link->epoch != 0 &&
                     (frame->part == 0 || (int16_t)(frame->part - link->epoch) <= 0);
  if (is_old) return; /* it was sent on a connection that was considered lost */
  if (!link->incoming || (link->is_open && frame->part == 0) || frame->bytes ||
      (link->is_open && frame->sequence != link->remote_id)) {
    lose(pump, "it opened a link that it cannot open");
    return;
  }
  link->is_open = 1;
  link->remote_id = frame->sequence;
  link->epoch = frame->part;
  link->port = (uint32_t)(port - pump->ports);
  for (uint32_t i = 0; i < pump->n_ports && link->varying; i++) /* see is_late */
    if (pump->ports[i].target == link) pump->ports[i].target = NULL;
  for (uint32_t block = 0; block < link->n_blocks && frame->part; block++) {
    link->rings[block].state_is_due = 1;
    link->rings[block].has_count = 0; /* the count is sent again */
  }
}

static void publish(df_pump *pump, df_pump_link *link, uint32_t block, uint64_t sequence) {
  df_pump_ring *ring = &link->rings[block];
  df_pump_notify_watch(pump, DF_WATCH_CAME, link, block, sequence, 0);
  df_link_publish(&ring->end, sequence, 0);
  note_bell(pump, ring->end.peer_bell);
}

/* The count precedes the first byte of a message that carries one, and needs credit. After a loss,
 * a sender receives the count of the run that its receiver is at. */
static void take_count(df_pump *pump, df_pump_link *link, const df_frame *frame) {
  df_pump_ring *ring = &link->rings[frame->block];
  const uint64_t count = count_in(frame);
  if (link->varying &&
      ((count == 0 && link->varying != DF_VARIES_BY_PAIR) || count > ring->part.elements)) {
    lose(pump, "it sent a count of %llu elements of %llu", (unsigned long long)count,
         (unsigned long long)ring->part.elements);
    return;
  }
  if (!link->incoming && link->varying) { /* also for a link that keeps its connection */
    if (ring->is_halted) df_pump_take_up_run(link, ring, count);
    return;
  }
  if (!link->incoming || !ring->has_messages || !df_pump_brings_count(link, ring, ring->next) ||
      ring->has_count) {
    lose(pump, "it sent a count in place of message %llu", (unsigned long long)ring->next);
    return;
  }
  if (!df_link_may_send(&ring->end, ring->next)) {
    lose(pump, "it sent the count of message %llu without credit", (unsigned long long)ring->next);
    return;
  }
  *df_pump_count_of(ring) = count;
  df_pump_take_up_run(link, ring, count);
  if (df_pump_message_bytes(link, ring, ring->next) != 0) return;
  publish(pump, link, frame->block, ring->next);
  df_pump_pass(link, ring);
}

/* Accepts a part of a message for which the ring has a free slot. */
static void take_data(df_pump *pump, df_pump_port *port, df_pump_link *link,
                      const df_frame *frame) {
  df_pump_ring *ring = &link->rings[frame->block];
  const uint64_t sequence = df_pump_whole(ring->next, frame->sequence);
  const uint32_t from = frame->part * link->part_bytes;
  port->channel.one_way = 0;
  port->channel.came_in_a_row++;
  if (!link->incoming || !ring->has_messages) {
    lose(pump, "it sent a message through a link that carries none from it");
    return;
  }
  if (sequence < ring->next) { /* a duplicate is permitted after a loss, see below */
    if (link->epoch == 0)
      lose(pump, "it sent message %llu again, in place of message %llu",
           (unsigned long long)sequence, (unsigned long long)ring->next);
    return;
  }
  if (!df_link_may_send(&ring->end, sequence)) {
    lose(pump, "it sent message %llu without credit", (unsigned long long)sequence);
    return;
  }
  if (link->varying && sequence != ring->next) {
    lose(pump, "it sent message %llu in place of message %llu", (unsigned long long)sequence,
         (unsigned long long)ring->next);
    return;
  }
  if (df_pump_brings_count(link, ring, sequence) && !ring->has_count) {
    lose(pump, "it sent message %llu without its run's count", (unsigned long long)sequence);
    return;
  }
  const uint32_t bytes = df_pump_message_bytes(link, ring, sequence);
  if (frame->part >= DF_PUMP_PARTS || from >= bytes ||
      frame->bytes != DF_MIN(bytes - from, link->part_bytes)) {
    lose(pump, "it sent %u bytes as part %u of a message of %u", frame->bytes, frame->part, bytes);
    return;
  }
  if (ring->have[sequence & ring->end.slot_mask] >> frame->part & 1) {
    if (link->epoch ==
        0) /* after a loss, frames that were lost or late are sent again, and others with them */
      lose(pump, "it sent part %u of message %llu again", frame->part,
           (unsigned long long)sequence);
    return;
  }
  if (frame->kind == DF_FRAME_LENT) ring->wanted = DF_MAX(ring->wanted, sequence);
  port->target = link;
  port->sequence = sequence;
  port->there = df_link_payload(&ring->end, sequence) + from;
  df_pump_notify_watch(pump, DF_WATCH_COMES, link, frame->block, sequence, bytes);
}

/* After a loss a message may have arrived through one port while it still waits in another one,
 * where it is not needed any more. Its slot is about to belong to the block again. */
static void disown_slots(df_pump *pump, const df_pump_link *link, const df_pump_ring *ring,
                         uint64_t credit) {
  const uint64_t slots = ring->end.slot_mask + 1;
  if (link->epoch == 0 || !ring->has_messages) return;
  for (uint64_t n = DF_MIN(credit - ring->credit, slots); n > 0; n--)
    for (uint32_t i = DF_PUMP_BULK; i < pump->n_ports; i++)
      df_channel_disown_at(&pump->ports[i].channel, df_link_slot(&ring->end, credit + 1 - n),
                           ring->end.stride);
}

/* A credit is valid only for messages that were sent, or that are empty. */
static void take_credit(df_pump *pump, df_pump_link *link, const df_frame *frame) {
  df_pump_ring *ring = &link->rings[frame->block];
  const uint64_t credit = df_pump_whole(ring->credit, frame->sequence);
  if (link->incoming || frame->bytes || credit < ring->credit || credit > DF_SEQUENCE_MASK ||
      (ring->has_messages && credit >= ring->most)) {
    lose(pump, "it gave credit for message %llu, which was not sent", (unsigned long long)credit);
    return;
  }
  if (credit == ring->credit) return;
  disown_slots(pump, link, ring, credit);
  ring->credit = credit;
  /* The message arrived late, through another port than the lost one, and need not be sent
   * again. */
  if (ring->has_messages && credit >= ring->next) df_pump_pass_to(link, ring, credit);
  df_pump_notify_watch(pump, DF_WATCH_SENT, link, frame->block, credit, 0);
  df_link_release(&ring->end, credit);
  note_bell(pump, ring->end.peer_bell);
}

/* Continues sending from the reported position. A repeated answer is ignored. */
static void take_state(df_pump *pump, df_pump_link *link, const df_frame *frame) {
  df_pump_ring *ring = &link->rings[frame->block];
  const uint64_t next = df_pump_whole(ring->next, frame->sequence);
  if (link->incoming || next > ring->most + ring->end.slot_mask + 1) {
    lose(pump, "it is at message %llu, which was not sent", (unsigned long long)next);
    return;
  }
  if (!ring->is_halted || frame->part != link->epoch || next <= ring->credit) return;
  ring->next = next;
  ring->has_count = 0;
  const uint32_t bytes = df_pump_message_bytes(link, ring, next);
  ring->at = frame->bytes < DF_DIV_UP(bytes, link->part_bytes) ? frame->bytes : 0;
  ring->is_halted = 0;
  for (uint32_t i = 0; i < pump->n_ports;
       i++) /* frames that are sent from here on follow the question */
    pump->ports[i].asked = pump->ports[i].has_arrived = 0;
}

/* Handles frames that belong to the ranks, not to a link. */
static void take_shutdown(df_pump *pump, df_pump_port *port, const df_frame *frame) {
  if (frame->bytes || (frame->kind == DF_FRAME_ANSWER && frame->part >= pump->n_ports)) {
    lose(pump, "it sent a malformed frame");
    return;
  }
  if (frame->kind == DF_FRAME_LEAVES) pump->remote_leaves = 1;
  if (frame->kind == DF_FRAME_ASK) {
    port->question = frame->sequence;
    pump->has_question = 1;
  }
  if (frame->kind != DF_FRAME_ANSWER) return;
  df_pump_port *asker = &pump->ports[frame->part];
  /* An answer to an earlier question is ignored. */
  if (asker->asked && asker->asked == frame->sequence) asker->has_arrived = 1;
}

/* Returns 1 for a frame of a varying link whose connection was considered lost: its messages are
 * sent again through another connection. */
static int is_late(const df_pump *pump, const df_pump_port *port, const df_pump_link *link,
                   const df_frame *frame) {
  const int is_message =
      frame->kind == DF_FRAME_DATA || frame->kind == DF_FRAME_LENT || frame->kind == DF_FRAME_COUNT;
  return is_message && link->varying && link->incoming && link->epoch != 0 &&
         link->port != (uint32_t)(port - pump->ports);
}

static void take_frame(df_pump *pump, df_pump_port *port, const df_frame *frame) {
  const int has_payload = frame->kind != DF_FRAME_COUNT && frame->kind != DF_FRAME_STATE;
  port->rest = has_payload ? frame->bytes : 0;
  port->target = NULL;
  if (frame->kind >= DF_FRAME_LEAVES && frame->kind < DF_FRAME_BEYOND) {
    take_shutdown(pump, port, frame);
    return;
  }
  int is_known;
  df_pump_link *link = df_pump_links_find(&pump->links, frame->link, &is_known);
  if (frame->kind < DF_FRAME_OPEN || frame->kind >= DF_FRAME_LEAVES || !is_known ||
      port->rest > pump->frame_bytes) {
    lose(pump, "it sent a malformed frame");
    return;
  }
  if (link == NULL || is_late(pump, port, link, frame)) return; /* the payload is discarded */
  if (frame->block >= link->n_blocks) {
    lose(pump, "it sent a frame for a block that the link does not have");
    return;
  }
  if (frame->kind == DF_FRAME_OPEN) take_open(pump, port, link, frame);
  if (frame->kind == DF_FRAME_DATA || frame->kind == DF_FRAME_LENT)
    take_data(pump, port, link, frame);
  if (frame->kind == DF_FRAME_COUNT) take_count(pump, link, frame);
  if (frame->kind == DF_FRAME_CREDIT) take_credit(pump, link, frame);
  if (frame->kind == DF_FRAME_STATE) take_state(pump, link, frame);
}

static uint64_t all_parts(const df_pump_link *link, const df_pump_ring *ring, uint64_t sequence) {
  const uint32_t bytes = df_pump_message_bytes(link, ring, sequence);
  return UINT64_MAX >> (DF_PUMP_PARTS - DF_DIV_UP(bytes, link->part_bytes));
}

/* The last part of a message may be in transit twice. The slot may soon belong to another
 * message. */
static void drop_duplicates(df_pump *pump, const df_pump_port *from) {
  for (uint32_t i = 0; i < pump->n_ports; i++) {
    df_pump_port *port = &pump->ports[i];
    if (port != from && port->target == from->target && port->frame.block == from->frame.block &&
        port->sequence == from->sequence)
      port->target = NULL;
  }
}

/* Messages that arrive out of order are published as soon as they are complete. */
static void finish_part(df_pump *pump, const df_pump_port *port) {
  df_pump_link *link = port->target;
  df_pump_ring *ring = &link->rings[port->frame.block];
  uint64_t *have = &ring->have[port->sequence & ring->end.slot_mask];
  *have |= 1ull << port->frame.part;
  if (*have != all_parts(link, ring, port->sequence)) return;
  drop_duplicates(pump, port);
  publish(pump, link, port->frame.block, port->sequence);
  do {
    have = &ring->have[ring->next & ring->end.slot_mask];
    if (*have != all_parts(link, ring, ring->next)) return;
    *have = 0;
    df_pump_pass(link, ring);
  } while (!link->varying);
}

static uint32_t receive_payload(df_pump *pump, df_pump_port *port) {
  const uint32_t came =
      df_channel_read(&port->channel, port->target ? port->there : NULL, port->rest);
  port->rest -= came;
  if (port->target == NULL) return came;
  port->there += came;
  if (port->rest == 0) {
    finish_part(pump, port);
    port->target = NULL;
  }
  return came;
}

int df_pump_receive(df_pump *pump, uint32_t which) {
  df_pump_port *port = &pump->ports[which];
  df_channel *channel = &port->channel;
  const uint64_t most = (uint64_t)DF_PUMP_BUDGET * DF_CHANNEL_GATHERED * pump->frame_bytes;
  const uint64_t before = channel->bytes_received;
  uint64_t came = 0;
  if (channel->stream == NULL || pump->is_lost) return 0;
  channel->has_more = 1;
  while (came < most && !pump->is_lost) {
    if (port->rest) {
      const uint32_t now = receive_payload(pump, port);
      if (now == 0) break;
      came += now;
    } else {
      if (!df_channel_read_frame(channel, &port->frame)) break;
      take_frame(pump, port, &port->frame);
      came += sizeof(df_frame);
    }
  }
  if (channel->bytes_received != before)
    df_channel_acknowledge(channel); /* parts of a header count, too */
  if (channel->has_ended) port->why = channel->stream->reason(channel->stream);
  return came != 0;
}
