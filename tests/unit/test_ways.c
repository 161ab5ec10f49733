/*
 * Promises of src/primitives/ways.h and way_record.h, in virtual time:
 *   - The way that takes least time is found, whatever the times are, and found again when they
 *     change. The owner's cost of lending after the run counts, unless runs take most of their
 *     time elsewhere.
 *   - A sender that runs ahead of its receiver does not count as faster than the receiver.
 *   - Trials cost at most 1 % of the time of all moves, beside the free trials of the first
 *     link of a kind and a few messages, also if moves are interrupted.
 *   - Trials that gain nothing become rarer, up to a limit.
 *   - A way that was found at one distance is used at that distance only, and again at once when
 *     the system moves the ranks back. One look that was interrupted does not change the distance.
 *   - A later link of the kind begins with the way that was found, and tries others soon if the
 *     times no longer hold. Links that live shortly try other ways, too, at the same cost.
 *   - Slots that may have no pages yet are not measured.
 *   - One interruption does not end the exploration. A clock that once shows no time does no harm.
 *   - Only messages of the longest size are compared with each other.
 *   - A trial ends if the buffers that come cannot take part in it.
 *   - A message without elements has no tag of an earlier message.
 *   - A forced way is taken where it is possible; mixed ways all occur.
 */
#include "primitives/measure.h"

#include <string.h>

#include "ways_world.h"

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
        w.per_run = 1 + (uint32_t)t;
        send_many(&w, 6000, may_lend);
        CHECK(is_right(&w, in_use(&w, may_lend), may_lend), "table %zu, lends %d, one way %d: %u",
              t, may_lend, ahead, in_use(&w, may_lend));
      }
}

DF_TEST(ways, what_the_owner_pays_later_counts, 60) {
  static const move_times lent_is_fast[DF_WAYS] = {
      {4000, 4000}, {4000, 3900}, {9000, 9000}, {100, 3000}};
  for (uint32_t per_run = 1; per_run <= 16; per_run *= 2) {
    world w;
    begin(&w, exchange, lent_is_fast);
    w.per_run = per_run;
    w.hidden_ns = 6000;
    send_many(&w, 20000, LEND);
    CHECK(in_use(&w, LEND) != DF_WAY_LENT, "%u a run: lends what is written next", per_run);
    w.hidden_ns = 0; /* the program does not write its buffer any more */
    send_many(&w, 100000, LEND);
    CHECK(in_use(&w, LEND) == DF_WAY_LENT, "%u a run: does not lend", per_run);
    w.hidden_ns = 6000;
    send_many(&w, 100000, LEND);
    CHECK(in_use(&w, LEND) != DF_WAY_LENT, "%u a run: still lends", per_run);
  }
}

DF_TEST(ways, the_ends_decide_if_runs_take_their_time_elsewhere, 60) {
  for (uint64_t lent_ns = 1000; lent_ns < 16000; lent_ns += 1000) {
    const move_times times[DF_WAYS] = {
        {5000, 5000}, {5000, 5000}, {5000, 5000}, {100, lent_ns - 100}};
    world w;
    begin(&w, exchange, times);
    w.elsewhere_ns = 10000000;
    send_many(&w, 20000, LEND);
    const int lends = in_use(&w, LEND) == DF_WAY_LENT;
    CHECK(lends == (lent_ns * 100 < 10000 * DF_WAY_LENT_PERCENT), "%llu ns: lends %d",
          (unsigned long long)lent_ns, lends);
  }
}

