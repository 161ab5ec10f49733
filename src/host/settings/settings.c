#include "host/settings/settings.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "devices/device.h"
#include "host/settings/abi_struct.h"
#include "primitives/movers/mover_cpu.h"
#include "tuning/calibration.h"

/* tuning/table.c has the words in this order, and the table's default is 1. */
static_assert(DF_CQ_RING == 0 && DF_CQ_PACKED == 1 && DF_CQ_SLOTS_CAS == 2, "words of cq");

static dfcclResult_t read_environment_number(const char *variable, long long least, long long most,
                                             long long *value) {
  const char *text = getenv(variable);
  if (text == NULL) return dfcclSuccess;
  char *end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || number < least || number > most)
    return df_fail(dfcclInvalidUsage,
                   "environment variable %s is \"%s\"; it must be a whole number from %lld to %lld",
                   variable, text, least, most);
  *value = number;
  return dfcclSuccess;
}

int df_read_word(const char *variable, const char *const *words, int n, int standard,
                 const char *list) {
  const char *text = getenv(variable);
  if (text == NULL) return standard;
  for (int i = 0; i < n; i++)
    if (strcasecmp(text, words[i]) == 0) return i;
  df_fail(dfcclInvalidUsage, "environment variable %s is \"%s\"; it must be one of: %s", variable,
          text, list);
  return -1;
}

static dfcclResult_t check_power(const char *variable, long long value) {
  if ((value & (value - 1)) == 0) return dfcclSuccess;
  return df_fail(dfcclInvalidUsage, "environment variable %s is %lld; it must be a power of two",
                 variable, value);
}

static dfcclResult_t read_text(const char *variable, char *text, size_t bytes) {
  const char *value = getenv(variable);
  if (value == NULL) return dfcclSuccess;
  if (strlen(value) >= bytes || *value == '\0')
    return df_fail(dfcclInvalidUsage,
                   "environment variable %s has %zu characters; it must have 1 to %zu", variable,
                   strlen(value), bytes - 1);
  strcpy(text, value);
  return dfcclSuccess;
}

/* Follows the rule of the CUDA runtime. */
static int cuda_launches_block(void) {
  const char *value = getenv("CUDA_LAUNCH_BLOCKING");
  return value != NULL && *value != '\0' && strcmp(value, "0") != 0;
}

static int cuda_has_one_queue(void) {
  const char *value = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  return value != NULL && strcmp(value, "1") == 0;
}

static dfcclResult_t read_table(df_tuning *tuning, const char *path) {
  char sentence[DF_SENTENCE_BYTES];
  dfcclResult_t result = dfcclSuccess;
  FILE *file = fopen(path, "rb");
  if (file == NULL)
    return df_fail(dfcclInvalidUsage, "environment variable DFCCL_TUNING names \"%s\": %s", path,
                   strerror(errno));
  char *text = malloc(DF_MAX_TUNING_BYTES + 1);
  size_t bytes = text ? fread(text, 1, DF_MAX_TUNING_BYTES + 1, file) : 0;
  if (text == NULL)
    result = df_fail(dfcclOutOfMemory, "no memory to read %s (DFCCL_TUNING)", path);
  else if (ferror(file))
    result = df_fail(dfcclInvalidUsage, "environment variable DFCCL_TUNING names \"%s\": %s", path,
                     strerror(errno));
  else if (bytes > DF_MAX_TUNING_BYTES)
    result = df_fail(dfcclInvalidUsage, "%s (DFCCL_TUNING) has more than %d bytes", path,
                     DF_MAX_TUNING_BYTES);
  else if (!df_tuning_parse(tuning, text, bytes, path, sentence, sizeof sentence))
    result = df_fail(dfcclInvalidUsage, "DFCCL_TUNING: %s", sentence);
  free(text);
  fclose(file);
  return result;
}

