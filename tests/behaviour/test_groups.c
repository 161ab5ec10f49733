/*
 * Promise: a group is any list of distinct ranks, in any order, of 1 to all ranks. Root and order
 * of blocks follow the list. Collectives of overlapping groups run side by side. Other ranks need
 * not call anything.
 */
#include "support/buffers.h"

#include <stdlib.h>

enum { RANKS = 6 };

DF_TEST(groups, subsets_and_permutations, 60) {
  static const int lists[][RANKS] = {
      {0, 1, 2, 3, 4, 5}, {5, 4, 3, 2, 1, 0}, {2, 0, 4, 1, 5, 3}, {3, 1}, {5, 0, 2}, {4},
      {1, 2, 3, 4},       {4, 3, 1, 0, 2}};
  static const int sizes[] = {6, 6, 6, 2, 3, 1, 4, 5};
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  for (size_t g = 0; g < sizeof sizes / sizeof sizes[0]; g++)
    for (int k = 0; k < DF_KIND_COUNT; k++) {
      df_collective coll = {.kind = (df_kind)k,
                            .type = dfcclInt32,
                            .op = dfcclSum,
                            .root = sizes[g] - 1,
                            .count = 101,
                            .members = sizes[g],
                            .group = lists[g],
                            .seed = g};
      /* Each group has an id of its own: members count the registrations of an id. */
      df_once(ctxs, g, &coll, 0);
      df_once(ctxs, g, &coll, DF_IN_PLACE);
    }
  df_free_contexts(ctxs, RANKS);
}

DF_TEST(groups, every_root, 60) {
  static const int turned[RANKS] = {3, 5, 0, 2, 4, 1};
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  for (int root = 0; root < RANKS; root++)
    for (int k = 0; k < DF_KIND_COUNT; k++) {
      if (!df_kind_has_root((df_kind)k)) continue;
      df_collective coll = {.kind = (df_kind)k,
                            .type = dfcclFloat64,
                            .op = dfcclProd,
                            .root = root,
                            .count = 300,
                            .members = RANKS,
                            .group = root % 2 ? turned : NULL,
                            .seed = 8};
      df_once(ctxs, 1, &coll, DF_UNUSED_NULL);
      df_once(ctxs, 1, &coll, 0);
    }
  df_free_contexts(ctxs, RANKS);
}

/* A grid: each rank belongs to a row and to a column, and runs both in another order. */
static void row_and_column(int rank, void *arg) {
  dfcclContext_t *ctxs = arg;
  int row[3], column[2];
  for (int i = 0; i < 3; i++) row[i] = rank / 3 * 3 + i;
  for (int i = 0; i < 2; i++) column[i] = rank % 3 + 3 * i;
  df_collective colls[2] = {df_simple(2000, 3), df_simple(3000, 2)};
  colls[0].group = row;
  colls[1].group = column;
  dfcclCollId_t ids[2] = {10 + (dfcclCollId_t)rank / 3, 20 + (dfcclCollId_t)rank % 3};
  for (int i = 0; i < 2; i++) OK(df_register(ctxs[rank], ids[i], &colls[i]));
  for (uint64_t round = 0; round < 30; round++) {
    df_buffers buffers[2];
    for (int i = 0; i < 2; i++) {
      int c = (rank + i) % 2;
      df_buffers_make(&buffers[c], ctxs[rank], &colls[c], df_position(&colls[c], rank), round, 0);
      OK(df_run(ctxs[rank], ids[c], colls[c].kind, buffers[c].send, buffers[c].recv, NULL, NULL));
    }
    OK(dfcclWaitAll(ctxs[rank]));
    for (int i = 0; i < 2; i++) {
      df_buffers_check(&buffers[i]);
      df_buffers_free(&buffers[i]);
    }
  }
}

DF_TEST(groups, rows_and_columns, 60) {
  dfcclContext_t ctxs[RANKS];
  df_make_contexts(ctxs, RANKS, NULL);
  df_in_threads(RANKS, row_and_column, ctxs);
  df_free_contexts(ctxs, RANKS);
}

/* From one rank to 64. */
DF_TEST(groups, one_to_64_ranks, 120) {
  static const int sizes[] = {1, 2, 3, 5, 8, 13, 16, 31, 32, 48, 64};
  static dfcclContext_t ctxs[64];
  int largest = df_slowdown() == 1 ? 64 : 16;
  df_make_contexts(ctxs, largest, NULL);
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0] && sizes[s] <= largest; s++)
    for (int k = 0; k < DF_KIND_COUNT; k++) {
      df_collective coll = {.kind = (df_kind)k,
                            .type = dfcclFloat32,
                            .op = df_kind_operator((df_kind)k, dfcclFloat32, dfcclAvg),
                            .root = sizes[s] / 2,
                            .count = 65,
                            .members = sizes[s],
                            .seed = 4};
      df_once(ctxs, s, &coll, 0);
    }
  df_free_contexts(ctxs, largest);
}

/* The caller's list is copied: it may change right after the call. */
DF_TEST(groups, the_list_is_copied, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  int *list = malloc(2 * sizeof *list);
  char name[] = "copied";
  list[0] = 1;
  list[1] = 0;
  df_collective coll = df_simple(50, 2);
  coll.kind = DF_ALL_GATHER;
  coll.group = list;
  coll.name = name;
  df_register_all(ctxs, 1, &coll);
  static const int same[2] = {1, 0};
  list[0] = list[1] = 77;
  free(list);
  name[0] = '\0';
  coll.group = same;
  df_exchange(ctxs, 1, &coll, 0, 0);
  df_free_contexts(ctxs, 2);
}
