/* The assumptions of the CUDA device about a GPU, measured without the library. Every part ends by
 * itself. */
#ifndef DF_BENCH_CUDA_PROBE_H
#define DF_BENCH_CUDA_PROBE_H

#include <cstdint>
#include <initializer_list>

#include <cuda_runtime.h>

/* A call that must not fail: says what failed, and ends the program. */
#define PROBE_TRY(call) probe_try((call), #call)
void probe_try(cudaError_t error, const char *call);

struct probe_value {
  template <typename number>
  probe_value(const char *a_name, number a_value) : name(a_name), value((double)a_value) {}
  const char *name;
  double value;
};
/* A line of text; with --json an object with the part, the values and the text. */
void probe_report(const char *part, std::initializer_list<probe_value> values, const char *format,
                  ...) __attribute__((format(printf, 3, 4)));

double probe_now_us();
void probe_nap_us(double us);
uint64_t *probe_mapped(size_t bytes); /* page-locked, zero, never freed */
uint64_t probe_look(const uint64_t *word);
void probe_put(uint64_t *word, uint64_t value);
bool probe_comes(const uint64_t *word, uint64_t least, double us); /* within us */
cudaStream_t probe_stream(int priority);
int probe_priority(bool greatest);

/* Kernels, launched with blocks * threads on a stream. */
/* Writes *up = 1, and stays until *stop is not 0 or ns nanoseconds have passed. */
void probe_resident(cudaStream_t stream, int threads, uint64_t *up, const uint64_t *stop,
                    uint64_t ns);
void probe_mark(cudaStream_t stream, uint64_t *word, uint64_t value); /* one store */
void probe_lazy_mark(cudaStream_t stream, uint64_t *word);            /* a kernel used once only */

void probe_slices(); /* forks: before any CUDA call of this process */
void probe_facts();
void probe_pages(); /* memory that tests page-lock: static variables and the stack */
void probe_bus();
void probe_locks();
void probe_queues();
void probe_relaunches();
void probe_copies();
void probe_warm(double seconds); /* until the clocks are up */

#endif