/* Reads "FILE", "set:NAME=VALUE,..." or "FILE,set:NAME=VALUE,...". */
static dfcclResult_t read_tuning(df_tuning *tuning) {
  char path[512], sentence[DF_SENTENCE_BYTES];
  df_tuning_default(tuning);
  const char *value = getenv("DFCCL_TUNING");
  if (value == NULL) return dfcclSuccess;
  const char *numbers = value;
  if (strncmp(value, DF_TUNING_NUMBERS, strlen(DF_TUNING_NUMBERS)) != 0) {
    numbers = strstr(value, "," DF_TUNING_NUMBERS);
    const size_t length = numbers ? (size_t)(numbers - value) : strlen(value);
    if (length == 0 || length >= sizeof path)
      return df_fail(dfcclInvalidUsage,
                     "environment variable DFCCL_TUNING names a file by %zu characters; it must "
                     "have 1 to %zu",
                     length, sizeof path - 1);
    snprintf(path, sizeof path, "%.*s", (int)length, value);
    const dfcclResult_t result = read_table(tuning, path);
    if (result != dfcclSuccess || numbers == NULL) return result;
    numbers++;
  }
  if (!df_tuning_set(tuning, numbers, sentence, sizeof sentence))
    return df_fail(dfcclInvalidUsage, "DFCCL_TUNING: %s", sentence);
  return dfcclSuccess;
}

static void not_tried(const char *sentence) {
  df_log(DF_LOG_INFO, "the tuner does not try %s", sentence);
}

/* Algorithm files that rules name, or that the tuner may try, are read and proved here, before the
 * first registration. */
static dfcclResult_t read_algorithms(df_settings *s) {
  char sentence[DF_SENTENCE_BYTES];
  dfcclResult_t result = read_text("DFCCL_ALGORITHMS", s->algorithms, sizeof s->algorithms);
  if (result != dfcclSuccess) return result;
  if (!df_tuning_load_files(&s->tuning, s->algorithms, sentence, sizeof sentence))
    return df_fail(dfcclInvalidUsage, "DFCCL_TUNING: %s", sentence);
  if (s->tune && s->algorithms[0]) df_file_directory_read(&s->files, s->algorithms, not_tried);
  return dfcclSuccess;
}

/* ---- misspelt variables ---- */

static const char *const known_variables[] = {
#define X(field, variable, standard, least, most, meaning) variable,
    DF_SETTINGS_MAP(X)
#undef X
        "DFCCL_NET",
    "DFCCL_NET_INTERFACES", "DFCCL_NET_PORTS", "DFCCL_NET_ADVERTISE", "DFCCL_NET_SECURITY",
    "DFCCL_TLS_CERT", "DFCCL_TLS_KEY", "DFCCL_TLS_CA", "DFCCL_SECRET", "DFCCL_SECRET_FILE",
    "DFCCL_ROOT", "DFCCL_DEBUG", "DFCCL_ISA", "DFCCL_ALGORITHMS", "DFCCL_TUNING", "DFCCL_RECORD",
    "DFCCL_TRACE", "DFCCL_TUNER_PLUGIN", "DFCCL_PROFILER_PLUGIN", "DFCCL_TUNE_FILE",
    "DFCCL_SURVIVE_QUORUM", "DFCCL_FLIGHT", "DFCCL_METRICS",
    /* variables of the Python package */
    "DFCCL_TORCH_CHECK", "DFCCL_TORCH_DUMP", "DFCCL_TORCH_FLIGHT", "DFCCL_TORCH_MEMORY_MB",
    "DFCCL_TORCH_MISMATCH_S", "DFCCL_TORCH_REGISTRATIONS", "DFCCL_TORCH_STACKS",
    "DFCCL_TORCH_SURVIVE"};

/* Variables of earlier versions, without their prefix. They are numbers of the tuning table in this
 * version. */
#define MOVED_VARIABLES(X)                                                                         \
  X(SPIN_FRONT, spin_front)                                                                        \
  X(SPIN_MIN, spin_min)                                                                            \
  X(SPIN_BOOST, spin_boost)                                                                        \
  X(FETCH_POLLS, fetch_polls)                                                                      \
  X(QUIT_POLLS, quit_polls)                                                                        \
  X(YIELD_POLLS, yield_polls)                                                                      \
  X(SPREAD, spread)                                                                                \
  X(PREEMPT_EVERY, preempt_every)                                                                  \
  X(NAP_US, nap_us)                                                                                \
  X(CQ, cq)                                                                                        \
  X(CUDA_COLLECTIVES, cuda_collectives)                                                            \
  X(CUDA_TIMERS, cuda_timers)                                                                      \
  X(CUDA_THREADS, cuda_threads)                                                                    \
  X(CUDA_RELAY, cuda_relay)                                                                        \
  X(CUDA_RESTART_US, cuda_restart_us)                                                              \
  X(CUDA_NAP_US, cuda_nap_us)                                                                      \
  X(CUDA_PATIENCE_MS, cuda_patience_ms)

