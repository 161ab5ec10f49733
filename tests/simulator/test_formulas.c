/*
 * Promise of synthesis/timeline.h: on a network without contention each built-in algorithm takes
 * the time of its formula, within 1 per cent, for groups of up to 1,024 ranks. With
 * TEST_FORMULAS=all in the environment (suite long) for 2,048, also of algorithms with a connection
 * between each two ranks.
 *
 * The formulas are those of Thakur, Rabenseifner and Gropp (IJHPCA 2005), of Chan, Heimlich,
 * Purkayastha and van de Geijn (2007), and of the algorithms' sources, with the rounds that our
 * plans have. p: ranks; M: bytes of the larger buffer, in one loop; piece: M / p; a, b: time of a
 * message and of a byte; g: time of a byte that is reduced. Messages of one rank to several others
 * run side by side, since each has a connection of its own.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "support/harness.h"
#include "network_file.h"
#include "synthesis/timeline.h"

/* Hosts have `l` ranks; ai, bi: within a host. With one rank on each host, all is between hosts. */
typedef struct terms {
  double p, m, piece, lg, a, b, g;
  double l, hosts, lgh, ai, bi;
  uint32_t ranks;
} terms;

enum { SPLIT = 4 }; /* for bcube */

/* ---- formulas */

static double ring_all_reduce(const terms *t) {
  return 2 * (t->p - 1) * (t->a + t->piece * t->b) + (t->p - 1) * t->piece * t->g;
}
static double all_pairs(const terms *t) { return t->a + t->m * (t->b + (t->p - 1) * t->g); }
static double doubling(const terms *t) { return t->lg * (t->a + t->m * (t->b + t->g)); }
static double rabenseifner(const terms *t) {
  return 2 * t->lg * t->a + (t->p - 1) * t->piece * (2 * t->b + t->g);
}
/* Each tree has half of the buffer; the root of an all-reduce has one child. */
static double double_tree_all_reduce(const terms *t) {
  return 2 * t->lg * (t->a + t->m / 2 * t->b) + (2 * t->lg - 1) * t->m / 2 * t->g;
}
/* With two ranks, both trees are one connection. */
static double double_tree_reduce(const terms *t) {
  if (t->ranks == 2) return t->a + t->m * t->b + t->m / 2 * t->g;
  return t->lg * (t->a + t->m / 2 * t->b + t->m * t->g);
}
static double double_tree_broadcast(const terms *t) {
  return t->lg * (t->a + (t->ranks == 2 ? t->m : t->m / 2) * t->b);
}
static double direct_all_reduce(const terms *t) {
  return 2 * (t->a + t->piece * t->b) + (t->p - 1) * t->piece * t->g;
}
static double flat_all_reduce(const terms *t) {
  return 2 * (t->a + t->m * t->b) + (t->p - 1) * t->m * t->g;
}
static double bcube(const terms *t) {
  double sum = 0;
  for (uint32_t left = t->ranks; left > 1;) {
    const uint32_t values = left % SPLIT == 0 ? (uint32_t)SPLIT : left;
    left /= values;
    sum += 2 * (t->a + left * t->piece * t->b) + (values - 1) * left * t->piece * t->g;
  }
  return sum;
}
static double two_level_all_reduce(const terms *t) {
  return 2 * (t->ai + t->m * t->bi) + (t->l - 1) * t->m * t->g +
         t->lgh * (t->a + t->m * (t->b + t->g));
}

static double chain_reduce(const terms *t) { return (t->p - 1) * (t->a + t->m * (t->b + t->g)); }
static double flat_reduce(const terms *t) { return t->a + t->m * (t->b + (t->p - 1) * t->g); }
static double two_level_reduce(const terms *t) {
  return t->ai + t->a + t->m * (t->bi + t->b + (t->l + t->hosts - 2) * t->g);
}
static double hierarchical_reduce(const terms *t) {
  return t->ai + t->m * (t->bi + (t->l - 1) * t->g) + t->lgh * (t->a + t->m * (t->b + t->g));
}

