/* The step function makes one attempt at one primitive. It never waits. */
#ifndef DF_PRIMITIVES_STEP_H
#define DF_PRIMITIVES_STEP_H

#include "dfccl.h"

#include "context/cursor.h"
#include "context/descriptor.h"
#include "primitives/common_slot.h"
#include "primitives/drain.h"
#include "primitives/keep.h"
#include "primitives/lanes.h"
#include "primitives/link.h"
#include "primitives/lend_by_call.h"
#include "primitives/measure.h"
#include "primitives/move.h"
#include "primitives/prepared.h"
#include "primitives/varying.h"
#include "primitives/mapped_ranges.h"

typedef enum {
  DF_STEP_PROGRESSED,
  DF_STEP_BLOCKED,   /* nothing has been changed */
  DF_STEP_DONE,      /* the block has finished the run */
  DF_STEP_CANCELLED, /* nothing has been changed */
  DF_STEP_MOVE       /* internal: the leader has decided, and the lanes execute */
} df_step_result;

/* On CUDA no records are kept, and the compiler must be able to remove the code. */
DF_CORE int df_step_keeps(const df_descriptor *desc) {
#if defined(__CUDACC__)
  (void)desc;
  return 0;
#else
  return DF_LIKELY(desc->prepared != NULL);
#endif
}

/* Returns the kept record, or the first half of a new one, or the whole record of a varying run. */
DF_CORE const df_prepared *df_step_prepare(const df_descriptor *desc, uint32_t block,
                                           const df_cursor *cursor, df_prepared *worked_out) {
  if (df_step_keeps(desc)) return &desc->prepared[cursor->primitive];
  if (df_step_varies(desc)) {
    df_step_prepare_varying(desc, cursor, worked_out);
    return worked_out;
  }
  df_prepare_messages(desc, block, cursor->loop, cursor->primitive, worked_out);
  return worked_out;
}

/* On CUDA the record stays in shared memory until the cursor moves, so that a poll reads less. */
DF_CORE const df_prepared *df_step_prepare_once(const df_descriptor *desc, uint32_t block,
                                                const df_cursor *cursor, df_move *move) {
#if defined(__CUDACC__)
  if (move->is_prepared) return &move->worked_out;
  move->is_prepared = 1;
#endif
  return df_step_prepare(desc, block, cursor, &move->worked_out);
}

DF_CORE uint8_t *df_step_locate(const df_cursor *cursor, uint8_t buffer, uint64_t at) {
  return (uint8_t *)((uintptr_t)cursor->buffers[buffer] + at);
}

/* All arguments are read before any is used, because a GPU without a relay reads them across the
 * bus. */
DF_CORE df_run_arguments df_step_arguments(const df_descriptor *desc, const df_cursor *cursor) {
#if defined(__CUDACC__)
  if (desc->near_runs) return desc->near_runs[cursor->run % DF_RUNS_AHEAD];
#endif
  return desc->words->runs[cursor->run % DF_RUNS_AHEAD];
}

/* Returns 0 while a stream has not produced the input. */
DF_CORE int df_step_has_input(const df_descriptor *desc, const df_run_arguments *run) {
  const uint32_t stream_event = run->stream_event;
  if (DF_LIKELY(stream_event == 0)) return 1;
  /* The acquire observes the stream's write, so the stream's earlier work precedes the reads here.
   * */
  return df_stream_event_has_come(
      stream_event, df_observe_u64(&desc->inputs[df_stream_event_index(stream_event)]));
}

/* Returns 1 if a run that has not begun has its input. */
DF_CORE int df_step_may_begin(const df_descriptor *desc, const df_cursor *cursor) {
  const df_run_arguments run = df_step_arguments(desc, cursor);
  return df_step_has_input(desc, &run);
}

DF_CORE uint32_t df_step_first_phase(const df_descriptor *desc, uint32_t block) {
  return df_step_keeps(desc) || (desc->parts[block].loops && desc->n_primitives) ? DF_PHASE_MOVE
                                                                                 : DF_PHASE_DRAIN;
}

