/*
 * Promises of src/tuning/tuning_file.c:
 *   - Saved results are found again, on a machine of the same description only.
 *   - Writing replaces the rules of the same tasks, in this machine's part. Other machines' rules,
 *     other tasks' rules and comments remain. The file is a tuning table at any moment.
 *   - A rule of an algorithm's file applies where the file exists, and remains in any case.
 *   - A file whose name a rule cannot hold is omitted from the directory, with a sentence.
 *   - Several writers at once lose nothing. An invalid file is refused with its line.
 *   - A lock of the directory delays no writer; a lock of the file that stays is an error.
 */
#include "tuning/tuning_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/algorithm_files.h"
#include "support/harness.h"

static char path[64];

static void make_file(const char *text) {
  snprintf(path, sizeof path, "/tmp/dfccl-test-XXXXXX");
  const int fd = mkstemp(path);
  CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "%s", path);
  close(fd);
}

static char *whole(void) {
  static char text[65536];
  FILE *file = fopen(path, "r");
  CHECK(file != NULL, "%s", path);
  text[fread(text, 1, sizeof text - 1, file)] = '\0';
  fclose(file);
  return text;
}

static df_tuning_cache tuning_cache(uint64_t bytes, df_algorithm algorithm, uint32_t slots) {
  return (df_tuning_cache){.rule = {.operation = DF_OP_ALL_REDUCE,
                                    .algorithm = algorithm,
                                    .memory = DF_MEMORY_HOST,
                                    .ranks_least = 4,
                                    .ranks_most = 4,
                                    .bytes_least = bytes,
                                    .bytes_most = bytes,
                                    .slots = slots},
                           .us = 12.5,
                           .registered_us = 25,
                           .is_new = 1};
}

static const df_rule *found(df_tuning_store *all, const char *machine, uint64_t bytes) {
  *all = (df_tuning_store){0};
  snprintf(all->machine, sizeof all->machine, "%s", machine);
  CHECK(df_tuning_cache_read(all, path) == dfcclSuccess, "%s", df_last_sentence());
  return df_tuning_cache_find(all, DF_OP_ALL_REDUCE, 4, bytes, DF_MEMORY_HOST);
}

static void is_a_table(void) {
  df_tuning *tuning = malloc(sizeof *tuning);
  char sentence[200];
  const char *text = whole();
  CHECK(df_tuning_parse(tuning, text, strlen(text), "t", sentence, sizeof sentence), "%s: %s",
        sentence, text);
  free(tuning);
}

DF_TEST(tuning_cache, is_found_on_the_same_machine, 30) {
  df_tuning_store all;
  snprintf(path, sizeof path, "/tmp/dfccl-test-learnt-%d", getpid());
  unlink(path);
  CHECK(found(&all, "A", 4096) == NULL, "there is no file yet");
  const df_tuning_cache some[] = {tuning_cache(4096, DF_RING, 16), tuning_cache(65536, DF_PAT, 0)};
  CHECK(df_tuning_cache_write(path, "A", some, 1) == dfcclSuccess, "%s", df_last_sentence());
  const df_rule *rule = found(&all, "A", 4096);
  CHECK(rule && rule->algorithm == DF_RING && rule->slots == 16, "%s", whole());
  CHECK(df_tuning_cache_find(&all, DF_OP_ALL_REDUCE, 3, 4096, DF_MEMORY_HOST) == NULL, "3 ranks");
  CHECK(df_tuning_cache_find(&all, DF_OP_ALL_REDUCE, 4, 4096, DF_MEMORY_PROCESS) == NULL,
        "a process");
  df_tuning_cache_free(&all);
  CHECK(found(&all, "B", 4096) == NULL, "another machine");
  df_tuning_cache_free(&all);
  is_a_table();
  unlink(path);
}

/* The library may have been built without files. */
static int has_no_files;
static void not_expected(const char *sentence) {
  has_no_files = strstr(sentence, "built without libxml2") != NULL;
  CHECK(has_no_files, "%s", sentence);
}

