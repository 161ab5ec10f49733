/*
 * Promises of src/plans, proven symbolically (plans/check/check.h) for every operation, algorithm,
 * group of up to 16 ranks and some up to 64, and root, in place or not, whichever messages lend
 * their buffers. Links have two slots, and there are several loops, whose last may lack any number
 * of pieces. In varying runs no rank ends before it depends on all others, even if only one piece
 * exists. Lack of memory is a result, whichever allocation fails: the checker frees its memory, and
 * reports no plan as wrong. Planted mistakes are in test_plan_mistakes.c.
 */
#include "group_plans.h"
#include "random_cuts.h"

#include <stdlib.h>
#include <string.h>

static int rooted(df_operation operation) { return df_operation_has_root(operation); }

static uint32_t most_ranks(df_operation operation, uint32_t most) {
  return operation == DF_OP_SEND_RECV ? 2 : most;
}

/* All the ways in which one group's plans may be executed. */
static void prove_run(df_plan_key key, int varying, df_random *random) {
  char sentence[DF_SENTENCE_BYTES];
  key.cuts = random_cuts(random);
  key.agrees = varying && df_operation_needs_agreement(key.operation);
  key.settles = df_random_chance(random, 50);
  group_plans g = make_group(key);
  /* A check with scaled inputs lends no input, so each lending is also checked without scaling. */
  const int may_scale = df_operation_reduces(key.operation) && !key.average;
  for (int in_place = 0; in_place <= 1; in_place++)
    for (int scales = 0; scales <= may_scale; scales++)
      for (df_plan_lending lending = DF_LENDS_NOTHING; lending <= DF_LENDS_SOME; lending++) {
        df_plan_check_options o = {.slots = DF_MIN_LINK_SLOTS,
                                   .loops = key.n > 16 ? 2 : 3,
                                   .in_place = in_place,
                                   .scales = scales,
                                   .varying = varying,
                                   .ordered =
                                       df_algorithm_keeps_order(key.algorithm, key.operation),
                                   .lending = lending,
                                   .seed = df_random_next(random)};
        if (varying && df_random_chance(random, 50)) o.loops = 1;
        if (g.plans[0]->geometry == DF_GEOMETRY_PARTITION)
          o.last_pieces = varying && o.loops == 1
                              ? 1
                              : 1 + (uint32_t)df_random_below(random, (int)g.plans[0]->pieces);
        CHECK(is_proven(&g, &o, sentence), "%s", sentence);
      }
  drop_group(&g);
}

static void prove(df_plan_key key, df_random *random) {
  prove_run(key, 0, random);
  if (key.operation != DF_OP_BARRIER) prove_run(key, 1, random);
}

static int takes_split(int algorithm) {
  return algorithm == DF_TWO_LEVEL || algorithm == DF_HIERARCHICAL || algorithm == DF_BCUBE;
}

static void prove_sizes(int algorithm, uint32_t from, uint32_t to, uint32_t by) {
  df_random random = {(uint64_t)algorithm * 100 + from};
  for (int operation = 0; operation < DF_OP_COUNT; operation++) {
    if (!df_algorithm_has(algorithm, (df_operation)operation)) continue;
    for (uint32_t n = from; n <= most_ranks((df_operation)operation, to); n += by)
      for (uint32_t root = 0;
           root<(rooted((df_operation)operation) ? n : 1); root += n> 16 ? n / 2 : 1)
        for (uint32_t split = 1; split <= (takes_split(algorithm) ? DF_MIN(n, 6) : 1); split++)
          prove((df_plan_key){.operation = (df_operation)operation,
                              .algorithm = algorithm,
                              .n = n,
                              .root = root,
                              .split = split,
                              .average = df_operation_reduces((df_operation)operation) &&
                                         !df_operation_is_scan((df_operation)operation) && n > 1 &&
                                         df_random_chance(&random, 50)},
                &random);
  }
}

DF_TEST(plan_check, groups_up_to_16, 300) {
  const uint32_t most = df_slowdown() > 1 ? 9 : 16; /* sanitizers: what is new is the code */
  for (int algorithm = 0; algorithm < DF_ALGORITHMS; algorithm++)
    prove_sizes(algorithm, 1, most, 1);
}

DF_TEST(plan_check, larger_groups, 300) {
  static const uint32_t sizes[] = {33, 17, 24, 31, 32, 48, 63, 64};
  size_t most = df_slowdown() > 1 ? 2 : DF_COUNT_OF(sizes);
  for (int algorithm = 0; algorithm < DF_ALGORITHMS; algorithm++)
    for (size_t i = 0; i < most; i++) {
      int step = takes_split(algorithm) && sizes[i] % 8 != 0; /* six splits each: fewer sizes */
      if (!step) prove_sizes(algorithm, sizes[i], sizes[i], 1);
    }
}

