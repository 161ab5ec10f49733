/*
 * Promises of src/queues/sq.h:
 *   - Every reader takes every entry, once and in order, over any number of laps.
 *   - A full queue refuses a push, and nothing of it can be seen; the last reader's fetch makes
 * room.
 *   - A word of an earlier lap is never taken for a new one, also where sequence numbers wrap
 * around.
 *   - Data that the producer wrote before a push is visible to the reader that fetched the entry
 *     (race build).
 *   - A relay finds a run's arguments in the entry's record, as they were given, whatever they are,
 *     and in no record of which a word is of an earlier lap. Addresses that are too long for a
 *     record are said to be elsewhere.
 *   - A relay sees whether another entry follows the present one, and frees slots together.
 *   - A run begins when its stream has written its number, and not at an earlier one.
 */
#include "queues/sq.h"

#include <pthread.h>
#include <sched.h>
#include <string.h>

#include "support/harness.h"

enum { DEPTH_MAX = 64 };

typedef struct queue {
  df_sq sq;
  df_sq_slot slots[DEPTH_MAX];
  uint64_t read_index[DF_MAX_BLOCKS];
} queue;

/* As if `ticket` entries had gone through it. */
static void make(queue *q, uint32_t depth, uint32_t readers, uint64_t sequence) {
  *q = (queue){0};
  df_sq_init(&q->sq, q->slots, depth, readers);
  q->sq.sequence = sequence;
  for (uint64_t t = sequence >= depth ? sequence - depth : 0; t < sequence; t++)
    q->slots[t & (depth - 1)].commit = (uint64_t)(uint32_t)(t + 1) << 32 | 99;
  for (uint32_t r = 0; r < readers; r++) q->read_index[r] = sequence;
}

static df_sqe entry(uint64_t i) {
  return (df_sqe){.collective = (uint32_t)(i * 7919 % DF_MAX_COLLECTIVES),
                  .blocks = 1 + (uint32_t)(i % DF_MAX_BLOCKS)};
}

static void expect_fetch(queue *q, uint32_t reader, uint64_t i) {
  df_sqe sqe, want = entry(i);
  CHECK(df_sq_has_entry(&q->sq, q->read_index[reader]), "entry %llu", (unsigned long long)i);
  CHECK(df_sq_fetch_spmc(&q->sq, &q->read_index[reader], &sqe), "entry %llu",
        (unsigned long long)i);
  CHECK(sqe.collective == want.collective && sqe.blocks == want.blocks,
        "entry %llu is {%u, %u} instead of {%u, %u}", (unsigned long long)i, sqe.collective,
        sqe.blocks, want.collective, want.blocks);
}

static void expect_nothing(queue *q, uint32_t reader) {
  df_sqe sqe;
  uint64_t before = q->read_index[reader];
  CHECK(!df_sq_has_entry(&q->sq, before), "an entry out of nothing at %llu",
        (unsigned long long)before);
  CHECK(!df_sq_fetch_spmc(&q->sq, &q->read_index[reader], &sqe), "fetched nothing");
  CHECK(q->read_index[reader] == before, "the index moved");
}

static void go_through(uint32_t depth, uint32_t readers, uint64_t sequence, uint64_t entries) {
  queue q;
  make(&q, depth, readers, sequence);
  df_random random = {depth * 100 + readers};
  uint64_t pushed = 0, fetched[DF_MAX_BLOCKS] = {0}, slowest = 0;
  while (slowest < entries) {
    if (pushed < entries && df_random_chance(&random, 50)) {
      int accepted = df_sq_push_spmc(&q.sq, entry(pushed));
      CHECK(accepted == (pushed - slowest < depth), "%llu pushed, %llu read by all, depth %u",
            (unsigned long long)pushed, (unsigned long long)slowest, depth);
      pushed += (uint64_t)accepted;
    }
    uint32_t r = (uint32_t)df_random_below(&random, (int)readers);
    if (fetched[r] == pushed)
      expect_nothing(&q, r);
    else
      expect_fetch(&q, r, fetched[r]++);
    slowest = fetched[0];
    for (uint32_t k = 1; k < readers; k++) slowest = DF_MIN(slowest, fetched[k]);
  }
}

DF_TEST(sq, every_reader_takes_every_entry_in_order, 30) {
  for (uint32_t depth = 2; depth <= DEPTH_MAX; depth *= 2)
    for (uint32_t readers = 1; readers <= DF_MAX_BLOCKS; readers += readers < 4 ? 1 : 14)
      go_through(depth, readers, 0, 20 * depth);
}

DF_TEST(sq, sequence_numbers_wrap_around, 30) {
  for (uint32_t depth = 2; depth <= DEPTH_MAX; depth *= 2) {
    go_through(depth, 1, ((uint64_t)1 << 32) - depth - 1, 4 * depth);
    go_through(depth, 3, ((uint64_t)1 << 32) - 1, 4 * depth);
    go_through(depth, 2, ((uint64_t)5 << 32) - 2 * depth, 6 * depth);
  }
}

