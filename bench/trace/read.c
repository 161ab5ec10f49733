#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <cjson/cJSON.h>

#include "common/cli.h"
#include "trace/read.h"

enum {
  MOST_RANKS = 65536,
  /* Runs of one collective that waited at the end of a trace: more of them get no span. */
  MOST_WAITING = 1000,
  LINES_OF_PROGRESS = 65536
};

bool df_place_fails(const place *at, const char *what) {
  df_tool_error("%s:%zu: %s", at->file, at->line, what);
  return false;
}

bool df_make_room(void **array, size_t *room, size_t used, size_t bytes) {
  if (used < *room) return true;
  size_t more = *room ? *room * 2 : 256;
  void *larger = realloc(*array, more * bytes);
  if (larger == NULL) return false;
  *array = larger;
  *room = more;
  return true;
}

bool df_read_number(const cJSON *line, const char *name, uint64_t *number) {
  const cJSON *item = cJSON_GetObjectItemCaseSensitive(line, name);
  if (!cJSON_IsNumber(item) || item->valuedouble < 0 || item->valuedouble > 18446744073709549568.0)
    return false;
  *number = (uint64_t)item->valuedouble;
  return (double)*number == item->valuedouble;
}

const char *df_trace_read_word(const cJSON *line, const char *name) {
  return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(line, name));
}

/* A number of 64 bits is a string. */
static bool read_big(const cJSON *line, const char *name, uint64_t *number) {
  const char *text = df_trace_read_word(line, name);
  char *end = NULL;
  errno = 0;
  if (text == NULL || *text < '0' || *text > '9') return false;
  *number = strtoull(text, &end, 10);
  return *end == '\0' && errno == 0;
}

/* Nanoseconds since 1970: until 2043. */
#define MOST_UNIX_NS ((uint64_t)1 << 61)

static bool read_head(place *at, const cJSON *line) {
  df_job_trace *job = at->job;
  uint64_t version, rank, ranks, process, clock_ns, unix_ns;
  const char *host = df_trace_read_word(line, "host");
  if (!df_read_number(line, "dfccl_trace", &version) || version != 1)
    return df_place_fails(at, "this is no trace that DFCCL_TRACE has written");
  if (!df_read_number(line, "rank", &rank) || !df_read_number(line, "ranks", &ranks) ||
      !df_read_number(line, "process", &process) || !df_read_number(line, "clock_ns", &clock_ns) ||
      !read_big(line, "unix_ns", &unix_ns) || host == NULL)
    return df_place_fails(at,
                          "the first line lacks rank, ranks, host, process, clock_ns or unix_ns");
  if (unix_ns > MOST_UNIX_NS || clock_ns > MOST_CLOCK_NS)
    return df_place_fails(at, "clock_ns or unix_ns is not a time in nanoseconds");
  if (ranks < 1 || ranks > MOST_RANKS || rank >= ranks)
    return df_place_fails(at, "rank or ranks is out of range");
  if (job->ranks == NULL) {
    job->n_ranks = (uint32_t)ranks;
    job->ranks = calloc(ranks, sizeof *job->ranks);
    if (job->ranks == NULL) return df_place_fails(at, "no memory");
  }
  if (job->n_ranks != ranks) return df_place_fails(at, "other files have another number of ranks");
  df_traced_rank *traced = &job->ranks[rank];
  if (traced->is_there) return df_place_fails(at, "another file has the same rank");
  *traced = (df_traced_rank){
      .is_there = true, .process = (int)process, .offset_ns = (int64_t)unix_ns - (int64_t)clock_ns};
  snprintf(traced->host, sizeof traced->host, "%s", host);
  at->rank = (uint32_t)rank;
  at->has_head = true;
  return true;
}

df_traced_collective *df_place_find(const place *at, uint64_t number) {
  for (size_t i = at->job->n_collectives; i-- > at->first;)
    if (at->job->collectives[i].number == number) return &at->job->collectives[i];
  return NULL;
}