DF_CORE void df_step_begin(const df_descriptor *desc, uint32_t block, df_cursor *cursor,
                           const df_run_arguments *run) {
  cursor->buffers[DF_BUFFER_NONE] = NULL;
  cursor->buffers[DF_BUFFER_INPUT] = (uint8_t *)(uintptr_t)run->send;
  cursor->buffers[DF_BUFFER_OUTPUT] = (uint8_t *)run->recv;
  cursor->buffers[DF_BUFFER_SCRATCH] =
      (uint8_t *)((uintptr_t)desc->scratch + block * desc->scratch_bytes);
  cursor->send_mapping = run->send_mapping;
  cursor->recv_mapping = run->recv_mapping;
  cursor->flags = run->send == run->recv ? DF_CURSOR_IN_PLACE : 0;
  if (df_step_has_common(desc, run)) cursor->flags |= DF_CURSOR_COMMON;
  cursor->loop = 0;
  cursor->primitive = 0;
  cursor->phase = df_step_first_phase(desc, block);
}

/* Whether the block first copies the input of this run. */
DF_CORE int df_step_keeps_input(const df_descriptor *desc, const df_cursor *cursor) {
#if defined(__CUDACC__)
  (void)desc, (void)cursor;
  return 0;
#else
  return DF_UNLIKELY(desc->lends & DF_SURVIVES) &&
         desc->survivors->kept[cursor->run % DF_RUNS_AHEAD].copy != NULL;
#endif
}

#if !defined(__CUDACC__)
DF_CORE_APART df_step_result df_step_keep_input(const df_descriptor *desc, uint32_t block,
                                                df_cursor *cursor) {
  if (df_step_keep(desc, block, cursor)) cursor->phase = df_step_first_phase(desc, block);
  return DF_STEP_PROGRESSED;
}
#endif

/* Whether the block has all data of the run, and only waits until the other members have theirs (a
 * settling round, plans/algorithms/settle.c) or until lent buffers are returned. */
DF_CORE int df_step_has_data(const df_descriptor *desc, uint32_t block, const df_cursor *cursor) {
  if (cursor->phase == DF_PHASE_DRAIN) return 1;
  if (cursor->phase != DF_PHASE_MOVE ||
      desc->primitives[cursor->primitive].piece != DF_PIECE_SETTLES)
    return 0;
  const uint64_t loops =
      df_step_varies(desc) ? df_step_loops(desc, cursor) : desc->parts[block].loops;
  return cursor->loop + 1 == loops;
}

/* Varying: returns 1 if the run has no further loop. It then releases the message numbers that the
 * run has not used; otherwise the peers would wait for their credit in the next run. */
DF_CORE_APART int df_step_ends_early(const df_descriptor *desc, const df_cursor *cursor,
                                     df_lanes *lanes) {
  if (cursor->loop < df_step_loops(desc, cursor)) return 0;
  for (uint32_t i = 0; i < desc->n_links; i++) {
    df_link *link = &desc->links[i];
    if (link->sends || link->messages == 0) continue;
    DF_ASSERT(link->release_mask == 0);
    df_link_release(link, (cursor->run + 1) * desc->parts[0].loops * link->messages);
    df_lanes_note_peer(lanes, link);
  }
  return 1;
}

DF_CORE df_step_result df_step_advance(const df_descriptor *desc, const df_part *part,
                                       df_cursor *cursor, df_lanes *lanes) {
  if (++cursor->primitive < desc->n_primitives) return DF_STEP_PROGRESSED;
  cursor->primitive = 0;
  if (++cursor->loop < part->loops &&
      !(df_step_varies(desc) && df_step_ends_early(desc, cursor, lanes)))
    return DF_STEP_PROGRESSED;
  if (cursor->flags & DF_CURSOR_DIRECT_SENT) {
    cursor->phase = DF_PHASE_DRAIN;
    return DF_STEP_PROGRESSED;
  }
  return DF_STEP_DONE;
}

