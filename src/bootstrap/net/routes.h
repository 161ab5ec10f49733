/*
 * Which way control messages go in a large job of several hosts. The first rank of each host is its
 * relay. Hosts stand in a grid as wide as it is high; relays of one row, and of one column, have
 * connections with each other. So a message passes three relays at most, and N hosts have about
 * N * sqrt(N) connections instead of a square of the ranks. A way is the same in both directions:
 * who is lost to one rank has lost that rank, too.
 */
#ifndef DF_BOOTSTRAP_NET_ROUTES_H
#define DF_BOOTSTRAP_NET_ROUTES_H

#include <stdint.h>

enum { DF_RELAYS_MOST = 3 /* on a way */ };

typedef struct df_routes {
  uint32_t n_ranks, rank;
  uint32_t n_hosts, width; /* hosts in a row */
  uint32_t *relays;        /* [n_hosts] ranks */
  uint16_t *host;          /* [n_ranks] */
} df_routes;

/* hosts: [n_ranks], equal for ranks of one host. NULL: no memory, no sentence. */
df_routes *df_routes_make(const uint64_t *hosts, uint32_t n_ranks, uint32_t rank);
/* Also of NULL. */
void df_routes_free(df_routes *routes);

/* To whom a message for `to` is given: `to` itself, or the next relay. to: not this rank. */
uint32_t df_routes_next(const df_routes *routes, uint32_t to);
/* Relays on the way to `to`. */
uint32_t df_routes_relays(const df_routes *routes, uint32_t to);
/* 1: messages to `to` pass `through`. */
int df_routes_pass(const df_routes *routes, uint32_t to, uint32_t through);
/* 1: messages of others pass this rank. */
int df_routes_is_relay(const df_routes *routes);

#endif
