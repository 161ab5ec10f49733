/* The output of dfccl-bench: the table of nccl-tests, or JSON. */
#ifndef DF_BENCH_DFCCL_BENCH_TABLE_H
#define DF_BENCH_DFCCL_BENCH_TABLE_H

#include "measure.h"

/* Both return false if standard output cannot be written; the header then prints a sentence, a row
 * does not. */
bool df_bench_print_header(const df_bench_options *options);
bool df_bench_print_row(const df_bench_options *options, const df_bench_row *row);

/* The lines after the table. Returns false when a result was wrong. */
bool df_bench_print_end(const df_bench_options *options, const df_bench_shared *shared);

/* The JSON object: out-of-place results, or with --in-place those in place. Returns false when a
 * result was wrong, or the object could not be written. */
bool df_bench_print_json(const df_bench_options *options, const df_bench_shared *shared);

#endif
