/*
 * Promises of src/topology/topology.h:
 *   - Cores are counted for each host, and a core that two ranks of a host may use counts once.
 *   - Neighbours exist if a group goes host by host with as many ranks on each, the last with at
 *     most as many. In any other order, and on one host, there are none.
 *   - Levels are the hosts, in any order and with any number of ranks, and the subgroups within
 *     them.
 *   - The choice then uses two levels with a host as a subgroup, unless the algorithm is named.
 *   - Vector collectives have longer slots between hosts if there are few members, and more slots
 *     than members agreed on.
 */
#include "topology/topology.h"

#include <stdlib.h>
#include <string.h>

#include "plans/algorithms/piece_tables.h"
#include "support/harness.h"
#include "tuning/configuration.h"

/* Ranks of hosts 'a', 'b' ...; each rank may use cores 0 and 1 of its host. */
static df_topology topology_of(const char *hosts) {
  static const uint64_t cpus[DF_TOPOLOGY_CPU_WORDS] = {3};
  df_topology topology = {.runs_on_cores = 1};
  CHECK(df_topology_open(&topology, (uint32_t)strlen(hosts)), "no memory");
  for (uint32_t r = 0; hosts[r]; r++)
    CHECK(df_topology_add(&topology, r, (uint64_t)hosts[r], cpus), "no memory");
  return topology;
}

DF_TEST(topology, cores_are_those_of_all_hosts, 10) {
  df_topology one = topology_of("aaaa"), three = topology_of("abcabc");
  CHECK(one.n_hosts == 1 && one.n_cores == 2, "%u cores", one.n_cores);
  CHECK(three.n_hosts == 3 && three.n_cores == 6, "%u cores", three.n_cores);
  CHECK(df_topology_is_oversubscribed(&one, 4) && !df_topology_is_oversubscribed(&three, 6),
        "crowded");
  df_topology_free(&one);
  df_topology_free(&three);
}

DF_TEST(topology, neighbours_are_the_ranks_of_a_host, 10) {
  static const struct {
    const char *hosts;
    uint32_t neighbours;
  } cases[] = {{"aaaa", 0},   {"aabb", 2}, {"aaabbb", 3}, {"aabbc", 2}, {"ab", 1},     {"abab", 1},
               {"aabbba", 0}, {"abb", 0},  {"aaabb", 3},  {"aaab", 3},  {"aabbaa", 2}, {"a", 0}};
  for (size_t i = 0; i < DF_COUNT_OF(cases); i++) {
    df_topology topology = topology_of(cases[i].hosts);
    uint32_t n = df_topology_neighbours(&topology, NULL, (uint32_t)strlen(cases[i].hosts));
    CHECK(n == cases[i].neighbours, "%s: %u", cases[i].hosts, n);
    df_topology_free(&topology);
  }
  df_topology mixed = topology_of("ababab");
  const int by_host[] = {0, 2, 4, 1, 3, 5}, part[] = {0, 2};
  CHECK(df_topology_neighbours(&mixed, by_host, 6) == 3, "in the group's order");
  CHECK(df_topology_neighbours(&mixed, part, 2) == 0, "a group of one host");
  df_topology_free(&mixed);
}

DF_TEST(topology, levels_are_hosts_and_what_divides_them, 10) {
  df_topology vector = topology_of("abacab");
  const df_topology_spread spread = df_topology_spread_of(&vector, NULL, 6);
  CHECK(spread.hosts == 3 && spread.smallest == 1 && spread.largest == 3, "%u hosts, %u to %u",
        spread.hosts, spread.smallest, spread.largest);
  df_levels *levels = df_topology_levels(&vector, NULL, 6, 2, 5);
  static const uint16_t hosts[] = {0, 1, 0, 2, 0, 1}, halves[] = {0, 1, 0, 2, 3, 1};
  CHECK(levels && levels->depth == 2 && levels->host_channels == 1, "levels");
  for (uint32_t i = 0; i < 6; i++)
    CHECK(levels->group[i] == hosts[i] && levels->group[6 + i] == halves[i], "member %u: %u, %u", i,
          levels->group[i], levels->group[6 + i]);
  free(levels);
  const int part[] = {4, 1, 5, 2, 0}; /* in the group's order */
  levels = df_topology_levels(&vector, part, 5, 0, 5);
  static const uint16_t of_part[] = {0, 1, 1, 0, 0};
  CHECK(levels && levels->depth == 1 && levels->host_channels == 2, "levels of a part");
  CHECK(memcmp(levels->group, of_part, sizeof of_part) == 0, "hosts of a part");
  free(levels);
  const int one[] = {0, 2, 4};
  levels = df_topology_levels(&vector, one, 3, 2, 1);
  CHECK(levels && levels->group[1] == 0 && levels->group[2] == 1, "one host, in neighbours");
  free(levels);
  df_topology_free(&vector);
}

