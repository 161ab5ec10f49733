/*
 * Executes one block. Its threads (lanes) are fibers of the calling thread. They switch where CUDA
 * lets lanes wait for each other, when they pause, and at some atomics, in an order that the seed
 * decides. So a missing barrier lets a lane run ahead of data that it needs.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "emulator.h"
#include "fiber.h"
#include "lane.h"

enum {
  STACK_BYTES = 128 * 1024,
  PATIENCE = 256, /* atomics of a lane until another lane's turn, at most */
  LONG_REST_NS = 1000,
  HELD_AT_END_NS = 200 * 1000
};

typedef enum { LANE_READY, LANE_AT_BARRIER, LANE_IN_WARP, LANE_ENDED } lane_state;

typedef struct lane {
  emulator_lane_view view; /* first: the arguments of device code */
  emulator_fiber fiber;
  uint32_t number, mask;
  lane_state state;
  const char *file;
  int line;
  uint64_t value;
} lane;

typedef struct warp {
  uint64_t values[EMULATOR_WARP];
  char meeting; /* for the race detector */
} warp;

typedef struct block {
  emulator_block_place place;
  const emulator_grid *grid;
  lane *lanes;
  warp warps[EMULATOR_MAX_THREADS / EMULATOR_WARP];
  uint32_t n_lanes, at_barrier, ended, position, resting;
  uint32_t order[EMULATOR_MAX_THREADS];
  lane *current;
  emulator_fiber outside;
  uint64_t random;
  char meeting;
} block;

struct emulator_stacks {
  char *stacks;
  lane *lanes;
};

static __thread block *this_block;

struct emulator_stacks *emulator_new_stacks(void) {
  struct emulator_stacks *stacks = calloc(1, sizeof *stacks);
  if (stacks) stacks->lanes = calloc(EMULATOR_MAX_THREADS, sizeof(lane));
  void *memory = mmap(NULL, (size_t)STACK_BYTES * EMULATOR_MAX_THREADS, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!stacks || !stacks->lanes || memory == MAP_FAILED)
    cuda_emulator_mistake("no memory for the stacks of a block");
  stacks->stacks = memory;
  return stacks;
}

static uint32_t random_below(block *self, uint32_t limit) {
  self->random ^= self->random << 13;
  self->random ^= self->random >> 7;
  self->random ^= self->random << 17;
  return (uint32_t)((self->random >> 32) * limit >> 32);
}

static void shuffle(block *self) {
  if (random_below(self, 4) == 0) {
    for (uint32_t i = self->n_lanes - 1; i > 0; i--) {
      const uint32_t j = random_below(self, i + 1), other = self->order[j];
      self->order[j] = self->order[i];
      self->order[i] = other;
    }
  }
  self->position = random_below(self, self->n_lanes);
}

static void go_to(block *self, lane *to) {
  lane *from = self->current;
  if (from == to) return;
  self->current = to;
  emulator_fiber_switch(&from->fiber, &to->fiber);
}

static _Noreturn void leave_block(block *self) {
  lane *from = self->current;
  self->current = NULL;
  emulator_fiber_switch(&from->fiber, &self->outside);
  abort(); /* no fiber switches back */
}

static void report_waiting(const block *self) {
  for (uint32_t i = 0; i < self->n_lanes; i++) {
    const lane *l = &self->lanes[i];
    if (l->state == LANE_AT_BARRIER || l->state == LANE_IN_WARP) {
      fprintf(stderr, "  lane %u waits at %s:%d (mask %08x)\n", l->number, l->file, l->line,
              l->state == LANE_IN_WARP ? l->mask : ~0u);
      if (i >= 8) break;
    }
  }
}

/* The next lane that can continue; the current one is the last choice. */
static lane *next_ready(block *self) {
  for (uint32_t i = 0; i < self->n_lanes; i++) {
    if (++self->position >= self->n_lanes) self->position = 0;
    lane *l = &self->lanes[self->order[self->position]];
    if (l->state == LANE_READY) return l;
  }
  return NULL;
}

static bool lost(const block *self) {
  return __atomic_load_n(&emulator.devices[self->place.device].lost, __ATOMIC_RELAXED);
}

/* The current lane cannot or need not continue. */
static void let_others_run(block *self) {
  if (lost(self)) leave_block(self);
  lane *l = next_ready(self);
  if (!l) {
    report_waiting(self);
    cuda_emulator_mistake(
        "%s: no lane of block %u can go on: lanes wait at different places, or for "
        "lanes that have ended",
        self->grid->kernel->name, self->place.block_index.x);
  }
  go_to(self, l);
}

