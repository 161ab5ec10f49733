/*
 * An untrusted tuning table. Whatever the bytes are, one of two outcomes is right. Either they are
 * refused with a sentence that names the file and fits its buffer, and none of them is used. Or
 * every rule is valid, can be written and is read again as the same rule, and a shape that it
 * selects can be cut into blocks, loops and chunks that cover the buffer.
 *
 * The input's first byte selects the meaning of the rest: the text itself, or numbers of words of
 * the format, so that whole rules arise by chance.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tuning/choice.h"
#include "primitives/elements/types.h"

/* Reads the same bytes as a file of NCCL's example plugin. A file that was read can be queried. */
static void check_csv(const char *text, size_t bytes) {
  df_csv csv;
  df_advice advice = {.source = "file"};
  char sentence[120];
  memset(sentence, 'x', sizeof sentence);
  if (df_csv_parse(&csv, text, bytes, "file", sentence, sizeof sentence)) {
    const df_advice_question question = {
        .operation = DF_OP_ALL_REDUCE, .n = 4, .n_hosts = 1, .bytes = 4096, .pat_us = -1};
    df_csv_advise(&csv, &question, &advice);
    DF_ASSERT(advice.algorithm < 0 || df_algorithm_has(advice.algorithm, DF_OP_ALL_REDUCE));
  } else {
    DF_ASSERT(memchr(sentence, '\0', sizeof sentence) != NULL);
    DF_ASSERT(strncmp(sentence, "file:", 5) == 0);
  }
  df_csv_free(&csv);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const words[] = {DF_TUNING_HEADER "\n",
                                    "\n",
                                    "\n",
                                    " ",
                                    "\t",
                                    "allreduce ",
                                    "reduce ",
                                    "broadcast ",
                                    "allgather ",
                                    "reducescatter ",
                                    "alltoall ",
                                    "* ",
                                    "2 ",
                                    "3-8 ",
                                    "16K- ",
                                    "0-1M ",
                                    "any ",
                                    "process ",
                                    "host ",
                                    "ring",
                                    "direct",
                                    "flat",
                                    "twolevel",
                                    "bruck",
                                    "pairwise",
                                    " blocks=",
                                    " slot=",
                                    " split=",
                                    " slots=",
                                    " copies=",
                                    "1",
                                    "64",
                                    "K",
                                    "#",
                                    "-",
                                    "18446744073709551615",
                                    "\r",
                                    "\xc3\xa9"};

static size_t assemble(const uint8_t *data, size_t size, char *text, size_t room) {
  size_t used = 0;
  for (size_t i = 0; i < size; i++) {
    /* small numbers, which are frequent in random inputs, select one word of each place in turn */
    const char *word =
        words[data[i] < 12 ? (data[i] + 5 * i) % DF_COUNT_OF(words) : data[i] % DF_COUNT_OF(words)];
    size_t length = strlen(word);
    if (used + length > room) break;
    /* NOLINTNEXTLINE(bugprone-not-null-terminated-result): the caller passes the length on */
    memcpy(text + used, word, length);
    used += length;
  }
  return used;
}

static void check_rule(const df_rule *rule) {
  char text[400] = DF_TUNING_HEADER "\n", sentence[200];
  static df_tuning again;
  DF_ASSERT(rule->operation < DF_OP_COUNT && rule->algorithm < DF_ALGORITHMS);
  DF_ASSERT(df_algorithm_has((int)rule->algorithm, rule->operation));
  DF_ASSERT(rule->ranks_least >= 1 && rule->ranks_least <= rule->ranks_most);
  DF_ASSERT(rule->ranks_most <= DF_MAX_RANKS && rule->bytes_least <= rule->bytes_most);
  DF_ASSERT(rule->blocks <= DF_MAX_BLOCKS && rule->slot_bytes <= DF_MAX_SLOT_BYTES);
  DF_ASSERT(rule->slot_bytes == 0 || rule->slot_bytes >= DF_CACHE_LINE);
  size_t head = strlen(text);
  DF_ASSERT(df_rule_print(rule, text + head, sizeof text - head) < (int)(sizeof text - head));
  DF_ASSERT(df_tuning_parse(&again, text, strlen(text), "again", sentence, sizeof sentence));
  DF_ASSERT(again.n_rules == 1 && memcmp(&again.rules[0], rule, sizeof *rule) == 0);
}

/* Plans grow with the group, so only those of small groups are made. */
enum { RANKS_MAX = 12 };

/* A collective that the rule applies to, of its least and of its largest size. */
static void check_shapes(const df_tuning *tuning, const df_rule *rule) {
  const uint64_t lengths[] = {rule->bytes_least, rule->bytes_most};
  df_shape_limits limits = {
      .slot_bytes = 128 << 10, .slots = 4, .flagged_max = 4096, .block_min = 1, .max_blocks = 4};
  if (rule->ranks_least > RANKS_MAX) return;
  for (int i = 0; i < 2; i++) {
    static df_shape shape;
    df_choice choice;
    const df_question question = {.operation = rule->operation,
                                  .n = rule->ranks_least,
                                  .bytes = lengths[i],
                                  .memory = DF_MEMORY_PROCESS};
    DF_ASSERT(df_choose(tuning, &question, &choice));
    const df_plan_key key = {.operation = rule->operation,
                             .algorithm = choice.algorithm,
                             .n = question.n,
                             .split = choice.split};
    df_plan *plan = df_plan_make(&key);
    DF_ASSERT(plan != NULL);
    const df_shape_limits chosen = df_choice_limits(&choice, limits);
    const uint64_t count = DF_MIN(lengths[i] / 4, DF_MAX_COUNT / question.n);
    df_shape_make(&shape, plan, count, 4, &chosen);
    DF_ASSERT(shape.n_blocks >= 1 && shape.n_blocks <= DF_MAX_BLOCKS);
    DF_ASSERT(shape.n_slots >= 1 && shape.n_slots <= DF_MAX_LINK_SLOTS);
    uint64_t covered = 0;
    for (uint32_t b = 0; b < shape.n_blocks; b++) {
      DF_ASSERT(shape.parts[b].first == covered || shape.parts[b].elements == 0);
      DF_ASSERT((uint64_t)shape.parts[b].chunk * 4 <= chosen.slot_bytes);
      covered += shape.parts[b].elements;
    }
    DF_ASSERT(covered == count);
    df_plan_free(plan);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static df_tuning tuning;
  char sentence[120];
  if (size == 0) return 0;
  size_t room = size * 24, bytes = size - 1;
  char *text =
      malloc(room); /* allocated to its exact size, so that a sanitizer sees every byte beyond it */
  DF_ASSERT(text != NULL);
  if (data[0] % 4 == 0) {
    memcpy(text, data + 1, bytes);
  } else {
    size_t head = data[0] % 4 == 1 ? 0 : strlen(words[0]);
    if (head > room) head = 0;
    memcpy(text, words[0], head);
    bytes = head + assemble(data + 1, size - 1, text + head, room - head);
  }
  char *exact = malloc(bytes ? bytes : 1);
  DF_ASSERT(exact != NULL);
  memcpy(exact, text, bytes);
  memset(sentence, 'x', sizeof sentence);
  if (df_tuning_parse(&tuning, exact, bytes, "table", sentence, sizeof sentence)) {
    for (uint32_t i = 0; i < tuning.n_rules; i++) check_rule(&tuning.rules[i]);
    for (uint32_t i = 0; i < tuning.n_rules && i < 4; i++) check_shapes(&tuning, &tuning.rules[i]);
  } else {
    DF_ASSERT(tuning.n_rules == 0);
    DF_ASSERT(memchr(sentence, '\0', sizeof sentence) != NULL);
    DF_ASSERT(strncmp(sentence, "table:", 6) == 0);
  }
  check_csv(exact, bytes);
  free(exact);
  free(text);
  return 0;
}
