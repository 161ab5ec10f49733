/*
 * Promises of src/transports/net/connect/control_reconnect.h, between two ranks at the loopback
 * address:
 *   - The end that called when the job formed makes a new connection when control wants one, and
 *     both get its descriptor and one key; each connection has another key.
 *   - The other end's calls make none, and show whether anybody listens.
 *   - A rank that listens no more refuses calls; one that listens anew does not, and is reached.
 *     A sleeping thread is given the time of the next call.
 *   - The peer's other addresses are called, too. Their answers say nothing about the peer, and
 *     they do not keep anybody from the address at which it was found. Where the line was silent is
 *     not called first.
 */
#include "transports/net/connect/control_reconnect.h"

#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "bootstrap/net/sockets.h"
#include "support/harness.h"
#include "transports/net/connect/connections.h"

enum { RANKS = 2, CALLER = 1, OTHER = 0 };

typedef struct {
  df_connections connections;
  df_endpoint_owner owner;
  df_remote_rank remote[RANKS];
  int fd, n_made;
  unsigned char key[DF_KEY_BYTES];
} end;

static end ends[RANKS];

static int made(void *owner, uint32_t peer, int fd, const unsigned char key[DF_KEY_BYTES]) {
  end *e = owner;
  CHECK(peer == 1 - (uint32_t)(e - ends), "a line to rank %u", peer);
  df_socket_close(&e->fd);
  e->fd = fd;
  e->n_made++;
  memcpy(e->key, key, sizeof e->key);
  return 1;
}

static void listen_at(uint32_t rank) {
  end *e = &ends[rank];
  OK(df_connections_open(&e->connections, rank, RANKS, NULL, NULL));
  e->owner = (df_endpoint_owner){.owner = e,
                                 .rank = rank,
                                 .n_ranks = RANKS,
                                 .remote = e->remote,
                                 .resume_ms = 1000,
                                 .channel_reconnected = made};
  ends[1 - rank].remote[rank] =
      (df_remote_rank){.is_remote = 1,
                       .has_channel = 1,
                       .calls = rank == OTHER,
                       .key = {8},
                       .address = df_address_loopback(e->connections.tcp.port)};
}

/* After the rank has received the address at which the other one listens. */
static void open_lines(uint32_t rank) {
  df_connections *all = &ends[rank].connections;
  OK(df_control_reconnect_open(&all->control_reconnect, &all->tcp, &ends[rank].owner));
}

static void begin(void) {
  OK(df_handshake_ready());
  for (uint32_t r = 0; r < RANKS; r++) ends[r] = (end){.fd = -1};
  for (uint32_t r = 0; r < RANKS; r++) listen_at(r);
  for (uint32_t r = 0; r < RANKS; r++) open_lines(r);
}

static void carry(void) {
  for (uint32_t r = 0; r < RANKS; r++)
    if (ends[r].connections.control_reconnect) df_connections_carry(&ends[r].connections, 0);
}

static int carried_until(const int *value, int least) {
  carry();
  return *value >= least;
}

static void stop(uint32_t rank) {
  df_socket_close(&ends[rank].fd);
  df_connections_close(&ends[rank].connections);
  ends[rank].connections.control_reconnect = NULL;
}

static void want(uint32_t rank, df_reconnect_request request) {
  df_control_reconnect_want(ends[rank].connections.control_reconnect, 1 - rank, request);
}

static int is_refused(uint32_t rank) {
  carry();
  return df_control_reconnect_refused_ns(ends[rank].connections.control_reconnect, 1 - rank) != 0;
}

