/*
 * Promises of src/tuning/table.c and choice.c:
 *   - A table is read as documented. An error in it is refused with file, line and value, and then
 *     none of the table is used. A printed table can be read again.
 *   - The first rule that fits decides, and the user's rules precede the built-in ones. A name
 *     precedes all rules, and takes blocks, slots and split of the first rule that has the
 *     algorithm.
 *   - There is an answer for every operation, group and size.
 */
#include "tuning/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tuning/choice.h"
#include "support/harness.h"
#include "support/reference.h"

#define HEAD DF_TUNING_HEADER "\n"

static df_tuning accepted(const char *text) {
  df_tuning tuning;
  char sentence[300] = "";
  CHECK(df_tuning_parse(&tuning, text, strlen(text), "t", sentence, sizeof sentence), "%s: %s",
        text, sentence);
  return tuning;
}

DF_TEST(tuning, a_table, 30) {
  df_tuning t = accepted("# made by hand\n\n" HEAD
                         "allreduce 2-8 16K- any direct blocks=4 slot=64K # the rest\n"
                         "broadcast\t3 * process  binomial\n"
                         "reduce * 7 host twolevel split=2");
  CHECK(t.n_rules == 3, "%u rules", t.n_rules);
  const df_rule *r = t.rules;
  CHECK(r[0].operation == DF_OP_ALL_REDUCE && r[0].algorithm == DF_DIRECT, "the first");
  CHECK(r[0].ranks_least == 2 && r[0].ranks_most == 8, "ranks");
  CHECK(r[0].bytes_least == 16384 && r[0].bytes_most == UINT64_MAX, "bytes");
  CHECK(r[0].blocks == 4 && r[0].slot_bytes == 65536 && r[0].memory == DF_MEMORY_ANY, "options");
  CHECK(r[1].ranks_least == 3 && r[1].ranks_most == 3 && r[1].bytes_least == 0, "the second");
  CHECK(r[1].bytes_most == UINT64_MAX && r[1].memory == DF_MEMORY_PROCESS, "the second");
  CHECK(r[2].ranks_most == DF_MAX_RANKS && r[2].bytes_most == 7 && r[2].split == 2, "the third");
  CHECK(accepted("dfccl-tuning 1").n_rules == 0, "no rules");
  t = accepted(HEAD "reduce * 3M-2G host ring slot=1M");
  CHECK(r[0].bytes_least == 3u << 20 && r[0].bytes_most == 2ull << 30, "units of bytes");
  CHECK(r[0].slot_bytes == 1u << 20, "a unit of an option");
}

DF_TEST(tuning, comments_may_be_long, 30) {
  static char text[100000];
  snprintf(text, sizeof text, HEAD "#%90000s\nreduce * 3M-2G host ring\n", "long");
  df_tuning t = accepted(text);
  CHECK(t.n_rules == 1 && t.lines[0] == 3, "%u rules, line %u", t.n_rules, t.lines[0]);
}

static void refused(const char *text, const char *place, const char *value) {
  df_tuning t;
  char sentence[300] = "";
  CHECK(!df_tuning_parse(&t, text, strlen(text), "file", sentence, sizeof sentence), "\"%s\"",
        text);
  CHECK(strncmp(sentence, place, strlen(place)) == 0, "\"%s\" is not at %s", sentence, place);
  CHECK(strstr(sentence, value) != NULL, "\"%s\" does not name %s", sentence, value);
  CHECK(t.n_rules == 0, "%u rules are left", t.n_rules);
}

