/*
 * Promises of src/transports/net/connect/paths.h, and of several ports of large messages (pump.h):
 *   - A rail is an interface here and an address there, in one network; none of them is used twice.
 *     The first is the way that the mesh has found.
 *   - Frames go through the port by which they are expected first; a slow rail gets its share.
 *   - A port may be lost at any moment, at one end earlier than at the other. Each message still
 *     comes once, whole, though its frames come through several ports, late, and twice.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transports/net/connect/paths.h"
#include "pump_stage.h"

/* ---- which rails there are ---- */

static df_address address_of(const char *text) {
  df_address address;
  CHECK(df_address_parse(&address, text, strlen(text)), "%s", text);
  return address;
}

static void add(df_interfaces *all, uint32_t index, const char *address, int prefix,
                int is_chosen) {
  all->of[all->n++] = (df_interface){.index = index,
                                     .prefix = (uint8_t)prefix,
                                     .is_chosen = is_chosen,
                                     .address = address_of(address)};
}

static df_remote_rank remote_with(const char *found, const char *const *offered) {
  df_remote_rank remote = {.is_remote = 1, .has_channel = 1, .address = address_of(found)};
  while (offered[remote.n_offered]) {
    remote.offered[remote.n_offered] = address_of(offered[remote.n_offered]);
    remote.n_offered++;
  }
  return remote;
}

static void expect(const df_interfaces *all, const df_remote_rank *remote, uint32_t most,
                   const char *const *paths) {
  df_tcp_path found[DF_NET_PATHS_MOST];
  char from[DF_ADDRESS_TEXT], to[DF_ADDRESS_TEXT], text[2 * DF_ADDRESS_TEXT + 2];
  const uint32_t n = df_paths_among(all, remote, most, found);
  for (uint32_t i = 0; i < n; i++) {
    df_address_text(&found[i].to, to);
    df_address_text(&found[i].from, from);
    snprintf(text, sizeof text, "%s %s", found[i].from.family ? from : "any", to);
    CHECK(paths[i] && strcmp(text, paths[i]) == 0, "rail %u is %s in place of %s", i, text,
          paths[i] ? paths[i] : "none");
  }
  CHECK(paths[n] == NULL, "%u rails, and not %s", n, paths[n]);
}

DF_TEST(paths, join_interfaces_and_addresses_of_one_network, 10) {
  df_interfaces all = {.n = 0};
  add(&all, 1, "127.0.0.1", 8, 1);
  add(&all, 2, "10.77.0.1", 24, 1);
  add(&all, 2, "fd77:0::1", 64, 1); /* the same interface */
  add(&all, 3, "10.77.1.1", 24, 1);
  add(&all, 3, "fd77:1::1", 64, 1);
  add(&all, 4, "10.77.2.1", 24, 0);
  add(&all, 5, "fe80::1", 64, 1);
  add(&all, 6, "192.168.1.7", 24, 1);
  const char *const offered[] = {"10.77.0.2:50", "fd77:0::2:0:0:50", "10.77.1.2:50",
                                 "10.77.2.2:50", "10.99.0.2:50",     NULL};
  df_remote_rank remote = remote_with("10.77.0.2:50", offered);
  expect(&all, &remote, 4,
         (const char *const[]){"any 10.77.0.2:50", "10.77.1.1 10.77.1.2:50", NULL});
  expect(&all, &remote, 1, (const char *const[]){"any 10.77.0.2:50", NULL});
  remote = remote_with("10.77.1.2:50", offered);
  expect(&all, &remote, 4,
         (const char *const[]){"any 10.77.1.2:50", "10.77.0.1 10.77.0.2:50", NULL});
  remote = remote_with("172.20.0.9:50", offered); /* behind a router */
  expect(&all, &remote, 4,
         (const char *const[]){"any 172.20.0.9:50", "10.77.0.1 10.77.0.2:50",
                               "10.77.1.1 10.77.1.2:50", NULL});
}

