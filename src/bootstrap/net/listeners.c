#include "bootstrap/net/listeners.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/net/interfaces.h"
#include "bootstrap/net/sockets.h"

enum { ANY_PORT_TRIES = 64 };

/* Returns 0 or the error. If *port is 0, the system chooses a port, and *port is set. */
static int add_listener(df_listeners *listeners, const df_address *at, uint32_t scope,
                        uint16_t *port) {
  struct sockaddr_storage address;
  df_address with_port = *at;
  with_port.port = *port;
  socklen_t bytes = df_address_to_socket(&with_port, scope, &address);
  int fd = df_listen_network(&address, bytes);
  if (fd < 0) return -fd;
  bytes = sizeof address;
  if (getsockname(fd, (struct sockaddr *)&address, &bytes) != 0) {
    const int error = errno;
    close(fd);
    return error;
  }
  df_address_from_socket(&with_port, &address);
  *port = with_port.port;
  df_listener_open(&listeners->listeners[listeners->n++], fd);
  return 0;
}

static void shut(df_listeners *listeners) {
  for (int i = 0; i < listeners->n; i++) df_listener_close(&listeners->listeners[i]);
  listeners->n = 0;
}

/* Opens all listeners at one port. Returns 0 or the error. */
static int open_at(df_listeners *listeners, const df_interfaces *all, const df_address *chosen,
                   int n, uint16_t port) {
  const df_address loopback = df_address_loopback(port);
  int error = add_listener(listeners, &loopback, 0, &port);
  for (int i = 0; i < n && error == 0; i++) {
    uint32_t scope = 0;
    if (df_address_is_loopback(&chosen[i]) && chosen[i].family == 4) continue;
    for (int j = 0; j < all->n; j++)
      if (df_address_same_host(&all->of[j].address, &chosen[i])) scope = all->of[j].index;
    error = add_listener(listeners, &chosen[i], scope, &port);
    if (error == EADDRNOTAVAIL) error = 0; /* the interface has gone, or is not ready yet */
  }
  listeners->port = port;
  if (error) shut(listeners);
  return error;
}

static dfcclResult_t failure(int error, uint16_t first, uint16_t last, int is_set) {
  char why[DF_WHY_BYTES];
  const dfcclResult_t code = df_is_exhausted(error) ? dfcclOutOfMemory : dfcclSystemError;
  df_why(error, why);
  if (first == 0) return df_fail(code, "no socket to listen on: %s", why);
  return df_fail(code, "no port from %u to %u%s is free to listen on (%s)", first, last,
                 is_set ? ", environment variable DFCCL_NET_PORTS," : "", why);
}

static void offer(df_listeners *listeners, const df_network_settings *network,
                  const df_address *chosen, int n) {
  const int is_advertised = !network->is_off && network->n_advertised > 0;
  listeners->n_offered = is_advertised ? network->n_advertised : n;
  for (int i = 0; i < listeners->n_offered; i++) {
    listeners->offered[i] = is_advertised ? network->advertised[i] : chosen[i];
    if (listeners->offered[i].port == 0) listeners->offered[i].port = listeners->port;
  }
}

dfcclResult_t df_listeners_open(df_listeners **out, const df_network_settings *network,
                                uint16_t first, uint16_t last, int most, uint64_t until_ns) {
  df_interfaces *all = calloc(1, sizeof *all);
  df_listeners *listeners = calloc(1, sizeof *listeners);
  df_address chosen[DF_ADDRESSES_MAX];
  dfcclResult_t result = dfcclSuccess;
  int n = 0, error = EADDRINUSE;
  const int is_set = first == 0 && network->first_port != 0;
  if (all == NULL || listeners == NULL) result = df_fail(dfcclOutOfMemory, "no memory to listen");
  if (result == dfcclSuccess && !network->is_off)
    result = df_interfaces_await(all, network->interfaces, until_ns);
  if (result != dfcclSuccess) goto fail;
  n = df_interfaces_offer(all, chosen, DF_MIN(most, (int)DF_ADDRESSES_MAX));
  if (is_set) {
    first = network->first_port;
    last = network->last_port;
  }
  for (int i = 0; first == 0 && i < ANY_PORT_TRIES && error == EADDRINUSE; i++)
    error = open_at(listeners, all, chosen, n, 0);
  for (uint32_t port = first; first && port <= last && error == EADDRINUSE; port++)
    error = open_at(listeners, all, chosen, n, (uint16_t)port);
  if (error) {
    result = failure(error, first, last, is_set);
    goto fail;
  }
  offer(listeners, network, chosen, n);
  free(all);
  *out = listeners;
  return dfcclSuccess;
fail:
  free(all);
  free(listeners);
  return result;
}

void df_listeners_close(df_listeners *listeners) {
  if (listeners == NULL) return;
  shut(listeners);
  free(listeners);
}
