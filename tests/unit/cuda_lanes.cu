/*
 * The CUDA daemon without a GPU: the code of a CUDA block (src/daemon_kernel/block_cuda.h), with
 * threads of the host as lanes and with barriers between them. Built with ThreadSanitizer where it
 * is available.
 *
 * Promises:
 *   - All lanes take the same branches. No lane misses a barrier (all would hang), and no lane
 *     accesses a decision of the leader without a barrier in between (ThreadSanitizer).
 *   - Shared memory need not be initialised, and nothing is lost with it at the end of a launch.
 *   - Collectives submitted in opposite orders on two ranks complete, each run once, with the right
 *     results, through preemption, parking and new launches.
 *   - The same holds for messages in words, of which each lane finds its own part.
 *   - A parked block resumes when there is work for it while other blocks are resident.
 *
 * The test cannot show how a GPU orders memory, schedules warps or performs.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* A block's barrier, and the votes of its lanes: two consecutive votes use different words. */
struct lanes_meeting {
  pthread_barrier_t barrier;
  uint32_t against[2];
};
thread_local lanes_meeting *meeting;
thread_local uint32_t votes;
#define DF_LANES_MEET() pthread_barrier_wait(&meeting->barrier)
[[maybe_unused]] static int lanes_agree(int fact) {
  uint32_t *against = &meeting->against[votes++ % 2];
  if (!fact) __atomic_store_n(against, 1, __ATOMIC_RELAXED);
  DF_LANES_MEET();
  const int all = __atomic_load_n(against, __ATOMIC_RELAXED) == 0;
  DF_LANES_MEET();
  __atomic_store_n(against, 0, __ATOMIC_RELAXED); /* until the vote after the next */
  return all;
}
#define DF_LANES_AGREE(fact) lanes_agree(fact)

#include "daemon_kernel/block_cuda.h"

enum {
  RANKS = 2,
  BLOCKS = 2,
  LANES = 3,
  COLLECTIVES = 4,
  RUNS = 3, /* <= DF_RUNS_AHEAD: all are submitted at once */
  COUNT = 1001,
  CHUNK = 128,
  LINK_SLOTS = 2,
  DEPTH = 16,
  CQ_WORDS = 64,
  CONTEXT_SLOTS = 2, /* fewer than collectives: contexts are evicted */
  SECONDS = 120
};

extern "C" void df_assert_failed(const char *fact, const char *file, int line) {
  printf("Bail out! broken invariant: %s (%s:%d)\n", fact, file, line);
  fflush(stdout);
  abort();
}
static void check_at(bool holds, const char *what, int line) {
  if (holds) return;
  printf("Bail out! line %d: %s\n", line, what);
  fflush(stdout);
  abort();
}
#define CHECK(fact) check_at(fact, #fact, __LINE__)

struct rank_state;
struct lane_thread {
  rank_state *rank;
  uint32_t block, lane;
  pthread_t thread;
};

struct rank_state {
  df_device device;
  df_block images[BLOCKS];
  df_sq_slot sq_slots[DEPTH];
  df_cq_ring rings[BLOCKS];
  uint64_t words[BLOCKS][CQ_WORDS];
  df_descriptor *table[COLLECTIVES];
  df_descriptor descriptors[COLLECTIVES];
  df_run_words run_words[COLLECTIVES];
  df_run_counters counters[COLLECTIVES];
  df_link links[COLLECTIVES][BLOCKS][2];
  df_part parts[BLOCKS];
  uint64_t progress[COLLECTIVES][BLOCKS];
  uint32_t order[BLOCKS][COLLECTIVES], pending[BLOCKS][COLLECTIVES];
  df_cursor memory[BLOCKS][COLLECTIVES];
  float input[COLLECTIVES][RUNS][COUNT], output[COLLECTIVES][RUNS][COUNT];
  uint32_t completed[COLLECTIVES];
  /* state of one launch */
  df_cuda_daemon daemon;
  df_cuda_gate gate;
  df_cuda_relay relay;
  df_sq_slot relay_slots[DEPTH];
  df_sq_record records[DEPTH];
  df_run_arguments near_runs[COLLECTIVES][DF_RUNS_AHEAD];
  uint32_t pushed[COLLECTIVES];
  uint32_t launches;
  df_cuda_shared shared[BLOCKS];
  lanes_meeting meetings[BLOCKS];
  lane_thread threads[BLOCKS * LANES];
};

static rank_state ranks[RANKS];
static bool relays; /* block 0 passes SQEs on */
/* Send the input, and add the received data to it. Rank 1 has its operands in the other order. */
static df_primitive primitives[RANKS][2];

static uint8_t *make_ring(uint32_t stride) {
  void *ring = NULL;
  const size_t bytes = df_link_ring_bytes(stride, LINK_SLOTS);
  CHECK(posix_memalign(&ring, DF_CACHE_LINE, bytes) == 0);
  memset(ring, 0, bytes);
  return (uint8_t *)ring;
}

