/* The two searches: all states of a small world, and walks at random through any world. */
#include "search.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/harness.h"

static double now_s(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- states */

typedef struct {
  void *at;
  size_t bytes;
} range;

/* The parts of the world that are in use: processes and messages. */
static range used_processes(void) {
  const size_t all = offsetof(world, processes);
  return (range){&current, all + (size_t)world_processes() * sizeof(process)};
}
static range used_messages(void) {
  return (range){current.messages, (size_t)current.n_messages * sizeof *current.messages};
}

static uint64_t hash_range(uint64_t hash, const void *from, size_t bytes) {
  const uint8_t *at = from;
  uint64_t word;
  for (; bytes >= sizeof word; bytes -= sizeof word, at += sizeof word) {
    memcpy(&word, at, sizeof word);
    hash = (hash ^ word) * 0x9fb21c651e98df25u;
    hash ^= hash >> 29;
  }
  for (; bytes; bytes--, at++) hash = (hash ^ *at) * 0x100000001b3u;
  return hash;
}

static uint64_t hash_state(void) {
  uint64_t hash = hash_range(0x9e3779b97f4a7c15u, &current, offsetof(world, processes));
  for (int p = 0; p < world_processes(); p++) {
    const process *self = &current.processes[p];
    hash = hash_range(hash, &self->view, offsetof(df_view, sentence));
    hash = hash_range(hash, self->memory, sizeof *self - offsetof(process, memory));
  }
  for (int i = 0; i < current.n_messages; i++)
    hash = hash_range(hash, &current.messages[i],
                      offsetof(message, payload) + current.messages[i].bytes);
  hash ^= hash >> 32;
  return hash ? hash : 1;
}

typedef struct {
  uint64_t *keys;
  size_t size, used;
} table;

static int add(table *visited, uint64_t key) {
  if (visited->used * 10 >= visited->size * 6) {
    table larger = {calloc(visited->size ? visited->size * 2 : 1 << 16, sizeof *larger.keys),
                    visited->size ? visited->size * 2 : 1 << 16, 0};
    CHECK(larger.keys, "no memory");
    for (size_t i = 0; i < visited->size; i++)
      if (visited->keys[i]) add(&larger, visited->keys[i]);
    free(visited->keys);
    *visited = larger;
  }
  size_t i = key & (visited->size - 1);
  for (; visited->keys[i]; i = (i + 1) & (visited->size - 1))
    if (visited->keys[i] == key) return 0;
  visited->keys[i] = key;
  visited->used++;
  return 1;
}

/* ---- all states, depth first: only one path is kept */

enum { DEPTH = 400 };
typedef struct {
  void *state;
  size_t room;
  int n_messages;
  event events[EVENTS];
  int n, next, sends, dies; /* dies: number of messages of the whole event */
} level;

static void save(level *at) {
  const range processes = used_processes(), messages = used_messages();
  if (processes.bytes + messages.bytes > at->room) {
    at->room = 2 * (processes.bytes + messages.bytes);
    free(at->state);
    at->state = malloc(at->room);
    CHECK(at->state, "no memory");
  }
  at->n_messages = current.n_messages;
  memcpy(at->state, processes.at, processes.bytes);
  memcpy((uint8_t *)at->state + processes.bytes, messages.at, messages.bytes);
}

static void restore(const level *at) {
  const range processes = used_processes();
  memcpy(processes.at, at->state, processes.bytes);
  current.n_messages = at->n_messages;
  const range messages = used_messages();
  memcpy(messages.at, (const uint8_t *)at->state + processes.bytes, messages.bytes);
}

static void print_path(level *levels, int depth) {
  char text[200];
  printf("FAILED: %s\n", world_failure);
  for (int d = 0; d <= depth; d++) {
    restore(&levels[d]);
    event *what = &levels[d].events[levels[d].next];
    world_describe(what, text, sizeof text);
    printf("  %3d. %s\n", d + 1, text);
    world_traces = 1;
    world_play(what);
    world_traces = 0;
  }
  world_print();
}

static void enter(level *at) {
  int quiet;
  save(at);
  at->n = world_events(at->events, &quiet);
  at->next = 0;
  at->dies = 0;
  if (quiet == 2) world_check_end();
}

/* Chooses the next event, with each number of messages after which the process may die in it. */
static int advance(level *at) {
  event *what = &at->events[at->next];
  if (what->dies_after < 0) at->sends = at->dies; /* number of messages of the whole event */
  if (current.crashes > 0 && what->dies_after + 1 < at->sends && at->sends > 1) {
    what->dies_after = (int16_t)(what->dies_after < 1 ? 1 : what->dies_after + 1);
    if (what->dies_after < at->sends) return 1;
  }
  at->next++;
  return at->next < at->n;
}

search_result search_all(const world_shape *shape, double seconds, uint64_t most_states) {
  static level levels[DEPTH];
  search_result result = {0};
  table visited = {0};
  int depth = 0;
  const double begin = now_s();
  world_begin(shape);
  add(&visited, hash_state());
  enter(&levels[0]);
  int more = levels[0].n > 0;
  while (depth >= 0 && !world_failure[0]) {
    level *at = &levels[depth];
    if (!more) { /* back */
      if (--depth < 0) break;
      restore(&levels[depth]);
      more = advance(&levels[depth]);
      continue;
    }
    restore(at);
    int sent_messages = world_play(&at->events[at->next]);
    if (at->events[at->next].dies_after < 0) at->dies = sent_messages;
    if (world_failure[0]) break;
    if (add(&visited, hash_state())) {
      CHECK(depth + 1 < DEPTH, "a path is longer than %d events", DEPTH);
      enter(&levels[++depth]);
      more = levels[depth].n > 0;
      if (world_failure[0]) {
        depth--;
        break;
      }
      if (visited.used >= most_states || (visited.used % 1024 == 0 && now_s() - begin > seconds)) {
        result.incomplete = 1;
        break;
      }
    } else {
      restore(at);
      more = advance(at);
    }
  }
  result.states = visited.used;
  result.seconds = now_s() - begin;
  result.failed = world_failure[0] != 0;
  if (result.failed) print_path(levels, depth);
  free(visited.keys);
  return result;
}

/* ---- walks */

static world_shape draw_shape(df_random *random, const world_shape *fixed) {
  if (fixed) return *fixed;
  world_shape shape = {.members = 2 + df_random_below(random, 5),
                       .joins = df_random_chance(random, 40),
                       .reruns = df_random_chance(random, 50),
                       .several_hosts = df_random_chance(random, 50),
                       .strict = df_random_chance(random, 10),
                       .runs = 1 + df_random_below(random, RUNS),
                       .parts = df_random_chance(random, 30),
                       .prompt = df_random_chance(random, 50),
                       .may_all_stop = 1};
  shape.newcomer_is_lowest = df_random_chance(random, 30);
  shape.before_admit = df_random_below(random, shape.runs + 1);
  shape.runs_of_all = shape.joins ? df_random_below(random, RUNS) : 0;
  shape.crashes = df_random_below(random, shape.members);
  shape.silences = df_random_below(random, 3);
  shape.excludes = df_random_chance(random, 20);
  shape.breaks = shape.several_hosts ? df_random_below(random, 4) : 0;
  shape.leaves = df_random_chance(random, 30) ? 1 + df_random_below(random, shape.members) : 0;
  shape.deregisters = df_random_below(random, 3);
  shape.proofs = shape.several_hosts ? 0 : df_random_below(random, 3);
  shape.full_sockets = !shape.several_hosts && df_random_chance(random, 20);
  if (shape.members > 2 && df_random_chance(random, 50)) {
    shape.part = 1 + df_random_below(random, (1 << shape.members) - 1);
    shape.runs_of_part = 1 + df_random_below(random, RUNS);
  }
  return shape;
}

/* Faults are drawn less often than steps, so that they meet worlds in all states. */
static event choose(df_random *random, const event *events, int n) {
  event what = events[df_random_below(random, n)];
  for (int again = 0; again < 3 && what.kind >= EVENT_LEAVE && what.kind != EVENT_REPORT; again++)
    what = events[df_random_below(random, n)];
  if (current.crashes && df_random_chance(random, 4))
    what.dies_after = (int16_t)(1 + df_random_below(random, 6));
  if (what.kind == EVENT_DIE) what.dies_after = -1;
  return what;
}

int search_walk(uint64_t seed, const world_shape *fixed, uint64_t *steps) {
  static event events[EVENTS];
  df_random random = {seed};
  const world_shape shape = draw_shape(&random, fixed);
  char text[200];
  world_begin(&shape);
  for (int step = 0; !world_failure[0]; step++, ++*steps) {
    int quiet;
    const int n = world_events(events, &quiet);
    if (quiet == 2) world_check_end();
    if (n == 0 || world_failure[0] || (quiet == 2 && df_random_chance(&random, 50))) break;
    const event what = choose(&random, events, n);
    if (world_traces) {
      world_describe(&what, text, sizeof text);
      printf("  %3d. %s\n", step + 1, text);
    }
    world_play(&what);
    if (step > 3000) world_fail("(c) there is no end after %d events", step);
  }
  return world_failure[0] != 0;
}
