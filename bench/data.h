/*
 * What the measured collectives carry, and what must come out. Values are random but chosen for
 * each type and operator so that every intermediate result is exactly representable, whatever the
 * order of the reduction: results are compared bit for bit. Integers use their whole range (and
 * wrap), except for avg.
 *
 * Values repeat after DF_BENCH_PERIOD elements, a prime number, so that no exchange of chunks of
 * any usual size goes unnoticed, while filling and checking are copying and comparing memory.
 */
#ifndef DF_BENCH_DATA_H
#define DF_BENCH_DATA_H

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

/* The encoding of the reduction of all ranks' elements at position. */
uint64_t df_bench_reduced(const df_bench_data *data, size_t position);

/* A table of two periods, so that any run of one period can be taken from it in one piece. The
 * caller frees it; NULL: out of memory. rank -1: the reduction of all ranks, else its input. */
void *df_bench_table(const df_bench_data *data, int rank);

/* Fills a device buffer of count elements with a table's values, from position first on. Returns 0,
 * or -1 where the device refused. */
int df_bench_fill(const df_bench_data *data, const void *table, void *buffer, size_t first,
                  size_t count);

/* The number of elements that differ from the table's, from position first on; -1: the device
 * refused, or out of memory. */
int64_t df_bench_count_wrong(const df_bench_data *data, const void *table, const void *buffer,
                             size_t first, size_t count);

#endif
