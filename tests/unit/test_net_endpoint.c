/*
 * Promises of src/transports/net/endpoint.h:
 *   - What a block of one rank publishes comes to a block of another, whichever thread pumps; a
 *     link may be made before and after its connection.
 *   - Of messages that come one after the other, one way, several are waited for.
 *   - While blocks do nothing, the endpoint's thread sleeps. While others drive, it naps.
 *   - An end may need a connection before the other end does.
 *   - A call that nobody answers is given up after the time that a network may be silent.
 *   - A lost connection to a rank that has left is reported at once.
 *   - Unauthenticated callers get neither frames nor an established connection.
 *   - A malformed offer is refused. The loss of a connection is reported once, with both ends.
 */
#include "base/mutex.h"
#include "transports/net/endpoint.h"

#include <pthread.h>
#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/net/sockets.h"
#include "support/harness.h"
#include "transports/shm/segment.h"
#include "transports/net/connect/connections.h"

enum { RANKS = 2, ELEMENTS = 1000, RUNS = 300 };

typedef struct rank {
  df_endpoint *endpoint;
  df_rank_mutex lock;
  df_bell bell;
  uint32_t wakes;
} rank;

typedef struct link_of_two {
  df_plan *plans[RANKS]; /* a broadcast: rank 0 to rank 1 */
  df_link ends[RANKS];
  df_part part;
  df_link_handle *tickets[RANKS];
  df_offer offer;
} link_of_two;

static const uint8_t serves[RANKS] = {1, 1};

static void wake(void *owner) { df_system_add_u32(&((rank *)owner)->wakes, 1); }

static void open_both(rank *ranks) {
  for (uint32_t r = 0; r < RANKS; r++) {
    ranks[r] = (rank){.wakes = 0};
    df_rank_mutex_init(&ranks[r].lock);
    df_endpoint_owner owner = {.owner = &ranks[r],
                               .rank = r,
                               .n_ranks = RANKS,
                               .lock = &ranks[r].lock,
                               .serves = serves,
                               .bell = &ranks[r].bell,
                               .wake = wake};
    OK(df_transport_net.open(&ranks[r].endpoint, &owner));
  }
}

static df_route route_of(link_of_two *link, uint32_t r) {
  const uint32_t stride = df_link_stride(ELEMENTS * 4, DF_LINK_STAGED_OFFSET);
  return (df_route){.peer = 1 - r,
                    .n_blocks = 1,
                    .ends = &link->ends[r],
                    .end_step = 1,
                    .ring = {.stride = stride, .n_slots = 4},
                    .slots_min = 2,
                    .payload_offset = DF_LINK_STAGED_OFFSET,
                    .plan = link->plans[r],
                    .parts = &link->part,
                    .element_bytes = 4};
}

static dfcclResult_t accept_link(rank *ranks, link_of_two *link) {
  for (uint32_t r = 0; r < RANKS; r++) {
    df_plan_key key = {.operation = DF_OP_BROADCAST, .algorithm = DF_FLAT, .n = 2, .position = r};
    link->plans[r] = df_plan_make(&key);
    CHECK(link->plans[r] && link->plans[r]->n_links == 1, "another plan");
    link->tickets[r] = NULL;
  }
  link->part = (df_part){.elements = ELEMENTS, .chunk = ELEMENTS, .loops = 1};
  df_patience patience = {.may_wait = 1};
  df_route route = route_of(link, 1);
  df_rank_lock(&ranks[1].lock);
  dfcclResult_t result = df_transport_net.accept(ranks[1].endpoint, &route, &patience, &link->offer,
                                                 &link->tickets[1]);
  df_rank_unlock(&ranks[1].lock);
  return result;
}

static dfcclResult_t connect_link(rank *ranks, link_of_two *link) {
  df_patience patience = {.pages_left = 100};
  df_route route = route_of(link, 0);
  df_rank_lock(&ranks[0].lock);
  dfcclResult_t result = df_transport_net.connect(ranks[0].endpoint, &route, &patience,
                                                  &link->offer, &link->tickets[0]);
  df_rank_unlock(&ranks[0].lock);
  return result;
}

