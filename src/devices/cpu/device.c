/* The CPU device: ordinary memory and threads. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/log.h"
#include "devices/cpu/executor.h"
#include "devices/device.h"
#include "primitives/prepared.h"

typedef struct df_cpu_state {
  DF_ALIGNED(64) df_executor executor;
  df_device device;
  void *memory; /* only pages in use become resident */
  size_t bytes;
} df_cpu_state;

static df_cpu_state *state_of(df_rank_device *device) { return device->state; }

/* ---- memory ---- */

static void lay_out(df_rank_device *device, df_layout *layout) {
  const df_device_options *o = &device->options;
  df_device *shared = &state_of(device)->device;
  uint32_t n_blocks = o->n_blocks, n_rings = o->cq == DF_CQ_SLOTS_CAS ? 1 : n_blocks;
  df_sq_slot *sq_slots = df_lay(layout, (size_t)o->queue_depth * sizeof *sq_slots);
  df_cq_ring *rings = df_lay(layout, n_rings * sizeof *rings);
  df_descriptor **descriptors = df_lay(layout, DF_MAX_COLLECTIVES * sizeof *descriptors);
  df_block *blocks = df_lay(layout, n_blocks * sizeof *blocks);
  device->mappings = df_lay(layout, DF_MAX_MAPPINGS * sizeof *device->mappings);
  if (o->cpu.logs_turns) device->turns = df_lay(layout, n_blocks * sizeof *device->turns);
  if (layout->base) {
    *shared =
        (df_device){.descriptors = descriptors, .n_blocks = n_blocks, .tunables = o->tunables};
    df_sq_init(&shared->sq, sq_slots, o->queue_depth, n_blocks);
    shared->cq =
        (df_cq){.variant = o->cq, .n_rings = n_rings, .mask = DF_CQ_SLOTS - 1, .rings = rings};
    device->blocks = blocks;
  }
  for (uint32_t r = 0; r < n_rings; r++) {
    uint64_t *words = df_lay(layout, DF_CQ_SLOTS * sizeof *words);
    if (layout->base) rings[r].words = words;
  }
  for (uint32_t b = 0; b < n_blocks; b++) {
    uint32_t *order = df_lay(layout, DF_MAX_COLLECTIVES * sizeof *order);
    uint32_t *pending = df_lay(layout, DF_MAX_COLLECTIVES * sizeof *pending);
    df_cursor *memory = df_lay(layout, DF_MAX_COLLECTIVES * sizeof *memory);
    df_context_slot *slots = df_lay(layout, (size_t)o->context_slots * sizeof *slots);
    if (!layout->base) continue;
    df_block *block = &blocks[b];
    block->device = shared;
    block->index = b;
    block->tasks.order = order;
    block->tasks.pending = pending;
    df_context_cache_init(&block->cache, slots, o->context_slots, memory);
  }
}

