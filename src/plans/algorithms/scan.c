/*
 * Scans: prefixes in the order of the group.
 *   doubling  In each of ceil(log2 n) rounds a member sends the result over the members up to
 *             itself, and receives the result over the members before that (Hillis and Steele, CACM
 *             1986).
 *   ring      Each member receives the prefix of all members before it, and sends its own prefix to
 *             the next; over several loops this is a pipeline.
 *
 * Operands are never exchanged, so the operator need not commute. In an exclusive scan a member
 * keeps the prefix of the members before it, and adds its own input only to the data that it sends.
 */
#include "plans/build.h"

/* Sends prefix (op) own input without storing the result. */
static void send_with_own(df_plan *plan, uint32_t to, df_place prefix) {
  df_plan_add(plan, (df_step_spec){.flags = DF_PRIM_REDUCE | DF_PRIM_SEND,
                                   .send_to = to,
                                   .source = DF_BUFFER_INPUT,
                                   .destination = prefix.buffer,
                                   .destination_piece = prefix.piece});
}

static void exclusive_chain(df_plan *plan) {
  const uint32_t n = plan->key.n, r = plan->key.position;
  if (r == 0) {
    df_plan_send(plan, 0, 1, df_input(0));
  } else if (r + 1 == n) {
    df_plan_receive(plan, 0, r - 1, DF_NO_PEER, df_output(0));
  } else {
    df_plan_receive(plan, 0, r - 1, DF_NO_PEER, df_scratch(0));
    send_with_own(plan, r + 1, df_scratch(0));
    df_plan_copy(plan, 0, 0, DF_NO_PEER, df_scratch(0), df_output(0));
  }
}

/* In place the output is the input. So a member that sends gets its result last, from scratch
 * memory. */
static void exclusive_doubling(df_plan *plan) {
  const uint32_t n = plan->key.n, r = plan->key.position;
  const int is_last = r + 1 == n;
  const df_place prefix = is_last ? df_output(0) : df_scratch(0);
  for (uint32_t d = 1; d < n; d *= 2) {
    const int has_prefix = d > 1 && r > 0;
    if (r + d < n && has_prefix) send_with_own(plan, r + d, prefix);
    if (r + d < n && !has_prefix) df_plan_send(plan, 0, r + d, df_input(0));
    if (r < d) continue;
    if (has_prefix)
      df_plan_reduce(plan, 0, 0, r - d, DF_NO_PEER, prefix, prefix);
    else
      df_plan_receive(plan, 0, r - d, DF_NO_PEER, prefix);
  }
  if (r > 0 && !is_last) df_plan_copy(plan, 0, 0, DF_NO_PEER, prefix, df_output(0));
}

static void inclusive_doubling(df_plan *plan) {
  const uint32_t n = plan->key.n, r = plan->key.position;
  df_place own = df_input(0);
  if (r == 0) {
    /* An operator with a scalar multiplies at every read of the input, and in place the copy has
     * overwritten the input with the multiplied value. */
    df_plan_copy(plan, 0, 0, DF_NO_PEER, df_input(0), df_output(0));
    own = df_output(0);
  }
  for (uint32_t d = 1; d < n; d *= 2) {
    if (r + d < n) df_plan_send(plan, 0, r + d, own);
    if (r < d) continue;
    const df_place into = r < 2 * d ? df_output(0) : df_scratch(0);
    df_plan_reduce(plan, 0, 0, r - d, DF_NO_PEER, own, into);
    own = into;
  }
}

static void inclusive_chain(df_plan *plan) {
  const uint32_t n = plan->key.n, r = plan->key.position;
  const uint32_t next = r + 1 < n ? r + 1 : DF_NO_PEER;
  if (r == 0)
    df_plan_copy(plan, 0, 0, next, df_input(0), df_output(0));
  else
    df_plan_reduce(plan, 0, 0, r - 1, next, df_input(0), df_output(0));
}

void df_plan_scan_chain(df_plan *plan) {
  plan->geometry = DF_GEOMETRY_PARTITION;
  if (plan->key.operation == DF_OP_SCAN) {
    inclusive_chain(plan);
  } else {
    plan->scratch_pieces = 1;
    exclusive_chain(plan);
  }
}

/* In place, the result overwrites an input that has been sent before. */
void df_plan_scan_doubling(df_plan *plan) {
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->scratch_pieces = 1;
  plan->direct_in_place = 0;
  if (plan->key.operation == DF_OP_SCAN)
    inclusive_doubling(plan);
  else
    exclusive_doubling(plan);
}
