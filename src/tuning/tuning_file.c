#include "tuning/tuning_file.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/quiet_signals.h"
#include "base/text.h"
#include "dfccl.h"
#include "tuning/calibration.h"

enum { MAX_FILE_BYTES = 4 << 20, PATH_BYTES = 600, LINE_BYTES = 400, LOCK_PERIOD_US = 2000 };
#define LOCK_TIMEOUT_NS 30000000000ull
static const char machine_word[] = "# machine: ";

/* ---- the machine */

static int by_name(const void *a, const void *b) {
  return strcmp(((const struct if_nameindex *)a)->if_name,
                ((const struct if_nameindex *)b)->if_name);
}

static void say_interfaces(df_text *text) {
  struct if_nameindex *all = if_nameindex();
  size_t n = 0, n_named = 0;
  while (all && all[n].if_index) n++;
  if (all) qsort(all, n, sizeof *all, by_name);
  for (size_t i = 0; i < n; i++)
    if (strcmp(all[i].if_name, "lo") != 0)
      df_say(text, "%s%s", n_named++ ? "," : "", all[i].if_name);
  if (n_named == 0) df_say(text, "no network");
  if (all) if_freenameindex(all);
}

void df_tuning_cache_describe_machine(char *text, size_t bytes, uint32_t n_cores, uint32_t n_ranks,
                                      uint32_t n_hosts) {
  char processor[80];
  df_text out = {text, bytes};
  df_machine_processor(processor, sizeof processor);
  df_say(&out, "dfccl %d.%d.%d; %s; %u cores; ", DFCCL_VERSION_CODE / 10000,
         DFCCL_VERSION_CODE / 100 % 100, DFCCL_VERSION_CODE % 100, processor, n_cores);
  say_interfaces(&out);
  df_say(&out, "; %u ranks on %u host%s", n_ranks, n_hosts, n_hosts == 1 ? "" : "s");
}

/* ---- in memory */

static int is_same_task(const df_rule *a, const df_rule *b) {
  return a->operation == b->operation && a->memory == b->memory &&
         a->ranks_least == b->ranks_least && a->ranks_most == b->ranks_most &&
         a->bytes_least == b->bytes_least && a->bytes_most == b->bytes_most;
}

const df_rule *df_tuning_cache_find(const df_tuning_store *memory, df_operation operation,
                                    uint32_t n, uint64_t bytes, df_memory_kind kind) {
  for (uint32_t i = memory->n; i-- > 0;) {
    const df_rule *rule = &memory->tuning_cache[i].rule;
    if (rule->operation == operation && rule->ranks_least <= n && n <= rule->ranks_most &&
        rule->bytes_least <= bytes && bytes <= rule->bytes_most &&
        (rule->memory == kind || rule->memory == DF_MEMORY_ANY))
      return rule;
  }
  return NULL;
}

void df_tuning_cache_note(df_tuning_store *memory, const df_tuning_cache *tuning_cache) {
  uint32_t at = 0;
  while (at < memory->n && !is_same_task(&memory->tuning_cache[at].rule, &tuning_cache->rule)) at++;
  if (at == DF_MAX_TUNING_CACHE) return;
  if (at == memory->capacity) {
    const uint32_t capacity = DF_MAX(memory->capacity * 2, 16u);
    df_tuning_cache *larger = realloc(memory->tuning_cache, capacity * sizeof *larger);
    if (larger == NULL) return;
    memory->tuning_cache = larger;
    memory->capacity = capacity;
  }
  if (at == memory->n)
    memory->n++;
  else
    memory->n_new -= (uint32_t)memory->tuning_cache[at].is_new;
  memory->tuning_cache[at] = *tuning_cache;
  memory->n_new += (uint32_t)tuning_cache->is_new;
}

uint32_t df_tuning_cache_take_new(df_tuning_store *memory, df_tuning_cache **taken) {
  uint32_t n = 0;
  *taken = memory->n_new ? malloc(memory->n_new * sizeof **taken) : NULL;
  if (*taken == NULL) return 0;
  for (uint32_t i = 0; i < memory->n; i++) {
    if (!memory->tuning_cache[i].is_new) continue;
    (*taken)[n++] = memory->tuning_cache[i];
    memory->tuning_cache[i].is_new = 0;
  }
  memory->n_new = 0;
  return n;
}

void df_tuning_cache_free(df_tuning_store *memory) {
  free(memory->tuning_cache);
  memory->tuning_cache = NULL;
  memory->n = memory->capacity = memory->n_new = 0;
}

/* ---- the file */

