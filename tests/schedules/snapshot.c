/* The arena, the stacks and the kernel after a world was set up: each schedule begins with them. */
#include <string.h>

#include "world.h"

enum { STACK_SAVED = 24 << 10 };

static struct {
  uint8_t arena[SIM_ARENA_BYTES];
  size_t arena_used, far_used;
  sim_agents agents;
  sim_system_state system;
  void *worlds;
  uint8_t stack[SIM_MAX_AGENTS][STACK_SAVED];
  size_t stack_bytes[SIM_MAX_AGENTS];
  uint64_t restored;
} snapshot;

void sim_snapshot_take(void) {
  snapshot.restored = 0;
  snapshot.arena_used = sim_arena_used;
  snapshot.far_used = sim_far_used;
  memcpy(snapshot.arena, sim_arena, sim_arena_used);
  sim_far_take();
  snapshot.agents = sim_agents_now;
  snapshot.system = sim_system_now;
  snapshot.worlds = sim_worlds_get();
  for (uint32_t a = 0; a < sim_agents_now.n; a++) {
    const sim_agent *agent = &sim_agents_now.agent[a];
    snapshot.stack_bytes[a] = 0;
    if (agent->state == SIM_DONE) continue;
    size_t bytes = (size_t)(agent->stack + SIM_STACK_BYTES - (uint8_t *)agent->stack_pointer);
    if (bytes > STACK_SAVED) sim_fail("a parked agent's stack is too deep");
    snapshot.stack_bytes[a] = bytes;
    memcpy(snapshot.stack[a], agent->stack_pointer, bytes);
  }
}

void sim_snapshot_restore(void) {
  int compares = sim_endings || sim_only_switches || sim_compare_next || snapshot.restored < 3 ||
                 snapshot.restored % 16 == 0;
  snapshot.restored++;
  sim_memory_restore(snapshot.arena, snapshot.arena_used, compares);
  sim_arena_used = snapshot.arena_used;
  sim_far_restore(snapshot.far_used);
  memcpy(&sim_agents_now, &snapshot.agents,
         offsetof(sim_agents, agent) + snapshot.agents.n * sizeof(sim_agent));
  sim_system_now = snapshot.system;
  sim_worlds_set(snapshot.worlds);
  for (uint32_t a = 0; a < sim_agents_now.n; a++)
    memcpy(sim_agents_now.agent[a].stack_pointer, snapshot.stack[a], snapshot.stack_bytes[a]);
}
