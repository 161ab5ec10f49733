#include "synthesis/flows.h"

#include <math.h>
#include <stdlib.h>

#include "base/extremes.h"

#define NONE UINT32_MAX

dfcclResult_t df_flows_make(df_flows *flows, const df_network *model, uint32_t n_flows) {
  const uint32_t shared = df_network_resources(model);
  const uint32_t n = shared + (model->is_free_of_contention ? n_flows : 0);
  *flows = (df_flows){.n_ports = n};
  flows->flows = calloc(n_flows + 1u, sizeof *flows->flows);
  flows->ports = calloc(n, sizeof *flows->ports);
  flows->dirty = calloc(n, sizeof *flows->dirty);
  flows->met_ports = calloc(n, sizeof *flows->met_ports);
  flows->met_flows = calloc(n_flows + 1u, sizeof *flows->met_flows);
  if (!flows->flows || !flows->ports || !flows->dirty || !flows->met_ports || !flows->met_flows)
    return df_fail(dfcclOutOfMemory, "no memory for %u connections", n_flows);
  for (uint32_t p = 0; p < n; p++)
    flows->ports[p] = (df_port){.rate = p < shared ? df_network_rate(model, p) : 0, .first = NONE};
  return dfcclSuccess;
}

void df_flows_connect(df_flows *flows, const df_network *model, uint32_t number, uint32_t from,
                      uint32_t to, double *latency) {
  df_flow *flow = &flows->flows[number];
  flow->n_ports = (uint8_t)df_network_path(model, from, to, flow->ports, latency);
  if (!model->is_free_of_contention) return;
  const uint32_t own = df_network_resources(model) + number;
  double least = INFINITY;
  for (uint32_t i = 0; i < flow->n_ports; i++)
    least = df_lesser(least, flows->ports[flow->ports[i]].rate);
  flows->ports[own].rate = least;
  flow->ports[0] = own;
  flow->n_ports = 1;
}

void df_flows_free(df_flows *flows) {
  free(flows->flows);
  free(flows->ports);
  free(flows->dirty);
  free(flows->met_ports);
  free(flows->met_flows);
}

static void make_dirty(df_flows *flows, const df_flow *flow) {
  for (uint32_t i = 0; i < flow->n_ports; i++) {
    df_port *port = &flows->ports[flow->ports[i]];
    if (!port->is_dirty) flows->dirty[flows->n_dirty++] = flow->ports[i];
    port->is_dirty = 1;
  }
}

/* Which of a flow's ports is this? */
static uint32_t place_of(const df_flow *flow, uint32_t port) {
  uint32_t i = 0;
  while (flow->ports[i] != port) i++;
  return i;
}

void df_flows_begin(df_flows *flows, uint32_t number, double bytes, double now) {
  df_flow *flow = &flows->flows[number];
  flow->is_under_way = 1;
  flow->left = bytes;
  flow->rate = 0;
  flow->since = now;
  flow->end = INFINITY;
  for (uint32_t i = 0; i < flow->n_ports; i++) {
    df_port *port = &flows->ports[flow->ports[i]];
    flow->previous[i] = NONE;
    flow->next[i] = port->first;
    if (port->first != NONE) {
      df_flow *other = &flows->flows[port->first];
      other->previous[place_of(other, flow->ports[i])] = number;
    }
    port->first = number;
    port->bytes += bytes;
    if (port->flows++ == 0) port->busy_since = now;
  }
  make_dirty(flows, flow);
}

void df_flows_finish(df_flows *flows, uint32_t number, double now) {
  df_flow *flow = &flows->flows[number];
  flow->is_under_way = 0;
  for (uint32_t i = 0; i < flow->n_ports; i++) {
    df_port *port = &flows->ports[flow->ports[i]];
    const uint32_t next = flow->next[i], previous = flow->previous[i];
    if (next != NONE)
      flows->flows[next].previous[place_of(&flows->flows[next], flow->ports[i])] = previous;
    if (previous != NONE)
      flows->flows[previous].next[place_of(&flows->flows[previous], flow->ports[i])] = next;
    else
      port->first = next;
    if (--port->flows == 0) port->busy += now - port->busy_since;
  }
  make_dirty(flows, flow);
}

