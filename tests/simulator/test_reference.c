/*
 * Promises of simulator/engine_reference.h: it gives the published Python program's verdicts.
 *   - It gives the verdicts that the published program printed for seed 2023, round by round.
 *   - It reproduces the two examples in which that program differs from the definition.
 */
#include <string.h>

#include "engine_dense.h"
#include "engine_reference.h"
#include "estimate.h"
#include "support/harness.h"

typedef struct {
  const char *expected;
  uint64_t wrong, first_wrong;
} comparison;

static bool compare(void *context, uint64_t round, bool deadlock) {
  comparison *compared = context;
  if (deadlock != (compared->expected[round] == '1') && compared->wrong++ == 0)
    compared->first_wrong = round;
  return true;
}

#define THREE_D "\"grouping_policy\":\"Megatron\",\"tp_group_size\":2,"
#define FOUR_GROUPS                                                                                \
  "\"grouping_policy\":\"Arbitrary\",\"gpu_num\":8,\"group_num\":4,\"gpu_per_group\":[[0,1,2],"    \
  "[2,3,5],[4,5,6],[6,7,0,1,3]],\"coll_cnt_per_group\":[10,9,8,7],"
#define HEAD "{\"total_rounds\":100,\"fix_seed\":1,\"order\":\"roundrobin\","

/* Configurations, with the output of the published program for each of their hundred rounds. */
DF_TEST(reference, verdicts_of_the_published_program, 30) {
  static const struct {
    const char *config, *verdicts;
  } cases[] = {
      {HEAD THREE_D "\"model\":\"Single\",\"dp_group_size\":3,\"pp_group_size\":2,"
                    "\"coll_cnt_per_tp_group\":4,\"coll_cnt_per_dp_group\":6,"
                    "\"disorder_prob\":0.02,\"sync_prob\":0.1}",
       "00100100100110010001001010110010100110000000010110001001001000110011011011001000"
       "00001011110001110111"},
      {HEAD THREE_D "\"model\":\"StreamWithSync\",\"dp_group_size\":2,\"pp_group_size\":2,"
                    "\"coll_cnt_per_tp_group\":10,\"coll_cnt_per_dp_group\":10,"
                    "\"disorder_prob\":0.1,\"sync_prob\":0.1}",
       "00000000000000000000000000000000001000000000000000000000000100001000000000001000"
       "00000000000000000000"},
      {HEAD FOUR_GROUPS "\"model\":\"StreamWithSync\",\"disorder_prob\":0.1,\"sync_prob\":0.1,"
                        "\"resource_limit\":50}",
       "10000010000001000100100000110100000000000000000000000001010110000000000010000000"
       "00000010100100011000"},
      {HEAD FOUR_GROUPS "\"model\":\"StreamWithSync\",\"disorder_prob\":0.3,\"sync_prob\":0.02,"
                        "\"resource_limit\":5}",
       "00000000000000000000000000000100000000000000000000000000000000000000000000000000"
       "00100000000001000000"},
      {HEAD "\"grouping_policy\":\"Arbitrary\",\"gpu_num\":4,\"group_num\":1,"
            "\"gpu_per_group\":[[3,1,0,2]],\"coll_cnt_per_group\":[12],\"model\":\"Single\","
            "\"disorder_prob\":0.01,\"sync_prob\":0.1}",
       "01001010000000110000101010000000100100010010000000000110001100000011011000001010"
       "10010011010001101101"}};
  for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    df_config config;
    df_layout layout;
    comparison compared = {.expected = cases[i].verdicts};
    CHECK(strlen(cases[i].verdicts) == 100, "case %u has %zu verdicts", i,
          strlen(cases[i].verdicts));
    OK(df_config_parse(&config, "case", cases[i].config, strlen(cases[i].config)));
    OK(df_config_layout(&config, &layout));
    OK(df_estimate_verdicts(&config, &layout, DF_ENGINE_REFERENCE, 0, 100, compare, &compared));
    CHECK(compared.wrong == 0, "case %u: %llu verdicts differ, the first in round %llu", i,
          (unsigned long long)compared.wrong, (unsigned long long)compared.first_wrong);
    df_layout_destroy(&layout);
    df_config_destroy(&config);
  }
}

