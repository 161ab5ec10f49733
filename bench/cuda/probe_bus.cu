/* Facts of the GPU, memory of the program that is page-locked where it is, and how long one access
 * takes: by one thread, each dependent on the last. */
#include "probe.h"

#include <cuda.h>

#include "probe_device.h"

static void attribute(const char *name, cudaDeviceAttr attribute) {
  int value = -1;
  if (cudaDeviceGetAttribute(&value, attribute, 0) != cudaSuccess) cudaGetLastError();
  probe_report("facts", {{"value", value}}, "%s: %d", name, value);
}

void probe_facts() {
  cudaDeviceProp properties;
  int runtime = 0, driver = 0;
  PROBE_TRY(cudaGetDeviceProperties(&properties, 0));
  PROBE_TRY(cudaRuntimeGetVersion(&runtime));
  PROBE_TRY(cudaDriverGetVersion(&driver));
  probe_report("facts",
               {{"multiprocessors", properties.multiProcessorCount},
                {"l2_bytes", properties.l2CacheSize},
                {"driver", driver}},
               "%s, %d multiprocessors, L2 %d MB, runtime %d, driver %d", properties.name,
               properties.multiProcessorCount, properties.l2CacheSize >> 20, runtime, driver);
  attribute("host native atomics", cudaDevAttrHostNativeAtomicSupported);
  attribute("pageable memory access", cudaDevAttrPageableMemoryAccess);
  attribute("host pointers of registered memory", cudaDevAttrCanUseHostPointerForRegisteredMem);
  attribute("kernels have a time limit", cudaDevAttrKernelExecTimeout);
  attribute("compute preemption", cudaDevAttrComputePreemptionSupported);
  attribute("64-bit stream memory operations",
            (cudaDeviceAttr)CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS);
  attribute("MPS", (cudaDeviceAttr)CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
  probe_report("facts", {{"least", probe_priority(false)}, {"greatest", probe_priority(true)}},
               "priorities %d to %d", probe_priority(false), probe_priority(true));
}

/* ---- pages */

static __global__ void add_one(uint64_t *word) { *word += 1; }

/* The page of this word becomes page-locked, and a kernel changes the word. */
static void try_page(const char *name, volatile uint64_t *word) {
  enum { PAGE_BYTES = 4096 };
  void *page = (void *)((uintptr_t)word / PAGE_BYTES * PAGE_BYTES);
  *word = 41;
  cudaError_t error =
      cudaHostRegister(page, PAGE_BYTES, cudaHostRegisterMapped | cudaHostRegisterPortable);
  if (error == cudaSuccess) {
    add_one<<<1, 1>>>((uint64_t *)word);
    error = cudaGetLastError();
    const cudaError_t after = cudaDeviceSynchronize();
    if (error == cudaSuccess) error = after;
    cudaHostUnregister(page);
  }
  const bool seen = error == cudaSuccess && *word == 42;
  probe_report("pages", {{"usable", seen}}, "%s: %s", name,
               seen                   ? "usable"
               : error == cudaSuccess ? "NOT CHANGED"
                                      : cudaGetErrorString(error));
  cudaGetLastError();
}

void probe_pages() {
  alignas(4096) static volatile uint64_t initialised[512] = {1}, zero[512];
  volatile uint64_t local = 0;
  try_page("an initialised static variable, page-locked", &initialised[1]);
  try_page("a static variable without a value, page-locked", &zero[1]);
  try_page("the main thread's stack, page-locked", &local);
}

/* ---- times */

enum { REPETITIONS = 300, ACCESSES = 10 };

static __global__ void time_accesses(uint64_t *own, uint64_t *host, uint64_t *ns) {
  uint64_t sum = 0, begun;
#define TIMED(kind, access)                                                                        \
  begun = device_ns();                                                                             \
  for (uint64_t i = 0; i < REPETITIONS; i++) {                                                     \
    access;                                                                                        \
  }                                                                                                \
  ns[kind] = (device_ns() - begun + REPETITIONS / 2) / REPETITIONS;
  TIMED(0, sum += load_relaxed(own + (sum & 1)))
  TIMED(1, sum += load_relaxed(host + (sum & 1)))
  TIMED(2, sum += load_acquire(host + (sum & 1)))
  TIMED(3, store_relaxed(own, i); __threadfence())
  TIMED(4, store_relaxed(own, i); __threadfence_system())
  TIMED(5, store_relaxed(host, i); __threadfence_system())
  TIMED(6, sum += atomicAdd_system((unsigned long long *)(own + 2), sum & 1))
  TIMED(7, sum += atomicAdd_system((unsigned long long *)(host + 2), sum & 1))
  TIMED(8, __nanosleep(20))
  uint64_t least = ~(uint64_t)0;
  for (int i = 0; i < 2000; i++) {
    const uint64_t before = device_ns();
    uint64_t after = before;
    while (after == before) after = device_ns();
    if (after - before < least) least = after - before;
  }
  ns[9] = least;
  ns[ACCESSES] = sum; /* so that nothing is left out */
}

static __global__ void time_barriers(uint64_t *ns) {
  const uint64_t begun = device_ns();
  for (int i = 0; i < 1000; i++) __syncthreads();
  if (threadIdx.x == 0) *ns = device_ns() - begun;
}

static __global__ void answer(const uint64_t *asked, uint64_t *answered, uint64_t n) {
  for (uint64_t k = 1; k <= n; k++) {
    while (load_acquire(asked) < k) {
    }
    store_relaxed(answered, k);
  }
}

static void time_round_trips() {
  enum { ROUNDS = 2000 };
  uint64_t *asked = probe_mapped(4096), *answered = probe_mapped(4096);
  double begun = 0;
  answer<<<1, 1>>>(asked, answered, ROUNDS);
  PROBE_TRY(cudaGetLastError());
  for (uint64_t k = 1; k <= ROUNDS; k++) {
    if (k == ROUNDS / 2) begun = probe_now_us();
    probe_put(asked, k);
    if (probe_comes(answered, k, 1e6)) continue;
    probe_put(asked, ROUNDS);
    probe_report("bus", {}, "FAILED: the kernel does not answer");
    return;
  }
  const double ns = (probe_now_us() - begun) * 1e3 / (ROUNDS / 2);
  probe_report("bus", {{"ns", ns}}, "host to kernel to host: %.0f ns", ns);
  PROBE_TRY(cudaDeviceSynchronize());
}

void probe_bus() {
  static const char *const names[ACCESSES] = {"load, relaxed.sys, own memory",
                                              "load, relaxed.sys, host memory",
                                              "load, acquire.sys, host memory",
                                              "store and gpu fence, own memory",
                                              "store and system fence, own memory",
                                              "store and system fence, host memory",
                                              "atomicAdd_system, own memory",
                                              "atomicAdd_system, host memory",
                                              "nanosleep(20)",
                                              "step of globaltimer"};
  uint64_t *host = probe_mapped(4096), *ns = probe_mapped(4096), *own;
  PROBE_TRY(cudaMalloc(&own, 4096));
  PROBE_TRY(cudaMemset(own, 0, 4096));
  for (int i = 0; i < 2; i++) { /* the second counts */
    time_accesses<<<1, 1>>>(own, host, ns);
    PROBE_TRY(cudaDeviceSynchronize());
  }
  for (int k = 0; k < ACCESSES; k++)
    probe_report("bus", {{"ns", ns[k]}}, "%s: %llu ns", names[k], (unsigned long long)ns[k]);
  time_barriers<<<1, 512>>>(ns);
  PROBE_TRY(cudaDeviceSynchronize());
  probe_report("bus", {{"ns", *ns / 1000}}, "barrier of 512 threads: %.1f ns", (double)*ns / 1000);
  time_round_trips();
}
