/* dfccl-bench disorder: the price of submitting the same collectives in different orders, and the
 * price of preemption in one order. */
#ifndef DF_BENCH_DFCCL_BENCH_DISORDER_H
#define DF_BENCH_DFCCL_BENCH_DISORDER_H

#include "options.h"

/* Measures all sizes and prints them. Returns the program's exit status. */
int df_bench_disorder(const df_bench_options *options);

#endif
