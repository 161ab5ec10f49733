/*
 * Memory as the C11 model allows it to be seen. Each location keeps its latest values in
 * modification order; each agent has a view: how far it has seen each location. A load may return
 * any value that is not older than the agent's view. A release store takes the writer's view along,
 * an acquire load of it joins that view; a sequentially consistent fence joins the view of all such
 * fences before. Stores are appended to the modification order; a delayed store is one that others
 * do not see yet.
 *
 * A view's first words are the agents' clocks, so that the same joins tell what happens before
 * what: a plain access that does not happen after the conflicting access before it is a race.
 *
 * Deliberately weaker than the hardware, and than C11, in one place: a sequentially consistent
 * read-modify-write is an acquire and a release, and no fence.
 */
#include <string.h>

#include "prelude_declarations.h"
#include "sim.h"

/* After sim.h: this file is no part of the library, and uses the real ones. */
typedef int16_t word;
typedef word vector __attribute__((vector_size(16)));
enum { LANES = sizeof(vector) / sizeof(word) };

typedef struct view {
  vector v[SIM_MAX_WORDS / LANES];
} view;

typedef struct location {
  uint32_t schedule; /* what follows is of this schedule */
  word newest, oldest;
  uint8_t has_view[SIM_HISTORY];
  uint64_t value[SIM_HISTORY];
  uint8_t stale; /* older values in a row that were read */
} location;

typedef struct cell { /* of 4 bytes of the arena */
  uint16_t location;
  uint8_t writer, reader; /* agent + 1; 0: nobody in this schedule */
  word written, read;     /* by that agent's clock */
} cell;

enum { FORBIDDEN = 255 };

static cell cells[SIM_ARENA_BYTES / 4];
static uint64_t dirty_cells[SIM_ARENA_BYTES / 64 / 64]; /* a bit for each line of the arena */
static location locations[SIM_MAX_WORDS];
static view location_views[SIM_MAX_WORDS][SIM_HISTORY];
static view current[SIM_MAX_AGENTS], acquired[SIM_MAX_AGENTS], released[SIM_MAX_AGENTS];
static uint8_t has_acquired[SIM_MAX_AGENTS], has_released[SIM_MAX_AGENTS];
static view fences;
static uint32_t n_words = SIM_FIRST_LOCATION, n_vectors = SIM_FIRST_LOCATION / LANES;
static uint32_t schedule;

#define WORD(view, i) (((word *)(view)->v)[i])

static inline void join(view *into, const view *from, uint32_t first) {
  for (uint32_t i = first; i < n_vectors; i++) {
    vector newer = from->v[i] > into->v[i];
    into->v[i] = (from->v[i] & newer) | (into->v[i] & ~newer);
  }
}
static inline void copy(view *into, const view *from) {
  for (uint32_t i = 0; i < n_vectors; i++) into->v[i] = from->v[i];
}
static void clear(view *v) { memset(v, 0, n_vectors * sizeof(vector)); }

void sim_memory_forget(void) {
  memset(cells, 0, sizeof cells);
  memset(dirty_cells, 0, sizeof dirty_cells);
  memset(location_views, 0, n_words * sizeof *location_views);
  memset(locations, 0, sizeof locations);
  for (uint32_t a = 0; a < SIM_MAX_AGENTS; a++) {
    memset(&current[a], 0, sizeof current[a]);
    memset(&acquired[a], 0, sizeof acquired[a]);
    memset(&released[a], 0, sizeof released[a]);
  }
  memset(&fences, 0, sizeof fences);
  n_words = SIM_FIRST_LOCATION;
  n_vectors = n_words / LANES;
}

void sim_memory_begin(void) {
  schedule++;
  for (uint32_t i = 0; i < SIM_ARENA_BYTES / 64 / 64; i++) {
    uint64_t bits = dirty_cells[i];
    dirty_cells[i] = 0;
    while (bits) {
      cell *line = &cells[(i * 64 + (uint32_t)__builtin_ctzll(bits)) * 16];
      bits &= bits - 1;
      for (int c = 0; c < 16; c++) line[c] = (cell){.location = line[c].location};
    }
  }
  for (uint32_t a = 0; a < SIM_MAX_AGENTS; a++) {
    clear(&current[a]);
    WORD(&current[a], a) = 1;
    has_acquired[a] = has_released[a] = 0;
  }
  clear(&fences);
}

