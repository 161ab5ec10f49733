#include "daemon_world.h"

#include <stdlib.h>
#include <string.h>

static void *put(arena *a, const void *content, size_t bytes) {
  a->used = DF_ALIGN_UP(a->used, (size_t)DF_CACHE_LINE);
  CHECK(a->used + bytes <= ARENA_BYTES, "the arena is too small");
  if (content) memcpy(a->staged + a->used, content, bytes);
  void *at = a->base + a->used;
  a->used += bytes;
  return at;
}
/* ---- the same collectives on the CPU, which computes the expected results */

static group_options random_collective(world *w) {
  static const struct {
    df_operation operation;
    const char *name;
  } kinds[] = {{DF_OP_ALL_REDUCE, "ring"},    {DF_OP_ALL_REDUCE, "allpairs"},
               {DF_OP_REDUCE, "ring"},        {DF_OP_BROADCAST, "ring"},
               {DF_OP_ALL_GATHER, "ring"},    {DF_OP_REDUCE_SCATTER, "ring"},
               {DF_OP_ALL_TO_ALL, "pairwise"}};
  static const uint64_t counts[] = {0, 1, 7, 64, 333, 2000};
  df_random *random = &w->random;
  const int kind = df_random_below(random, (int)DF_COUNT_OF(kinds));
  const dfcclDataType_t type = (dfcclDataType_t)df_random_below(random, DF_DATA_TYPES);
  dfcclRedOp_t op = (dfcclRedOp_t)df_random_below(random, DF_REDUCE_OPERATORS);
  if (!df_type_has_operator(type, op)) op = dfcclSum;
  return (group_options){
      .operation = kinds[kind].operation,
      .algorithm = kinds[kind].name,
      .n = w->o.ranks,
      .root = (uint32_t)df_random_below(random, (int)w->o.ranks),
      .count = counts[df_random_below(random, (int)DF_COUNT_OF(counts))],
      .type = type,
      .op = op,
      .limits = {.slot_bytes = 64u << df_random_below(random, 5),
                 .slots = 2u << df_random_below(random, 2),
                 .flagged_max = 512,
                 .block_min = 64,
                 .max_blocks = 1 + (uint32_t)df_random_below(random, (int)w->o.blocks)},
      .lends = df_random_chance(random, 30)};
}

static void compute_on_cpu(world *w, uint32_t c, uint32_t run) {
  group *g = &w->groups[c];
  const size_t sent = g->o.count * group_pieces(&g->o, 0) * g->element;
  const size_t received = g->o.count * group_pieces(&g->o, 1) * g->element;
  for (uint32_t r = 0; r < w->o.ranks; r++) {
    group_rank *me = &g->ranks[r];
    rank *on_device = &w->ranks[r];
    buffers *b = &on_device->buffers[c][run];
    for (size_t i = 0; i < sent; i++) me->input[i] = (uint8_t)df_random_next(&w->random);
    me->send = g->o.operation == DF_OP_BROADCAST && r != g->o.root ? NULL : me->input;
    me->recv = g->o.operation == DF_OP_REDUCE && r != g->o.root ? NULL : me->output;
    if (me->send) b->send = put(&on_device->memory, me->input, sent);
    if (me->recv) b->recv = put(&on_device->memory, NULL, received);
    b->recv_bytes = received;
  }
  group_run(g, run);
  for (uint32_t r = 0; r < w->o.ranks; r++) {
    buffers *b = &w->ranks[r].buffers[c][run];
    if (!b->recv) continue;
    b->expected = malloc(received + 1);
    memcpy(b->expected, g->ranks[r].output, received);
  }
}

/* ---- laying out the devices */

void enter_device(const world *w, uint32_t r) { CUDA(cudaSetDevice((int)(r % w->o.devices))); }

/* The last message before the first run. */
static uint64_t sent_before(const world *w, uint32_t c, uint32_t block, const df_link *link) {
  return (w->first_run[c] * w->shapes[c].parts[block].loops * link->messages) & DF_SEQUENCE_MASK;
}