DF_TEST(reconnect, who_called_calls_again_and_both_get_the_connection, 30) {
  unsigned char last[DF_KEY_BYTES] = {0};
  begin();
  for (int i = 1; i <= 5; i++) {
    want(OTHER, DF_RECONNECT_WANTED);
    want(CALLER, DF_RECONNECT_WANTED);
    for (uint32_t r = 0; r < RANKS; r++) EVENTUALLY(carried_until(&ends[r].n_made, i));
    want(OTHER, DF_RECONNECT_NOT_WANTED);
    CHECK(memcmp(ends[0].key, ends[1].key, DF_KEY_BYTES) == 0, "connection %d has two keys", i);
    CHECK(memcmp(ends[0].key, last, DF_KEY_BYTES) != 0, "connection %d has an old key", i);
    memcpy(last, ends[0].key, sizeof last);
    char byte = (char)i;
    CHECK(send(ends[i % RANKS].fd, &byte, 1, 0) == 1, "send");
    byte = 0;
    EVENTUALLY(recv(ends[1 - i % RANKS].fd, &byte, 1, MSG_DONTWAIT) == 1);
    CHECK(byte == i, "it leads elsewhere");
  }
  CHECK(df_control_reconnect_patience_ns(ends[CALLER].connections.control_reconnect,
                                         df_clock_ns()) == UINT64_MAX,
        "something is due though nothing is wanted");
  for (uint32_t r = 0; r < RANKS; r++) stop(r);
}

DF_TEST(reconnect, a_rank_without_a_line_has_no_record, 30) {
  begin();
  for (uint32_t r = 0; r < RANKS; r++) {
    const df_control_reconnect *reconnect = ends[r].connections.control_reconnect;
    CHECK(reconnect->n_calls == 1 && reconnect->calls[1 - r] == reconnect->all,
          "one line, to the other rank");
    CHECK(reconnect->calls[r] == NULL, "a record without a line");
    stop(r);
  }
}

DF_TEST(reconnect, the_other_ends_calls_make_no_connection, 30) {
  begin();
  want(OTHER, DF_RECONNECT_WANTED);
  const uint64_t end_ns = df_clock_ns() + 300000000;
  while (df_clock_ns() < end_ns) CHECK(!is_refused(OTHER), "refused by who listens");
  CHECK(ends[OTHER].connections.control_reconnect->calls[CALLER]->vain_tries > 1,
        "it has not called");
  for (uint32_t r = 0; r < RANKS; r++) CHECK(ends[r].n_made == 0, "a connection was made");
  for (uint32_t r = 0; r < RANKS; r++) stop(r);
}

DF_TEST(reconnect, who_listens_no_more_refuses, 30) {
  for (uint32_t gone = 0; gone < RANKS; gone++) {
    begin();
    stop(gone);
    want(1 - gone, DF_RECONNECT_WANTED);
    EVENTUALLY(is_refused(1 - gone));
    CHECK(ends[1 - gone].connections.left_work, "who sleeps does not know when to call again");
    listen_at(gone);
    open_lines(gone);
    EVENTUALLY(!is_refused(1 - gone));
    if (gone == OTHER) EVENTUALLY(carried_until(&ends[CALLER].n_made, 1));
    for (uint32_t r = 0; r < RANKS; r++) stop(r);
  }
}

/* ---- several addresses ---- */

enum { SILENCE_MS = 600 };

/* 127.0.0.LAST. Where nobody listens, it refuses. */
static df_address address_of_this_host(uint8_t last, uint16_t port) {
  df_address address = df_address_loopback(port);
  address.bytes[3] = last;
  return address;
}

/* A caller receives no answer: the queue of callers is full. */
typedef struct {
  int fd, callers[8];
  df_address address;
} mute;

static void fill(mute *m, uint8_t last) {
  struct sockaddr_storage socket;
  df_address address = address_of_this_host(last, 0);
  m->fd = df_listen_network(&socket, df_address_to_socket(&address, 0, &socket));
  CHECK(m->fd >= 0 && listen(m->fd, 0) == 0, "no listener");
  socklen_t bytes = sizeof socket;
  CHECK(getsockname(m->fd, (struct sockaddr *)&socket, &bytes) == 0, "getsockname");
  CHECK(df_address_from_socket(&m->address, &socket), "no address");
  for (int i = 0; i < 8; i++) m->callers[i] = df_connect_network(&socket, bytes, NULL);
}

