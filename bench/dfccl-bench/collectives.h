/* The collectives as dfccl-bench sees them: sizes, bandwidth factors, calls. */
#ifndef DF_BENCH_DFCCL_BENCH_COLLECTIVES_H
#define DF_BENCH_DFCCL_BENCH_COLLECTIVES_H

#include <stdbool.h>
#include <stddef.h>

#include "options.h"

/* One collective of one size, by the conventions of nccl-tests. Counts are elements. */
typedef struct {
  size_t count;      /* the count for the register function; the count column of the table */
  size_t send_count; /* elements of a rank's send buffer */
  size_t recv_count; /* elements of a rank's receive buffer */
  /* Bytes of the larger buffer: the size column of the table, the numerator of algbw. */
  size_t bytes;
} df_bench_shape;

/* Returns the shape for a requested size. Operations that divide the buffer among the ranks round
 * the part down to 16 bytes, so that small sizes become 0. */
df_bench_shape df_bench_shape_of(const df_bench_options *options, size_t bytes);

/* For a vector collective returns the operation that has the same buffers if pieces are equal,
 * otherwise the operation itself. */
df_bench_operation df_bench_even(df_bench_operation operation);

/* busbw / algbw. */
double df_bench_bus_factor(df_bench_operation operation, int n_ranks);

bool df_bench_has_operator(df_bench_operation operation); /* it reduces */
bool df_bench_has_root(df_bench_operation operation);

/* Where a rank's data lies when it works in place in a buffer of shape.bytes. */
void df_bench_in_place(const df_bench_options *options, const df_bench_shape *shape, int rank,
                       void *buffer, void **send, void **recv);

dfcclResult_t df_bench_register(const df_bench_options *options, const df_bench_shape *shape,
                                dfcclContext_t context, dfcclCollId_t id);
dfcclResult_t df_bench_run(df_bench_operation operation, dfcclContext_t context, dfcclCollId_t id,
                           const void *send, void *recv);

#endif
