/* The LL protocol (link.h) on CUDA: each lane moves pairs of words, 8 bytes of payload. */
#ifndef DF_PRIMITIVES_LL_CUDA_H
#define DF_PRIMITIVES_LL_CUDA_H

#include "primitives/span_cuda.h"

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

/* Returns 1 if the pairs that this lane will move have arrived. The lane keeps the payload of its
 * first pair. */
DF_CORE int df_ll_has_arrived(df_lanes *lanes, const df_move *move) {
  const uint64_t pairs = DF_DIV_UP(move->count * move->element_bytes, (uint64_t)DF_PAIR_PAYLOAD);
  int arrived = 1;
  DF_ROLLED
  for (uint64_t i = lanes->index; i < pairs && arrived; i += lanes->count) {
    const df_word_pair pair = df_load_pair((const uint8_t *)move->recv_flagged, i);
    if (i == lanes->index) lanes->held = df_pair_payload(pair);
    arrived = df_pair_has(pair, move->recv_flag);
  }
  return arrived;
}

/* Loads n elements: the payload of a pair, or less at the end. */
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

template <class Element>
DF_CORE uint64_t df_source_payload(const df_lanes *lanes, const df_span *span,
                                   const uint8_t *source, uint64_t i, uint32_t n) {
  if (source != span->received) return df_load_payload<Element>(source + i * DF_PAIR_PAYLOAD, n);
  return i == lanes->index ? lanes->held : df_pair_payload(df_load_pair(source, i));
}

template <class Operation>
DF_CORE void df_move_ll(const df_lanes *lanes, const Operation &operation, df_span span,
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
    if (span.slot) /* either all links of a collective use the LL protocol, or none */
      df_store_relaxed_pair(df_global((df_word_pair *)span.slot + i),
                            df_pair_of(payload, span.flag));
    if (span.store) df_store_payload<element>(span.store + i * DF_PAIR_PAYLOAD, payload, n);
  }
}

#endif