static bool read_group(place *at, const cJSON *line, df_traced_collective *traced) {
  const cJSON *group = cJSON_GetObjectItemCaseSensitive(line, "group"), *rank;
  const int n = cJSON_IsArray(group) ? cJSON_GetArraySize(group) : 0;
  if (n < 1 || (uint32_t)n > at->job->n_ranks)
    return df_place_fails(at, "the collective has no group");
  traced->group = calloc((size_t)n, sizeof *traced->group);
  if (traced->group == NULL) return df_place_fails(at, "no memory");
  cJSON_ArrayForEach(rank, group) {
    if (!cJSON_IsNumber(rank) || rank->valueint < 0 || (uint32_t)rank->valueint >= at->job->n_ranks)
      return df_place_fails(at, "the group has a rank that is none of the job's");
    traced->group[traced->members++] = (uint32_t)rank->valueint;
  }
  return true;
}

static bool same_group(const df_traced_collective *a, const df_traced_collective *b) {
  return a->members == b->members && memcmp(a->group, b->group, a->members * sizeof *a->group) == 0;
}

static uint64_t number_or(const cJSON *line, const char *name, uint64_t other) {
  uint64_t number;
  return df_read_number(line, name, &number) ? number : other;
}

static void copy_word(const cJSON *line, const char *name, char *word, size_t bytes) {
  const char *text = df_trace_read_word(line, name);
  snprintf(word, bytes, "%s", text ? text : "");
}

/* An older trace does not say from which run on: from the next one whose end it tells. */
static bool read_configuration(place *at, const cJSON *line, df_traced_collective *traced) {
  const char *why = df_trace_read_word(line, "why");
  uint64_t ns = 0;
  if (!df_make_room((void **)&traced->configurations, &traced->configurations_room,
                    traced->n_configurations, sizeof *traced->configurations))
    return df_place_fails(at, "no memory");
  df_traced_configuration *c = &traced->configurations[traced->n_configurations];
  *c = (df_traced_configuration){.from_run = number_or(line, "from_run", traced->next_run),
                                 .switches = number_or(line, "switch", traced->n_configurations),
                                 .split = number_or(line, "split", 0),
                                 .blocks = number_or(line, "blocks", 0),
                                 .slot_bytes = number_or(line, "slot_bytes", 0),
                                 .slots = number_or(line, "slots", 0),
                                 .lends = number_or(line, "lends", 0) != 0};
  if (traced->n_configurations > 0 && c->from_run < c[-1].from_run)
    return df_place_fails(at, "from_run is less than that of the configuration before");
  if (df_read_number(line, "at", &ns)) {
    if (ns > MOST_CLOCK_NS) return df_place_fails(at, "\"at\" is not a time in nanoseconds");
    c->at = (int64_t)ns + at->job->ranks[at->rank].offset_ns;
  }
  copy_word(line, "algorithm", c->algorithm, sizeof c->algorithm);
  copy_word(line, "form", c->form, sizeof c->form);
  copy_word(line, "purpose", c->purpose, sizeof c->purpose);
  c->why = strdup(why ? why : "");
  if (c->why == NULL) return df_place_fails(at, "no memory");
  traced->n_configurations++;
  return true;
}

const df_traced_configuration *df_traced_configuration_of(const df_traced_collective *traced,
                                                          uint64_t run) {
  size_t i = traced->n_configurations - 1;
  while (i > 0 && traced->configurations[i].from_run > run) i--;
  return &traced->configurations[i];
}

static void note_time(const place *at, int64_t ns) {
  df_traced_rank *rank = &at->job->ranks[at->rank];
  if (ns > rank->last_ns) rank->last_ns = ns;
}

