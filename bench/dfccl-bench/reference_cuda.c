#include "reference_cuda.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"

enum { COPIES = 9, STREAM_NON_BLOCKING = 1 };

/* Functions of the CUDA driver, with their types written out. */
static struct {
  int (*load)(void **module, const void *image);
  int (*get_function)(void **function, void *module, const char *name);
  int (*unload)(void *module);
  int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream,
                void **arguments, void **extra);
  int (*stream_create)(void **stream, unsigned flags);
  int (*stream_destroy)(void *stream);
  int (*event_create)(void **event, unsigned flags);
  int (*event_record)(void *event, void *stream);
  int (*event_synchronize)(void *event);
  int (*event_elapsed)(float *ms, void *begin, void *end);
  int (*event_destroy)(void *event);
  int (*copy)(uintptr_t to, uintptr_t from, size_t bytes, void *stream);
} driver;

static const char empty_kernel[] = ".version 7.0\n"
                                   ".target sm_80\n"
                                   ".address_size 64\n"
                                   ".visible .entry df_bench_empty() { ret; }\n";

static bool load_driver(void) {
  const struct {
    const char *name;
    void *entry;
  } entries[] = {
      {"cuModuleLoadData", &driver.load},
      {"cuModuleGetFunction", &driver.get_function},
      {"cuModuleUnload", &driver.unload},
      {"cuLaunchKernel", &driver.launch},
      {"cuStreamCreate", &driver.stream_create},
      {"cuStreamDestroy_v2", &driver.stream_destroy},
      {"cuEventCreate", &driver.event_create},
      {"cuEventRecord", &driver.event_record},
      {"cuEventSynchronize", &driver.event_synchronize},
      {"cuEventElapsedTime", &driver.event_elapsed},
      {"cuEventDestroy_v2", &driver.event_destroy},
      {"cuMemcpyDtoDAsync_v2", &driver.copy},
  };
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == NULL) return false;
  for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
    void *symbol = dlsym(library, entries[i].name);
    if (symbol == NULL) return false;
    memcpy(entries[i].entry, &symbol, sizeof symbol);
  }
  return true;
}

/* A stream, and two events on it. */
typedef struct {
  void *stream, *begin, *end;
} bench_stream;

static void close_stream(bench_stream *s) {
  if (s->begin) driver.event_destroy(s->begin);
  if (s->end) driver.event_destroy(s->end);
  if (s->stream) driver.stream_destroy(s->stream);
}

static bool open_stream(bench_stream *s) {
  *s = (bench_stream){NULL, NULL, NULL};
  if (!load_driver()) return false;
  if (driver.stream_create(&s->stream, STREAM_NON_BLOCKING) == 0 &&
      driver.event_create(&s->begin, 0) == 0 && driver.event_create(&s->end, 0) == 0)
    return true;
  close_stream(s);
  return false;
}

static bool time_launches(const bench_stream *s, void *kernel, double *durations_ns, int count) {
  for (int i = -1; i < count; i++) { /* the first one warms up */
    double start = (double)df_tool_now_ns();
    if (driver.launch(kernel, 1, 1, 1, 1, 1, 1, 0, s->stream, NULL, NULL) != 0 ||
        driver.event_record(s->end, s->stream) != 0 || driver.event_synchronize(s->end) != 0)
      return false;
    if (i >= 0) durations_ns[i] = (double)df_tool_now_ns() - start;
  }
  return true;
}

bool df_bench_time_launches(double *durations_ns, int count) {
  bench_stream s;
  void *module = NULL, *kernel = NULL;
  if (!open_stream(&s)) return false;
  bool fine = driver.load(&module, empty_kernel) == 0 &&
              driver.get_function(&kernel, module, "df_bench_empty") == 0 &&
              time_launches(&s, kernel, durations_ns, count);
  if (module) driver.unload(module);
  close_stream(&s);
  return fine;
}

static int compare_floats(const void *a, const void *b) {
  float left = *(const float *)a, right = *(const float *)b;
  return (left > right) - (left < right);
}

bool df_bench_time_copy(size_t bytes, double *gbps) {
  bench_stream s;
  float ms[COPIES];
  if (!open_stream(&s)) return false;
  void *from = df_tool_memory_alloc(bytes), *to = df_tool_memory_alloc(bytes);
  bool fine = from != NULL && to != NULL;
  for (int i = -1; fine && i < COPIES; i++)
    fine = driver.event_record(s.begin, s.stream) == 0 &&
           driver.copy((uintptr_t)to, (uintptr_t)from, bytes, s.stream) == 0 &&
           driver.event_record(s.end, s.stream) == 0 && driver.event_synchronize(s.end) == 0 &&
           driver.event_elapsed(&ms[i < 0 ? 0 : i], s.begin, s.end) == 0;
  df_tool_memory_free(from, bytes);
  df_tool_memory_free(to, bytes);
  close_stream(&s);
  if (!fine) return false;
  qsort(ms, COPIES, sizeof ms[0], compare_floats);
  *gbps = ms[COPIES / 2] > 0 ? (double)bytes / ((double)ms[COPIES / 2] * 1e6) : 0;
  return true;
}
