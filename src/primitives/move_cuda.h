/* Movement of data on CUDA by all lanes, with 16-byte accesses if the addresses allow it. The
 * destination may be one of the sources. */
#ifndef DF_PRIMITIVES_MOVE_CUDA_H
#define DF_PRIMITIVES_MOVE_CUDA_H

#include "primitives/ll_cuda.h"

/* No part of a message is used before all of it has arrived. */
DF_CORE int df_move_has_arrived(df_lanes *lanes, const df_move *move) {
  if (move->recv_flagged == NULL) return 1;
  return df_lanes_all(lanes, df_ll_has_arrived(lanes, move));
}

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

/* Accesses are as large as the alignment of the addresses allows. */
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

template <class Operation>
DF_CORE void df_move_span(const df_lanes *lanes, const Operation &operation, df_span span,
                          uint64_t count) {
  enum { elements = DF_VECTOR_BYTES / sizeof(typename Operation::element) };
  const uint64_t vectors = count / elements;
  if (span.received || span.flag) {
    df_move_ll(lanes, operation, span, count);
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

/* One function for each type, so that its registers do not burden the other types. */
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

/* Operators on bits: the sign does not matter. */
template <class Type>
static __host__ __device__ __noinline__ void df_move_bits(uint32_t index, uint32_t count,
                                                          uint64_t held, const df_move *move) {
  df_lanes lanes;
  lanes.index = index;
  lanes.count = count;
  lanes.held = held;
  const df_span span = df_span_of(move);
  if (move->op == dfcclBand)
    df_move_span(&lanes, df_cuda_band<Type>(), span, move->count);
  else if (move->op == dfcclBor)
    df_move_span(&lanes, df_cuda_bor<Type>(), span, move->count);
  else
    df_move_span(&lanes, df_cuda_bxor<Type>(), span, move->count);
}

/* Called by all lanes after a barrier. move->stream is ignored, because the caches are written
 * through. */
DF_CORE void df_move_execute(df_lanes *lanes, const df_move *move) {
  if (move->kind == DF_MOVE_NOTHING) return;
  if (move->kind == DF_MOVE_COPY) {
    df_move_span(lanes, df_cuda_copy<df_cuda_uint8>(), df_span_of(move),
                 move->count * move->element_bytes);
    return;
  }
#define DF_MOVE_BITS(bits)                                                                         \
  case bits / 8:                                                                                   \
    df_move_bits<df_cuda_uint##bits>(lanes->index, lanes->count, lanes->held, move);               \
    return;
  if (move->op >= dfcclBand) {
    switch (move->element_bytes) {
      DF_MOVE_BITS(8)
      DF_MOVE_BITS(16)
      DF_MOVE_BITS(32)
      DF_MOVE_BITS(64)
    }
  }
#undef DF_MOVE_BITS
#define DF_MOVE_CASE(Type, type)                                                                   \
  case dfccl##Type:                                                                                \
    df_move_type<df_cuda_##type>(lanes->index, lanes->count, lanes->held, move);                   \
    break;
  switch (move->type) {
    DF_MOVE_CASE(Int8, int8)
    DF_MOVE_CASE(Uint8, uint8)
    DF_MOVE_CASE(Int16, int16)
    DF_MOVE_CASE(Uint16, uint16)
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

DF_CORE void df_move_finish(df_lanes *lanes, const df_move *move) {
  (void)lanes;
  (void)move;
}

#endif
