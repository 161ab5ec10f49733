#include "synthesis/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "synthesis/event_queue.h"
#include "plans/msccl/file.h"
#include "primitives/prepared.h"
#include "synthesis/bounds.h"

enum {
  ELEMENT = 4, /* bytes */
  EVENTS_OF_PROGRESS = 1024,
  PRIMITIVES_MOST = 1 << 27 /* primitives of all ranks in one collective */
};

/* Kinds of event, in an event's low bits. */
typedef enum { EVENT_END, EVENT_START, EVENT_WAKE } event_kind;

/* A moment, and how it came about. */
typedef struct moment {
  double at;
  df_timeline_path path;
} moment;

/* From one rank to another, in one block. Entry k of a ring is message k modulo its size. */
typedef struct connection {
  uint32_t from, to, channel;
  uint32_t sender, receiver;        /* players */
  uint32_t size;                    /* size of the rings; as many slots as can matter */
  uint64_t sent, arrived, received; /* numbers of messages; the one on the wire is `arrived` */
  uint32_t *bytes;
  moment *sending;  /* when the sender gave it to the connection */
  moment *arrival;  /* when it was whole at the receiver */
  moment *released; /* when the sender knew that the slot was free again */
  moment began;     /* the message on the wire */
  moment free;      /* when the wire became free */
  double latency;
  int is_busy;
} connection;

typedef enum { RANK_READY, RANK_WORKING, RANK_ENDED } rank_state;

/* One block of a rank. Player b n + r is block b of rank r. */
typedef struct player {
  df_plan *plan;
  df_part part;
  connection **links; /* [n_links], links of the plan */
  uint32_t loop, primitive;
  rank_state state;
  moment ready;              /* the end of the primitive before; while working: of this one */
  const connection *awaited; /* the message, or the slot, that it waits for; NULL: none */
  int awaits_slot;
  double waits_since;
} player;

typedef struct timeline {
  const df_timeline_question *question;
  const df_timeline_events *events;
  df_timeline_answer *answer;
  const df_network *network;
  df_flows flows;
  df_event_queue queue;
  uint32_t slots; /* as asked for, or more if a file needs them */
  player *players;
  uint32_t n_players;
  connection *connections;
  uint32_t n_connections, n_ended;
  uint64_t n_primitives, n_executed; /* by all ranks together */
  uint8_t *rings;                    /* rings of all connections */
  double now;
} timeline;

static void wake(timeline *t, uint32_t number, double at) {
  df_event_add(&t->queue, at, (uint64_t)number << 2 | EVENT_WAKE);
}

/* ---- the wire */

static void start_sending(timeline *t, connection *c) {
  const uint64_t k = c->arrived % c->size;
  const uint32_t number = (uint32_t)(c - t->connections);
  const moment *given = &c->sending[k];
  c->began = given->at >= c->free.at ? *given : c->free;
  c->began.at = t->now;
  c->is_busy = 1;
  if (t->network->overhead > 0) {
    df_event_add(&t->queue, t->now + t->network->overhead, (uint64_t)number << 2 | EVENT_START);
    return;
  }
  df_flows_begin(&t->flows, number, c->bytes[k], t->now);
}

static void send_message(timeline *t, connection *c, uint32_t bytes, const moment *from) {
  const uint64_t k = c->sent++ % c->size;
  c->bytes[k] = bytes;
  c->sending[k] = *from;
  t->answer->messages++;
  t->answer->bytes_moved += bytes;
  if (!c->is_busy) start_sending(t, c);
}

static void end_message(timeline *t, connection *c) {
  const uint64_t k = c->arrived % c->size;
  moment end = {t->now, c->began.path};
  end.path.transfer += t->now - c->began.at;
  end.path.messages++;
  c->free = end;
  c->is_busy = 0;
  end.at += c->latency;
  end.path.latency += c->latency;
  c->arrival[k] = end;
  c->arrived++;
  if (t->events)
    t->events->message(t->events->user, c->from, c->to, c->bytes[k], c->began.at, end.at);
  const player *receiver = &t->players[c->receiver];
  if (receiver->awaited == c && !receiver->awaits_slot && c->arrived == c->received + 1)
    wake(t, c->receiver, end.at);
  if (c->arrived < c->sent) start_sending(t, c);
}

/* ---- a rank */

