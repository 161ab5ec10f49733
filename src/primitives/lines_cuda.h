/*
 * Lines (link.h) on the CUDA device: eight lanes in a row move a pair of them. Of its vectors the
 * first seven have two each, one in each line, and the eighth has the last one, whose halves are
 * before the two lines' flags.
 */
#ifndef DF_PRIMITIVES_LINES_CUDA_H
#define DF_PRIMITIVES_LINES_CUDA_H

#include "primitives/span_cuda.h"

/* Where a line's stores are not one: the lanes meet before its flag follows. */
#if !defined(DF_LINES_MEET) && defined(DF_LANES_MEET)
#define DF_LINES_MEET() DF_LANES_MEET()
#elif !defined(DF_LINES_MEET)
#define DF_LINES_MEET() ((void)0) /* one lane after the other */
#endif
#if !defined(DF_LINES_ARE_TORN)
#define DF_LINES_ARE_TORN() 0 /* 1, of a test: the flag comes before the rest */
#endif

/* Of the lines that this lane looks at, which are not those that it moves: a line that has its flag
 * is there as a whole (link.h), and is loaded when all lanes have met. */
DF_CORE int df_lines_have_arrived(const df_lanes *lanes, const df_move *move) {
  const uint64_t bytes = move->count * move->element_bytes;
  const uint64_t lines = 2 * DF_DIV_UP(bytes, (uint64_t)DF_LINK_PAIR_PAYLOAD);
  const uint8_t *flags = df_global((const uint8_t *)move->recv_flagged) + DF_LINK_LINE_FLAG;
  int arrived = 1;
  DF_ROLLED
  for (uint64_t i = lanes->index; i < lines && arrived; i += lanes->count)
    arrived = df_load_relaxed_u64((const uint64_t *)(flags + i * DF_LINK_LINE)) == move->recv_flag;
  return arrived;
}

enum { DF_PAIR_LANES = 8, DF_LINE_VECTORS = DF_PAIR_LANES - 1 };

/* What one lane moves of a pair of lines. */
typedef struct df_line_part {
  uint64_t pair;
  uint32_t part;      /* 0 to 7: the same 16 bytes of each line */
  uint32_t at[2];     /* where its vectors are in the payload, in elements */
  uint32_t counts[2]; /* elements of each, which are a vector's or, at the end, fewer */
  uint32_t is_moved;  /* 0: the lane has none, and only comes along */
} df_line_part;

template <class Element>
DF_CORE df_line_part df_line_part_of(uint64_t i, uint64_t pairs, uint64_t count) {
  enum { elements = DF_VECTOR_BYTES / sizeof(Element) };
  df_line_part p;
  p.pair = i / DF_PAIR_LANES;
  p.part = (uint32_t)(i % DF_PAIR_LANES);
  p.is_moved = p.pair < pairs;
  const uint32_t first = (uint32_t)p.pair * (uint32_t)(DF_LINK_PAIR_PAYLOAD / sizeof(Element));
  const uint32_t is_last = p.part == DF_LINE_VECTORS;
  DF_UNROLLED
  for (uint32_t k = 0; k < 2; k++) {
    p.at[k] = first + ((k == 1 || is_last ? (uint32_t)DF_LINE_VECTORS : 0) + p.part) * elements;
    const uint32_t left = p.at[k] < count && !(is_last && k == 1) ? (uint32_t)count - p.at[k] : 0;
    p.counts[k] = p.is_moved ? DF_MIN(left, (uint32_t)elements) : 0;
  }
  return p;
}

template <size_t bytes> struct df_bits_of;
template <> struct df_bits_of<1> { typedef uint8_t type; };
template <> struct df_bits_of<2> { typedef uint16_t type; };
template <> struct df_bits_of<4> { typedef uint32_t type; };
template <> struct df_bits_of<8> { typedef uint64_t type; };

/* n elements, which are a vector's or fewer. One by one where that is no aligned vector: little
 * code, since lines are for few. */
template <class Element> DF_CORE uint4 df_load_some(const uint8_t *base, uint32_t at, uint32_t n) {
  typedef typename df_bits_of<sizeof(Element)>::type bits;
  const bits *p = (const bits *)base + at;
  if (n == DF_VECTOR_BYTES / sizeof(Element) && (uintptr_t)p % DF_VECTOR_BYTES == 0)
    return *(const uint4 *)df_global(p);
  df_word_pair v = {0, 0};
  DF_ROLLED
  for (uint32_t k = 0; k < n; k++) {
    const uint64_t element = (uint64_t)df_global(p)[k] << k * 8 * sizeof(Element) % 64;
    if (k * sizeof(Element) < 8)
      v.first |= element;
    else
      v.second |= element;
  }
  uint4 vector;
  memcpy(&vector, &v, sizeof v);
  return vector;
}