static double chain_broadcast(const terms *t) { return (t->p - 1) * (t->a + t->m * t->b); }
static double binomial_broadcast(const terms *t) { return t->lg * (t->a + t->m * t->b); }
static double flat_broadcast(const terms *t) { return t->a + t->m * t->b; }
/* The first piece travels around the ring behind one that was scattered. */
static double scatter_all_gather(const terms *t) { return (t->p - 1) * t->a + t->m * t->b; }
static double two_level_broadcast(const terms *t) { return t->a + t->ai + t->m * (t->b + t->bi); }
static double hierarchical_broadcast(const terms *t) {
  return t->lgh * (t->a + t->m * t->b) + t->ai + t->m * t->bi;
}

static double ring_all_gather(const terms *t) { return (t->p - 1) * (t->a + t->piece * t->b); }
static double rounds_all_gather(const terms *t) {
  return ceil(t->lg) * t->a + (t->p - 1) * t->piece * t->b;
}
static double one_piece(const terms *t) { return t->a + t->piece * t->b; }
/* Within hosts in turns. Then the leaders' pieces travel one by one, and the last one to the
 * members. */
static double two_level_all_gather(const terms *t) {
  return t->l * (t->ai + t->piece * t->bi) + (t->hosts - 1) * t->l * (t->a + t->piece * t->b);
}
/* The last round brings half of all pieces, which then travel to the members. */
static double hierarchical_all_gather(const terms *t) {
  return 2 * t->ai + (1 + t->p / 2) * t->piece * t->bi + t->lgh * t->a +
         (t->p - t->l) * t->piece * t->b;
}

static double ring_reduce_scatter(const terms *t) {
  return (t->p - 1) * (t->a + t->piece * (t->b + t->g));
}
static double rounds_reduce_scatter(const terms *t) {
  return t->lg * t->a + (t->p - 1) * t->piece * (t->b + t->g);
}
/* The leader combines its host's parts of each piece, then waits for another leader's. */
static double two_level_reduce_scatter(const terms *t) {
  return 2 * (t->ai + t->piece * t->bi) +
         (t->hosts - 1) * t->l * (t->a + t->piece * (t->b + t->l * t->g));
}
static double hierarchical_reduce_scatter(const terms *t) {
  return 2 * t->ai + (t->m + t->piece) * t->bi + (t->l - 1) * t->m * t->g + t->lgh * t->a +
         (t->p - t->l) * t->piece * (t->b + t->g);
}
static double direct_reduce_scatter(const terms *t) {
  return t->a + t->piece * (t->b + (t->p - 1) * t->g);
}

/* A message has pieces of one stride, so a round has several messages, one after the other. */
static double bruck_all_to_all(const terms *t) {
  double sum = 0;
  for (uint32_t d = 1; d < t->ranks; d *= 2) {
    const uint32_t rows = t->ranks / (2 * d), by_rows = 2 * rows;
    sum += (d <= by_rows ? d : d > 1 ? by_rows : rows) * t->a + t->m / 2 * t->b;
  }
  return sum;
}

/* Within hosts in turns. Then for each other host: to the leader, across in one message, back. */
static double hierarchical_all_to_all(const terms *t) {
  return t->l * (t->ai + t->piece * t->bi) +
         (t->hosts - 1) *
             (2 * (t->ai + t->l * t->piece * t->bi) + t->a + t->l * t->l * t->piece * t->b);
}

static double doubling_exclusive(const terms *t) {
  return t->lg * (t->a + t->m * t->b) + 2 * (t->lg - 1) * t->m * t->g;
}
static double chain_exclusive(const terms *t) {
  return (t->p - 1) * (t->a + t->m * t->b) + (t->p - 2) * t->m * t->g;
}

/* ---- the formula of each algorithm */

enum { ANY = 1, POWERS = 2, EVEN = 4 }; /* sizes of groups */
enum { FEW = 8 /* connections */, HOSTS = 16 };