static uint8_t *ring_of(world *w, uint32_t c, uint32_t from, uint32_t to, const df_link *link) {
  const df_shape *shape = &w->shapes[c];
  const uint64_t bytes = df_link_ring_bytes(shape->stride, shape->n_slots);
  arena *a = &w->ranks[to].memory;
  uint8_t **ring = &w->rings[c][from][to];
  if (*ring) return *ring;
  a->used = DF_ALIGN_UP(a->used, (size_t)DF_CACHE_LINE);
  *ring = put(a, NULL, bytes * shape->n_blocks);
  for (uint32_t b = 0; b < shape->n_blocks; b++) {
    const uint64_t before = sent_before(w, c, b, link);
    uint8_t *credit =
        a->staged + (*ring - a->base) + b * bytes + (size_t)shape->stride * shape->n_slots;
    memcpy(credit, &before, sizeof before);
  }
  return *ring;
}

static void describe(world *w, uint32_t r, uint32_t c) {
  rank *me = &w->ranks[r];
  group *g = &w->groups[c];
  const df_plan *plan = g->ranks[r].plan;
  df_descriptor desc = *g->ranks[r].desc;
  const uint32_t n = desc.n_blocks;
  df_link *links = calloc((size_t)n * plan->n_links + 1, sizeof *links);
  for (uint32_t i = 0; i < n * plan->n_links; i++) {
    df_link *link = &links[i];
    *link = desc.links[i];
    const df_shape *shape = &w->shapes[c];
    uint8_t *ring =
        link->sends ? ring_of(w, c, r, link->peer, link) : ring_of(w, c, link->peer, r, link);
    link->stride = shape->stride;
    link->slots = ring + i / plan->n_links * df_link_ring_bytes(link->stride, shape->n_slots);
    link->credit = (uint64_t *)(link->slots + (size_t)link->stride * shape->n_slots);
    link->credit_seen = sent_before(w, c, i / plan->n_links, link);
    link->peer_bell = NULL;
    link->payload_offset = (uint8_t)shape->payload_offset;
    if (shape->payload_offset == DF_LINK_LL && shape->n_slots >= 8)
      link->release_mask = (uint16_t)(shape->n_slots / 4 - 1);
  }
  desc.links = put(&me->memory, links, (size_t)n * plan->n_links * sizeof *links);
  free(links);
  desc.primitives = put(&me->memory, desc.primitives, desc.n_primitives * sizeof *desc.primitives);
  desc.parts = put(&me->memory, desc.parts, n * sizeof *desc.parts);
  if (desc.scratch) desc.scratch = put(&me->memory, NULL, n * desc.scratch_bytes);
  desc.counters = put(&me->memory, NULL, sizeof *desc.counters);
  desc.near_runs =
      w->o.relays ? put(&me->memory, NULL, DF_RUNS_AHEAD * sizeof *desc.near_runs) : NULL;
  desc.progress = put(&me->mapped, NULL, n * sizeof *desc.progress);
  desc.words = me->words[c] = put(&me->mapped, NULL, sizeof *desc.words);
  if (w->shapes[c].payload_offset == DF_LINK_LL) desc.direct_min = UINT64_MAX;
  desc.priority = w->o.by_priority ? df_random_below(&w->random, 3) - 1 : 0;
  me->descriptors[c] = put(&me->memory, &desc, sizeof desc);
}

static void lay_out_blocks(world *w, rank *me) {
  const uint32_t n = w->o.blocks;
  df_device *device = me->device;
  device->tunables = w->o.tunables;
  device->n_blocks = n;
  device->by_priority = (uint32_t)w->o.by_priority;
  df_sq_init(&device->sq, put(&me->mapped, NULL, DEPTH * sizeof(df_sq_slot)), DEPTH, n);
  if (w->o.relays) {
    df_cuda_relay relay;
    memset(&relay, 0, sizeof relay);
    df_sq_init(&relay.queue, put(&me->memory, NULL, DEPTH * sizeof(df_sq_slot)), DEPTH, 0);
    device->sq.records = put(&me->mapped, NULL, DEPTH * sizeof(df_sq_record));
    device->sq.passes_to = n;
    me->daemon.relay = put(&me->memory, &relay, sizeof relay);
  }
  device->cq = (df_cq){.variant = w->o.cq,
                       .n_rings = w->o.cq == DF_CQ_SLOTS_CAS ? 1 : n,
                       .mask = CQ_WORDS - 1,
                       .rings = put(&me->mapped, NULL, n * sizeof(df_cq_ring))};
  me->daemon.blocks = put(&me->mapped, NULL, n * sizeof(df_block));
  for (uint32_t b = 0; b < n; b++) {
    df_block *image = &me->daemon.blocks[b];
    device->cq.rings[b].words = put(&me->mapped, NULL, CQ_WORDS * sizeof(uint64_t));
    image->index = b;
    image->tasks.order = put(&me->memory, NULL, COLLECTIVES * sizeof(uint32_t));
    image->tasks.pending = put(&me->memory, NULL, COLLECTIVES * sizeof(uint32_t));
    df_cursor saved[COLLECTIVES];
    memset(saved, 0, sizeof saved);
    for (uint32_t c = 0; c < COLLECTIVES; c++) {
      saved[c].run = w->first_run[c];
      saved[c].generation = 1;
    }
    image->cache.memory = put(&me->memory, saved, sizeof saved);
    image->cache.mask = CONTEXT_SLOTS - 1;
  }
}

