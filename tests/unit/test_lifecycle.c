/*
 * Promises of src/daemon_kernel/lifecycle.h:
 *   - A block leaves when it has been quiet for long enough, everything in its queue has been tried
 *     since, and no SQE is there; at the final exit as soon as its queue is empty.
 *   - When it leaves, all of its state is in memory.
 *   - A block that has left has a reason to start if and only if it could do something: an SQE, a
 *     run not begun, a message, a credit, a cancellation. A stuck one has none, and its executor
 * may sleep.
 *   - A success raises the threshold of its place once: however many there are, a later place polls
 *     shorter than an earlier one.
 *   - CUDA: what a block reports about ranks is read once, also when its numbers begin again; if a
 *     report is lost, all ranks are assumed.
 *   - A collective that a driver leaves because somebody else wants to drive is not set aside: the
 *     next driver goes on with it.
 */
#include "device.h"

static const df_tunables tunables = {
    .spin_front = 20, .spin_min = 4, .spin_boost = 2, .fetch_polls = 50, .quit_polls = 100};

static const df_primitive receive_primitive = {.flags = DF_PRIM_RECV | DF_PRIM_STORE,
                                               .destination = DF_BUFFER_OUTPUT};

typedef struct stuck {
  device *d;
  df_link link;
  df_bell bell;
  DF_ALIGNED(64) uint8_t ring[2 * 64 + 64];
  uint8_t output[8];
} stuck;

/* Collective 3 receives one message in each of its runs. */
static void make(stuck *s) {
  memset(s, 0, sizeof *s);
  s->d = device_make(1, tunables);
  s->link = (df_link){.slots = s->ring,
                      .credit = (uint64_t *)(s->ring + 128),
                      .peer_bell = &s->bell,
                      .stride = 64,
                      .slot_mask = 1,
                      .messages = 1,
                      .payload_offset = DF_LINK_FLAGGED_OFFSET};
  df_descriptor *desc = &s->d->storage[3];
  desc->primitives = &receive_primitive;
  desc->n_primitives = 1;
  desc->links = &s->link;
  desc->n_links = 1;
  desc->count = 8;
  desc->pieces = 1;
  desc->element_bytes = 1;
  desc->type = dfcclUint8;
  desc->direct_min = UINT64_MAX;
  desc->parts[0] = (df_part){.elements = 8, .chunk = 8, .loops = 1};
  for (int run = 0; run < DF_RUNS_AHEAD; run++)
    desc->words->runs[run] = (df_run_arguments){.recv = s->output};
}

static void arrive(stuck *s, uint64_t sequence, uint8_t value) {
  memset(df_link_slot(&s->link, sequence) + DF_LINK_FLAGGED_OFFSET, value, 8);
  df_link_publish(&s->link, sequence, 0);
}

/* Turns until the block leaves. */
static uint32_t turns_until_left(stuck *s) {
  df_block *block = &s->d->blocks[0];
  uint32_t turns = 1;
  if (!block->running) df_lifecycle_start(block);
  while (df_daemon_turn(block, &s->d->lanes[0]) != DF_TURN_LEFT)
    CHECK(turns++ < 10000, "it does not leave");
  CHECK(!block->running, "it runs");
  return turns;
}

static uint32_t cqes(stuck *s) {
  df_cqe cqe;
  uint32_t n = 0;
  while (df_cq_pop_mpsc(&s->d->device.cq, &cqe)) {
    CHECK(cqe.collective == 3, "a CQE of collective %u", cqe.collective);
    n++;
  }
  return n;
}

DF_TEST(lifecycle, successes_keep_the_decay_with_the_place, 30) {
  stuck s;
  make(&s);
  df_block *block = &s.d->blocks[0];
  df_link before = s.link;
  DF_ALIGNED(64) uint8_t ring[2 * 64 + 64] = {0};
  before.slots = ring;
  before.credit = (uint64_t *)(ring + 128);
  df_descriptor *first = &s.d->storage[2], *desc = &s.d->storage[3];
  df_run_words *words = first->words;
  *first = *desc;
  first->links = &before;
  first->words = words;
  for (int run = 0; run < DF_RUNS_AHEAD; run++) words->runs[run] = desc->words->runs[run];
  desc->parts[0] = (df_part){.elements = 24, .chunk = 8, .loops = 3};
  desc->count = 24;
  uint8_t output[24];
  for (int run = 0; run < DF_RUNS_AHEAD; run++) desc->words->runs[run].recv = output;
  arrive(&s, 1, 1); /* then it is stuck */
  arrive(&s, 2, 2);
  device_submit(s.d, 2);
  device_submit(s.d, 3);
  df_lifecycle_start(block);
  CHECK(df_daemon_turn(block, &s.d->lanes[0]) == DF_TURN_WAITED, "nothing has come");
  CHECK(block->blocked_polls == tunables.spin_front, "%u polls", block->blocked_polls);
  block->blocked_polls = tunables.fetch_polls;
  CHECK(df_daemon_turn(block, &s.d->lanes[0]) == DF_TURN_WORKED, "two messages have come");
  CHECK(block->blocked_polls == tunables.spin_front / 2 * tunables.spin_boost,
        "%u polls at the second place", block->blocked_polls);
}

