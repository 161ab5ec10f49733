/*
 * Promises of the emulated CUDA runtime about memory, processes and faults. CUDA's guarantees about
 * kinds of memory and about memory of other processes hold, forbidden uses are refused, calls fail
 * on request, and work on a lost device stops.
 */
#include <stdlib.h>
#include <string.h>

#include "support/processes.h"
#include "visitor.h"

/* ---- memory */

DF_TEST(emulator_memory, devices_may_lack_access_to_each_other, 60) {
  int can = -1;
  setenv("CUDA_EMULATOR_PEERS", "0", 1);
  CUDA(cudaDeviceCanAccessPeer(&can, 0, 1));
  CHECK(can == 0, "device 0 reaches device 1: %d", can);
  REFUSED(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessUnsupported);
  CUDA(cudaDeviceGetP2PAttribute(&can, cudaDevP2PAttrNativeAtomicSupported, 0, 1));
  CHECK(can == 0, "with atomic accesses: %d", can);
}

DF_TEST(emulator_memory, memory_is_of_one_kind, 60) {
  char host[256];
  void *device, *locked = mapped(256), *view;
  CUDA(cudaMalloc(&device, 256));
  struct cudaPointerAttributes a;
  CUDA(cudaPointerGetAttributes(&a, (char *)device + 255));
  CHECK(a.type == cudaMemoryTypeDevice && a.device == 0, "type %d", a.type);
  CUDA(cudaPointerGetAttributes(&a, locked));
  CHECK(a.type == cudaMemoryTypeHost, "type %d", a.type);
  CUDA(cudaPointerGetAttributes(&a, host));
  CHECK(a.type == cudaMemoryTypeUnregistered, "type %d", a.type);
  CUDA(cudaHostGetDevicePointer(&view, locked, 0));
  REFUSED(cudaHostGetDevicePointer(&view, host, 0), cudaErrorInvalidValue);
  memset(host, 5, sizeof host);
  CUDA(cudaMemcpy(device, host, 256, cudaMemcpyHostToDevice));
  CUDA(cudaMemcpyAsync(locked, device, 256, cudaMemcpyDefault, NULL));
  CUDA(cudaStreamSynchronize(NULL));
  CHECK(memcmp(locked, host, 256) == 0, "what came back differs");
  REFUSED(cudaMemcpy(host, device, 256, cudaMemcpyHostToDevice), cudaErrorInvalidMemcpyDirection);
  REFUSED(cudaMemcpy(host, device, 257, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess,
        "the last error");
  CUDA(cudaFree(device));
  REFUSED(cudaFree(device), cudaErrorInvalidValue);
  CUDA(cudaFreeHost(locked));
  cuda_emulator_counts counts;
  cuda_emulator_count(&counts);
  CHECK(counts.device_allocations == 0 && counts.device_bytes == 0 && counts.host_allocations == 0,
        "memory is left");
}

typedef struct exchange {
  cudaIpcMemHandle_t handle;
  uint32_t ready, done;
} exchange;

static void share_memory(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)ranks;
  (void)id;
  exchange *e = arg;
  char *device, bytes[5000];
  if (rank == 0) {
    CUDA(cudaMalloc((void **)&device, sizeof bytes));
    memset(bytes, 1, sizeof bytes);
    CUDA(cudaMemcpy(device, bytes, sizeof bytes, cudaMemcpyHostToDevice));
    CUDA(cudaIpcGetMemHandle(&e->handle, device));
    void *again;
    REFUSED(cudaIpcOpenMemHandle(&again, e->handle, cudaIpcMemLazyEnablePeerAccess),
            cudaErrorDeviceUninitialized);
    set(&e->ready, 1);
    while (look(&e->done) == 0) df_nap();
    CUDA(cudaMemcpy(bytes, device, sizeof bytes, cudaMemcpyDeviceToHost));
    CHECK(bytes[0] == 1 && bytes[4999] == 2, "%d, %d", bytes[0], bytes[4999]);
    CUDA(cudaFree(device));
    return;
  }
  while (look(&e->ready) == 0) df_nap();
  CUDA(cudaIpcOpenMemHandle((void **)&device, e->handle, cudaIpcMemLazyEnablePeerAccess));
  CUDA(cudaMemcpy(bytes, device, sizeof bytes, cudaMemcpyDeviceToHost));
  CHECK(bytes[4999] == 1, "%d", bytes[4999]);
  CUDA(cudaMemset(device + 4999, 2, 1));
  CUDA(cudaDeviceSynchronize());
  CUDA(cudaIpcCloseMemHandle(device));
  set(&e->done, 1);
}

DF_TEST(emulator_memory, processes_share_device_memory, 60) {
  exchange *e = df_shared(sizeof *e);
  df_family family;
  df_fork(&family, 2, 60, share_memory, e);
  df_join(&family);
}

static void call_in_child(int rank, int ranks, const dfcclUniqueId *id, void *arg) {
  (void)rank;
  (void)ranks;
  (void)id;
  (void)arg;
  int device;
  REFUSED(cudaGetDevice(&device), cudaErrorInitializationError);
}

/* As with CUDA, a child of a process that has used the runtime cannot use it. */
DF_TEST(emulator_memory, a_forked_child_is_refused, 60) {
  int device;
  CUDA(cudaGetDevice(&device));
  df_family family;
  df_fork(&family, 1, 60, call_in_child, NULL);
  df_join(&family);
}

/* ---- faults */

DF_TEST(emulator_memory, a_call_fails_when_asked_to, 60) {
  void *one, *two;
  CUDA(cudaMalloc(&one, 100));
  cuda_emulator_fail_at(2, cudaErrorMemoryAllocation);
  CUDA(cudaMalloc(&two, 100));
  void *three;
  REFUSED(cudaMalloc(&three, 100), cudaErrorMemoryAllocation);
  cuda_emulator_fail_at(1, cudaErrorUnknown);
  REFUSED(cudaFree(one), cudaErrorUnknown);
  CUDA(cudaFree(two));
  cuda_emulator_counts counts;
  cuda_emulator_count(&counts);
  CHECK(counts.device_allocations == 0, "what is released with an error is released all the same");
}

DF_TEST(emulator_memory, a_lost_device_stops_and_reports_it, 60) {
  cudaStream_t stream = new_stream();
  void *memory;
  CUDA(cudaMalloc(&memory, 100));
  const visitor v = new_visitor();
  invite(v, 3, stream);
  note(stream, v.here, v.go, 0); /* will never run */
  while (look(v.here) < 3) df_nap();
  cuda_emulator_lose_device(0);
  REFUSED(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  REFUSED(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
  void *more;
  REFUSED(cudaMalloc(&more, 100), cudaErrorLaunchFailure);
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure, "the error does not stick");
  CHECK(cudaGetLastError() == cudaErrorLaunchFailure, "the error does not stick");
  cuda_emulator_counts counts;
  do {
    df_nap();
    cuda_emulator_count(&counts);
  } while (counts.resident_blocks > 0);
  REFUSED(cudaFree(memory), cudaErrorLaunchFailure);
  cuda_emulator_count(&counts);
  CHECK(counts.device_allocations == 0, "memory of a lost device cannot be released");
}
