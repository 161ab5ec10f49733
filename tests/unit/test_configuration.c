/*
 * Promise of src/tuning/configuration.c: the configuration of collectives changes on purpose only.
 * The file decisions.txt has two parts, which docs/TESTING.md describes:
 *   - a readable sample: each operation, some groups and machines, all sizes;
 *   - a hash for each operation and each kind of group over the full grid of questions and over
 *     every number of their decisions, so that every difference is noticed.
 *
 *   unit_configuration FILE                compares; prints the lines that differ, and why
 *   unit_configuration --rewrite FILE      writes the decisions of this build
 *   unit_configuration --table OPERATION   prints the full grid of an operation
 */
#include "tuning/configuration.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
  RANKS = 9,
  CORES = 8,
  SIZES = 27, /* 1 B to 64 MB, in powers of two */
  WORD_BYTES = 96,
  LINE_BYTES = 256,
  MOST_LINES = 1000,
  MOST_EXPLAINED = 3,
  GPU_BLOCKS = 8 /* a large GPU's value for each rank */
};

typedef enum { ON_CPU, ON_GPU, DEVICES } device;
static const char *const device_words[DEVICES] = {"cpu", "gpu"};
typedef enum { ONE_PROCESS, SEVERAL, PROCESSES } processes;
static const char *const process_words[PROCESSES] = {"process", "processes"};

typedef struct question {
  df_operation operation;
  uint32_t ranks, cores, size; /* size: the power of two */
  device device;
  processes processes;
} question;

typedef struct answer {
  char word[WORD_BYTES];
  uint32_t slots; /* depth of each ring of position 0 */
  uint64_t check; /* hash of every number of the decision, and of all positions */
} answer;

static answer now[DF_OP_COUNT][RANKS][DEVICES][PROCESSES][CORES][SIZES];

static answer *at(const question *q) {
  return &now[q->operation][q->ranks - 1][q->device][q->processes][q->cores - 1][q->size];
}

/* The questions of a row differ only in their sizes. */
static int next_row(question *q) {
  if (q->cores == 0) return *q = (question){.ranks = 1, .cores = 1}, 1;
  if (++q->cores <= CORES) return 1;
  q->cores = 1;
  if (++q->processes < PROCESSES) return 1;
  q->processes = ONE_PROCESS;
  if (++q->device < DEVICES) return 1;
  q->device = ON_CPU;
  if (++q->ranks <= RANKS) return 1;
  q->ranks = 1;
  return ++q->operation < DF_OP_COUNT;
}

static int next_question(question *q) {
  if (q->cores != 0 && ++q->size < SIZES) return 1;
  q->size = 0;
  return next_row(q);
}

/* ---- the decisions of this build ---- */

static void __attribute__((noreturn)) fail(const char *sentence) {
  fprintf(stderr, "configuration: %s\n", sentence);
  exit(1);
}

static uint64_t mixed(uint64_t sum, uint64_t number) {
  return (sum ^ (number + (sum << 6) + (sum >> 2))) * 0x9e3779b97f4a7c15u;
}

typedef struct decision {
  df_topology topology;
  df_configuration_question question;
  df_configuration configuration;
  df_plan *plan; /* the plan of position 0, which is the root */
  df_ring ring;
  uint32_t common_slots, borrowers;
  int lends;
  uint64_t sum;
} decision;

static df_tuning tuning;

static df_configuration_question asked(const question *q, df_topology *topology) {
  *topology = (df_topology){.runs_on_cores = q->device == ON_CPU, .n_cores = q->cores};
  uint32_t element_bytes = q->size < 2 ? 1 : 4;
  uint64_t count = (1ull << q->size) / element_bytes;
  return (df_configuration_question){
      .tuning = &tuning,
      .topology = topology,
      .choice = {.operation = q->operation,
                 .n = q->ranks,
                 .bytes = df_larger_buffer(q->operation, q->ranks, count, element_bytes),
                 .memory = q->processes == ONE_PROCESS ? DF_MEMORY_PROCESS : DF_MEMORY_HOST,
                 .oversubscribed = (uint32_t)df_topology_is_oversubscribed(topology, q->ranks),
                 .on_gpu = q->device == ON_GPU},
      .count = count,
      .element_bytes = element_bytes,
      .max_blocks = q->device == ON_CPU ? 1 : GPU_BLOCKS,
      .on_gpu = q->device == ON_GPU,
      .on_one_gpu = q->device == ON_GPU && q->processes == ONE_PROCESS,
      .host_sees_links = q->device == ON_CPU,
      .has_borrowed_turns = q->device == ON_CPU};
}