DF_TEST(tuning, errors_are_refused_with_their_place, 30) {
  refused("", "file:1: ", "empty");
  refused("# only this\n", "file:2: ", "empty");
  refused("allreduce * * any ring\n", "file:1: ", "allreduce");
  refused("dfccl-tuning 2\n", "file:1: ", "dfccl-tuning");
  refused(HEAD "allreduce * * any\n", "file:2: ", "4");
  refused(HEAD "\n\nallgatherv * * any ring\n", "file:4: ", "allgatherv");
  refused(HEAD "allreduce 0 * any ring\n", "file:2: ", "\"0\"");
  refused(HEAD "allreduce 8-2 * any ring\n", "file:2: ", "8-2");
  refused(HEAD "allreduce 2-9999 * any ring\n", "file:2: ", "2-9999");
  refused(HEAD "allreduce 2x * any ring\n", "file:2: ", "2x");
  refused(HEAD "allreduce * -5 any ring\n", "file:2: ", "-5");
  refused(HEAD "allreduce * 1T any ring\n", "file:2: ", "1T");
  refused(HEAD "allreduce * 99999999999999999999 any ring\n", "file:2: ", "9999");
  refused(HEAD "allreduce * 18446744073709551615G any ring\n", "file:2: ", "G");
  refused(HEAD "allreduce * * gpu ring\n", "file:2: ", "gpu");
  refused(HEAD "allreduce * * any quick\n",
          "file:2: ", "unknown algorithm \"quick\"; allreduce has ring,");
  refused(HEAD "alltoall * * any ring\n",
          "file:2: ", "no algorithm \"ring\"; alltoall has pairwise,");
  refused(HEAD "allreduce * * any ring blocks=0\n", "file:2: ", "blocks=0");
  refused(HEAD "allreduce * * any ring blocks=33\n", "file:2: ", "blocks=33");
  refused(HEAD "allreduce * * any ring blocks=\n", "file:2: ", "blocks=");
  refused(HEAD "allreduce * * any ring slot=63\n", "file:2: ", "slot=63");
  refused(HEAD "allreduce * * any ring slot=5M\n", "file:2: ", "slot=5M");
  refused(HEAD "allreduce * * any ring blocks=4x\n", "file:2: ", "blocks=4x");
  refused(HEAD "allreduce * * any ring split=4097\n", "file:2: ", "split=4097");
  refused(HEAD "allreduce * * any ring slot=1K slot=2K\n", "file:2: ", "twice");
  refused(HEAD "allreduce * * any ring turbo=1\n", "file:2: ", "turbo=1");
  refused(HEAD "allreduce * * any ring a b c d e f\n", "file:2: ", "words");
  refused(HEAD "allreduce * * any ring\x0b\n", "file:2: ", "11");
  char text[300 * 24] = HEAD;
  memset(text + strlen(HEAD), ' ', 450);
  refused(text, "file:2: ", "450");
  strcpy(text, HEAD);
  for (int i = 0; i <= DF_MAX_TUNING_RULES; i++) strcat(text, "reduce 2 5 any ring\n");
  refused(text, "file:258: ", "256");
}

static void same_rule(const char *text) {
  df_tuning tuning;
  char sentence[300] = "";
  CHECK(df_tuning_parse(&tuning, text, strlen(text), "file", sentence, sizeof sentence), "%s",
        sentence);
  CHECK(tuning.n_rules == 1 && tuning.rules[0].algorithm == DF_RING && tuning.lines[0] == 2,
        "%u rules, line %u", tuning.n_rules, tuning.lines[0]);
}

DF_TEST(tuning, line_ends_of_other_systems_and_byte_order_marks, 30) {
  same_rule("dfccl-tuning 1\nallreduce * * any ring");
  same_rule("dfccl-tuning 1\r\nallreduce * * any ring\r\n");
  same_rule("\xef\xbb\xbf"
            "dfccl-tuning 1\nallreduce * * any ring\n");
  same_rule("\xef\xbb\xbf"
            "dfccl-tuning 1\rallreduce * * any ring\r");
}

/* Sentences are cut, and never longer than their buffer. */
DF_TEST(tuning, sentences_fit, 30) {
  static const char text[] = HEAD "allgatherv * * any ring\n";
  for (size_t bytes = 1; bytes < 100; bytes++) {
    char sentence[101];
    df_tuning t;
    memset(sentence, 'x', sizeof sentence);
    CHECK(!df_tuning_parse(&t, text, sizeof text - 1, "name", sentence, bytes), "accepted");
    CHECK(memchr(sentence, '\0', bytes) != NULL, "no end within %zu bytes", bytes);
    CHECK(sentence[bytes] == 'x', "written beyond %zu bytes", bytes);
  }
}