/* What a thread's creator did happens before what the thread does. */
void sim_view_of_new_agent(uint32_t agent, uint32_t parent) {
  copy(&current[agent], &current[parent]);
  WORD(&current[agent], agent) = 1;
  WORD(&current[parent], parent)++;
}

/* ---- plain accesses */

static inline uint64_t offset_of(const volatile void *p) {
  return (uint64_t)((uintptr_t)p - (uintptr_t)sim_arena);
}

static inline int happened_before(uint32_t agent_and_1, word clock) {
  return agent_and_1 == 0 || WORD(&current[sim_agents_now.current], agent_and_1 - 1) >= clock;
}

static void race(const void *p, const char *what, uint32_t other) {
  const sim_agent *me = &sim_agents_now.agent[sim_agents_now.current];
  if (other == FORBIDDEN)
    sim_fail("%s of rank %d uses memory that was freed, at offset 0x%zx", me->name, me->rank,
             (size_t)offset_of(p));
  const sim_agent *him = &sim_agents_now.agent[other - 1];
  sim_fail("data race at offset 0x%zx: %s by %s of rank %d, unordered with %s of rank %d",
           (size_t)offset_of(p), what, me->name, me->rank, him->name, him->rank);
}

static void touch_cell(cell *c, uint64_t offset, int is_write) {
  uint32_t me = sim_agents_now.current;
  const uint8_t *p = sim_arena + offset;
  if (c->writer != me + 1 && !happened_before(c->writer, c->written))
    race(p, is_write ? "written" : "read", c->writer);
  if (is_write && c->reader != me + 1 && !happened_before(c->reader, c->read))
    race(p, "written", c->reader);
  if (c->location && locations[c->location].schedule == schedule &&
      WORD(&current[me], c->location) < locations[c->location].newest)
    sim_fail("data race at offset 0x%zx: %s of rank %d accesses an atomic word without order",
             (size_t)offset, sim_agents_now.agent[me].name, sim_agents_now.agent[me].rank);
  if (is_write) {
    c->writer = (uint8_t)(me + 1);
    c->written = WORD(&current[me], me);
  } else if (c->reader == 0 || c->reader == me + 1 || happened_before(c->reader, c->read) ||
             (sim_next(&sim_random_now) & 1)) {
    c->reader = (uint8_t)(me + 1);
    c->read = WORD(&current[me], me);
  }
}

static inline void touch(uint64_t offset, size_t bytes, int is_write) {
  uint64_t first = offset / 4, last = (offset + bytes - 1) / 4;
  for (uint64_t i = first; i <= last; i++) {
    dirty_cells[i / 16 / 64] |= 1ull << (i / 16 % 64);
    touch_cell(&cells[i], i * 4, is_write);
  }
}

void sim_touch(const void *p, size_t bytes, int is_write) {
  uint64_t offset = offset_of(p);
  if (bytes == 0 || offset >= SIM_ARENA_BYTES || sim_is_quiet) return;
  touch(offset, bytes, is_write);
}

void sim_forbid(const void *p, size_t bytes) {
  uint64_t offset = offset_of(p);
  if (offset >= SIM_ARENA_BYTES || sim_is_quiet) return;
  sim_touch(p, bytes, 1);
  for (uint64_t i = offset / 4; i < (offset + bytes) / 4; i++) {
    cells[i].writer = FORBIDDEN;
    cells[i].written = INT16_MAX;
  }
}

/* ---- atomic accesses */

