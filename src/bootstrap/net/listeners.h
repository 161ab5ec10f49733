/* A rank's doors: listening sockets, one at each chosen address of its host and one at the loopback
 * address, all with one port. Strangers come to them too. */
#ifndef DF_BOOTSTRAP_NET_LISTENERS_H
#define DF_BOOTSTRAP_NET_LISTENERS_H

#include "base/result.h"
#include "bootstrap/net/address.h"
#include "bootstrap/net/fork_guard.h"
#include "bootstrap/net/network_settings.h"

enum { DF_LISTENERS_MAX = DF_ADDRESSES_MAX + 1 };

typedef struct df_listeners {
  int n;
  df_listener listeners[DF_LISTENERS_MAX];
  uint16_t port;
  int n_offered;
  df_address offered[DF_ADDRESSES_MAX]; /* what others are told */
} df_listeners;

/* first to last: ports to try; 0: the network's. Loopback alone if the network is off or the host
 * has no chosen interface. dfcclSystemError, dfcclOutOfMemory, dfcclInvalidUsage. */
dfcclResult_t df_listeners_open(df_listeners **listeners, const df_network *network, uint16_t first,
                                uint16_t last, int most);
/* Also of NULL. */
void df_listeners_close(df_listeners *listeners);

#endif
