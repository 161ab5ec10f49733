/*
 * Promises of src/queues/sq.h:
 *   - Every reader takes every entry, once and in order, over any number of laps.
 *   - A full queue refuses a push, and nothing of it can be seen; the last reader's fetch makes
 * room.
 *   - A word of an earlier lap is never taken for a new one, also where sequence numbers wrap
 * around.
 *   - What the producer wrote before a push is there for whoever fetched the entry (race build).
 */
#include "queues/sq.h"

#include <pthread.h>
#include <sched.h>

#include "support/harness.h"

enum { DEPTH_MAX = 64 };

typedef struct queue {
  df_sq sq;
  df_sq_slot slots[DEPTH_MAX];
  uint64_t read_index[DF_MAX_BLOCKS];
} queue;

/* As if `ticket` entries had gone through it. */
static void make(queue *q, uint32_t depth, uint32_t readers, uint64_t ticket) {
  *q = (queue){0};
  df_sq_init(&q->sq, q->slots, depth, readers);
  q->sq.ticket = ticket;
  for (uint64_t t = ticket >= depth ? ticket - depth : 0; t < ticket; t++)
    q->slots[t & (depth - 1)].commit = (uint64_t)(uint32_t)(t + 1) << 32 | 99;
  for (uint32_t r = 0; r < readers; r++) q->read_index[r] = ticket;
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

static void go_through(uint32_t depth, uint32_t readers, uint64_t ticket, uint64_t entries) {
  queue q;
  make(&q, depth, readers, ticket);
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
