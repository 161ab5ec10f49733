/*
 * Hierarchical plans over hosts and over the parts of a host (levels.h). Within a host, pieces
 * travel along trees. Between hosts, the leaders of each host channel exchange the pieces of that
 * channel (Träff and Hunold, CLUSTER 2020): in a ring if pieces are long, in log2(hosts) rounds if
 * the collective fits one slot. A piece is stored at its final place when it arrives.
 *
 * All members execute the same sequence of stages. In one stage a member sends before it receives,
 * or receives along a tree. So a message waits only for messages of earlier stages.
 */
#include "plans/algorithms/hierarchical.h"

#include <string.h>

df_run df_run_of(const df_plan *plan, df_members list, uint32_t at, uint32_t base) {
  const uint32_t n = plan->key.n;
  df_run run = {.piece = list.at[at], .n = 1, .stride = 1};
  if (!df_plan_is_whole(plan) || at + 1 >= list.n) return run;
  const uint32_t step = (list.at[at + 1] + n - list.at[at]) % n;
  while (at + run.n < list.n) {
    const uint32_t last = list.at[at + run.n - 1], next = list.at[at + run.n];
    if ((next + n - last) % n != step) break;
    if (base != DF_ANYWHERE && (next + n - base) % n < (last + n - base) % n) break;
    run.n++;
  }
  if (run.n > 1) run.stride = step;
  return run;
}

uint32_t df_host_channel_longest(const df_hierarchy *h) {
  uint32_t longest = 0;
  for (uint32_t host = 0; host < h->n_hosts; host++)
    for (uint32_t k = 0; k < h->host_channels; k++)
      longest = DF_MAX(longest, df_host_channel_members(&h->view, host, k).n);
  return longest;
}

/* ---- within a host */

static void combine(df_plan *plan, const df_sum *s, df_members from) {
  const uint32_t n = from.n + (s->remote != DF_NO_PEER);
  df_place own = df_input(s->run.piece);
  for (uint32_t i = 0; i < n; i++) {
    const int last = i + 1 == n;
    /* The deepest subtrees are ready first. */
    const uint32_t peer = i < from.n ? from.at[from.n - 1 - i] : s->remote;
    df_plan_reduce(plan, DF_PRIM_SOURCE_FIRST | (last ? s->flags : 0), s->run.piece, peer,
                   last ? s->to : DF_NO_PEER, own, last ? s->into : df_scratch(s->scratch));
    df_plan_widen(plan, s->run.n, s->run.stride);
    own = df_scratch(s->scratch);
  }
  if (n > 0) return;
  if (s->into.buffer == DF_BUFFER_NONE)
    df_plan_send(plan, s->run.piece, s->to, own);
  else
    df_plan_copy(plan, s->flags, s->run.piece, s->to, own, s->into);
  df_plan_widen(plan, s->run.n, s->run.stride);
}

/* In trees of one level, members first send the messages that do not wait for others. */
static int passes_of(const df_hierarchy *h) { return h->view.levels->depth == 1 ? 2 : 1; }

void df_host_reduce(const df_hierarchy *h, const df_sum *sums) {
  for (int pass = 0; pass < passes_of(h); pass++)
    for (uint32_t k = 0; k < h->host_channels; k++) {
      df_sum s = sums[k];
      if (s.run.n == 0) continue;
      const df_family family = df_family_of(&h->view, k, s.root, h->r);
      const int waits = family.children.n > 0 || s.remote != DF_NO_PEER;
      if (passes_of(h) == 2 && waits != (pass == 1)) continue;
      if (s.root != h->r) {
        s.to = family.parent;
        s.into = df_nowhere();
        s.flags = 0;
      }
      combine(h->plan, &s, family.children);
    }
}

static void spread_one(const df_hierarchy *h, uint32_t host_channel, uint32_t root, df_run run) {
  const df_family family = df_family_of(&h->view, host_channel, root, h->r);
  if (h->r != root)
    df_plan_receive_run(h->plan, run, family.parent, DF_NO_PEER, df_output(run.piece));
  for (uint32_t i = 0; i < family.children.n; i++)
    df_plan_send_run(h->plan, run, family.children.at[i], df_output(run.piece));
}

/* The root of each host channel's tree is the channel's leader. */
void df_host_spread(const df_hierarchy *h, const df_run *runs) {
  for (int pass = 0; pass < passes_of(h); pass++)
    for (uint32_t k = 0; k < h->host_channels; k++) {
      const uint32_t root = df_host_channel_leader(&h->view, h->host, k);
      if (runs[k].n && (passes_of(h) == 1 || (root != h->r) == pass))
        spread_one(h, k, root, runs[k]);
    }
}

/* ---- all-reduce */

