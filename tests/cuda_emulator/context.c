/*
 * Primary contexts: one for each device. The runtime creates it when a thread first needs it, and
 * the driver's functions retain it. A thread's current context is the one that it has set through
 * the driver; without one the runtime takes the device that the thread has chosen.
 */
#include "emulator.h"

static __thread int chosen_device;
static __thread int bound_device = -1; /* the device whose primary context is current */

static CUcontext context_of(int device) { return (CUcontext)((uintptr_t)device + 1); }

static void make_primary(int device) {
  __atomic_store_n(&emulator.devices[device].used_by_runtime, true, __ATOMIC_RELAXED);
}

void emulator_use_device(int device) { chosen_device = device; }

int emulator_named_device(void) { return bound_device >= 0 ? bound_device : chosen_device; }

int emulator_current_device(void) {
  if (bound_device < 0) {
    bound_device = chosen_device;
    make_primary(bound_device);
  }
  return bound_device;
}

void emulator_choose_device(int device) {
  chosen_device = bound_device = device;
  make_primary(device);
}

uint32_t emulator_primary_contexts(void) {
  uint32_t mask = 0;
  for (int d = 0; d < emulator.n_devices; d++) {
    const emulator_device *device = &emulator.devices[d];
    if (device->retained > 0 || __atomic_load_n(&device->used_by_runtime, __ATOMIC_RELAXED))
      mask |= 1u << d;
  }
  return mask;
}

CUresult emulator_ctx_get_current(CUcontext *context) {
  if (emulator_count_call("cuCtxGetCurrent") != cudaSuccess) return CUDA_ERROR_UNKNOWN;
  *context = bound_device >= 0 ? context_of(bound_device) : NULL;
  return CUDA_SUCCESS;
}

CUresult emulator_ctx_set_current(CUcontext context) {
  if (emulator_count_call("cuCtxSetCurrent") != cudaSuccess) return CUDA_ERROR_UNKNOWN;
  bound_device = (int)(uintptr_t)context - 1;
  return CUDA_SUCCESS;
}

CUresult emulator_primary_retain(CUcontext *context, CUdevice device) {
  if (emulator_count_call("cuDevicePrimaryCtxRetain") != cudaSuccess) return CUDA_ERROR_UNKNOWN;
  if (device < 0 || device >= emulator.n_devices) return CUDA_ERROR_INVALID_DEVICE;
  pthread_mutex_lock(&emulator.lock);
  emulator.devices[device].retained++;
  pthread_mutex_unlock(&emulator.lock);
  *context = context_of(device);
  return CUDA_SUCCESS;
}

CUresult emulator_primary_release(CUdevice device) {
  CUresult result = CUDA_SUCCESS;
  if (emulator_count_call("cuDevicePrimaryCtxRelease") != cudaSuccess) result = CUDA_ERROR_UNKNOWN;
  if (device < 0 || device >= emulator.n_devices) return CUDA_ERROR_INVALID_DEVICE;
  pthread_mutex_lock(&emulator.lock);
  if (emulator.devices[device].retained == 0)
    cuda_emulator_mistake("the primary context of device %d is released too often", device);
  emulator.devices[device].retained--; /* also if the call is made to fail */
  pthread_mutex_unlock(&emulator.lock);
  return result;
}
