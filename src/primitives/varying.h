/* Runs with fewer elements than registered: how many, and what a primitive's record then is. */
#ifndef DF_PRIMITIVES_VARYING_H
#define DF_PRIMITIVES_VARYING_H

#include "context/cursor.h"
#include "primitives/prepared.h"

/* CUDA's compiler must know that none vary. */
DF_CORE int df_step_varies(const df_descriptor *desc) {
#if defined(__CUDACC__)
  (void)desc;
  return 0;
#else
  return desc->count_step != 0;
#endif
}

/* Varying: elements of the run. */
DF_CORE uint64_t df_step_count(const df_descriptor *desc, const df_cursor *cursor) {
  uint64_t count = desc->words->counts[cursor->run % DF_RUNS_AHEAD * desc->count_step];
  return count ? count : desc->count;
}

/* NULL: all pairs have the run's count. */
DF_CORE df_pair_counts *df_step_pairs(const df_descriptor *desc, const df_cursor *cursor) {
#if defined(__CUDACC__)
  (void)desc;
  (void)cursor;
  return NULL;
#else
  if (!(desc->lends & DF_COUNTS_OF_PEERS)) return NULL;
  return (df_pair_counts *)(uintptr_t)df_step_count(desc, cursor);
#endif
}

/* Varying, or each pair has a count. */
DF_CORE_APART void df_step_prepare_varying(const df_descriptor *desc, const df_cursor *cursor,
                                           df_prepared *p) {
  const df_pair_counts *pairs = df_step_pairs(desc, cursor);
#if !defined(__CUDACC__)
  if (pairs) {
    df_prepare_pair(desc, pairs, cursor->loop, cursor->primitive, p);
    return;
  }
#endif
  (void)pairs;
  df_prepare_run(desc, df_step_count(desc, cursor), cursor->loop, cursor->primitive, p);
}

/* Varying: loops of the run. */
DF_CORE uint64_t df_step_loops(const df_descriptor *desc, const df_cursor *cursor) {
#if !defined(__CUDACC__)
  const df_pair_counts *pairs = df_step_pairs(desc, cursor);
  uint64_t most = 0;
  for (uint32_t i = 0; pairs && i < desc->pieces; i++) {
    const uint64_t longer = DF_MAX(pairs->of[i].sends, pairs->of[i].receives);
    most =
        DF_MAX(most, (uint64_t)df_part_of_run(desc->parts, longer, 1, desc->element_bytes).loops);
  }
  if (pairs) return most;
#endif
  const uint32_t pieces = df_pieces_of_loop(desc->geometry, desc->pieces);
  return df_part_of_run(desc->parts, df_step_count(desc, cursor), pieces, desc->element_bytes)
      .loops;
}

/* Elements of a pair's first message. */
DF_CORE uint32_t df_step_first_chunk(const df_descriptor *desc, uint64_t count) {
  const df_part part = df_part_of_run(desc->parts, count, 1, desc->element_bytes);
  return df_chunk_elements(desc->geometry, 1, &part, 0, 0);
}

#endif
