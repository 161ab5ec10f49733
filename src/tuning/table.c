#include "tuning/table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/escape.h"
#include "base/text.h"
#include "primitives/elements/types.h"

static const char *const memory_words[] = {"any", "process", "host", "crowded", "cuda"};

static int word_at(const char *const *words, int n, const char *word) {
  for (int i = 0; i < n; i++)
    if (strcmp(words[i], word) == 0) return i;
  return -1;
}

/* ---- reading ---- */

enum { MAX_LINE = 400, FIELDS = 5, MAX_WORDS = 10 };

typedef struct reader {
  const char *name; /* NULL: not of a table */
  uint32_t line;
  char *sentence;
  size_t sentence_bytes;
} reader;

DF_PRINTF(2, 3) static int refuse(const reader *in, const char *format, ...) {
  va_list arguments;
  df_text text = {.at = in->sentence, .left = in->sentence_bytes};
  if (in->name) df_say(&text, "%.200s:%u: ", in->name, in->line);
  va_start(arguments, format);
  df_say_list(&text, format, arguments);
  va_end(arguments);
  return 0;
}

/* *end becomes the text after the number. Returns 0 if there is no number, or it is too large. */
static int read_number(const char *text, uint64_t most, uint64_t *value, const char **end) {
  uint64_t number;
  const char *at;
  if (!df_read_digits(text, UINT64_MAX, &number, &at)) return 0;
  uint32_t shift = *at == 'K' ? 10 : *at == 'M' ? 20 : *at == 'G' ? 30 : 0;
  if (shift) at++;
  if (number > most >> shift) return 0;
  *value = number << shift;
  *end = at;
  return 1;
}

/* Reads "7", "2-8", "16K-" or "*". */
static int read_range(const char *text, uint64_t least, uint64_t most, uint64_t *from,
                      uint64_t *to) {
  *from = least;
  *to = most;
  if (strcmp(text, "*") == 0) return 1;
  if (!read_number(text, most, from, &text) || *from < least) return 0;
  if (*text == '\0') *to = *from;
  if (*text == '-' && *++text != '\0' && !read_number(text, most, to, &text)) return 0;
  return *text == '\0' && *from <= *to;
}

/* Reads blocks=, slot=, split=, slots= or copies=; each may occur once. */
static int read_option(const reader *in, const char *word, df_rule *rule) {
  const struct {
    const char *key;
    uint64_t least, most;
    uint32_t *value;
  } options[] = {{"blocks=", 1, DF_MAX_BLOCKS, &rule->blocks},
                 {"slot=", DF_CACHE_LINE, DF_MAX_SLOT_BYTES, &rule->slot_bytes},
                 {"split=", 1, DF_MAX_RANKS, &rule->split},
                 {"slots=", DF_MIN_LINK_SLOTS, DF_MAX_LINK_SLOTS, &rule->slots},
                 {"copies=", 1, 1, &rule->copies}};
  for (size_t i = 0; i < DF_COUNT_OF(options); i++) {
    size_t length = strlen(options[i].key);
    if (strncmp(word, options[i].key, length) != 0) continue;
    uint64_t value = 0;
    const char *end = "?";
    if (*options[i].value != 0) return refuse(in, "\"%s\" is said twice", word);
    if (!read_number(word + length, options[i].most, &value, &end) || *end != '\0' ||
        value < options[i].least)
      return refuse(in, "\"%s\": it must be a whole number from %" PRIu64 " to %" PRIu64, word,
                    options[i].least, options[i].most);
    if (options[i].value == &rule->slots && (value & (value - 1)) != 0)
      return refuse(in, "\"%s\": it must be a power of two", word);
    *options[i].value = (uint32_t)value;
    return 1;
  }
  return refuse(in, "\"%s\" is none of blocks=, slot=, split=, slots=, copies=", word);
}

