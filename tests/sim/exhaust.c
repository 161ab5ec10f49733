/*
 * All interleavings of the smallest worlds, under sequentially consistent memory: each state that
 * the library's own code can come to, once.
 *
 * A state is what tells how it goes on: the lines of the arena that differ from the world's
 * snapshot at any time, the live stack of each agent with its registers, what each agent is about
 * to do, who sleeps on what, and the simulated kernel. Words that no decision reads are left out
 * (leave_out). It is known by two hashes of 64 bits; a state that was met before is not gone
 * through again. States are gone through depth first; what a transition changes is noted and taken
 * back.
 *
 * A transition is what an agent does from one access that others may see, of a word that others
 * access too, to its next one. Time stands still: nothing here depends on it but the end of naps,
 * which may come at any moment, or never (sim_smallest.background).
 *
 * Reduction: in each state only a persistent set of agents goes on, those with whose next accesses
 * none of the others can ever interfere (Godefroid, "Partial-order methods for the verification of
 * concurrent systems"); who accesses which words is found out meanwhile, and all begins anew
 * when it was not known before. Where a cycle closes, all agents go on, so that none is forgotten.
 *
 * Plain accesses are no transitions of their own, since nobody else's is unordered with them: that
 * is what the random schedules check.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "daemon_kernel/executor_cpu.h"
#include "shadow.h"
#include "world.h"

enum {
  PIECE = 64,
  STACK_WINDOW = 4096, /* what is live of a stack must fit */
  MAX_PIECES = 8192,
  OUTSIDE = SIM_ARENA_BYTES / 4, /* a word that stands for the kernel ... */
  DATA,                          /* ... and one for all that is moved */
  WORDS,
  LONG_SPIN = 10000, /* pauses, or accesses of words of its own, of one transition */
  COMPARE_EVERY = 256,
  WALKS = 1000, /* before the exploration, so that it seldom begins anew */
  LONGEST_WALK = 5000,
  EDGES_PER_STATE = 4
};

int sim_is_exhausting;
sim_smallest sim_smallest_now;

int sim_exhaust_naps(void) { return sim_smallest_now.naps; }

/* ---- what agents are about to do */

typedef struct plan {
  uint32_t word;
  uint32_t intention; /* sim_intention */
} plan;
static plan plans[SIM_MAX_AGENTS + 1] __attribute__((aligned(PIECE)));
static uint32_t readers[WORDS], writers[WORDS]; /* agents that do so at any time, by bit */
static int is_new; /* an access that was not known when sets of agents were chosen */
static uint32_t spins;

static uint32_t word_of(const volatile void *p) {
  uint64_t offset = (uint64_t)((uintptr_t)p - (uintptr_t)sim_arena);
  return offset < SIM_ARENA_BYTES ? (uint32_t)(offset / 4) : OUTSIDE;
}

static int is_shared(uint32_t word) {
  uint32_t all = readers[word] | writers[word];
  return writers[word] != 0 && (all & (all - 1)) != 0;
}

static void stop_before(uint32_t word, sim_intention intention) {
  plans[sim_agents_now.current] = (plan){word, intention};
  spins = 0;
  sim_choose();
}

static void spin(void) {
  if (++spins >= LONG_SPIN) stop_before(OUTSIDE, SIM_SPINS);
}

static void point(uint32_t word, sim_intention intention) {
  uint32_t me = 1u << sim_agents_now.current;
  uint32_t *accesses = intention == SIM_READS ? readers : writers;
  if (sim_is_quiet) return;
  if (!(accesses[word] & me)) {
    accesses[word] |= me;
    is_new |= is_shared(word);
  }
  if (is_shared(word))
    stop_before(word, intention);
  else
    spin();
}

void sim_exhaust_point(const volatile void *p, sim_intention intention) {
  point(word_of(p), intention);
}

/* So a movement is two, of which each is before or after any other's. */
void sim_exhaust_data(void) { point(DATA, SIM_WRITES); }

void sim_exhaust_sleep(const volatile void *p) {
  plans[sim_agents_now.current] = (plan){word_of(p), SIM_SLEEPS};
}

void sim_exhaust_pause(void) { spin(); }

