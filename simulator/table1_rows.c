#include "table1_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "philox.h"

#define STAND_IN                                                                                   \
  "the paper's grouping is not published: a stand-in of the same size runs here; the "             \
  "probabilities are those of the authors' published configurations, and which figure of the "     \
  "table belongs to them could not be established"
#define INFERRED                                                                                   \
  "reference + roundrobin is the reading that fits; the probabilities are inferred: one-factor "   \
  "variations of the authors' published (4e-3, 4e-3) whose ratio is near the printed one"
#define FREE_SYNC "; the exact ratio is 0: what the published program finds are false positives"

/* Sampling error of the printed ratios: those of the (8,6,64) rows are multiples of 1/3200 (15, 115
 * and 50 rounds); the others are taken to come from 32,000 rounds. */
enum { MANY = 32000, FEWER = 3200 };

const df_table1_row df_table1_rows[DF_TABLE1_ROWS] = {
    {"free-1-8-single-1e-5", DF_MODEL_SINGLE, 0, 0, 0, 1, 8, 161, 0, 1e-5, 0, 0.0121, MANY,
     DF_FITS_EXACT, NULL},
    {"free-32-64-single-1e-8", DF_MODEL_SINGLE, 0, 0, 0, 32, 64, 800, 0, 1e-8, 0, -1, MANY,
     DF_FITS_NONE, STAND_IN},
    {"free-32-64-single-1e-7", DF_MODEL_SINGLE, 0, 0, 0, 32, 64, 800, 0, 1e-7, 0, -1, MANY,
     DF_FITS_NONE, STAND_IN},
    {"free-32-128-single-1e-7", DF_MODEL_SINGLE, 0, 0, 0, 32, 128, 800, 0, 1e-7, 0, -1, MANY,
     DF_FITS_NONE, STAND_IN},
    {"3d-4-4-4-single-1e-7", DF_MODEL_SINGLE, 4, 4, 4, 0, 0, 400, 1200, 1e-7, 0, 0.0110, MANY,
     DF_FITS_EXACT, NULL},
    {"3d-4-4-4-single-1e-6", DF_MODEL_SINGLE, 4, 4, 4, 0, 0, 400, 1200, 1e-6, 0, 0.0997, MANY,
     DF_FITS_EXACT, NULL},
    {"3d-8-6-64-single-1e-9", DF_MODEL_SINGLE, 8, 6, 64, 0, 0, 400, 1200, 1e-9, 0, 0.0047, FEWER,
     DF_FITS_EXACT, NULL},
    {"3d-8-6-64-single-1e-8", DF_MODEL_SINGLE, 8, 6, 64, 0, 0, 400, 1200, 1e-8, 0, 0.0359, FEWER,
     DF_FITS_NONE,
     "no reading gives the paper's figure (23 of the 640 rounds that the authors' published "
     "configuration of this row runs would print it, and the exact ratio lies within their error)"},
    {"free-32-64-sync-4e-5-4e-5", DF_MODEL_SYNC, 0, 0, 0, 32, 64, 800, 0, 4e-5, 4e-5, -1, MANY,
     DF_FITS_NONE, STAND_IN FREE_SYNC},
    {"free-32-64-sync-8e-5-4e-5", DF_MODEL_SYNC, 0, 0, 0, 32, 64, 800, 0, 8e-5, 4e-5, -1, MANY,
     DF_FITS_NONE, STAND_IN FREE_SYNC},
    {"free-32-64-sync-4e-5-8e-5", DF_MODEL_SYNC, 0, 0, 0, 32, 64, 800, 0, 4e-5, 8e-5, -1, MANY,
     DF_FITS_NONE, STAND_IN FREE_SYNC},
    {"free-32-64-double-sync-4e-5-4e-5", DF_MODEL_SYNC, 0, 0, 0, 32, 64, 1600, 0, 4e-5, 4e-5, -1,
     MANY, DF_FITS_NONE, STAND_IN FREE_SYNC},
    {"free-32-128-sync-4e-5-4e-5", DF_MODEL_SYNC, 0, 0, 0, 32, 128, 800, 0, 4e-5, 4e-5, -1, MANY,
     DF_FITS_NONE, STAND_IN FREE_SYNC},
    {"3d-4-4-4-sync-2e-3-4e-3", DF_MODEL_SYNC, 4, 4, 4, 0, 0, 400, 1200, 2e-3, 4e-3, 0.0068, MANY,
     DF_FITS_REFERENCE, INFERRED},
    {"3d-4-4-4-sync-4e-3-4e-3", DF_MODEL_SYNC, 4, 4, 4, 0, 0, 400, 1200, 4e-3, 4e-3, 0.0138, MANY,
     DF_FITS_REFERENCE, INFERRED},
    {"3d-4-4-4-sync-4e-3-2e-3", DF_MODEL_SYNC, 4, 4, 4, 0, 0, 400, 1200, 4e-3, 2e-3, 0.0032, MANY,
     DF_FITS_REFERENCE, INFERRED},
    {"3d-4-4-4-double-sync-4e-3-4e-3", DF_MODEL_SYNC, 4, 4, 4, 0, 0, 800, 2400, 4e-3, 4e-3, 0.0256,
     MANY, DF_FITS_NONE,
     "no reading gives the paper's figure: it lies between exact + roundrobin (2.0%) and "
     "reference + roundrobin (3.1%)"},
    {"3d-8-6-64-sync-8e-4-8e-4", DF_MODEL_SYNC, 8, 6, 64, 0, 0, 400, 1200, 8e-4, 8e-4, 0.0156,
     FEWER, DF_FITS_EXACT, NULL},
};

