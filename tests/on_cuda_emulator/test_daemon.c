/*
 * Promises of the CUDA daemon (src/daemon_kernel/daemon_cuda.cu), executed by the emulated runtime
 * with memory laid out as daemon_cuda.h prescribes, with several ranks on one or more devices:
 *   - Collectives submitted in any order on any rank complete, each run exactly once, with the bits
 *     that the CPU's mover gives for the same plan, whatever is preempted, quit and launched again.
 *   - Device synchronisations and allocations between them return.
 *   - Both hold for messages in words and in lines, also where their flags or sequence numbers
 *     begin again, and where some links of a collective are in lines and others are not.
 *   - Both hold if the device cannot hold the blocks of two ranks at one time.
 *   - A cancelled collective completes with its status. The daemon on a lost device stops.
 *   - A turn that would poll for ever ends when the launch is recalled or has run long enough, and
 *     when its collective is cancelled. Meanwhile it passes on the entries that other blocks must
 *     fetch. It also ends for a transfer that the host requests: all lanes copy or zero the words,
 *     of rings only those that an end reads before the other end has written them.
 *   - The host finds the words of a transfer when it observes its end, and a block's image when it
 *     observes that the block has left, although stores are held back. Without the releases it does
 *     not.
 */
#include "daemon_world.h"

enum { US = 1000 };
static const df_tunables usual = {.spin_front = 100 * US,
                                  .spin_min = 10 * US,
                                  .spin_boost = 4,
                                  .fetch_polls = 100 * US,
                                  .quit_polls = 500 * US,
                                  .life = 20000 * US};

static void run_worlds(options o, uint32_t worlds) {
  uint64_t preemptions = 0, quits = 0, in_words = 0;
  o.multiprocessors = o.multiprocessors ? o.multiprocessors : "8";
  for (uint32_t i = 0; i < worlds; i++) {
    o.seed = 1000 * o.seed + i + 1;
    o.cq = (df_cq_variant)(i % 3);
    o.lanes = i % 2 ? 32 : 64;
    o.relays = i / 2 % 2;
    world *w = open_world(&o);
    finish(w, 0);
    check_results(w);
    preemptions += SUM_OF(w, preemptions);
    quits += SUM_OF(w, quits);
    in_words += w->in_words;
    close_world(w);
    o.seed /= 1000;
  }
  CHECK(in_words > 0, "no collective's payload has travelled in words");
  CHECK(preemptions > 0 && quits > 0, "%llu preemptions, %llu quits",
        (unsigned long long)preemptions, (unsigned long long)quits);
}

DF_TEST(emulated_daemon, disorder_on_one_device, 120) {
  run_worlds((options){.ranks = 3, .devices = 1, .blocks = 2, .tunables = usual, .seed = 1}, 8);
}

DF_TEST(emulated_daemon, preempted_after_every_step, 120) {
  df_tunables tunables = usual;
  tunables.preempt_every = 1;
  run_worlds((options){.ranks = 2, .devices = 1, .blocks = 2, .tunables = tunables, .seed = 2}, 6);
}

DF_TEST(emulated_daemon, peers_on_two_devices, 120) {
  run_worlds((options){.ranks = 4, .devices = 2, .blocks = 3, .tunables = usual, .seed = 3}, 4);
}

DF_TEST(emulated_daemon, by_priority_on_short_thresholds, 120) {
  const df_tunables tunables = {
      .spin_front = 1, .spin_min = 1, .spin_boost = 1, .fetch_polls = 1, .quit_polls = 20 * US};
  run_worlds(
      (options){
          .ranks = 3, .devices = 1, .blocks = 2, .tunables = tunables, .by_priority = 1, .seed = 4},
      6);
}

DF_TEST(emulated_daemon, synchronisations_and_allocations_between, 120) {
  run_worlds(
      (options){
          .ranks = 3, .devices = 1, .blocks = 2, .tunables = usual, .synchronise = 1, .seed = 5},
      10);
}

