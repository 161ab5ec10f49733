/*
 * Hierarchical all-to-all in two steps (the lanes of Träff and Hunold, CLUSTER 2020). The leader of
 * a host channel collects the data that its channel sends to a host, exchanges it with its partner
 * there in one message, and distributes the received data. Between hosts a channel thus sends one
 * message to each other host, instead of one for each pair of members.
 */
#include <stdlib.h>

#include "plans/algorithms/hierarchical.h"

typedef struct exchange {
  const df_hierarchy *h;
  uint32_t collected, arrived; /* scratch pieces: for the partner, and from the partner */
  uint32_t kept;               /* number of pieces in scratch from 0 on, which may not overwrite the
                                  input yet */
  uint32_t *owner;             /* [kept] member that has sent each kept piece */
} exchange;

/* Partners exchange at the same time, which is correct in place. */
static void within(const df_hierarchy *h) {
  df_plan *plan = h->plan;
  const df_members all = df_host_members(&h->view, h->host);
  uint32_t me = 0;
  while (all.at[me] != h->r) me++;
  for (uint32_t round = 0; round < all.n; round++) {
    const uint32_t partner = all.at[(round + all.n - me) % all.n];
    if (partner == h->r) {
      df_plan_copy(plan, 0, h->r, DF_NO_PEER, df_input(h->r), df_output(h->r));
      continue;
    }
    df_plan_send(plan, partner, partner, df_input(partner));
    df_plan_receive(plan, partner, partner, DF_NO_PEER, df_output(partner));
  }
}

/* Row `at` of scratch memory contains the data that member `at` of the channel sends to that host.
 * */
static void collect(const exchange *e, uint32_t host) {
  const df_hierarchy *h = e->h;
  df_plan *plan = h->plan;
  const uint32_t host_channel = df_host_channel_of(&h->view, h->r),
                 leader = df_host_channel_leader(&h->view, h->host, host_channel);
  const df_members there = df_host_members(&h->view, host);
  const df_members own = df_host_channel_members(&h->view, h->host, host_channel);
  for (uint32_t at = 0; at < own.n; at++)
    for (uint32_t i = 0; i < there.n;) {
      const df_run run = df_run_of(plan, there, i, DF_ANYWHERE);
      const uint32_t place = e->collected + at * there.n + i;
      if (own.at[at] == h->r && h->r != leader)
        df_plan_send_run(plan, run, leader, df_input(run.piece));
      if (own.at[at] != h->r && h->r == leader) {
        df_plan_receive(plan, run.piece, own.at[at], DF_NO_PEER, df_scratch(place));
        df_plan_widen(plan, run.n, 1);
      }
      for (uint32_t p = 0; own.at[at] == h->r && h->r == leader && p < run.n; p++)
        df_plan_copy(plan, 0, 0, DF_NO_PEER, df_input(there.at[i + p]), df_scratch(place + p));
      i += run.n;
    }
}

static void swap(const exchange *e, uint32_t to, uint32_t from) {
  const df_hierarchy *h = e->h;
  const uint32_t here = df_host_members(&h->view, h->host).n;
  const uint32_t out = df_host_channel_members(&h->view, h->host, h->host_channel).n *
                       df_host_members(&h->view, to).n;
  const uint32_t in = df_host_channel_members(&h->view, from, h->host_channel).n * here;
  const uint32_t most_out = df_plan_is_whole(h->plan) ? out : 1,
                 most_in = df_plan_is_whole(h->plan) ? in : 1;
  for (uint32_t o = 0, i = 0; o < out || i < in; o += most_out, i += most_in) {
    if (o < out) {
      df_plan_send(h->plan, 0, df_partner_on(h, to), df_scratch(e->collected + o));
      df_plan_widen(h->plan, most_out, 1);
    }
    if (i < in) {
      df_plan_receive(h->plan, 0, df_partner_on(h, from), DF_NO_PEER, df_scratch(e->arrived + i));
      df_plan_widen(h->plan, most_in, 1);
    }
  }
}