/* Groups without an order that two levels could use. */
DF_TEST(topology, uneven_hosts_take_levels, 10) {
  df_question question = {.operation = DF_OP_ALL_GATHER,
                          .n = 6,
                          .bytes = 1 << 20,
                          .memory = DF_MEMORY_HOST,
                          .hosts = 3,
                          .smallest_host = 1,
                          .largest_host = 3};
  df_choice choice;
  CHECK(df_choose(NULL, &question, &choice) && choice.algorithm == DF_HIERARCHICAL &&
            choice.is_by_hosts && choice.split == 0,
        "algorithm %d", choice.algorithm);
  question.largest_host = 1;
  CHECK(df_choose(NULL, &question, &choice) && choice.algorithm != DF_HIERARCHICAL,
        "each member on a host of its own");
}

DF_TEST(topology, hosts_are_the_subgroups_of_two_levels, 10) {
  df_question question = {
      .operation = DF_OP_ALL_REDUCE, .n = 6, .bytes = 1024, .memory = DF_MEMORY_HOST};
  df_choice choice;
  CHECK(df_choose(NULL, &question, &choice) && choice.algorithm != DF_TWO_LEVEL, "one host");
  question.neighbours = 3;
  CHECK(df_choose(NULL, &question, &choice) && choice.algorithm == DF_TWO_LEVEL &&
            choice.split == 3 && choice.is_by_hosts,
        "algorithm %d, split %u", choice.algorithm, choice.split);
  question.bytes = 1 << 20; /* two levels would send the data more than once */
  question.smallest_host = question.largest_host = 3;
  question.hosts = 2;
  CHECK(df_choose(NULL, &question, &choice) && choice.algorithm == DF_TWO_LEVEL, "two hosts");
  question.hosts = 3;
  CHECK(df_choose(NULL, &question, &choice) && choice.algorithm == DF_HIERARCHICAL, "three hosts");
  question.name = "ring";
  CHECK(df_choose(NULL, &question, &choice) && choice.algorithm == DF_RING, "named");
  question.name = NULL;
  question.operation = DF_OP_REDUCE_SCATTER;
  CHECK(df_choose(NULL, &question, &choice) && choice.is_by_hosts, "reduce-scatter");
  question.hosts = 2;
  question.operation = DF_OP_BARRIER;
  CHECK(df_choose(NULL, &question, &choice) && choice.algorithm == DF_TWO_LEVEL, "barrier");
  question.operation = DF_OP_ALL_TO_ALL; /* which has no two levels */
  CHECK(df_choose(NULL, &question, &choice) && choice.algorithm != DF_TWO_LEVEL, "all-to-all");
}

/* A scan along a chain crosses once; by doubling, once for each member of a host. */
DF_TEST(topology, scans_over_few_hosts_go_along_a_chain, 10) {
  df_question question = {.operation = DF_OP_SCAN,
                          .n = 4,
                          .bytes = 8,
                          .memory = DF_MEMORY_HOST,
                          .hosts = 2,
                          .smallest_host = 2,
                          .largest_host = 2,
                          .neighbours = 2};
  df_choice choice;
  CHECK(df_choose(NULL, &question, &choice) && choice.algorithm == DF_RING && choice.is_by_hosts,
        "two hosts");
  question.ordered = 1;
  CHECK(df_choose(NULL, &question, &choice) && choice.algorithm == DF_RING, "a chain has an order");
  question.operation = DF_OP_EXCLUSIVE_SCAN;
  CHECK(df_choose(NULL, &question, &choice) && choice.algorithm == DF_RING, "exclusive");
  question.n = 8;
  question.hosts = 4;
  CHECK(df_choose(NULL, &question, &choice) && choice.algorithm == DF_DOUBLING, "four hosts");
  question.n = 4;
  question.hosts = 2;
  question.neighbours = 0;
  CHECK(df_choose(NULL, &question, &choice) && choice.algorithm == DF_DOUBLING, "no such order");
  question.neighbours = 2;
  question.name = "doubling";
  CHECK(df_choose(NULL, &question, &choice) && choice.algorithm == DF_DOUBLING, "named");
}

static df_configuration_question uneven_of(const df_topology *topology, const df_tuning *tuning,
                                           uint32_t n) {
  return (df_configuration_question){.tuning = tuning,
                                     .topology = topology,
                                     .choice = {.operation = DF_OP_ALL_TO_ALL_V,
                                                .n = n,
                                                .memory = DF_MEMORY_HOST,
                                                .hosts = topology->n_hosts},
                                     .element_bytes = 4,
                                     .max_blocks = 1,
                                     .host_sees_links = 1};
}

DF_TEST(topology, uneven_pieces_have_longer_slots_between_hosts, 10) {
  static const struct {
    const char *hosts;
    uint32_t slot_bytes;
  } cases[] = {{"aa", 32 << 10},
               {"ab", 122 << 10},
               {"aabb", 122 << 10},
               {"aaaabbbb", 61 << 10},
               {"abcdefgh", 61 << 10},
               {"aaaaaaaa", 32 << 10},
               {"aaaaaabbbbbb", 43648},
               {"aaaaaaaabbbbbbbb", 32 << 10},
               {"aaaaaaaaaabbbbbbbbbb", 32 << 10}};
  df_tuning tuning;
  df_tuning_default(&tuning);
  for (size_t i = 0; i < DF_COUNT_OF(cases); i++) {
    df_topology topology = topology_of(cases[i].hosts);
    const df_configuration_question question =
        uneven_of(&topology, &tuning, (uint32_t)strlen(cases[i].hosts));
    df_configuration configuration;
    CHECK(df_configuration_choose(&configuration, &question) &&
              configuration.choice.slot_bytes == cases[i].slot_bytes,
          "%s: %u", cases[i].hosts, configuration.choice.slot_bytes);
    df_topology_free(&topology);
  }
}

