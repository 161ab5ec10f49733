#include "synthesis/bounds.h"

#include <math.h>

#include "base/attributes.h"
#include "base/extremes.h"

/* Some adjacent ranks, and the rates between them and the others. */
typedef struct cut {
  uint32_t first, inside; /* `inside` ranks from `first` on */
  double out, in, latency;
} cut;

typedef struct traffic {
  double out, in; /* bytes */
} traffic;

/* Returns the bytes that must leave the ranks of a cut, and that must enter it. */
static traffic traffic_of_cut(const df_network *m, df_operation operation, double bytes,
                              const cut *c) {
  const double in = c->inside, out = m->ranks - c->inside, piece = bytes / m->ranks;
  const int has_root = c->first == 0, has_last = c->first + c->inside == m->ranks;
  switch (operation) {
  case DF_OP_ALL_GATHER:
    return (traffic){piece * in, piece * out};
  case DF_OP_REDUCE_SCATTER:
    return (traffic){piece * out, piece * in};
  case DF_OP_ALL_TO_ALL:
    return (traffic){piece * in * out, piece * in * out};
  case DF_OP_GATHER:
    return has_root ? (traffic){0, piece * out} : (traffic){piece * in, 0};
  case DF_OP_SCATTER:
    return has_root ? (traffic){piece * out, 0} : (traffic){0, piece * in};
  case DF_OP_BROADCAST:
    return has_root ? (traffic){bytes, 0} : (traffic){0, bytes};
  case DF_OP_REDUCE:
    return has_root ? (traffic){0, bytes} : (traffic){bytes, 0};
  case DF_OP_SCAN:
  case DF_OP_EXCLUSIVE_SCAN:
    return (traffic){has_last ? 0 : bytes, has_root ? 0 : bytes};
  default:
    return (traffic){bytes, bytes};
  }
}

static double time_of_cut(const df_network *m, df_operation operation, double bytes, const cut *c) {
  if (c->inside == 0 || c->inside == m->ranks) return 0;
  const traffic t = traffic_of_cut(m, operation, bytes, c);
  return c->latency + df_greater(t.out > 0 ? t.out / c->out : 0, t.in > 0 ? t.in / c->in : 0);
}

/* The rates between a host and all others, if each of these pairs has a rate of its own. */
static void limit_by_pairs(const df_network *m, uint32_t host, cut *c) {
  double out = 0, in = 0;
  uint32_t n_out = 0, n_in = 0;
  for (uint32_t i = 0; i < m->n_pairs; i++) {
    if (m->pairs[i].from == host) out += m->pairs[i].rate, n_out++;
    if (m->pairs[i].to == host) in += m->pairs[i].rate, n_in++;
  }
  if (n_out + 1 == m->hosts) c->out = df_lesser(c->out, out);
  if (n_in + 1 == m->hosts) c->in = df_lesser(c->in, in);
}

/* The least latencies: inside a host, and between hosts of one switch and of two. */
typedef struct least_latencies {
  double inside, card, up, pair;
} least_latencies;

static least_latencies find_latencies(const df_network *m) {
  least_latencies least = {INFINITY, INFINITY, INFINITY, INFINITY};
  for (uint32_t p = 0; p < m->n_ports; p++) {
    double *kind = p < m->ranks                  ? &least.inside
                   : p < df_network_switch(m, 0) ? &least.card
                                                 : &least.up;
    *kind = df_lesser(*kind, m->ports[p].latency);
  }
  for (uint32_t i = 0; i < m->n_pairs; i++)
    if (m->pairs[i].latency >= 0) least.pair = df_lesser(least.pair, m->pairs[i].latency);
  return least;
}

/* A rank by itself, whose port leads to the others of its host and its card to other hosts. */
static cut cut_of_rank(const df_network *m, uint32_t rank, const least_latencies *least) {
  const uint32_t host = m->host[rank], here = m->host_ranks[host];
  const df_network_port *own = &m->ports[rank];
  const df_network_port *card = &m->ports[df_network_card(m, host, m->local[rank] % m->nics)];
  cut between = {.out = card->out, .in = card->in};
  limit_by_pairs(m, host, &between);
  cut c = {.first = rank,
           .inside = 1,
           .latency = df_lesser((card->latency + least->card) / 2, least->pair)};
  if (here > 1) c.latency = df_lesser(c.latency, (own->latency + least->inside) / 2);
  c.out = (here > 1 ? own->out : 0) + (m->hosts == 1 ? 0 : between.out);
  c.in = (here > 1 ? own->in : 0) + (m->hosts == 1 ? 0 : between.in);
  return c;
}

