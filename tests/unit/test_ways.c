/*
 * Promises of src/primitives/ways.h, in virtual time:
 *   - The way that takes least time at both ends is found, whatever the times are, and found again
 *     when they change. Lending must gain clearly.
 *   - Trials cost at most 1 % of the time of all moves, beside the free trials of the first
 *     link of a kind and one message, also if moves are interrupted.
 *   - Trials that gain nothing become rarer.
 *   - A way that was found at one distance is used at that distance only, and again at once when
 *     the system moves the ranks back. One look that was interrupted does not change the distance.
 *   - A later link of the kind begins with the way that was found.
 *   - One interruption does not end the exploration. A clock that once shows no time does no harm.
 *   - Only messages of the longest size are compared with each other.
 *   - A trial ends if the buffers that come cannot take part in it.
 *   - A message without elements has no tag of an earlier message.
 *   - A forced way is taken where it is possible; mixed ways all occur.
 */
#include "primitives/measure.h"

#include <string.h>

#include "support/harness.h"

enum { LAP = 8, MESSAGE = 32768, LEND = 1 };

typedef struct {
  uint64_t write_ns, read_ns;
} move_times;

typedef struct {
  df_ways ways;
  move_times now[DF_WAYS];
  uint32_t words[DF_WAYS];
  struct {
    uint32_t way;
    int is_timed;
    uint64_t read_ns;
  } in_ring[LAP];
  uint64_t sent, total_ns, excess_ns, longest_ns, n_trial;
  uint32_t remembered[DF_DISTANCES];
  df_random random;
  uint32_t interrupted; /* one message of so many; 0: none */
} world;

static const df_ways_terms exchange = {.lent_percent = 70},
                           one_way = {.one_way = 1, .lent_percent = 90};

static void begin(world *w, df_ways_terms terms, const move_times now[DF_WAYS]) {
  *w = (world){.random = {17}};
  memcpy(w->now, now, sizeof w->now);
  df_ways_open(&w->ways, terms, w->remembered);
}

static uint64_t cost_of(const world *w, uint32_t way) {
  const move_times *t = &w->now[way];
  return w->ways.one_way ? DF_MAX(t->write_ns, t->read_ns) : t->write_ns + t->read_ns;
}

/* The receiver is one lap behind. */
static void read_one(world *w) {
  const uint32_t at = (uint32_t)(w->sent % LAP);
  if (w->sent < LAP || !w->in_ring[at].is_timed) return;
  uint32_t *word = &w->words[w->in_ring[at].way];
  *word = df_way_read_word(*word, MESSAGE, w->in_ring[at].read_ns);
}

static uint32_t send_one(world *w, int may_lend) {
  int is_timed;
  read_one(w);
  const uint32_t in_use = may_lend && w->ways.record->lends ? DF_WAY_LENT : w->ways.record->slots;
  const uint32_t way = df_ways_next(&w->ways, may_lend, MESSAGE, &is_timed);
  const uint64_t cost = cost_of(w, way), usual = cost_of(w, in_use);
  const int is_trial = way != in_use;
  uint64_t write_ns = w->now[way].write_ns, read_ns = w->now[way].read_ns;
  if (w->interrupted && df_random_below(&w->random, w->interrupted) == 0) write_ns += 5000000;
  if (w->interrupted && df_random_below(&w->random, w->interrupted) == 0) read_ns += 5000000;
  CHECK(way < DF_WAYS && (way != DF_WAY_LENT || may_lend), "way %u", way);
  w->in_ring[w->sent % LAP].way = way;
  w->in_ring[w->sent % LAP].is_timed = is_timed;
  w->in_ring[w->sent % LAP].read_ns = read_ns;
  if (is_timed) df_ways_note(&w->ways, way, MESSAGE, write_ns, w->words[way]);
  w->sent++;
  w->total_ns += cost;
  w->longest_ns = DF_MAX(w->longest_ns, cost);
  w->n_trial += (uint64_t)is_trial;
  if (is_trial && cost > usual) w->excess_ns += cost - usual;
  return way;
}

static void send_many(world *w, uint64_t n, int may_lend) {
  for (uint64_t i = 0; i < n; i++) send_one(w, may_lend);
}

