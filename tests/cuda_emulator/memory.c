/*
 * Memory. Device memory consists of pages of a memfd of the process, one file for each device, so
 * that other processes can map it. An IPC handle names the process and the file (/proc/PID/fd), and
 * nothing remains when the process ends. The end of each allocation touches a page without any
 * access rights. In a build with AddressSanitizer, device memory is poisoned. Device code is not
 * instrumented; the host is, and a host access to device memory is reported.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "emulator.h"

enum { PAGE = 4096, ALIGNMENT = 256 };
static const uint64_t device_memory = (uint64_t)64 << 30;

/* Functions of AddressSanitizer, if it is linked. */
__attribute__((weak)) void __asan_poison_memory_region(const volatile void *address, size_t bytes);
__attribute__((weak)) void __asan_unpoison_memory_region(const volatile void *address,
                                                         size_t bytes);

int cuda_emulator_guards_device_memory(void) { return __asan_poison_memory_region != NULL; }

static void poison(const emulator_allocation *a) {
  if (__asan_poison_memory_region) __asan_poison_memory_region(a->base, a->bytes);
}

static void unpoison(const emulator_allocation *a) {
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(a->base, a->bytes);
}

/* memmove cannot be used: AddressSanitizer would check the poisoned memory. */
void emulator_copy(void *destination, const void *source, size_t bytes) {
#if defined(__x86_64__)
  __asm__ volatile("rep movsb" : "+D"(destination), "+S"(source), "+c"(bytes)::"memory");
#else
  volatile char *to = destination;
  const volatile char *from = source;
  while (bytes--) *to++ = *from++;
#endif
}

void emulator_fill(void *destination, int value, size_t bytes) {
  volatile char *to = destination;
  while (bytes--) *to++ = (char)value;
}

emulator_allocation *emulator_find(const void *pointer) {
  const char *p = pointer;
  for (emulator_allocation *a = emulator.allocations; a; a = a->next)
    if (p >= a->base && p < a->base + a->bytes) return a;
  return NULL;
}

static void enlist(emulator_allocation *a) {
  a->next = emulator.allocations;
  emulator.allocations = a;
  __atomic_fetch_add(&emulator.allocations_version, 1, __ATOMIC_RELEASE);
}

/* Removes and returns the allocation of that kind that begins at the pointer; NULL: there is
 * none. */
static emulator_allocation *delist(const void *pointer, emulator_memory_kind kind) {
  emulator_allocation **at = &emulator.allocations;
  while (*at && !((*at)->base == pointer && (*at)->kind == kind)) at = &(*at)->next;
  emulator_allocation *a = *at;
  if (!a) return NULL;
  *at = a->next;
  __atomic_fetch_add(&emulator.allocations_version, 1, __ATOMIC_RELEASE);
  return a;
}

/* Maps bytes of a file (-1: anonymous memory) so that they end where a page without access rights
 * begins. */