/* Whom it can interfere with, or be held up by. */
static uint32_t conflicting(uint32_t agent) {
  const plan *p = &plans[agent];
  switch (p->intention) {
  case SIM_READS:
  case SIM_SLEEPS:
    return writers[p->word];
  case SIM_WRITES:
  case SIM_LOCKS:
    return readers[p->word] | writers[p->word];
  default:
    return 0;
  }
}

static int is_enabled(uint32_t agent) {
  const sim_agent *a = &sim_agents_now.agent[agent];
  if (a->state == SIM_RUNNABLE)
    return plans[agent].intention != SIM_LOCKS ||
           *(const uint32_t *)(const void *)(sim_arena + 4ull * plans[agent].word) == 0;
  return sim_smallest_now.naps && (sim_agents_now.naps >> agent & 1);
}

static uint32_t enabled_agents(void) {
  uint32_t bits = 0;
  for (uint32_t a = 0; a < sim_agents_now.n; a++) bits |= (uint32_t)is_enabled(a) << a;
  return bits;
}

/* The smallest persistent set that begins with one of them. */
static uint32_t persistent_set(uint32_t enabled) {
  uint32_t best = enabled;
  uint32_t ended = sim_agents_now.in[SIM_DONE];
  for (uint32_t seeds = enabled; seeds; seeds &= seeds - 1) {
    uint32_t set = seeds & -seeds, seen = 0;
    while (set & ~seen) {
      uint32_t a = sim_first_bit(set & ~seen);
      seen |= 1u << a;
      set |= conflicting(a) & ~ended;
    }
    set &= enabled;
    if (__builtin_popcount(set) < __builtin_popcount(best)) best = set;
  }
  return best;
}

/* ---- the state, in pieces of 64 bytes */

typedef struct hash {
  uint64_t a, b;
} hash;
typedef struct piece {
  uint8_t *at;
  uint64_t kept; /* words that count, by bit, 8 bytes each */
  hash of;
  uint8_t copy[PIECE];
} piece;
static piece pieces[MAX_PIECES];
static uint32_t n_pieces, n_common; /* the first: of the simulator and the arena */
static uint32_t first_of_stack[SIM_MAX_AGENTS];
static hash state;

static uint8_t base[SIM_ARENA_BYTES];           /* as each schedule begins */
static uint8_t is_hot[SIM_ARENA_BYTES / PIECE]; /* lines that change at any time */
static uint8_t left_out[SIM_ARENA_BYTES / 8];   /* words that no decision reads */

static uint64_t fold(uint64_t x, uint64_t y) {
  __extension__ unsigned __int128 product = x;
  product *= y;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static hash hash_of(uint32_t index, const piece *p) {
  uint64_t words[PIECE / 8];
  memcpy(words, p->at, PIECE);
  hash h = {fold(index + 0x9e3779b97f4a7c15u, 0xd1342543de82ef95u),
            fold(index + 0x2545f4914f6cdd1du, 0x94d049bb133111ebu)};
  for (uint32_t i = 0; i < PIECE / 8; i++) {
    uint64_t word = p->kept >> i & 1 ? words[i] : 0;
    h.a = fold(h.a ^ word, 0xa0761d6478bd642fu) + 0xe7037ed1a0b428dbu;
    h.b = fold(h.b + word + 0x8ebc6af09c88c6e3u, 0x589965cc75374cc3u);
  }
  return h;
}

static void add_hash(const hash *h) {
  state.a ^= h->a;
  state.b ^= h->b;
}

static void add_piece(void *at, uint64_t kept) {
  if (n_pieces == MAX_PIECES) {
    sim_note_failure("a state is too large");
    return;
  }
  piece *p = &pieces[n_pieces];
  *p = (piece){.at = at, .kept = kept};
  memcpy(p->copy, at, PIECE);
  p->of = hash_of(n_pieces++, p);
  add_hash(&p->of);
}

static void add_pieces(void *at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += PIECE) add_piece((uint8_t *)at + i, UINT64_MAX);
}

/* Of the simulator: what is not in a larger structure. */
static struct {
  size_t arena_used, far_used;
  uint8_t rest[PIECE - 2 * sizeof(size_t)];
} memory __attribute__((aligned(PIECE)));

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