static uint64_t sum_of(const df_configuration *m) {
  const df_shape *s = &m->shape;
  uint64_t sum = mixed(mixed(1, (uint64_t)m->choice.algorithm), m->choice.split);
  sum = mixed(mixed(mixed(sum, s->n_blocks), s->n_slots), s->stride);
  sum = mixed(mixed(sum, s->payload_offset), s->scratch_bytes);
  for (uint32_t block = 0; block < s->n_blocks; block++) {
    const df_part *part = &s->parts[block];
    sum = mixed(mixed(mixed(sum, part->elements), part->chunk), part->loops);
  }
  sum = mixed(mixed(sum, m->lends), m->stream);
  return mixed(sum, (uint64_t)m->runs_ahead);
}

static uint64_t longest_message(const decision *d) {
  return (uint64_t)d->configuration.shape.parts[0].chunk * d->question.element_bytes;
}

static void decide_at(decision *d, df_plan *plan) {
  static df_link none_lends_nothing[64];
  df_configuration *m = &d->configuration;
  df_configuration_decide(m, &d->question, plan);
  /* Whether ways are measured depends on the machine's clock, so it is left out. */
  df_ring ring = df_configuration_ring(m, &d->question, plan, 0);
  if (plan->n_links > sizeof none_lends_nothing / sizeof *none_lends_nothing)
    fail("a plan has more links than were expected");
  uint32_t readers = d->question.choice.memory == DF_MEMORY_HOST ? d->question.choice.n - 1 : 0;
  uint32_t common =
      df_configuration_common_slots(m, &d->question, plan, none_lends_nothing, readers, 0);
  if (plan->key.position == 0) d->ring = ring, d->common_slots = common;
  d->borrowers += m->borrowed_turn != 0;
  d->lends = longest_message(d) >= m->lend_min;
  d->sum = mixed(mixed(d->sum, ring.n_slots), ring.release_mask);
  d->sum = mixed(mixed(d->sum, common), (uint64_t)m->borrowed_turn);
}

/* The caller frees d->plan. */
static void decide(decision *d, const question *q) {
  memset(d, 0, sizeof *d);
  d->question = asked(q, &d->topology);
  if (!df_configuration_choose(&d->configuration, &d->question)) fail("there is no algorithm");
  for (uint32_t position = 0; position < q->ranks; position++) {
    const df_plan_key key = {.operation = q->operation,
                             .algorithm = d->configuration.choice.algorithm,
                             .n = q->ranks,
                             .position = position,
                             .split = d->configuration.choice.split};
    df_plan *plan = df_plan_make(&key);
    if (plan == NULL) fail("no memory for a plan");
    decide_at(d, plan);
    if (position == 0)
      d->plan = plan;
    else
      df_plan_free(plan);
  }
  d->sum = mixed(d->sum, sum_of(&d->configuration));
}

static const char *form_of(const df_configuration *m) {
  const df_shape *s = &m->shape;
  if (s->payload_offset == DF_LINK_LL) return "words";
  if (s->payload_offset != DF_LINK_FLAGGED_OFFSET) return "staged";
  return s->stride < DF_CACHE_LINE ? "packed" : "flagged";
}

