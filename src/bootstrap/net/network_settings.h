/* The network settings of a job: DFCCL_NET_*, DFCCL_SECRET and DFCCL_ROOT, parsed and checked. The
 * rendezvous, the mesh and the network transport read them; host/settings/settings_network.c fills
 * them in. */
#ifndef DF_BOOTSTRAP_NET_NETWORK_SETTINGS_H
#define DF_BOOTSTRAP_NET_NETWORK_SETTINGS_H

#include "bootstrap/net/address.h"
#include "bootstrap/net/security.h"

enum { DF_NETWORK_TEXT = 512, DF_KEY_BYTES = 32 };

typedef struct df_network_settings {
  char interfaces[DF_NETWORK_TEXT];
  df_address advertised[DF_ADDRESSES_MAX]; /* port 0: the port of the listeners */
  int n_advertised;
  uint16_t first_port, last_port;    /* 0: any */
  int is_off;                        /* DFCCL_NET=none: this host only */
  char net_backend[DF_NETWORK_TEXT]; /* "verbs", "plugin:NAME"; "": TCP alone */
  df_security security;              /* DFCCL_NET_SECURITY */
  df_tls_files tls;                  /* if security is DF_SECURITY_TLS */
  int has_secret;
  /* No secret was given and security is DF_SECURITY_NONE: the secret is public. */
  int secret_is_public;
  unsigned char secret[DF_KEY_BYTES]; /* a hash of DFCCL_SECRET */
  char root[DF_NETWORK_TEXT];         /* DFCCL_ROOT; "": none */
  /* Least number of ranks of a job with relays: DFCCL_NET_RELAYS; 0: no job has relays. */
  uint32_t relays_from;
  /* Time after which a silent host counts as lost: DFCCL_NET_TIMEOUT_MS; not for an id. */
  int silence_ms;
  uint64_t join_ms; /* DFCCL_INIT_TIMEOUT_MS; for an id alone, since a join has its own deadline */
} df_network_settings;

#endif
