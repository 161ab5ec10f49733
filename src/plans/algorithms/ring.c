/*
 * Ring plans (Patarasuk and Yuan, JPDC 2009, for all-reduce). They are optimal in bandwidth; an
 * all-reduce needs 2(n-1) crossings.
 */
#include "plans/build.h"

typedef struct ring {
  uint32_t n, r, next, previous;
} ring;

static uint32_t behind(const ring *g, uint32_t position, uint32_t steps) {
  return (position + g->n - steps % g->n) % g->n;
}

/* Receives the other pieces, and sends all except the last to the next member; `own` has been sent
 * before. */
static void collect(df_plan *plan, const ring *g, uint32_t own) {
  for (uint32_t s = 1; s < g->n; s++) {
    uint32_t piece = behind(g, own, s);
    uint32_t send = s + 1 < g->n ? DF_PRIM_SEND : 0;
    df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_RECV | DF_PRIM_STORE | send,
                                     .piece = piece,
                                     .recv_from = g->previous,
                                     .send_to = g->next,
                                     .destination = DF_BUFFER_OUTPUT,
                                     .destination_piece = piece});
  }
}

static void all_reduce(df_plan *plan, const ring *g) {
  uint32_t average = plan->key.average ? DF_PRIM_AVERAGE : 0;
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->pieces = g->n;
  df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_SEND,
                                   .piece = g->r,
                                   .send_to = g->next,
                                   .source = DF_BUFFER_INPUT,
                                   .source_piece = g->r});
  for (uint32_t s = 1; s + 1 < g->n; s++) {
    uint32_t piece = behind(g, g->r, s);
    df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_SEND |
                                              DF_PRIM_STORE_TO_LEND,
                                     .piece = piece,
                                     .recv_from = g->previous,
                                     .send_to = g->next,
                                     .source = DF_BUFFER_INPUT,
                                     .source_piece = piece,
                                     .destination = DF_BUFFER_OUTPUT,
                                     .destination_piece = piece});
  }
  uint32_t own = g->next; /* the piece whose reduction ends here */
  df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_STORE |
                                            DF_PRIM_SEND | average,
                                   .piece = own,
                                   .recv_from = g->previous,
                                   .send_to = g->next,
                                   .source = DF_BUFFER_INPUT,
                                   .source_piece = own,
                                   .destination = DF_BUFFER_OUTPUT,
                                   .destination_piece = own});
  collect(plan, g, own);
}

static void reduce_scatter(df_plan *plan, const ring *g) {
  uint32_t average = plan->key.average ? DF_PRIM_AVERAGE : 0;
  plan->geometry = DF_GEOMETRY_PIECES;
  plan->pieces = g->n;
  uint32_t first = g->previous;
  df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_SEND,
                                   .piece = first,
                                   .send_to = g->next,
                                   .source = DF_BUFFER_INPUT,
                                   .source_piece = first});
  for (uint32_t s = 1; s + 1 < g->n; s++) {
    uint32_t piece = behind(g, first, s);
    df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_SEND,
                                     .piece = piece,
                                     .recv_from = g->previous,
                                     .send_to = g->next,
                                     .source = DF_BUFFER_INPUT,
                                     .source_piece = piece});
  }
  df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_STORE | average,
                                   .piece = g->r,
                                   .recv_from = g->previous,
                                   .source = DF_BUFFER_INPUT,
                                   .source_piece = g->r,
                                   .destination = DF_BUFFER_OUTPUT,
                                   .destination_piece = 0});
}

static void all_gather(df_plan *plan, const ring *g) {
  plan->geometry = DF_GEOMETRY_PIECES;
  plan->pieces = g->n;
  df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_STORE | DF_PRIM_SEND,
                                   .piece = g->r,
                                   .send_to = g->next,
                                   .source = DF_BUFFER_INPUT,
                                   .source_piece = 0,
                                   .destination = DF_BUFFER_OUTPUT,
                                   .destination_piece = g->r});
  collect(plan, g, g->r);
}

/* A chain that starts at the root. */
static void broadcast(df_plan *plan, const ring *g) {
  uint32_t distance = behind(g, g->r, plan->key.root);
  uint32_t send = distance + 1 < g->n ? DF_PRIM_SEND : 0;
  plan->geometry = DF_GEOMETRY_PARTITION;
  if (distance == 0)
    df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_STORE | send,
                                     .send_to = g->next,
                                     .source = DF_BUFFER_INPUT,
                                     .destination = DF_BUFFER_OUTPUT});
  else
    df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_RECV | DF_PRIM_STORE | send,
                                     .recv_from = g->previous,
                                     .send_to = g->next,
                                     .destination = DF_BUFFER_OUTPUT});
}

/* A chain that ends at the root. */
static void reduce(df_plan *plan, const ring *g) {
  uint32_t distance = behind(g, g->r, (plan->key.root + 1) % g->n);
  plan->geometry = DF_GEOMETRY_PARTITION;
  if (distance == 0)
    df_plan_add(
        plan, (df_step_spec){.flags = DF_PRIM_SEND, .send_to = g->next, .source = DF_BUFFER_INPUT});
  else if (distance + 1 < g->n)
    df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_SEND,
                                     .recv_from = g->previous,
                                     .send_to = g->next,
                                     .source = DF_BUFFER_INPUT});
  else
    df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_STORE |
                                              (plan->key.average ? DF_PRIM_AVERAGE : 0u),
                                     .recv_from = g->previous,
                                     .source = DF_BUFFER_INPUT,
                                     .destination = DF_BUFFER_OUTPUT});
}

void df_plan_ring(df_plan *plan) {
  uint32_t n = plan->key.n, r = plan->key.position;
  ring g = {.n = n, .r = r, .next = (r + 1) % n, .previous = (r + n - 1) % n};
  switch (plan->key.operation) {
  case DF_OP_ALL_REDUCE:
    all_reduce(plan, &g);
    break;
  case DF_OP_REDUCE_SCATTER:
    reduce_scatter(plan, &g);
    break;
  case DF_OP_ALL_GATHER:
    all_gather(plan, &g);
    break;
  case DF_OP_BROADCAST:
    broadcast(plan, &g);
    break;
  case DF_OP_REDUCE:
    reduce(plan, &g);
    break;
  case DF_OP_SCAN:
  case DF_OP_EXCLUSIVE_SCAN:
    df_plan_scan_chain(plan);
    break;
  default:
    plan->failed = 1;
  }
}
