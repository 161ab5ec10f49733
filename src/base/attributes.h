/* Compiler attributes, and macros that let one source be compiled as C11 and as CUDA C++. */
#ifndef DF_BASE_ATTRIBUTES_H
#define DF_BASE_ATTRIBUTES_H

#include <stddef.h>
#include <stdint.h>

#if defined(__CUDACC__)
#define DF_CORE static __host__ __device__ __forceinline__
#define DF_CORE_APART DF_CORE
/* A function that one lane executes and many places call. It is not inlined, so that its registers
 * do not add to those of its callers. */
#define DF_CORE_LEADER static __host__ __device__ __noinline__
#else
#define DF_CORE_LEADER static inline
#define DF_CORE static inline
/* A function that the path of short messages does not call. It is not inlined, so that the caller
 * keeps its registers. */
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
/* The function is executed seldom. */
#define DF_COLD __attribute__((cold, noinline))
/* The function is executed often, but not on the shortest path. */
#define DF_APART __attribute__((noinline))
#define DF_INLINE inline __attribute__((always_inline))
#define DF_PRINTF(text, first) __attribute__((format(printf, text, first)))

/* Rules of locks, which clang checks with -Wthread-safety (base/mutex.h). gcc and nvcc ignore
 * them. */
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
/* A comment beside each use gives the reason. */
#define DF_NO_THREAD_SAFETY_ANALYSIS DF_THREAD_SAFETY(no_thread_safety_analysis)

#define DF_MIN(a, b) ((a) < (b) ? (a) : (b))
#define DF_MAX(a, b) ((a) > (b) ? (a) : (b))
#define DF_ALIGN_UP(value, alignment) (((value) + (alignment)-1) / (alignment) * (alignment))
#define DF_DIV_UP(value, divisor) (((value) + (divisor)-1) / (divisor))
#define DF_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

#endif
