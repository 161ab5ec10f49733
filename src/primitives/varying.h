/* Runs with fewer elements than registered: their counts, and the records of their primitives. */
#ifndef DF_PRIMITIVES_VARYING_H
#define DF_PRIMITIVES_VARYING_H

#include "context/cursor.h"
#include "primitives/link.h"
#include "primitives/move.h"
#include "primitives/prepared.h"

/* On CUDA no collective varies, and the compiler must be able to remove the code. */
DF_CORE int df_step_varies(const df_descriptor *desc) {
#if defined(__CUDACC__)
  (void)desc;
  return 0;
#else
  return desc->count_step != 0;
#endif
}

/* Varying: number of elements of the run. */
DF_CORE uint64_t df_step_count(const df_descriptor *desc, const df_cursor *cursor) {
  uint64_t count = desc->words->counts[cursor->run % DF_RUNS_AHEAD * desc->count_step];
  return count ? count : desc->count;
}

/* Dynamic all-to-all: the counts of the pairs. NULL: all pairs have the run's count. */
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

/* For varying collectives and dynamic all-to-all. */
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

/* Varying: number of loops of the run. */
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

/* Number of elements of a pair's first message. */
DF_CORE uint32_t df_step_first_chunk(const df_descriptor *desc, uint64_t count) {
  const df_part part = df_part_of_run(desc->parts, count, 1, desc->element_bytes);
  return df_chunk_elements(desc->geometry, 1, &part, 0, 0);
}

/* Varying: returns 1 if the message, which has arrived, contains a different count. *theirs: the
 * count in the message. */
DF_CORE int df_step_counts_differ(const df_descriptor *desc, const df_cursor *cursor,
                                  const df_move *move, uint64_t *theirs) {
  *theirs = 0;
  if (!(move->announces & DF_COUNT_COMES) || move->recv_link == NULL) return 0;
  const uint8_t *slot = df_link_slot(move->recv_link, move->recv_sequence);
  *theirs = df_load_relaxed_u64((const uint64_t *)(slot + DF_LINK_COUNT_OFFSET));
  if (df_step_pairs(desc, cursor)) return *theirs > desc->parts[0].elements;
  return *theirs != df_step_count(desc, cursor);
}

/* Dynamic all-to-all: the first message of a pair contains the pair's count. */
DF_CORE_APART void df_step_take_count(const df_descriptor *desc, const df_cursor *cursor,
                                      df_pair_counts *pairs, df_move *move, uint64_t count) {
  const uint32_t from = desc->primitives[cursor->primitive].destination_piece;
  pairs->of[from].receives = count;
  if (pairs->recv_counts) pairs->recv_counts[from] = (size_t)count;
  df_step_prepare_varying(desc, cursor, &move->worked_out);
  move->count = move->worked_out.count;
}

/* Varying: called before any data of the message is used. If counts differ, the collective is given
 * up, which the next step detects. */
DF_CORE_APART int df_step_agrees(const df_descriptor *desc, const df_cursor *cursor,
                                 df_move *move) {
  uint64_t theirs;
  if (df_step_counts_differ(desc, cursor, move, &theirs)) {
    df_store_relaxed_u64(&desc->counters->differing_count, theirs);
    df_store_relaxed_u32(&desc->counters->differing_rank, move->recv_link->peer);
    df_publish_u32(&desc->words->cancel, dfcclMismatch);
    return 0;
  }
  df_pair_counts *pairs = df_step_pairs(desc, cursor);
  if (pairs && move->announces & DF_COUNT_COMES && move->recv_link)
    /* The value that was checked: it is read only once. */
    df_step_take_count(desc, cursor, pairs, move, theirs);
  if (move->announces & DF_COUNT_GOES && move->send_link)
    *(uint64_t *)(df_link_slot(move->send_link, move->send_sequence) + DF_LINK_COUNT_OFFSET) =
        pairs ? pairs->of[desc->primitives[cursor->primitive].source_piece].sends
              : df_step_count(desc, cursor);
  return 1;
}

#endif
