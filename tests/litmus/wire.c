/* The pump of a network endpoint: a thread that finds it busy sets a flag for the thread at work.
 * */
#include "litmus.h"

#define df_transport_net litmus_transport_wire
#define df_connections_carry note_carry
#define df_connections_send note_send
#include "transports/net/endpoint.c"
#undef df_connections_carry
#undef df_connections_send

typedef struct wire_state {
  endpoint ep;
  DF_ALIGNED(64) uint32_t news; /* the work of the second side */
  DF_ALIGNED(64) uint32_t carried;
  int has_arrived; /* the news is of the network */
} wire_state;

/* Under the endpoint's lock. */
int note_carry(df_connections *all, int spins) {
  wire_state *s = (wire_state *)(void *)((uint8_t *)all - offsetof(endpoint, connections));
  (void)spins;
  if (df_load_relaxed_u32(&s->news)) s->carried = 1;
  return 0;
}

/* A thread that only sends ignores arrived data. */
int note_send(df_connections *all) {
  wire_state *s = (wire_state *)(void *)((uint8_t *)all - offsetof(endpoint, connections));
  if (df_load_relaxed_u32(&s->news) && !s->has_arrived) s->carried = 1;
  return 0;
}

static void asked_prepare(void *state) {
  wire_state *s = state;
  df_mutex_init(&s->ep.lock);
}
static void asked_pump(void *state) { run_pump(&((wire_state *)state)->ep, DF_CARRY_STUCK); }
static void asked_request(void *state) {
  wire_state *s = state;
  df_store_relaxed_u32(&s->news, 1);
  run_pump(&s->ep, DF_CARRY_PUBLISHED);
}
static void arrived_prepare(void *state) {
  wire_state *s = state;
  asked_prepare(state);
  s->has_arrived = 1;
}
static void arrived_pump(void *state) { run_pump(&((wire_state *)state)->ep, DF_CARRY_PUBLISHED); }
static void arrived_request(void *state) {
  wire_state *s = state;
  df_store_relaxed_u32(&s->news, 1);
  run_pump(&s->ep, DF_CARRY_ALL);
}
static litmus_outcome asked_judge(const void *state) {
  const wire_state *s = state;
  return s->carried ? LITMUS_SEEN : LITMUS_FORBIDDEN;
}

static const litmus_test tests[] = {
    {"B7w",
     "wire_asked",
     "two threads want to pump, and neither carries what the second has to tell",
     sizeof(wire_state),
     asked_prepare,
     {asked_pump, asked_request},
     asked_judge,
     {{0, LITMUS_FENCE}, {1, LITMUS_FENCE}},
     {{0}}},
    {"B7w",
     "wire_arrived",
     "who only sends takes up what the endpoint's thread has asked for, and does not receive",
     sizeof(wire_state),
     arrived_prepare,
     {arrived_pump, arrived_request},
     asked_judge,
     {{0, LITMUS_FENCE}, {1, LITMUS_FENCE}},
     {{0}}},
};
const litmus_tests litmus_wire = {tests, DF_COUNT_OF(tests)};