DF_TEST(tuning_cache, algorithms_from_files, 60) {
  static df_file_directory files, none;
  const char *directory = df_algorithm_directory(4);
  df_file_directory_read(&files, directory, not_expected);
  if (has_no_files) {
    df_algorithm_directory_remove(directory);
    return;
  }
  df_tuning_cache of_file = tuning_cache(4096, DF_FROM_FILE, 0);
  of_file.rule.loaded = df_file_directory_named(&files, "ring");
  make_file("");
  CHECK(df_tuning_cache_write(path, "mine", &of_file, 1) == dfcclSuccess, "%s", df_last_sentence());
  CHECK(strstr(whole(), "file:ring"), "\"%s\"", whole());
  is_a_table();
  for (int has = 0; has < 2; has++) {
    df_tuning_store all = {.machine = "mine", .files = has ? &files : &none};
    CHECK(df_tuning_cache_read(&all, path) == dfcclSuccess, "%s", df_last_sentence());
    const df_rule *rule = df_tuning_cache_find(&all, DF_OP_ALL_REDUCE, 4, 4096, DF_MEMORY_HOST);
    CHECK(has ? rule && rule->loaded == of_file.rule.loaded : rule == NULL, "%s files",
          has ? "with" : "without");
    df_tuning_cache_free(&all);
  }
  /* A job without files writes another task: the rule remains. */
  const df_tuning_cache another = tuning_cache(8192, DF_RING, 0);
  CHECK(df_tuning_cache_write(path, "mine", &another, 1) == dfcclSuccess, "%s", df_last_sentence());
  CHECK(strstr(whole(), "file:ring"), "\"%s\"", whole());
  unlink(path);
  df_algorithm_directory_remove(directory);
}

DF_TEST(tuning_cache, writing_replaces_only_its_tasks, 30) {
  df_tuning_store all;
  make_file("dfccl-tuning 1\n# by hand\n# machine: B\nallreduce 4 4K host ring # theirs\n"
            "# machine: A\nallreduce 4 4K host ring\nreduce 4 4K host flat # stays\n");
  const df_tuning_cache some[] = {tuning_cache(4096, DF_DOUBLING, 0),
                                  tuning_cache(65536, DF_FLAT, 4)};
  CHECK(df_tuning_cache_write(path, "A", some, 2) == dfcclSuccess, "%s", df_last_sentence());
  CHECK(found(&all, "A", 4096)->algorithm == DF_DOUBLING, "%s", whole());
  CHECK(all.n == 3, "%u rules: %s", all.n, whole());
  df_tuning_cache_free(&all);
  CHECK(found(&all, "B", 4096)->algorithm == DF_RING, "%s", whole());
  df_tuning_cache_free(&all);
  CHECK(strstr(whole(), "# by hand") && strstr(whole(), "# theirs") && strstr(whole(), "# stays"),
        "%s", whole());
  CHECK(strstr(whole(), "12.50 us, 25.00 us as registered"), "%s", whole());
  is_a_table();
  unlink(path);
}

DF_TEST(tuning_cache, writers_wait_for_each_other, 60) {
  enum { WRITERS = 6, EACH = 4 }; /* each write waits for the disk, seconds on some machines */
  df_tuning_store all;
  make_file("dfccl-tuning 1\n");
  for (int w = 0; w < WRITERS; w++) {
    if (fork() != 0) continue;
    for (int i = 0; i < EACH; i++) {
      const df_tuning_cache one = tuning_cache((uint64_t)(w * EACH + i), DF_RING, 0);
      if (df_tuning_cache_write(path, "A", &one, 1) != dfcclSuccess) _exit(1);
    }
    _exit(0);
  }
  for (int w = 0, status; w < WRITERS; w++) CHECK(wait(&status) > 0 && status == 0, "a writer");
  found(&all, "A", 0);
  CHECK(all.n == WRITERS * EACH, "%u rules", all.n);
  df_tuning_cache_free(&all);
  unlink(path);
}