static void release_link(rank *ranks, link_of_two *link) {
  for (uint32_t r = 0; r < RANKS; r++) {
    df_transport_net.release(ranks[r].endpoint, link->tickets[r]);
    df_plan_free(link->plans[r]);
  }
}

static void close_both(rank *ranks) {
  for (uint32_t r = 0; r < RANKS; r++) {
    if (ranks[r].endpoint) df_transport_net.close(ranks[r].endpoint, 0);
    df_rank_mutex_destroy(&ranks[r].lock);
  }
}

/* A thread that waits: it drives, or leaves all to the endpoints' threads. */
static int drives;
static void wait_a_moment(rank *ranks) {
  for (uint32_t r = 0; r < RANKS; r++) {
    const df_carrier *carrier = ranks[r].endpoint ? ranks[r].endpoint->carrier : NULL;
    if (drives && carrier) carrier->carry(carrier->who, DF_CARRY_STUCK);
  }
  if (!drives) sched_yield();
}

static void ring(const rank *of) {
  const df_carrier *carrier = of->endpoint->carrier;
  CHECK(carrier->bell->sleepers != 0, "nobody would carry");
  df_carrier_wake(carrier, carrier->bell);
}

static void send_one(rank *ranks, link_of_two *link, uint64_t sequence) {
  df_link *end = &link->ends[0];
  df_waiting_for("room for a message");
  while (!df_link_may_send(end, sequence)) wait_a_moment(ranks);
  uint32_t *payload = (uint32_t *)(void *)df_link_payload(end, sequence);
  for (uint32_t i = 0; i < ELEMENTS; i++) payload[i] = (uint32_t)sequence * 1000003 + i;
  df_link_publish(end, sequence, 0);
  CHECK(end->peer_bell == ranks[0].endpoint->carrier->bell, "another bell");
  ring(&ranks[0]);
}

static void receive_one(rank *ranks, link_of_two *link, uint64_t sequence) {
  df_link *end = &link->ends[1];
  int direct;
  df_waiting_for("a message");
  while (!df_link_has_message(end, sequence, &direct)) wait_a_moment(ranks);
  const uint32_t *payload = (const uint32_t *)(const void *)df_link_payload(end, sequence);
  for (uint32_t i = 0; i < ELEMENTS; i++)
    CHECK(payload[i] == (uint32_t)sequence * 1000003 + i, "message %llu, element %u: %u",
          (unsigned long long)sequence, i, payload[i]);
  df_link_release(end, sequence);
  ring(&ranks[1]);
}

DF_TEST(wire_endpoint, carries_messages_of_several_links, 60) {
  rank ranks[RANKS];
  link_of_two links[2];
  open_both(ranks);
  for (int i = 0; i < 2; i++) { /* the second when the connection is established */
    drives = i;
    OK(accept_link(ranks, &links[i]));
    OK(connect_link(ranks, &links[i]));
    for (uint64_t sequence = 1; sequence <= RUNS; sequence++)
      for (int k = 0; k <= i; k++) {
        const uint64_t number = sequence + (k == 0 && i == 1 ? RUNS : 0);
        send_one(ranks, &links[k], number);
        if (number > 2) receive_one(ranks, &links[k], number - 2);
      }
  }
  drives = 0;
  for (int i = 0; i < 2; i++) release_link(ranks, &links[i]);
  close_both(ranks);
}