static void lane_main(void) {
  block *self = this_block;
  lane *me = self->current;
  const emulator_grid *grid = self->grid;
  emulator_fiber_acquire(&self->meeting);
  grid->kernel->call(grid->kernel->function, (void **)grid->arguments);
  me->state = LANE_ENDED;
  if (self->at_barrier > 0)
    cuda_emulator_mistake("%s: lane %u of block %u ended while others wait at a barrier",
                          grid->kernel->name, me->number, self->place.block_index.x);
  emulator_fiber_release(&self->meeting);
  if (++self->ended == self->n_lanes) {
    /* The end of a grid may be long after its last store. */
    if (self->place.held) nanosleep(&(struct timespec){.tv_nsec = HELD_AT_END_NS}, NULL);
    cuda_emulator_drain();
    leave_block(self);
  }
  let_others_run(self);
  abort();
}

static void make_lanes(block *self, struct emulator_stacks *stacks) {
  const emulator_index size = self->place.block_size;
  for (uint32_t i = 0; i < self->n_lanes; i++) {
    lane *l = &self->lanes[i];
    memset(l, 0, sizeof *l);
    l->number = i;
    l->view.index.x = i % size.x;
    l->view.index.y = i / size.x % size.y;
    l->view.index.z = i / size.x / size.y;
    l->view.place = &self->place;
    l->view.patience = 1 + random_below(self, PATIENCE);
    self->order[i] = i;
    emulator_fiber_make(&l->fiber, stacks->stacks + (size_t)i * STACK_BYTES, STACK_BYTES,
                        lane_main);
  }
}

void emulator_run_block(const emulator_grid *grid, uint32_t index, struct emulator_stacks *stacks) {
  static __thread block memory;
  block *self = &memory;
  memset(self, 0, sizeof *self);
  self->grid = grid;
  self->lanes = stacks->lanes;
  self->n_lanes = grid->n_threads;
  self->random = (grid->seed + index + 1) * 0x9e3779b97f4a7c15u;
  self->place.device = grid->device;
  self->place.block_index.x = index % grid->blocks.x;
  self->place.block_index.y = index / grid->blocks.x % grid->blocks.y;
  self->place.block_index.z = index / grid->blocks.x / grid->blocks.y;
  memcpy(&self->place.block_size, &grid->threads, sizeof self->place.block_size);
  memcpy(&self->place.grid_size, &grid->blocks, sizeof self->place.grid_size);
  this_block = self;
  make_lanes(self, stacks);
  shuffle(self);
  emulator_fiber_adopt(&self->outside);
  self->current = &self->lanes[self->order[self->position]];
  /* The host's accesses before the launch precede every lane's, which precede the end. */
  emulator_fiber_release(&self->meeting);
  emulator_fiber_switch(&self->outside, &self->current->fiber);
  emulator_fiber_acquire(&self->meeting);
  for (uint32_t i = 0; i < self->n_lanes; i++) emulator_fiber_end(&self->lanes[i].fiber);
  this_block = NULL;
}

/* ---- called by lanes */

emulator_lane_view *cuda_emulator_lane(void) {
  if (!this_block) cuda_emulator_mistake("device code is executed outside of a kernel");
  return &this_block->current->view;
}

void cuda_emulator_meet_block(const char *file, int line) {
  block *self = this_block;
  lane *me = self->current;
  if (self->ended > 0)
    cuda_emulator_mistake("%s: a barrier (%s:%d) after %u lanes of block %u have ended",
                          self->grid->kernel->name, file, line, self->ended,
                          self->place.block_index.x);
  me->file = file;
  me->line = line;
  me->view.fenced = 0;
  emulator_fiber_release(&self->meeting);
  if (++self->at_barrier < self->n_lanes) {
    me->state = LANE_AT_BARRIER;
    let_others_run(self);
  } else {
    for (uint32_t i = 0; i < self->n_lanes; i++) {
      lane *l = &self->lanes[i];
      if (l->line != line || strcmp(l->file, file) != 0) {
        report_waiting(self);
        cuda_emulator_mistake("%s: lanes of block %u meet at different barriers: lane %u at %s:%d, "
                              "lane %u at %s:%d",
                              self->grid->kernel->name, self->place.block_index.x, l->number,
                              l->file, l->line, me->number, file, line);
      }
      l->state = LANE_READY;
    }
    self->at_barrier = 0;
    shuffle(self);
    let_others_run(self);
  }
  emulator_fiber_acquire(&self->meeting);
}

/* Whether every lane of the mask waits with the same mask at the same place. */
static bool warp_is_complete(const block *self, uint32_t first, uint32_t mask, const lane *me) {
  for (uint32_t i = 0; i < EMULATOR_WARP; i++) {
    if (!(mask >> i & 1)) continue;
    if (first + i >= self->n_lanes)
      cuda_emulator_mistake("%s:%d: the mask %08x names lanes that the block does not have",
                            me->file, me->line, mask);
    const lane *l = &self->lanes[first + i];
    if (l->state == LANE_ENDED)
      cuda_emulator_mistake("%s:%d: the mask %08x names a lane that has ended", me->file, me->line,
                            mask);
    /* A lane that waits with another mask gets here later. */
    if (l != me && (l->state != LANE_IN_WARP || l->mask != mask)) return false;
    if (l->line != me->line || strcmp(l->file, me->file) != 0)
      cuda_emulator_mistake("%s: lanes of a warp meet at different places: %s:%d, %s:%d (%08x)",
                            self->grid->kernel->name, me->file, me->line, l->file, l->line, mask);
  }
  return true;
}