static uint32_t in_use(const world *w, int may_lend) {
  return may_lend && w->ways.record->lends ? DF_WAY_LENT : w->ways.record->slots;
}

/* The best way by the rules that ways.h states; ways of about the same cost are all right. */
static int is_right(const world *w, uint32_t way, int may_lend) {
  uint64_t best = UINT64_MAX;
  for (uint32_t other = 0; other < DF_WAY_LENT; other++) best = DF_MIN(best, cost_of(w, other));
  const uint64_t lent = cost_of(w, DF_WAY_LENT) * 100, limit = best * w->ways.lent_percent;
  if (way == DF_WAY_LENT) return may_lend && lent <= limit + limit / 8;
  if (may_lend && lent + lent / 8 < limit) return 0;
  return cost_of(w, way) * 100 <= best * (100 + 2 * (100 - DF_WAY_SLOT_PERCENT));
}

DF_TEST(ways, the_fastest_way_is_found, 60) {
  static const move_times tables[][DF_WAYS] = {
      {{4000, 4000}, {4000, 3900}, {9000, 9000}, {100, 9000}},
      {{9000, 9000}, {8000, 9000}, {3000, 4000}, {100, 9000}},
      {{9000, 9000}, {6000, 6000}, {8000, 8000}, {100, 9000}},
      {{9000, 9000}, {8000, 8000}, {8000, 8000}, {100, 5000}},
      {{9000, 9000}, {8000, 8000}, {8000, 8000}, {100, 14000}},
      {{1, 1}, {1000000, 1}, {1, 1000000}, {1000000, 1000000}},
  };
  for (size_t t = 0; t < DF_COUNT_OF(tables); t++)
    for (int may_lend = 0; may_lend <= LEND; may_lend++)
      for (int ahead = 0; ahead <= 1; ahead++) {
        world w;
        begin(&w, ahead ? one_way : exchange, tables[t]);
        send_many(&w, 3000, may_lend);
        CHECK(is_right(&w, in_use(&w, may_lend), may_lend), "table %zu, lends %d, one way %d: %u",
              t, may_lend, ahead, in_use(&w, may_lend));
      }
}

static void random_times(world *w) {
  for (uint32_t way = 0; way < DF_WAYS; way++)
    w->now[way] = (move_times){1000 + df_random_below(&w->random, 40000),
                               1000 + df_random_below(&w->random, 40000)};
}

DF_TEST(ways, changes_are_found_again, 120) {
  static const move_times first[DF_WAYS] = {{4000, 4000}, {4000, 3900}, {9000, 9000}, {100, 9000}};
  for (int seed = 1; seed <= 20 / df_slowdown(); seed++) {
    world w;
    begin(&w, exchange, first);
    w.random.state = (uint64_t)seed;
    uint32_t wrong = 0;
    for (int phase = 0; phase < 50; phase++) {
      random_times(&w);
      send_many(&w, 200000, LEND);
      wrong += !is_right(&w, in_use(&w, LEND), LEND);
    }
    /* If another way has become faster, and the way in use has not changed, it is found late. */
    CHECK(wrong <= 10, "seed %d: %u of 50 times wrong", seed, wrong);
  }
}

DF_TEST(ways, trials_cost_one_percent_at_most, 120) {
  for (int seed = 1; seed <= 200 / df_slowdown(); seed++) {
    world w;
    const int may_lend = seed % 2 != 0;
    begin(&w, seed % 3 ? exchange : one_way, w.now);
    w.random.state = (uint64_t)seed;
    random_times(&w);
    for (uint32_t way = 0; way < DF_WAYS; way++) /* also dreadful ways */
      if (df_random_chance(&w.random, 30)) w.now[way].write_ns *= 1000;
    w.interrupted = seed % 4 ? 0 : 1000;
    const uint64_t first = cost_of(&w, in_use(&w, may_lend));
    send_many(&w, 100000, may_lend);
    const uint64_t free_ns = (DF_WAYS - 1) * (uint64_t)(2 * DF_WAY_TRIAL) * first;
    const uint64_t bound = w.total_ns / 100 + free_ns + (LAP + 2) * w.longest_ns;
    CHECK(w.excess_ns <= bound, "seed %d: %llu ns of %llu, at most %llu", seed,
          (unsigned long long)w.excess_ns, (unsigned long long)w.total_ns,
          (unsigned long long)bound);
    CHECK(w.n_trial > 0, "seed %d: no trial", seed);
  }
}

