/* A record of the work of a step in one loop of one block, valid for every run. A CPU device keeps
 * the records of short collectives, where the number of instructions matters. */
#ifndef DF_PRIMITIVES_PREPARED_H
#define DF_PRIMITIVES_PREPARED_H

#include "context/cursor.h"
#include "context/descriptor.h"
#include "primitives/link.h"
#include "primitives/elements/types.h"

/* The number of a message of this loop, from 1. */
DF_CORE uint64_t df_sequence(const df_cursor *cursor, uint32_t loops, const df_link *link,
                             uint16_t ordinal) {
  return (cursor->run * loops + cursor->loop) * link->messages + ordinal + 1;
}

typedef enum {
  DF_MOVE_NOTHING,
  DF_MOVE_COPY,
  DF_MOVE_REDUCE,
  DF_MOVE_REDUCE_AVERAGE,
  DF_MOVE_DIVIDE,
  /* CPU only (primitives/user_operator.h): */
  DF_MOVE_USER_OPERATOR, /* a (op) b */
  DF_MOVE_SCALE,         /* a times the scalar */
  DF_MOVE_REDUCE_SCALED  /* a + (b times the scalar) */
} df_move_kind;

/* The messages of a step. Empty messages are not sent. */
typedef enum {
  DF_MESSAGE_COMES = 1,
  DF_MESSAGE_GOES = 2,
  DF_COUNT_COMES = 4, /* the received message contains its run's count */
  DF_COUNT_GOES = 8
} df_prepared_messages;

typedef struct DF_ALIGNED(64) df_prepared {
  df_link *recv_link, *send_link;     /* NULL: there is none */
  uint64_t source_at, destination_at; /* offsets in their buffers, in bytes */
  uint32_t count;                     /* number of elements; 0: the message is empty and not sent */
  uint32_t loops;
  uint16_t recv_ordinal, send_ordinal; /* number of the message within the loop, on that link */
  uint8_t source, destination;         /* df_buffer */
  uint8_t flags;                       /* df_prim_flags */
  uint8_t kind;                        /* df_move_kind */
  uint8_t may_lend;                    /* 1: the message may be lent, if the run allows it */
  uint8_t common;                      /* df_common_use, if the run allows it */
  uint8_t announces;                   /* df_prepared_messages */
  /* Number of elements of a message whose pieces are not side by side. Then count is 0, so that a
   * step of one piece has no additional cost. Always 0 on CUDA. */
  uint32_t multi_piece;
} df_prepared;
DF_STATIC_ASSERT(sizeof(df_prepared) == 64, "a prepared primitive is one cache line");

/* Most records of one collective: 1 KB. */
enum { DF_PREPARED_MOST = 16 };

DF_CORE uint32_t df_chunk_elements(uint8_t geometry, uint32_t pieces, const df_part *part,
                                   uint32_t loop, uint32_t piece) {
  uint64_t start = geometry == DF_GEOMETRY_PARTITION
                       ? ((uint64_t)loop * pieces + piece) * part->chunk
                       : (uint64_t)loop * part->chunk;
  if (DF_UNLIKELY(geometry == DF_GEOMETRY_GRID))
    start = ((uint64_t)loop * pieces + piece % pieces) * part->chunk;
  if (start >= part->elements) return 0;
  return (uint32_t)DF_MIN(part->elements - start, (uint64_t)part->chunk);
}
/* The number of a message's piece `at` in a buffer; for DF_BUFFER_NONE, the number that decides its
 * length. A row of pieces is a circle, except in scratch memory and with GRID. */
DF_CORE uint32_t df_piece_further(uint8_t geometry, uint32_t pieces, uint32_t stride,
                                  uint8_t buffer, uint32_t first, uint32_t at) {
  const uint32_t further = first + at * stride;
  return buffer == DF_BUFFER_SCRATCH || geometry == DF_GEOMETRY_GRID ? further : further % pieces;
}

