/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"): a counter-based
 * generator. A draw is a function of (key, counter) alone. So a round's chances depend neither on
 * threads nor on the order of rounds nor on other draws. */
#ifndef DF_SIM_PHILOX_H
#define DF_SIM_PHILOX_H

#include <stdint.h>

typedef struct {
  uint32_t word[4];
} df_philox_block;

static inline df_philox_block df_philox(uint64_t key, df_philox_block counter) {
  uint32_t key0 = (uint32_t)key, key1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t product0 = UINT64_C(0xD2511F53) * counter.word[0];
    uint64_t product1 = UINT64_C(0xCD9E8D57) * counter.word[2];
    counter = (df_philox_block){
        {(uint32_t)(product1 >> 32) ^ counter.word[1] ^ key0, (uint32_t)product1,
         (uint32_t)(product0 >> 32) ^ counter.word[3] ^ key1, (uint32_t)product0}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

static inline uint64_t df_philox_low(df_philox_block block) {
  return (uint64_t)block.word[1] << 32 | block.word[0];
}

static inline uint64_t df_philox_high(df_philox_block block) {
  return (uint64_t)block.word[3] << 32 | block.word[2];
}

#endif
