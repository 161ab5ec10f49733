/* Access to the memory of a move on CUDA. Loads are plain, never read-only, because peers write
 * this memory while the kernel runs. */
#ifndef DF_PRIMITIVES_SPAN_CUDA_H
#define DF_PRIMITIVES_SPAN_CUDA_H

#include "primitives/lanes.h"
#include "primitives/movers/mover_cuda.h"

enum { DF_VECTOR_BYTES = 16 };

#if DF_ON_DEVICE
#define DF_UNROLLED _Pragma("unroll")
#define DF_ROLLED _Pragma("unroll 1")
#else
#define DF_UNROLLED
#define DF_ROLLED
#endif

/* Buffers and slots are in global memory. The assumption saves a test at each access. */
template <class T> DF_CORE T *df_global(T *p) {
#if DF_ON_DEVICE
  __builtin_assume(__isGlobal(p));
#endif
  return p;
}

/* The size in bytes of the largest access for which p is aligned. */
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

typedef struct df_span {
  const uint8_t *a, *b;
  uint8_t *store, *slot;
  const uint8_t *received; /* the operand, a or b, whose words have flags; or NULL */
  uint32_t flag;           /* flag of the words of slot; 0: no flags */
} df_span;

DF_CORE df_span df_span_of(const df_move *move) {
  df_span span;
  span.a = (const uint8_t *)move->a;
  span.b = (const uint8_t *)move->b;
  span.store = (uint8_t *)move->store;
  span.slot = (uint8_t *)move->slot;
  span.received = (const uint8_t *)move->recv_flagged;
  span.flag = move->send_flag;
  return span;
}

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

#endif
