/* A pump, its ports and its links: making and releasing. Data is moved by pump_send.c and
 * pump_receive.c. */
#include "transports/net/pump/pump.h"

#include <stdlib.h>

dfcclResult_t df_pump_make(df_pump **out, uint32_t frame_bytes) {
  df_pump *pump = calloc(1, sizeof *pump);
  if (pump == NULL) return df_fail(dfcclOutOfMemory, "no memory for a connection's pump");
  pump->frame_bytes = frame_bytes;
  pump->quickest = DF_PUMP_BULK;
  *out = pump;
  return dfcclSuccess;
}

void df_pump_free(df_pump *pump) {
  df_pump_links_free(&pump->links);
  for (uint32_t i = 0; i < pump->n_ports; i++) df_channel_free(&pump->ports[i].channel);
  free(pump);
}

dfcclResult_t df_pump_add_port(df_pump *pump) {
  DF_ASSERT(pump->n_ports < DF_PUMP_PORTS_MOST);
  df_pump_port *port = &pump->ports[pump->n_ports];
  *port = (df_pump_port){.rest = 0};
  if (!df_channel_make(&port->channel, pump->frame_bytes))
    return df_fail(dfcclOutOfMemory, "no memory for a connection's pump");
  pump->n_ports++;
  return dfcclSuccess;
}

dfcclResult_t df_pump_accept(df_pump *pump, const df_pump_route *route, df_pump_link **link) {
  dfcclResult_t result = df_pump_links_add(&pump->links, route, pump->frame_bytes, link);
  if (result != dfcclSuccess) return result;
  (*link)->incoming = 1;
  for (uint32_t b = 0; b < route->n_blocks; b++) {
    df_pump_ring *ring = &(*link)->rings[b];
    ring->may_lend = (uint64_t)ring->part.chunk * route->element_bytes >=
                     DF_MAX(pump->lend_min, route->lend_min);
  }
  return result;
}

dfcclResult_t df_pump_connect(df_pump *pump, const df_pump_route *route, uint32_t remote_id,
                              uint32_t remote_slots, df_pump_link **link) {
  dfcclResult_t result = df_pump_links_add(&pump->links, route, pump->frame_bytes, link);
  if (result != dfcclSuccess) return result;
  (*link)->remote_id = remote_id;
  (*link)->remote_slots = remote_slots;
  return dfcclSuccess;
}

void df_pump_release(df_pump *pump, df_pump_link *link) {
  for (uint32_t i = 0; i < pump->n_ports; i++) {
    df_channel_disown(&pump->ports[i].channel, link);
    if (pump->ports[i].target == link) pump->ports[i].target = NULL;
  }
  df_pump_links_remove(&pump->links, link);
}
