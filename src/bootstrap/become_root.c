#include "bootstrap/become_root.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "bootstrap/net/interfaces.h"
#include "bootstrap/net/resolve.h"
#include "bootstrap/net/sockets.h"

enum {
  /* Late ranks receive the reason of a failure within this time. Rank 0 waits for it. */
  KEY_LINGER_MS = 500,
  PLACE_MS = 1000 /* for the look-up of the own host name, which is not needed */
};

dfcclResult_t df_no_listener(const char *whose, int error) {
  char why[DF_WHY_BYTES];
  return df_fail(df_is_exhausted(error) ? dfcclOutOfMemory : dfcclSystemError,
                 "no listening socket for %s: %s", whose, df_why(error, why));
}

/* Returns whether no other host can reach the address. */
static bool is_of_this_host_alone(const char *host) {
  df_address address;
  if (strcmp(host, "localhost") == 0) return true;
  return df_address_parse(&address, host, strlen(host)) && df_address_is_loopback(&address);
}

bool df_is_own_name(const char *host) {
  char own[256] = "";
  gethostname(own, sizeof own - 1);
  return strcmp(host, own) == 0 || strcmp(host, "localhost") == 0;
}

/* Opens the listeners for ranks of other hosts. If no such rank is expected for certain, a failure
 * does not end the job. */
static dfcclResult_t open_root_listeners(const df_rendezvous *r, const df_root_place *place,
                                         df_root_options *options) {
  if (place == NULL || place->hosts == DF_HOSTS_ONE || place->port == 0 || r->network->is_off ||
      is_of_this_host_alone(place->host))
    return dfcclSuccess;
  options->lacks_secret = !r->network->has_secret;
  if (options->lacks_secret) return dfcclSuccess;
  const uint32_t last = (uint32_t)place->port + place->n_ports - 1;
  dfcclResult_t result =
      df_listeners_open(&options->listeners, r->network, place->port,
                        (uint16_t)DF_MIN(last, 65535u), DF_ADDRESSES_MAX, r->deadline_ns);
  if (result == dfcclSuccess || result == dfcclTimeout || place->hosts == DF_HOSTS_SEVERAL)
    return result;
  df_log(DF_LOG_WARN, "rank 0 accepts ranks of its own host only: %s", df_last_sentence());
  return dfcclSuccess;
}

static void close_listeners(df_root_options *options) {
  close(options->listener);
  if (options->users_listener >= 0) close(options->users_listener);
  df_listeners_close(options->listeners);
}

void df_add_places(df_rendezvous *r, const df_root_place *place, const df_address *found, int n,
                   const df_interfaces *interfaces) {
  for (int port = place->port; port < place->port + place->n_ports && port <= 65535; port++)
    for (int i = 0; i < n; i++) {
      df_address address = found[i];
      address.port = (uint16_t)port;
      if (!df_interfaces_have(interfaces, &address)) df_probe_add(&r->probe, &address, interfaces);
    }
}

/* Other hosts look for rank 0 at the address of the launcher. It may belong to another machine of
 * the same network (NAT), so it is only remarked if this host does not have it. If it belongs to
 * another host, that host may have another rank 0, which this rank looks for. */
static void check_place(df_rendezvous *r, const df_root_place *place,
                        char remark[DF_REMARK_BYTES]) {
  df_address found[DF_ADDRESSES_MAX];
  char text[DF_ADDRESS_TEXT];
  int n = 0, n_own = 0;
  if (place == NULL || place->hosts == DF_HOSTS_ONE || place->port == 0 || r->network->is_off ||
      is_of_this_host_alone(place->host) || df_is_own_name(place->host))
    return;
  df_interfaces *interfaces = calloc(1, sizeof *interfaces);
  const uint64_t until_ns = DF_MIN(df_after_ms(PLACE_MS), r->deadline_ns);
  if (interfaces && df_resolve(place->host, until_ns, found, DF_ADDRESSES_MAX, &n) == dfcclSuccess)
    (void)df_interfaces_find(interfaces, r->network->interfaces);
  for (int i = 0; interfaces && i < n; i++) {
    n_own += df_interfaces_have(interfaces, &found[i]);
    for (int j = 0; j < r->network->n_advertised; j++)
      n_own += df_address_same_host(&r->network->advertised[j], &found[i]);
  }
  if (interfaces && n_own == 0 && r->network->has_secret)
    df_add_places(r, place, found, n, interfaces);
  free(interfaces);
  if (n == 0 || n_own > 0) return;
  snprintf(remark, DF_REMARK_BYTES,
           "MASTER_ADDR or DFCCL_ROOT is %.48s, but %s is no address of the host of rank 0",
           place->host, df_address_text(&found[0], text));
  df_log(DF_LOG_WARN, "rank 0 of %d: %s", r->n_ranks, remark);
}

/* Rank 0's own connection is made first: otherwise other ranks could take the root's last
 * descriptors, and rank 0 would wait for itself. */
dfcclResult_t df_become_root(df_rendezvous *r, const df_root_place *place, df_root **root) {
  int listener = df_listen_abstract(SOCK_STREAM, r->name);
  if (listener == -EADDRINUSE) return dfcclInProgress;
  if (listener < 0) return df_no_listener("rank 0", -listener);
  df_root_options options = {.listener = listener,
                             .same_user_only = true,
                             .users_listener = df_listen_abstract(SOCK_STREAM, r->users_name),
                             .n_ranks = r->n_ranks,
                             .idle_ms = (uint64_t)r->timeout_ms + df_news_ms(r->timeout_ms),
                             .linger_ms = KEY_LINGER_MS};
  check_place(r, place, options.remark);
  dfcclResult_t result = open_root_listeners(r, place, &options);
  if (result != dfcclSuccess) {
    close_listeners(&options);
    return result;
  }
  memcpy(options.key, r->key, sizeof options.key);
  memcpy(options.tag, r->tag, sizeof options.tag);
  int ends[2];
  int error = df_connected_pair(ends);
  if (error < 0) {
    close_listeners(&options);
    return df_no_listener("rank 0", -error);
  }
  r->fd = ends[0];
  r->in_used = 0;
  result = df_root_start(&options, ends[1], root);
  sodium_memzero(options.key, sizeof options.key);
  return result;
}