static void printed(uint64_t from, uint64_t to, const char *words) {
  char line[200];
  const df_rule rule = {.ranks_least = 2, .ranks_most = 2, .bytes_least = from, .bytes_most = to};
  df_rule_print(&rule, line, sizeof line);
  CHECK(strstr(line, words) != NULL, "%s: \"%s\"", words, line);
}

/* Written in the largest unit that is exact. */
DF_TEST(tuning, sizes_are_printed_in_exact_units, 30) {
  printed(0, 1023, " 0-1023 ");
  printed(1024, 1536, " 1K-1536 ");
  printed(3 << 20, 5ull << 30, " 3M-5G ");
  printed(2048ull << 30, UINT64_MAX, " 2048G- ");
  printed(7, 7, " 7 ");
  printed(0, UINT64_MAX, " * ");
}

static df_rule random_rule(df_random *random) {
  df_rule rule = {.memory = (df_memory_kind)df_random_below(random, 4)};
  do {
    rule.operation = (df_operation)df_random_below(random, DF_OP_COUNT);
    rule.algorithm = (df_algorithm)df_random_below(random, DF_ALGORITHMS);
  } while (!df_algorithm_has((int)rule.algorithm, rule.operation));
  rule.ranks_least = 1 + (uint32_t)df_random_below(random, DF_MAX_RANKS);
  rule.ranks_most = rule.ranks_least +
                    (uint32_t)df_random_below(random, (int)(DF_MAX_RANKS - rule.ranks_least + 1));
  rule.bytes_least = df_random_next(random) >> df_random_below(random, 64);
  rule.bytes_most = df_random_chance(random, 30) ? UINT64_MAX : rule.bytes_least;
  rule.bytes_least = rule.bytes_least / 1024 * 1024;
  rule.blocks = df_random_chance(random, 50) ? 1 + (uint32_t)df_random_below(random, 32) : 0;
  rule.slot_bytes = df_random_chance(random, 50) ? 64u << df_random_below(random, 16) : 0;
  rule.split = df_random_chance(random, 50) ? 1 + (uint32_t)df_random_below(random, 1024) : 0;
  return rule;
}

DF_TEST(tuning, a_printed_table_is_read_again, 30) {
  df_random random = {1};
  for (int i = 0; i < 5000; i++) {
    char text[300] = HEAD;
    df_rule rule = random_rule(&random);
    CHECK(df_rule_print(&rule, text + strlen(text), 200) < 200, "a long line");
    df_tuning t = accepted(text);
    CHECK(t.n_rules == 1 && memcmp(&t.rules[0], &rule, sizeof rule) == 0, "%s", text);
  }
  for (uint32_t i = 0; i < df_n_built_in_rules; i++) {
    char text[300] = HEAD;
    df_rule_print(&df_built_in_rules[i], text + strlen(text), 200);
    df_tuning t = accepted(text);
    CHECK(memcmp(&t.rules[0], &df_built_in_rules[i], sizeof(df_rule)) == 0, "%s", text);
  }
}

/* ---- choice ---- */

static df_choice choose(const df_tuning *tuning, const df_question *q) {
  df_choice choice;
  CHECK(df_choose(tuning, q, &choice), "no %s for %s", q->name, df_operation_name(q->operation));
  return choice;
}

DF_TEST(tuning, there_is_always_an_answer, 30) {
  df_tuning none = {0};
  for (int operation = 0; operation < DF_OP_COUNT; operation++)
    for (uint32_t n = 1; n <= DF_MAX_RANKS; n += 1 + n / 7)
      for (uint64_t bytes = 0; bytes < 1ull << 60; bytes = bytes * 3 + 1)
        for (int kind = 0; kind < 3; kind++) {
          df_question q = {.operation = (df_operation)operation,
                           .n = n,
                           .bytes = bytes,
                           .memory = kind == 0 ? DF_MEMORY_PROCESS : DF_MEMORY_HOST,
                           .oversubscribed = kind == 2};
          df_choice unnamed = choose(&none, &q);
          q.name = "auto";
          df_choice automatic = choose(NULL, &q);
          CHECK(memcmp(&unnamed, &automatic, sizeof unnamed) == 0, "NULL is auto");
          CHECK(df_algorithm_has(unnamed.algorithm, q.operation), "another operation's");
          q.name = df_algorithm_name(unnamed.algorithm);
          CHECK(choose(NULL, &q).algorithm == unnamed.algorithm, "by name");
        }
}