static void release_slot(timeline *t, connection *c, const moment *when) {
  moment known = *when;
  known.at += c->latency;
  known.path.credit += c->latency;
  c->released[c->received++ % c->size] = known;
  player *sender = &t->players[c->sender];
  if (sender->awaited == c && sender->awaits_slot) wake(t, c->sender, known.at);
}

static void wait_for(timeline *t, player *p, const connection *c, int for_a_slot, double at) {
  if (p->awaited == NULL) p->waits_since = t->now;
  p->awaited = c;
  p->awaits_slot = for_a_slot;
  if (at > 0) wake(t, (uint32_t)(p - t->players), at); /* it is known when it ends */
}

/* The later of the two; on a tie the rank's own moment, since it waited for nothing. */
static void not_before(moment *start, const moment *other) {
  if (other->at > start->at) *start = *other;
}

/* 1: the primitive may begin at *start, which is now. */
static int may_begin(timeline *t, player *p, connection *in, connection *out, moment *start) {
  *start = p->ready;
  if (in) {
    if (in->arrived == in->received) return wait_for(t, p, in, 0, 0), 0;
    const moment *arrival = &in->arrival[in->received % in->size];
    if (arrival->at > t->now) return wait_for(t, p, in, 0, arrival->at), 0;
    not_before(start, arrival);
  }
  if (out && out->sent >= t->slots) {
    const uint64_t before = out->sent - t->slots;
    if (out->received <= before) return wait_for(t, p, out, 1, 0), 0;
    const moment *free = &out->released[before % out->size];
    if (free->at > t->now) return wait_for(t, p, out, 1, free->at), 0;
    not_before(start, free);
  }
  return 1;
}

static void report_wait(const timeline *t, const player *p) {
  if (!t->events || p->awaited == NULL || t->now == p->waits_since) return;
  const uint32_t rank = (uint32_t)(p - t->players) % t->network->ranks;
  t->events->wait(t->events->user, rank, p->awaits_slot ? p->awaited->to : p->awaited->from,
                  p->awaits_slot, p->waits_since, t->now);
}

static double work_of(const df_network *m, const df_primitive *prim, uint64_t bytes) {
  const int copies = (prim->flags & DF_PRIM_STORE) && !(prim->flags & DF_PRIM_REDUCE);
  const double rate = prim->flags & DF_PRIM_REDUCE ? m->reduce_rate : copies ? m->copy_rate : 0;
  return rate > 0 ? (double)bytes / rate : 0;
}

static void next_primitive(timeline *t, player *p) {
  t->n_executed++;
  if (++p->primitive < p->plan->n_primitives) return;
  p->primitive = 0;
  if (++p->loop < p->part.loops) return;
  p->state = RANK_ENDED;
  t->n_ended++;
}

static uint64_t bytes_of(const player *p, const df_primitive *prim) {
  return (uint64_t)ELEMENT * df_message_elements((uint8_t)p->plan->geometry, p->plan->pieces,
                                                 &p->part, p->loop, prim->piece, prim->pieces,
                                                 prim->stride);
}

static void end_primitive(timeline *t, player *p, connection *in, connection *out, uint64_t bytes) {
  p->state = RANK_READY;
  if (in) release_slot(t, in, &p->ready);
  if (out) send_message(t, out, (uint32_t)bytes, &p->ready);
  next_primitive(t, p);
}

/* Executes primitives until the player waits, works or has ended. */
static void play(timeline *t, uint32_t number) {
  player *p = &t->players[number];
  while (p->state != RANK_ENDED) {
    const df_primitive *prim = &p->plan->primitives[p->primitive];
    const uint64_t bytes = bytes_of(p, prim);
    connection *in = prim->flags & DF_PRIM_RECV ? p->links[prim->recv_link] : NULL;
    connection *out = prim->flags & DF_PRIM_SEND ? p->links[prim->send_link] : NULL;
    if (bytes == 0) { /* empty pieces are not sent */
      next_primitive(t, p);
      continue;
    }
    if (p->state == RANK_READY) {
      moment start;
      if (!may_begin(t, p, in, out, &start)) return;
      report_wait(t, p);
      p->awaited = NULL;
      const double work = work_of(t->network, prim, bytes);
      p->ready = start;
      p->ready.at = t->now + work;
      p->ready.path.work += work;
      p->state = RANK_WORKING;
      if (work > 0) wake(t, number, p->ready.at);
    }
    if (t->now < p->ready.at) return;
    end_primitive(t, p, in, out, bytes);
  }
}