/* Both ends of the link from one rank to the other. */
static void make_links(uint32_t from, uint32_t collective, uint32_t block) {
  /* In some collectives the payload is behind the commit word, aligned to 8 bytes only, or begins
   * at the next line; in others it travels in words. */
  const uint32_t offsets[] = {DF_LINK_FLAGGED_OFFSET, DF_LINK_LL, DF_LINK_STAGED_OFFSET};
  const uint32_t offset = offsets[collective % 3];
  df_link link;
  memset(&link, 0, sizeof link);
  link.stride = df_link_stride(CHUNK * sizeof(float), offset);
  link.slots = make_ring(link.stride);
  link.credit = (uint64_t *)(link.slots + (size_t)link.stride * LINK_SLOTS);
  link.slot_mask = LINK_SLOTS - 1;
  link.messages = 1;
  link.payload_offset = (uint8_t)offset;
  link.peer = 1 - from;
  link.sends = 1;
  ranks[from].links[collective][block][0] = link;
  link.peer = from;
  link.sends = 0;
  ranks[1 - from].links[collective][block][1] = link;
}

static void describe(rank_state *rank, uint32_t r, uint32_t c) {
  df_descriptor *desc = &rank->descriptors[c];
  desc->primitives = primitives[r];
  desc->links = &rank->links[c][0][0];
  desc->parts = rank->parts;
  desc->words = &rank->run_words[c];
  desc->counters = &rank->counters[c];
  desc->progress = rank->progress[c];
  desc->count = COUNT;
  desc->direct_min = UINT64_MAX;
  desc->n_primitives = desc->n_links = 2;
  desc->pieces = 1;
  desc->n_blocks = BLOCKS;
  desc->geometry = DF_GEOMETRY_PARTITION;
  desc->type = dfcclFloat32;
  desc->op = dfcclSum;
  desc->element_bytes = sizeof(float);
  desc->generation = 1;
  desc->near_runs = relays ? rank->near_runs[c] : NULL;
  rank->table[c] = desc;
  for (uint32_t run = 0; run < RUNS; run++) {
    desc->words->runs[run].send = rank->input[c][run];
    desc->words->runs[run].recv = rank->output[c][run];
    for (uint32_t i = 0; i < COUNT; i++)
      rank->input[c][run][i] = (float)((r + 1) * (i + 1) + 1000 * c + 100 * run);
  }
}

static void make_rank(uint32_t r, const df_tunables *tunables) {
  rank_state *rank = &ranks[r];
  memset(rank, 0, sizeof *rank);
  rank->device.descriptors = rank->table;
  rank->device.tunables = *tunables;
  rank->device.n_blocks = BLOCKS;
  df_sq_init(&rank->device.sq, rank->sq_slots, DEPTH, BLOCKS);
  rank->device.cq.variant = DF_CQ_PACKED;
  rank->device.cq.n_rings = BLOCKS;
  rank->device.cq.mask = CQ_WORDS - 1;
  rank->device.cq.rings = rank->rings;
  const uint64_t half = COUNT / BLOCKS;
  for (uint32_t b = 0; b < BLOCKS; b++) {
    rank->rings[b].words = rank->words[b];
    df_block *image = &rank->images[b];
    image->index = b;
    image->tasks.order = rank->order[b];
    image->tasks.pending = rank->pending[b];
    df_context_cache_init(&image->cache, NULL, 0, rank->memory[b]);
    image->cache.mask = CONTEXT_SLOTS - 1;
    df_part *part = &rank->parts[b];
    part->first = b * half;
    part->elements = b == BLOCKS - 1 ? COUNT - b * half : half;
    part->chunk = CHUNK;
    part->loops = (uint32_t)DF_DIV_UP(part->elements, (uint64_t)CHUNK);
    pthread_barrier_init(&rank->meetings[b].barrier, NULL, LANES);
  }
  rank->daemon.device = &rank->device;
  rank->daemon.blocks = rank->images;
  rank->daemon.gate = &rank->gate;
  if (relays) {
    df_sq_init(&rank->relay.queue, rank->relay_slots, DEPTH, 0);
    rank->device.sq.records = rank->records;
    rank->device.sq.passes_to = BLOCKS;
    rank->daemon.relay = &rank->relay;
  }
  for (uint32_t c = 0; c < COLLECTIVES; c++) describe(rank, r, c);
}

