/*
 * Promises of src/primitives/way_record.h and way_trials.h about choices that a trial gets wrong,
 * in virtual time:
 *   - A way that gains in its trial only, where slots are as the former way has left them, is left
 *     again after a lap of the ring, and is tried less often.
 *   - Lending that gains by chance, because times of runs differ, is no gain. Gains count together
 *     over links that live shortly.
 *   - A way that becomes far slower is left soon, also with an empty budget.
 *   - A way that has been in use, and took less time than the present one, is tried at once.
 *   - A link that ends before the proof leaves the new way with the time that it must not exceed.
 */
#include "ways_world.h"

DF_TEST(way_proofs, a_way_that_gains_in_its_trial_only_is_left_again, 60) {
  static const move_times far[DF_WAYS] = {{10000, 9000}, {10000, 9000}, {3000, 3000}, {100, 9000}};
  for (uint32_t n_slots = 64; n_slots <= DF_MAX_LINK_SLOTS; n_slots *= 2) {
    const uint64_t n = 200000;
    world w;
    begin(&w, exchange, far);
    w.n_slots = n_slots;
    w.first_ns = 2000;
    reopen(&w);
    look_many(&w, FAR_NS);
    send_many(&w, n, 0);
    CHECK(w.ways.record->of_slots.interval > DF_WAY_INTERVAL + 2, "%u slots: it is tried as often",
          n_slots);
    const uint64_t least = n * cost_of(&w, DF_WAY_PAST);
    CHECK(w.total_ns * 100 <= least * 104, "%u slots: %llu %% of the time", n_slots,
          (unsigned long long)(w.total_ns * 100 / least));
  }
}

DF_TEST(way_proofs, lending_that_gains_by_chance_is_no_gain, 60) {
  static const move_times any[DF_WAYS] = {{4000, 4000}, {4100, 4000}, {9000, 9000}, {100, 7000}};
  uint64_t n_lent = 0;
  const uint64_t n = 20, messages = 50000;
  for (uint64_t seed = 1; seed <= n; seed++) {
    world w;
    begin(&w, exchange, any);
    w.random.state = seed;
    w.hidden_ns = 3000;
    w.noise_ns = 20000;
    for (uint64_t i = 0; i < messages; i++) n_lent += send_one(&w, LEND) == DF_WAY_LENT;
  }
  CHECK(n_lent * 100 < n * messages * 5, "%llu of %llu messages were lent",
        (unsigned long long)n_lent, (unsigned long long)(n * messages));
}

DF_TEST(way_proofs, trials_of_lending_count_together_over_links_that_live_shortly, 60) {
  static const move_times any[DF_WAYS] = {{4000, 4000}, {4100, 4000}, {9000, 9000}, {100, 7000}};
  world w;
  begin(&w, exchange, any);
  for (int link = 0; link < 2000; link++) {
    reopen(&w);
    send_many(&w, 45, LEND);
  }
  CHECK(in_use(&w, LEND) == DF_WAY_LENT, "way %u", in_use(&w, LEND));
}

DF_TEST(way_proofs, a_way_that_becomes_far_slower_is_left_soon, 60) {
  static const move_times any[DF_WAYS] = {{4000, 4000}, {5000, 4000}, {6000, 6000}, {100, 9000}};
  world w;
  begin(&w, exchange, any);
  send_many(&w, 5000, 0);
  while (w.ways.tries != DF_WAYS) send_one(&w, 0);
  CHECK(in_use(&w, 0) == DF_WAY_CACHED, "way %u", in_use(&w, 0));
  w.ways.budget = 0;
  w.now[DF_WAY_CACHED] = (move_times){40000, 40000};
  send_many(&w, 800, 0);
  CHECK(in_use(&w, 0) != DF_WAY_CACHED, "waits for its budget");
}