/* For every distribution of the group over hosts. */
DF_TEST(tuning, an_operator_that_does_not_commute_keeps_its_order, 30) {
  static const df_operation operations[] = {DF_OP_ALL_REDUCE, DF_OP_REDUCE, DF_OP_REDUCE_SCATTER};
  for (size_t i = 0; i < DF_COUNT_OF(operations); i++)
    for (uint64_t bytes = 1; bytes < 1ull << 40; bytes *= 3)
      for (uint32_t neighbours = 1; neighbours <= 9; neighbours += 8) {
        const df_question q = {.operation = operations[i],
                               .n = 18,
                               .bytes = bytes,
                               .memory = DF_MEMORY_HOST,
                               .ordered = 1,
                               .neighbours = neighbours,
                               .hosts = neighbours > 1 ? 2 : 3,
                               .smallest_host = neighbours > 1 ? 9 : 6,
                               .largest_host = neighbours > 1 ? 9 : 6};
        const df_choice c = choose(NULL, &q);
        CHECK(df_algorithm_keeps_order(c.algorithm, q.operation),
              "%s of %" PRIu64 " bytes by \"%s\"", df_operation_name(q.operation), bytes,
              df_algorithm_name(c.algorithm));
      }
}

/* Four hosts of two ranks: the choice that the simulated times support (the note on
 * hierarchies). */
DF_TEST(tuning, groups_over_several_hosts_go_by_their_levels, 30) {
  static const struct {
    df_operation operation;
    int shorter, longer; /* up to 128 KB, and beyond */
  } cases[] = {{DF_OP_ALL_REDUCE, DF_TWO_LEVEL, DF_HIERARCHICAL},
               {DF_OP_REDUCE, DF_TWO_LEVEL, DF_HIERARCHICAL},
               {DF_OP_BROADCAST, DF_TWO_LEVEL, DF_HIERARCHICAL},
               {DF_OP_ALL_GATHER, DF_HIERARCHICAL, DF_HIERARCHICAL},
               {DF_OP_REDUCE_SCATTER, DF_HIERARCHICAL, DF_HIERARCHICAL}};
  for (size_t i = 0; i < DF_COUNT_OF(cases); i++)
    for (uint32_t hosts = 1; hosts <= 4; hosts++)
      for (uint64_t bytes = 64 << 10; bytes <= 1 << 20; bytes *= 2) {
        const df_question q = {.operation = cases[i].operation,
                               .n = 2 * hosts,
                               .bytes = bytes,
                               .memory = DF_MEMORY_HOST,
                               .neighbours = hosts > 1 ? 2 : 0,
                               .hosts = hosts,
                               .smallest_host = 2,
                               .largest_host = 2};
        const int chosen = choose(NULL, &q).algorithm;
        const int wanted = bytes > 128 << 10 ? cases[i].longer : cases[i].shorter;
        CHECK(hosts == 1 || chosen == (hosts == 2 ? DF_TWO_LEVEL : wanted),
              "%s of %" PRIu64 " bytes on %u hosts by \"%s\"", df_operation_name(q.operation),
              bytes, hosts, df_algorithm_name(chosen));
        CHECK(hosts > 1 ||
                  (chosen != DF_HIERARCHICAL && chosen != DF_BCUBE && chosen != DF_BINARY_BLOCKS),
              "%s on one host by \"%s\"", df_operation_name(q.operation),
              df_algorithm_name(chosen));
      }
}