/* Piece k * hosts + b is the part of host channel k whose sum host b completes. */
static void all_reduce_in_ring(const df_hierarchy *h) {
  df_plan *plan = h->plan;
  const uint32_t hosts = h->n_hosts;
  const uint32_t next =
      h->host_channel == DF_NO_PEER ? DF_NO_PEER : df_partner_on(h, df_host_after(h, 1));
  const uint32_t previous =
      h->host_channel == DF_NO_PEER ? DF_NO_PEER : df_partner_on(h, df_host_before(h, 1));
  df_sum sums[DF_HOST_CHANNELS_MOST] = {0};
  df_run runs[DF_HOST_CHANNELS_MOST] = {0};
  for (uint32_t s = 0; s < hosts; s++) {
    const uint32_t b = df_host_before(h, 1 + s);
    const int final = s + 1 == hosts;
    for (uint32_t k = 0; k < h->host_channels; k++) {
      const uint32_t piece = k * hosts + b;
      sums[k] = (df_sum){.run = {piece, 1, 1},
                         .root = df_host_channel_leader(&h->view, h->host, k),
                         .to = hosts > 1 ? next : DF_NO_PEER,
                         .into = final ? df_output(piece) : df_nowhere(),
                         .flags = final ? df_plan_average(plan) : 0,
                         .remote = s > 0 && k == h->host_channel ? previous : DF_NO_PEER};
    }
    df_host_reduce(h, sums);
  }
  for (uint32_t s = 0; s < hosts; s++) {
    const uint32_t b = df_host_before(h, s);
    for (uint32_t k = 0; k < h->host_channels; k++) runs[k] = (df_run){k * hosts + b, 1, 1};
    if (s > 0 && h->host_channel != DF_NO_PEER) {
      const df_run run = runs[h->host_channel];
      df_plan_receive_run(plan, run, previous, s + 1 < hosts ? next : DF_NO_PEER,
                          df_output(run.piece));
    }
    df_host_spread(h, runs);
  }
}

/* Piece k is the part of host channel k, which is exchanged between hosts as a whole. */
static void all_reduce_by_doubling(const df_hierarchy *h) {
  df_plan *plan = h->plan;
  df_sum sums[DF_HOST_CHANNELS_MOST] = {0};
  df_run runs[DF_HOST_CHANNELS_MOST] = {0};
  const int alone = h->n_hosts == 1, is_single = df_host_members(&h->view, h->host).n == 1;
  for (uint32_t k = 0; k < h->host_channels; k++) {
    runs[k] = (df_run){k, 1, 1};
    sums[k] = (df_sum){.run = runs[k],
                       .scratch = k,
                       .root = df_host_channel_leader(&h->view, h->host, k),
                       .to = DF_NO_PEER,
                       .into = alone ? df_output(k) : df_scratch(k),
                       .flags = alone ? df_plan_average(plan) : 0,
                       .remote = DF_NO_PEER};
  }
  if (!is_single) df_host_reduce(h, sums);
  if (!alone && h->host_channel != DF_NO_PEER) {
    const uint32_t k = h->host_channel;
    for (uint32_t host = 0; host < h->n_hosts; host++)
      h->view.children[host] = df_host_channel_leader(&h->view, host, k);
    df_plan_doubling_among(plan, (df_among){h->n_hosts, h->host, 1, h->view.children}, k,
                           is_single ? df_input(k) : df_scratch(k));
  }
  df_host_spread(h, runs);
}

/* ---- broadcast and reduce: piece k is the part of host channel k */

/* On the root's host, the root itself acts as the leader of its host channel. */
static uint32_t acting_leader(const df_hierarchy *h, uint32_t host, uint32_t host_channel) {
  const uint32_t root = h->plan->key.root;
  if (host == df_host_of(&h->view, root) && host_channel == df_host_channel_of(&h->view, root))
    return root;
  return df_host_channel_leader(&h->view, host, host_channel);
}

/* Hosts are numbered from the root's host: a chain if pieces are long, else a binomial tree. Hosts
 * with the largest subtree come first. */
static uint32_t parent_host(const df_hierarchy *h, uint32_t v) {
  return df_plan_is_whole(h->plan) ? v & (v - 1) : v - 1;
}
static df_members child_hosts(const df_hierarchy *h, uint32_t v, uint32_t *children) {
  const uint32_t hosts = h->n_hosts;
  df_members list = {children, 0};
  if (!df_plan_is_whole(h->plan)) {
    if (v + 1 < hosts) children[list.n++] = v + 1;
    return list;
  }
  uint32_t d = 1;
  while (d < hosts && (v & d) == 0) d *= 2;
  for (d /= 2; d >= 1; d /= 2)
    if (v + d < hosts) children[list.n++] = v + d;
  return list;
}

