/*
 * Promise of src/tuning/configuration.c: how collectives travel changes on purpose only. manner.txt has the
 * decisions for a grid of questions; docs/TESTING.md says how to read and to rewrite it.
 *
 *   unit_manner FILE             compares; names the first questions with another answer
 *   unit_manner --rewrite FILE   writes the decisions of this build
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
  LINE_BYTES = 1024,
  MOST_TOLD = 3,
  GPU_BLOCKS = 8,      /* what a large GPU's rank has */
  CHECK_DIGITS = 3 + 1 /* and the binary logarithm of a ring's slots */
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
  uint32_t slots; /* of each ring of position 0 */
  uint32_t check; /* of every number of the decision */
} answer;

static answer now[DF_OP_COUNT][RANKS][DEVICES][PROCESSES][CORES][SIZES];
static answer before[DF_OP_COUNT][RANKS][DEVICES][PROCESSES][CORES][SIZES];

static answer *at(answer (*table)[RANKS][DEVICES][PROCESSES][CORES][SIZES], const question *q) {
  return &table[q->operation][q->ranks - 1][q->device][q->processes][q->cores - 1][q->size];
}

/* The questions of a row differ in their sizes only. */
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
  fprintf(stderr, "manner: %s\n", sentence);
  exit(1);
}

static uint64_t mixed(uint64_t sum, uint64_t number) {
  return (sum ^ (number + (sum << 6) + (sum >> 2))) * 0x9e3779b97f4a7c15u;
}

typedef struct decision {
  df_topology topology;
  df_configuration_question question;
  df_configuration configuration;
  df_plan *plan; /* of position 0, which is the root */
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
  /* far_ns follows from the machine's clock. */
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
  a->check = (uint32_t)(d->sum >> 40) & 0xfff;
}

/* Each decision can be told, whole, and says what it is about. */
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
    name_decision(at(now, &q), &d);
    df_plan_free(d.plan);
  }
}

/* ---- the file ---- */

static int same_row(const question *a, const question *b) {
  return memcmp(at(now, a), at(now, b), SIZES * sizeof(answer)) == 0;
}

static void write_row(FILE *file, const question *row, uint32_t last_cores) {
  question q = *row;
  fprintf(file, "%s %u %s %s %u-%u\n", df_operation_word(q.operation), q.ranks,
          device_words[q.device], process_words[q.processes], q.cores, last_cores);
  for (uint32_t from = 0, to; from < SIZES; from = to) {
    q.size = from;
    const answer *first = at(now, &q);
    for (to = from; to < SIZES && strcmp(first[to - from].word, first->word) == 0;) to++;
    fprintf(file, " %u-%u %s ", from, to - 1, first->word);
    for (uint32_t i = 0; i < to - from; i++)
      fprintf(file, "%x%03x", (unsigned)__builtin_ctz(first[i].slots), (unsigned)first[i].check);
    fprintf(file, "\n");
  }
}

static void rewrite(const char *name) {
  FILE *file = fopen(name, "w");
  if (file == NULL) fail("the file cannot be written");
  fprintf(file, "# The decisions of the manner. docs/TESTING.md says how to read and to rewrite "
                "them.\n");
  question q = {0};
  for (int more = next_row(&q); more;) {
    question first = q;
    uint32_t last_cores;
    do {
      last_cores = q.cores;
      more = next_row(&q);
    } while (more && q.cores != 1 && same_row(&first, &q));
    write_row(file, &first, last_cores);
  }
  if (fclose(file) != 0) fail("the file cannot be written");
}

static int find_word(const char *const *words, int n, const char *word) {
  int i = 0;
  while (i < n && strcmp(words[i], word) != 0) i++;
  return i;
}