/* What lies below the stack pointer is over; and nothing of it is to be found in later frames. */
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
    const df_executor *executor = context->device_state; /* it begins with it */
    for (uint32_t b = 0; b < context->device->n_blocks; b++) {
      const df_block *block = &context->blocks[b];
      leave_out(&block->stats, offsetof(df_block_stats, quits));
      leave_out(&block->stats.primitives, sizeof(uint64_t) * 2);
      leave_out(&block->cache.saves, sizeof block->cache.saves);
      leave_out(&block->cache.loads, sizeof block->cache.loads);
      const df_executor_block *eb = &executor->blocks[b];
      leave_out(&eb->lanes.waits_on, sizeof eb->lanes.waits_on);
      leave_out(&eb->cores.looks, sizeof eb->cores.looks + sizeof eb->cores.yields);
    }
    for (uint32_t c = 0; c < sim_plan.n_colls; c++) { /* for dumps */
      const df_descriptor *desc = context->device->descriptors[c];
      if (desc) leave_out(desc->progress, sizeof(uint64_t) * desc->n_blocks);
    }
  }
}

static uint64_t kept_of_line(size_t line) {
  uint64_t kept = 0;
  for (uint32_t i = 0; i < PIECE / 8; i++) kept |= (uint64_t)!left_out[line * (PIECE / 8) + i] << i;
  return kept;
}

static void lay_out_state(void) {
  size_t bytes;
  n_pieces = 0;
  state = (hash){0};
  add_pieces(plans, sizeof plans / PIECE * PIECE);
  add_pieces(sim_agents_now.agent, sim_agents_now.n * sizeof(sim_agent) / PIECE * PIECE + PIECE);
  add_piece(sim_agents_now.in, UINT64_MAX); /* and naps */
  save_memory();
  add_piece(&memory, UINT64_MAX);
  bytes = offsetof(sim_system_state, fd) + sim_system_now.n_fds * sizeof(sim_descriptor);
  add_pieces(&sim_system_now, bytes + PIECE); /* and what may be opened */
  for (uint32_t a = 0; a < sim_agents_now.n; a++) {
    void *locals = sim_thread_locals(a, &bytes);
    add_pieces(locals, bytes);
  }
  for (size_t line = 0; line < SIM_ARENA_BYTES / PIECE; line++)
    if (is_hot[line]) add_piece(sim_arena + line * PIECE, kept_of_line(line));
  n_common = n_pieces;
  for (uint32_t a = 0; a < sim_agents_now.n; a++) {
    first_of_stack[a] = n_pieces;
    if (sim_agents_now.agent[a].state == SIM_DONE) continue;
    clear_dead_stack(a);
    add_pieces(window_of(a), STACK_WINDOW);
  }
}

/* ---- what transitions change, to be taken back */

typedef struct change {
  uint32_t piece;
  hash of;
  uint8_t copy[PIECE];
} change;
static change *changes;
static size_t n_changes, most_changes;

static int is_same(const uint8_t *a, const uint8_t *b) {
  uint64_t x[PIECE / 8], y[PIECE / 8], different = 0;
  memcpy(x, a, PIECE);
  memcpy(y, b, PIECE);
  for (uint32_t i = 0; i < PIECE / 8; i++) different |= x[i] ^ y[i];
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
    memcpy(c->copy, p->copy, PIECE);
    memcpy(p->copy, p->at, PIECE);
    add_hash(&p->of);
    p->of = hash_of(i, p);
    add_hash(&p->of);
  }
}

static void take_back(size_t to) {
  while (n_changes > to) {
    const change *c = &changes[--n_changes];
    piece *p = &pieces[c->piece];
    add_hash(&p->of);
    p->of = c->of;
    add_hash(&p->of);
    memcpy(p->copy, c->copy, PIECE);
    memcpy(p->at, c->copy, PIECE);
  }
  restore_memory();
}

/* Lines that the state does not have yet: all begins anew with them. Returns 1 if there are any. */
static int has_new_lines(int compares) {
  int found = 0;
  for (size_t page = 0; page < SIM_ARENA_BYTES / PIECE / 64; page++) {
    for (uint64_t bits = sim_dirty[page]; bits; bits &= bits - 1) {
      size_t line = page * 64 + (size_t)__builtin_ctzll(bits);
      found |= !is_hot[line];
      is_hot[line] = 1;
    }
    sim_dirty[page] = 0;
  }
  for (size_t line = 0; compares && line < sim_arena_used / PIECE; line++)
    if (!is_hot[line] && !is_same(sim_arena + line * PIECE, base + line * PIECE))
      found = is_hot[line] = 1;
  return found;
}

