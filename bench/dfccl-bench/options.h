/* The command line of dfccl-bench. */
#ifndef DF_BENCH_DFCCL_BENCH_OPTIONS_H
#define DF_BENCH_DFCCL_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dfccl.h"

/* The numbers of the library's operations (plans/operation.h), and what is no collective. */
typedef enum {
#define DF_OPERATION(id, ...) DF_BENCH_##id,
#define DF_VECTOR_OPERATION(id, ...) DF_BENCH_##id,
#include "plans/operations.def"
  DF_BENCH_OVERHEAD,
  DF_BENCH_TUNE,
  DF_BENCH_DISORDER,
  DF_BENCH_EVENTS,
  DF_BENCH_TUNED = DF_BENCH_ALL_TO_ALL + 1 /* tune measures the operations before it */
} df_bench_operation;

typedef struct {
  df_bench_operation operation;
  int n_ranks;
  bool env, processes;
  size_t min_bytes, max_bytes, factor;
  int iterations; /* 0: chosen for each size */
  int warmup;
  dfcclDataType_t type;
  dfcclRedOp_t op;
  dfcclBackend_t backend;
  const char *algorithm; /* NULL: the library's choice */
  int rounds;            /* disorder, tune; 0: its own choice */
  uint64_t seed;         /* disorder, events: of the orders */
  const char *out;       /* tune: file for the table; NULL: standard output, or the calibration */
  bool quick;            /* tune: few sizes and rounds */
  bool library_memory;   /* dfcclMemAlloc */
  bool in_place;         /* only in place */
  int survive;           /* config.survive */
  bool check, json, progress;
  bool bound;          /* the lower bound beside each time */
  const char *network; /* bound: the model's file; NULL: this machine */
  bool explain;        /* print how the library would execute it, instead of measuring it */
} df_bench_options;

enum { DF_BENCH_MAX_ITERATIONS = 100000, DF_BENCH_MAX_ROUNDS = 1000, DF_BENCH_ROOT = 0 };

/* Reads the command line; ends the program on wrong usage, --help and --version. */
df_bench_options df_bench_parse(int argc, char **argv);

bool df_bench_has_in_place(df_bench_operation operation);
const char *df_bench_operation_name(df_bench_operation operation);

#endif
