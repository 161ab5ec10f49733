#include <cuda/atomic>
#include <cuda_fp16.h>

#include "test_kernels.h"

template <class T> using system_ref = cuda::atomic_ref<T, cuda::thread_scope_system>;

static __global__ void add(uint64_t *total, uint64_t value) {
  system_ref<uint64_t>(*total).fetch_add(value, cuda::memory_order_relaxed);
}

static __global__ void stay(uint32_t *here, const uint32_t *go) {
  if (threadIdx.x == 0) {
    system_ref<uint32_t>(*here).fetch_add(1, cuda::memory_order_release);
    while (system_ref<uint32_t>(*const_cast<uint32_t *>(go)).load(cuda::memory_order_acquire) == 0)
      __nanosleep(100);
  }
  __syncthreads();
}

static __global__ void tree_sum(uint32_t *sums) {
  __shared__ uint32_t part[TEST_THREADS];
  const uint32_t me = threadIdx.x;
  part[me] = me + blockIdx.x;
  __syncthreads();
  for (uint32_t width = TEST_THREADS; width > 1; width = (width + 1) / 2) {
    const uint32_t half = (width + 1) / 2;
    if (me < width / 2) part[me] += part[me + half];
    __syncthreads();
  }
  if (me == 0) sums[blockIdx.x] = part[0];
}

static __global__ void warp(uint32_t *out) {
  const uint32_t all = 0xffffffffu, me = threadIdx.x % 32;
  uint32_t sum = threadIdx.x;
  for (uint32_t bits = 16; bits > 0; bits /= 2) sum += __shfl_xor_sync(all, sum, bits);
  const uint32_t first = __shfl_sync(all, threadIdx.x, 0);
  const uint32_t above = __shfl_down_sync(all, me, 1), below = __shfl_up_sync(all, me, 1);
  uint32_t good = above == (me == 31 ? 31 : me + 1);
  good &= below == (me == 0 ? 0 : me - 1);
  good &= __ballot_sync(all, me % 3 == 0) == 0x49249249u;
  good &= __any_sync(all, me == 7) && !__any_sync(all, me == 32) && __all_sync(all, me < 32);
  if (me < 8) { /* some lanes shuffle among themselves */
    uint32_t few = me;
    for (uint32_t bits = 4; bits > 0; bits /= 2) few += __shfl_xor_sync(0xffu, few, bits);
    good &= few == 28;
    __syncwarp(0xffu);
  }
  __syncwarp();
  out[threadIdx.x] = good ? sum + first : 0;
}

static __global__ void handover(uint32_t *wrong, uint32_t synced) {
  __shared__ uint32_t word;
  if (threadIdx.x == 0) word = 0;
  __syncthreads();
  if (threadIdx.x == 0) word = 1;
  if (synced) __syncwarp();
  if (word != 1) system_ref<uint32_t>(*wrong).fetch_add(1, cuda::memory_order_relaxed);
}

static __global__ void mistake(uint32_t what) {
  const uint32_t me = threadIdx.x;
  if (what == MISTAKE_DIVERGENT) {
    if (me % 2)
      __syncthreads();
    else
      __syncthreads();
  } else if (what == MISTAKE_ENDED) {
    if (me != 3) __syncthreads();
  } else if (what == MISTAKE_WARP) {
    if (me != 5) __syncwarp();
  } else {
    __builtin_assume(me != 9);
  }
}

static __global__ void copy(uint8_t *to, const uint8_t *from, uint32_t bytes) {
  for (uint32_t i = threadIdx.x; i < bytes; i += blockDim.x) {
    __builtin_assume(__isGlobal(to + i));
    __builtin_assume(__isGlobal(from + i));
    to[i] = from[i];
  }
}

static __global__ void note(uint32_t *log, uint32_t *next, uint32_t name) {
  if (threadIdx.x == 0)
    log[system_ref<uint32_t>(*next).fetch_add(1, cuda::memory_order_acq_rel)] = name;
}

/* Lane 0 stores the words; the lane that announces them is another one behind the barrier. */
static __global__ void announce(uint64_t *words, uint64_t *announced, const uint64_t *taken,
                                uint32_t rounds, uint32_t how) {
  for (uint64_t round = 1; round <= rounds; round++) {
    if (threadIdx.x == 0)
      for (uint32_t i = 0; i < TEST_WORDS; i++)
        system_ref<uint64_t>(words[i]).store(round, cuda::memory_order_relaxed);
    __syncthreads();
    if (threadIdx.x == 1) {
      system_ref<uint64_t> word(*announced);
      if (how == FENCE_DEVICE)
        cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_device);
      if (how == FENCE_SYSTEM)
        cuda::atomic_thread_fence(cuda::memory_order_acq_rel, cuda::thread_scope_system);
      word.store(round,
                 how == FENCE_RELEASE ? cuda::memory_order_release : cuda::memory_order_relaxed);
      while (system_ref<uint64_t>(*const_cast<uint64_t *>(taken)).load(cuda::memory_order_acquire) <
             round)
        __nanosleep(20);
    }
    __syncthreads();
  }
}

static __global__ void halves(uint16_t *back) {
  for (uint32_t i = threadIdx.x; i < 65536; i += blockDim.x)
    back[i] = __half_as_ushort(__float2half_rn(__half2float(__ushort_as_half((unsigned short)i))));
}

#define TEST_KERNEL(name)                                                                          \
  CUDA_EMULATOR_KERNEL(name, 1024);                                                                \
  const void *const test_##name = reinterpret_cast<const void *>(name)

TEST_KERNEL(add);
TEST_KERNEL(stay);
TEST_KERNEL(tree_sum);
TEST_KERNEL(warp);
TEST_KERNEL(handover);
TEST_KERNEL(mistake);
TEST_KERNEL(copy);
TEST_KERNEL(note);
TEST_KERNEL(announce);
TEST_KERNEL(halves);
