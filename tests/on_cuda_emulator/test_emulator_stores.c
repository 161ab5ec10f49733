/*
 * Promises of the emulated runtime about stores that are held back (tests/cuda_emulator/stores.c):
 *   - If a block announces words to the host without a fence, or with one of device scope, the host
 *     finds some announced words that have not arrived.
 *   - With a fence of system scope or a release, also by another lane behind a barrier, it finds
 *     none.
 *   - A block sees its own stores, stores to one word keep their order, and all have arrived when
 *     the kernel has ended.
 */
#include <string.h>

#include "visitor.h"

enum { ROUNDS = 100 };

/* Returns the number of words that the host has found too old. */
static uint64_t play(uint32_t how) {
  uint64_t *words = mapped((TEST_WORDS + 2) * sizeof *words), wrong = 0;
  uint64_t *announced = words + TEST_WORDS, *taken = announced + 1;
  uint32_t rounds = ROUNDS;
  void *arguments[] = {&words, &announced, &taken, &rounds, &how};
  CUDA(launch(test_announce, 1, 32, arguments, NULL));
  df_waiting_for("a word that the kernel announces");
  for (uint64_t round = 1; round <= ROUNDS; round++) {
    while (__atomic_load_n(announced, __ATOMIC_ACQUIRE) < round) df_nap();
    for (uint32_t i = 0; i < TEST_WORDS; i++) {
      const uint64_t seen = __atomic_load_n(&words[i], __ATOMIC_RELAXED);
      CHECK(seen <= round, "word %u is %llu in round %llu", i, (unsigned long long)seen,
            (unsigned long long)round);
      wrong += seen != round;
    }
    __atomic_store_n(taken, round, __ATOMIC_RELEASE);
  }
  CUDA(cudaDeviceSynchronize());
  df_waiting_for(NULL);
  for (uint32_t i = 0; i < TEST_WORDS; i++)
    CHECK(words[i] == ROUNDS, "word %u is %llu at the end", i, (unsigned long long)words[i]);
  CUDA(cudaFreeHost(words));
  return wrong;
}

DF_TEST(emulator_stores, a_missing_fence_shows, 60) {
  cuda_emulator_hold_stores(50);
  CHECK(play(FENCE_NONE) > 0, "without a fence every word has arrived");
  CHECK(play(FENCE_DEVICE) > 0, "with a fence of device scope every word has arrived");
  CHECK(play(FENCE_SYSTEM) == 0, "a word that a fence has ordered has not arrived");
  CHECK(play(FENCE_RELEASE) == 0, "a word that a release has ordered has not arrived");
}

DF_TEST(emulator_stores, nothing_is_held_back_unless_asked_for, 60) {
  for (uint32_t how = FENCE_NONE; how <= FENCE_RELEASE; how++)
    CHECK(play(how) == 0, "fence %u: a word has not arrived", how);
}
