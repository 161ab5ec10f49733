/* Registration of vector collectives. */
#ifndef DF_HOST_API_API_COUNTS_H
#define DF_HOST_API_API_COUNTS_H

#include "host/state/registry.h"

/* The caller's arrays: entries for each member, or for each neighbour. */
typedef struct df_vector {
  const size_t *send_counts, *send_displs; /* displs NULL: packed */
  const size_t *recv_counts, *recv_displs;
  size_t count;       /* GatherV, ScatterV: this rank's own count */
  const int *send_to; /* Neighbours */
  const int *recv_from;
  int n_sends, n_receives;
} df_vector;

dfcclResult_t df_register_vector(dfcclContext_t context, const df_registration *registration,
                                 const df_vector *given);
#endif
