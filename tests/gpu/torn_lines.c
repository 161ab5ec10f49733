/*
 * What DFCCL_CUDA_LINES_MAX relies on and PTX does not promise: of the eight 16-byte stores of a
 * warp to one line of 128 bytes, the one with the flag is not seen before the others.
 *
 *   torn-lines [--seconds N]          (5; of all hunts together)
 *
 * For each GPU, and for each pair of GPUs with peer access: one stores lines into the other's
 * memory, over and over, and the other looks at a line's flag and then at the line. A part that is
 * older than the flag is a torn line. Exit status: 0 none was seen, which is no proof; 1 one was,
 * or a call failed; 2 wrong usage.
 *
 * Beside it: how many lines that eight lanes loaded at once were mixed of several stores. The
 * library does not mind: it loads a line after its flag.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cuda_runtime_api.h>

#include "torn_lines.h"

#define CUDA(call)                                                                                 \
  do {                                                                                             \
    const cudaError_t error_ = (call);                                                             \
    if (error_ != cudaSuccess) {                                                                   \
      fprintf(stderr, "torn-lines: %s: %s\n", #call, cudaGetErrorString(error_));                  \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

enum { BLOCKS = 4 };

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static cudaStream_t stream_of(int device) {
  cudaStream_t stream;
  CUDA(cudaSetDevice(device));
  CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

static void launch(const void *kernel, void **arguments, cudaStream_t stream) {
  cudaLaunchConfig_t config = {
      .gridDim = {BLOCKS, 1, 1}, .blockDim = {TORN_THREADS, 1, 1}, .stream = stream};
  CUDA(cudaLaunchKernelExC(&config, kernel, arguments));
}

/* Kernels, loaded before one of them keeps the device. */
static void load(int device) {
  struct cudaFuncAttributes attributes;
  CUDA(cudaSetDevice(device));
  CUDA(cudaFuncGetAttributes(&attributes, torn_lines_writer()));
  CUDA(cudaFuncGetAttributes(&attributes, torn_lines_reader()));
}

/* For so many seconds. */
static int hunt(int from, int to, int native, double share) {
  const size_t bytes = (size_t)BLOCKS * TORN_PAIRS * 256;
  uint8_t *lines;
  struct shared {
    torn_counts counts;
    uint32_t stop;
  } * shared;
  load(from);
  load(to);
  cudaStream_t writes = stream_of(from), looks = stream_of(to);
  CUDA(cudaMalloc((void **)&lines, bytes)); /* of the device that looks */
  CUDA(cudaMemset(lines, 0, bytes));
  CUDA(cudaDeviceSynchronize());
  CUDA(
      cudaHostAlloc((void **)&shared, sizeof *shared, cudaHostAllocMapped | cudaHostAllocPortable));
  memset(shared, 0, sizeof *shared);
  torn_counts *counts = &shared->counts;
  uint32_t *stop = &shared->stop;
  uint64_t rounds = 10;
  double took = 0, begun = now_s();
  uint64_t stored = 0;
  do { /* the first rounds tell how many there is time for */
    void *to_look[] = {&lines, &stop, &counts};
    void *to_write[] = {&lines, &rounds};
    CUDA(cudaSetDevice(to));
    CUDA(cudaMemsetAsync(lines, 0, bytes, looks)); /* rounds begin anew */
    CUDA(cudaStreamSynchronize(looks));
    __atomic_store_n(stop, 0, __ATOMIC_RELEASE);
    launch(torn_lines_reader(), to_look, looks);
    CUDA(cudaSetDevice(from));
    const double before = now_s();
    launch(torn_lines_writer(), to_write, writes);
    CUDA(cudaStreamSynchronize(writes));
    took = now_s() - before;
    stored += rounds * BLOCKS * TORN_PAIRS * 2;
    if (took < 0.2) rounds *= 4;
    __atomic_store_n(stop, 1, __ATOMIC_RELEASE);
    CUDA(cudaStreamSynchronize(looks));
  } while (now_s() - begun < share);
  printf(
      "GPU %d stores, GPU %d looks%s: %llu lines stored, %llu times another one seen, torn %llu; "
      "mixed where loaded at once %llu\n",
      from, to,
      from == to ? ""
      : native   ? " (native atomics)"
                 : " (no native atomics)",
      (unsigned long long)stored, (unsigned long long)counts->looks,
      (unsigned long long)counts->torn, (unsigned long long)counts->mixed);
  if (counts->looks == 0) printf("nothing was seen: this says nothing\n");
  const int failed = counts->torn != 0 || counts->looks == 0;
  CUDA(cudaStreamDestroy(writes));
  CUDA(cudaStreamDestroy(looks));
  CUDA(cudaFree(lines));
  CUDA(cudaFreeHost(shared));
  return failed;
}

/* Peer access from the one to the other; *native: its link knows atomic accesses. */
static int can_reach(int from, int to, int *native) {
  int can = 0;
  *native = 0;
  CUDA(cudaDeviceCanAccessPeer(&can, from, to));
  if (!can) return 0;
  CUDA(cudaSetDevice(from));
  const cudaError_t error = cudaDeviceEnablePeerAccess(to, 0);
  if (error != cudaErrorPeerAccessAlreadyEnabled) CUDA(error);
  cudaGetLastError();
  CUDA(cudaDeviceGetP2PAttribute(native, cudaDevP2PAttrNativeAtomicSupported, from, to));
  return 1;
}

int main(int argc, char **argv) {
  int devices = 0, failed = 0, pairs = 0, native;
  double seconds = 5;
  if (argc == 3 && strcmp(argv[1], "--seconds") == 0 && (seconds = atof(argv[2])) > 0) argc = 1;
  if (argc != 1) {
    fprintf(stderr, "usage: torn-lines [--seconds N]\n");
    return 2;
  }
  CUDA(cudaGetDeviceCount(&devices));
  const double share = seconds / devices / devices;
  for (int from = 0; from < devices; from++)
    for (int to = 0; to < devices; to++) {
      if (from == to) {
        failed |= hunt(from, to, 0, share);
      } else if (can_reach(from, to, &native)) {
        failed |= hunt(from, to, native, share);
        pairs++;
      }
    }
  if (pairs == 0) printf("two GPUs: skipped: no pair of GPUs with peer access\n");
  return failed;
}
