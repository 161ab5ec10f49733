#include "bootstrap/bootstrap.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "bootstrap/mesh.h"
#include "bootstrap/process.h"
#include "bootstrap/rendezvous.h"
#include "bootstrap/rendezvous_root.h"
#include "bootstrap/sockets.h"

enum {
  ID_LIFETIME_MS = 10 * 60 * 1000, /* of an id that nobody uses */
  LINGER_MS = 5000,                /* in which late ranks learn why the job of an id failed */
  KEY_LINGER_MS = 500,             /* for a key, while rank 0 waits to return */
  RETRY_MS = 5,
  /* An earlier job of the key may be on its way out. After these times the holder of rank 0's
   * address counts as a second rank 0, and a root that vanished as dead. */
  OLD_ROOT_MS = 3000,
  NEW_ROOT_MS = 2000
};

static dfcclResult_t no_listener(const char *whose, int error) {
  char why[DF_WHY_BYTES];
  return df_fail(df_is_exhausted(error) ? dfcclOutOfMemory : dfcclSystemError,
                 "no listening socket for %s: %s", whose, df_why(error, why));
}

dfcclResult_t df_bootstrap_create_id(dfcclUniqueId *id) {
  if (id == NULL) return df_fail(dfcclInvalidArgument, "the pointer to the unique id is NULL");
  dfcclResult_t result = df_handshake_ready();
  if (result != dfcclSuccess) return result;
  uint16_t port;
  int listener = df_listen_loopback(&port);
  if (listener < 0) return no_listener("the unique id, on 127.0.0.1", -listener);
  unsigned char secret[DF_SECRET_BYTES];
  randombytes_buf(secret, sizeof secret);
  df_root_options options = {
      .listener = listener, .idle_ms = ID_LIFETIME_MS, .linger_ms = LINGER_MS};
  df_key_from_secret(options.key, secret);
  result = df_root_start(&options, NULL);
  if (result == dfcclSuccess) df_id_write(id, port, secret);
  sodium_memzero(secret, sizeof secret);
  sodium_memzero(options.key, sizeof options.key);
  return result;
}

/* dfcclInProgress: somebody else holds the address. */
static dfcclResult_t become_root(const df_rendezvous *r, df_root **root) {
  int listener = df_listen_abstract(SOCK_STREAM, r->name);
  if (listener == -EADDRINUSE) return dfcclInProgress;
  if (listener < 0) return no_listener("rank 0", -listener);
  df_root_options options = {.listener = listener,
                             .same_user_only = true,
                             .n_ranks = r->n_ranks,
                             .idle_ms = (uint64_t)r->timeout_ms + df_news_ms(r->timeout_ms),
                             .linger_ms = KEY_LINGER_MS};
  memcpy(options.key, r->key, sizeof options.key);
  dfcclResult_t result = df_root_start(&options, root);
  sodium_memzero(options.key, sizeof options.key);
  return result;
}

static dfcclResult_t nobody_there(const df_rendezvous *r) {
  if (!r->by_key)
    return df_fail(dfcclTimeout, "the root at 127.0.0.1:%u did not answer rank %d within %d ms",
                   r->port, r->rank, r->timeout_ms);
  if (r->rank == 0)
    return df_fail(dfcclTimeout,
                   "another process held the rendezvous address of rank 0 for %d ms, silently",
                   r->timeout_ms);
  return df_fail(dfcclTimeout, "rank 0 of %d did not come within %d ms", r->n_ranks, r->timeout_ms);
}

