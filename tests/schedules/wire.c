/*
 * TCP between simulated ranks of different processes, in the place of
 * src/transports/net/stream/tcp.c, and under the control channels between ranks of different hosts.
 * An agent of its own carries what was written: in pieces and after delays, as the adversary likes,
 * and sometimes a connection breaks. A stream takes few bytes, so that pumps often find it full.
 */
#include <errno.h>
#include <string.h>

#include "prelude_declarations.h"
#include "sim.h"
#include "transports/net/stream/tcp.h"
#include "world.h"

enum { BREAKS = 2, BREAKS_ONE_IN = 40, REST_WAITS_ONE_IN = 8, REST_WAITS_MOST = 2000 };
enum { TUBE_BYTES = 80, MAX_PORTS = 4, MAX_STREAMS = 160, FIRST_PORT = 1000 };

/* One direction of a connection: bytes from `read` to `arrived` can be read, those behind it up to
 * `written` are under way. Numbers of bytes, not places. */
typedef struct tube {
  uint8_t bytes[TUBE_BYTES];
  uint64_t read, arrived, written;
  int is_ended; /* nobody writes any more */
  /* Bytes that have not arrived are lost, and so are those that a writer is about to add. */
  int is_broken;
} tube;

typedef struct end {
  df_tcp_stream tcp; /* the end of the library */
  df_tcp *owner;
  tube *in, *out;
  struct end *other; /* NULL: it has gone */
  int has_news, waits_for_room, is_refused;
  int fd, rank; /* -1: the library has it by tcp.h */
} end;

typedef struct port {
  df_tcp *tcp;
  int rank;
  end *callers[MAX_STREAMS];
  uint32_t n_callers;
} port;

/* In the arena: a new schedule finds it as it was. */
static struct net {
  port ports[MAX_PORTS];
  end *ends[MAX_STREAMS];
  uint32_t n_ports, breaks, agent;
} * net;

/* To be copied back before the next schedule. Said before it is written: others may end this one.
 * */
#define CHANGED(thing) sim_written((thing), sizeof *(thing))

/* Others do not go on meanwhile: a rank may be dying. */
static void notify(end *e) {
  if (e && e->fd >= 0) sim_stream_news(e->fd);
  if (e == NULL || e->owner == NULL) return;
  CHANGED(e);
  e->has_news = 1;
  sim_signal(e->owner->listener.fd);
}

/* ---- the agent */

/* After a partial write the writer waits for this event. */
static int has_room_again(const end *e) {
  return e->waits_for_room && e->out && e->out->written - e->out->read < TUBE_BYTES;
}

/* The bytes under way are lost in both directions. */
static void break_connection(end *e) {
  end *both[2] = {e, e->other};
  for (int i = 0; i < 2; i++) {
    CHANGED(both[i]);
    CHANGED(both[i]->in);
    both[i]->in->is_ended = both[i]->in->is_broken = 1;
    both[i]->other = NULL;
  }
  SIM_TRACE("breaks", e, 0, 0);
  for (int i = 0; i < 2; i++) notify(both[i]);
}

/* Between hosts: none while a world is set up, because control sends most of its messages then. */
static int may_break(const end *e) {
  return e->other && sim_plan.settings.net_resume_ms != 0 && net->breaks < BREAKS &&
         !(sim_plan.hosts && sim_is_quiet) && sim_one_in(&sim_random_now, BREAKS_ONE_IN);
}

/* Returns 0 when nothing is under way. */
static int carry_something(void) {
  end *found[MAX_STREAMS];
  uint32_t n = 0;
  for (uint32_t i = 0; i < MAX_STREAMS; i++) {
    end *e = net->ends[i];
    if (e && ((!e->in->is_broken && e->in->written != e->in->arrived) || has_room_again(e)))
      found[n++] = e;
  }
  if (n == 0) return 0;
  end *e = found[sim_below(&sim_random_now, n)];
  if (may_break(e)) {
    net->breaks++;
    CHANGED(net);
    break_connection(e);
    return 1;
  }
  if (has_room_again(e)) {
    e->waits_for_room = 0;
    notify(e);
    return 1;
  }
  const uint64_t under_way = e->in->written - e->in->arrived;
  e->in->arrived += 1 + sim_below(&sim_random_now, (uint32_t)under_way);
  CHANGED(e->in);
  SIM_TRACE("carries to", e, e->in->arrived, 0);
  notify(e);
  return 1;
}

static void *carry(void *unused) {
  (void)unused;
  for (;;) {
    if (carry_something())
      sim_yield();
    else
      sim_block(SIM_WAITS_EVENT, &net, UINT64_MAX);
  }
  return NULL;
}