static bool map_guarded(emulator_allocation *a, size_t bytes, int file, uint64_t offset) {
  const size_t length = (bytes + PAGE - 1) / PAGE * PAGE;
  const size_t used = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  char *memory =
      mmap(NULL, length + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  const int flags = file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
  if (mmap(memory, length, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, (off_t)offset) ==
      MAP_FAILED) {
    munmap(memory, length + PAGE);
    return false;
  }
  a->mapping = memory;
  a->mapping_bytes = length + PAGE;
  a->base = memory + length - used;
  a->bytes = bytes;
  a->file_offset = offset;
  return true;
}

static bool have_device_file(emulator_device *device) {
  if (device->memory_file > 0) return true;
  const int file = memfd_create("cuda-emulator", MFD_CLOEXEC);
  if (file < 0) return false;
  if (ftruncate(file, (off_t)device_memory) != 0) {
    close(file);
    return false;
  }
  device->memory_file = file;
  device->memory_end = EMULATOR_IMPORTERS_BYTES;
  return true;
}

/* The caller holds the lock. Writes garbage, as new memory of a device contains. */
static cudaError_t new_device_memory(void **pointer, size_t bytes, bool pooled) {
  const int number = emulator_current_device();
  emulator_device *device = &emulator.devices[number];
  const size_t length = (bytes + PAGE - 1) / PAGE * PAGE;
  if (bytes == 0) {
    *pointer = NULL;
    return cudaSuccess;
  }
  if (!have_device_file(device) || bytes > device_memory - device->memory_end)
    return cudaErrorMemoryAllocation;
  emulator_allocation *a = calloc(1, sizeof *a);
  if (!a || !map_guarded(a, bytes, device->memory_file, device->memory_end)) {
    free(a);
    return cudaErrorMemoryAllocation;
  }
  device->memory_end += length;
  a->kind = MEMORY_DEVICE;
  a->device = number;
  a->pooled = pooled;
  emulator_fill(a->base, 0xcd, bytes < 65536 ? bytes : 65536);
  poison(a);
  enlist(a);
  emulator.counts.device_allocations++;
  emulator.counts.device_bytes += bytes;
  *pointer = a->base;
  return cudaSuccess;
}

static void release(emulator_allocation *a) {
  if (a->kind == MEMORY_DEVICE)
    emulator_check_not_imported(emulator.devices[a->device].memory_file, a->file_offset);
  if (a->kind == MEMORY_DEVICE || a->kind == MEMORY_IPC) unpoison(a);
  if (a->mapping) munmap(a->mapping, a->mapping_bytes);
  if (a->kind == MEMORY_DEVICE) {
    const size_t length = a->mapping_bytes - PAGE;
    fallocate(emulator.devices[a->device].memory_file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
              (off_t)a->file_offset, (off_t)length);
    emulator.counts.device_allocations--;
    emulator.counts.device_bytes -= a->bytes;
  } else if (a->kind == MEMORY_IPC) {
    emulator_forget_import(a->file, a->file_offset);
    close(a->file);
    emulator.counts.ipc_mappings--;
  } else {
    emulator.counts.host_allocations--;
  }
  free(a);
}

/* Releases the allocation at the pointer once the device is idle. A lost device's memory is
 * released too, and the error is returned. */
static cudaError_t release_memory(void *pointer, emulator_memory_kind kind, const char *name) {
  const cudaError_t refused = emulator_enter(name);
  if (!pointer && kind != MEMORY_IPC) return refused;
  pthread_mutex_lock(&emulator.lock);
  emulator_allocation *a = emulator_find(pointer);
  const int device = a ? a->device : emulator_current_device();
  cudaError_t result = emulator_begin_allocating(device);
  a = delist(pointer, kind);
  if (a) release(a);
  if (!a) result = cudaErrorInvalidValue;
  emulator_end_allocating(device);
  pthread_mutex_unlock(&emulator.lock);
  return refused ? refused : emulator_set_error(result);
}

EMULATOR_EXPORT cudaError_t cudaMalloc(void **pointer, size_t bytes) {
  EMULATOR_ENTER();
  if (!pointer) return emulator_set_error(cudaErrorInvalidValue);
  pthread_mutex_lock(&emulator.lock);
  const int device = emulator_current_device();
  cudaError_t result = emulator_begin_allocating(device);
  if (result == cudaSuccess) result = new_device_memory(pointer, bytes, false);
  emulator_end_allocating(device);
  pthread_mutex_unlock(&emulator.lock);
  return emulator_set_error(result);
}

EMULATOR_EXPORT cudaError_t cudaFree(void *pointer) {
  return release_memory(pointer, MEMORY_DEVICE, __func__);
}

/* Allocates from a pool, without synchronisation. The memory is used in stream order, for which an
 * immediate allocation is right too. */
EMULATOR_EXPORT cudaError_t cudaMallocAsync(void **pointer, size_t bytes, cudaStream_t stream) {
  EMULATOR_ENTER();
  (void)stream;
  if (!pointer) return emulator_set_error(cudaErrorInvalidValue);
  pthread_mutex_lock(&emulator.lock);
  const cudaError_t result = new_device_memory(pointer, bytes, true);
  pthread_mutex_unlock(&emulator.lock);
  return emulator_set_error(result);
}

static void CUDART_CB free_pooled(void *pointer) {
  pthread_mutex_lock(&emulator.lock);
  emulator_allocation *a = delist(pointer, MEMORY_DEVICE);
  if (a) release(a);
  pthread_mutex_unlock(&emulator.lock);
}

EMULATOR_EXPORT cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
  return cudaLaunchHostFunc(stream, free_pooled, pointer);
}