static void make_ranks(const df_tunables *tunables) {
  memset(primitives, 0, sizeof primitives);
  for (uint32_t r = 0; r < RANKS; r++) {
    df_primitive *p = primitives[r];
    p[0].flags = DF_PRIM_SEND;
    p[0].source = DF_BUFFER_INPUT;
    p[1].flags = DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_STORE;
    if (r == 0) p[1].flags |= DF_PRIM_SOURCE_FIRST;
    p[1].source = DF_BUFFER_INPUT;
    p[1].destination = DF_BUFFER_OUTPUT;
    p[1].recv_link = 1;
    make_rank(r, tunables);
  }
  for (uint32_t r = 0; r < RANKS; r++)
    for (uint32_t c = 0; c < COLLECTIVES; c++)
      for (uint32_t b = 0; b < BLOCKS; b++) make_links(r, c, b);
}

static void free_ranks() {
  for (uint32_t r = 0; r < RANKS; r++)
    for (uint32_t b = 0; b < BLOCKS; b++) {
      pthread_barrier_destroy(&ranks[r].meetings[b].barrier);
      for (uint32_t c = 0; c < COLLECTIVES; c++) free(ranks[r].links[c][b][0].slots);
    }
}

static void *run_lane(void *argument) {
  lane_thread *self = (lane_thread *)argument;
  meeting = &self->rank->meetings[self->block];
  votes = 0;
  df_lanes lanes = {self->lane, LANES, NULL, NULL, 0, 0, 0};
  df_cuda_execute_block(&self->rank->daemon, self->block, &self->rank->shared[self->block], &lanes);
  return NULL;
}

static void launch(rank_state *rank) {
  rank->daemon.launch = ++rank->launches;
  for (uint32_t b = 0; b < BLOCKS; b++) rank->images[b].running = 1;
  memset(rank->shared, 0xa5,
         sizeof rank->shared); /* filled with garbage, as uninitialised memory may be */
  for (uint32_t i = 0; i < BLOCKS * LANES; i++) {
    lane_thread *thread = &rank->threads[i];
    thread->rank = rank;
    thread->block = i / LANES;
    thread->lane = i % LANES;
    CHECK(pthread_create(&thread->thread, NULL, run_lane, thread) == 0);
  }
}

static void join(rank_state *rank) {
  for (uint32_t i = 0; i < BLOCKS * LANES; i++) pthread_join(rank->threads[i].thread, NULL);
  for (uint32_t b = 0; b < BLOCKS; b++) CHECK(rank->images[b].running == 0);
}

static void submit(rank_state *rank, uint32_t collective, uint32_t blocks) {
  df_sqe sqe = {collective, blocks};
  if (!relays) {
    CHECK(df_sq_push_spmc(&rank->device.sq, sqe));
    return;
  }
  const uint32_t run = rank->pushed[collective]++ % DF_RUNS_AHEAD;
  const df_sq_carried carried = {rank->run_words[collective].runs[run], run, 1};
  CHECK(df_sq_push_spsc(&rank->device.sq, sqe, &carried));
}

static uint32_t collect(rank_state *rank) {
  df_cqe cqe;
  uint32_t n = 0;
  while (df_cq_pop_mpsc(&rank->device.cq, &cqe)) {
    CHECK(cqe.collective < COLLECTIVES && cqe.status == 0);
    CHECK(++rank->completed[cqe.collective] <= RUNS);
    n++;
  }
  return n;
}

/* Launches the ranks repeatedly until they have completed all submitted runs. */
static void finish(uint32_t runs_each) {
  uint32_t left = RANKS * runs_each;
  while (left > 0) {
    for (uint32_t r = 0; r < RANKS; r++) launch(&ranks[r]);
    for (uint32_t r = 0; r < RANKS; r++) join(&ranks[r]);
    for (uint32_t r = 0; r < RANKS; r++) left -= collect(&ranks[r]);
  }
}

static void check_results(uint32_t collectives) {
  for (uint32_t r = 0; r < RANKS; r++)
    for (uint32_t c = 0; c < collectives; c++) {
      CHECK(ranks[r].completed[c] == RUNS);
      for (uint32_t run = 0; run < RUNS; run++)
        for (uint32_t i = 0; i < COUNT; i++)
          CHECK(ranks[r].output[c][run][i] ==
                ranks[0].input[c][run][i] + ranks[1].input[c][run][i]);
    }
}

static uint64_t preemptions() {
  uint64_t sum = 0;
  for (uint32_t r = 0; r < RANKS; r++)
    for (uint32_t b = 0; b < BLOCKS; b++) sum += ranks[r].images[b].stats.preemptions;
  return sum;
}

/* All runs in opposite orders. */
static void opposite_orders(uint32_t preempt_every) {
  const df_tunables tunables = {4000, 1000, 2, 4000, 64000, preempt_every, 0, 0};
  make_ranks(&tunables);
  for (uint32_t run = 0; run < RUNS; run++)
    for (uint32_t i = 0; i < COLLECTIVES; i++) {
      submit(&ranks[0], i, BLOCKS);
      submit(&ranks[1], COLLECTIVES - 1 - i, BLOCKS);
    }
  finish(RUNS * COLLECTIVES);
  check_results(COLLECTIVES);
  CHECK(preemptions() > 0);
  free_ranks();
}

