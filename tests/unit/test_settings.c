/*
 * Promises of src/host/settings/settings.c:
 *   - For every variable of the table, an invalid value or one outside of the range is refused with
 *     the variable's name and the value. The ends of the range are accepted.
 *   - For every field of the configuration, an invalid value is refused with the field's name.
 *   - The configuration has precedence over the environment; a value in neither is the default.
 *   - docs/CONFIGURATION.md and docs/TUNING.md print the default and the range of every number.
 */
#include "host/settings/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/harness.h"

static void refused(const char *variable, const char *value) {
  df_settings settings;
  CHECK(setenv(variable, value, 1) == 0, "setenv");
  RESULT(df_settings_read(&settings, NULL), dfcclInvalidUsage);
  CHECK(strstr(df_last_sentence(), variable) != NULL, "%s=\"%s\": the sentence is \"%s\"", variable,
        value, df_last_sentence());
  unsetenv(variable);
}

static void number_refused(const char *variable, long long value) {
  char text[32];
  snprintf(text, sizeof text, "%lld", value);
  refused(variable, text);
  CHECK(strstr(df_last_sentence(), text) != NULL, "%s=%s: the sentence is \"%s\"", variable, text,
        df_last_sentence());
}

static df_settings accepted(const char *variable, const char *value) {
  df_settings settings;
  CHECK(setenv(variable, value, 1) == 0, "setenv");
  OK(df_settings_read(&settings, NULL));
  unsetenv(variable);
  return settings;
}

static df_settings number_accepted(const char *variable, long long value) {
  char text[32];
  snprintf(text, sizeof text, "%lld", value);
  return accepted(variable, text);
}

static void number_of_table(const char *name, long long least, long long most) {
  char value[64];
  if (strcmp(name, "cq") == 0) return; /* a setting whose values are words */
  const long long ends[] = {least, most}, beyond[] = {least - 1, most + 1};
  for (int i = 0; i < 2; i++) {
    snprintf(value, sizeof value, "set:%s=%lld", name, ends[i]);
    accepted("DFCCL_TUNING", value);
    snprintf(value, sizeof value, "set:%s=%lld", name, beyond[i]);
    refused("DFCCL_TUNING", value);
    CHECK(strstr(df_last_sentence(), name) != NULL, "\"%s\"", df_last_sentence());
  }
}

DF_TEST(settings, every_number, 30) {
  static const char *const nonsense[] = {
      "", " ", "x", "1x", "0x10", "1.5", "1e3", "-", "99999999999999999999999"};
#define X(field, variable, standard, least, most, meaning)                                         \
  for (size_t i = 0; i < DF_COUNT_OF(nonsense); i++) refused(variable, nonsense[i]);               \
  number_refused(variable, (long long)(least)-1);                                                  \
  number_refused(variable, (long long)(most) + 1);                                                 \
  number_accepted(variable, least);                                                                \
  {                                                                                                \
    df_settings settings = number_accepted(variable, most);                                        \
    CHECK(settings.field == (long long)(most), "%s is %lld", variable, (long long)settings.field); \
  }
  DF_SETTINGS_MAP(X)
#undef X
}

/* ---- the documents: rows "| `NAME` | default | from | to |" */

static char *read_document(const char *name) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", DOCUMENTS, name);
  FILE *file = fopen(path, "re");
  CHECK(file != NULL, "%s cannot be read", path);
  char *text = calloc(1, 1 << 17);
  const size_t bytes = fread(text, 1, (1 << 17) - 1, file);
  CHECK(bytes > 0 && bytes < (1 << 17) - 1, "%s has %zu bytes", path, bytes);
  fclose(file);
  return text;
}

/* The page prints numbers that no reader wants to count digits of as powers. */
static const char *number_as_text(long long value, char text[32]) {
  if (value == 1ll << 40)
    snprintf(text, 32, "2^40");
  else
    snprintf(text, 32, "%lld", value);
  return text;
}

static void row_is_in(const char *document, const char *name, long long standard, long long least,
                      long long most) {
  char row[256], texts[3][32];
  const int is_automatic = standard < least || standard > most;
  snprintf(row, sizeof row, "\n| `%s` | %s | %s | %s |", name,
           is_automatic ? "automatic" : number_as_text(standard, texts[0]),
           number_as_text(least, texts[1]), number_as_text(most, texts[2]));
  CHECK(strstr(document, row) != NULL,
        "no row of docs/CONFIGURATION.md or docs/TUNING.md begins with: %s", row + 1);
}

