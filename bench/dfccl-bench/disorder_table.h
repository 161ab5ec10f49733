/* The measurements of dfccl-bench disorder, and their output. */
#ifndef DF_BENCH_DFCCL_BENCH_DISORDER_TABLE_H
#define DF_BENCH_DFCCL_BENCH_DISORDER_TABLE_H

#include "options.h"

enum { DISORDER_BATCH = 8 /* all-reduces */, DISORDER_MAX_ROWS = 64 };

typedef enum {
  MODE_ORDERED,    /* all ranks in one order */
  MODE_DISORDERED, /* each rank in a random order of its own, another in each batch */
  MODE_PATIENT,    /* one order, thresholds that never run out: nothing is ever set aside */
  MODE_BLOCKING,   /* one order, one at a time */
  MODES
} disorder_mode;

typedef struct {
  double us[DF_BENCH_MAX_ROUNDS]; /* a batch, of the slowest rank */
  double preemptions, quits;      /* a batch and rank */
  int64_t wrong;                  /* elements; -1: not checked */
} disorder_result;

typedef struct {
  size_t bytes, count;
  int batches; /* batches of a turn */
  disorder_result modes[MODES];
} disorder_row;

/* Both return false if standard output cannot be written; the header then prints a sentence, a row
 * does not. */
bool df_disorder_print_header(const df_bench_options *options);
bool df_disorder_print_row(const df_bench_options *options, const disorder_row *row);
bool df_disorder_print_json(const df_bench_options *options, const disorder_row *rows, int count);
/* True if no checked element was wrong. */
bool df_disorder_all_right(const disorder_row *rows, int count);

#endif
