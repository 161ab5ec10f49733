/*
 * Promises of src/tuning/configuration.c about groups that have one rank on each host:
 *   - Messages have up to twice slot_bytes, in whole packets of 61 KB. A rule's size of slots stays
 *     as it is.
 *   - A link has half of `slots` at least if all ranks wait for each other and a run is one loop.
 *   - Rings beyond the least slots have a quarter of ring_bytes, and half of it if the operation
 *     sends one way only, so that they stay in the caches of one processor.
 *   - Short runs lend nothing, because a lent buffer comes back a round trip later. Long ones lend.
 *   - All members agree on the shape.
 *   - Groups of one host, and hosts with several ranks, keep what they had.
 */
#include <string.h>

#include "support/harness.h"
#include "tuning/configuration.h"

enum { KB = 1024, MB = 1024 * KB, PACKET = 61 * KB, BLOCKS = 3 };

typedef struct decision {
  df_tuning tuning;
  df_topology topology;
  df_configuration_question question;
  df_configuration configuration;
  df_plan *plan;
  df_ring ring;
} decision;

static void ask(decision *d, df_operation operation, uint32_t n, uint32_t hosts, uint64_t bytes) {
  *d = (decision){.topology = {.runs_on_cores = 1, .n_cores = 64}};
  df_tuning_default(&d->tuning);
  d->question = (df_configuration_question){.tuning = &d->tuning,
                                            .topology = &d->topology,
                                            .choice = {.operation = operation,
                                                       .n = n,
                                                       .bytes = bytes,
                                                       .memory = DF_MEMORY_HOST,
                                                       .hosts = hosts,
                                                       .smallest_host = n / hosts,
                                                       .largest_host = n / hosts},
                                            .element_bytes = 4,
                                            .max_blocks = BLOCKS,
                                            .host_sees_links = 1};
  d->question.count = bytes / 4 / (df_operation_is_wide(operation, 1) ? n : 1);
}

static void decide(decision *d, uint32_t position) {
  df_configuration *m = &d->configuration;
  CHECK(df_configuration_choose(m, &d->question), "no algorithm");
  const df_plan_key key = {.operation = d->question.choice.operation,
                           .algorithm = m->choice.algorithm,
                           .n = d->question.choice.n,
                           .position = position,
                           .split = m->choice.split,
                           .cuts = m->cuts};
  d->plan = df_plan_make(&key);
  CHECK(d->plan != NULL, "no memory");
  df_configuration_decide(m, &d->question, d->plan);
  d->ring = df_configuration_ring(m, &d->question, d->plan, 0);
}

static uint64_t ring_bytes(const decision *d) { return (uint64_t)d->ring.stride * d->ring.n_slots; }

DF_TEST(hosts_only, messages_are_twice_as_long, 30) {
  decision d;
  ask(&d, DF_OP_ALL_GATHER, 2, 2, 16 * MB);
  decide(&d, 0);
  CHECK(d.configuration.slot_limit == 4 * PACKET, "%u bytes", d.configuration.slot_limit);
  df_plan_free(d.plan);
  ask(&d, DF_OP_ALL_GATHER, 4, 2, 16 * MB);
  d.question.choice.name = "ring";
  decide(&d, 0);
  CHECK(d.configuration.slot_limit == 2 * PACKET, "two ranks a host: %u bytes",
        d.configuration.slot_limit);
  df_plan_free(d.plan);
  ask(&d, DF_OP_ALL_GATHER, 2, 1, 16 * MB);
  decide(&d, 0);
  CHECK(d.configuration.slot_limit == 128 * KB, "one host: %u bytes", d.configuration.slot_limit);
  df_plan_free(d.plan);
  ask(&d, DF_OP_ALL_GATHER, 2, 2, 16 * MB);
  static const char rule[] = DF_TUNING_HEADER "\nallgather * * any direct slot=64K\n";
  char sentence[300];
  CHECK(df_tuning_parse(&d.tuning, rule, strlen(rule), "table", sentence, sizeof sentence), "%s",
        sentence);
  decide(&d, 0);
  CHECK(d.configuration.slot_limit == PACKET, "a rule: %u bytes", d.configuration.slot_limit);
  df_plan_free(d.plan);
}

