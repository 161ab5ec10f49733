#include "tuning/choice.h"

#include <string.h>

/* Of operations with uneven pieces: nobody knows the others' counts, from which slots could be
 * smaller or larger. */
enum { DF_LISTED_SLOT_BYTES = 32768 };

static int memory_fits(const df_rule *rule, const df_question *q) {
  if (rule->memory == DF_MEMORY_CROWDED) return q->memory == DF_MEMORY_HOST && q->crowded;
  if (rule->memory == DF_MEMORY_CUDA) return q->on_gpu != 0;
  return rule->memory == DF_MEMORY_ANY || rule->memory == q->memory;
}

static int fits(const df_rule *rule, const df_question *q, int algorithm) {
  return rule->operation == q->operation && (algorithm < 0 || (int)rule->algorithm == algorithm) &&
         memory_fits(rule, q) && rule->ranks_least <= q->n && q->n <= rule->ranks_most &&
         rule->bytes_least <= q->bytes && q->bytes <= rule->bytes_most;
}

/* The first rule that fits (of an algorithm, where one is named); NULL: none. */
static const df_rule *find(const df_tuning *tuning, const df_question *q, int algorithm) {
  for (uint32_t i = 0; tuning && i < tuning->n_rules; i++)
    if (fits(&tuning->rules[i], q, algorithm)) return &tuning->rules[i];
  for (uint32_t i = 0; i < df_n_built_in_rules; i++)
    if (fits(&df_built_in_rules[i], q, algorithm)) return &df_built_in_rules[i];
  return NULL;
}

/* About as many subgroups as members of each. */
static uint32_t even_split(uint32_t n) {
  uint32_t split = 1;
  while (split * split < n) split++;
  return split;
}

/* Between hosts a message costs far more than within one, so each result crosses once. */
static int goes_by_hosts(const df_tuning *tuning, const df_question *q, const df_rule *rule) {
  const int is_own = tuning && rule >= tuning->rules && rule < tuning->rules + tuning->n_rules;
  return q->neighbours > 1 && !is_own && df_algorithm_has(DF_TWO_LEVEL, q->operation);
}

int df_choose(const df_tuning *tuning, const df_question *question, df_choice *choice) {
  int named = -1;
  memset(choice, 0, sizeof *choice);
  if (question->name && strcmp(question->name, "auto") != 0) {
    named = df_algorithm_by_name(question->name);
    if (named < 0 || !df_algorithm_has(named, question->operation)) return 0;
    if (question->ordered && !df_algorithm_keeps_order(named, question->operation)) return 0;
  }
  if (df_operation_is_listed(question->operation)) {
    choice->algorithm = DF_DIRECT;
    choice->slot_bytes = DF_LISTED_SLOT_BYTES;
    choice->is_named = named >= 0;
    return 1;
  }
  const df_rule *rule = find(tuning, question, named);
  DF_ASSERT(rule != NULL || named >= 0); /* the built-in table has an answer for everything */
  choice->algorithm = named >= 0 ? named : (int)rule->algorithm;
  if (rule) {
    choice->blocks = rule->blocks;
    choice->slot_bytes = rule->slot_bytes;
    choice->split = rule->split;
  }
  choice->rule = rule;
  choice->is_named = named >= 0;
  choice->is_by_hosts = named < 0 && goes_by_hosts(tuning, question, rule);
  if (question->ordered && !df_algorithm_keeps_order(choice->algorithm, question->operation)) {
    choice->is_by_hosts = 0;
    choice->is_ordered = 1;
    choice->algorithm = question->operation == DF_OP_ALL_REDUCE ? DF_DOUBLING : DF_ORDERED;
  }
  if (choice->is_by_hosts) {
    choice->algorithm = DF_TWO_LEVEL;
    choice->split = 0;
  }
  if (choice->algorithm != DF_TWO_LEVEL) {
    choice->split = 0;
  } else {
    if (choice->split == 0) choice->split = question->split;
    if (choice->split == 0) choice->split = question->neighbours;
    if (choice->split == 0) choice->split = even_split(question->n);
    choice->split = DF_MIN(choice->split, question->n);
  }
  return 1;
}

uint64_t df_larger_buffer(df_operation operation, uint32_t n, uint64_t count,
                          uint32_t element_bytes) {
  int wide = df_operation_is_wide(operation, 0) || df_operation_is_wide(operation, 1);
  return count * element_bytes * (wide ? n : 1);
}

df_shape_limits df_choice_limits(const df_choice *choice, df_shape_limits limits) {
  if (choice->blocks) limits.max_blocks = DF_MIN(limits.max_blocks, choice->blocks);
  if (choice->slot_bytes) limits.slot_bytes = choice->slot_bytes;
  return limits;
}