/* ---- one transition */

static uint32_t took_part;

static void go_on(uint32_t agent) {
  took_part |= 1u << agent;
  sim_agents_now.current = agent;
  plans[agent] = (plan){0, SIM_GOES_ON};
  spins = 0;
  sim_run();
  clear_dead_stack(agent);
  note_changes(first_of_stack[agent], first_of_stack[agent] + STACK_WINDOW / PIECE);
}

/* The agent's, and whatever those that it wakes do without being seen. */
static void take(uint32_t agent) {
  if (sim_agents_now.agent[agent].state != SIM_RUNNABLE) sim_wake(agent, 1);
  go_on(agent);
  for (uint32_t a = 0; a < sim_agents_now.n && !sim_failure && !sim_world_is_over(); a++) {
    int goes_on = plans[a].intention == SIM_GOES_ON || plans[a].intention == SIM_SLEEPS;
    if (sim_agents_now.agent[a].state == SIM_RUNNABLE && goes_on) {
      go_on(a);
      a = UINT32_MAX; /* it may have woken others */
    }
  }
  save_memory();
  note_changes(0, n_common);
}

/* ---- states that were met */

typedef struct entry {
  uint64_t a, b; /* b's last bit: on the path */
} entry;
static entry *table;
static uint64_t table_mask, n_states, most_states;
static uint32_t *edges; /* pairs of places in the table */
static uint64_t n_edges, most_edges;
static uint64_t *can_end; /* by place, a bit */

/* The state's place; *is_first: it was not met before. */
static uint64_t place_of_state(int *is_first) {
  uint64_t b = (state.b | 2) & ~1ull, at = state.a & table_mask;
  for (;; at = (at + 1) & table_mask) {
    if (table[at].b == 0) break;
    if (table[at].a == state.a && (table[at].b & ~1ull) == b) {
      *is_first = 0;
      return at;
    }
  }
  *is_first = 1;
  n_states++;
  table[at] = (entry){state.a, b};
  return at;
}

static void note_edge(uint64_t from, uint64_t to) {
  if (n_edges >= most_edges) return;
  edges[2 * n_edges] = (uint32_t)from;
  edges[2 * n_edges++ + 1] = (uint32_t)to;
}

static int is_set(uint64_t place) { return (int)(can_end[place / 64] >> place % 64 & 1); }

/* From how many states does no way lead to an end? */
static uint64_t count_endless(void) {
  for (int changed = 1; changed;) {
    changed = 0;
    for (uint64_t e = n_edges; e-- > 0;)
      if (!is_set(edges[2 * e]) && is_set(edges[2 * e + 1])) {
        can_end[edges[2 * e] / 64] |= 1ull << edges[2 * e] % 64;
        changed = 1;
      }
  }
  uint64_t endless = 0;
  for (uint64_t place = 0; place <= table_mask; place++)
    endless += table[place].b != 0 && !is_set(place);
  return endless;
}

static int open_tables(void) {
  uint64_t places = 1;
  while (places < most_states * 4 / 3) places *= 2;
  table_mask = places - 1;
  most_edges = most_states * EDGES_PER_STATE;
  int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, access = PROT_READ | PROT_WRITE;
  table = mmap(NULL, places * sizeof *table, access, kind, -1, 0);
  edges = mmap(NULL, most_edges * 8, access, kind, -1, 0);
  can_end = mmap(NULL, places / 8 + 8, access, kind, -1, 0);
  return table != MAP_FAILED && edges != MAP_FAILED && can_end != MAP_FAILED;
}

static void forget_states(void) {
  size_t bytes = (table_mask + 1) * sizeof *table;
  madvise(table, bytes, MADV_DONTNEED);
  madvise(can_end, (table_mask + 1) / 8 + 8, MADV_DONTNEED);
  n_states = n_edges = 0;
}

/* ---- depth first */

