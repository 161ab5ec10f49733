/* Calls (their counts and injected failures), errors, devices and their attributes, the
 * environment. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "emulator.h"

emulator_state emulator = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static __thread cudaError_t last_error;

void cuda_emulator_mistake(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fputs("CUDA emulator: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
  abort();
}

void emulator_wait_changed(void) { pthread_cond_wait(&emulator.changed, &emulator.lock); }
void emulator_signal(void) { pthread_cond_broadcast(&emulator.changed); }

cudaError_t emulator_set_error(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

/* ---- the environment */

static uint64_t number_of(const char *name, uint64_t otherwise, uint64_t least, uint64_t most) {
  const char *text = getenv(name);
  if (!text || !*text) return otherwise;
  char *end;
  errno = 0;
  const uint64_t value = strtoull(text, &end, 10);
  if (errno || *end || value < least || value > most)
    cuda_emulator_mistake("%s=%s makes no sense", name, text);
  return value;
}

static void read_fault(void) {
  const char *text = getenv("CUDA_EMULATOR_FAIL");
  if (!text || !*text) return;
  unsigned long long call;
  int code = cudaErrorUnknown;
  if (sscanf(text, "%llu:%d", &call, &code) < 1)
    cuda_emulator_mistake("CUDA_EMULATOR_FAIL=%s makes no sense", text);
  emulator.fail_at = call;
  emulator.fail_code = code;
}

/* The caller holds the lock. */
static void begin(void) {
  const char *loading = getenv("CUDA_MODULE_LOADING");
  emulator.process = getpid();
  emulator.n_devices = (int)number_of("CUDA_EMULATOR_DEVICES", 2, 0, EMULATOR_DEVICES);
  emulator.multiprocessors = (uint32_t)number_of("CUDA_EMULATOR_MULTIPROCESSORS", 8, 1, 1024);
  emulator.seed = number_of("CUDA_EMULATOR_SEED", 1, 0, UINT64_MAX);
  emulator.memory_operations = number_of("CUDA_EMULATOR_MEMORY_OPS", 1, 0, 1) != 0;
  emulator.n_queues = (uint32_t)number_of("CUDA_DEVICE_MAX_CONNECTIONS", 8, 1, EMULATOR_QUEUES);
  emulator.priority_queues = number_of("CUDA_EMULATOR_PRIORITY_QUEUES", 0, 0, 1) != 0;
  emulator.queries_block = number_of("CUDA_EMULATOR_QUERIES_BLOCK", 1, 0, 1) != 0;
  emulator.loads_lazily = !loading || strcmp(loading, "EAGER") != 0;
  emulator.reach_peers = number_of("CUDA_EMULATOR_PEERS", 1, 0, 1) != 0;
  emulator.held_percent = (uint32_t)number_of("CUDA_EMULATOR_STORES", 0, 0, 100);
  emulator.trace = number_of("CUDA_EMULATOR_TRACE", 0, 0, 1) != 0;
  emulator.lose_at = number_of("CUDA_EMULATOR_LOSE", 0, 0, UINT64_MAX);
  read_fault();
  for (int i = 0; i < emulator.n_devices; i++) {
    emulator_device *device = &emulator.devices[i];
    device->legacy.device = i;
    device->legacy.queue = &device->queues[0];
  }
}

void emulator_begin(void) {
  pthread_mutex_lock(&emulator.lock);
  if (emulator.process == 0) begin();
  pthread_mutex_unlock(&emulator.lock);
}

/* ---- calls */

static void lose(int device) {
  __atomic_store_n(&emulator.devices[device].lost, true, __ATOMIC_RELAXED);
  emulator_signal();
}

static cudaError_t enter(const char *name, bool needs_device) {
  const int device = emulator_named_device();
  pthread_mutex_lock(&emulator.lock);
  if (emulator.process == 0) begin();
  cudaError_t result = cudaSuccess;
  if (emulator.process != getpid()) {
    result = cudaErrorInitializationError; /* the parent of this process had used the runtime */
  } else if (emulator.n_devices == 0) {
    result = cudaErrorNoDevice;
  } else {
    emulator.counts.calls++;
    const uint64_t call = ++emulator.fault_calls;
    if (emulator.trace) fprintf(stderr, "CUDA emulator: %llu %s\n", (unsigned long long)call, name);
    if (call == emulator.lose_at) lose(device);
    if (call == emulator.fail_at) result = (cudaError_t)emulator.fail_code;
    if (needs_device && emulator.devices[device].lost) result = cudaErrorLaunchFailure;
  }
  pthread_mutex_unlock(&emulator.lock);
  return result;
}

cudaError_t emulator_enter(const char *name) { return emulator_set_error(enter(name, true)); }
cudaError_t emulator_count_call(const char *name) { return enter(name, false); }

void cuda_emulator_lose_device(int device) {
  pthread_mutex_lock(&emulator.lock);
  lose(device);
  pthread_mutex_unlock(&emulator.lock);
}

