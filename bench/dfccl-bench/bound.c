#include "bound.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "../../simulator/network_file.h"
#include "base/result.h"
#include "common/cli.h"
#include "common/clock.h"
#include "synthesis/bounds.h"
#include "tuning/model.h"

static df_network network;
static bool has_network;

/* Finds the operation of the model; returns false if there is no bound. */
static bool known_operation(df_bench_operation given, df_operation *operation) {
  const df_bench_operation even = df_bench_even(given);
  if ((int)even >= (int)DF_OP_COUNT || even == DF_BENCH_BARRIER) return false;
  *operation = (df_operation)even;
  return true;
}

void df_bench_bound_begin(const df_bench_options *options) {
  if (options->network == NULL) return;
  has_network = true;
  if (df_network_read(&network, options->network, (uint32_t)options->n_ranks) == dfcclSuccess)
    return;
  df_network_free(&network);
  df_tool_usage_error("option --network: %s", df_last_sentence());
}

void df_bench_bound_end(void) {
  if (has_network) df_network_free(&network);
}

/* The best of some copies: bytes a second. 0: no memory. */
static double copy_rate(size_t bytes) {
  enum { TRIES = 7, LEAST_NS = 2000 };
  char *from = malloc(bytes), *to = malloc(bytes);
  double best = 0;
  if (from && to) memset(from, 1, bytes);
  for (int i = 0; from && to && i < TRIES; i++) {
    uint64_t copies = 0, begin = df_tool_now_ns(), ns = 0;
    for (; ns < LEAST_NS; ns = df_tool_now_ns() - begin, copies++) {
      memcpy(to, from, bytes);
      __asm__ volatile("" : : "r"(to) : "memory");
    }
    const double rate = (double)copies * (double)bytes / ((double)ns * 1e-9);
    if (rate > best) best = rate;
  }
  free(from);
  free(to);
  return best;
}

static double here_us(const df_bench_options *options, df_operation operation,
                      const df_bench_shape *shape) {
  cpu_set_t cores;
  uint32_t n_cores = 1;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) n_cores = (uint32_t)CPU_COUNT(&cores);
  return df_model_bound_us(operation, (uint32_t)options->n_ranks, shape->bytes, n_cores,
                           copy_rate(shape->bytes) * 1e-6);
}

double df_bench_bound_us(const df_bench_options *options, const df_bench_shape *shape) {
  df_operation operation;
  if (options->n_ranks < 2 || shape->bytes == 0) return 0;
  if (!known_operation(options->operation, &operation)) return 0;
  return has_network ? df_network_bound(&network, operation, shape->bytes) * 1e6
                     : here_us(options, operation, shape);
}
