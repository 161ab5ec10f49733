/* Copies by few blocks in messages, eight vectors in flight a thread, as the library moves data;
 * and two processes that answer each other through one word, which take turns on the GPU. */
#include "probe.h"

#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>

#include "probe_device.h"

static __global__ void copy(const uint4 *from, uint4 *to, uint64_t vectors, uint64_t message) {
  const uint64_t share = vectors / gridDim.x;
  from += blockIdx.x * share;
  to += blockIdx.x * share;
  for (uint64_t begun = 0; begun < share; begun += message) {
    const uint64_t end = begun + message < share ? begun + message : share;
    for (uint64_t i = begun + threadIdx.x; i < end; i += 8 * blockDim.x) {
      uint4 held[8];
#pragma unroll
      for (int k = 0; k < 8; k++)
        if (i + k * blockDim.x < end) held[k] = from[i + k * blockDim.x];
#pragma unroll
      for (int k = 0; k < 8; k++)
        if (i + k * blockDim.x < end) to[i + k * blockDim.x] = held[k];
    }
    __syncthreads();
    if (threadIdx.x == 0) __threadfence_system();
    __syncthreads();
  }
}

struct buffers {
  uint4 *from, *to;
  size_t bytes;
};

static buffers take_buffers() {
  buffers two = {nullptr, nullptr, (size_t)1 << 30};
  PROBE_TRY(cudaMalloc(&two.from, two.bytes));
  PROBE_TRY(cudaMalloc(&two.to, two.bytes));
  return two;
}

void probe_copies() {
  const buffers two = take_buffers();
  cudaEvent_t events[2];
  float ms = 0;
  for (cudaEvent_t &event : events) PROBE_TRY(cudaEventCreate(&event));
  for (unsigned blocks : {1u, 8u, 16u, 32u, 64u, 128u})
    for (unsigned threads : {256u, 512u})
      for (size_t message : {32768, 131072, 1048576}) {
        const size_t bytes = blocks < 8 ? two.bytes / 16 : two.bytes;
        for (int i = 0; i < 2; i++) { /* the second counts */
          PROBE_TRY(cudaEventRecord(events[0]));
          copy<<<blocks, threads>>>(two.from, two.to, bytes / 16, message / 16);
          PROBE_TRY(cudaEventRecord(events[1]));
          PROBE_TRY(cudaEventSynchronize(events[1]));
        }
        PROBE_TRY(cudaEventElapsedTime(&ms, events[0], events[1]));
        const double rate = (double)bytes / ms / 1e6;
        probe_report(
            "copy",
            {{"blocks", blocks}, {"threads", threads}, {"message", message}, {"GBps", rate}},
            "%u blocks of %u threads, messages of %zu KB: %.1f GB/s, %.1f a block", blocks, threads,
            message >> 10, rate, rate / blocks);
      }
}

void probe_warm(double seconds) {
  const buffers two = take_buffers();
  const double end = probe_now_us() + seconds * 1e6;
  while (probe_now_us() < end) {
    for (int i = 0; i < 16; i++) copy<<<264, 512>>>(two.from, two.to, two.bytes / 16, 65536);
    PROBE_TRY(cudaDeviceSynchronize());
  }
}

/* ---- slices */

enum { VOLLEYS = 100 };

/* Leaves after so many polls in vain, and goes on where it left. */
static __global__ void volley(uint64_t *word, uint64_t first, uint64_t polls, uint64_t *done) {
  uint64_t k = load_relaxed(done), vain = 0;
  while (k < VOLLEYS && vain < polls) {
    if (load_acquire(word) == first + 2 * k) {
      store_relaxed(word, first + 2 * k + 1);
      k++;
      vain = 0;
    } else {
      vain++;
      __nanosleep(20);
    }
  }
  store_relaxed(done, k);
}

static void must(bool fine) {
  if (!fine) exit(1);
}

static void play_side(bool second, int in, int out, uint64_t polls) {
  uint64_t *word;
  cudaIpcMemHandle_t handle;
  char byte = 0;
  if (!second) {
    PROBE_TRY(cudaMalloc(&word, 2 << 20));
    PROBE_TRY(cudaMemset(word, 0, 64));
    PROBE_TRY(cudaDeviceSynchronize());
    PROBE_TRY(cudaIpcGetMemHandle(&handle, word));
    must(write(out, &handle, sizeof handle) == sizeof handle && read(in, &byte, 1) == 1);
  } else {
    must(read(in, &handle, sizeof handle) == sizeof handle);
    PROBE_TRY(cudaIpcOpenMemHandle((void **)&word, handle, cudaIpcMemLazyEnablePeerAccess));
    must(write(out, &byte, 1) == 1);
  }
  uint64_t *done = probe_mapped(64);
  const double begun = probe_now_us();
  int launches = 0;
  for (; probe_look(done) < VOLLEYS && probe_now_us() - begun < 5e6; launches++) {
    volley<<<1, 1>>>(word, second, polls, done);
    PROBE_TRY(cudaDeviceSynchronize());
  }
  const double us = (probe_now_us() - begun) / VOLLEYS;
  const bool through = probe_look(done) == VOLLEYS;
  if (!second)
    probe_report("slice", {{"polls", polls}, {"us", us}, {"launches", launches}, {"done", through}},
                 "two processes that leave after %llu polls in vain: %.1f us a round trip, %d "
                 "launches, %s",
                 (unsigned long long)polls, us, launches, through ? "done" : "NOT DONE");
  /* The memory must outlive its mapping. */
  must(second ? write(out, &byte, 1) == 1 : read(in, &byte, 1) == 1);
  exit(0);
}

void probe_slices() {
  for (uint64_t polls : {50, 1000, 1000000}) {
    int there[2], back[2];
    must(pipe(there) == 0 && pipe(back) == 0);
    fflush(stdout);
    const pid_t first = fork();
    if (first == 0) { /* a side that waits for the other must see its end */
      close(back[1]), close(there[0]);
      play_side(false, back[0], there[1], polls);
    }
    const pid_t second = fork();
    if (second == 0) {
      close(there[1]), close(back[0]);
      play_side(true, there[0], back[1], polls);
    }
    for (int end : {there[0], there[1], back[0], back[1]}) close(end);
    waitpid(first, nullptr, 0);
    waitpid(second, nullptr, 0);
  }
}