/* The peer's bridge has the address of this host's, and all interfaces have the same link-local
 * network. */
DF_TEST(paths, lead_to_the_peer, 10) {
  df_interfaces all = {.n = 0};
  add(&all, 2, "fe80::1", 64, 1);
  add(&all, 3, "fe80::2", 64, 1);
  add(&all, 3, "10.77.1.1", 24, 1);
  add(&all, 4, "172.17.0.1", 16, 1);
  const char *const offered[] = {"172.17.0.1:50", "10.77.1.2:50", NULL};
  df_remote_rank remote = remote_with("[fe80::9]:50", offered);
  remote.scope = 3;
  expect(&all, &remote, 4, (const char *const[]){"any [fe80::9]:50", NULL});
  remote.scope = 2;
  expect(&all, &remote, 4,
         (const char *const[]){"any [fe80::9]:50", "10.77.1.1 10.77.1.2:50", NULL});
}

DF_TEST(paths, of_one_network_are_two_with_two_interfaces_at_each_end, 10) {
  df_interfaces all = {.n = 0};
  add(&all, 2, "10.0.0.1", 8, 1);
  add(&all, 3, "10.0.0.2", 8, 1);
  const char *const two[] = {"10.0.0.3:50", "10.0.0.4:50", NULL};
  df_remote_rank remote = remote_with("10.0.0.3:50", two);
  expect(&all, &remote, 4, (const char *const[]){"any 10.0.0.3:50", "10.0.0.2 10.0.0.4:50", NULL});
  remote = remote_with("10.0.0.3:50", (const char *const[]){"10.0.0.3:50", NULL});
  expect(&all, &remote, 4, (const char *const[]){"any 10.0.0.3:50", NULL});
}

/* ---- several ports ---- */

enum { RAILS = 3, FLOWS = 4, PORTS = RAILS + 1 };

typedef struct rail_stage {
  pump_stage stages[PORTS]; /* the first has the wires; port i has the streams of stage i */
  df_rate_estimate outlooks[2][RAILS];
  int ends_connected[2][PORTS];
  pump_flow flows[FLOWS];
  int n_flows;
} rail_stage;

static rail_stage *current;

static df_rate_estimate rate_estimate(df_stream *stream) {
  for (int side = 0; side < 2; side++)
    for (int rail = 0; rail < RAILS; rail++)
      if (stream == &current->stages[1 + rail].sides[side].stream)
        return current->outlooks[side][rail];
  CHECK(0, "no such stream");
  return (df_rate_estimate){.queued = 0};
}

static df_pump *wire_of(rail_stage *s, int side) { return s->stages[0].sides[side].wire; }

static void attach(rail_stage *s, int side, uint32_t port) {
  df_pump_attach(wire_of(s, side), port, &s->stages[port].sides[side].stream);
  s->ends_connected[side][port] = 1;
}

static void make(rail_stage *s, uint64_t seed) {
  *s = (rail_stage){.n_flows = 0};
  current = s;
  for (uint32_t port = 0; port < PORTS; port++) {
    pump_stage_make(&s->stages[port], seed + port, 64);
    s->stages[port].most = 300;
    s->stages[port].refusals = 20;
  }
  for (int side = 0; side < 2; side++)
    for (uint32_t port = 0; port < PORTS; port++) {
      s->stages[port].sides[side].stream.rate_estimate = rate_estimate;
      if (port) OK(df_pump_add_port(wire_of(s, side)));
      attach(s, side, port);
    }
}

static void add_flow(rail_stage *s, int from, const wire_form *form, uint64_t messages) {
  pump_flow *flow = &s->flows[s->n_flows];
  pump_flow_make(flow, &s->stages[0], from, (uint32_t)s->n_flows++, form, messages);
  flow->in->is_bulk = flow->out->is_bulk = 1;
}

