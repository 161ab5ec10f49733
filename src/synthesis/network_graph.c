/* Graphs of networks. */
#include <stdlib.h>

#include "base/attributes.h"
#include "base/extremes.h"
#include "synthesis/graph.h"

enum { UNITS_MOST = 10000 };

typedef struct drawing {
  const df_network *network;
  df_graph *graph;
  uint32_t fabrics, cards, lower, core; /* numbers of the first switches of each kind */
} drawing;

static int64_t units_of(const drawing *d, double rate) {
  const double units = rate / d->graph->unit + 0.5;
  return units < 1 ? 1 : (int64_t)units;
}

static int is_close(double number, double whole) {
  return number > whole * (1 - 1e-6) && number < whole * (1 + 1e-6);
}

/* The largest unit of which all rates are multiples; or a 10,000th of the largest rate. */
static double unit_of(const df_network *m) {
  double most = 0;
  for (uint32_t r = 0; r < df_network_resources(m); r++)
    most = df_greater(most, df_network_rate(m, r));
  for (int parts = 1; parts < UNITS_MOST; parts++) {
    int fits = 1;
    for (uint32_t r = 0; r < df_network_resources(m) && fits; r++) {
      const double units = df_network_rate(m, r) * parts / most;
      const double whole = (double)(int64_t)(units + 0.5);
      fits = units == 0 || (whole >= 1 && is_close(units, whole));
    }
    if (fits) return most / parts;
  }
  return most / UNITS_MOST;
}

static void draw_edge(const drawing *d, uint32_t from, uint32_t to, double rate) {
  if (rate > 0) *df_graph_edge(d->graph, from, to) += units_of(d, rate);
}

/* Data between a rank and its NIC has no limit of its own. */
static void draw_free_edge(const drawing *d, uint32_t from, uint32_t to) {
  int64_t all = 0;
  for (uint32_t r = 0; r < df_network_resources(d->network); r++)
    all += units_of(d, df_network_rate(d->network, r));
  *df_graph_edge(d->graph, from, to) = all;
}

/* The switch that a host's cards lead to. */
static uint32_t above(const drawing *d, uint32_t host) {
  return d->network->switches ? d->lower + host / d->network->switch_hosts : d->core;
}

/* Each NIC is two switches, out and in, so that data does not pass it within its host. */
static void draw_card(const drawing *d, uint32_t host, uint32_t nic) {
  const df_network *m = d->network;
  const df_network_port *port = &m->ports[df_network_card(m, host, nic)];
  const uint32_t out = d->cards + 2 * (host * m->nics + nic), in = out + 1;
  for (uint32_t r = 0; r < m->ranks; r++) {
    if (m->host[r] != host || m->local[r] % m->nics != nic) continue;
    draw_free_edge(d, r, out);
    draw_free_edge(d, in, r);
  }
  if (m->n_pairs == 0) {
    draw_edge(d, out, above(d, host), port->out);
    draw_edge(d, above(d, host), in, port->in);
    return;
  }
  for (uint32_t other = 0; other < m->hosts; other++) {
    const df_network_pair *pair = df_network_pair_of(m, host, other);
    for (uint32_t c = 0; c < m->nics && other != host; c++) {
      const double rate = df_lesser(port->out, m->ports[df_network_card(m, other, c)].in);
      draw_edge(d, out, d->cards + 2 * (other * m->nics + c) + 1,
                pair ? df_lesser(rate, pair->rate) : rate);
    }
  }
}

/* With pairs there is an edge between each two hosts, so the ports limit edges from ranks. */
static void limit_ports(const drawing *d, uint32_t rank) {
  const df_network *m = d->network;
  const uint32_t card = df_network_card(m, m->host[rank], m->local[rank] % m->nics);
  const uint32_t out = d->cards + 2 * (card - m->ranks);
  *df_graph_edge(d->graph, rank, out) = units_of(d, m->ports[card].out);
  *df_graph_edge(d->graph, out + 1, rank) = units_of(d, m->ports[card].in);
}

/* Hosts of one rank each below one switch need no cards. */
static void draw_star(const drawing *d) {
  const df_network *m = d->network;
  for (uint32_t r = 0; r < m->ranks; r++) {
    const df_network_port *port = &m->ports[df_network_card(m, r, 0)];
    draw_edge(d, r, m->ranks, port->out);
    draw_edge(d, m->ranks, r, port->in);
  }
}