DF_TEST(tuning, the_first_rule_that_fits, 30) {
  df_tuning t = accepted(HEAD "allreduce 4 0-100 process flat blocks=2\n"
                              "allreduce 4 50-   any     doubling\n"
                              "allreduce 4-5 200 host    twolevel split=3\n"
                              "allreduce 4 200   any     flat slot=1K\n");
  df_question q = {
      .operation = DF_OP_ALL_REDUCE, .n = 4, .bytes = 100, .memory = DF_MEMORY_PROCESS};
  CHECK(choose(&t, &q).algorithm == DF_FLAT && choose(&t, &q).blocks == 2, "the first");
  q.bytes = 101;
  CHECK(choose(&t, &q).algorithm == DF_DOUBLING, "too many bytes for the first");
  q.bytes = 60;
  q.memory = DF_MEMORY_HOST;
  CHECK(choose(&t, &q).algorithm == DF_DOUBLING, "other memory");
  q.n = 5;
  q.bytes = 200;
  CHECK(choose(&t, &q).algorithm == DF_TWO_LEVEL && choose(&t, &q).split == 3, "more ranks");
  q.n = 6;
  CHECK(choose(&t, &q).algorithm == choose(NULL, &q).algorithm, "none: the built-in ones");
  q.n = 4;
  q.name = "flat";
  df_choice c = choose(&t, &q);
  CHECK(c.algorithm == DF_FLAT && c.slot_bytes == 1024 && c.blocks == 0, "its first rule");
  q.bytes = 7777;
  c = choose(&t, &q);
  CHECK(c.algorithm == DF_FLAT && c.blocks == 0, "a name without a rule");
  q.name = "pairwise";
  CHECK(!df_choose(&t, &q, &c), "pairwise has no all-reduce");
  q.name = "no such";
  CHECK(!df_choose(&t, &q, &c), "an unknown name");
}

static void refuses_name(df_operation operation, const char *name, const char *expected) {
  char why[300] = "old";
  df_choice choice;
  df_question q = {
      .operation = operation, .n = 4, .bytes = 100, .name = name, .why = why, .why_bytes = 300};
  CHECK(!df_choose(NULL, &q, &choice), "%s is accepted", name);
  CHECK(strstr(why, expected) && (*expected || *why == '\0'), "%s: \"%s\" lacks %s", name, why,
        expected);
}

DF_TEST(tuning, limits_follow_a_name, 30) {
  df_tuning t = accepted(HEAD "allreduce 4 * any flat slot=1K blocks=2\n");
  df_question q = {.operation = DF_OP_ALL_REDUCE, .n = 4, .bytes = 100, .memory = DF_MEMORY_HOST};
  q.name = "ring  slot=256K slots=8";
  df_choice c = choose(&t, &q);
  CHECK(c.algorithm == DF_RING && c.slot_bytes == 256 << 10 && c.slots == 8 && c.is_named &&
            c.has_limits,
        "all are taken");
  q.name = "flat slot=2K";
  c = choose(&t, &q);
  CHECK(c.algorithm == DF_FLAT && c.slot_bytes == 2048 && c.blocks == 2, "the rule's others stay");
  q.name = "auto copies=1";
  c = choose(&t, &q);
  CHECK(c.algorithm == DF_FLAT && c.copies && !c.is_named && c.line == 2, "of the choice");
  q.name = "twolevel split=3";
  CHECK(choose(&t, &q).split == 3, "subgroups");
  q.name = "flat";
  CHECK(!choose(&t, &q).has_limits, "none");
  refuses_name(DF_OP_ALL_REDUCE, "ring slot=8", "\"slot=8\": it must be a whole number from 64");
  refuses_name(DF_OP_ALL_REDUCE, "ring slots=3", "a power of two");
  refuses_name(DF_OP_ALL_REDUCE, "ring fast", "\"fast\" is none of blocks=");
  refuses_name(DF_OP_ALL_REDUCE, "ring slot=1K slot=2K", "said twice");
  refuses_name(DF_OP_ALL_REDUCE, "autos slot=1K", "");
  refuses_name(DF_OP_ALL_REDUCE, "rin", "");
  refuses_name(DF_OP_ALL_GATHER_V, "direct slot=1K", "has a table of pieces");
  refuses_name(DF_OP_ALL_REDUCE, "file:a slot=1K", "a slot=1K"); /* the whole is its name */
}