static void open_rank(world *w, uint32_t r) {
  rank *me = &w->ranks[r];
  int least, greatest;
  enter_device(w, r);
  for (uint32_t d = 0; d < w->o.devices; d++)
    if (d != r % w->o.devices) {
      const cudaError_t error = cudaDeviceEnablePeerAccess((int)d, 0);
      CHECK(error == cudaSuccess || error == cudaErrorPeerAccessAlreadyEnabled, "%s",
            cudaGetErrorString(error));
    }
  CUDA(cudaMalloc((void **)&me->memory.base, ARENA_BYTES));
  CUDA(cudaHostAlloc((void **)&me->mapped.base, ARENA_BYTES, cudaHostAllocMapped));
  me->memory.staged = calloc(1, ARENA_BYTES);
  me->mapped.staged = me->mapped.base; /* the host itself writes there */
  CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  CUDA(cudaStreamCreateWithPriority(&me->stream, cudaStreamNonBlocking, greatest));
  me->device = put(&me->mapped, NULL, sizeof *me->device);
  me->daemon.device = me->device;
  me->daemon.errand = put(&me->mapped, NULL, sizeof *me->daemon.errand);
  me->daemon.gate = put(&me->memory, NULL, sizeof *me->daemon.gate);
}

/* Forces the case in which an address is too long for a record. */
static int is_far(uint32_t collective) { return collective % 4 == 3; }

static void give_arguments(const world *w, rank *me, uint32_t c, uint32_t run) {
  const uint64_t place = (w->first_run[c] + run) % DF_RUNS_AHEAD;
  const df_run_arguments arguments = {.send = me->buffers[c][run].send,
                                      .recv = me->buffers[c][run].recv};
  if (w->o.relays && !is_far(c))
    me->arguments[c][place] = arguments;
  else
    me->words[c]->runs[place] = arguments;
}

static void close_arena(world *w, uint32_t r) { /* the layout is complete */
  rank *me = &w->ranks[r];
  me->device->descriptors = put(&me->memory, me->descriptors, sizeof me->descriptors);
  CUDA(cudaMemcpy(me->memory.base, me->memory.staged, me->memory.used, cudaMemcpyHostToDevice));
  free(me->memory.staged);
  for (uint32_t c = 0; c < COLLECTIVES; c++)
    for (uint32_t run = 0; run < RUNS; run++) give_arguments(w, me, c, run);
  for (uint32_t i = 0; i < COLLECTIVES * RUNS; i++) me->order[i] = i % COLLECTIVES;
  df_random_shuffle(&w->random, (int *)me->order, COLLECTIVES * RUNS);
  me->left = COLLECTIVES * RUNS;
}

/* The shape on the device, and a first run number: half of the collectives start so that flags
 * reach their end and begin again during the next runs. */
static void shape_on_device(world *w, uint32_t c, const df_shape_limits *limits) {
  const group *g = &w->groups[c];
  const df_plan *plan = g->ranks[df_random_below(&w->random, (int)w->o.ranks)].plan;
  df_shape_limits with_flags = *limits;
  with_flags.words_max = df_random_chance(&w->random, 70) ? 4096 : 0;
  df_shape_make(&w->shapes[c], plan, g->o.count, g->element, &with_flags);
  const uint32_t offset = w->shapes[c].payload_offset;
  w->in_words += offset == DF_LINK_LL;
  const uint64_t each =
      (uint64_t)w->shapes[c].parts[0].loops * (plan->n_links ? plan->links[0].messages : 0);
  if (each == 0 || df_random_chance(&w->random, 50)) return;
  const uint64_t end =
      df_random_chance(&w->random, 80) ? (uint64_t)DF_LINK_FLAG : (uint64_t)DF_LINK_FLAG << 12;
  w->first_run[c] = end / each - (uint64_t)df_random_below(&w->random, 2);
}

