/* Waiting between threads, streams and kernels: calls for the lock of the driver, launches behind
 * commands of other streams, kernels that are launched again. */
#include "probe.h"

#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include <cuda.h>

/* ---- locks: while one thread is in a call that waits for the device, what holds up the others? */

static void *victim, *pinned;

static void time_beside(const char *name, void (*call)()) {
  uint64_t *up = probe_mapped(64), *stop = probe_mapped(64), *word = probe_mapped(64);
  cudaStream_t busy = probe_stream(0), other = probe_stream(0);
  probe_resident(busy, 1, up, stop, 300000000);
  probe_comes(up, 1, 1e6);
  std::atomic<int> in{0};
  double took = 0;
  std::thread caller([&] {
    cudaSetDevice(0);
    const double begun = probe_now_us();
    in = 1;
    call();
    took = probe_now_us() - begun;
    in = 2;
  });
  while (in == 0) {
  }
  probe_nap_us(20000);
  const bool waits = in == 1;
  double begun = probe_now_us();
  cudaStreamQuery(busy);
  const double query = probe_now_us() - begun;
  begun = probe_now_us();
  probe_mark(other, word, 1);
  const double launch = probe_now_us() - begun;
  const bool ran = probe_comes(word, 1, 50000);
  probe_put(stop, 1);
  caller.join();
  PROBE_TRY(cudaDeviceSynchronize());
  probe_report("lock",
               {{"waits", waits},
                {"ms", took / 1e3},
                {"query_ms", query / 1e3},
                {"launch_ms", launch / 1e3},
                {"ran", ran}},
               "%s waits for the kernel: %s (%.1f ms); meanwhile cudaStreamQuery took %.3f ms, a "
               "launch %.3f ms, and the launch ran: %s",
               name, waits ? "yes" : "no", took / 1e3, query / 1e3, launch / 1e3,
               ran ? "yes" : "NO");
  cudaStreamDestroy(busy);
  cudaStreamDestroy(other);
}

void probe_locks() {
  PROBE_TRY(cudaMalloc(&victim, 64 << 20));
  PROBE_TRY(cudaHostAlloc(&pinned, 1 << 20, 0));
  static uint64_t *word = probe_mapped(64);
  static void *taken[2];
  static cudaStream_t stream;
  time_beside("cudaDeviceSynchronize", [] { cudaDeviceSynchronize(); });
  time_beside("cudaMalloc of 64 MB", [] { cudaMalloc(&taken[0], 64 << 20); });
  time_beside("cudaFree of 64 MB", [] { cudaFree(victim); });
  time_beside("cudaHostAlloc", [] { cudaHostAlloc(&taken[1], 1 << 20, 0); });
  time_beside("cudaFreeHost", [] { cudaFreeHost(pinned); });
  time_beside("a kernel's first launch", [] { probe_lazy_mark(nullptr, word); });
  time_beside("cudaStreamCreate",
              [] { cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking); });
}

/* ---- queues: some streams wait for a value; does a launch on another stream begin? */

typedef CUresult (*wait_value)(CUstream stream, CUdeviceptr address, cuuint64_t value,
                               unsigned flags);

static wait_value find_wait_value() {
  void *entry = nullptr;
  cudaDriverEntryPointQueryResult found;
  if (cudaGetDriverEntryPointByVersion("cuStreamWaitValue64", &entry, 12000, cudaEnableDefault,
                                       &found) != cudaSuccess)
    entry = nullptr;
  return (wait_value)entry;
}

static void try_queues(wait_value wait, size_t waiting, bool greatest) {
  const char *connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const int priority = probe_priority(greatest);
  uint64_t *gate = probe_mapped(64), *words = probe_mapped(64);
  std::vector<cudaStream_t> streams(waiting);
  cudaStream_t older = probe_stream(priority);
  for (cudaStream_t &stream : streams) stream = probe_stream(probe_priority(false));
  cudaStream_t newer = probe_stream(priority);
  probe_mark(older, words, 1); /* queues may be given at the first use */
  probe_mark(newer, words, 1);
  for (cudaStream_t stream : streams) probe_mark(stream, words, 1);
  PROBE_TRY(cudaDeviceSynchronize());
  for (cudaStream_t stream : streams) {
    if (wait(stream, (CUdeviceptr)gate, 1, CU_STREAM_WAIT_VALUE_GEQ) != CUDA_SUCCESS) {
      probe_report("queues", {}, "FAILED: cuStreamWaitValue64");
      exit(1);
    }
    probe_mark(stream, words, 1);
  }
  probe_mark(older, words + 1, 1);
  const bool older_runs = probe_comes(words + 1, 1, 100000);
  probe_mark(newer, words + 2, 1);
  const bool newer_runs = probe_comes(words + 2, 1, 100000);
  probe_put(gate, 1);
  PROBE_TRY(cudaDeviceSynchronize());
  probe_report(
      "queues",
      {{"connections", connections ? atof(connections) : 0},
       {"waiting", waiting},
       {"greatest", greatest},
       {"older_runs", older_runs},
       {"newer_runs", newer_runs}},
      "connections %s, %zu streams wait; a launch of %s priority on an older stream %s, on "
      "a newer one %s",
      connections ? connections : "default", waiting, greatest ? "the greatest" : "the usual",
      older_runs ? "runs" : "is STUCK", newer_runs ? "runs" : "is STUCK");
  for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
  cudaStreamDestroy(older);
  cudaStreamDestroy(newer);
}

void probe_queues() {
  wait_value wait = find_wait_value();
  if (wait == nullptr) {
    probe_report("queues", {}, "this driver has no cuStreamWaitValue64");
    return;
  }
  for (bool greatest : {true, false})
    for (size_t waiting : {1, 2, 6, 7, 8, 9, 16, 33}) try_queues(wait, waiting, greatest);
}

/* ---- relaunches: beside resident kernels one ends and is launched again: when does it begin? */

void probe_relaunches() {
  for (size_t n : {1, 2, 8, 16, 24}) {
    uint64_t *up = probe_mapped(4096), *stop = probe_mapped(4096);
    std::vector<cudaStream_t> streams(n);
    double slowest = 0;
    int late = 0;
    for (size_t i = 0; i < n; i++) {
      streams[i] = probe_stream(probe_priority(true));
      probe_resident(streams[i], 512, up + i, stop + i, 400000000);
    }
    for (size_t i = 0; i < n; i++) probe_comes(up + i, 1, 1e6);
    for (size_t i = 0; i < n; i++) {
      probe_put(stop + i, 1);
      while (cudaStreamQuery(streams[i]) == cudaErrorNotReady) {
      }
      probe_put(stop + i, 0);
      probe_put(up + i, 0);
      const double begun = probe_now_us();
      probe_resident(streams[i], 512, up + i, stop + i, 400000000);
      late += !probe_comes(up + i, 1, 100000);
      const double took = probe_now_us() - begun;
      if (took > slowest) slowest = took;
    }
    probe_report(
        "relaunch", {{"resident", n - 1}, {"us", slowest}, {"late", late}},
        "beside %zu resident kernels the slowest began after %.1f us, %d not within 100 ms", n - 1,
        slowest, late);
    for (size_t i = 0; i < n; i++) probe_put(stop + i, 1);
    PROBE_TRY(cudaDeviceSynchronize());
    for (cudaStream_t stream : streams) cudaStreamDestroy(stream);
  }
}
