/* Floats of 16 and 8 bits of one instruction set: part of mover_cpu_kernels.inc.h. */

/*
 * Sum, product, average and quotient work on 32-bit words that hold 2 or 4 elements: each element
 * is cut out, converted, computed, and put back in its place, so that no lane of a vector ever
 * moves to another. (Which element is the first in the word does not matter.)
 */
typedef uint32_t DF_UNALIGNED_U32 __attribute__((aligned(1), may_alias));

#define DF_WORD_OF_2(lane, x, y)                                                                   \
  ((uint32_t)lane((uint16_t)(x), (uint16_t)(y)) |                                                  \
   ((uint32_t)lane((uint16_t)((x) >> 16), (uint16_t)((y) >> 16)) << 16))
#define DF_WORD_OF_4(lane, x, y)                                                                   \
  ((uint32_t)lane((uint8_t)(x), (uint8_t)(y)) |                                                    \
   ((uint32_t)lane((uint8_t)((x) >> 8), (uint8_t)((y) >> 8)) << 8) |                               \
   ((uint32_t)lane((uint8_t)((x) >> 16), (uint8_t)((y) >> 16)) << 16) |                            \
   ((uint32_t)lane((uint8_t)((x) >> 24), (uint8_t)((y) >> 24)) << 24))

/* The function signatures of mover_cpu.h. */
#define DF_REDUCE_PARAMETERS (void *dst, const void *a, const void *b, size_t count)
#define DF_AVERAGE_PARAMETERS                                                                      \
  (void *dst, const void *a, const void *b, size_t count, uint32_t divisor)
#define DF_DIVIDE_PARAMETERS (void *dst, const void *a, size_t count, uint32_t divisor)

/* d[i] = lane(x[i], y[i]); lane is a macro and may use the parameters and what prologue defines. */
#define DF_DEFINE_NARROW_LOOP(name, parameters, element, lanes, lane, prologue)                    \
  static void name parameters {                                                                    \
    prologue;                                                                                      \
    const size_t words = count / lanes;                                                            \
    DF_UNALIGNED_U32 *d = dst;                                                                     \
    const DF_UNALIGNED_U32 *x = a, *y = b;                                                         \
    DF_INDEPENDENT                                                                                 \
    for (size_t i = 0; i < words; i++) {                                                           \
      const uint32_t v = x[i], w = y[i];                                                           \
      d[i] = DF_WORD_OF_##lanes(lane, v, w);                                                       \
    }                                                                                              \
    element *last = dst;                                                                           \
    const element *p = a, *q = b;                                                                  \
    for (size_t rest = count % lanes; rest > 0; rest--)                                            \
      last[count - rest] = (element)lane(p[count - rest], q[count - rest]);                        \
  }