/* Reads "file:NAME". */
static int read_file(const reader *in, const char *word, df_tuning *tuning, df_rule *rule) {
  const char *name = word + 5;
  if (strlen(name) >= DF_FILE_NAME_BYTES || *name == '\0')
    return refuse(in, "\"%s\": the name of a file has 1 to %d characters", word,
                  DF_FILE_NAME_BYTES - 1);
  rule->algorithm = DF_FROM_FILE;
  for (rule->file = 1; rule->file <= tuning->n_files; rule->file++)
    if (strcmp(tuning->files[rule->file - 1], name) == 0) return 1;
  if (tuning->n_files == DF_MAX_TUNING_FILES)
    return refuse(in, "\"%s\": a table names at most %d files", word, DF_MAX_TUNING_FILES);
  strcpy(tuning->files[tuning->n_files++], name);
  return 1;
}

static const char operation_words[] = ""
#define DF_OPERATION(id, name, word, ...) ", " word
#include "plans/operations.def"
    ;

static int read_rule(const reader *in, char **words, int n, df_tuning *tuning, df_rule *rule) {
  uint64_t from, to;
  memset(rule, 0, sizeof *rule);
  if (n < FIELDS)
    return refuse(in,
                  "a rule has %d words or more (operation, ranks, bytes, memory, algorithm), "
                  "not %d",
                  FIELDS, n);
  int operation = df_operation_by_word(words[0]);
  if (operation < 0)
    return refuse(in, "operation \"%s\" is none of %s", words[0], operation_words + strlen(", "));
  rule->operation = (df_operation)operation;
  if (!read_range(words[1], 1, DF_MAX_RANKS, &from, &to))
    return refuse(in, "ranks \"%s\" is no number or range from 1 to %d, and not *", words[1],
                  DF_MAX_RANKS);
  rule->ranks_least = (uint32_t)from;
  rule->ranks_most = (uint32_t)to;
  if (!read_range(words[2], 0, UINT64_MAX, &rule->bytes_least, &rule->bytes_most))
    return refuse(in, "bytes \"%s\" is no number or range such as 0-16K or 1M-, and not *",
                  words[2]);
  int memory = word_at(memory_words, DF_COUNT_OF(memory_words), words[3]);
  if (memory < 0) /* lint: allow(crowded) a word of the tuning table */
    return refuse(in, "unknown memory \"%s\"; it must be any, process, host, crowded or cuda",
                  words[3]);
  rule->memory = (df_memory_kind)memory;
  if (strncmp(words[4], "file:", 5) == 0) {
    if (!read_file(in, words[4], tuning, rule)) return 0;
    for (int i = FIELDS; i < n; i++)
      if (!read_option(in, words[i], rule)) return 0;
    return 1;
  }
  int algorithm = df_algorithm_by_name(words[4]);
  char why[DF_ALGORITHM_SENTENCE_BYTES];
  if (algorithm < 0 || !df_algorithm_has(algorithm, rule->operation))
    return refuse(in, "%s", df_algorithm_explain(words[4], operation, words[0], why));
  rule->algorithm = (df_algorithm)algorithm;
  for (int i = FIELDS; i < n; i++)
    if (!read_option(in, words[i], rule)) return 0;
  return 1;
}

void df_tuning_default(df_tuning *tuning) {
  memset(tuning, 0, sizeof *tuning);
#define X(name, standard, least, most, meaning) tuning->policy.name = (standard);
  DF_POLICY_MAP(X)
#undef X
}

/* The words are in the order of df_cq_variant. */
static int read_queue(const reader *in, const char *word, df_policy *policy) {
  static const char *const words[] = {"ring", "packed", "slots"};
  for (int i = 0; i < (int)DF_COUNT_OF(words); i++)
    if (strcasecmp(words[i], word) == 0) {
      policy->cq = i;
      return 1;
    }
  return refuse(in, "cq is \"%s\": it must be ring, packed or slots", word);
}

