/*
 * States that were met, of all interleavings (exhaust.c): each known by its hash, at its place in a
 * table; and from which one came to which, so that the program can decide whether a path leads to
 * an end.
 */
#include <sys/mman.h>

#include "exhaust.h"

enum { EDGES_PER_STATE = 4 };

typedef struct entry {
  uint64_t a, b; /* b's last bit: on the path */
} entry;
static entry *table;
static uint64_t table_mask, n_states;
static uint32_t *edges; /* pairs of places in the table */
static uint64_t n_edges, most_edges;
static uint64_t *can_end; /* by place, a bit */

uint64_t sim_met_place(int *is_first) {
  uint64_t b = (sim_state_hash.b | 2) & ~1ull, at = sim_state_hash.a & table_mask;
  for (;; at = (at + 1) & table_mask) {
    if (table[at].b == 0) break;
    if (table[at].a == sim_state_hash.a && (table[at].b & ~1ull) == b) {
      *is_first = 0;
      return at;
    }
  }
  *is_first = 1;
  n_states++;
  table[at] = (entry){sim_state_hash.a, b};
  return at;
}

void sim_met_note_edge(uint64_t from, uint64_t to) {
  if (n_edges >= most_edges) return;
  edges[2 * n_edges] = (uint32_t)from;
  edges[2 * n_edges++ + 1] = (uint32_t)to;
}

static int is_set(uint64_t place) { return (int)(can_end[place / 64] >> place % 64 & 1); }

uint64_t sim_met_count_endless(void) {
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

int sim_met_open(uint64_t most) {
  uint64_t places = 1;
  while (places < most * 4 / 3) places *= 2;
  table_mask = places - 1;
  most_edges = most * EDGES_PER_STATE;
  int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, access = PROT_READ | PROT_WRITE;
  table = mmap(NULL, places * sizeof *table, access, kind, -1, 0);
  edges = mmap(NULL, most_edges * 8, access, kind, -1, 0);
  can_end = mmap(NULL, places / 8 + 8, access, kind, -1, 0);
  return table != MAP_FAILED && edges != MAP_FAILED && can_end != MAP_FAILED;
}

void sim_met_forget(void) {
  size_t bytes = (table_mask + 1) * sizeof *table;
  madvise(table, bytes, MADV_DONTNEED);
  madvise(can_end, (table_mask + 1) / 8 + 8, MADV_DONTNEED);
  n_states = n_edges = 0;
}

uint64_t sim_met_states(void) { return n_states; }

void sim_met_set_on_path(uint64_t place, int is_on_path) {
  table[place].b = (table[place].b & ~1ull) | (uint64_t)is_on_path;
}

int sim_met_is_on_path(uint64_t place) { return (int)(table[place].b & 1); }

void sim_met_note_end(uint64_t place) { can_end[place / 64] |= 1ull << place % 64; }

int sim_met_all_edges(void) { return n_edges < most_edges; }