static const struct {
  df_operation operation;
  df_algorithm algorithm;
  double (*formula)(const terms *t);
  int flags;
} formulas[] = {
    {DF_OP_ALL_REDUCE, DF_RING, ring_all_reduce, ANY | FEW},
    {DF_OP_ALL_REDUCE, DF_ALL_PAIRS, all_pairs, ANY},
    {DF_OP_ALL_REDUCE, DF_DOUBLING, doubling, POWERS | FEW},
    {DF_OP_ALL_REDUCE, DF_RABENSEIFNER, rabenseifner, POWERS | FEW},
    {DF_OP_ALL_REDUCE, DF_DOUBLE_TREE, double_tree_all_reduce, POWERS | FEW},
    {DF_OP_ALL_REDUCE, DF_DIRECT, direct_all_reduce, ANY},
    {DF_OP_ALL_REDUCE, DF_TREES, direct_all_reduce, ANY},
    {DF_OP_ALL_REDUCE, DF_FLAT, flat_all_reduce, ANY | FEW},
    {DF_OP_ALL_REDUCE, DF_BCUBE, bcube, POWERS | FEW},
    {DF_OP_ALL_REDUCE, DF_BINARY_BLOCKS, rabenseifner, POWERS | FEW},
    {DF_OP_ALL_REDUCE, DF_TWO_LEVEL, two_level_all_reduce, POWERS | FEW | HOSTS},
    {DF_OP_ALL_REDUCE, DF_HIERARCHICAL, two_level_all_reduce, POWERS | FEW | HOSTS},
    {DF_OP_REDUCE, DF_RING, chain_reduce, ANY | FEW},
    {DF_OP_REDUCE, DF_RABENSEIFNER, rabenseifner, POWERS | FEW},
    {DF_OP_REDUCE, DF_BINOMIAL, doubling, POWERS | FEW},
    {DF_OP_REDUCE, DF_DOUBLE_TREE, double_tree_reduce, POWERS | FEW},
    {DF_OP_REDUCE, DF_FLAT, flat_reduce, ANY | FEW},
    {DF_OP_REDUCE, DF_TREES, flat_reduce, ANY | FEW},
    {DF_OP_REDUCE, DF_ORDERED, flat_reduce, ANY | FEW},
    {DF_OP_REDUCE, DF_TWO_LEVEL, two_level_reduce, POWERS | FEW | HOSTS},
    {DF_OP_REDUCE, DF_HIERARCHICAL, hierarchical_reduce, POWERS | FEW | HOSTS},
    {DF_OP_BROADCAST, DF_RING, chain_broadcast, ANY | FEW},
    {DF_OP_BROADCAST, DF_BINOMIAL, binomial_broadcast, POWERS | FEW},
    {DF_OP_BROADCAST, DF_DOUBLE_TREE, double_tree_broadcast, POWERS | FEW},
    {DF_OP_BROADCAST, DF_FLAT, flat_broadcast, ANY | FEW},
    {DF_OP_BROADCAST, DF_TREES, flat_broadcast, ANY | FEW},
    {DF_OP_BROADCAST, DF_SCATTER_ALL_GATHER, scatter_all_gather, ANY | FEW},
    {DF_OP_BROADCAST, DF_TWO_LEVEL, two_level_broadcast, POWERS | FEW | HOSTS},
    {DF_OP_BROADCAST, DF_HIERARCHICAL, hierarchical_broadcast, POWERS | FEW | HOSTS},
    {DF_OP_ALL_GATHER, DF_RING, ring_all_gather, ANY | FEW},
    {DF_OP_ALL_GATHER, DF_DOUBLING, rounds_all_gather, POWERS | FEW},
    {DF_OP_ALL_GATHER, DF_BRUCK, rounds_all_gather, ANY | FEW},
    {DF_OP_ALL_GATHER, DF_PAT, rounds_all_gather, ANY | FEW},
    {DF_OP_ALL_GATHER, DF_DIRECT, one_piece, ANY},
    {DF_OP_ALL_GATHER, DF_TREES, one_piece, ANY},
    {DF_OP_ALL_GATHER, DF_TWO_LEVEL, two_level_all_gather, POWERS | FEW | HOSTS},
    {DF_OP_ALL_GATHER, DF_HIERARCHICAL, hierarchical_all_gather, POWERS | FEW | HOSTS},
    {DF_OP_REDUCE_SCATTER, DF_RING, ring_reduce_scatter, ANY | FEW},
    {DF_OP_REDUCE_SCATTER, DF_HALVING, rounds_reduce_scatter, POWERS | FEW},
    {DF_OP_REDUCE_SCATTER, DF_PAT, rounds_reduce_scatter, POWERS | FEW},
    {DF_OP_REDUCE_SCATTER, DF_DIRECT, direct_reduce_scatter, ANY},
    {DF_OP_REDUCE_SCATTER, DF_TREES, direct_reduce_scatter, ANY},
    {DF_OP_REDUCE_SCATTER, DF_ORDERED, direct_reduce_scatter, ANY},
    {DF_OP_REDUCE_SCATTER, DF_TWO_LEVEL, two_level_reduce_scatter, POWERS | FEW | HOSTS},
    {DF_OP_REDUCE_SCATTER, DF_HIERARCHICAL, hierarchical_reduce_scatter, POWERS | FEW | HOSTS},
    {DF_OP_ALL_TO_ALL, DF_PAIRWISE, ring_all_gather, EVEN},
    {DF_OP_ALL_TO_ALL, DF_DIRECT, one_piece, ANY},
    {DF_OP_ALL_TO_ALL, DF_BRUCK, bruck_all_to_all, POWERS | FEW},
    {DF_OP_ALL_TO_ALL, DF_HIERARCHICAL, hierarchical_all_to_all, POWERS | HOSTS},
    {DF_OP_GATHER, DF_FLAT, one_piece, ANY | FEW},
    {DF_OP_SCATTER, DF_FLAT, one_piece, ANY | FEW},
    {DF_OP_SCAN, DF_RING, chain_reduce, ANY | FEW},
    {DF_OP_SCAN, DF_DOUBLING, doubling, POWERS | FEW},
    {DF_OP_EXCLUSIVE_SCAN, DF_RING, chain_exclusive, ANY | FEW},
    {DF_OP_EXCLUSIVE_SCAN, DF_DOUBLING, doubling_exclusive, POWERS | FEW},
};