static uint64_t raw_load(const volatile void *p, unsigned bytes) {
  if (bytes == 8) return *(const volatile uint64_t *)p;
  if (bytes == 4) return *(const volatile uint32_t *)p;
  if (bytes == 2) return *(const volatile uint16_t *)p;
  return *(const volatile uint8_t *)p;
}
static void raw_store(volatile void *p, uint64_t v, unsigned bytes) {
  if (bytes == 8)
    *(volatile uint64_t *)p = v;
  else if (bytes == 4)
    *(volatile uint32_t *)p = (uint32_t)v;
  else if (bytes == 2)
    *(volatile uint16_t *)p = (uint16_t)v;
  else
    *(volatile uint8_t *)p = (uint8_t)v;
}

static uint32_t new_location(cell *c, unsigned bytes) {
  if (n_words == SIM_MAX_WORDS) sim_fail("the world has too many atomic words");
  uint32_t index = n_words++;
  n_vectors = (n_words + LANES - 1) / LANES;
  c->location = (uint16_t)index;
  if (bytes == 8) c[1].location = (uint16_t)index;
  return index;
}

/* The location of an atomic word, or 0 outside of the arena. */
static inline uint32_t find(const volatile void *p, unsigned bytes) {
  uint64_t offset = offset_of(p);
  if (offset >= SIM_ARENA_BYTES || sim_is_quiet) return 0;
  cell *c = &cells[offset / 4];
  uint32_t index = c->location ? c->location : new_location(c, bytes);
  if (__builtin_expect(!happened_before(c->writer, c->written), 0))
    race((const void *)p, "accessed as an atomic word", c->writer);
  location *l = &locations[index];
  uint64_t now = raw_load(p, bytes);
  if (l->schedule != schedule) {
    *l = (location){.schedule = schedule};
    l->value[0] = now;
  } else if (l->value[l->newest % SIM_HISTORY] != now) {
    /* Set by a plain store, which happened before as was checked above: nothing older is left. */
    l->oldest = ++l->newest;
    l->value[l->newest % SIM_HISTORY] = now;
    l->has_view[l->newest % SIM_HISTORY] = 0;
  }
  return index;
}

static inline int acquires(int order) {
  return order == __ATOMIC_ACQUIRE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}
static inline int releases(int order) {
  return order == __ATOMIC_RELEASE || order == __ATOMIC_ACQ_REL || order == __ATOMIC_SEQ_CST;
}

static inline void see(uint32_t index, word which, int order) {
  uint32_t me = sim_agents_now.current;
  location *l = &locations[index];
  WORD(&current[me], index) = which;
  if (!l->has_view[which % SIM_HISTORY]) return;
  const view *brought = &location_views[index][which % SIM_HISTORY];
  if (acquires(order)) {
    join(&current[me], brought, 0);
  } else {
    if (!has_acquired[me]) clear(&acquired[me]);
    has_acquired[me] = 1;
    join(&acquired[me], brought, 0);
  }
}

uint64_t sim_load(const volatile void *p, unsigned bytes, int order) {
  sim_point();
  uint32_t index = find(p, bytes), age = 0;
  if (index == 0) return raw_load(p, bytes);
  location *l = &locations[index];
  word which = l->newest, seen = WORD(&current[sim_agents_now.current], index);
  if (seen < which && sim_policy_now.stale_of_256 &&
      (sim_next(&sim_random_now) & 255) < sim_policy_now.stale_of_256) {
    word oldest = seen;
    if (oldest < l->oldest) oldest = l->oldest;
    if (oldest < which - (SIM_HISTORY - 1)) oldest = (word)(which - (SIM_HISTORY - 1));
    which = (word)(which - (word)sim_below(&sim_random_now, (uint32_t)(which - oldest + 1)));
    age = (uint32_t)(l->newest - which);
  }
  see(index, which, order);
  uint64_t value = l->value[which % SIM_HISTORY];
  SIM_TRACE(acquires(order) ? "observes" : "looks at", (const void *)p, value, age);
  return value;
}