static void free_all(rail_stage *s) {
  for (int i = 0; i < s->n_flows; i++) {
    pump_flow_release(&s->flows[i]);
    pump_flow_free(&s->flows[i]);
  }
  for (uint32_t port = PORTS; port-- > 0;) pump_stage_free(&s->stages[port]);
}

static void pump(rail_stage *s, int side) {
  df_pump *wire = wire_of(s, side);
  for (uint32_t port = 0; port < PORTS; port++)
    if (df_random_chance(&s->stages[0].random, 50)) df_pump_receive(wire, port);
  df_pump_ring_peers(wire);
  df_pump_send(wire);
  CHECK(!wire->is_lost, "%s", wire->reason);
}

static void turn(rail_stage *s) {
  df_random *random = &s->stages[0].random;
  const int who = df_random_below(random, 2 + 2 * s->n_flows);
  for (int rail = 0; rail < RAILS; rail++)
    if (df_random_chance(random, 10))
      s->outlooks[who % 2][rail] = (df_rate_estimate){
          .queued = (uint64_t)df_random_below(random, 1000000),
          .rate = (uint64_t)df_random_below(random, 2) * 1000000 * (1 + (uint64_t)rail)};
  if (who < 2)
    pump(s, who);
  else if (who % 2)
    pump_flow_send(&s->flows[(who - 2) / 2]);
  else
    pump_flow_receive(&s->flows[(who - 2) / 2]);
}

/* An end notices that a port is lost. When both have, it may be made anew. */
static void lose_or_mend(rail_stage *s, int side, uint32_t port) {
  if (s->ends_connected[side][port]) {
    df_pump_detach(wire_of(s, side), port);
    s->ends_connected[side][port] = 0;
  } else if (!s->ends_connected[1 - side][port]) {
    for (int i = 0; i < 2; i++) {
      wire_pipe *pipe = &s->stages[port].pipes[i];
      pipe->at = pipe->end = 0;
      attach(s, i, port);
    }
  }
}

static int is_through(const rail_stage *s) {
  for (int i = 0; i < s->n_flows; i++)
    if (!pump_flow_is_through(&s->flows[i])) return 0;
  return 1;
}

static void go_through(uint64_t seed, int losses) {
  rail_stage s;
  make(&s, seed);
  df_random *random = &s.stages[0].random;
  for (int i = 1 + df_random_below(random, FLOWS); i > 0; i--) {
    const wire_form form = wire_form_draw(random);
    add_flow(&s, df_random_below(random, 2), &form, 200);
  }
  for (uint64_t turns = 0; !is_through(&s); turns++) {
    CHECK(turns < 20000000, "seed %llu: messages are stuck", (unsigned long long)seed);
    turn(&s);
    if (df_random_below(random, 1000) < losses)
      lose_or_mend(&s, df_random_below(random, 2), (uint32_t)df_random_below(random, PORTS));
  }
  free_all(&s);
}

DF_TEST(paths, carry_each_message_once, 60) {
  for (uint64_t seed = 1; seed <= 50; seed++) go_through(seed, 0);
}

DF_TEST(paths, may_be_lost_at_any_moment_at_one_end_earlier, 100) {
  for (uint64_t seed = 1; seed <= 80; seed++) go_through(seed, 1 + (int)(seed % 8));
}

static void pump_all(rail_stage *s, int side) {
  for (uint32_t port = 0; port < PORTS; port++) df_pump_receive(wire_of(s, side), port);
  df_pump_ring_peers(wire_of(s, side));
  df_pump_send(wire_of(s, side));
}