static void name_decision(answer *a, const decision *d) {
  static const char *const stores[] = {[DF_STREAM_NEVER] = "",
                                       [DF_STREAM_ALWAYS] = " past-caches",
                                       [DF_STREAM_OUT_OF_PLACE] = " past-caches-out"};
  const df_configuration *m = &d->configuration;
  char split[24] = "", blocks[24] = "", common[24] = "", turns[24] = "";
  if (m->choice.split) snprintf(split, sizeof split, "/%u", m->choice.split);
  if (m->shape.n_blocks > 1) snprintf(blocks, sizeof blocks, " blocks=%u", m->shape.n_blocks);
  if (d->common_slots) snprintf(common, sizeof common, " common=%u", d->common_slots);
  if (d->borrowers) snprintf(turns, sizeof turns, " borrow=%u", d->borrowers);
  int used = snprintf(a->word, sizeof a->word, "%s%s %s%s%s%s%s%s%s%s%s",
                      df_algorithm_name(m->choice.algorithm), split, form_of(m), blocks,
                      d->ring.release_mask ? " quarters" : "", d->lends ? " lend" : "",
                      d->lends && !(m->lends & DF_LENDS_IN_PLACE) ? "-out" : "",
                      d->lends && !(m->lends & DF_LENDS_STREAMED) ? "-unstreamed" : "",
                      stores[m->stream], common, turns);
  if (used < 0 || (size_t)used >= sizeof a->word) fail("a decision's words do not fit");
  a->slots = d->ring.n_slots;
  a->check = d->sum;
}

/* The explanation of each decision fits its buffer, and has all parts. */
static void check_words(const decision *d) {
  char why[4096], algorithm[64];
  df_configuration_explain(&d->configuration, &d->question, d->plan, &d->ring, why, sizeof why);
  snprintf(algorithm, sizeof algorithm, "\nalgorithm: %s, since ",
           df_algorithm_name(d->configuration.choice.algorithm));
  if (strstr(why, algorithm) == NULL || strstr(why, "\nform: ") == NULL ||
      strstr(why, "\nturns: ") == NULL || why[strlen(why) - 1] != '\n')
    fail("a decision is not explained");
}

static void decide_all(void) {
  question q = {0};
  while (next_question(&q)) {
    decision d;
    decide(&d, &q);
    check_words(&d);
    name_decision(at(&q), &d);
    df_plan_free(d.plan);
  }
}

/* ---- the sample ---- */

/* The groups and machines of the sample, for each operation. */
static const struct {
  uint32_t ranks, cores;
  device device;
  processes processes;
} sampled[] = {{2, 8, ON_CPU, ONE_PROCESS}, {2, 8, ON_CPU, SEVERAL}, {2, 1, ON_CPU, SEVERAL},
               {8, 8, ON_CPU, ONE_PROCESS}, {8, 8, ON_CPU, SEVERAL}, {8, 2, ON_CPU, SEVERAL},
               {4, 8, ON_GPU, ONE_PROCESS}, {4, 8, ON_GPU, SEVERAL}};
enum { SAMPLED = sizeof sampled / sizeof *sampled };

static question sample_of(df_operation operation, int i) {
  return (question){.operation = operation,
                    .ranks = sampled[i].ranks,
                    .cores = sampled[i].cores,
                    .device = sampled[i].device,
                    .processes = sampled[i].processes};
}

/* "64K", for a power of two of bytes. */
static const char *size_of(uint32_t power, char *text, size_t bytes) {
  static const char units[][2] = {"", "K", "M"};
  snprintf(text, bytes, "%llu%s", 1ull << power % 10, units[power / 10]);
  return text;
}

static const char *group_of(const question *q, char *text, size_t bytes) {
  char machine[16] = "GPU";
  if (q->device == ON_CPU) snprintf(machine, sizeof machine, "cores: %u", q->cores);
  snprintf(text, bytes, "%u ranks, %s, %s", q->ranks,
           q->processes == ONE_PROCESS ? "one process" : "processes", machine);
  return text;
}

