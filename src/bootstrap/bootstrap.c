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
#include "base/log.h"
#include "bootstrap/net/interfaces.h"
#include "bootstrap/become_root.h"
#include "bootstrap/mesh/mesh.h"
#include "bootstrap/net/fork_guard.h"
#include "bootstrap/rendezvous/rendezvous.h"
#include "bootstrap/rendezvous/root_loop.h"
#include "bootstrap/net/resolve.h"
#include "bootstrap/net/sockets.h"

enum {
  ID_LIFETIME_MS = 10 * 60 * 1000, /* lifetime of an id that no rank uses */
  LINGER_MS = 5000, /* late ranks receive the reason why the job of an id failed within this time */
  RETRY_MS = 5,
  /* The root of an earlier job with the same key may be about to end. After OLD_ROOT_MS the holder
   * of the address of rank 0 counts as a second rank 0; after NEW_ROOT_MS a root that vanished
   * counts as dead. */
  OLD_ROOT_MS = 3000,
  NEW_ROOT_MS = 2000,
  LOOK_UP_MS = 500, /* between two look-ups of a host name */
  USERS_MS = 1000,  /* time after which a rank looks whether another user has the root */
  REPORT_MS = 5000,
  OVER_NS = 1000000000 /* all addresses must refuse for this time: a route may not be set up yet */
};

static const df_network_settings this_host = {.is_off = 1};
static const unsigned char no_key[DF_KEY_BYTES];

dfcclResult_t df_bootstrap_create_id(dfcclUniqueId *id, const df_network_settings *network) {
  if (id == NULL) return df_fail(dfcclInvalidArgument, "the pointer to the unique id is NULL");
  dfcclResult_t result = df_handshake_ready();
  if (result != dfcclSuccess) return result;
  df_root_options options = {
      .listener = -1, .users_listener = -1, .idle_ms = ID_LIFETIME_MS, .linger_ms = LINGER_MS};
  if (network == NULL) network = &this_host;
  result = df_listeners_open(&options.listeners, network, 0, 0, DF_ID_ADDRESSES_MAX,
                             df_after_ms(network->join_ms));
  if (result != dfcclSuccess) return result;
  df_id_content content = {.port = options.listeners->port, .machine = df_machine_identity()};
  for (int i = 0; i < DF_MIN(options.listeners->n_offered, (int)DF_ID_ADDRESSES_MAX); i++)
    content.addresses[i] = options.listeners->offered[i];
  randombytes_buf(content.secret, sizeof content.secret);
  df_key_from_secret(options.key, content.secret);
  result = df_root_start(&options, -1, NULL);
  if (result == dfcclSuccess) df_id_write(id, &content);
  sodium_memzero(content.secret, sizeof content.secret);
  sodium_memzero(options.key, sizeof options.key);
  return result;
}

/* ---- a rank's search for the root ---- */

static dfcclResult_t resolve(const df_rendezvous *r, const char *host, df_address *found, int most,
                             int *n) {
  for (;;) {
    dfcclResult_t result = df_resolve(host, r->deadline_ns, found, most, n);
    if (result != dfcclInProgress) return result;
    if (df_remaining_ms(r->deadline_ns) == 0)
      return df_fail(dfcclTimeout, "host \"%.200s\" (of rank 0) could not be looked up in %d ms",
                     host, r->timeout_ms);
    poll(NULL, 0, DF_MIN(LOOK_UP_MS, df_remaining_ms(r->deadline_ns)));
  }
}

static dfcclResult_t add_places(df_rendezvous *r, const df_root_place *place,
                                const df_interfaces *interfaces) {
  df_address found[DF_ADDRESSES_MAX];
  int n, n_remote = 0;
  dfcclResult_t result = resolve(r, place->host, found, DF_ADDRESSES_MAX, &n);
  if (result != dfcclSuccess) return result;
  for (int i = 0; i < n; i++) n_remote += !df_interfaces_have(interfaces, &found[i]);
  if (n_remote == 0) return dfcclSuccess; /* rank 0 is on this host */
  if (!r->network->has_secret)
    return df_fail(dfcclInvalidUsage,
                   "rank %d of %d is not on the host of rank 0 (%.200s) and has no secret, "
                   "but " DF_NEEDS_SECRET,
                   r->rank, r->n_ranks, place->host);
  df_add_places(r, place, found, n, interfaces);
  return dfcclSuccess;
}

