#include "transports/net/pump/pump.h"

/* ---- ports come and go ---- */

/* Any port of large messages may carry any of them, unless they must arrive in order. */
static int is_for(const df_pump *pump, const df_pump_link *link, uint32_t which) {
  if (which == DF_PUMP_SMALL) return !link->is_bulk || pump->n_ports == 1;
  return link->is_bulk && (!link->varying || !link->is_open || link->port == which);
}

static int is_connected(const df_pump *pump, uint32_t which) {
  const df_channel *channel = &pump->ports[which].channel;
  return channel->stream != NULL && !channel->is_quiesced;
}

/* After a loss the sender asks which messages have arrived, with OPEN through a connected port. The
 * receiver answers with STATE and its credits through the port of small messages, and answers again
 * if that port was lost. */
static void halt(const df_pump *pump, df_pump_link *link, uint32_t lost) {
  if (link->incoming) {
    for (uint32_t b = 0; b < link->n_blocks && lost == DF_PUMP_SMALL; b++)
      link->rings[b].state_is_due = link->is_open;
    return;
  }
  if (!is_for(pump, link, lost)) return;
  for (uint32_t b = 0; b < link->n_blocks; b++)
    link->rings[b].is_halted = link->rings[b].has_messages;
  link->is_open = 0;
  link->epoch = link->epoch == UINT16_MAX ? 1 : (uint16_t)(link->epoch + 1);
}

void df_pump_detach(df_pump *pump, uint32_t which) {
  df_pump_port *port = &pump->ports[which];
  if (port->channel.stream == NULL) return;
  df_channel_attach(&port->channel, NULL);
  port->rest = 0;
  port->target = NULL;
  port->why = NULL;
  port->question = port->answered = 0;
  /* Answers go through the port of small messages, and may be lost with it. */
  for (uint32_t i = 0; i < pump->n_ports && which == DF_PUMP_SMALL; i++) {
    df_pump_port *asked = &pump->ports[i];
    if (asked->answered && !asked->question) asked->question = asked->answered;
    pump->has_question |= asked->question != 0;
  }
  /* Frames that a port of large messages has lost are sent again through the others. */
  for (uint32_t i = 0; i < pump->n_ports; i++)
    if (i != DF_PUMP_SMALL || which == DF_PUMP_SMALL)
      pump->ports[i].asked = pump->ports[i].has_arrived = 0;
  for (uint32_t i = 0; i < pump->links.n; i++)
    if (pump->links.links[i]) halt(pump, pump->links.links[i], which);
}

void df_pump_attach(df_pump *pump, uint32_t port, df_stream *stream) {
  DF_ASSERT(port < pump->n_ports);
  df_pump_detach(pump, port);
  df_channel_attach(&pump->ports[port].channel, stream);
}

/* ---- outgoing ---- */

static int has_sendable(const df_pump_link *link, df_pump_ring *ring, int *is_direct) {
  if (!ring->has_messages || ring->is_halted) return 0;
  if (ring->next > ring->credit + link->remote_slots) return 0; /* no remote slot is free for it */
  return df_link_has_message(&ring->end, ring->next, is_direct) &&
         !(*is_direct && df_link_is_revoked(&ring->end));
}

static void put_count(df_channel *channel, const df_pump_link *link, uint32_t block,
                      uint64_t count) {
  const df_frame frame = {.link = link->remote_id,
                          .kind = DF_FRAME_COUNT,
                          .block = (uint8_t)block,
                          .bytes = (uint32_t)(count >> 32),
                          .sequence = (uint32_t)count};
  df_channel_put_word(channel, &frame);
}

static void send_count(df_channel *channel, df_pump_link *link, uint32_t block) {
  df_pump_ring *ring = &link->rings[block];
  const uint64_t count = *df_pump_count_of(ring);
  put_count(channel, link, block, count);
  df_pump_take_up_run(link, ring, count);
  if (df_pump_message_bytes(link, ring, ring->next) == 0) df_pump_pass(link, ring);
}