DF_TEST(ways, a_sender_that_runs_ahead_is_not_faster_than_its_receiver, 60) {
  static const move_times slow_reader[DF_WAYS] = {
      {1500, 4400}, {1500, 4400}, {1500, 4400}, {100, 2100}};
  world w;
  begin(&w, one_way, slow_reader);
  w.runs_ahead = 1;
  send_many(&w, 20000, LEND);
  CHECK(in_use(&w, LEND) == DF_WAY_LENT, "way %u", in_use(&w, LEND));
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
    w = (world){.per_run = 1};
    begin(&w, seed % 3 ? exchange : one_way, w.now);
    w.random.state = (uint64_t)seed;
    w.per_run = 1 + df_random_below(&w.random, 8);
    w.hidden_ns = df_random_below(&w.random, 20000);
    random_times(&w);
    for (uint32_t way = 0; way < DF_WAYS; way++) /* also dreadful ways */
      if (df_random_chance(&w.random, 30)) w.now[way].write_ns *= 1000;
    w.interrupted = seed % 4 ? 0 : 1000;
    const uint64_t first = cost_of(&w, in_use(&w, may_lend));
    send_many(&w, 100000, may_lend);
    const uint64_t free_messages =
        (DF_WAY_LENT - 1) * DF_WAY_TRIAL + (DF_WAY_RUNS + 1) * (uint64_t)w.per_run;
    const uint64_t bound = w.total_ns / 100 + 2 * free_messages * first +
                           (LAP + 2 + 3 * (uint64_t)w.per_run) * w.longest_ns;
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
  const uint64_t trials = DF_WAY_INTERVAL_MOST + ((1 << 22) >> DF_WAY_INTERVAL_MOST);
  CHECK(w.n_trial < trials * (LAP + 2 * DF_WAY_TRIAL), "%llu messages of trials",
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
  reopen(&w);
  for (int i = 0; i < 1 << DF_WAY_INTERVAL; i++) {
    const uint32_t way = send_one(&w, LEND);
    CHECK(way == DF_WAY_PAST, "message %d: way %u", i, way);
  }
  send_many(&w, 1 << 17, LEND);
  reopen(&w);
  w.now[DF_WAY_PAST] = (move_times){30000, 30000}; /* and the others are faster now */
  send_many(&w, 400, LEND);
  CHECK(in_use(&w, LEND) != DF_WAY_PAST, "keeps a way that has become slower: %u",
        in_use(&w, LEND));
}

DF_TEST(ways, links_that_live_shortly_try_other_ways, 60) {
  static const move_times any[DF_WAYS] = {{4000, 4000}, {4000, 4000}, {9000, 9000}, {100, 9000}};
  world w;
  begin(&w, exchange, any);
  send_many(&w, 1 << 18, 0);
  CHECK(w.ways.record->of_slots.interval == DF_WAY_INTERVAL_MOST, "tries too often");
  w.now[DF_WAY_PAST] = (move_times){2000, 2000};
  for (int link = 0; link < 200; link++) {
    reopen(&w);
    send_many(&w, 1000, 0);
  }
  CHECK(in_use(&w, 0) == DF_WAY_PAST, "way %u", in_use(&w, 0));
}

/* One of the other ways is dreadful. */
DF_TEST(ways, trials_of_links_that_live_shortly_cost_no_more, 120) {
  static const move_times any[DF_WAYS] = {{4000, 4000}, {8000, 8000}, {80000, 80000}, {100, 9000}};
  static const uint64_t lives[] = {30, 38, 45, 100, 225, 505, 1135, 1600, 3200, 6400};
  for (size_t i = 0; i < DF_COUNT_OF(lives); i++)
    for (uint32_t slow = 0; slow <= 40; slow += 40)
      for (int may_lend = 0; may_lend <= LEND; may_lend++) {
        world w;
        begin(&w, exchange, any);
        w.n_slots = 8;
        w.slow = slow;
        w.hidden_ns = 30000;
        for (uint64_t links = 0; links < 100000 / lives[i]; links++) {
          reopen(&w);
          send_many(&w, lives[i], may_lend);
        }
        const uint64_t free_messages = (DF_WAY_LENT - 1) * DF_WAY_TRIAL + DF_WAY_RUNS + 1;
        const uint64_t bound =
            w.total_ns / 100 + 4 * free_messages * 8000 + 4 * (LAP + 2) * w.longest_ns;
        CHECK(w.excess_ns <= bound, "links of %llu messages, %u of them slow, lends %d: %.2f %%",
              (unsigned long long)lives[i], slow, may_lend,
              100. * (double)w.excess_ns / (double)w.total_ns);
      }
}

DF_TEST(ways, slots_that_were_never_written_are_not_measured, 60) {
  static const move_times any[DF_WAYS] = {{4000, 4000}, {4000, 4000}, {9000, 9000}, {100, 9000}};
  world w;
  begin(&w, exchange, any);
  df_ways_open(&w.ways, exchange, 32, &w.memory);
  for (uint64_t i = 0; i < 32; i++) {
    int is_timed;
    const df_way_message message = {.bytes = MESSAGE, .run = i};
    df_ways_next(&w.ways, &message, &is_timed);
    CHECK(!is_timed && w.ways.tries == DF_WAYS, "message %llu", (unsigned long long)i);
  }
  send_many(&w, 6000, 0);
  CHECK(w.n_trial > 0, "no trial");
}

DF_TEST(ways, a_record_is_remembered_whole, 60) {
  df_random random = {23};
  for (int i = 0; i < 100000; i++) {
    df_way_record record = df_way_record_new(1 + df_random_below(&random, DF_LINE_NS_MOST));
    record.slots = (uint8_t)df_random_below(&random, DF_WAY_LENT);
    record.lends = (uint8_t)df_random_below(&random, 2);
    record.next = (uint8_t)df_random_below(&random, DF_WAY_LENT);
    record.of_slots =
        (df_way_schedule){.interval = (uint8_t)df_random_below(&random, DF_WAY_INTERVAL_MOST + 1),
                          .left = df_random_below(&random, (1u << DF_WAY_INTERVAL_MOST) + 1)};
    record.of_lending.n_free = (uint8_t)df_random_below(&random, 2);
    record.wins = (uint8_t)df_random_below(&random, DF_WAY_WINS);
    record.usual_ns[record.slots] = 1 + df_random_below(&random, DF_WAY_NS_MOST);
    const uint32_t size = df_random_below(&random, 64);
    const df_way_record again =
        df_way_record_of(df_way_record_word(&record, size), df_way_schedules_word(&record));
    CHECK(again.line_ns == record.line_ns && again.slots == record.slots &&
              again.lends == record.lends && again.next == record.next && again.kept_size == size &&
              again.kept_ns == record.usual_ns[record.slots] &&
              again.of_slots.interval == record.of_slots.interval &&
              again.of_slots.left == record.of_slots.left &&
              again.of_lending.n_free == record.of_lending.n_free && again.wins == record.wins,
          "another record");
  }
}

DF_TEST(ways, each_distance_has_its_own_way, 60) {
  static const move_times near[DF_WAYS] = {{4000, 4000}, {4100, 4000}, {9000, 9000}, {100, 9000}},
                          far[DF_WAYS] = {{9000, 9000}, {8900, 9000}, {3000, 4000}, {100, 9000}};
  world w;
  begin(&w, exchange, near);
  for (int times = 0; times < 3; times++) {
    memcpy(w.now, near, sizeof near);
    look_many(&w, NEAR_NS);
    CHECK(times == 0 || in_use(&w, 0) == DF_WAY_CACHED, "near: way %u", in_use(&w, 0));
    send_many(&w, 5000, 0);
    df_ways_look(&w.ways, 1000000);
    CHECK(in_use(&w, 0) == DF_WAY_CACHED, "near, after one long look: way %u", in_use(&w, 0));
    memcpy(w.now, far, sizeof far);
    look_many(&w, FAR_NS);
    CHECK(times == 0 || in_use(&w, 0) == DF_WAY_PAST, "far: way %u", in_use(&w, 0));
    send_many(&w, 5000, 0);
    CHECK(in_use(&w, 0) == DF_WAY_PAST, "far, later: way %u", in_use(&w, 0));
  }
}

DF_TEST(ways, a_trial_that_a_distance_ends_makes_trials_rarer, 60) {
  static const move_times any[DF_WAYS] = {{4000, 4000}, {4000, 4000}, {9000, 9000}, {100, 9000}};
  world w;
  begin(&w, exchange, any);
  send_many(&w, 5000, LEND);
  for (int i = 0; i < 100000 && w.ways.tries == DF_WAYS; i++) send_one(&w, LEND);
  CHECK(w.ways.tries != DF_WAYS, "no trial");
  df_way_record *record = w.ways.record;
  const uint32_t before = record->of_slots.interval + record->of_lending.interval;
  look_many(&w, FAR_NS);
  CHECK(w.ways.record != record && w.ways.tries == DF_WAYS, "the trial goes on");
  CHECK(record->of_slots.interval + record->of_lending.interval == before + 1,
        "as often as before");
}

DF_TEST(ways, any_looks_find_a_record, 60) {
  for (int seed = 1; seed <= 1000 / df_slowdown(); seed++) {
    df_ways ways;
    df_random random = {(uint64_t)seed};
    df_ways_open(&ways, exchange, 0, NULL);
    for (int i = 0; i < 300; i++) {
      df_ways_look(&ways, df_random_below(&random, 1u << df_random_below(&random, 20)));
      CHECK(ways.record >= ways.at && ways.record < ways.at + DF_DISTANCES, "no record");
    }
    for (uint32_t a = 0; a < DF_DISTANCES; a++)
      for (uint32_t b = 0; b < a; b++)
        CHECK(ways.at[a].line_ns == 0 || !df_line_is_same(ways.at[a].line_ns, ways.at[b].line_ns),
              "two records of one distance: %u and %u ns", ways.at[b].line_ns, ways.at[a].line_ns);
    uint32_t looks = 0;
    for (int i = 0; i < 100000; i++, ways.count++)
      if (df_ways_wants_look(&ways) && ++looks < 1000) df_ways_look(&ways, 150);
    CHECK(looks < 1000, "looks at each message");
  }
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
  df_ways_open(&ways, exchange, 0, NULL);
  for (uint32_t i = 0; i < 100000; i++) {
    const uint64_t bytes = i % 2 ? 262144 : 2048, ns = 300 + bytes / 8;
    const df_way_message message = {.bytes = bytes, .run = i / 2};
    int is_timed;
    const uint32_t way = df_ways_next(&ways, &message, &is_timed);
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
  static const move_times any[DF_WAYS] = {{4000, 4000}, {4000, 4000}, {4000, 4000}, {100, 1000}};
  world w;
  begin(&w, exchange, any);
  for (int i = 0; i < 10000 && w.ways.tries != DF_WAY_LENT; i++) send_one(&w, LEND);
  CHECK(w.ways.tries == DF_WAY_LENT, "no trial");
  send_many(&w, 3 * (DF_WAY_RUNS + 2), 0);
  CHECK(w.ways.tries == DF_WAYS && in_use(&w, LEND) != DF_WAY_LENT, "the trial does not end");
  send_many(&w, 20000, LEND);
  CHECK(in_use(&w, LEND) == DF_WAY_LENT, "way %u", in_use(&w, LEND));
  for (int i = 0; i < 100000 && w.ways.tries == DF_WAYS; i++) send_one(&w, LEND);
  CHECK(w.ways.instead_of == DF_WAY_LENT, "no trial of slots");
  send_many(&w, 3 * (DF_WAY_RUNS + 2), 0);
  CHECK(w.ways.tries == DF_WAYS, "the trial of slots does not end");
}

DF_TEST(ways, an_empty_message_does_not_keep_the_tag_of_an_earlier_one, 60) {
  df_move move = {.way = DF_WAY_LENT, .tag = DF_COMMIT_DIRECT | DF_COMMIT_TIMED, .measures = 3};
  df_measure_received(&move); /* each decision begins with it; an empty message chooses no way */
  CHECK(df_measure_tag(&move) == 0 && move.measures == 0, "tag %u", df_measure_tag(&move));
}

DF_TEST(ways, a_forced_way_is_taken_where_it_is_possible, 60) {
  static const df_way_message lendable = {.bytes = MESSAGE, .may_lend = 1},
                              other = {.bytes = MESSAGE};
  df_ways ways;
  int is_timed;
  for (uint32_t way = 0; way < DF_WAYS; way++) {
    df_ways_open(&ways, (df_ways_terms){.forced = (uint8_t)(1 + way)}, 8, NULL);
    for (int i = 0; i < 100; i++) {
      CHECK(df_ways_next(&ways, &lendable, &is_timed) == way, "another way");
      const uint32_t without = df_ways_next(&ways, &other, &is_timed);
      CHECK(without == (way == DF_WAY_LENT ? DF_WAY_CACHED : way), "way %u", without);
    }
  }
  uint32_t count[DF_WAYS] = {0};
  df_ways_open(&ways, (df_ways_terms){.forced = DF_WAY_RANDOM}, 8, NULL);
  for (int i = 0; i < 1000; i++) count[df_ways_next(&ways, &lendable, &is_timed)]++;
  for (uint32_t way = 0; way < DF_WAYS; way++) CHECK(count[way] > 100, "way %u is rare", way);
}
