/* dfccl-bench tune: measures every algorithm on this machine, and writes the table of rules that
 * DFCCL_TUNING reads (docs/TUNING.md). */
#ifndef DF_BENCH_DFCCL_BENCH_TUNE_H
#define DF_BENCH_DFCCL_BENCH_TUNE_H

#include <stdbool.h>
#include <stdio.h>

#include "options.h"
#include "plans/msccl/directory.h"
#include "tuning/calibration.h"
#include "tuning/table.h"

/* Ways of carrying a collective out: the library's algorithms by their numbers, then files, then
 * the algorithms with other slot sizes, and the library's choice. */
enum {
  DF_TUNE_HOPELESS = 6,   /* times the best: not measured any further */
  DF_TUNE_MAX_SIZES = 64, /* doubled as often as a size can be */
  DF_TUNE_FILES = DF_DIRECTORY_FILES,
  DF_TUNE_NAMED = DF_ALGORITHMS + DF_TUNE_FILES,
  DF_TUNE_SLOT_SIZES = 4,
  DF_TUNE_CHOICE = DF_TUNE_NAMED + DF_TUNE_SLOT_SIZES * DF_ALGORITHMS,
  DF_TUNE_WAYS
};

/* dfccl-bench/tune_ways.c. Reads the files of DFCCL_ALGORITHMS that can be proved; the others
 * are named on standard error. Before the first job. */
void df_tune_name_ways(void);
bool df_tune_has(int way, df_operation operation, int n_ranks);
const char *df_tune_name(int way);    /* as options.algorithm */
const char *df_tune_label(int way);   /* in comments of the table: "direct/256K" */
int df_tune_algorithm(int way);       /* DF_FROM_FILE: a file, or the choice */
uint32_t df_tune_slot_bytes(int way); /* 0: the usual one */
int df_tune_with_slot(int algorithm,
                      int i);              /* the way with slot size i, below DF_TUNE_SLOT_SIZES */
const df_plan_file *df_tune_file(int way); /* NULL: it is no file */

/* The fastest one of many ways whose times scatter is often only lucky. So the fastest are measured
 * again beside the library's choice, and must win. */
typedef enum {
  DF_TUNE_MEASURED, /* it was not among the fastest */
  DF_TUNE_FINALIST,
  DF_TUNE_WINNER /* in most of the last rounds faster than the library's choice */
} df_tune_standing;

/* The measurements for one operation, number of ranks and kind of memory. */
typedef struct {
  df_operation operation;
  int n_ranks;
  df_memory_kind memory;
  bool is_cut; /* further sizes were left out */
  int n_sizes;
  struct {
    size_t bytes;
    double us[DF_TUNE_WAYS]; /* medians; 0: it has not the operation, or was far too slow */
    df_tune_standing standing[DF_TUNE_WAYS];
    double spread
        [DF_TUNE_WAYS]; /* spread of all rounds but the first and the last, divided by the median */
  } sizes[DF_TUNE_MAX_SIZES];
} df_tune_series;

/* dfccl-bench/tune_output.c. A calibration replaces the file's former content at once, or not at
 * all: jobs read it meanwhile. */
typedef struct {
  char path[DF_CALIBRATION_PATH_BYTES], unfinished[DF_CALIBRATION_PATH_BYTES + 24];
  bool is_calibration;
  FILE *file;
} df_tune_output;

/* False: the reason is on standard error. */
bool df_tune_open(const df_bench_options *options, df_tune_output *out);
bool df_tune_close(df_tune_output *out, bool fine);

/* Measures, and writes the table. Returns the program's exit status. */
int df_bench_tune(const df_bench_options *options, int argc, char **argv);

/* dfccl-bench/tune_table.c: the table's origin, in comments; the rules of each series, in the
 * order of their sizes; and all that was measured, in comments (microseconds). */
void df_tune_write_header(FILE *file, bool is_calibration, int argc, char **argv);
void df_tune_write_rules(FILE *file, const df_tune_series *series, uint32_t ranks_least,
                         uint32_t ranks_most);
void df_tune_write_times(FILE *file, const df_tune_series *series);
/* Comments, too: latency and time for each byte of each algorithm, and at how many sizes the best
 * one leads by more than the rounds' spread. */
void df_tune_write_fits(FILE *file, const df_tune_series *series);

#endif
