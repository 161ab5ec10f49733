/* The CPU device: everything is ordinary memory, and threads execute the daemon (executor_cpu.c).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cpu.h"
#include "base/log.h"
#include "host/context.h"
#include "host/registry.h"
#include "host/runs.h"

typedef struct df_cpu_state {
  DF_ALIGNED(64) df_executor executor;
  df_device device;
  void *memory; /* one zeroed region, of which only the pages that are used become resident */
  size_t bytes;
} df_cpu_state;

static df_cpu_state *state_of(dfcclContext_t context) { return context->device.state; }

/* ---- memory ---- */

static void lay_out(dfcclContext_t context, df_layout *layout) {
  const df_settings *s = &context->settings;
  df_device *device = &state_of(context)->device;
  uint32_t n_blocks = (uint32_t)s->max_blocks, n_rings = s->cq == DF_CQ_SLOTS_CAS ? 1 : n_blocks;
  df_sq_slot *sq_slots = df_lay(layout, (size_t)s->queue_depth * sizeof *sq_slots);
  df_cq_ring *rings = df_lay(layout, n_rings * sizeof *rings);
  df_descriptor **descriptors = df_lay(layout, DF_MAX_COLLECTIVES * sizeof *descriptors);
  df_block *blocks = df_lay(layout, n_blocks * sizeof *blocks);
  context->endpoint.reaches = df_lay(layout, DF_MAX_REACHES * sizeof *context->endpoint.reaches);
  if (layout->base) {
    *device = (df_device){
        .descriptors = descriptors, .n_blocks = n_blocks, .tunables = df_settings_tunables(s)};
    df_sq_init(&device->sq, sq_slots, (uint32_t)s->queue_depth, n_blocks);
    device->cq =
        (df_cq){.variant = s->cq, .n_rings = n_rings, .mask = DF_CQ_SLOTS - 1, .rings = rings};
    context->device.blocks = blocks;
  }
  for (uint32_t r = 0; r < n_rings; r++) {
    uint64_t *words = df_lay(layout, DF_CQ_SLOTS * sizeof *words);
    if (layout->base) rings[r].words = words;
  }
  for (uint32_t b = 0; b < n_blocks; b++) {
    uint32_t *order = df_lay(layout, DF_MAX_COLLECTIVES * sizeof *order);
    uint32_t *pending = df_lay(layout, DF_MAX_COLLECTIVES * sizeof *pending);
    df_cursor *memory = df_lay(layout, DF_MAX_COLLECTIVES * sizeof *memory);
    df_context_slot *slots = df_lay(layout, (size_t)s->context_slots * sizeof *slots);
    if (!layout->base) continue;
    df_block *block = &blocks[b];
    block->device = device;
    block->index = b;
    block->tasks.order = order;
    block->tasks.pending = pending;
    df_context_cache_init(&block->cache, slots, (uint32_t)s->context_slots, memory);
  }
}