/* The remote end answers through a connection that the leaver has given up already. */
DF_TEST(paths, an_answer_that_was_lost_is_given_again, 30) {
  rail_stage s;
  make(&s, 1);
  for (uint32_t port = 0; port < PORTS; port++) s.stages[port].most = s.stages[port].refusals = 0;
  add_flow(&s, 0, &wire_plain, 3);
  while (pump_flow_send(&s.flows[0])) continue;
  for (int i = 0; i < 4; i++) pump_all(&s, i % 2);
  df_pump_detach(wire_of(&s, 0), DF_PUMP_SMALL);
  s.ends_connected[0][DF_PUMP_SMALL] = 0;
  df_pump_leave(wire_of(&s, 0));
  for (int i = 0; i < 4; i++) pump_all(&s, i % 2);
  CHECK(wire_of(&s, 1)->ports[DF_PUMP_BULK].answered, "nothing was asked, or answered");
  lose_or_mend(&s, 1, DF_PUMP_SMALL);
  lose_or_mend(&s, 1, DF_PUMP_SMALL);
  for (int i = 0; i < 20; i++) pump_all(&s, i % 2);
  CHECK(df_pump_has_left(wire_of(&s, 0)) && !df_pump_has_pending(wire_of(&s, 0)),
        "a rank does not leave");
  free_all(&s);
}

/* Two rails of the same speed, and one of a tenth: as tubes that drain so fast would. */
/* So that it is measured. */
DF_TEST(paths, one_whose_rate_is_doubted_takes_a_frame_at_a_time, 30) {
  rail_stage s;
  make(&s, 1);
  add_flow(&s, 0, &wire_plain, 1);
  for (int is_doubted = 0; is_doubted < 2; is_doubted++) {
    for (int rail = 0; rail < RAILS; rail++)
      s.outlooks[0][rail] = (df_rate_estimate){.rate = (uint64_t)1 << 40, .is_doubted = is_doubted};
    wire_of(&s, 0)->quickest_sent = 0;
    while (pump_flow_send(&s.flows[0])) continue;
    df_pump_send(wire_of(&s, 0));
    const uint32_t batch = wire_of(&s, 0)->ports[wire_of(&s, 0)->quickest].channel.batch;
    CHECK((batch == 1) == is_doubted, "%u frames in a row", batch);
  }
  free_all(&s);
}

DF_TEST(paths, have_shares_as_their_speed, 60) {
  enum { MESSAGES = 2000, BYTES = 400 };
  static const uint64_t rates[RAILS] = {10000000, 10000000, 1000000};
  rail_stage s;
  uint64_t drained[RAILS] = {0};
  make(&s, 1);
  for (uint32_t port = 0; port < PORTS; port++) s.stages[port].most = s.stages[port].refusals = 0;
  add_flow(&s, 0, &wire_plain, MESSAGES);
  while (!is_through(&s)) { /* 25 us pass each time */
    for (int rail = 0; rail < RAILS; rail++) {
      const uint64_t sent = wire_of(&s, 0)->ports[1 + rail].channel.bytes_sent;
      drained[rail] = DF_MIN(sent, drained[rail] + rates[rail] / 40000);
      s.outlooks[0][rail] = (df_rate_estimate){.queued = sent - drained[rail], .rate = rates[rail]};
    }
    while (pump_flow_send(&s.flows[0])) continue;
    for (int side = 0; side < 2; side++) {
      for (uint32_t port = 0; port < PORTS; port++) df_pump_receive(wire_of(&s, side), port);
      df_pump_ring_peers(wire_of(&s, side));
      df_pump_send(wire_of(&s, side));
    }
    while (pump_flow_receive(&s.flows[0])) continue;
  }
  uint64_t sent[RAILS], all = 0;
  for (int rail = 0; rail < RAILS; rail++)
    all += sent[rail] = wire_of(&s, 0)->ports[1 + rail].channel.bytes_sent;
  CHECK(all >= MESSAGES * BYTES, "%llu bytes", (unsigned long long)all);
  for (int rail = 0; rail < RAILS; rail++) {
    const double share = (double)sent[rail] / (double)all, right = (double)rates[rail] / 21e6;
    CHECK(share > 0.7 * right && share < 1.4 * right, "rail %d has %.3f of all, and not %.3f", rail,
          share, right);
  }
  free_all(&s);
}
