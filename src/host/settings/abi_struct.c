#include "host/settings/abi_struct.h"

#include <stdint.h>
#include <string.h>

#include "base/limits.h"

/* In each of these structs a member ends at each multiple of the alignment, so a member ends at the
 * size of every older version. */
#define GROWING(argument, type, macro, first, number)                                              \
  {                                                                                                \
    .name = argument, .initializer = macro, .size = sizeof(type),                                  \
    .least = DF_ALIGN_UP(offsetof(type, first) + 1, ALIGNMENT), .magic = number                    \
  }
#define ALIGNMENT _Alignof(uint64_t)
enum {
  GROWN_MAX = 4096, /* larger than any struct of this library will be */
  FIRST_VERSION = 100,
  LAST_VERSION = 999999 /* 99.99.99 */
};

const df_growing df_growing_config =
    GROWING("config", dfcclConfig_t, "DFCCL_CONFIG_INITIALIZER", backend, DFCCL_CONFIG_MAGIC);
const df_growing df_growing_options =
    GROWING("options", dfcclCollOptions_t, "DFCCL_COLL_OPTIONS_INITIALIZER", ranks,
            DFCCL_COLL_OPTIONS_MAGIC);
const df_growing df_growing_run =
    GROWING("run", dfcclRun_t, "DFCCL_RUN_INITIALIZER", sendBuf, DFCCL_RUN_MAGIC);
const df_growing df_growing_stats =
    GROWING("stats", dfcclStats_t, "DFCCL_STATS_INITIALIZER", sqesSubmitted, DFCCL_STATS_MAGIC);

const df_growing df_growing_configuration =
    GROWING("configuration", dfcclConfiguration_t, "DFCCL_CONFIGURATION_INITIALIZER", algorithm,
            DFCCL_CONFIGURATION_MAGIC);

const df_growing df_growing_membership = GROWING(
    "membership", dfcclMembership_t, "DFCCL_MEMBERSHIP_INITIALIZER", view, DFCCL_MEMBERSHIP_MAGIC);

const df_growing df_growing_memory =
    GROWING("memory", dfcclMemory_t, "DFCCL_MEMORY_INITIALIZER", collectives, DFCCL_MEMORY_MAGIC);

typedef struct df_growing_head {
  size_t size;
  unsigned magic, version;
} df_growing_head;
DF_STATIC_ASSERT(offsetof(dfcclConfig_t, backend) == sizeof(df_growing_head), "config's head");
DF_STATIC_ASSERT(offsetof(dfcclCollOptions_t, ranks) == sizeof(df_growing_head), "options' head");
DF_STATIC_ASSERT(offsetof(dfcclRun_t, sendBuf) == sizeof(df_growing_head), "run's head");
DF_STATIC_ASSERT(offsetof(dfcclStats_t, sqesSubmitted) == sizeof(df_growing_head), "stats' head");
DF_STATIC_ASSERT(offsetof(dfcclConfiguration_t, algorithm) == sizeof(df_growing_head),
                 "configuration's head");
DF_STATIC_ASSERT(offsetof(dfcclMembership_t, view) == sizeof(df_growing_head), "membership's head");
DF_STATIC_ASSERT(offsetof(dfcclMemory_t, collectives) == sizeof(df_growing_head), "memory's head");

/*
 * Callers leave padding unset, so no new member may begin in the padding of an older header. It
 * begins at the size below or later, behind a reserved word if necessary.
 */
DF_STATIC_ASSERT(sizeof(dfcclConfig_t) == 64, "40 before survive");
DF_STATIC_ASSERT(sizeof(dfcclCollOptions_t) == 64,
                 "48 before varying, 56 before tune; its last four bytes are padding");
DF_STATIC_ASSERT(sizeof(dfcclRun_t) == 112, "version 0.1; four bytes behind flags are padding");
DF_STATIC_ASSERT(sizeof(dfcclStats_t) == 120, "version 0.1; its last four bytes are padding");
DF_STATIC_ASSERT(offsetof(dfcclCollOptions_t, tune) + sizeof(int) == 60, "options' last member");
DF_STATIC_ASSERT(offsetof(dfcclConfig_t, survive) == 40, "behind the padding of version 0.1");
DF_STATIC_ASSERT(offsetof(dfcclStats_t, blocks) + sizeof(uint32_t) == 116, "stats' last member");

static int is_zero(const unsigned char *bytes, size_t from, size_t to) {
  while (from < to && bytes[from] == 0) from++;
  return from == to;
}

dfcclResult_t df_growing_check(const df_growing *kind, const void *given) {
  df_growing_head head;
  memcpy(&head, given, sizeof head);
  int plausible = head.size >= kind->least && head.size <= GROWN_MAX && head.size % ALIGNMENT == 0;
  if (head.magic != kind->magic || !plausible)
    return df_fail(dfcclInvalidArgument,
                   "%s has size %zu and magic 0x%x; fill it with %s (size %zu, magic 0x%x)",
                   kind->name, head.size, head.magic, kind->initializer, kind->size, kind->magic);
  if (head.version < FIRST_VERSION || head.version > LAST_VERSION)
    return df_fail(dfcclInvalidArgument,
                   "%s has version %u, which is unknown; fill it with %s (version %d)", kind->name,
                   head.version, kind->initializer, DFCCL_VERSION_CODE);
  if (head.size > kind->size && !is_zero(given, kind->size, head.size))
    return df_fail(dfcclInvalidArgument,
                   "%s has size %zu and sets members that this library (version %d, size %zu) does "
                   "not have",
                   kind->name, head.size, DFCCL_VERSION_CODE, kind->size);
  return dfcclSuccess;
}

dfcclResult_t df_growing_read(const df_growing *kind, const void *given, void *whole) {
  dfcclResult_t result = df_growing_check(kind, given);
  if (result != dfcclSuccess) return result;
  size_t size;
  memcpy(&size, given, sizeof size);
  memcpy(whole, given, DF_MIN(size, kind->size));
  return dfcclSuccess;
}
