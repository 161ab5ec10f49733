/*
 * Device code as C++ of the host: included before everything else (-include), as nvcc includes
 * cuda_runtime.h. Keywords of CUDA, built-in variables and functions, and CUDA_EMULATOR_KERNEL.
 * Compiled with -D__CUDACC__ -D__CUDA_ARCH__=900: the device's half of the source.
 */
#ifndef CUDA_EMULATOR_DEVICE_H
#define CUDA_EMULATOR_DEVICE_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <tuple>
#include <utility>

#include "lane.h"

#define __host__
#define __device__
#define __global__
#define __constant__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
/* A block is one thread of the operating system, and its lanes are fibers. So shared memory is
 * thread-local. It is not cleared between blocks. */
#define __shared__ static thread_local
#define __CUDA_EMULATOR__ 1

struct uint4 {
  unsigned x, y, z, w;
} __attribute__((aligned(16)));
struct uint2 {
  unsigned x, y;
} __attribute__((aligned(8)));
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
  return uint4{x, y, z, w};
}
static inline uint2 make_uint2(unsigned x, unsigned y) { return uint2{x, y}; }

#define threadIdx (cuda_emulator_lane()->index)
#define blockIdx (cuda_emulator_lane()->place->block_index)
#define blockDim (cuda_emulator_lane()->place->block_size)
#define gridDim (cuda_emulator_lane()->place->grid_size)
#define warpSize 32

#define __syncthreads() cuda_emulator_meet_block(__FILE__, __LINE__)
/* There are barriers before and after the answer, so that the next vote does not mix with this
 * one. */
static inline int emulator_vote(bool fact, const char *file, int line) {
  static thread_local uint32_t against; /* a block is one thread */
  if (!fact) __atomic_store_n(&against, 1, __ATOMIC_RELAXED);
  cuda_emulator_meet_block(file, line);
  const int all = __atomic_load_n(&against, __ATOMIC_RELAXED) == 0;
  cuda_emulator_meet_block(file, line);
  __atomic_store_n(&against, 0, __ATOMIC_RELAXED);
  cuda_emulator_meet_block(file, line);
  return all;
}
#define __syncthreads_and(fact) emulator_vote((fact) != 0, __FILE__, __LINE__)
static inline void emulator_sync_warp(const char *file, int line, uint32_t mask = 0xffffffffu) {
  cuda_emulator_meet_warp(mask, file, line);
}
#define __syncwarp(...) emulator_sync_warp(__FILE__, __LINE__, ##__VA_ARGS__)

static inline uint32_t emulator_lane_in_warp() {
  const emulator_lane_view *lane = cuda_emulator_lane();
  const emulator_index size = lane->place->block_size;
  return (lane->index.x + size.x * (lane->index.y + size.y * lane->index.z)) % 32;
}

template <class T>
static inline T emulator_shuffle(uint32_t mask, T value, uint32_t from, const char *file,
                                 int line) {
  static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves 8 bytes at most");
  uint64_t mine = 0, values[32] = {};
  memcpy(&mine, &value, sizeof value);
  cuda_emulator_exchange(mask, mine, values, file, line);
  if (!(mask >> from & 1))
    cuda_emulator_mistake("%s:%d: a lane outside the mask is read", file, line);
  memcpy(&value, &values[from], sizeof value);
  return value;
}
static inline uint32_t emulator_no_further(uint32_t to, uint32_t self, bool inside) {
  return inside ? to : self;
}
#define __shfl_sync(mask, value, lane)                                                             \
  emulator_shuffle(mask, value, (uint32_t)(lane) % 32, __FILE__, __LINE__)
#define __shfl_xor_sync(mask, value, bits)                                                         \
  emulator_shuffle(mask, value, emulator_lane_in_warp() ^ (uint32_t)(bits), __FILE__, __LINE__)
#define __shfl_down_sync(mask, value, delta)                                                       \
  emulator_shuffle(mask, value,                                                                    \
                   emulator_no_further(emulator_lane_in_warp() + (uint32_t)(delta),                \
                                       emulator_lane_in_warp(),                                    \
                                       emulator_lane_in_warp() + (uint32_t)(delta) < 32),          \
                   __FILE__, __LINE__)
#define __shfl_up_sync(mask, value, delta)                                                         \
  emulator_shuffle(mask, value,                                                                    \
                   emulator_no_further(emulator_lane_in_warp() - (uint32_t)(delta),                \
                                       emulator_lane_in_warp(),                                    \
                                       emulator_lane_in_warp() >= (uint32_t)(delta)),              \
                   __FILE__, __LINE__)

static inline uint32_t emulator_ballot(uint32_t mask, bool fact, const char *file, int line) {
  uint64_t values[32] = {};
  cuda_emulator_exchange(mask, fact, values, file, line);
  uint32_t ballot = 0;
  for (uint32_t i = 0; i < 32; i++)
    if ((mask >> i & 1) && values[i]) ballot |= 1u << i;
  return ballot;
}
#define __ballot_sync(mask, fact) emulator_ballot(mask, (fact) != 0, __FILE__, __LINE__)
#define __any_sync(mask, fact) (__ballot_sync(mask, fact) != 0)
#define __all_sync(mask, fact) (__ballot_sync(mask, fact) == (mask))

static inline void __nanosleep(unsigned ns) { cuda_emulator_rest(ns); }
static inline long long clock64() { return (long long)cuda_emulator_clock(); }
static inline unsigned long long emulator_global_timer() { return cuda_emulator_clock(); }

/* The source states facts to the compiler; here they are checked. */
#define __isGlobal(pointer) cuda_emulator_check_global(pointer)
#define __builtin_assume(fact) ((fact) ? (void)0 : cuda_emulator_mistake("not true: %s", #fact))

/* ---- a kernel that can be launched */
template <class... A> struct emulator_kernel_caller {
  template <size_t... I>
  static void call_with(const void *function, void **arguments, std::index_sequence<I...>) {
    reinterpret_cast<void (*)(A...)>(const_cast<void *>(function))(
        *static_cast<std::remove_const_t<A> *>(arguments[I])...);
  }
  static void call(const void *function, void **arguments) {
    call_with(function, arguments, std::index_sequence_for<A...>());
  }
};
struct emulator_kernel_registration {
  cuda_emulator_kernel kernel = {};
  template <class... A>
  emulator_kernel_registration(const char *name, void (*function)(A...), uint32_t max_threads) {
    static_assert(sizeof...(A) <= CUDA_EMULATOR_ARGUMENTS, "too many arguments");
    const size_t bytes[] = {sizeof(A)..., 0};
    kernel.name = name;
    kernel.function = reinterpret_cast<const void *>(function);
    kernel.call = emulator_kernel_caller<A...>::call;
    kernel.max_threads = max_threads;
    kernel.n_arguments = sizeof...(A);
    for (size_t i = 0; i < sizeof...(A); i++) kernel.argument_bytes[i] = bytes[i];
    cuda_emulator_register(&kernel);
  }
};
#define CUDA_EMULATOR_KERNEL(function, max_threads)                                                \
  static emulator_kernel_registration emulator_registration_of_##function(#function, function,     \
                                                                          max_threads)

#endif