static dfcclResult_t check_not_moved(const char *assignment, size_t length) {
  static const char *const moved[][2] = {
#define X(variable, number) {"DFCCL_" #variable, #number},
      MOVED_VARIABLES(X)
#undef X
  };
  for (size_t i = 0; i < DF_COUNT_OF(moved); i++)
    if (strlen(moved[i][0]) == length && strncmp(assignment, moved[i][0], length) == 0)
      return df_fail(
          dfcclInvalidUsage,
          "environment variable %s has become a number of DFCCL_TUNING: set:%s=VALUE, or "
          "\"set %s VALUE\" in the table's file; see docs/CONFIGURATION.md",
          moved[i][0], moved[i][1], moved[i][1]);
  return dfcclSuccess;
}

/* Without this check a misspelt variable would be ignored. Names that begin with DFCCL_TEST_ belong
 * to the tests. The message leaves the value out, because it may be a secret. */
dfcclResult_t df_settings_check_names(void) {
  static const char prefix[] = "DFCCL_", tests[] = "DFCCL_TEST_";
  for (char **at = environ; at && *at; at++) {
    if (strncmp(*at, prefix, strlen(prefix)) != 0 || strncmp(*at, tests, strlen(tests)) == 0)
      continue;
    size_t length = strcspn(*at, "=");
    dfcclResult_t result = check_not_moved(*at, length);
    if (result != dfcclSuccess) return result;
    const char *nearest =
        df_nearest_word(*at, length, known_variables, DF_COUNT_OF(known_variables));
    if (nearest && strlen(nearest) == length && strncmp(*at, nearest, length) == 0) continue;
    return df_fail(dfcclInvalidUsage,
                   "unknown environment variable %.*s%s%s; "
                   "docs/CONFIGURATION.md lists them, docs/TUNING.md the numbers of the table",
                   (int)DF_MIN(length, (size_t)64), *at, nearest ? "; perhaps it should be " : "",
                   nearest ? nearest : "");
  }
  return dfcclSuccess;
}

static dfcclResult_t read_plugins(df_settings *s) {
  dfcclResult_t result = read_text("DFCCL_TUNER_PLUGIN", s->tuner_plugin, sizeof s->tuner_plugin);
  if (result == dfcclSuccess)
    result = read_text("DFCCL_PROFILER_PLUGIN", s->profiler_plugin, sizeof s->profiler_plugin);
  if (result == dfcclSuccess)
    result = read_text("DFCCL_TUNE_FILE", s->tune_file, sizeof s->tune_file);
  return result;
}

static dfcclResult_t read_log_level(void) {
  static const char *const levels[] = {"none", "error", "warn", "info", "trace"};
  int level = df_read_word("DFCCL_DEBUG", levels, 5, DF_LOG_NONE, "none, error, warn, info, trace");
  if (level < 0) return dfcclInvalidUsage;
  df_log_set_level((df_log_level)level);
  return dfcclSuccess;
}

static dfcclResult_t read_join_time(long long *milliseconds) {
  static const char name[] = "DFCCL_INIT_TIMEOUT_MS";
#define X(field, variable, standard, least, most, meaning)                                         \
  if (strcmp(variable, name) == 0) {                                                               \
    *milliseconds = (standard);                                                                    \
    return read_environment_number(variable, (least), (most), milliseconds);                       \
  }
  DF_SETTINGS_MAP(X)
#undef X
  return dfcclInternalError;
}

dfcclResult_t df_settings_read_id(df_network_settings *network) {
  df_net net;
  long long join_ms = 0;
  dfcclResult_t result = read_log_level();
  if (result == dfcclSuccess) result = df_settings_read_network(network, &net);
  if (result == dfcclSuccess) result = read_join_time(&join_ms);
  network->join_ms = (uint64_t)join_ms;
  return result;
}

