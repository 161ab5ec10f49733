/* The format of the example plugin of NCCL 2.27 and later: one line for each rule; the first rule
 * that fits is used. Spreadsheets write such files too, so column heads, quotation marks, other
 * separators, line ends of all systems, and words in any case are accepted. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tuning/advice.h"

enum { LEAST_FIELDS = 8, MOST_FIELDS = 10, LINE_BYTES = 1024 };
enum { COLLECTIVE, LEAST, MOST, ALGORITHM, PROTOCOL, CHANNELS, NODES, RANKS, OPERATIONS, REG_BUFF };

/* Column heads, the names of NCCL's own files first. */
static const struct {
  const char *names[4];
} heads[MOST_FIELDS] = {
    {{"collective_type", "collective", "coll_type", "coll"}},
    {{"min_bytes", "min", "min_size", "least"}},
    {{"max_bytes", "max", "max_size", "most"}},
    {{"algorithm", "algo"}},
    {{"protocol", "proto"}},
    {{"channels", "n_channels", "num_channels"}},
    {{"nNodes", "nodes", "num_nodes"}},
    {{"nRanks", "ranks", "num_ranks"}},
    {{"numPipeOps", "pipe_ops", "n_pipe_ops"}},
    {{"regBuff", "reg_buffer", "reg_buff"}},
};

