/* The CUDA device: one region of mapped page-locked host memory, one region of device memory, and
 * an arena for links and for the arrays of collectives. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "devices/cuda/state.h"

/* ---- mapped memory ---- */

static void lay_out_mapped(df_rank_device *device, df_layout *layout) {
  const df_device_options *o = &device->options;
  df_cuda_state *state = df_cuda_state_of(device);
  uint32_t n_blocks = o->n_blocks, n_rings = o->cq == DF_CQ_SLOTS_CAS ? 1 : n_blocks;
  df_device *shared = state->device = df_lay(layout, sizeof *shared);
  df_sq_slot *sq_slots = df_lay(layout, (size_t)o->queue_depth * sizeof *sq_slots);
  df_sq_record *records = df_lay(layout, (size_t)o->queue_depth * sizeof *records);
  df_cq_ring *rings = df_lay(layout, n_rings * sizeof *rings);
  df_block *blocks = device->blocks = df_lay(layout, n_blocks * sizeof *blocks);
  state->words = df_lay(layout, device->capacity * sizeof *state->words);
  state->progress = df_lay(layout, (size_t)device->capacity * n_blocks * sizeof(uint64_t));
  state->tickets = df_lay(layout, DF_CUDA_TICKETS * sizeof *state->tickets);
  state->mappings = df_lay(layout, DF_MAX_MAPPINGS * sizeof *state->mappings);
  state->mapping_rows =
      df_lay(layout, (size_t)DF_CUDA_REACHES * device->n_ranks * sizeof(uint64_t));
  state->pulse = df_lay(layout, sizeof *state->pulse);
  state->errand = df_lay(layout, sizeof *state->errand);
  state->staging = df_lay(layout, DF_CUDA_STAGING_BYTES);
  if (o->cuda.has_timers) {
    state->times = df_lay(layout, n_blocks * sizeof *state->times);
    state->clock = df_lay(layout, sizeof *state->clock);
  }
  uint64_t cq_words = 1; /* for all runs that the daemon may hold */
  while (cq_words < (uint64_t)device->capacity + DF_RUNS_AHEAD_POOL) cq_words *= 2;
  for (uint32_t r = 0; r < n_rings; r++) {
    uint64_t *words = df_lay(layout, cq_words * sizeof *words);
    if (layout->base) rings[r].words = words;
  }
  if (layout->base == NULL) return;
  shared->n_blocks = n_blocks;
  shared->tunables = o->tunables;
  df_sq_init(&shared->sq, sq_slots, o->queue_depth, 0);
  if (o->cuda.relays) shared->sq.records = records;
  shared->cq.variant = o->cq;
  shared->cq.n_rings = n_rings;
  shared->cq.mask = cq_words - 1;
  shared->cq.rings = rings;
  for (uint32_t b = 0; b < n_blocks; b++) {
    blocks[b].index = b;
    blocks[b].cache.mask = o->context_slots - 1;
  }
  device->shared = shared;
  device->mappings = state->mappings;
}

/* ---- device memory ---- */

/* Data that is uploaded when the device opens. */
typedef struct df_cuda_first {
  df_cuda_relay relay;
  df_descriptor **table;
} df_cuda_first;

static void lay_out_memory(df_rank_device *device, df_layout *layout, df_cuda_first *first) {
  const df_device_options *o = &device->options;
  df_cuda_state *state = df_cuda_state_of(device);
  df_device *shared = state->device;
  state->gate = df_lay(layout, sizeof *state->gate);
  state->constants = df_lay(layout, device->capacity * sizeof *state->constants);
  state->inputs = df_lay(layout, DF_CUDA_TICKETS * sizeof *state->inputs);
  shared->descriptors = df_lay(layout, device->capacity * sizeof *shared->descriptors);
  shared->cq.sequence = df_lay(layout, sizeof *shared->cq.sequence);
  state->relay = df_lay(layout, sizeof *state->relay);
  df_sq_slot *slots = df_lay(layout, (size_t)o->queue_depth * sizeof *slots);
  df_sq_init(&first->relay.queue, slots, o->queue_depth, 0);
  for (uint32_t b = 0; b < shared->n_blocks; b++) {
    df_block *block = &device->blocks[b];
    block->tasks.order = df_lay(layout, device->capacity * sizeof *block->tasks.order);
    block->tasks.pending = df_lay(layout, device->capacity * sizeof *block->tasks.pending);
    block->cache.memory = df_lay(layout, device->capacity * sizeof *block->cache.memory);
  }
  if (layout->base == NULL) return;
  for (uint32_t i = 0; i < device->capacity; i++) first->table[i] = &state->constants[i];
}

