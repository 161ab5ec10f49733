/* Accesses of GPUs to each other's memory, and a thread's mode for captures by other threads. */
#include "emulator.h"

static int without_atomics;

void cuda_emulator_set_native_atomics(int native) {
  __atomic_store_n(&without_atomics, !native, __ATOMIC_RELAXED);
}

EMULATOR_EXPORT cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attribute,
                                                      int device, int peer) {
  EMULATOR_ENTER();
  if (device == peer) return emulator_set_error(cudaErrorInvalidDevice);
  *value = attribute != cudaDevP2PAttrPerformanceRank && emulator.reach_peers;
  if (attribute == cudaDevP2PAttrNativeAtomicSupported)
    *value = emulator.reach_peers && !__atomic_load_n(&without_atomics, __ATOMIC_RELAXED);
  return cudaSuccess;
}

/* There are no captures that it could disturb. */
EMULATOR_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
  static _Thread_local enum cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
  EMULATOR_ENTER();
  const enum cudaStreamCaptureMode before = current;
  current = *mode;
  *mode = before;
  return cudaSuccess;
}