/* ---- host memory that devices reach at the same address */

EMULATOR_EXPORT cudaError_t cudaHostAlloc(void **pointer, size_t bytes, unsigned int flags) {
  EMULATOR_ENTER();
  (void)flags;
  if (!pointer || bytes == 0) return emulator_set_error(cudaErrorInvalidValue);
  pthread_mutex_lock(&emulator.lock);
  const int device = emulator_current_device();
  cudaError_t result = emulator_begin_allocating(device);
  emulator_allocation *a = result == cudaSuccess ? calloc(1, sizeof *a) : NULL;
  if (a && map_guarded(a, bytes, -1, 0)) {
    a->kind = MEMORY_HOST;
    a->device = device;
    enlist(a);
    emulator.counts.host_allocations++;
    *pointer = a->base;
  } else if (result == cudaSuccess) {
    free(a);
    result = cudaErrorMemoryAllocation;
  }
  emulator_end_allocating(device);
  pthread_mutex_unlock(&emulator.lock);
  return emulator_set_error(result);
}

EMULATOR_EXPORT cudaError_t cudaMallocHost(void **pointer, size_t bytes) {
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

EMULATOR_EXPORT cudaError_t cudaFreeHost(void *pointer) {
  return release_memory(pointer, MEMORY_HOST, __func__);
}

EMULATOR_EXPORT cudaError_t cudaHostRegister(void *pointer, size_t bytes, unsigned int flags) {
  EMULATOR_ENTER();
  (void)flags;
  if (!pointer || bytes == 0) return emulator_set_error(cudaErrorInvalidValue);
  pthread_mutex_lock(&emulator.lock);
  const int device = emulator_current_device();
  cudaError_t result = emulator_begin_allocating(device);
  if (result == cudaSuccess &&
      (emulator_find(pointer) || emulator_find((char *)pointer + bytes - 1)))
    result = cudaErrorHostMemoryAlreadyRegistered;
  emulator_allocation *a = result == cudaSuccess ? calloc(1, sizeof *a) : NULL;
  if (a) {
    a->base = pointer;
    a->bytes = bytes;
    a->kind = MEMORY_REGISTERED;
    a->device = device;
    enlist(a);
    emulator.counts.host_allocations++;
  }
  emulator_end_allocating(device);
  pthread_mutex_unlock(&emulator.lock);
  return emulator_set_error(result);
}

EMULATOR_EXPORT cudaError_t cudaHostUnregister(void *pointer) {
  return release_memory(pointer, MEMORY_REGISTERED, __func__);
}

EMULATOR_EXPORT cudaError_t cudaHostGetDevicePointer(void **device, void *host,
                                                     unsigned int flags) {
  EMULATOR_ENTER();
  pthread_mutex_lock(&emulator.lock);
  const emulator_allocation *a = emulator_find(host);
  const bool mapped =
      device && a && flags == 0 && (a->kind == MEMORY_HOST || a->kind == MEMORY_REGISTERED);
  pthread_mutex_unlock(&emulator.lock);
  if (!mapped) return emulator_set_error(cudaErrorInvalidValue);
  *device = host;
  return cudaSuccess;
}

EMULATOR_EXPORT cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes,
                                                     const void *pointer) {
  EMULATOR_ENTER();
  if (!attributes) return emulator_set_error(cudaErrorInvalidValue);
  memset(attributes, 0, sizeof *attributes);
  pthread_mutex_lock(&emulator.lock);
  const emulator_allocation *a = emulator_find(pointer);
  attributes->device = a ? a->device : cudaInvalidDeviceId;
  attributes->type = cudaMemoryTypeUnregistered;
  if (a) {
    const bool host = a->kind == MEMORY_HOST || a->kind == MEMORY_REGISTERED;
    attributes->type = host ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    attributes->devicePointer = (void *)pointer;
    attributes->hostPointer = host ? (void *)pointer : NULL;
  }
  pthread_mutex_unlock(&emulator.lock);
  return cudaSuccess;
}

