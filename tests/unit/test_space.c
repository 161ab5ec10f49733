/*
 * Promises of src/tuning/space.c:
 *   - The search begins with the registered variant, and has each other algorithm of the operation.
 *   - Each algorithm may copy rather than lend if a message may be as long as the whole buffer.
 *   - What a rule of the tuning table says of a point leads back to it.
 */
#include "tuning/space.h"

#include <string.h>

#include "support/harness.h"

typedef struct {
  df_tuning tuning;
  df_manner manner;
  df_descent descent;
  df_space space;
} some;

static void make(some *s, df_operation operation, uint32_t n, uint64_t bytes, int algorithm) {
  memset(s, 0, sizeof *s);
  df_tuning_default(&s->tuning);
  s->manner.choice.algorithm = algorithm;
  s->manner.shape.n_blocks = 1;
  const df_space_question question = {.registered = &s->manner,
                                      .policy = &s->tuning.policy,
                                      .operation = operation,
                                      .n = n,
                                      .bytes = bytes,
                                      .max_blocks = 4};
  df_space_make(&s->space, &question, &s->descent);
}

DF_TEST(space, all_algorithms_the_registered_one_first, 30) {
  static some s;
  make(&s, DF_OP_REDUCE, 8, 65536, DF_BINOMIAL);
  uint32_t n = 0;
  for (int algorithm = 0; algorithm < DF_ALGORITHMS; algorithm++)
    n += algorithm != DF_HIERARCHICAL && df_algorithm_has(algorithm, DF_OP_REDUCE);
  CHECK(s.descent.n_subspaces == n, "%u of %u", s.descent.n_subspaces, n);
  CHECK(s.space.algorithms[0] == DF_BINOMIAL, "%u", s.space.algorithms[0]);
  df_point first;
  CHECK(df_descent_next(&s.descent, &first), "no point");
  CHECK(df_space_variant(&s.space, &s.descent, &first).algorithm == DF_AS_REGISTERED, "another");
}

/* Whether the space has it. */
static int has(const some *s, const df_rule *wanted) {
  df_point point;
  if (!df_space_find(&s->space, &s->descent, wanted, &point)) return 0;
  const df_rule rule = df_space_rule(&s->space, &s->descent, &point);
  return rule.algorithm == wanted->algorithm && rule.slot_bytes == wanted->slot_bytes &&
         rule.slots == wanted->slots && rule.copies == wanted->copies &&
         rule.blocks == wanted->blocks;
}

/* The best of a grid on two cores: an eighth of it is too short to be lent, the whole is not. */
DF_TEST(space, copies_of_whole_buffers, 30) {
  static some s;
  make(&s, DF_OP_REDUCE, 8, 65536, DF_BINOMIAL);
  for (uint32_t copies = 0; copies < 2; copies++) {
    const df_rule rule = {
        .algorithm = DF_RING, .slot_bytes = 65536, .slots = 4, .copies = copies, .blocks = 1};
    CHECK(has(&s, &rule), "ring, copies %u", copies);
  }
  make(&s, DF_OP_REDUCE, 8, 8192, DF_BINOMIAL);
  const df_rule rule = {
      .algorithm = DF_RING, .slot_bytes = 8192, .slots = 4, .copies = 1, .blocks = 1};
  CHECK(!has(&s, &rule), "nothing is lent of so few bytes");
}

DF_TEST(space, every_point_as_a_rule, 30) {
  static some s;
  make(&s, DF_OP_ALL_REDUCE, 8, 1 << 20, DF_DIRECT);
  uint32_t n = 0;
  for (uint8_t i = 0; i < s.descent.n_subspaces; i++) {
    const uint8_t *sizes = s.descent.climbs[i].sizes;
    df_point p = {.subspace = i}, back;
    for (p.at[0] = 0; p.at[0] < sizes[0]; p.at[0]++)
      for (p.at[1] = 0; p.at[1] < sizes[1]; p.at[1]++)
        for (p.at[2] = 0; p.at[2] < sizes[2]; p.at[2]++)
          for (p.at[3] = 0; p.at[3] < sizes[3]; p.at[3]++)
            for (p.at[4] = 0; p.at[4] < sizes[4]; p.at[4]++, n++) {
              const df_rule rule = df_space_rule(&s.space, &s.descent, &p);
              CHECK(df_space_find(&s.space, &s.descent, &rule, &back), "none");
              CHECK(memcmp(&p, &back, sizeof p) == 0, "subspace %u, point %u", i, n);
            }
  }
  CHECK(n > 1000, "%u points", n);
}
