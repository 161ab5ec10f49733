/*
 * Movement on the CUDA device: all lanes of a block, 16 bytes an access where addresses allow, a
 * few accesses in flight in each lane. Elements are independent: an operation may have one or two
 * sources and one or two destinations, a destination may be a source.
 *
 * Loads are plain loads, never through the read-only path: peers write what is read here while the
 * kernel runs. The leader has observed them, and the lanes have met at a barrier since.
 */
#ifndef DF_PRIMITIVES_MOVE_CUDA_H
#define DF_PRIMITIVES_MOVE_CUDA_H

#include "primitives/lanes.h"
#include "primitives/mover_cuda.h"

enum { DF_VECTOR_BYTES = 16 };

#if DF_ON_DEVICE
#define DF_UNROLLED _Pragma("unroll")
#define DF_ROLLED _Pragma("unroll 1")
#else
#define DF_UNROLLED
#define DF_ROLLED
#endif

/* Where a line's stores are not one: the lanes meet before its flag follows. */
#if !defined(DF_LINES_MEET) && defined(DF_LANES_MEET)
#define DF_LINES_MEET() DF_LANES_MEET()
#elif !defined(DF_LINES_MEET)
#define DF_LINES_MEET() ((void)0) /* one lane after the other */
#endif
#if !defined(DF_LINES_ARE_TORN)
#define DF_LINES_ARE_TORN() 0 /* 1, of a test: the flag comes before the rest */
#endif

/* Buffers and slots are in global memory (the other device's, or the host's, included): knowing so
 * saves a test at each access. */
template <class T> DF_CORE T *df_global(T *p) {
#if DF_ON_DEVICE
  __builtin_assume(__isGlobal(p));
#endif
  return p;
}

/* The largest access, up to a vector, for which an address is aligned; at least `least` bytes. */
DF_CORE uint32_t df_vector_grain(const void *p, uint32_t least) {
  const uint32_t low = (uint32_t)(uintptr_t)p & (DF_VECTOR_BYTES - 1);
  return low == 0 ? (uint32_t)DF_VECTOR_BYTES : DF_MAX(low & (0 - low), least);
}

template <class Unit> DF_CORE uint4 df_load_units(const uint8_t *p) {
  uint4 v;
  Unit unit[DF_VECTOR_BYTES / sizeof(Unit)];
  DF_UNROLLED
  for (uint32_t i = 0; i < DF_VECTOR_BYTES / sizeof(Unit); i++)
    unit[i] = ((const Unit *)df_global(p))[i];
  memcpy(&v, unit, sizeof v);
  return v;
}

template <class Unit> DF_CORE void df_store_units(uint8_t *p, uint4 v) {
  Unit unit[DF_VECTOR_BYTES / sizeof(Unit)];
  memcpy(unit, &v, sizeof v);
  DF_UNROLLED
  for (uint32_t i = 0; i < DF_VECTOR_BYTES / sizeof(Unit); i++) ((Unit *)df_global(p))[i] = unit[i];
}

/* 16 bytes at an address of that grain, which is the same for all lanes and the whole move. */
template <uint32_t element_bytes> DF_CORE uint4 df_load_vector(const uint8_t *p, uint32_t grain) {
  if (grain == 16) return *(const uint4 *)df_global(p);
  if (element_bytes == 8 || grain == 8) return df_load_units<uint64_t>(p);
  if (element_bytes == 4 || grain == 4) return df_load_units<uint32_t>(p);
  if (element_bytes == 2 || grain == 2) return df_load_units<uint16_t>(p);
  return df_load_units<uint8_t>(p);
}

template <uint32_t element_bytes>
DF_CORE void df_store_vector(uint8_t *p, uint4 v, uint32_t grain) {
  if (grain == 16)
    *(uint4 *)df_global(p) = v;
  else if (element_bytes == 8 || grain == 8)
    df_store_units<uint64_t>(p, v);
  else if (element_bytes == 4 || grain == 4)
    df_store_units<uint32_t>(p, v);
  else if (element_bytes == 2 || grain == 2)
    df_store_units<uint16_t>(p, v);
  else
    df_store_units<uint8_t>(p, v);
}

/* One move's addresses; b is not used by operations of one source, store or slot may be NULL. */
typedef struct df_span {
  const uint8_t *a, *b;
  uint8_t *store, *slot;
  const uint8_t *received; /* the one of a and b whose words or lines have flags, NULL: neither */
  uint64_t flag;           /* of the words or lines to write to slot; 0: it has none */
  uint32_t in_lines;
} df_span;