static dfcclResult_t open_device(df_rank_device *device) {
  size_t bytes = DF_ALIGN_UP(sizeof(df_cpu_state), (size_t)DF_CACHE_LINE);
  df_cpu_state *state = aligned_alloc(DF_CACHE_LINE, bytes);
  if (state == NULL) return df_fail(dfcclOutOfMemory, "no memory for the device's record");
  memset(state, 0, bytes);
  device->state = state;
  device->shared = &state->device;
  device->capacity = DF_MAX_COLLECTIVES;
  df_layout layout = {0};
  lay_out(device, &layout);
  state->bytes = DF_ALIGN_UP(layout.used, (size_t)DF_PAGE);
  void *base = mmap(NULL, state->bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return df_fail(dfcclOutOfMemory, "no address space for the device's %zu bytes: %s",
                   state->bytes, strerror(errno));
  state->memory = base;
  layout = (df_layout){.base = base};
  lay_out(device, &layout);
  return dfcclSuccess;
}

static void close_device(df_rank_device *device) {
  df_cpu_state *state = state_of(device);
  if (state == NULL) return;
  if (state->memory) munmap(state->memory, state->bytes);
  free(state);
  device->state = NULL;
  device->turns = NULL;
}

/* ---- executors ---- */

static dfcclResult_t start(df_rank_device *device) {
  const df_device_options *o = &device->options;
  df_log(DF_LOG_INFO, "rank %u of %u: CPU device, %u block(s), queue of %u, mover %s", device->rank,
         device->n_ranks, o->n_blocks, o->queue_depth, o->cpu.mover->name);
  return df_executor_start(&state_of(device)->executor, device->shared, device->blocks,
                           o->cpu.mover, o->cpu.yield_polls, o->cpu.nap_ns, device->work_bell,
                           device->host, device->turns);
}

static void stop(df_rank_device *device) {
  if (state_of(device)) df_executor_stop(&state_of(device)->executor);
}

static int claim_first_turn(df_rank_device *device, uint32_t collective) {
  return df_executor_claim_first_turn(&state_of(device)->executor, collective);
}

static int first_turn(df_rank_device *device, df_borrowed_turn *turn) {
  return df_executor_first_turn(&state_of(device)->executor, turn);
}

static int last_turn(df_rank_device *device, df_borrowed_turn *turn) {
  return df_executor_last_turn(&state_of(device)->executor, turn);
}

static void submitted(df_rank_device *device, int urgent, int unlocked) {
  df_executor_submitted(&state_of(device)->executor, urgent, unlocked);
}

static void progress_begin(df_rank_device *device, df_progress_thread *progress) {
  df_progress_begin(progress, &state_of(device)->executor);
}
static int progress_turn(df_rank_device *device, df_progress_thread *progress, int starts) {
  (void)device;
  return df_progress_turn(progress, starts);
}
static int progress_has_reason(df_rank_device *device, const df_progress_thread *progress) {
  (void)device;
  return df_progress_has_reason(progress);
}
static int progress_holds_all(df_rank_device *device, const df_progress_thread *progress) {
  return progress->held + 1 == 1ull << device->shared->n_blocks;
}
static void progress_release(df_rank_device *device, df_progress_thread *progress) {
  (void)device;
  df_progress_release(progress);
}
static void progress_end(df_rank_device *device, df_progress_thread *progress) {
  (void)device;
  df_progress_end(progress);
}

static dfcclResult_t synchronize(df_rank_device *device) {
  df_executor_synchronize(&state_of(device)->executor);
  return dfcclSuccess;
}

static dfcclResult_t get_events(df_rank_device *device, dfcclEvent_t *events, size_t *count) {
  size_t room = *count, n = 0;
  for (uint32_t b = 0; b < device->shared->n_blocks; b++) {
    const df_turn_log *log = &device->turns[b];
    const uint64_t noted = df_observe_u64(&log->noted);
    for (uint64_t i = df_turn_log_first(noted); i < noted; i++) {
      df_turn_record record;
      if (!df_turn_log_read(log, i, &record)) continue;
      if (n < room && events != NULL)
        events[n] = (dfcclEvent_t){.moment = record.to,
                                   .collective = df_turn_collective(&record),
                                   .kind = (dfcclEventKind_t)df_turn_kind(&record),
                                   .block = b,
                                   .queueLength = df_turn_length(&record),
                                   .pendingRuns = df_turn_pending(&record)};
      n++;
    }
  }
  *count = n;
  return dfcclSuccess;
}

/* ---- collectives ---- */

static dfcclResult_t describe(df_rank_device *device, df_device_coll *coll) {
  uint32_t n_blocks = coll->shape->n_blocks, n_links = coll->plan->n_links * n_blocks;
  const size_t extent_bytes = coll->plan->n_extents * sizeof *coll->plan->extents;
  df_layout layout = {0};
  df_descriptor *d = NULL;
  df_link *links = n_links ? aligned_alloc(DF_CACHE_LINE, n_links * sizeof *links) : NULL;
  uint8_t *scratch = coll->shape->scratch_bytes
                         ? aligned_alloc(DF_CACHE_LINE, n_blocks * coll->shape->scratch_bytes)
                         : NULL;
  for (int pass = 0; pass < 2; pass++) {
    /* The words that the host writes begin a cache line, as do the counters. */
    d = df_lay(&layout, sizeof *d + n_blocks * sizeof(df_part) + extent_bytes);
    df_run_words *words = df_lay(&layout, sizeof *words);
    df_run_counters *counters = df_lay(&layout, sizeof *counters + n_blocks * sizeof(uint64_t));
    if (pass == 0) {
      size_t bytes = DF_ALIGN_UP(layout.used, (size_t)DF_CACHE_LINE);
      layout = (df_layout){.base = aligned_alloc(DF_CACHE_LINE, bytes)};
      if (layout.base == NULL) break;
      memset(layout.base, 0, bytes);
    } else {
      d->parts = (df_part *)(d + 1);
      d->words = words;
      d->counters = counters;
      d->progress = (uint64_t *)(counters + 1);
    }
  }
  if (d == NULL || (n_links && links == NULL) || (coll->shape->scratch_bytes && scratch == NULL)) {
    free(d);
    free(links);
    free(scratch);
    return dfcclOutOfMemory;
  }
  if (links) memset(links, 0, n_links * sizeof *links);
  d->primitives = coll->plan->primitives;
  d->links = coll->links = links;
  d->scratch = scratch;
  memcpy(d->parts, coll->shape->parts, n_blocks * sizeof *d->parts);
  if (extent_bytes) memcpy(d->parts + n_blocks, coll->plan->extents, extent_bytes);
  device->shared->descriptors[coll->index] = coll->descriptor = d;
  return dfcclSuccess;
}

static void forget(df_rank_device *device, df_device_coll *coll) {
  device->shared->descriptors[coll->index] = NULL;
  free((void *)(uintptr_t)coll->descriptor->prepared);
  free(coll->descriptor->scratch);
  free(coll->descriptor);
  free(coll->links);
}

/* Each step computes its primitive, because the CPU has no records. */
static dfcclResult_t publish(df_rank_device *device, df_device_coll *coll) {
  (void)device;
  df_descriptor *d = coll->descriptor;
  if (!df_prepared_is_kept(d)) return dfcclSuccess;
  df_prepared *records = aligned_alloc(DF_CACHE_LINE, d->n_primitives * sizeof *records);
  if (records) df_prepared_keep(d, records);
  return dfcclSuccess;
}

static int lends_to(df_rank_device *device, uint32_t peer) {
  (void)device;
  (void)peer;
  return 1;
}

static dfcclResult_t create(df_rank_device *device, df_segment **segment, uint64_t id,
                            size_t bytes) {
  (void)device;
  return df_segment_create(segment, id, bytes);
}

static dfcclResult_t map(df_rank_device *device, uint32_t peer, df_segment **segment,
                         const df_message *message, int fd) {
  (void)device;
  (void)peer;
  return df_segment_map(segment, message->id, message->a, fd);
}

static uint64_t *take_mapping(df_rank_device *device) {
  return malloc(device->n_ranks * sizeof(uint64_t));
}
static void give_mapping(df_rank_device *device, uint64_t *mapping) {
  (void)device;
  free(mapping);
}

static const df_executor_ops executor_ops = {
    .yields_before_nap = 100,
    .nap_ns = 100 * 1000,
    .start = start,
    .stop = stop,
    .claim_first_turn = claim_first_turn,
    .first_turn = first_turn,
    .last_turn = last_turn,
    .submitted = submitted,
    .progress_begin = progress_begin,
    .progress_turn = progress_turn,
    .progress_has_reason = progress_has_reason,
    .progress_holds_all = progress_holds_all,
    .progress_release = progress_release,
    .progress_end = progress_end,
    .synchronize = synchronize,
    .get_events = get_events,
    .holds_while_synchronizing = 1,
};

static const df_memory_ops memory_ops = {
    .describe = describe,
    .forget = forget,
    .publish = publish,
    .host_sees_links = 1,
    .lends_to = lends_to,
    .create = create,
    .map = map,
    .lends_memory_to = lends_to,
    .take_mapping = take_mapping,
    .give_mapping = give_mapping,
};

const df_device_kind df_device_cpu = {
    .name = "CPU",
    .executor = &executor_ops,
    .memory = &memory_ops,
    .has_varying = 1,
    .has_user_operators = 1,
    .open = open_device,
    .close = close_device,
};
