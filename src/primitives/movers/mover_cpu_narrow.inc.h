/* Part of mover_cpu_kernels.inc.h: floats of 16 and 8 bits. */

/* A 32-bit word holds 2 or 4 elements, each computed in its place: no vector lane moves. lane(v, w)
 * takes the tops of two words; its result is in the low bits. */
typedef uint32_t DF_UNALIGNED_U32 __attribute__((aligned(1), may_alias));

#define DF_WORD_OF_2(lane, v, w)                                                                   \
  (lane((v) << 16, (w) << 16) | (lane((v)&0xffff0000u, (w)&0xffff0000u) << 16))
#define DF_WORD_OF_4(lane, v, w)                                                                   \
  (lane((v) << 24, (w) << 24) | (lane((v) << 16 & 0xff000000u, (w) << 16 & 0xff000000u) << 8) |    \
   (lane((v) << 8 & 0xff000000u, (w) << 8 & 0xff000000u) << 16) |                                  \
   (lane((v)&0xff000000u, (w)&0xff000000u) << 24))

/* All NaNs of a word at once. Only a NaN can give an infinity or a NaN. Adding 1 without the sign
 * carries into the sign's place only from a NaN. */
static inline uint32_t df_float8e4m3_nans(uint32_t word) {
  return ((word & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u;
}
static inline uint32_t df_float8e4m3_set_nans(uint32_t word, uint32_t nans) {
  return (word & ~nans) | (nans - (nans >> 7));
}
#define DF_WORD_OF_E4M3(lane, v, w)                                                                \
  df_float8e4m3_set_nans(DF_WORD_OF_4(lane, v, w), df_float8e4m3_nans(v) | df_float8e4m3_nans(w))

#define DF_REDUCE_PARAMETERS (void *dst, const void *a, const void *b, size_t count)
#define DF_AVERAGE_PARAMETERS                                                                      \
  (void *dst, const void *a, const void *b, size_t count, uint32_t divisor)
#define DF_DIVIDE_PARAMETERS (void *dst, const void *a, size_t count, uint32_t divisor)

/* lane may use the variables of prologue. The last word may be partial. */
#define DF_DEFINE_NARROW_LOOP(name, parameters, bytes, word, lane, prologue)                       \
  static void name parameters {                                                                    \
    prologue;                                                                                      \
    const size_t words = count / (4 / bytes), rest = count % (4 / bytes) * bytes;                  \
    DF_UNALIGNED_U32 *d = dst;                                                                     \
    const DF_UNALIGNED_U32 *x = a, *y = b;                                                         \
    DF_INDEPENDENT                                                                                 \
    for (size_t i = 0; i < words; i++) {                                                           \
      const uint32_t v = x[i], w = y[i];                                                           \
      d[i] = word(lane, v, w);                                                                     \
    }                                                                                              \
    if (rest > 0) {                                                                                \
      uint32_t v = 0, w = 0;                                                                       \
      df_copy(&v, x + words, rest);                                                                \
      df_copy(&w, y + words, rest);                                                                \
      v = word(lane, v, w);                                                                        \
      df_copy(d + words, &v, rest);                                                                \
    }                                                                                              \
  }

#define DF_NARROW_ARITHMETIC(type, bytes, word, SUM, PROD, AVERAGE, DIVIDE)                        \
  DF_DEFINE_NARROW_LOOP(df_sum_##type, DF_REDUCE_PARAMETERS, bytes, word, SUM, )                   \
  DF_DEFINE_NARROW_LOOP(df_prod_##type, DF_REDUCE_PARAMETERS, bytes, word, PROD, )                 \
  DF_DEFINE_NARROW_LOOP(df_average_##type, DF_AVERAGE_PARAMETERS, bytes, word, AVERAGE,            \
                        DF_ASSERT(divisor > 0);                                                    \
                        const float by = (float)divisor)                                           \
  DF_DEFINE_NARROW_LOOP(df_divide_##type, DF_DIVIDE_PARAMETERS, bytes, word, DIVIDE,               \
                        DF_ASSERT(divisor > 0);                                                    \
                        const float by = (float)divisor; const void *b = a)

#define DF_BRAIN(v) df_float32_of_bits(v)
#define DF_BRAIN_SUM(v, w) df_round_to_bfloat16(DF_BRAIN(v) + DF_BRAIN(w))
#define DF_BRAIN_PROD(v, w) df_round_to_bfloat16(DF_BRAIN(v) * DF_BRAIN(w))
#define DF_BRAIN_AVERAGE(v, w) df_round_to_bfloat16((DF_BRAIN(v) + DF_BRAIN(w)) / by)
#define DF_BRAIN_DIVIDE(v, w) ((void)(w), df_round_to_bfloat16(DF_BRAIN(v) / by))
DF_NARROW_ARITHMETIC(bfloat16, 2, DF_WORD_OF_2, DF_BRAIN_SUM, DF_BRAIN_PROD, DF_BRAIN_AVERAGE,
                     DF_BRAIN_DIVIDE)

#define DF_E4M3(v) df_widen_float8e4m3_top_number(v)
#define DF_E4M3_SUM(v, w) df_round_number_to_float8e4m3(DF_E4M3(v) + DF_E4M3(w))
#define DF_E4M3_PROD(v, w) df_round_number_to_float8e4m3(DF_E4M3(v) * DF_E4M3(w))
#define DF_E4M3_AVERAGE(v, w) df_round_number_to_float8e4m3((DF_E4M3(v) + DF_E4M3(w)) / by)
#define DF_E4M3_DIVIDE(v, w) ((void)(w), df_round_number_to_float8e4m3(DF_E4M3(v) / by))
DF_NARROW_ARITHMETIC(float8e4m3, 1, DF_WORD_OF_E4M3, DF_E4M3_SUM, DF_E4M3_PROD, DF_E4M3_AVERAGE,
                     DF_E4M3_DIVIDE)

#define DF_E5M2(v) df_widen_float16_top(v)
#define DF_E5M2_SUM(v, w) df_round_to_float8e5m2(DF_E5M2(v) + DF_E5M2(w))
#define DF_E5M2_PROD(v, w) df_round_to_float8e5m2(DF_E5M2(v) * DF_E5M2(w))
#define DF_E5M2_AVERAGE(v, w) df_round_to_float8e5m2((DF_E5M2(v) + DF_E5M2(w)) / by)
#define DF_E5M2_DIVIDE(v, w) ((void)(w), df_round_to_float8e5m2(DF_E5M2(v) / by))
DF_NARROW_ARITHMETIC(float8e5m2, 1, DF_WORD_OF_4, DF_E5M2_SUM, DF_E5M2_PROD, DF_E5M2_AVERAGE,
                     DF_E5M2_DIVIDE)

#if !defined(__F16C__) && !defined(DF_MOVER_NEON)

#define DF_HALF(v) df_widen_float16_top(v)
#define DF_HALF_SUM(v, w) df_round_to_float16(DF_HALF(v) + DF_HALF(w))
#define DF_HALF_PROD(v, w) df_round_to_float16(DF_HALF(v) * DF_HALF(w))
#define DF_HALF_AVERAGE(v, w) df_round_to_float16((DF_HALF(v) + DF_HALF(w)) / by)
#define DF_HALF_DIVIDE(v, w) ((void)(w), df_round_to_float16(DF_HALF(v) / by))
DF_NARROW_ARITHMETIC(float16, 2, DF_WORD_OF_2, DF_HALF_SUM, DF_HALF_PROD, DF_HALF_AVERAGE,
                     DF_HALF_DIVIDE)

#else /* the processor has an instruction for the conversion */

/* Only NaNs differ from the processor's result: they are made canonical. */
#if defined(__AVX512F__)
enum { DF_HALF_LANES = 16 };
typedef __m512 df_half_vector;
typedef __m256i df_half_bits;
#define DF_HALF_SPREAD(value) _mm512_set1_ps(value)
#define DF_HALF_ADD _mm512_add_ps
#define DF_HALF_MUL _mm512_mul_ps
#define DF_HALF_DIV _mm512_div_ps
#define DF_HALF_WIDEN _mm512_cvtph_ps
static inline df_half_bits df_half_round(df_half_vector v) {
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32((int)DF_FLOAT32_NAN));
  v = _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), nan);
  return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
static inline df_half_bits df_half_load_few(const void *src, size_t count) {
  return _mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1), src);
}
static inline void df_half_store_few(void *dst, df_half_bits bits, size_t count) {
  _mm256_mask_storeu_epi16(dst, (__mmask16)((1u << count) - 1), bits);
}
#define DF_HALF_FEW_BY_MASK
#elif defined(__F16C__)
enum { DF_HALF_LANES = 8 };
typedef __m256 df_half_vector;
typedef __m128i df_half_bits;
#define DF_HALF_SPREAD(value) _mm256_set1_ps(value)
#define DF_HALF_ADD _mm256_add_ps
#define DF_HALF_MUL _mm256_mul_ps
#define DF_HALF_DIV _mm256_div_ps
#define DF_HALF_WIDEN _mm256_cvtph_ps
static inline df_half_bits df_half_round(df_half_vector v) {
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)DF_FLOAT32_NAN));
  v = _mm256_blendv_ps(v, nan, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#else
enum { DF_HALF_LANES = 8 };
typedef struct {
  float32x4_t low, high;
} df_half_vector;
typedef uint16x8_t df_half_bits;
#define DF_HALF_SPREAD(value)                                                                      \
  (df_half_vector) { vdupq_n_f32(value), vdupq_n_f32(value) }
#define DF_DEFINE_HALF_OPERATION(name, operation)                                                  \
  static inline df_half_vector name(df_half_vector v, df_half_vector w) {                          \
    return (df_half_vector){operation(v.low, w.low), operation(v.high, w.high)};                   \
  }
DF_DEFINE_HALF_OPERATION(df_half_add, vaddq_f32)
DF_DEFINE_HALF_OPERATION(df_half_mul, vmulq_f32)
DF_DEFINE_HALF_OPERATION(df_half_div, vdivq_f32)
#define DF_HALF_ADD df_half_add
#define DF_HALF_MUL df_half_mul
#define DF_HALF_DIV df_half_div
#define DF_HALF_WIDEN df_half_widen
static inline df_half_vector df_half_widen(df_half_bits bits) {
  return (df_half_vector){vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(bits))),
                          vcvt_f32_f16(vreinterpret_f16_u16(vget_high_u16(bits)))};
}
static inline uint16x4_t df_half_round_four(float32x4_t v) {
  const float32x4_t nan = vreinterpretq_f32_u32(vdupq_n_u32(DF_FLOAT32_NAN));
  return vreinterpret_u16_f16(vcvt_f16_f32(vbslq_f32(vceqq_f32(v, v), v, nan)));
}
static inline df_half_bits df_half_round(df_half_vector v) {
  return vcombine_u16(df_half_round_four(v.low), df_half_round_four(v.high));
}
#endif

