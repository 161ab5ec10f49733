/*
 * Promise of src/host/settings/abi_struct.c: a struct of an older header is read up to its size,
 * with the defaults for the rest. A struct of a newer header is accepted while its further members
 * are zero. Any other size is refused with a sentence, and nothing behind the struct is read.
 */
#include "host/settings/abi_struct.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

/* The first bytes of `whole` in memory of exactly that size, and `size` as the caller's claim. */
static void *cut(const void *whole, size_t bytes, size_t size) {
  void *given = calloc(1, bytes);
  CHECK(given != NULL, "no memory");
  memcpy(given, whole, bytes);
  memcpy(given, &size, sizeof size);
  return given;
}

static const dfcclConfig_t asked = {.size = sizeof(dfcclConfig_t),
                                    .magic = DFCCL_CONFIG_MAGIC,
                                    .version = DFCCL_VERSION_CODE,
                                    .backend = dfcclBackendCpu,
                                    .device = 3,
                                    .maxBlocks = 4,
                                    .queueDepth = 5,
                                    .timeoutMs = 6,
                                    .survive = 1,
                                    .maxRanks = 7};

DF_TEST(growing, older_configurations_keep_the_defaults_of_the_rest, 30) {
  for (size_t size = 16; size < sizeof asked; size++) {
    dfcclConfig_t whole = DFCCL_CONFIG_INITIALIZER;
    void *given = cut(&asked, size, size);
    if (size < 24 || size % 8 != 0) {
      RESULT(df_growing_read(&df_growing_config, given, &whole), dfcclInvalidArgument);
      CHECK(strstr(df_last_sentence(), "DFCCL_CONFIG_INITIALIZER") != NULL, "%s",
            df_last_sentence());
    } else {
      OK(df_growing_read(&df_growing_config, given, &whole));
      CHECK(whole.backend == dfcclBackendCpu && whole.device == 3, "%zu bytes: first members",
            size);
      const int has_blocks = size >= 32, has_timeout = size >= 40, has_survive = size >= 48;
      CHECK(whole.maxBlocks == (has_blocks ? 4 : 0) && whole.queueDepth == (has_blocks ? 5 : 0),
            "%zu bytes: middle members", size);
      CHECK(whole.timeoutMs == (has_timeout ? 6 : 0), "%zu bytes: version 0.1's last member", size);
      CHECK(whole.survive == (has_survive ? 1 : 0) && whole.maxRanks == (has_survive ? 7 : 0),
            "%zu bytes: the members behind it", size);
    }
    free(given);
  }
  dfcclConfig_t whole = DFCCL_CONFIG_INITIALIZER;
  OK(df_growing_read(&df_growing_config, &asked, &whole));
  CHECK(memcmp(&whole, &asked, sizeof whole) == 0, "a configuration of this version");
}

DF_TEST(growing, newer_structs_may_not_set_unknown_members, 30) {
  struct {
    dfcclCollOptions_t options;
    uint64_t unknown[3];
  } newer = {.options = DFCCL_COLL_OPTIONS_INITIALIZER};
  dfcclCollOptions_t whole = DFCCL_COLL_OPTIONS_INITIALIZER;
  newer.options.size = sizeof newer;
  newer.options.priority = 9;
  OK(df_growing_read(&df_growing_options, &newer, &whole));
  CHECK(whole.priority == 9, "priority is %d", whole.priority);
  ((unsigned char *)newer.unknown)[sizeof newer.unknown - 1] = 1;
  RESULT(df_growing_read(&df_growing_options, &newer, &whole), dfcclInvalidArgument);
  CHECK(strstr(df_last_sentence(), "options has size") != NULL &&
            strstr(df_last_sentence(), "does not have") != NULL,
        "%s", df_last_sentence());
}

DF_TEST(growing, invalid_sizes_are_refused, 30) {
  const size_t sizes[] = {0, 1, 8, 15, 16, sizeof(dfcclStats_t) + 1, 4104, SIZE_MAX / 2, SIZE_MAX};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    dfcclStats_t stats = DFCCL_STATS_INITIALIZER;
    void *given = cut(&stats, 16, sizes[i]); /* only its head exists */
    RESULT(df_growing_check(&df_growing_stats, given), dfcclInvalidArgument);
    CHECK(strstr(df_last_sentence(), "stats has size") != NULL, "%s", df_last_sentence());
    free(given);
  }
  dfcclStats_t stats = DFCCL_STATS_INITIALIZER;
  stats.magic++;
  RESULT(df_growing_check(&df_growing_stats, &stats), dfcclInvalidArgument);
}

DF_TEST(growing, invalid_versions_are_refused_by_their_value, 30) {
  static const unsigned nonsense[] = {0, 1, 99, 1000000, 4294967295u};
  static const unsigned sensible[] = {100, DFCCL_VERSION_CODE, DFCCL_VERSION_CODE + 1, 999999};
  dfcclConfig_t config = DFCCL_CONFIG_INITIALIZER, whole = DFCCL_CONFIG_INITIALIZER;
  for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
    char number[16];
    snprintf(number, sizeof number, "%u", nonsense[i]);
    config.version = nonsense[i];
    RESULT(df_growing_read(&df_growing_config, &config, &whole), dfcclInvalidArgument);
    CHECK(strstr(df_last_sentence(), number) != NULL, "%s", df_last_sentence());
  }
  for (size_t i = 0; i < sizeof sensible / sizeof *sensible; i++) {
    config.version = sensible[i];
    OK(df_growing_read(&df_growing_config, &config, &whole));
  }
}
