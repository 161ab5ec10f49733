/*
 * The CUDA device: its memory, and the table of what it does for the host. A rank has one region of
 * mapped page-locked host memory and one of device memory, both allocated when the context is
 * opened; links and collectives' arrays come from an arena of device memory, of which a first
 * segment is allocated then, too.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "devices/cuda/state.h"
#include "host/runs.h"

/* ---- mapped memory ---- */

static void lay_out_mapped(dfcclContext_t context, df_layout *layout) {
  const df_settings *s = &context->settings;
  df_cuda_state *state = df_cuda_state_of(context);
  uint32_t n_blocks = (uint32_t)s->max_blocks, n_rings = s->cq == DF_CQ_SLOTS_CAS ? 1 : n_blocks;
  df_device *device = state->device = df_lay(layout, sizeof *device);
  df_sq_slot *sq_slots = df_lay(layout, (size_t)s->queue_depth * sizeof *sq_slots);
  df_cq_ring *rings = df_lay(layout, n_rings * sizeof *rings);
  df_block *blocks = context->device.blocks = df_lay(layout, n_blocks * sizeof *blocks);
  state->words = df_lay(layout, context->device.capacity * sizeof *state->words);
  state->progress = df_lay(layout, (size_t)context->device.capacity * n_blocks * sizeof(uint64_t));
  state->tickets = df_lay(layout, DF_CUDA_TICKETS * sizeof *state->tickets);
  state->reaches = df_lay(layout, DF_MAX_REACHES * sizeof *state->reaches);
  state->reach_rows = df_lay(layout, (size_t)DF_CUDA_REACHES * context->n_ranks * sizeof(uint64_t));
  state->staging = df_lay(layout, DF_CUDA_STAGING_BYTES);
  if (s->cuda_timers) {
    state->times = df_lay(layout, n_blocks * sizeof *state->times);
    state->clock = df_lay(layout, sizeof *state->clock);
  }
  uint64_t cq_words = 1; /* all runs that the daemon may hold at one time */
  while (cq_words < (uint64_t)context->device.capacity + DF_RUNS_AHEAD_POOL) cq_words *= 2;
  for (uint32_t r = 0; r < n_rings; r++) {
    uint64_t *words = df_lay(layout, cq_words * sizeof *words);
    if (layout->base) rings[r].words = words;
  }
  if (layout->base == NULL) return;
  device->n_blocks = n_blocks;
  device->tunables = df_settings_tunables(s);
  df_sq_init(&device->sq, sq_slots, (uint32_t)s->queue_depth, 0);
  device->cq.variant = s->cq;
  device->cq.n_rings = n_rings;
  device->cq.mask = cq_words - 1;
  device->cq.rings = rings;
  for (uint32_t b = 0; b < n_blocks; b++) {
    blocks[b].index = b;
    blocks[b].cache.mask = (uint32_t)s->context_slots - 1;
  }
  context->device.shared = device;
  context->endpoint.reaches = state->reaches;
}

/* ---- device memory ---- */

/* What the host uploads of it, once. */
typedef struct df_cuda_first {
  df_cuda_relay relay;
  df_descriptor **table;
} df_cuda_first;

static void lay_out_memory(dfcclContext_t context, df_layout *layout, df_cuda_first *first) {
  const df_settings *s = &context->settings;
  df_cuda_state *state = df_cuda_state_of(context);
  df_device *device = state->device;
  state->gate = df_lay(layout, sizeof *state->gate);
  state->constants = df_lay(layout, context->device.capacity * sizeof *state->constants);
  device->descriptors = df_lay(layout, context->device.capacity * sizeof *device->descriptors);
  device->cq.ticket = df_lay(layout, sizeof *device->cq.ticket);
  state->relay = df_lay(layout, sizeof *state->relay);
  df_sq_slot *slots = df_lay(layout, (size_t)s->queue_depth * sizeof *slots);
  df_sq_init(&first->relay.queue, slots, (uint32_t)s->queue_depth, 0);
  for (uint32_t b = 0; b < device->n_blocks; b++) {
    df_block *block = &context->device.blocks[b];
    block->tasks.order = df_lay(layout, context->device.capacity * sizeof *block->tasks.order);
    block->tasks.pending = df_lay(layout, context->device.capacity * sizeof *block->tasks.pending);
    block->cache.memory = df_lay(layout, context->device.capacity * sizeof *block->cache.memory);
  }
  if (layout->base == NULL) return;
  for (uint32_t i = 0; i < context->device.capacity; i++) first->table[i] = &state->constants[i];
}