static void empty(mute *m) {
  for (int i = 0; i < 8; i++)
    if (m->callers[i] >= 0) df_socket_close(&m->callers[i]);
  df_socket_close(&m->fd);
}

static void offer(df_address address) {
  df_remote_rank *remote = &ends[CALLER].remote[OTHER];
  if (remote->n_offered == 0) remote->offered[remote->n_offered++] = remote->address;
  remote->offered[remote->n_offered++] = address;
}

/* The address where the peer was found is silent, as over a network that is cut for a moment. */
DF_TEST(reconnect, another_address_that_refuses_is_no_sign_of_death, 30) {
  mute found;
  begin();
  fill(&found, 1);
  ends[CALLER].owner.silence_ms = SILENCE_MS;
  ends[CALLER].remote[OTHER].address = found.address;
  offer(address_of_this_host(2, found.address.port));
  want(CALLER, DF_RECONNECT_WANTED);
  const df_reconnect_call *call = ends[CALLER].connections.control_reconnect->calls[OTHER];
  while (call->vain_tries < 6)
    CHECK(!is_refused(CALLER), "dead, since another address refuses: call %u", call->vain_tries);
  empty(&found);
  for (uint32_t r = 0; r < RANKS; r++) stop(r);
}

DF_TEST(reconnect, another_address_that_is_silent_does_not_hide_a_death, 30) {
  mute other;
  begin();
  fill(&other, 2);
  ends[CALLER].owner.silence_ms = SILENCE_MS;
  offer(other.address);
  stop(OTHER);
  want(CALLER, DF_RECONNECT_WANTED);
  EVENTUALLY(is_refused(CALLER));
  const uint64_t since =
      df_control_reconnect_refused_ns(ends[CALLER].connections.control_reconnect, OTHER);
  const uint32_t tries = ends[CALLER].connections.control_reconnect->calls[OTHER]->vain_tries;
  while (ends[CALLER].connections.control_reconnect->calls[OTHER]->vain_tries < tries + 6) carry();
  CHECK(df_control_reconnect_refused_ns(ends[CALLER].connections.control_reconnect, OTHER) == since,
        "it was refused, and no more");
  empty(&other);
  stop(CALLER);
}

DF_TEST(reconnect, where_it_was_silent_is_not_called_first, 30) {
  begin();
  offer(address_of_this_host(2, 1));
  const df_reconnect_call *call = ends[CALLER].connections.control_reconnect->calls[OTHER];
  want(CALLER, DF_RECONNECT_WANTED);
  carry();
  CHECK(call->is_known, "an address that was never called is called first");
  want(CALLER, DF_RECONNECT_NOT_WANTED);
  want(CALLER, DF_RECONNECT_WANTED_ELSEWHERE);
  carry();
  CHECK(!call->is_known, "the address that was silent is called first");
  EVENTUALLY(carried_until(&ends[CALLER].n_made, 1));
  CHECK(call->is_known, "the line stands where nobody listens");
  for (uint32_t r = 0; r < RANKS; r++) stop(r);
}

/* As where several addresses belong to rails that are cut. */
DF_TEST(reconnect, addresses_that_are_silent_hold_up_for_moments, 30) {
  enum { MUTES = 4 };
  mute mutes[MUTES];
  begin();
  const df_address listens = ends[CALLER].remote[OTHER].address;
  ends[CALLER].owner.silence_ms = 60000;
  for (int i = 0; i < MUTES; i++) {
    fill(&mutes[i], (uint8_t)(i + 2));
    if (i == 0) ends[CALLER].remote[OTHER].address = mutes[i].address;
    if (i > 0) offer(mutes[i].address);
  }
  offer(listens);
  want(CALLER, DF_RECONNECT_WANTED_ELSEWHERE);
  EVENTUALLY(carried_until(&ends[CALLER].n_made, 1));
  for (int i = 0; i < MUTES; i++) empty(&mutes[i]);
  for (uint32_t r = 0; r < RANKS; r++) stop(r);
}