DF_TEST(ways, trials_without_gain_become_rarer, 60) {
  static const move_times near[DF_WAYS] = {{4000, 4000}, {4100, 4000}, {5000, 5000}, {100, 9000}};
  world w;
  begin(&w, exchange, near);
  send_many(&w, 1 << 22, 0);
  CHECK(w.n_trial < 40 * (LAP + 2 * DF_WAY_TRIAL), "%llu messages of trials",
        (unsigned long long)w.n_trial);
  w.now[DF_WAY_CACHED] = (move_times){8000, 8000}; /* the way in use becomes slower */
  send_many(&w, 2000, 0);
  CHECK(in_use(&w, 0) != DF_WAY_CACHED, "stays although it is slower");
}

DF_TEST(ways, a_later_link_begins_with_the_way_that_was_found, 60) {
  static const move_times far[DF_WAYS] = {{9000, 9000}, {8900, 9000}, {3000, 4000}, {100, 9000}};
  world w;
  begin(&w, exchange, far);
  send_many(&w, 5000, LEND);
  CHECK(in_use(&w, LEND) == DF_WAY_PAST, "way %u", in_use(&w, LEND));
  df_ways later;
  df_ways_open(&later, exchange, w.remembered);
  for (int i = 0; i < 1 << DF_WAY_INTERVAL; i++) {
    int is_timed;
    const uint32_t way = df_ways_next(&later, LEND, MESSAGE, &is_timed);
    CHECK(way == DF_WAY_PAST, "message %d: way %u", i, way);
  }
}

static void look_many(world *w, uint64_t ns) {
  for (int i = 0; i < 3; i++) df_ways_look(&w->ways, ns);
}

DF_TEST(ways, each_distance_has_its_own_way, 60) {
  static const move_times near[DF_WAYS] = {{4000, 4000}, {4100, 4000}, {9000, 9000}, {100, 9000}},
                          far[DF_WAYS] = {{9000, 9000}, {8900, 9000}, {3000, 4000}, {100, 9000}};
  world w;
  begin(&w, exchange, near);
  for (int times = 0; times < 3; times++) {
    memcpy(w.now, near, sizeof near);
    look_many(&w, 40);
    CHECK(times == 0 || in_use(&w, 0) == DF_WAY_CACHED, "near: way %u", in_use(&w, 0));
    send_many(&w, 5000, 0);
    df_ways_look(&w.ways, 1000000);
    CHECK(in_use(&w, 0) == DF_WAY_CACHED, "near, after one long look: way %u", in_use(&w, 0));
    memcpy(w.now, far, sizeof far);
    look_many(&w, 300);
    CHECK(times == 0 || in_use(&w, 0) == DF_WAY_PAST, "far: way %u", in_use(&w, 0));
    send_many(&w, 5000, 0);
    CHECK(in_use(&w, 0) == DF_WAY_PAST, "far, later: way %u", in_use(&w, 0));
  }
  uint32_t last = 0;
  for (uint32_t ns = 1; ns < 100000; ns += 7) {
    const uint32_t distance = df_way_distance(last, ns);
    CHECK(distance < DF_DISTANCES && distance >= last && distance - last <= 1, "%u ns", ns);
    last = distance;
  }
  CHECK(last == DF_DISTANCES - 1, "not all distances");
}

DF_TEST(ways, one_interruption_does_not_end_the_exploration, 60) {
  static const move_times any[DF_WAYS] = {{9000, 9000}, {8900, 9000}, {3000, 4000}, {100, 9000}};
  for (uint64_t at = 0; at < 200; at++) {
    world w;
    begin(&w, exchange, any);
    for (uint64_t i = 0; i < 20000; i++) {
      const uint64_t usual = w.now[DF_WAY_PAST].write_ns;
      if (i == at)
        for (uint32_t way = 0; way < DF_WAYS; way++) w.now[way].write_ns += 4000000;
      send_one(&w, 0);
      if (i == at)
        for (uint32_t way = 0; way < DF_WAYS; way++) w.now[way].write_ns -= 4000000;
      CHECK(w.now[DF_WAY_PAST].write_ns == usual, "the world is wrong");
    }
    CHECK(in_use(&w, 0) == DF_WAY_PAST, "interrupted at message %llu: way %u",
          (unsigned long long)at, in_use(&w, 0));
  }
}