static cut cut_of_host(const df_network *m, uint32_t host, uint32_t first,
                       const least_latencies *least) {
  cut c = {.first = first, .inside = m->host_ranks[host], .latency = INFINITY};
  for (uint32_t nic = 0; m->hosts > 1 && nic < DF_MIN(m->nics, c.inside); nic++) {
    const df_network_port *card = &m->ports[df_network_card(m, host, nic)];
    c.out += card->out;
    c.in += card->in;
    c.latency = df_lesser(c.latency, (card->latency + least->card) / 2);
  }
  c.latency = df_lesser(c.latency, least->pair);
  limit_by_pairs(m, host, &c);
  return c;
}

/* Without contention each connection has the least rate of its way. */
static void free_rates(const df_network *m, cut *c) {
  c->out = c->in = 0;
  for (uint32_t r = c->first; r < c->first + c->inside; r++)
    for (uint32_t other = 0; other < m->ranks; other++) {
      if (other >= c->first && other < c->first + c->inside) continue;
      for (int out = 0; out < 2; out++) {
        uint32_t resources[DF_NETWORK_PATH_MOST];
        double latency, least = INFINITY;
        const uint32_t n =
            df_network_path(m, out ? r : other, out ? other : r, resources, &latency);
        for (uint32_t i = 0; i < n; i++) least = df_lesser(least, df_network_rate(m, resources[i]));
        *(out ? &c->out : &c->in) += least;
      }
    }
}

typedef struct all_rates {
  double out, in;
} all_rates;

static double bound_of_hosts(const df_network *m, df_operation operation, double bytes,
                             all_rates *all) {
  const least_latencies least = find_latencies(m);
  double most = 0;
  uint32_t rank = 0;
  cut below = {0};
  for (uint32_t h = 0; h < m->hosts; h++) {
    cut host = cut_of_host(m, h, rank, &least);
    if (m->is_free_of_contention) free_rates(m, &host);
    most = df_greater(most, time_of_cut(m, operation, bytes, &host));
    if (!m->is_free_of_contention) all->out += host.out, all->in += host.in;
    for (uint32_t end = rank + m->host_ranks[h]; rank < end; rank++) {
      cut one = cut_of_rank(m, rank, &least);
      if (m->is_free_of_contention) free_rates(m, &one);
      most = df_greater(most, time_of_cut(m, operation, bytes, &one));
      const int counts = m->host_ranks[h] > 1 && !m->is_free_of_contention;
      all->out += m->is_free_of_contention ? one.out : counts ? m->ports[rank].out : 0;
      all->in += m->is_free_of_contention ? one.in : counts ? m->ports[rank].in : 0;
    }
    if (m->switches == 0 || m->is_free_of_contention) continue;
    below.inside += m->host_ranks[h];
    if ((h + 1) % m->switch_hosts != 0 && h + 1 != m->hosts) continue;
    const df_network_port *up = &m->ports[df_network_switch(m, h / m->switch_hosts)];
    below.out = up->out;
    below.in = up->in;
    below.latency = df_lesser(least.card + (up->latency + least.up) / 2, least.pair);
    most = df_greater(most, time_of_cut(m, operation, bytes, &below));
    below = (cut){.first = rank};
  }
  return most;
}

static double bound_of_links(const df_network *m, df_operation operation, double bytes,
                             all_rates *all) {
  double most = 0;
  for (uint32_t r = 0; r < m->ranks; r++) {
    cut one = {.first = r, .inside = 1, .latency = INFINITY};
    for (uint32_t l = 0; l < m->n_links; l++) {
      const int begins = m->links[l].from == r, ends = m->links[l].to == r;
      if (!begins && !ends) continue;
      one.out += begins ? m->ports[l].out : m->ports[l].in;
      one.in += begins ? m->ports[l].in : m->ports[l].out;
      one.latency = df_lesser(one.latency, m->ports[l].latency);
    }
    if (m->is_free_of_contention) free_rates(m, &one);
    all->out += one.out;
    all->in += one.in;
    most = df_greater(most, time_of_cut(m, operation, bytes, &one));
  }
  return most;
}

double df_network_bound(const df_network *m, df_operation operation, uint64_t bytes) {
  all_rates all = {0};
  double most = m->links ? bound_of_links(m, operation, (double)bytes, &all)
                         : bound_of_hosts(m, operation, (double)bytes, &all);
  if (operation == DF_OP_ALL_REDUCE && m->ranks > 1)
    most = df_greater(most, 2.0 * (m->ranks - 1) * (double)bytes / df_lesser(all.out, all.in));
  return most;
}