/* Is every address of the move aligned for whole vectors? */
template <class Operation> DF_CORE bool df_span_is_aligned(const df_span *span) {
  uint32_t low = (uint32_t)(uintptr_t)span->a | (uint32_t)(uintptr_t)span->store |
                 (uint32_t)(uintptr_t)span->slot;
  if (Operation::sources == 2) low |= (uint32_t)(uintptr_t)span->b;
  return (low & (DF_VECTOR_BYTES - 1)) == 0;
}

template <class Operation>
DF_CORE uint4 df_combine_vector(const Operation &operation, uint4 a, uint4 b) {
  typedef typename Operation::element element;
  enum { elements = DF_VECTOR_BYTES / sizeof(element) };
  element x[elements], y[elements];
  memcpy(x, &a, sizeof x);
  memcpy(y, &b, sizeof y);
  DF_UNROLLED
  for (uint32_t i = 0; i < elements; i++) x[i] = operation(x[i], y[i]);
  memcpy(&a, x, sizeof x);
  return a;
}

/* Whole vectors at aligned addresses: each lane loads `in_flight` of them before it uses the first.
 */
template <class Operation>
DF_CORE void df_move_aligned(const df_lanes *lanes, const Operation &operation, df_span span,
                             uint64_t vectors) {
  enum { in_flight = Operation::in_flight };
  for (uint64_t base = lanes->index; base < vectors; base += (uint64_t)in_flight * lanes->count) {
    uint4 x[in_flight], y[in_flight];
    DF_UNROLLED
    for (uint32_t k = 0; k < in_flight; k++) {
      const uint64_t i = base + (uint64_t)k * lanes->count;
      x[k] = y[k] = make_uint4(0, 0, 0, 0);
      if (i >= vectors) continue;
      x[k] = ((const uint4 *)df_global(span.a))[i];
      if (Operation::sources == 2) y[k] = ((const uint4 *)df_global(span.b))[i];
    }
    DF_UNROLLED
    for (uint32_t k = 0; k < in_flight; k++) {
      const uint64_t i = base + (uint64_t)k * lanes->count;
      if (i >= vectors) continue;
      const uint4 v = df_combine_vector(operation, x[k], y[k]);
      if (span.slot) ((uint4 *)df_global(span.slot))[i] = v;
      if (span.store) ((uint4 *)df_global(span.store))[i] = v;
    }
  }
}

/* Whole vectors, one in flight in each lane, in pieces as large as each address allows: payloads
 * behind a commit word, odd buffers, and operations that are more arithmetic than movement. */
template <class Operation>
DF_CORE void df_move_pieces(const df_lanes *lanes, const Operation &operation, df_span span,
                            uint64_t vectors) {
  enum { bytes = sizeof(typename Operation::element) };
  const uint32_t a_grain = df_vector_grain(span.a, bytes), b_grain = df_vector_grain(span.b, bytes);
  const uint32_t store_grain = df_vector_grain(span.store, bytes);
  const uint32_t slot_grain = df_vector_grain(span.slot, bytes);
  DF_ROLLED
  for (uint64_t i = lanes->index; i < vectors; i += lanes->count) {
    const uint64_t at = i * DF_VECTOR_BYTES;
    uint4 x = df_load_vector<bytes>(span.a + at, a_grain), y = x;
    if (Operation::sources == 2) y = df_load_vector<bytes>(span.b + at, b_grain);
    x = df_combine_vector(operation, x, y);
    if (span.slot) df_store_vector<bytes>(span.slot + at, x, slot_grain);
    if (span.store) df_store_vector<bytes>(span.store + at, x, store_grain);
  }
}

/* One by one: what is left behind the last whole vector. */
template <class Operation>
DF_CORE void df_move_rest(const df_lanes *lanes, const Operation &operation, df_span span,
                          uint64_t first, uint64_t count) {
  typedef typename Operation::element element;
  DF_ROLLED
  for (uint64_t i = first + lanes->index; i < count; i += lanes->count) {
    const element x = ((const element *)df_global(span.a))[i];
    const element y = Operation::sources == 2 ? ((const element *)df_global(span.b))[i] : x;
    const element v = operation(x, y);
    if (span.slot) ((element *)df_global(span.slot))[i] = v;
    if (span.store) ((element *)df_global(span.store))[i] = v;
  }
}

/* ---- Words (link.h): each lane moves pairs of them, which are 8 bytes of payload. */

enum { DF_PAIR_PAYLOAD = 2 * DF_LINK_WORD_PAYLOAD };

