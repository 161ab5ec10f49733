/*
 * The paths to a rank of another host, in the place of src/transports/net/connect/paths.c: all lead
 * to the same place.
 */
#include "sim.h"
#include "transports/net/connect/paths.h"
#include "world.h"

dfcclResult_t df_path_finder_open(df_path_finder **rails, const char *interfaces, uint32_t most) {
  (void)interfaces;
  (void)most;
  *rails = NULL;
  return dfcclSuccess;
}

void df_path_finder_close(df_path_finder *rails) { (void)rails; }

uint32_t df_path_finder_find(const df_path_finder *rails, const df_remote_rank *remote,
                             df_tcp_path ways[DF_NET_PATHS_MOST]) {
  (void)rails;
  for (uint32_t i = 0; i < sim_plan.rails; i++) ways[i] = (df_tcp_path){.to = remote->address};
  return sim_plan.rails;
}
