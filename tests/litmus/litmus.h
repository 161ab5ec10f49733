/*
 * A litmus test: two or three sides, each a straight line of the library's own calls, and what must
 * never come of it, however they overlap. Each belongs to rows of docs/MEMORY_MODEL.md, and is
 * written once:
 *
 *   on_machine.c     executes it on threads of this machine, round after round
 *   in_simulation.c  executes it under the memory and scheduler of tests/schedules, which allow all
 *                    that C11 allows; and again with each order that it needs taken away from
 *                    one side, which must then be seen to go wrong
 */
#ifndef DF_TESTS_LITMUS_LITMUS_H
#define DF_TESTS_LITMUS_LITMUS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/atomic.h"
#include "base/bell.h"

enum { LITMUS_SIDES = 3, LITMUS_WEAKENINGS = 4 };

typedef enum {
  LITMUS_NOTHING, /* the sides did not meet: nothing was shown */
  LITMUS_SEEN,    /* they met, and what was seen is in order */
  LITMUS_FORBIDDEN
} litmus_outcome;

/* The order that is taken away from one side, everywhere in it. */
enum {
  LITMUS_PUBLISH = 1, /* its releases, those of read-modify-writes too */
  LITMUS_OBSERVE = 2, /* its acquires */
  LITMUS_FENCE = 4,
  LITMUS_MODIFY = 8 /* its read-modify-writes: a load, and a store if there is something to write */
};

typedef struct litmus_weakening {
  uint32_t side, without;
} litmus_weakening;

typedef struct litmus_test {
  const char *rows, *name, *never;
  size_t bytes;                 /* size of the state */
  void (*prepare)(void *state); /* it is zeroed; nobody else is there */
  void (*side[LITMUS_SIDES])(void *state);
  litmus_outcome (*judge)(const void *state); /* the sides have ended */
  litmus_weakening
      needed[LITMUS_WEAKENINGS];             /* each must be seen to go wrong; without 0: the end */
  litmus_weakening spare[LITMUS_WEAKENINGS]; /* each must not: something else orders it already */
} litmus_test;

typedef struct litmus_tests {
  const litmus_test *test;
  size_t n;
} litmus_tests;
extern const litmus_tests litmus_queues, litmus_links, litmus_sleepers, litmus_host, litmus_service,
    litmus_gate, litmus_turns, litmus_wire;

static inline uint32_t litmus_sides(const litmus_test *test) {
  uint32_t n = 0;
  while (n < LITMUS_SIDES && test->side[n]) n++;
  return n;
}

/* ---- publication: in another order each time, so that each store can arrive late */

enum { LITMUS_WORDS = 4 };

typedef struct litmus_payload {
  DF_ALIGNED(64) uint64_t word[LITMUS_WORDS];
} litmus_payload;

static inline void litmus_fill(litmus_payload *payload, uint64_t number) {
  for (uint32_t i = 0; i < LITMUS_WORDS; i++) {
    uint32_t at = number % 2 ? i : LITMUS_WORDS - 1 - i;
    df_store_relaxed_u64(&payload->word[at], number * 1000 + at);
  }
}

static inline int litmus_holds(const litmus_payload *payload, uint64_t number) {
  for (uint32_t i = 0; i < LITMUS_WORDS; i++)
    if (df_load_relaxed_u64(&payload->word[i]) != number * 1000 + i) return 0;
  return 1;
}

#endif
