/*
 * Promises of simulator/mt19937.h, philox.h and portable_log.h:
 *   - MT19937 gives its authors' published outputs, and CPython's random.random() for any seed.
 *   - Philox4x32-10 gives its authors' published outputs.
 *   - The logarithm agrees with the C library's to the last digits.
 */
#include <math.h>

#include "mt19937.h"
#include "philox.h"
#include "portable_log.h"
#include "support/harness.h"

DF_TEST(mt19937, published_outputs, 10) {
  static const uint32_t key[] = {0x123, 0x234, 0x345, 0x456};
  static const uint32_t expected[] = {1067595299u, 955945823u, 477289528u, 4107218783u,
                                      4228976476u};
  df_mt19937 generator;
  df_mt19937_seed_array(&generator, key, 4);
  for (int i = 0; i < 5; i++) {
    uint32_t word = df_mt19937_next(&generator);
    CHECK(word == expected[i], "output %d is %u, published %u", i, word, expected[i]);
  }
}

/* CPython 3.11 prints these values for random.seed(S) and then random.random().hex(). */
DF_TEST(mt19937, same_doubles_as_cpython, 10) {
  static const struct {
    uint64_t seed;
    double first[4];
  } expected[] = {
      {0, {0x1.b0580f98a7dbep-1, 0x1.84129978f9c1ap-1, 0x1.aeaa51052e978p-2, 0x1.092178fb945a6p-2}},
      {2023,
       {0x1.881caf59cf100p-2, 0x1.f197e85c9490ep-1, 0x1.b008d658e9334p-1, 0x1.47f7a5ce3c470p-2}},
      {4294967301u,
       {0x1.4218067c49768p-3, 0x1.21442cf1e9172p-2, 0x1.357affb575f81p-1, 0x1.dbe785ae59e00p-7}},
      {12345678901234567u,
       {0x1.8d6c3531538e0p-4, 0x1.f9bf236aaf465p-1, 0x1.f26874248e27ep-1, 0x1.b7c331a3ff8b2p-1}}};
  for (unsigned s = 0; s < sizeof expected / sizeof expected[0]; s++) {
    df_mt19937 generator;
    df_mt19937_seed(&generator, expected[s].seed);
    for (int i = 0; i < 4; i++) {
      double got = df_mt19937_double(&generator);
      CHECK(got == expected[s].first[i], "seed %llu, double %d: %a, CPython %a",
            (unsigned long long)expected[s].seed, i, got, expected[s].first[i]);
    }
  }
}

DF_TEST(mt19937, same_double_after_a_refill, 10) {
  df_mt19937 generator;
  df_mt19937_seed(&generator, 2023);
  for (int i = 0; i < 999; i++) df_mt19937_double(&generator);
  double got = df_mt19937_double(&generator);
  CHECK(got == 0x1.df390e7ae6bc0p-4, "the thousandth double is %a", got);
}

DF_TEST(philox, published_outputs, 10) {
  static const struct {
    uint64_t key;
    df_philox_block counter, expected;
  } known[] = {{0, {{0, 0, 0, 0}}, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}}},
               {UINT64_MAX,
                {{UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}},
                {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}}},
               {UINT64_C(0x299f31d0a4093822),
                {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}},
                {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}}};
  for (int i = 0; i < 3; i++) {
    df_philox_block got = df_philox(known[i].key, known[i].counter);
    for (int k = 0; k < 4; k++)
      CHECK(got.word[k] == known[i].expected.word[k], "case %d, word %d: %08x, published %08x", i,
            k, got.word[k], known[i].expected.word[k]);
  }
}

DF_TEST(portable_log, agrees_with_the_c_library, 10) {
  for (int i = 1; i < 200000; i++) {
    double x = i / 200000.0, wide = ldexp(x, -(i % 900));
    double log_x = df_log(x), log_wide = df_log(wide), below = df_log_one_minus(x * 1e-3);
    CHECK(fabs(log_x - log(x)) <= 1e-15 * fabs(log(x)) + 1e-17, "log(%a) is %a", x, log_x);
    CHECK(fabs(log_wide - log(wide)) <= 1e-15 * fabs(log(wide)), "log(%a) is %a", wide, log_wide);
    CHECK(fabs(below - log1p(-x * 1e-3)) <= 1e-15 * fabs(below), "log1p(%a) is %a", -x * 1e-3,
          below);
  }
  CHECK(df_log(1.0) == 0.0, "log(1) is %a", df_log(1.0));
}