/* The device has room for the blocks of one rank and a part of another's. */
DF_TEST(emulated_daemon, a_device_too_small_for_two_ranks, 120) {
  df_tunables tunables = usual;
  tunables.quit_polls = 100 * US;
  run_worlds((options){.ranks = 3,
                       .devices = 1,
                       .blocks = 2,
                       .tunables = tunables,
                       .multiprocessors = "3",
                       .seed = 6},
             4);
}

/* Rank 1 never submits: rank 0 is blocked until its collectives are cancelled. */
DF_TEST(emulated_daemon, cancelled_collectives_complete, 120) {
  const options o = {.ranks = 2,
                     .devices = 1,
                     .blocks = 2,
                     .lanes = 32,
                     .multiprocessors = "8",
                     .tunables = usual,
                     .cq = DF_CQ_PACKED,
                     .seed = 7};
  world *w = open_world(&o);
  rank *me = &w->ranks[0];
  w->o.ranks = 1; /* the least progress that the loops below need */
  for (uint32_t c = 0; c < COLLECTIVES; c++) df_publish_u32(&me->words[c]->cancel, dfcclAborted);
  df_publish_u32(&me->device->failures, COLLECTIVES);
  finish(w, dfcclAborted);
  for (uint32_t c = 0; c < COLLECTIVES; c++)
    CHECK(me->completed[c] == RUNS, "collective %u: %u completions", c, me->completed[c]);
  CHECK(me->failed > 0, "no run reports that it is cancelled");
  w->o.ranks = 2;
  close_world(w);
}

/* ---- turns that only a word of the host's, or the launch's age, can end */

static const df_tunables patient = {.spin_front = UINT32_MAX,
                                    .spin_min = UINT32_MAX,
                                    .spin_boost = 1,
                                    .fetch_polls = UINT32_MAX,
                                    .quit_polls = UINT32_MAX};

/* Rank 0 polls in its first collective that needs the peer, which never submits. */
static world *open_stuck(const df_tunables *tunables, int relays) {
  const options o = {.ranks = 2,
                     .devices = 1,
                     .blocks = 2,
                     .lanes = 32,
                     .multiprocessors = "8",
                     .tunables = *tunables,
                     .cq = DF_CQ_PACKED,
                     .relays = relays,
                     .seed = 7};
  world *w = open_world(&o);
  enter_device(w, 0);
  submit_all(w, 0);
  launch_if_gone(w, 0);
  EVENTUALLY(has_fetched(w, 0));
  return w;
}

static void close_stuck(world *w) {
  rank *me = &w->ranks[0];
  df_waiting_for("the end of a launch whose turn polls for ever");
  CUDA(cudaStreamSynchronize(me->stream));
  df_waiting_for(NULL);
  for (uint32_t b = 0; b < w->o.blocks; b++)
    CHECK(!df_observe_u32(&me->daemon.blocks[b].running), "block %u has not left", b);
  close_world(w);
}

DF_TEST(emulated_daemon, a_recall_ends_a_turn, 30) {
  world *w = open_stuck(&patient, 0);
  df_publish_u32(&w->ranks[0].device->recalled, w->ranks[0].launches);
  close_stuck(w);
}

DF_TEST(emulated_daemon, a_launch_ends_itself_when_it_has_lived_long_enough, 30) {
  df_tunables tunables = patient;
  tunables.life = 20000 * US;
  close_stuck(open_stuck(&tunables, 1));
}

DF_TEST(emulated_daemon, a_turn_ends_when_its_collective_is_cancelled, 30) {
  df_tunables tunables = patient;
  tunables.quit_polls = 500 * US; /* finish waits for the device */
  world *w = open_stuck(&tunables, 0);
  rank *me = &w->ranks[0];
  for (uint32_t c = 0; c < COLLECTIVES; c++) df_publish_u32(&me->words[c]->cancel, dfcclAborted);
  df_publish_u32(&me->device->failures, COLLECTIVES);
  w->o.ranks = 1; /* the least progress that finish needs */
  df_waiting_for("collectives that were given up during a turn");
  finish(w, dfcclAborted);
  df_waiting_for(NULL);
  w->o.ranks = 2;
  CHECK(me->failed > 0, "no run reports that it is given up");
  close_stuck(w);
}