DF_TEST(way_proofs, a_better_way_of_before_is_tried_at_once, 60) {
  static const move_times any[DF_WAYS] = {{4000, 4000}, {9000, 9000}, {9000, 9000}, {100, 9000}};
  world w;
  begin(&w, exchange, any);
  send_many(&w, 5000, 0);
  while (w.ways.tries != DF_WAYS) send_one(&w, 0);
  df_way_record *record = w.ways.record;
  record->usual_ns[DF_WAY_PAST] = record->usual_ns[DF_WAY_CACHED] / 2;
  record->of_slots.left = 1u << DF_WAY_INTERVAL_MOST;
  w.ways.budget = 0;
  w.now[DF_WAY_PAST] = (move_times){2000, 2000};
  send_many(&w, 200, 0);
  CHECK(in_use(&w, 0) == DF_WAY_PAST, "way %u", in_use(&w, 0));
  send_many(&w, 1000, 0);
  CHECK(in_use(&w, 0) == DF_WAY_PAST && record->former == DF_WAYS, "it has not proven itself");
  /* Times that no longer hold are worth one trial. */
  record->usual_ns[DF_WAY_OWNED] = 1;
  const uint64_t before = w.n_trial;
  for (int i = 0; i < 8; i++) {
    record->of_slots.left = 1u << DF_WAY_INTERVAL_MOST;
    w.ways.budget = 0;
    send_many(&w, 1u << DF_WAY_INTERVAL, 0);
  }
  CHECK(w.n_trial > before && w.n_trial - before <= LAP + 2 * DF_WAY_TRIAL, "%llu messages",
        (unsigned long long)(w.n_trial - before));
  CHECK(in_use(&w, 0) == DF_WAY_PAST, "way %u", in_use(&w, 0));
}

DF_TEST(way_proofs, a_link_may_end_before_the_proof, 60) {
  df_way_record record = df_way_record_new(FAR_NS);
  record.usual_ns[DF_WAY_PAST] = 5000;
  df_way_record_switch(&record, DF_WAY_CACHED, 8);
  CHECK(record.former == DF_WAY_PAST && record.proof == 8 + DF_WAY_PROOF, "no proof");
  const df_way_record later =
      df_way_record_of(df_way_record_word(&record, 12), df_way_schedules_word(&record));
  CHECK(later.slots == DF_WAY_CACHED && later.kept_ns == 5000 && later.checks, "way %u, %u ns",
        later.slots, later.kept_ns);
  CHECK(later.former == DF_WAYS, "another link's proof");
  /* The first way of a record needs none. */
  df_way_record first = df_way_record_new(FAR_NS);
  df_way_record_switch(&first, DF_WAY_CACHED, 8);
  CHECK(first.former == DF_WAYS && first.slots == DF_WAY_CACHED, "nothing to compare with");
}

DF_TEST(way_proofs, the_first_lap_says_nothing, 60) {
  for (uint32_t lap = 0; lap <= DF_MAX_LINK_SLOTS; lap += DF_MAX_LINK_SLOTS / 2)
    for (uint32_t cost = 1000; cost <= 40000; cost += 1000) {
      df_way_record record = df_way_record_new(FAR_NS);
      record.usual_ns[DF_WAY_PAST] = 10000;
      df_way_record_switch(&record, DF_WAY_CACHED, lap);
      df_proof proof = DF_PROOF_OPEN;
      for (uint32_t i = 0; i < lap && proof == DF_PROOF_OPEN; i++, record.proof--)
        proof = df_way_record_prove(&record, 1 + i % 2 * 100000);
      CHECK(proof == DF_PROOF_OPEN, "%u slots: decided in the first lap", lap);
      while (proof == DF_PROOF_OPEN) {
        proof = df_way_record_prove(&record, cost);
        if (proof == DF_PROOF_OPEN) record.proof--;
      }
      const int gains = cost * 100 < 10000 * DF_WAY_SLOT_PERCENT;
      CHECK((proof == DF_PROOF_GIVEN) == gains, "cost %u: %d", cost, (int)proof);
      CHECK(gains || cost <= 15000 || record.proof == DF_WAY_PROOF, "cost %u: decided late", cost);
    }
}
