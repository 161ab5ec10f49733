/* Statistics of connections, for dumps, errors and dfccl-info net. */
#include <stdio.h>

#include "transports/net/connect/connections.h"

int df_connections_traffic(const df_connections *all, uint32_t rank, uint32_t port,
                           df_traffic *traffic) {
  const df_net_peer *peer = all->peers[rank];
  if (peer == NULL || port >= peer->pump->n_ports) return 0;
  const df_connection *c = &peer->ports[port];
  const df_channel *channel = &peer->pump->ports[port].channel;
  *traffic = (df_traffic){.frames_sent = channel->frames_sent,
                          .bytes_sent = channel->bytes_sent,
                          .frames_received = channel->frames_received,
                          .bytes_received = channel->bytes_received,
                          .received_ns = c->received_ns,
                          .resumes = c->n_connected ? c->n_connected - 1 : 0,
                          .is_connected = c->state == DF_CONNECTION_CONNECTED,
                          .state = df_connection_state_name(c->state)};
  snprintf(traffic->ends, sizeof traffic->ends, "%s", c->ends);
  return 1;
}