/* ---- comparing */

static const char own_hosts[] = "{\"contention\": false, \"between\": {\"latency_us\": 3, "
                                "\"GBps\": 2}, \"reduce_GBps\": 5}";
static const char shared_hosts[] =
    "{\"contention\": false, \"ranks_per_host\": 4, \"inside\": {\"latency_us\": 1, \"GBps\": 4}, "
    "\"between\": {\"latency_us\": 3, \"GBps\": 2}, \"reduce_GBps\": 5}";

static void compare(size_t which, uint32_t n, double piece) {
  const int on_hosts = formulas[which].flags & HOSTS;
  df_network model;
  const char *text = on_hosts ? shared_hosts : own_hosts;
  OK(df_network_parse(&model, "test", text, strlen(text), n));
  const terms t = {.ranks = n,
                   .p = n,
                   .m = n * piece,
                   .piece = piece,
                   .lg = log2(n),
                   .a = 3e-6,
                   .b = 1 / 2e9,
                   .g = 1 / 5e9,
                   .l = 4,
                   .hosts = n / 4.0,
                   .lgh = log2(n / 4.0),
                   .ai = 1e-6,
                   .bi = 1 / 4e9};
  const df_timeline_question question = {.network = &model,
                                         .operation = formulas[which].operation,
                                         .algorithm = formulas[which].algorithm,
                                         .split = formulas[which].algorithm == DF_BCUBE ? SPLIT : 0,
                                         .bytes = (uint64_t)t.m,
                                         .slots = 4096,
                                         .slot_bytes = 4 << 20};
  df_timeline_answer answer;
  OK(df_timeline_run(&question, NULL, &answer));
  CHECK(answer.loops == 1, "%u loops", answer.loops);
  const double wanted = formulas[which].formula(&t);
  CHECK(fabs(answer.seconds - wanted) <= 0.01 * wanted,
        "%s by %s of %u, pieces of %g bytes: %g us, not %g (%u messages, latency %g, transfer %g, "
        "work %g)",
        df_operation_name(formulas[which].operation), df_algorithm_name(formulas[which].algorithm),
        n, piece, answer.seconds * 1e6, wanted * 1e6, answer.critical.messages,
        answer.critical.latency * 1e6, answer.critical.transfer * 1e6, answer.critical.work * 1e6);
  CHECK(answer.bound <= answer.seconds * (1 + 1e-9), "the bound is %g", answer.bound);
  df_network_free(&model);
}

