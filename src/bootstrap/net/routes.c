#include "bootstrap/net/routes.h"

#include <stdlib.h>

#include "base/assert.h"

/* Places are sorted by host, so that ranks of one host are found without comparing all pairs. */
typedef struct {
  uint64_t host;
  uint32_t rank;
} place;

static int compare(const void *a, const void *b) {
  const place *left = a, *right = b;
  if (left->host != right->host) return left->host < right->host ? -1 : 1;
  return left->rank < right->rank ? -1 : left->rank > right->rank;
}

/* Hosts are numbered in the order of their first ranks. */
static void number_hosts(df_routes *routes, const place *places, uint32_t *first) {
  for (uint32_t i = 0; i < routes->n_ranks; i++) {
    const int begins = i == 0 || places[i].host != places[i - 1].host;
    first[places[i].rank] = begins ? places[i].rank : first[places[i - 1].rank];
  }
  for (uint32_t r = 0; r < routes->n_ranks; r++) {
    if (first[r] == r) {
      routes->host[r] = (uint16_t)routes->n_hosts;
      routes->relays[routes->n_hosts++] = r;
    } else {
      routes->host[r] = routes->host[first[r]];
    }
  }
}

df_routes *df_routes_make(const uint64_t *hosts, uint32_t n_ranks, uint32_t rank) {
  df_routes *routes = calloc(1, sizeof *routes);
  place *places = malloc(n_ranks * sizeof *places);
  uint32_t *first = malloc(n_ranks * sizeof *first);
  if (routes) {
    routes->n_ranks = n_ranks;
    routes->rank = rank;
    routes->relays = calloc(n_ranks, sizeof *routes->relays);
    routes->host = calloc(n_ranks, sizeof *routes->host);
  }
  if (routes == NULL || places == NULL || first == NULL || routes->relays == NULL ||
      routes->host == NULL) {
    df_routes_free(routes);
    routes = NULL;
  }
  for (uint32_t r = 0; routes && r < n_ranks; r++) places[r] = (place){.host = hosts[r], .rank = r};
  if (routes) {
    qsort(places, n_ranks, sizeof *places, compare);
    number_hosts(routes, places, first);
    routes->width = 1;
    while (routes->width * routes->width < routes->n_hosts) routes->width++;
  }
  free(places);
  free(first);
  return routes;
}

void df_routes_free(df_routes *routes) {
  if (routes == NULL) return;
  free(routes->relays);
  free(routes->host);
  free(routes);
}

/* Returns the host between two hosts that share neither a row nor a column: the one in the row of
 * the earlier host, which is full, and in the column of the later host. If the hosts do share one,
 * returns the second host. */
static uint32_t corner(const df_routes *routes, uint32_t a, uint32_t b) {
  const uint32_t w = routes->width, early = DF_MIN(a, b), late = DF_MAX(a, b);
  if (a / w == b / w || a % w == b % w) return b;
  return early / w * w + late % w;
}

/* Writes the relays between this rank and `to`, in order, and returns their number. */
static uint32_t find_relays(const df_routes *routes, uint32_t to, uint32_t relays[DF_RELAYS_MOST]) {
  const uint32_t from = routes->host[routes->rank], end = routes->host[to];
  uint32_t n = 0;
  if (from == end) return 0;
  if (routes->relays[from] != routes->rank) relays[n++] = routes->relays[from];
  const uint32_t between = corner(routes, from, end);
  if (between != end) relays[n++] = routes->relays[between];
  if (routes->relays[end] != to) relays[n++] = routes->relays[end];
  return n;
}

uint32_t df_routes_next(const df_routes *routes, uint32_t to) {
  uint32_t relays[DF_RELAYS_MOST];
  return find_relays(routes, to, relays) ? relays[0] : to;
}

uint32_t df_routes_relays(const df_routes *routes, uint32_t to) {
  uint32_t relays[DF_RELAYS_MOST];
  return find_relays(routes, to, relays);
}

int df_routes_pass(const df_routes *routes, uint32_t to, uint32_t through) {
  uint32_t relays[DF_RELAYS_MOST];
  const uint32_t n = find_relays(routes, to, relays);
  for (uint32_t i = 0; i < n; i++)
    if (relays[i] == through) return 1;
  return 0;
}

int df_routes_is_relay(const df_routes *routes) {
  return routes->relays[routes->host[routes->rank]] == routes->rank;
}