void cuda_emulator_exchange(uint32_t mask, uint64_t value, uint64_t values[32], const char *file,
                            int line) {
  block *self = this_block;
  lane *me = self->current;
  const uint32_t first = me->number / EMULATOR_WARP * EMULATOR_WARP;
  warp *w = &self->warps[me->number / EMULATOR_WARP];
  if (!(mask >> (me->number - first) & 1))
    cuda_emulator_mistake("%s:%d: the mask %08x lacks the calling lane %u", file, line, mask,
                          me->number);
  me->file = file;
  me->line = line;
  me->mask = mask;
  me->value = value;
  emulator_fiber_release(&w->meeting);
  if (warp_is_complete(self, first, mask, me)) {
    for (uint32_t i = 0; i < EMULATOR_WARP; i++) {
      if (!(mask >> i & 1)) continue;
      if (values) w->values[i] = self->lanes[first + i].value;
      self->lanes[first + i].state = LANE_READY;
    }
  } else {
    me->state = LANE_IN_WARP;
  }
  let_others_run(self);
  if (values) {
    for (uint32_t i = 0; i < EMULATOR_WARP; i++)
      if (mask >> i & 1) values[i] = w->values[i];
    /* A second meeting, so that no lane writes its next value before all lanes have read these. */
    cuda_emulator_exchange(mask, 0, NULL, file, -line);
  }
  emulator_fiber_acquire(&w->meeting);
}

void cuda_emulator_meet_warp(uint32_t mask, const char *file, int line) {
  cuda_emulator_exchange(mask, 0, NULL, file, line);
}

/* Other lanes continue until none of them can. */
static void sleep_alone(block *self, uint32_t ns) {
  const uint64_t end = cuda_emulator_clock() + ns;
  cuda_emulator_drain();
  for (uint64_t now = end - ns; now < end && !lost(self); now = cuda_emulator_clock()) {
    lane *l = next_ready(self);
    if (l == self->current)
      nanosleep(&(struct timespec){.tv_nsec = (long)(end - now)}, NULL);
    else
      go_to(self, l);
  }
}

void cuda_emulator_rest(uint32_t ns) {
  block *self = this_block;
  if (ns >= LONG_REST_NS) {
    sleep_alone(self, ns);
  } else if (++self->resting >= self->n_lanes - self->ended - self->at_barrier) {
    self->resting = 0;
    sched_yield();
  }
  let_others_run(self);
}

void cuda_emulator_note_load(const void *pointer) {
  static __thread struct {
    const char *low, *high;
    uint64_t version;
  } seen; /* memory of a device */
  if (!__atomic_load_n(&emulator.counts_loads, __ATOMIC_RELAXED)) return;
  const char *p = pointer;
  if (p >= seen.low && p < seen.high &&
      seen.version == __atomic_load_n(&emulator.allocations_version, __ATOMIC_ACQUIRE))
    return;
  pthread_mutex_lock(&emulator.lock);
  const emulator_allocation *a = emulator_find(pointer);
  const bool crosses = a && (a->kind == MEMORY_HOST || a->kind == MEMORY_REGISTERED);
  if (a && !crosses) {
    seen.low = a->base;
    seen.high = a->base + a->bytes;
    seen.version = emulator.allocations_version;
  }
  pthread_mutex_unlock(&emulator.lock);
  if (crosses) __atomic_fetch_add(&emulator.bus_loads, 1, __ATOMIC_RELAXED);
}

void cuda_emulator_interrupt(void) {
  block *self = this_block;
  self->current->view.patience = 1 + random_below(self, PATIENCE);
  let_others_run(self);
}

uint64_t cuda_emulator_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int cuda_emulator_check_global(const void *pointer) {
  static __thread struct {
    const char *low, *high;
    uint64_t version;
  } seen;
  const char *p = pointer;
  if (p >= seen.low && p < seen.high &&
      seen.version == __atomic_load_n(&emulator.allocations_version, __ATOMIC_ACQUIRE))
    return 1;
  const block *self = this_block;
  pthread_mutex_lock(&emulator.lock);
  const emulator_allocation *a = emulator_find(pointer);
  const bool reachable = a && (a->kind == MEMORY_HOST || a->kind == MEMORY_REGISTERED ||
                               a->device == self->place.device ||
                               (emulator.devices[self->place.device].peers >> a->device & 1));
  if (reachable) {
    seen.low = a->base;
    seen.high = a->base + a->bytes;
    seen.version = emulator.allocations_version;
  }
  pthread_mutex_unlock(&emulator.lock);
  if (!reachable)
    cuda_emulator_mistake("%s: device %d touches %p, which is %s", self->grid->kernel->name,
                          self->place.device, pointer,
                          a ? "memory of a device that it has no access to"
                            : "no device memory and no page-locked memory");
  return 1;
}