/* A new value of the location; carries on the view of the one before where it continues it. */
static void append(uint32_t index, uint64_t value, int order, int continues) {
  uint32_t me = sim_agents_now.current;
  location *l = &locations[index];
  word before = l->newest;
  if (before == INT16_MAX) sim_fail("too many stores to one location");
  word which = ++l->newest;
  view *carried = &location_views[index][which % SIM_HISTORY];
  int has_before = continues && l->has_view[before % SIM_HISTORY];
  l->value[which % SIM_HISTORY] = value;
  WORD(&current[me], index) = which;
  int has = 1;
  if (releases(order))
    copy(carried, &current[me]);
  else if (has_released[me])
    copy(carried, &released[me]);
  else
    has = 0;
  if (has_before && has)
    join(carried, &location_views[index][before % SIM_HISTORY], 0);
  else if (has_before)
    copy(carried, &location_views[index][before % SIM_HISTORY]);
  l->has_view[which % SIM_HISTORY] = (uint8_t)(has || has_before);
  if (releases(order)) WORD(&current[me], me)++;
}

static void check_unread(const volatile void *p) {
  const cell *c = &cells[offset_of(p) / 4];
  if (c->reader != sim_agents_now.current + 1 && !happened_before(c->reader, c->read))
    race((const void *)p, "stored as an atomic word", c->reader);
}

void sim_store(volatile void *p, uint64_t value, unsigned bytes, int order) {
  sim_point();
  uint32_t index = find(p, bytes);
  if (index) {
    check_unread(p);
    append(index, value, order, 0);
  }
  SIM_TRACE(releases(order) ? "publishes" : "stores", (const void *)p, value, 0);
  raw_store(p, value, bytes);
}

uint64_t sim_modify(volatile void *p, uint64_t operand, unsigned bytes, sim_operation operation,
                    int order) {
  sim_point();
  uint32_t index = find(p, bytes);
  uint64_t before = raw_load(p, bytes), after = operand;
  if (index) see(index, locations[index].newest, order);
  if (operation == SIM_ADD) after = before + operand;
  if (operation == SIM_SUB) after = before - operand;
  if (operation == SIM_OR) after = before | operand;
  if (operation == SIM_AND) after = before & operand;
  if (bytes < 8) after &= (1ull << bytes * 8) - 1;
  if (index) {
    check_unread(p);
    append(index, after, order, 1);
  }
  SIM_TRACE("modifies to", (void *)p, after, 0);
  raw_store(p, after, bytes);
  return before;
}

int sim_compare_exchange(volatile void *p, void *expected, uint64_t desired, unsigned bytes,
                         int success, int failure) {
  sim_point();
  uint32_t index = find(p, bytes);
  uint64_t before = raw_load(p, bytes);
  int same = before == raw_load(expected, bytes);
  SIM_TRACE(same ? "claims" : "fails to claim", (void *)p, same ? desired : before, 0);
  if (index) see(index, locations[index].newest, same ? success : failure);
  if (!same) {
    raw_store(expected, before, bytes);
    return 0;
  }
  if (index) {
    check_unread(p);
    append(index, desired, success, 1);
  }
  raw_store(p, desired, bytes);
  return 1;
}

void sim_fence(int order) {
  uint32_t me = sim_agents_now.current;
  sim_point();
  if (sim_is_quiet) return;
  SIM_TRACE("fence", NULL, 0, 0);
  if (has_acquired[me] && acquires(order)) {
    join(&current[me], &acquired[me], 0);
    has_acquired[me] = 0;
  }
  if (order == __ATOMIC_SEQ_CST) { /* orders locations; happens-before comes with messages only */
    join(&current[me], &fences, SIM_FIRST_LOCATION / LANES);
    join(&fences, &current[me], SIM_FIRST_LOCATION / LANES);
  }
  if (releases(order)) {
    copy(&released[me], &current[me]);
    has_released[me] = 1;
    WORD(&current[me], me)++;
  }
}

/* ---- what locks and the kernel order */

void sim_acquire_from(const void *p) {
  uint32_t index = find(p, 4);
  if (index) see(index, locations[index].newest, __ATOMIC_ACQUIRE);
}

void sim_release_to(const void *p) {
  uint32_t index = find(p, 4);
  if (index) append(index, raw_load(p, 4), __ATOMIC_RELEASE, 1);
}