const char *df_table1_grouping(const df_table1_row *row, char buffer[32]) {
  if (row->tp > 0)
    snprintf(buffer, 32, "3d (%u,%u,%u)", row->tp, row->dp, row->pp);
  else
    snprintf(buffer, 32, "free (%u,%u)", row->groups, row->gpus);
  return buffer;
}

/* A stand-in's chance: below limit, the same for ever. */
static uint32_t stand_in_draw(uint32_t *draws, uint32_t gpus, uint32_t limit) {
  df_philox_block bits = df_philox(gpus, (df_philox_block){{(*draws)++, 0, 0, 0}});
  return (uint32_t)(df_philox_low(bits) % limit);
}

/* Groups of mean size (members of a GPU: between 2 and 3 on average), no GPU left out: the GPUs are
 * dealt like cards, in turns. Groups come in pairs: their counts, from half the mean to one
 * and a half, add up to twice the mean. */
static dfcclResult_t stand_in(const df_table1_row *row, df_config *config) {
  uint32_t smallest = row->gpus <= 64 ? 3 : 5, range = 6, draws = 0, used = 0, dealt = row->gpus;
  uint32_t room = row->groups * (smallest + range);
  if (row->groups == 1) {
    smallest = room = row->gpus;
    range = 1;
  }
  config->member_first = calloc(row->groups + 1u, sizeof(uint32_t));
  config->members = calloc(room, sizeof(uint32_t));
  config->coll_counts = calloc(row->groups, sizeof(uint32_t));
  uint32_t *deck = calloc(row->gpus, sizeof *deck);
  if (!config->member_first || !config->members || !config->coll_counts || !deck) {
    free(deck);
    return df_fail(dfcclOutOfMemory, "no memory for a grouping");
  }
  for (uint32_t i = 0; i < row->gpus; i++) deck[i] = i;
  for (uint32_t group = 0; group < row->groups; group++) {
    uint32_t size = smallest + stand_in_draw(&draws, row->gpus, range);
    if (row->gpus - dealt < size) dealt = 0; /* a new deal: no GPU twice in a group */
    for (uint32_t i = 0; i < size; i++, dealt++) {
      uint32_t other = dealt + stand_in_draw(&draws, row->gpus, row->gpus - dealt);
      uint32_t gpu = deck[other];
      deck[other] = deck[dealt];
      deck[dealt] = gpu;
      config->members[used++] = gpu;
    }
    config->member_first[group + 1] = used;
    uint32_t mean = row->tp_collectives, offset = stand_in_draw(&draws, row->gpus, mean / 2 + 1);
    if (row->groups == 1)
      config->coll_counts[group] = mean;
    else
      config->coll_counts[group] =
          group % 2 == 0 ? mean - offset : 2 * mean - config->coll_counts[group - 1];
  }
  free(deck);
  return dfcclSuccess;
}

dfcclResult_t df_table1_config(const df_table1_row *row, df_order order, uint64_t seed,
                               df_config *config) {
  *config = (df_config){.model = row->model,
                        .grouping = row->tp > 0 ? DF_GROUPING_3D : DF_GROUPING_FREE,
                        .order = order,
                        .disorder_probability = row->disorder,
                        .sync_probability = row->sync,
                        .seed = seed,
                        .resource_limit = -1,
                        .tp_size = row->tp,
                        .dp_size = row->dp,
                        .pp_size = row->pp,
                        .tp_collectives = row->tp_collectives,
                        .dp_collectives = row->dp_collectives,
                        .gpu_count = row->gpus,
                        .group_count = row->groups};
  dfcclResult_t result = row->tp > 0 ? df_config_group_3d(config, row->id) : stand_in(row, config);
  if (result != dfcclSuccess) df_config_destroy(config);
  return result;
}
