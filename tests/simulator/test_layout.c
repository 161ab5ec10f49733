/*
 * Promises of simulator/layout.h:
 *   - Positions and collectives are inverse to each other, in both orders, and list each GPU's
 *     collectives once.
 *   - concat is group after group; roundrobin is index by index across the groups.
 *   - Keys rise along every GPU's expected order, and the collectives between two keys are those
 *     that df_layout_indices_between names.
 *   - Groups that share a GPU are in one component; 3d stages are not.
 */
#include <stdlib.h>

#include "config.h"
#include "sim_support.h"
#include "support/harness.h"

static void check_gpu(const df_layout *layout, uint32_t gpu) {
  uint64_t length = df_layout_gpu_slots(layout, gpu), before = 0;
  uint32_t *expected = calloc(length + 1, sizeof *expected);
  df_layout_expected(layout, gpu, expected);
  for (uint64_t position = 0; position < length; position++) {
    df_collective at = df_layout_collective_at(layout, gpu, position);
    CHECK(layout->coll_first[at.group] + at.index == expected[position],
          "GPU %u, position %llu: %u and %u", gpu, (unsigned long long)position,
          layout->coll_first[at.group] + at.index, expected[position]);
    uint32_t place = layout->gpu_group_first[gpu];
    while (layout->gpu_group[place] != at.group) place++;
    uint64_t back = df_layout_position(layout, gpu, place, at.index);
    CHECK(back == position, "GPU %u: position %llu came back as %llu", gpu,
          (unsigned long long)position, (unsigned long long)back);
    uint64_t key = df_layout_key(layout, at);
    CHECK(position == 0 || key > before, "GPU %u: key falls at position %llu", gpu,
          (unsigned long long)position);
    before = key;
  }
  for (uint64_t slot = layout->slot_first[gpu]; slot < layout->slot_first[gpu + 1]; slot++)
    CHECK(df_layout_gpu_of_slot(layout, slot) == gpu, "slot %llu", (unsigned long long)slot);
  free(expected);
}

/* Every collective with a key between two keys of one component, and no other. */
static void check_between(const df_layout *layout, uint64_t *state) {
  uint32_t total = layout->coll_first[layout->group_count];
  if (total == 0) return;
  uint64_t key[2];
  uint32_t component[2];
  for (int i = 0; i < 2; i++) {
    uint32_t collective = (uint32_t)(sim_random(state) % total), group = 0;
    while (layout->coll_first[group + 1] <= collective) group++;
    key[i] = df_layout_key(layout, (df_collective){group, collective - layout->coll_first[group]});
    component[i] = layout->component_of[group];
  }
  if (component[0] != component[1]) return;
  uint64_t low = DF_MIN(key[0], key[1]), high = DF_MAX(key[0], key[1]);
  uint32_t first_place, last_place;
  df_layout_groups_between(layout, low, high, &first_place, &last_place);
  for (uint32_t group = 0; group < layout->group_count; group++) {
    uint32_t first = 1, last = 0, place = layout->sorted_place[group];
    bool any = place >= first_place && place <= last_place &&
               df_layout_indices_between(layout, low, high, group, &first, &last);
    for (uint32_t index = 0; index < df_layout_coll_count(layout, group); index++) {
      uint64_t at = df_layout_key(layout, (df_collective){group, index});
      bool between = at >= low && at <= high, named = any && index >= first && index <= last;
      CHECK(between == named, "group %u, index %u: between %d, named %d", group, index, between,
            named);
    }
  }
}

DF_TEST(layout, positions_and_keys, 60) {
  for (uint64_t seed = 1; seed <= 3000; seed++) {
    sim_case random_case;
    sim_case_create(&random_case, seed, 9, 9, 12);
    for (uint32_t gpu = 0; gpu < random_case.layout.gpu_count; gpu++)
      check_gpu(&random_case.layout, gpu);
    uint64_t state = seed;
    for (int i = 0; i < 10; i++) check_between(&random_case.layout, &state);
    sim_case_destroy(&random_case);
  }
}

DF_TEST(layout, both_orders_by_hand, 10) {
  static const uint32_t first[] = {0, 2, 3}, members[] = {0, 1, 0}, counts[] = {3, 1};
  static const uint32_t concat[] = {0, 1, 2, 3}, roundrobin[] = {0, 3, 1, 2};
  for (int order = 0; order < 2; order++) {
    df_layout layout;
    uint32_t got[4];
    OK(df_layout_create(&layout, (df_order)order, 2, 2, first, members, counts));
    df_layout_expected(&layout, 0, got);
    for (int i = 0; i < 4; i++)
      CHECK(got[i] == (order == DF_ORDER_CONCAT ? concat : roundrobin)[i],
            "order %d, position %d: %u", order, i, got[i]);
    df_layout_destroy(&layout);
  }
}

DF_TEST(layout, groups_of_3d_as_published, 10) {
  static const char text[] =
      "{\"rounds\":1,\"model\":\"Single\",\"grouping_policy\":\"Megatron\",\"tp_group_size\":2,"
      "\"dp_group_size\":3,\"pp_group_size\":2,\"coll_cnt_per_tp_group\":1,"
      "\"coll_cnt_per_dp_group\":2,\"disorder_prob\":0}";
  static const uint32_t sizes[] = {2, 2, 2, 3, 3};
  static const uint32_t members[] = {0, 1, 2, 3, 4, 5, 0, 2, 4, 1, 3, 5};
  df_config config;
  df_layout layout;
  OK(df_config_parse(&config, "text", text, sizeof text - 1));
  OK(df_config_layout(&config, &layout));
  CHECK(layout.gpu_count == 12 && layout.group_count == 10, "%u GPUs, %u groups", layout.gpu_count,
        layout.group_count);
  CHECK(layout.component_count == 2, "stages share nothing, but there are %u components",
        layout.component_count);
  for (uint32_t group = 0, used = 0; group < 10; group++)
    for (uint32_t i = 0; i < sizes[group % 5]; i++, used++)
      CHECK(layout.member[used] == members[used % 12] + (group >= 5 ? 6u : 0u),
            "group %u, member %u: %u", group, i, layout.member[used]);
  df_layout_destroy(&layout);
  df_config_destroy(&config);
}
