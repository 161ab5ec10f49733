/* The listeners of a rank: one socket at each chosen address of its host and one at the loopback
 * address, all with one port. Unauthenticated callers can connect to them too. */
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
  df_address offered[DF_ADDRESSES_MAX]; /* the addresses that other ranks receive */
} df_listeners;

/* Tries the ports from first to last; 0: those of the network. Listens at the loopback address
 * alone if the network is off or the host has no chosen interface. Waits until until_ns for an
 * interface that is not ready. dfcclSystemError, dfcclOutOfMemory, dfcclInvalidUsage,
 * dfcclTimeout. */
dfcclResult_t df_listeners_open(df_listeners **listeners, const df_network_settings *network,
                                uint16_t first, uint16_t last, int most, uint64_t until_ns);
/* listeners may be NULL. */
void df_listeners_close(df_listeners *listeners);

#endif