/* Reads "set NAME VALUE". */
static int read_set(const reader *in, char **words, int n, df_policy *policy) {
  static const struct {
    const char *name;
    size_t offset;
    long long least, most;
  } numbers[] = {
#define X(name, standard, least, most, meaning) {#name, offsetof(df_policy, name), (least), (most)},
      DF_POLICY_MAP(X)
#undef X
  };
  if (n != 3) return refuse(in, "\"set\" needs a name and a value, not %d words", n - 1);
  for (size_t i = 0; i < DF_COUNT_OF(numbers); i++) {
    if (strcmp(words[1], numbers[i].name) != 0) continue;
    if (numbers[i].offset == offsetof(df_policy, cq)) return read_queue(in, words[2], policy);
    uint64_t value;
    const char *end;
    if (!read_number(words[2], (uint64_t)numbers[i].most, &value, &end) || *end != '\0' ||
        (long long)value < numbers[i].least)
      return refuse(in, "%s is \"%s\": it must be a whole number from %lld to %lld", words[1],
                    words[2], numbers[i].least, numbers[i].most);
    if (numbers[i].offset == offsetof(df_policy, slots) && (value & (value - 1)) != 0)
      return refuse(in, "%s is %s: it must be a power of two", words[1], words[2]);
    if (numbers[i].offset == offsetof(df_policy, cuda_threads) && value % 32 != 0)
      return refuse(in, "%s is %s: it must be a multiple of 32", words[1], words[2]);
    *(long long *)(void *)((char *)policy + numbers[i].offset) = (long long)value;
    return 1;
  }
  return refuse(in, "there is no \"%s\" to set", words[1]);
}

/* Splits the line in place. Returns most + 1 if there are more than `most` words. */
static int split_words(char *line, char **words, int most) {
  int n = 0;
  for (char *at = line; *at != '\0';) {
    while (*at == ' ' || *at == '\t') *at++ = '\0';
    if (*at == '\0') break;
    if (n == most) return most + 1;
    words[n++] = at;
    while (*at != '\0' && *at != ' ' && *at != '\t') at++;
  }
  return n;
}

static int read_line(const reader *in, char *line, int *headed, df_tuning *tuning) {
  char *words[MAX_WORDS], *comment = strchr(line, '#');
  if (comment) *comment = '\0';
  int n = split_words(line, words, MAX_WORDS);
  if (n == 0) return 1;
  if (!*headed) {
    *headed = 1;
    if (n == 2 && strcmp(words[0], "dfccl-tuning") == 0 && strcmp(words[1], "1") == 0) return 1;
    return refuse(in, "the table must begin with \"" DF_TUNING_HEADER "\", not with \"%s\"",
                  words[0]);
  }
  if (n > MAX_WORDS) return refuse(in, "more than %d words", MAX_WORDS);
  if (strcmp(words[0], "set") == 0) return read_set(in, words, n, &tuning->policy);
  if (tuning->n_rules == DF_MAX_TUNING_RULES)
    return refuse(in, "more than %d rules", DF_MAX_TUNING_RULES);
  if (!read_rule(in, words, n, tuning, &tuning->rules[tuning->n_rules])) return 0;
  tuning->lines[tuning->n_rules++] = in->line;
  return 1;
}

int df_tuning_parse(df_tuning *tuning, const char *text, size_t bytes, const char *name,
                    char *sentence, size_t sentence_bytes) {
  reader in = {.name = name, .sentence = sentence, .sentence_bytes = sentence_bytes};
  int headed = 0, fine = 1;
  df_tuning_default(tuning);
  for (size_t at = df_byte_order_mark(text, bytes); fine && at < bytes;) {
    char line[MAX_LINE];
    size_t length;
    const char *begin = text + at;
    at += df_line_length(begin, bytes - at, &length);
    in.line++;
    if (*begin == '#' && length > 0) continue; /* comments may be long */
    if (length >= sizeof line) {
      fine = refuse(&in, "a line of %zu characters; at most %d are possible", length, MAX_LINE - 1);
      break;
    }
    memcpy(line, begin, length);
    line[length] = '\0';
    for (size_t i = 0; fine && i < length; i++) /* comments may be in any language, as UTF-8 */
      if ((uint8_t)line[i] < ' ' && line[i] != '\t')
        fine = refuse(&in, "a character with code %d", line[i]);
    if (fine) fine = read_line(&in, line, &headed, tuning);
  }
  if (fine && !headed) {
    in.line++;
    fine = refuse(&in, "the table must begin with \"" DF_TUNING_HEADER "\"; it is empty");
  }
  if (!fine) df_tuning_default(tuning);
  return fine;
}