/* One character for each member: it names the member's host, and in the rows below the part of the
 * host. */
typedef struct placing {
  const char *levels[3]; /* outermost first; NULL: no more */
} placing;

static const placing placings[] = {
    {{"aaabbc"}},
    {{"abbbccdddd"}},
    {{"abcabc"}},
    {{"abacabadab"}},
    {{"aabbccdd"}},
    {{"aaaabbbbccccdddd"}},
    {{"aaaaabbbbbccccc"}},
    {{"aaaa"}},
    {{"abcdefg"}},
    {{"aaaabbbb", "xxyyxxyy"}},
    {{"aaaaaabbbbb", "xxxyzzxxyyy"}},
    {{"aaaaaaaabbbbbbbbcccccccc", "xxxxyyyyxxxxyyyyxxxxyyyy", "iijjiijjiijjiijjiijjiijj"}},
    {{"aaaaaaabbbbbbccccc", "xxxxyyyxyyyyyxxyyx", "iijjiijiiijjjiijji"}},
    {{"abababababab", "xxyyxxyyzzzz"}},
};

static df_levels *levels_of(const placing *p, uint32_t host_channels) {
  uint32_t depth = 0;
  while (depth < 3 && p->levels[depth]) depth++;
  df_levels *levels = df_levels_new((uint32_t)strlen(p->levels[0]), depth);
  CHECK(levels != NULL, "no memory");
  for (uint32_t level = 0; level < depth; level++)
    for (uint32_t i = 0; i < levels->n; i++)
      df_levels_put(levels, level, i, (uint32_t)p->levels[level][i]);
  df_levels_finish(levels, host_channels);
  return levels;
}

/* Uneven hosts, members that are no neighbours, up to four levels, 1 to 5 host channels. */
DF_TEST(plan_check, hierarchies, 300) {
  df_random random = {2027};
  for (size_t i = 0; i < DF_COUNT_OF(placings); i++)
    for (uint32_t host_channels = 1; host_channels <= 5; host_channels++) {
      df_levels *levels = levels_of(&placings[i], host_channels);
      for (int operation = 0; operation < DF_OP_COUNT && levels->host_channels == host_channels;
           operation++) {
        if (!df_algorithm_has(DF_HIERARCHICAL, (df_operation)operation)) continue;
        df_plan_key key = {.operation = (df_operation)operation,
                           .algorithm = DF_HIERARCHICAL,
                           .n = levels->n,
                           .levels = levels};
        for (; key.root < (rooted(key.operation) ? key.n : 1); key.root++) {
          key.average = df_operation_reduces(key.operation) && df_random_chance(&random, 50);
          for (int again = 0; again < (df_slowdown() > 1 ? 1 : 2); again++) prove(key, &random);
        }
      }
      free(levels);
    }
}

/* Plans whose rounds have several messages, of which one is sent ahead. */
static int sends_ahead(int algorithm, df_operation operation) {
  return algorithm == DF_RABENSEIFNER || algorithm == DF_HALVING || algorithm == DF_BINARY_BLOCKS ||
         algorithm == DF_PAT ||
         (operation == DF_OP_ALL_GATHER && (algorithm == DF_DOUBLING || algorithm == DF_BRUCK));
}

/* Never: links of one slot, for plans that send ahead, or that receive and send in one primitive
 * round a circle. */
DF_TEST(plan_check, one_slot_is_too_few_for_circles_and_sends_ahead_only, 60) {
  char sentence[DF_SENTENCE_BYTES];
  for (int operation = 0; operation < DF_OP_COUNT; operation++)
    for (int algorithm = 0; algorithm < DF_ALGORITHMS; algorithm++) {
      if (!df_algorithm_has(algorithm, (df_operation)operation)) continue;
      df_plan_key key = {.operation = (df_operation)operation, .algorithm = algorithm, .split = 3};
      key.n = most_ranks(key.operation, 7);
      group_plans g = make_group(key);
      df_plan_check_options o = {.slots = 1, .loops = 3};
      int fine = is_proven(&g, &o, sentence);
      int circle = (algorithm == DF_RING && !df_operation_runs_ahead((df_operation)operation)) ||
                   sends_ahead(algorithm, key.operation) ||
                   /* a ring of hosts */
                   (algorithm == DF_HIERARCHICAL && !df_operation_has_root(key.operation) &&
                    operation != DF_OP_ALL_TO_ALL);
      CHECK(fine || circle, "%s", sentence);
      CHECK(!fine || !circle, "%s by %s completes with one slot",
            df_operation_name((df_operation)operation), df_algorithm_name(algorithm));
      CHECK(fine || strstr(sentence, "waits for ever") != NULL, "%s", sentence);
      drop_group(&g);
    }
}