#if !defined(DF_HALF_FEW_BY_MASK)
static inline df_half_bits df_half_load_few(const void *src, size_t count) {
  df_half_bits bits = {0};
  df_copy(&bits, src, count * sizeof(uint16_t));
  return bits;
}
static inline void df_half_store_few(void *dst, df_half_bits bits, size_t count) {
  df_copy(dst, &bits, count * sizeof(uint16_t));
}
#endif

#define DF_DEFINE_HALF_LOOP(name, parameters, expression, prologue)                                \
  static void name parameters {                                                                    \
    prologue;                                                                                      \
    DF_MAY_ALIAS_U16 *d = dst;                                                                     \
    const DF_MAY_ALIAS_U16 *p = a, *q = b;                                                         \
    for (; count >= DF_HALF_LANES; count -= DF_HALF_LANES) {                                       \
      df_half_bits bits, others;                                                                   \
      memcpy(&bits, p, sizeof bits);                                                               \
      memcpy(&others, q, sizeof others);                                                           \
      const df_half_vector x = DF_HALF_WIDEN(bits), y = DF_HALF_WIDEN(others);                     \
      bits = df_half_round(expression);                                                            \
      memcpy(d, &bits, sizeof bits);                                                               \
      p += DF_HALF_LANES, q += DF_HALF_LANES, d += DF_HALF_LANES;                                  \
    }                                                                                              \
    if (count > 0) {                                                                               \
      const df_half_vector x = DF_HALF_WIDEN(df_half_load_few(p, count));                          \
      const df_half_vector y = DF_HALF_WIDEN(df_half_load_few(q, count));                          \
      df_half_store_few(d, df_half_round(expression), count);                                      \
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
