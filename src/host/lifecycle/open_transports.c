#include "host/lifecycle/open_transports.h"

#include <stdlib.h>

#include "base/mutex.h"
#include "bootstrap/net/sockets.h"
#include "control/reconnect.h"
#include "control/service.h"
#include "host/runs/collective_failure.h"
#include "host/runs/user_memory.h"
#include "host/lifecycle/connection_loss.h"
#include "host/lifecycle/heartbeat.h"
#include "host/observe/message_log.h"
#include "host/observe/profiler.h"
#include "host/state/registry.h"
#include "host/state/peer_info.h"
#include "host/runs/runs.h"
#include "transports/ipc/ipc.h"
#include "transports/net/endpoint.h"
#include "transports/net/connect/control_reconnect.h"

/* ---- callbacks of endpoints ---- */

static void wake_service(void *owner) { df_service_wake(&((dfcclContext_t)owner)->control); }

static int is_quiet(void *owner, uint32_t member) DF_RANK_LOCKED {
  const dfcclContext_t context = owner;
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    const df_coll *coll = context->registry.by_index[i];
    if (coll == NULL || df_runs_in_device(coll) == 0) continue;
    for (uint32_t m = 0; m < coll->n; m++)
      if (coll->ranks[m] == member) return 0;
  }
  return 1;
}

static int is_broken(void *owner) {
  return ((dfcclContext_t)owner)->failure.broken != dfcclSuccess;
}

static void failed(void *owner, dfcclResult_t status, const char *sentence) DF_RANK_LOCKED {
  df_give_up(owner, status, sentence);
}

static void unmapped(void *owner) { df_memory_free_unmapped(owner); }

static void sleeps(void *owner) { df_pings_begin(owner); }

static int channel_reconnected(void *owner, uint32_t peer, int fd,
                               const unsigned char key[DF_KEY_BYTES]) {
  return df_resume_arrived(&((dfcclContext_t)owner)->control, peer, fd, key);
}

/* ---- choice ---- */

static const df_transport *const known[] = {&df_transport_shm, &df_transport_ipc,
                                            &df_transport_net};

/* The transport of the least cost; NULL: no transport connects the two ranks. */
static const df_transport *cheapest(const df_transport_info *mine,
                                    const df_transport_info *theirs) {
  const df_transport *best = NULL;
  uint32_t least = UINT32_MAX;
  for (size_t i = 0; i < DF_COUNT_OF(known); i++) {
    uint32_t cost = known[i]->cost(mine, theirs);
    if (cost == 0 || cost >= least) continue;
    least = cost;
    best = known[i];
  }
  return best;
}

static df_shared_memory memory_of(dfcclContext_t context) {
  const df_memory_ops *ops = context->device.memory;
  const df_stream_ops *streams = context->device.streams;
  return (df_shared_memory){.device = &context->device,
                            .sets_up_in_background = ops->sets_up_in_background,
                            .host_sees_links = ops->host_sees_links,
                            .exports_memory = ops->exports_memory,
                            .create = ops->create,
                            .map = ops->map,
                            .clear = ops->clear,
                            .lends_to = ops->lends_to,
                            .pause = streams ? streams->pause : NULL,
                            .resume = streams ? streams->resume : NULL};
}

/* Chooses the transport to a rank. Ranks of one process use their process's memory, whatever they
 * chose for others. */
static const df_transport *choose_transport(dfcclContext_t context, uint32_t rank) {
  df_transport_info mine = df_peer_transport_info(context, context->rank);
  df_transport_info theirs = df_peer_transport_info(context, rank);
  if (context->mesh.local[rank]) mine.wants_wire = theirs.wants_wire = 0;
  return cheapest(&mine, &theirs);
}

static df_endpoint_owner owner_of(dfcclContext_t context, const uint8_t *serves) {
  const char *net_backend = context->settings.network.net_backend;
  const df_policy *policy = &context->settings.tuning.policy;
  return (df_endpoint_owner){
      .owner = context,
      .rank = context->rank,
      .n_ranks = context->n_ranks,
      .lock = &context->lock,
      .serves = serves,
      .control = &context->control,
      .remote = context->mesh.remote,
      .listeners = context->mesh.listeners,
      .security = context->settings.network.security,
      .tls = &context->settings.network.tls,
      .all_have_aes = context->transports.all_have_aes,
      .silence_ms = (uint32_t)context->settings.net_timeout_ms,
      .resume_ms = (uint32_t)context->settings.net_resume_ms,
      .lend_min = (uint64_t)DF_MAX(policy->lend_min, policy->net_lend_min),
      .interfaces = context->settings.network.interfaces,
      .rails = net_backend[0] ? 1 : (uint32_t)context->settings.net_rails,
      .watch = df_profiler_watch(
          context, context->messages ? df_message_log_watch(context->messages) : NULL),
      .net_backend = net_backend[0] ? net_backend : NULL,
      .wake = wake_service,
      .is_quiet = is_quiet,
      .is_broken = is_broken,
      .failed = failed,
      .unmapped = unmapped,
      .sleeps = sleeps,
      .channel_reconnected = channel_reconnected};
}

