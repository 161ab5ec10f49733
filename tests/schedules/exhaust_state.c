/*
 * The state, of all interleavings (exhaust.c), in pieces of 64 bytes: what there is, what of it
 * counts, its hash; and what transitions change of it, to be taken back.
 */
#include <stdlib.h>
#include <string.h>

#include "devices/cpu/executor.h"
#include "exhaust.h"
#include "shadow.h"

enum {
  STACK_WINDOW = 4096, /* the live part of a stack must fit */
  MAX_PIECES = 8192
};

typedef struct piece {
  uint8_t *at;
  uint64_t kept; /* words that count, by bit, 8 bytes each */
  sim_hash of;
  uint8_t copy[SIM_PIECE];
} piece;
static piece pieces[MAX_PIECES];
static uint32_t n_pieces, n_common; /* the first: of the simulator and the arena */
static uint32_t first_of_stack[SIM_MAX_AGENTS];
sim_hash sim_state_hash;

static uint8_t base[SIM_ARENA_BYTES];               /* as each schedule begins */
static uint8_t is_hot[SIM_ARENA_BYTES / SIM_PIECE]; /* lines that change at any time */
static uint8_t left_out[SIM_ARENA_BYTES / 8];       /* words that no decision reads */

static uint64_t fold(uint64_t x, uint64_t y) {
  __extension__ unsigned __int128 product = x;
  product *= y;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static sim_hash hash_of(uint32_t index, const piece *p) {
  uint64_t words[SIM_PIECE / 8];
  memcpy(words, p->at, SIM_PIECE);
  sim_hash h = {fold(index + 0x9e3779b97f4a7c15u, 0xd1342543de82ef95u),
                fold(index + 0x2545f4914f6cdd1du, 0x94d049bb133111ebu)};
  for (uint32_t i = 0; i < SIM_PIECE / 8; i++) {
    uint64_t word = p->kept >> i & 1 ? words[i] : 0;
    h.a = fold(h.a ^ word, 0xa0761d6478bd642fu) + 0xe7037ed1a0b428dbu;
    h.b = fold(h.b + word + 0x8ebc6af09c88c6e3u, 0x589965cc75374cc3u);
  }
  return h;
}

static void add_hash(const sim_hash *h) {
  sim_state_hash.a ^= h->a;
  sim_state_hash.b ^= h->b;
}

static void add_piece(void *at, uint64_t kept) {
  if (n_pieces == MAX_PIECES) {
    sim_note_failure("a state is too large");
    return;
  }
  piece *p = &pieces[n_pieces];
  *p = (piece){.at = at, .kept = kept};
  memcpy(p->copy, at, SIM_PIECE);
  p->of = hash_of(n_pieces++, p);
  add_hash(&p->of);
}

static void add_pieces(void *at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += SIM_PIECE) add_piece((uint8_t *)at + i, UINT64_MAX);
}

/* State of the simulator that is not in a larger structure. */
static struct {
  size_t arena_used, far_used;
  uint8_t rest[SIM_PIECE - 2 * sizeof(size_t)];
} memory __attribute__((aligned(SIM_PIECE)));

static void save_memory(void) {
  memory.arena_used = sim_arena_used;
  memory.far_used = sim_far_used;
}
static void restore_memory(void) {
  sim_arena_used = memory.arena_used;
  sim_far_used = memory.far_used;
}

static uint8_t *window_of(uint32_t agent) {
  return sim_agents_now.agent[agent].stack + SIM_STACK_BYTES - STACK_WINDOW;
}

/* Data below the stack pointer is dead, and must not be found in later frames. */
static void clear_dead_stack(uint32_t agent) {
  uint8_t *live = sim_agents_now.agent[agent].stack_pointer, *window = window_of(agent);
  if (live < window) {
    sim_note_failure("a stack is too deep for a state");
    return;
  }
  memset(window, 0, (size_t)(live - window));
}

/*
 * Words that the code counts in and never decides by, or that only say whether a stuck executor
 * pauses or gives its core away, which is the same here.
 */
static void leave_out(const void *p, size_t bytes) {
  uint64_t offset = (uint64_t)((uintptr_t)p - (uintptr_t)sim_arena);
  for (size_t i = 0; i < bytes && offset + i < SIM_ARENA_BYTES; i += 8)
    left_out[(offset + i) / 8] = 1;
}

static void leave_out_counters(void) {
  memset(left_out, 0, sizeof left_out);
  for (uint32_t r = 0; r < sim_plan.n_ranks; r++) {
    dfcclContext_t context = sim_app->rank[r].context;
    const df_executor *executor = context->device.state; /* it begins with it */
    for (uint32_t b = 0; b < context->device.shared->n_blocks; b++) {
      const df_block *block = &context->device.blocks[b];
      leave_out(&block->stats, offsetof(df_block_stats, quits));
      leave_out(&block->stats.primitives, sizeof(uint64_t) * 2);
      leave_out(&block->cache.saves, sizeof block->cache.saves);
      leave_out(&block->cache.loads, sizeof block->cache.loads);
      const df_executor_block *eb = &executor->blocks[b];
      leave_out(&eb->lanes.waits_on, sizeof eb->lanes.waits_on);
      leave_out(&eb->cores.looks, sizeof eb->cores.looks + sizeof eb->cores.yields);
    }
    for (uint32_t c = 0; c < sim_plan.n_colls; c++) { /* for dumps */
      const df_descriptor *desc = context->device.shared->descriptors[c];
      if (desc) leave_out(desc->progress, sizeof(uint64_t) * desc->n_blocks);
    }
  }
}

