/*
 * Promises of src/host/lifecycle/metronome.h, in virtual time:
 *   - Ticks are one period apart, however late and for whatever other reasons the thread wakes: N
 *     ticks take at most N periods and the delay of the latest wake.
 *   - A thread that was stopped for many periods ticks once, and then one period later.
 */
#include "host/lifecycle/metronome.h"

#include "support/harness.h"

enum { TICKS = 24, MS = 1000000 };

/* The time of the tick with this number, if each wake is late by up to late_ms, and other reasons
 * wake the thread after at most other_ms (0: never). */
static uint64_t time_of_tick(df_metronome *metronome, int number, int late_ms, int other_ms,
                             df_random *random) {
  uint64_t now = metronome->due_ns;
  for (int ticks = 0;;) {
    if (df_metronome_ticks(metronome, now) && ++ticks == number) return now;
    uint64_t wait_ms = (uint64_t)df_metronome_wait_ms(metronome, now);
    CHECK(wait_ms > 0 || now >= metronome->due_ns, "it does not wait, though no tick is due");
    if (other_ms > 0) {
      const uint64_t other = 1 + (uint64_t)df_random_below(random, other_ms);
      wait_ms = wait_ms < other ? wait_ms : other;
    }
    now += (wait_ms + (uint64_t)df_random_below(random, late_ms + 1)) * MS;
  }
}

DF_TEST(metronome, delays_do_not_add_up, 20) {
  static const int periods_ms[] = {1, 2, 7, 125, 625}, lates_ms[] = {0, 1, 40, 90},
                   others_ms[] = {0, 1, 100, 600};
  for (uint64_t seed = 1; seed <= 50; seed++)
    for (int p = 0; p < 5; p++)
      for (int l = 0; l < 4; l++)
        for (int o = 0; o < 4; o++) {
          const uint64_t period_ms = (uint64_t)periods_ms[p], start = 10 * seed * MS;
          const int late_ms = lates_ms[l] < periods_ms[p] ? lates_ms[l] : periods_ms[p] - 1;
          df_random random = {seed};
          df_metronome metronome = {.period_ns = period_ms * MS, .due_ns = start};
          const uint64_t end = time_of_tick(&metronome, TICKS + 1, late_ms, others_ms[o], &random);
          const uint64_t least = TICKS * period_ms * MS, most = least + (uint64_t)late_ms * MS;
          CHECK(end - start >= least && end - start <= most,
                "period %d ms, late %d ms, other wakes after %d ms: %d ticks take %llu ns, not "
                "%llu to %llu",
                periods_ms[p], late_ms, others_ms[o], TICKS, (unsigned long long)(end - start),
                (unsigned long long)least, (unsigned long long)most);
        }
}

DF_TEST(metronome, a_stop_is_one_tick, 20) {
  for (uint64_t stop_ms = 5; stop_ms < 5000; stop_ms = 2 * stop_ms + 1) {
    df_metronome metronome = {.period_ns = 5 * MS, .due_ns = 100 * MS};
    const uint64_t back = (100 + stop_ms) * MS;
    CHECK(df_metronome_ticks(&metronome, back), "no tick");
    CHECK(!df_metronome_ticks(&metronome, back), "a second tick at the same time");
    CHECK(!df_metronome_ticks(&metronome, back + 5 * MS - 1), "a tick before a whole period");
    CHECK(df_metronome_ticks(&metronome, back + 5 * MS), "no tick after a period");
  }
}

DF_TEST(metronome, the_first_tick_is_due_at_once, 20) {
  df_metronome metronome = {.period_ns = 5 * MS};
  CHECK(df_metronome_wait_ms(&metronome, 77 * MS) == 0, "it waits");
  CHECK(df_metronome_ticks(&metronome, 77 * MS), "no tick");
  CHECK(df_metronome_wait_ms(&metronome, 77 * MS + 1) == 5, "it does not wait for a period");
}