static bool read_collective(place *at, const cJSON *line) {
  df_job_trace *job = at->job;
  uint64_t number, id, bytes;
  const char *name = df_trace_read_word(line, "name"),
             *operation = df_trace_read_word(line, "operation"),
             *algorithm = df_trace_read_word(line, "algorithm");
  if (!df_read_number(line, "collective", &number) || !read_big(line, "id", &id) ||
      !df_read_number(line, "bytes", &bytes) || !name || !operation || !algorithm)
    return df_place_fails(
        at, "the collective lacks collective, id, bytes, name, operation or algorithm");
  df_traced_collective *known = df_place_find(at, number);
  if (known) return read_configuration(at, line, known); /* the line is about a plan switch */
  if (!df_make_room((void **)&job->collectives, &job->collectives_room, job->n_collectives,
                    sizeof *job->collectives))
    return df_place_fails(at, "no memory");
  df_traced_collective *traced = &job->collectives[job->n_collectives];
  *traced = (df_traced_collective){
      .id = id, .rank = at->rank, .number = (uint32_t)number, .bytes = bytes};
  snprintf(traced->operation, sizeof traced->operation, "%s", operation);
  copy_word(line, "type", traced->type, sizeof traced->type);
  job->n_collectives++;
  traced->name = strdup(name);
  if (traced->name == NULL) return df_place_fails(at, "no memory");
  if (!read_group(at, line, traced) || !read_configuration(at, line, traced)) return false;
  for (size_t i = at->first; i + 1 < job->n_collectives; i++)
    traced->turn += job->collectives[i].id == id && same_group(&job->collectives[i], traced);
  return true;
}

static bool add_span(place *at, const cJSON *line, df_span_kind kind, uint64_t of, uint64_t run) {
  df_job_trace *job = at->job;
  uint64_t from, to, status = 0;
  df_traced_collective *traced = NULL;
  if (!df_read_number(line, "from", &from) || !df_read_number(line, "to", &to) || to < from ||
      to > MOST_CLOCK_NS)
    return df_place_fails(at, "from and to are not times in nanoseconds");
  if (kind == DF_SPAN_RUN && !df_read_number(line, "status", &status))
    return df_place_fails(at, "the run has no status");
  if (kind != DF_SPAN_SYNCHRONISATION && (traced = df_place_find(at, of)) == NULL)
    return df_place_fails(at, "no earlier line has this number of a collective");
  if (!df_make_room((void **)&job->spans, &job->spans_room, job->n_spans, sizeof *job->spans))
    return df_place_fails(at, "no memory");
  if (kind == DF_SPAN_RUN) traced->next_run = run + 1;
  const int64_t offset = job->ranks[at->rank].offset_ns;
  note_time(at, (int64_t)to + offset);
  job->spans[job->n_spans++] = (df_span){.kind = kind,
                                         .rank = at->rank,
                                         .of = traced ? (size_t)(traced - job->collectives) : 0,
                                         .run = run,
                                         .from = (int64_t)from + offset,
                                         .to = (int64_t)to + offset,
                                         .status = (int)status};
  return true;
}

static bool read_waiting(place *at, const cJSON *line, uint64_t of) {
  uint64_t from_run, until_run, from;
  df_traced_collective *traced = df_place_find(at, of);
  if (traced == NULL) return df_place_fails(at, "no earlier line has this number of a collective");
  if (!df_read_number(line, "from_run", &from_run) ||
      !df_read_number(line, "until_run", &until_run) || until_run <= from_run)
    return df_place_fails(at, "from_run and until_run are not a range of runs");
  if (!df_read_number(line, "from", &from) || from > MOST_CLOCK_NS)
    return df_place_fails(at, "from is not a time in nanoseconds");
  traced->waiting_from = from_run;
  traced->waiting_until = until_run;
  traced->waiting_since = (int64_t)from + at->job->ranks[at->rank].offset_ns;
  note_time(at, traced->waiting_since);
  return true;
}

static bool read_failure(place *at, const cJSON *line, df_traced_failure *failure) {
  uint64_t status, ns;
  const char *why = df_trace_read_word(line, "why");
  if (!df_read_number(line, "status", &status) || status == 0 || status > INT32_MAX || why == NULL)
    return df_place_fails(at, "the failure lacks status or why");
  if (!df_read_number(line, "at", &ns) || ns > MOST_CLOCK_NS)
    return df_place_fails(at, "\"at\" is not a time in nanoseconds");
  if (failure->status != 0) return true; /* the first one counts */
  failure->status = (int)status;
  failure->at = (int64_t)ns + at->job->ranks[at->rank].offset_ns;
  failure->why = strdup(why);
  if (failure->why == NULL) return df_place_fails(at, "no memory");
  note_time(at, failure->at);
  return true;
}

static bool read_collective_failure(place *at, const cJSON *line, uint64_t of) {
  df_traced_collective *traced = df_place_find(at, of);
  if (traced == NULL) return df_place_fails(at, "no earlier line has this number of a collective");
  return read_failure(at, line, &traced->failure);
}

