#include "wait_graph.h"

#include <stdlib.h>
#include <string.h>

/* Steps along edges before the search for a shorter circle is cut short. */
static const uint64_t search_budget = 300000000u;

/* Two kinds of node: GPU -> collectives that the GPU waits for -> members that hold the collective
 * back. */
typedef struct {
  const df_sequences *sequences;
  uint64_t *awaits_first; /* GPU -> its range in awaits[] */
  uint32_t *awaits;
  uint64_t *holders_first; /* collective -> its range in holder[] */
  uint32_t *holder;
  uint32_t *gpu_from, *collective_from; /* how a search came to a node */
  uint64_t *gpu_mark, *collective_mark; /* the search that did */
  uint32_t *queue;
  uint64_t search, steps;
} wait_graph;

static bool incomplete(const wait_graph *graph, const df_dense *dense, uint32_t event) {
  return event != DF_EVENT_SYNC &&
         dense->executing[event] < df_sequences_members(graph->sequences, event);
}

/* A GPU waits for the collectives that began there and are not successful. */
static bool list_awaited(wait_graph *graph, const df_dense *dense) {
  const df_sequences *sequences = graph->sequences;
  uint64_t total = 0;
  graph->awaits_first = malloc((sequences->gpu_count + 1u) * sizeof *graph->awaits_first);
  for (uint32_t gpu = 0; gpu < sequences->gpu_count; gpu++) total += dense->pending[gpu];
  graph->awaits = malloc((total + 1) * sizeof *graph->awaits);
  if (!graph->awaits_first || !graph->awaits) return false;
  total = 0;
  for (uint32_t gpu = 0; gpu < sequences->gpu_count; gpu++) {
    graph->awaits_first[gpu] = total;
    uint64_t wanted = total + dense->pending[gpu];
    for (uint64_t i = dense->next[gpu]; i-- > sequences->first[gpu] && total < wanted;)
      if (incomplete(graph, dense, sequences->event[i]))
        graph->awaits[total++] = sequences->event[i];
  }
  graph->awaits_first[sequences->gpu_count] = total;
  return true;
}

/* The holders of a collective: the members on which it does not execute. */
static bool list_holders(wait_graph *graph, const df_dense *dense) {
  const df_sequences *sequences = graph->sequences;
  uint64_t colls = sequences->coll_count, total = 0;
  graph->holders_first = calloc(colls + 2, sizeof *graph->holders_first);
  uint64_t *starters_first = calloc(colls + 2, sizeof *starters_first);
  uint64_t awaited = graph->awaits_first[sequences->gpu_count];
  uint32_t *starter = malloc((awaited + 1) * sizeof *starter);
  uint64_t *mark = calloc(sequences->gpu_count + 1u, sizeof *mark);
  bool allocated = graph->holders_first && starters_first && starter && mark;
  if (allocated) {
    for (uint64_t i = 0; i < awaited; i++) starters_first[graph->awaits[i] + 2]++;
    for (uint64_t c = 0; c < colls; c++) {
      starters_first[c + 2] += starters_first[c + 1];
      if (dense->executing[c] > 0)
        total += df_sequences_members(sequences, (uint32_t)c) - dense->executing[c];
    }
    graph->holder = malloc((total + 1) * sizeof *graph->holder);
    allocated = graph->holder != NULL;
  }
  if (allocated) {
    for (uint32_t gpu = 0; gpu < sequences->gpu_count; gpu++)
      for (uint64_t i = graph->awaits_first[gpu]; i < graph->awaits_first[gpu + 1]; i++)
        starter[starters_first[graph->awaits[i] + 1]++] = gpu;
    total = 0;
    for (uint64_t c = 0; c < colls; c++) {
      graph->holders_first[c] = total;
      if (starters_first[c] == starters_first[c + 1]) continue;
      for (uint64_t i = starters_first[c]; i < starters_first[c + 1]; i++) mark[starter[i]] = c + 1;
      uint32_t group = sequences->group_of[c];
      for (uint32_t i = sequences->member_first[group]; i < sequences->member_first[group + 1]; i++)
        if (mark[sequences->member[i]] != c + 1) graph->holder[total++] = sequences->member[i];
    }
    graph->holders_first[colls] = total;
  }
  free(starters_first);
  free(starter);
  free(mark);
  return allocated;
}