/* A look at each moment would hinder the sender. The endpoint's thread may look in between. */
DF_TEST(wire_endpoint, a_stream_is_looked_at_now_and_then, 60) {
  enum { ROW = 200, REST_NS = 20000 };
  rank ranks[RANKS];
  link_of_two link;
  open_both(ranks);
  drives = 1;
  OK(accept_link(ranks, &link));
  OK(connect_link(ranks, &link));
  uint64_t before_ns = 0;
  int early = 0;
  for (uint64_t sequence = 1; sequence <= ROW; sequence++) {
    send_one(ranks, &link, sequence);
    receive_one(ranks, &link, sequence);
    const uint64_t now_ns = df_clock_ns();
    early += now_ns - before_ns < REST_NS / 2; /* other work follows the look */
    before_ns = now_ns;
  }
  CHECK(early < ROW / 4, "%d of %d messages were looked for at once", early, ROW);
  drives = 0;
  release_link(ranks, &link);
  close_both(ranks);
}

/* One end accepts two links earlier, and calls for large messages that the other end does not
 * expect yet. */
DF_TEST(wire_endpoint, a_caller_may_need_a_connection_first, 60) {
  rank ranks[RANKS];
  link_of_two link;
  df_link end;
  df_offer offer;
  df_link_handle *handle = NULL;
  df_patience patience = {.may_wait = 1};
  uint32_t peer;
  char why[256];
  open_both(ranks);
  OK(accept_link(ranks, &link));
  OK(connect_link(ranks, &link));
  send_one(ranks, &link, 1);
  receive_one(ranks, &link, 1);
  df_route route = route_of(&link, 1); /* the roles of ranks 0 and 1, exchanged */
  route.peer = 1;
  route.ends = &end;
  route.ring.stride = 4 * route.ring.stride;
  df_rank_lock(&ranks[0].lock);
  OK(df_transport_net.accept(ranks[0].endpoint, &route, &patience, &offer, &handle));
  df_rank_unlock(&ranks[0].lock);
  drives = 1;
  for (int i = 0; i < 200; i++) {
    wait_a_moment(ranks);
    df_sleep_ms(1);
  }
  drives = 0;
  CHECK(!ranks[0].endpoint->network->take_lost(ranks[0].endpoint, &peer, why, sizeof why), "%s",
        why);
  df_transport_net.release(ranks[0].endpoint, handle);
  release_link(ranks, &link);
  close_both(ranks);
}