DF_TEST(hosts_only, rings_hold_a_run_and_fit_the_caches, 30) {
  static const df_operation operations[] = {DF_OP_ALL_REDUCE,     DF_OP_ALL_GATHER,
                                            DF_OP_REDUCE_SCATTER, DF_OP_ALL_TO_ALL,
                                            DF_OP_BROADCAST,      DF_OP_REDUCE};
  for (size_t i = 0; i < DF_COUNT_OF(operations); i++)
    for (uint64_t bytes = 16 * KB; bytes <= 64 * MB; bytes *= 2) {
      decision d;
      ask(&d, operations[i], 2, 2, bytes);
      decide(&d, 1);
      const df_configuration *m = &d.configuration;
      const uint64_t budget = (uint64_t)m->policy->ring_bytes / (m->runs_ahead ? 2 : 4);
      const uint32_t least = m->shape.n_slots, slots = (uint32_t)m->policy->slots;
      const int has_half = !m->runs_ahead && m->shape.parts[0].loops == 1 &&
                           m->shape.stride > 5000 /* more than a page */;
      CHECK(least == (has_half ? slots / 2 : slots), "%s of %llu bytes: %u slots",
            df_operation_name(operations[i]), (unsigned long long)bytes, least);
      /* The power of two nearest to the budget. */
      CHECK(d.ring.n_slots == least || ring_bytes(&d) * m->shape.n_blocks <= budget * 3 / 2,
            "%s of %llu bytes: rings of %u slots of %u bytes", df_operation_name(operations[i]),
            (unsigned long long)bytes, d.ring.n_slots, d.ring.stride);
      df_plan_free(d.plan);
    }
}

DF_TEST(hosts_only, only_long_runs_lend, 30) {
  static const df_operation operations[] = {DF_OP_ALL_GATHER, DF_OP_BROADCAST, DF_OP_ALL_TO_ALL};
  for (size_t i = 0; i < DF_COUNT_OF(operations); i++)
    for (int is_long = 0; is_long < 2; is_long++) {
      decision d;
      ask(&d, operations[i], 2, 2, is_long ? 8 * MB : 2 * MB);
      decide(&d, 0);
      CHECK((d.configuration.lend_min != UINT64_MAX) == is_long, "%s, long %d: \"%s\"",
            df_operation_name(operations[i]), is_long,
            df_reason_name(d.configuration.reasons.lend));
      const uint64_t peers = df_configuration_peers_lend_min(&d.configuration);
      CHECK(peers == (is_long ? 0 : UINT64_MAX), "its peers lend from %llu bytes on",
            (unsigned long long)peers);
      d.configuration.reasons.lend = DF_REASON_LEND_COPIES; /* this member's own reason */
      CHECK(df_configuration_peers_lend_min(&d.configuration) == 0, "its peers may lend");
      df_plan_free(d.plan);
    }
}

DF_TEST(hosts_only, members_agree, 30) {
  for (uint32_t n = 2; n <= 9; n++)
    for (df_operation operation = 0; operation < DF_OP_COUNT; operation++) {
      if (df_operation_has_piece_table(operation)) continue;
      df_shape first = {0};
      for (uint32_t position = 0; position < n; position++) {
        decision d;
        ask(&d, operation, n, n, 1 * MB);
        decide(&d, position);
        if (position == 0) first = d.configuration.shape;
        CHECK(d.configuration.shape.n_slots == first.n_slots &&
                  d.configuration.shape.stride == first.stride &&
                  d.configuration.shape.n_blocks == first.n_blocks,
              "%s of %u hosts: position %u has %u slots of %u bytes, position 0 %u of %u",
              df_operation_name(operation), n, position, d.configuration.shape.n_slots,
              d.configuration.shape.stride, first.n_slots, first.stride);
        df_plan_free(d.plan);
      }
    }
}
