#include "host/lifecycle/connection_loss.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/mutex.h"
#include "control/service.h"
#include "host/observe/awaited_ranks.h"
#include "host/lifecycle/peer_failure.h"
#include "host/membership/membership.h"
#include "host/state/registry.h"

#if defined(DF_SIMULATION) /* time passes slowly in the simulation */
enum { GRACE_MS = 4 };
#else
enum { GRACE_MS = 500 };
#endif

/* A lost connection. If its peer has died or left, the control channel reports that too, a moment
 * earlier or later, and with a better reason. */
typedef struct df_reported_loss {
  struct df_reported_loss *next;
  uint32_t peer;
  uint64_t since_ns;
  char why[DF_SENTENCE_BYTES / 2];
} df_reported_loss;

static int tick(void *room) {
  const dfcclContext_t context = room;
  return context->transports.losses ? GRACE_MS / 4 : -1;
}

typedef enum { NO_RUN, MAY_GET_ON, WAITS } df_dependence;

static df_dependence dependence_on(dfcclContext_t context, uint32_t peer) DF_RANK_LOCKED {
  df_dependence most = NO_RUN;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = df_registered(context, i);
    if (coll == NULL || coll->runs.taken == coll->runs.submitted) continue;
    for (uint32_t m = 0; m < coll->n; m++) {
      if (coll->ranks[m] != peer) continue;
      if (df_waits_for_member(context, coll, m)) return WAITS;
      most = MAY_GET_ON;
    }
  }
  return most;
}

/* Decides what the loss means. Runs that wait for data of the connection can never complete. A peer
 * that has left in order may have given these runs up; or all its data has arrived, and only the
 * end of the connection was lost: then the runs may wait for other ranks, and are checked again.
 * Returns 0 while it is too early to decide. */
static int judge_loss(dfcclContext_t context, const df_reported_loss *loss) {
  df_rank_lock(&context->lock);
  const df_peer_state state = context->control.peers[loss->peer].state;
  const df_dependence dependence = state == DF_PEER_ALIVE  ? WAITS
                                   : state == DF_PEER_LEFT ? dependence_on(context, loss->peer)
                                                           : NO_RUN;
  const int is_late = df_clock_ns() - loss->since_ns >= GRACE_MS * (uint64_t)1000000;
  if (dependence == WAITS && is_late && !context->control.said_goodbye) {
    char why[DF_SENTENCE_BYTES];
    snprintf(why, sizeof why, "cannot be reached: %s", loss->why);
    if (context->survival && !context->control.peers[loss->peer].is_remote)
      df_membership_lost(context, loss->peer); /* a process of this host that has ended proves it */
    else
      df_peer_unreachable(context, loss->peer, why);
  }
  df_rank_unlock(&context->lock);
  return dependence == NO_RUN || (dependence == WAITS && is_late);
}

static void take_losses(dfcclContext_t context) {
  df_endpoint *wire = context->transports.wire;
  df_reported_loss loss = {.next = NULL};
  while (wire->network->take_lost(wire, &loss.peer, loss.why, sizeof loss.why)) {
    df_reported_loss *kept = malloc(sizeof *kept);
    if (kept == NULL) {
      judge_loss(context, &loss); /* without a grace period: since_ns is long ago */
      continue;
    }
    *kept = loss;
    kept->since_ns = df_clock_ns();
    kept->next = context->transports.losses;
    context->transports.losses = kept;
  }
}

/* Each of several losses has a grace period of its own, so the last one is reported as soon as the
 * first. */
static void judge_losses(void *room) {
  dfcclContext_t context = room;
  take_losses(context);
  for (df_reported_loss **at = &context->transports.losses; *at;) {
    df_reported_loss *loss = *at;
    if (judge_loss(context, loss)) {
      *at = loss->next;
      free(loss);
    } else
      at = &loss->next;
  }
}

void df_network_add(dfcclContext_t context) {
  df_service_add_job(&context->control, context, tick, judge_losses);
}

void df_network_remove(dfcclContext_t context) {
  while (context->transports.losses) {
    df_reported_loss *loss = context->transports.losses;
    context->transports.losses = loss->next;
    free(loss);
  }
}