template <class Element>
DF_CORE void df_store_some(uint8_t *base, uint32_t at, uint4 vector, uint32_t n) {
  typedef typename df_bits_of<sizeof(Element)>::type bits;
  bits *p = (bits *)base + at;
  if (n == DF_VECTOR_BYTES / sizeof(Element) && (uintptr_t)p % DF_VECTOR_BYTES == 0) {
    *(uint4 *)df_global(p) = vector;
    return;
  }
  df_word_pair v;
  memcpy(&v, &vector, sizeof v);
  DF_ROLLED
  for (uint32_t k = 0; k < n; k++)
    df_global(p)[k] =
        (bits)((k * sizeof(Element) < 8 ? v.first : v.second) >> k * 8 * sizeof(Element) % 64);
}

DF_CORE df_word_pair *df_line_at(const uint8_t *slot, const df_line_part *p, uint32_t line) {
  return (df_word_pair *)df_global((uint8_t *)slot + (2 * p->pair + line) * DF_LINK_LINE +
                                   p->part * sizeof(df_word_pair));
}

/* A lane's vectors of what was received in lines. */
DF_CORE void df_load_lines(const uint8_t *slot, const df_line_part *p, uint4 *first,
                           uint4 *second) {
  df_word_pair lines[2] = {{0, 0}, {0, 0}};
  if (slot && p->is_moved) {
    lines[0] = df_load_relaxed_pair(df_line_at(slot, p, 0));
    lines[1] = df_load_relaxed_pair(df_line_at(slot, p, 1));
  }
  if (p->part == DF_LINE_VECTORS) lines[0].second = lines[1].first;
  memcpy(first, &lines[0], sizeof *first);
  memcpy(second, &lines[1], sizeof *second);
}

/* All lanes of a warp: what each stores of a line is to be one store of the eight. Elsewhere than
 * on a GPU, nothing of the kind exists: there the flags come after the rest. */
DF_CORE void df_store_lines(uint8_t *slot, const df_line_part *p, uint4 first, uint4 second,
                            uint64_t flag) {
  const int has_flag = p->part == DF_LINE_VECTORS;
  df_word_pair lines[2];
  memcpy(&lines[0], &first, sizeof first);
  memcpy(&lines[1], &second, sizeof second);
  if (has_flag) {
    lines[1].first = lines[0].second;
    lines[0].second = lines[1].second = flag;
  }
#if DF_ON_DEVICE && !defined(__CUDA_EMULATOR__)
  __syncwarp();
  if (p->is_moved) {
    df_store_relaxed_pair(df_line_at(slot, p, 0), lines[0]);
    df_store_relaxed_pair(df_line_at(slot, p, 1), lines[1]);
  }
#else
  const int is_early = has_flag == (DF_LINES_ARE_TORN() != 0);
  for (int early = 1; early >= 0; early--) {
    for (uint32_t k = 0; k < 2 && p->is_moved && is_early == early; k++)
      df_store_relaxed_pair(df_line_at(slot, p, k), lines[k]);
    if (early) DF_LINES_MEET();
  }
#endif
}

/* Lanes come to each store equally often, whatever they have to move. */
template <class Operation>
DF_CORE void df_move_lines(const df_lanes *lanes, const Operation &operation, df_span span,
                           uint64_t count) {
  typedef typename Operation::element element;
  const uint64_t pairs = DF_DIV_UP(count * sizeof(element), (uint64_t)DF_LINK_PAIR_PAYLOAD);
  DF_ROLLED
  for (uint64_t base = 0; base < pairs * DF_PAIR_LANES; base += lanes->count) {
    const df_line_part p = df_line_part_of<element>(base + lanes->index, pairs, count);
    uint4 received, next, moved = make_uint4(0, 0, 0, 0), last = moved;
    df_load_lines(span.received, &p, &received, &next);
    DF_ROLLED
    for (uint32_t k = 0; k < 2; k++) { /* the same code for both vectors */
      const uint32_t at = k ? p.at[1] : p.at[0], n = k ? p.counts[1] : p.counts[0];
      uint4 x = received, y = received;
      if (span.a != span.received) x = df_load_some<element>(span.a, at, n);
      if (Operation::sources == 2 && span.b != span.received)
        y = df_load_some<element>(span.b, at, n);
      last = df_combine_vector(operation, x, y);
      if (span.slot && !span.flag) df_store_some<element>(span.slot, at, last, n);
      if (span.store) df_store_some<element>(span.store, at, last, n);
      received = next;
      if (k == 0) moved = last;
    }
    if (span.slot && span.flag) df_store_lines(span.slot, &p, moved, last, span.flag);
  }
}

#endif