/* A part of 61 KB is one packet, and one of 64 KB is two. A group with one rank on each host has
 * twice slot_bytes. */
DF_TEST(topology, slots_hold_whole_packets_between_hosts, 10) {
  static const struct {
    const char *hosts;
    uint32_t configured, slot_bytes;
  } cases[] = {{"aa", 128 << 10, 128 << 10}, {"ab", 128 << 10, 244 << 10},
               {"ab", 64 << 10, 122 << 10},  {"ab", 32 << 10, 61 << 10},
               {"ab", 16 << 10, 32 << 10},   {"ab", 1 << 20, 1952 << 10}};
  for (size_t i = 0; i < DF_COUNT_OF(cases); i++) {
    df_tuning tuning;
    df_tuning_default(&tuning);
    tuning.policy.slot_bytes = cases[i].configured;
    df_topology topology = topology_of(cases[i].hosts);
    df_configuration_question question = uneven_of(&topology, &tuning, 2);
    question.choice.operation = DF_OP_SEND_RECV;
    question.count = 16 << 20;
    question.choice.bytes = 64 << 20;
    df_configuration configuration;
    CHECK(df_configuration_choose(&configuration, &question), "no algorithm");
    const df_plan_key key = {
        .operation = DF_OP_SEND_RECV, .algorithm = configuration.choice.algorithm, .n = 2};
    df_plan *plan = df_plan_make(&key);
    CHECK(plan != NULL, "no memory");
    df_configuration_decide(&configuration, &question, plan);
    const uint32_t most = configuration.shape.stride - configuration.shape.payload_offset;
    const uint32_t chunk = 4 * configuration.shape.parts[0].chunk;
    CHECK(chunk <= cases[i].slot_bytes && chunk > cases[i].slot_bytes / 16 * 15 && most >= chunk,
          "%s, %u bytes: messages of %u", cases[i].hosts, cases[i].configured, chunk);
    df_plan_free(plan);
    df_topology_free(&topology);
  }
}

/* The case in which all members know all counts. */
DF_TEST(topology, uneven_pieces_cross_once_between_hosts, 10) {
  df_question question = {.operation = DF_OP_REDUCE_SCATTER_V, .n = 6, .hosts = 2, .neighbours = 3};
  df_choice choice;
  CHECK(df_choose(NULL, &question, &choice) && choice.split == 3, "subgroups of %u", choice.split);
  question.neighbours = 4; /* the last host has fewer */
  CHECK(df_choose(NULL, &question, &choice) && choice.split == 0, "uneven hosts");
  question.neighbours = 3;
  question.operation = DF_OP_ALL_GATHER_V;
  CHECK(df_choose(NULL, &question, &choice) && choice.split == 3, "subgroups of %u", choice.split);
  question.operation = DF_OP_ALL_TO_ALL_V;
  CHECK(df_choose(NULL, &question, &choice) && choice.split == 0, "every piece has one receiver");
}

/* Each of 4 ranks has a link to each other. */
static df_ring ring_of_uneven(const char *hosts) {
  const df_list_item items[] = {{1, 0, 10}, {2, 10, 10}, {3, 20, 10}};
  const df_lists lists = {.sends = items, .receives = items, .n_sends = 3, .n_receives = 3};
  const df_plan_key key = {.operation = DF_OP_ALL_TO_ALL_V, .algorithm = DF_DIRECT, .n = 4};
  df_topology topology = topology_of(hosts);
  df_tuning tuning;
  df_tuning_default(&tuning);
  tuning.policy.ring_bytes = 0; /* the least */
  const df_configuration_question question = uneven_of(&topology, &tuning, 4);
  df_configuration configuration;
  CHECK(df_configuration_choose(&configuration, &question), "no algorithm");
  df_plan *plan = df_plan_make_piece_table(&key, &lists, configuration.choice.slot_bytes / 4);
  CHECK(plan != NULL, "no memory");
  df_configuration_decide(&configuration, &question, plan);
  const df_ring ring = df_configuration_ring(&configuration, &question, plan, 0);
  df_plan_free(plan);
  df_topology_free(&topology);
  return ring;
}

DF_TEST(topology, rings_of_uneven_pieces_are_deeper_between_hosts, 10) {
  const df_ring here = ring_of_uneven("aaaa"), far = ring_of_uneven("aabb");
  CHECK(here.n_slots < 8, "%u slots on one host", here.n_slots);
  CHECK(far.n_slots == 8, "%u slots between hosts", far.n_slots);
}
