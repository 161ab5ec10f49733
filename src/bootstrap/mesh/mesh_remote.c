#include "bootstrap/mesh/mesh_remote.h"

#include <errno.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "bootstrap/mesh/remote_address.h"
#include "bootstrap/net/sockets.h"

enum {
  NEXT_ADDRESS_MS = 100, /* between the first calls to a rank's addresses */
  AGAIN_MS = 200,        /* after a call that failed */
  LOWER_MS = 1000,       /* after this time lower ranks call too */
  PENDING_MS = 5000,     /* time within which a caller must prove itself */
  PENDING_SPARE = 64
};

typedef enum {
  RESTING,
  CONNECTING,
  GREETED, /* a caller waits for ANSWER, a listener for GREETING */
  PROVING, /* a caller waits for GO, a listener for PROOF */
  ENDED    /* the rank has a connection */
} stage;

/* A call, or a pending connection. */
typedef struct {
  int fd, rank; /* the rank of a pending connection is a claim until proven */
  stage stage;
  df_address address; /* the address to call */
  df_address from;    /* address of this host on the same link; family 0: the system chooses */
  uint32_t scope;
  int error;
  /* RESTING: time of the next call; PROVING call: time of PROOF; pending connection: time of
   * arrival */
  uint64_t since_ns;
  uint64_t silent_ns; /* time since when the other end has sent nothing; 0: it has sent something */
  unsigned char own[DF_KEY_BYTES], secret[DF_KEY_BYTES], key[DF_KEY_BYTES];
  union {
    df_header header;
    df_handshake_greeting greeting;
    df_answer answer;
    df_signal signal;
    unsigned char bytes[sizeof(df_answer)];
  } in;
  size_t in_used;
} contact;

struct df_remote_mesh {
  const df_rendezvous *r;
  int *sockets;
  df_remote_rank *remote;
  unsigned char key[DF_KEY_BYTES];
  contact *calls, *pending; /* pending: oldest first */
  int n_calls, n_pending, pending_max, n_polled_pending;
};

static void draw_keys(contact *c) {
  randombytes_buf(c->secret, sizeof c->secret);
  crypto_scalarmult_base(c->own, c->secret);
}

/* Derives the key from the key of the mesh, both ranks, both public keys, and the shared secret
 * that only the owners of the keys can compute. Returns false if the other public key is not a
 * valid point. */
static bool derive(const df_remote_mesh *mesh, contact *c, bool calls,
                   const unsigned char other[DF_KEY_BYTES]) {
  struct {
    int32_t caller, listener;
    unsigned char shared[DF_KEY_BYTES];
  } ranks = {.caller = calls ? mesh->r->rank : c->rank,
             .listener = calls ? c->rank : mesh->r->rank};
  unsigned char both[2 * DF_KEY_BYTES];
  if (crypto_scalarmult(ranks.shared, c->secret, other) != 0) return false;
  memcpy(both, calls ? c->own : other, DF_KEY_BYTES);
  memcpy(both + DF_KEY_BYTES, calls ? other : c->own, DF_KEY_BYTES);
  df_derive(c->key, sizeof c->key, mesh->key, "dfccl far pair", &ranks, sizeof ranks, both,
            sizeof both);
  sodium_memzero(&ranks, sizeof ranks);
  sodium_memzero(c->secret, sizeof c->secret);
  return true;
}

static void rest(contact *c, int error) {
  df_socket_close(&c->fd);
  c->error = error;
  c->stage = RESTING;
  c->silent_ns = 0;
  c->since_ns = df_after_ms(AGAIN_MS);
}

/* The message is small and the first on its connection. If it cannot be sent as a whole, the
 * connection is of no use. */
