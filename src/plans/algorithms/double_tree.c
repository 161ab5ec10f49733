/*
 * Double binary trees (Sanders, Speck and Traeff, Parallel Computing 2009, sections 3 and 4): each
 * tree processes every second chunk. No member is an inner node of both trees. Tree 0 is the search
 * tree of 1..m, in which odd numbers are leaves. Tree 1 is its mirror image (m even) or the same
 * tree shifted by one (m odd).
 */
#include "plans/build.h"

enum { TREES = 2, MAX_CHILDREN = 2 };

/* Number of chunks of each tree in one loop of an all-reduce, which first go up and then down. */
enum { DEPTH = 4 };

typedef struct node {
  uint32_t parent; /* DF_NO_PEER for the root */
  uint32_t children[MAX_CHILDREN];
  uint32_t n_children;
} node;

/* x is counted from 1. The mirror image is its own inverse. */
static uint32_t number_in(uint32_t tree, uint32_t x, uint32_t m) {
  if (tree == 0) return x;
  return m % 2 == 0 ? m + 1 - x : x % m + 1;
}
static uint32_t member_at(uint32_t tree, uint32_t number, uint32_t m) {
  if (tree == 0) return number;
  return m % 2 == 0 ? m + 1 - number : (number + m - 2) % m + 1;
}

/* The children of a number beyond m belong to the next existing number above it. */
static uint32_t parent_of(uint32_t k, uint32_t m) {
  do {
    uint32_t low = k & -k;
    if (low * 2 > m) return 0;
    k = (k - low) | low * 2;
  } while (k > m);
  return k;
}

static node node_of(uint32_t tree, uint32_t x, uint32_t m) {
  uint32_t k = number_in(tree, x, m), up = parent_of(k, m), half = (k & -k) / 2;
  node self = {.parent = up ? member_at(tree, up, m) : DF_NO_PEER};
  if (half >= 1) self.children[self.n_children++] = member_at(tree, k - half, m);
  while (half >= 1 && k + half > m) half /= 2;
  if (half >= 1) self.children[self.n_children++] = member_at(tree, k + half, m);
  return self;
}

/* ---- all-reduce: all ranks are members, and each root turns its chunks round ---- */

static node all_reduce_node(uint32_t tree, uint32_t r, uint32_t n) {
  node self = node_of(tree, r + 1, n);
  if (self.parent != DF_NO_PEER) self.parent--;
  for (uint32_t i = 0; i < self.n_children; i++) self.children[i]--;
  return self;
}

static void up(df_plan *plan, const node *self, uint32_t piece, uint32_t root_to, df_place result) {
  uint32_t to = self->parent == DF_NO_PEER ? root_to : self->parent;
  df_place own = df_input(piece);
  if (self->n_children == 0) df_plan_send(plan, piece, to, own);
  for (uint32_t i = 0; i < self->n_children; i++) {
    int last = i + 1 == self->n_children;
    int final = last && to == DF_NO_PEER;
    df_place into = !last ? df_scratch(0) : final ? result : df_nowhere();
    df_plan_reduce(plan, final ? df_plan_average(plan) : 0, piece, self->children[i],
                   last ? to : DF_NO_PEER, own, into);
    own = df_scratch(0);
  }
}

static void down(df_plan *plan, const node *self, uint32_t piece, uint32_t root_from) {
  uint32_t from = self->parent == DF_NO_PEER ? root_from : self->parent, i = 0;
  if (from != DF_NO_PEER) {
    uint32_t to = self->n_children ? self->children[i++] : DF_NO_PEER;
    df_plan_receive(plan, piece, from, to, df_output(piece));
  }
  for (; i < self->n_children; i++) df_plan_send(plan, piece, self->children[i], df_output(piece));
}

/* The tree that is processed first. A leaf waits for no member on the way up, and no member waits
 * for a leaf on the way down. */
static uint32_t first_up(const node trees[TREES]) { return trees[0].n_children > 0; }
static uint32_t first_down(const node trees[TREES]) { return trees[1].n_children > 0; }

static void all_reduce(df_plan *plan) {
  uint32_t n = plan->key.n, r = plan->key.position;
  const node trees[TREES] = {all_reduce_node(0, r, n), all_reduce_node(1, r, n)};
  /* A short collective cannot fill a pipeline. */
  plan->pieces = df_plan_is_whole(plan) ? TREES : TREES * DEPTH;
  for (uint32_t i = 0; i < plan->pieces; i++) {
    const uint32_t piece = i ^ first_up(trees);
    up(plan, &trees[piece % TREES], piece, DF_NO_PEER, df_output(piece));
  }
  for (uint32_t i = 0; i < plan->pieces; i++) {
    const uint32_t piece = i ^ first_down(trees);
    down(plan, &trees[piece % TREES], piece, DF_NO_PEER);
  }
}

/* ---- broadcast and reduce: the root feeds or empties both trees ---- */

static node rooted_node(const df_plan *plan, uint32_t tree, uint32_t x) {
  uint32_t n = plan->key.n, root = plan->key.root;
  node self = node_of(tree, x, n - 1);
  self.parent = self.parent == DF_NO_PEER ? DF_NO_PEER : (self.parent + root) % n;
  for (uint32_t i = 0; i < self.n_children; i++) self.children[i] = (self.children[i] + root) % n;
  return self;
}

static uint32_t root_of_tree(const df_plan *plan, uint32_t tree) {
  uint32_t m = plan->key.n - 1, top = 1;
  while (top * 2 <= m) top *= 2;
  return (member_at(tree, top, m) + plan->key.root) % plan->key.n;
}

static void at_root(df_plan *plan) {
  for (uint32_t piece = 0; piece < TREES; piece++) {
    uint32_t peer = root_of_tree(plan, piece);
    if (plan->key.operation == DF_OP_BROADCAST)
      df_plan_copy(plan, 0, piece, peer, df_input(piece), df_output(piece));
    else
      df_plan_reduce(plan, DF_PRIM_SOURCE_FIRST | df_plan_average(plan), piece, peer, DF_NO_PEER,
                     df_input(piece), df_output(piece));
  }
}

void df_plan_double_tree(df_plan *plan) {
  uint32_t n = plan->key.n, root = plan->key.root;
  uint32_t x = (plan->key.position + n - root) % n;
  plan->geometry = DF_GEOMETRY_PARTITION;
  plan->pieces = TREES;
  if (plan->key.operation != DF_OP_BROADCAST) plan->scratch_pieces = 1;
  if (plan->key.operation == DF_OP_ALL_REDUCE) {
    all_reduce(plan);
    return;
  }
  if (x == 0) {
    at_root(plan);
    return;
  }
  const node trees[TREES] = {rooted_node(plan, 0, x), rooted_node(plan, 1, x)};
  const int spreads = plan->key.operation == DF_OP_BROADCAST;
  for (uint32_t i = 0; i < TREES; i++) {
    const uint32_t piece = i ^ (spreads ? first_down(trees) : first_up(trees));
    if (spreads)
      down(plan, &trees[piece], piece, root);
    else
      up(plan, &trees[piece], piece, root, df_nowhere());
  }
}