void sim_wire_begin(void) {
  net = sim_hidden_alloc(sizeof *net);
  memset(net, 0, sizeof *net);
  net->agent = sim_spawn("wire", -1, carry, NULL);
}

/* Its connections end; what it has written before still arrives. */
static void cut(end *e) {
  CHANGED(e);
  if (e->out) { /* nobody has refused it */
    CHANGED(e->out);
    e->out->is_ended = 1;
  }
  if (e->other) e->other->other = NULL;
  notify(e->other);
  sim_wake_those(SIM_WAITS_EVENT, &net); /* its rank may have died in the middle of a write */
  e->other = NULL;
  e->owner = NULL;
}

void sim_wire_die(int rank) {
  for (uint32_t i = 0; net && i < MAX_STREAMS; i++)
    if (net->ends[i] && net->ends[i]->fd >= 0 && net->ends[i]->rank == rank) {
      net->ends[i]->fd = -1;
      cut(net->ends[i]);
    }
  for (uint32_t p = 0; net && p < net->n_ports; p++) {
    if (net->ports[p].rank != rank) continue;
    for (uint32_t i = 0; i < MAX_STREAMS; i++)
      if (net->ends[i] && net->ends[i]->owner == net->ports[p].tcp) cut(net->ends[i]);
    net->ports[p].tcp = NULL;
    CHANGED(&net->ports[p]);
  }
}

/* ---- streams */

static uint64_t at_most(uint64_t a, uint64_t b) { return a < b ? a : b; }

static int64_t write_some(df_stream *stream, const df_stream_part *parts, uint32_t n_parts) {
  end *e = (end *)(void *)stream;
  sim_point_at(&sim_system_now, SIM_WRITES);
  if (e->is_refused || e->other == NULL) {
    e->tcp.error = e->is_refused ? ECONNREFUSED : EPIPE;
    CHANGED(e);
    return DF_STREAM_ENDED;
  }
  tube *out = e->out;
  CHANGED(e);
  CHANGED(out);
  uint64_t room = TUBE_BYTES - (out->written - out->read), taken = 0, all = 0;
  if (room > 1 && sim_one_in(&sim_random_now, 2))
    room = 1 + sim_below(&sim_random_now, (uint32_t)room);
  for (uint32_t i = 0; i < n_parts; i++) {
    const uint64_t now = at_most(parts[i].length, room - taken);
    const uint8_t *bytes = parts[i].bytes;
    if (now) sim_touch(bytes, now, 0);
    for (uint64_t k = 0; k < now; k++) out->bytes[out->written++ % TUBE_BYTES] = bytes[k];
    taken += now;
    all += parts[i].length;
    sim_midway();
  }
  e->waits_for_room = taken < all;
  /* For the rest of a lent buffer, whose run may end meanwhile. */
  if (taken < all && sim_endings && sim_one_in(&sim_random_now, REST_WAITS_ONE_IN))
    sim_stand_still(net->agent, 1 + sim_below(&sim_random_now, REST_WAITS_MOST));
  SIM_TRACE("writes", e, taken, 0);
  sim_wake_those(SIM_WAITS_EVENT, &net);
  return (int64_t)taken;
}

static void take(tube *in, uint8_t *to, uint64_t n) {
  if (n) sim_touch(to, n, 1);
  for (uint64_t k = 0; k < n; k++) to[k] = in->bytes[in->read++ % TUBE_BYTES];
  sim_midway();
}

static int64_t read_some(df_stream *stream, const df_stream_room *rooms, uint32_t n_rooms) {
  end *e = (end *)(void *)stream;
  sim_point_at(&sim_system_now, SIM_WRITES);
  tube *in = e->in;
  CHANGED(in);
  uint64_t there = in->arrived - in->read, came = 0;
  if (there == 0 && !e->is_refused && !(in->is_ended && (in->is_broken || in->read == in->written)))
    return 0;
  if (there == 0) {
    e->tcp.error = e->is_refused ? ECONNREFUSED : 0;
    CHANGED(e);
    return DF_STREAM_ENDED;
  }
  for (uint32_t i = 0; i < n_rooms && there; i++) {
    const uint64_t now = at_most(there, rooms[i].length), half = now / 2;
    uint8_t *to = rooms[i].bytes;
    take(in, to, half);
    take(in, to + half, now - half);
    there -= now;
    came += now;
  }
  SIM_TRACE("reads", e, came, 0);
  if (e->other && has_room_again(e->other)) sim_wake_those(SIM_WAITS_EVENT, &net);
  return (int64_t)came;
}

static const char *reason(df_stream *stream) {
  const end *e = (const end *)(const void *)stream;
  return e->tcp.error ? strerror(e->tcp.error) : "the other end closed it";
}