static void draw_hosts(const drawing *d) {
  const df_network *m = d->network;
  for (uint32_t r = 0; r < m->ranks; r++) {
    if (m->host_ranks[m->host[r]] == 1) continue;
    draw_edge(d, r, d->fabrics + m->host[r], m->ports[r].out);
    draw_edge(d, d->fabrics + m->host[r], r, m->ports[r].in);
  }
  for (uint32_t h = 0; h < m->hosts && m->hosts > 1; h++)
    for (uint32_t c = 0; c < m->nics; c++) draw_card(d, h, c);
  for (uint32_t r = 0; r < m->ranks && m->n_pairs; r++) limit_ports(d, r);
  for (uint32_t s = 0; s < m->switches && m->switches > 1; s++) {
    draw_edge(d, d->lower + s, d->core, m->ports[df_network_switch(m, s)].out);
    draw_edge(d, d->core, d->lower + s, m->ports[df_network_switch(m, s)].in);
  }
}

static dfcclResult_t draw(df_graph *graph, const df_network *m) {
  *graph = (df_graph){0};
  const int is_star = !m->links && m->hosts == m->ranks && m->switches == 0 && m->n_pairs == 0;
  drawing d = {.network = m, .graph = graph, .fabrics = m->ranks};
  d.cards = d.fabrics + m->hosts;
  d.lower = d.cards + 2 * m->hosts * m->nics;
  d.core = d.lower + m->switches;
  const uint32_t nodes = m->links ? m->ranks + m->switches : is_star ? m->ranks + 1 : d.core + 1;
  if (m->ranks > DF_GRAPH_RANKS_MOST || nodes > DF_GRAPH_NODES_MOST)
    return df_fail(dfcclInvalidArgument,
                   "the network has %u ranks and %u nodes; the most are %d and %d", m->ranks, nodes,
                   DF_GRAPH_RANKS_MOST, DF_GRAPH_NODES_MOST);
  if (m->n_pairs && (m->switches > 1 || m->hosts != m->ranks || m->nics > 1))
    return df_fail(dfcclInvalidArgument,
                   "a network with pairs must have one rank and one NIC on each host, and no "
                   "switch entry");
  const dfcclResult_t result = df_graph_make(graph, m->ranks, nodes);
  if (result != dfcclSuccess) return result;
  graph->unit = unit_of(m);
  for (uint32_t l = 0; l < m->n_links; l++) {
    draw_edge(&d, m->links[l].from, m->links[l].to, m->ports[l].out);
    draw_edge(&d, m->links[l].to, m->links[l].from, m->ports[l].in);
  }
  if (is_star)
    draw_star(&d);
  else if (m->links == NULL)
    draw_hosts(&d);
  return dfcclSuccess;
}

/* A copy whose ports and pairs have the lesser rate of both directions; 0: out of memory. */
static int make_even(df_network *even, const df_network *m) {
  *even = *m;
  even->ports = malloc((m->n_ports + 1u) * sizeof *even->ports);
  even->pairs = malloc((m->n_pairs + 1u) * sizeof *even->pairs);
  if (even->ports == NULL || even->pairs == NULL) return 0;
  for (uint32_t p = 0; p < m->n_ports; p++) {
    even->ports[p] = m->ports[p];
    even->ports[p].out = even->ports[p].in = df_lesser(m->ports[p].out, m->ports[p].in);
  }
  for (uint32_t i = 0; i < m->n_pairs; i++) {
    const df_network_pair *back = df_network_pair_of(m, m->pairs[i].to, m->pairs[i].from);
    even->pairs[i] = m->pairs[i];
    if (back) even->pairs[i].rate = df_lesser(m->pairs[i].rate, back->rate);
  }
  return 1;
}

dfcclResult_t df_graph_of_network(df_graph *graph, const df_network *network, int both_ways) {
  df_network even;
  *graph = (df_graph){0};
  if (!both_ways) return draw(graph, network);
  const dfcclResult_t result = make_even(&even, network)
                                   ? draw(graph, &even)
                                   : df_fail(dfcclOutOfMemory, "no memory for a network");
  free(even.ports);
  free(even.pairs);
  return result;
}
