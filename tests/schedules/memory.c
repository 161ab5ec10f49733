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
#include "shadow.h"
#include "sim.h"

/* After sim.h: this file is no part of the library, and uses the real ones. */
typedef int16_t word;
enum {
  LANES = 32,      /* a view is handled by so many words at a time: a line */
  PADDING = LANES, /* views do not all begin in the same set of the cache */
  LINES = SIM_ARENA_BYTES / 64,
  PAGE = 64 * 64
};

typedef struct view {
  word v[SIM_MAX_WORDS + PADDING] __attribute__((aligned(64)));
} view;

typedef struct location {
  uint64_t value[SIM_HISTORY];
  uint32_t joined[SIM_HISTORY]; /* agents, by bit, that have joined this value's view */
  uint32_t schedule;            /* the content belongs to this schedule */
  word newest, oldest;
  uint8_t has_view[SIM_HISTORY];
} __attribute__((aligned(64))) location;
_Static_assert(sizeof(location) == 64, "a location is one cache line");

sim_cell sim_cells[SIM_ARENA_BYTES / 4];
int16_t sim_clocks[SIM_MAX_AGENTS]; /* each agent's own, as in its view */
uint64_t sim_dirty[LINES / 64];
static uint8_t always_dirty[LINES / 64]; /* pages that are written in ways that are not seen here */
static uint64_t cells_used;
static location locations[SIM_MAX_WORDS];
static uint32_t pending[SIM_MAX_WORDS][SIM_HISTORY]; /* agents whose next fence joins the view */
static view location_views[SIM_MAX_WORDS][SIM_HISTORY];
static view current[SIM_MAX_AGENTS], acquired[SIM_MAX_AGENTS], released[SIM_MAX_AGENTS];
static uint8_t has_acquired[SIM_MAX_AGENTS], has_released[SIM_MAX_AGENTS];
static view fences;
static uint32_t n_words = SIM_FIRST_LOCATION, n_padded = SIM_FIRST_LOCATION;
static uint32_t schedule;

#define WORD(view, i) ((view)->v[i])
#define FOR_EACH_PROCESSOR __attribute__((target_clones("avx2", "default")))

static inline __attribute__((always_inline)) void join_from(size_t first, word *restrict into,
                                                            const word *restrict from) {
  for (size_t i = first, n = n_padded; i < n; i += LANES)
    for (size_t k = 0; k < LANES; k++)
      into[i + k] = from[i + k] > into[i + k] ? from[i + k] : into[i + k];
}
FOR_EACH_PROCESSOR static void join(view *into, const view *from) {
  join_from(0, into->v, from->v);
}
/* Without the agents' clocks. */
FOR_EACH_PROCESSOR static void join_locations(view *into, const view *from) {
  join_from(SIM_FIRST_LOCATION, into->v, from->v);
}
static void copy(view *into, const view *from) { memcpy(into, from, n_padded * sizeof(word)); }
static void clear(view *v) { memset(v, 0, n_padded * sizeof(word)); }

static void set_clock(uint32_t agent, word clock) {
  sim_clocks[agent] = WORD(&current[agent], agent) = clock;
}
static void advance_clock(uint32_t agent) { set_clock(agent, (word)(sim_clocks[agent] + 1)); }

static void note_cells_used(void) {
  if (cells_used < sim_arena_used / 4) cells_used = sim_arena_used / 4;
}

static void forget_accesses(void) {
  memset(sim_cells, 0, cells_used * sizeof *sim_cells);
  memset(sim_dirty, 0, sizeof sim_dirty);
  cells_used = 0;
  for (uint32_t i = SIM_FIRST_LOCATION; i < n_words; i++)
    for (uint32_t h = 0; h < SIM_HISTORY; h++) clear(&location_views[i][h]);
  memset(locations, 0, n_words * sizeof *locations);
  for (uint32_t a = 0; a < SIM_MAX_AGENTS; a++) {
    clear(&current[a]);
    clear(&acquired[a]);
    clear(&released[a]);
  }
  clear(&fences);
  n_words = n_padded = SIM_FIRST_LOCATION;
}

/* While sim_arena_used still tells how far. */
void sim_memory_forget(void) {
  note_cells_used();
  memset(always_dirty, 0, sizeof always_dirty);
  forget_accesses();
}

/* Copies back what was accessed. Writes that the simulator does not see (by libraries that are not
 * instrumented, by the application) are found by comparisons at some schedules, from the first
 * schedule of a world on, and are always copied from then on. */