static void compare_sizes(const uint32_t *sizes, size_t n_sizes, int flags, int unless) {
  for (size_t which = 0; which < DF_COUNT_OF(formulas); which++)
    for (size_t i = 0; i < n_sizes; i++) {
      if (!(formulas[which].flags & flags) || (formulas[which].flags & unless)) continue;
      if ((formulas[which].flags & HOSTS) && sizes[i] < 8) continue;
      if (sizes[i] < 256) compare(which, sizes[i], 64);
      compare(which, sizes[i], 512);
    }
}

DF_TEST(simulator_formulas, groups_that_are_powers_of_two, 300) {
  static const uint32_t sizes[] = {2, 4, 8, 16, 64, 256, 512};
  compare_sizes(sizes, DF_COUNT_OF(sizes), ANY | POWERS | EVEN, 0);
}

DF_TEST(simulator_formulas, groups_of_any_size, 300) {
  static const uint32_t sizes[] = {3, 5, 7, 11, 33, 100, 257}, even[] = {6, 10, 100};
  compare_sizes(sizes, DF_COUNT_OF(sizes), ANY, 0);
  compare_sizes(even, DF_COUNT_OF(even), EVEN, 0);
}

DF_TEST(simulator_formulas, largest_groups, 300) {
  const bool all = getenv("TEST_FORMULAS") != NULL;
  const uint32_t size = all ? 2048 : df_slowdown() > 1 ? 512 : 1024;
  compare_sizes(&size, 1, all ? ANY | POWERS | EVEN : FEW, 0);
}

/* ---- more than a slot */

enum { SLOT = 128 << 10 };

static const struct {
  df_operation operation;
  df_algorithm algorithm;
  double rounds;    /* for each factor two of the group's size */
  uint64_t longest; /* in slots for each rank: the largest buffer that is tried. 0: scratch memory
                       limits a loop's length */
} rounds_of[] = {
    {DF_OP_ALL_REDUCE, DF_RABENSEIFNER, 2, 16}, {DF_OP_ALL_REDUCE, DF_BINARY_BLOCKS, 2, 16},
    {DF_OP_ALL_REDUCE, DF_BCUBE, 2, 16},        {DF_OP_REDUCE, DF_RABENSEIFNER, 2, 0},
    {DF_OP_REDUCE_SCATTER, DF_HALVING, 1, 0},   {DF_OP_REDUCE_SCATTER, DF_PAT, 1, 0},
    {DF_OP_ALL_GATHER, DF_DOUBLING, 1, 1},      {DF_OP_ALL_GATHER, DF_BRUCK, 1, 1},
    {DF_OP_ALL_GATHER, DF_PAT, 1, 1},
};

/* The time consists of the latency of each round, and of the transfer that a ring has too. */
static void compare_latency(size_t which, uint32_t n, uint64_t bytes) {
  static const char network[] =
      "{\"contention\": false, \"between\": {\"latency_us\": 3, \"GBps\": 2}}";
  df_network model;
  OK(df_network_parse(&model, "test", network, strlen(network), n));
  const df_timeline_question question = {.network = &model,
                                         .operation = rounds_of[which].operation,
                                         .algorithm = rounds_of[which].algorithm,
                                         .split = rounds_of[which].algorithm == DF_BCUBE ? 2 : 0,
                                         .bytes = bytes,
                                         .slots = 4,
                                         .slot_bytes = SLOT};
  df_timeline_answer answer;
  OK(df_timeline_run(&question, NULL, &answer));
  const int twice =
      rounds_of[which].operation == DF_OP_ALL_REDUCE || rounds_of[which].operation == DF_OP_REDUCE;
  const double wanted = rounds_of[which].rounds * log2(n) * 3e-6 +
                        (twice ? 2 : 1) * (double)bytes / n * (n - 1) / 2e9;
  CHECK(fabs(answer.seconds - wanted) <= 0.01 * wanted,
        "%s by %s of %u, %llu bytes: %g us, not %g (%u loops, %u messages, latency %g)",
        df_operation_name(rounds_of[which].operation),
        df_algorithm_name(rounds_of[which].algorithm), n, (unsigned long long)bytes,
        answer.seconds * 1e6, wanted * 1e6, answer.loops, answer.critical.messages,
        answer.critical.latency * 1e6);
  df_network_free(&model);
}