dfcclResult_t df_cuda_upload(df_cuda_state *state, void *to, const void *from, size_t bytes) {
  for (size_t done = 0; done < bytes; done += DF_CUDA_STAGING_BYTES) {
    size_t piece = DF_MIN(bytes - done, (size_t)DF_CUDA_STAGING_BYTES);
    memcpy(state->staging, (const uint8_t *)from + done, piece);
    cudaError_t error = cudaMemcpyAsync((uint8_t *)to + done, state->staging, piece,
                                        cudaMemcpyHostToDevice, state->upload_stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(state->upload_stream);
    if (error != cudaSuccess) return df_cuda_fail(error, "a copy to the GPU");
  }
  return dfcclSuccess;
}

static dfcclResult_t make_mapped(dfcclContext_t context) {
  df_cuda_state *state = df_cuda_state_of(context);
  df_layout layout = {0};
  lay_out_mapped(context, &layout);
  cudaError_t error =
      cudaHostAlloc(&state->mapped, layout.used, cudaHostAllocMapped | cudaHostAllocPortable);
  if (error != cudaSuccess) {
    state->mapped = NULL;
    return df_cuda_fail(error, "allocating page-locked host memory");
  }
  memset(state->mapped, 0, layout.used);
  layout = (df_layout){.base = state->mapped};
  lay_out_mapped(context, &layout);
  return dfcclSuccess;
}

static dfcclResult_t make_memory(dfcclContext_t context) {
  df_cuda_state *state = df_cuda_state_of(context);
  df_cuda_first first;
  df_layout layout = {0};
  void *base = NULL;
  lay_out_memory(context, &layout, &first);
  first.table = calloc(context->device.capacity, sizeof *first.table);
  if (first.table == NULL) return df_fail(dfcclOutOfMemory, "no memory for the device's tables");
  cudaError_t error = cudaMalloc(&base, layout.used);
  if (error == cudaSuccess) {
    state->memory = base;
    state->memory_bytes = layout.used;
    error = cudaMemsetAsync(base, 0, layout.used, state->upload_stream);
  }
  if (error == cudaSuccess) error = cudaStreamSynchronize(state->upload_stream);
  dfcclResult_t result = dfcclSuccess;
  if (error != cudaSuccess) result = df_cuda_fail(error, "allocating memory of the GPU");
  if (result == dfcclSuccess) {
    layout = (df_layout){.base = base};
    lay_out_memory(context, &layout, &first);
    result = df_cuda_upload(state, state->device->descriptors, first.table,
                            context->device.capacity * sizeof *first.table);
  }
  if (result == dfcclSuccess)
    result = df_cuda_upload(state, state->relay, &first.relay, sizeof first.relay);
  free(first.table);
  if (!context->settings.cuda_relay) state->relay = NULL;
  return result;
}

/* ---- the arena ---- */

static dfcclResult_t create(dfcclContext_t context, df_segment **segment, uint64_t id,
                            size_t bytes) {
  return df_segment_cuda_create(segment, id, bytes, df_cuda_state_of(context)->facts.ordinal);
}

static dfcclResult_t create_for_arena(void *owner, df_segment **segment, uint64_t id,
                                      size_t bytes) {
  return create(owner, segment, id, bytes);
}

static dfcclResult_t make_arena(dfcclContext_t context) {
  df_range range;
  df_arena *arena = &context->endpoint.arena;
  arena->create = create_for_arena;
  arena->owner = context;
  arena->segment_bytes = (uint64_t)context->settings.cuda_arena_mb << 20;
  dfcclResult_t result = df_arena_take(arena, DF_CACHE_LINE, &range);
  if (result == dfcclSuccess) df_arena_give(arena, &range);
  arena->grows_apart = 1; /* from here on the lock protects it */
  return result;
}

/* ---- opening and closing ---- */

static dfcclResult_t make_streams(df_cuda_state *state) {
  int least = 0, greatest = 0;
  cudaError_t error = cudaDeviceGetStreamPriorityRange(&least, &greatest);
  if (error == cudaSuccess)
    error = cudaStreamCreateWithPriority(&state->daemon_stream, cudaStreamNonBlocking, greatest);
  if (error == cudaSuccess)
    error = cudaStreamCreateWithPriority(&state->upload_stream, cudaStreamNonBlocking, greatest);
  return error == cudaSuccess ? dfcclSuccess : df_cuda_fail(error, "creating a CUDA stream");
}

static dfcclResult_t acquire(dfcclContext_t context) {
  df_cuda_state *state = df_cuda_state_of(context);
  dfcclResult_t result = df_cuda_find_peers(context);
  if (result == dfcclSuccess) result = make_streams(state);
  if (result == dfcclSuccess) result = make_mapped(context);
  if (result == dfcclSuccess) result = make_memory(context);
  if (result == dfcclSuccess) result = df_cuda_load_everything(state);
  if (result == dfcclSuccess) result = make_arena(context);
  if (result == dfcclSuccess && state->times)
    result = df_cuda_compare_clocks(state, &state->opened);
  if (result == dfcclSuccess) df_cuda_find_stream_operations(state);
  return result;
}

static dfcclResult_t open_device(dfcclContext_t context) {
  df_cuda_visit visit;
  size_t bytes = DF_ALIGN_UP(sizeof(df_cuda_state), (size_t)DF_CACHE_LINE);
  df_cuda_state *state = aligned_alloc(DF_CACHE_LINE, bytes);
  if (state == NULL) return df_fail(dfcclOutOfMemory, "no memory for the device's record");
  memset(state, 0, bytes);
  context->device.state = state;
  context->device.capacity = (uint32_t)context->settings.cuda_collectives;
  state->peer_devices = calloc(context->n_ranks, sizeof *state->peer_devices);
  state->peer_lends = calloc(context->n_ranks, sizeof *state->peer_lends);
  if (state->peer_devices == NULL || state->peer_lends == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the records of %u peers", context->n_ranks);
  dfcclResult_t result = df_cuda_read_facts(&state->facts, (int)context->settings.device);
  if (result == dfcclSuccess) result = df_cuda_retain_device(&state->primary, state->facts.ordinal);
  if (result == dfcclSuccess) result = df_cuda_enter_device(&visit, state->primary);
  if (result != dfcclSuccess) return result;
  result = acquire(context);
  df_cuda_leave_device(&visit);
  return result;
}

static void close_device(dfcclContext_t context) {
  df_cuda_state *state = df_cuda_state_of(context);
  df_cuda_visit visit;
  if (state == NULL) return;
  if (state->primary && df_cuda_enter_device(&visit, state->primary) == dfcclSuccess) {
    if (state->daemon_stream) cudaStreamDestroy(state->daemon_stream);
    if (state->upload_stream) cudaStreamDestroy(state->upload_stream);
    if (state->memory) cudaFree(state->memory);
    if (state->mapped) cudaFreeHost(state->mapped);
    cudaGetLastError();
    df_cuda_leave_device(&visit);
  }
  if (state->primary) df_cuda_release_device(state->facts.ordinal);
  free(state->peer_devices);
  free(state->peer_lends);
  free(state);
  context->device.state = NULL;
}

/* ---- waiting: the GPU drives, a waiter looks at the CQ ---- */

static void drive_begin(dfcclContext_t context, df_driver *driver) {
  (void)context;
  memset(driver, 0, sizeof *driver);
}
static int drive_turn(dfcclContext_t context, df_driver *driver, int starts) {
  (void)driver;
  (void)starts;
  df_between_turns(context);
  return 0;
}
static int drive_has_reason(dfcclContext_t context, const df_driver *driver) {
  (void)context;
  (void)driver;
  return 0;
}
static void drive_release(dfcclContext_t context, df_driver *driver) {
  (void)context;
  (void)driver;
}

/* ---- peers' memory ---- */

/* Any buffer, the application's included: only on the same GPU. */
static int lends_to(dfcclContext_t context, uint32_t peer) {
  df_cuda_state *state = df_cuda_state_of(context);
  return context->control.peers[peer].local && state->peer_devices[peer] == state->facts.ordinal;
}

static int lends_memory_to(dfcclContext_t context, uint32_t peer) {
  return df_cuda_state_of(context)->peer_lends[peer];
}

static dfcclResult_t map(dfcclContext_t context, uint32_t peer, df_segment **segment,
                         const df_message *message, int fd) {
  if (fd >= 0) return df_segment_map(segment, message->id, message->a, fd);
  if (message->payload_bytes != DF_SEGMENT_HANDLE_BYTES)
    return df_fail(dfcclRemoteError, "a peer's memory came without its handle");
  if (message->b == DF_SEGMENT_USER && !lends_memory_to(context, peer))
    return df_fail(dfcclInvalidUsage, "buffers are not lent to that GPU");
  return df_segment_cuda_map(segment, message->id, message->a,
                             df_cuda_state_of(context)->facts.ordinal, df_message_payload(message));
}

static uint64_t *take_reach(dfcclContext_t context) {
  df_cuda_state *state = df_cuda_state_of(context);
  for (uint32_t i = 0; i < DF_CUDA_REACHES; i++) {
    if (state->reach_taken[i]) continue;
    state->reach_taken[i] = 1;
    return &state->reach_rows[(size_t)i * context->n_ranks];
  }
  return NULL;
}

static void give_reach(dfcclContext_t context, uint64_t *reach) {
  df_cuda_state *state = df_cuda_state_of(context);
  if (reach) state->reach_taken[(size_t)(reach - state->reach_rows) / context->n_ranks] = 0;
}

static const df_executor_ops executor_ops = {
    .yields_before_nap = 2000,
    .nap_ns = 20 * 1000,
    .start = df_cuda_start,
    .stop = df_cuda_stop,
    .submitted = df_cuda_submitted,
    .drive_begin = drive_begin,
    .drive_turn = drive_turn,
    .drive_has_reason = drive_has_reason,
    .drive_holds_all = drive_has_reason, /* never: the GPU holds them */
    .drive_release = drive_release,
    .drive_end = drive_release,
    .synchronize = df_cuda_synchronize,
    .get_times = df_cuda_get_times,
};

static const df_memory_ops memory_ops = {
    .describe = df_cuda_describe,
    .forget = df_cuda_forget,
    .publish = df_cuda_publish,
    .clear = df_cuda_clear,
    .sets_up_in_background = 1,
    .lends_to = lends_to,
    .exports_memory = 1,
    .create = create,
    .map = map,
    .lends_memory_to = lends_memory_to,
    .take_reach = take_reach,
    .give_reach = give_reach,
};

static const df_stream_ops stream_ops = {
    .begin = df_cuda_stream_begin,
    .end = df_cuda_stream_end,
    .release = df_cuda_stream_release,
    .pause = df_cuda_pause_streams,
    .resume = df_cuda_resume_streams,
};

const df_device_kind df_device_cuda = {
    .name = "CUDA",
    .executor = &executor_ops,
    .memory = &memory_ops,
    .streams = &stream_ops,
    .open = open_device,
    .close = close_device,
};
