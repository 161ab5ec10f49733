/* Inputs and expected results of all-reduces on streams: values that identify rank, collective,
 * round and element. */
#ifndef DF_TESTS_SUPPORT_ROUNDS_H
#define DF_TESTS_SUPPORT_ROUNDS_H

#include "support/harness.h"

static inline uint32_t df_round_value(int rank, int collective, int round, int element) {
  return (uint32_t)(rank * 1000003 + collective * 10007 + round * 101 + element);
}

static inline void df_round_fill(uint32_t *to, int count, int rank, int collective, int round) {
  for (int e = 0; e < count; e++) to[e] = df_round_value(rank, collective, round, e);
}

/* The sum of all ranks' values. */
static inline void df_round_check(const uint32_t *seen, int count, int ranks, int collective,
                                  int round) {
  for (int e = 0; e < count; e++) {
    uint32_t expected = 0;
    for (int rank = 0; rank < ranks; rank++) expected += df_round_value(rank, collective, round, e);
    CHECK(seen[e] == expected, "collective %d, round %d, element %d: %u, not %u", collective, round,
          e, seen[e], expected);
  }
}

#endif