/* NULL after df_fail; a file that is not there: no bytes. */
static char *read_whole(const char *path, size_t *bytes) {
  char *text = malloc(MAX_FILE_BYTES + 1);
  *bytes = 0;
  if (text == NULL) {
    df_fail(dfcclOutOfMemory, "no memory to read %.200s (DFCCL_TUNE_FILE)", path);
    return NULL;
  }
  FILE *file = fopen(path, "rb");
  if (file == NULL && errno == ENOENT) return text;
  if (file) *bytes = fread(text, 1, MAX_FILE_BYTES + 1, file);
  if (file == NULL || ferror(file) || *bytes > MAX_FILE_BYTES) {
    df_fail(dfcclInvalidUsage, "%.200s (DFCCL_TUNE_FILE) cannot be read: %s", path,
            *bytes > MAX_FILE_BYTES ? "it has more than 4 MiB" : strerror(errno));
    free(text);
    text = NULL;
  }
  if (file) fclose(file);
  return text;
}

typedef struct cursor {
  const char *at, *end, *path;
  uint32_t line;
  int is_mine; /* the machine's part */
  const char *machine;
} cursor;

/* The next line without its newline, and whether it is the machine's. 0: the end. */
static int next_line(cursor *c, const char **line, size_t *length) {
  if (c->at >= c->end) return 0;
  const char *newline = memchr(c->at, '\n', (size_t)(c->end - c->at));
  *line = c->at;
  *length = (size_t)((newline ? newline : c->end) - c->at);
  c->at += *length + 1;
  c->line++;
  const size_t word = sizeof machine_word - 1;
  if (*length >= word && memcmp(*line, machine_word, word) == 0)
    c->is_mine = *length - word == strlen(c->machine) &&
                 memcmp(*line + word, c->machine, *length - word) == 0;
  return 1;
}

typedef enum { NO_RULE, A_RULE, WRONG } line_kind;

/* A line is a table of its own. NO_RULE, too: of an algorithm's file that is not among `files`. */
static line_kind read_rule(const cursor *c, const char *line, size_t length,
                           const df_file_directory *files, df_rule *rule) {
  char text[LINE_BYTES + 32], sentence[DF_SENTENCE_BYTES];
  if (c->line == 1) {
    const size_t header = sizeof DF_TUNING_HEADER - 1;
    if (length >= header && memcmp(line, DF_TUNING_HEADER, header) == 0) return NO_RULE;
    df_fail(dfcclInvalidUsage,
            "%.200s:1: the table of DFCCL_TUNE_FILE must begin with \"" DF_TUNING_HEADER "\"",
            c->path);
    return WRONG;
  }
  if (length >= LINE_BYTES) {
    df_fail(dfcclInvalidUsage, "%.200s:%u: a line of %zu characters (DFCCL_TUNE_FILE)", c->path,
            c->line, length);
    return WRONG;
  }
  df_tuning *tuning = malloc(sizeof *tuning);
  if (tuning == NULL) return NO_RULE;
  const int written = snprintf(text, sizeof text, DF_TUNING_HEADER "\n%.*s", (int)length, line);
  line_kind kind = NO_RULE;
  if (!df_tuning_parse(tuning, text, (size_t)written, "line", sentence, sizeof sentence)) {
    const char *what = strstr(sentence, ": ");
    df_fail(dfcclInvalidUsage, "%.200s:%u (DFCCL_TUNE_FILE)%s", c->path, c->line,
            what ? what : sentence);
    kind = WRONG;
  } else if (tuning->n_rules) {
    *rule = tuning->rules[0];
    if (rule->file && files)
      rule->loaded = df_file_directory_named(files, tuning->files[rule->file - 1]);
    kind = rule->file && files && rule->loaded == NULL ? NO_RULE : A_RULE;
  }
  free(tuning);
  return kind;
}

dfcclResult_t df_tuning_cache_read(df_tuning_store *memory, const char *path) {
  size_t bytes, length;
  char *text = read_whole(path, &bytes);
  if (text == NULL) return dfcclInvalidUsage;
  cursor c = {.at = text, .end = text + bytes, .path = path, .machine = memory->machine};
  const char *line;
  line_kind kind = NO_RULE;
  while (kind != WRONG && next_line(&c, &line, &length)) {
    df_tuning_cache tuning_cache = {.is_new = 0};
    if (c.line > 1 && !c.is_mine) continue;
    kind = read_rule(&c, line, length, memory->files, &tuning_cache.rule);
    if (kind == A_RULE) df_tuning_cache_note(memory, &tuning_cache);
  }
  free(text);
  return kind == WRONG ? dfcclInvalidUsage : dfcclSuccess;
}

static void write_tuning_cache(FILE *out, const df_tuning_cache *tuning_cache) {
  char line[LINE_BYTES];
  df_rule_print(&tuning_cache->rule, line, sizeof line);
  fprintf(out, "%s # %.2f us, %.2f us as registered\n", line, tuning_cache->us,
          tuning_cache->registered_us);
}

static int is_replaced(const df_rule *rule, const df_tuning_cache *tuning_cache, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (is_same_task(rule, &tuning_cache[i].rule)) return 1;
  return 0;
}

