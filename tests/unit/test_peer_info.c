/*
 * Promises of src/host/lifecycle/context.c about the peer info that ranks exchange before a job
 * starts. Ranks that cannot work together fail with a sentence that names the rank and both values,
 * and nothing of the attempt remains. The number of blocks is the smallest that a rank allows, and
 * the processors are all that any rank may use.
 */
#include <stdlib.h>
#include <string.h>

#include "stage.h"

/* The first words of a peer info: the library's version and the rank's limit of blocks, then its
 * device. */
static void set_word(df_peer_info *info, size_t word, uint32_t value) {
  memcpy(info->bytes + word * sizeof value, &value, sizeof value);
}

static void other_version(df_peer_info *peer_info) { set_word(&peer_info[2], 0, 10203); }
static void no_blocks(df_peer_info *peer_info) { set_word(&peer_info[1], 1, 0); }
static void many_blocks(df_peer_info *peer_info) { set_word(&peer_info[1], 1, DF_MAX_BLOCKS + 1); }
static void other_device(df_peer_info *peer_info) { set_word(&peer_info[2], 2, dfcclBackendCuda); }

static void is_refused(void (*change)(df_peer_info *peer_info), dfcclResult_t expected,
                       const char *words) {
  df_stage s;
  RESULT(stage_open_with(&s, change), expected);
  CHECK(strstr(dfcclGetLastError(NULL), words) != NULL, "\"%s\"", dfcclGetLastError(NULL));
  for (int r = 1; r < STAGE_RANKS; r++) {
    df_datagram datagram;
    CHECK(!stage_receive(&s, r, &datagram), "rank %d is still connected", r);
    stage_die(&s, r);
  }
}

DF_TEST(peer_info, another_version_is_refused, 30) {
  is_refused(other_version, dfcclInvalidUsage, "rank 2 runs version 10203 of the library, rank 0");
}

DF_TEST(peer_info, numbers_of_blocks_must_be_valid, 30) {
  is_refused(no_blocks, dfcclRemoteError, "rank 1 announces 0 blocks");
  is_refused(many_blocks, dfcclRemoteError, "rank 1 announces");
}

DF_TEST(peer_info, another_device_is_refused, 30) {
  is_refused(other_device, dfcclInvalidUsage, "rank 2 uses the CUDA device, rank 0 the CPU device");
}

static void few_blocks(df_peer_info *peer_info) {
  set_word(&peer_info[1], 1, 2);
  set_word(&peer_info[2], 1, DF_MAX_BLOCKS);
}

/* Behind the parts of the device and of the transports. */
static void set_cpus(df_peer_info *info, uint64_t first) {
  const size_t at = DF_ALIGN_UP(2 * sizeof(uint32_t) + sizeof(df_device_info), sizeof first) +
                    sizeof(df_transport_info);
  memset(info->bytes + at, 0, sizeof info->bytes - at);
  memcpy(info->bytes + at, &first, sizeof first);
}

static void few_processors(df_peer_info *peer_info) {
  set_cpus(&peer_info[0], 1);
  set_cpus(&peer_info[1], 0xf0);
  set_cpus(&peer_info[2], 0x31);
}

DF_TEST(peer_info, the_least_number_of_blocks_counts, 30) {
  df_stage s;
  setenv("DFCCL_MAX_BLOCKS", "3", 1);
  OK(stage_open_with(&s, few_blocks));
  CHECK(s.context->max_blocks == 2, "%u blocks", s.context->max_blocks);
  stage_close(&s);
}

DF_TEST(peer_info, all_processors_of_all_ranks_count, 30) {
  df_stage s;
  OK(stage_open_with(&s, few_processors));
  CHECK(s.context->topology.n_cores == 5, "%u processors", s.context->topology.n_cores);
  stage_close(&s);
}