static uint64_t kept_of_line(size_t line) {
  uint64_t kept = 0;
  for (uint32_t i = 0; i < SIM_PIECE / 8; i++)
    kept |= (uint64_t)!left_out[line * (SIM_PIECE / 8) + i] << i;
  return kept;
}

void sim_state_lay_out(void) {
  size_t bytes;
  n_pieces = 0;
  sim_state_hash = (sim_hash){0};
  add_pieces(sim_next_steps, sizeof sim_next_steps / SIM_PIECE * SIM_PIECE);
  add_pieces(sim_agents_now.agent,
             sim_agents_now.n * sizeof(sim_agent) / SIM_PIECE * SIM_PIECE + SIM_PIECE);
  add_piece(sim_agents_now.in, UINT64_MAX); /* and naps */
  save_memory();
  add_piece(&memory, UINT64_MAX);
  bytes = offsetof(sim_system_state, fd) + sim_system_now.n_fds * sizeof(sim_descriptor);
  add_pieces(&sim_system_now, bytes + SIM_PIECE); /* and what may be opened */
  for (uint32_t a = 0; a < sim_agents_now.n; a++) {
    void *locals = sim_thread_locals(a, &bytes);
    add_pieces(locals, bytes);
  }
  for (size_t line = 0; line < SIM_ARENA_BYTES / SIM_PIECE; line++)
    if (is_hot[line]) add_piece(sim_arena + line * SIM_PIECE, kept_of_line(line));
  n_common = n_pieces;
  for (uint32_t a = 0; a < sim_agents_now.n; a++) {
    first_of_stack[a] = n_pieces;
    if (sim_agents_now.agent[a].state == SIM_DONE) continue;
    clear_dead_stack(a);
    add_pieces(window_of(a), STACK_WINDOW);
  }
}

/* ---- changes of transitions, to be undone */

typedef struct change {
  uint32_t piece;
  sim_hash of;
  uint8_t copy[SIM_PIECE];
} change;
static change *changes;
static size_t n_changes, most_changes;

static int is_same(const uint8_t *a, const uint8_t *b) {
  uint64_t x[SIM_PIECE / 8], y[SIM_PIECE / 8], different = 0;
  memcpy(x, a, SIM_PIECE);
  memcpy(y, b, SIM_PIECE);
  for (uint32_t i = 0; i < SIM_PIECE / 8; i++) different |= x[i] ^ y[i];
  return different == 0;
}

static void note_changes(uint32_t first, uint32_t end) {
  for (uint32_t i = first; i < end; i++) {
    piece *p = &pieces[i];
    if (is_same(p->at, p->copy)) continue;
    if (n_changes == most_changes) {
      most_changes = most_changes ? most_changes * 2 : 1 << 16;
      changes = realloc(changes, most_changes * sizeof *changes);
      if (changes == NULL) abort();
    }
    change *c = &changes[n_changes++];
    c->piece = i;
    c->of = p->of;
    memcpy(c->copy, p->copy, SIM_PIECE);
    memcpy(p->copy, p->at, SIM_PIECE);
    add_hash(&p->of);
    p->of = hash_of(i, p);
    add_hash(&p->of);
  }
}

void sim_undo_changes(size_t to) {
  while (n_changes > to) {
    const change *c = &changes[--n_changes];
    piece *p = &pieces[c->piece];
    add_hash(&p->of);
    p->of = c->of;
    add_hash(&p->of);
    memcpy(p->copy, c->copy, SIM_PIECE);
    memcpy(p->at, c->copy, SIM_PIECE);
  }
  restore_memory();
}

int sim_has_new_lines(int compares) {
  int found = 0;
  for (size_t page = 0; page < SIM_ARENA_BYTES / SIM_PIECE / 64; page++) {
    for (uint64_t bits = sim_dirty[page]; bits; bits &= bits - 1) {
      size_t line = page * 64 + (size_t)__builtin_ctzll(bits);
      found |= !is_hot[line];
      is_hot[line] = 1;
    }
    sim_dirty[page] = 0;
  }
  for (size_t line = 0; compares && line < sim_arena_used / SIM_PIECE; line++)
    if (!is_hot[line] && !is_same(sim_arena + line * SIM_PIECE, base + line * SIM_PIECE))
      found = is_hot[line] = 1;
  return found;
}

void sim_state_begin(void) {
  n_changes = 0;
  memset(sim_dirty, 0, sizeof sim_dirty);
  memcpy(base, sim_arena, sim_arena_used);
  leave_out_counters();
}

uint32_t sim_state_pieces(void) { return n_pieces; }
size_t sim_noted_changes(void) { return n_changes; }

void sim_note_agent(uint32_t agent) {
  clear_dead_stack(agent);
  note_changes(first_of_stack[agent], first_of_stack[agent] + STACK_WINDOW / SIM_PIECE);
}

void sim_note_common(void) {
  save_memory();
  note_changes(0, n_common);
}
