/* Hierarchical all-gather and reduce-scatter (Träff and Hunold, CLUSTER 2020). The piece of a
 * member belongs to the member's host channel. */
#include <stdlib.h>

#include "plans/algorithms/hierarchical.h"

/* Piece `at` of a host channel; n 0: the channel has fewer pieces. */
static df_run piece_of(const df_hierarchy *h, uint32_t host, uint32_t host_channel, uint32_t at) {
  const df_members list = df_host_channel_members(&h->view, host, host_channel);
  return at < list.n ? (df_run){list.at[at], 1, 1} : (df_run){0, 0, 0};
}

static uint32_t next_in_ring(const df_hierarchy *h) {
  return h->host_channel == DF_NO_PEER ? DF_NO_PEER : df_partner_on(h, df_host_after(h, 1));
}
static uint32_t previous_in_ring(const df_hierarchy *h) {
  return h->host_channel == DF_NO_PEER ? DF_NO_PEER : df_partner_on(h, df_host_before(h, 1));
}

/* The pieces of a host channel on `hosts` hosts, the first of which is `host`. */
static df_members channel_pieces(const df_hierarchy *h, uint32_t host, uint32_t hosts,
                                 uint32_t host_channel, uint32_t *room) {
  df_members list = {room, 0};
  for (uint32_t i = 0; i < hosts; i++) {
    const df_members part =
        df_host_channel_members(&h->view, (host + i) % h->n_hosts, host_channel);
    for (uint32_t at = 0; at < part.n; at++) room[list.n++] = part.at[at];
  }
  return list;
}

/* ---- all-gather */

/* Sends each member's piece to all members of its host: first the pieces that come from their
 * owners, then the relayed ones. */
static void gather_host(const df_hierarchy *h) {
  df_plan *plan = h->plan;
  const df_members all = df_host_members(&h->view, h->host);
  uint32_t me = 0;
  while (all.at[me] != h->r) me++;
  const df_members own =
      df_family_of(&h->view, df_host_channel_of(&h->view, h->r), h->r, h->r).children;
  uint32_t first = 0;
  while (first < own.n && own.at[first] < h->r) first++;
  for (uint32_t i = 0; i < own.n; i++) /* each member starts with its next one, so that all start at
                                          different places */
    df_plan_send(plan, h->r, own.at[(first + i) % own.n], df_output(h->r));
  for (uint32_t i = 1; i < all.n; i++) {
    const uint32_t root = all.at[(me + all.n - i) % all.n],
                   host_channel = df_host_channel_of(&h->view, root);
    if (df_family_of(&h->view, host_channel, root, h->r).parent == root)
      df_plan_receive(plan, root, root, DF_NO_PEER, df_output(root));
  }
  for (uint32_t i = 0; i < all.n; i++) {
    const uint32_t root = all.at[i];
    const df_family family = df_family_of(&h->view, df_host_channel_of(&h->view, root), root, h->r);
    if (root == h->r) continue;
    if (family.parent != root)
      df_plan_receive(plan, root, family.parent, DF_NO_PEER, df_output(root));
    for (uint32_t c = 0; c < family.children.n; c++)
      df_plan_send(plan, root, family.children.at[c], df_output(root));
  }
}

static void gather_in_ring(const df_hierarchy *h) {
  df_plan *plan = h->plan;
  const uint32_t next = next_in_ring(h), previous = previous_in_ring(h);
  df_run runs[DF_HOST_CHANNELS_MOST] = {0};
  for (uint32_t at = 0; at < df_host_channel_longest(h); at++)
    for (uint32_t s = 0; s < h->n_hosts; s++) {
      for (uint32_t k = 0; k < h->host_channels; k++)
        runs[k] = piece_of(h, df_host_before(h, s), k, at);
      if (h->host_channel != DF_NO_PEER && runs[h->host_channel].n) {
        const df_run run = runs[h->host_channel];
        if (s == 0)
          df_plan_send_run(plan, run, next, df_output(run.piece));
        else
          df_plan_receive_run(plan, run, previous, s + 1 < h->n_hosts ? next : DF_NO_PEER,
                              df_output(run.piece));
      }
      if (s > 0) df_host_spread(h, runs);
    }
}

/* A list of pieces of a host channel, and the number of those that have been processed. */
typedef struct reading {
  uint32_t *room;
  df_members list;
  uint32_t at;
} reading;

static df_run next_run(const df_hierarchy *h, reading *r, uint32_t base) {
  df_run run = {0, 0, 0};
  if (r->at < r->list.n) run = df_run_of(h->plan, r->list, r->at, base);
  r->at += run.n;
  return run;
}

