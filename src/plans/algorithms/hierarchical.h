/* What the hierarchical builders share. */
#ifndef DF_PLANS_ALGORITHMS_HIERARCHICAL_H
#define DF_PLANS_ALGORITHMS_HIERARCHICAL_H

#include "plans/build.h"
#include "plans/levels.h"

typedef struct df_hierarchy {
  df_plan *plan;
  df_level_view view;
  uint32_t r, host; /* this member, and its host */
  uint32_t n_hosts, host_channels;
  uint32_t host_channel; /* that this member speaks for; or DF_NO_PEER */
} df_hierarchy;

/* Pieces that one message has: piece, piece + stride ... in a circle of all pieces. */
typedef struct df_run {
  uint32_t piece, n, stride;
} df_run;

#define DF_ANYWHERE UINT32_MAX

/* The longest row that begins at list[at]; one piece if messages have no more. In the circle of all
 * pieces it does not pass from the one before `base` to `base`. */
df_run df_run_of(const df_plan *plan, df_members list, uint32_t at, uint32_t base);

static inline void df_plan_send_run(df_plan *plan, df_run run, uint32_t to, df_place from) {
  df_plan_send(plan, run.piece, to, from);
  df_plan_widen(plan, run.n, run.stride);
}
static inline void df_plan_receive_run(df_plan *plan, df_run run, uint32_t from, uint32_t to,
                                       df_place into) {
  df_plan_receive(plan, run.piece, from, to, into);
  df_plan_widen(plan, run.n, run.stride);
}

static inline uint32_t df_host_after(const df_hierarchy *h, uint32_t steps) {
  return (h->host + steps) % h->n_hosts;
}
static inline uint32_t df_host_before(const df_hierarchy *h, uint32_t steps) {
  return (h->host + h->n_hosts - steps % h->n_hosts) % h->n_hosts;
}
/* Who speaks for this member's lane on another host. */
static inline uint32_t df_partner_on(const df_hierarchy *h, uint32_t host) {
  return df_host_channel_leader(&h->view, host, h->host_channel);
}
uint32_t df_host_channel_longest(const df_hierarchy *h); /* most members of a lane */

/* hierarchical_wide.c, hierarchical_exchange.c */
void df_hierarchical_all_gather(const df_hierarchy *h);
void df_hierarchical_reduce_scatter(const df_hierarchy *h);
void df_hierarchical_all_to_all(const df_hierarchy *h);

/* Own input and what comes from others; the last operation sends or stores it. */
typedef struct df_sum {
  df_run run;       /* n 0: there is none */
  uint32_t scratch; /* while it is combined */
  uint32_t root;    /* who gets it, and does the following with it */
  uint32_t to;      /* or DF_NO_PEER */
  df_place into;    /* or nowhere */
  uint32_t flags;   /* of the last operation */
  uint32_t remote;  /* another host's part, which this member receives last; or DF_NO_PEER */
} df_sum;

/* One piece, or run, of each lane goes up or down its host's tree. */
void df_host_reduce(const df_hierarchy *h, const df_sum *sums);
void df_host_spread(const df_hierarchy *h, const df_run *runs);

#endif
