#include "tuning/choice.h"

#include <string.h>

#include "base/text.h"

enum {
  DF_LONG_BETWEEN_HOSTS = 128 << 10,
  DF_PIECE_TABLE_SLOT_BYTES = 32 << 10,
  DF_PIECE_TABLE_SLOT_MOST = 128 << 10, /* between hosts */
  DF_PIECE_TABLE_SLOTS_OF_ALL = 512 << 10,
  DF_BCUBE_BASE = 4,
  DF_CHAIN_HOSTS = 3, /* with fewer hosts a chain and doubling cross between hosts equally often */
  DF_CHAIN_ON_HOST =
      8 /* members on a host whose messages together take less time than one to another host */
};

static int memory_fits(const df_rule *rule, const df_question *q) {
  if (rule->memory == DF_MEMORY_OVERSUBSCRIBED)
    return q->memory == DF_MEMORY_HOST && q->oversubscribed;
  if (rule->memory == DF_MEMORY_CUDA) return q->on_gpu != 0;
  return rule->memory == DF_MEMORY_ANY || rule->memory == q->memory;
}

/* A file is for one size of group, and its runs have the registered count. */
static int file_fits(const df_rule *rule, const df_question *q, const df_plan_file *file) {
  return rule->loaded && !q->varying && df_plan_file_facts_of(rule->loaded).n == q->n &&
         (file == NULL || file == rule->loaded);
}

static int fits(const df_rule *rule, const df_question *q, int algorithm,
                const df_plan_file *file) {
  return rule->operation == q->operation &&
         (rule->algorithm != DF_FROM_FILE || file_fits(rule, q, file)) &&
         (algorithm < 0 || (int)rule->algorithm == algorithm) && memory_fits(rule, q) &&
         rule->ranks_least <= q->n && q->n <= rule->ranks_most && rule->bytes_least <= q->bytes &&
         q->bytes <= rule->bytes_most;
}

/* It was measured with processes and threads of one host. */
static int is_calibrated_for(const df_question *q) { return q->hosts <= 1 && !q->on_gpu; }

/* Returns the first rule that fits (with a named algorithm: the first one of that algorithm), or
 * NULL. */
static const df_rule *find(const df_tuning *tuning, const df_question *q, int algorithm,
                           const df_plan_file *file) {
  for (uint32_t i = 0; tuning && i < tuning->n_rules; i++)
    if (fits(&tuning->rules[i], q, algorithm, file)) return &tuning->rules[i];
  for (uint32_t i = 0; tuning && i < tuning->n_calibrated && is_calibrated_for(q); i++)
    if (fits(&tuning->rules[tuning->n_rules + i], q, algorithm, file))
      return &tuning->rules[tuning->n_rules + i];
  for (uint32_t i = 0; i < df_n_built_in_rules; i++)
    if (fits(&df_built_in_rules[i], q, algorithm, file)) return &df_built_in_rules[i];
  return NULL;
}

/* Returns a split with about as many subgroups as members of each. */
static uint32_t even_split(uint32_t n) {
  uint32_t split = 1;
  while (split * split < n) split++;
  return split;
}

static int is_own(const df_tuning *tuning, const df_rule *rule) {
  return tuning && rule >= tuning->rules && rule < tuning->rules + tuning->n_rules;
}

int df_named_read(df_named *named, const char *text, char *why, size_t why_bytes) {
  memset(named, 0, sizeof *named);
  const size_t length = strncmp(text, "file:", 5) == 0 ? strlen(text) : strcspn(text, " ");
  df_text word = {.at = named->word, .left = sizeof named->word};
  df_say(&word, "%.*s", (int)DF_MIN(length, sizeof named->word), text);
  named->algorithm = df_algorithm_by_name(named->word);
  return df_rule_read_options(&named->limits, text + length, why, why_bytes);
}

static int is_calibrated(const df_tuning *tuning, const df_rule *rule) {
  return tuning && rule >= tuning->rules + tuning->n_rules &&
         rule < tuning->rules + tuning->n_rules + tuning->n_calibrated;
}