DF_TEST(sq, a_full_queue_refuses_and_shows_nothing, 30) {
  queue q;
  make(&q, 4, 2, 0);
  for (uint64_t i = 0; i < 4; i++) CHECK(df_sq_push_spmc(&q.sq, entry(i)), "room for four");
  CHECK(!df_sq_push_spmc(&q.sq, entry(100)), "full");
  for (uint64_t i = 0; i < 4; i++) expect_fetch(&q, 0, i);
  expect_nothing(&q, 0);
  CHECK(!df_sq_push_spmc(&q.sq, entry(100)), "the other reader has read nothing");
  expect_fetch(&q, 1, 0);
  CHECK(df_sq_push_spmc(&q.sq, entry(4)), "the last reader has freed a slot");
  CHECK(!df_sq_push_spmc(&q.sq, entry(100)), "one slot only");
  expect_fetch(&q, 0, 4);
  for (uint64_t i = 1; i < 5; i++) expect_fetch(&q, 1, i);
}

/* ---- records ---- */

static df_run_arguments random_arguments(df_random *random, unsigned address_bits) {
  const uint64_t mask = ((uint64_t)1 << address_bits) - 1;
  return (df_run_arguments){
      .send = (const void *)(uintptr_t)(df_random_next(random) & mask),
      .recv = (void *)(uintptr_t)(df_random_next(random) & mask),
      .send_mapping = (uint16_t)(df_random_next(random) % DF_MAX_MAPPINGS),
      .recv_mapping = (uint16_t)(df_random_next(random) % DF_MAX_MAPPINGS),
      .stream_event = df_stream_event_make(
          (uint32_t)(df_random_next(random) & DF_STREAM_EVENT_INDEX_MASK), df_random_next(random))};
}

static int are_equal(const df_run_arguments *a, const df_run_arguments *b) {
  return a->send == b->send && a->recv == b->recv && a->send_mapping == b->send_mapping &&
         a->recv_mapping == b->recv_mapping && a->stream_event == b->stream_event;
}

static int finds_entry(const queue *host, const queue *near, df_sq_carried *found) {
  df_sqe sqe;
  const df_sq_seen seen = df_sq_look_spsc(&host->sq, near->sq.sequence);
  return df_sq_has_seen_spsc(&host->sq, &near->sq, &seen, &sqe, found);
}

static void pass_through(uint32_t depth, uint64_t first) {
  static df_sq_record records[DEPTH_MAX];
  queue host, near;
  df_random random = {depth + first};
  make(&host, depth, 0, first);
  make(&near, depth, 0, first);
  memset(records, 0, sizeof records);
  host.sq.records = records;
  host.sq.passes_to = 3;
  for (uint64_t i = 0; i < 5 * depth; i++) {
    const df_sq_carried given = {.arguments = random_arguments(&random, DF_RECORD_ADDRESS_BITS),
                                 .run = (uint32_t)(i % DF_RUNS_AHEAD),
                                 .near = 1};
    df_sq_carried found;
    CHECK(!finds_entry(&host, &near, &found), "an entry out of nothing");
    CHECK(df_sq_push_spsc(&host.sq, entry(i), &given), "no room");
    const df_sq_record whole = records[(first + i) & (depth - 1)];
    for (int k = 0; k < 3 && i >= depth; k++) { /* a word comes late */
      records[(first + i) & (depth - 1)].words[k] =
          whole.words[k] - ((uint64_t)1 << DF_RECORD_TAG_SHIFT);
      CHECK(!finds_entry(&host, &near, &found), "an old word %d", k);
      records[(first + i) & (depth - 1)] = whole;
    }
    CHECK(finds_entry(&host, &near, &found), "no entry");
    CHECK(are_equal(&found.arguments, &given.arguments) && found.run == given.run && found.near,
          "entry %llu has other arguments", (unsigned long long)i);
    const df_sq_seen seen = df_sq_look_spsc(&host.sq, near.sq.sequence);
    CHECK(!df_sq_another_follows(&seen, near.sq.sequence), "only one was pushed");
    df_sq_pass_spsc(&near.sq, seen.words[3]);
    df_sq_free_spsc(&host.sq, near.sq.sequence - 1, near.sq.sequence);
    for (uint32_t r = 0; r < 3; r++) near.read_index[r] = first + i;
    for (uint32_t r = 0; r < 3; r++) expect_fetch(&near, r, i);
  }
}

/* A relay that sees one entry also sees whether another follows. It frees slots later, and
 * together. */