/* Bruck's rounds (bruck.c) between hosts: after the round at distance d a host has the pieces of 2d
 * hosts, starting with its own. */
static void gather_in_rounds(const df_hierarchy *h, reading *out, reading *in) {
  df_plan *plan = h->plan;
  const uint32_t hosts = h->n_hosts;
  df_run runs[DF_HOST_CHANNELS_MOST] = {0};
  for (uint32_t d = 1; d < hosts; d *= 2) {
    const uint32_t wide = DF_MIN(d, hosts - d);
    for (uint32_t k = 0; k < h->host_channels; k++) {
      in[k].list = channel_pieces(h, df_host_after(h, d), wide, k, in[k].room);
      in[k].at = 0;
    }
    if (h->host_channel != DF_NO_PEER)
      out->list = channel_pieces(h, h->host, wide, h->host_channel, out->room);
    out->at = 0;
    for (int more = 1; more;) {
      more = 0;
      for (uint32_t k = 0; k < h->host_channels; k++) {
        runs[k] = next_run(h, &in[k], DF_ANYWHERE);
        more |= in[k].at < in[k].list.n;
      }
      if (h->host_channel != DF_NO_PEER) {
        const df_run send = next_run(h, out, DF_ANYWHERE), receive = runs[h->host_channel];
        if (send.n)
          df_plan_send_run(plan, send, df_partner_on(h, df_host_before(h, d)),
                           df_output(send.piece));
        if (receive.n)
          df_plan_receive_run(plan, receive, df_partner_on(h, df_host_after(h, d)), DF_NO_PEER,
                              df_output(receive.piece));
        more |= out->at < out->list.n;
      }
      df_host_spread(h, runs);
    }
  }
}

/* Memory for a list of each host channel and one more. NULL: out of memory. */
static uint32_t *take_rooms(const df_hierarchy *h, reading *out, reading *in) {
  const uint32_t n = h->plan->key.n;
  uint32_t *rooms = malloc(sizeof *rooms * n * (h->host_channels + 1));
  for (uint32_t k = 0; rooms && k < h->host_channels; k++) in[k] = (reading){.room = rooms + k * n};
  if (rooms) *out = (reading){.room = rooms + h->host_channels * n};
  h->plan->failed |= rooms == NULL;
  return rooms;
}

static void begin(const df_hierarchy *h) {
  df_plan *plan = h->plan;
  plan->geometry = DF_GEOMETRY_PIECES;
  plan->pieces = plan->key.n;
  if (df_plan_is_whole(plan)) plan->longest = plan->key.n;
}

void df_hierarchical_all_gather(const df_hierarchy *h) {
  reading out, in[DF_HOST_CHANNELS_MOST];
  begin(h);
  df_plan_copy(h->plan, 0, h->r, DF_NO_PEER, df_input(0), df_output(h->r));
  gather_host(h);
  if (h->n_hosts == 1) return;
  if (!df_plan_is_whole(h->plan)) {
    gather_in_ring(h);
    return;
  }
  uint32_t *rooms = take_rooms(h, &out, in);
  if (rooms) gather_in_rounds(h, &out, in);
  free(rooms);
}

/* ---- reduce-scatter */

/* A host's own pieces come last in the ring, and are summed at their owners. */
static void scatter_in_ring(const df_hierarchy *h) {
  const uint32_t next = next_in_ring(h), previous = previous_in_ring(h);
  df_sum sums[DF_HOST_CHANNELS_MOST] = {0};
  for (uint32_t at = 0; at < df_host_channel_longest(h); at++)
    for (uint32_t s = 0; s < h->n_hosts; s++) {
      const int final = s + 1 == h->n_hosts;
      for (uint32_t k = 0; k < h->host_channels; k++) {
        const df_run run = piece_of(h, df_host_before(h, 1 + s), k, at);
        sums[k] = (df_sum){.run = run,
                           .root = final ? run.piece : df_host_channel_leader(&h->view, h->host, k),
                           .to = final ? DF_NO_PEER : next,
                           .into = final ? df_output(0) : df_nowhere(),
                           .flags = final ? df_plan_average(h->plan) : 0,
                           .remote = s > 0 && k == h->host_channel ? previous : DF_NO_PEER};
      }
      df_host_reduce(h, sums);
    }
}

static int is_host_by_host(const df_hierarchy *h) {
  uint32_t i = 0;
  while (i < h->plan->key.n && h->view.members[i] == i) i++;
  return i == h->plan->key.n;
}

/* The piece whose sum is in scratch piece 0; the others follow. If members are ordered host by
 * host, it is this host's first piece, so that no round has pieces at both ends of the row. */