static int has_name(const df_question *question) {
  const char *name = question->name;
  return name && (strncmp(name, "auto", 4) != 0 || (name[4] != '\0' && name[4] != ' '));
}

int df_choice_takes_advice(const df_tuning *tuning, const df_question *question) {
  return !has_name(question) && !question->ordered &&
         df_advice_function(question->operation) >= 0 &&
         !is_own(tuning, find(tuning, question, -1, NULL));
}

static void take_rule(const df_tuning *tuning, df_choice *choice, const df_rule *rule) {
  choice->rule = rule;
  if (rule == NULL) return;
  choice->is_calibrated = is_calibrated(tuning, rule);
  choice->line =
      is_own(tuning, rule) || choice->is_calibrated ? tuning->lines[rule - tuning->rules] : 0;
  choice->blocks = rule->blocks;
  choice->slot_bytes = rule->slot_bytes;
  choice->split = rule->split;
  choice->slots = rule->slots;
  choice->copies = rule->copies != 0;
}

/* Limits that the advice leaves open come from the first rule of the algorithm, as if it were
 * named. */
static void take_advice(const df_tuning *tuning, const df_question *question, df_choice *choice) {
  choice->advice = *question->advice;
  if (choice->advice.kind == DF_ADVICE_TAKEN) {
    choice->algorithm = choice->advice.algorithm;
    choice->file = NULL;
    take_rule(tuning, choice, find(tuning, question, choice->algorithm, NULL));
    choice->form = choice->advice.form;
  }
  if (choice->advice.blocks) choice->blocks = choice->advice.blocks;
  if (choice->advice.slot_bytes) choice->slot_bytes = choice->advice.slot_bytes;
}

static void take_limits(df_choice *choice, const df_rule *limits) {
  choice->has_limits =
      limits->blocks || limits->slot_bytes || limits->split || limits->slots || limits->copies;
  if (limits->blocks) choice->blocks = limits->blocks;
  if (limits->slot_bytes) choice->slot_bytes = limits->slot_bytes;
  if (limits->split) choice->split = limits->split;
  if (limits->slots) choice->slots = limits->slots;
  if (limits->copies) choice->copies = 1;
}

static int is_spread(const df_question *q) { return q->hosts > 1 && q->largest_host > 1; }

/* Hierarchical plans gain with three hosts or more. There, two levels send the data that leaves a
 * host more than once: in a broadcast the root's host sends to each other host, in a reduce all
 * other hosts send to that of the root, and in an all-reduce the leaders send the whole buffer in
 * each round. In an all-gather or reduce-scatter they send one piece after the other. With two
 * hosts both algorithms send the same. */
static int gains_by_levels(const df_question *q) {
  if (!is_spread(q) || q->hosts < 3) return 0;
  switch (q->operation) {
  case DF_OP_ALL_GATHER:
  case DF_OP_REDUCE_SCATTER:
    return 1;
  case DF_OP_ALL_REDUCE:
  case DF_OP_BROADCAST:
  case DF_OP_REDUCE:
    return q->bytes > DF_LONG_BETWEEN_HOSTS;
  default:
    return 0;
  }
}

/* A chain sends one message to the next host, where doubling sends one for each member. */
static int gains_by_chain(const df_question *q) {
  return df_operation_is_scan(q->operation) && q->neighbours > 1 &&
         q->neighbours <= DF_CHAIN_ON_HOST && q->hosts <= DF_CHAIN_HOSTS;
}

/* Between hosts a message costs far more than within one, so each result crosses once. Returns -1
 * if there is no such algorithm, or the user has set another one. */
static int algorithm_by_hosts(const df_tuning *tuning, const df_question *q, const df_rule *rule) {
  if (is_own(tuning, rule)) return -1;
  if (gains_by_chain(q)) return DF_RING;
  if (gains_by_levels(q)) return DF_HIERARCHICAL;
  if (q->neighbours > 1 && df_algorithm_has(DF_TWO_LEVEL, q->operation)) return DF_TWO_LEVEL;
  if (!is_spread(q) || q->operation == DF_OP_ALL_TO_ALL) return -1;
  return df_algorithm_has(DF_HIERARCHICAL, q->operation) ? DF_HIERARCHICAL : -1;
}