/* ---- making it */

/* Creates the levels of hierarchical plans: the hosts of the network. NULL: out of memory. */
static df_levels *make_levels(const df_timeline_question *q, int is_short) {
  const df_network *m = q->network;
  df_levels *levels = df_levels_new(m->ranks, q->split ? 2 : 1);
  if (levels == NULL) return NULL;
  for (uint32_t r = 0; r < m->ranks; r++) {
    df_levels_put(levels, 0, r, m->host[r]);
    if (q->split) df_levels_put(levels, 1, r, m->local[r] / q->split);
  }
  df_levels_finish(levels, q->lanes ? q->lanes : is_short ? 1 : m->ranks);
  return levels;
}

static uint32_t blocks_of(const df_timeline_question *q) { return q->blocks ? q->blocks : 1; }

/* As the library cuts between hosts, without lending. */
static df_cuts cuts_of(const df_timeline_question *q, uint32_t n) {
  return df_plan_cuts(&(df_cut_question){.operation = q->operation,
                                         .algorithm = q->algorithm,
                                         .n = n,
                                         .bytes = q->bytes,
                                         .n_blocks = blocks_of(q),
                                         .slot_bytes = q->slot_bytes,
                                         .lend_min = UINT64_MAX,
                                         .is_far = 1});
}

/* Plans of many ranks take a good part of the time: a tenth of the line is theirs. */
static void show_progress(const timeline *t, uint64_t done, uint64_t all, int is_played) {
  const df_timeline_question *q = t->question;
  if (q->progress) q->progress(q->progress_user, is_played ? all + 9 * done : done, 10 * all);
}

static int make_plans(timeline *t) {
  const df_timeline_question *q = t->question;
  const uint32_t n = t->network->ranks;
  const int wide = df_operation_is_wide(q->operation, 0) || df_operation_is_wide(q->operation, 1);
  const uint64_t count = DF_MAX(q->bytes / ELEMENT / (wide ? n : 1), 1u);
  const df_shape_limits limits = {
      .slot_bytes = q->slot_bytes, .slots = q->slots, .block_min = 1, .max_blocks = blocks_of(q)};
  df_plan_key key = {.operation = q->operation,
                     .algorithm = q->algorithm,
                     .n = n,
                     .root = q->root,
                     .cuts = cuts_of(q, n),
                     .split = q->split ? q->split : t->network->host_ranks[0],
                     .file = q->file,
                     .trees = q->trees};
  df_levels *levels = NULL;
  if (q->algorithm == DF_HIERARCHICAL) {
    levels = make_levels(q, key.cuts.row == DF_ROW_WHOLE);
    if (levels == NULL) return 0;
    key.levels = levels;
  }
  for (uint32_t r = 0; r < n; r++) {
    df_shape shape;
    key.position = r;
    t->players[r].plan = df_plan_make(&key);
    if (t->players[r].plan == NULL) return free(levels), 0;
    df_shape_make(&shape, t->players[r].plan, count, ELEMENT, &limits);
    t->n_players = n * shape.n_blocks; /* the same for all ranks */
    for (uint32_t b = 0; b < shape.n_blocks; b++) {
      t->players[b * n + r].plan = t->players[r].plan;
      t->players[b * n + r].part = shape.parts[b];
      t->n_connections += t->players[r].plan->n_links;
    }
    t->slots = DF_MAX(q->slots, t->players[r].plan->least_slots);
    show_progress(t, r + 1, n, 0);
  }
  t->answer->loops = t->players[0].part.loops;
  free(levels);
  return 1;
}

/* Slots that can be in use at once. */
static uint32_t ring_size(const timeline *t, const player *p, const df_plan_link *link) {
  const uint64_t all = (uint64_t)link->messages * DF_MAX(p->part.loops, 1u);
  return (uint32_t)DF_MIN(all, (uint64_t)t->slots);
}

/* Each connection is made by its sender, whose receiver then finds it. `by_sender` is
 * [channels][n]. */
