/*
 * Promises of src/transports/wire/lines.h, between two ranks at the loopback address:
 *   - Who called when the job formed makes a new connection when control wants one, and both get
 *     its descriptor and one key; each connection has another key.
 *   - The other end's calls make none, and show whether anybody listens.
 *   - A rank that listens no more refuses calls; one that listens anew does not, and is reached.
 *     Whoever sleeps learns when the next call is due.
 *   - The peer's other addresses are called, too. What they answer says nothing of the peer, and they
 *     do not keep anybody from the address at which it was found.
 */
#include "transports/wire/lines.h"

#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "bootstrap/sockets.h"
#include "support/harness.h"
#include "transports/wire/connections.h"

enum { RANKS = 2, CALLER = 1, OTHER = 0 };

typedef struct {
  df_connections connections;
  df_endpoint_owner owner;
  df_far_rank far[RANKS];
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
                                 .far = e->far,
                                 .resume_ms = 1000,
                                 .line_made = made};
  OK(df_lines_open(&e->connections.lines, &e->connections.tcp, &e->owner));
  ends[1 - rank].far[rank] = (df_far_rank){.is_far = 1, .has_line = 1,
                                           .calls = rank == OTHER,
                                           .key = {8},
                                           .address = df_address_loopback(e->connections.tcp.port)};
}

static void begin(void) {
  OK(df_handshake_ready());
  for (uint32_t r = 0; r < RANKS; r++) ends[r] = (end){.fd = -1};
  for (uint32_t r = 0; r < RANKS; r++) listen_at(r);
}

static void carry(void) {
  for (uint32_t r = 0; r < RANKS; r++)
    if (ends[r].connections.lines) df_connections_carry(&ends[r].connections, 0);
}

static int carried_until(const int *value, int least) {
  carry();
  return *value >= least;
}

static void stop(uint32_t rank) {
  df_socket_close(&ends[rank].fd);
  df_connections_close(&ends[rank].connections);
  ends[rank].connections.lines = NULL;
}

static void want(uint32_t rank, int is_wanted) {
  df_lines_want(ends[rank].connections.lines, 1 - rank, is_wanted);
}

static int is_refused(uint32_t rank) {
  carry();
  return df_lines_refused_ns(ends[rank].connections.lines, 1 - rank) != 0;
}

DF_TEST(lines, who_called_calls_again_and_both_get_the_connection, 30) {
  unsigned char last[DF_KEY_BYTES] = {0};
  begin();
  for (int i = 1; i <= 5; i++) {
    want(OTHER, 1);
    want(CALLER, 1);
    for (uint32_t r = 0; r < RANKS; r++) EVENTUALLY(carried_until(&ends[r].n_made, i));
    want(OTHER, 0);
    CHECK(memcmp(ends[0].key, ends[1].key, DF_KEY_BYTES) == 0, "connection %d has two keys", i);
    CHECK(memcmp(ends[0].key, last, DF_KEY_BYTES) != 0, "connection %d has an old key", i);
    memcpy(last, ends[0].key, sizeof last);
    char byte = (char)i;
    CHECK(send(ends[i % RANKS].fd, &byte, 1, 0) == 1, "send");
    byte = 0;
    EVENTUALLY(recv(ends[1 - i % RANKS].fd, &byte, 1, MSG_DONTWAIT) == 1);
    CHECK(byte == i, "it leads elsewhere");
  }
  CHECK(df_lines_patience_ns(ends[CALLER].connections.lines, df_clock_ns()) == UINT64_MAX,
        "something is due though nothing is wanted");
  for (uint32_t r = 0; r < RANKS; r++) stop(r);
}

DF_TEST(lines, the_other_ends_calls_make_no_connection, 30) {
  begin();
  want(OTHER, 1);
  const uint64_t end_ns = df_clock_ns() + 300000000;
  while (df_clock_ns() < end_ns) CHECK(!is_refused(OTHER), "refused by who listens");
  CHECK(ends[OTHER].connections.lines->calls[CALLER].vain_tries > 1, "it has not called");
  for (uint32_t r = 0; r < RANKS; r++) CHECK(ends[r].n_made == 0, "a connection was made");
  for (uint32_t r = 0; r < RANKS; r++) stop(r);
}

DF_TEST(lines, who_listens_no_more_refuses, 30) {
  for (uint32_t gone = 0; gone < RANKS; gone++) {
    begin();
    stop(gone);
    want(1 - gone, 1);
    EVENTUALLY(is_refused(1 - gone));
    CHECK(ends[1 - gone].connections.left_work, "who sleeps does not know when to call again");
    listen_at(gone);
    EVENTUALLY(!is_refused(1 - gone));
    if (gone == OTHER) EVENTUALLY(carried_until(&ends[CALLER].n_made, 1));
    for (uint32_t r = 0; r < RANKS; r++) stop(r);
  }
}

/* ---- several addresses ---- */

enum { SILENCE_MS = 600 };

/* Who calls it hears nothing: its system has as many callers as it takes. */
typedef struct {
  int fd, callers[8];
  df_address address;
} mute;

static void fill(mute *m) {
  uint16_t port;
  m->fd = df_listen_loopback(&port);
  CHECK(m->fd >= 0 && listen(m->fd, 0) == 0, "no listener");
  m->address = df_address_loopback(port);
  for (int i = 0; i < 8; i++) m->callers[i] = df_connect_loopback(port);
}

static void empty(mute *m) {
  for (int i = 0; i < 8; i++)
    if (m->callers[i] >= 0) df_socket_close(&m->callers[i]);
  df_socket_close(&m->fd);
}

/* Another address of this host: what nobody listens at refuses. */
static df_address other_address(uint8_t last, uint16_t port) {
  df_address address = df_address_loopback(port);
  address.bytes[3] = last;
  return address;
}

static void offer(df_address address) {
  df_far_rank *far = &ends[CALLER].far[OTHER];
  if (far->n_offered == 0) far->offered[far->n_offered++] = far->address;
  far->offered[far->n_offered++] = address;
}

/* The address where the peer was found is silent, as over a network that is cut for a moment. */
DF_TEST(lines, another_address_that_refuses_is_no_sign_of_death, 30) {
  mute found;
  begin();
  fill(&found);
  ends[CALLER].owner.silence_ms = SILENCE_MS;
  ends[CALLER].far[OTHER].address = found.address;
  offer(other_address(2, found.address.port));
  want(CALLER, 1);
  const df_line_call *call = &ends[CALLER].connections.lines->calls[OTHER];
  while (call->vain_tries < 6)
    CHECK(!is_refused(CALLER), "dead, since another address refuses: call %u", call->vain_tries);
  empty(&found);
  for (uint32_t r = 0; r < RANKS; r++) stop(r);
}

DF_TEST(lines, another_address_that_is_silent_does_not_hide_a_death, 30) {
  mute other;
  begin();
  fill(&other);
  ends[CALLER].owner.silence_ms = SILENCE_MS;
  offer(other_address(1, other.address.port));
  ends[CALLER].far[OTHER].offered[1].bytes[3] = 1;
  stop(OTHER);
  want(CALLER, 1);
  EVENTUALLY(is_refused(CALLER));
  const uint64_t since = df_lines_refused_ns(ends[CALLER].connections.lines, OTHER);
  const uint32_t tries = ends[CALLER].connections.lines->calls[OTHER].vain_tries;
  while (ends[CALLER].connections.lines->calls[OTHER].vain_tries < tries + 6) carry();
  CHECK(df_lines_refused_ns(ends[CALLER].connections.lines, OTHER) == since,
        "it was refused, and no more");
  empty(&other);
  stop(CALLER);
}