/* Returns whether the line names a row of the grid. */
static int read_row(const char *line, question *row, uint32_t *last_cores) {
  char operation[32], on[16], in[16];
  if (sscanf(line, "%31s %u %15s %15s %u-%u", operation, &row->ranks, on, in, &row->cores,
             last_cores) != 6)
    return 0;
  int number = df_operation_by_word(operation);
  row->operation = (df_operation)number;
  row->device = (device)find_word(device_words, DEVICES, on);
  row->processes = (processes)find_word(process_words, PROCESSES, in);
  return number >= 0 && row->ranks >= 1 && row->ranks <= RANKS && row->device < DEVICES &&
         row->processes < PROCESSES && row->cores >= 1 && row->cores <= *last_cores &&
         *last_cores <= CORES;
}

static int read_answers(char *line, question q, uint32_t last_cores) {
  uint32_t from, to;
  int words_at = 0;
  line[strcspn(line, "\n")] = 0;
  if (sscanf(line, " %u-%u %n", &from, &to, &words_at) != 2 || from > to || to >= SIZES) return 0;
  char *checks = strrchr(line, ' ');
  if (checks < line + words_at || checks - (line + words_at) >= WORD_BYTES) return 0;
  *checks++ = 0;
  for (q.size = from; q.size <= to; q.size++) {
    char digits[CHECK_DIGITS + 1] = "";
    strncpy(digits, checks, CHECK_DIGITS);
    checks += strlen(digits);
    uint32_t number = (uint32_t)strtoul(digits, NULL, 16);
    answer a = {.slots = 1u << (number >> 12), .check = number & 0xfff};
    snprintf(a.word, sizeof a.word, "%s", line + words_at);
    for (question each = q; each.cores <= last_cores; each.cores++) *at(before, &each) = a;
  }
  return 1;
}

static void read_all(const char *name) {
  FILE *file = fopen(name, "r");
  if (file == NULL) fail("the file cannot be read");
  char line[LINE_BYTES];
  question row = {0};
  uint32_t last_cores = 0;
  while (fgets(line, sizeof line, file)) {
    if (line[0] == '#') continue;
    if (line[0] == ' ' ? last_cores == 0 || !read_answers(line, row, last_cores)
                       : !read_row(line, &row, &last_cores)) {
      fprintf(stderr, "manner: %s: no decision is written so: %s\n", name, line);
      exit(1);
    }
  }
  fclose(file);
}

/* ---- the comparison ---- */

static void tell(const question *q) {
  const answer *old = at(before, q), *new = at(now, q);
  decision d;
  char why[4096];
  decide(&d, q);
  df_configuration_explain(&d.configuration, &d.question, d.plan, &d.ring, why, sizeof why);
  printf(
      "%s, %u rank%s in %s, %u core%s, %s, %llu bytes:\n  was %s, %u slots\n  is  %s, "
      "%u slots\n%s%s\n",
      df_operation_name(q->operation), q->ranks, q->ranks == 1 ? "" : "s",
      q->processes == ONE_PROCESS ? "one process" : "a process each", q->cores,
      q->cores == 1 ? "" : "s", q->device == ON_CPU ? "CPU" : "GPU", 1ull << q->size,
      old->word[0] ? old->word : "not in the file", old->slots, new->word, new->slots,
      strcmp(old->word, new->word) != 0 || old->slots != new->slots
          ? ""
          : "  in other numbers: chunks, loops, bytes of a slot, least slots or other positions\n",
      why);
  df_plan_free(d.plan);
}

static int compare(const char *name) {
  uint32_t asked_in_all = 0, different = 0;
  read_all(name);
  question q = {0};
  while (next_question(&q)) {
    asked_in_all++;
    if (memcmp(at(before, &q), at(now, &q), sizeof(answer)) == 0) continue;
    if (different++ < MOST_TOLD) tell(&q);
  }
  if (different == 0) return 0;
  printf("%u of %u questions have another answer than %s.\n"
         "If that is the purpose: ninja -C BUILD rewrite_manner\n",
         different, asked_in_all, name);
  return 1;
}

int main(int argc, char **argv) {
  df_tuning_default(&tuning);
  decide_all();
  if (argc == 2) return compare(argv[1]);
  if (argc != 3 || strcmp(argv[1], "--rewrite") != 0) fail("[--rewrite] FILE was expected");
  rewrite(argv[2]);
  return 0;
}