typedef struct frame {
  uint64_t place;
  size_t changes;                         /* before it */
  uint32_t to_do, enabled, done, current; /* agents, by bit; the one that goes on */
} frame;
static frame *path;
static volatile sig_atomic_t is_to_end;
static size_t n_path, most_path, longest;
static uint64_t transitions, ends, reductions;

static frame *push(uint64_t place, size_t changes_before) {
  if (n_path == most_path) {
    most_path = most_path ? most_path * 2 : 1 << 12;
    path = realloc(path, most_path * sizeof *path);
    if (path == NULL) abort();
  }
  frame *f = &path[n_path++];
  uint32_t enabled = enabled_agents();
  *f = (frame){.place = place, .changes = changes_before, .enabled = enabled};
  f->to_do = persistent_set(enabled);
  reductions += f->to_do != enabled;
  if (n_path > longest) longest = n_path;
  table[place].b |= 1;
  if (enabled == 0)
    sim_note_failure("stuck: nobody can go on, nothing will ever wake anybody, and runs are "
                     "outstanding");
  return f;
}

static void pop(void) {
  const frame *f = &path[--n_path];
  table[f->place].b &= ~1ull;
  take_back(f->changes);
}

typedef enum { ALL_GOOD, BEGIN_ANEW, GONE_WRONG, TOO_MANY } outcome;

/* An agent of the last frame goes on. */
static outcome extend(void) {
  frame *f = &path[n_path - 1];
  size_t before = n_changes;
  int is_first;
  f->current = sim_first_bit(f->to_do);
  f->to_do &= f->to_do - 1;
  f->done |= 1u << f->current;
  transitions++;
  take(f->current);
  if (sim_failure) return GONE_WRONG;
  int is_over = sim_world_is_over();
  if (is_over) sim_world_check();
  if (sim_failure) return GONE_WRONG;
  if (has_new_lines(is_over || transitions % COMPARE_EVERY == 0) || is_new) return BEGIN_ANEW;
  uint64_t place = place_of_state(&is_first);
  note_edge(f->place, place);
  if (is_first && !is_over) {
    push(place, before);
    return sim_failure ? GONE_WRONG : n_states >= most_states || is_to_end ? TOO_MANY : ALL_GOOD;
  }
  if (is_first) {
    ends++;
    can_end[place / 64] |= 1ull << place % 64;
  }
  if (table[place].b & 1) f->to_do |= f->enabled & ~f->done; /* a cycle: nobody is forgotten */
  take_back(before);
  return ALL_GOOD;
}

static void begin(void) {
  sim_failure = NULL;
  sim_compare_next = 1;
  sim_is_exhausting = 0; /* all is copied back by what is remembered of accesses */
  sim_world_restore(0);
  sim_is_exhausting = 1;
  sim_policy_now = (sim_policy){0};
  sim_fail_allocation = sim_uses_allocation_failure = 0;
  sim_quantum = INT64_MAX;
  n_changes = n_path = 0;
  is_new = 0;
  memset(plans, 0, sizeof plans);
  memset(sim_dirty, 0, sizeof sim_dirty);
  for (uint32_t a = 0; a < sim_agents_now.n; a++) {
    sim_agent *agent = &sim_agents_now.agent[a];
    plans[a] = (plan){word_of(agent->waits_for), SIM_SLEEPS};
    if (agent->state == SIM_RUNNABLE) plans[a] = (plan){0, SIM_GOES_ON};
  }
  for (uint32_t r = 0; r < sim_plan.n_ranks && !sim_smallest_now.background; r++) {
    df_executor *executor = sim_app->rank[r].context->device_state;
    executor->expects_waiter = 1; /* who waits drives: executors are left to sleep */
  }
  memcpy(base, sim_arena, sim_arena_used);
  leave_out_counters();
}

/* At random, until the end: which lines change, and who accesses which words. */
static outcome walk(sim_random *random) {
  uint32_t agent = 0, patience = 1 + sim_below(random, 30);
  begin();
  lay_out_state();
  for (uint32_t i = 0; i < LONGEST_WALK; i++) {
    uint32_t enabled = enabled_agents(), skip;
    if (sim_failure || enabled == 0) break; /* the exploration finds that as well */
    if (!(enabled >> agent & 1) || sim_one_in(random, patience)) {
      skip = sim_below(random, (uint32_t)__builtin_popcount(enabled));
      while (skip--) enabled &= enabled - 1;
      agent = sim_first_bit(enabled);
    }
    take(agent);
    if (sim_failure || sim_world_is_over()) break;
  }
  has_new_lines(1);
  return sim_failure ? GONE_WRONG : ALL_GOOD;
}