DF_TEST(ways, a_mean_of_a_coarse_clock_grows_again, 60) {
  uint32_t mean = df_way_mean(0, MESSAGE, 0);
  for (int i = 0; i < 100; i++) mean = df_way_mean(mean, MESSAGE, 4000);
  CHECK(mean >= 7000 && mean <= 8000, "mean %u", mean);
}

DF_TEST(ways, messages_of_other_sizes_are_not_compared, 60) {
  df_ways ways;
  uint32_t words[DF_WAYS] = {0}, n_trial = 0, n_timed = 0;
  df_ways_open(&ways, exchange, NULL);
  for (uint32_t i = 0; i < 100000; i++) {
    const uint64_t bytes = i % 2 ? 262144 : 2048, ns = 300 + bytes / 8;
    int is_timed;
    const uint32_t way = df_ways_next(&ways, 0, bytes, &is_timed);
    CHECK(!is_timed || bytes == 262144 || i == 0, "message %u of %llu bytes is measured", i,
          (unsigned long long)bytes);
    n_trial += ways.tries != DF_WAYS;
    n_timed += (uint32_t)is_timed;
    if (!is_timed) continue;
    words[way] = df_way_read_word(words[way], bytes, ns);
    df_ways_note(&ways, way, bytes, ns, words[way]);
  }
  CHECK(n_trial < 2000 && n_timed > 100, "%u in trials, %u measured", n_trial, n_timed);
}

DF_TEST(ways, a_trial_ends_without_buffers_for_it, 60) {
  static const move_times any[DF_WAYS] = {{4000, 4000}, {4000, 4000}, {4000, 4000}, {100, 9000}};
  world w;
  begin(&w, exchange, any);
  for (int i = 0; i < 1000 && w.ways.tries == DF_WAYS; i++) send_one(&w, LEND);
  CHECK(w.ways.tries != DF_WAYS && w.ways.instead_of == DF_WAY_LENT, "no trial");
  send_many(&w, DF_MAX_LINK_SLOTS + 2 * DF_WAY_TRIAL, 0);
  CHECK(w.ways.tries == DF_WAYS || w.ways.instead_of != DF_WAY_LENT, "the trial does not end");
}

DF_TEST(ways, an_empty_message_does_not_keep_the_tag_of_an_earlier_one, 60) {
  df_move move = {.way = DF_WAY_LENT, .tag = DF_COMMIT_DIRECT | DF_COMMIT_TIMED, .measures = 3};
  df_measure_received(&move); /* each decision begins with it; an empty message chooses no way */
  CHECK(df_measure_tag(&move) == 0 && move.measures == 0, "tag %u", df_measure_tag(&move));
}

DF_TEST(ways, a_forced_way_is_taken_where_it_is_possible, 60) {
  df_ways ways;
  int is_timed;
  for (uint32_t way = 0; way < DF_WAYS; way++) {
    df_ways_open(&ways, (df_ways_terms){.forced = (uint8_t)(1 + way)}, NULL);
    for (int i = 0; i < 100; i++) {
      CHECK(df_ways_next(&ways, LEND, MESSAGE, &is_timed) == way, "another way");
      const uint32_t other = df_ways_next(&ways, 0, MESSAGE, &is_timed);
      CHECK(other == (way == DF_WAY_LENT ? DF_WAY_CACHED : way), "way %u", other);
    }
  }
  uint32_t count[DF_WAYS] = {0};
  df_ways_open(&ways, (df_ways_terms){.forced = DF_WAY_RANDOM}, NULL);
  for (int i = 0; i < 1000; i++) count[df_ways_next(&ways, LEND, MESSAGE, &is_timed)]++;
  for (uint32_t way = 0; way < DF_WAYS; way++) CHECK(count[way] > 100, "way %u is rare", way);
}