static bool send_message(const contact *c, const void *message, size_t bytes) {
  return send(c->fd, message, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static bool send_signal(const contact *c, df_message_type type) {
  df_signal signal;
  df_message_start(&signal, type, sizeof signal);
  df_message_seal(&signal, sizeof signal, c->key);
  return send_message(c, &signal, sizeof signal);
}

/* Returns 1 for a complete message, 0 if it is not complete yet, and -1 at the end of the
 * connection or for a malformed message. */
static int receive(contact *c, df_message_type type, size_t bytes) {
  ssize_t got = recv(c->fd, c->in.bytes + c->in_used, bytes - c->in_used, 0);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return 0;
  if (got <= 0) return -1;
  c->silent_ns = 0;
  c->in_used += (size_t)got;
  if (c->in_used < bytes) return 0;
  c->in_used = 0;
  return df_header_is(&c->in.header, type, bytes) ? 1 : -1;
}

static void set_connected(df_remote_mesh *mesh, contact *c, bool calls) {
  df_remote_rank *remote = &mesh->remote[c->rank];
  const df_record *record = &mesh->r->records[c->rank];
  mesh->sockets[c->rank] = c->fd;
  remote->address = c->address;
  remote->scope = c->scope;
  remote->calls = calls;
  memcpy(remote->key, c->key, sizeof remote->key);
  if (!calls) df_remote_address_of_caller(remote, record, c->fd, c->rank < mesh->r->rank);
  df_remote_address_keep_offered(remote, record);
  df_socket_set_silence(c->fd, mesh->r->network->silence_ms);
  c->fd = -1;
  for (int i = 0; i < mesh->n_calls; i++) {
    contact *call = &mesh->calls[i];
    if (call->rank != c->rank) continue;
    df_socket_close(&call->fd);
    call->stage = ENDED;
  }
}

/* ---- calls ---- */

static dfcclResult_t call(contact *c) {
  struct sockaddr_storage address, from;
  socklen_t bytes = df_address_to_socket(&c->address, c->scope, &address);
  df_address_to_socket(&c->from, c->scope, &from);
  char why[DF_WHY_BYTES];
  c->in_used = 0;
  c->fd = df_connect_network(&address, bytes, c->from.family ? &from : NULL);
  if (c->fd < 0 && df_is_exhausted(-c->fd))
    return df_fail(dfcclOutOfMemory, "no socket for rank %d: %s", c->rank, df_why(-c->fd, why));
  if (c->fd < 0) {
    const int error = -c->fd;
    rest(c, error);
    return dfcclSuccess;
  }
  c->stage = CONNECTING;
  c->silent_ns = df_clock_ns();
  return dfcclSuccess;
}

static void send_greeting(const df_remote_mesh *mesh, contact *c) {
  df_handshake_greeting greeting;
  const int error = df_socket_error(c->fd);
  if (error) {
    rest(c, error);
    return;
  }
  df_message_start(&greeting, DF_MESSAGE_GREETING, sizeof greeting);
  greeting.from = mesh->r->rank;
  greeting.to = c->rank;
  draw_keys(c);
  memcpy(greeting.nonce, c->own, sizeof greeting.nonce);
  c->stage = GREETED;
  if (!send_message(c, &greeting, sizeof greeting)) rest(c, ECONNRESET);
}

static void handle_answer(const df_remote_mesh *mesh, contact *c) {
  int got = receive(c, DF_MESSAGE_ANSWER, sizeof(df_answer));
  if (got == 0) return;
  if (got < 0 || !derive(mesh, c, true, c->in.answer.nonce) ||
      !df_message_verify(&c->in.answer, sizeof c->in.answer, c->key) ||
      !send_signal(c, DF_MESSAGE_PROOF)) {
    rest(c, EPROTO);
    return;
  }
  c->stage = PROVING;
  c->since_ns = df_clock_ns();
}

/* Returns 1 if the connection is established: the listener has received the proof. */
static int handle_decision(df_remote_mesh *mesh, contact *c) {
  int got = receive(c, DF_MESSAGE_GO, sizeof(df_signal));
  if (got == 0) return 0;
  if (got < 0 || !df_message_verify(&c->in.signal, sizeof c->in.signal, c->key)) {
    rest(c, EPROTO);
    return 0;
  }
  set_connected(mesh, c, true);
  return 1;
}

/* ---- pending connections ---- */

static void drop_pending(df_remote_mesh *mesh, int index) {
  df_socket_close(&mesh->pending[index].fd);
  mesh->n_pending--;
  memmove(&mesh->pending[index], &mesh->pending[index + 1],
          sizeof *mesh->pending * (size_t)(mesh->n_pending - index));
}

static void accept_pending(df_remote_mesh *mesh, int listener) {
  for (;;) {
    int fd = df_accept(listener);
    if (fd == -EINTR || fd == -ECONNABORTED) continue;
    if (fd < 0 && df_is_exhausted(-fd) && mesh->n_pending > 0) {
      drop_pending(mesh, 0);
      continue;
    }
    if (fd < 0) return;
    if (mesh->n_pending == mesh->pending_max) drop_pending(mesh, 0);
    mesh->pending[mesh->n_pending++] =
        (contact){.fd = fd, .rank = -1, .stage = GREETED, .since_ns = df_clock_ns()};
  }
}

static bool handle_greeting(const df_remote_mesh *mesh, contact *c) {
  int got = receive(c, DF_MESSAGE_GREETING, sizeof(df_handshake_greeting));
  if (got <= 0) return got == 0;
  const df_handshake_greeting *greeting = &c->in.greeting;
  const df_rendezvous *r = mesh->r;
  if (greeting->to != r->rank || greeting->from < 0 || greeting->from >= r->n_ranks ||
      !mesh->remote[greeting->from].has_channel)
    return false;
  df_answer answer;
  df_message_start(&answer, DF_MESSAGE_ANSWER, sizeof answer);
  draw_keys(c);
  c->rank = greeting->from;
  memcpy(answer.nonce, c->own, sizeof answer.nonce);
  if (!derive(mesh, c, false, greeting->nonce)) return false;
  df_message_seal(&answer, sizeof answer, c->key);
  c->stage = PROVING;
  return send_message(c, &answer, sizeof answer);
}

/* The higher rank decides: while the lower rank checks the proof of one of its calls, the lower
 * rank's own calls wait. */
static bool is_deferred(const df_remote_mesh *mesh, const contact *pending) {
  if (pending->stage != PROVING || pending->rank > mesh->r->rank) return false;
  for (int i = 0; i < mesh->n_calls; i++)
    if (mesh->calls[i].rank == pending->rank && mesh->calls[i].stage == PROVING) return true;
  return false;
}

static bool has_ended(int fd) {
  struct pollfd polled = {.fd = fd, .events = POLLRDHUP};
  return poll(&polled, 1, 0) > 0;
}

/* A rank that has a connection accepts another one only if the first has ended: then the other rank
 * has not received this rank's last message, and has called again. Returns false if the pending
 * connection has ended. */
static bool handle_proof(df_remote_mesh *mesh, contact *c, int *n_connected) {
  int got = receive(c, DF_MESSAGE_PROOF, sizeof(df_signal));
  if (got <= 0) return got == 0;
  if (!df_message_verify(&c->in.signal, sizeof c->in.signal, c->key)) return false;
  const bool replaces = mesh->sockets[c->rank] >= 0;
  if (replaces && !has_ended(mesh->sockets[c->rank])) return false;
  if (!send_signal(c, DF_MESSAGE_GO)) return false;
  if (replaces) df_socket_close(&mesh->sockets[c->rank]);
  set_connected(mesh, c, false);
  *n_connected += !replaces;
  return false;
}

/* ---- the mesh ---- */

static int count_calls(const df_rendezvous *r, const df_remote_rank *remote) {
  int n = 0;
  for (int rank = 0; rank < r->n_ranks; rank++)
    if (remote[rank].has_channel) n += (DF_ADDRESSES_MAX + 1) * 2;
  return n;
}

static void add_call(df_remote_mesh *mesh, int rank, int nth, const df_address *address,
                     const df_interface *link) {
  const uint64_t later_ms = rank > mesh->r->rank ? LOWER_MS : 0;
  mesh->calls[mesh->n_calls++] =
      (contact){.fd = -1,
                .rank = rank,
                .address = *address,
                .from = link ? link->address : (df_address){0},
                .scope = link ? link->index : 0,
                .since_ns = df_after_ms(later_ms + (uint64_t)nth * NEXT_ADDRESS_MS)};
}

static void add_calls(df_remote_mesh *mesh, int rank, const df_interfaces *interfaces) {
  const df_record *record = &mesh->r->records[rank];
  const int n = DF_MIN(DF_MAX(record->n_addresses, 0), (int)DF_ADDRESSES_MAX);
  int nth = 0, most = (DF_ADDRESSES_MAX + 1) * 2;
  if (record->machine == mesh->r->own.machine && n > 0) {
    const df_address here = df_address_loopback(record->addresses[0].port);
    add_call(mesh, rank, nth++, &here, NULL);
  }
  for (int i = 0; i < n; i++) {
    const df_address *address = &record->addresses[i];
    const bool scoped = df_address_is_link_local(address);
    if (!df_address_is_sane(address) || df_address_is_loopback(address)) continue;
    if (!scoped && nth < most) add_call(mesh, rank, nth++, address, NULL);
    for (int j = 0; scoped && j < interfaces->n && nth < most; j++)
      if (interfaces->of[j].is_chosen && df_address_is_link_local(&interfaces->of[j].address))
        add_call(mesh, rank, nth++, address, &interfaces->of[j]);
  }
}

dfcclResult_t df_remote_mesh_open(df_remote_mesh **out, const df_rendezvous *r,
                                  const unsigned char key[DF_KEY_BYTES], int *sockets,
                                  df_remote_rank *remote) {
  *out = NULL;
  if (remote == NULL) return dfcclSuccess;
  df_interfaces *interfaces = calloc(1, sizeof *interfaces);
  df_remote_mesh *mesh = calloc(1, sizeof *mesh);
  const size_t calls_max = (size_t)count_calls(r, remote) + 1;
  if (mesh) {
    *mesh = (df_remote_mesh){.r = r, .sockets = sockets, .remote = remote};
    memcpy(mesh->key, key, sizeof mesh->key);
    for (int rank = 0; rank < r->n_ranks; rank++) mesh->pending_max += 2 * remote[rank].has_channel;
    mesh->pending_max += PENDING_SPARE;
    mesh->calls = calloc(calls_max, sizeof *mesh->calls);
    mesh->pending = calloc((size_t)mesh->pending_max, sizeof *mesh->pending);
  }
  dfcclResult_t result = dfcclSuccess;
  if (interfaces == NULL || mesh == NULL || mesh->calls == NULL || mesh->pending == NULL)
    result = df_fail(dfcclOutOfMemory, "no memory for connections to %d ranks", r->n_ranks);
  else
    result = df_remote_address_interfaces(interfaces, r);
  for (int rank = 0; rank < r->n_ranks && result == dfcclSuccess; rank++)
    if (remote[rank].has_channel)
      add_calls(mesh, rank, interfaces);
    else if (remote[rank].is_remote)
      df_remote_address_guess(&remote[rank], r, rank, interfaces);
  free(interfaces);
  if (result == dfcclSuccess)
    *out = mesh;
  else
    df_remote_mesh_close(mesh);
  return result;
}

void df_remote_mesh_close(df_remote_mesh *mesh) {
  if (mesh == NULL) return;
  for (int i = 0; mesh->calls && i < mesh->n_calls; i++) df_socket_close(&mesh->calls[i].fd);
  while (mesh->n_pending > 0) drop_pending(mesh, mesh->n_pending - 1);
  free(mesh->calls);
  free(mesh->pending);
  sodium_memzero(mesh->key, sizeof mesh->key);
  free(mesh);
}

int df_remote_mesh_polled_max(const df_remote_mesh *mesh) {
  return mesh ? DF_LISTENERS_MAX + mesh->n_calls + mesh->pending_max : 0;
}

/* Fills in the listeners, the calls, and the pending connections, in this order. */
dfcclResult_t df_remote_mesh_fill(df_remote_mesh *mesh, struct pollfd *polled, int *n,
                                  uint64_t *wake_ns) {
  *n = 0;
  if (mesh == NULL) return dfcclSuccess;
  const uint64_t now = df_clock_ns();
  const df_listeners *listeners = mesh->r->listeners;
  for (int i = 0; i < listeners->n; i++)
    polled[(*n)++] = (struct pollfd){.fd = listeners->listeners[i].fd, .events = POLLIN};
  for (int i = 0; i < mesh->n_calls; i++) {
    contact *c = &mesh->calls[i];
    if (c->stage == RESTING && now >= c->since_ns) {
      dfcclResult_t result = call(c);
      if (result != dfcclSuccess) return result;
    }
    if (c->stage == PROVING && now - c->since_ns > PENDING_MS * (uint64_t)1000000)
      rest(c, ETIMEDOUT);
    if (c->stage == RESTING) *wake_ns = DF_MIN(*wake_ns, c->since_ns);
    polled[(*n)++] =
        (struct pollfd){.fd = c->fd, .events = c->stage == CONNECTING ? POLLOUT : POLLIN};
  }
  mesh->n_polled_pending = mesh->n_pending;
  for (int i = 0; i < mesh->n_pending; i++)
    polled[(*n)++] = (struct pollfd){.fd = mesh->pending[i].fd,
                                     .events = is_deferred(mesh, &mesh->pending[i]) ? 0 : POLLIN};
  return dfcclSuccess;
}

static void serve_pending(df_remote_mesh *mesh, const struct pollfd *polled, int *n_connected) {
  const uint64_t now = df_clock_ns();
  for (int i = mesh->n_polled_pending - 1; i >= 0; i--) { /* dropping one moves the later ones */
    contact *c = &mesh->pending[i];
    bool keep = now - c->since_ns < PENDING_MS * (uint64_t)1000000;
    if (keep && polled[i].revents != 0 && !is_deferred(mesh, c))
      keep = c->stage == GREETED ? handle_greeting(mesh, c) : handle_proof(mesh, c, n_connected);
    if (!keep) drop_pending(mesh, i);
  }
}

dfcclResult_t df_remote_mesh_serve(df_remote_mesh *mesh, const struct pollfd *polled,
                                   int *n_connected) {
  *n_connected = 0;
  if (mesh == NULL) return dfcclSuccess;
  const df_listeners *listeners = mesh->r->listeners;
  const struct pollfd *calls = polled + listeners->n;
  for (int i = 0; i < mesh->n_calls; i++) {
    contact *c = &mesh->calls[i];
    if (c->fd < 0 || calls[i].revents == 0) continue;
    if (c->stage == CONNECTING)
      send_greeting(mesh, c);
    else if (c->stage == GREETED)
      handle_answer(mesh, c);
    else if (c->stage == PROVING)
      *n_connected += handle_decision(mesh, c);
  }
  serve_pending(mesh, calls + mesh->n_calls, n_connected);
  for (int i = 0; i < listeners->n; i++)
    if (polled[i].revents != 0) accept_pending(mesh, listeners->listeners[i].fd);
  return dfcclSuccess;
}

void df_remote_mesh_describe(const df_remote_mesh *mesh, int rank, char text[DF_PROBE_TEXT]) {
  df_text rest = {text, DF_PROBE_TEXT};
  bool is_silent = false;
  text[0] = '\0';
  for (int i = 0; mesh && i < mesh->n_calls; i++) {
    const contact *c = &mesh->calls[i];
    if (c->rank != rank) continue;
    const df_probe_attempt attempt = {
        .address = c->address, .scope = c->scope, .error = c->error, .silent_ns = c->silent_ns};
    if (text[0]) df_say(&rest, "; ");
    df_probe_attempt_describe(&attempt, &rest);
    is_silent |= df_probe_is_silent(&attempt);
  }
  if (is_silent) df_say(&rest, "; " DF_PROBE_FIREWALL);
}
