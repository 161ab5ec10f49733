/* Kernels and their launches, and functions of the driver that the runtime returns by name. */
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "emulator.h"

void cuda_emulator_register(cuda_emulator_kernel *kernel) {
  pthread_mutex_lock(&emulator.lock);
  kernel->next = emulator.kernels;
  emulator.kernels = kernel;
  pthread_mutex_unlock(&emulator.lock);
}

/* The caller holds the lock. Lazy loading happens at the first use on a device, when the device is
 * idle. */
static cudaError_t load(cuda_emulator_kernel *kernel, int device) {
  if (kernel->loaded >> device & 1) return cudaSuccess;
  cudaError_t result = cudaSuccess;
  if (emulator.loads_lazily) {
    result = emulator_begin_allocating(device);
    emulator_end_allocating(device);
  }
  if (result == cudaSuccess) kernel->loaded |= 1u << device;
  return result;
}

static cuda_emulator_kernel *find_kernel(const void *function) {
  cuda_emulator_kernel *kernel = emulator.kernels;
  while (kernel && kernel->function != function) kernel = kernel->next;
  return kernel;
}

/* ---- launching */

typedef struct launch_request {
  int priority;
  bool has_priority, cooperative, remote_domain;
} launch_request;

static cudaError_t read_attributes(const cudaLaunchConfig_t *config, launch_request *request) {
  for (unsigned i = 0; i < config->numAttrs; i++) {
    const cudaLaunchAttribute *a = &config->attrs[i];
    switch ((int)a->id) {
    case cudaLaunchAttributeIgnore:
    case cudaLaunchAttributeMemSyncDomain:
      request->remote_domain = a->val.memSyncDomain == cudaLaunchMemSyncDomainRemote;
      break;
    case cudaLaunchAttributeMemSyncDomainMap:
      break;
    case cudaLaunchAttributePriority:
      request->priority = a->val.priority;
      request->has_priority = true;
      break;
    case cudaLaunchAttributeCooperative:
      request->cooperative = a->val.cooperative != 0;
      break;
    case cudaLaunchAttributeClusterDimension:
      if (a->val.clusterDim.x * a->val.clusterDim.y * a->val.clusterDim.z != 1)
        return cudaErrorNotSupported;
      break;
    default:
      return cudaErrorInvalidValue;
    }
  }
  return cudaSuccess;
}

static cuda_emulator_launch latest; /* the caller holds the lock */

void cuda_emulator_latest_launch(cuda_emulator_launch *to) {
  pthread_mutex_lock(&emulator.lock);
  *to = latest;
  pthread_mutex_unlock(&emulator.lock);
}

static emulator_grid *make_grid(const cuda_emulator_kernel *kernel,
                                const cudaLaunchConfig_t *config, void **arguments) {
  emulator_grid *grid = calloc(1, sizeof *grid);
  if (!grid) cuda_emulator_mistake("no memory");
  grid->kernel = kernel;
  grid->blocks = config->gridDim;
  grid->threads = config->blockDim;
  grid->n_blocks = config->gridDim.x * config->gridDim.y * config->gridDim.z;
  grid->n_threads = config->blockDim.x * config->blockDim.y * config->blockDim.z;
  /* Arguments are copied when the kernel is launched. */
  for (uint32_t i = 0; i < kernel->n_arguments; i++) {
    grid->arguments[i] = aligned_alloc(64, (kernel->argument_bytes[i] + 63) / 64 * 64);
    if (!grid->arguments[i]) cuda_emulator_mistake("no memory");
    memcpy(grid->arguments[i], arguments[i], kernel->argument_bytes[i]);
  }
  return grid;
}

