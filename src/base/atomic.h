/*
 * The only atomics and fences of the library, named by use.
 *
 *   publish, observe          release and acquire, of system scope (the far side of the bus
 *                             included): who observes the value sees all that came before it
 *   relaxed                   orders nothing: counters, and values that are only looked at
 *   device_*                  read-modify-write among the blocks of one device
 *   system_*                  read-modify-write between host and device, or two processes
 *   wake fence                full fence between "I have published" and "is anybody asleep?", and
 *                             between "I am about to sleep" and "is there news?" (store buffering)
 *   bus_release, bus_acquire  what the host adds if the other side is a device across the bus
 *
 * docs/MEMORY_MODEL.md lists every pair: what it orders, and why nothing stronger is needed.
 */
#ifndef DF_BASE_ATOMIC_H
#define DF_BASE_ATOMIC_H

#include "base/attributes.h"

#if defined(__CUDACC__)

#include <sched.h>

#include <cuda/atomic>

#define DF_ATOMIC_SYSTEM(T, p) cuda::atomic_ref<T, cuda::thread_scope_system>(*const_cast<T *>(p))
#define DF_ATOMIC_DEVICE(T, p) cuda::atomic_ref<T, cuda::thread_scope_device>(*const_cast<T *>(p))

DF_CORE uint32_t df_load_relaxed_u32(const uint32_t *p) {
  return DF_ATOMIC_SYSTEM(uint32_t, p).load(cuda::memory_order_relaxed);
}
DF_CORE uint64_t df_load_relaxed_u64(const uint64_t *p) {
  return DF_ATOMIC_SYSTEM(uint64_t, p).load(cuda::memory_order_relaxed);
}
DF_CORE void df_store_relaxed_u32(uint32_t *p, uint32_t v) {
  DF_ATOMIC_SYSTEM(uint32_t, p).store(v, cuda::memory_order_relaxed);
}
DF_CORE void df_store_relaxed_u64(uint64_t *p, uint64_t v) {
  DF_ATOMIC_SYSTEM(uint64_t, p).store(v, cuda::memory_order_relaxed);
}
DF_CORE uint32_t df_observe_u32(const uint32_t *p) {
  return DF_ATOMIC_SYSTEM(uint32_t, p).load(cuda::memory_order_acquire);
}
DF_CORE uint64_t df_observe_u64(const uint64_t *p) {
  return DF_ATOMIC_SYSTEM(uint64_t, p).load(cuda::memory_order_acquire);
}
DF_CORE void df_publish_u32(uint32_t *p, uint32_t v) {
  DF_ATOMIC_SYSTEM(uint32_t, p).store(v, cuda::memory_order_release);
}
DF_CORE void df_publish_u64(uint64_t *p, uint64_t v) {
  DF_ATOMIC_SYSTEM(uint64_t, p).store(v, cuda::memory_order_release);
}
/* One fence for several words, as in the C half. */
DF_CORE void df_release_fence(void) {
#if DF_ON_DEVICE
  cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_system);
#endif
}
DF_CORE void df_publish_fenced_u64(uint64_t *p, uint64_t v) {
#if DF_ON_DEVICE
  DF_ATOMIC_SYSTEM(uint64_t, p).store(v, cuda::memory_order_relaxed);
#else
  df_publish_u64(p, v);
#endif
}
/* Two words in one access of 16 bytes. Each word is a relaxed load or store of its own: PTX gives a
 * vector's elements no order. */
typedef struct DF_ALIGNED(16) df_word_pair {
  uint64_t first, second;
} df_word_pair;
DF_CORE df_word_pair df_load_relaxed_pair(const df_word_pair *p) {
  df_word_pair v;
#if DF_ON_DEVICE && !defined(__CUDA_EMULATOR__)
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(v.first), "=l"(v.second)
               : "l"(__cvta_generic_to_global(p))
               : "memory");
#else /* a processor: each pair has an order of its own */
  const int turned = (uintptr_t)p / sizeof *p & 1;
  if (turned) v.second = df_load_relaxed_u64(&p->second);
  v.first = df_load_relaxed_u64(&p->first);
  if (!turned) v.second = df_load_relaxed_u64(&p->second);
#endif
  return v;
}
DF_CORE void df_store_relaxed_pair(df_word_pair *p, df_word_pair v) {
#if DF_ON_DEVICE && !defined(__CUDA_EMULATOR__)
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};"
               :
               : "l"(__cvta_generic_to_global(p)), "l"(v.first), "l"(v.second)
               : "memory");
#else
  const int turned = (uintptr_t)p / sizeof *p & 1;
  if (turned) df_store_relaxed_u64(&p->first, v.first);
  df_store_relaxed_u64(&p->second, v.second);
  if (!turned) df_store_relaxed_u64(&p->first, v.first);
