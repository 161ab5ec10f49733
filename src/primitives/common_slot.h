/* A step's part in common slots: the owner writes one slot, and several peers read it. The messages
 * of the links lend it. The slots themselves: transports/shm/common_slots.h. */
#ifndef DF_PRIMITIVES_COMMON_SLOT_H
#define DF_PRIMITIVES_COMMON_SLOT_H

#include "context/cursor.h"
#include "context/descriptor.h"
#include "primitives/lanes.h"
#include "primitives/link.h"
#include "primitives/prepared.h"

/* Common slots are not used if buffers may be lent. The acquire observes the words beside the
 * address; the peers have mapped the slots. */
DF_CORE int df_step_has_common(const df_descriptor *desc, const df_run_arguments *run) {
#if defined(__CUDACC__)
  (void)desc;
  (void)run;
  return 0;
#else
  return df_observe_u64(&desc->words->common) != 0 && (run->send_mapping | run->recv_mapping) == 0;
#endif
}

DF_CORE int df_step_uses_common(const df_cursor *cursor, const df_prepared *prim) {
#if defined(__CUDACC__)
  (void)cursor;
  (void)prim;
  return 0;
#else
  return DF_UNLIKELY(prim->common != DF_COMMON_NONE) && cursor->flags & DF_CURSOR_COMMON;
#endif
}

DF_CORE uint8_t *df_step_common_slot(const df_descriptor *desc, uint32_t block,
                                     const df_cursor *cursor, const df_link *link) {
  const df_run_words *words = desc->words;
  uint64_t depth = (uint64_t)words->common_mask + 1;
  uint64_t loops = cursor->run * desc->parts[block].loops + cursor->loop;
  uint64_t slot = block * depth + (loops & words->common_mask);
  return (uint8_t *)(uintptr_t)(df_load_relaxed_u64(&words->common) + slot * link->stride);
}

/* Returns a link whose peer may still read this loop's common slot, or NULL. The slots of former
 * runs have been drained. */
DF_CORE_APART df_link *df_step_common_reader(const df_descriptor *desc, uint32_t block,
                                             const df_cursor *cursor) {
  uint64_t depth = (uint64_t)desc->words->common_mask + 1;
  if (cursor->loop < depth) return NULL;
  const df_primitive *end = desc->primitives + desc->n_primitives;
  for (const df_primitive *prim = desc->primitives + cursor->primitive;
       prim != end && prim->common != DF_COMMON_NONE; prim++) {
    df_link *link = &desc->links[(uint64_t)block * desc->n_links + prim->send_link];
    uint64_t now = df_sequence(cursor, desc->parts[block].loops, link, prim->send_ordinal);
    if (!df_link_is_drained(link, now - depth * link->messages)) return link;
  }
  return NULL;
}

/* Returns the common slot if this message writes it, else NULL. */
DF_CORE_APART uint8_t *df_step_lend_common(const df_descriptor *desc, uint32_t block,
                                           const df_cursor *cursor, const df_prepared *prim,
                                           const df_move *move) {
  uint8_t *common = df_step_common_slot(desc, block, cursor, move->send_link);
  uint8_t *slot = df_link_slot(move->send_link, move->send_sequence);
  *(uint64_t *)(slot + DF_LINK_FLAGGED_OFFSET) =
      (uint64_t)(uintptr_t)common +
      df_load_relaxed_u64(&desc->words->common_mapping[move->send_link->peer]);
  return prim->common == DF_COMMON_WRITES ? common : NULL;
}

#endif