/* The daemon makes the transfer, because a copy on a stream might be queued behind a stream that
 * waits for a run. Any launch makes it, so a pending one is a reason for a launch. */
static void transfer_by_daemon(df_rank_device *device, const df_cuda_transfer *transfer) {
  const struct timespec nap = {.tv_nsec = 20 * 1000};
  df_cuda_state *state = df_cuda_state_of(device);
  uint32_t number = device->shared->errands + 1;
  state->errand->transfer = *transfer;
  df_bus_release();
  df_publish_u32(&device->shared->errands, number);
  df_bell_ring(device->work_bell);
  while (df_observe_u32(&state->errand->done) != number && !df_load_relaxed_u32(&state->lost))
    nanosleep(&nap, NULL);
}

/* bytes: the destination's. A stream zeroes rings as a whole, at the rate of the memory. */
static cudaError_t put(df_rank_device *device, const df_cuda_transfer *transfer, size_t bytes) {
  df_cuda_state *state = df_cuda_state_of(device);
  int alone = df_cuda_pause_streams();
  if (!alone && state->launcher_started) {
    transfer_by_daemon(device, transfer);
    return df_load_relaxed_u32(&state->lost) ? cudaErrorLaunchFailure : cudaSuccess;
  }
  cudaError_t error = transfer->from
                          ? cudaMemcpyAsync(transfer->to, transfer->from, bytes,
                                            cudaMemcpyHostToDevice, state->upload_stream)
                          : cudaMemsetAsync(transfer->to, 0, bytes, state->upload_stream);
  if (error == cudaSuccess) error = cudaStreamSynchronize(state->upload_stream);
  if (alone) df_cuda_resume_streams();
  return error;
}

static uint64_t words_of(size_t bytes) { return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t); }

/* The bytes behind both buffers, up to the next multiple of 8 bytes, belong to them too. */
dfcclResult_t df_cuda_upload(df_rank_device *device, void *to, const void *from, size_t bytes) {
  uint8_t *staging = df_cuda_state_of(device)->staging;
  for (size_t done = 0; done < bytes; done += DF_CUDA_STAGING_BYTES) {
    size_t piece = DF_MIN(bytes - done, (size_t)DF_CUDA_STAGING_BYTES);
    memcpy(staging, (const uint8_t *)from + done, piece);
    const df_cuda_transfer transfer = {.to = (uint64_t *)(void *)((uint8_t *)to + done),
                                       .from = (const uint64_t *)(void *)staging,
                                       .words = words_of(piece)};
    cudaError_t error = put(device, &transfer, piece);
    if (error != cudaSuccess) return df_cuda_fail(error, "a copy to the GPU");
  }
  return dfcclSuccess;
}

static dfcclResult_t clear(df_rank_device *device, const df_cuda_transfer *transfer, size_t bytes) {
  cudaError_t error = put(device, transfer, bytes);
  return error == cudaSuccess ? dfcclSuccess : df_cuda_fail(error, "clearing memory of the GPU");
}

dfcclResult_t df_cuda_clear_memory(df_rank_device *device, void *to, size_t bytes) {
  const df_cuda_transfer transfer = {.to = to, .words = words_of(bytes)};
  return clear(device, &transfer, bytes);
}

/* All words of the LL protocol have flags, so they must be zero before the first message. */
dfcclResult_t df_cuda_clear_rings(df_rank_device *device, const df_device_rings *rings) {
  size_t bytes = df_link_ring_bytes(rings->stride, rings->n_slots) * rings->n_blocks;
  if (rings->payload_offset == DF_LINK_LL) return df_cuda_clear_memory(device, rings->base, bytes);
  const df_cuda_transfer transfer = {.to = (uint64_t *)(void *)rings->base,
                                     .n_rings = rings->n_blocks,
                                     .n_slots = rings->n_slots,
                                     .stride = rings->stride};
  return clear(device, &transfer, bytes);
}