DF_CORE df_word_pair df_pair_of(uint64_t payload, uint32_t flag) {
  df_word_pair pair;
  pair.first = (payload & UINT32_MAX) | (uint64_t)flag << 32;
  pair.second = payload >> 32 | (uint64_t)flag << 32;
  return pair;
}
DF_CORE uint64_t df_pair_payload(df_word_pair pair) {
  return (pair.first & UINT32_MAX) | pair.second << 32;
}
DF_CORE int df_pair_has(df_word_pair pair, uint32_t flag) {
  return pair.first >> 32 == flag && pair.second >> 32 == flag;
}
DF_CORE df_word_pair df_load_pair(const uint8_t *slot, uint64_t i) {
  return df_load_relaxed_pair(df_global((const df_word_pair *)slot + i));
}

/* Of the pairs that this lane looks at. It moves the same ones, the first as it was when it looked.
 */
DF_CORE int df_words_have_arrived(df_lanes *lanes, const df_move *move) {
  const uint64_t pairs = DF_DIV_UP(move->count * move->element_bytes, (uint64_t)DF_PAIR_PAYLOAD);
  int arrived = 1;
  DF_ROLLED
  for (uint64_t i = lanes->index; i < pairs && arrived; i += lanes->count) {
    const df_word_pair pair = df_load_pair((const uint8_t *)move->recv_flagged, i);
    if (i == lanes->index) lanes->held = df_pair_payload(pair);
    arrived = df_pair_has(pair, (uint32_t)move->recv_flag);
  }
  return arrived;
}

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

/* All lanes: has all of the message come? Nothing of it is used before. */
DF_CORE int df_move_has_arrived(df_lanes *lanes, const df_move *move) {
  if (move->recv_flagged == NULL) return 1;
  return df_lanes_all(lanes, move->in_lines ? df_lines_have_arrived(lanes, move)
                                            : df_words_have_arrived(lanes, move));
}

/* n elements, which are a pair's payload or, at the end, less. */
template <class Element> DF_CORE uint64_t df_load_payload(const uint8_t *p, uint32_t n) {
  enum { elements = DF_PAIR_PAYLOAD / sizeof(Element) };
  if (n == elements && (uintptr_t)p % DF_PAIR_PAYLOAD == 0) return *(const uint64_t *)df_global(p);
  Element x[elements];
  DF_UNROLLED
  for (uint32_t k = 0; k < elements; k++) x[k] = k < n ? ((const Element *)df_global(p))[k] : 0;
  uint64_t payload;
  memcpy(&payload, x, sizeof payload);
  return payload;
}

template <class Element> DF_CORE void df_store_payload(uint8_t *p, uint64_t payload, uint32_t n) {
  enum { elements = DF_PAIR_PAYLOAD / sizeof(Element) };
  if (n == elements && (uintptr_t)p % DF_PAIR_PAYLOAD == 0) {
    *(uint64_t *)df_global(p) = payload;
    return;
  }
  Element x[elements];
  memcpy(x, &payload, sizeof x);
  DF_UNROLLED
  for (uint32_t k = 0; k < elements; k++)
    if (k < n) ((Element *)df_global(p))[k] = x[k];
}

/* The i-th pair's payload of a source, of n elements. */
template <class Element>
DF_CORE uint64_t df_source_payload(const df_lanes *lanes, const df_span *span,
                                   const uint8_t *source, uint64_t i, uint32_t n) {
  if (source != span->received) return df_load_payload<Element>(source + i * DF_PAIR_PAYLOAD, n);
  return i == lanes->index ? lanes->held : df_pair_payload(df_load_pair(source, i));
}

template <class Operation>
DF_CORE void df_move_words(const df_lanes *lanes, const Operation &operation, df_span span,
                           uint64_t count) {
  typedef typename Operation::element element;
  enum { elements = DF_PAIR_PAYLOAD / sizeof(element) };
  const uint64_t pairs = DF_DIV_UP(count, (uint64_t)elements);
  DF_ROLLED
  for (uint64_t i = lanes->index; i < pairs; i += lanes->count) {
    const uint32_t n = (uint32_t)DF_MIN(count - i * elements, (uint64_t)elements);
    uint64_t payload = df_source_payload<element>(lanes, &span, span.a, i, n), other = payload;
    if (Operation::sources == 2) other = df_source_payload<element>(lanes, &span, span.b, i, n);
    element x[elements], y[elements];
    memcpy(x, &payload, sizeof x);
    memcpy(y, &other, sizeof y);
    DF_UNROLLED
    for (uint32_t k = 0; k < elements; k++) x[k] = operation(x[k], y[k]);
    memcpy(&payload, x, sizeof payload);
    if (span.slot) /* in words: so are all of a collective's links, or none */
      df_store_relaxed_pair(df_global((df_word_pair *)span.slot + i),
                            df_pair_of(payload, (uint32_t)span.flag));
    if (span.store) df_store_payload<element>(span.store + i * DF_PAIR_PAYLOAD, payload, n);
  }
}

