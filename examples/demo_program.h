/*
 * The program of `dfccl-demo disorder`: every rank runs the same all-reduces in its own random
 * order, iteration after iteration, and checks every element. An engine executes the
 * all-reduces: the library, or the in-order baseline.
 */
#ifndef DFCCL_DEMO_PROGRAM_H
#define DFCCL_DEMO_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/launch.h"

enum { DEMO_MIN_BYTES = 256, DEMO_MAX_BYTES = 1 << 20, DEMO_MAX_COLLECTIVES = 4096 };

typedef struct {
  int n_ranks, collectives;
  int64_t iterations;
  bool sync, processes, env, in_order_baseline, json;
  bool progress; /* rank 0 keeps a progress line on standard error */
  uint64_t seed;
  dfcclBackend_t backend;
} demo_options;

/* Everything is an unsigned 32-bit number: any error in any bit of any contribution changes the
 * sum, and no rounding hides it. */
typedef struct {
  size_t *offsets; /* collectives + 1: the first element of each collective in a rank's buffers */
  size_t elements; /* elements of all collectives together */
} demo_layout;

/* The report of a rank at its end. */
typedef struct {
  uint64_t completed; /* runs that ended well: one for each collective and iteration */
  uint64_t checked, wrong;
  uint64_t preemptions, blocks, voluntary_quits; /* from dfcclGetStats */
  double seconds;
  struct {
    int collective;
    int64_t iteration;
    size_t element;
    uint32_t got, expected;
  } first_wrong; /* if wrong > 0 */
} demo_report;

/* One rank's side of an engine. The functions return false when the rank must stop: after a
 * failure (recorded by df_tool_rank_fail) or in a deadlock. */
typedef struct demo_engine demo_engine;
struct demo_engine {
  uint32_t *send, *receive; /* layout->elements each; what the CPU writes and reads */
  bool (*run)(demo_engine *engine, int collective); /* submit one all-reduce */
  bool (*synchronize)(demo_engine *engine);         /* the device is idle afterwards */
  bool (*begin)(demo_engine *engine);               /* send is filled: before the first run */
  bool (*finish)(demo_engine *engine);              /* all runs done: receive is valid */
};

/* The sizes: spread geometrically from 256 B to 1 MB. false: out of memory. */
bool demo_layout_init(demo_layout *layout, int collectives);
void demo_layout_destroy(demo_layout *layout);

/* Runs the program as one rank. Fills report's completed, checked, wrong and seconds. */
void demo_program_run(const demo_options *options, const demo_layout *layout, int rank,
                      demo_engine *engine, df_tool_rank *self);

/* rank_main functions for df_tool_launch. Their argument is a demo_job. */
typedef struct demo_baseline demo_baseline;
typedef struct {
  demo_options options;
  demo_layout layout;
  demo_baseline *baseline; /* NULL when the library runs the collectives */
} demo_job;

void demo_library_rank_main(df_tool_rank *self);
void demo_baseline_rank_main(df_tool_rank *self);

#endif