/* Collects the addresses on other hosts at which rank 0 may be. */
static dfcclResult_t look_for_rank_0(df_rendezvous *r, const df_root_place *place) {
  if (place == NULL || place->hosts == DF_HOSTS_ONE || r->network->is_off) {
    if (place && place->hosts == DF_HOSTS_SEVERAL)
      return df_fail(dfcclInvalidUsage,
                     "the job has several hosts, but DFCCL_NET=none allows one only");
    return dfcclSuccess;
  }
  if (place->hosts == DF_HOSTS_SEVERAL && !r->network->has_secret)
    return df_fail(dfcclInvalidUsage, "rank %d of %d has no secret, but " DF_NEEDS_SECRET, r->rank,
                   r->n_ranks);
  if (place->hosts == DF_HOSTS_SEVERAL && place->port == 0)
    return df_fail(
        dfcclInvalidUsage,
        "the job has several hosts, but the address of rank 0 is not known: set DFCCL_ROOT to "
        "its host and a free port there, HOST:PORT, on all ranks");
  if (r->rank == 0 || place->port == 0 || df_is_own_name(place->host)) return dfcclSuccess;
  df_interfaces *interfaces = calloc(1, sizeof *interfaces);
  if (interfaces == NULL) return df_fail(dfcclOutOfMemory, "no memory for the interfaces");
  dfcclResult_t result = df_interfaces_await(interfaces, r->network->interfaces, r->deadline_ns);
  if (result == dfcclSuccess) result = add_places(r, place, interfaces);
  free(interfaces);
  return result;
}

/* Collects the addresses of an id. On the machine of the root, the loopback address is one of
 * them. */
static dfcclResult_t look_for_id(df_rendezvous *r, const df_id_content *content) {
  r->port = content->port;
  r->is_near = content->machine == df_machine_identity() || content->addresses[0].family == 0;
  if (r->is_near) return dfcclSuccess;
  if (r->network->is_off)
    return df_fail(dfcclInvalidUsage,
                   "the unique id was made on another host, but DFCCL_NET=none on this host "
                   "allows this host only");
  df_interfaces *interfaces = calloc(1, sizeof *interfaces);
  if (interfaces == NULL) return df_fail(dfcclOutOfMemory, "no memory for the interfaces");
  dfcclResult_t result = df_interfaces_await(interfaces, r->network->interfaces, r->deadline_ns);
  for (int i = 0; i < DF_ID_ADDRESSES_MAX && result == dfcclSuccess; i++)
    if (content->addresses[i].family) df_probe_add(&r->probe, &content->addresses[i], interfaces);
  if (result == dfcclSuccess && r->probe.n == 0)
    result = df_fail(dfcclInvalidUsage, "the unique id has link-local addresses only, and this "
                                        "host has no chosen interface with such an address");
  free(interfaces);
  return result;
}

static dfcclResult_t nobody_there(const df_rendezvous *r) {
  char places[DF_PROBE_TEXT];
  df_probe_describe(&r->probe, places);
  if (r->probe.n > 0)
    return df_fail(dfcclTimeout, "rank %d of %d found no root of its job within %d ms: %s", r->rank,
                   r->n_ranks, r->timeout_ms, places);
  if (!r->by_key)
    return df_fail(dfcclTimeout, "the root at 127.0.0.1:%u did not answer rank %d within %d ms",
                   r->port, r->rank, r->timeout_ms);
  if (r->rank == 0)
    return df_fail(dfcclTimeout,
                   "another process held the rendezvous address of rank 0 for %d ms, silently",
                   r->timeout_ms);
  return df_fail(dfcclTimeout, "rank 0 of %d did not come within %d ms%s%s", r->n_ranks,
                 r->timeout_ms, r->other_user[0] ? "; " : "", r->other_user);
}

/* The address of the root contains the user, so that users do not disturb each other. A rank that
 * does not find its root looks at an address without the user, where another user's root listens.
 * That may be the root of another job, so the rank continues to wait for its own. */
static void look_for_other_users(df_rendezvous *r) {
  struct ucred peer = {0};
  socklen_t bytes = sizeof peer;
  char own[32];
  int fd = df_connect_abstract(SOCK_STREAM, r->users_name);
  if (fd < 0) return;
  snprintf(own, sizeof own, "rank %d", r->rank);
  if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 && peer.uid != geteuid() &&
      r->other_user[0] == '\0') {
    snprintf(r->other_user, sizeof r->other_user, "rank 0: " DF_OTHER_USER, (int)peer.pid, peer.uid,
             own, geteuid());
    df_log(DF_LOG_WARN, "rank %d of %d found no root of its user for this job; %s", r->rank,
           r->n_ranks, r->other_user);
  }
  df_socket_close(&fd);
}