/* The caller holds the lock. */
static cudaError_t launch(const cudaLaunchConfig_t *config, const void *function,
                          void **arguments) {
  launch_request request = {0};
  cuda_emulator_kernel *kernel = find_kernel(function);
  if (!kernel) return cudaErrorInvalidDeviceFunction;
  const cudaError_t refused = read_attributes(config, &request);
  if (refused) return refused;
  const uint64_t threads = (uint64_t)config->blockDim.x * config->blockDim.y * config->blockDim.z;
  const uint64_t blocks = (uint64_t)config->gridDim.x * config->gridDim.y * config->gridDim.z;
  if (threads == 0 || threads > kernel->max_threads || blocks == 0 || blocks > 65535 ||
      config->dynamicSmemBytes != 0)
    return cudaErrorInvalidConfiguration;
  emulator_stream *stream = emulator_stream_of(config->stream);
  if (!stream) return cudaErrorInvalidResourceHandle;
  if (request.cooperative && blocks > emulator.multiprocessors)
    return cudaErrorCooperativeLaunchTooLarge;
  emulator.counts.loading_launches += !(kernel->loaded >> stream->device & 1);
  const cudaError_t not_loaded = load(kernel, stream->device);
  if (not_loaded) return not_loaded;
  latest =
      (cuda_emulator_launch){.kernel = kernel->name,
                             .blocks = (uint32_t)blocks,
                             .threads = (uint32_t)threads,
                             .priority = request.has_priority ? request.priority : stream->priority,
                             .non_blocking = stream->non_blocking,
                             .remote_domain = request.remote_domain};
  emulator_command *command = emulator_new_command(COMMAND_KERNEL);
  command->grid = make_grid(kernel, config, arguments);
  command->grid->device = stream->device;
  command->grid->priority = request.has_priority ? request.priority : stream->priority;
  command->grid->cooperative = request.cooperative;
  command->grid->seed = emulator.seed * 1000003 + emulator.counts.launches++;
  return emulator_submit(stream, command);
}

EMULATOR_EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config,
                                                const void *function, void **arguments) {
  EMULATOR_ENTER();
  if (!config) return emulator_set_error(cudaErrorInvalidValue);
  pthread_mutex_lock(&emulator.lock);
  const cudaError_t result = launch(config, function, arguments);
  pthread_mutex_unlock(&emulator.lock);
  return emulator_set_error(result);
}

EMULATOR_EXPORT cudaError_t cudaLaunchKernel(const void *function, dim3 blocks, dim3 threads,
                                             void **arguments, size_t shared_bytes,
                                             cudaStream_t stream) {
  const cudaLaunchConfig_t config = {
      .gridDim = blocks, .blockDim = threads, .dynamicSmemBytes = shared_bytes, .stream = stream};
  return cudaLaunchKernelExC(&config, function, arguments);
}

EMULATOR_EXPORT cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 blocks,
                                                        dim3 threads, void **arguments,
                                                        size_t shared_bytes, cudaStream_t stream) {
  cudaLaunchAttribute cooperative = {.id = cudaLaunchAttributeCooperative};
  cooperative.val.cooperative = 1;
  const cudaLaunchConfig_t config = {.gridDim = blocks,
                                     .blockDim = threads,
                                     .dynamicSmemBytes = shared_bytes,
                                     .stream = stream,
                                     .attrs = &cooperative,
                                     .numAttrs = 1};
  return cudaLaunchKernelExC(&config, function, arguments);
}

/* ---- attributes of a kernel */

EMULATOR_EXPORT cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes,
                                                  const void *function) {
  EMULATOR_ENTER();
  cuda_emulator_kernel *kernel = find_kernel(function);
  if (!kernel) return emulator_set_error(cudaErrorInvalidDeviceFunction);
  pthread_mutex_lock(&emulator.lock);
  const cudaError_t not_loaded = load(kernel, emulator_current_device());
  pthread_mutex_unlock(&emulator.lock);
  if (not_loaded) return emulator_set_error(not_loaded);
  memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = (int)kernel->max_threads;
  attributes->ptxVersion = attributes->binaryVersion = 90;
  return cudaSuccess;
}

EMULATOR_EXPORT cudaError_t cudaFuncSetAttribute(const void *function,
                                                 enum cudaFuncAttribute attribute, int value) {
  EMULATOR_ENTER();
  (void)attribute;
  (void)value;
  return find_kernel(function) ? cudaSuccess : emulator_set_error(cudaErrorInvalidDeviceFunction);
}

EMULATOR_EXPORT cudaError_t cudaFuncGetName(const char **name, const void *function) {
  EMULATOR_ENTER();
  const cuda_emulator_kernel *kernel = find_kernel(function);
  if (!kernel) return emulator_set_error(cudaErrorInvalidDeviceFunction);
  *name = kernel->name;
  return cudaSuccess;
}

EMULATOR_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, const void *function, int threads, size_t shared_bytes, unsigned int flags) {
  EMULATOR_ENTER();
  (void)flags;
  const cuda_emulator_kernel *kernel = find_kernel(function);
  if (!kernel) return emulator_set_error(cudaErrorInvalidDeviceFunction);
  *blocks = threads > 0 && (uint32_t)threads <= kernel->max_threads && shared_bytes == 0;
  return cudaSuccess;
}

EMULATOR_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks,
                                                                          const void *function,
                                                                          int threads,
                                                                          size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads,
                                                                shared_bytes, 0);
}