/* *there: the address as the receiver sees it. */
DF_CORE int df_step_may_lend(const df_descriptor *desc, const df_cursor *cursor,
                             const df_link *link, uint8_t buffer, const uint8_t *address,
                             uint64_t bytes, uint64_t *there) {
  if (address == NULL) return 0;
  if ((cursor->flags & DF_CURSOR_IN_PLACE) && !(desc->lends & DF_LENDS_IN_PLACE)) return 0;
  uint64_t delta = 0;
  if (!link->same_process) {
    uint16_t number = buffer == DF_BUFFER_INPUT ? cursor->send_mapping : cursor->recv_mapping;
    const uint64_t *mapping = number ? desc->mappings[number] : NULL;
    delta = mapping ? df_observe_u64(&mapping[link->peer]) : DF_NOT_MAPPED;
    if (delta == DF_NOT_MAPPED)
      return df_call_may_lend(link, cursor->buffers[buffer], address, bytes, there);
    df_call_is_mapped(link);
  }
  *there = (uint64_t)(uintptr_t)address + delta;
  return 1;
}

/* A result that is computed in place has just been read, so bypassing the caches would gain
 * nothing. */
DF_CORE int df_step_is_streamed(const df_move *move) {
  return move->stream && move->store != move->a && move->store != move->b;
}

/* The address is read only once, because the peer could change it after the check. A message with
 * an invalid address is not accepted, and this end continues to wait. */
DF_CORE int df_step_may_follow(const df_descriptor *desc, const df_link *link, uint64_t sequence,
                               uint64_t elements, df_move *move) {
  const uint8_t *slot = df_link_slot(link, sequence);
  uint64_t bytes = elements * desc->element_bytes;
  uint64_t address = df_load_relaxed_u64((const uint64_t *)(slot + DF_LINK_FLAGGED_OFFSET));
  move->lent = (const void *)(uintptr_t)address;
  if (DF_UNLIKELY(address & DF_LENT_BY_CALL) && link->mapped_ranges)
    return df_call_may_follow(link, address, bytes, desc->element_bytes);
  return link->mapped_ranges == NULL ||
         (address % desc->element_bytes == 0 &&
          df_mapped_ranges_cover(link->mapped_ranges, address, bytes));
}

DF_CORE int df_step_links_ready(const df_descriptor *desc, uint32_t block, const df_cursor *cursor,
                                const df_prepared *prim, df_move *move, int *received_direct) {
  if (prim->recv_link) {
    move->recv_link = prim->recv_link;
    move->recv_sequence = df_sequence(cursor, prim->loops, move->recv_link, prim->recv_ordinal);
    if (move->announces & DF_MESSAGE_COMES &&
        !df_link_has_message(move->recv_link, move->recv_sequence, received_direct))
      return 0;
    if (move->announces & DF_MESSAGE_COMES && *received_direct) {
      uint64_t theirs;
      if (df_step_varies(desc) && df_step_counts_differ(desc, cursor, move, &theirs)) {
        *received_direct = 0; /* the message has a different length: df_step_agrees gives
                                 the run up */
        return 1;
      }
      uint64_t elements = df_prepared_elements(prim);
      if (df_step_varies(desc) && move->announces & DF_COUNT_COMES && df_step_pairs(desc, cursor))
        elements = df_step_first_chunk(desc, theirs);
      if (df_link_is_revoked(move->recv_link)) return 0;
      if (!df_step_may_follow(desc, move->recv_link, move->recv_sequence, elements, move)) return 0;
    }
  }
  if (prim->send_link) {
    move->send_link = prim->send_link;
    move->send_sequence = df_sequence(cursor, prim->loops, move->send_link, prim->send_ordinal);
    if (move->announces & DF_MESSAGE_GOES &&
        !df_link_may_send(move->send_link, move->send_sequence))
      return 0;
    if (prim->common == DF_COMMON_WRITES && df_step_uses_common(cursor, prim)) {
      df_link *reader = df_step_common_reader(desc, block, cursor);
      if (reader) move->send_link = reader; /* the link to wait for */
      if (reader) return 0;
    }
  }
  return 1;
}

/* Returns 1 if the message can lend its buffer. *there: the address as the receiver sees it. */
DF_CORE_APART int df_step_can_lend(const df_descriptor *desc, const df_cursor *cursor,
                                   const df_prepared *prim, const df_move *move, uint64_t *there) {
  int computed = df_prim_computes(prim->flags);
  if (!(desc->lends & DF_LENDS_STREAMED) && computed && df_step_is_streamed(move)) return 0;
  uint8_t buffer = computed ? prim->destination : prim->source;
  const uint8_t *address =
      df_step_locate(cursor, buffer, computed ? prim->destination_at : prim->source_at);
  return df_step_may_lend(desc, cursor, move->send_link, buffer, address,
                          move->count * desc->element_bytes, there);
}