static uint64_t notify(df_block *image) {
  uint64_t entry = ++image->n_notifications, ranks = (uint64_t)1 << entry % DF_NOTIFIED_RANKS;
  image->notified[entry % DF_NOTIFIED_WORDS] = df_notified_encode(entry, ranks);
  return ranks;
}

DF_TEST(lifecycle, tellings_are_read_once, 30) {
  df_block image;
  uint16_t seen = 0;
  memset(&image, 0, sizeof image);
  CHECK(df_notified_since(&image, &seen) == 0, "no rank was notified");
  for (uint32_t i = 0; i < 70000; i++) {
    uint64_t ranks = 0;
    for (uint32_t n = 0; n < i % (DF_NOTIFIED_WORDS + 1); n++) ranks |= notify(&image);
    CHECK(df_notified_since(&image, &seen) == ranks, "entry %llu",
          (unsigned long long)image.n_notifications);
    CHECK(df_notified_since(&image, &seen) == 0, "entry %llu, again",
          (unsigned long long)image.n_notifications);
  }
  for (uint32_t n = 0; n <= DF_NOTIFIED_WORDS; n++) notify(&image);
  CHECK(df_notified_since(&image, &seen) == ((uint64_t)1 << DF_NOTIFIED_RANKS) - 1, "one is lost");
}

DF_TEST(lifecycle, may_leave_once_everything_was_tried, 30) {
  stuck s;
  make(&s);
  df_block *block = &s.d->blocks[0];
  df_lifecycle_start(block);
  device_submit(s.d, 3);
  CHECK(!df_lifecycle_may_leave(block), "an SQE is there");
  CHECK(df_daemon_turn(block, &s.d->lanes[0]) == DF_TURN_WAITED, "it is not stuck");
  CHECK(df_lifecycle_may_leave(block) && !df_lifecycle_should_leave(block),
        "it may, but has patience");
  device_submit(s.d, 4);
  CHECK(!df_lifecycle_may_leave(block), "an SQE is there");
  free(s.d);
}

DF_TEST(lifecycle, an_idle_block_leaves_after_a_while, 30) {
  stuck s;
  make(&s);
  df_block *block = &s.d->blocks[0];
  CHECK(!df_lifecycle_has_reason(block), "nothing to do");
  CHECK(turns_until_left(&s) == tunables.quit_polls, "not after quit_polls looks");
  CHECK(block->stats.starts == 1 && block->stats.quits == 1, "counted");
  CHECK(!df_lifecycle_has_reason(block), "nothing to do");
  device_submit(s.d, 3);
  CHECK(df_lifecycle_has_reason(block), "an SQE");
  free(s.d);
}

DF_TEST(lifecycle, a_stuck_block_leaves_and_may_sleep, 30) {
  stuck s;
  make(&s);
  df_block *block = &s.d->blocks[0];
  for (uint64_t run = 1; run <= 6; run++) {
    device_submit(s.d, 3);
    turns_until_left(&s);
    CHECK(block->tasks.length == 1, "it keeps what it has fetched");
    CHECK(!df_lifecycle_has_reason(block), "run %llu is stuck at its first primitive",
          (unsigned long long)run);
    arrive(&s, run, (uint8_t)run);
    CHECK(df_lifecycle_has_reason(block), "a message");
    turns_until_left(&s);
    CHECK(cqes(&s) == 1, "one CQE");
    CHECK(s.output[7] == run, "the message's content");
    CHECK(!df_lifecycle_has_reason(block), "nothing to do");
  }
  free(s.d);
}

