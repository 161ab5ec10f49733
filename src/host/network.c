#include "host/network.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "control/service.h"
#include "host/losses.h"
#include "host/registry.h"

#if defined(DF_SIMULATION) /* whose time passes slowly */
enum { GRACE_MS = 4 };
#else
enum { GRACE_MS = 500 };
#endif

/* A connection was lost. If its peer has died or left, control's connection tells so, a moment
 * earlier or later, and says it better. */
typedef struct df_loss_told {
  int is_there;
  uint32_t peer;
  uint64_t since_ns;
  char why[DF_SENTENCE_BYTES / 2];
} df_loss_told;

static int tick(void *room) {
  const dfcclContext_t context = room;
  return context->transports.loss->is_there ? GRACE_MS / 4 : -1;
}

static int waits_for(dfcclContext_t context, uint32_t peer) {
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = df_registered(context, i);
    if (coll == NULL || coll->taken == coll->submitted) continue;
    for (uint32_t m = 0; m < coll->n; m++)
      if (coll->ranks[m] == peer) return 1;
  }
  return 0;
}

/* Runs that wait for what the connection would have carried wait in vain. A peer that has left in
 * order may have given them up. */
static void judge_loss(dfcclContext_t context, df_loss_told *loss) {
  pthread_mutex_lock(&context->lock);
  const df_peer_state state = context->control.peers[loss->peer].state;
  const int matters =
      state == DF_PEER_ALIVE || (state == DF_PEER_LEFT && waits_for(context, loss->peer));
  const int is_late = df_clock_ns() - loss->since_ns >= GRACE_MS * (uint64_t)1000000;
  if (matters && is_late && !context->control.said_goodbye) {
    char why[DF_SENTENCE_BYTES];
    snprintf(why, sizeof why, "cannot be reached: %s", loss->why);
    df_peer_unreachable(context, loss->peer, why);
  }
  loss->is_there = matters && !is_late;
  pthread_mutex_unlock(&context->lock);
}

static void run(void *room) {
  dfcclContext_t context = room;
  df_endpoint *wire = context->transports.wire;
  df_loss_told *loss = context->transports.loss;
  /* One wake-up may stand for several losses. */
  do {
    if (!loss->is_there) {
      if (!wire->transport->take_lost(wire, &loss->peer, loss->why, sizeof loss->why)) return;
      loss->is_there = 1;
      loss->since_ns = df_clock_ns();
    }
    judge_loss(context, loss);
  } while (!loss->is_there);
}

dfcclResult_t df_network_add(dfcclContext_t context) {
  context->transports.loss = calloc(1, sizeof *context->transports.loss);
  if (context->transports.loss == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the record of a lost connection");
  df_service_add_job(&context->control, context, tick, run);
  return dfcclSuccess;
}
