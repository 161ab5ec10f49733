/*
 * Promises of synthesis/timeline.h, flows.h, bounds.h and topology/network.h:
 *   - On a network without contention, an algorithm takes the time of its formula.
 *   - Flows share ports max-min fairly, whenever flows begin and end.
 *   - Rings and bounds on unequal ports, and on an unequal pair, are those of the closed forms.
 *   - Blocks share the ports and each send their part, so a long ring takes as long with them.
 *   - No algorithm is faster than the bound, on any network, for any size; and each ends.
 *   - The same question has the same answer.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "network_file.h"
#include "support/harness.h"
#include "support/numbers.h"
#include "synthesis/timeline.h"

static const char simple[] = "{\"between\": {\"latency_us\": 3, \"GBps\": 2}, \"reduce_GBps\": 5}";
static const double alpha = 3e-6, beta = 1 / 2e9, gamma_ = 1 / 5e9;

static df_network network_of(const char *text, uint32_t ranks) {
  df_network model;
  OK(df_network_parse(&model, "test", text, strlen(text), ranks));
  return model;
}

static df_timeline_answer run(const df_network *model, df_operation operation, int algorithm,
                              uint64_t bytes, uint32_t slots, uint64_t slot_bytes) {
  const df_timeline_question question = {.network = model,
                                         .operation = operation,
                                         .algorithm = algorithm,
                                         .bytes = bytes,
                                         .slots = slots,
                                         .slot_bytes = slot_bytes};
  df_timeline_answer answer;
  OK(df_timeline_run(&question, NULL, &answer));
  return answer;
}

static void expect_time(uint32_t n, df_operation operation, int algorithm, uint64_t bytes,
                        double wanted) {
  df_network model = network_of(simple, n);
  const df_timeline_answer answer = run(&model, operation, algorithm, bytes, 4096, 4 << 20);
  CHECK(fabs(answer.seconds - wanted) <= 0.0001 * wanted, "%s by %s of %u: %g s, not %g",
        df_operation_name(operation), df_algorithm_name(algorithm), n, answer.seconds, wanted);
  const df_timeline_path *path = &answer.critical;
  const double sum = path->latency + path->transfer + path->work + path->credit;
  CHECK(fabs(sum - answer.seconds) <= 1e-6 * answer.seconds, "the path's parts are %g of %g", sum,
        answer.seconds);
  df_network_free(&model);
}

/* Thakur, Rabenseifner and Gropp, IJHPCA 2005, sections 4 and 5. */
DF_TEST(simulator_time, algorithms_take_what_their_formulas_say, 120) {
  static const uint32_t sizes[] = {2, 4, 16, 128, 512}; /* test_formulas.c has 2,048 */
  const double bytes = 1 << 20;
  for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    const double p = sizes[i], log_p = log2(p), share = (p - 1) / p * bytes;
    expect_time(sizes[i], DF_OP_ALL_GATHER, DF_RING, 1 << 20, (p - 1) * alpha + share * beta);
    expect_time(sizes[i], DF_OP_REDUCE_SCATTER, DF_RING, 1 << 20,
                (p - 1) * alpha + share * (beta + gamma_));
    expect_time(sizes[i], DF_OP_ALL_REDUCE, DF_RING, 1 << 20,
                2 * (p - 1) * alpha + share * (2 * beta + gamma_));
    expect_time(sizes[i], DF_OP_ALL_REDUCE, DF_DOUBLING, 1 << 20,
                log_p * (alpha + bytes * (beta + gamma_)));
  }
}

/* A chain of pieces: each crosses n - 1 connections, and the last one waits for the earlier
 * ones. */
DF_TEST(simulator_time, pieces_follow_each_other_through_a_chain, 20) {
  static const char overhead[] =
      "{\"between\": {\"latency_us\": 0, \"GBps\": 1}, \"overhead_us\": 7}";
  const uint32_t n = 9, pieces = 32, piece = 4096;
  df_network model = network_of(overhead, n);
  const df_timeline_answer answer =
      run(&model, DF_OP_BROADCAST, DF_RING, (uint64_t)pieces * piece, 64, piece);
  const double wanted = (n - 2 + pieces) * (7e-6 + piece / 1e9);
  CHECK(answer.loops == pieces && answer.messages == (uint64_t)pieces * (n - 1), "%u loops",
        answer.loops);
  CHECK(fabs(answer.seconds - wanted) < 1e-9, "%g s, not %g", answer.seconds, wanted);
  df_network_free(&model);
}

