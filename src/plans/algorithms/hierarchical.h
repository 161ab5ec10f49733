/* Functions that the hierarchical builders share. */
#ifndef DF_PLANS_ALGORITHMS_HIERARCHICAL_H
#define DF_PLANS_ALGORITHMS_HIERARCHICAL_H

#include "plans/build.h"
#include "plans/levels.h"

typedef struct df_hierarchy {
  df_plan *plan;
  df_level_view view;
  uint32_t r, host; /* this member, and its host */
  uint32_t n_hosts, host_channels;
  uint32_t host_channel; /* the host channel whose leader this member is; or DF_NO_PEER */
} df_hierarchy;

/* The pieces of one message: piece, piece + stride ... in the circle of all pieces. */
typedef struct df_run {
  uint32_t piece, n, stride;
} df_run;

#define DF_ANYWHERE UINT32_MAX

/* The longest row of pieces that begins at list[at]; one piece if messages have only one. In the
 * circle of all pieces it does not cross the border between `base` and the piece before it. */
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
/* The leader of this member's host channel on another host. */
static inline uint32_t df_partner_on(const df_hierarchy *h, uint32_t host) {
  return df_host_channel_leader(&h->view, host, h->host_channel);
}
/* Largest number of members of a host channel. */
uint32_t df_host_channel_longest(const df_hierarchy *h);

/* hierarchical_wide.c, hierarchical_exchange.c */
void df_hierarchical_all_gather(const df_hierarchy *h);
void df_hierarchical_reduce_scatter(const df_hierarchy *h);
void df_hierarchical_all_to_all(const df_hierarchy *h);

/* A sum of the own input and of received parts. The last operation sends or stores it. */
typedef struct df_sum {
  df_run run;       /* n 0: there is no sum */
  uint32_t scratch; /* scratch piece while the sum is combined */
  uint32_t root;    /* the member that gets the sum and continues with it as follows: */
  uint32_t to;      /* destination of the sum; or DF_NO_PEER */
  df_place into;    /* where the sum is stored; or nowhere */
  uint32_t flags;   /* flags of the last operation */
  uint32_t remote;  /* member of another host whose part this member receives last; or DF_NO_PEER */
} df_sum;

/* One piece, or run of pieces, of each host channel is moved up or down the tree of its host. */
void df_host_reduce(const df_hierarchy *h, const df_sum *sums);
void df_host_spread(const df_hierarchy *h, const df_run *runs);

#endif