EMULATOR_EXPORT cudaError_t cudaMemGetInfo(size_t *available, size_t *total) {
  EMULATOR_ENTER();
  pthread_mutex_lock(&emulator.lock);
  *available = (size_t)(device_memory - emulator.counts.device_bytes);
  *total = (size_t)device_memory;
  pthread_mutex_unlock(&emulator.lock);
  return cudaSuccess;
}

/* ---- between processes */

typedef struct ipc_handle {
  char magic[8];
  int32_t process, file, device;
  uint64_t offset, bytes;
} ipc_handle;
_Static_assert(sizeof(ipc_handle) <= sizeof(cudaIpcMemHandle_t), "a handle has 64 bytes");
static const char ipc_magic[8] = "dfcclEm";

EMULATOR_EXPORT cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *pointer) {
  EMULATOR_ENTER();
  pthread_mutex_lock(&emulator.lock);
  const emulator_allocation *a = emulator_find(pointer);
  const bool good = handle && a && a->kind == MEMORY_DEVICE && !a->pooled;
  if (good) {
    ipc_handle h = {.process = getpid(),
                    .file = emulator.devices[a->device].memory_file,
                    .device = a->device,
                    .offset = a->file_offset,
                    .bytes = a->bytes};
    memcpy(h.magic, ipc_magic, sizeof h.magic);
    memset(handle, 0, sizeof *handle);
    memcpy(handle, &h, sizeof h);
  }
  pthread_mutex_unlock(&emulator.lock);
  return good ? cudaSuccess : emulator_set_error(cudaErrorInvalidValue);
}

EMULATOR_EXPORT cudaError_t cudaIpcOpenMemHandle(void **pointer, cudaIpcMemHandle_t handle,
                                                 unsigned int flags) {
  EMULATOR_ENTER();
  ipc_handle h;
  memcpy(&h, &handle, sizeof h);
  if (!pointer || flags != cudaIpcMemLazyEnablePeerAccess ||
      memcmp(h.magic, ipc_magic, sizeof h.magic) != 0)
    return emulator_set_error(cudaErrorInvalidValue);
  if (h.process == getpid()) return emulator_set_error(cudaErrorDeviceUninitialized);
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", h.process, h.file);
  const int file = open(path, O_RDWR | O_CLOEXEC);
  if (file < 0) return emulator_set_error(cudaErrorInvalidResourceHandle);
  pthread_mutex_lock(&emulator.lock);
  const int device = emulator_current_device();
  cudaError_t result = emulator_begin_allocating(device);
  /* The number of a device is the same in all processes. */
  if (result == cudaSuccess && h.device != device && !emulator.reach_peers)
    result = cudaErrorPeerAccessUnsupported;
  emulator_allocation *a = result == cudaSuccess ? calloc(1, sizeof *a) : NULL;
  if (a && map_guarded(a, h.bytes, file, h.offset)) {
    a->kind = MEMORY_IPC;
    a->file = file;
    emulator_note_import(file, h.offset);
    a->device = device; /* the device that may access it from now on */
    poison(a);
    enlist(a);
    emulator.counts.ipc_mappings++;
    *pointer = a->base;
  } else if (result == cudaSuccess) {
    free(a);
    result = cudaErrorMapBufferObjectFailed;
  }
  emulator_end_allocating(device);
  pthread_mutex_unlock(&emulator.lock);
  if (result != cudaSuccess) close(file);
  return emulator_set_error(result);
}

EMULATOR_EXPORT cudaError_t cudaIpcCloseMemHandle(void *pointer) {
  return release_memory(pointer, MEMORY_IPC, __func__);
}