static double processor_seconds(void) {
  struct timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

DF_TEST(wire_endpoint, sleeps_while_nothing_happens, 60) {
  rank ranks[RANKS];
  link_of_two link;
  open_both(ranks);
  OK(accept_link(ranks, &link));
  OK(connect_link(ranks, &link));
  send_one(ranks, &link, 1);
  receive_one(ranks, &link, 1);
  for (int i = 0; i < 100; i++) {
    wait_a_moment(ranks);
    df_sleep_ms(1);
  }
  const double before = processor_seconds();
  df_sleep_ms(1000);
  CHECK(processor_seconds() - before < 0.2, "%.3f s of processor time in an idle second",
        processor_seconds() - before);
  release_link(ranks, &link);
  close_both(ranks);
}

/* Calls the listener of an offer, sends any bytes, and returns the answer. */
static ssize_t call_as_stranger(rank *ranks, const df_offer *offer, const void *said,
                                size_t bytes) {
  uint16_t port;
  memcpy(&port, offer->bytes + 12, sizeof port);
  int fd = df_connect_loopback(port);
  CHECK(fd >= 0, "nobody listens");
  CHECK(df_socket_wait(fd, POLLOUT, UINT64_MAX / 2) == 1, "it is not connected");
  CHECK(bytes == 0 || send(fd, said, bytes, MSG_NOSIGNAL) == (ssize_t)bytes, "it takes nothing");
  char buffer[512];
  ssize_t all = 0, came = -1;
  for (int i = 0; i < 200 && came != 0; i++) {
    wait_a_moment(ranks);
    came = recv(fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (came > 0) all += came;
    df_sleep_ms(1);
  }
  close(fd);
  return came == 0 ? all : -1; /* -1: the connection goes on */
}

DF_TEST(wire_endpoint, strangers_get_nowhere, 60) {
  rank ranks[RANKS];
  link_of_two link;
  open_both(ranks);
  OK(accept_link(ranks, &link));
  static const char nonsense[256] = "GET / HTTP/1.1\r\n";
  CHECK(call_as_stranger(ranks, &link.offer, nonsense, sizeof nonsense) == 0, "it was answered");
  CHECK(call_as_stranger(ranks, &link.offer, NULL, 0) == -1, "it received something");
  for (int i = 0; i < 200; i++) { /* more than there is room for */
    int fd = df_connect_loopback(*(const uint16_t *)(const void *)(link.offer.bytes + 12));
    if (fd >= 0) close(fd);
  }
  OK(connect_link(ranks, &link));
  send_one(ranks, &link, 1);
  receive_one(ranks, &link, 1);
  release_link(ranks, &link);
  close_both(ranks);
}

DF_TEST(wire_endpoint, offers_that_make_no_sense_are_refused, 30) {
  static const uint8_t bent[] = {0, 8, 11, 12};
  rank ranks[RANKS];
  open_both(ranks);
  for (size_t i = 0; i < sizeof bent; i++) {
    link_of_two link;
    OK(accept_link(ranks, &link));
    const df_offer good = link.offer;
    if (bent[i] == 12)
      memset(link.offer.bytes + 12, 0, 2);
    else
      link.offer.bytes[bent[i]] ^= 0x7f;
    RESULT(connect_link(ranks, &link), dfcclRemoteError);
    CHECK(link.tickets[0] == NULL, "something is left");
    link.offer = good;
    OK(connect_link(ranks, &link));
    release_link(ranks, &link);
  }
  close_both(ranks);
}

DF_TEST(wire_endpoint, a_lost_connection_is_reported_once, 30) {
  rank ranks[RANKS];
  link_of_two link;
  char why[256];
  uint32_t peer = 9;
  open_both(ranks);
  OK(accept_link(ranks, &link));
  OK(connect_link(ranks, &link));
  send_one(ranks, &link, 1);
  receive_one(ranks, &link, 1);
  CHECK(!ranks[0].endpoint->network->take_lost(ranks[0].endpoint, &peer, why, sizeof why), "%s",
        why);
  df_transport_net.release(ranks[1].endpoint, link.tickets[1]);
  df_transport_net.close(ranks[1].endpoint, 0);
  ranks[1].endpoint = NULL;
  df_waiting_for("the loss");
  while (!ranks[0].endpoint->network->take_lost(ranks[0].endpoint, &peer, why, sizeof why))
    wait_a_moment(ranks);
  CHECK(peer == 1 && strncmp(why, "the connection 127.0.0.1:", 25) == 0 &&
            strstr(why, " to 127.0.0.1:") && strstr(why, " was lost: "),
        "rank %u: %s", peer, why);
  CHECK(df_load_relaxed_u32(&ranks[0].wakes) == 1, "the service thread was not woken");
  CHECK(!ranks[0].endpoint->network->take_lost(ranks[0].endpoint, &peer, why, sizeof why), "%s",
        why);
  df_transport_net.release(ranks[0].endpoint, link.tickets[0]);
  for (uint32_t r = 0; r < RANKS; r++) df_plan_free(link.plans[r]);
  close_both(ranks);
}

/* For ever is the time that a lost connection may take. The listener ends with its rank. */
DF_TEST(wire_endpoint, a_rank_that_has_left_is_not_waited_for, 30) {
  df_connections all;
  df_net_peer *peer;
  uint16_t port;
  char why[256];
  uint32_t lost = 9;
  const unsigned char key[DF_KEY_BYTES] = {1};
  int silent = df_listen_loopback(&port);
  CHECK(silent >= 0, "no listener");
  df_socket_close(&silent);
  OK(df_connections_open(&all, 0, RANKS, NULL, NULL));
  all.resume_ns = UINT64_MAX / 4;
  OK(df_connections_connect(&all, 1, &peer));
  const df_tcp_path way = {.to = df_address_loopback(port)};
  df_connections_call(&all, peer, &way, 1, key);
  for (int i = 0; i < 300; i++) {
    df_connections_carry(&all, 0);
    df_sleep_ms(1);
  }
  CHECK(!df_connections_take_lost(&all, &lost, why, sizeof why), "it may come back, but: %s", why);
  df_connections_peer_left(&all, 1);
  df_waiting_for("the loss");
  while (!df_connections_take_lost(&all, &lost, why, sizeof why)) {
    df_connections_carry(&all, 0);
    df_sleep_ms(1);
  }
  CHECK(lost == 1 && strstr(why, "was lost"), "rank %u: %s", lost, why);
  df_connections_leave(&all);
  CHECK(!df_connections_have_pending(&all), "something waits for who has left");
  df_connections_close(&all);
}

/* The system takes the call, and nobody ever accepts it. */
DF_TEST(wire_endpoint, a_call_that_nobody_answers_is_given_up, 30) {
  df_connections all;
  df_net_peer *peer;
  uint16_t port;
  char why[256];
  uint32_t lost = 9;
  const unsigned char key[DF_KEY_BYTES] = {1};
  int silent = df_listen_loopback(&port);
  CHECK(silent >= 0, "no listener");
  OK(df_connections_open(&all, 0, RANKS, NULL, NULL));
  all.silence_ms = 200;
  OK(df_connections_connect(&all, 1, &peer));
  const df_tcp_path way = {.to = df_address_loopback(port)};
  df_connections_call(&all, peer, &way, 1, key);
  df_waiting_for("the end of the call");
  while (!df_connections_take_lost(&all, &lost, why, sizeof why)) {
    df_connections_carry(&all, 0);
    CHECK(all.has_lost || df_connections_patience_ns(&all, df_clock_ns()) != UINT64_MAX,
          "nobody looks again");
    df_sleep_ms(1);
  }
  CHECK(lost == 1 && strstr(why, "nobody answered"), "rank %u: %s", lost, why);
  df_connections_close(&all);
  df_socket_close(&silent);
}

/* A thread that drives for a moment, rests, and then sleeps leaves unread data to the endpoint's
 * thread. */
DF_TEST(wire_endpoint, what_a_rest_leaves_is_read, 60) {
  enum { TRIES = 300 };
  rank ranks[RANKS];
  link_of_two link;
  uint64_t sequence = 0;
  int direct;
  open_both(ranks);
  drives = 1;
  OK(accept_link(ranks, &link));
  OK(connect_link(ranks, &link));
  for (int i = 0; i < 20; i++) {
    send_one(ranks, &link, ++sequence);
    receive_one(ranks, &link, sequence);
  }
  const df_carrier *theirs = ranks[1].endpoint->carrier;
  for (int i = 0; i < TRIES; i++) {
    theirs->carry(theirs->who, DF_CARRY_SLEEPS);
    df_sleep_ms(5); /* the endpoint's thread sleeps until the network has something to read */
    drives = 1;
    send_one(ranks, &link, ++sequence);
    uint64_t until = df_clock_ns() + 2000000;
    while (!df_link_has_message(&link.ends[1], sequence, &direct) && df_clock_ns() < until)
      theirs->carry(theirs->who, DF_CARRY_STUCK);
    df_link_release(&link.ends[1], sequence);
    send_one(ranks, &link, ++sequence);
    for (int k = 0; k < 12; k++) theirs->carry(theirs->who, DF_CARRY_STUCK);
    theirs->carry(theirs->who, DF_CARRY_SLEEPS); /* as sleep_stuck and sleep_until_news do */
    for (int ms = 0; ms < 2000 && !df_link_has_message(&link.ends[1], sequence, &direct); ms++)
      df_sleep_ms(1);
    CHECK(df_link_has_message(&link.ends[1], sequence, &direct),
          "message %llu is there, and not read for 2 s", (unsigned long long)sequence);
    df_link_release(&link.ends[1], sequence);
    ring(&ranks[1]);
  }
  drives = 0;
  release_link(ranks, &link);
  close_both(ranks);
}
