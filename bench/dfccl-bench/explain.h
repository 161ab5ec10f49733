/* dfccl-bench OP --explain: what the library does for each size, and why. */
#ifndef DF_BENCH_DFCCL_BENCH_EXPLAIN_H
#define DF_BENCH_DFCCL_BENCH_EXPLAIN_H

#include "options.h"

/* Returns the program's exit status. */
int df_bench_explain(const df_bench_options *options);

#endif