/* Which operations need an agreement: those whose members' data comes from fewer ranks. */
DF_TEST(plan_check, varying_runs_of_some_operations_need_an_agreement, 60) {
  char sentence[DF_SENTENCE_BYTES];
  for (int operation = 0; operation < DF_OP_COUNT; operation++)
    for (int algorithm = 0; algorithm < DF_ALGORITHMS; algorithm++) {
      if (!df_algorithm_has(algorithm, (df_operation)operation)) continue;
      df_plan_key key = {.operation = (df_operation)operation, .algorithm = algorithm, .split = 2};
      key.n = most_ranks(key.operation, 5);
      if (key.operation == DF_OP_BARRIER) continue; /* has no elements */
      group_plans g = make_group(key);
      df_plan_check_options o = {.slots = 2, .loops = 1, .last_pieces = 1, .varying = 1};
      int fine = is_proven(&g, &o, sentence);
      CHECK(fine == !df_operation_needs_agreement((df_operation)operation), "%s by %s: %s",
            df_operation_name((df_operation)operation), df_algorithm_name(algorithm), sentence);
      CHECK(fine || strstr(sentence, "received a message of rank") != NULL, "%s", sentence);
      drop_group(&g);
    }
}

DF_TEST(plan_check, groups_that_are_too_large_are_refused, 60) {
  char sentence[DF_SENTENCE_BYTES] = "";
  df_plan_key key = {
      .operation = DF_OP_ALL_REDUCE, .algorithm = DF_FLAT, .n = DF_PLAN_CHECK_MAX_RANKS + 1};
  df_plan *plans[DF_PLAN_CHECK_MAX_RANKS + 1];
  for (key.position = 0; key.position < key.n; key.position++)
    CHECK((plans[key.position] = df_plan_make(&key)) != NULL, "no plan");
  df_plan_check_options o = {.slots = 2, .loops = 1};
  CHECK(df_plan_check(plans, &o, sentence, sizeof sentence) == dfcclInvalidArgument, "%s",
        sentence);
  CHECK(strstr(sentence, "more than 64 ranks") != NULL, "%s", sentence);
  for (uint32_t r = 0; r < key.n; r++) df_plan_free(plans[r]);
}

/* ---- memory */

static int failing_in = -1; /* allocations that succeed before one fails; -1: all succeed */
static int allocated, released;

void *__wrap_calloc(size_t n, size_t bytes);
void *__real_calloc(size_t n, size_t bytes);
void *__wrap_calloc(size_t n, size_t bytes) {
  if (failing_in == 0) return NULL;
  if (failing_in > 0) failing_in--;
  void *memory = __real_calloc(n, bytes);
  allocated += memory != NULL;
  return memory;
}

void __wrap_free(void *memory);
void __real_free(void *memory);
void __wrap_free(void *memory) {
  released += memory != NULL;
  __real_free(memory);
}

DF_TEST(plan_check, out_of_memory_is_a_result, 60) {
  group_plans g =
      make_group((df_plan_key){.operation = DF_OP_ALL_REDUCE, .algorithm = DF_FLAT, .n = 3});
  df_plan_check_options o = {.slots = 2, .loops = 2, .lending = DF_LENDS_ALL};
  dfcclResult_t result = dfcclOutOfMemory;
  int failures = 0;
  for (; result != dfcclSuccess && failures < 1000; failures++) {
    char sentence[DF_SENTENCE_BYTES] = "";
    allocated = released = 0;
    failing_in = failures;
    result = df_plan_check(g.plans, &o, sentence, sizeof sentence);
    failing_in = -1;
    CHECK(result == dfcclSuccess || result == dfcclOutOfMemory, "%s: %s", df_result_name(result),
          sentence);
    CHECK(result == dfcclSuccess || strstr(sentence, "no memory") != NULL, "%s", sentence);
    CHECK(allocated == released, "%d allocations, %d of them are freed", allocated, released);
  }
  CHECK(result == dfcclSuccess, "no end of allocations");
  CHECK(failures > 12, "%d allocations, where each buffer and each pipe has one", failures - 1);
  drop_group(&g);
}