world *open_world(const options *o) {
  setenv("CUDA_EMULATOR_MULTIPROCESSORS", o->multiprocessors, 1);
  world *w = calloc(1, sizeof *w);
  w->o = *o;
  w->random.state = o->seed;
  for (uint32_t r = 0; r < o->ranks; r++) open_rank(w, r);
  for (uint32_t c = 0; c < COLLECTIVES; c++) {
    const group_options collective = random_collective(w);
    group_open(&w->groups[c], &collective, o->seed + c);
    shape_on_device(w, c, &collective.limits);
    for (uint32_t run = 0; run < RUNS; run++) compute_on_cpu(w, c, run);
    for (uint32_t r = 0; r < o->ranks; r++) describe(w, r, c);
  }
  for (uint32_t r = 0; r < o->ranks; r++) lay_out_blocks(w, &w->ranks[r]);
  for (uint32_t r = 0; r < o->ranks; r++) {
    enter_device(w, r);
    close_arena(w, r);
  }
  return w;
}

void close_world(world *w) {
  for (uint32_t r = 0; r < w->o.ranks; r++) {
    rank *me = &w->ranks[r];
    cudaSetDevice(
        (int)(r % w->o.devices)); /* the device may be lost; the context is released nevertheless */
    cudaStreamDestroy(me->stream);
    cudaFree(me->memory.base);
    cudaFreeHost(me->mapped.base);
    for (uint32_t c = 0; c < COLLECTIVES; c++)
      for (uint32_t run = 0; run < RUNS; run++) free(me->buffers[c][run].expected);
  }
  for (uint32_t c = 0; c < COLLECTIVES; c++) group_close(&w->groups[c]);
  free(w);
  nothing_is_left();
}

/* ---- the host's part */

void launch_if_gone(world *w, uint32_t r) {
  rank *me = &w->ranks[r];
  for (uint32_t b = 0; b < w->o.blocks; b++)
    if (df_observe_u32(&me->daemon.blocks[b].running)) return;
  const cudaError_t state = cudaStreamQuery(me->stream);
  if (state == cudaErrorNotReady) return;
  CUDA(state);
  me->daemon.launch = ++me->launches;
  for (uint32_t b = 0; b < w->o.blocks; b++) df_publish_u32(&me->daemon.blocks[b].running, 1);
  void *arguments[] = {&me->daemon};
  cudaLaunchConfig_t config = {
      .gridDim = {w->o.blocks, 1, 1}, .blockDim = {w->o.lanes, 1, 1}, .stream = me->stream};
  CUDA(cudaLaunchKernelExC(&config, df_cuda_daemon_kernel(), arguments));
}

/* A relay takes a run's arguments from its record, and the run's words are not used then. */
static int submit_to_relay(const world *w, rank *me, df_sqe sqe) {
  const uint64_t run = w->first_run[sqe.collective] + me->pushed[sqe.collective];
  const uint32_t place = (uint32_t)(run % DF_RUNS_AHEAD);
  const df_sq_carried carried = {.arguments = me->arguments[sqe.collective][place],
                                 .run = place,
                                 .near = !is_far(sqe.collective)};
  if (!df_sq_push_spsc(&me->device->sq, sqe, &carried)) return 0;
  me->pushed[sqe.collective]++;
  return 1;
}

static int submit_one(world *w, rank *me) {
  if (me->submitted == COLLECTIVES * RUNS) return 0;
  const uint32_t c = me->order[me->submitted];
  const df_sqe sqe = {.collective = c, .blocks = w->groups[c].shape.n_blocks};
  if (w->o.relays ? !submit_to_relay(w, me, sqe) : !df_sq_push_spmc(&me->device->sq, sqe)) return 0;
  me->submitted++;
  return 1;
}

static void submit_some(world *w, rank *me) {
  for (int n = df_random_below(&w->random, 4); n > 0 && submit_one(w, me); n--) continue;
}

void submit_all(world *w, uint32_t r) {
  while (submit_one(w, &w->ranks[r])) continue;
}

