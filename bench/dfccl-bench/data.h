/*
 * The data of measured collectives, and their results. Values are random, but for each type and
 * operator every intermediate result is exact in any order of the reduction: results are compared
 * bit for bit. Integers use their whole range (and wrap), except for avg.
 *
 * Values repeat after DF_BENCH_PERIOD elements. The period is a prime number: exchanged chunks of
 * any usual size are noticed. Filling is copying, and checking is comparing memory.
 */
#ifndef DF_BENCH_DFCCL_BENCH_DATA_H
#define DF_BENCH_DFCCL_BENCH_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "dfccl.h"

enum { DF_BENCH_PERIOD = 16381 };

typedef struct {
  dfcclDataType_t type;
  dfcclRedOp_t op;
  int n_ranks;
} df_bench_data;

/* The encoding of the element that rank contributes at position (0 to DF_BENCH_PERIOD - 1). */
uint64_t df_bench_input(const df_bench_data *data, int rank, size_t position);

/* The encoding of the reduction of the first n ranks' elements at position. */
uint64_t df_bench_reduced(const df_bench_data *data, int n, size_t position);

/* A table of two periods: any run of one period is one piece of the table. The
 * caller frees it; NULL: out of memory. rank -1: the reduction of all ranks, else its input. */
void *df_bench_table(const df_bench_data *data, int rank);
/* The same of what the first n ranks reduce to. */
void *df_bench_prefix_table(const df_bench_data *data, int n);

/* Fills a device buffer of count elements with a table's values, from position first on. Returns 0,
 * or -1 if the device refused. */
int df_bench_fill(const df_bench_data *data, const void *table, void *buffer, size_t first,
                  size_t count);

/* The number of elements that differ from the table's, from position first on; -1: the device
 * refused, or out of memory. */
int64_t df_bench_count_wrong(const df_bench_data *data, const void *table, const void *buffer,
                             size_t first, size_t count);

#endif
