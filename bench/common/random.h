/* Seeded numbers: the same seed gives the same numbers on every machine. */
#ifndef DF_BENCH_COMMON_RANDOM_H
#define DF_BENCH_COMMON_RANDOM_H

#include <stdint.h>

/* Spreads the bits of a number: neighbours become unrelated (the finaliser of splitmix64). */
static inline uint64_t df_tool_mix(uint64_t value) {
  value += UINT64_C(0x9e3779b97f4a7c15);
  value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
  return value ^ (value >> 31);
}

/* One number out of several coordinates. */
static inline uint64_t df_tool_mix3(uint64_t a, uint64_t b, uint64_t c) {
  return df_tool_mix(df_tool_mix(df_tool_mix(a) ^ b) ^ c);
}

typedef struct {
  uint64_t state;
} df_tool_random;

static inline uint64_t df_tool_random_next(df_tool_random *random) {
  uint64_t value = df_tool_mix(random->state);
  random->state += UINT64_C(0x9e3779b97f4a7c15);
  return value;
}

/* A number in [0, bound); bound >= 1, far below 2^32 (the bias is then negligible). */
static inline uint32_t df_tool_random_below(df_tool_random *random, uint32_t bound) {
  return (uint32_t)(((df_tool_random_next(random) >> 32) * bound) >> 32);
}

/* Fills order with a random permutation of 0 .. count-1. */
static inline void df_tool_random_order(df_tool_random *random, int *order, int count) {
  for (int i = 0; i < count; i++) {
    int j = (int)df_tool_random_below(random, (uint32_t)i + 1);
    order[i] = order[j];
    order[j] = i;
  }
}

#endif
