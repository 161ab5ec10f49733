/*
 * Promises of src/host/init.c about what the ranks say of themselves before a job stands: ranks
 * that cannot work together are told so by a sentence that names the rank and both values, and
 * nothing is left of the attempt.
 */
#include <string.h>

#include "stage.h"

/* The first words of a card: the library's version and how many blocks the rank allows; then its
 * device. */
static void set_word(df_card *card, size_t word, uint32_t value) {
  memcpy(card->bytes + word * sizeof value, &value, sizeof value);
}

static void other_version(df_card *cards) { set_word(&cards[2], 0, 10203); }
static void no_blocks(df_card *cards) { set_word(&cards[1], 1, 0); }
static void many_blocks(df_card *cards) { set_word(&cards[1], 1, DF_MAX_BLOCKS + 1); }
static void other_device(df_card *cards) { set_word(&cards[2], 2, dfcclBackendCuda); }

static void is_refused(void (*change)(df_card *cards), dfcclResult_t expected, const char *words) {
  df_stage s;
  RESULT(stage_open_with(&s, change), expected);
  CHECK(strstr(dfcclGetLastError(NULL), words) != NULL, "\"%s\"", dfcclGetLastError(NULL));
  for (int r = 1; r < STAGE_RANKS; r++) {
    df_datagram heard;
    CHECK(!stage_hear(&s, r, &heard), "rank %d's connection stands", r);
    stage_die(&s, r);
  }
}

DF_TEST(cards, another_version_is_refused, 30) {
  is_refused(other_version, dfcclInvalidUsage, "rank 2 runs version 10203 of the library, rank 0");
}

DF_TEST(cards, numbers_of_blocks_must_make_sense, 30) {
  is_refused(no_blocks, dfcclRemoteError, "rank 1 announces 0 blocks");
  is_refused(many_blocks, dfcclRemoteError, "rank 1 announces");
}

DF_TEST(cards, another_device_is_refused, 30) {
  is_refused(other_device, dfcclInvalidUsage, "rank 2 uses the CUDA device, rank 0 the CPU device");
}