/* Others lock directories such as /tmp, too, so that nobody removes what is in them. */
DF_TEST(tuning_cache, a_lock_that_stays, 120) {
  const df_tuning_cache one = tuning_cache(4096, DF_RING, 0);
  char directory[] = "/tmp/dfccl-test-XXXXXX";
  CHECK(mkdtemp(directory) != NULL, "no directory");
  snprintf(path, sizeof path, "%s/file", directory);
  const int locked_directory = open(directory, O_RDONLY | O_DIRECTORY);
  CHECK(flock(locked_directory, LOCK_EX) == 0, "%s", directory);
  CHECK(df_tuning_cache_write(path, "A", &one, 1) == dfcclSuccess, "%s", df_last_sentence());
  const int locked_file = open(path, O_RDONLY);
  CHECK(flock(locked_file, LOCK_EX) == 0, "%s", path);
  CHECK(df_tuning_cache_write(path, "A", &one, 1) == dfcclSystemError, "written all the same");
  CHECK(strstr(df_last_sentence(), "locked by another process"), "%s", df_last_sentence());
  close(locked_file);
  CHECK(df_tuning_cache_write(path, "A", &one, 1) == dfcclSuccess, "%s", df_last_sentence());
  close(locked_directory);
  unlink(path);
  rmdir(directory);
}

static void refused(const char *text, const char *place) {
  df_tuning_store all = {.machine = "A"};
  make_file(text);
  CHECK(df_tuning_cache_read(&all, path) == dfcclInvalidUsage, "\"%s\"", text);
  CHECK(strstr(df_last_sentence(), place), "\"%s\" is not in \"%s\"", place, df_last_sentence());
  const df_tuning_cache one = tuning_cache(1, DF_RING, 0);
  CHECK(df_tuning_cache_write(path, "A", &one, 1) == dfcclInvalidUsage, "written all the same");
  CHECK(strcmp(whole(), text) == 0, "\"%s\" is \"%s\" now", text, whole());
  df_tuning_cache_free(&all);
  unlink(path);
}

DF_TEST(tuning_cache, an_invalid_file_is_refused_and_unchanged, 30) {
  refused("allreduce 4 4K host ring\n", ":1: ");
  refused("dfccl-tuning 1\n# machine: A\nallreduce 4 4K host rings\n", ":3 (DFCCL_TUNE_FILE)");
  snprintf(path, sizeof path, "/nowhere/at/all");
  const df_tuning_cache one = tuning_cache(1, DF_RING, 0);
  CHECK(df_tuning_cache_write(path, "A", &one, 1) == dfcclSystemError, "%s", df_last_sentence());
}

DF_TEST(tuning_cache, takes_new_results_once, 30) {
  df_tuning_store all = {.machine = "A"};
  df_tuning_cache *taken;
  for (int i = 0; i < 3; i++) {
    const df_tuning_cache one = tuning_cache((uint64_t)(i / 2), DF_RING, 0);
    df_tuning_cache_note(&all, &one);
  }
  CHECK(all.n == 2 && all.n_new == 2, "%u, %u new", all.n, all.n_new);
  CHECK(df_tuning_cache_take_new(&all, &taken) == 2, "two");
  free(taken);
  CHECK(df_tuning_cache_take_new(&all, &taken) == 0 && taken == NULL, "none is left");
  df_tuning_cache_free(&all);
}

DF_TEST(tuning_cache, a_machine_has_a_description, 30) {
  char text[DF_MACHINE_BYTES];
  df_tuning_cache_describe_machine(text, sizeof text, 2, 8, 1);
  CHECK(strstr(text, "dfccl ") && strstr(text, "2 cores") && strstr(text, "8 ranks on 1 host"),
        "\"%s\"", text);
}

static char left_out[256];
static void note_left_out(const char *sentence) {
  snprintf(left_out, sizeof left_out, "%s", sentence);
}

DF_TEST(tuning_cache, a_name_that_a_rule_cannot_hold, 30) {
  static const char *const names[] = {"my ring.xml", "a\tb.xml", "ring#2.xml"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    char directory[] = "/tmp/dfccl-test-XXXXXX", file[64];
    df_file_directory all;
    CHECK(mkdtemp(directory) != NULL, "no directory");
    snprintf(file, sizeof file, "%s/%s", directory, names[i]);
    FILE *empty = fopen(file, "w");
    CHECK(empty != NULL, "%s", file);
    fclose(empty);
    df_file_directory_read(&all, directory, note_left_out);
    CHECK(all.n == 0 && strstr(left_out, names[i]) && strstr(left_out, "a rule cannot name"), "%s",
          left_out);
    unlink(file);
    rmdir(directory);
  }
}