void cuda_emulator_fail_at(uint64_t call, int code) {
  emulator_begin();
  pthread_mutex_lock(&emulator.lock);
  emulator.fault_calls = 0;
  emulator.fail_at = call;
  emulator.fail_code = code;
  pthread_mutex_unlock(&emulator.lock);
}

void cuda_emulator_set_memory_operations(int enabled) {
  emulator_begin();
  pthread_mutex_lock(&emulator.lock);
  emulator.memory_operations = enabled != 0;
  pthread_mutex_unlock(&emulator.lock);
}

void cuda_emulator_count(cuda_emulator_counts *counts) {
  pthread_mutex_lock(&emulator.lock);
  *counts = emulator.counts;
  counts->primary_contexts = emulator_primary_contexts();
  for (int i = 0; i < emulator.n_devices; i++)
    for (const emulator_grid *grid = emulator.devices[i].queue; grid; grid = grid->next)
      counts->waiting_grids += grid->started == 0;
  pthread_mutex_unlock(&emulator.lock);
}

uint64_t cuda_emulator_bus_loads(void) {
  __atomic_store_n(&emulator.counts_loads, 1, __ATOMIC_RELAXED);
  return __atomic_load_n(&emulator.bus_loads, __ATOMIC_RELAXED);
}

/* ---- errors */

EMULATOR_EXPORT cudaError_t cudaPeekAtLastError(void) { return last_error; }

EMULATOR_EXPORT cudaError_t cudaGetLastError(void) {
  const cudaError_t error = last_error;
  last_error =
      emulator.devices[emulator_named_device()].lost ? cudaErrorLaunchFailure : cudaSuccess;
  return error;
}

static const struct {
  cudaError_t error;
  const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorInvalidMemcpyDirection, "cudaErrorInvalidMemcpyDirection",
     "invalid copy direction for memcpy"},
    {cudaErrorInvalidDeviceFunction, "cudaErrorInvalidDeviceFunction", "invalid device function"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorDeviceUninitialized, "cudaErrorDeviceUninitialized", "invalid device context"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorPeerAccessAlreadyEnabled, "cudaErrorPeerAccessAlreadyEnabled",
     "peer access is already enabled"},
    {cudaErrorPeerAccessNotEnabled, "cudaErrorPeerAccessNotEnabled",
     "peer access has not been enabled"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered",
     "part or all of the requested memory range is already mapped"},
    {cudaErrorCooperativeLaunchTooLarge, "cudaErrorCooperativeLaunchTooLarge",
     "too many blocks in cooperative launch"},
    {cudaErrorPeerAccessUnsupported, "cudaErrorPeerAccessUnsupported",
     "peer access is not supported between these two devices"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "operation not supported"},
    {cudaErrorMapBufferObjectFailed, "cudaErrorMapBufferObjectFailed",
     "mapping of buffer object failed"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

EMULATOR_EXPORT const char *cudaGetErrorString(cudaError_t error) {
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
    if (errors[i].error == error) return errors[i].text;
  return "unrecognized error code";
}

EMULATOR_EXPORT const char *cudaGetErrorName(cudaError_t error) {
  for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
    if (errors[i].error == error) return errors[i].name;
  return "unrecognized error code";
}

/* ---- devices */

EMULATOR_EXPORT cudaError_t cudaGetDeviceCount(int *count) {
  if (count) *count = 0;
  EMULATOR_ENTER();
  *count = emulator.n_devices;
  return cudaSuccess;
}

static bool is_device(int device) { return device >= 0 && device < emulator.n_devices; }

EMULATOR_EXPORT cudaError_t cudaSetDevice(int device) {
  EMULATOR_ENTER();
  if (!is_device(device)) return emulator_set_error(cudaErrorInvalidDevice);
  emulator_choose_device(device);
  return cudaSuccess;
}

EMULATOR_EXPORT cudaError_t cudaInitDevice(int device, unsigned int device_flags,
                                           unsigned int flags) {
  EMULATOR_ENTER();
  (void)device_flags;
  (void)flags;
  return is_device(device) ? cudaSuccess : emulator_set_error(cudaErrorInvalidDevice);
}

EMULATOR_EXPORT cudaError_t cudaGetDevice(int *device) {
  EMULATOR_ENTER();
  *device = emulator_named_device();
  return cudaSuccess;
}

EMULATOR_EXPORT cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

EMULATOR_EXPORT cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

EMULATOR_EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
  EMULATOR_ENTER();
  if (!is_device(device)) return emulator_set_error(cudaErrorInvalidDevice);
  memset(p, 0, sizeof *p);
  snprintf(p->name, sizeof p->name, "CUDA emulator %d", device);
  memcpy(p->uuid.bytes, &device, sizeof device);
  p->totalGlobalMem = (size_t)64 << 30;
  p->sharedMemPerBlock = 48 * 1024;
  p->sharedMemPerMultiprocessor = p->sharedMemPerBlockOptin = 228 * 1024;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = EMULATOR_WARP;
  p->maxThreadsPerBlock = EMULATOR_MAX_THREADS;
  p->maxThreadsPerMultiProcessor = EMULATOR_MAX_THREADS;
  p->maxBlocksPerMultiProcessor = 1;
  for (int i = 0; i < 3; i++) {
    p->maxThreadsDim[i] = EMULATOR_MAX_THREADS;
    p->maxGridSize[i] = 65535;
  }
  p->major = 9;
  p->multiProcessorCount = (int)emulator.multiprocessors;
  p->canMapHostMemory = p->concurrentKernels = p->unifiedAddressing = 1;
  p->streamPrioritiesSupported = p->cooperativeLaunch = p->hostRegisterSupported = 1;
  p->canUseHostPointerForRegisteredMem = p->memoryPoolsSupported = 1;
  p->pciBusID = device + 1;
  return cudaSuccess;
}