/* Both verdicts on one fixed order of collectives in the single-queue model. */
static void judge(const df_layout *layout, const uint32_t *orders, const uint32_t *group_of,
                  bool *exact, bool *reference) {
  df_config config = {.model = DF_MODEL_SINGLE, .resource_limit = -1};
  df_reference published;
  df_dense dense;
  uint64_t first[8];
  uint32_t events[32];
  for (uint32_t gpu = 0; gpu <= layout->gpu_count; gpu++) first[gpu] = layout->slot_first[gpu];
  memcpy(events, orders, layout->slot_count * sizeof *events);
  df_sequences sequences = {.gpu_count = layout->gpu_count,
                            .group_count = layout->group_count,
                            .coll_count = layout->coll_first[layout->group_count],
                            .single_queue = true,
                            .member_first = layout->member_first,
                            .member = layout->member,
                            .group_of = group_of,
                            .first = first,
                            .event = events};
  OK(df_reference_create(&published, layout, &config, 1));
  *reference = df_reference_single_orders(&published, orders);
  df_reference_destroy(&published);
  OK(df_dense_create(&dense, layout->gpu_count, sequences.coll_count));
  *exact = df_dense_deadlocks(&dense, &sequences);
  df_dense_destroy(&dense);
}

/* Groups {0,1} and {0,1} with one collective each. GPU 0 runs a, b and GPU 1 runs b, a. Each group
 * sees one collective only, so the published check finds nothing, but no GPU can ever finish. */
DF_TEST(reference, misses_a_circle_across_groups, 10) {
  static const uint32_t first[] = {0, 2, 4}, members[] = {0, 1, 0, 1}, counts[] = {1, 1};
  static const uint32_t orders[] = {0, 1, 1, 0}, group_of[] = {0, 1};
  df_layout layout;
  bool exact, reference;
  OK(df_layout_create(&layout, DF_ORDER_CONCAT, 2, 2, first, members, counts));
  judge(&layout, orders, group_of, &exact, &reference);
  CHECK(exact && !reference, "exact %d, reference %d", exact, reference);
  df_layout_destroy(&layout);
}

/* Groups {1,2} with collective 0 and {0,1} with 1, 2, 3, concat order, no disorder. Every GPU
 * follows one order, so nothing can deadlock, but GPU 0 is a collective ahead of GPU 1 from the
 * start. */
DF_TEST(reference, reports_a_deadlock_without_disorder, 10) {
  static const uint32_t first[] = {0, 2, 4}, members[] = {1, 2, 0, 1}, counts[] = {1, 3};
  static const uint32_t orders[] = {1, 2, 3, 0, 1, 2, 3, 0}, group_of[] = {0, 1, 1, 1};
  df_layout layout;
  bool exact, reference;
  OK(df_layout_create(&layout, DF_ORDER_CONCAT, 3, 2, first, members, counts));
  judge(&layout, orders, group_of, &exact, &reference);
  CHECK(!exact && reference, "exact %d, reference %d", exact, reference);
  df_layout_destroy(&layout);
}

/* The same through the random stream: without disorder every round is that one. */
DF_TEST(reference, the_same_through_a_configuration, 10) {
  static const char text[] =
      "{\"rounds\":3,\"model\":\"Single\",\"grouping_policy\":\"Arbitrary\",\"gpu_num\":3,"
      "\"group_num\":2,\"gpu_per_group\":[[1,2],[0,1]],\"coll_cnt_per_group\":[1,3],"
      "\"disorder_prob\":0}";
  df_config config;
  df_layout layout;
  OK(df_config_parse(&config, "text", text, sizeof text - 1));
  OK(df_config_layout(&config, &layout));
  for (int engine = 0; engine < 4; engine++) {
    df_estimate_options options = {.engine = (df_engine)engine, .threads = 1, .rounds = 3};
    df_estimate estimate;
    OK(df_estimate_run(&config, &layout, &options, &estimate));
    CHECK(estimate.deadlocks == (engine == DF_ENGINE_REFERENCE ? 3u : 0u), "%s: %llu deadlocks",
          df_engine_names[engine], (unsigned long long)estimate.deadlocks);
  }
  df_layout_destroy(&layout);
  df_config_destroy(&config);
}
