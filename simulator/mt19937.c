#include "mt19937.h"

enum { SHIFT = 397 };

static void seed_word(uint32_t *state, uint32_t seed) {
  state[0] = seed;
  for (uint32_t i = 1; i < DF_MT_WORDS; i++)
    state[i] = 1812433253u * (state[i - 1] ^ (state[i - 1] >> 30)) + i;
}

void df_mt19937_seed_array(df_mt19937 *generator, const uint32_t *key, size_t count) {
  uint32_t *state = generator->state;
  seed_word(state, 19650218u);
  size_t i = 1, j = 0;
  for (size_t k = count > DF_MT_WORDS ? count : DF_MT_WORDS; k > 0; k--) {
    uint32_t mixed = (state[i - 1] ^ (state[i - 1] >> 30)) * 1664525u;
    state[i] = (state[i] ^ mixed) + key[j] + (uint32_t)j;
    if (++i == DF_MT_WORDS) {
      state[0] = state[DF_MT_WORDS - 1];
      i = 1;
    }
    if (++j == count) j = 0;
  }
  for (size_t k = DF_MT_WORDS - 1; k > 0; k--) {
    uint32_t mixed = (state[i - 1] ^ (state[i - 1] >> 30)) * 1566083941u;
    state[i] = (state[i] ^ mixed) - (uint32_t)i;
    if (++i == DF_MT_WORDS) {
      state[0] = state[DF_MT_WORDS - 1];
      i = 1;
    }
  }
  state[0] = 0x80000000u;
  generator->used = DF_MT_WORDS;
}

void df_mt19937_seed(df_mt19937 *generator, uint64_t seed) {
  uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  df_mt19937_seed_array(generator, key, key[1] != 0 ? 2 : 1);
}

static inline uint32_t twist(uint32_t current, uint32_t next, uint32_t far) {
  uint32_t joined = (current & 0x80000000u) | (next & 0x7fffffffu);
  return far ^ (joined >> 1) ^ (-(next & 1u) & 0x9908b0dfu);
}

void df_mt19937_refill(df_mt19937 *generator) {
  uint32_t *state = generator->state;
  for (int i = 0; i < DF_MT_WORDS - SHIFT; i++)
    state[i] = twist(state[i], state[i + 1], state[i + SHIFT]);
  for (int i = DF_MT_WORDS - SHIFT; i < DF_MT_WORDS - 1; i++)
    state[i] = twist(state[i], state[i + 1], state[i + SHIFT - DF_MT_WORDS]);
  state[DF_MT_WORDS - 1] = twist(state[DF_MT_WORDS - 1], state[0], state[SHIFT - 1]);
  for (int i = 0; i < DF_MT_WORDS; i++) {
    uint32_t word = state[i];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680u;
    word ^= (word << 15) & 0xefc60000u;
    generator->output[i] = word ^ (word >> 18);
  }
  generator->used = 0;
}