static uint32_t first_sum(const df_hierarchy *h) {
  return is_host_by_host(h) ? df_host_members(&h->view, h->host).at[0] : 0;
}

static uint32_t place_of(const df_hierarchy *h, uint32_t base, uint32_t piece) {
  return (piece + h->plan->key.n - base) % h->plan->key.n;
}

/* Sums all pieces of the host, at the leaders. */
static void sum_host(const df_hierarchy *h, reading *in, uint32_t base) {
  const int alone = h->n_hosts == 1;
  const uint32_t first = is_host_by_host(h) ? h->host : 0;
  df_sum sums[DF_HOST_CHANNELS_MOST] = {0};
  for (uint32_t k = 0; k < h->host_channels; k++) {
    in[k].list = channel_pieces(h, first, h->n_hosts, k, in[k].room);
    in[k].at = 0;
  }
  for (int more = 1; more;) {
    more = 0;
    for (uint32_t k = 0; k < h->host_channels; k++) {
      const df_run run = next_run(h, &in[k], base);
      const uint32_t place = place_of(h, base, run.piece);
      more |= in[k].at < in[k].list.n;
      sums[k] = (df_sum){.run = run,
                         .scratch = place,
                         .root = df_host_channel_leader(&h->view, h->host, k),
                         .to = DF_NO_PEER,
                         .into = df_scratch(place),
                         .flags = alone ? df_plan_average(h->plan) : 0,
                         .remote = DF_NO_PEER};
    }
    df_host_reduce(h, sums);
  }
}

/* The rounds of gather_in_rounds backwards. */
static void scatter_in_rounds(const df_hierarchy *h, reading *out, reading *in, uint32_t base) {
  const uint32_t hosts = h->n_hosts;
  uint32_t d = 1;
  while (2 * d < hosts) d *= 2;
  for (; d >= 1 && hosts > 1; d /= 2) {
    const uint32_t wide = DF_MIN(d, hosts - d);
    const uint32_t to = df_partner_on(h, df_host_after(h, d));
    const uint32_t from = df_partner_on(h, df_host_before(h, d));
    out->list = channel_pieces(h, df_host_after(h, d), wide, h->host_channel, out->room);
    in->list = channel_pieces(h, h->host, wide, h->host_channel, in->room);
    out->at = in->at = 0;
    while (out->at < out->list.n || in->at < in->list.n) {
      const df_run send = next_run(h, out, base), receive = next_run(h, in, base);
      if (send.n) df_plan_send_run(h->plan, send, to, df_scratch(place_of(h, base, send.piece)));
      if (receive.n == 0) continue;
      const df_place sum = df_scratch(place_of(h, base, receive.piece));
      df_plan_reduce(h->plan, DF_PRIM_SOURCE_FIRST | (d == 1 ? df_plan_average(h->plan) : 0),
                     receive.piece, from, DF_NO_PEER, sum, sum);
      df_plan_widen(h->plan, receive.n, receive.stride);
    }
  }
}

/* Sends the sums from the leader of a host channel to their owners. */
static void give_to_owners(const df_hierarchy *h, uint32_t base) {
  df_plan *plan = h->plan;
  const uint32_t leader =
      df_host_channel_leader(&h->view, h->host, df_host_channel_of(&h->view, h->r));
  if (h->r != leader) {
    df_plan_receive(plan, h->r, leader, DF_NO_PEER, df_output(0));
    return;
  }
  const df_members own = df_host_channel_members(&h->view, h->host, h->host_channel);
  for (uint32_t i = 1; i < own.n; i++)
    df_plan_send(plan, own.at[i], own.at[i], df_scratch(place_of(h, base, own.at[i])));
  df_plan_copy(plan, 0, h->r, DF_NO_PEER, df_scratch(place_of(h, base, h->r)), df_output(0));
}

void df_hierarchical_reduce_scatter(const df_hierarchy *h) {
  reading out, in[DF_HOST_CHANNELS_MOST];
  begin(h);
  if (!df_plan_is_whole(h->plan)) {
    h->plan->scratch_pieces = 1; /* a sum is sent or stored before the next one begins */
    scatter_in_ring(h);
    return;
  }
  h->plan->scratch_pieces = h->plan->key.n;
  uint32_t *rooms = take_rooms(h, &out, in);
  if (rooms == NULL) return;
  const uint32_t base = first_sum(h);
  sum_host(h, in, base);
  if (h->host_channel != DF_NO_PEER) scatter_in_rounds(h, &out, &in[0], base);
  give_to_owners(h, base);
  free(rooms);
}