/* The number of elements of a message of n pieces; n 0 and 1: of its only piece. */
DF_CORE uint32_t df_message_elements(uint8_t geometry, uint32_t pieces, const df_part *part,
                                     uint32_t loop, uint32_t piece, uint32_t n, uint32_t stride) {
  uint32_t elements = df_chunk_elements(geometry, pieces, part, loop, piece);
  for (uint32_t at = 1; at < n; at++)
    elements +=
        df_chunk_elements(geometry, pieces, part, loop,
                          df_piece_further(geometry, pieces, stride, DF_BUFFER_NONE, piece, at));
  return elements;
}

/* Number of pieces that one loop takes from a part. */
DF_CORE uint32_t df_pieces_of_loop(uint8_t geometry, uint32_t pieces) {
  return geometry == DF_GEOMETRY_PARTITION || geometry == DF_GEOMETRY_GRID ? pieces : 1;
}

DF_CORE const df_extent *df_extent_of(const df_descriptor *desc, uint32_t piece) {
  return (const df_extent *)(desc->parts + 1) + piece;
}
DF_CORE uint32_t df_piece_elements(const df_descriptor *desc, const df_part *part, uint32_t loop,
                                   uint32_t piece) {
  if (DF_UNLIKELY(desc->geometry == DF_GEOMETRY_PIECE_TABLE))
    return df_extent_of(desc, piece)->elements;
  return df_chunk_elements(desc->geometry, desc->pieces, part, loop, piece);
}

/*
 * Varying: the part of one run, made from the collective's only part. It is cut as df_shape_make
 * cuts, so no chunk is longer than the registered one, and no loop is empty. Message numbers leave
 * room for all registered loops.
 */
DF_CORE df_part df_part_of_run(const df_part *whole, uint64_t count, uint32_t pieces,
                               uint32_t element_bytes) {
  df_part part = *whole;
  if (count == whole->elements) return part;
  if (count == 0) { /* the count of a pair; or a malformed count from a peer */
    part.elements = part.loops = 0;
    return part;
  }
  const uint32_t grain = DF_CACHE_LINE / element_bytes;
  const uint64_t loops = DF_DIV_UP(count, (uint64_t)whole->chunk * pieces);
  const uint64_t chunk = DF_ALIGN_UP(DF_DIV_UP(count, loops * pieces), (uint64_t)grain);
  part.elements = count;
  part.chunk = (uint32_t)DF_MIN(chunk, (uint64_t)whole->chunk);
  part.loops = (uint32_t)DF_DIV_UP(count, (uint64_t)part.chunk * pieces);
  return part;
}

/* Varying: returns 1 if this message contains the run's count. The first message of each link does,
 * so members compare counts before they use data. */
DF_CORE int df_brings_count(uint32_t loop, uint32_t ordinal, uint32_t piece) {
  return loop == 0 && (ordinal == 0 || piece == DF_PIECE_NONE);
}

/* The number of the piece in a buffer that has the layout of the registration, from which members
 * have been lost since. */
DF_CORE uint32_t df_place_of_piece(const df_descriptor *desc, uint8_t buffer, uint32_t piece) {
#if defined(__CUDACC__)
  (void)desc, (void)buffer;
#else
  if (DF_UNLIKELY(desc->lends & DF_SURVIVES)) {
    const uint32_t *places = desc->survivors->places[buffer == DF_BUFFER_OUTPUT];
    if (places) return places[piece];
  }
#endif
  return piece;
}

/* The offset of a piece in its buffer, in bytes. count: elements of a piece. */
DF_CORE uint64_t df_piece_offset(const df_descriptor *desc, const df_part *part, uint64_t count,
                                 uint32_t loop, uint8_t buffer, uint32_t piece) {
  if (DF_UNLIKELY(desc->geometry == DF_GEOMETRY_PIECE_TABLE))
    return df_extent_of(desc, piece)->at * desc->element_bytes;
  if (desc->geometry == DF_GEOMETRY_PARTITION)
    return (part->first + ((uint64_t)loop * desc->pieces + piece) * part->chunk) *
           desc->element_bytes;
  uint32_t row = piece;
  uint64_t start = part->first + (uint64_t)loop * part->chunk;
  if (DF_UNLIKELY(desc->geometry == DF_GEOMETRY_GRID)) {
    row = piece / desc->pieces;
    start = part->first + ((uint64_t)loop * desc->pieces + piece % desc->pieces) * part->chunk;
  }
  start += df_place_of_piece(desc, buffer, row) * count;
  return start * desc->element_bytes;
}