/* Reads "NAME=VALUE". */
static int read_assignment(const reader *in, const char *text, size_t length, df_policy *policy) {
  char line[MAX_LINE], *words[MAX_WORDS] = {"set"};
  if (length >= sizeof line)
    return refuse(in, "a number of %zu characters; at most %d are possible", length, MAX_LINE - 1);
  memcpy(line, text, length);
  line[length] = '\0';
  char *equals = strchr(line, '=');
  if (equals) *equals = ' ';
  const int n = split_words(line, words + 1, MAX_WORDS - 1);
  if (n != 2) return refuse(in, "\"%.*s\" is not of the form NAME=VALUE", (int)length, text);
  return read_set(in, words, n + 1, policy);
}

int df_tuning_set(df_tuning *tuning, const char *numbers, char *sentence, size_t sentence_bytes) {
  reader in = {.name = numbers, .sentence = sentence, .sentence_bytes = sentence_bytes};
  df_policy policy = tuning->policy;
  for (const char *at = numbers;; at++) {
    in.line++;
    if (strncmp(at, DF_TUNING_NUMBERS, strlen(DF_TUNING_NUMBERS)) == 0)
      at += strlen(DF_TUNING_NUMBERS);
    const size_t length = strcspn(at, ",");
    if (!read_assignment(&in, at, length, &policy)) return 0;
    at += length;
    if (*at == '\0') break;
  }
  tuning->policy = policy;
  return 1;
}

int df_rule_read_options(df_rule *rule, const char *options, char *sentence,
                         size_t sentence_bytes) {
  const reader in = {.sentence = sentence, .sentence_bytes = sentence_bytes};
  char line[MAX_LINE], shown[MAX_LINE], *words[MAX_WORDS];
  if (strlen(options) >= sizeof line)
    return refuse(&in, "options of %zu characters; at most %d are possible", strlen(options),
                  MAX_LINE - 1);
  strcpy(line, options);
  const int n = split_words(line, words, MAX_WORDS);
  if (n > MAX_WORDS) return refuse(&in, "more than %d options", MAX_WORDS);
  for (int i = 0; i < n; i++) {
    df_escape(shown, sizeof shown, words[i]);
    if (!read_option(&in, shown, rule)) return 0;
  }
  return 1;
}

static int load(df_rule *rule, const char *name, const char *directory, char *sentence,
                size_t bytes) {
  rule->loaded = df_plan_file_find(directory, name, sentence, bytes);
  if (rule->loaded == NULL) return 0;
  const df_plan_file_facts facts = df_plan_file_facts_of(rule->loaded);
  df_text text = {.at = sentence, .left = bytes};
  if (facts.operation != rule->operation)
    df_say(&text, "a rule for %s names \"file:%s\", which is for %s",
           df_operation_word(rule->operation), name, df_operation_word(facts.operation));
  else if (facts.n < rule->ranks_least || facts.n > rule->ranks_most)
    df_say(&text, "a rule for %u to %u ranks names \"file:%s\", which is for %u", rule->ranks_least,
           rule->ranks_most, name, facts.n);
  else
    return 1;
  return 0;
}

int df_tuning_load_files(df_tuning *tuning, const char *directory, char *sentence,
                         size_t sentence_bytes) {
  for (uint32_t i = 0; i < tuning->n_rules; i++)
    if (tuning->rules[i].algorithm == DF_FROM_FILE &&
        !load(&tuning->rules[i], tuning->files[tuning->rules[i].file - 1], directory, sentence,
              sentence_bytes))
      return 0;
  return 1;
}

/* ---- writing ---- */

/* Prints the size in the largest unit that is exact. */
static void print_size(uint64_t value, char *text, size_t bytes) {
  static const char *const units[] = {"", "K", "M", "G"};
  int unit = 0;
  while (unit < 3 && value != 0 && value % 1024 == 0) {
    value /= 1024;
    unit++;
  }
  snprintf(text, bytes, "%" PRIu64 "%s", value, units[unit]);
}