static void write_range(FILE *file, const question *q, uint32_t from, uint32_t to) {
  const answer *first = at(q) + from;
  uint32_t least = first->slots, most = first->slots;
  char sizes[2][16], range[40], group[64], slots[32];
  for (uint32_t i = from; i <= to; i++) {
    least = DF_MIN(least, at(q)[i].slots);
    most = DF_MAX(most, at(q)[i].slots);
  }
  snprintf(range, sizeof range, from == to ? "%s" : "%s-%s", size_of(from, sizes[0], 16),
           size_of(to, sizes[1], 16));
  snprintf(slots, sizeof slots, least == most ? "%u" : "%u..%u", least, most);
  fprintf(file, "%-13s  %-31s  %-9s  slots=%-8s  %s\n", df_operation_word(q->operation),
          group_of(q, group, sizeof group), range, slots, first->word);
}

/* Sizes with equal decisions share a line. Returns the first size of the next line. */
static uint32_t end_of_range(const question *q, uint32_t from) {
  uint32_t to = from;
  while (to < SIZES && strcmp(at(q)[to].word, at(q)[from].word) == 0) to++;
  return to;
}

static int is_like(const question *a, const question *b) {
  for (uint32_t size = 0; size < SIZES; size++)
    if (strcmp(at(a)[size].word, at(b)[size].word) != 0 || at(a)[size].slots != at(b)[size].slots)
      return 0;
  return 1;
}

/* An earlier group with the same decisions at all sizes; -1: none. */
static int find_like(df_operation operation, int i) {
  const question q = sample_of(operation, i);
  for (int earlier = 0; earlier < i; earlier++) {
    const question other = sample_of(operation, earlier);
    if (is_like(&q, &other)) return earlier;
  }
  return -1;
}

static void write_sample(FILE *file, df_operation operation) {
  for (int i = 0; i < SAMPLED; i++) {
    const question q = sample_of(operation, i);
    const int like = find_like(operation, i);
    char groups[2][64];
    if (like >= 0) {
      const question other = sample_of(operation, like);
      fprintf(file, "%-13s  %-31s  all sizes  as %s\n", df_operation_word(operation),
              group_of(&q, groups[0], 64), group_of(&other, groups[1], 64));
      continue;
    }
    for (uint32_t from = 0, to; from < SIZES; from = to) {
      to = end_of_range(&q, from);
      write_range(file, &q, from, to - 1);
    }
  }
}

/* Covers all ranks, cores and sizes: names, slots, and all numbers of all positions. */
static uint64_t hash_of(df_operation operation, device on, processes in) {
  uint64_t sum = 1;
  question q = {0};
  while (next_question(&q)) {
    if (q.operation != operation || q.device != on || q.processes != in) continue;
    sum = mixed(mixed(sum, at(&q)->slots), at(&q)->check);
    for (const char *word = at(&q)->word; *word; word++) sum = mixed(sum, (uint8_t)*word);
  }
  return sum;
}

static void write_hashes(FILE *file, df_operation operation) {
  for (int d = 0; d < DEVICES; d++)
    for (int p = 0; p < PROCESSES; p++)
      fprintf(file, "%-13s  hash of %s %s: %016llx\n", df_operation_word(operation),
              device_words[d], process_words[p],
              (unsigned long long)hash_of(operation, (device)d, (processes)p));
}

static void write_all(FILE *file) {
  fprintf(file,
          "# Decisions of src/tuning/configuration.c; docs/TESTING.md says how to read them.\n"
          "# Rewrite them with: ninja -C build rewrite_decisions\n");
  for (int operation = 0; operation < DF_OP_COUNT; operation++) {
    write_sample(file, (df_operation)operation);
    write_hashes(file, (df_operation)operation);
  }
}

/* ---- the full grid ---- */

static int print_table(const char *word) {
  const int operation = df_operation_by_word(word);
  if (operation < 0) fail("--table needs an operation, such as allreduce");
  question q = {0};
  while (next_question(&q)) {
    const answer *a = at(&q);
    if ((int)q.operation != operation) continue;
    printf("%s, %u ranks, %s, %s, %u cores, %llu bytes: slots=%u %s, check %016llx\n", word,
           q.ranks, process_words[q.processes], device_words[q.device], q.cores, 1ull << q.size,
           a->slots, a->word, (unsigned long long)a->check);
  }
  return 0;
}

