/* The format of the example plugin of NCCL 2.27 and later: one line for each rule; the first rule
 * that fits is used. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tuning/advice.h"

enum { LEAST_FIELDS = 8, MOST_FIELDS = 10, LINE_BYTES = 256 };

typedef struct reader {
  const char *name;
  uint32_t line;
  char *sentence;
  size_t bytes;
} reader;

DF_PRINTF(2, 3) static int refuse(const reader *in, const char *format, ...) {
  df_text text = {.at = in->sentence, .left = in->bytes};
  va_list arguments;
  df_say(&text, "%.200s:%u: ", in->name, in->line);
  va_start(arguments, format);
  df_say_list(&text, format, arguments);
  va_end(arguments);
  return 0;
}

static int word_of(const char *word, const char *(*name_of)(int), int n) {
  for (int i = 0; i < n; i++)
    if (strcmp(word, name_of(i)) == 0) return i;
  return -1;
}

/* Reads -1 or a number. */
static int read_any(const reader *in, const char *what, const char *word, int *value) {
  uint64_t number;
  const char *end;
  if (strcmp(word, "-1") == 0) {
    *value = -1;
    return 1;
  }
  if (!df_read_digits(word, INT32_MAX, &number, &end) || *end != '\0')
    return refuse(in, "%s \"%.40s\" is no number, and not -1", what, word);
  *value = (int)number;
  return 1;
}

static int read_bytes(const reader *in, const char *what, const char *word, uint64_t *bytes) {
  const char *end;
  if (df_read_digits(word, UINT64_MAX, bytes, &end) && *end == '\0') return 1;
  return refuse(in, "%s \"%.40s\" is no number of bytes", what, word);
}

/* Splits the line in place, without surrounding spaces. Returns MOST_FIELDS + 1 if there are more
 * than MOST_FIELDS. */
static int split(char *line, char **fields) {
  int n = 0;
  for (char *at = line; at;) {
    char *next = strchr(at, ',');
    if (next) *next++ = '\0';
    at += strspn(at, " \t");
    for (size_t end = strlen(at); end > 0 && strchr(" \t\r", at[end - 1]); end--) at[end - 1] = 0;
    if (n == MOST_FIELDS) return MOST_FIELDS + 1;
    fields[n++] = at;
    at = next;
  }
  return n;
}

static int read_fields(const reader *in, char **fields, int n, df_csv_line *line) {
  const int operation = df_operation_by_word(fields[0]);
  line->function = operation < 0 ? -1 : df_advice_function((df_operation)operation);
  if (line->function < 0)
    return refuse(in,
                  "collective \"%.40s\" is none of broadcast, reduce, allgather, reducescatter, "
                  "allreduce",
                  fields[0]);
  line->algorithm = word_of(fields[3], df_nccl_algorithm_name, DF_NCCL_ALGORITHMS);
  if (line->algorithm < 0)
    return refuse(in,
                  "algorithm \"%.40s\" is none of tree, ring, collnet_direct, collnet_chain, nvls, "
                  "nvls_tree, pat",
                  fields[3]);
  line->protocol = word_of(fields[4], df_nccl_protocol_name, DF_NCCL_PROTOCOLS);
  if (line->protocol < 0)
    return refuse(in, "protocol \"%.40s\" is none of ll, ll128, simple", fields[4]);
  line->n_operations = line->mappings = -1;
  if (!read_bytes(in, "the least size", fields[1], &line->least) ||
      !read_bytes(in, "the greatest size", fields[2], &line->most) ||
      !read_any(in, "channels", fields[5], &line->channels) ||
      !read_any(in, "nNodes", fields[6], &line->n_nodes) ||
      !read_any(in, "nRanks", fields[7], &line->n_ranks) ||
      (n > 8 && !read_any(in, "numPipeOps", fields[8], &line->n_operations)) ||
      (n > 9 && !read_any(in, "regBuff", fields[9], &line->mappings)))
    return 0;
  if (line->least > line->most)
    return refuse(in, "sizes from %" PRIu64 " to %" PRIu64 " bytes are an empty range", line->least,
                  line->most);
  if (line->channels == 0 || line->channels > DF_NCCL_CHANNELS)
    return refuse(in, "channels is %d; it must be from 1 to %d, or -1", line->channels,
                  DF_NCCL_CHANNELS);
  return 1;
}

static int read_line(reader *in, char *text, df_csv *csv) {
  char *fields[MOST_FIELDS];
  df_csv_line line = {.line = in->line};
  if (text[0] == '#' || text[strspn(text, " \t\r")] == '\0') return 1;
  const int n = split(text, fields);
  if (n < LEAST_FIELDS || n > MOST_FIELDS)
    return refuse(in, "%s%d fields; a line has %d to %d", n > MOST_FIELDS ? "more than " : "",
                  n > MOST_FIELDS ? MOST_FIELDS : n, LEAST_FIELDS, MOST_FIELDS);
  if (!read_fields(in, fields, n, &line)) return 0;
  if (csv->n == DF_MAX_CSV_LINES) return refuse(in, "more than %d rules", DF_MAX_CSV_LINES);
  csv->lines[csv->n++] = line;
  return 1;
}

int df_csv_parse(df_csv *csv, const char *text, size_t bytes, const char *name, char *sentence,
                 size_t sentence_bytes) {
  reader in = {.name = name, .sentence = sentence, .bytes = sentence_bytes};
  int fine = 1;
  *csv = (df_csv){.lines = calloc(DF_MAX_CSV_LINES, sizeof *csv->lines)};
  if (csv->lines == NULL) return refuse(&in, "no memory for its rules");
  for (size_t at = 0; fine && at < bytes;) {
    char line[LINE_BYTES];
    const char *end = memchr(text + at, '\n', bytes - at);
    const size_t length = end ? (size_t)(end - (text + at)) : bytes - at;
    in.line++;
    if (length >= sizeof line)
      return refuse(&in, "a line of %zu characters; at most %zu are possible", length,
                    sizeof line - 1);
    memcpy(line, text + at, length);
    line[length] = '\0';
    if (strlen(line) != length) return refuse(&in, "a character with code 0");
    fine = read_line(&in, line, csv);
    at += length + 1;
  }
  return fine;
}

void df_csv_free(df_csv *csv) {
  free(csv->lines);
  *csv = (df_csv){0};
}

static int fits(const df_csv_line *line, const df_advice_question *q) {
  return line->function == df_advice_function(q->operation) && line->least <= q->bytes &&
         q->bytes <= line->most && (line->n_nodes == -1 || line->n_nodes == (int)q->n_hosts) &&
         (line->n_ranks == -1 || line->n_ranks == (int)q->n) &&
         (line->n_operations == -1 || line->n_operations == 1) &&
         (line->mappings == -1 || line->mappings == q->reaches_buffers);
}

void df_csv_advise(const df_csv *csv, const df_advice_question *question, df_advice *advice) {
  df_cost_table table;
  df_advice_fill(&table, question);
  advice->kind = DF_ADVICE_NOT_GIVEN;
  advice->algorithm = -1;
  for (uint32_t i = 0; i < csv->n; i++) {
    const df_csv_line *line = &csv->lines[i];
    if (!fits(line, question) || table.us[line->algorithm][line->protocol] < 0) continue;
    advice->line = line->line;
    df_advice_name(advice, &table, line->algorithm, line->protocol);
    df_advice_channels(advice, line->channels < 0 ? 0 : line->channels);
    return;
  }
}