DF_CORE uint64_t df_buffer_offset(const df_descriptor *desc, const df_part *part, uint64_t count,
                                  uint32_t loop, uint8_t buffer, uint32_t piece) {
  if (buffer == DF_BUFFER_NONE) return 0;
  if (buffer == DF_BUFFER_SCRATCH) return (uint64_t)piece * part->chunk * desc->element_bytes;
  return df_piece_offset(desc, part, count, loop, buffer, piece);
}

DF_CORE uint8_t df_move_kind_of(uint8_t flags) {
  if (flags & DF_PRIM_REDUCE)
    return flags & DF_PRIM_AVERAGE ? DF_MOVE_REDUCE_AVERAGE : DF_MOVE_REDUCE;
  return flags & DF_PRIM_AVERAGE ? DF_MOVE_DIVIDE : DF_MOVE_COPY;
}

/* Returns 1 if the result is computed. Such a message lends its destination, other messages their
 * source. */
DF_CORE int df_prim_computes(uint8_t flags) {
  return (flags & (DF_PRIM_RECV | DF_PRIM_REDUCE | DF_PRIM_AVERAGE)) != 0;
}

#if !defined(__CUDACC__)
/* A source in the input is multiplied wherever it is used. Its operator, the sum, commutes, so the
 * source can always be the second operand. A message that is sent directly from the input must not
 * be lent, because the peer needs the multiplied values. */
static inline void df_prepare_user_operator(const df_descriptor *desc, const df_primitive *prim,
                                            df_prepared *p) {
  if (desc->op == DF_OPERATOR_USER && prim->flags & DF_PRIM_REDUCE) p->kind = DF_MOVE_USER_OPERATOR;
  const int reads = !(prim->flags & DF_PRIM_RECV) || prim->flags & DF_PRIM_REDUCE;
  if (!(desc->lends & DF_SCALES_INPUT) || prim->source != DF_BUFFER_INPUT || !reads) return;
  p->kind = prim->flags & DF_PRIM_REDUCE ? DF_MOVE_REDUCE_SCALED : DF_MOVE_SCALE;
  p->flags &= (uint8_t)~DF_PRIM_SOURCE_FIRST;
  if (!df_prim_computes(prim->flags)) p->may_lend = 0;
}
#endif

/* Returns 1 if the message is long enough to be lent. */
DF_CORE int df_prepared_is_long(const df_descriptor *desc, const df_prepared *p) {
  const uint64_t bytes = (uint64_t)p->count * desc->element_bytes;
  return p->send_link && bytes >= desc->direct_min && bytes >= p->send_link->lend_min &&
         !p->send_link->release_mask;
}

/* DF_COMMON_NONE if the message is never lent. */
DF_CORE uint8_t df_prepare_common(const df_descriptor *desc, const df_primitive *prim,
                                  const df_prepared *p) {
#if defined(__CUDACC__)
  (void)desc;
  (void)prim;
  (void)p;
  return DF_COMMON_NONE;
#else
  return df_prepared_is_long(desc, p) ? prim->common : DF_COMMON_NONE;
#endif
}

#if !defined(__CUDACC__)
/* The offset of piece `at` in its buffer, in bytes. */
static inline uint64_t df_offset_of_piece(const df_descriptor *desc, const df_part *part,
                                          uint64_t count, uint32_t loop, const df_primitive *prim,
                                          uint8_t buffer, uint32_t first, uint32_t at) {
  return df_buffer_offset(
      desc, part, count, loop, buffer,
      df_piece_further(desc->geometry, desc->pieces, prim->stride, buffer, first, at));
}