static dfcclResult_t read_environment(df_settings *s) {
  static const char *const quorums[] = {"default", "strict", "none"}; /* df_quorum */
  dfcclResult_t result = read_log_level();
  if (result != dfcclSuccess) return result;
  if ((result = df_settings_read_network(&s->network, &s->net)) != dfcclSuccess) return result;
#define X(field, variable, standard, least, most, meaning)                                         \
  s->field = (standard);                                                                           \
  if ((result = read_environment_number(variable, (least), (most), &s->field)) != dfcclSuccess)    \
    return result;
  DF_SETTINGS_MAP(X)
#undef X
  s->network.silence_ms = (int)s->net_timeout_ms;
  s->network.relays_from = (uint32_t)s->net_relays;
  if ((result = check_power("DFCCL_CONTEXT_SLOTS", s->context_slots)) != dfcclSuccess)
    return result;
  if ((result = read_text("DFCCL_ISA", s->isa, sizeof s->isa)) != dfcclSuccess) return result;
  if (s->isa[0] && df_mover_cpu_by_name(s->isa) == NULL)
    return df_fail(
        dfcclInvalidUsage,
        "environment variable DFCCL_ISA is \"%s\"; this machine supports %s and slower ones",
        s->isa, df_mover_cpu_best()->name);
  if ((result = read_tuning(&s->tuning)) != dfcclSuccess) return result;
  char calibration[DF_CALIBRATION_PATH_BYTES];
  if (s->calibration &&
      df_calibration_path(df_variable("XDG_CACHE_HOME"), df_variable("HOME"), calibration))
    df_calibration_read(&s->tuning, calibration);
  if ((result = read_algorithms(s)) != dfcclSuccess) return result;
  if ((result = read_plugins(s)) != dfcclSuccess) return result;
  const char *directory = df_variable("XDG_RUNTIME_DIR");
  if (directory && directory[0] == '/' && strlen(directory) < sizeof s->view_directory)
    strcpy(s->view_directory, directory);
  if ((s->quorum = df_read_word("DFCCL_SURVIVE_QUORUM", quorums, DF_COUNT_OF(quorums), 0,
                                "default, strict, none")) < 0)
    return dfcclInvalidUsage;
  s->launches_block = cuda_launches_block();
  s->one_queue = cuda_has_one_queue();
  if ((result = read_text("DFCCL_METRICS", s->metrics, sizeof s->metrics)) != dfcclSuccess)
    return result;
  if ((result = read_text("DFCCL_FLIGHT", s->flight, sizeof s->flight)) != dfcclSuccess)
    return result;
  if ((result = read_text("DFCCL_TRACE", s->trace, sizeof s->trace)) != dfcclSuccess) return result;
  return read_text("DFCCL_RECORD", s->record, sizeof s->record);
}

static dfcclResult_t apply_config(df_settings *s, const dfcclConfig_t *given) {
  dfcclConfig_t whole = DFCCL_CONFIG_INITIALIZER;
  const dfcclConfig_t *config = &whole;
  dfcclResult_t result = df_growing_read(&df_growing_config, given, &whole);
  if (result != dfcclSuccess) return result;
  if (config->backend != dfcclBackendAuto && config->backend != dfcclBackendCpu &&
      config->backend != dfcclBackendCuda)
    return df_fail(dfcclInvalidArgument,
                   "config.backend is %d; it must be 0 (auto), 1 (cpu) or 2 (cuda)",
                   (int)config->backend);
  if (config->maxBlocks < 0 || config->maxBlocks > DF_MAX_BLOCKS)
    return df_fail(dfcclInvalidArgument, "config.maxBlocks is %d; it must be from 0 to %d",
                   config->maxBlocks, DF_MAX_BLOCKS);
  if (config->queueDepth < 0 || config->queueDepth > DF_MAX_QUEUE_DEPTH)
    return df_fail(dfcclInvalidArgument, "config.queueDepth is %d; it must be from 0 to %d",
                   config->queueDepth, DF_MAX_QUEUE_DEPTH);
  if (config->timeoutMs < 0)
    return df_fail(dfcclInvalidArgument, "config.timeoutMs is %d; it must not be negative",
                   config->timeoutMs);
  if (config->survive < 0 || config->survive > 2)
    return df_fail(dfcclInvalidArgument, "config.survive is %d; it must be 0, 1 or 2",
                   config->survive);
  if (config->maxRanks < 0 || config->maxRanks > DF_MAX_RANKS)
    return df_fail(dfcclInvalidArgument, "config.maxRanks is %d; it must be from 0 to %d",
                   config->maxRanks, DF_MAX_RANKS);
  if (config->device < -1)
    return df_fail(dfcclInvalidArgument, "config.device is %d; it must be -1 or a device's number",
                   config->device);
  s->backend = config->backend;
  s->device = config->device;
  if (config->maxBlocks) s->max_blocks = config->maxBlocks;
  if (config->queueDepth) s->queue_depth = config->queueDepth;
  if (config->timeoutMs) s->timeout_ms = config->timeoutMs;
  s->survive = config->survive;
  s->max_ranks = config->maxRanks;
  s->membership = config->membership;
  s->membership_arg = config->membershipArg;
  return dfcclSuccess;
}