static void print_range(uint64_t from, uint64_t to, uint64_t least, uint64_t most, char *text,
                        size_t bytes) {
  char first[32], last[32];
  print_size(from, first, sizeof first);
  print_size(to, last, sizeof last);
  if (from == least && to == most)
    snprintf(text, bytes, "*");
  else if (from == to)
    snprintf(text, bytes, "%s", first);
  else
    snprintf(text, bytes, "%s-%s", first, to == most ? "" : last);
}

int df_rule_print(const df_rule *rule, char *line, size_t bytes) {
  char ranks[72], sizes[72], options[5][40] = {"", "", "", "", ""};
  print_range(rule->ranks_least, rule->ranks_most, 1, DF_MAX_RANKS, ranks, sizeof ranks);
  print_range(rule->bytes_least, rule->bytes_most, 0, UINT64_MAX, sizes, sizeof sizes);
  if (rule->blocks) snprintf(options[0], sizeof options[0], " blocks=%u", rule->blocks);
  if (rule->slot_bytes) {
    char size[32];
    print_size(rule->slot_bytes, size, sizeof size);
    snprintf(options[1], sizeof options[1], " slot=%s", size);
  }
  if (rule->split) snprintf(options[2], sizeof options[2], " split=%u", rule->split);
  if (rule->slots) snprintf(options[3], sizeof options[3], " slots=%u", rule->slots);
  if (rule->copies) snprintf(options[4], sizeof options[4], " copies=1");
  return snprintf(line, bytes, "%-13s %-6s %-11s %-7s %s%s%s%s%s%s%s%s",
                  df_operation_word(rule->operation), ranks, sizes, memory_words[rule->memory],
                  df_algorithm_name((int)rule->algorithm), rule->loaded ? ":" : "",
                  rule->loaded ? df_plan_file_facts_of(rule->loaded).name : "", options[0],
                  options[1], options[2], options[3], options[4]);
}

/* ---- the built-in table ---- */

enum { K = 1024, M = 1024 * 1024 };
#define NO_LIMIT UINT64_MAX
#define RULE(operation, least, most, memory, from, to, algorithm, slot_bytes)                      \
  {                                                                                                \
    DF_OP_##operation, DF_##algorithm, DF_MEMORY_##memory, least, most, from, to, 0, slot_bytes,   \
        0, 0, NULL, 0, 0                                                                           \
  }

/* Rules for up to 8 ranks were measured with `dfccl-bench tune`; those beyond follow from crossings
 * between hosts. Links to all other members have smaller slots, so that memory does not grow with
 * the group. With shared cores the sum of all work counts: ranks read data at its origin, in large
 * pieces, and switch seldom. The rules of GPUs were measured with 2, 4 and 8 ranks on one H100,
 * all-reduces also with 3 and 6, up to 16 MB. A primitive costs a block about 4 us there, and a
 * message arrives after 1 us. So the plans with the fewest primitives for a rank come first, and
 * data that travels along a ring is fast. */