static outcome explore(void) {
  int is_first;
  begin();
  lay_out_state();
  if (sim_failure) return GONE_WRONG;
  forget_states();
  transitions = ends = longest = reductions = 0;
  push(place_of_state(&is_first), 0);
  while (n_path > 0) {
    outcome result = ALL_GOOD;
    if (path[n_path - 1].to_do)
      result = extend();
    else
      pop();
    if (result != ALL_GOOD) return result;
  }
  return ALL_GOOD;
}

/* The way to what went wrong, again, and told. */
static void explain(void) {
  size_t n = n_path;
  uint8_t *who = malloc(n + 1);
  if (who == NULL) return;
  printf("FAILED: %s\n", sim_failure);
  for (size_t i = 0; i < n; i++) who[i] = (uint8_t)path[i].current;
  int was_stuck = path[n - 1].enabled == 0;
  begin();
  lay_out_state();
  sim_is_tracing = 1;
  sim_trace_begin();
  for (size_t i = 0; i + (size_t)was_stuck < n && sim_failure == NULL; i++) take(who[i]);
  sim_world_print();
  sim_trace_print();
  fflush(stdout);
  sim_world_print_state();
  free(who);
}

static void print_agents(void) {
  printf("  agents:");
  for (uint32_t a = 0; a < sim_agents_now.n; a++)
    if (took_part >> a & 1)
      printf(" %s of rank %d%s", sim_agents_now.agent[a].name, sim_agents_now.agent[a].rank,
             took_part >> a > 1 ? "," : "");
  printf("\n");
}

static void on_end(int number) {
  (void)number;
  is_to_end = 1;
}

int sim_exhaust(uint64_t most) {
  const sim_smallest *s = &sim_smallest_now;
  uint64_t began = sim_seconds_ns(), rounds = 0;
  outcome result;
  most_states = most;
  signal(SIGTERM, on_end); /* with what there is until then */
  if (!open_tables()) return 0;
  sim_failure = NULL;
  sim_world_make(1);
  if (sim_failure) {
    printf("the world could not be made: %s\n", sim_failure);
    return 0;
  }
  sim_random random = {.state = 1};
  for (uint32_t i = 0; i < WALKS; i++) walk(&random);
  do {
    rounds++;
    result = explore();
  } while (result == BEGIN_ANEW);
  double seconds = (double)(sim_seconds_ns() - began) * 1e-9;
  uint32_t words = 0;
  for (uint32_t w = 0; w < WORDS; w++) words += (uint32_t)is_shared(w);
  printf("all interleavings of %u collective(s) of %u chunk(s), %u run(s), SQ of %u, %s, %s, %s, "
         "%s, CQ %u:\n",
         s->colls, s->chunks, s->runs, s->depth, s->callbacks ? "callbacks" : "waits",
         s->naps         ? "naps end at any moment"
         : s->background ? "executors are woken"
                         : "executors sleep",
         s->first_turns ? "first turns" : "no first turns", s->lends ? "lent" : "copied", s->cq);
  print_agents();
  printf(
      "  %llu states, %llu transitions, %llu ends, %u shared words, %u pieces, longest path %zu, "
      "reduced %llu, %llu round(s), %.1f s\n",
      (unsigned long long)n_states, (unsigned long long)transitions, (unsigned long long)ends,
      words, n_pieces, longest, (unsigned long long)reductions, (unsigned long long)rounds,
      seconds);
  if (result == GONE_WRONG) {
    explain();
    return 0;
  }
  if (result == TOO_MANY) {
    printf("  not complete: %s\n", is_to_end ? "ended by a signal" : "too many states");
    return 0;
  }
  uint64_t endless = n_edges < most_edges ? count_endless() : 0;
  if (endless) {
    printf("FAILED: no way leads from %llu states to an end\n", (unsigned long long)endless);
    return 0;
  }
  printf("  complete: all are good%s\n",
         n_edges < most_edges ? ", and a way leads from each state to an end" : "");
  return 1;
}