static dfcclResult_t make_mapped(df_rank_device *device) {
  df_cuda_state *state = df_cuda_state_of(device);
  df_layout layout = {0};
  lay_out_mapped(device, &layout);
  cudaError_t error =
      cudaHostAlloc(&state->mapped, layout.used, cudaHostAllocMapped | cudaHostAllocPortable);
  if (error != cudaSuccess) {
    state->mapped = NULL;
    return df_cuda_fail(error, "allocating page-locked host memory");
  }
  memset(state->mapped, 0, layout.used);
  layout = (df_layout){.base = state->mapped};
  lay_out_mapped(device, &layout);
  return dfcclSuccess;
}

static dfcclResult_t make_memory(df_rank_device *device) {
  df_cuda_state *state = df_cuda_state_of(device);
  df_cuda_first first;
  df_layout layout = {0};
  void *base = NULL;
  lay_out_memory(device, &layout, &first);
  first.table = calloc(device->capacity, sizeof *first.table);
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
    lay_out_memory(device, &layout, &first);
    result = df_cuda_upload(device, state->device->descriptors, first.table,
                            device->capacity * sizeof *first.table);
  }
  if (result == dfcclSuccess)
    result = df_cuda_upload(device, state->relay, &first.relay, sizeof first.relay);
  free(first.table);
  if (!device->options.cuda.relays) state->relay = NULL;
  return result;
}

/* ---- the arena ---- */

static dfcclResult_t create(df_rank_device *device, df_segment **segment, uint64_t id,
                            size_t bytes) {
  return df_segment_cuda_create(segment, id, bytes, df_cuda_state_of(device)->facts.ordinal);
}

static dfcclResult_t create_for_arena(void *owner, df_segment **segment, uint64_t id,
                                      size_t bytes) {
  return create(owner, segment, id, bytes);
}

static dfcclResult_t make_arena(df_rank_device *device) {
  df_range range;
  df_arena *arena = device->arena;
  arena->create = create_for_arena;
  arena->owner = device;
  arena->segment_bytes = device->options.cuda.arena_bytes;
  dfcclResult_t result = df_arena_take(arena, DF_CACHE_LINE, &range);
  if (result == dfcclSuccess) df_arena_give(arena, &range);
  arena->grows_apart = 1; /* from this point the lock protects the arena */
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
  if (error == cudaSuccess) error = cudaEventCreateWithFlags(&state->asked, cudaEventDisableTiming);
  return error == cudaSuccess ? dfcclSuccess : df_cuda_fail(error, "creating a CUDA stream");
}

static dfcclResult_t acquire(df_rank_device *device) {
  df_cuda_state *state = df_cuda_state_of(device);
  dfcclResult_t result = df_cuda_find_peers(device);
  if (result == dfcclSuccess) result = make_streams(state);
  if (result == dfcclSuccess) result = make_mapped(device);
  if (result == dfcclSuccess) result = make_memory(device);
  if (result == dfcclSuccess) result = df_cuda_load_everything(device);
  if (result == dfcclSuccess) result = make_arena(device);
  if (result == dfcclSuccess && state->times)
    result = df_cuda_compare_clocks(state, &state->opened);
  if (result == dfcclSuccess) df_cuda_find_stream_operations(state);
  return result;
}