/* Breadth first from start until it is found again; GPUs on the circle, or 0 if there is none with
 * fewer than limit. */
static uint32_t search_from(wait_graph *graph, uint32_t start, uint32_t limit) {
  uint32_t head = 0, tail = 0, level_end = 1, length = 1;
  graph->search++;
  graph->queue[tail++] = start;
  while (head < tail && length < limit) {
    uint32_t gpu = graph->queue[head++];
    for (uint64_t i = graph->awaits_first[gpu]; i < graph->awaits_first[gpu + 1]; i++) {
      uint32_t collective = graph->awaits[i];
      graph->steps++;
      if (graph->collective_mark[collective] == graph->search) continue;
      graph->collective_mark[collective] = graph->search;
      graph->collective_from[collective] = gpu;
      for (uint64_t k = graph->holders_first[collective]; k < graph->holders_first[collective + 1];
           k++) {
        uint32_t holder = graph->holder[k];
        graph->steps++;
        if (graph->gpu_mark[holder] == graph->search) continue;
        graph->gpu_mark[holder] = graph->search;
        graph->gpu_from[holder] = collective;
        if (holder == start) return length;
        graph->queue[tail++] = holder;
      }
    }
    if (head == level_end) {
      length++;
      level_end = tail;
    }
  }
  return 0;
}

/* Writes the circle that the latest search found at start. */
static bool keep_circle(const wait_graph *graph, uint32_t start, uint32_t length,
                        df_circle *circle) {
  df_wait *wait = realloc(circle->wait, length * sizeof *wait);
  if (!wait) return false;
  circle->wait = wait;
  circle->count = length;
  uint32_t held_by = start;
  for (uint32_t i = length; i-- > 0;) {
    uint32_t collective = graph->gpu_from[held_by], gpu = graph->collective_from[collective];
    wait[i] = (df_wait){gpu, collective, held_by};
    held_by = gpu;
  }
  return true;
}

/* Nodes of the depth-first search: GPUs, then collectives. */
typedef struct {
  uint64_t node, next_edge;
} dfs_step;

static uint64_t dfs_edges_end(const wait_graph *graph, uint64_t node, uint64_t *first) {
  uint32_t gpus = graph->sequences->gpu_count;
  const uint64_t *range =
      node < gpus ? graph->awaits_first + node : graph->holders_first + (node - gpus);
  *first = range[0];
  return range[1];
}

/* Keeps the circle that the steps from the one on `node` to the top of the stack make. */
static bool keep_steps(const wait_graph *graph, const dfs_step *stack, uint64_t depth,
                       uint64_t node, df_circle *circle) {
  uint32_t gpus = graph->sequences->gpu_count;
  uint64_t first = depth;
  while (stack[first - 1].node != node) first--;
  first--;
  uint64_t nodes = depth - first; /* GPUs and collectives take turns */
  circle->wait = malloc((nodes / 2) * sizeof *circle->wait);
  if (!circle->wait) return false;
  for (uint64_t i = 0; i < nodes; i++) {
    uint64_t gpu = stack[first + i].node;
    if (gpu >= gpus) continue;
    uint64_t collective = stack[first + (i + 1) % nodes].node - gpus;
    uint64_t held_by = stack[first + (i + 2) % nodes].node;
    circle->wait[circle->count++] =
        (df_wait){(uint32_t)gpu, (uint32_t)collective, (uint32_t)held_by};
  }
  return true;
}