DF_CORE void df_step_set_operands(const df_descriptor *desc, const df_cursor *cursor,
                                  const df_prepared *prim, df_move *move) {
  const uint8_t *source = df_step_locate(cursor, prim->source, prim->source_at);
  uint8_t *destination = df_step_locate(cursor, prim->destination, prim->destination_at);
  const uint8_t *a = source, *b = source;
  uint8_t *store = prim->flags & DF_PRIM_STORE ? destination : NULL;
  if (prim->recv_link) {
    a = move->borrows ? (const uint8_t *)move->lent
                      : df_link_payload(prim->recv_link, move->recv_sequence);
    if (prim->flags & DF_PRIM_SOURCE_FIRST) {
      b = a;
      a = source;
    }
  } else if (prim->flags & DF_PRIM_REDUCE) {
    a = destination;
  }
  if (store == a && prim->kind == DF_MOVE_COPY) store = NULL; /* in place */
  move->type = desc->type;
  move->op = desc->op;
  move->element_bytes = desc->element_bytes;
  move->divisor = desc->divisor;
  /* Lines of a lent buffer are not in this processor's caches, even in place. */
  move->stream =
      desc->stream != DF_STREAM_NEVER &&
      (desc->stream == DF_STREAM_ALWAYS || move->borrows || !(cursor->flags & DF_CURSOR_IN_PLACE));
  move->a = a;
  move->b = b;
  move->store = store;
}

/* Returns the slot that the move writes, or NULL. */
DF_CORE uint8_t *df_step_set_message(const df_descriptor *desc, uint32_t block,
                                     const df_cursor *cursor, const df_prepared *prim,
                                     df_move *move) {
  const uint64_t bytes = move->count * desc->element_bytes;
  uint64_t there = 0;
  if (df_step_uses_common(cursor, prim)) {
    move->lends = 1;
    df_measure_common(move, prim->common == DF_COMMON_WRITES, cursor->run, bytes);
    return df_step_lend_common(desc, block, cursor, prim, move);
  }
  const int can_lend = prim->may_lend && df_step_can_lend(desc, cursor, prim, move, &there);
  if (!df_measure_choose_way(move, cursor->run, can_lend, bytes)) {
#if defined(__CUDACC__)
    DF_ASSERT(bytes <= prim->send_link->stride); /* the message fits its slot */
#endif
    return df_link_payload(prim->send_link, move->send_sequence);
  }
  *(uint64_t *)(df_link_slot(move->send_link, move->send_sequence) + DF_LINK_FLAGGED_OFFSET) =
      there;
  move->lends = 1;
  if (df_prim_computes(prim->flags)) move->stream = 0; /* the peer reads the result next */
  if (prim->flags & DF_PRIM_STORE_TO_LEND)
    move->store = df_step_locate(cursor, prim->destination, prim->destination_at);
  return NULL;
}

#if defined(__CUDACC__)
DF_CORE void df_step_move_pieces(const df_descriptor *desc, uint32_t block, const df_cursor *cursor,
                                 const df_prepared *prim, df_move *move, df_lanes *lanes) {
  (void)desc, (void)block, (void)cursor, (void)prim, (void)move, (void)lanes;
}
#else
/* CPU: moves pieces that are not side by side, one after the other, packed in the message. All data
 * is moved at once, so the caller's move has nothing left to do. */
