/*
 * Promises of src/host/observe/record.c:
 *   - A collective's name may hold any bytes. In the file it is a JSON string, in which each byte
 *     is the character of its number.
 *   - Every run has a name of its own, over all registrations of its id. Groups are named once.
 *   - After every flush the file is a complete JSON object.
 *   - If the file cannot grow, the recording ends complete, with the last flush that had room, and
 *     says that it is cut short; so does the log.
 *   - A recording in progress, or of a killed program, holds the program "so far"; a closed one is
 *     "whole".
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "host/state/context.h"
#include "host/observe/record.h"
#include "support/harness.h"

typedef struct recording {
  dfcclContext_t context;
  char directory[64], path[128];
  char text[1 << 18];
} recording;

static recording r;

static void start(uint32_t n_ranks) {
  snprintf(r.directory, sizeof r.directory, "/tmp/dfccl-record-XXXXXX");
  CHECK(mkdtemp(r.directory) != NULL, "mkdtemp");
  snprintf(r.path, sizeof r.path, "%s/rank-1.json", r.directory);
  r.context = aligned_alloc(64, DF_ALIGN_UP(sizeof *r.context, (size_t)64));
  CHECK(r.context != NULL, "no memory");
  memset(r.context, 0, sizeof *r.context);
  r.context->rank = 1;
  r.context->n_ranks = n_ranks;
  snprintf(r.context->settings.record, sizeof r.context->settings.record, "%s", r.directory);
  OK(df_recorder_open(r.context));
}

static void close_it(void) {
  df_recorder_close(r.context);
  CHECK(r.context->recorder == NULL, "it is closed");
}

static void end(void) {
  close_it();
  free(r.context);
  unlink(r.path);
  rmdir(r.directory);
}

static const char *read_file(void) {
  int fd = open(r.path, O_RDONLY | O_CLOEXEC);
  ssize_t length = fd >= 0 ? read(fd, r.text, sizeof r.text - 1) : -1;
  CHECK(length > 0, "%s cannot be read, or is empty", r.path);
  close(fd);
  r.text[length] = '\0';
  return r.text;
}

/* Brackets close, strings end, no raw control characters: enough to detect damage as small as a
 * missing comma. The behaviour test parses the file with a library. */
static void check_complete(const char *text) {
  int depth = 0, inside = 0;
  size_t length = strlen(text);
  CHECK(text[0] == '{' && length > 2 && strcmp(text + length - 2, "}\n") == 0, "begin and end");
  for (const char *at = text; *at; at++) {
    unsigned char c = (unsigned char)*at;
    CHECK((c >= 0x20 || (c == '\n' && !inside)) && c < 0x7f, "a raw character %u", c);
    if (inside && c == '\\')
      at++;
    else if (c == '"')
      inside = !inside;
    if (inside) continue;
    if (c == '{' || c == '[') depth++;
    if (c == '}' || c == ']') depth--;
    CHECK(depth >= 0, "a bracket too many");
  }
  CHECK(depth == 0 && !inside, "%d brackets are open", depth);
}

/* Decodes the JSON string that begins behind `at` into characters up to 255. Returns its end. */
static const char *decode(const char *at, unsigned char *out, size_t *length) {
  *length = 0;
  while (*at != '"') {
    unsigned value = (unsigned char)*at++;
    if (value == '\\' && *at == 'u') {
      CHECK(sscanf(at + 1, "%4x", &value) == 1 && value < 256, "an escape %.5s", at);
      at += 5;
    } else if (value == '\\') {
      value = (unsigned char)*at++;
      CHECK(value == '"' || value == '\\', "an escape of %u", value);
    }
    out[(*length)++] = (unsigned char)value;
  }
  return at;
}

static void expect_mark(const char *mark) {
  char wanted[64];
  snprintf(wanted, sizeof wanted, "\"recorded\":\"%s\"", mark);
  const char *text = read_file();
  check_complete(text);
  CHECK(strstr(text, wanted) != NULL, "no %s in: %s", wanted, text);
}

