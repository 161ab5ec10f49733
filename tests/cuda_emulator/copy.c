/*
 * Copies and fills. A pointer to neither kind of allocation is the host's own memory. Such a copy
 * is executed when the stream reaches it, and the call waits for it, as the runtime does with
 * pageable memory.
 */
#include "emulator.h"

/* The caller holds the lock. Whether an address range is in one allocation, or in none at all. */
static bool range_is_whole(const void *pointer, size_t bytes) {
  const emulator_allocation *a = emulator_find(pointer);
  const char *end = (const char *)pointer + bytes;
  if (!a) return !emulator_find(end - 1);
  return end <= a->base + a->bytes;
}

static bool is_on_device(const void *pointer) {
  const emulator_allocation *a = emulator_find(pointer);
  return a && (a->kind == MEMORY_DEVICE || a->kind == MEMORY_IPC);
}

static bool kind_fits(const void *to, const void *from, enum cudaMemcpyKind kind) {
  const bool to_device = is_on_device(to), from_device = is_on_device(from);
  switch (kind) {
  case cudaMemcpyHostToHost:
    return !to_device && !from_device;
  case cudaMemcpyHostToDevice:
    return to_device && !from_device;
  case cudaMemcpyDeviceToHost:
    return !to_device && from_device;
  case cudaMemcpyDeviceToDevice:
    return to_device && from_device;
  case cudaMemcpyDefault:
    return true;
  }
  return false;
}

static cudaError_t copy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                        cudaStream_t handle, bool wait) {
  if (bytes == 0) return cudaSuccess;
  if (!to || !from) return emulator_set_error(cudaErrorInvalidValue);
  pthread_mutex_lock(&emulator.lock);
  emulator_stream *stream = emulator_stream_of(handle);
  cudaError_t result = stream ? cudaSuccess : cudaErrorInvalidResourceHandle;
  if (!range_is_whole(to, bytes) || !range_is_whole(from, bytes)) result = cudaErrorInvalidValue;
  if (!kind_fits(to, from, kind)) result = cudaErrorInvalidMemcpyDirection;
  wait = wait || !emulator_find(to) || !emulator_find(from);
  if (result == cudaSuccess) {
    emulator_command *command = emulator_new_command(COMMAND_COPY);
    command->destination = to;
    command->source = from;
    command->bytes = bytes;
    result = emulator_submit(stream, command);
    if (result == cudaSuccess && wait) {
      const emulator_point end = {stream, stream->submitted};
      result = emulator_wait_point(end, stream->device);
    }
  }
  pthread_mutex_unlock(&emulator.lock);
  return emulator_set_error(result);
}

/* As on a GPU, the call waits for no fill of device memory. */
static cudaError_t fill(void *to, int value, size_t bytes, cudaStream_t handle) {
  if (bytes == 0) return cudaSuccess;
  pthread_mutex_lock(&emulator.lock);
  emulator_stream *stream = emulator_stream_of(handle);
  cudaError_t result = stream ? cudaSuccess : cudaErrorInvalidResourceHandle;
  if (!emulator_find(to) || !range_is_whole(to, bytes)) result = cudaErrorInvalidValue;
  if (result == cudaSuccess) {
    emulator_command *command = emulator_new_command(COMMAND_FILL);
    command->destination = to;
    command->fill = value;
    command->bytes = bytes;
    result = emulator_submit(stream, command);
  }
  pthread_mutex_unlock(&emulator.lock);
  return emulator_set_error(result);
}

EMULATOR_EXPORT cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes,
                                       enum cudaMemcpyKind kind) {
  EMULATOR_ENTER();
  return copy(to, from, bytes, kind, cudaStreamLegacy, true);
}

EMULATOR_EXPORT cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                            enum cudaMemcpyKind kind, cudaStream_t stream) {
  EMULATOR_ENTER();
  return copy(to, from, bytes, kind, stream, false);
}

EMULATOR_EXPORT cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from,
                                                int from_device, size_t bytes,
                                                cudaStream_t stream) {
  EMULATOR_ENTER();
  (void)to_device;
  (void)from_device;
  return copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream, false);
}

EMULATOR_EXPORT cudaError_t cudaMemcpyPeer(void *to, int to_device, const void *from,
                                           int from_device, size_t bytes) {
  EMULATOR_ENTER();
  (void)to_device;
  (void)from_device;
  return copy(to, from, bytes, cudaMemcpyDeviceToDevice, cudaStreamLegacy, true);
}

EMULATOR_EXPORT cudaError_t cudaMemset(void *to, int value, size_t bytes) {
  EMULATOR_ENTER();
  return fill(to, value, bytes, cudaStreamLegacy);
}

EMULATOR_EXPORT cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes,
                                            cudaStream_t stream) {
  EMULATOR_ENTER();
  return fill(to, value, bytes, stream);
}
