/* How messages and shares are cut, at random. */
#ifndef DF_TESTS_RANDOM_CUTS_H
#define DF_TESTS_RANDOM_CUTS_H

#include "plans/cuts.h"
#include "support/harness.h"

static inline df_cuts random_cuts(df_random *random) {
  if (df_random_chance(random, 35)) return (df_cuts){DF_ROW_WHOLE, 1};
  const uint32_t row = df_random_chance(random, 40) ? 1 : 1u << df_random_below(random, 4);
  return (df_cuts){row, df_random_chance(random, 70) ? 1 : 1u << df_random_below(random, 3)};
}

#endif
