#include "common/memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

/* The few entries of the CUDA driver that are needed, with its types spelt out. */
static struct {
  int (*init)(unsigned flags);
  int (*device_count)(int *count);
  int (*device_get)(int *device, int ordinal);
  int (*primary_retain)(void **context, int device);
  int (*set_current)(void *context);
  int (*alloc)(uintptr_t *pointer, size_t bytes);
  int (*free)(uintptr_t pointer);
  int (*copy)(uintptr_t destination, uintptr_t source, size_t bytes);
  int (*set8)(uintptr_t destination, unsigned char value, size_t bytes);
  int (*synchronize)(void *stream);
} driver;

static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static const char *driver_problem;
static atomic_bool on_cuda;

static void load_driver(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) {
    driver_problem = "the CUDA driver (libcuda.so.1) is not installed";
    return;
  }
  const struct {
    const char *name;
    void *entry;
  } entries[] = {
      {"cuInit", &driver.init},
      {"cuDeviceGetCount", &driver.device_count},
      {"cuDeviceGet", &driver.device_get},
      {"cuDevicePrimaryCtxRetain", &driver.primary_retain},
      {"cuCtxSetCurrent", &driver.set_current},
      {"cuMemAlloc_v2", &driver.alloc},
      {"cuMemFree_v2", &driver.free},
      {"cuMemcpy", &driver.copy},
      {"cuMemsetD8_v2", &driver.set8},
      {"cuStreamSynchronize", &driver.synchronize},
  };
  for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
    void *symbol = dlsym(library, entries[i].name);
    if (symbol == NULL) {
      driver_problem = "the CUDA driver is too old: an entry is missing";
      return;
    }
    memcpy(entries[i].entry, &symbol, sizeof symbol);
  }
  if (driver.init(0) != 0) driver_problem = "the CUDA driver does not start: no usable GPU";
}

const char *df_tool_memory_choose(dfcclBackend_t backend, int requested, int *device) {
  *device = 0;
  if (backend != dfcclBackendCuda) return NULL;
  pthread_once(&driver_once, load_driver);
  if (driver_problem != NULL) return driver_problem;
  int count = 0;
  if (driver.device_count(&count) != 0 || count < 1) return "there is no CUDA device";
  if (requested >= 0) *device = requested % count;
  return NULL;
}

const char *df_tool_memory_open(dfcclBackend_t backend, int requested, int *device) {
  const char *problem = df_tool_memory_choose(backend, requested, device);
  if (problem != NULL || backend != dfcclBackendCuda) return problem;
  int handle = 0;
  void *context = NULL;
  if (driver.device_get(&handle, *device) != 0 || driver.primary_retain(&context, handle) != 0 ||
      driver.set_current(context) != 0)
    return "the CUDA device cannot be used";
  atomic_store_explicit(&on_cuda, true, memory_order_relaxed);
  return NULL;
}

bool df_tool_memory_is_host(void) { return !atomic_load_explicit(&on_cuda, memory_order_relaxed); }

void *df_tool_memory_alloc(size_t bytes) {
  if (!df_tool_memory_is_host()) {
    uintptr_t pointer = 0;
    return driver.alloc(&pointer, bytes) == 0 ? (void *)pointer : NULL;
  }
  void *buffer =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  return buffer == MAP_FAILED ? NULL : buffer;
}

void df_tool_memory_free(void *buffer, size_t bytes) {
  if (buffer == NULL) return;
  if (df_tool_memory_is_host())
    munmap(buffer, bytes);
  else
    driver.free((uintptr_t)buffer);
}

/* The driver returns from a copy of pageable memory, and from a fill, before the device has done
 * it. The daemon's stream does not wait for the default stream, so a fill could come after a
 * result. */
static bool await_default_stream(int error) { return error == 0 && driver.synchronize(NULL) == 0; }

bool df_tool_memory_put(void *buffer, const void *host, size_t bytes) {
  if (!df_tool_memory_is_host())
    return await_default_stream(driver.copy((uintptr_t)buffer, (uintptr_t)host, bytes));
  memcpy(buffer, host, bytes);
  return true;
}

bool df_tool_memory_get(void *host, const void *buffer, size_t bytes) {
  if (!df_tool_memory_is_host()) return driver.copy((uintptr_t)host, (uintptr_t)buffer, bytes) == 0;
  memcpy(host, buffer, bytes);
  return true;
}

bool df_tool_memory_zero(void *buffer, size_t bytes) {
  if (!df_tool_memory_is_host())
    return await_default_stream(driver.set8((uintptr_t)buffer, 0, bytes));
  memset(buffer, 0, bytes);
  return true;
}