#define DF_NARROW_ARITHMETIC(type, element, lanes, SUM, PROD, AVERAGE, DIVIDE)                     \
  DF_DEFINE_NARROW_LOOP(df_sum_##type, DF_REDUCE_PARAMETERS, element, lanes, SUM, )                \
  DF_DEFINE_NARROW_LOOP(df_prod_##type, DF_REDUCE_PARAMETERS, element, lanes, PROD, )              \
  DF_DEFINE_NARROW_LOOP(df_average_##type, DF_AVERAGE_PARAMETERS, element, lanes, AVERAGE,         \
                        DF_ASSERT(divisor > 0);                                                    \
                        const float by = (float)divisor)                                           \
  DF_DEFINE_NARROW_LOOP(df_divide_##type, DF_DIVIDE_PARAMETERS, element, lanes, DIVIDE,            \
                        DF_ASSERT(divisor > 0);                                                    \
                        const float by = (float)divisor; const void *b = a)

#define DF_BRAIN(x) df_float32_from_bfloat16(x)
#define DF_BRAIN_SUM(x, y) df_bfloat16_from_float32(DF_BRAIN(x) + DF_BRAIN(y))
#define DF_BRAIN_PROD(x, y) df_bfloat16_from_float32(DF_BRAIN(x) * DF_BRAIN(y))
#define DF_BRAIN_AVERAGE(x, y) df_bfloat16_from_float32((DF_BRAIN(x) + DF_BRAIN(y)) / by)
#define DF_BRAIN_DIVIDE(x, y) ((void)(y), df_bfloat16_from_float32(DF_BRAIN(x) / by))
DF_NARROW_ARITHMETIC(bfloat16, DF_MAY_ALIAS_U16, 2, DF_BRAIN_SUM, DF_BRAIN_PROD, DF_BRAIN_AVERAGE,
                     DF_BRAIN_DIVIDE)

#define DF_E4M3(x) df_float32_from_float8e4m3(x)
#define DF_E4M3_SUM(x, y) df_float8e4m3_from_float32(DF_E4M3(x) + DF_E4M3(y))
#define DF_E4M3_PROD(x, y) df_float8e4m3_from_float32(DF_E4M3(x) * DF_E4M3(y))
#define DF_E4M3_AVERAGE(x, y) df_float8e4m3_from_float32((DF_E4M3(x) + DF_E4M3(y)) / by)
#define DF_E4M3_DIVIDE(x, y) ((void)(y), df_float8e4m3_from_float32(DF_E4M3(x) / by))
DF_NARROW_ARITHMETIC(float8e4m3, DF_MAY_ALIAS_U8, 4, DF_E4M3_SUM, DF_E4M3_PROD, DF_E4M3_AVERAGE,
                     DF_E4M3_DIVIDE)

#define DF_E5M2(x) df_float32_from_float8e5m2(x)
#define DF_E5M2_SUM(x, y) df_float8e5m2_from_float32(DF_E5M2(x) + DF_E5M2(y))
#define DF_E5M2_PROD(x, y) df_float8e5m2_from_float32(DF_E5M2(x) * DF_E5M2(y))
#define DF_E5M2_AVERAGE(x, y) df_float8e5m2_from_float32((DF_E5M2(x) + DF_E5M2(y)) / by)
#define DF_E5M2_DIVIDE(x, y) ((void)(y), df_float8e5m2_from_float32(DF_E5M2(x) / by))
DF_NARROW_ARITHMETIC(float8e5m2, DF_MAY_ALIAS_U8, 4, DF_E5M2_SUM, DF_E5M2_PROD, DF_E5M2_AVERAGE,
                     DF_E5M2_DIVIDE)

#if !defined(__F16C__)

#define DF_HALF(x) df_float32_from_float16(x)
#define DF_HALF_SUM(x, y) df_float16_from_float32(DF_HALF(x) + DF_HALF(y))
#define DF_HALF_PROD(x, y) df_float16_from_float32(DF_HALF(x) * DF_HALF(y))
#define DF_HALF_AVERAGE(x, y) df_float16_from_float32((DF_HALF(x) + DF_HALF(y)) / by)
#define DF_HALF_DIVIDE(x, y) ((void)(y), df_float16_from_float32(DF_HALF(x) / by))
DF_NARROW_ARITHMETIC(float16, DF_MAY_ALIAS_U16, 2, DF_HALF_SUM, DF_HALF_PROD, DF_HALF_AVERAGE,
                     DF_HALF_DIVIDE)

#else /* the processor converts */

#if defined(__AVX512F__)
enum { DF_HALF_LANES = 16 };
typedef __m512 df_half_vector;
#define DF_HALF_SPREAD(value) _mm512_set1_ps(value)
#define DF_HALF_ADD _mm512_add_ps
#define DF_HALF_MUL _mm512_mul_ps
#define DF_HALF_DIV _mm512_div_ps
static inline df_half_vector df_half_load(const void *src) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)src));
}
static inline void df_half_store(void *dst, df_half_vector v) {
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32((int)DF_FLOAT32_NAN));
  v = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
  _mm256_storeu_si256((__m256i *)dst,
                      _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#else
enum { DF_HALF_LANES = 8 };
typedef __m256 df_half_vector;
#define DF_HALF_SPREAD(value) _mm256_set1_ps(value)
#define DF_HALF_ADD _mm256_add_ps
#define DF_HALF_MUL _mm256_mul_ps
#define DF_HALF_DIV _mm256_div_ps
static inline df_half_vector df_half_load(const void *src) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)src));
}
static inline void df_half_store(void *dst, df_half_vector v) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)DF_FLOAT32_NAN));
  v = _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  _mm_storeu_si128((__m128i *)dst,
                   _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
#endif

/* The last few elements go through buffers of a whole vector. */
#define DF_DEFINE_HALF_LOOP(name, parameters, expression, prologue)                                \
  static void name parameters {                                                                    \
    prologue;                                                                                      \
    DF_MAY_ALIAS_U16 *d = dst;                                                                     \
    const DF_MAY_ALIAS_U16 *p = a, *q = b;                                                         \
    size_t i = 0;                                                                                  \
    for (; i + DF_HALF_LANES <= count; i += DF_HALF_LANES) {                                       \
      const df_half_vector x = df_half_load(p + i), y = df_half_load(q + i);                       \
      df_half_store(d + i, expression);                                                            \
    }                                                                                              \
    if (i < count) {                                                                               \
      uint16_t left[DF_HALF_LANES] = {0}, right[DF_HALF_LANES] = {0};                              \
      for (size_t k = 0; k < count - i; k++) left[k] = p[i + k], right[k] = q[i + k];              \
      const df_half_vector x = df_half_load(left), y = df_half_load(right);                        \
      df_half_store(left, expression);                                                             \
      for (size_t k = 0; k < count - i; k++) d[i + k] = left[k];                                   \
    }                                                                                              \
  }

DF_DEFINE_HALF_LOOP(df_sum_float16, DF_REDUCE_PARAMETERS, DF_HALF_ADD(x, y), )
DF_DEFINE_HALF_LOOP(df_prod_float16, DF_REDUCE_PARAMETERS, DF_HALF_MUL(x, y), )
DF_DEFINE_HALF_LOOP(df_average_float16, DF_AVERAGE_PARAMETERS, DF_HALF_DIV(DF_HALF_ADD(x, y), by),
                    DF_ASSERT(divisor > 0);
                    const df_half_vector by = DF_HALF_SPREAD((float)divisor))
DF_DEFINE_HALF_LOOP(df_divide_float16, DF_DIVIDE_PARAMETERS, ((void)y, DF_HALF_DIV(x, by)),
                    DF_ASSERT(divisor > 0);
                    const df_half_vector by = DF_HALF_SPREAD((float)divisor); const void *b = a)

#endif
