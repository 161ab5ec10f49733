/* Part of mover_cpu_kernels.inc.h. */

#define DF_COPY_PAIR(bytes_each)                                                                   \
  do {                                                                                             \
    char first[bytes_each], last[bytes_each];                                                      \
    memcpy(first, from, bytes_each);                                                               \
    memcpy(last, from + bytes - (bytes_each), bytes_each);                                         \
    memcpy(to, first, bytes_each);                                                                 \
    memcpy(to + bytes - (bytes_each), last, bytes_each);                                           \
  } while (0)

#if DF_MOVER_STREAM_BYTES

#if DF_MOVER_STREAM_BYTES == 64
typedef __m512i df_wide;
#define DF_WIDE_LOAD(from) _mm512_loadu_si512(from)
#define DF_WIDE_STORE(to, value) _mm512_storeu_si512(to, value)
#elif DF_MOVER_STREAM_BYTES == 32
typedef __m256i df_wide;
#define DF_WIDE_LOAD(from) _mm256_loadu_si256((const __m256i *)(from))
#define DF_WIDE_STORE(to, value) _mm256_storeu_si256((__m256i *)(to), value)
#else
typedef uint8x16_t df_wide;
#define DF_WIDE_LOAD(from) vld1q_u8((const uint8_t *)(from))
#define DF_WIDE_STORE(to, value) vst1q_u8((uint8_t *)(to), value)
#endif

/* More than 64 bytes. memcpy would use x86's string instructions, which are slower between two
 * cores' caches. */
static void df_copy_lines(char *to, const char *from, size_t bytes) {
  enum { WIDE = sizeof(df_wide) };
  const df_wide last = DF_WIDE_LOAD(from + bytes - WIDE);
  char *const end = to + bytes - WIDE;
  DF_WIDE_STORE(to, DF_WIDE_LOAD(from));
  const size_t head = WIDE - ((uintptr_t)to & (WIDE - 1));
  to += head;
  from += head;
  bytes -= head;
  for (; bytes >= 4 * WIDE; bytes -= 4 * WIDE, to += 4 * WIDE, from += 4 * WIDE) {
    const df_wide a = DF_WIDE_LOAD(from), b = DF_WIDE_LOAD(from + WIDE);
    const df_wide c = DF_WIDE_LOAD(from + 2 * WIDE), d = DF_WIDE_LOAD(from + 3 * WIDE);
    DF_WIDE_STORE(to, a);
    DF_WIDE_STORE(to + WIDE, b);
    DF_WIDE_STORE(to + 2 * WIDE, c);
    DF_WIDE_STORE(to + 3 * WIDE, d);
  }
  for (; bytes > WIDE; bytes -= WIDE, to += WIDE, from += WIDE)
    DF_WIDE_STORE(to, DF_WIDE_LOAD(from));
  DF_WIDE_STORE(end, last);
}

#else
#define df_copy_lines(to, from, bytes) memcpy(to, from, bytes)
#endif

/* Up to 64 bytes: two loads and two stores, which overlap unless bytes is a power of two. */
static void df_copy(void *dst, const void *src, size_t bytes) {
  char *to = dst;
  const char *from = src;
  if (bytes > 64) {
    if (dst != src) df_copy_lines(to, from, bytes);
  } else if (bytes >= 8) {
    if (bytes <= 16)
      DF_COPY_PAIR(8);
    else if (bytes <= 32)
      DF_COPY_PAIR(16);
    else
      DF_COPY_PAIR(32);
  } else if (bytes >= 4) {
    DF_COPY_PAIR(4);
  } else if (bytes >= 2) {
    DF_COPY_PAIR(2);
  } else if (bytes == 1) {
    *to = *from;
  }
}

#if DF_MOVER_STREAM_BYTES

#if DF_MOVER_STREAM_BYTES == 64
#define DF_STREAM_LINE(to, from) _mm512_stream_si512((__m512i *)(to), _mm512_loadu_si512(from))
#define DF_STREAM_FENCE() _mm_sfence()
#elif DF_MOVER_STREAM_BYTES == 32
#define DF_STREAM_FENCE() _mm_sfence()
#define DF_STREAM_LINE(to, from)                                                                   \
  do {                                                                                             \
    const __m256i low = _mm256_loadu_si256((const __m256i *)(from));                               \
    const __m256i high = _mm256_loadu_si256((const __m256i *)((from) + 32));                       \
    _mm256_stream_si256((__m256i *)(to), low);                                                     \
    _mm256_stream_si256((__m256i *)((to) + 32), high);                                             \
  } while (0)
#else
/* For memory order these are two plain stores, which later plain stores may overtake on Arm. */
static inline void df_store_pair_stream(char *to, df_wide low, df_wide high) {
  typedef struct {
    char bytes[32];
  } __attribute__((may_alias)) pair;
  __asm__ volatile("stnp %q[low], %q[high], [%[to]]"
                   : "=m"(*(pair *)to)
                   : [low] "w"(low), [high] "w"(high), [to] "r"(to));
}
#define DF_STREAM_LINE(to, from)                                                                   \
  do {                                                                                             \
    const df_wide first = DF_WIDE_LOAD(from), second = DF_WIDE_LOAD((from) + 16);                  \
    const df_wide third = DF_WIDE_LOAD((from) + 32), fourth = DF_WIDE_LOAD((from) + 48);           \
    df_store_pair_stream(to, first, second);                                                       \
    df_store_pair_stream((to) + 32, third, fourth);                                                \
  } while (0)
#define DF_STREAM_FENCE() __asm__ volatile("dmb ishst" ::: "memory")
#endif

/* Has no fence. Only whole lines are stored past the caches, because a line that is written in part
 * would first be read from memory. */
static void df_stream(char *to, const char *from, size_t bytes) {
  const size_t head = DF_MIN((size_t)(-(uintptr_t)to & 63u), bytes);
  df_copy(to, from, head);
  to += head;
  from += head;
  bytes -= head;
  for (; bytes >= 64; bytes -= 64, to += 64, from += 64) DF_STREAM_LINE(to, from);
  df_copy(to, from, bytes);
}

static void df_copy_stream(void *dst, const void *src, size_t bytes) {
  if (dst == src) return;
  df_stream(dst, src, bytes);
  DF_STREAM_FENCE();
}

/* Copies through a block that stays in the first-level cache. */
static void df_reduce_blocks(df_reduce_fn reduce, size_t element, void *dst, const void *a,
                             const void *b, size_t count) {
  enum { BLOCK_BYTES = 4096 };
  DF_ALIGNED(64) char block[BLOCK_BYTES];
  char *to = dst;
  const char *x = a, *y = b;
  size_t bytes = count * element;
  size_t part = BLOCK_BYTES - ((uintptr_t)to & 63u);
  while (bytes > 0) {
    part = DF_MIN(part, bytes);
    reduce(block, x, y, part / element);
    df_stream(to, block, part);
    to += part;
    x += part;
    y += part;
    bytes -= part;
    part = BLOCK_BYTES;
  }
  DF_STREAM_FENCE();
}

#define DF_DEFINE_STREAM(type, op, element)                                                        \
  static void df_stream_##op##_##type(void *dst, const void *a, const void *b, size_t count) {     \
    df_reduce_blocks(df_##op##_##type, element, dst, a, b, count);                                 \
  }
#define DF_STREAM_OF(type, op) df_stream_##op##_##type

#else

#define df_copy_stream df_copy
#define DF_DEFINE_STREAM(type, op, element)
#define DF_STREAM_OF(type, op) df_##op##_##type

#endif
