/* The lower bound of an operation, beside its measured times (--bound). */
#ifndef DF_BENCH_DFCCL_BENCH_BOUND_H
#define DF_BENCH_DFCCL_BENCH_BOUND_H

#include "collectives.h"

/* Reads options->network, if one is given. Ends the program with a sentence if it is malformed. */
void df_bench_bound_begin(const df_bench_options *options);
/*
 * Microseconds, or 0: the operation has no bound. No algorithm can be faster on the network of the
 * file. Without a file: all ranks are on this machine, and each byte that a rank must receive is
 * copied once. The rate is that of memcpy, measured here for as many bytes, shared if ranks are
 * more than cores; a lent buffer that its reader reduces from can be faster.
 */
double df_bench_bound_us(const df_bench_options *options, const df_bench_shape *shape);
void df_bench_bound_end(void);

#endif