/* Pieces that are side by side in every place count as one long piece. */
DF_CORE_APART void df_prepare_pieces(const df_descriptor *desc, const df_part *part, uint64_t count,
                                     uint32_t loop, const df_primitive *prim, df_prepared *p) {
  uint64_t source = 0, destination = 0, elements = 0;
  int together = 1;
  for (uint32_t at = 0; at < prim->pieces; at++) {
    const uint32_t piece = df_piece_further(desc->geometry, desc->pieces, prim->stride,
                                            DF_BUFFER_NONE, prim->piece, at);
    const uint32_t n = df_piece_elements(desc, part, loop, piece);
    if (n == 0) continue;
    const uint64_t from =
        df_offset_of_piece(desc, part, count, loop, prim, prim->source, prim->source_piece, at);
    const uint64_t to = df_offset_of_piece(desc, part, count, loop, prim, prim->destination,
                                           prim->destination_piece, at);
    if (elements == 0) {
      source = from;
      destination = to;
      together = at == 0; /* the record's offsets are those of the first piece */
    }
    const uint64_t bytes = elements * desc->element_bytes;
    if ((prim->source != DF_BUFFER_NONE && from != source + bytes) ||
        (prim->destination != DF_BUFFER_NONE && to != destination + bytes))
      together = 0;
    elements += n;
  }
  p->count = together ? (uint32_t)elements : 0;
  p->multi_piece = together ? 0 : (uint32_t)elements;
}
#endif

DF_CORE uint32_t df_prepared_elements(const df_prepared *p) {
#if defined(__CUDACC__)
  return p->count;
#else
  return p->count + p->multi_piece;
#endif
}

/* `part`: the block's part, or the part of one run (df_part_of_run). */
DF_CORE void df_prepare_messages_of(const df_descriptor *desc, uint32_t block, const df_part *part,
                                    uint64_t count, uint32_t loop, uint32_t primitive,
                                    df_prepared *p) {
  const df_primitive *prim = &desc->primitives[primitive];
  const int settles = prim->piece == DF_PIECE_SETTLES;
  df_link *links = desc->n_links ? &desc->links[(uint64_t)block * desc->n_links] : NULL;
  p->recv_link = prim->flags & DF_PRIM_RECV ? &links[prim->recv_link] : NULL;
  p->send_link = prim->flags & DF_PRIM_SEND ? &links[prim->send_link] : NULL;
  p->count = settles ? 0 : df_piece_elements(desc, part, loop, prim->piece);
#if !defined(__CUDACC__)
  p->multi_piece = 0;
  if (DF_UNLIKELY(prim->pieces > 1)) df_prepare_pieces(desc, part, count, loop, prim, p);
#else
  (void)count;
#endif
  p->loops = desc->parts[block].loops;
  p->recv_ordinal = prim->recv_ordinal;
  p->send_ordinal = prim->send_ordinal;
  p->common = df_prepare_common(desc, prim, p);
  p->announces = df_prepared_elements(p) ? DF_MESSAGE_COMES | DF_MESSAGE_GOES : 0;
  if (DF_UNLIKELY(settles) && loop + 1 == part->loops)
    p->announces = DF_MESSAGE_COMES | DF_MESSAGE_GOES;
}

DF_CORE void df_prepare_move_of(const df_descriptor *desc, const df_part *part, uint64_t count,
                                uint32_t loop, uint32_t primitive, df_prepared *p) {
  const df_primitive *prim = &desc->primitives[primitive];
  p->source_at = df_buffer_offset(desc, part, count, loop, prim->source, prim->source_piece);
  p->destination_at =
      df_buffer_offset(desc, part, count, loop, prim->destination, prim->destination_piece);
  p->source = prim->source;
  p->destination = prim->destination;
  p->flags = prim->flags;
  p->kind = (uint8_t)df_move_kind_of(prim->flags);
  p->may_lend =
      df_prepared_is_long(desc, p) &&
      (df_prim_computes(prim->flags) ? prim->destination : prim->source) != DF_BUFFER_SCRATCH;
#if !defined(__CUDACC__)
  if (DF_UNLIKELY(desc->op == DF_OPERATOR_USER || desc->lends & DF_SCALES_INPUT))
    df_prepare_user_operator(desc, prim, p);
#endif
}