static int make_connections(timeline *t, connection **by_sender) {
  const uint32_t n = t->network->ranks;
  uint32_t n_made = 0, most = t->n_connections;
  uint64_t entries = 0;
  t->connections = calloc(most + 1u, sizeof *t->connections);
  connection **links = calloc(most + 1u, sizeof(connection *));
  if (t->connections == NULL || links == NULL) return free(links), 0;
  t->players[0].links = links;
  for (uint32_t i = 0; i < t->n_players; i++) {
    player *p = &t->players[i];
    p->links = links;
    links += p->plan->n_links;
    for (uint32_t l = 0; l < p->plan->n_links; l++) {
      const df_plan_link *link = &p->plan->links[l];
      if (!link->sends) continue;
      connection *c = p->links[l] = &t->connections[n_made++];
      *c = (connection){.from = i % n,
                        .to = link->peer,
                        .channel = link->channel,
                        .sender = i,
                        .receiver = i - i % n + link->peer,
                        .size = ring_size(t, p, link)};
      entries += c->size;
    }
  }
  t->n_connections = n_made;
  /* By receiver: a counting sort, so that no rank searches all connections. */
  uint32_t *start = calloc(t->n_players + 2u, sizeof *start);
  connection **sorted = calloc(n_made + 1u, sizeof(connection *));
  t->rings = calloc(entries + 1, sizeof(uint32_t) + 3 * sizeof(moment));
  const int made = start && sorted && t->rings;
  for (uint32_t c = 0; made && c < n_made; c++) start[t->connections[c].receiver + 2]++;
  for (uint32_t i = 0; made && i < t->n_players; i++) start[i + 2] += start[i + 1];
  for (uint32_t c = 0; made && c < n_made; c++)
    sorted[start[t->connections[c].receiver + 1]++] = &t->connections[c];
  for (uint32_t i = 0; made && i < t->n_players; i++) {
    player *p = &t->players[i];
    for (uint32_t c = start[i]; c < start[i + 1]; c++)
      by_sender[sorted[c]->channel * n + sorted[c]->from] = sorted[c];
    for (uint32_t l = 0; l < p->plan->n_links; l++)
      if (!p->plan->links[l].sends)
        p->links[l] = by_sender[p->plan->links[l].channel * n + p->plan->links[l].peer];
  }
  free(start);
  free(sorted);
  return made;
}

static int make_rings(timeline *t) {
  uint8_t *at = t->rings;
  for (uint32_t i = 0; i < t->n_connections; i++) {
    connection *c = &t->connections[i];
    c->sending = (moment *)(void *)at;
    c->arrival = c->sending + c->size;
    c->released = c->arrival + c->size;
    at += 3 * sizeof(moment) * c->size;
  }
  for (uint32_t i = 0; i < t->n_connections; i++) {
    connection *c = &t->connections[i];
    c->bytes = (uint32_t *)(void *)at;
    at += sizeof(uint32_t) * c->size;
  }
  if (df_flows_make(&t->flows, t->network, t->n_connections) != dfcclSuccess) return 0;
  for (uint32_t i = 0; i < t->n_connections; i++) {
    connection *c = &t->connections[i];
    df_flows_connect(&t->flows, t->network, i, c->from, c->to, &c->latency);
  }
  return 1;
}

static dfcclResult_t make(timeline *t) {
  const dfcclResult_t lack = dfcclOutOfMemory;
  t->players = calloc((size_t)t->network->ranks * blocks_of(t->question), sizeof *t->players);
  if (t->players == NULL || !make_plans(t)) return lack;
  for (uint32_t i = 0; i < t->n_players; i++)
    t->n_primitives += (uint64_t)t->players[i].plan->n_primitives * t->players[i].part.loops;
  if (t->n_primitives > PRIMITIVES_MOST)
    return df_fail(
        dfcclInvalidArgument,
        "%s of %llu bytes among %u ranks has %llu primitives, more than %llu: take larger "
        "slots",
        df_algorithm_name(t->question->algorithm), (unsigned long long)t->question->bytes,
        t->network->ranks, (unsigned long long)t->n_primitives,
        (unsigned long long)PRIMITIVES_MOST);
  const uint32_t channels = t->question->file ? df_plan_file_channels(t->question->file) : 1;
  connection **by_sender = calloc((size_t)t->network->ranks * channels, sizeof(connection *));
  const int made = by_sender && make_connections(t, by_sender) && make_rings(t);
  free(by_sender);
  return made ? dfcclSuccess : lack;
}