static bool read_line(place *at, const cJSON *line) {
  uint64_t number, of;
  if (!at->has_head) return read_head(at, line);
  bool is_known; /* first, because a turn has an "end", too */
  if (!df_read_turn(at, line, &is_known)) return false;
  if (is_known) return true;
  if (!df_read_message(at, line, &is_known)) return false;
  if (is_known) return true;
  if (df_read_number(line, "run", &number))
    return df_read_number(line, "of", &of) ? add_span(at, line, DF_SPAN_RUN, of, number)
                                           : df_place_fails(at, "the run has no collective");
  if (df_read_number(line, "callback", &of)) return add_span(at, line, DF_SPAN_CALLBACK, of, 0);
  if (df_read_number(line, "synchronise", &of))
    return add_span(at, line, DF_SPAN_SYNCHRONISATION, 0, 0);
  if (df_read_number(line, "waiting", &of)) return read_waiting(at, line, of);
  if (df_read_number(line, "failure", &of)) return read_collective_failure(at, line, of);
  if (df_read_number(line, "broken", &of))
    return read_failure(at, line, &at->job->ranks[at->rank].failure);
  if (cJSON_GetObjectItemCaseSensitive(line, "collective")) return read_collective(at, line);
  if (df_trace_read_word(line, "end")) {
    at->job->ranks[at->rank].is_whole = true;
    return true;
  }
  return df_place_fails(at, "the line does not have a format of DFCCL_TRACE");
}

/* The runs that waited when the trace ends: each lasts until then. */
static bool add_waiting_spans(place *at) {
  df_job_trace *job = at->job;
  for (size_t i = at->first; i < job->n_collectives; i++) {
    const df_traced_collective *traced = &job->collectives[i];
    uint64_t run = traced->waiting_from;
    if (run < traced->next_run) run = traced->next_run;
    for (uint64_t n = 0; run < traced->waiting_until && n < MOST_WAITING; run++, n++) {
      if (!df_make_room((void **)&job->spans, &job->spans_room, job->n_spans, sizeof *job->spans))
        return df_place_fails(at, "no memory");
      job->spans[job->n_spans++] = (df_span){.kind = DF_SPAN_RUN,
                                             .rank = at->rank,
                                             .of = i,
                                             .run = run,
                                             .from = traced->waiting_since,
                                             .to = job->ranks[at->rank].last_ns,
                                             .status = dfcclInProgress};
    }
  }
  return true;
}

static void show_progress(const place *at) {
  progress *p = at->progress;
  if (!p->is_wanted || p->all_bytes == 0 || at->line % LINES_OF_PROGRESS != 0) return;
  p->is_shown = true;
  df_tool_progress("%.0f%%: reading %.80s", 100.0 * (double)p->bytes / (double)p->all_bytes,
                   at->file);
}

static bool read_file(df_job_trace *job, const char *file, progress *p) {
  place at = {.file = file, .job = job, .first = job->n_collectives, .progress = p};
  FILE *stream = fopen(file, "re");
  if (stream == NULL) {
    df_tool_error("%s cannot be read: %s", file, strerror(errno));
    return false;
  }
  char *text = NULL;
  size_t room = 0;
  ssize_t length;
  bool fine = true;
  while (fine && (length = getline(&text, &room, stream)) > 0) {
    at.line++;
    p->bytes += (uint64_t)length;
    show_progress(&at);
    if (text[length - 1] != '\n') break; /* its program was killed, or still writes */
    cJSON *line = cJSON_Parse(text);
    fine = cJSON_IsObject(line) ? read_line(&at, line)
                                : df_place_fails(&at, "the line is no JSON object");
    cJSON_Delete(line);
  }
  if (fine && !at.has_head) job->n_empty++;
  fine = fine && add_waiting_spans(&at);
  free(text);
  fclose(stream);
  return fine;
}

static bool same_row(const df_traced_collective *a, const df_traced_collective *b) {
  return a->id == b->id && a->turn == b->turn && same_group(a, b);
}

static const df_traced_collective *being_sorted;

