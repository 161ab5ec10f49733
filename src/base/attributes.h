/* Compiler attributes; macros that let one source be C11 and CUDA C++. */
#ifndef DF_BASE_ATTRIBUTES_H
#define DF_BASE_ATTRIBUTES_H

#include <stddef.h>
#include <stdint.h>

#if defined(__CUDACC__)
#define DF_CORE static __host__ __device__ __forceinline__
#define DF_CORE_APART DF_CORE
/* One lane's, in many places: its registers burden none of them. */
#define DF_CORE_LEADER static __host__ __device__ __noinline__
#else
#define DF_CORE_LEADER static inline
#define DF_CORE static inline
/* Short messages do not reach it: the caller keeps its registers. */
#define DF_CORE_APART __attribute__((noinline, unused)) static
#endif

#if defined(__CUDA_ARCH__)
#define DF_ON_DEVICE 1
#else
#define DF_ON_DEVICE 0
#endif

#ifdef __cplusplus
#define DF_STATIC_ASSERT(condition, text) static_assert(condition, text)
#define DF_RESTRICT __restrict__
#else
#define DF_STATIC_ASSERT(condition, text) _Static_assert(condition, text)
#define DF_RESTRICT restrict
#endif

#define DF_ALIGNED(n) __attribute__((aligned(n)))
#define DF_LIKELY(x) __builtin_expect(!!(x), 1)
#define DF_UNLIKELY(x) __builtin_expect(!!(x), 0)
/* Seldom reached. */
#define DF_COLD __attribute__((cold, noinline))
/* Often reached, yet not on the shortest way. */
#define DF_APART __attribute__((noinline))
#define DF_INLINE inline __attribute__((always_inline))
#define DF_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* Rules of locks, which clang's -Wthread-safety checks (base/mutex.h). gcc and nvcc do not. */
#if defined(__clang__) && !defined(__CUDACC__) && !defined(__cplusplus)
#define DF_THREAD_SAFETY(...) __attribute__((__VA_ARGS__))
#else
#define DF_THREAD_SAFETY(...)
#endif
#define DF_CAPABILITY(kind) DF_THREAD_SAFETY(capability(kind))
#define DF_GUARDED_BY(lock) DF_THREAD_SAFETY(guarded_by(lock))
#define DF_PT_GUARDED_BY(lock) DF_THREAD_SAFETY(pt_guarded_by(lock))
#define DF_REQUIRES(...) DF_THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define DF_ACQUIRE(...) DF_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define DF_TRY_ACQUIRE(...) DF_THREAD_SAFETY(try_acquire_capability(__VA_ARGS__))
#define DF_RELEASE(...) DF_THREAD_SAFETY(release_capability(__VA_ARGS__))
#define DF_EXCLUDES(...) DF_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
#define DF_ASSERT_CAPABILITY(lock) DF_THREAD_SAFETY(assert_capability(lock))
/* Each use has its reason beside it. */
#define DF_NO_THREAD_SAFETY_ANALYSIS DF_THREAD_SAFETY(no_thread_safety_analysis)

#define DF_MIN(a, b) ((a) < (b) ? (a) : (b))
#define DF_MAX(a, b) ((a) > (b) ? (a) : (b))
#define DF_ALIGN_UP(value, alignment) (((value) + (alignment)-1) / (alignment) * (alignment))
#define DF_DIV_UP(value, divisor) (((value) + (divisor)-1) / (divisor))
#define DF_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
