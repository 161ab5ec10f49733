#include "bootstrap/mesh/mesh.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/mesh/mesh_remote.h"
#include "bootstrap/net/rank_list.h"
#include "bootstrap/net/sockets.h"

enum {
  RETRY_MS = 2,      /* between calls to a rank that has too many callers */
  REFUSED_MS = 1000, /* a rank that refuses for this long counts as dead */
  CLAIM_MS = 500,    /* a caller that has sent its rank is not dropped within this time */
  PENDING_MS = 5000, /* time within which a caller must prove itself */
  PENDING_SPARE = 64
};
#define REPORT_NS 5000000000u

typedef struct {
  int fd;
  /* The other end; -1 for a pending connection before GREETING, then a claim until proven. */
  int rank;
  bool connected;
  /* When the pending connection arrived; for a lower rank: when it first refused, or 0. */
  uint64_t since_ns;
  unsigned char nonce[DF_NONCE_BYTES];
  unsigned char key[DF_KEY_BYTES];
} link_attempt;

typedef struct {
  df_rendezvous *r;
  const unsigned char *local;
  int *sockets;
  unsigned char key[DF_KEY_BYTES];
  int n_missing;
  int accept_error;      /* why a pending connection was dropped, or 0 */
  bool is_full;          /* callers wait until a pending connection ends */
  link_attempt *lower;   /* [rank] */
  link_attempt *pending; /* [pending_max], oldest first */
  int n_pending, pending_max;
  df_remote_mesh *remote; /* NULL: no rank is on another host */
  struct pollfd *polled;  /* [2 + rank + pending_max], then the entries of remote */
  uint64_t begin_ns, report_ns;
  bool is_done;    /* this rank has all its connections */
  bool is_through; /* all ranks have theirs */
} mesh_work;

static bool is_remote(const mesh_work *work, int rank) {
  return work->remote && work->r->made.remote[rank].is_remote;
}

/* Returns whether the rank is in this process, or is reached through a relay. */
static bool needs_no_socket(const mesh_work *work, int rank) {
  const df_mesh *made = &work->r->made;
  return work->local[rank] ||
         (made->remote && made->remote[rank].is_remote && !made->remote[rank].has_channel);
}

static void set_connected(mesh_work *work, link_attempt *attempt) {
  work->sockets[attempt->rank] = attempt->fd;
  work->n_missing--;
  attempt->fd = -1;
  attempt->connected = true;
}

/* Returns 1 for a complete message, 0 if there is none yet, and -1 for anything else, also the end
 * of the connection. */
static int receive_packet(int fd, df_message_type type, void *message, size_t bytes) {
  ssize_t got;
  do got = recv(fd, message, bytes, MSG_TRUNC);
  while (got < 0 && errno == EINTR);
  if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
  if (got != (ssize_t)bytes) return -1;
  return df_header_is((const df_header *)message, type, bytes) ? 1 : -1;
}