const df_rule df_built_in_rules[] = {
    RULE(ALL_REDUCE, 1, 2, CUDA, 64 * M, NO_LIMIT, DIRECT, 1 * M),
    RULE(ALL_REDUCE, 1, 2, CUDA, 8 * M, NO_LIMIT, DIRECT, 512 * K),
    RULE(ALL_REDUCE, 3, 8, CUDA, 64 * M, NO_LIMIT, DIRECT, 256 * K),
    RULE(ALL_REDUCE, 3, 3, CUDA, 0, 512 * K, DOUBLING, 0),
    RULE(ALL_REDUCE, 4, 64, CUDA, 0, 2048 * K, DOUBLING, 0),
    RULE(ALL_REDUCE, 1, 2, PROCESS, 0, 512 * K, DOUBLING, 0),
    RULE(ALL_REDUCE, 1, 2, ANY, 0, 512 * K, ALL_PAIRS, 0),
    RULE(ALL_REDUCE, 3, 16, ANY, 0, 1536, ALL_PAIRS, 0),
    RULE(ALL_REDUCE, 3, 16, OVERSUBSCRIBED, 32 * K + 1, 128 * K, DIRECT, 64 * K),
    RULE(ALL_REDUCE, 3, 16, ANY, 1537, 64 * K, FLAT, 32 * K),
    RULE(ALL_REDUCE, 17, DF_MAX_RANKS, ANY, 0, 32 * K, DOUBLING, 0),
    RULE(ALL_REDUCE, 5, 16, OVERSUBSCRIBED, 256 * K, NO_LIMIT, DIRECT, 128 * K),
    RULE(ALL_REDUCE, 5, 64, HOST, 256 * K, NO_LIMIT, RING, 0),
    RULE(ALL_REDUCE, 1, 2, ANY, 0, NO_LIMIT, DIRECT, 0),
    RULE(ALL_REDUCE, 3, 4, ANY, 0, NO_LIMIT, DIRECT, 64 * K),
    RULE(ALL_REDUCE, 5, 64, ANY, 0, NO_LIMIT, DIRECT, 32 * K),
    RULE(ALL_REDUCE, 65, DF_MAX_RANKS, ANY, 0, NO_LIMIT, RING, 0),

    RULE(REDUCE, 3, 16, CUDA, 0, NO_LIMIT, RING, 0),
    RULE(REDUCE, 3, 16, OVERSUBSCRIBED, 1537, NO_LIMIT, RING, 64 * K),
    RULE(REDUCE, 1, 16, PROCESS, 0, 2048 * K, FLAT, 32 * K),
    RULE(REDUCE, 1, 16, ANY, 0, 64 * K, FLAT, 32 * K),
    RULE(REDUCE, 17, DF_MAX_RANKS, ANY, 0, 64 * K, BINOMIAL, 0),
    RULE(REDUCE, 1, DF_MAX_RANKS, PROCESS, 0, NO_LIMIT, BINOMIAL, 0),
    RULE(REDUCE, 1, DF_MAX_RANKS, ANY, 0, NO_LIMIT, RING, 0),

    RULE(BROADCAST, 1, 8, CUDA, 64 * M, NO_LIMIT, RING, 512 * K),
    RULE(BROADCAST, 3, 16, CUDA, 0, NO_LIMIT, RING, 0),
    RULE(BROADCAST, 3, 16, OVERSUBSCRIBED, 0, 16 * K, BINOMIAL, 0),
    RULE(BROADCAST, 3, 16, OVERSUBSCRIBED, 0, NO_LIMIT, FLAT, 128 * K),
    RULE(BROADCAST, 1, 16, ANY, 0, 16 * K, FLAT, 0),
    RULE(BROADCAST, 3, 16, PROCESS, 0, NO_LIMIT, TWO_LEVEL, 0),
    RULE(BROADCAST, 5, 64, HOST, 128 * K, NO_LIMIT, SCATTER_ALL_GATHER, 0),
    RULE(BROADCAST, 17, DF_MAX_RANKS, ANY, 0, 64 * K, BINOMIAL, 0),
    RULE(BROADCAST, 1, DF_MAX_RANKS, ANY, 0, NO_LIMIT, RING, 0),

    RULE(ALL_GATHER, 1, 2, CUDA, 64 * M, NO_LIMIT, DIRECT, 1 * M),
    RULE(ALL_GATHER, 3, 8, CUDA, 64 * M, NO_LIMIT, DIRECT, 256 * K),
    RULE(ALL_GATHER, 3, 16, CUDA, 0, 2048 * K, RING, 0),
    RULE(ALL_GATHER, 5, 16, OVERSUBSCRIBED, 256 * K, NO_LIMIT, DIRECT, 128 * K),
    RULE(ALL_GATHER, 5, 64, HOST, 256 * K, NO_LIMIT, RING, 0),
    RULE(ALL_GATHER, 1, 2, ANY, 0, NO_LIMIT, DIRECT, 0),
    RULE(ALL_GATHER, 3, 4, ANY, 0, NO_LIMIT, DIRECT, 64 * K),
    RULE(ALL_GATHER, 5, 64, ANY, 0, NO_LIMIT, DIRECT, 32 * K),
    RULE(ALL_GATHER, 65, DF_MAX_RANKS, ANY, 0, 64 * K, BRUCK, 0),
    RULE(ALL_GATHER, 65, DF_MAX_RANKS, ANY, 0, NO_LIMIT, RING, 0),

    RULE(REDUCE_SCATTER, 1, 2, CUDA, 64 * M, NO_LIMIT, DIRECT, 1 * M),
    RULE(REDUCE_SCATTER, 3, 8, CUDA, 64 * M, NO_LIMIT, DIRECT, 256 * K),
    RULE(REDUCE_SCATTER, 3, 16, CUDA, 0, 2048 * K, RING, 0),
    RULE(REDUCE_SCATTER, 5, 16, OVERSUBSCRIBED, 256 * K, 4096 * K, DIRECT, 128 * K),
    RULE(REDUCE_SCATTER, 3, 64, HOST, 256 * K, NO_LIMIT, RING, 0),
    RULE(REDUCE_SCATTER, 1, 2, ANY, 0, NO_LIMIT, DIRECT, 0),
    RULE(REDUCE_SCATTER, 3, 4, ANY, 0, NO_LIMIT, DIRECT, 64 * K),
    RULE(REDUCE_SCATTER, 5, 64, ANY, 0, NO_LIMIT, DIRECT, 32 * K),
    RULE(REDUCE_SCATTER, 65, DF_MAX_RANKS, ANY, 0, 64 * K, HALVING, 0),
    RULE(REDUCE_SCATTER, 65, DF_MAX_RANKS, ANY, 0, NO_LIMIT, RING, 0),

    RULE(ALL_TO_ALL, 5, 16, CUDA, 1 * M, NO_LIMIT, PAIRWISE, 0),
    RULE(ALL_TO_ALL, 5, 16, OVERSUBSCRIBED, 256 * K, 2048 * K, DIRECT, 64 * K),
    RULE(ALL_TO_ALL, 5, 16, OVERSUBSCRIBED, 2048 * K + 1, NO_LIMIT, DIRECT, 128 * K),
    RULE(ALL_TO_ALL, 1, 4, ANY, 0, NO_LIMIT, DIRECT, 0),
    RULE(ALL_TO_ALL, 5, 64, ANY, 0, NO_LIMIT, DIRECT, 32 * K),
    RULE(ALL_TO_ALL, 65, DF_MAX_RANKS, ANY, 0, 16 * K, BRUCK, 0),
    RULE(ALL_TO_ALL, 65, DF_MAX_RANKS, ANY, 0, NO_LIMIT, PAIRWISE, 32 * K),

    RULE(GATHER, 1, DF_MAX_RANKS, ANY, 0, NO_LIMIT, FLAT, 32 * K),
    RULE(SCATTER, 1, DF_MAX_RANKS, ANY, 0, NO_LIMIT, FLAT, 32 * K),
    RULE(SEND_RECV, 1, DF_MAX_RANKS, ANY, 0, NO_LIMIT, DIRECT, 0),

    RULE(BARRIER, 1, 4, ANY, 0, NO_LIMIT, DIRECT, 0),
    RULE(BARRIER, 1, DF_MAX_RANKS, ANY, 0, NO_LIMIT, DISSEMINATION, 0),

    RULE(SCAN, 1, DF_MAX_RANKS, ANY, 0, 64 * K, DOUBLING, 0),
    RULE(SCAN, 1, DF_MAX_RANKS, ANY, 0, NO_LIMIT, RING, 0),
    RULE(EXCLUSIVE_SCAN, 1, DF_MAX_RANKS, ANY, 0, 64 * K, DOUBLING, 0),
    RULE(EXCLUSIVE_SCAN, 1, DF_MAX_RANKS, ANY, 0, NO_LIMIT, RING, 0),
};
const uint32_t df_n_built_in_rules = DF_COUNT_OF(df_built_in_rules);