/* ---- Lines (link.h): eight lanes in a row move a pair of them. Of its vectors the first seven
 * have two each, one in each line, and the eighth has the last one, whose halves are before the two
 * lines' flags. */

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

template <class Operation>
DF_CORE void df_move_span(const df_lanes *lanes, const Operation &operation, df_span span,
                          uint64_t count) {
  enum { elements = DF_VECTOR_BYTES / sizeof(typename Operation::element) };
  const uint64_t vectors = count / elements;
  if (span.in_lines) {
    df_move_lines(lanes, operation, span, count);
    return;
  }
  if (span.received || span.flag) {
    df_move_words(lanes, operation, span, count);
    return;
  }
  if (Operation::in_flight > 1 && df_span_is_aligned<Operation>(&span))
    df_move_aligned(lanes, operation, span, vectors);
  else
    df_move_pieces(lanes, operation, span, vectors);
  df_move_rest(lanes, operation, span, vectors * elements, count);
}

template <class Type>
DF_CORE void df_move_reduce(const df_lanes *lanes, const df_move *move, df_span span) {
  switch (move->op) {
  case dfcclSum:
    df_move_span(lanes, df_cuda_sum<Type>(), span, move->count);
    break;
  case dfcclProd:
    df_move_span(lanes, df_cuda_prod<Type>(), span, move->count);
    break;
  case dfcclMax:
    df_move_span(lanes, df_cuda_larger<Type>(), span, move->count);
    break;
  case dfcclMin:
    df_move_span(lanes, df_cuda_smaller<Type>(), span, move->count);
    break;
  }
}

DF_CORE df_span df_span_of(const df_move *move) {
  df_span span;
  span.a = (const uint8_t *)move->a;
  span.b = (const uint8_t *)move->b;
  span.store = (uint8_t *)move->store;
  span.slot = (uint8_t *)move->slot;
  span.received = (const uint8_t *)move->recv_flagged;
  span.flag = move->send_flag;
  span.in_lines = move->in_lines;
  return span;
}

/* A function of its own for each type: what one type needs in registers and instructions burdens
 * neither the others nor the compiler. Arguments by value, so that they stay in registers. */
template <class Type>
static __host__ __device__ __noinline__ void df_move_type(uint32_t index, uint32_t count,
                                                          uint64_t held, const df_move *move) {
  df_lanes lanes;
  lanes.index = index;
  lanes.count = count;
  lanes.held = held;
  const df_span span = df_span_of(move);
  if (move->kind == DF_MOVE_REDUCE) {
    df_move_reduce<Type>(&lanes, move, span);
  } else if (move->kind == DF_MOVE_REDUCE_AVERAGE) {
    df_cuda_average<Type> average;
    average.by = Type::divisor_of(move->divisor);
    df_move_span(&lanes, average, span, move->count);
  } else {
    df_cuda_quotient<Type> quotient;
    quotient.by = Type::divisor_of(move->divisor);
    df_move_span(&lanes, quotient, span, move->count);
  }
}

/* All lanes, with the same move, after a barrier. A store past the caches (move->stream) is left to
 * the caches here: they are written through. */
DF_CORE void df_move_execute(df_lanes *lanes, const df_move *move) {
  if (move->kind == DF_MOVE_NOTHING) return;
  if (move->kind == DF_MOVE_COPY) {
    df_move_span(lanes, df_cuda_copy<df_cuda_uint8>(), df_span_of(move),
                 move->count * move->element_bytes);
    return;
  }
#define DF_MOVE_CASE(Type, type)                                                                   \
  case dfccl##Type:                                                                                \
    df_move_type<df_cuda_##type>(lanes->index, lanes->count, lanes->held, move);                   \
    break;
  switch (move->type) {
    DF_MOVE_CASE(Int8, int8)
    DF_MOVE_CASE(Uint8, uint8)
    DF_MOVE_CASE(Int32, int32)
    DF_MOVE_CASE(Uint32, uint32)
    DF_MOVE_CASE(Int64, int64)
    DF_MOVE_CASE(Uint64, uint64)
    DF_MOVE_CASE(Float16, float16)
    DF_MOVE_CASE(Float32, float32)
    DF_MOVE_CASE(Float64, float64)
    DF_MOVE_CASE(Bfloat16, bfloat16)
    DF_MOVE_CASE(Float8e4m3, float8e4m3)
    DF_MOVE_CASE(Float8e5m2, float8e5m2)
  }
#undef DF_MOVE_CASE
}

/* Nothing is left for later. */
DF_CORE void df_move_finish(df_lanes *lanes, const df_move *move) {
  (void)lanes;
  (void)move;
}

#endif