/* Puts a frame of the next message of the ring. Returns 0 if there is none. */
static int send_part(const df_pump *pump, df_channel *channel, df_pump_link *link, uint32_t block) {
  df_pump_ring *ring = &link->rings[block];
  int is_direct = 0;
  if (!has_sendable(link, ring, &is_direct)) return 0;
  if (df_pump_brings_count(link, ring, ring->next) && !ring->has_count) {
    send_count(channel, link, block);
    return 1;
  }
  if (is_direct && !df_link_borrow(&ring->end)) return 0;
  const uint32_t bytes = df_pump_message_bytes(link, ring, ring->next);
  if (ring->at * link->part_bytes >= bytes)
    ring->at = 0; /* the parts of a run whose count was not available */
  const uint32_t from = ring->at * link->part_bytes;
  if (from == 0) df_pump_notify_watch(pump, DF_WATCH_SENDS, link, block, ring->next, bytes);
  const df_frame frame = {.link = link->remote_id,
                          .kind = is_direct ? DF_FRAME_LENT : DF_FRAME_DATA,
                          .block = (uint8_t)block,
                          .part = (uint16_t)ring->at,
                          .bytes = DF_MIN(bytes - from, link->part_bytes),
                          .sequence = (uint32_t)ring->next};
  if (is_direct) {
    const uint8_t *slot = df_link_slot(&ring->end, ring->next);
    const uint8_t *lent = *(const uint8_t *const *)(slot + DF_LINK_FLAGGED_OFFSET);
    df_channel_put_lent(channel, &frame, lent + from);
    df_channel_write(channel);
    /* The owner of the buffer is in this process and does not revoke a buffer that is being
     * read. */
    DF_ASSERT(df_link_return(&ring->end));
  } else {
    df_channel_put(channel, &frame, df_link_payload(&ring->end, ring->next) + from, link);
  }
  ring->at++;
  if (from + frame.bytes == bytes) df_pump_pass(link, ring);
  return 1;
}

static void send_word(df_channel *channel, const df_pump_link *link, df_frame_kind kind,
                      uint32_t block, uint64_t sequence) {
  const df_frame frame = {.link = link->remote_id,
                          .kind = (uint8_t)kind,
                          .block = (uint8_t)block,
                          .part = kind == DF_FRAME_CREDIT ? 0 : link->epoch,
                          .sequence = (uint32_t)sequence};
  df_channel_put_word(channel, &frame);
}

typedef enum { NO_CREDIT, LOOSE_CREDIT, DUE_CREDIT } credit_state;

/* Loose: the remote end has slots left, so the credit may wait for other frames. */
static credit_state look_at_credit(const df_pump_ring *ring) {
  const uint64_t credit = df_observe_u64(ring->end.credit), announced = ring->credit;
  if (credit == announced) return NO_CREDIT;
  /* A run that has lent its buffer to one peer waits for the credits of all its receivers, but
   * sends LENT only to that one. */
  const int is_wanted = ring->may_lend || (ring->wanted > announced && ring->wanted <= credit);
  return is_wanted || credit - announced >= ring->due ? DUE_CREDIT : LOOSE_CREDIT;
}

static void send_credit(df_channel *channel, df_pump_link *link, uint32_t block) {
  enum { FARTHEST = 1 << 30 }; /* a frame has the low half of the number */
  df_pump_ring *ring = &link->rings[block];
  /* Observes the release by the block: its reads of a slot precede the bytes that arrive for this
   * credit. */
  ring->credit = DF_MIN(df_observe_u64(ring->end.credit), ring->credit + FARTHEST);
  send_word(channel, link, DF_FRAME_CREDIT, block, ring->credit);
}

/* Sends the complete state of a ring after a loss: count, position and credit. */
static void send_state(df_channel *channel, df_pump_link *link, uint32_t block) {
  df_pump_ring *ring = &link->rings[block];
  ring->state_is_due = 0;
  if (link->varying) put_count(channel, link, block, ring->run.elements);
  const uint64_t have = ring->have[ring->next & ring->end.slot_mask];
  const df_frame frame = {.link = link->remote_id,
                          .kind = DF_FRAME_STATE,
                          .block = (uint8_t)block,
                          .part = link->epoch,
                          .bytes = (uint32_t)__builtin_ctzll(~have),
                          .sequence = (uint32_t)ring->next};
  df_channel_put_word(channel, &frame);
  send_credit(channel, link, block);
}

