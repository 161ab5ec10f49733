/* The last accesses of a schedule that failed. Recorded only when it is repeated. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sim.h"

enum { EVENTS = 1 << 16, SHOWN = 400, CALLERS = 512 };

static sim_event events[EVENTS];
static uint64_t n_events;
static struct {
  const void *address;
  char text[120];
} callers[CALLERS];
static uint32_t n_callers;

uint64_t sim_trace_until = UINT64_MAX;

void sim_trace_begin(void) { n_events = 0; }

void sim_trace(const char *what, const void *where, uint64_t value, uint32_t age,
               const void *caller) {
  if (sim_steps > sim_trace_until) return;
  events[n_events++ % EVENTS] = (sim_event){.what = what,
                                            .where = where,
                                            .caller = caller,
                                            .value = value,
                                            .step = sim_steps,
                                            .agent = sim_agents_now.current,
                                            .age = age};
}

/* Function and line, by addr2line where there is one. Inlined accessors are left out: what matters
 * is who called them. */
static const char *name_of(const void *address) {
  extern const char __executable_start[];
  for (uint32_t i = 0; i < n_callers; i++)
    if (callers[i].address == address) return callers[i].text;
  if (n_callers == CALLERS) return "?";
  char command[256], line[256], function[100] = "?", place[100] = "?";
  snprintf(command, sizeof command, "addr2line -f -i -s -e /proc/%d/exe 0x%zx 2>/dev/null",
           (int)getpid(), (size_t)((const char *)address - __executable_start) - 1);
  FILE *pipe = popen(command, "r");
  while (pipe && fgets(line, sizeof line, pipe)) {
    snprintf(function, sizeof function, "%.*s", (int)strcspn(line, "\n"), line);
    if (!fgets(line, sizeof line, pipe)) break;
    snprintf(place, sizeof place, "%.*s", (int)strcspn(line, " \n"), line);
    if (strncmp(place, "atomic.h", 8) != 0) break;
  }
  if (pipe) pclose(pipe);
  callers[n_callers].address = address;
  snprintf(callers[n_callers].text, sizeof callers[n_callers].text, "%.60s (%.50s)", function,
           place);
  return callers[n_callers++].text;
}

static const char *state_name(uint32_t state) {
  static const char *const names[] = {
      "has ended",      "can run", "waits for a lock", "sleeps",
      "waits for news", "joins",   "waits to begin",   "waits for callbacks"};
  return names[state];
}

void sim_trace_print(void) {
  uint64_t first = n_events > SHOWN ? n_events - SHOWN : 0;
  printf("the last %llu of %llu accesses:\n", (unsigned long long)(n_events - first),
         (unsigned long long)n_events);
  for (uint64_t i = first; i < n_events; i++) {
    const sim_event *e = &events[i % EVENTS];
    const sim_agent *agent = &sim_agents_now.agent[e->agent];
    printf("  %6llu  rank %d %-11s %-13s", (unsigned long long)e->step, agent->rank, agent->name,
           e->what);
    if (e->where)
      printf(" @%05zx %llu%s", (size_t)((const uint8_t *)e->where - sim_arena),
             (unsigned long long)e->value, e->age ? " (older)" : "");
    printf("  %s\n", name_of(e->caller));
  }
  printf("agents:\n");
  for (uint32_t a = 0; a < sim_agents_now.n; a++) {
    const sim_agent *agent = &sim_agents_now.agent[a];
    if (agent->state != SIM_DONE || !agent->daemon)
      printf("  rank %d %s %s\n", agent->rank, agent->name, state_name(agent->state));
  }
}
