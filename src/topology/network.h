/*
 * Network: the ranks of a job, their hosts, cards and switches, and the rates between them. A
 * message of s bytes takes latency + s / rate. Each port has a rate out and a rate in; messages
 * that pass a port in one direction at the same time share its rate max-min fairly
 * (synthesis/flows.h). Data passes a switch and never stays there. Times are seconds, rates are
 * bytes per second.
 *
 * There are two forms:
 *   - hosts. Each rank has a port inside its host, each host has cards with ports, and hosts are
 *     below switches, which have a port to each other. If there are no switches, hosts meet in one
 *     that never limits. A pair of hosts may have a rate of its own.
 *   - links. Each rank is a host, and links connect ranks and switches. A message takes the way
 *     with the fewest links, and passes other ranks only if there is no other way.
 */
#ifndef DF_TOPOLOGY_NETWORK_H
#define DF_TOPOLOGY_NETWORK_H

#include <stdint.h>

#include "base/result.h"

enum {
  DF_NETWORK_PATH_MOST = 6,
  DF_NETWORK_RANKS_MOST = 4096,
  DF_NETWORK_LINK_NODES_MOST = 256, /* ranks and switches of a network of links */
  DF_NETWORK_NAME_BYTES = 48
};
#define DF_NETWORK_NOWHERE UINT32_MAX

/* The latency of a path is half the latency of its ports, or the latency of its links. */
typedef struct df_network_port {
  double out, in, latency; /* links: out is from `from` to `to` */
} df_network_port;

/* From one host to another. Messages between them share its rate, too. */
typedef struct df_network_pair {
  uint32_t from, to;
  double rate, latency; /* latency below 0: that of the ports */
} df_network_pair;

/* Nodes are ranks, and switches behind them. */
typedef struct df_network_link {
  uint32_t from, to;
} df_network_link;

typedef struct df_network {
  uint32_t ranks, hosts, switches;
  uint32_t *host, *local; /* [ranks] a rank's host, and its number there */
  uint32_t *host_ranks;   /* [hosts] */
  uint32_t nics;          /* cards of a host: rank `local` uses card local modulo nics */
  uint32_t switch_hosts;  /* hosts below a switch; the last one may have fewer. 0: no switches */
  /* Ports: [ranks] inside their hosts, [hosts * nics] of cards, [switches]. Or links: [n_links]. */
  df_network_port *ports;
  uint32_t n_ports;
  df_network_pair *pairs; /* [n_pairs] sorted by from and to */
  uint32_t n_pairs;
  df_network_link *links; /* [n_links]; NULL: the network has hosts */
  uint32_t n_links;
  uint16_t *next; /* links: [nodes][ranks] the link to take from a node to a rank, + 1 */
  double reduce_rate, copy_rate; /* rates of a rank's processor; 0: takes no time */
  double overhead; /* a connection is busy for so long with each message, besides its bytes */
  int is_free_of_contention; /* each connection has the least rate of its ports for itself */
} df_network;

/* Ports of all kinds in `ports`. */
static inline uint32_t df_network_card(const df_network *network, uint32_t host, uint32_t nic) {
  return network->ranks + host * network->nics + nic;
}
static inline uint32_t df_network_switch(const df_network *network, uint32_t number) {
  return network->ranks + network->hosts * network->nics + number;
}

/* Makes the ports of a network of hosts, whose numbers and host_ranks are set. dfcclOutOfMemory. */
dfcclResult_t df_network_make_ports(df_network *network);
/* Sorts the pairs, and finds the ways of links. dfcclInvalidArgument: two ranks have no way, or one
 * that is too long; dfcclOutOfMemory. */
dfcclResult_t df_network_finish(df_network *network);
void df_network_free(df_network *network);

/* Resources: each port, out before in, and then the pairs. */
uint32_t df_network_resources(const df_network *network);
double df_network_rate(const df_network *network, uint32_t resource);
/* A resource beyond the last one is a connection's own. */
const char *df_network_name(const df_network *network, uint32_t resource,
                            char name[DF_NETWORK_NAME_BYTES]);
/* "rank 3" or "switch 0" of a network of links. */
const char *df_network_node_name(const df_network *network, uint32_t node,
                                 char name[DF_NETWORK_NAME_BYTES]);

/* The resources that messages between two ranks pass; returns how many. */
uint32_t df_network_path(const df_network *network, uint32_t from, uint32_t to,
                         uint32_t resources[DF_NETWORK_PATH_MOST], double *latency);

/* NULL: the two hosts have no rate of their own in this direction. */
const df_network_pair *df_network_pair_of(const df_network *network, uint32_t from, uint32_t to);

#endif