void sim_memory_restore(const uint8_t *snapshot, size_t bytes, int compares) {
  note_cells_used();
  for (size_t page = 0; page * PAGE < bytes; page++) {
    size_t at = page * PAGE, n = bytes - at < PAGE ? bytes - at : PAGE;
    if (always_dirty[page]) {
      memcpy(sim_arena + at, snapshot + at, n);
      continue;
    }
    for (uint64_t bits = sim_dirty[page]; bits; bits &= bits - 1) {
      size_t line = at + (size_t)__builtin_ctzll(bits) * 64;
      if (line < bytes) memcpy(sim_arena + line, snapshot + line, 64);
    }
    if (!compares || memcmp(sim_arena + at, snapshot + at, n) == 0) continue;
    always_dirty[page] = 1;
    memcpy(sim_arena + at, snapshot + at, n);
  }
}

void sim_memory_begin(void) {
  if (n_words > SIM_MAX_WORDS / 2) forget_accesses(); /* schedules allocate differently */
  schedule++;
  for (uint32_t page = 0; page < LINES / 64; page++) {
    uint64_t bits = sim_dirty[page];
    sim_dirty[page] = 0;
    for (; bits; bits &= bits - 1) {
      sim_cell *line = &sim_cells[(page * 64 + (uint32_t)__builtin_ctzll(bits)) * 16];
      for (int c = 0; c < 16; c++) line[c] = (sim_cell){.location = line[c].location};
    }
  }
  for (uint32_t a = 0; a < sim_agents_now.n; a++) {
    clear(&current[a]);
    set_clock(a, 1);
    has_acquired[a] = has_released[a] = 0;
  }
  clear(&fences);
}

/* The actions of a thread's creator happen before those of the thread. */
void sim_view_of_new_agent(uint32_t agent, uint32_t parent) {
  if (agent != parent) copy(&current[agent], &current[parent]);
  has_acquired[agent] = has_released[agent] = 0;
  set_clock(agent, 1);
  advance_clock(parent);
}

/* The actions of a thread happen before pthread_join of it returns. */
void sim_view_of_joined(uint32_t agent, uint32_t by) { join(&current[by], &current[agent]); }

/* ---- plain accesses */

static inline uint64_t offset_of(const volatile void *p) {
  return (uint64_t)((uintptr_t)p - (uintptr_t)sim_arena);
}

static inline int happened_before(uint32_t agent_and_1, word clock) {
  return agent_and_1 == 0 || WORD(&current[sim_agents_now.current], agent_and_1 - 1) >= clock;
}

static void race(const void *p, const char *what, uint32_t other) {
  const sim_agent *me = &sim_agents_now.agent[sim_agents_now.current];
  if (other == SIM_FORBIDDEN)
    sim_fail("%s of rank %d uses memory that was freed, at offset 0x%zx", me->name, me->rank,
             (size_t)offset_of(p));
  const sim_agent *him = &sim_agents_now.agent[other - 1];
  sim_fail("data race at offset 0x%zx: %s by %s of rank %d, unordered with %s of rank %d",
           (size_t)offset_of(p), what, me->name, me->rank, him->name, him->rank);
}

static void touch_cell(sim_cell *c, uint64_t offset, int is_write) {
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
  if (is_write) { /* comes after whatever was read before: that need not be remembered */
    c->writer = (uint8_t)(me + 1);
    c->written = sim_clocks[me];
    c->reader = 0;
  } else if (c->reader == 0 || c->reader == me + 1 || happened_before(c->reader, c->read) ||
             (sim_next(&sim_random_now) & 1)) {
    c->reader = (uint8_t)(me + 1);
    c->read = sim_clocks[me];
  }
}

void sim_touch(const void *p, size_t bytes, int is_write) {
  uint64_t offset = offset_of(p);
  if (bytes == 0 || offset >= SIM_ARENA_BYTES || sim_is_quiet) return;
  if (sim_is_exhausting) {
    if (is_write) sim_written(p, bytes);
    return;
  }
  uint64_t first = offset / 4, last = (offset + bytes - 1) / 4;
  for (uint64_t i = first; i <= last; i++) {
    sim_cell *cell = &sim_cells[i];
    if (sim_touch_again(cell, is_write) || sim_touch_first(cell, is_write)) continue;
    sim_mark_dirty(i * 4);
    touch_cell(cell, i * 4, is_write);
  }
}

/* Not by an access that is checked: only to be copied back. */
void sim_written(const void *p, size_t bytes) {
  uint64_t offset = offset_of(p);
  for (uint64_t at = offset & ~63ull; at < offset + bytes && at < SIM_ARENA_BYTES; at += 64)
    sim_mark_dirty(at);
}