/* ---- transfers for the host */

enum { RINGS = 2, SLOTS = 4, STRIDE = 192, SOURCE_WORDS = 100 };

static void request(rank *me, const df_cuda_transfer *transfer) {
  const uint32_t number = me->device->errands + 1;
  me->daemon.errand->transfer = *transfer;
  df_publish_u32(&me->device->errands, number);
  df_waiting_for("a transfer while a turn polls for ever");
  while (df_observe_u32(&me->daemon.errand->done) != number) df_nap();
  df_waiting_for(NULL);
}

/* Whether a link reads the word before the other end has written it. */
static int is_read_first(size_t word) {
  const size_t ring_words = df_link_ring_bytes(STRIDE, SLOTS) / sizeof(uint64_t);
  const size_t at = word % ring_words, slots_end = SLOTS * STRIDE / sizeof(uint64_t);
  return at < slots_end ? at % (STRIDE / sizeof(uint64_t)) == 0 : at < slots_end + 2;
}

DF_TEST(emulated_daemon, a_turn_ends_for_a_transfer, 60) {
  const size_t words = RINGS * df_link_ring_bytes(STRIDE, SLOTS) / sizeof(uint64_t);
  for (int relays = 0; relays < 2; relays++) {
    uint64_t *rings = NULL, *source = NULL; /* before the launch, because an allocation waits */
    CUDA(cudaHostAlloc((void **)&rings, (words + 1) * sizeof *rings, cudaHostAllocMapped));
    CUDA(cudaHostAlloc((void **)&source, SOURCE_WORDS * sizeof *source, cudaHostAllocMapped));
    world *w = open_stuck(&patient, relays);
    rank *me = &w->ranks[0];
    memset(rings, 0xff, (words + 1) * sizeof *rings);
    request(me,
            &(df_cuda_transfer){.to = rings, .n_rings = RINGS, .n_slots = SLOTS, .stride = STRIDE});
    for (size_t i = 0; i <= words; i++)
      CHECK(rings[i] == (i < words && is_read_first(i) ? 0 : UINT64_MAX), "word %zu is %llx", i,
            (unsigned long long)rings[i]);
    for (size_t i = 0; i < SOURCE_WORDS; i++) source[i] = i + 1;
    request(me, &(df_cuda_transfer){.to = rings, .from = source, .words = SOURCE_WORDS - 1});
    for (size_t i = 0; i < SOURCE_WORDS; i++)
      CHECK(rings[i] == (i < SOURCE_WORDS - 1 ? i + 1 : UINT64_MAX), "word %zu is %llx", i,
            (unsigned long long)rings[i]);
    request(me, &(df_cuda_transfer){.to = rings, .words = words});
    for (size_t i = 0; i <= words; i++)
      CHECK(rings[i] == (i < words ? 0 : UINT64_MAX), "word %zu is %llx", i,
            (unsigned long long)rings[i]);
    df_publish_u32(&me->device->recalled, me->launches);
    CUDA(cudaFreeHost(rings)); /* waits for the launch */
    CUDA(cudaFreeHost(source));
    close_stuck(w);
  }
}

/* ---- missing releases: stores are held back */

enum { HELD_PERCENT = 50 };

/* Returns the number of words that the host finds too old after a transfer, in so many transfers or
 * until it finds one. */
