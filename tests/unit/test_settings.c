/*
 * Promises of src/host/settings/settings.c:
 *   - Every variable of the table: a value that makes no sense or lies outside of its range is
 *     refused by the variable's name and the value; the range's ends are accepted.
 *   - Every field of the configuration: a value that makes no sense is refused by the field's name.
 *   - Configuration goes before environment; what neither says is the default.
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

DF_TEST(settings, defaults, 30) {
  df_settings s;
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER;
  config.backend = dfcclBackendCpu; /* a library with CUDA would look for a device */
  OK(df_settings_read(&s, &config));
#define X(field, variable, standard, least, most, meaning)                                         \
  if ((standard) != 0) CHECK(s.field == (long long)(standard), "%s is %lld", variable, s.field);
  DF_SETTINGS_MAP(X)
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
  CHECK(few.spin_front > 0 && few.spin_min > 0 && few.spin_boost > 0 && few.fetch_polls >= 0 &&
            few.quit_polls > 0 && few.yield_polls > 0,
        "something is not complete");
  CHECK(few.quit_polls > many.quit_polls && many.quit_polls > 0, "more ranks than cores");
  CHECK(few.yield_polls > many.yield_polls && many.yield_polls > 0, "more ranks than cores");
  CHECK(cuda.spin_front > few.spin_front && cuda.spin_min > few.spin_min, "two kinds of devices");
  CHECK(cuda.spin_boost > few.spin_boost && cuda.fetch_polls > few.fetch_polls,
        "two kinds of devices");
  CHECK(oversubscribed_cuda.quit_polls == cuda.quit_polls, "a GPU does not share the host's cores");
  CHECK(turns.quit_polls < cuda.quit_polls && turns.spin_boost == 1,
        "who takes turns on a GPU leaves it sooner");
  const df_tunables on_cuda = df_settings_tunables(&cuda), on_cpu = df_settings_tunables(&few);
  CHECK(on_cuda.spin_front == 20000 && on_cuda.quit_polls == 1000000 && on_cuda.life == 20000000,
        "not in nanoseconds: %u, %u, %u", on_cuda.spin_front, on_cuda.quit_polls, on_cuda.life);
  CHECK(on_cpu.spin_front == (uint32_t)few.spin_front, "not in polls: %u", on_cpu.spin_front);
  cuda.spin_front = 1000000000;
  CHECK(df_settings_tunables(&cuda).spin_front == UINT32_MAX, "as long as can be");
  CHECK(s.device == -1 && !s.launches_block, "device %lld", (long long)s.device);
}

DF_TEST(settings, what_is_given_is_not_completed, 30) {
  df_settings s;
  static const char *const variables[] = {"DFCCL_SPIN_FRONT", "DFCCL_SPIN_MIN",
                                          "DFCCL_SPIN_BOOST", "DFCCL_FETCH_POLLS",
                                          "DFCCL_QUIT_POLLS", "DFCCL_YIELD_POLLS"};
  for (size_t i = 0; i < DF_COUNT_OF(variables); i++) setenv(variables[i], "7", 1);
  OK(df_settings_read(&s, NULL));
  df_settings_complete(&s, 5, 4, 0);
  CHECK(s.spin_front == 7 && s.spin_min == 7 && s.spin_boost == 7 && s.fetch_polls == 7 &&
            s.quit_polls == 7 && s.yield_polls == 7,
        "a given threshold was replaced");
  CHECK(s.backend == dfcclBackendCuda || s.device == -1, "device %lld", (long long)s.device);
  setenv("DFCCL_FETCH_POLLS", "0", 1);
  OK(df_settings_read(&s, NULL));
  df_settings_complete(&s, 5, 4, 0);
  CHECK(s.fetch_polls == 0, "0 is a value of its own");
}

DF_TEST(settings, powers_of_two, 30) {
  refused("DFCCL_CONTEXT_SLOTS", "3");
  refused("DFCCL_CUDA_THREADS", "48");
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
  refused("DFCCL_CQ", "rings");
  CHECK(accepted("DFCCL_CQ", "ring").cq == DF_CQ_RING, "ring");
  CHECK(accepted("DFCCL_CQ", "packed").cq == DF_CQ_PACKED, "packed");
  CHECK(accepted("DFCCL_CQ", "slots").cq == DF_CQ_SLOTS_CAS, "slots");
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
  refused("DFCCL_TUNING", "/tmp"); /* opens and cannot be read */
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

/* Empty lines up to so many bytes. */
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
  config = standard; /* what is at the ends of the ranges is taken */
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
  setenv("DFCCL_NAP_US", "soon", 1);
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
  if (result == dfcclSuccess) { /* it has it */
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