/* ---- the comparison ---- */

typedef struct lines {
  char *text[MOST_LINES];
  uint32_t n;
} lines;

static void read_lines(lines *all, FILE *file) {
  char line[LINE_BYTES];
  all->n = 0;
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    if (line[0] == '#') continue;
    if (all->n == MOST_LINES || (all->text[all->n++] = strdup(line)) == NULL)
      fail("the file has more lines than a person reads");
  }
}

static int has(const lines *all, const char *line) {
  for (uint32_t i = 0; i < all->n; i++)
    if (strcmp(all->text[i], line) == 0) return 1;
  return 0;
}

static uint32_t print_missing(const lines *all, const lines *other, const char *mark) {
  uint32_t missing = 0;
  for (uint32_t i = 0; i < all->n; i++) {
    if (has(other, all->text[i])) continue;
    printf("%s %s\n", mark, all->text[i]);
    missing++;
  }
  return missing;
}

static void explain_line(const question *q, uint32_t from, uint32_t to, const lines *before,
                         uint32_t *explained) {
  char *line = NULL, why[4096];
  size_t bytes = 0;
  FILE *file = open_memstream(&line, &bytes);
  if (file == NULL) fail("no memory for a line");
  write_range(file, q, from, to - 1);
  fclose(file);
  line[strcspn(line, "\n")] = 0;
  if (!has(before, line) && (*explained)++ < MOST_EXPLAINED) {
    decision d;
    question one = *q;
    one.size = from;
    decide(&d, &one);
    df_configuration_explain(&d.configuration, &d.question, d.plan, &d.ring, why, sizeof why);
    printf("\n%s\n%s", line, why);
    df_plan_free(d.plan);
  }
  free(line);
}

/* The reasons of the first sampled questions whose line is not in the file. */
static void explain_new(const lines *before) {
  uint32_t explained = 0;
  for (int operation = 0; operation < DF_OP_COUNT; operation++)
    for (int i = 0; i < SAMPLED; i++) {
      const question q = sample_of((df_operation)operation, i);
      if (find_like((df_operation)operation, i) >= 0) continue;
      for (uint32_t from = 0, to; from < SIZES; from = to) {
        to = end_of_range(&q, from);
        explain_line(&q, from, to, before, &explained);
      }
    }
}

static int compare(const char *name) {
  static lines before, after;
  char *text = NULL;
  size_t bytes = 0;
  FILE *file = fopen(name, "r");
  if (file == NULL) fail("the file cannot be read");
  read_lines(&before, file);
  fclose(file);
  file = open_memstream(&text, &bytes);
  if (file == NULL) fail("no memory for the decisions");
  write_all(file);
  fclose(file);
  file = fmemopen(text, bytes, "r");
  if (file == NULL) fail("no memory for the decisions");
  read_lines(&after, file);
  fclose(file);
  free(text);
  const uint32_t gone = print_missing(&before, &after, "-"),
                 come = print_missing(&after, &before, "+");
  if (gone + come == 0) return 0;
  explain_new(&before);
  printf("\n%s differs from this build's decisions: %u lines are gone (-), %u are new (+).\n"
         "If only hashes differ, the difference is outside of the sample: print the full grid of\n"
         "the operation with `unit_configuration --table OPERATION` of both builds, and compare.\n"
         "If the difference is the purpose of the change: ninja -C BUILD rewrite_decisions\n",
         name, gone, come);
  return 1;
}

int main(int argc, char **argv) {
  df_tuning_default(&tuning);
  decide_all();
  if (argc == 2) return compare(argv[1]);
  if (argc == 3 && strcmp(argv[1], "--table") == 0) return print_table(argv[2]);
  if (argc != 3 || strcmp(argv[1], "--rewrite") != 0)
    fail("FILE, --rewrite FILE or --table OPERATION was expected");
  FILE *file = fopen(argv[2], "w");
  if (file == NULL) fail("the file cannot be written");
  write_all(file);
  if (fclose(file) != 0) fail("the file cannot be written");
  return 0;
}