DF_CORE_APART void df_prepare_messages(const df_descriptor *desc, uint32_t block, uint32_t loop,
                                       uint32_t primitive, df_prepared *p) {
  df_prepare_messages_of(desc, block, &desc->parts[block], desc->count, loop, primitive, p);
}

DF_CORE_APART void df_prepare_move(const df_descriptor *desc, uint32_t block, uint32_t loop,
                                   uint32_t primitive, df_prepared *p) {
  df_prepare_move_of(desc, &desc->parts[block], desc->count, loop, primitive, p);
}

/* For varying collectives, which have one block. */
DF_CORE_APART void df_prepare_run(const df_descriptor *desc, uint64_t count, uint32_t loop,
                                  uint32_t primitive, df_prepared *p) {
  const df_primitive *prim = &desc->primitives[primitive];
  const df_part part = df_part_of_run(
      desc->parts, count, df_pieces_of_loop(desc->geometry, desc->pieces), desc->element_bytes);
  df_prepare_messages_of(desc, 0, &part, count, loop, primitive, p);
  if (prim->piece == DF_PIECE_NONE) p->count = p->announces = 0;
  if (df_brings_count(loop, prim->recv_ordinal, prim->piece))
    p->announces |= DF_MESSAGE_COMES | DF_COUNT_COMES;
  if (df_brings_count(loop, prim->send_ordinal, prim->piece))
    p->announces |= DF_MESSAGE_GOES | DF_COUNT_GOES;
  df_prepare_move_of(desc, &part, count, loop, primitive, p);
}

#if !defined(__CUDACC__)
/*
 * For a dynamic all-to-all: as df_prepare_run, but each pair of members has its own count, by which
 * its messages are cut. The plan is "direct", so a primitive has one peer. The number of elements
 * to receive is unknown until the first message has arrived.
 */
static inline void df_prepare_pair(const df_descriptor *desc, const df_pair_counts *counts,
                                   uint32_t loop, uint32_t primitive, df_prepared *p) {
  const df_primitive *prim = &desc->primitives[primitive];
  const int comes = prim->flags & DF_PRIM_RECV;
  const df_peer_count *from = &counts->of[prim->source_piece];
  const df_peer_count *to = &counts->of[prim->destination_piece];
  const uint64_t count = comes ? to->receives : from->sends;
  const df_part part =
      df_part_of_run(desc->parts, count == DF_COUNT_UNKNOWN ? 0 : count, 1, desc->element_bytes);
  df_prepare_messages_of(desc, 0, &part, 0, loop, primitive, p);
  if (loop == 0) p->announces = DF_MESSAGE_COMES | DF_COUNT_COMES | DF_MESSAGE_GOES | DF_COUNT_GOES;
  df_prepare_move_of(desc, &part, 0, loop, primitive, p);
  const uint64_t start = (uint64_t)loop * part.chunk;
  if (prim->source == DF_BUFFER_INPUT) p->source_at = (from->send_at + start) * desc->element_bytes;
  if (prim->destination == DF_BUFFER_OUTPUT)
    p->destination_at = (to->recv_at + start) * desc->element_bytes;
}

/* Returns 1 if every run has the same records and they are kept. */
static inline int df_prepared_is_kept(const df_descriptor *desc) {
  return desc->n_blocks == 1 && desc->parts[0].loops == 1 && desc->n_primitives > 0 &&
         desc->n_primitives <= DF_PREPARED_MOST && desc->count_step == 0;
}
/* Called when the links are connected. */
static inline void df_prepared_keep(df_descriptor *desc, df_prepared *records) {
  for (uint32_t i = 0; i < desc->n_primitives; i++) {
    df_prepare_messages(desc, 0, 0, i, &records[i]);
    df_prepare_move(desc, 0, 0, i, &records[i]);
  }
  desc->prepared = records;
}
#endif

#endif