/* A packet is sent as a whole or not at all. */
static bool send_packet(int fd, const void *message, size_t bytes) {
  ssize_t sent;
  do sent = send(fd, message, bytes, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == (ssize_t)bytes;
}

static bool send_encrypted_signal(int fd, df_message_type type, const unsigned char *key) {
  df_signal signal;
  df_message_start(&signal, type, sizeof signal);
  df_message_seal(&signal, sizeof signal, key);
  return send_packet(fd, &signal, sizeof signal);
}

static void derive_pair_key(unsigned char key[DF_KEY_BYTES], const mesh_work *work, int from,
                            int to, const unsigned char *from_nonce,
                            const unsigned char *to_nonce) {
  struct {
    int32_t from, to;
    unsigned char nonce[DF_NONCE_BYTES];
  } caller = {.from = from, .to = to};
  memcpy(caller.nonce, from_nonce, sizeof caller.nonce);
  df_derive(key, DF_KEY_BYTES, work->key, "dfccl pair", &caller, sizeof caller, to_nonce,
            DF_NONCE_BYTES);
}

static dfcclResult_t refused(const mesh_work *work, link_attempt *attempt) {
  uint64_t now = df_clock_ns();
  if (attempt->since_ns == 0) attempt->since_ns = now;
  if (now - attempt->since_ns < (uint64_t)REFUSED_MS * 1000000u) return dfcclSuccess;
  return df_fail(dfcclRemoteError, "rank %d (process %d) does not listen for rank %d",
                 attempt->rank, work->r->records[attempt->rank].pid, work->r->rank);
}

/* Returns success also if the rank is busy. */
static dfcclResult_t call_rank(mesh_work *work, link_attempt *attempt) {
  int fd = df_connect_abstract(SOCK_SEQPACKET, work->r->records[attempt->rank].name);
  if (fd == -EAGAIN || fd == -EINTR) return dfcclSuccess;
  if (fd == -ECONNREFUSED) return refused(work, attempt);
  char why[DF_WHY_BYTES];
  if (fd < 0)
    return df_fail(df_is_exhausted(-fd) ? dfcclOutOfMemory : dfcclSystemError,
                   "rank %d has no socket for rank %d of %d: %s", work->r->rank, attempt->rank,
                   work->r->n_ranks, df_why(-fd, why));
  uid_t other;
  if (!df_socket_same_user(fd, &other)) {
    df_socket_close(&fd);
    return df_fail(dfcclRemoteError, "rank %d runs as user %u, rank %d as user %u", attempt->rank,
                   other, work->r->rank, geteuid());
  }
  df_handshake_greeting greeting;
  df_message_start(&greeting, DF_MESSAGE_GREETING, sizeof greeting);
  greeting.from = work->r->rank;
  greeting.to = attempt->rank;
  randombytes_buf(attempt->nonce, sizeof attempt->nonce);
  memcpy(greeting.nonce, attempt->nonce, sizeof greeting.nonce);
  if (send_packet(fd, &greeting, sizeof greeting))
    attempt->fd = fd;
  else
    df_socket_close(&fd);
  return dfcclSuccess;
}

static dfcclResult_t on_answer(mesh_work *work, link_attempt *attempt) {
  df_answer answer;
  int got = receive_packet(attempt->fd, DF_MESSAGE_ANSWER, &answer, sizeof answer);
  if (got == 0) return dfcclSuccess;
  if (got < 0) {
    df_socket_close(
        &attempt->fd); /* the rank is busy or dying: try again until the root reports a failure */
    return refused(work, attempt);
  }
  derive_pair_key(attempt->key, work, work->r->rank, attempt->rank, attempt->nonce, answer.nonce);
  if (!df_message_verify(&answer, sizeof answer, attempt->key))
    return df_fail(dfcclRemoteError,
                   "the process that answers rank %d as rank %d is not part of this job",
                   work->r->rank, attempt->rank);
  if (send_encrypted_signal(attempt->fd, DF_MESSAGE_PROOF, attempt->key))
    set_connected(work, attempt);
  else
    df_socket_close(&attempt->fd);
  return dfcclSuccess;
}

static void drop_pending(mesh_work *work, int index) {
  df_socket_close(&work->pending[index].fd);
  work->n_pending--;
  memmove(&work->pending[index], &work->pending[index + 1],
          sizeof *work->pending * (size_t)(work->n_pending - index));
}

/* Returns the index of the pending connection to drop if there is no descriptor for the next one,
 * or -1 for none. A caller that has received its ANSWER may consider the connection established,
 * and would not call again. */
static int pending_to_drop(const mesh_work *work) {
  for (int i = 0; i < work->n_pending; i++)
    if (work->pending[i].rank < 0) return i;
  if (work->n_pending == 0) return -1;
  return df_clock_ns() - work->pending[0].since_ns < (uint64_t)CLAIM_MS * 1000000u ? -1 : 0;
}

/* If no descriptor is free, accept fails even if there is no caller, so poll first. */
static bool has_caller(const mesh_work *work) {
  struct pollfd listener = {.fd = work->r->listener.fd, .events = POLLIN};
  return poll(&listener, 1, 0) > 0;
}

static dfcclResult_t accept_pending(mesh_work *work) {
  while (has_caller(work)) {
    int fd = df_accept(work->r->listener.fd);
    if (fd == -EINTR || fd == -ECONNABORTED) continue;
    if (fd == -EAGAIN) break;
    if (fd < 0) {
      char why[DF_WHY_BYTES];
      int index = pending_to_drop(work);
      work->accept_error = -fd;
      work->is_full = index < 0 && work->n_pending > 0;
      if (work->is_full) return dfcclSuccess;
      if (index >= 0) {
        drop_pending(work, index);
        continue;
      }
      return df_fail(df_is_exhausted(-fd) ? dfcclOutOfMemory : dfcclSystemError,
                     "rank %d of %d cannot accept a connection: %s", work->r->rank,
                     work->r->n_ranks, df_why(-fd, why));
    }
    if (!df_socket_same_user(fd, NULL)) {
      df_socket_close(&fd);
      continue;
    }
    if (work->n_pending == work->pending_max) drop_pending(work, 0);
    work->pending[work->n_pending++] =
        (link_attempt){.fd = fd, .rank = -1, .since_ns = df_clock_ns()};
  }
  return dfcclSuccess;
}

static bool on_greeting(mesh_work *work, link_attempt *caller) {
  df_handshake_greeting greeting;
  int got = receive_packet(caller->fd, DF_MESSAGE_GREETING, &greeting, sizeof greeting);
  if (got <= 0) return got == 0;
  const df_rendezvous *r = work->r;
  if (greeting.to != r->rank || greeting.from <= r->rank || greeting.from >= r->n_ranks)
    return false;
  if (work->local[greeting.from] || is_remote(work, greeting.from)) return false;
  df_answer answer;
  df_message_start(&answer, DF_MESSAGE_ANSWER, sizeof answer);
  randombytes_buf(answer.nonce, sizeof answer.nonce);
  caller->rank = greeting.from;
  derive_pair_key(caller->key, work, greeting.from, r->rank, greeting.nonce, answer.nonce);
  df_message_seal(&answer, sizeof answer, caller->key);
  return send_packet(caller->fd, &answer, sizeof answer);
}

static bool on_proof(mesh_work *work, link_attempt *caller) {
  df_signal proof;
  int got = receive_packet(caller->fd, DF_MESSAGE_PROOF, &proof, sizeof proof);
  if (got <= 0) return got == 0;
  if (!df_message_verify(&proof, sizeof proof, caller->key)) return false;
  if (work->sockets[caller->rank] >= 0) return false;
  set_connected(work, caller);
  return true;
}

static dfcclResult_t call_lower_ranks(mesh_work *work, bool *again) {
  *again = false;
  for (int rank = 0; rank < work->r->rank; rank++) {
    link_attempt *attempt = &work->lower[rank];
    if (attempt->connected || work->local[rank] || is_remote(work, rank) || attempt->fd >= 0)
      continue;
    dfcclResult_t result = call_rank(work, attempt);
    if (result != dfcclSuccess) return result;
    *again = *again || attempt->fd < 0;
  }
  return dfcclSuccess;
}

static int fill_polled(mesh_work *work) {
  int n = 0;
  work->polled[n++] = (struct pollfd){.fd = work->r->fd, .events = POLLIN};
  work->polled[n++] =
      (struct pollfd){.fd = work->is_full ? -1 : work->r->listener.fd, .events = POLLIN};
  for (int rank = 0; rank < work->r->rank; rank++)
    work->polled[n++] = (struct pollfd){.fd = work->lower[rank].fd, .events = POLLIN};
  for (int i = 0; i < work->n_pending; i++)
    work->polled[n++] = (struct pollfd){.fd = work->pending[i].fd, .events = POLLIN};
  return n;
}

static void serve_pending(mesh_work *work, const struct pollfd *polled) {
  uint64_t now = df_clock_ns();
  for (int i = work->n_pending - 1; i >= 0; i--) { /* dropping one moves the later ones */
    link_attempt *caller = &work->pending[i];
    bool keep = now - caller->since_ns < (uint64_t)PENDING_MS * 1000000u;
    if (keep && polled[i].revents != 0)
      keep = caller->rank < 0 ? on_greeting(work, caller) : on_proof(work, caller);
    if (!keep || caller->connected) drop_pending(work, i);
  }
}

/* Writes the first remote rank that is not connected and the state of its addresses, or "" if there
 * is none. */
static void describe_remote(const mesh_work *work, char text[DF_PROBE_TEXT + 32]) {
  char places[DF_PROBE_TEXT];
  text[0] = '\0';
  for (int rank = 0; rank < work->r->n_ranks; rank++) {
    if (!is_remote(work, rank) || needs_no_socket(work, rank) || work->sockets[rank] >= 0) continue;
    df_remote_mesh_describe(work->remote, rank, places);
    snprintf(text, DF_PROBE_TEXT + 32, "; rank %d: %s", rank, places);
    return;
  }
}

static void describe_missing(const mesh_work *work, char names[DF_RANK_LIST_BYTES],
                             char places[DF_PROBE_TEXT + 32]) {
  unsigned char missing[DF_MAX_RANKS] = {0};
  for (int rank = 0; rank < work->r->n_ranks; rank++)
    missing[rank] = !needs_no_socket(work, rank) && work->sockets[rank] < 0;
  df_rank_list(names, DF_RANK_LIST_BYTES, missing, work->r->n_ranks);
  describe_remote(work, places);
}

static void report(mesh_work *work) {
  char names[DF_RANK_LIST_BYTES], places[DF_PROBE_TEXT + 32];
  const uint64_t waited_ns = df_clock_ns() - work->begin_ns;
  work->report_ns = df_clock_ns() + waited_ns;
  describe_missing(work, names, places);
  df_log(DF_LOG_WARN, "rank %d has waited %llu s for a connection to %s%s", work->r->rank,
         (unsigned long long)(waited_ns / 1000000000u), names, places);
}

static dfcclResult_t mesh_round(mesh_work *work, uint64_t deadline_ns) {
  bool again;
  dfcclResult_t result = call_lower_ranks(work, &again);
  if (result != dfcclSuccess) return result;
  again = again || work->is_full;
  int n_polled = fill_polled(work), n_remote, n_connected;
  work->is_full = false;
  uint64_t wake_ns = DF_MIN(deadline_ns, work->report_ns);
  result = df_remote_mesh_fill(work->remote, work->polled + n_polled, &n_remote, &wake_ns);
  if (result != dfcclSuccess) return result;
  int wait_ms = DF_MIN(df_remaining_ms(wake_ns), again ? RETRY_MS : PENDING_MS);
  int ready = poll(work->polled, (nfds_t)(n_polled + n_remote), wait_ms);
  if (ready < 0 && errno != EINTR)
    return df_fail(dfcclSystemError, "cannot wait for %d ranks: %s", work->n_missing,
                   strerror(errno));
  if (ready < 0) return dfcclSuccess;
  if (df_clock_ns() >= work->report_ns) report(work);
  if (work->polled[0].revents != 0) {
    result = work->is_done ? df_rendezvous_go(work->r) : df_rendezvous_news(work->r);
    work->is_through = result == dfcclSuccess;
    if (result != dfcclInProgress) return result;
  }
  for (int rank = 0; rank < work->r->rank; rank++)
    if (work->polled[2 + rank].revents != 0) {
      result = on_answer(work, &work->lower[rank]);
      if (result != dfcclSuccess) return result;
    }
  serve_pending(work, work->polled + 2 + work->r->rank);
  result = df_remote_mesh_serve(work->remote, work->polled + n_polled, &n_connected);
  work->n_missing -= n_connected;
  if (result != dfcclSuccess) return result;
  return work->polled[1].revents != 0 ? accept_pending(work) : dfcclSuccess;
}

static dfcclResult_t too_late(const mesh_work *work) {
  char names[DF_RANK_LIST_BYTES], places[DF_PROBE_TEXT + 32], why[DF_WHY_BYTES] = "";
  describe_missing(work, names, places);
  if (work->accept_error) df_why(work->accept_error, why);
  return df_fail(dfcclTimeout, "no connection between rank %d and %s within %d ms%s%s%s",
                 work->r->rank, names, work->r->timeout_ms, work->accept_error ? "; " : "", why,
                 places);
}

static dfcclResult_t prepare(mesh_work *work) {
  const df_rendezvous *r = work->r;
  df_derive(work->key, sizeof work->key, r->key, "dfccl mesh", r->session, sizeof r->session, NULL,
            0);
  for (int rank = 0; rank < r->n_ranks; rank++) {
    work->sockets[rank] = -1;
    work->n_missing += !needs_no_socket(work, rank);
  }
  work->pending_max = work->n_missing + PENDING_SPARE;
  work->lower = calloc((size_t)r->rank + 1, sizeof *work->lower);
  work->pending = calloc((size_t)work->pending_max, sizeof *work->pending);
  for (int rank = 0; work->lower && rank < r->rank; rank++)
    work->lower[rank] = (link_attempt){.fd = -1, .rank = rank};
  dfcclResult_t result =
      df_remote_mesh_open(&work->remote, r, work->key, work->sockets, work->r->made.remote);
  if (result != dfcclSuccess) return result;
  work->polled =
      calloc((size_t)(2 + r->rank + work->pending_max + df_remote_mesh_polled_max(work->remote)),
             sizeof *work->polled);
  if (work->lower == NULL || work->pending == NULL || work->polled == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for connections to %d ranks", r->n_ranks);
  return dfcclSuccess;
}

/* A rank of another host may have lost the last message of a handshake that is complete here, and
 * connect again, until the root has reported that all ranks are connected. */
static dfcclResult_t wait_for_others(mesh_work *work) {
  const uint64_t deadline_ns = df_rendezvous_go_deadline_ns(work->r);
  dfcclResult_t result = dfcclSuccess;
  work->is_done = true;
  work->report_ns = UINT64_MAX; /* the root reports who is missing */
  df_rendezvous_send_done(work->r);
  while (result == dfcclSuccess && !work->is_through) {
    if (df_clock_ns() >= deadline_ns) return df_rendezvous_go(work->r);
    result = mesh_round(work, deadline_ns);
  }
  return result;
}

dfcclResult_t df_mesh_connect(df_rendezvous *rendezvous, const unsigned char *local, int *sockets) {
  mesh_work work = {.r = rendezvous, .local = local, .sockets = sockets};
  work.begin_ns = df_clock_ns();
  work.report_ns = work.begin_ns + REPORT_NS;
  uint64_t deadline_ns = rendezvous->deadline_ns;
  dfcclResult_t result = prepare(&work);
  while (result == dfcclSuccess && work.n_missing > 0)
    result = df_clock_ns() < deadline_ns ? mesh_round(&work, deadline_ns) : too_late(&work);
  if (result == dfcclSuccess) result = wait_for_others(&work);
  while (work.n_pending > 0) drop_pending(&work, work.n_pending - 1);
  for (int rank = 0; work.lower != NULL && rank < rendezvous->rank; rank++)
    df_socket_close(&work.lower[rank].fd);
  for (int rank = 0; result != dfcclSuccess && rank < rendezvous->n_ranks; rank++)
    df_socket_close(&sockets[rank]);
  df_remote_mesh_close(work.remote);
  free(work.polled);
  free(work.pending);
  free(work.lower);
  sodium_memzero(work.key, sizeof work.key);
  return result;
}
