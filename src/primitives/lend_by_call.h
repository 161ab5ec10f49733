/* A step's part in buffers that are lent by calls (foreign_memory.h): which messages are, and what
 * happens if one cannot be read. On the CPU only. */
#ifndef DF_PRIMITIVES_LEND_BY_CALL_H
#define DF_PRIMITIVES_LEND_BY_CALL_H

#include "context/descriptor.h"
#include "primitives/lanes.h"
#include "primitives/link.h"

#if defined(__CUDACC__)

DF_CORE int df_call_may_lend(const df_link *link, const void *buffer, const void *address,
                             uint64_t bytes, uint64_t *there) {
  (void)link, (void)buffer, (void)address, (void)bytes, (void)there;
  return 0;
}
DF_CORE void df_call_is_mapped(const df_link *link) { (void)link; }
DF_CORE int df_call_may_follow(const df_link *link, uint64_t address, uint64_t bytes,
                               uint32_t element_bytes) {
  (void)link, (void)address, (void)bytes, (void)element_bytes;
  return 0;
}
DF_CORE void df_call_begin(df_lanes *lanes) { (void)lanes; }
DF_CORE int df_call_has_failed(const df_lanes *lanes, const df_move *move) {
  (void)lanes, (void)move;
  return 0;
}
DF_CORE void df_call_give_up(const df_descriptor *desc, const df_move *move,
                             const df_lanes *lanes) {
  (void)desc, (void)move, (void)lanes;
}

#else

#include "primitives/mapped_ranges.h"
#include "primitives/ways.h"

/* The records begin anew, with those of earlier links that lend by calls. */
static inline void df_ways_begin_calls(df_ways *ways) {
  df_ways_close(ways);
  ways->calls.memory = DF_LENDS_BY_CALL;
  ways->tries = DF_WAYS;
  ways->runs.phase = DF_RUNS_UNTIMED;
  ways->record = &ways->at[0];
  ways->n_looks = 0;
  ways->look_at = ways->count;
  df_ways_recall(ways, ways->calls.ways);
}

/* Called for a message that may be lent. Returns 0 if the link lends the other kind of memory. */
static inline int df_ways_lends(df_ways *ways, df_lent_memory memory) {
  if (ways->calls.memory == memory || ways->forced != DF_WAY_BY_TIMES) return 1;
  if (ways->calls.memory == DF_LENDS_ANY && memory == DF_LENDS_BY_CALL) {
    df_ways_begin_calls(ways);
    return 1;
  }
  if (ways->calls.memory == DF_LENDS_ANY) ways->calls.memory = DF_LENDS_MAPPED;
  return memory == DF_LENDS_MAPPED;
}

/* Called by the sender for memory that the peer has not mapped. *there: the marked address. */
DF_CORE_APART int df_call_may_lend(const df_link *link, const void *buffer, const void *address,
                                   uint64_t bytes, uint64_t *there) {
  df_ways *ways = link->ways;
  if (ways == NULL || ways->calls.refusal == NULL || bytes < ways->calls.bytes_min) return 0;
  if (df_load_relaxed_u32(ways->calls.refusal) != 0) return 0;
  if (!df_own_memory_is_readable(buffer, address, bytes)) return 0;
  *there = (uint64_t)(uintptr_t)address | DF_LENT_BY_CALL;
  return df_ways_lends(ways, DF_LENDS_BY_CALL);
}
/* Called by the sender for memory that the peer has mapped. */
DF_CORE void df_call_is_mapped(const df_link *link) {
  if (link->ways && link->ways->calls.memory == DF_LENDS_ANY)
    df_ways_lends(link->ways, DF_LENDS_MAPPED);
}

DF_CORE_APART int df_call_may_follow(const df_link *link, uint64_t address, uint64_t bytes,
                                     uint32_t element_bytes) {
  return df_foreign_memory_may_read(&link->mapped_ranges->foreign, address, bytes, element_bytes);
}

DF_CORE void df_call_begin(df_lanes *lanes) { lanes->unread = 0; }

DF_CORE int df_call_has_failed(const df_lanes *lanes, const df_move *move) {
  return DF_UNLIKELY(lanes->unread != 0) && move->borrows;
}

/* The buffer has been returned, and nothing of the message was committed. The collective is given
 * up: the next step detects it, and the host notifies the members. The peer's later messages go
 * through slots. If the peer has died, this end waits for the report of its death instead. */
DF_CORE_APART void df_call_give_up(const df_descriptor *desc, const df_move *move,
                                   const df_lanes *lanes) {
  df_run_counters *counters = desc->counters;
  df_foreign_memory *memory = &move->recv_link->mapped_ranges->foreign;
  if (!df_foreign_memory_is_lost(memory, lanes->unread)) return;
  df_store_relaxed_u32(memory->refusal, 1);
  /* Another block may have given up at the same time. */
  if (df_system_exchange_u32(&counters->unread_error, (uint32_t)lanes->unread) != 0) return;
  df_store_relaxed_u64(&counters->unread_address,
                       (uint64_t)(uintptr_t)move->lent & ~DF_LENT_BY_CALL);
  df_store_relaxed_u32(&counters->unread_rank, move->recv_link->peer);
  df_system_claim_u32(&desc->words->cancel, 0, dfcclRemoteError);
}

#endif
#endif