/* Rank 0 finds no peer, saves the run that it has begun, and leaves; later both are resident. */
static void a_launch_ends_stuck() {
  const df_tunables tunables = {4000, 1000, 2, 4000, 16000, 0, 0, 0};
  make_ranks(&tunables);
  for (uint32_t run = 0; run < RUNS; run++) submit(&ranks[0], 0, BLOCKS);
  launch(&ranks[0]);
  join(&ranks[0]);
  CHECK(collect(&ranks[0]) == 0);
  for (uint32_t b = 0; b < BLOCKS; b++) {
    CHECK(ranks[0].images[b].stats.quits >= 1);
    CHECK(ranks[0].memory[b][0].phase == DF_PHASE_MOVE && ranks[0].memory[b][0].loop == 0);
    CHECK(ranks[0].memory[b][0].primitive == 1); /* it has sent, and waits for the answer */
  }
  for (uint32_t run = 0; run < RUNS; run++) submit(&ranks[1], 0, BLOCKS);
  finish(RUNS);
  check_results(1);
  free_ranks();
}

/* Makes the collective copy its input to its output in many small steps, on block 0 alone. */
static void make_local_copy(df_descriptor *desc, df_part *part, df_primitive *copy) {
  memset(copy, 0, sizeof *copy);
  copy->flags = DF_PRIM_STORE;
  copy->source = DF_BUFFER_INPUT;
  copy->destination = DF_BUFFER_OUTPUT;
  part->first = 0;
  part->elements = COUNT;
  part->chunk = 16;
  part->loops = DF_DIV_UP(COUNT, 16);
  desc->parts = part;
  desc->primitives = copy;
  desc->n_primitives = desc->n_blocks = 1;
  desc->n_links = 0;
}

/* Batches of runs that do not concern block 1 keep block 0 busy. Block 1 fetches a batch at once,
 * parks while block 0 executes it, and must resume to fetch the next one. */
static void a_parked_block_comes_back() {
  enum { BATCH = (COLLECTIVES - 1) * DF_RUNS_AHEAD, MORE_AT = BATCH / 2 };
  const df_tunables tunables = {4000, 1000, 2, 4000, 16000, 0, 0, 0};
  make_ranks(&tunables);
  rank_state *rank = &ranks[0];
  df_primitive copy;
  df_part part;
  for (uint32_t c = 1; c < COLLECTIVES; c++) {
    make_local_copy(&rank->descriptors[c], &part, &copy);
    rank->run_words[c].runs[RUNS] = rank->run_words[c].runs[0]; /* run numbers continue */
  }
  launch(rank);
  uint64_t pushed = 0, popped = 0;
  df_cqe cqe;
  const uint64_t *starts = &rank->images[1].stats.starts; /* shown when the block waits */
  while (df_load_relaxed_u64(starts) <= rank->launches) {
    for (uint64_t room = pushed - popped <= MORE_AT ? BATCH - (pushed - popped) : 0; room; room--) {
      const df_sqe sqe = {1 + (uint32_t)(pushed % (COLLECTIVES - 1)), 1};
      if (!df_sq_push_spmc(&rank->device.sq, sqe)) break;
      pushed++;
    }
    while (df_cq_pop_mpsc(&rank->device.cq, &cqe)) popped++;
    if (df_observe_u32(&rank->images[0].running) == 0 &&
        df_observe_u32(&rank->images[1].running) == 0) { /* both found a moment without work */
      join(rank);
      launch(rank);
    }
  }
  df_publish_u32(&rank->device.exit, 1);
  join(rank);
  while (df_cq_pop_mpsc(&rank->device.cq, &cqe)) popped++;
  CHECK(popped > 0 && popped <= pushed);
  CHECK(memcmp(rank->output[1][0], rank->input[1][0], sizeof rank->input[1][0]) == 0);
  CHECK(rank->images[1].stats.starts > rank->launches);
  free_ranks();
}

int main() {
  alarm(SECONDS); /* a lane that misses a barrier hangs */
  printf("1..6\n");
  opposite_orders(0);
  printf("ok 1 opposite orders\n");
  opposite_orders(1);
  printf("ok 2 opposite orders, preempted after every step\n");
  a_launch_ends_stuck();
  printf("ok 3 a launch ends stuck, the next one goes on\n");
  a_parked_block_comes_back();
  printf("ok 4 a parked block comes back\n");
  relays = true;
  opposite_orders(0);
  printf("ok 5 opposite orders, entries passed on by block 0\n");
  a_launch_ends_stuck();
  printf("ok 6 the same, a launch ends stuck\n");
  return 0;
}
