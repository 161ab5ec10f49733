/* The life of a context: its resources are acquired in one order, and released in the reverse
 * order. */
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/escape.h"
#include "base/log.h"
#include "base/mutex.h"
#include "bootstrap/net/interfaces.h"
#include "control/messenger.h"
#include "control/service.h"
#include "host/state/context.h"
#include "host/state/peer_info.h"
#include "host/lifecycle/heartbeat.h"
#include "host/lifecycle/open_device.h"
#include "host/observe/dump.h"
#include "host/observe/flight.h"
#include "host/observe/message_log.h"
#include "host/observe/metrics.h"
#include "host/runs/collective_failure.h"
#include "host/lifecycle/service_tasks.h"
#include "host/lifecycle/peer_failure.h"
#include "host/membership/membership.h"
#include "host/registration/link_setup.h"
#include "host/registration/match.h"
#include "host/switching/tuning_store.h"
#include "host/runs/user_memory.h"
#include "host/observe/profiler.h"
#include "host/observe/record.h"
#include "host/observe/snapshot_server.h"
#include "host/state/registry.h"
#include "host/runs/runs.h"
#include "host/lifecycle/message_handlers.h"
#include "host/observe/trace.h"
#include "host/lifecycle/open_transports.h"
#include "host/observe/wait_graph.h"
#include "transports/shm/unmap.h"
#include "tuning/tuner_plugin.h"

/* Whether this rank and the other one take turns on a GPU: a GPU executes the kernels of one
 * process at a time, unless MPS is on. */
static int takes_turns_with(dfcclContext_t context, uint32_t rank, const df_device_info *theirs) {
  df_device_info mine = df_peer_device_info(context, context->rank);
  return rank != context->rank && mine.backend == dfcclBackendCuda && !context->mesh.local[rank] &&
         !mine.has_mps && memcmp(mine.uuid, theirs->uuid, sizeof mine.uuid) == 0;
}

static dfcclResult_t no_memory_for_hosts(dfcclContext_t context) {
  return df_fail(dfcclOutOfMemory, "no memory for the hosts of %u ranks", context->n_ranks);
}

static int compare_info(const void *a, const void *b) {
  const df_device_info *left = a, *right = b;
  return memcmp(left->uuid, right->uuid, sizeof left->uuid);
}

/* Number of ranks on the GPU that has the most. Without memory: all ranks. */
static uint32_t most_on_a_gpu(dfcclContext_t context) {
  uint32_t most = 1, n = 0;
  df_device_info *peer_info = malloc(context->n_ranks * sizeof *peer_info);
  if (peer_info == NULL) return context->n_ranks;
  for (uint32_t r = 0; r < context->n_ranks; r++) peer_info[r] = df_peer_device_info(context, r);
  qsort(peer_info, context->n_ranks, sizeof *peer_info, compare_info);
  for (uint32_t r = 0; r < context->n_ranks; r++) {
    n = r > 0 && compare_info(&peer_info[r - 1], &peer_info[r]) == 0 ? n + 1 : 1;
    most = DF_MAX(most, n);
  }
  free(peer_info);
  return most;
}

/* The library's choice is meant for a GPU with one rank, so it is divided by the number of ranks
 * that share the GPU. */
static uint32_t shared_blocks(dfcclContext_t context, uint32_t blocks, uint32_t least) {
  if (least == 0) return blocks;
  return DF_MAX(DF_MIN(least, blocks), blocks / most_on_a_gpu(context));
}

/* The number of blocks of a collective must be equal on all ranks, so it is the least maximum of
 * any rank. The cores of the job are all cores that any of its ranks may use. */
