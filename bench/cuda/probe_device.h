/* The accesses of base/atomic.h, spelt out: the probe includes nothing of the library. */
#ifndef DF_BENCH_CUDA_PROBE_DEVICE_H
#define DF_BENCH_CUDA_PROBE_DEVICE_H

#include <cstdint>

static __device__ inline uint64_t device_ns() {
  uint64_t ns;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
  return ns;
}
static __device__ inline uint64_t load_relaxed(const uint64_t *word) {
  uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0,[%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
static __device__ inline uint64_t load_acquire(const uint64_t *word) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0,[%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
static __device__ inline void store_relaxed(uint64_t *word, uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0],%1;" ::"l"(word), "l"(value) : "memory");
}

#endif