static df_coll collective(dfcclCollId_t id, const char *name, uint32_t *ranks, uint32_t n) {
  df_coll coll = {.id = id, .ranks = ranks, .n = n};
  CHECK(name == NULL || strlen(name) < sizeof coll.name, "the test's own mistake");
  if (name)
    memcpy(coll.name, name, strlen(name) + 1);
  else
    snprintf(coll.name, sizeof coll.name, "%llu", (unsigned long long)id);
  return coll;
}

DF_TEST(record, names_of_any_bytes, 30) {
  uint32_t ranks[] = {0, 1};
  char names[8][40];
  int n_names = 0;
  start(2);
  for (int first = 1; first < 256; first += 32, n_names++) {
    int length = 0;
    for (int c = first; c < first + 32 && c < 256; c++) names[n_names][length++] = (char)c;
    names[n_names][length] = '\0';
    df_coll coll = collective((uint64_t)n_names, names[n_names], ranks, 2);
    df_record_run(r.context, &coll, 0);
  }
  df_record_flush(r.context);
  const char *at = read_file();
  check_complete(at);
  for (int i = 0; i < n_names; i++) {
    unsigned char decoded[200];
    char expected[80];
    size_t length;
    at = strstr(at, "{\"coll\":\"");
    CHECK(at != NULL, "event %d is missing", i);
    at = decode(at + 9, decoded, &length);
    int bytes = snprintf(expected, sizeof expected, "%s[%d]#0", names[i], i);
    CHECK(length == (size_t)bytes && memcmp(decoded, expected, length) == 0,
          "name %d is another one in the file", i);
  }
  end();
}

DF_TEST(record, runs_have_names_of_their_own, 30) {
  uint32_t ranks[] = {0, 1};
  start(2);
  df_coll first = collective(7, NULL, ranks, 2), other = collective(8, "x", ranks, 2);
  df_record_run(r.context, &first, 0);
  df_record_run(r.context, &other, 0);
  df_record_run(r.context, &first, 1);
  df_record_run(r.context, &first, 0); /* registered again */
  df_record_flush(r.context);
  const char *text = read_file();
  check_complete(text);
  static const char *const wanted[] = {"\"7#0\"", "\"x[8]#0\"", "\"7#1\"", "\"7#2\""};
  for (size_t i = 0; i < DF_COUNT_OF(wanted); i++) {
    text = strstr(text, wanted[i]);
    CHECK(text != NULL, "%s is not there, or out of order", wanted[i]);
  }
  end();
}

DF_TEST(record, groups_are_named_once, 30) {
  uint32_t all[] = {0, 1, 2}, some[] = {2, 1}, reversed[] = {2, 1, 0};
  start(3);
  df_coll colls[] = {collective(1, NULL, all, 3), collective(2, NULL, some, 2),
                     collective(3, NULL, all, 3), collective(4, NULL, reversed, 3)};
  for (size_t i = 0; i < DF_COUNT_OF(colls); i++) df_record_run(r.context, &colls[i], 0);
  df_record_sync(r.context);
  df_record_flush(r.context);
  const char *text = read_file();
  check_complete(text);
  CHECK(strstr(text, "\"groups\":{\"all\":[0,1,2],\"ranks 2,1\":[2,1],\"ranks 2,1,0\":[2,1,0]}") !=
            NULL,
        "the groups: %s", strstr(text, "\"groups\""));
  CHECK(strstr(text, "{\"sync\":true}") != NULL, "the synchronisation");
  end();
}

DF_TEST(record, it_says_whether_it_is_whole, 30) {
  uint32_t ranks[] = {0, 1};
  start(2);
  df_coll coll = collective(5, "name", ranks, 2);
  df_record_run(r.context, &coll, 0);
  df_record_flush(r.context);
  expect_mark("so far");
  off_t before = (off_t)strlen(read_file());
  close_it();
  expect_mark("whole");
  CHECK((off_t)strlen(read_file()) == before, "the last mark needs room of its own");
  OK(df_recorder_open(r.context)); /* nothing ever runs */
  end();
}