/* Every rank has the peer info of all ranks, so all of them find a difference. */
static dfcclResult_t agree_on_security(dfcclContext_t context) {
  const df_security own = context->settings.network.security;
  context->transports.all_have_aes = 1;
  for (uint32_t r = 0; r < context->n_ranks; r++) {
    const df_transport_info theirs = df_peer_transport_info(context, r);
    context->transports.all_have_aes &= theirs.has_aes != 0;
    if (theirs.security == (uint32_t)own) continue;
    if (theirs.security >= DF_SECURITY_BEYOND)
      return df_fail(dfcclRemoteError, "rank %u announces an unknown value of DFCCL_NET_SECURITY",
                     r);
    return df_fail(dfcclMismatch, "DFCCL_NET_SECURITY is %s on rank %u and %s on rank %u",
                   df_security_names[own], context->rank, df_security_names[theirs.security], r);
  }
  return dfcclSuccess;
}

/* Opens this rank's memory. It exists even if no rank shares it. */
static dfcclResult_t open_shm(dfcclContext_t context, const df_transport *own) {
  df_transports *transports = &context->transports;
  const df_shared_memory memory = memory_of(context);
  df_endpoint_owner owner = owner_of(context, transports->serves);
  owner.memory = &memory;
  df_endpoint *endpoint = NULL;
  dfcclResult_t result = own->open(&endpoint, &owner);
  if (result != dfcclSuccess) return result;
  endpoint->transport = own;
  transports->shm = (df_shm_endpoint *)endpoint;
  return dfcclSuccess;
}

static dfcclResult_t open_wire(dfcclContext_t context) {
  df_transports *transports = &context->transports;
  df_endpoint_owner owner = owner_of(context, transports->wire_serves);
  owner.bell = (df_bell *)transports->shm->home->base;
  dfcclResult_t result = df_transport_net.open(&transports->wire, &owner);
  if (result != dfcclSuccess) return result;
  for (uint32_t r = 0; owner.remote && owner.silence_ms && r < context->n_ranks; r++) {
    const uint32_t silence_ms = df_control_reconnect_silence_ms(&owner, r);
    if (!owner.remote[r].has_channel || silence_ms == owner.silence_ms) continue;
    context->control.peers[r].has_paths = 1;
    df_socket_set_silence(context->mesh.sockets[r], (int)silence_ms);
  }
  if (owner.remote && owner.resume_ms) context->control.reconnector = transports->wire->reconnector;
  df_network_add(context);
  return df_pings_add(context);
}

/* Both ends of a connection must use the same network backend. */
static dfcclResult_t check_backend(dfcclContext_t context, uint32_t rank) {
  if (df_peer_transport_info(context, rank).net_backend ==
      df_peer_transport_info(context, context->rank).net_backend)
    return dfcclSuccess;
  return df_fail(dfcclInvalidUsage,
                 "ranks %u and %u name different networks in DFCCL_NET; rank %u has \"%s\"",
                 context->rank, rank, context->rank, context->settings.network.net_backend);
}

dfcclResult_t df_transports_open(dfcclContext_t context) {
  df_transports *transports = &context->transports;
  const df_transport *own = choose_transport(context, context->rank);
  int has_wire = 0;
  dfcclResult_t result = agree_on_security(context);
  if (result != dfcclSuccess) return result;
  transports->to = calloc(context->n_ranks, sizeof *transports->to);
  transports->serves = calloc(context->n_ranks, 1);
  transports->wire_serves = calloc(context->n_ranks, 1);
  if (transports->to == NULL || transports->serves == NULL || transports->wire_serves == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the endpoints of %u ranks", context->n_ranks);
  for (uint32_t r = 0; r < context->n_ranks; r++) {
    const df_transport *way = choose_transport(context, r);
    transports->serves[r] = way == own;
    transports->wire_serves[r] = way == &df_transport_net;
    has_wire |= transports->wire_serves[r];
    if (own == NULL || (!transports->serves[r] && !transports->wire_serves[r]))
      return df_fail(dfcclInvalidUsage, "no transport connects ranks %u and %u", context->rank, r);
  }
  for (uint32_t r = 0; r < context->n_ranks && result == dfcclSuccess; r++)
    if (transports->wire_serves[r]) result = check_backend(context, r);
  if (result == dfcclSuccess) result = open_shm(context, own);
  if (result == dfcclSuccess && has_wire) result = open_wire(context);
  if (result != dfcclSuccess) return result;
  for (uint32_t r = 0; r < context->n_ranks; r++)
    transports->to[r] = transports->serves[r] ? &transports->shm->base : transports->wire;
  return dfcclSuccess;
}

void df_transports_close(dfcclContext_t context, int keep) {
  df_transports *transports = &context->transports;
  if (transports->wire) transports->wire->transport->close(transports->wire, keep);
  if (transports->shm) df_shm_close(&transports->shm->base, keep);
  transports->wire = NULL;
  transports->shm = NULL;
  df_pings_free(context);
  df_network_remove(context);
  free(transports->to);
  free(transports->serves);
  free(transports->wire_serves);
}