EMULATOR_EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute,
                                                   int device) {
  EMULATOR_ENTER();
  if (!value || !is_device(device)) return emulator_set_error(cudaErrorInvalidDevice);
  switch ((int)attribute) {
  case cudaDevAttrMultiProcessorCount:
    *value = (int)emulator.multiprocessors;
    return cudaSuccess;
  case cudaDevAttrComputeCapabilityMajor:
    *value = 9;
    return cudaSuccess;
  case cudaDevAttrMaxThreadsPerBlock:
  case cudaDevAttrMaxThreadsPerMultiProcessor:
    *value = EMULATOR_MAX_THREADS;
    return cudaSuccess;
  case cudaDevAttrWarpSize:
    *value = EMULATOR_WARP;
    return cudaSuccess;
  case cudaDevAttrMaxSharedMemoryPerBlock:
    *value = 48 * 1024;
    return cudaSuccess;
  case cudaDevAttrClockRate:
    *value = 1000000; /* kilohertz: clock64 counts nanoseconds */
    return cudaSuccess;
  case cudaDevAttrUnifiedAddressing:
  case cudaDevAttrCanMapHostMemory:
  case cudaDevAttrConcurrentKernels:
  case cudaDevAttrStreamPrioritiesSupported:
  case cudaDevAttrCooperativeLaunch:
  case cudaDevAttrHostRegisterSupported:
  case cudaDevAttrCanUseHostPointerForRegisteredMem:
  case cudaDevAttrMemoryPoolsSupported:
  case cudaDevAttrMaxBlocksPerMultiprocessor:
    *value = 1;
    return cudaSuccess;
  case 92:  /* the driver's CAN_USE_STREAM_MEM_OPS */
  case 122: /* ... CAN_USE_64_BIT_STREAM_MEM_OPS */
  case 123: /* ... CAN_USE_STREAM_WAIT_VALUE_NOR */
    *value = emulator.memory_operations;
    return cudaSuccess;
  default:
    *value = 0;
    return cudaSuccess;
  }
}

EMULATOR_EXPORT cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int device) {
  EMULATOR_ENTER();
  if (!is_device(device)) return emulator_set_error(cudaErrorInvalidDevice);
  snprintf(id, (size_t)bytes, "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

EMULATOR_EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  EMULATOR_ENTER();
  if (least) *least = EMULATOR_LEAST_PRIORITY;
  if (greatest) *greatest = EMULATOR_GREATEST_PRIORITY;
  return cudaSuccess;
}

EMULATOR_EXPORT cudaError_t cudaDeviceSynchronize(void) {
  EMULATOR_ENTER();
  pthread_mutex_lock(&emulator.lock);
  const int device = emulator_current_device();
  emulator.devices[device].synchronizing++;
  const cudaError_t result = emulator_wait_idle(device);
  emulator.devices[device].synchronizing--;
  emulator_signal();
  pthread_mutex_unlock(&emulator.lock);
  return emulator_set_error(result);
}

EMULATOR_EXPORT cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  EMULATOR_ENTER();
  if (!is_device(device) || !is_device(peer)) return emulator_set_error(cudaErrorInvalidDevice);
  *can = device != peer && emulator.reach_peers;
  return cudaSuccess;
}

static cudaError_t set_peer(int peer, bool enabled) {
  const int device = emulator_current_device();
  if (!is_device(peer) || peer == device) return emulator_set_error(cudaErrorInvalidDevice);
  if (!emulator.reach_peers) return emulator_set_error(cudaErrorPeerAccessUnsupported);
  pthread_mutex_lock(&emulator.lock);
  uint32_t *peers = &emulator.devices[device].peers;
  const bool before = *peers >> peer & 1;
  *peers = enabled ? *peers | 1u << peer : *peers & ~(1u << peer);
  emulator.allocations_version++;
  pthread_mutex_unlock(&emulator.lock);
  if (before == enabled)
    return emulator_set_error(enabled ? cudaErrorPeerAccessAlreadyEnabled
                                      : cudaErrorPeerAccessNotEnabled);
  return cudaSuccess;
}

EMULATOR_EXPORT cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned int flags) {
  EMULATOR_ENTER();
  if (flags != 0) return emulator_set_error(cudaErrorInvalidValue);
  return set_peer(peer, true);
}

EMULATOR_EXPORT cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  EMULATOR_ENTER();
  return set_peer(peer, false);
}