/* New rules are inserted after the machine's line. */
static dfcclResult_t copy_merged(FILE *out, const cursor *from, const df_tuning_cache *tuning_cache,
                                 uint32_t n) {
  cursor c = *from;
  const char *line;
  size_t length;
  int is_written = 0;
  if (c.at >= c.end)
    fputs(DF_TUNING_HEADER "\n# Written by DFCCL_TUNE. A job uses the rules behind its machine's "
                           "line.\n",
          out);
  while (next_line(&c, &line, &length)) {
    df_rule rule;
    const int begins = length > 2 && memcmp(line, "# machine: ", DF_MIN(length, 11)) == 0;
    const line_kind kind =
        c.line == 1 || c.is_mine ? read_rule(&c, line, length, NULL, &rule) : NO_RULE;
    if (kind == WRONG) return dfcclInvalidUsage;
    if (kind == A_RULE && is_replaced(&rule, tuning_cache, n)) continue;
    fprintf(out, "%.*s\n", (int)length, line);
    if (!begins || !c.is_mine || is_written) continue;
    for (uint32_t i = 0; i < n; i++) write_tuning_cache(out, &tuning_cache[i]);
    is_written = 1;
  }
  if (is_written) return dfcclSuccess;
  fprintf(out, "%s%s\n", machine_word, c.machine);
  for (uint32_t i = 0; i < n; i++) write_tuning_cache(out, &tuning_cache[i]);
  return dfcclSuccess;
}

static dfcclResult_t replace(const char *path, const char *machine,
                             const df_tuning_cache *tuning_cache, uint32_t n) {
  char beside[PATH_BYTES + 32];
  size_t bytes;
  struct stat before;
  char *text = read_whole(path, &bytes);
  if (text == NULL) return dfcclInvalidUsage;
  const cursor from = {.at = text, .end = text + bytes, .path = path, .machine = machine};
  snprintf(beside, sizeof beside, "%.*s.XXXXXX", PATH_BYTES, path);
  const int fd = mkstemp(beside);
  FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
  dfcclResult_t result = dfcclSuccess;
  int fine = out != NULL;
  df_quiet_signals quiet;
  df_quiet_signals_begin(&quiet);
  if (fine) {
    fchmod(fd, stat(path, &before) == 0 ? before.st_mode & 0777 : 0644);
    result = copy_merged(out, &from, tuning_cache, n);
    fine = fflush(out) == 0 && fsync(fd) == 0;
    fine = fclose(out) == 0 && fine && result == dfcclSuccess && rename(beside, path) == 0;
  }
  df_quiet_signals_end(&quiet);
  const int error = errno;
  if (!fine && fd >= 0) unlink(beside);
  free(text);
  if (fine || result != dfcclSuccess) return result;
  return df_fail(dfcclSystemError, "%.200s (DFCCL_TUNE_FILE) cannot be written: %s", path,
                 strerror(error));
}

static int is_same_file(const struct stat *a, const struct stat *b) {
  return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
         a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Locks the file itself, not its directory, which other programs lock, too. Every writer replaces
 * the file, so a lock that a forked process has inherited is one on a file that has gone. Returns a
 * descriptor, to be closed; -1 with errno: EWOULDBLOCK after LOCK_TIMEOUT_NS without a change. */
static int lock_file(const char *path) {
  struct stat waited = {0}, opened, now;
  uint64_t since = df_clock_ns();
  for (;; usleep(LOCK_PERIOD_US)) {
    const int fd = open(path, O_RDONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd < 0) return -1;
    /* Without locks in the file system an update may be lost; the file stays valid. */
    const int is_locked = flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    const int is_current =
        fstat(fd, &opened) == 0 && stat(path, &now) == 0 && is_same_file(&opened, &now);
    if (is_locked && is_current) return fd;
    close(fd);
    if (!is_same_file(&opened, &waited)) since = df_clock_ns();
    waited = opened;
    errno = EWOULDBLOCK;
    if (df_clock_ns() - since > LOCK_TIMEOUT_NS) return -1;
  }
}

dfcclResult_t df_tuning_cache_write(const char *path, const char *machine,
                                    const df_tuning_cache *tuning_cache, uint32_t n) {
  const int lock = lock_file(path);
  if (lock < 0 && errno == EWOULDBLOCK)
    return df_fail(dfcclSystemError,
                   "%.200s (DFCCL_TUNE_FILE) has been locked by another process for %llu s", path,
                   LOCK_TIMEOUT_NS / 1000000000);
  if (lock < 0)
    return df_fail(dfcclSystemError, "%.200s (DFCCL_TUNE_FILE) cannot be written: %s", path,
                   strerror(errno));
  const dfcclResult_t result = replace(path, machine, tuning_cache, n);
  close(lock);
  return result;
}