DF_CORE_APART void df_step_move_pieces(const df_descriptor *desc, uint32_t block,
                                       const df_cursor *cursor, const df_prepared *prim,
                                       df_move *move, df_lanes *lanes) {
  const df_primitive *planned = &desc->primitives[cursor->primitive];
  const uint64_t count = df_step_varies(desc) ? df_step_count(desc, cursor) : desc->count;
  const uint32_t pieces = df_pieces_of_loop(desc->geometry, desc->pieces);
  const df_part part = df_step_varies(desc)
                           ? df_part_of_run(desc->parts, count, pieces, desc->element_bytes)
                           : desc->parts[block];
  uint8_t *slot = prim->send_link ? df_link_payload(prim->send_link, move->send_sequence) : NULL;
  const uint8_t *received = NULL;
  if (slot)
    df_measure_choose_way(move, cursor->run, 0, (uint64_t)prim->multi_piece * desc->element_bytes);
  const uint64_t begin = df_measure_begin(move);
  if (prim->recv_link)
    received = move->borrows ? (const uint8_t *)move->lent
                             : df_link_payload(prim->recv_link, move->recv_sequence);
  df_move row = *move;
  df_prepared record = *prim;
  for (uint32_t at = 0, done = 0; at < planned->pieces; at++, done += record.count) {
    record.count = df_piece_elements(desc, &part, cursor->loop,
                                     df_piece_further(desc->geometry, desc->pieces, planned->stride,
                                                      DF_BUFFER_NONE, planned->piece, at));
    if (record.count == 0) continue;
    record.source_at = df_offset_of_piece(desc, &part, count, cursor->loop, planned,
                                          planned->source, planned->source_piece, at);
    record.destination_at =
        df_offset_of_piece(desc, &part, count, cursor->loop, planned, planned->destination,
                           planned->destination_piece, at);
    const uint64_t packed_at = (uint64_t)done * desc->element_bytes;
    row.borrows = 1; /* the received piece is at row.lent, and no store is left for later */
    row.lent = received ? received + packed_at : NULL;
    df_step_set_operands(desc, cursor, &record, &row);
    row.count = record.count;
    row.stream = 0;
    row.slot = slot ? slot + packed_at : NULL;
    row.kind = row.store || row.slot ? prim->kind : DF_MOVE_NOTHING;
    df_move_any(lanes, &row);
  }
  move->count = prim->multi_piece;
  move->element_bytes = desc->element_bytes;
  if (begin != 0) df_measure_end(move, begin);
  move->measures = 0;
}
#endif

/* Called by the leader. Fills *move if it returns DF_STEP_MOVE. */
DF_CORE df_step_result df_step_decide(const df_descriptor *desc, uint32_t block, df_cursor *cursor,
                                      df_move *move, df_lanes *lanes) {
  move->recv_link = move->send_link = NULL; /* early returns need them */
  if (DF_UNLIKELY(df_lanes_attend(lanes) && df_load_relaxed_u32(&desc->words->cancel) != 0))
    return df_step_take_back(desc, block, cursor) ? DF_STEP_CANCELLED : DF_STEP_BLOCKED;
  if (cursor->phase == DF_PHASE_BEGIN) {
    const df_run_arguments run = df_step_arguments(desc, cursor);
    if (!df_step_has_input(desc, &run)) {
      df_lanes_note_no_input(lanes);
      return DF_STEP_BLOCKED;
    }
    df_step_begin(desc, block, cursor, &run);
    if (df_step_keeps_input(desc, cursor)) cursor->phase = DF_PHASE_KEEP;
  }
#if !defined(__CUDACC__)
  if (DF_UNLIKELY(cursor->phase == DF_PHASE_KEEP)) return df_step_keep_input(desc, block, cursor);
#endif
  if (cursor->phase == DF_PHASE_DRAIN) {
    move->send_link = df_step_undrained(desc, block, cursor); /* the link to wait for */
    return move->send_link ? DF_STEP_BLOCKED : DF_STEP_DONE;
  }

  const df_prepared *prim = df_step_prepare_once(desc, block, cursor, move);
  int received_direct = 0;
  move->count = prim->count;
  move->announces = prim->announces;
  if (!df_step_links_ready(desc, block, cursor, prim, move, &received_direct))
    return DF_STEP_BLOCKED;
  if (DF_UNLIKELY(prim == &move->worked_out)) {
    if (!df_step_varies(desc))
      df_prepare_move(desc, block, cursor->loop, cursor->primitive, &move->worked_out);
    else if (!df_step_agrees(desc, cursor, move))
      return DF_STEP_BLOCKED;
  }
  df_lanes_note_flags(move);
  move->borrows = (uint32_t)received_direct;
  if (received_direct && !df_link_borrow(move->recv_link)) return DF_STEP_BLOCKED;

  df_call_begin(lanes);
  move->lends = 0;
  move->kind = DF_MOVE_NOTHING;
  df_measure_received(move);
  if (prim->count == 0) {
    if (df_prepared_elements(prim)) df_step_move_pieces(desc, block, cursor, prim, move, lanes);
    return DF_STEP_MOVE;
  }
  df_step_set_operands(desc, cursor, prim, move);
  move->slot = prim->send_link ? df_step_set_message(desc, block, cursor, prim, move) : NULL;
  if (move->store || move->slot) move->kind = prim->kind;
  return DF_STEP_MOVE;
}