static long long power_of_two_from(long long value, long long least) {
  long long power = least;
  while (power < value) power *= 2;
  return power;
}

/* device replaces config.device; NULL: it does not. */
static dfcclResult_t read_with_device(df_settings *settings, const dfcclConfig_t *config,
                                      const int *device) {
  df_settings s;
  memset(&s, 0, sizeof s);
  s.device = -1;
  dfcclResult_t result = read_environment(&s);
  if (result == dfcclSuccess && config != NULL) result = apply_config(&s, config);
  if (result != dfcclSuccess) return result;
  if (device) s.device = *device;
  s.queue_depth = s.queue_depth ? power_of_two_from(s.queue_depth, DF_MIN_QUEUE_DEPTH) : 1024;
  df_device_choice choice = {.backend = s.backend,
                             .ordinal = (int)s.device,
                             .max_blocks = (int)s.max_blocks,
                             .launches_block = s.launches_block};
  if ((result = df_device_choose(&choice)) != dfcclSuccess) return result;
  s.backend = choice.backend;
  s.device = choice.ordinal;
  s.max_blocks = choice.max_blocks;
  s.shared_blocks = choice.shared_blocks;
  *settings = s;
  return dfcclSuccess;
}

dfcclResult_t df_settings_read(df_settings *settings, const dfcclConfig_t *config) {
  return read_with_device(settings, config, NULL);
}

dfcclResult_t df_settings_read_with_device(df_settings *settings, const dfcclConfig_t *config,
                                           int device) {
  return read_with_device(settings, config, &device);
}

/* Converts polls to the unit of df_tunables. */
static uint32_t in_unit(const df_settings *s, long long polls) {
  long long ns = s->backend == dfcclBackendCuda ? 1000 : 1;
  return (uint32_t)DF_MIN(polls * ns, (long long)UINT32_MAX);
}

df_tunables df_settings_tunables(const df_settings *s) {
  const df_policy *p = &s->tuning.policy;
  return (df_tunables){.spin_front = in_unit(s, p->spin_front),
                       .spin_min = in_unit(s, p->spin_min),
                       .spin_boost = (uint32_t)p->spin_boost,
                       .fetch_polls = in_unit(s, p->fetch_polls),
                       .quit_polls = in_unit(s, p->quit_polls),
                       .preempt_every = (uint32_t)p->preempt_every,
                       .life = in_unit(s, p->cuda_life_us),
                       .doze = in_unit(s, p->cuda_doze_us)};
}

static void complete(long long *number, long long automatic, long long value) {
  if (*number == automatic) *number = value;
}

/* While the daemon of one process polls, the peer in another process does not run on the GPU. */
static void complete_cuda(df_policy *p, int takes_turns) {
  complete(&p->spin_front, 0, p->cuda_front_us);
  complete(&p->spin_min, 0, p->cuda_min_us);
  complete(&p->spin_boost, 0, takes_turns ? 1 : p->cuda_boost);
  complete(&p->fetch_polls, -1, p->cuda_fetch_us);
  complete(&p->quit_polls, 0,
           takes_turns ? DF_MIN(p->cuda_turns_quit_us, p->cuda_quit_us) : p->cuda_quit_us);
  if (takes_turns) p->cuda_keep_us = 0;
}

/*
 * A CPU polls in its own cache, and changing to another collective costs less than the message that
 * a block might miss. So the thresholds are low, to find the collective that can run soonest
 * (docs/PERFORMANCE.md). Over the bus of a GPU both cost more.
 */
void df_settings_complete(df_settings *settings, uint32_t ranks, uint32_t cores, int takes_turns) {
  int oversubscribed = ranks > cores;
  df_policy *p = &settings->tuning.policy;
  if (settings->backend == dfcclBackendCuda) complete_cuda(p, takes_turns);
  complete(&p->spin_front, 0, 4);
  complete(&p->spin_min, 0, 1);
  complete(&p->spin_boost, 0, 1);
  complete(&p->fetch_polls, -1, 1);
  complete(&p->quit_polls, 0, oversubscribed ? 400 : 4000);
  complete(&p->yield_polls, 0, oversubscribed ? 1 : 1000);
}