static dfcclResult_t read_peer_info(dfcclContext_t context) {
  uint32_t blocks = (uint32_t)context->settings.max_blocks;
  uint32_t least = (uint32_t)context->settings.shared_blocks;
  int takes_turns = 0;
  context->topology.runs_on_cores = context->settings.backend == dfcclBackendCpu;
  if (!df_topology_open(&context->topology, context->n_ranks)) return no_memory_for_hosts(context);
  for (uint32_t r = 0; r < context->n_ranks; r++) {
    df_peer_info_content content = df_peer_info_of(context, r);
    if (content.version != DFCCL_VERSION_CODE)
      return df_fail(dfcclInvalidUsage,
                     "rank %u runs version %u of the library, rank %u version %u", r,
                     content.version, context->rank, DFCCL_VERSION_CODE);
    if (content.max_blocks < 1 || content.max_blocks > DF_MAX_BLOCKS)
      return df_fail(dfcclRemoteError, "rank %u announces %u blocks", r, content.max_blocks);
    if (content.device.backend != (uint32_t)context->settings.backend)
      return df_fail(dfcclInvalidUsage, "rank %u uses the %s device, rank %u the %s device", r,
                     content.device.backend == dfcclBackendCuda ? "CUDA" : "CPU", context->rank,
                     context->device.kind->name);
    if (content.survive != (uint32_t)context->settings.survive)
      return df_fail(dfcclMismatch, "config.survive is %u on rank %u and %d on rank %u",
                     content.survive, r, context->settings.survive, context->rank);
    blocks = DF_MIN(blocks, content.max_blocks);
    least = DF_MIN(least, content.shared_blocks);
    takes_turns |= takes_turns_with(context, r, &content.device);
    if (!df_topology_add(&context->topology, r, content.transport.host, content.cpus))
      return no_memory_for_hosts(context);
  }
  df_settings_complete(&context->settings, context->n_ranks, context->topology.n_cores,
                       takes_turns);
  context->max_blocks = shared_blocks(context, blocks, least);
  context->near_blocks = context->max_blocks;
  if (least != 0 && context->topology.runs_on_cores && context->mesh.remote)
    context->max_blocks = (uint32_t)context->settings.tuning.policy.net_blocks;
  if (least != 0)
    context->settings.max_blocks =
        context->max_blocks; /* its memory is that of the blocks in use */
  return dfcclSuccess;
}

/* ---- opening and closing ---- */

/* keeps_memory: other processes still have device memory mapped. */
static void free_context(dfcclContext_t context, int keeps_memory) DF_RANK_LOCKED {
  df_fork_guard_remove(&context->fork_guard);
  df_jobs_close(context);
  df_snapshot_server_close(context);
  df_metrics_close(context);
  df_tuner_plugin_close(context->tuner_plugin);
  df_tuning_cache_free(&context->tuning_cache);
  free(context->runs.callbacks.entries);
  df_memory_release(context, keeps_memory);
  df_membership_close(context);
  df_transports_close(context, keeps_memory);
  df_profiler_close(context);
  df_message_log_free(context->messages);
  df_messenger_close(&context->control);
  if (context->device.kind) context->device.kind->close(&context->device);
  df_service_close(&context->control);
  df_mesh_close(&context->mesh);
  df_topology_free(&context->topology);
  if (context->control.process_inbox) df_process_inbox_release(context->control.process_inbox);
  df_flight_free(context->flight);
  df_rank_mutex_destroy(&context->lock);
  context->magic = 0;
  free(context);
}

/* Notifies the peers. Without that, other processes would only see the rank's sockets close, and
 * report it as dead. */
static void report_failed_init(dfcclContext_t context, dfcclResult_t result) {
  if (context->control.peers) {
    df_rank_lock(&context->lock);
    df_break(context, result, df_last_sentence());
    df_report_broken(context);
    df_rank_unlock(&context->lock);
  }
  df_message bye = {.magic = DF_MESSAGE_MAGIC, .kind = DF_MESSAGE_BYE};
  for (uint32_t r = 0; r < context->n_ranks; r++)
    if (r != context->rank && context->mesh.local[r])
      df_process_inbox_send(context->control.process_inbox, r, context->rank, &bye, NULL);
}

/* Copies the hosts' names for messages. A name comes from the peer, so it is terminated here. */
static void name_hosts(dfcclContext_t context) {
  for (uint32_t r = 0; context->mesh.remote && r < context->n_ranks; r++) {
    df_peer_info_content content = df_peer_info_of(context, r);
    content.host_name[DF_HOST_NAME - 1] = '\0';
    if (context->mesh.remote[r].is_remote)
      df_escape(context->control.peers[r].host, DF_HOST_NAME, content.host_name);
  }
}