/* Called by the leader. Announces the message, and then moves the data for which no peer waits. */
DF_CORE df_step_result df_step_commit(const df_descriptor *desc, uint32_t block, df_cursor *cursor,
                                      const df_move *move, df_lanes *lanes) {
  /* The owner of the buffer has given the run up, so this rank will give it up too. */
  if (move->borrows && !df_link_return(move->recv_link)) return DF_STEP_BLOCKED;
  if (df_call_has_failed(lanes, move)) {
    df_call_give_up(desc, move, lanes);
    return DF_STEP_BLOCKED;
  }
  if (move->send_link && move->announces & DF_MESSAGE_GOES) {
    df_link_publish(move->send_link, move->send_sequence, df_measure_tag(move));
    df_lanes_note_peer(lanes, move->send_link);
    if (move->lends) cursor->flags |= DF_CURSOR_DIRECT_SENT;
  }
  df_move_finish(lanes, move); /* may read the received message */
  if (move->recv_link) {
    if (df_link_release(move->recv_link, move->recv_sequence))
      df_lanes_note_peer(lanes, move->recv_link);
  }
  df_lanes_forget_prepared(lanes);
  return df_step_advance(desc, &desc->parts[block], cursor, lanes);
}

/* Called by all lanes. No barrier follows the lanes' reads of the leader's words, because a later
 * barrier precedes each rewrite. The other lanes read the rest of *move only between the first two
 * barriers. */
DF_CORE df_step_result df_coll_step(const df_descriptor *desc, uint32_t block, df_cursor *cursor,
                                    df_lanes *lanes) {
  df_move *move = lanes->move;
  const uint32_t word = df_lanes_alternate(lanes);
  if (df_lanes_leads(lanes))
    move->decided[word] =
        df_lanes_with_stop(move, df_step_decide(desc, block, cursor, move, lanes));
  df_lanes_sync(lanes);
  df_step_result decided = (df_step_result)df_lanes_take_stop(lanes, move->decided[word]);
  if (decided != DF_STEP_MOVE) return decided;
  /* Parts of the message have not arrived yet. */
  if (!df_move_has_arrived(lanes, move)) return DF_STEP_BLOCKED;
  const uint64_t begin = df_measure_begin(move);
  df_move_execute(lanes, move);
  if (DF_UNLIKELY(begin != 0)) df_measure_end(move, begin);
  df_lanes_complete_move(lanes);
  if (df_lanes_leads(lanes)) move->committed = df_step_commit(desc, block, cursor, move, lanes);
  df_lanes_sync(lanes);
  return (df_step_result)move->committed;
}

/* Called for a daemon that is about to sleep. Changes nothing. */
DF_CORE int df_coll_is_runnable(const df_descriptor *desc, uint32_t block, const df_cursor *saved) {
  if (df_load_relaxed_u32(&desc->words->cancel) != 0) return 1;
  df_cursor cursor = *saved;
  if (cursor.phase == DF_PHASE_BEGIN) {
    const df_run_arguments run = df_step_arguments(desc, &cursor);
    if (!df_step_has_input(desc, &run)) return 0;
    df_step_begin(desc, block, &cursor, &run);
    if (df_step_keeps_input(desc, &cursor)) return 1;
  }
  if (cursor.phase == DF_PHASE_KEEP) return 1;
  if (cursor.phase == DF_PHASE_DRAIN) return !df_step_undrained(desc, block, &cursor);
  df_move look;
  const df_prepared *prim = df_step_prepare(desc, block, &cursor, &look.worked_out);
  int direct = 0;
  look.recv_link = look.send_link = NULL;
  look.count = prim->count;
  look.announces = prim->announces;
  return df_step_links_ready(desc, block, &cursor, prim, &look, &direct);
}

#endif