static void walk_hosts(const df_hierarchy *h, void (*part)(const df_hierarchy *h, uint32_t k,
                                                           uint32_t parent, df_members hosts)) {
  const uint32_t root = h->plan->key.root, first = df_host_of(&h->view, root);
  const uint32_t v = (h->host + h->n_hosts - first) % h->n_hosts;
  uint32_t room[32], children[32];
  for (uint32_t k = 0; k < h->host_channels; k++) {
    df_members hosts = {children, 0};
    uint32_t parent = DF_NO_PEER;
    if (acting_leader(h, h->host, k) == h->r) {
      const df_members numbers = child_hosts(h, v, room);
      for (; hosts.n < numbers.n; hosts.n++)
        children[hosts.n] = acting_leader(h, (numbers.at[hosts.n] + first) % h->n_hosts, k);
      if (v > 0) parent = acting_leader(h, (parent_host(h, v) + first) % h->n_hosts, k);
    }
    part(h, k, parent, hosts);
  }
}

/* parent, hosts: the channel's leaders on other hosts. */
static void broadcast_part(const df_hierarchy *h, uint32_t k, uint32_t parent, df_members hosts) {
  df_plan *plan = h->plan;
  const uint32_t root = plan->key.root;
  const int is_roots = h->host == df_host_of(&h->view, root);
  const uint32_t top = is_roots ? root : df_host_channel_leader(&h->view, h->host, k);
  const df_family family = df_family_of(&h->view, k, top, h->r);
  if (h->r == root)
    df_plan_copy(plan, 0, k, DF_NO_PEER, df_input(k), df_output(k));
  else
    df_plan_receive(plan, k, h->r == top ? parent : family.parent, DF_NO_PEER, df_output(k));
  for (uint32_t i = 0; i < hosts.n; i++) df_plan_send(plan, k, hosts.at[i], df_output(k));
  for (uint32_t i = 0; i < family.children.n; i++)
    df_plan_send(plan, k, family.children.at[i], df_output(k));
}

static void reduce_part(const df_hierarchy *h, uint32_t k, uint32_t parent, df_members hosts) {
  df_plan *plan = h->plan;
  const uint32_t root = plan->key.root;
  const int is_roots = h->host == df_host_of(&h->view, root);
  const uint32_t top = is_roots ? root : df_host_channel_leader(&h->view, h->host, k);
  const df_family family = df_family_of(&h->view, k, top, h->r);
  uint32_t *from = h->view.children; /* the last entries are combined first */
  memmove(from + hosts.n, from, family.children.n * sizeof *from);
  memcpy(from, hosts.at, hosts.n * sizeof *from);
  const df_sum s = {.run = {k, 1, 1},
                    .to = h->r == root  ? DF_NO_PEER
                          : h->r == top ? parent
                                        : family.parent,
                    .into = h->r == root ? df_output(k) : df_nowhere(),
                    .flags = h->r == root ? df_plan_average(plan) : 0,
                    .remote = DF_NO_PEER};
  combine(plan, &s, (df_members){from, hosts.n + family.children.n});
}

/* ---- the plan */

static void build(df_hierarchy *h) {
  df_plan *plan = h->plan;
  const int is_short = df_plan_is_whole(plan);
  switch (plan->key.operation) {
  case DF_OP_ALL_GATHER:
    df_hierarchical_all_gather(h);
    return;
  case DF_OP_REDUCE_SCATTER:
    df_hierarchical_reduce_scatter(h);
    return;
  case DF_OP_ALL_TO_ALL:
    df_hierarchical_all_to_all(h);
    return;
  case DF_OP_ALL_REDUCE:
    plan->pieces = is_short ? h->host_channels : h->host_channels * h->n_hosts;
    plan->scratch_pieces = is_short ? h->host_channels : 1;
    plan->direct_in_place = !is_short; /* the partner may still read the input */
    if (is_short)
      all_reduce_by_doubling(h);
    else
      all_reduce_in_ring(h);
    return;
  default:
    plan->pieces = h->host_channels;
    plan->scratch_pieces = plan->key.operation == DF_OP_REDUCE;
    walk_hosts(h, plan->key.operation == DF_OP_REDUCE ? reduce_part : broadcast_part);
  }
}

void df_plan_hierarchical(df_plan *plan) {
  df_hierarchy h = {.plan = plan, .r = plan->key.position, .host_channel = DF_NO_PEER};
  plan->geometry = DF_GEOMETRY_PARTITION;
  if (!df_level_view_open(&h.view, plan->key.levels)) {
    plan->failed = 1;
  } else {
    h.host = df_host_of(&h.view, h.r);
    h.n_hosts = h.view.n_hosts;
    h.host_channels = plan->key.levels->host_channels;
    const uint32_t own = df_host_channel_of(&h.view, h.r);
    if (df_host_channel_leader(&h.view, h.host, own) == h.r) h.host_channel = own;
    build(&h);
  }
  df_level_view_close(&h.view);
}