/* Distributes the data that the channel's members on that host have sent, from `row` on. A row has
 * a column for each member here. */
static void hand_out(const exchange *e, uint32_t row, uint32_t wide) {
  const df_hierarchy *h = e->h;
  const df_members here = df_host_members(&h->view, h->host);
  for (uint32_t i = 0; i < here.n; i++) {
    if (here.at[i] == h->r) continue;
    df_plan_send(h->plan, 0, here.at[i], df_scratch(e->arrived + row * here.n + i));
    df_plan_widen(h->plan, wide, here.n);
  }
}

static void keep(exchange *e, df_members there, uint32_t host_channel, uint32_t row,
                 uint32_t wide) {
  const df_hierarchy *h = e->h;
  const df_members here = df_host_members(&h->view, h->host);
  uint32_t me = 0;
  while (here.at[me] != h->r) me++;
  for (uint32_t i = 0; i < wide; i++) {
    e->owner[e->kept + i] = there.at[row + i];
    if (host_channel == h->host_channel)
      df_plan_copy(h->plan, 0, 0, DF_NO_PEER, df_scratch(e->arrived + (row + i) * here.n + me),
                   df_scratch(e->kept + i));
  }
  if (host_channel != h->host_channel) {
    df_plan_receive(h->plan, 0, df_host_channel_leader(&h->view, h->host, host_channel), DF_NO_PEER,
                    df_scratch(e->kept));
    df_plan_widen(h->plan, wide, 1);
  }
  e->kept += wide;
}

/* The rows are processed one by one, so that leaders that send to each other receive in between. */
static void hand_out_and_keep(exchange *e, uint32_t from) {
  const df_hierarchy *h = e->h;
  const int several = df_plan_is_whole(h->plan);
  for (uint32_t row = 0, more = 1; more; row++) {
    more = 0;
    for (int keeps = h->host_channel == DF_NO_PEER; keeps <= 1; keeps++)
      for (uint32_t k = 0; k < h->host_channels; k++) {
        const df_members there = df_host_channel_members(&h->view, from, k);
        more |= !several && row + 1 < there.n;
        if (row >= there.n || (!keeps && k != h->host_channel)) continue;
        if (keeps)
          keep(e, there, k, row, several ? there.n : 1);
        else
          hand_out(e, row, several ? there.n : 1);
      }
  }
}

static uint32_t largest_host(const df_hierarchy *h) {
  uint32_t largest = 0;
  for (uint32_t host = 0; host < h->n_hosts; host++)
    largest = DF_MAX(largest, df_host_members(&h->view, host).n);
  return largest;
}

void df_hierarchical_all_to_all(const df_hierarchy *h) {
  df_plan *plan = h->plan;
  const uint32_t n = plan->key.n, rows = df_host_channel_longest(h) * largest_host(h);
  exchange e = {.h = h, .collected = n, .arrived = n + rows};
  plan->geometry = DF_GEOMETRY_PIECES;
  plan->pieces = n;
  plan->direct_in_place = 0; /* received chunks overwrite what would be lent */
  plan->scratch_pieces = n + 2 * rows;
  if (df_plan_is_whole(plan)) plan->longest = rows;
  within(h);
  e.owner = malloc(sizeof *e.owner * n);
  plan->failed |= e.owner == NULL || plan->scratch_pieces > UINT16_MAX;
  for (uint32_t d = 1; d < h->n_hosts && !plan->failed; d++) {
    const uint32_t to = df_host_after(h, d), from = df_host_before(h, d);
    collect(&e, to);
    if (h->host_channel != DF_NO_PEER) swap(&e, to, from);
    hand_out_and_keep(&e, from);
  }
  for (uint32_t i = 0; i < e.kept; i++)
    df_plan_copy(plan, 0, 0, DF_NO_PEER, df_scratch(i), df_output(e.owner[i]));
  free(e.owner);
}
