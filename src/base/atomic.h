/*
 * The library's only atomics and fences, named by their use. docs/MEMORY_MODEL.md lists every pair.
 *   publish, observe   release and acquire of system scope, so also across the bus
 *   relaxed            no order
 *   device_*           read-modify-write among the blocks of a device
 *   system_*           read-modify-write shared with the host or with other processes
 *   wake fence         a full fence: between publishing work and checking for sleepers, and between
 *                      registering as a sleeper and checking for work
 *   bus_*              the host's side of an exchange with a device
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
DF_CORE void df_release_fence(void) {
#if DF_ON_DEVICE
  cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_system);
#endif
}
/* A release fence for observers on this GPU in this process. It does not wait for stores that go
 * across the bus. */
DF_CORE void df_device_release_fence(void) {
#if DF_ON_DEVICE
  cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_device);
#endif
}
DF_CORE void df_publish_fenced_u64(uint64_t *p, uint64_t v) {
#if DF_ON_DEVICE
  DF_ATOMIC_SYSTEM(uint64_t, p).store(v, cuda::memory_order_relaxed);
#else
  df_publish_u64(p, v);
#endif
}
DF_CORE void df_publish_fenced_u32(uint32_t *p, uint32_t v) {
#if DF_ON_DEVICE
  DF_ATOMIC_SYSTEM(uint32_t, p).store(v, cuda::memory_order_relaxed);
#else
  df_publish_u32(p, v);
#endif
}
/* A pair consists of two relaxed accesses: PTX does not order the elements of a vector access. */
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
#else /* The address chooses the order, so tests see both orders. */
  const int turned = (uintptr_t)p / sizeof *p & 1;
  if (turned) v.second = df_load_relaxed_u64(&p->second);
  v.first = df_load_relaxed_u64(&p->first);
  if (!turned) v.second = df_load_relaxed_u64(&p->second);
#endif
  return v;
}
/* Each of the two loads is an acquire. */
DF_CORE df_word_pair df_observe_pair(const df_word_pair *p) {
  df_word_pair v;
#if DF_ON_DEVICE && !defined(__CUDA_EMULATOR__)
  asm volatile("ld.acquire.sys.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(v.first), "=l"(v.second)
               : "l"(__cvta_generic_to_global(p))
               : "memory");
#else
  v.second = df_observe_u64(&p->second);
  v.first = df_observe_u64(&p->first);
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
DF_CORE uint32_t df_device_sub_u32(uint32_t *p, uint32_t v) {
  return DF_ATOMIC_DEVICE(uint32_t, p).fetch_sub(v, cuda::memory_order_acq_rel);
}
DF_CORE int df_device_claim_u64(uint64_t *p, uint64_t expected, uint64_t v) {
  return DF_ATOMIC_DEVICE(uint64_t, p)
      .compare_exchange_strong(expected, v, cuda::memory_order_acq_rel, cuda::memory_order_relaxed);
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
/* Waits for about ns nanoseconds, and for at most one millisecond. */
DF_CORE void df_doze(uint32_t ns) {
#if DF_ON_DEVICE
  __nanosleep(ns);
#else
  (void)ns;
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
/* One fence precedes several df_publish_fenced. On the CPU each store is a release instead: the
 * cost is the same, and ThreadSanitizer understands it. */
DF_CORE void df_release_fence(void) {}
DF_CORE void df_device_release_fence(void) {}
DF_CORE void df_publish_fenced_u64(uint64_t *p, uint64_t v) {
  __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
DF_CORE void df_publish_fenced_u32(uint32_t *p, uint32_t v) {
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
/* This function is for the host only. */
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
  /* The sanitizer does not model fences. An atomic addition is a full fence on all machines that
   * the sanitizer supports. */
  static uint32_t fence_word;
  __atomic_fetch_add(&fence_word, 0, __ATOMIC_SEQ_CST);
#else
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
}
/* A wake fence for a thread that has unlocked a mutex since it published. On x86 the unlock was a
 * full fence, because it is a locked instruction (the C library omits the lock prefix only in a
 * single-threaded process). */
DF_CORE void df_wake_fence_unlocked(void) {
#if (defined(__x86_64__) || defined(__i386__)) && !defined(__SANITIZE_THREAD__) &&                 \
    !defined(DF_THREAD_SANITIZER) && !defined(DF_SIMULATION)
  __atomic_signal_fence(__ATOMIC_SEQ_CST);
#else
  df_wake_fence();
#endif
}
/* On Arm, inner-shareable fences do not order accesses across the bus. x86 orders them like memory
 * accesses. */
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
/* Device code that is compiled as C calls this function. */
DF_CORE void df_doze(uint32_t ns) {
  (void)ns;
  df_pause();
}

#endif
/* The counter has one writer; any thread may read it. */
DF_CORE void df_count(uint64_t *counter, uint64_t n) {
  df_store_relaxed_u64(counter, df_load_relaxed_u64(counter) + n);
}

#endif