void sim_forbid(const void *p, size_t bytes) {
  uint64_t offset = offset_of(p);
  if (offset >= SIM_ARENA_BYTES || sim_is_quiet) return;
  sim_written(p, bytes);
  if (sim_is_exhausting) return;
  for (uint64_t i = offset / 4; i < (offset + bytes) / 4; i++) {
    sim_cells[i].writer = SIM_FORBIDDEN;
    sim_cells[i].written = INT16_MAX;
    sim_cells[i].reader = 0;
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

static uint32_t new_location(sim_cell *c, unsigned bytes) {
  if (n_words == SIM_MAX_WORDS) sim_fail("the world has too many atomic words");
  uint32_t index = n_words++;
  n_padded = (n_words + LANES - 1) / LANES * LANES;
  c->location = (uint16_t)index;
  if (bytes == 8) c[1].location = (uint16_t)index;
  return index;
}

/* The location of an atomic word, or 0 outside of the arena. */
static inline uint32_t find(const volatile void *p, unsigned bytes) {
  uint64_t offset = offset_of(p);
  if (offset >= SIM_ARENA_BYTES || sim_is_quiet) return 0;
  if (sim_is_exhausting) { /* a word has its newest value only */
    sim_mark_dirty(offset);
    return 0;
  }
  sim_cell *c = &sim_cells[offset / 4];
  uint32_t index = c->location ? c->location : new_location(c, bytes);
  if (__builtin_expect(!happened_before(c->writer, c->written), 0))
    race((const void *)p, "accessed as an atomic word", c->writer);
  location *l = &locations[index];
  uint64_t now = raw_load(p, bytes);
  if (l->schedule != schedule) {
    sim_mark_dirty(offset);
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
  uint32_t me = sim_agents_now.current, bit = 1u << me, h = (uint32_t)which % SIM_HISTORY;
  location *l = &locations[index];
  WORD(&current[me], index) = which;
  if (!l->has_view[h] || (l->joined[h] & bit)) return;
  if (acquires(order)) {
    l->joined[h] |= bit;
    join(&current[me], &location_views[index][h]);
  } else if (!(pending[index][h] & bit)) { /* a fence has joined the later views too */
    pending[index][h] |= bit;
    if (!has_acquired[me]) clear(&acquired[me]);
    has_acquired[me] = 1;
    join(&acquired[me], &location_views[index][h]);
  }
}

uint64_t sim_load(const volatile void *p, unsigned bytes, int order) {
  sim_point_at(p, SIM_READS);
  uint32_t index = sim_is_exhausting ? 0 : find(p, bytes), age = 0;
  if (index == 0) {
    SIM_TRACE("looks at", (const void *)p, raw_load(p, bytes), 0);
    return raw_load(p, bytes);
  }
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
  uint32_t h = (uint32_t)which % SIM_HISTORY, b = (uint32_t)before % SIM_HISTORY, bit = 1u << me;
  view *carried = &location_views[index][h];
  int has_before = continues && l->has_view[b], has = releases(order) || has_released[me];
  l->value[h] = value;
  WORD(&current[me], index) = which;
  if (has) copy(carried, releases(order) ? &current[me] : &released[me]);
  if (has_before && has)
    join(carried, &location_views[index][b]);
  else if (has_before)
    copy(carried, &location_views[index][b]);
  l->has_view[h] = (uint8_t)(has || has_before);
  l->joined[h] = !has_before ? bit : l->joined[b] & (has ? bit : ~0u);
  pending[index][h] = !has_before ? 0 : pending[index][b] & (has ? bit : ~0u);
  if (releases(order)) advance_clock(me);
}

static void check_unread(const volatile void *p) {
  const sim_cell *c = &sim_cells[offset_of(p) / 4];
  if (c->reader != sim_agents_now.current + 1 && !happened_before(c->reader, c->read))
    race((const void *)p, "stored as an atomic word", c->reader);
}

void sim_store(volatile void *p, uint64_t value, unsigned bytes, int order) {
  sim_point_at(p, SIM_WRITES);
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
  sim_point_at(p, SIM_WRITES);
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
  sim_point_at(p, SIM_WRITES);
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
  if (sim_is_quiet || sim_is_exhausting) return;
  SIM_TRACE("fence", NULL, 0, 0);
  if (has_acquired[me] && acquires(order)) {
    join(&current[me], &acquired[me]);
    has_acquired[me] = 0;
  }
  if (order == __ATOMIC_SEQ_CST) { /* orders locations; happens-before comes with messages only */
    join_locations(&current[me], &fences);
    join_locations(&fences, &current[me]);
  }
  if (releases(order)) {
    copy(&released[me], &current[me]);
    has_released[me] = 1;
    advance_clock(me);
  }
}

/* ---- orders by locks and by the kernel */

void sim_acquire_from(const void *p) {
  uint32_t index = find(p, 4);
  if (index) see(index, locations[index].newest, __ATOMIC_ACQUIRE);
}

void sim_release_to(const void *p) {
  uint32_t index = find(p, 4);
  if (index) append(index, raw_load(p, 4), __ATOMIC_RELEASE, 1);
}