DF_TEST(record, complete_after_every_flush, 30) {
  uint32_t ranks[] = {0, 1};
  start(2);
  df_coll coll = collective(5, "name", ranks, 2);
  for (uint64_t run = 0; run < 600; run++) {
    df_record_run(r.context, &coll, run);
    df_coll another = collective(1000 + run, NULL, ranks, 2); /* the table of ids grows */
    df_record_run(r.context, &another, 0);
    df_record_flush(r.context);
    if (run % 50 == 0 || run == 599) check_complete(read_file());
  }
  CHECK(strstr(read_file(), "\"name[5]#599\"") != NULL, "the last run");
  end();
}

/* Runs are recorded and flushed one by one. From one run on, the file may grow by that many bytes
 * only. */
static const char *record_with_little_room(uint64_t first, size_t room) {
  uint32_t ranks[] = {0, 1};
  struct rlimit before, little;
  rlim_t limit = RLIM_INFINITY;
  start(2);
  CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0, "getrlimit");
  df_coll coll = collective(5, "name", ranks, 2);
  for (uint64_t run = 0; run < 100; run++) {
    if (run == first) limit = (run > 0 ? strlen(read_file()) : 0) + room;
    df_record_run(r.context, &coll, run);
    little = (struct rlimit){limit, before.rlim_max};
    CHECK(setrlimit(RLIMIT_FSIZE, &little) == 0, "setrlimit");
    df_record_flush(r.context);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0, "setrlimit");
    if (first > 0 && run < first)
      expect_mark("so far"); /* there may be room for run `first` itself */
    if (first > 0 && run > first) expect_mark("cut short");
    df_record_sync(r.context);
  }
  return r.path;
}

DF_TEST(record, ends_complete_where_the_file_cannot_grow, 30) {
  for (size_t room = 0; room < 80;
       room += 10) { /* no room for one more event, or for a part of it */
    record_with_little_room(50, room < 55 ? room : 55);
    const char *text = read_file();
    CHECK(strstr(text, "\"name[5]#49\"") != NULL, "what had room is gone");
    CHECK(strstr(text, "\"name[5]#99\"") == NULL, "after what had no room");
    close_it();
    expect_mark("cut short");
    end();
  }
}

DF_TEST(record, the_log_says_that_it_is_cut_short, 30) {
  char name[] = "/tmp/dfccl-record-log-XXXXXX", line[1024] = "";
  int log = mkstemp(name), error = dup(STDERR_FILENO);
  CHECK(log >= 0 && error >= 0, "no log");
  df_log_set_level(DF_LOG_WARN);
  dup2(log, STDERR_FILENO);
  record_with_little_room(50, 0);
  dup2(error, STDERR_FILENO);
  df_log_set_level(DF_LOG_NONE);
  ssize_t length = pread(log, line, sizeof line - 1, 0);
  CHECK(length > 0 && strstr(line, "rank 1: the recording in /tmp/dfccl-record-") != NULL &&
            strstr(line, "ends here: its file cannot grow\n") != NULL,
        "the log: %s", line);
  CHECK(strchr(line, '\n') == line + length - 1, "more than one line: %s", line);
  close(log);
  close(error);
  unlink(name);
  end();
}

DF_TEST(record, is_whole_or_empty_where_the_file_cannot_begin, 30) {
  for (size_t room = 0; room < 200; room += 10) {
    struct stat after;
    const char *path = record_with_little_room(0, room);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t length = fd >= 0 ? lseek(fd, 0, SEEK_END) : -1;
    CHECK(length >= 0, "%s cannot be looked at", path);
    close(fd);
    if (length > 0) expect_mark("cut short");
    close_it();
    CHECK(stat(path, &after) == 0 && after.st_size == length, "it is written again");
    end();
  }
}

DF_TEST(record, a_directory_that_cannot_be_written_is_named, 30) {
  start(2);
  df_recorder_close(r.context);
  snprintf(r.context->settings.record, sizeof r.context->settings.record, "/no/such/directory");
  RESULT(df_recorder_open(r.context), dfcclInvalidUsage);
  CHECK(strstr(df_last_sentence(), "/no/such/directory") != NULL, "\"%s\"", df_last_sentence());
  CHECK(strstr(df_last_sentence(), "DFCCL_RECORD") != NULL, "\"%s\"", df_last_sentence());
  end();
}