static int by_id(const void *a, const void *b) {
  const df_traced_collective *left = &being_sorted[*(const size_t *)a],
                             *right = &being_sorted[*(const size_t *)b];
  if (left->id != right->id) return left->id < right->id ? -1 : 1;
  if (left->turn != right->turn) return left->turn < right->turn ? -1 : 1;
  if (left->group[0] != right->group[0]) return left->group[0] < right->group[0] ? -1 : 1;
  if (left->members != right->members) return left->members < right->members ? -1 : 1;
  const int groups = memcmp(left->group, right->group, left->members * sizeof *left->group);
  if (groups != 0) return groups;
  return left->rank < right->rank ? -1 : left->rank > right->rank;
}

/* The members' registrations of one turn are one row. */
static bool make_rows(df_job_trace *job) {
  size_t *order = calloc(job->n_collectives + 1, sizeof *order);
  job->rows = calloc(job->n_collectives + 1, sizeof *job->rows);
  if (order == NULL || job->rows == NULL) {
    free(order);
    df_tool_error("no memory for %zu collectives", job->n_collectives);
    return false;
  }
  for (size_t i = 0; i < job->n_collectives; i++) order[i] = i;
  being_sorted = job->collectives;
  qsort(order, job->n_collectives, sizeof *order, by_id);
  for (size_t i = 0; i < job->n_collectives; i++) {
    df_traced_collective *traced = &job->collectives[order[i]];
    if (i == 0 || !same_row(traced, &job->collectives[order[i - 1]]))
      job->rows[job->n_rows++].first = traced;
    traced->row = (uint32_t)job->n_rows - 1;
  }
  for (size_t i = 0; i < job->n_rows; i++)
    for (uint32_t m = 0; m < job->rows[i].first->members; m++)
      job->rows[i].traced += job->ranks[job->rows[i].first->group[m]].is_there;
  for (size_t i = 0; i < job->n_spans; i++)
    if (job->spans[i].kind != DF_SPAN_SYNCHRONISATION)
      job->spans[i].row = job->collectives[job->spans[i].of].row;
  free(order);
  return true;
}

bool df_job_read(const char *directory, df_job_trace *job) {
  char pattern[4096];
  glob_t files;
  *job = (df_job_trace){0};
  if ((size_t)snprintf(pattern, sizeof pattern, "%s/rank-*.trace", directory) >= sizeof pattern) {
    df_tool_error("the directory's name is too long: %.100s...", directory);
    return false;
  }
  if (glob(pattern, 0, NULL, &files) != 0) {
    df_tool_error("no traces: %s matches no file (set DFCCL_TRACE=%s for the job; a rank makes its "
                  "file when it has joined the job)",
                  pattern, directory);
    return false;
  }
  bool fine = true;
  progress p = {.is_wanted = df_tool_progress_wanted()};
  struct stat status;
  for (size_t i = 0; i < files.gl_pathc && p.is_wanted; i++)
    if (stat(files.gl_pathv[i], &status) == 0) p.all_bytes += (uint64_t)status.st_size;
  for (size_t i = 0; i < files.gl_pathc && fine; i++) fine = read_file(job, files.gl_pathv[i], &p);
  if (p.is_shown) df_tool_progress("%s", "");
  if (fine && job->n_empty == files.gl_pathc) {
    df_tool_error("%s: the file is empty: its program was killed early, or the disk is full",
                  files.gl_pathv[0]);
    fine = false;
  }
  globfree(&files);
  return fine && make_rows(job);
}

void df_job_free(df_job_trace *job) {
  for (size_t i = 0; i < job->n_collectives; i++) {
    free(job->collectives[i].name);
    free(job->collectives[i].group);
    free(job->collectives[i].failure.why);
    for (size_t c = 0; c < job->collectives[i].n_configurations; c++)
      free(job->collectives[i].configurations[c].why);
    free(job->collectives[i].configurations);
  }
  free(job->collectives);
  free(job->rows);
  free(job->spans);
  free(job->turns);
  free(job->messages);
  for (uint32_t r = 0; job->ranks && r < job->n_ranks; r++) free(job->ranks[r].failure.why);
  free(job->ranks);
  *job = (df_job_trace){0};
}