static void choose_levels(const df_question *q, df_choice *choice) {
  if (choice->algorithm == DF_HIERARCHICAL) {
    choice->lanes = q->lanes;
    if (q->hosts > 1) { /* the hosts are the levels; a split divides them further */
      choice->split = choice->split ? choice->split : q->split;
      return;
    }
  } else if (choice->algorithm != DF_TWO_LEVEL) {
    const uint32_t base = q->split ? q->split : DF_BCUBE_BASE;
    choice->split = choice->algorithm != DF_BCUBE ? 0 : choice->split ? choice->split : base;
    return;
  }
  if (choice->split == 0) choice->split = q->split;
  if (choice->split == 0) choice->split = q->neighbours;
  if (choice->split == 0) choice->split = even_split(q->n);
  choice->split = DF_MIN(choice->split, q->n);
}

/* Returns NULL if there is no such file; question->why then says why. */
static const df_plan_file *find_file(const df_question *q) {
  char unused[16];
  df_text why = {.at = q->why ? q->why : unused, .left = q->why ? q->why_bytes : sizeof unused};
  const df_plan_file *file = q->file;
  if (file == NULL)
    file = df_plan_file_find(q->files ? q->files : "", q->name + 5, why.at, why.left);
  if (file == NULL) return NULL;
  const df_plan_file_facts facts = df_plan_file_facts_of(file);
  if (facts.operation != q->operation)
    df_say(&why, "\"%s\" is for %s, not for %s", q->name, df_operation_name(facts.operation),
           df_operation_name(q->operation));
  else if (facts.n != q->n)
    df_say(&why, "\"%s\" is for a group of %u ranks, not of %u", q->name, facts.n, q->n);
  else if (q->varying)
    df_say(&why, "\"%s\" is a file's; options.varying is 1, but its runs have the registered count",
           q->name);
  else if (q->ordered && !facts.ordered)
    df_say(&why, "\"%s\" does not keep the order of operands; the operator does not commute",
           q->name);
  else
    return file;
  return NULL;
}

/* Returns whether the choice combines operands in the order of the group. */
static int keeps_order(const df_choice *choice, df_operation operation) {
  if (choice->file) return df_plan_file_facts_of(choice->file).ordered;
  return df_algorithm_keeps_order(choice->algorithm, operation);
}

/* Slots of vector operations have a fixed size, because no member has the counts of the others.
 * Between hosts each message costs system calls and the latency of a packet, so fewer and longer
 * messages are faster, as long as the slots of all members do not take too much memory. */
static uint32_t piece_table_slot_bytes(const df_question *q) {
  const uint32_t each = DF_PIECE_TABLE_SLOTS_OF_ALL / q->n / DF_CACHE_LINE * DF_CACHE_LINE;
  if (q->hosts < 2 || each < DF_PIECE_TABLE_SLOT_BYTES) return DF_PIECE_TABLE_SLOT_BYTES;
  return DF_MIN(each, (uint32_t)DF_PIECE_TABLE_SLOT_MOST);
}

/* Data of several members of a host crosses to another host once, and is combined or passed on
 * there. This requires that all members have all counts. */
static uint32_t piece_table_split(const df_question *q) {
  const int is_known_to_all =
      q->operation == DF_OP_REDUCE_SCATTER_V || q->operation == DF_OP_ALL_GATHER_V;
  return is_known_to_all && q->neighbours > 1 && q->n % q->neighbours == 0 ? q->neighbours : 0;
}

