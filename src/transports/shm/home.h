/* The home segment of a rank, which every peer process of the host maps. */
#ifndef DF_TRANSPORTS_SHM_HOME_H
#define DF_TRANSPORTS_SHM_HOME_H

#include "base/bell.h"
#include "primitives/foreign_memory.h"

typedef struct df_home {
  df_bell bell;
  df_process_identity identity; /* constant while peers map the segment */
  uint32_t refusals[]; /* [n_ranks] 1: this rank could not read a buffer that the rank had lent */
  /* [n_ranks] behind it: 1: the rank has excluded this one (host/membership/process_ends.h) */
} df_home;

static inline size_t df_home_bytes(uint32_t n_ranks) {
  return sizeof(df_home) + 2 * n_ranks * sizeof(uint32_t);
}

#endif
