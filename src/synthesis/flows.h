/*
 * Flows: messages under way, which share the ports that they pass max-min fairly (Bertsekas and
 * Gallager, Data Networks, 1992, section 6.5.2: progressive filling). A flow's rate changes only if
 * a flow begins or ends that it shares a port with, directly or by way of others.
 */
#ifndef DF_SYNTHESIS_FLOWS_H
#define DF_SYNTHESIS_FLOWS_H

#include "topology/network.h"

typedef struct df_flow {
  uint32_t ports[DF_NETWORK_PATH_MOST];
  uint32_t next[DF_NETWORK_PATH_MOST], previous[DF_NETWORK_PATH_MOST]; /* in its ports' lists */
  uint8_t n_ports, is_under_way, is_fixed;
  uint32_t seen;           /* the latest settling that met it */
  double left;             /* bytes, at `since` */
  double rate, since, end; /* end: as things are */
} df_flow;

typedef struct df_port {
  double rate, free; /* free: not given away yet, while settling */
  uint32_t first;    /* flow; UINT32_MAX: none */
  uint32_t flows, unfixed;
  uint32_t seen;
  uint8_t is_dirty;
  double bytes, busy, busy_since;
} df_port;

typedef struct df_flows {
  df_flow *flows;
  df_port *ports;
  uint32_t n_ports, n_dirty, settlings;
  uint32_t *dirty, *met_ports, *met_flows; /* stacks */
} df_flows;

/* flows: all that there will be. dfcclOutOfMemory. */
dfcclResult_t df_flows_make(df_flows *flows, const df_network *model, uint32_t n_flows);
/* Sets the resources that a flow passes between two ranks. Must precede the first begin. */
void df_flows_connect(df_flows *flows, const df_network *model, uint32_t flow, uint32_t from,
                      uint32_t to, double *latency);
void df_flows_free(df_flows *flows);

void df_flows_begin(df_flows *flows, uint32_t flow, double bytes, double now);
void df_flows_finish(df_flows *flows, uint32_t flow, double now);

/* After the last begin and finish of a moment. Calls `changed` for each flow with another end. */
void df_flows_settle(df_flows *flows, double now, void (*changed)(void *user, uint32_t flow),
                     void *user);

#endif
