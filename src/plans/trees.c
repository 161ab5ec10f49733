#include "plans/trees.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/attributes.h"

void df_trees_begin(df_trees *trees, uint32_t n) { *trees = (df_trees){.n = n}; }

uint16_t *df_trees_add(df_trees *trees, uint32_t root, uint32_t weight) {
  if (trees->n_trees == trees->capacity) {
    const uint32_t larger = trees->capacity ? 2 * trees->capacity : 16;
    df_tree *moved = realloc(trees->trees, larger * sizeof *moved);
    if (moved == NULL) return NULL;
    trees->trees = moved;
    uint16_t *parent = realloc(trees->parent, (size_t)larger * trees->n * sizeof *parent);
    if (parent == NULL) return NULL;
    trees->parent = parent;
    trees->capacity = larger;
  }
  uint16_t *parent = trees->parent + (size_t)trees->n_trees * trees->n;
  for (uint32_t v = 0; v < trees->n; v++) parent[v] = (uint16_t)root;
  trees->trees[trees->n_trees++] = (df_tree){(uint16_t)root, (uint16_t)weight};
  return parent;
}

void df_trees_free(df_trees *trees) {
  free(trees->trees);
  free(trees->parent);
}

static int is_wide(df_operation operation) {
  return df_operation_is_wide(operation, 0) || df_operation_is_wide(operation, 1);
}

int df_trees_has(df_operation operation) {
  return operation == DF_OP_ALL_REDUCE || operation == DF_OP_REDUCE ||
         operation == DF_OP_BROADCAST || operation == DF_OP_ALL_GATHER ||
         operation == DF_OP_REDUCE_SCATTER;
}

uint32_t df_trees_pieces(const df_trees *trees, df_operation operation) {
  uint32_t sum = 0;
  for (uint32_t t = 0; t < trees->n_trees; t++) sum += trees->trees[t].weight;
  return is_wide(operation) ? sum / trees->n : sum;
}

/* ---- check */

/* Whether each member reaches the root: no way is longer than the number of members. */
static int has_circle(const df_trees *trees, uint32_t tree) {
  const uint16_t *parent = df_trees_parents(trees, tree);
  for (uint32_t v = 0; v < trees->n; v++) {
    uint32_t at = v, steps = 0;
    while (at != trees->trees[tree].root && steps++ < trees->n) at = parent[at];
    if (at != trees->trees[tree].root) return 1;
  }
  return 0;
}

static dfcclResult_t check_tree(const df_trees *trees, uint32_t t, char *sentence, size_t bytes) {
  const df_tree *tree = &trees->trees[t];
  const uint16_t *parent = df_trees_parents(trees, t);
  if (tree->root >= trees->n || tree->weight == 0) {
    snprintf(sentence, bytes, "tree %u has root %u and %u pieces; the group has %u members", t,
             tree->root, tree->weight, trees->n);
    return dfcclInvalidArgument;
  }
  for (uint32_t v = 0; v < trees->n; v++)
    if (parent[v] >= trees->n || (parent[v] == v) != (v == tree->root)) {
      snprintf(sentence, bytes, "in tree %u, the parent of member %u is %u; the root is %u", t, v,
               parent[v], tree->root);
      return dfcclInvalidArgument;
    }
  if (!has_circle(trees, t)) return dfcclSuccess;
  snprintf(sentence, bytes, "tree %u has a circle", t);
  return dfcclInvalidArgument;
}

/* Members that have pieces of their own must have equally many. */
static dfcclResult_t check_weights(const df_trees *trees, df_operation operation, uint32_t root,
                                   char *sentence, size_t bytes) {
  uint32_t of[DF_TREES_RANKS_MOST] = {0}, sum = 0;
  for (uint32_t t = 0; t < trees->n_trees; t++) {
    of[trees->trees[t].root] += trees->trees[t].weight;
    sum += trees->trees[t].weight;
    if (sum > DF_TREES_PIECES_MOST) {
      snprintf(sentence, bytes, "trees have more than %d pieces", DF_TREES_PIECES_MOST);
      return dfcclInvalidArgument;
    }
    if (!df_operation_has_root(operation) || trees->trees[t].root == root) continue;
    snprintf(sentence, bytes, "the root of tree %u is member %u, not the root %u of the %s", t,
             trees->trees[t].root, root, df_operation_name(operation));
    return dfcclInvalidArgument;
  }
  for (uint32_t v = 1; is_wide(operation) && v < trees->n; v++)
    if (of[v] != of[0]) {
      snprintf(sentence, bytes, "member %u is the root of %u pieces, and member 0 of %u", v, of[v],
               of[0]);
      return dfcclInvalidArgument;
    }
  return dfcclSuccess;
}

dfcclResult_t df_trees_check(const df_trees *trees, df_operation operation, uint32_t root,
                             char *sentence, size_t bytes) {
  if (trees->n < 2 || trees->n > DF_TREES_RANKS_MOST || trees->n_trees == 0 ||
      trees->n_trees > DF_TREES_PIECES_MOST || !df_trees_has(operation)) {
    snprintf(sentence, bytes,
             "%u trees of %u members for %s: trees are for 2 to %d members, and up to %d trees",
             trees->n_trees, trees->n, df_operation_name(operation), DF_TREES_RANKS_MOST,
             DF_TREES_PIECES_MOST);
    return dfcclInvalidArgument;
  }
  dfcclResult_t result = dfcclSuccess;
  for (uint32_t t = 0; t < trees->n_trees && result == dfcclSuccess; t++)
    result = check_tree(trees, t, sentence, bytes);
  return result == dfcclSuccess ? check_weights(trees, operation, root, sentence, bytes) : result;
}