#endif
}
DF_CORE uint32_t df_device_add_u32(uint32_t *p, uint32_t v) {
  return DF_ATOMIC_DEVICE(uint32_t, p).fetch_add(v, cuda::memory_order_acq_rel);
}
DF_CORE uint64_t df_device_add_u64(uint64_t *p, uint64_t v) {
  return DF_ATOMIC_DEVICE(uint64_t, p).fetch_add(v, cuda::memory_order_acq_rel);
}
DF_CORE uint32_t df_system_sub_u32(uint32_t *p, uint32_t v) {
  return DF_ATOMIC_SYSTEM(uint32_t, p).fetch_sub(v, cuda::memory_order_acq_rel);
}
DF_CORE int df_system_claim_u64(uint64_t *p, uint64_t expected, uint64_t v) {
  return DF_ATOMIC_SYSTEM(uint64_t, p)
      .compare_exchange_strong(expected, v, cuda::memory_order_acq_rel, cuda::memory_order_relaxed);
}
DF_CORE int df_device_claim_u32(uint32_t *p, uint32_t expected, uint32_t v) {
  return DF_ATOMIC_DEVICE(uint32_t, p)
      .compare_exchange_strong(expected, v, cuda::memory_order_acq_rel, cuda::memory_order_relaxed);
}
DF_CORE void df_wake_fence(void) {
  cuda::atomic_thread_fence(cuda::memory_order_seq_cst, cuda::thread_scope_system);
}
DF_CORE void df_bus_release(void) {}
DF_CORE void df_bus_acquire(void) {}
DF_CORE void df_pause(void) {
#if DF_ON_DEVICE
  __nanosleep(20);
#else
  sched_yield();
#endif
}

#else /* host C */

DF_CORE uint32_t df_load_relaxed_u32(const uint32_t *p) {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}
DF_CORE uint64_t df_load_relaxed_u64(const uint64_t *p) {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}
DF_CORE void df_store_relaxed_u32(uint32_t *p, uint32_t v) {
  __atomic_store_n(p, v, __ATOMIC_RELAXED);
}
DF_CORE void df_store_relaxed_u64(uint64_t *p, uint64_t v) {
  __atomic_store_n(p, v, __ATOMIC_RELAXED);
}
DF_CORE uint32_t df_observe_u32(const uint32_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
DF_CORE uint64_t df_observe_u64(const uint64_t *p) { return __atomic_load_n(p, __ATOMIC_ACQUIRE); }
DF_CORE void df_publish_u32(uint32_t *p, uint32_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
DF_CORE void df_publish_u64(uint64_t *p, uint64_t v) { __atomic_store_n(p, v, __ATOMIC_RELEASE); }
/* One fence, then several words that are published: df_release_fence, df_publish_fenced,
 * df_publish_fenced. On the CPU the fence is nothing and each store a release: this costs the same,
 * and ThreadSanitizer understands it. */
DF_CORE void df_release_fence(void) {}
DF_CORE void df_publish_fenced_u64(uint64_t *p, uint64_t v) {
  __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
DF_CORE uint32_t df_device_add_u32(uint32_t *p, uint32_t v) {
  return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL);
}
DF_CORE uint64_t df_device_add_u64(uint64_t *p, uint64_t v) {
  return __atomic_fetch_add(p, v, __ATOMIC_ACQ_REL);
}
DF_CORE uint32_t df_system_sub_u32(uint32_t *p, uint32_t v) {
  return __atomic_fetch_sub(p, v, __ATOMIC_ACQ_REL);
}
DF_CORE int df_system_claim_u64(uint64_t *p, uint64_t expected, uint64_t v) {
  return __atomic_compare_exchange_n(p, &expected, v, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}
/* Host only: ownership words and sleepers' counts. */
DF_CORE int df_system_claim_u32(uint32_t *p, uint32_t expected, uint32_t v) {
  return __atomic_compare_exchange_n(p, &expected, v, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
}
DF_CORE uint32_t df_system_add_u32(uint32_t *p, uint32_t v) {
  return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST);
}
DF_CORE uint32_t df_system_exchange_u32(uint32_t *p, uint32_t v) {
  return __atomic_exchange_n(p, v, __ATOMIC_ACQ_REL);
}
DF_CORE void df_wake_fence(void) {
#if defined(__SANITIZE_THREAD__) || defined(DF_THREAD_SANITIZER)
  /* The sanitizer does not model fences. A sequentially consistent read-modify-write is a fence on
   * every machine that the sanitizer runs on. */
  static uint32_t fence_word;
  __atomic_fetch_add(&fence_word, 0, __ATOMIC_SEQ_CST);
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}
/* The same fence, for a thread that has let go of a mutex since it published. On x86 the unlock was
 * a locked instruction, hence a full fence. (If a C library leaves it out, the process has one
 * thread, and nobody sleeps.) */
DF_CORE void df_wake_fence_unlocked(void) {
#if (defined(__x86_64__) || defined(__i386__)) && !defined(__SANITIZE_THREAD__) &&                 \
    !defined(DF_THREAD_SANITIZER) && !defined(DF_SIMULATION)
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
#else
  df_wake_fence();
#endif
}
/* The host's side of what a device across the bus observes or publishes: some processors' fences do
 * not reach beyond their cores. x86 orders the bus's accesses like its own; Arm's inner-shareable
 * fences do not. */
DF_CORE void df_bus_release(void) {
#if defined(__aarch64__)
  __asm__ __volatile__("dmb oshst" ::: "memory");
#endif
}
DF_CORE void df_bus_acquire(void) {
#if defined(__aarch64__)
  __asm__ __volatile__("dmb oshld" ::: "memory");
#endif
}
DF_CORE void df_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

#endif
/* A counter with one writer. Anybody may look at it. */
DF_CORE void df_count(uint64_t *counter, uint64_t n) {
  df_store_relaxed_u64(counter, df_load_relaxed_u64(counter) + n);
}

#endif