/* Reports that nothing listens at the addresses of an id any more: its job has ended. */
static dfcclResult_t id_is_over(const df_rendezvous *r) {
  char places[DF_PROBE_TEXT];
  df_probe_describe(&r->probe, places);
  return df_fail(dfcclRemoteError,
                 "nobody answers at the addresses of the unique id (%s): the process that made it "
                 "has ended, or the id was used before, or no rank used it for %d minutes, or its "
                 "job failed",
                 places, ID_LIFETIME_MS / 60000);
}

/* Logs the target of the rank's search after 5 s, 10 s, 20 s and so on. */
static void report(const df_rendezvous *r, uint64_t begin_ns, uint64_t *next_ms) {
  char places[DF_PROBE_TEXT];
  uint64_t waited_ms = (df_clock_ns() - begin_ns) / 1000000u;
  if (waited_ms < *next_ms) return;
  *next_ms *= 2;
  df_probe_describe(&r->probe, places);
  df_log(DF_LOG_WARN, "rank %d of %d has waited %llu s for %s%s%s%s%s", r->rank, r->n_ranks,
         (unsigned long long)waited_ms / 1000, r->by_key ? "rank 0" : "the root of the unique id",
         r->probe.n ? ": " : " on this host", places, r->other_user[0] ? "; " : "", r->other_user);
}

/* Resets the connection to the root, and closes this rank's listeners: the table of another root
 * contains them only if that root has requested them. */
static void forget_root(df_rendezvous *r) {
  df_socket_close(&r->fd);
  df_listeners_close(r->listeners);
  r->listeners = NULL;
  r->own.n_addresses = 0;
  memset(r->own.addresses, 0, sizeof r->own.addresses);
}

/* Finds the root and joins it. The root of an earlier job may hold the address of the key: when
 * that root vanishes, the rank tries again. */
static dfcclResult_t meet(df_rendezvous *r, const df_root_place *place, df_root **root) {
  uint64_t report_ms = REPORT_MS, begin_ns = df_clock_ns(), orphaned_ns = 0;
  uint64_t users_ns = begin_ns + USERS_MS * (uint64_t)1000000;
  uint64_t patience_ns = DF_MIN(OLD_ROOT_MS, r->timeout_ms / 2) * (uint64_t)1000000;
  for (;;) {
    uint64_t now = df_clock_ns();
    if (orphaned_ns != 0 && now - orphaned_ns > (uint64_t)NEW_ROOT_MS * 1000000u)
      return df_rendezvous_orphaned(r);
    if (now >= r->deadline_ns) return orphaned_ns ? df_rendezvous_orphaned(r) : nobody_there(r);
    report(r, begin_ns, &report_ms);
    if (r->by_key && r->rank != 0 && now >= users_ns) {
      look_for_other_users(r);
      users_ns = now + USERS_MS * (uint64_t)1000000;
    }
    if (!r->by_key && df_probe_is_refused(&r->probe) && now - begin_ns > OVER_NS)
      return id_is_over(r);
    dfcclResult_t result = dfcclSuccess;
    if (r->by_key && r->rank == 0 && *root == NULL) {
      result = df_become_root(r, place, root);
      if (result == dfcclInProgress && now - begin_ns > patience_ns) result = dfcclSuccess;
    }
    if (result == dfcclSuccess) result = df_rendezvous_enter(r);
    if (result == dfcclSuccess) {
      result = df_rendezvous_table(r);
      if (result != dfcclInProgress) return result;
      forget_root(r);
      if (!r->by_key || r->rank == 0) return df_rendezvous_orphaned(r);
      orphaned_ns = df_clock_ns();
    }
    if (result != dfcclInProgress) return result;
    poll(NULL, 0, DF_MIN(RETRY_MS, df_remaining_ms(r->deadline_ns)));
  }
}

