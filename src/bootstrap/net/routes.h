/* Routes of control messages in a large multi-node job. The first rank of each host is its relay.
 * The hosts form a grid that is as wide as it is high; the relays of one row and of one column are
 * connected with each other. So a message passes at most three relays, and N hosts have about N *
 * sqrt(N) connections instead of the square of the number of ranks. A route is the same in both
 * directions: if rank A has lost rank B, then B has lost A too. */
#ifndef DF_BOOTSTRAP_NET_ROUTES_H
#define DF_BOOTSTRAP_NET_ROUTES_H

#include <stdint.h>

enum { DF_RELAYS_MOST = 3 /* relays on a route */ };

typedef struct df_routes {
  uint32_t n_ranks, rank;
  uint32_t n_hosts, width; /* hosts in a row */
  uint32_t *relays;        /* [n_hosts] ranks */
  uint16_t *host;          /* [n_ranks] */
} df_routes;

/* hosts: [n_ranks], equal for ranks of one host. Returns NULL if out of memory, without a
 * sentence. */
df_routes *df_routes_make(const uint64_t *hosts, uint32_t n_ranks, uint32_t rank);
/* routes may be NULL. */
void df_routes_free(df_routes *routes);

/* Returns the rank to which a message for `to` is sent next: `to` itself, or the next relay. to
 * must not be this rank. */
uint32_t df_routes_next(const df_routes *routes, uint32_t to);
/* Returns the number of relays on the route to `to`. */
uint32_t df_routes_relays(const df_routes *routes, uint32_t to);
/* Returns 1 if messages to `to` pass `through`. */
int df_routes_pass(const df_routes *routes, uint32_t to, uint32_t through);
/* Returns 1 if this rank relays messages of others. */
int df_routes_is_relay(const df_routes *routes);

#endif