DF_TEST(settings, the_documents_have_all_defaults_and_ranges, 30) {
  char *configuration = read_document("CONFIGURATION.md"), *tuning = read_document("TUNING.md");
#define X(field, variable, standard, least, most, meaning)                                         \
  row_is_in(configuration, variable, standard, least, most);
  DF_SETTINGS_MAP(X)
#undef X
#define X(name, standard, least, most, meaning)                                                    \
  if (strcmp(#name, "cq") != 0) row_is_in(tuning, #name, standard, least, most);
  DF_POLICY_MAP(X)
#undef X
  free(configuration);
  free(tuning);
}

DF_TEST(settings, defaults, 30) {
  df_settings s;
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  unsetenv("DFCCL_CALIBRATION");       /* the environment of all tests */
  setenv("XDG_CACHE_HOME", "/tmp", 1); /* without a calibration of this machine */
  config.backend = dfcclBackendCpu;    /* a library with CUDA would search for a device */
  OK(df_settings_read(&s, &config));
#define X(field, variable, standard, least, most, meaning)                                         \
  if ((standard) != 0) CHECK(s.field == (long long)(standard), "%s is %lld", variable, s.field);
  DF_SETTINGS_MAP(X)
#undef X
#define X(field, standard, least, most, meaning)                                                   \
  CHECK(s.tuning.policy.field == (long long)(standard), "%s is %lld", #field,                      \
        s.tuning.policy.field);
  DF_POLICY_MAP(X)
#undef X
  CHECK(s.max_blocks == 1 && s.queue_depth == 1024, "%lld blocks, depth %lld", s.max_blocks,
        s.queue_depth);
  CHECK(s.backend == dfcclBackendCpu && s.isa[0] == '\0' && s.record[0] == '\0', "words");
  df_settings few = s, many = s, cuda = s, oversubscribed_cuda, turns;
  cuda.backend = dfcclBackendCuda;
  oversubscribed_cuda = turns = cuda;
  df_settings_complete(&oversubscribed_cuda, 5, 4, 0);
  df_settings_complete(&few, 4, 4, 0);
  df_settings_complete(&many, 5, 4, 0);
  df_settings_complete(&cuda, 4, 4, 0);
  df_settings_complete(&turns, 4, 4, 1);
  CHECK(few.tuning.policy.spin_front > 0 && few.tuning.policy.spin_min > 0 &&
            few.tuning.policy.spin_boost > 0 && few.tuning.policy.fetch_polls >= 0 &&
            few.tuning.policy.quit_polls > 0 && few.tuning.policy.yield_polls > 0,
        "something is not complete");
  CHECK(few.tuning.policy.quit_polls > many.tuning.policy.quit_polls &&
            many.tuning.policy.quit_polls > 0,
        "more ranks than cores");
  CHECK(few.tuning.policy.yield_polls > many.tuning.policy.yield_polls &&
            many.tuning.policy.yield_polls > 0,
        "more ranks than cores");
  CHECK(cuda.tuning.policy.spin_front > few.tuning.policy.spin_front &&
            cuda.tuning.policy.spin_min > few.tuning.policy.spin_min,
        "two kinds of devices");
  CHECK(cuda.tuning.policy.spin_boost > few.tuning.policy.spin_boost &&
            cuda.tuning.policy.fetch_polls > few.tuning.policy.fetch_polls,
        "two kinds of devices");
  CHECK(oversubscribed_cuda.tuning.policy.quit_polls == cuda.tuning.policy.quit_polls,
        "a GPU does not share the host's cores");
  CHECK(turns.tuning.policy.quit_polls < cuda.tuning.policy.quit_polls &&
            turns.tuning.policy.spin_boost == 1,
        "who takes turns on a GPU leaves it sooner");
  const df_tunables on_cuda = df_settings_tunables(&cuda), on_cpu = df_settings_tunables(&few);
  CHECK(on_cuda.spin_front == 20000 && on_cuda.quit_polls == 1000000 && on_cuda.life == 20000000,
        "not in nanoseconds: %u, %u, %u", on_cuda.spin_front, on_cuda.quit_polls, on_cuda.life);
  CHECK(on_cpu.spin_front == (uint32_t)few.tuning.policy.spin_front, "not in polls: %u",
        on_cpu.spin_front);
  cuda.tuning.policy.spin_front = 1000000000;
  CHECK(df_settings_tunables(&cuda).spin_front == UINT32_MAX, "as long as can be");
  CHECK(s.device == -1 && !s.launches_block, "device %lld", (long long)s.device);
}

DF_TEST(settings, given_values_are_not_completed, 30) {
  df_settings s;
  static const char *const numbers[] = {"spin_front",  "spin_min",   "spin_boost",
                                        "fetch_polls", "quit_polls", "yield_polls"};
  for (size_t i = 0; i < DF_COUNT_OF(numbers); i++) df_tune(numbers[i], "7");
  OK(df_settings_read(&s, NULL));
  df_settings_complete(&s, 5, 4, 0);
  CHECK(s.tuning.policy.spin_front == 7 && s.tuning.policy.spin_min == 7 &&
            s.tuning.policy.spin_boost == 7 && s.tuning.policy.fetch_polls == 7 &&
            s.tuning.policy.quit_polls == 7 && s.tuning.policy.yield_polls == 7,
        "a given threshold was replaced");
  CHECK(s.backend == dfcclBackendCuda || s.device == -1, "device %lld", (long long)s.device);
  df_tune("fetch_polls", "0");
  OK(df_settings_read(&s, NULL));
  df_settings_complete(&s, 5, 4, 0);
  CHECK(s.tuning.policy.fetch_polls == 0, "0 is a value of its own");
}

/* Both ends of each number's range are accepted, and values beyond are refused; the sentence names
 * the number. */
DF_TEST(settings, every_number_of_a_rank_in_the_table, 30) {
#define X(field, standard, least, most, meaning)                                                   \
  number_of_table(#field, (long long)(least), (long long)(most));
  DF_POLICY_RANK_MAP(X)
#undef X
  refused("DFCCL_TUNING", "set:cuda_threads=48");
  CHECK(strstr(df_last_sentence(), "multiple of 32") != NULL, "\"%s\"", df_last_sentence());
}

static df_settings accepted_table(const char *path, const char *numbers) {
  char value[600];
  snprintf(value, sizeof value, "%s%s", path, numbers);
  return accepted("DFCCL_TUNING", value);
}

/* A file's rules stay in force beside numbers, and a number counts more than the file's and than
 * one before it. */
DF_TEST(settings, a_table_and_numbers, 30) {
  char path[] = "/tmp/dfccl-settings,set-XXXXXX", wrong[600]; /* a comma of a name ends no name */
  static const char text[] = "dfccl-tuning 1\nallreduce * * any flat\nset spin_front 5\n";
  const int fd = mkstemp(path);
  CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text), "no file");
  close(fd);
  df_settings s = accepted_table(path, "");
  CHECK(s.tuning.n_rules == 1 && s.tuning.policy.spin_front == 5, "the file alone");
  s = accepted_table(path, ",set:spin_min=8");
  CHECK(s.tuning.n_rules == 1 && s.tuning.policy.spin_front == 5 && s.tuning.policy.spin_min == 8,
        "the file and another number");
  s = accepted_table(path, ",set:spin_front=6,spin_min=8,set:spin_front=7,set:slots=8");
  CHECK(s.tuning.n_rules == 1 && s.tuning.policy.spin_front == 7 && s.tuning.policy.spin_min == 8 &&
            s.tuning.policy.slots == 8,
        "the last number counts");
  s = accepted("DFCCL_TUNING", "set:slots=8,set:slots=16");
  CHECK(s.tuning.n_rules == 0 && s.tuning.policy.slots == 16, "numbers alone");
  static const char *const endings[][2] = {{",set:", "NAME=VALUE"},
                                           {",set:slots", "slots"},
                                           {",set:slots=8,,lend=0", "NAME=VALUE"},
                                           {",set:slots=8,", "NAME=VALUE"},
                                           {",set:=8", "=8"},
                                           {",set:slots=8=16", "8=16"},
                                           {",set:slots=8,spin_ahead=2", "spin_ahead"},
                                           {",set:slots=7", "power of two"},
                                           {",set:set:slots=8", "set:slots"},
                                           {",slots=8", "slots=8"}};
  for (size_t i = 0; i < DF_COUNT_OF(endings); i++) {
    snprintf(wrong, sizeof wrong, "%s%s", path, endings[i][0]);
    refused("DFCCL_TUNING", wrong);
    CHECK(strstr(df_last_sentence(), endings[i][1]) != NULL, "\"%s\" of \"%s\" lacks \"%s\"",
          df_last_sentence(), wrong, endings[i][1]);
  }
  refused("DFCCL_TUNING", ",set:slots=8");
  unlink(path);
  snprintf(wrong, sizeof wrong, "%s,set:slots=8", path);
  refused("DFCCL_TUNING", wrong);
  CHECK(strstr(df_last_sentence(), "No such file") != NULL, "\"%s\"", df_last_sentence());
}

DF_TEST(settings, powers_of_two, 30) {
  refused("DFCCL_CONTEXT_SLOTS", "3");
  CHECK(number_accepted("DFCCL_QUEUE_DEPTH", 1000).queue_depth == 1024, "rounded up");
  CHECK(number_accepted("DFCCL_QUEUE_DEPTH", 1).queue_depth == DF_MIN_QUEUE_DEPTH, "rounded up");
  CHECK(number_accepted("DFCCL_QUEUE_DEPTH", 4096).queue_depth == 4096, "as it is");
}

DF_TEST(settings, words, 30) {
  refused("DFCCL_DEBUG", "loud");
  refused("DFCCL_DEBUG", "");
  accepted("DFCCL_DEBUG", "None");
  accepted("DFCCL_DEBUG", "none");
  refused("DFCCL_NET", "udp");
  CHECK(accepted("DFCCL_NET", "tcp").net == DF_NET_TCP, "tcp");
  CHECK(accepted("DFCCL_NET", "none").net == DF_NET_NONE, "none");
  static const char *const queues[] = {
      [DF_CQ_RING] = "ring", [DF_CQ_PACKED] = "packed", [DF_CQ_SLOTS_CAS] = "slots"};
  for (int i = 0; i < (int)DF_COUNT_OF(queues); i++) {
    char value[32];
    snprintf(value, sizeof value, "set:cq=%s", queues[i]);
    CHECK(accepted("DFCCL_TUNING", value).tuning.policy.cq == i, "%s", queues[i]);
  }
  refused("DFCCL_TUNING", "set:cq=rings");
  refused("DFCCL_ISA", "");
  refused("DFCCL_ISA", "avx1024");
  refused("DFCCL_ISA", "a name that is far too long for an instruction set");
  CHECK(strcmp(accepted("DFCCL_ISA", "plain").isa, "plain") == 0, "plain");
  char path[600];
  memset(path, 'p', sizeof path);
  path[599] = '\0';
  refused("DFCCL_RECORD", path);
  refused("DFCCL_RECORD", "");
  refused("DFCCL_TUNING", path);
  refused("DFCCL_TUNING", "");
  refused("DFCCL_TUNING", "/tmp"); /* can be opened, but not read */
  CHECK(strstr(df_last_sentence(), "directory") != NULL, "\"%s\"", df_last_sentence());
  refused("DFCCL_TUNING", "/dev/zero");
  CHECK(strstr(df_last_sentence(), "more than") != NULL, "\"%s\"", df_last_sentence());
  refused("DFCCL_TUNING", "/dev/null"); /* a table has a first line */
  path[512] = '\0';
  refused("DFCCL_RECORD", path);
  refused("DFCCL_ALGORITHMS", path);
  refused("DFCCL_ALGORITHMS", "");
  path[511] = '\0';
  CHECK(strcmp(accepted("DFCCL_ALGORITHMS", path).algorithms, path) == 0, "the longest directory");
  CHECK(strcmp(accepted("DFCCL_RECORD", path).record, path) == 0, "the longest path");
}

/* Empty lines up to that many bytes. */
static void fill_table(const char *path, size_t bytes) {
  static const char head[] = DF_TUNING_HEADER "\n";
  FILE *file = fopen(path, "w");
  CHECK(file != NULL && fputs(head, file) >= 0, "no file");
  for (size_t i = sizeof head - 1; i < bytes; i++) fputc(i % 100 ? ' ' : '\n', file);
  fclose(file);
}

DF_TEST(settings, the_longest_table, 30) {
  char path[] = "/tmp/dfccl-test-XXXXXX";
  int fd = mkstemp(path);
  CHECK(fd >= 0, "mkstemp");
  close(fd);
  fill_table(path, DF_MAX_TUNING_BYTES);
  CHECK(accepted("DFCCL_TUNING", path).tuning.n_rules == 0, "rules");
  fill_table(path, DF_MAX_TUNING_BYTES + 1);
  refused("DFCCL_TUNING", path);
  CHECK(strstr(df_last_sentence(), "more than") != NULL, "\"%s\"", df_last_sentence());
  unlink(path);
}

DF_TEST(settings, launches_that_block_are_known, 30) {
  CHECK(accepted("CUDA_LAUNCH_BLOCKING", "1").launches_block, "1");
  CHECK(!accepted("CUDA_LAUNCH_BLOCKING", "0").launches_block, "0");
  CHECK(!accepted("CUDA_LAUNCH_BLOCKING", "").launches_block, "nothing");
}

static void field_refused(const dfcclConfig_t *config, const char *field) {
  df_settings settings;
  RESULT(df_settings_read(&settings, config), dfcclInvalidArgument);
  CHECK(strstr(df_last_sentence(), field) != NULL, "config.%s: the sentence is \"%s\"", field,
        df_last_sentence());
}

DF_TEST(settings, configuration_fields, 30) {
  const dfcclConfig_t standard = DFCCL_CONFIG_INITIALIZER;
  dfcclConfig_t config = standard;
  df_settings settings;
  OK(df_settings_read(&settings, &config));
  config.size--;
  field_refused(&config, "size");
  config = standard;
  config.magic++;
  field_refused(&config, "magic");
  config = standard;
  config.backend = (dfcclBackend_t)3;
  field_refused(&config, "backend");
  config = standard;
  for (int bad = -1; bad <= DF_MAX_BLOCKS + 1; bad += DF_MAX_BLOCKS + 2) {
    config.maxBlocks = bad;
    field_refused(&config, "maxBlocks");
  }
  config = standard;
  for (int bad = -1; bad <= DF_MAX_QUEUE_DEPTH + 1; bad += DF_MAX_QUEUE_DEPTH + 2) {
    config.queueDepth = bad;
    field_refused(&config, "queueDepth");
  }
  config = standard;
  config.timeoutMs = -1;
  field_refused(&config, "timeoutMs");
  config = standard;
  config.device = -2;
  field_refused(&config, "device");
  config = standard; /* values at the ends of the ranges are accepted */
  config.backend = dfcclBackendCpu;
  config.maxBlocks = DF_MAX_BLOCKS;
  config.queueDepth = DF_MAX_QUEUE_DEPTH;
  config.device = 3;
  OK(df_settings_read(&settings, &config));
  CHECK(settings.max_blocks == DF_MAX_BLOCKS && settings.queue_depth == DF_MAX_QUEUE_DEPTH &&
            settings.device == 3,
        "%lld blocks, depth %lld, device %lld", settings.max_blocks, settings.queue_depth,
        (long long)settings.device);
}

DF_TEST(settings, configuration_goes_before_environment, 30) {
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  df_settings s;
  setenv("DFCCL_MAX_BLOCKS", "3", 1);
  setenv("DFCCL_QUEUE_DEPTH", "64", 1);
  setenv("DFCCL_TIMEOUT_MS", "77", 1);
  OK(df_settings_read(&s, &config));
  CHECK(s.max_blocks == 3 && s.queue_depth == 64 && s.timeout_ms == 77, "the environment");
  config.maxBlocks = 2;
  config.queueDepth = 32;
  config.timeoutMs = 5;
  OK(df_settings_read(&s, &config));
  CHECK(s.max_blocks == 2 && s.queue_depth == 32 && s.timeout_ms == 5, "the configuration");
}

DF_TEST(settings, a_failure_changes_nothing, 30) {
  df_settings s;
  memset(&s, 0x5a, sizeof s);
  df_settings before = s;
  df_tune("nap_us", "soon");
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  RESULT(df_settings_read(&s, &config), dfcclInvalidUsage);
  RESULT(df_settings_read(&s, NULL), dfcclInvalidUsage);
  CHECK(memcmp(&s, &before, sizeof s) == 0, "the settings were written");
}

DF_TEST(settings, a_device_that_the_library_lacks, 30) {
  df_settings settings;
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCuda;
  dfcclResult_t result = df_settings_read(&settings, &config);
  if (result == dfcclSuccess) { /* the build has it */
    CHECK(settings.backend == dfcclBackendCuda, "another device is taken");
  } else {
    const char *said = df_last_sentence();
    CHECK(strstr(said, "CUDA") != NULL, "\"%s\"", said);
  }
  config.backend = (dfcclBackend_t)3;
  RESULT(df_settings_read(&settings, &config), dfcclInvalidArgument);
  config.backend = (dfcclBackend_t)-1;
  RESULT(df_settings_read(&settings, &config), dfcclInvalidArgument);
}