/* No rail is quicker than another. */
static df_rate_estimate rate_estimate(df_stream *stream) {
  (void)stream;
  return (df_rate_estimate){.queued = sim_below(&sim_random_now, 1000),
                            .rate = sim_below(&sim_random_now, 3) * 1000000};
}

/* NULL: no memory. */
static end *make_end(df_tcp *owner) {
  uint32_t i = 0;
  while (i < MAX_STREAMS && net->ends[i]) i++;
  if (i == MAX_STREAMS) sim_fail("the world has too many connections");
  end *e = sim_calloc(1, sizeof *e);
  if (e == NULL) return NULL;
  e->tcp.stream = (df_stream){
      .write = write_some, .read = read_some, .reason = reason, .rate_estimate = rate_estimate};
  e->owner = owner;
  e->fd = e->rank = -1;
  e->in = sim_hidden_alloc(sizeof *e->in);
  memset(e->in, 0, sizeof *e->in);
  net->ends[i] = e;
  CHANGED(e);
  CHANGED(net);
  return e;
}

/* ---- streams by their descriptor: the control channels */

uint16_t sim_wire_port(uint32_t rank) { return (uint16_t)(FIRST_PORT + rank); }

static ssize_t stream_send(void *stream, const void *bytes, size_t n) {
  const df_stream_part part = {bytes, n};
  const int64_t taken = write_some(stream, &part, 1);
  if (taken > 0) return (ssize_t)taken;
  errno = taken == 0 ? EAGAIN : EPIPE;
  return -1;
}

static ssize_t stream_recv(void *stream, void *bytes, size_t n) {
  const df_stream_room room = {bytes, n};
  const int64_t came = read_some(stream, &room, 1);
  if (came > 0) return (ssize_t)came;
  errno = EAGAIN;
  return came == 0 ? -1 : 0;
}

/* Both directions. Bytes that were written before still arrive. */
static void stream_shutdown(void *stream) {
  end *e = stream, *other = e->other;
  CHANGED(e);
  CHANGED(e->in);
  e->in->is_ended = e->in->is_broken = 1;
  e->in->read = e->in->arrived;
  if (e->out) {
    CHANGED(e->out);
    e->out->is_ended = 1;
  }
  e->other = NULL;
  if (other) {
    CHANGED(other);
    other->other = NULL;
  }
  notify(e);
  notify(other);
}

static void stream_close(void *stream) {
  ((end *)stream)->fd = -1;
  df_tcp_end(NULL, stream);
}

static uint32_t stream_events(const void *stream) {
  const end *e = stream;
  const tube *in = e->in;
  uint32_t events = 0;
  if (in->arrived != in->read) events |= EPOLLIN;
  if (in->is_ended && (in->is_broken || in->read == in->written)) events |= EPOLLIN | EPOLLHUP;
  if (e->other == NULL || e->out->written - e->out->read < TUBE_BYTES) events |= EPOLLOUT;
  return events;
}

static const sim_stream_calls stream_calls = {.send = stream_send,
                                              .recv = stream_recv,
                                              .shutdown = stream_shutdown,
                                              .close = stream_close,
                                              .events = stream_events};

void sim_stream_pair(int fds[2], const int ranks[2]) {
  end *both[2] = {make_end(NULL), make_end(NULL)};
  for (int i = 0; i < 2; i++) {
    both[i]->other = both[1 - i];
    both[i]->out = both[1 - i]->in;
    both[i]->rank = ranks[i];
    fds[i] = both[i]->fd = sim_stream_descriptor(both[i], &stream_calls);
  }
}

/* ---- promises of tcp.h */

dfcclResult_t df_tcp_open(df_tcp *tcp, df_listeners *listeners) {
  (void)listeners; /* all ranks are of one host */
  if (net->n_ports == MAX_PORTS) sim_fail("the world has too many listeners");
  memset(tcp, 0, sizeof *tcp);
  tcp->wake_fd = sim_eventfd();
  tcp->listener.fd = sim_eventfd(); /* for all news of the network */
  tcp->epoll_fd = sim_epoll_create();
  struct epoll_event event = {.events = EPOLLIN};
  sim_epoll_ctl(tcp->epoll_fd, EPOLL_CTL_ADD, tcp->wake_fd, &event);
  sim_epoll_ctl(tcp->epoll_fd, EPOLL_CTL_ADD, tcp->listener.fd, &event);
  tcp->port = (uint16_t)(FIRST_PORT + net->n_ports);
  net->ports[net->n_ports++] =
      (port){.tcp = tcp, .rank = sim_agents_now.agent[sim_agents_now.current].rank};
  CHANGED(net);
  return dfcclSuccess;
}

/* Nobody forks. */
void df_tcp_close_in_child(const df_tcp *tcp) { (void)tcp; }