/* With one slot, each message waits until the slot of the previous one has been returned. */
DF_TEST(simulator_time, a_slot_is_free_when_its_release_has_come_back, 20) {
  df_network model = network_of("{\"between\": {\"latency_us\": 10, \"GBps\": 1}}", 2);
  for (uint32_t slots = 1; slots <= 2; slots++) {
    const df_timeline_answer answer = run(&model, DF_OP_BROADCAST, DF_RING, 8 * 4096, slots, 4096);
    const double message = 4096 / 1e9, round = 2 * 10e-6 + message;
    const double wanted = (8.0 / slots - 1) * round + slots * message + 10e-6;
    CHECK(fabs(answer.seconds - wanted) < 1e-9, "%u slots: %g s, not %g", slots, answer.seconds,
          wanted);
  }
  df_network_free(&model);
}

/* ---- flows */

static void note_change(void *user, uint32_t flow) {
  (void)flow;
  ++*(int *)user;
}

/* Max-min: a flow can get more only if a flow that has no more than it gets less. */
static void check_fair(const df_flows *flows, uint32_t n) {
  for (uint32_t f = 0; f < n; f++) {
    const df_flow *flow = &flows->flows[f];
    if (!flow->is_under_way) continue;
    int is_held = 0;
    for (uint32_t i = 0; i < flow->n_ports; i++) {
      const df_port *port = &flows->ports[flow->ports[i]];
      double used = 0, most = 0;
      for (uint32_t g = 0; g < n; g++)
        for (uint32_t k = 0; flows->flows[g].is_under_way && k < flows->flows[g].n_ports; k++)
          if (flows->flows[g].ports[k] == flow->ports[i]) {
            used += flows->flows[g].rate;
            most = fmax(most, flows->flows[g].rate);
          }
      CHECK(used <= port->rate * (1 + 1e-9), "port %u carries %g of %g", flow->ports[i], used,
            port->rate);
      is_held |= used >= port->rate * (1 - 1e-9) && flow->rate >= most * (1 - 1e-9);
    }
    CHECK(is_held, "flow %u has %g and could have more", f, flow->rate);
  }
}

DF_TEST(simulator_time, flows_share_ports_fairly, 60) {
  enum { RANKS = 12, FLOWS = 40 };
  df_random random = {11};
  df_network model =
      network_of("{\"ranks_per_host\": [5, 4, 2, 1], \"inside\": {\"GBps\": 7}, \"between\": "
                 "{\"GBps\": 3, \"nics\": 2}, \"switch\": {\"hosts\": 2, \"GBps\": 4}}",
                 RANKS);
  df_flows flows;
  int changes = 0;
  double latency, now = 0;
  OK(df_flows_make(&flows, &model, FLOWS));
  for (uint32_t f = 0; f < FLOWS; f++) {
    const uint32_t from = (uint32_t)df_random_below(&random, RANKS);
    const uint32_t to = (from + 1 + (uint32_t)df_random_below(&random, RANKS - 1)) % RANKS;
    df_flows_connect(&flows, &model, f, from, to, &latency);
  }
  for (int step = 0; step < 2000; step++) {
    const uint32_t f = (uint32_t)df_random_below(&random, FLOWS);
    if (flows.flows[f].is_under_way)
      df_flows_finish(&flows, f, now);
    else
      df_flows_begin(&flows, f, 1e6, now);
    df_flows_settle(&flows, now, note_change, &changes);
    check_fair(&flows, FLOWS);
    now += 1e-5;
  }
  CHECK(changes > 2000, "%d changes", changes);
  df_flows_free(&flows);
  df_network_free(&model);
}

/* ---- any network */