typedef struct reader {
  const char *name;
  uint32_t line;
  char *sentence;
  size_t bytes;
  int begun;                    /* a line with fields was read */
  int columns[MOST_FIELDS];     /* which field of heads[] each column has */
  int n_columns, least_columns; /* without heads: LEAST_FIELDS of MOST_FIELDS */
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

static int is_filler(char c) { return c == '_' || c == '-' || c == ' '; }

/* Whether two words differ in upper case, underscores, hyphens and spaces only. */
static int is_same_word(const char *a, const char *b) {
  for (;;) {
    while (is_filler(*a)) a++;
    while (is_filler(*b)) b++;
    if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return 0;
    if (*a == '\0') return 1;
    a++, b++;
  }
}

static int word_of(const char *word, const char *(*name_of)(int), int n) {
  for (int i = 0; i < n; i++)
    if (is_same_word(word, name_of(i))) return i;
  return -1;
}

/* Reads -1 or a number. */
static int read_any(const reader *in, int field, const char *word, int *value) {
  uint64_t number;
  const char *end;
  *value = -1;
  if (word == NULL || strcmp(word, "-1") == 0) return 1;
  if (!df_read_digits(word, INT32_MAX, &number, &end) || *end != '\0')
    return refuse(in, "%s \"%.40s\" is no whole number, and not -1", heads[field].names[0], word);
  *value = (int)number;
  return 1;
}

static int read_bytes(const reader *in, const char *what, const char *word, uint64_t *bytes) {
  const char *end;
  if (df_read_digits(word, UINT64_MAX, bytes, &end) && *end == '\0') return 1;
  return refuse(in, "%s \"%.40s\" is no number of bytes in digits", what, word);
}

static void trim(char *text) {
  for (size_t end = strlen(text); end > 0 && strchr(" \t", text[end - 1]); end--)
    text[end - 1] = '\0';
}

/* Takes the quotation marks from a field, in place. *rest points behind it, or is NULL if the
 * second mark is missing. */
static void unquote(char *field, char **rest) {
  char *to = field, *at = field + 1;
  for (; *at != '\0' && (*at != '"' || at[1] == '"'); at++) {
    if (*at == '"') at++;
    *to++ = *at;
  }
  *rest = *at == '"' ? at + 1 : NULL;
  *to = '\0';
}

/* Splits the line in place, without surrounding spaces. Returns MOST_FIELDS + 1 if there are more
 * than MOST_FIELDS, and -1 if quotation marks are wrong, which is then reported. */
static int split(const reader *in, char *line, char separator, char **fields) {
  int n = 0;
  for (char *at = line; at;) {
    while (*at == ' ' || (*at == '\t' && separator != '\t')) at++;
    char *field = at, *rest = at;
    if (*at == '"') {
      unquote(field, &rest);
      if (rest == NULL) {
        refuse(in, "the quotation mark before \"%.40s\" has no second one", field);
        return -1;
      }
      rest += strspn(rest, separator == '\t' ? " " : " \t");
      if (*rest != separator && *rest != '\0') {
        refuse(in, "\"%.40s\" stands between a quotation mark and the next separator", rest);
        return -1;
      }
    }
    char *next = strchr(rest, separator);
    if (next) *next++ = '\0';
    trim(field);
    field += strspn(field, " \t");
    if (n == MOST_FIELDS && *field != '\0') return MOST_FIELDS + 1;
    if (n < MOST_FIELDS) fields[n++] = field;
    at = next;
  }
  while (n > 0 && *fields[n - 1] == '\0') n--; /* a spreadsheet fills short lines */
  return n;
}

static int head_of(const char *word) {
  for (int field = 0; field < MOST_FIELDS; field++)
    for (int i = 0; i < (int)DF_COUNT_OF(heads[field].names) && heads[field].names[i]; i++)
      if (is_same_word(word, heads[field].names[i])) return field;
  return -1;
}

/* A line of column heads has no number. */
static int is_heading(char *const *fields, int n) {
  for (int i = 0; i < n; i++)
    if (isdigit((unsigned char)fields[i][0]) || fields[i][0] == '-') return 0;
  return head_of(fields[0]) >= 0 || df_operation_by_word(fields[0]) < 0;
}

static int read_heading(reader *in, char *const *fields, int n) {
  uint32_t seen = 0;
  for (int i = 0; i < n; i++) {
    const int field = head_of(fields[i]);
    if (field < 0)
      return refuse(in,
                    "unknown column \"%.40s\"; columns are collective_type, min_bytes, max_bytes, "
                    "algorithm, protocol, channels, nNodes, nRanks, numPipeOps, regBuff",
                    fields[i]);
    if (seen & (1u << field)) return refuse(in, "two columns \"%.40s\"", fields[i]);
    seen |= 1u << field;
    in->columns[i] = field;
  }
  for (int field = 0; field < LEAST_FIELDS; field++)
    if (!(seen & (1u << field)))
      return refuse(in, "there is no column \"%s\"", heads[field].names[0]);
  in->n_columns = n;
  in->least_columns = 0;
  for (int i = 0; i < n; i++)
    if (in->columns[i] < LEAST_FIELDS) in->least_columns = i + 1;
  return 1;
}

static int find_operation(const char *word) {
  static const char *const words[] = {"broadcast", "reduce", "allgather", "reducescatter",
                                      "allreduce"};
  for (size_t i = 0; i < DF_COUNT_OF(words); i++)
    if (is_same_word(word, words[i])) return df_operation_by_word(words[i]);
  return -1;
}

static int read_words(const reader *in, char **fields, df_csv_line *line) {
  const int operation = find_operation(fields[COLLECTIVE]);
  if (operation < 0)
    return refuse(in,
                  "collective \"%.40s\" is none of broadcast, reduce, allgather, reducescatter, "
                  "allreduce",
                  fields[COLLECTIVE]);
  line->function = df_advice_function((df_operation)operation);
  line->algorithm = word_of(fields[ALGORITHM], df_nccl_algorithm_name, DF_NCCL_ALGORITHMS);
  if (line->algorithm < 0)
    return refuse(in,
                  "algorithm \"%.40s\" is none of tree, ring, collnet_direct, collnet_chain, nvls, "
                  "nvls_tree, pat",
                  fields[ALGORITHM]);
  line->protocol = word_of(fields[PROTOCOL], df_nccl_protocol_name, DF_NCCL_PROTOCOLS);
  if (line->protocol < 0)
    return refuse(in, "protocol \"%.40s\" is none of ll, ll128, simple", fields[PROTOCOL]);
  return 1;
}

static int read_fields(const reader *in, char **fields, df_csv_line *line) {
  if (!read_words(in, fields, line) ||
      !read_bytes(in, "the least size", fields[LEAST], &line->least) ||
      !read_bytes(in, "the greatest size", fields[MOST], &line->most) ||
      !read_any(in, CHANNELS, fields[CHANNELS], &line->channels) ||
      !read_any(in, NODES, fields[NODES], &line->n_nodes) ||
      !read_any(in, RANKS, fields[RANKS], &line->n_ranks) ||
      !read_any(in, OPERATIONS, fields[OPERATIONS], &line->n_operations) ||
      !read_any(in, REG_BUFF, fields[REG_BUFF], &line->reg_buff))
    return 0;
  if (line->least > line->most)
    return refuse(in, "sizes from %" PRIu64 " to %" PRIu64 " bytes are an empty range", line->least,
                  line->most);
  if (line->channels == 0 || line->channels > DF_NCCL_CHANNELS)
    return refuse(in, "channels is %d; it must be from 1 to %d, or -1", line->channels,
                  DF_NCCL_CHANNELS);
  return 1;
}

static char separator_of(const char *line) {
  return strchr(line, ',') ? ',' : strchr(line, ';') ? ';' : '\t';
}

/* Ends the line where its comment begins. A quoted # begins none. */
static void cut_comment(char *line) {
  int quoted = 0;
  for (char *at = line; *at != '\0'; at++) {
    if (*at == '"') quoted = !quoted;
    if (*at != '#' || quoted) continue;
    *at = '\0';
    return;
  }
}

static int read_line(reader *in, char *text, df_csv *csv) {
  char *columns[MOST_FIELDS], *fields[MOST_FIELDS] = {NULL};
  df_csv_line line = {.line = in->line};
  cut_comment(text);
  if (text[strspn(text, " \t")] == '\0') return 1;
  const int n = split(in, text, separator_of(text), columns);
  if (n <= 0) return n == 0; /* all fields are empty, or an error */
  if (!in->begun && n >= LEAST_FIELDS && n <= MOST_FIELDS && is_heading(columns, n)) {
    in->begun = 1;
    return read_heading(in, columns, n);
  }
  in->begun = 1;
  if (n < in->least_columns || n > in->n_columns)
    return refuse(in, "%s%d field%s from \"%.40s\" on; a line has %d to %d",
                  n > MOST_FIELDS ? "more than " : "", DF_MIN(n, MOST_FIELDS), n == 1 ? "" : "s",
                  columns[0], in->least_columns, in->n_columns);
  for (int i = 0; i < n; i++) fields[in->columns[i]] = columns[i];
  if (!read_fields(in, fields, &line)) return 0;
  if (csv->n == DF_MAX_CSV_LINES) return refuse(in, "more than %d rules", DF_MAX_CSV_LINES);
  csv->lines[csv->n++] = line;
  return 1;
}

static int copy_line(reader *in, const char *text, size_t length, df_csv *csv) {
  char line[LINE_BYTES];
  size_t blank = 0;
  while (blank < length && (text[blank] == ' ' || text[blank] == '\t')) blank++;
  if (blank < length && text[blank] == '#') return 1; /* It may be longer than a line. */
  if (length >= sizeof line)
    return refuse(in, "a line of %zu characters; at most %zu are possible", length,
                  sizeof line - 1);
  memcpy(line, text, length);
  line[length] = '\0';
  if (strlen(line) != length)
    return refuse(in, "a character with code 0; the file must be text in UTF-8 or ASCII");
  return read_line(in, line, csv);
}

int df_csv_parse(df_csv *csv, const char *text, size_t bytes, const char *name, char *sentence,
                 size_t sentence_bytes) {
  reader in = {.name = name,
               .sentence = sentence,
               .bytes = sentence_bytes,
               .n_columns = MOST_FIELDS,
               .least_columns = LEAST_FIELDS};
  int fine = 1;
  size_t length;
  for (int i = 0; i < MOST_FIELDS; i++) in.columns[i] = i;
  *csv = (df_csv){.lines = calloc(DF_MAX_CSV_LINES, sizeof *csv->lines)};
  if (csv->lines == NULL) return refuse(&in, "no memory for its rules");
  for (size_t at = df_byte_order_mark(text, bytes); fine && at < bytes;) {
    const char *line = text + at;
    at += df_line_length(line, bytes - at, &length);
    in.line++;
    fine = copy_line(&in, line, length, csv);
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
         (line->reg_buff == -1 || line->reg_buff == q->reaches_buffers);
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
