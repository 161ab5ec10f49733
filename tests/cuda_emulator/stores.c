/*
 * Stores to page-locked memory that the host does not see yet. A GPU may delay such a store until a
 * fence of system scope, and stores without a fence between them may arrive in any order. Here a
 * block holds back some of its relaxed stores (CUDA_EMULATOR_STORES percent, chosen by the seed).
 * A fence of system scope makes all of them visible, since it is cumulative over what a barrier has
 * ordered before it. Others become visible one by one, in an order of chance, while the block
 * executes atomics, and all of them when it sleeps or ends. The block itself sees its own stores.
 *
 * Plain stores are not held back: nothing intercepts them.
 */
#include <string.h>

#include "emulator.h"
#include "lane.h"

enum { HELD = 64, RANGES = 8, LONGEST = 2048 };

typedef struct held_store {
  void *place;
  uint32_t bytes;
  uint64_t value;
} held_store;

/* Whether an allocation is page-locked. */
typedef struct known_range {
  const char *low, *high;
  bool page_locked;
} known_range;

/* A block is one thread. */
static __thread held_store held[HELD];
static __thread uint32_t patience; /* atomics until a store becomes visible */
static __thread uint64_t random_state;
static __thread known_range known[RANGES];
static __thread uint64_t known_version;
static __thread uint32_t next_known;

void cuda_emulator_hold_stores(uint32_t percent) {
  emulator_begin();
  __atomic_store_n(&emulator.held_percent, percent, __ATOMIC_RELAXED);
}

static const char *weak_low, *weak_high;

void cuda_emulator_weaken(const void *words, size_t bytes) {
  __atomic_store_n(&weak_high, (const char *)words + bytes, __ATOMIC_RELAXED);
  __atomic_store_n(&weak_low, words, __ATOMIC_RELAXED);
}

int cuda_emulator_is_weak(const void *pointer) {
  const char *p = pointer;
  return p && p >= __atomic_load_n(&weak_low, __ATOMIC_RELAXED) &&
         p < __atomic_load_n(&weak_high, __ATOMIC_RELAXED);
}

static uint32_t random_below(uint32_t limit) {
  if (random_state == 0)
    random_state = (emulator.seed + 1) * 0x9e3779b97f4a7c15u ^ (uintptr_t)&random_state;
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return (uint32_t)((random_state >> 32) * limit >> 32);
}

static bool is_page_locked(const void *pointer) {
  const char *p = pointer;
  if (known_version != __atomic_load_n(&emulator.allocations_version, __ATOMIC_ACQUIRE))
    memset(known, 0, sizeof known);
  for (uint32_t i = 0; i < RANGES; i++)
    if (p >= known[i].low && p < known[i].high) return known[i].page_locked;
  pthread_mutex_lock(&emulator.lock);
  const emulator_allocation *a = emulator_find(pointer);
  const bool locked = a && (a->kind == MEMORY_HOST || a->kind == MEMORY_REGISTERED);
  if (a) known[next_known++ % RANGES] = (known_range){a->base, a->base + a->bytes, locked};
  known_version = emulator.allocations_version;
  pthread_mutex_unlock(&emulator.lock);
  return locked;
}

static void store(const held_store *s) {
  if (s->bytes == sizeof(uint64_t))
    __atomic_store_n((uint64_t *)s->place, s->value, __ATOMIC_RELAXED);
  else
    __atomic_store_n((uint32_t *)s->place, (uint32_t)s->value, __ATOMIC_RELAXED);
}

static void let_go(emulator_block_place *place, uint32_t i) {
  store(&held[i]);
  held[i] = held[--place->held];
}

static bool overlaps(const held_store *s, const void *pointer, uint32_t bytes) {
  const uintptr_t a = (uintptr_t)s->place, b = (uintptr_t)pointer;
  return a < b + bytes && b < a + s->bytes;
}

void cuda_emulator_drain(void) {
  emulator_block_place *place = cuda_emulator_lane()->place;
  for (uint32_t i = 0; i < place->held; i++) store(&held[i]);
  place->held = 0;
}

int cuda_emulator_hold(void *pointer, uint32_t bytes, uint64_t value) {
  emulator_block_place *place = cuda_emulator_lane()->place;
  const uint32_t percent = __atomic_load_n(&emulator.held_percent, __ATOMIC_RELAXED);
  for (uint32_t i = 0; i < place->held; i++) {
    if (!overlaps(&held[i], pointer, bytes)) continue;
    if (held[i].place == pointer && held[i].bytes == bytes) {
      held[i].value = value; /* stores to one word keep their order */
      return 1;
    }
    cuda_emulator_drain();
  }
  if (percent == 0 || random_below(100) >= percent || bytes < sizeof(uint32_t) ||
      !is_page_locked(pointer))
    return 0;
  if (place->held == HELD) let_go(place, random_below(HELD));
  if (place->held == 0) patience = 1 + random_below(LONGEST);
  held[place->held++] = (held_store){pointer, bytes, value};
  return 1;
}

int cuda_emulator_held(const void *pointer, uint32_t bytes, uint64_t *value) {
  const emulator_block_place *place = cuda_emulator_lane()->place;
  for (uint32_t i = 0; i < place->held; i++) {
    if (!overlaps(&held[i], pointer, bytes)) continue;
    if (held[i].place == pointer && held[i].bytes == bytes) {
      *value = held[i].value;
      return 1;
    }
    cuda_emulator_drain();
  }
  return 0;
}

void cuda_emulator_age(void) {
  emulator_block_place *place = cuda_emulator_lane()->place;
  if (place->held == 0 || --patience != 0) return;
  let_go(place, random_below(place->held));
  patience = 1 + random_below(LONGEST);
}
