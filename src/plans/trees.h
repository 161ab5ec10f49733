/*
 * Weighted trees: the form of synthesised plans. Each tree has a root, and a parent for each other
 * member; each piece of the buffer belongs to one tree, which has as many pieces as its weight. An
 * all-reduce adds a piece up along its tree to the root, and returns the sum along the same tree. A
 * reduce and a reduce-scatter only add up, a broadcast and an all-gather only distribute.
 *
 * Stars with weights are the weighted exchange through a switch, and packed spanning trees are the
 * optimum on any graph (ForestColl, Zhao et al., 2024).
 */
#ifndef DF_PLANS_TREES_H
#define DF_PLANS_TREES_H

#include <stddef.h>
#include <stdint.h>

#include "base/result.h"
#include "plans/operation.h"

enum {
  DF_TREES_RANKS_MOST = 64,
  DF_TREES_PIECES_MOST = 4096, /* pieces of all trees */
};

typedef struct df_tree {
  uint16_t root, weight;
} df_tree;

typedef struct df_trees {
  uint32_t n, n_trees, capacity;
  df_tree *trees;   /* [n_trees] */
  uint16_t *parent; /* [n_trees][n] by position; a root's parent is itself */
  /* Relative times that a member's port takes for a piece, out and in; 0 counts as 1. They decide
   * the order in which a member sends and receives. */
  uint16_t out_cost[DF_TREES_RANKS_MOST], in_cost[DF_TREES_RANKS_MOST];
  /* Time that a piece may be late at a member before other pieces wait: a member sends and receives
   * that much of other pieces first. */
  uint16_t slack;
} df_trees;

void df_trees_begin(df_trees *trees, uint32_t n);
/* Appends a tree whose parents are all `root`, and returns its parents; NULL: out of memory. */
uint16_t *df_trees_add(df_trees *trees, uint32_t root, uint32_t weight);
void df_trees_free(df_trees *trees);
static inline const uint16_t *df_trees_parents(const df_trees *trees, uint32_t tree) {
  return trees->parent + (size_t)tree * trees->n;
}

/* Number of pieces of the buffer or, if members have pieces of their own, of each member's. */
uint32_t df_trees_pieces(const df_trees *trees, df_operation operation);
/* Whether the builder makes plans of this operation. */
int df_trees_has(df_operation operation);

/* Checks trees from outside. dfcclInvalidArgument: *sentence gives the reason. */
dfcclResult_t df_trees_check(const df_trees *trees, df_operation operation, uint32_t root,
                             char *sentence, size_t bytes);

#endif