static dfcclResult_t open_device(dfcclContext_t context) {
  size_t bytes = DF_ALIGN_UP(sizeof(df_cpu_state), (size_t)DF_CACHE_LINE);
  df_cpu_state *state = aligned_alloc(DF_CACHE_LINE, bytes);
  if (state == NULL) return df_fail(dfcclOutOfMemory, "no memory for the device's record");
  memset(state, 0, bytes);
  context->device.state = state;
  context->device.shared = &state->device;
  context->device.capacity = DF_MAX_COLLECTIVES;
  df_layout layout = {0};
  lay_out(context, &layout);
  state->bytes = DF_ALIGN_UP(layout.used, (size_t)DF_PAGE);
  void *base = mmap(NULL, state->bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return df_fail(dfcclOutOfMemory, "no address space for the device's %zu bytes: %s",
                   state->bytes, strerror(errno));
  state->memory = base;
  layout = (df_layout){.base = base};
  lay_out(context, &layout);
  return dfcclSuccess;
}

static void close_device(dfcclContext_t context) {
  df_cpu_state *state = state_of(context);
  if (state == NULL) return;
  if (state->memory) munmap(state->memory, state->bytes);
  free(state);
  context->device.state = NULL;
}

/* ---- executors ---- */

/* By executors between two turns, seldom. */
static void count_ranks(void *host, uint16_t ranks[DF_CORES_SEEN]) {
  dfcclContext_t context = host;
  pthread_mutex_lock(&context->lock);
  for (uint32_t r = 0; r < context->n_ranks; r++) {
    const df_bell *bell =
        r == context->rank ? context->device.work_bell : context->control.peers[r].bell;
    uint32_t cpu = bell ? df_load_relaxed_u32(&bell->cpu) : 0;
    if (cpu != 0) ranks[(cpu - 1) % DF_CORES_SEEN]++;
  }
  pthread_mutex_unlock(&context->lock);
}

static dfcclResult_t start(dfcclContext_t context) {
  const df_settings *s = &context->settings;
  df_executor_host host = {.host = context,
                           .completed = df_reap_and_ring,
                           .between_turns = df_between_turns,
                           .has_outstanding = df_has_outstanding,
                           .count_ranks = s->spread ? count_ranks : NULL};
  const df_mover_cpu *mover = s->isa[0] ? df_mover_cpu_by_name(s->isa) : df_mover_cpu_best();
  df_log(DF_LOG_INFO, "rank %u of %u: CPU device, %u block(s), queue of %lld, mover %s",
         context->rank, context->n_ranks, context->device.shared->n_blocks, s->queue_depth,
         mover->name);
  return df_executor_start(&state_of(context)->executor, context->device.shared,
                           context->device.blocks, mover, (uint32_t)s->yield_polls,
                           (uint64_t)s->nap_us * 1000, context->device.work_bell, host);
}

static void stop(dfcclContext_t context) {
  if (state_of(context)) df_executor_stop(&state_of(context)->executor);
}

static int claim_first_turn(dfcclContext_t context, uint32_t collective) {
  return df_executor_claim_first_turn(&state_of(context)->executor, collective);
}

static int first_turn(dfcclContext_t context, uint32_t collective, df_noted_bells *bells) {
  return df_executor_first_turn(&state_of(context)->executor, collective, bells);
}

static int last_turn(dfcclContext_t context, uint32_t *collective, df_noted_bells *bells) {
  return df_executor_last_turn(&state_of(context)->executor, collective, bells);
}

static void submitted(dfcclContext_t context, int urgent, int unlocked) {
  df_executor_submitted(&state_of(context)->executor, urgent, unlocked);
}

static void drive_begin(dfcclContext_t context, df_driver *driver) {
  df_driver_begin(driver, &state_of(context)->executor);
}
static int drive_turn(dfcclContext_t context, df_driver *driver, int starts) {
  (void)context;
  return df_driver_turn(driver, starts);
}
static int drive_has_reason(dfcclContext_t context, const df_driver *driver) {
  (void)context;
  return df_driver_has_reason(driver);
}
static int drive_holds_all(dfcclContext_t context, const df_driver *driver) {
  return driver->held + 1 == 1ull << context->device.shared->n_blocks;
}
static void drive_release(dfcclContext_t context, df_driver *driver) {
  (void)context;
  df_driver_release(driver);
}
static void drive_end(dfcclContext_t context, df_driver *driver) {
  (void)context;
  df_driver_end(driver);
}

/* Every block that ran when we began has left since. */
static int all_have_left(dfcclContext_t context, const uint64_t *quits) {
  for (uint32_t b = 0; b < context->device.shared->n_blocks; b++) {
    const df_block *block = &context->device.blocks[b];
    if (df_observe_u32(&block->running) && df_load_relaxed_u64(&block->stats.quits) == quits[b])
      return 0;
  }
  return 1;
}

static dfcclResult_t synchronize(dfcclContext_t context) {
  uint64_t quits[DF_MAX_BLOCKS];
  df_driver driver;
  for (uint32_t b = 0; b < context->device.shared->n_blocks; b++)
    quits[b] = df_load_relaxed_u64(&context->device.blocks[b].stats.quits);
  drive_begin(context, &driver);
  while (!all_have_left(context, quits)) {
    int happened = df_driver_turn(&driver, 0);
    df_reap_and_ring(context);
    if (!happened) df_cpu_yield();
  }
  df_driver_end(&driver);
  return dfcclSuccess;
}

/* ---- collectives ---- */

static dfcclResult_t describe(dfcclContext_t context, df_coll *coll) {
  uint32_t n_blocks = coll->shape.n_blocks, n_links = coll->plan->n_links * n_blocks;
  df_layout layout = {0};
  df_descriptor *d = NULL;
  df_link *links = n_links ? aligned_alloc(DF_CACHE_LINE, n_links * sizeof *links) : NULL;
  uint8_t *scratch = coll->shape.scratch_bytes
                         ? aligned_alloc(DF_CACHE_LINE, n_blocks * coll->shape.scratch_bytes)
                         : NULL;
  for (int pass = 0; pass < 2; pass++) {
    /* The words that the host writes begin a line of their own, the counters another one. */
    d = df_lay(&layout, sizeof *d + n_blocks * sizeof(df_part));
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
  if (d == NULL || (n_links && links == NULL) || (coll->shape.scratch_bytes && scratch == NULL)) {
    free(d);
    free(links);
    free(scratch);
    return df_fail(dfcclOutOfMemory, "no memory for collective %llu with %u links",
                   (unsigned long long)coll->id, n_links);
  }
  if (links) memset(links, 0, n_links * sizeof *links);
  d->primitives = coll->plan->primitives;
  d->links = coll->links = links;
  d->scratch = scratch;
  memcpy(d->parts, coll->shape.parts, n_blocks * sizeof *d->parts);
  context->device.shared->descriptors[coll->index] = coll->descriptor = d;
  return dfcclSuccess;
}

static void forget(dfcclContext_t context, df_coll *coll) {
  context->device.shared->descriptors[coll->index] = NULL;
  free((void *)(uintptr_t)coll->descriptor->prepared);
  free(coll->descriptor->scratch);
  free(coll->descriptor);
  free(coll->links);
}

/* Everything is where the daemon sees it. Without memory for records their primitives are worked
 * out at each step. */
static dfcclResult_t publish(dfcclContext_t context, df_coll *coll) {
  (void)context;
  df_descriptor *d = coll->descriptor;
  if (!df_prepared_is_kept(d)) return dfcclSuccess;
  df_prepared *records = aligned_alloc(DF_CACHE_LINE, d->n_primitives * sizeof *records);
  if (records) df_prepared_keep(d, records);
  return dfcclSuccess;
}

static dfcclResult_t clear(dfcclContext_t context, const df_coll *coll, uint8_t *rings) {
  (void)context;
  const df_shape *shape = &coll->shape;
  uint32_t n_slots = coll->ring.n_slots;
  for (uint32_t block = 0; block < shape->n_blocks; block++) {
    uint8_t *ring = rings + block * df_link_ring_bytes(shape->stride, n_slots);
    for (uint32_t slot = 0; slot <= n_slots; slot++)
      df_store_relaxed_u64((uint64_t *)(ring + (uint64_t)slot * shape->stride), 0);
    uint64_t *credit = (uint64_t *)(ring + (uint64_t)shape->stride * n_slots);
    df_store_relaxed_u64(credit + 1, 0); /* nobody holds what is lent */
  }
  return dfcclSuccess;
}

static int lends_to(dfcclContext_t context, uint32_t peer) {
  return context->control.peers[peer].local;
}

static dfcclResult_t create(dfcclContext_t context, df_segment **segment, uint64_t id,
                            size_t bytes) {
  (void)context;
  return df_segment_create(segment, id, bytes);
}

static dfcclResult_t map(dfcclContext_t context, uint32_t peer, df_segment **segment,
                         const df_message *message, int fd) {
  (void)context;
  (void)peer;
  return df_segment_map(segment, message->id, message->a, fd);
}

static uint64_t *take_reach(dfcclContext_t context) {
  return malloc(context->n_ranks * sizeof(uint64_t));
}
static void give_reach(dfcclContext_t context, uint64_t *reach) {
  (void)context;
  free(reach);
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
    .drive_begin = drive_begin,
    .drive_turn = drive_turn,
    .drive_has_reason = drive_has_reason,
    .drive_holds_all = drive_holds_all,
    .drive_release = drive_release,
    .drive_end = drive_end,
    .synchronize = synchronize,
    .holds_while_synchronizing = 1,
};

static const df_memory_ops memory_ops = {
    .describe = describe,
    .forget = forget,
    .publish = publish,
    .clear = clear,
    .host_sees_links = 1,
    .lends_to = lends_to,
    .create = create,
    .map = map,
    .lends_memory_to = lends_to,
    .take_reach = take_reach,
    .give_reach = give_reach,
};

const df_device_kind df_device_cpu = {
    .name = "CPU",
    .executor = &executor_ops,
    .memory = &memory_ops,
    .open = open_device,
    .close = close_device,
};