static dfcclResult_t check_arguments(int n_ranks, int rank, const df_peer_info *info,
                                     int timeout_ms, const df_mesh *mesh) {
  if (info == NULL || mesh == NULL)
    return df_fail(dfcclInvalidArgument, "the pointer to the %s is NULL",
                   info ? "mesh" : "peer info");
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

/* The address is random; other ranks learn it from the table only. */
static dfcclResult_t open_listener(df_rendezvous *r) {
  randombytes_buf(r->own.name, sizeof r->own.name);
  int fd = df_listen_abstract(SOCK_SEQPACKET, r->own.name);
  char whose[32];
  snprintf(whose, sizeof whose, "rank %d", r->rank);
  if (fd < 0) return df_no_listener(whose, -fd);
  df_listener_open(&r->listener, fd);
  return dfcclSuccess;
}

/* The value of rank 0 is used, because ranks with different routes would wait for each other. */
static dfcclResult_t make_routes(df_mesh *mesh, const df_rendezvous *r) {
  const uint32_t from = r->records[0].relays_from;
  if (mesh->remote == NULL || from == 0 || (uint32_t)r->n_ranks < from) return dfcclSuccess;
  uint64_t *hosts = malloc((size_t)r->n_ranks * sizeof *hosts);
  for (int i = 0; hosts && i < r->n_ranks; i++) hosts[i] = r->records[i].host;
  if (hosts) mesh->routes = df_routes_make(hosts, (uint32_t)r->n_ranks, (uint32_t)r->rank);
  free(hosts);
  if (mesh->routes) return dfcclSuccess;
  return df_fail(dfcclOutOfMemory, "no memory for the routes to %d ranks", r->n_ranks);
}

static dfcclResult_t fill_mesh(df_mesh *mesh, const df_rendezvous *r) {
  size_t n = (size_t)r->n_ranks;
  mesh->n_ranks = r->n_ranks;
  mesh->rank = r->rank;
  mesh->sockets = malloc(n * sizeof *mesh->sockets);
  if (mesh->sockets != NULL)
    for (size_t i = 0; i < n; i++) mesh->sockets[i] = -1;
  mesh->peer_info = malloc(n * sizeof *mesh->peer_info);
  mesh->local = malloc(n);
  if (r->listeners) mesh->remote = calloc(n, sizeof *mesh->remote);
  if (mesh->sockets == NULL || mesh->peer_info == NULL || mesh->local == NULL ||
      (r->listeners && mesh->remote == NULL))
    return df_fail(dfcclOutOfMemory, "no memory for the table of %d ranks", r->n_ranks);
  for (size_t i = 0; i < n; i++) {
    mesh->peer_info[i] = r->records[i].info;
    mesh->local[i] = memcmp(r->records[i].token, r->own.token, DF_TOKEN_BYTES) == 0;
    mesh->n_local += mesh->local[i];
    if (mesh->remote) mesh->remote[i].is_remote = r->records[i].host != r->own.host;
  }
  dfcclResult_t result = make_routes(mesh, r);
  if (result != dfcclSuccess) return result;
  for (uint32_t i = 0; mesh->remote && i < n; i++)
    mesh->remote[i].has_channel =
        mesh->remote[i].is_remote && (mesh->routes == NULL || df_routes_next(mesh->routes, i) == i);
  if (memcmp(&r->records[r->rank], &r->own, sizeof r->own) != 0)
    return df_fail(dfcclRemoteError, "the root's table disagrees with what rank %d reported",
                   r->rank);
  df_derive(mesh->job, sizeof mesh->job, r->key, "dfccl job", r->session, sizeof r->session, NULL,
            0);
  return dfcclSuccess;
}

/* r is on the heap: a forked child keeps the list that contains its listener, but not this
 * stack. */
static dfcclResult_t join(df_rendezvous *r, const df_root_place *place, const df_peer_info *info,
                          df_mesh *mesh) {
  df_root *root = NULL;
  r->fd = -1;
  r->listener.fd = -1;
  r->own.pid = getpid();
  r->own.info = *info;
  r->own.machine = df_machine_identity();
  r->own.host = df_host_identity();
  r->own.relays_from = r->network->relays_from;
  df_process_token(r->own.token);
  dfcclResult_t result = open_listener(r);
  if (result == dfcclSuccess) result = meet(r, place, &root);
  if (result == dfcclSuccess) result = fill_mesh(&r->made, r);
  if (result == dfcclSuccess) result = df_mesh_connect(r, r->made.local, r->made.sockets);
  df_listener_close(&r->listener);
  if (result == dfcclSuccess) {
    *mesh = r->made;
    mesh->listeners = r->listeners;
    r->listeners = NULL;
    r->made = (df_mesh){0};
  } else {
    /* Ranks of this process have no socket on which to receive the failure; the caller notifies
     * them. */
    *mesh = (df_mesh){.n_ranks = r->n_ranks, .rank = r->rank, .n_local = r->made.n_local};
    memcpy(mesh->job, r->made.job, sizeof mesh->job);
    mesh->absence = r->others_may_go        ? DF_ABSENCE_AWAITED
                    : r->made.local != NULL ? DF_ABSENCE_COUNTED
                                            : DF_ABSENCE_UNNOTICED;
    df_mesh_close(&r->made);
    df_rendezvous_leave(r, result);
  }
  df_socket_close(&r->fd);
  df_listeners_close(r->listeners);
  df_probe_close(&r->probe);
  if (root != NULL) df_root_stop(root);
  return result;
}

static df_rendezvous *make_rendezvous(const df_network_settings *network, int n_ranks, int rank,
                                      int timeout_ms) {
  df_rendezvous *r = calloc(1, sizeof *r);
  if (r == NULL) {
    df_fail(dfcclOutOfMemory, "no memory for the rendezvous");
    return NULL;
  }
  r->network = network ? network : &this_host;
  r->n_ranks = n_ranks;
  r->rank = rank;
  r->timeout_ms = timeout_ms;
  r->deadline_ns = df_after_ms((uint64_t)timeout_ms);
  return r;
}

static void free_rendezvous(df_rendezvous *r) {
  free(r->records);
  sodium_memzero(r, sizeof *r);
  free(r);
}

/* Fills in the keys that r has at this point. */
static void prepare_probe(df_rendezvous *r) {
  memcpy(r->probe.key, r->key, sizeof r->probe.key);
  memcpy(r->probe.tag, r->tag, sizeof r->probe.tag);
}

dfcclResult_t df_bootstrap_join(const df_network_settings *network, const dfcclUniqueId *id,
                                int n_ranks, int rank, const df_peer_info *info, int timeout_ms,
                                df_mesh *mesh) {
  if (id == NULL) return df_fail(dfcclInvalidArgument, "the pointer to the unique id is NULL");
  dfcclResult_t result = check_arguments(n_ranks, rank, info, timeout_ms, mesh);
  if (result != dfcclSuccess) return result;
  df_rendezvous *r = make_rendezvous(network, n_ranks, rank, timeout_ms);
  if (r == NULL) return dfcclOutOfMemory;
  df_id_content content;
  result = df_id_read(id, &content);
  if (result == dfcclSuccess) {
    df_key_from_secret(r->key, content.secret);
    sodium_memzero(content.secret, sizeof content.secret);
    prepare_probe(r);
    result = look_for_id(r, &content);
  }
  if (result == dfcclSuccess) result = join(r, NULL, info, mesh);
  free_rendezvous(r);
  return result;
}

dfcclResult_t df_bootstrap_join_key(const df_network_settings *network, const df_root_place *place,
                                    const char *key, int n_ranks, int rank,
                                    const df_peer_info *info, int timeout_ms, df_mesh *mesh) {
  if (key == NULL || key[0] == '\0')
    return df_fail(dfcclInvalidArgument, "the key of the job is %s", key ? "empty" : "NULL");
  dfcclResult_t result = check_arguments(n_ranks, rank, info, timeout_ms, mesh);
  if (result != dfcclSuccess) return result;
  df_rendezvous *r = make_rendezvous(network, n_ranks, rank, timeout_ms);
  if (r == NULL) return dfcclOutOfMemory;
  r->by_key = r->is_near = true;
  df_key_from_text(r->key, key, (uint32_t)geteuid());
  df_derive(r->name, sizeof r->name, r->key, "dfccl address", NULL, 0, NULL, 0);
  df_tag_from_text(r->tag, key);
  df_derive(r->users_name, sizeof r->users_name, no_key, "dfccl users", r->tag, sizeof r->tag, NULL,
            0);
  if (r->network->has_secret) df_key_from_text_and_secret(r->key, key, r->network->secret);
  prepare_probe(r);
  result = look_for_rank_0(r, place);
  if (result == dfcclSuccess) result = join(r, place, info, mesh);
  free_rendezvous(r);
  return result;
}

void df_mesh_close(df_mesh *mesh) {
  for (int rank = 0; mesh->sockets != NULL && rank < mesh->n_ranks; rank++)
    df_socket_close(&mesh->sockets[rank]);
  free(mesh->sockets);
  free(mesh->peer_info);
  free(mesh->local);
  free(mesh->members);
  df_routes_free(mesh->routes);
  if (mesh->remote) sodium_memzero(mesh->remote, (size_t)mesh->n_ranks * sizeof *mesh->remote);
  free(mesh->remote);
  df_listeners_close(mesh->listeners);
  *mesh = (df_mesh){0};
}