/* An earlier job's root may hold the key's address: it vanishes, and the rank tries again. */
static dfcclResult_t meet(df_rendezvous *r, df_root **root) {
  uint64_t begin_ns = df_clock_ns(), orphaned_ns = 0;
  uint64_t patience_ns = DF_MIN(OLD_ROOT_MS, r->timeout_ms / 2) * (uint64_t)1000000;
  for (;;) {
    uint64_t now = df_clock_ns();
    if (orphaned_ns != 0 && now - orphaned_ns > (uint64_t)NEW_ROOT_MS * 1000000u)
      return df_rendezvous_orphaned(r);
    if (now >= r->deadline_ns) return orphaned_ns ? df_rendezvous_orphaned(r) : nobody_there(r);
    dfcclResult_t result = dfcclSuccess;
    if (r->by_key && r->rank == 0 && *root == NULL) {
      result = become_root(r, root);
      if (result == dfcclInProgress && now - begin_ns > patience_ns) result = dfcclSuccess;
    }
    if (result == dfcclSuccess) result = df_rendezvous_enter(r);
    if (result == dfcclSuccess) {
      result = df_rendezvous_table(r);
      if (result != dfcclInProgress) return result;
      df_socket_close(&r->fd);
      if (!r->by_key || r->rank == 0) return df_rendezvous_orphaned(r);
      orphaned_ns = df_clock_ns();
    }
    if (result != dfcclInProgress) return result;
    poll(NULL, 0, DF_MIN(RETRY_MS, df_remaining_ms(r->deadline_ns)));
  }
}

static dfcclResult_t check_arguments(int n_ranks, int rank, const df_card *card, int timeout_ms,
                                     const df_mesh *mesh) {
  if (card == NULL || mesh == NULL)
    return df_fail(dfcclInvalidArgument, "the pointer to the %s is NULL", card ? "mesh" : "card");
  if (n_ranks < 1 || n_ranks > DF_MAX_RANKS)
    return df_fail(dfcclInvalidArgument, "the number of ranks is %d, not 1 to %d", n_ranks,
                   DF_MAX_RANKS);
  if (rank < 0 || rank >= n_ranks)
    return df_fail(dfcclInvalidArgument, "the rank is %d, not 0 to %d (of %d ranks)", rank,
                   n_ranks - 1, n_ranks);
  if (timeout_ms < 1)
    return df_fail(dfcclInvalidArgument, "the timeout is %d ms, not 1 or more", timeout_ms);
  return df_handshake_ready();
}

/* The address is random: only the table tells it. */
static dfcclResult_t open_listener(df_rendezvous *r) {
  randombytes_buf(r->own.name, sizeof r->own.name);
  int fd = df_listen_abstract(SOCK_SEQPACKET, r->own.name);
  char whose[32];
  snprintf(whose, sizeof whose, "rank %d", r->rank);
  if (fd < 0) return no_listener(whose, -fd);
  df_listener_open(&r->listener, fd);
  return dfcclSuccess;
}

