/*
 * Promises of simulator/field.h and sequences.h:
 *   - A round's sequences have exactly the distribution of the model's generator. For small GPUs,
 *     each sequence's probability is computed from the generator's text and compared with its
 *     frequency.
 *   - df_emit_positions emits the same positions as the generator's text for the same skips.
 *   - A round depends on neither the thread that draws it nor the earlier draws.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sequences.h"
#include "sim_support.h"
#include "support/harness.h"

enum { LENGTH = 4, CODES = 24 * 8, SAMPLES = 200000 };

/* A sequence of LENGTH collectives and the barriers between them, as a number. */
static unsigned code_of(const unsigned *order, unsigned barriers) {
  unsigned rank = 0;
  for (int i = 0; i < LENGTH; i++) {
    unsigned smaller = 0;
    for (int k = i + 1; k < LENGTH; k++) smaller += order[k] < order[i];
    rank = rank * (unsigned)(LENGTH - i) + smaller;
  }
  return rank * 8 + barriers;
}

/* The generator's text, with all its branches: adds each sequence's probability to chance[]. */
static void enumerate(unsigned done, unsigned *order, const unsigned *rest, unsigned barriers,
                      double probability, double d, double s, double *chance) {
  unsigned left = LENGTH - done;
  if (left == 0) {
    chance[code_of(order, barriers)] += probability;
    return;
  }
  double reach = probability;
  for (unsigned skip = 0; skip < left; skip++) {
    double here = skip + 1 < left ? reach * (1 - d) : reach;
    reach -= here;
    unsigned next[LENGTH], used = 0;
    for (unsigned i = 0; i < left; i++)
      if (i != skip) next[used++] = rest[i];
    order[done] = rest[skip];
    if (left == 1) {
      enumerate(done + 1, order, next, barriers, here, d, s, chance);
    } else {
      enumerate(done + 1, order, next, barriers, here * (1 - s), d, s, chance);
      enumerate(done + 1, order, next, barriers | 1u << done, here * s, d, s, chance);
    }
  }
}

static unsigned code_of_gpu(const df_sequences *sequences, uint32_t gpu,
                            uint32_t first_collective) {
  unsigned order[LENGTH], done = 0, barriers = 0;
  for (uint64_t i = sequences->first[gpu]; i < sequences->first[gpu + 1]; i++)
    if (sequences->event[i] == DF_EVENT_SYNC)
      barriers |= 1u << (done - 1);
    else
      order[done++] = sequences->event[i] - first_collective;
  CHECK(done == LENGTH, "GPU %u emitted %u collectives", gpu, done);
  return code_of(order, barriers);
}

/* Two GPUs in a group each: their sequences must have the right distribution, independently. */
static void check_distribution(double d, double s, uint64_t seed) {
  static const uint32_t first[] = {0, 1, 2}, members[] = {0, 1}, counts[] = {LENGTH, LENGTH};
  static const unsigned all[LENGTH] = {0, 1, 2, 3};
  double chance[CODES] = {0};
  unsigned order[LENGTH], *seen = calloc((size_t)CODES * 3, sizeof *seen);
  enumerate(0, order, all, 0, 1.0, d, s, chance);
  df_layout layout;
  df_field field;
  df_expansion expansion;
  OK(df_layout_create(&layout, DF_ORDER_CONCAT, 2, 2, first, members, counts));
  df_field_init(&field, seed, layout.slot_count, d, s);
  OK(df_expansion_create(&expansion, &layout, &field, false));
  for (uint64_t round = 0; round < SAMPLES; round++) {
    OK(df_expansion_round(&expansion, round));
    unsigned left = code_of_gpu(&expansion.sequences, 0, 0);
    unsigned right = code_of_gpu(&expansion.sequences, 1, LENGTH);
    seen[left]++;
    seen[CODES + right]++;
    seen[2 * CODES + (left == 0 ? right : 0)]++;
  }
  for (int code = 0; code < CODES; code++) {
    for (int gpu = 0; gpu < 2; gpu++) {
      double mean = SAMPLES * chance[code], spread = sqrt(mean * (1 - chance[code])) + 1;
      double got = seen[gpu * CODES + code];
      CHECK(fabs(got - mean) < 6 * spread, "d %g, s %g, GPU %d: sequence %d seen %g times, not %g",
            d, s, gpu, code, got, mean);
    }
    if (code == 0) continue;
    double mean = SAMPLES * chance[0] * chance[code], got = seen[2 * CODES + code];
    CHECK(fabs(got - mean) < 6 * (sqrt(mean) + 1),
          "d %g, s %g: the pair (0, %d) seen %g times, not %g: the GPUs are not independent", d, s,
          code, got, mean);
  }
  df_expansion_destroy(&expansion);
  df_layout_destroy(&layout);
  free(seen);
}

DF_TEST(field, has_the_generators_distribution, 120) {
  static const double chances[] = {0, 0.05, 0.3, 0.6, 0.9};
  for (int i = 0; i < 5; i++)
    for (int k = 0; k < 5; k++) check_distribution(chances[i], chances[k], (uint64_t)(10 * i + k));
}

DF_TEST(field, emits_as_the_text_says, 20) {
  uint64_t state = 7;
  for (int repeat = 0; repeat < 20000; repeat++) {
    uint64_t skips[12];
    uint32_t holes[12], got[12], rest[12], count = 1 + (uint32_t)(sim_random(&state) % 12);
    for (uint32_t i = 0; i < count; i++) {
      skips[i] = sim_random(&state) % 3 ? sim_random(&state) % 2 : sim_random(&state) % 20;
      rest[i] = i;
    }
    df_emit_positions(count, skips, holes, got);
    for (uint32_t slot = 0, left = count; slot < count; slot++, left--) {
      uint32_t i = 0;
      while (i + 1 < left && i < skips[slot]) i++;
      CHECK(got[slot] == rest[i], "slot %u emitted %u, not %u", slot, got[slot], rest[i]);
      memmove(rest + i, rest + i + 1, (left - i - 1) * sizeof *rest);
    }
  }
}

DF_TEST(field, is_the_same_on_every_thread, 20) {
  for (uint64_t seed = 1; seed <= 300; seed++) {
    sim_case random_case;
    sim_case_create(&random_case, seed, 6, 5, 8);
    df_expansion ahead, back;
    OK(df_expansion_create(&ahead, &random_case.layout, &random_case.field, random_case.single));
    OK(df_expansion_create(&back, &random_case.layout, &random_case.field, random_case.single));
    for (uint64_t round = 0; round < 6; round++) {
      OK(df_expansion_round(&ahead, round));
      for (uint64_t other = 6; other-- > round;) OK(df_expansion_round(&back, other));
      uint64_t events = ahead.sequences.first[random_case.layout.gpu_count];
      CHECK(events == back.sequences.first[random_case.layout.gpu_count] &&
                memcmp(ahead.sequences.event, back.sequences.event, events * sizeof(uint32_t)) == 0,
            "seed %llu, round %llu differs", (unsigned long long)seed, (unsigned long long)round);
    }
    df_expansion_destroy(&ahead);
    df_expansion_destroy(&back);
    sim_case_destroy(&random_case);
  }
}