/* Stacks all ports and flows that share ports with this one. */
static void stack_sharing(df_flows *flows, uint32_t first, uint32_t *n_ports, uint32_t *n_flows) {
  flows->ports[first].seen = flows->settlings;
  flows->met_ports[(*n_ports)++] = first;
  for (uint32_t at = *n_ports - 1; at < *n_ports; at++) {
    df_port *port = &flows->ports[flows->met_ports[at]];
    port->free = port->rate;
    port->unfixed = port->flows;
    for (uint32_t f = port->first; f != NONE;) {
      df_flow *flow = &flows->flows[f];
      if (flow->seen != flows->settlings) {
        flow->seen = flows->settlings;
        flow->is_fixed = 0;
        flows->met_flows[(*n_flows)++] = f;
        for (uint32_t i = 0; i < flow->n_ports; i++) {
          df_port *other = &flows->ports[flow->ports[i]];
          if (other->seen == flows->settlings) continue;
          other->seen = flows->settlings;
          flows->met_ports[(*n_ports)++] = flow->ports[i];
        }
      }
      f = flow->next[place_of(flow, flows->met_ports[at])];
    }
  }
}

static void give(df_flows *flows, uint32_t number, double rate, double now,
                 void (*changed)(void *user, uint32_t flow), void *user) {
  df_flow *flow = &flows->flows[number];
  flow->is_fixed = 1;
  for (uint32_t i = 0; i < flow->n_ports; i++) {
    df_port *port = &flows->ports[flow->ports[i]];
    port->free = df_greater(port->free - rate, 0);
    port->unfixed--;
  }
  if (rate == flow->rate) return;
  flow->left = df_greater(flow->left - (now - flow->since) * flow->rate, 0);
  flow->since = now;
  flow->rate = rate;
  flow->end = now + flow->left / rate;
  changed(user, number);
}

static void fix_flows(df_flows *flows, uint32_t port, double rate, double now,
                      void (*changed)(void *user, uint32_t flow), void *user) {
  for (uint32_t f = flows->ports[port].first; f != NONE;) {
    const uint32_t next = flows->flows[f].next[place_of(&flows->flows[f], port)];
    if (!flows->flows[f].is_fixed) give(flows, f, rate, now, changed, user);
    f = next;
  }
}

/* The ports that leave least for each of their flows fix them; then the same without these. */
static void fill(df_flows *flows, uint32_t n_ports, double now,
                 void (*changed)(void *user, uint32_t flow), void *user) {
  for (;;) {
    double least = INFINITY;
    for (uint32_t i = 0; i < n_ports; i++) {
      const df_port *port = &flows->ports[flows->met_ports[i]];
      if (port->unfixed) least = df_lesser(least, port->free / port->unfixed);
    }
    if (least == INFINITY) return;
    for (uint32_t i = 0; i < n_ports; i++) {
      const df_port *port = &flows->ports[flows->met_ports[i]];
      if (port->unfixed && port->free / port->unfixed <= least * (1 + 1e-12))
        fix_flows(flows, flows->met_ports[i], least, now, changed, user);
    }
  }
}

void df_flows_settle(df_flows *flows, double now, void (*changed)(void *user, uint32_t flow),
                     void *user) {
  flows->settlings++;
  for (uint32_t d = 0; d < flows->n_dirty; d++) {
    const uint32_t port = flows->dirty[d];
    flows->ports[port].is_dirty = 0;
    if (flows->ports[port].seen == flows->settlings) continue;
    uint32_t n_ports = 0, n_flows = 0;
    stack_sharing(flows, port, &n_ports, &n_flows);
    if (n_flows > 0) fill(flows, n_ports, now, changed, user);
  }
  flows->n_dirty = 0;
}
