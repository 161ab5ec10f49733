/* A rank's doors: listening sockets, one at each chosen address of its host and one at the loopback
 * address, all with one port. Strangers come to them too. */
#ifndef DF_BOOTSTRAP_MESH_LISTENERS_H
#define DF_BOOTSTRAP_MESH_LISTENERS_H

#include "base/result.h"
#include "bootstrap/net/address.h"
#include "bootstrap/net/fork_guard.h"
#include "bootstrap/net/security.h"

enum { DF_DOORS_MAX = DF_ADDRESSES_MAX + 1, DF_NETWORK_TEXT = 512, DF_KEY_BYTES = 32 };

/* The settings DFCCL_NET_ and DFCCL_SECRET, read and checked. */
typedef struct df_network {
  char interfaces[DF_NETWORK_TEXT];
  df_address advertised[DF_ADDRESSES_MAX]; /* port 0: the doors' */
  int n_advertised;
  uint16_t first_port, last_port; /* 0: any */
  int is_off;                     /* DFCCL_NET=none: this host only */
  char fabric[DF_NETWORK_TEXT];   /* "verbs", "plugin:NAME"; "": TCP alone */
  df_security security;           /* DFCCL_NET_SECURITY */
  df_tls_files tls;               /* if security is DF_SECURITY_TLS */
  int has_secret;
  int secret_is_public; /* nobody gave one, and security is DF_SECURITY_NONE: everybody knows it */
  unsigned char secret[DF_KEY_BYTES]; /* a hash of DFCCL_SECRET */
  char root[DF_NETWORK_TEXT];         /* DFCCL_ROOT; "": none */
  uint32_t relays_from; /* ranks of a job that has relays: DFCCL_NET_RELAYS; 0: none has */
  int silence_ms; /* how long another host may be silent: DFCCL_NET_TIMEOUT_MS; not for an id */
} df_network;

typedef struct df_doors {
  int n;
  df_listener doors[DF_DOORS_MAX];
  uint16_t port;
  int n_offered;
  df_address offered[DF_ADDRESSES_MAX]; /* what others are told */
} df_doors;

/* first to last: ports to try; 0: the network's. Loopback alone if the network is off or the host
 * has no chosen interface. dfcclSystemError, dfcclOutOfMemory, dfcclInvalidUsage. */
dfcclResult_t df_doors_open(df_doors **doors, const df_network *network, uint16_t first,
                            uint16_t last, int most);
/* Also of NULL. */
void df_doors_close(df_doors *doors);

#endif