/* ---- the driver's */

static CUresult value_command(CUstream handle, emulator_command_kind kind, CUdeviceptr address,
                              uint64_t value, unsigned int flags, bool wide) {
  const cudaError_t refused =
      emulator_enter(kind == COMMAND_WAIT_VALUE ? "cuStreamWaitValue" : "cuStreamWriteValue");
  if (refused) return (CUresult)refused; /* the same numbers, where it matters */
  pthread_mutex_lock(&emulator.lock);
  emulator_stream *stream = emulator_stream_of(handle);
  CUresult result = CUDA_ERROR_INVALID_HANDLE;
  if (!emulator.memory_operations) {
    result = CUDA_ERROR_NOT_SUPPORTED;
  } else if (!emulator_find((const void *)(uintptr_t)address) || address % (wide ? 8 : 4) != 0) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else if (stream) {
    emulator_command *command = emulator_new_command(kind);
    command->destination = (void *)(uintptr_t)address;
    command->value = value;
    command->flags = flags & 3;
    command->wide = wide;
    result = (CUresult)emulator_submit(stream, command);
  }
  pthread_mutex_unlock(&emulator.lock);
  return result;
}

static CUresult wait_value64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                             unsigned int flags) {
  return value_command(stream, COMMAND_WAIT_VALUE, address, value, flags, true);
}
static CUresult write_value64(CUstream stream, CUdeviceptr address, cuuint64_t value,
                              unsigned int flags) {
  return value_command(stream, COMMAND_WRITE_VALUE, address, value, flags, true);
}
static CUresult wait_value32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                             unsigned int flags) {
  return value_command(stream, COMMAND_WAIT_VALUE, address, value, flags, false);
}
static CUresult write_value32(CUstream stream, CUdeviceptr address, cuuint32_t value,
                              unsigned int flags) {
  return value_command(stream, COMMAND_WRITE_VALUE, address, value, flags, false);
}
static CUresult device_get(CUdevice *device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
static CUresult device_get_attribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  return (CUresult)cudaDeviceGetAttribute(value, (enum cudaDeviceAttr)attribute, device);
}
static CUresult address_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer) {
  pthread_mutex_lock(&emulator.lock);
  const emulator_allocation *a = emulator_find((const void *)(uintptr_t)pointer);
  if (a && base) *base = (CUdeviceptr)(uintptr_t)a->base;
  if (a && bytes) *bytes = a->bytes;
  pthread_mutex_unlock(&emulator.lock);
  return a ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

static const struct {
  const char *name;
  void *function;
} driver_functions[] = {
    {"cuStreamWaitValue64", __extension__(void *) wait_value64},
    {"cuStreamWriteValue64", __extension__(void *) write_value64},
    {"cuStreamWaitValue32", __extension__(void *) wait_value32},
    {"cuStreamWriteValue32", __extension__(void *) write_value32},
    {"cuCtxGetCurrent", __extension__(void *) emulator_ctx_get_current},
    {"cuCtxSetCurrent", __extension__(void *) emulator_ctx_set_current},
    {"cuDevicePrimaryCtxRetain", __extension__(void *) emulator_primary_retain},
    {"cuDevicePrimaryCtxRelease", __extension__(void *) emulator_primary_release},
    {"cuDeviceGet", __extension__(void *) device_get},
    {"cuDeviceGetAttribute", __extension__(void *) device_get_attribute},
    {"cuMemGetAddressRange", __extension__(void *) address_range},
};

EMULATOR_EXPORT cudaError_t cudaGetDriverEntryPointByVersion(
    const char *symbol, void **function, unsigned int version, unsigned long long flags,
    enum cudaDriverEntryPointQueryResult *status) {
  EMULATOR_ENTER();
  (void)version;
  (void)flags;
  *function = NULL;
  for (size_t i = 0; i < sizeof driver_functions / sizeof driver_functions[0]; i++)
    if (strcmp(driver_functions[i].name, symbol) == 0) *function = driver_functions[i].function;
  const enum cudaDriverEntryPointQueryResult found =
      *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  if (status) {
    *status = found;
    return cudaSuccess;
  }
  return *function ? cudaSuccess : emulator_set_error(cudaErrorSymbolNotFound);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
EMULATOR_EXPORT cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function,
                                                    unsigned long long flags,
                                                    enum cudaDriverEntryPointQueryResult *status) {
  return cudaGetDriverEntryPointByVersion(symbol, function, CUDART_VERSION, flags, status);
}