/* Takes the name's algorithm or file; *said gets its limits. 0: the question cannot have it. */
static int take_name(const df_question *q, df_named *said, df_choice *choice) {
  char unused[16];
  df_text why = {.at = q->why ? q->why : unused, .left = q->why ? q->why_bytes : sizeof unused};
  why.at[0] = '\0';
  memset(said, 0, sizeof *said);
  if (q->name == NULL) return 1;
  if (!df_named_read(said, q->name, why.at, why.left)) return 0;
  take_limits(choice, &said->limits);
  if (choice->has_limits && df_operation_has_piece_table(q->operation)) {
    df_say(&why, "\"%s\": %s has a table of pieces, and no limits", q->name,
           df_operation_name(q->operation));
    return 0;
  }
  if (!has_name(q)) return 1;
  choice->is_named = 1;
  if (strncmp(q->name, "file:", 5) == 0) {
    choice->file = find_file(q);
    choice->algorithm = DF_FROM_FILE;
    return choice->file != NULL;
  }
  choice->algorithm = said->algorithm;
  return said->algorithm >= 0 && df_algorithm_has(said->algorithm, q->operation) &&
         !(q->ordered && !df_algorithm_keeps_order(said->algorithm, q->operation));
}

int df_choose(const df_tuning *tuning, const df_question *question, df_choice *choice) {
  df_named said;
  memset(choice, 0, sizeof *choice);
  if (!take_name(question, &said, choice)) return 0;
  const int named = choice->is_named ? choice->algorithm : -1;
  if (df_operation_has_piece_table(question->operation)) {
    choice->algorithm = DF_DIRECT;
    choice->slot_bytes = piece_table_slot_bytes(question);
    choice->split = piece_table_split(question);
    return 1;
  }
  const df_rule *rule = find(tuning, question, named, choice->file);
  DF_ASSERT(rule != NULL || named >= 0); /* the built-in table has a rule for every question */
  choice->algorithm = named >= 0 ? named : (int)rule->algorithm;
  if (rule && choice->algorithm == DF_FROM_FILE) choice->file = rule->loaded;
  take_rule(tuning, choice, rule);
  int by_hosts = named < 0 ? algorithm_by_hosts(tuning, question, rule) : -1;
  if (question->ordered && !df_algorithm_keeps_order(by_hosts, question->operation)) by_hosts = -1;
  choice->is_by_hosts = by_hosts >= 0;
  choice->is_spread = is_spread(question);
  if (question->advice && df_choice_takes_advice(tuning, question)) {
    take_advice(tuning, question, choice);
    if (choice->advice.kind == DF_ADVICE_TAKEN) choice->is_by_hosts = 0;
  }
  if (question->ordered && !keeps_order(choice, question->operation)) {
    choice->file = NULL;
    choice->is_ordered = 1;
    choice->algorithm = question->operation == DF_OP_ALL_REDUCE ? DF_DOUBLING : DF_ORDERED;
  }
  if (choice->is_by_hosts) {
    choice->algorithm = by_hosts;
    choice->split = 0;
  }
  take_limits(choice, &said.limits);
  choose_levels(question, choice);
  return 1;
}

const char *df_choice_source(const df_tuning *tuning, const df_choice *choice) {
  if (choice->is_named) return "as named";
  if (choice->advice.kind == DF_ADVICE_TAKEN)
    return choice->advice.line ? "as the file of DFCCL_TUNER_PLUGIN says"
                               : "as a tuner plugin says";
  if (choice->is_by_hosts) return "by hosts";
  if (choice->is_ordered) return "in order";
  if (choice->rule == NULL) return "for lists";
  return is_own(tuning, choice->rule) ? "as DFCCL_TUNING says"
         : choice->is_calibrated      ? "as calibrated"
                                      : "of the built-in table";
}

uint64_t df_larger_buffer(df_operation operation, uint32_t n, uint64_t count,
                          uint32_t element_bytes) {
  int wide = df_operation_is_wide(operation, 0) || df_operation_is_wide(operation, 1);
  return count * element_bytes * (wide ? n : 1);
}

df_shape_limits df_choice_limits(const df_choice *choice, df_shape_limits limits) {
  if (choice->blocks) limits.max_blocks = DF_MIN(limits.max_blocks, choice->blocks);
  if (choice->slot_bytes) limits.slot_bytes = choice->slot_bytes;
  if (choice->slots) limits.slots = choice->slots;
  if (choice->form == DF_FORM_FLAGGED) limits.flagged_max = (uint32_t)limits.slot_bytes;
  if (choice->form == DF_FORM_STAGED) limits.flagged_max = limits.words_max = 0;
  return limits;
}