void df_tcp_close(df_tcp *tcp) {
  port *p = &net->ports[tcp->port - FIRST_PORT];
  for (uint32_t i = 0; i < p->n_callers; i++) df_tcp_end(tcp, &p->callers[i]->tcp);
  p->tcp = NULL;
  p->n_callers = 0;
  CHANGED(p);
  sim_close(tcp->wake_fd);
  sim_close(tcp->listener.fd);
  sim_close(tcp->epoll_fd);
}

dfcclResult_t df_tcp_connect(df_tcp *tcp, const df_tcp_path *way, df_tcp_stream **stream) {
  port *p = &net->ports[way->to.port - FIRST_PORT];
  end *mine = make_end(tcp), *theirs = p->tcp && mine ? make_end(p->tcp) : NULL;
  if (mine == NULL || (p->tcp && theirs == NULL)) {
    if (mine) df_tcp_end(tcp, &mine->tcp);
    return df_fail(dfcclOutOfMemory, "no memory for a connection");
  }
  *stream = &mine->tcp;
  mine->is_refused = theirs == NULL;
  notify(mine);
  if (theirs == NULL) return dfcclSuccess;
  *mine = (end){.tcp = mine->tcp,
                .owner = tcp,
                .in = mine->in,
                .out = theirs->in,
                .other = theirs,
                .has_news = 1,
                .fd = -1,
                .rank = -1};
  theirs->out = mine->in;
  theirs->other = mine;
  p->callers[p->n_callers++] = theirs;
  CHANGED(p);
  CHANGED(mine);
  notify(theirs);
  return dfcclSuccess;
}

df_tcp_stream *df_tcp_accept(df_tcp *tcp) {
  port *p = &net->ports[tcp->port - FIRST_PORT];
  sim_point_at(&sim_system_now, SIM_WRITES);
  tcp->has_callers = p->n_callers != 0;
  if (p->n_callers == 0) return NULL;
  end *e = p->callers[--p->n_callers];
  e->tcp.is_ready = 1;
  CHANGED(e);
  CHANGED(p);
  return &e->tcp;
}

void df_tcp_end(df_tcp *tcp, df_tcp_stream *stream) {
  (void)tcp;
  end *e = (end *)(void *)stream;
  sim_point_at(&sim_system_now, SIM_WRITES);
  for (uint32_t i = 0; i < MAX_STREAMS; i++)
    if (net->ends[i] == e) net->ends[i] = NULL;
  CHANGED(net);
  if (e->out) cut(e);
  sim_free(e);
}

int df_tcp_release(df_tcp *tcp, df_tcp_stream *stream) {
  (void)tcp;
  end *e = (end *)(void *)stream;
  CHANGED(e);
  e->owner = NULL;
  e->rank = sim_agents_now.agent[sim_agents_now.current].rank;
  e->fd = sim_stream_descriptor(e, &stream_calls);
  return e->fd;
}

void df_tcp_set_silence(df_tcp_stream *stream, uint32_t ms) {
  (void)stream;
  (void)ms;
}

/* Written bytes arrive, even if the stream is ended. */
int df_tcp_has_unsent(const df_tcp_stream *stream) {
  (void)stream;
  return 0;
}

void df_tcp_look(df_tcp *tcp) {
  uint64_t count;
  sim_read(tcp->listener.fd, &count, sizeof count);
  tcp->has_callers |= net->ports[tcp->port - FIRST_PORT].n_callers != 0;
  for (uint32_t i = 0; i < MAX_STREAMS; i++) {
    end *e = net->ends[i];
    if (e == NULL || e->owner != tcp || !e->has_news) continue;
    e->has_news = 0;
    e->tcp.is_ready = 1;
    e->tcp.hangs_up = e->in->is_ended;
    CHANGED(e);
  }
}

void df_tcp_wait(df_tcp *tcp, int timeout_ms) {
  struct epoll_event event;
  uint64_t count;
  sim_epoll_wait(tcp->epoll_fd, &event, 1, timeout_ms);
  sim_read(tcp->wake_fd, &count, sizeof count);
}

dfcclResult_t df_tcp_watch(df_tcp *tcp, int fd) {
  (void)tcp;
  (void)fd;
  sim_fail("the simulation has no fabric");
  return dfcclSystemError;
}

df_address df_tcp_address(const df_tcp_stream *stream) {
  (void)stream;
  sim_fail("the simulation has no fabric");
  return (df_address){.family = 0};
}

void df_tcp_wake(df_tcp *tcp) {
  const uint64_t one = 1;
  sim_write(tcp->wake_fd, &one, sizeof one);
}

void df_tcp_describe(const df_tcp_stream *stream, char text[DF_TCP_ENDS_BYTES]) {
  (void)stream;
  strcpy(text, "here to there");
}