static uint64_t transfer_repeatedly(int is_weak, uint64_t transfers) {
  uint64_t *to = NULL, *from = NULL, wrong = 0;
  CUDA(cudaHostAlloc((void **)&to, SOURCE_WORDS * sizeof *to, cudaHostAllocMapped));
  CUDA(cudaHostAlloc((void **)&from, SOURCE_WORDS * sizeof *from, cudaHostAllocMapped));
  world *w = open_stuck(&patient, 1);
  rank *me = &w->ranks[0];
  cuda_emulator_hold_stores(HELD_PERCENT);
  if (is_weak) cuda_emulator_weaken(&me->daemon.errand->done, sizeof me->daemon.errand->done);
  for (uint64_t t = 1; t <= transfers && wrong == 0; t++) {
    for (size_t i = 0; i < SOURCE_WORDS; i++) from[i] = t;
    request(me, &(df_cuda_transfer){.to = to, .from = from, .words = SOURCE_WORDS});
    for (size_t i = 0; i < SOURCE_WORDS; i++) wrong += df_load_relaxed_u64(&to[i]) != t;
  }
  cuda_emulator_hold_stores(0);
  cuda_emulator_weaken(NULL, 0);
  df_publish_u32(&me->device->recalled, me->launches);
  CUDA(cudaFreeHost(to)); /* waits for the launch */
  CUDA(cudaFreeHost(from));
  close_stuck(w);
  return wrong;
}

DF_TEST(emulated_daemon, a_transfer_without_a_release_shows, 120) {
  CHECK(transfer_repeatedly(1, 100000) > 0, "the plant was not found");
  const uint64_t wrong = transfer_repeatedly(0, 60);
  CHECK(wrong == 0, "%llu words have not arrived", (unsigned long long)wrong);
}

/* Returns the number of images that differ from those at the end of the launch, in so many launches
 * or until it finds one. */
static uint64_t leave_repeatedly(int is_weak, uint32_t launches) {
  static df_block seen[DF_MAX_BLOCKS];
  uint64_t stale = 0;
  world *w = open_stuck(&patient, 1);
  rank *me = &w->ranks[0];
  cuda_emulator_hold_stores(HELD_PERCENT);
  for (uint32_t launch = 0; launch < launches && stale == 0; launch++) {
    const uint32_t n = w->o.blocks;
    if (is_weak) cuda_emulator_weaken(me->daemon.blocks, n * sizeof *me->daemon.blocks);
    df_publish_u32(&me->device->recalled, me->launches);
    df_waiting_for("blocks that leave");
    for (uint32_t b = 0; b < n; b++) {
      while (df_observe_u32(&me->daemon.blocks[b].running)) df_pause();
      memcpy(&seen[b], &me->daemon.blocks[b], sizeof seen[b]);
    }
    CUDA(cudaStreamSynchronize(me->stream));
    df_waiting_for(NULL);
    for (uint32_t b = 0; b < n; b++)
      stale += memcmp(&seen[b], &me->daemon.blocks[b], sizeof seen[b]) != 0;
    if (launch + 1 < launches && stale == 0) launch_if_gone(w, 0);
  }
  cuda_emulator_hold_stores(0);
  cuda_emulator_weaken(NULL, 0);
  close_stuck(w);
  return stale;
}

DF_TEST(emulated_daemon, a_block_that_leaves_without_a_release_shows, 120) {
  CHECK(leave_repeatedly(1, 100000) > 0, "the plant was not found");
  const uint64_t stale = leave_repeatedly(0, 20);
  CHECK(stale == 0, "%llu images were out of date", (unsigned long long)stale);
}

DF_TEST(emulated_daemon, a_lost_device_stops, 120) {
  const options o = {.ranks = 2,
                     .devices = 1,
                     .blocks = 2,
                     .lanes = 32,
                     .multiprocessors = "8",
                     .tunables = patient, /* the daemon never quits by itself */
                     .cq = DF_CQ_PACKED,
                     .seed = 8};
  world *w = open_world(&o);
  enter_device(w, 0);
  for (uint32_t r = 0; r < 2; r++) launch_if_gone(w, r);
  for (uint32_t r = 0; r < 2; r++)
    for (uint32_t b = 0; b < 2; b++)
      while (!df_observe_u32(&w->ranks[r].daemon.blocks[b].running)) df_nap();
  cuda_emulator_lose_device(0);
  CHECK(cudaDeviceSynchronize() == cudaErrorLaunchFailure, "not lost");
  cuda_emulator_counts counts;
  do {
    df_nap();
    cuda_emulator_count(&counts);
  } while (counts.resident_blocks > 0);
  close_world(w);
}