/* One message a piece would cost n messages' latency as soon as the buffer is longer than a slot.
 */
DF_TEST(simulator_formulas, rounds_keep_their_latency_above_one_slot, 300) {
  static const uint32_t sizes[] = {4, 16, 64};
  for (size_t which = 0; which < DF_COUNT_OF(rounds_of); which++)
    for (size_t i = 0; i < DF_COUNT_OF(sizes); i++) {
      const uint32_t n = sizes[i];
      const uint64_t all = (uint64_t)n * SLOT;
      const uint64_t longest = rounds_of[which].longest
                                   ? rounds_of[which].longest * all
                                   : DF_MIN(all, (uint64_t)DF_MAX_SCRATCH_BYTES);
      compare_latency(which, n, SLOT + SLOT / 4);
      for (uint64_t bytes = 2 * SLOT; bytes <= longest; bytes *= 2)
        compare_latency(which, n, bytes);
    }
}

/* 8.4 million messages. */
DF_TEST(simulator_formulas, a_ring_of_two_thousand_ranks_needs_less_than_4_gb, 300) {
  struct rusage used;
  for (size_t which = 0; which < DF_COUNT_OF(formulas); which++)
    if (formulas[which].algorithm == DF_RING && formulas[which].operation == DF_OP_ALL_REDUCE)
      compare(which, df_slowdown() > 1 ? 512 : 2048, 512);
  getrusage(RUSAGE_SELF, &used);
  CHECK(used.ru_maxrss < 4 << 20, "%ld KB", used.ru_maxrss); /* KB */
}

/* Bytes that a rank keeps. */
static uint64_t plan_bytes(df_operation operation, int algorithm, uint32_t n, uint32_t row) {
  const df_plan_key key = {
      .operation = operation, .algorithm = algorithm, .n = n, .split = SPLIT, .cuts.row = row};
  df_plan *plan = df_plan_make(&key);
  CHECK(plan != NULL, "%s by %s of %u", df_operation_name(operation), df_algorithm_name(algorithm),
        n);
  uint64_t bytes =
      plan->n_primitives * sizeof *plan->primitives + plan->n_links * sizeof *plan->links;
  if (plan->own_levels) bytes += (uint64_t)n * plan->own_levels->depth * sizeof(uint16_t);
  df_plan_free(plan);
  return bytes;
}

/* Less than twice for n log n; never four times for each doubling. Rank 0 has most of the work. */
DF_TEST(simulator_formulas, no_table_of_a_rank_grows_with_the_square_of_ranks, 60) {
  for (int operation = 0; operation < DF_OP_COUNT; operation++)
    for (int algorithm = 0; algorithm < DF_ALGORITHMS; algorithm++) {
      if (!df_timeline_supports((df_operation)operation) ||
          !df_algorithm_has(algorithm, (df_operation)operation))
        continue;
      for (uint32_t row = 1; row <= DF_ROW_WHOLE; row += DF_ROW_WHOLE - 1) {
        const uint64_t few = plan_bytes((df_operation)operation, algorithm, 512, row);
        const uint64_t many = plan_bytes((df_operation)operation, algorithm, 2048, row);
        CHECK(many <= 6 * few, "%s by %s: %llu bytes for 512 ranks, %llu for 2,048",
              df_operation_name((df_operation)operation), df_algorithm_name(algorithm),
              (unsigned long long)few, (unsigned long long)many);
      }
    }
}

/* A new algorithm must be in the list above. */
DF_TEST(simulator_formulas, every_algorithm_has_a_formula, 30) {
  for (int operation = 0; operation < DF_OP_COUNT; operation++)
    for (int algorithm = 0; algorithm < DF_ALGORITHMS; algorithm++) {
      int listed = 0;
      for (size_t i = 0; i < DF_COUNT_OF(formulas); i++)
        listed +=
            (int)formulas[i].operation == operation && (int)formulas[i].algorithm == algorithm;
      const int is_known = df_timeline_supports((df_operation)operation) &&
                           df_algorithm_has(algorithm, (df_operation)operation);
      CHECK(listed == is_known, "%s of %s", df_algorithm_name(algorithm),
            df_operation_name((df_operation)operation));
    }
}
