/*
 * Direct exchange: each piece is sent directly to the ranks that need it (Thakur, Rabenseifner and
 * Gropp, IJHPCA 2005, sections 4.3 and 4.4: linear). It needs one crossing (all-reduce: two) and
 * n-1 messages.
 */
#include "plans/build.h"

static uint32_t peer_of(const df_plan *plan, uint32_t s) {
  return (plan->key.position + s) % plan->key.n;
}

static void all_gather(df_plan *plan) {
  uint32_t n = plan->key.n, r = plan->key.position;
  df_plan_copy(plan, 0, r, peer_of(plan, 1), df_input(0), df_output(r));
  for (uint32_t s = 2; s < n; s++) df_plan_send(plan, r, peer_of(plan, s), df_input(0));
  for (uint32_t s = 1; s < n; s++) {
    uint32_t from = peer_of(plan, n - s);
    df_plan_receive(plan, from, from, DF_NO_PEER, df_output(from));
  }
}

static void collect(df_plan *plan, df_place result, uint32_t then_to) {
  uint32_t n = plan->key.n, r = plan->key.position;
  df_place own = df_input(r);
  for (uint32_t s = 1; s < n; s++) {
    uint32_t from = peer_of(plan, n - s);
    int last = s + 1 == n;
    df_plan_reduce(plan, last ? df_plan_average(plan) : 0, r, from, last ? then_to : DF_NO_PEER,
                   own, last ? result : df_scratch(0));
    own = df_scratch(0);
  }
}

static void scatter(df_plan *plan) {
  for (uint32_t s = 1; s < plan->key.n; s++)
    df_plan_send(plan, peer_of(plan, s), peer_of(plan, s), df_input(peer_of(plan, s)));
}

/* In place, a lent input is overwritten only by the result of the same piece, whose sender has read
 * this input before. */
static void all_reduce(df_plan *plan) {
  uint32_t n = plan->key.n, r = plan->key.position;
  scatter(plan);
  collect(plan, df_output(r), peer_of(plan, 1));
  for (uint32_t s = 2; s < n; s++) df_plan_send(plan, r, peer_of(plan, s), df_output(r));
  for (uint32_t s = 1; s < n; s++) {
    uint32_t from = peer_of(plan, n - s);
    df_plan_receive(plan, from, from, DF_NO_PEER, df_output(from));
  }
}

/* In place, received data overwrites data that was sent. So a rank sends first, and never lends. */
static void all_to_all(df_plan *plan) {
  uint32_t n = plan->key.n, r = plan->key.position;
  plan->direct_in_place = 0;
  scatter(plan);
  df_plan_copy(plan, 0, r, DF_NO_PEER, df_input(r), df_output(r));
  for (uint32_t s = 1; s < n; s++) {
    uint32_t from = peer_of(plan, n - s);
    df_plan_receive(plan, r, from, DF_NO_PEER, df_output(from));
  }
}

static void send_recv(df_plan *plan) {
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->pieces = 1;
  if (plan->key.position == 0)
    df_plan_send(plan, 0, 1, df_input(0));
  else
    df_plan_receive(plan, 0, 0, DF_NO_PEER, df_output(0));
}

static void barrier(df_plan *plan) {
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->pieces = plan->scratch_pieces = 1;
  for (uint32_t s = 1; s < plan->key.n; s++) df_plan_send(plan, 0, peer_of(plan, s), df_scratch(0));
  for (uint32_t s = 1; s < plan->key.n; s++)
    df_plan_receive_empty(plan, peer_of(plan, plan->key.n - s));
}

void df_plan_direct(df_plan *plan) {
  plan->geometry =
      plan->key.operation == DF_OP_ALL_REDUCE ? DF_GEOMETRY_PARTITION : DF_GEOMETRY_PIECES;
  plan->pieces = plan->key.n;
  plan->lends_all = plan->key.operation != DF_OP_BARRIER && plan->key.operation != DF_OP_SEND_RECV;
  plan->scratch_pieces = df_operation_reduces(plan->key.operation) && plan->key.n > 2;
  switch (plan->key.operation) {
  case DF_OP_ALL_GATHER:
    all_gather(plan);
    break;
  case DF_OP_REDUCE_SCATTER:
    scatter(plan);
    collect(plan, df_output(0), DF_NO_PEER);
    break;
  case DF_OP_ALL_REDUCE:
    all_reduce(plan);
    break;
  case DF_OP_SEND_RECV:
    send_recv(plan);
    break;
  case DF_OP_BARRIER:
    barrier(plan);
    break;
  default:
    all_to_all(plan);
  }
}