static dfcclResult_t open_control(dfcclContext_t context) {
  const df_control_events events = df_control_events_of(context);
  dfcclResult_t result =
      df_messenger_open(&context->control, &context->lock, &context->mesh, &events);
  if (result == dfcclSuccess) name_hosts(context);
  for (uint32_t r = 0; result == dfcclSuccess && context->mesh.members && r < context->n_ranks; r++)
    if (r != context->rank && !context->mesh.members[r])
      context->control.peers[r].state = DF_PEER_DEAD; /* lost before this rank has joined */
  df_subscribe(context);
  df_jobs_add(context);
  return result;
}

static uint64_t job_number(dfcclContext_t context) {
  uint64_t number;
  memcpy(&number, context->mesh.job, sizeof number);
  return number;
}

static dfcclResult_t acquire_memory(dfcclContext_t context) {
  context->control.process_inbox =
      df_process_inbox_join(context->mesh.job, context->n_ranks, context->mesh.n_local);
  if (context->control.process_inbox == NULL) {
    df_process_inbox_miss(&context->mesh);
    return dfcclOutOfMemory;
  }
  dfcclResult_t result = read_peer_info(context);
  if (result != dfcclSuccess) return result;
  result = df_tuner_plugin_open(&context->tuner_plugin, context->settings.tuner_plugin,
                                job_number(context));
  if (result != dfcclSuccess) return result;
  if ((result = df_profiler_open(context)) != dfcclSuccess) return result;
  if (context->settings.trace[0] && context->settings.trace_turns &&
      (context->messages = df_message_log_make()) == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the messages of the trace");
  df_agree_on_calibration(context);
  if ((result = df_tuning_store_open(context)) != dfcclSuccess) return result;
  if ((result = df_registry_init(context)) != dfcclSuccess) return result;
  if ((result = open_control(context)) != dfcclSuccess) return result;
  if ((result = df_service_open(&context->control)) != dfcclSuccess) return result;
  if ((result = df_transports_open(context)) != dfcclSuccess)
    return result; /* the transports wake the service */
  if ((result = df_membership_open(context)) != dfcclSuccess) return result;
  if (context->survival && (result = df_pings_add(context)) != dfcclSuccess) return result;
  context->device.work_bell = (df_bell *)context->transports.shm->home->base;
  return df_host_open_device(context);
}

static void announce_home(dfcclContext_t context) {
  df_rank_lock(&context->lock);
  df_shm_announce_home(context->transports.shm);
  df_rank_unlock(&context->lock);
}

static dfcclResult_t start_threads(dfcclContext_t context) {
  dfcclResult_t result = context->device.executor->start(&context->device);
  if (result != dfcclSuccess) return result;
  if ((result = df_poller_start(context)) != dfcclSuccess) return result;
  return df_service_start(&context->control);
}

static void stop_threads(dfcclContext_t context) {
  df_service_stop(&context->control);
  df_poller_stop(context);
  context->device.executor->stop(&context->device);
}

/* A forked child cannot use the context. The fork guard has closed the connections already
 * (bootstrap/net/fork_guard.h). The child frees no memory, because the parent's threads may have
 * been using it at the fork. In a child of the child, the descriptors' numbers may belong to the
 * application. */
static void give_up_in_child(df_fork_guard *guard) {
  dfcclContext_t context =
      (dfcclContext_t)(void *)((uint8_t *)guard - offsetof(struct dfcclContext, fork_guard));
  if (context->magic == DF_CONTEXT_MAGIC_IN_CHILD) return;
  context->magic = DF_CONTEXT_MAGIC_IN_CHILD;
  df_leave_callback();
  df_dump_signal_forget(context->control.event_fd);
  if (context->recorder) df_recorder_close_in_child(context);
  if (context->tracer) df_tracer_close_in_child(context);
  df_snapshot_server_close_in_child(context);
  df_metrics_close_in_child(context);
  df_membership_close_in_child(context);
  close(context->control.event_fd);
  close(context->control.epoll_fd);
  df_endpoint *wire = context->transports.wire;
  if (wire) wire->network->close_in_child(wire);
}

dfcclResult_t df_context_open(dfcclContext_t *out, uint32_t n_ranks, uint32_t rank,
                              const df_settings *settings, df_mesh *mesh) {
  dfcclContext_t context =
      aligned_alloc(DF_CACHE_LINE, DF_ALIGN_UP(sizeof *context, (size_t)DF_CACHE_LINE));
  if (context == NULL) {
    df_process_inbox_miss(mesh);
    df_mesh_close(mesh);
    return df_fail(dfcclOutOfMemory, "no memory for the context of rank %u", rank);
  }
  memset(context, 0, sizeof *context);
  context->rank = rank;
  context->n_ranks = n_ranks;
  context->settings = *settings;
  context->mesh = *mesh;
  context->links_progress = df_links_progress;
  df_device_init(&context->device, settings->backend);
  context->control.event_fd = context->control.epoll_fd = -1;
  snprintf(context->failure.sentence, sizeof context->failure.sentence, "no error");
  df_rank_mutex_init(&context->lock);
  df_fork_guard_add(&context->fork_guard, give_up_in_child);
  context->flight = df_flight_make();

  dfcclResult_t result = acquire_memory(context);
  if (result != dfcclSuccess) goto free_memory;
  df_process_inbox_attach(context->control.process_inbox, rank, context->control.event_fd,
                          context->device.work_bell);
  announce_home(context);
  if (settings->record[0] && (result = df_recorder_open(context)) != dfcclSuccess) goto free_memory;
  if (settings->trace[0] && (result = df_tracer_open(context)) != dfcclSuccess) goto stop;
  df_snapshot_server_open(context);
  df_flight_open(context);
  if ((result = df_metrics_open(context)) != dfcclSuccess) goto stop;
  if ((result = start_threads(context)) != dfcclSuccess) goto stop;
  if (settings->debug_signal && (result = df_dump_signal_enable(context)) != dfcclSuccess)
    goto stop;
  df_waits_enter(context);
  context->magic = DF_CONTEXT_MAGIC;
  *out = context;
  return dfcclSuccess;

stop:
  stop_threads(context);
  df_rank_is_unshared();
  df_recorder_close(context);
  df_tracer_close(context);
free_memory:
  df_rank_is_unshared();
  if (context->control.process_inbox) {
    report_failed_init(context, result);
    df_process_inbox_detach(context->control.process_inbox, rank);
  }
  df_match_free(context);
  df_registry_free(context);
  free_context(context, 0);
  return result;
}

dfcclResult_t df_context_close(dfcclContext_t context) {
  if (df_in_callback())
    return df_remember(
        context,
        df_fail(dfcclInvalidUsage,
                "dfcclDestroy was called from a callback; it would wait for the callback itself"));
  df_wait_quiescent(context);
  df_membership_leave(context);
  df_waits_leave(context);
  df_log(DF_LOG_INFO, "rank %u leaves", context->rank);
  if (context->settings.debug_signal) df_dump_signal_disable(context);
  df_rank_lock(&context->lock);
  /* All peers are notified by then, and end what they share with this rank. One of them may be
   * stopped, so the wait has a limit. */
  const uint64_t patience_ns =
      context->failure.broken == dfcclSuccess ? DF_GOODBYE_NS : DF_BROKEN_GOODBYE_NS;
  df_report_broken(context);
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = df_registered(context, i);
    if (coll == NULL) continue;
    df_message message = {.kind = DF_MESSAGE_DEREGISTER,
                          .id = coll->id,
                          .a = coll->runs.submitted,
                          .b = 1,
                          .variant = coll->home};
    df_coll_send(context, coll, &message, NULL);
    coll->exec.pages = DF_PAGES_AS_USED; /* peers may give their rings back */
  }
  df_rank_unlock(&context->lock);
  /* A peer that receives the goodbye must have received all messages of this rank, or receive them
   * later. So the streams are flushed first. */
  if (context->transports.wire)
    context->transports.wire->network->flush(context->transports.wire, patience_ns);
  df_messenger_goodbye(&context->control, patience_ns);
  int keeps_memory =
      context->device.memory->exports_memory && !df_await_unmapped(context->transports.shm);
  stop_threads(context);
  df_flight_close(context);
  df_metrics_close(context);
  df_rank_is_unshared();
  if (context->transports.wire)
    context->transports.wire->network->quiesce(context->transports.wire);
  df_shm_leave(context->transports.shm);
  df_recorder_close(context);
  df_tracer_close(context);
  df_tuning_store_write(context);
  df_process_inbox_detach(context->control.process_inbox, context->rank);
  df_match_free(context);
  df_registry_free(context);
  free_context(context, keeps_memory);
  return dfcclSuccess;
}