DF_TEST(lifecycle, whoever_leaves_leaves_nothing_behind, 30) {
  stuck s;
  make(&s);
  df_block *block = &s.d->blocks[0];
  device_submit(s.d, 3);
  device_submit(s.d, 3);
  arrive(&s, 1, 9);
  turns_until_left(&s);
  CHECK(cqes(&s) == 1, "the first run");
  CHECK(block->cache.memory[3].run == 1, "memory knows of run %llu",
        (unsigned long long)block->cache.memory[3].run);
  for (uint32_t i = 0; i < 4; i++) { /* the executor's memory is gone */
    memset(&s.d->slots[0][i], 0xa5, sizeof s.d->slots[0][i]);
    s.d->slots[0][i].collective = DF_NO_COLLECTIVE;
    s.d->slots[0][i].dirty = 0;
  }
  arrive(&s, 2, 10);
  turns_until_left(&s);
  CHECK(cqes(&s) == 1 && s.output[0] == 10, "the second run");
  free(s.d);
}

DF_TEST(lifecycle, a_cancellation_is_a_reason, 30) {
  stuck s;
  make(&s);
  df_block *block = &s.d->blocks[0];
  df_cqe cqe;
  device_submit(s.d, 3);
  turns_until_left(&s);
  CHECK(!df_lifecycle_has_reason(block), "stuck");
  df_publish_u32(&s.d->words_of[3].cancel, dfcclTimeout);
  CHECK(df_lifecycle_has_reason(block), "cancelled");
  turns_until_left(&s);
  CHECK(df_cq_pop_mpsc(&s.d->device.cq, &cqe) && cqe.status == dfcclTimeout, "its status");
  CHECK(block->tasks.length == 0, "it is gone");
  free(s.d);
}

DF_TEST(lifecycle, it_does_not_leave_before_everything_was_tried, 30) {
  stuck s;
  make(&s);
  df_block *block = &s.d->blocks[0];
  df_lifecycle_start(block);
  block->tasks.length = 5;
  block->quiet_polls = tunables.quit_polls;
  block->swept = 4;
  CHECK(!df_lifecycle_should_leave(block), "one has not been tried");
  block->swept = 5;
  CHECK(df_lifecycle_should_leave(block), "all have been tried");
  block->quiet_polls = tunables.quit_polls - 1;
  CHECK(!df_lifecycle_should_leave(block), "not quiet for long enough");
  block->quiet_polls = tunables.quit_polls;
  device_submit(s.d, 3);
  CHECK(!df_lifecycle_should_leave(block), "an SQE has come");
  free(s.d);
}

DF_TEST(lifecycle, final_exit, 30) {
  stuck s;
  make(&s);
  df_block *block = &s.d->blocks[0];
  df_lifecycle_start(block);
  CHECK(!df_lifecycle_should_leave(block), "not yet");
  df_publish_u32(&s.d->device.exit, 1);
  CHECK(df_lifecycle_should_leave(block), "the queue is empty");
  block->tasks.length = 1;
  CHECK(!df_lifecycle_should_leave(block), "something is left to do");
  block->tasks.length = 0;
  CHECK(turns_until_left(&s) == 1, "at once");
  CHECK(block->stats.quits == 0, "the final exit is no voluntary one");
  free(s.d);
}

DF_TEST(lifecycle, who_is_interrupted_sets_nothing_aside, 30) {
  stuck s;
  make(&s);
  device_submit(s.d, 3);
  df_block *block = &s.d->blocks[0];
  uint32_t wanted = 1;
  s.d->lanes[0].interrupt = &wanted;
  df_lifecycle_start(block);
  for (uint32_t turns = 1; turns < tunables.fetch_polls; turns++) {
    CHECK(df_daemon_turn(block, &s.d->lanes[0]) == DF_TURN_WAITED, "nothing has come");
    CHECK(block->place == 0, "turn %u: place %u", turns, block->place);
    CHECK(block->swept == 0, "turn %u: it has not been tried for long enough", turns);
    CHECK(block->stats.preemptions == 0, "turn %u: a preemption is counted", turns);
  }
  s.d->lanes[0].interrupt = &device_never;
  CHECK(df_daemon_turn(block, &s.d->lanes[0]) == DF_TURN_WAITED, "nothing has come");
  CHECK(block->place == 1, "its threshold has run out, place %u", block->place);
  CHECK(block->stats.preemptions == 1, "%llu preemptions",
        (unsigned long long)block->stats.preemptions);
  wanted = 1;
  s.d->lanes[0].interrupt = &wanted;
  arrive(&s, 1, 7);
  CHECK(df_daemon_turn(block, &s.d->lanes[0]) == DF_TURN_COMPLETED, "it has come");
  CHECK(block->stats.preemptions == 1, "a completed one is not preempted");
  free(s.d);
}
