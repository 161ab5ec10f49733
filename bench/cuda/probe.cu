/* gpu-probe [--json] [slice] [facts] [pages] [bus] [lock] [queues] [relaunch] [copy] [warm SECONDS]
 * */
#include "probe.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <time.h>

#include "probe_device.h"

static bool json;

void probe_try(cudaError_t error, const char *call) {
  if (error == cudaSuccess) return;
  printf("FAILED %s: %s\n", call, cudaGetErrorString(error));
  exit(1);
}

void probe_report(const char *part, std::initializer_list<probe_value> values, const char *format,
                  ...) {
  char text[400];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!json) {
    printf("%s: %s\n", part, text);
  } else {
    printf("{\"part\": \"%s\"", part);
    for (const probe_value &one : values) printf(", \"%s\": %.6g", one.name, one.value);
    printf(", \"text\": \"%s: %s\"}\n", part, text);
  }
  fflush(stdout);
}

double probe_now_us() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

void probe_nap_us(double us) {
  timespec nap = {(time_t)(us / 1e6), (long)(us * 1e3) % 1000000000};
  nanosleep(&nap, nullptr);
}

uint64_t *probe_mapped(size_t bytes) {
  void *memory;
  PROBE_TRY(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
  memset(memory, 0, bytes);
  return (uint64_t *)memory;
}

uint64_t probe_look(const uint64_t *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }
void probe_put(uint64_t *word, uint64_t value) { __atomic_store_n(word, value, __ATOMIC_RELEASE); }

bool probe_comes(const uint64_t *word, uint64_t least, double us) {
  const double end = probe_now_us() + us;
  while (probe_look(word) < least)
    if (probe_now_us() > end) return false;
  return true;
}

cudaStream_t probe_stream(int priority) {
  cudaStream_t stream;
  PROBE_TRY(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  return stream;
}

int probe_priority(bool greatest) {
  int least, most;
  PROBE_TRY(cudaDeviceGetStreamPriorityRange(&least, &most));
  return greatest ? most : least;
}

static __global__ void stay(uint64_t *up, const uint64_t *stop, uint64_t ns) {
  const uint64_t end = device_ns() + ns;
  if (threadIdx.x == 0) store_relaxed(up, 1);
  while (load_acquire(stop) == 0 && device_ns() < end) __nanosleep(200);
}
static __global__ void mark(uint64_t *word, uint64_t value) { store_relaxed(word, value); }
static __global__ void lazy_mark(uint64_t *word) { store_relaxed(word, 7); }

void probe_resident(cudaStream_t stream, int threads, uint64_t *up, const uint64_t *stop,
                    uint64_t ns) {
  stay<<<1, threads, 0, stream>>>(up, stop, ns);
  PROBE_TRY(cudaGetLastError());
}
void probe_mark(cudaStream_t stream, uint64_t *word, uint64_t value) {
  mark<<<1, 1, 0, stream>>>(word, value);
  PROBE_TRY(cudaGetLastError());
}
void probe_lazy_mark(cudaStream_t stream, uint64_t *word) {
  lazy_mark<<<1, 1, 0, stream>>>(word);
  PROBE_TRY(cudaGetLastError());
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*play)();
  } parts[] = {{"slice", probe_slices},        {"facts", probe_facts},
               {"pages", probe_pages},         {"bus", probe_bus},
               {"lock", probe_locks},          {"queues", probe_queues},
               {"relaunch", probe_relaunches}, {"copy", probe_copies}};
  int first = 1;
  if (argc > first && strcmp(argv[first], "--json") == 0) {
    json = true;
    first++;
  }
  if (argc > first + 1 && strcmp(argv[first], "warm") == 0) {
    probe_warm(atof(argv[first + 1]));
    return 0;
  }
  for (int i = first; i < argc; i++) {
    bool known = false;
    for (const auto &part : parts) known |= strcmp(argv[i], part.name) == 0;
    if (!known) {
      fprintf(stderr, "gpu-probe: there is no part '%s'\n", argv[i]);
      return 2;
    }
  }
  for (const auto &part : parts) { /* slices first: they fork */
    bool wanted = argc == first;
    for (int i = first; i < argc; i++) wanted |= strcmp(argv[i], part.name) == 0;
    if (wanted) part.play();
  }
  return 0;
}