/* Depth first from one GPU, colouring as it goes, until a circle is met and kept. */
static bool dfs_from(const wait_graph *graph, uint32_t start, unsigned char *colour,
                     dfs_step *stack, df_circle *circle) {
  enum { NEW, OPEN, CLOSED };
  uint32_t gpus = graph->sequences->gpu_count;
  uint64_t depth = 0, first;
  dfs_edges_end(graph, start, &first);
  stack[depth++] = (dfs_step){start, first};
  colour[start] = OPEN;
  while (depth > 0) {
    dfs_step *top = &stack[depth - 1];
    if (top->next_edge == dfs_edges_end(graph, top->node, &first)) {
      colour[top->node] = CLOSED;
      depth--;
      continue;
    }
    uint64_t next = top->node < gpus ? gpus + (uint64_t)graph->awaits[top->next_edge]
                                     : graph->holder[top->next_edge];
    top->next_edge++;
    if (colour[next] == OPEN) return keep_steps(graph, stack, depth, next, circle);
    if (colour[next] == CLOSED) continue;
    colour[next] = OPEN;
    dfs_edges_end(graph, next, &first);
    stack[depth++] = (dfs_step){next, first};
  }
  return true;
}

/* Some circle, in time linear in the graph, or none: the searches for a shorter one may be cut
 * short, but whether there is one at all must always be answered. */
static bool find_any(const wait_graph *graph, df_circle *circle) {
  uint64_t nodes = graph->sequences->gpu_count + graph->sequences->coll_count;
  unsigned char *colour = calloc(nodes + 1, 1);
  dfs_step *stack = malloc((nodes + 1) * sizeof *stack);
  bool done = colour && stack;
  for (uint32_t gpu = 0; done && gpu < graph->sequences->gpu_count && circle->count == 0; gpu++)
    if (colour[gpu] == 0) done = dfs_from(graph, gpu, colour, stack, circle);
  free(colour);
  free(stack);
  return done;
}

static bool find_shortest(wait_graph *graph, df_circle *circle) {
  circle->shortest = true;
  if (!find_any(graph, circle)) return false;
  uint32_t best =
      circle->count > 0 ? circle->count + 1 : 0; /* searched again, for the lowest GPU */
  for (uint32_t gpu = 0; gpu < graph->sequences->gpu_count && best > 2; gpu++) {
    if (graph->awaits_first[gpu] == graph->awaits_first[gpu + 1]) continue;
    uint32_t length = search_from(graph, gpu, best);
    if (length > 0 && length < best) {
      if (!keep_circle(graph, gpu, length, circle)) return false;
      best = length;
    }
    if (graph->steps > search_budget) {
      circle->shortest = false;
      break;
    }
  }
  return true;
}

dfcclResult_t df_wait_graph_circle(const df_sequences *sequences, const df_dense *dense,
                                   df_circle *circle) {
  wait_graph graph = {.sequences = sequences};
  *circle = (df_circle){0};
  bool done = list_awaited(&graph, dense) && list_holders(&graph, dense);
  graph.gpu_from = malloc((sequences->gpu_count + 1u) * sizeof *graph.gpu_from);
  graph.gpu_mark = calloc(sequences->gpu_count + 1u, sizeof *graph.gpu_mark);
  graph.queue = malloc((sequences->gpu_count + 2u) * sizeof *graph.queue);
  graph.collective_from = malloc((sequences->coll_count + 1) * sizeof *graph.collective_from);
  graph.collective_mark = calloc(sequences->coll_count + 1, sizeof *graph.collective_mark);
  done = done && graph.gpu_from && graph.gpu_mark && graph.queue && graph.collective_from &&
         graph.collective_mark && find_shortest(&graph, circle);
  free(graph.awaits_first);
  free(graph.awaits);
  free(graph.holders_first);
  free(graph.holder);
  free(graph.gpu_from);
  free(graph.gpu_mark);
  free(graph.queue);
  free(graph.collective_from);
  free(graph.collective_mark);
  if (done) return dfcclSuccess;
  free(circle->wait);
  *circle = (df_circle){0};
  return df_fail(dfcclOutOfMemory, "no memory to find the circle");
}
