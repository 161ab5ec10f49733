#include "support/memory.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/harness.h"

/*
 * The driver provides page-locked memory in chunks that are never returned to it, because its
 * allocation waits for all work of the GPU. Freed memory is kept by size, a power of two, and
 * reused.
 */
enum { PAGE_BYTES = 4096, STACK_AHEAD_BYTES = 128 << 10 };
enum { LEAST_SHIFT = 6, MOST_SHIFT = 40, CHUNK_BYTES = 8 << 20, HEADER_BYTES = 64 };

typedef struct block {
  struct block *next;
  int shift;
} block;

/* Functions of the driver, with their types written out. */
static struct {
  int (*init)(unsigned flags);
  int (*device_get)(int *device, int ordinal);
  int (*primary_retain)(void **context, int device);
  int (*set_current)(void *context);
  int (*host_alloc)(void **memory, size_t bytes, unsigned flags);
  int (*host_register)(void *memory, size_t bytes, unsigned flags);
  int (*copy)(uintptr_t to, uintptr_t from, size_t bytes);
  int (*synchronize)(void *stream);
  void *context;
} driver;
static pthread_once_t driver_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static block *free_blocks[MOST_SHIFT];
static char *chunk;
static size_t chunk_left;

bool df_on_cuda(void) {
  const char *backend = getenv("TEST_BACKEND");
  return backend != NULL && strcmp(backend, "cuda") == 0;
}

void df_driver_find(const df_driver_entry *entries, size_t count) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  CHECK(library != NULL, "TEST_BACKEND=cuda: %s", dlerror());
  for (size_t i = 0; i < count; i++) {
    void *symbol = dlsym(library, entries[i].name);
    CHECK(symbol != NULL, "the CUDA driver has no %s", entries[i].name);
    memcpy(entries[i].entry, &symbol, sizeof symbol);
  }
}

static void load_driver(void) {
  const df_driver_entry entries[] = {
      {"cuInit", &driver.init},
      {"cuDeviceGet", &driver.device_get},
      {"cuDevicePrimaryCtxRetain", &driver.primary_retain},
      {"cuCtxSetCurrent", &driver.set_current},
      {"cuMemHostAlloc", &driver.host_alloc},
      {"cuMemHostRegister_v2", &driver.host_register},
      {"cuMemcpy", &driver.copy},
      {"cuStreamSynchronize", &driver.synchronize},
  };
  df_driver_find(entries, sizeof entries / sizeof entries[0]);
  int device = 0;
  CHECK(driver.init(0) == 0 && driver.device_get(&device, 0) == 0 &&
            driver.primary_retain(&driver.context, device) == 0,
        "the CUDA driver does not start");
}

void df_driver_enter(void) {
  pthread_once(&driver_once, load_driver);
  CHECK(driver.set_current(driver.context) == 0, "the CUDA device cannot be used");
}

/* ---- the program's own memory */

extern char __data_start[], _end[]; /* the limits of static variables, which the linker defines */

static void show(const void *begin, const void *end) {
  const unsigned portable_and_mapped = 1 | 2;
  uintptr_t first = (uintptr_t)begin / PAGE_BYTES * PAGE_BYTES;
  uintptr_t last = ((uintptr_t)end + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
  int error = driver.host_register((void *)first, last - first, portable_and_mapped);
  CHECK(error == 0, "%zu bytes of the program cannot be page-locked: error %d",
        (size_t)(last - first), error);
}

/* Frames of functions that are called later are below this one, so their pages exist from here
 * on. */
static __attribute__((noinline)) void show_stack(void) {
  volatile char ahead[STACK_AHEAD_BYTES];
  pthread_attr_t attributes;
  void *lowest;
  size_t bytes;
  for (size_t i = 0; i < sizeof ahead; i += PAGE_BYTES) ahead[i] = 0;
  CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0 &&
            pthread_attr_getstack(&attributes, &lowest, &bytes) == 0,
        "no bounds of the stack");
  pthread_attr_destroy(&attributes);
  show((const char *)ahead, (const char *)lowest + bytes);
}

void df_memory_show_program(void) {
  static pid_t shown_by;
  const char *hidden = getenv("TEST_PROGRAM_MEMORY");
  if (!df_on_cuda() || (hidden != NULL && strcmp(hidden, "hidden") == 0)) return;
  pthread_mutex_lock(&pool_lock);
  if (shown_by != getpid() && gettid() == getpid()) {
    shown_by = getpid();
    df_driver_enter();
    show(__data_start, _end);
    show_stack();
  }
  pthread_mutex_unlock(&pool_lock);
}

/* ---- allocated memory */

/* The caller holds the lock. */
static void *cut(size_t bytes) {
  const unsigned portable_and_mapped = 1 | 2;
  if (bytes > chunk_left) {
    void *memory = NULL;
    const size_t whole = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
    df_driver_enter();
    CHECK(driver.host_alloc(&memory, whole, portable_and_mapped) == 0,
          "no %zu bytes of page-locked memory", whole);
    chunk = memory;
    chunk_left = whole;
  }
  void *piece = chunk;
  chunk += bytes;
  chunk_left -= bytes;
  return piece;
}

static void *take_page_locked(size_t bytes) {
  int shift = LEAST_SHIFT;
  while (((size_t)1 << shift) < bytes) shift++;
  pthread_mutex_lock(&pool_lock);
  block *b = free_blocks[shift];
  if (b != NULL)
    free_blocks[shift] = b->next;
  else
    b = cut(((size_t)1 << shift) + HEADER_BYTES);
  b->shift = shift;
  pthread_mutex_unlock(&pool_lock);
  return (char *)b + HEADER_BYTES;
}

void *df_memory_take(size_t bytes) {
  if (df_on_cuda()) return take_page_locked(bytes);
  void *memory =
      aligned_alloc(HEADER_BYTES, (bytes + HEADER_BYTES - 1) / HEADER_BYTES * HEADER_BYTES);
  CHECK(memory != NULL, "no memory for %zu bytes", bytes);
  return memory;
}

void df_memory_give(void *memory) {
  if (!df_on_cuda()) {
    free(memory);
    return;
  }
  if (memory == NULL) return;
  block *b = (block *)(void *)((char *)memory - HEADER_BYTES);
  pthread_mutex_lock(&pool_lock);
  b->next = free_blocks[b->shift];
  free_blocks[b->shift] = b;
  pthread_mutex_unlock(&pool_lock);
}

void df_memory_copy(void *to, const void *from, size_t bytes) {
  if (!df_on_cuda()) {
    memcpy(to, from, bytes);
    return;
  }
  df_driver_enter();
  /* A copy from pageable memory returns before the device has executed it. */
  CHECK(driver.copy((uintptr_t)to, (uintptr_t)from, bytes) == 0 && driver.synchronize(NULL) == 0,
        "a copy of %zu bytes failed", bytes);
}