/* Sends credits and states. Returns 1 when it left a loose credit. */
static int send_credits(df_channel *channel, df_pump_link *link, int with_loose) {
  int left = 0;
  if (!link->incoming || !link->is_open) return 0;
  for (uint32_t block = 0; block < link->n_blocks && df_channel_has_room(channel); block++) {
    df_pump_ring *ring = &link->rings[block];
    if (ring->state_is_due) {
      send_state(channel, link, block);
      continue;
    }
    const credit_state state = look_at_credit(ring);
    if (state == DUE_CREDIT || (state == LOOSE_CREDIT && with_loose))
      send_credit(channel, link, block);
    else
      left |= state == LOOSE_CREDIT;
  }
  return left;
}

static void put_shutdown(df_channel *channel, df_frame_kind kind, uint32_t port, uint32_t number) {
  const df_frame frame = {.kind = (uint8_t)kind, .part = (uint16_t)port, .sequence = number};
  df_channel_put_word(channel, &frame);
}

/* A ring that is halted does not count, because the answer to a question covers it. */
static int is_pending(df_pump_link *link) {
  if (!link->incoming && !link->is_open) return 1;
  for (uint32_t block = 0; block < link->n_blocks; block++) {
    df_pump_ring *ring = &link->rings[block];
    int is_direct;
    if (link->incoming ? link->is_open && (ring->state_is_due || look_at_credit(ring) == DUE_CREDIT)
                       : has_sendable(link, ring, &is_direct))
      return 1;
  }
  return 0;
}

static int has_pending_links(const df_pump *pump) {
  for (uint32_t i = 0; i < pump->links.n; i++)
    if (pump->links.links[i] && is_pending(pump->links.links[i])) return 1;
  return 0;
}

static int another_is_connected(const df_pump *pump, uint32_t which) {
  for (uint32_t i = DF_PUMP_BULK; i < pump->n_ports; i++)
    if (i != which && is_connected(pump, i)) return 1;
  return 0;
}

/* Returns 1 if the remote end may lack something that was sent through the port. Bytes of a lost
 * port are sent again through another port, which is asked instead. A port that accepts nothing
 * more may still have to be found lost. */
static int is_in_doubt(const df_pump *pump, uint32_t which) {
  if (pump->ports[which].has_arrived) return 0;
  if (which == DF_PUMP_SMALL) return 1; /* credits may be missing */
  if (pump->ports[which].channel.stream == NULL && another_is_connected(pump, which)) return 0;
  for (uint32_t i = 0; i < pump->links.n; i++) {
    const df_pump_link *link = pump->links.links[i];
    if (link && !link->incoming && is_for(pump, link, which)) return 1;
  }
  return 0;
}

/* Answers follow all states, because the asker treats links without a state as released. */
static void answer(df_pump *pump) {
  for (uint32_t i = 0; i < pump->links.n; i++) {
    const df_pump_link *link = pump->links.links[i];
    for (uint32_t b = 0; link && link->incoming && link->is_open && b < link->n_blocks; b++)
      if (link->rings[b].state_is_due) return;
  }
  for (uint32_t i = 0; i < pump->n_ports; i++) {
    df_pump_port *asked = &pump->ports[i];
    if (asked->question == 0) continue;
    put_shutdown(&pump->ports[DF_PUMP_SMALL].channel, DF_FRAME_ANSWER, i, asked->question);
    asked->answered = asked->question;
    asked->question = 0;
  }
  pump->has_question = 0;
}

static void gather_shutdown(df_pump *pump, uint32_t which) {
  df_pump_port *port = &pump->ports[which];
  int may_leave = which == DF_PUMP_SMALL;
  if (pump->has_question && which == DF_PUMP_SMALL) answer(pump);
  if (pump->says_leave != 1) return;
  for (uint32_t i = 0; i < pump->n_ports; i++) may_leave &= !is_in_doubt(pump, i);
  if (may_leave) {
    put_shutdown(&port->channel, DF_FRAME_LEAVES, 0, 0);
    pump->says_leave = 2;
  } else if (is_in_doubt(pump, which) && !port->asked && !has_pending_links(pump)) {
    port->asked = ++pump->asks;
    put_shutdown(&port->channel, DF_FRAME_ASK, which, port->asked);
  }
}

/* Gathers one frame for each block and round, so that no link waits for the many messages of
 * another one. Returns the number of frames; lent ones were written at once. */