static df_network random_hosts(df_random *random, uint32_t n) {
  char text[1024];
  const int hosts = (int)n / 5; /* at least as many have ports */
  snprintf(text, sizeof text,
           "{\"ranks_per_host\": %d, \"inside\": {\"latency_us\": %d, \"GBps\": %d}, "
           "\"between\": {\"latency_us\": %d, \"GBps\": %d, \"nics\": %d}, \"switch\": "
           "{\"hosts\": %d, \"GBps\": %d, \"latency_us\": %d}, \"reduce_GBps\": %d, "
           "\"copy_GBps\": %d, \"overhead_us\": %d",
           1 + (int)df_random_below(random, 5), (int)df_random_below(random, 3),
           1 + (int)df_random_below(random, 50), (int)df_random_below(random, 20),
           1 + (int)df_random_below(random, 20), 1 + (int)df_random_below(random, 3),
           1 + (int)df_random_below(random, 3), 1 + (int)df_random_below(random, 30),
           (int)df_random_below(random, 3), (int)df_random_below(random, 20),
           (int)df_random_below(random, 20), (int)df_random_below(random, 2));
  const size_t used = strlen(text);
  snprintf(text + used, sizeof text - used,
           ", \"ports\": [{\"rank\": %d, \"out_GBps\": %d}, {\"rank\": 0, \"in_GBps\": 1, "
           "\"latency_us\": 0}%s]}",
           (int)n - 1, 1 + (int)df_random_below(random, 9),
           hosts > 1 ? ", {\"host\": 1, \"in_GBps\": 0.5, \"latency_us\": 1}" : "");
  return network_of(text, n);
}

static df_network random_links(df_random *random, uint32_t n) {
  static char text[16384];
  size_t used = (size_t)snprintf(text, sizeof text, "{\"switches\": 2, \"links\": [");
  for (uint32_t r = 0; r < n; r++)
    used += (size_t)snprintf(
        text + used, sizeof text - used,
        "{\"from\": \"rank %u\", \"to\": \"switch %u\", \"out_GBps\": %d, \"in_GBps\": %d, "
        "\"latency_us\": %d}, ",
        r, r % 2, 1 + (int)df_random_below(random, 8), 1 + (int)df_random_below(random, 8),
        (int)df_random_below(random, 9));
  for (uint32_t i = 0; i < n / 2; i++)
    used += (size_t)snprintf(text + used, sizeof text - used,
                             "{\"from\": \"rank %u\", \"to\": \"rank %u\", \"GBps\": %d}, ", 2 * i,
                             2 * i + 1, 1 + (int)df_random_below(random, 8));
  snprintf(text + used, sizeof text - used,
           "{\"from\": \"switch 0\", \"to\": \"switch 1\", \"GBps\": %d}]}",
           1 + (int)df_random_below(random, 30));
  return network_of(text, n);
}

static df_network random_network(df_random *random, uint32_t n) {
  return df_random_below(random, 4) == 0 ? random_links(random, n) : random_hosts(random, n);
}

/* ---- unequal ports */

static void expect_unequal(const char *text, uint32_t n, df_operation operation, double ring,
                           double bound) {
  enum { BYTES = 16 << 20 };
  df_network network = network_of(text, n);
  const df_timeline_answer a = run(&network, operation, DF_RING, BYTES, 64, 1 << 20);
  const double unit = BYTES / 1e9;
  CHECK(fabs(a.bound / unit - bound) < 1e-6, "%s: the bound is %g, not %g", text, a.bound / unit,
        bound);
  CHECK(fabs(a.seconds / unit - ring) < 0.04 * ring, "%s: the ring takes %g, not %g", text,
        a.seconds / unit, ring);
  df_network_free(&network);
}