static void destroy_timeline(timeline *t) {
  df_flows_free(&t->flows);
  df_event_queue_free(&t->queue);
  if (t->players) free(t->players[0].links);
  for (uint32_t r = 0; t->players && r < t->network->ranks; r++) df_plan_free(t->players[r].plan);
  free(t->players);
  free(t->connections);
  free(t->rings);
}

/* ---- playing it */

static void end_changed(void *user, uint32_t flow) {
  timeline *t = user;
  df_event_add(&t->queue, t->flows.flows[flow].end, (uint64_t)flow << 2 | EVENT_END);
}

/* EVENT_END of a flow whose rate has changed since is an event of the past. */
static void end_flow(timeline *t, uint32_t number, double at) {
  const df_flow *flow = &t->flows.flows[number];
  if (!flow->is_under_way || flow->end != at) return;
  df_flows_finish(&t->flows, number, t->now);
  end_message(t, &t->connections[number]);
}

static void handle(timeline *t, const df_event *event) {
  const uint32_t number = (uint32_t)(event->what >> 2);
  const event_kind kind = (event_kind)(event->what & 3);
  if (kind == EVENT_WAKE) {
    play(t, number);
  } else if (kind == EVENT_END) {
    end_flow(t, number, event->at);
  } else {
    const connection *c = &t->connections[number];
    df_flows_begin(&t->flows, number, c->bytes[c->arrived % c->size], t->now);
  }
}

static void conclude(timeline *t) {
  df_timeline_answer *answer = t->answer;
  for (uint32_t i = 0; i < t->n_players; i++) {
    const moment *end = &t->players[i].ready;
    if (end->at < answer->seconds || (end->at == answer->seconds && i > 0)) continue;
    answer->seconds = end->at;
    answer->critical = end->path;
    answer->last_rank = i % t->network->ranks;
  }
  for (uint32_t p = 0; p < t->flows.n_ports; p++) {
    if (t->flows.ports[p].busy <= answer->busiest_seconds) continue;
    answer->busiest = p;
    answer->busiest_seconds = t->flows.ports[p].busy;
    answer->busiest_bytes = (uint64_t)t->flows.ports[p].bytes;
  }
}

int df_timeline_supports(df_operation operation) {
  return operation != DF_OP_SEND_RECV && operation != DF_OP_BARRIER;
}

int df_timeline_has(const df_network *network, df_operation operation, int algorithm) {
  if (algorithm >= DF_ALGORITHMS || !df_algorithm_has(algorithm, operation)) return 0;
  const int by_hosts = algorithm == DF_TWO_LEVEL || algorithm == DF_HIERARCHICAL;
  return !by_hosts || (network->hosts > 1 && network->hosts < network->ranks);
}

dfcclResult_t df_timeline_run(const df_timeline_question *question,
                              const df_timeline_events *events, df_timeline_answer *answer) {
  timeline t = {
      .question = question, .events = events, .answer = answer, .network = question->network};
  *answer = (df_timeline_answer){0};
  answer->bound = df_network_bound(question->network, question->operation, question->bytes);
  uint64_t n_events = 0;
  dfcclResult_t result = make(&t);
  if (result == dfcclOutOfMemory)
    result = df_fail(result, "no memory for the plans of %u ranks", question->network->ranks);
  for (uint32_t i = 0; result == dfcclSuccess && i < t.n_players; i++) play(&t, i);
  while (result == dfcclSuccess && (t.queue.n > 0 || t.flows.n_dirty > 0)) {
    if (t.flows.n_dirty > 0 && (t.queue.n == 0 || t.queue.heap[0].at > t.now)) {
      df_flows_settle(&t.flows, t.now, end_changed, &t);
      continue;
    }
    const df_event event = df_event_take(&t.queue);
    t.now = event.at;
    handle(&t, &event);
    if (++n_events % EVENTS_OF_PROGRESS == 0) show_progress(&t, t.n_executed, t.n_primitives, 1);
    if (t.queue.failed) result = df_fail(dfcclOutOfMemory, "no memory for events");
  }
  if (result == dfcclSuccess && t.n_ended < t.n_players)
    result = df_fail(dfcclInvalidArgument, "%u of %u blocks of ranks wait for ever with %u slots",
                     t.n_players - t.n_ended, t.n_players, question->slots);
  if (result == dfcclSuccess) conclude(&t);
  destroy_timeline(&t);
  return result;
}