static uint32_t gather(df_pump *pump, uint32_t which) {
  df_channel *channel = &pump->ports[which].channel;
  const uint32_t n = pump->links.n;
  uint32_t gathered = 0;
  int left = 0;
  if (pump->says_leave || pump->has_question) gather_shutdown(pump, which);
  for (uint32_t idle = 0; idle < n && df_channel_has_room(channel); idle++) {
    df_pump_link *link = pump->links.links[pump->turn % n];
    pump->turn = (pump->turn + 1) % n;
    if (link == NULL) continue;
    const uint32_t before = channel->n_frames;
    if (which == DF_PUMP_SMALL) left |= send_credits(channel, link, 0);
    const int is_here = !link->incoming && is_for(pump, link, which) &&
                        (link->varying || which == DF_PUMP_SMALL || which == pump->quickest);
    if (is_here && !link->is_open) {
      send_word(channel, link, DF_FRAME_OPEN, 0, link->id);
      link->is_open = 1;
      link->port = which;
    }
    uint32_t now = channel->n_frames - before;
    if (is_here)
      for (uint32_t block = 0; block < link->n_blocks && df_channel_has_room(channel); block++)
        now += (uint32_t)send_part(pump, channel, link, block);
    if (now) idle = 0;
    gathered += now;
  }
  if (!left || channel->n_frames == 0) return gathered;
  for (uint32_t i = 0; i < n && df_channel_has_room(channel); i++)
    if (pump->links.links[i]) send_credits(channel, pump->links.links[i], 1);
  return gathered;
}

/* Gathers frames if nothing waits for the stream, and writes. Returns 0 when it can do no more. */
static int send_once(df_pump *pump, uint32_t which, int *did) {
  df_channel *channel = &pump->ports[which].channel;
  if (!is_connected(pump, which)) return 0;
  if (which == DF_PUMP_SMALL && df_channel_is_clear(channel)) df_channel_begin(channel);
  const uint32_t gathered = df_channel_is_clear(channel) ? gather(pump, which) : 0;
  if (gathered == 0 && df_channel_is_clear(channel)) return 0;
  *did |= df_channel_write(channel) || (gathered && df_channel_is_clear(channel));
  return df_channel_is_clear(channel);
}

static int send_through(df_pump *pump, uint32_t which) {
  int did = 0;
  for (uint32_t i = 0; send_once(pump, which, &did); i++) {
    if (i + 1 < DF_PUMP_BUDGET) continue;
    pump->stopped_early = 1;
    break;
  }
  return did;
}

static df_rate_estimate rate_estimate_of(df_channel *channel) {
  df_stream *stream = channel->stream;
  df_rate_estimate rate_estimate = {.queued = 0};
  if (stream->rate_estimate) rate_estimate = stream->rate_estimate(stream);
  const uint64_t sent = channel->bytes_sent - channel->sent_before;
  if (sent > rate_estimate.queued)
    channel->delivered = DF_MAX(channel->delivered, sent - rate_estimate.queued);
  rate_estimate.queued += df_channel_waiting(channel);
  return rate_estimate;
}

int df_pump_has_delivered(df_pump *pump, uint32_t which) {
#if defined(DF_SIMULATION)
  enum { SMALL_PACKET = 0 };
#else
  enum { SMALL_PACKET = 2048 };
#endif
  df_channel *channel = &pump->ports[which].channel;
  if (channel->stream == NULL || channel->stream->rate_estimate == NULL)
    return 1; /* the stream cannot measure it */
  rate_estimate_of(channel);
  return channel->delivered > SMALL_PACKET ||
         channel->bytes_received - channel->received_before > SMALL_PACKET;
}

/* Returns the time in ns in which a further frame is expected to arrive if it goes through the
 * port. A write should last 250 us at most. */
static uint64_t expect_ns(df_pump *pump, uint32_t which) {
  enum { UNKNOWN_RATE = 1000000000, WRITES_A_SECOND = 4000 };
  df_channel *channel = &pump->ports[which].channel;
  const df_rate_estimate rate_estimate = rate_estimate_of(channel);
  const uint64_t rate = rate_estimate.rate ? DF_MAX(rate_estimate.rate, 1000000u) : UNKNOWN_RATE;
  const uint64_t known = rate_estimate.is_doubted ? 0 : rate_estimate.rate;
  const uint64_t frames = known / WRITES_A_SECOND / pump->frame_bytes;
  channel->batch = (uint32_t)DF_MIN(DF_MAX(frames, 1u), (uint64_t)DF_CHANNEL_GATHERED);
  return (rate_estimate.queued + pump->frame_bytes) * 1000 / (rate / 1000000);
}