/* Unit: the bytes over a whole port. Each host has one rank, and the last one a slower port. */
DF_TEST(simulator_time, blocks_share_the_ports, 60) {
  enum { N = 6 };
  const uint64_t bytes = 12 << 20;
  df_network model = network_of("{\"between\": {\"latency_us\": 3, \"GBps\": 2}}", N);
  uint64_t messages = 0;
  for (uint32_t blocks = 0; blocks <= 32; blocks = blocks ? 2 * blocks : 1) {
    const df_timeline_question question = {.network = &model,
                                           .operation = DF_OP_ALL_REDUCE,
                                           .algorithm = DF_RING,
                                           .bytes = bytes,
                                           .blocks = blocks,
                                           .slots = 8,
                                           .slot_bytes = 4 << 20};
    df_timeline_answer a;
    OK(df_timeline_run(&question, NULL, &a));
    const double wanted = 2 * (N - 1) * (alpha + (double)bytes / N * beta);
    CHECK(fabs(a.seconds - wanted) <= 0.001 * wanted, "%u blocks: %g s, not %g", blocks, a.seconds,
          wanted);
    CHECK(a.bytes_moved == 2 * (N - 1) * bytes, "%u blocks move %llu bytes", blocks,
          (unsigned long long)a.bytes_moved);
    if (blocks <= 1) messages = a.messages;
    CHECK(a.messages == messages * (blocks ? blocks : 1), "%u blocks send %llu messages", blocks,
          (unsigned long long)a.messages);
  }
  df_network_free(&model);
}

DF_TEST(simulator_time, bounds_and_rings_of_unequal_ports, 60) {
#define NET(more) "{\"between\": {\"GBps\": 1, \"latency_us\": 0}, " more "}"
  expect_unequal(NET("\"ports\": []"), 4, DF_OP_ALL_REDUCE, 1.5, 1.5);
  expect_unequal(NET("\"ports\": [{\"host\": 3, \"GBps\": 0.5}]"), 4, DF_OP_ALL_REDUCE, 3, 2);
  expect_unequal(NET("\"ports\": [{\"host\": 3, \"GBps\": 0.25}]"), 4, DF_OP_ALL_REDUCE, 6, 4);
  expect_unequal(NET("\"ports\": [{\"host\": 7, \"GBps\": 0.5}]"), 8, DF_OP_ALL_REDUCE, 3.5, 2);
  expect_unequal(NET("\"ports\": [{\"host\": 3, \"GBps\": 0.25}]"), 4, DF_OP_ALL_GATHER, 3, 3);
  expect_unequal(NET("\"ports\": [{\"host\": 3, \"out_GBps\": 0.25}]"), 4, DF_OP_ALL_GATHER, 3, 1);
  expect_unequal(NET("\"ports\": [{\"host\": 3, \"in_GBps\": 0.25}]"), 4, DF_OP_REDUCE_SCATTER, 3,
                 1);
  expect_unequal(NET("\"ports\": [{\"host\": 1, \"out_GBps\": 0.25}]"), 4, DF_OP_BROADCAST, 4, 1);
  expect_unequal(NET("\"ports\": [{\"host\": 3, \"in_GBps\": 0.25}]"), 4, DF_OP_REDUCE, 4, 1);
  expect_unequal(NET("\"pairs\": [{\"from\": 0, \"to\": 1, \"GBps\": 0.125}]"), 4, DF_OP_ALL_REDUCE,
                 12, 1.5);
#undef NET
}

DF_TEST(simulator_time, nothing_is_faster_than_the_bound, 120) {
  df_random random = {5};
  int runs = 0;
  for (int round = 0; round < 150; round++) {
    const uint32_t n = 2 + (uint32_t)df_random_below(&random, 22);
    const uint64_t bytes = (uint64_t)n * 4 << df_random_below(&random, 16);
    const uint32_t slots = 1u << (1 + df_random_below(&random, 6));
    df_network model = random_network(&random, n);
    for (int operation = 0; operation < DF_OP_COUNT; operation++)
      for (int algorithm = 0; algorithm < DF_ALGORITHMS; algorithm++) {
        if (!df_timeline_supports((df_operation)operation) ||
            !df_timeline_has(&model, (df_operation)operation, algorithm))
          continue;
        const df_timeline_answer a =
            run(&model, (df_operation)operation, algorithm, bytes, slots, 16384);
        CHECK(a.seconds >= a.bound * (1 - 1e-9), "%s by %s of %u: %g s, the bound is %g",
              df_operation_name((df_operation)operation), df_algorithm_name(algorithm), n,
              a.seconds, a.bound);
        const df_timeline_answer again =
            run(&model, (df_operation)operation, algorithm, bytes, slots, 16384);
        CHECK(again.seconds == a.seconds && again.messages == a.messages, "not the same again");
        runs++;
      }
    df_network_free(&model);
  }
  CHECK(runs > 3000, "%d runs", runs);
}
