/* MT19937 as CPython's random module uses it: the published Python program draws from it. */
#ifndef DF_SIM_MT19937_H
#define DF_SIM_MT19937_H

#include <stddef.h>
#include <stdint.h>

enum { DF_MT_WORDS = 624 };

typedef struct {
  uint32_t state[DF_MT_WORDS];
  /* The whole state, tempered at once: the compiler can vectorise it. */
  uint32_t output[DF_MT_WORDS];
  unsigned used;
} df_mt19937;

/* The authors' init_by_array with count words of key (count >= 1). */
void df_mt19937_seed_array(df_mt19937 *generator, const uint32_t *key, size_t count);

/* Does the same as random.seed(seed) in CPython: init_by_array with the 32-bit words of the seed,
 * lowest first, without leading zero words. */
void df_mt19937_seed(df_mt19937 *generator, uint64_t seed);

/* Makes the next 624 outputs. Called by df_mt19937_next only. */
void df_mt19937_refill(df_mt19937 *generator);

static inline uint32_t df_mt19937_next(df_mt19937 *generator) {
  if (generator->used == DF_MT_WORDS) df_mt19937_refill(generator);
  return generator->output[generator->used++];
}

/* The 53 bits of random.random(). Not to be mixed with an odd number of single words. */
static inline uint64_t df_mt19937_bits53(df_mt19937 *generator) {
  if (generator->used == DF_MT_WORDS) df_mt19937_refill(generator);
  const uint32_t *word = generator->output + generator->used;
  generator->used += 2; /* once for both: its store and load are what a draw waits for */
  return (uint64_t)(word[0] >> 5) << 26 | word[1] >> 6;
}

/* random.random() itself, in [0, 1). */
static inline double df_mt19937_double(df_mt19937 *generator) {
  return (double)df_mt19937_bits53(generator) * (1.0 / 9007199254740992.0);
}

#endif
