/* The interface between a rank's host part and its device. */
#include "host/lifecycle/open_device.h"

#include "base/log.h"
#include "base/mutex.h"
#include "host/runs/collective_failure.h"
#include "host/state/registry.h"
#include "host/state/peer_info.h"
#include "host/runs/runs.h"

/* Executors call this function rarely, between two turns. */
static void count_ranks(void *host, uint16_t ranks[DF_CORES_SEEN]) {
  dfcclContext_t context = host;
  df_rank_lock(&context->lock);
  for (uint32_t r = 0; r < context->n_ranks; r++) {
    const df_bell *bell =
        r == context->rank ? context->device.work_bell : context->transports.shm->peers[r].bell;
    uint32_t cpu = bell ? df_load_relaxed_u32(&bell->cpu) : 0;
    if (cpu != 0) ranks[(cpu - 1) % DF_CORES_SEEN]++;
  }
  df_rank_unlock(&context->lock);
}

/* Rings the bells of the ranks in mask. The bells of peers stay mapped. */
static void notify_ranks(void *host, uint64_t mask) {
  dfcclContext_t context = host;
  for (uint32_t r = 0; r < context->n_ranks; r++) {
    if (r == context->rank || !(mask >> r % DF_NOTIFIED_RANKS & 1)) continue;
    df_bell *bell = context->transports.shm->peers[r].bell;
    if (bell) df_bell_notify(bell);
  }
}

static df_device_runs count_runs(void *host) {
  dfcclContext_t context = host;
  /* cqes_seen is read first, so that seen never exceeds pushed. */
  uint64_t seen = df_load_relaxed_u64(&context->runs.cqes_seen);
  return (df_device_runs){.pushed = df_load_relaxed_u64(&context->runs.sqes_submitted),
                          .seen = seen};
}

static int read_peer_info(void *host, uint32_t rank, df_device_info *info) {
  dfcclContext_t context = host;
  *info = df_peer_device_info(context, rank);
  return context->control.peers[rank].local;
}

/* Every run fails. The host completes the runs in the device. */
static void lose_device(void *host, const char *sentence) {
  dfcclContext_t context = host;
  df_reap_and_ring(context); /* first: CQEs that arrive later are ignored */
  df_rank_lock(&context->lock);
  df_break(context, dfcclUnhandledCudaError, sentence);
  df_store_relaxed_u32(&context->runs.device_lost, 1);
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = df_registered(context, i);
    if (coll && coll->registered == NULL)
      df_fail_collective(context, coll, dfcclUnhandledCudaError, 1, sentence);
  }
  df_rank_unlock(&context->lock);
  df_reap_and_ring(context);
}

/* The event serves the next run as soon as it is released. */
static void release_ticket(dfcclContext_t context, df_run *run) {
  if (run->stream_event) context->device.streams->release(&context->device, run->stream_event);
  run->stream_event = 0;
}

static void release_tickets(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  for (uint64_t run = coll->runs.retired; run < coll->runs.admitted; run++)
    release_ticket(context, df_run_in_device(coll, run));
}

static int has_stream_runs(const df_coll *coll) DF_RANK_LOCKED {
  for (uint64_t run = coll->runs.retired; run < coll->runs.admitted; run++)
    if (coll->runs.in_device[df_slot_of(coll, run)].stream_event) return 1;
  for (uint32_t i = 0; i < coll->runs.backlog_length; i++)
    if (coll->runs.backlog[(coll->runs.backlog_head + i) % coll->runs.backlog_capacity]
            .stream_event)
      return 1;
  return 0;
}

static void end_stream_runs(void *host, const char *sentence) {
  dfcclContext_t context = host;
  df_rank_lock(&context->lock);
  for (uint32_t i = 0; i < context->registry.n_indices; i++) {
    df_coll *coll = context->registry.by_index[i];
    if (coll == NULL) continue;
    if (sentence != NULL && df_registered(context, i) && has_stream_runs(coll))
      df_fail_collective(context, coll, dfcclAborted, 1,
                         sentence); /* collectives without runs on streams continue */
    if (sentence == NULL && coll->failure.failed != dfcclSuccess) release_tickets(context, coll);
  }
  df_rank_unlock(&context->lock);
  df_reap_and_ring(context); /* runs that waited on the host have ended */
}

static df_device_options options_of(const df_settings *s) {
  const df_policy *p = &s->tuning.policy;
  df_device_options options = {.n_blocks = (uint32_t)s->max_blocks,
                               .queue_depth = (uint32_t)s->queue_depth,
                               .context_slots = (uint32_t)s->context_slots,
                               .cq = (df_cq_variant)p->cq,
                               .tunables = df_settings_tunables(s)};
  options.cpu.mover = s->isa[0] ? df_mover_cpu_by_name(s->isa) : df_mover_cpu_best();
  options.cpu.yield_polls = (uint32_t)p->yield_polls;
  options.cpu.nap_ns = (uint64_t)p->nap_us * 1000;
  options.cpu.logs_turns = s->trace_turns != 0;
  options.cuda.ordinal = (int)s->device;
  options.cuda.threads = (uint32_t)p->cuda_threads;
  options.cuda.collectives = (uint32_t)p->cuda_collectives;
  options.cuda.relays = p->cuda_relay != 0;
  options.cuda.has_timers = p->cuda_timers != 0;
  options.cuda.one_queue = s->one_queue;
  options.cuda.arena_bytes = (uint64_t)s->cuda_arena_mb << 20;
  options.cuda.restart_most_ns = (uint64_t)p->cuda_restart_most_us * 1000;
  options.cuda.restart_ns = (uint64_t)p->cuda_restart_us * 1000;
  options.cuda.patience_ns = (uint64_t)p->cuda_patience_ms * 1000000;
  options.cuda.keep_ns = (uint64_t)p->cuda_keep_us * 1000;
  options.cuda.nap_ns = (uint64_t)p->cuda_nap_us * 1000;
  return options;
}

dfcclResult_t df_host_open_device(dfcclContext_t context) {
  df_rank_device *device = &context->device;
  device->rank = context->rank;
  device->n_ranks = context->n_ranks;
  device->arena = &context->transports.shm->arena;
  device->options = options_of(&context->settings);
  const df_endpoint *wire = context->transports.wire;
  device->host =
      (df_device_host){.host = context,
                       .job = context->control.process_inbox,
                       .lock = &context->lock,
                       .carrier = wire ? wire->carrier : NULL,
                       .completed = df_reap_and_ring,
                       .between_turns = df_between_turns,
                       .has_outstanding = df_has_outstanding,
                       .count_runs = count_runs,
                       .count_ranks = context->settings.tuning.policy.spread ? count_ranks : NULL,
                       .notify_ranks = notify_ranks,
                       .read_peer_info = read_peer_info,
                       .end_stream_runs = end_stream_runs,
                       .lost = lose_device};
  const dfcclResult_t result = device->kind->open(device);
  if (result == dfcclSuccess && context->settings.trace_turns && device->turns == NULL)
    df_log(DF_LOG_WARN, "rank %u: DFCCL_TRACE_TURNS has no effect: the %s device records no turns",
           context->rank, device->kind->name);
  return result;
}