static void pass_all_then_free(uint32_t depth, uint64_t first) {
  static df_sq_record records[DEPTH_MAX];
  const df_sq_carried nothing = {.near = 1};
  queue host, near;
  make(&host, depth, 0, first);
  make(&near, depth, 0, first);
  memset(records, 0, sizeof records);
  host.sq.records = records;
  for (int lap = 0; lap < 3; lap++) {
    for (uint32_t i = 0; i < depth; i++)
      CHECK(df_sq_push_spsc(&host.sq, entry(i), &nothing), "room");
    for (uint32_t i = 0; i < depth; i++) {
      df_sqe sqe;
      df_sq_carried found;
      const df_sq_seen seen = df_sq_look_spsc(&host.sq, near.sq.sequence);
      CHECK(df_sq_has_seen_spsc(&host.sq, &near.sq, &seen, &sqe, &found), "entry %u", i);
      CHECK(df_sq_another_follows(&seen, near.sq.sequence) == (i + 1 < depth), "behind entry %u",
            i);
      df_sq_pass_spsc(&near.sq, seen.words[3]);
      CHECK(!df_sq_push_spsc(&host.sq, entry(0), &nothing), "a slot that was not freed");
    }
    df_sq_free_spsc(&host.sq, near.sq.sequence - depth, near.sq.sequence);
  }
}

DF_TEST(sq, a_relay_frees_slots_together, 30) {
  for (uint32_t depth = 2; depth <= DEPTH_MAX; depth *= 2) {
    pass_all_then_free(depth, 0);
    pass_all_then_free(depth, ((uint64_t)1 << 32) - depth);
  }
}

DF_TEST(sq, a_relay_finds_arguments_in_the_record, 30) {
  for (uint32_t depth = 2; depth <= DEPTH_MAX; depth *= 2) {
    pass_through(depth, 0);
    pass_through(depth, ((uint64_t)1 << 32) - 3 * depth);
    pass_through(depth, ((uint64_t)depth << DF_RECORD_TAG_BITS) - 3 * depth);
  }
}

DF_TEST(sq, a_long_address_is_elsewhere, 30) {
  df_random random = {7};
  for (int bits = DF_RECORD_ADDRESS_BITS; bits <= 57; bits++) {
    uint64_t words[3];
    df_sq_carried found, given = {.run = 2, .near = 1};
    given.arguments = random_arguments(&random, DF_RECORD_ADDRESS_BITS);
    if (bits > DF_RECORD_ADDRESS_BITS)
      given.arguments.recv = (void *)(uintptr_t)((uint64_t)1 << (bits - 1));
    df_record_encode(&given, 9, words);
    CHECK(df_record_decode(words, 9, &found) && found.run == 2, "no record");
    CHECK(found.near == (bits == DF_RECORD_ADDRESS_BITS), "an address of %d bits", bits);
  }
}

DF_TEST(sq, a_ticket_has_come_with_its_number, 30) {
  for (uint64_t number = 1; number < 3u << DF_STREAM_EVENT_NUMBER_BITS; number++) {
    const uint32_t sequence = df_stream_event_make(5, number);
    CHECK(df_stream_event_index(sequence) == 5, "index %u", df_stream_event_index(sequence));
    CHECK(!df_stream_event_has_come(sequence, number - 1), "before number %llu",
          (unsigned long long)number);
    CHECK(df_stream_event_has_come(sequence, number) &&
              df_stream_event_has_come(sequence, number + 1),
          "number %llu", (unsigned long long)number);
  }
}

/* ---- threads ---- */

enum { READERS = 3, ARGUMENTS = 4096 };

static struct {
  queue q;
  uint64_t arguments[ARGUMENTS]; /* plain: published with the entry */
  uint64_t entries;
} shared;

static void *read_all(void *argument) {
  uint32_t r = *(const uint32_t *)argument;
  for (uint64_t i = 0; i < shared.entries; i++) {
    df_sqe sqe;
    while (!df_sq_fetch_spmc(&shared.q.sq, &shared.q.read_index[r], &sqe)) sched_yield();
    CHECK(sqe.collective == entry(i).collective, "reader %u, entry %llu", r, (unsigned long long)i);
    CHECK(shared.arguments[i % ARGUMENTS] == i * 3, "reader %u sees old arguments", r);
  }
  return NULL;
}

DF_TEST(sq, several_threads_read, 60) {
  pthread_t threads[READERS];
  uint32_t numbers[READERS];
  shared.entries = (uint64_t)(100000 / df_slowdown());
  make(&shared.q, 8, READERS, ((uint64_t)1 << 32) - 20000 / (uint64_t)df_slowdown());
  for (uint32_t r = 0; r < READERS; r++) {
    numbers[r] = r;
    CHECK(pthread_create(&threads[r], NULL, read_all, &numbers[r]) == 0, "no thread");
  }
  for (uint64_t i = 0; i < shared.entries; i++) {
    shared.arguments[i % ARGUMENTS] = i * 3;
    while (!df_sq_push_spmc(&shared.q.sq, entry(i))) sched_yield();
  }
  for (uint32_t r = 0; r < READERS; r++) pthread_join(threads[r], NULL);
}