/* Finds the port with the earliest expected arrival. That port may accept nothing at the moment:
 * waiting for a fast rail is better than giving a slow one more than its share. A rail is left for
 * another one only if that saves 50 us, because changing ports costs system calls. */
static uint32_t find_quickest(df_pump *pump) {
  enum { WORTH_NS = 50000 };
  uint32_t best = pump->quickest;
  uint64_t least = is_connected(pump, best) ? expect_ns(pump, best) : UINT64_MAX;
  for (uint32_t i = DF_PUMP_BULK; i < pump->n_ports; i++) {
    if (i == pump->quickest || !is_connected(pump, i)) continue;
    const uint64_t ns = expect_ns(pump, i);
    if (least != UINT64_MAX && ns + WORTH_NS >= least) continue;
    least = ns;
    best = i;
  }
  return best;
}

/* Compares the ports, but not for each frame of a fast rail, because a comparison costs a system
 * call for each port. */
static void compare(df_pump *pump) {
  const df_channel *channel = &pump->ports[pump->quickest].channel;
  if (is_connected(pump, pump->quickest) && df_channel_is_clear(channel) &&
      channel->bytes_sent < pump->quickest_sent)
    return;
  pump->quickest = find_quickest(pump);
  channel = &pump->ports[pump->quickest].channel;
  pump->quickest_sent = channel->bytes_sent + (uint64_t)channel->batch * pump->frame_bytes;
}

/* Returns 1 if something has to be sent, or asked, through the ports of large messages. */
static int has_bulk(df_pump *pump) {
  if (pump->says_leave || pump->has_question) return 1;
  for (uint32_t i = DF_PUMP_BULK; i < pump->n_ports; i++)
    if (is_connected(pump, i) && !df_channel_is_clear(&pump->ports[i].channel)) return 1;
  for (uint32_t i = 0; i < pump->links.n; i++) {
    df_pump_link *link = pump->links.links[i];
    if (link && link->is_bulk && !link->incoming && is_pending(link)) return 1;
  }
  return 0;
}

static int send_over_paths(df_pump *pump) {
  int did = 0;
  for (uint32_t rounds = 0; has_bulk(pump); rounds++) {
    int goes_on = 0;
    if (rounds == DF_PUMP_BUDGET * pump->n_ports) {
      pump->stopped_early = 1;
      break;
    }
    compare(pump);
    for (uint32_t i = DF_PUMP_BULK; i < pump->n_ports; i++) goes_on |= send_once(pump, i, &did);
    if (!goes_on) break;
  }
  return did;
}

int df_pump_send(df_pump *pump) {
  int did = 0;
  uint32_t n_bulk = 0, only = 0;
  pump->stopped_early = 0;
  if (pump->is_lost) return 0;
  did |= send_through(pump, DF_PUMP_SMALL);
  for (uint32_t i = DF_PUMP_BULK; i < pump->n_ports; i++) {
    if (!is_connected(pump, i)) continue;
    only = i;
    n_bulk++;
  }
  if (n_bulk > 1) return did | send_over_paths(pump);
  if (n_bulk == 0) return did;
  pump->quickest = only;
  pump->ports[only].channel.batch = DF_CHANNEL_GATHERED;
  did |= send_through(pump, only);
  return did;
}

/* ---- both ---- */

int df_pump_has_pending(df_pump *pump) {
  if (pump->is_lost || pump->remote_leaves) return 0;
  for (uint32_t i = 0; i < pump->n_ports; i++) {
    const df_channel *channel = &pump->ports[i].channel;
    if (channel->stream && !df_channel_is_clear(channel)) return 1;
  }
  return has_pending_links(pump) || pump->has_question || pump->says_leave == 1;
}

void df_pump_leave(df_pump *pump) {
  if (pump->says_leave == 0) pump->says_leave = 1;
}