DF_TEST(tuning, calibrated_rules_are_between_the_others, 30) {
  df_tuning t = accepted(HEAD "allreduce 4 0-100 any flat\n"
                              "allreduce 4 * host ring slot=64K\n");
  t.n_rules = 1;
  t.n_calibrated = 1;
  df_question q = {.operation = DF_OP_ALL_REDUCE,
                   .n = 4,
                   .bytes = 100,
                   .memory = DF_MEMORY_HOST,
                   .hosts = 1,
                   .largest_host = 4};
  df_choice c = choose(&t, &q);
  CHECK(c.algorithm == DF_FLAT && !c.is_calibrated && c.line == 2, "the user's come first");
  q.bytes = 101;
  c = choose(&t, &q);
  CHECK(c.algorithm == DF_RING && c.is_calibrated && c.line == 3 && c.slot_bytes == 64 << 10,
        "then the machine's");
  q.memory = DF_MEMORY_PROCESS;
  CHECK(!choose(&t, &q).is_calibrated, "then the built-in ones");
  q.memory = DF_MEMORY_HOST;
  q.hosts = 2;
  q.largest_host = 2;
  CHECK(!choose(&t, &q).is_calibrated, "they were measured on one host");
  q.hosts = 1;
  q.on_gpu = 1;
  CHECK(!choose(&t, &q).is_calibrated, "and on the CPU");
}

DF_TEST(tuning, cuda_is_any_group_of_gpus, 30) {
  df_tuning t = accepted(HEAD "allreduce 4 100 cuda flat slot=4M\n");
  df_question q = {.operation = DF_OP_ALL_REDUCE, .n = 4, .bytes = 100, .memory = DF_MEMORY_HOST};
  CHECK(choose(&t, &q).slot_bytes != 4 << 20, "the CPU");
  for (int memory = DF_MEMORY_PROCESS; memory <= DF_MEMORY_HOST; memory++) {
    q.memory = (df_memory_kind)memory;
    q.on_gpu = 1;
    CHECK(choose(&t, &q).slot_bytes == 4 << 20, "GPUs");
  }
}

DF_TEST(tuning, oversubscribed_is_processes_that_share_cores, 30) {
  df_tuning t = accepted(HEAD "allreduce 4 100 crowded flat\n"
                              "allreduce 4 100 any     doubling\n");
  df_question q = {.operation = DF_OP_ALL_REDUCE, .n = 4, .bytes = 100, .memory = DF_MEMORY_HOST};
  CHECK(choose(&t, &q).algorithm == DF_DOUBLING, "a core for every rank");
  q.oversubscribed = 1;
  CHECK(choose(&t, &q).algorithm == DF_FLAT, "crowded");
  q.memory = DF_MEMORY_PROCESS;
  CHECK(choose(&t, &q).algorithm == DF_DOUBLING, "one process");
}

DF_TEST(tuning, splits, 30) {
  df_question q = {.name = "twolevel", .operation = DF_OP_REDUCE, .n = 10};
  CHECK(choose(NULL, &q).split == 4, "three subgroups of up to four");
  q.split = 3;
  CHECK(choose(NULL, &q).split == 3, "as configured");
  q.split = 99;
  CHECK(choose(NULL, &q).split == 10, "never larger than the group");
  q.name = "flat";
  CHECK(choose(NULL, &q).split == 0, "no other algorithm has one: their plans are shared");
}

DF_TEST(tuning, limits, 30) {
  df_shape_limits limits = {.slot_bytes = 4096, .max_blocks = 4, .slots = 8};
  df_choice choice = {.blocks = 2, .slot_bytes = 1024};
  df_shape_limits l = df_choice_limits(&choice, limits);
  CHECK(l.slot_bytes == 1024 && l.max_blocks == 2 && l.slots == 8, "as the rule says");
  choice = (df_choice){.blocks = 8};
  l = df_choice_limits(&choice, limits);
  CHECK(l.slot_bytes == 4096 && l.max_blocks == 4, "never more blocks than allowed");
  CHECK(df_larger_buffer(DF_OP_ALL_GATHER, 3, 5, 4) == 60, "all-gather");
  CHECK(df_larger_buffer(DF_OP_BROADCAST, 3, 5, 4) == 20, "broadcast");
}

/* The list that the tests of the public interface draw from is complete. */
DF_TEST(tuning, every_name_is_known_to_the_other_tests, 30) {
  CHECK(df_algorithm_names_count == DF_ALGORITHMS + 1, "%d names", df_algorithm_names_count);
  for (int i = 1; i < df_algorithm_names_count; i++)
    CHECK(df_algorithm_by_name(df_algorithm_names[i]) == i - 1, "%s", df_algorithm_names[i]);
}