static dfcclResult_t open_device(df_rank_device *device) {
  df_cuda_visit visit;
  size_t bytes = DF_ALIGN_UP(sizeof(df_cuda_state), (size_t)DF_CACHE_LINE);
  df_cuda_state *state = aligned_alloc(DF_CACHE_LINE, bytes);
  if (state == NULL) return df_fail(dfcclOutOfMemory, "no memory for the device's record");
  memset(state, 0, bytes);
  device->state = state;
  device->capacity = device->options.cuda.collectives;
  state->peer_devices = calloc(device->n_ranks, sizeof *state->peer_devices);
  state->peer_lends = calloc(device->n_ranks, sizeof *state->peer_lends);
  if (state->peer_devices == NULL || state->peer_lends == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the records of %u peers", device->n_ranks);
  dfcclResult_t result = df_cuda_read_facts(&state->facts, device->options.cuda.ordinal);
  if (result == dfcclSuccess) result = df_cuda_retain_device(&state->primary, state->facts.ordinal);
  if (result == dfcclSuccess) result = df_cuda_enter_device(&visit, state->primary);
  if (result != dfcclSuccess) return result;
  result = acquire(device);
  df_cuda_leave_device(&visit);
  return result;
}

static void close_device(df_rank_device *device) {
  df_cuda_state *state = df_cuda_state_of(device);
  df_cuda_visit visit;
  if (state == NULL) return;
  if (state->primary && df_cuda_enter_device(&visit, state->primary) == dfcclSuccess) {
    if (state->asked) cudaEventDestroy(state->asked);
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
  device->state = NULL;
}

/* ---- waiting: the GPU drives, and a waiter polls the CQ ---- */

static void progress_begin(df_rank_device *device, df_progress_thread *driver) {
  (void)device;
  memset(driver, 0, sizeof *driver);
}
static int progress_turn(df_rank_device *device, df_progress_thread *driver, int starts) {
  (void)driver;
  (void)starts;
  device->host.between_turns(device->host.host);
  return 0;
}
static int progress_has_reason(df_rank_device *device, const df_progress_thread *driver) {
  (void)device;
  (void)driver;
  return 0;
}
static void progress_release(df_rank_device *device, df_progress_thread *driver) {
  (void)device;
  (void)driver;
}

/* ---- peers' memory ---- */

/* Any buffer can be lent only on the same GPU. */
static int lends_to(df_rank_device *device, uint32_t peer) {
  df_cuda_state *state = df_cuda_state_of(device);
  return state->peer_devices[peer] == state->facts.ordinal;
}

static int lends_memory_to(df_rank_device *device, uint32_t peer) {
  return df_cuda_state_of(device)->peer_lends[peer];
}

static dfcclResult_t map(df_rank_device *device, uint32_t peer, df_segment **segment,
                         const df_message *message, int fd) {
  if (fd >= 0) return df_segment_map(segment, message->id, message->a, fd);
  if (message->payload_bytes != DF_SEGMENT_HANDLE_BYTES)
    return df_fail(dfcclRemoteError, "the message about a peer's memory has no handle");
  if (message->b == DF_SEGMENT_USER && !lends_memory_to(device, peer))
    return df_fail(dfcclInvalidUsage, "buffers are not lent to that GPU");
  return df_segment_cuda_map(segment, message->id, message->a,
                             df_cuda_state_of(device)->facts.ordinal, df_message_payload(message));
}

static uint64_t *take_mapping(df_rank_device *device) {
  df_cuda_state *state = df_cuda_state_of(device);
  for (uint32_t i = 0; i < DF_CUDA_REACHES; i++) {
    if (state->mapping_taken[i]) continue;
    state->mapping_taken[i] = 1;
    return &state->mapping_rows[(size_t)i * device->n_ranks];
  }
  return NULL;
}

static void give_mapping(df_rank_device *device, uint64_t *mapping) {
  df_cuda_state *state = df_cuda_state_of(device);
  if (mapping) state->mapping_taken[(size_t)(mapping - state->mapping_rows) / device->n_ranks] = 0;
}

static const df_executor_ops executor_ops = {
    .yields_before_nap = 2000,
    .nap_ns = 20 * 1000,
    .start = df_cuda_start,
    .stop = df_cuda_stop,
    .submitted = df_cuda_submitted,
    .progress_begin = progress_begin,
    .progress_turn = progress_turn,
    .progress_has_reason = progress_has_reason,
    .progress_holds_all = progress_has_reason, /* always 0, because the GPU holds the blocks */
    .progress_release = progress_release,
    .progress_end = progress_release,
    .synchronize = df_cuda_synchronize,
    .get_times = df_cuda_get_times,
    .get_events = df_cuda_get_events,
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
    .take_mapping = take_mapping,
    .give_mapping = give_mapping,
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