int has_fetched(const world *w, uint32_t r) {
  const df_sq *sq = &w->ranks[r].device->sq;
  return df_observe_u32(&sq->slots[0].readers_left) == 0;
}

static void collect(rank *me, uint32_t status) {
  df_cqe cqe;
  while (df_cq_pop_mpsc(&me->device->cq, &cqe)) {
    CHECK(cqe.collective < COLLECTIVES, "collective %u", cqe.collective);
    /* A run of a cancelled collective may have completed if it had nothing to wait for. */
    CHECK(cqe.status == status || cqe.status == 0, "status %u", cqe.status);
    me->failed += cqe.status != 0;
    CHECK(++me->completed[cqe.collective] <= RUNS, "collective %u: one completion too many",
          cqe.collective);
    me->left--;
  }
}

/* Calls of the device that a program may make meanwhile. Each waits for the daemons, which must
 * quit. */
static void use_device(world *w) {
  void *memory;
  CUDA(cudaSetDevice(df_random_below(&w->random, (int)w->o.devices)));
  switch (df_random_below(&w->random, 3)) {
  case 0:
    CUDA(cudaDeviceSynchronize());
    break;
  case 1:
    CUDA(cudaMalloc(&memory, 1000));
    CUDA(cudaFree(memory));
    break;
  default:
    CUDA(cudaHostAlloc(&memory, 1000, cudaHostAllocDefault));
    CUDA(cudaFreeHost(memory));
  }
}

void finish(world *w, uint32_t status) {
  uint32_t left;
  do {
    left = 0;
    for (uint32_t r = 0; r < w->o.ranks; r++) {
      rank *me = &w->ranks[r];
      enter_device(w, r);
      submit_some(w, me);
      if (me->left > 0) launch_if_gone(w, r);
      collect(me, status);
      left += me->left;
    }
    if (w->o.synchronise && df_random_chance(&w->random, 5)) use_device(w);
    df_nap();
  } while (left > 0);
  for (uint32_t d = 0; d < w->o.devices; d++) {
    CUDA(cudaSetDevice((int)d));
    CUDA(cudaDeviceSynchronize());
  }
  for (uint32_t r = 0; r < w->o.ranks; r++) collect(&w->ranks[r], status);
}

static void say_what_is_wrong(const world *w, uint32_t r, uint32_t c, uint32_t run, size_t i,
                              uint8_t got) {
  const group_options *o = &w->groups[c].o;
  const buffers *b = &w->ranks[r].buffers[c][run];
  CHECK(0,
        "seed %llu: %s %s of %llu, type %d, operator %d, run %u, rank %u: byte %zu of %zu is "
        "%02x, on the CPU %02x",
        (unsigned long long)w->o.seed, df_operation_name(o->operation), o->algorithm,
        (unsigned long long)o->count, (int)o->type, (int)o->op, run, r, i, b->recv_bytes, got,
        b->expected[i]);
}

static uint64_t compare_results(world *w, int says) {
  uint64_t wrong = 0;
  for (uint32_t r = 0; r < w->o.ranks; r++) {
    enter_device(w, r);
    for (uint32_t c = 0; c < COLLECTIVES; c++)
      for (uint32_t run = 0; run < RUNS; run++) {
        const buffers *b = &w->ranks[r].buffers[c][run];
        if (!b->expected || b->recv_bytes == 0) continue;
        uint8_t *got = malloc(b->recv_bytes);
        CUDA(cudaMemcpy(got, b->recv, b->recv_bytes, cudaMemcpyDeviceToHost));
        for (size_t i = 0; i < b->recv_bytes; i++) {
          if (got[i] == b->expected[i]) continue;
          if (says) say_what_is_wrong(w, r, c, run, i, got[i]);
          wrong++;
        }
        free(got);
      }
  }
  return wrong;
}

void check_results(world *w) { (void)compare_results(w, 1); }
uint64_t count_wrong_bytes(world *w) { return compare_results(w, 0); }

uint64_t sum_of(const world *w, size_t offset) {
  uint64_t sum = 0;
  for (uint32_t r = 0; r < w->o.ranks; r++)
    for (uint32_t b = 0; b < w->o.blocks; b++)
      sum += *(const uint64_t *)((const uint8_t *)&w->ranks[r].daemon.blocks[b].stats + offset);
  return sum;
}