static dfcclResult_t fill_mesh(df_mesh *mesh, const df_rendezvous *r) {
  size_t n = (size_t)r->n_ranks;
  mesh->n_ranks = r->n_ranks;
  mesh->rank = r->rank;
  mesh->sockets = malloc(n * sizeof *mesh->sockets);
  if (mesh->sockets != NULL)
    for (size_t i = 0; i < n; i++) mesh->sockets[i] = -1;
  mesh->cards = malloc(n * sizeof *mesh->cards);
  mesh->local = malloc(n);
  if (mesh->sockets == NULL || mesh->cards == NULL || mesh->local == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the table of %d ranks", r->n_ranks);
  for (size_t i = 0; i < n; i++) {
    mesh->cards[i] = r->records[i].card;
    mesh->local[i] = memcmp(r->records[i].token, r->own.token, DF_TOKEN_BYTES) == 0;
    mesh->n_local += mesh->local[i];
  }
  if (memcmp(&r->records[r->rank], &r->own, sizeof r->own) != 0)
    return df_fail(dfcclRemoteError, "the root's table does not tell of rank %d what it said",
                   r->rank);
  df_derive(mesh->job, sizeof mesh->job, r->key, "dfccl job", r->session, sizeof r->session, NULL,
            0);
  return dfcclSuccess;
}

/* r is on the heap: a forked child keeps its listener in a list, but not this stack. */
static dfcclResult_t join(df_rendezvous *r, const df_card *card, int timeout_ms, df_mesh *mesh) {
  df_root *root = NULL;
  r->timeout_ms = timeout_ms;
  r->deadline_ns = df_clock_ns() + (uint64_t)timeout_ms * 1000000u;
  r->fd = -1;
  r->listener.fd = -1;
  r->own.pid = getpid();
  r->own.card = *card;
  df_process_token(r->own.token);
  dfcclResult_t result = open_listener(r);
  if (result == dfcclSuccess) result = meet(r, &root);
  if (result == dfcclSuccess) result = fill_mesh(&r->made, r);
  if (result == dfcclSuccess) result = df_mesh_connect(r, r->made.local, r->made.sockets);
  df_listener_close(&r->listener);
  if (result == dfcclSuccess) result = df_rendezvous_finish(r);
  if (result == dfcclSuccess) {
    *mesh = r->made;
    r->made = (df_mesh){0};
  } else {
    /* Ranks of this process have no socket that tells them: the caller does. */
    *mesh = (df_mesh){.n_ranks = r->n_ranks, .rank = r->rank, .n_local = r->made.n_local};
    memcpy(mesh->job, r->made.job, sizeof mesh->job);
    mesh->absence = r->others_may_go        ? DF_ABSENCE_AWAITED
                    : r->made.local != NULL ? DF_ABSENCE_COUNTED
                                            : DF_ABSENCE_UNNOTICED;
    df_mesh_close(&r->made);
    df_rendezvous_leave(r, result);
  }
  df_socket_close(&r->fd);
  if (root != NULL) df_root_stop(root);
  return result;
}

static df_rendezvous *make_rendezvous(int n_ranks, int rank) {
  df_rendezvous *r = calloc(1, sizeof *r);
  if (r == NULL) {
    df_fail(dfcclOutOfMemory, "no memory for the rendezvous");
    return NULL;
  }
  r->n_ranks = n_ranks;
  r->rank = rank;
  return r;
}

static void free_rendezvous(df_rendezvous *r) {
  free(r->records);
  sodium_memzero(r, sizeof *r);
  free(r);
}

dfcclResult_t df_bootstrap_join(const dfcclUniqueId *id, int n_ranks, int rank, const df_card *card,
                                int timeout_ms, df_mesh *mesh) {
  if (id == NULL) return df_fail(dfcclInvalidArgument, "the pointer to the unique id is NULL");
  dfcclResult_t result = check_arguments(n_ranks, rank, card, timeout_ms, mesh);
  if (result != dfcclSuccess) return result;
  df_rendezvous *r = make_rendezvous(n_ranks, rank);
  if (r == NULL) return dfcclOutOfMemory;
  unsigned char secret[DF_SECRET_BYTES];
  result = df_id_read(id, &r->port, secret);
  if (result == dfcclSuccess) {
    df_key_from_secret(r->key, secret);
    sodium_memzero(secret, sizeof secret);
    result = join(r, card, timeout_ms, mesh);
  }
  free_rendezvous(r);
  return result;
}

dfcclResult_t df_bootstrap_join_key(const char *key, int n_ranks, int rank, const df_card *card,
                                    int timeout_ms, df_mesh *mesh) {
  if (key == NULL || key[0] == '\0')
    return df_fail(dfcclInvalidArgument, "the key of the job is %s", key ? "empty" : "NULL");
  dfcclResult_t result = check_arguments(n_ranks, rank, card, timeout_ms, mesh);
  if (result != dfcclSuccess) return result;
  df_rendezvous *r = make_rendezvous(n_ranks, rank);
  if (r == NULL) return dfcclOutOfMemory;
  r->by_key = true;
  df_key_from_text(r->key, key, (uint32_t)geteuid());
  df_derive(r->name, sizeof r->name, r->key, "dfccl address", NULL, 0, NULL, 0);
  result = join(r, card, timeout_ms, mesh);
  free_rendezvous(r);
  return result;
}

void df_mesh_close(df_mesh *mesh) {
  for (int rank = 0; mesh->sockets != NULL && rank < mesh->n_ranks; rank++)
    df_socket_close(&mesh->sockets[rank]);
  free(mesh->sockets);
  free(mesh->cards);
  free(mesh->local);
  *mesh = (df_mesh){0};
}
