/* dfccl-bench tune: measures every algorithm on this machine, and writes the table of rules that
 * DFCCL_TUNING reads (docs/TUNING.md). */
#ifndef DF_BENCH_DFCCL_BENCH_TUNE_H
#define DF_BENCH_DFCCL_BENCH_TUNE_H

#include <stdbool.h>
#include <stdio.h>

#include "options.h"
#include "plans/msccl/directory.h"
#include "tuning/table.h"

/* Ways of carrying a collective out: the library's algorithms by their numbers, then files. */
enum {
  DF_TUNE_HOPELESS = 6,   /* times the best: not measured any further */
  DF_TUNE_MAX_SIZES = 64, /* doubled as often as a size can be */
  DF_TUNE_FILES = DF_DIRECTORY_FILES,
  DF_TUNE_WAYS = DF_ALGORITHMS + DF_TUNE_FILES
};

/* dfccl-bench/tune_files.c. Reads the files of DFCCL_ALGORITHMS that can be proved; the others
 * are named on standard error. Before the first job. */
void df_tune_read_files(void);
bool df_tune_has(int way, df_operation operation, int n_ranks);
const char *df_tune_name(int way);         /* as options.algorithm */
const df_plan_file *df_tune_file(int way); /* NULL: it is an algorithm */

/* The measurements for one operation, number of ranks and kind of memory. */
typedef struct {
  df_operation operation;
  int n_ranks;
  df_memory_kind memory;
  int n_sizes;
  struct {
    size_t bytes;
    double us[DF_TUNE_WAYS]; /* medians; 0: it has not the operation, or was far too slow */
    double spread
        [DF_TUNE_WAYS]; /* spread of all rounds but the first and the last, divided by the median */
  } sizes[DF_TUNE_MAX_SIZES];
} df_tune_series;

/* Measures, and writes the table. Returns the program's exit status. */
int df_bench_tune(const df_bench_options *options, int argc, char **argv);

/* dfccl-bench/tune_table.c: the table's origin, in comments; the rules of each series, in the
 * order of their sizes; and all that was measured, in comments (microseconds). */
void df_tune_write_header(FILE *file, int argc, char **argv);
void df_tune_write_rules(FILE *file, const df_tune_series *series, uint32_t ranks_least,
                         uint32_t ranks_most);
void df_tune_write_times(FILE *file, const df_tune_series *series);
/* Comments, too: latency and time for each byte of each algorithm, and at how many sizes the best
 * one leads by more than the rounds' spread. */
void df_tune_write_fits(FILE *file, const df_tune_series *series);

#endif
