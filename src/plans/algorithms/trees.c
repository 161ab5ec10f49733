/*
 * Weighted trees (plans/trees.h). All members compute the same times of all transfers, by simulated
 * ports that carry one message at a time. A member receives in the order of these times. It sends a
 * piece as soon as it has it, and as soon as the receiver has taken all but the latest messages of
 * the link. A piece that a member receives and sends next takes one primitive.
 *
 * Members never wait for each other in a circle: a receive that ends at time t is event 4 t + 1. A
 * send is an event after the receives that it needs, and before its own receive. So the first event
 * that is left can always be executed, with LEAD_MOST slots in each link, and with one more if it
 * is a receive in one primitive with a later send.
 */
#include "plans/trees.h"

#include <stdlib.h>

#include "plans/build.h"

enum { LEAD_MOST = 3 };

/* Between a member and its parent. */
typedef struct transfer {
  uint16_t from, to, piece, tree;
  uint8_t is_up, is_first;    /* is_first: the piece is sent when the sender has it */
  uint32_t ready, start, end; /* the sender has the piece; first and last time of the transfer */
  uint32_t sent;              /* event of the send */
  uint16_t done, left;        /* hops of the piece before and after */
} transfer;

/* The shape of one tree. */
typedef struct shape {
  uint16_t depth[DF_TREES_RANKS_MOST], height[DF_TREES_RANKS_MOST];
  uint16_t children[DF_TREES_RANKS_MOST]; /* numbers of children */
} shape;

/* Events of a link: the latest send, and those after the latest receives, newest first. */
typedef struct link_state {
  uint32_t sent, taken[LEAD_MOST];
} link_state;

typedef struct builder {
  df_plan *plan;
  const df_trees *trees;
  shape *shapes;   /* [n_trees] */
  int up, down;    /* the operation adds up; it distributes */
  uint32_t pieces; /* pieces of all trees */
  uint16_t *turn;  /* [pieces] part of the tree\'s pieces before it, of 65,536 */
  uint16_t *own;   /* [pieces] number among the pieces of its root */
  uint16_t
      *waits_for; /* [pieces][n] number of messages that a member still receives on the way up */
  uint32_t *complete; /* [pieces][n] time after the latest of these messages */
  transfer *heap;
  uint32_t n_heap;
  transfer *order; /* in the order of their beginning */
  uint32_t n_order;
  uint32_t out_free[DF_TREES_RANKS_MOST], in_free[DF_TREES_RANKS_MOST];
  link_state *links; /* [n][n] by sender and receiver */
  uint32_t lead;     /* messages of a link that may be under way when another one is sent */
} builder;

/* ---- the order of transfers */

/* At the same time older pieces go first, so that a member passes a piece on before it receives
 * the next one; then pieces with the longest way. Then all trees take turns, and members differ
 * in their order. */
static int is_before(const builder *b, const transfer *x, const transfer *y) {
  const uint32_t n = b->trees->n;
  if (x->start != y->start) return x->start < y->start;
  if (x->done != y->done) return x->done > y->done;
  if (x->left != y->left) return x->left > y->left;
  if (b->turn[x->piece] != b->turn[y->piece]) return b->turn[x->piece] < b->turn[y->piece];
  const uint32_t of_x = (x->to + n - x->from) % n, of_y = (y->to + n - y->from) % n;
  if (of_x != of_y) return of_x < of_y;
  return x->piece != y->piece ? x->piece < y->piece : x->from < y->from;
}

static void add_to_heap(builder *b, transfer added) {
  uint32_t i = b->n_heap++;
  for (; i > 0 && is_before(b, &added, &b->heap[(i - 1) / 2]); i = (i - 1) / 2)
    b->heap[i] = b->heap[(i - 1) / 2];
  b->heap[i] = added;
}

static transfer take_first(builder *b) {
  const transfer first = b->heap[0], last = b->heap[--b->n_heap];
  uint32_t i = 0;
  for (uint32_t child = 1; child < b->n_heap; child = 2 * i + 1) {
    if (child + 1 < b->n_heap && is_before(b, &b->heap[child + 1], &b->heap[child])) child++;
    if (!is_before(b, &b->heap[child], &last)) break;
    b->heap[i] = b->heap[child];
    i = child;
  }
  b->heap[i] = last;
  return first;
}

static void push_up(builder *b, uint32_t tree, uint32_t piece, uint32_t member, uint32_t start) {
  const shape *s = &b->shapes[tree];
  const uint32_t root = b->trees->trees[tree].root;
  add_to_heap(b,
              (transfer){.from = (uint16_t)member,
                         .to = df_trees_parents(b->trees, tree)[member],
                         .piece = (uint16_t)piece,
                         .tree = (uint16_t)tree,
                         .is_up = 1,
                         .ready = start,
                         .start = start ? start + b->trees->slack : 0,
                         .done = s->height[member],
                         .left = (uint16_t)(s->depth[member] + (b->down ? s->height[root] : 0u))});
}

/* The transfers from a member to its children. */
static void push_down(builder *b, uint32_t tree, uint32_t piece, uint32_t member, uint32_t start) {
  const shape *s = &b->shapes[tree];
  const uint16_t *parent = df_trees_parents(b->trees, tree);
  const uint32_t root = b->trees->trees[tree].root;
  for (uint32_t c = 0; c < b->trees->n; c++)
    if (c != member && parent[c] == member)
      add_to_heap(b,
                  (transfer){.from = (uint16_t)member,
                             .to = (uint16_t)c,
                             .piece = (uint16_t)piece,
                             .tree = (uint16_t)tree,
                             .ready = start,
                             .start = start ? start + b->trees->slack : 0,
                             .done = (uint16_t)(s->depth[member] + (b->up ? s->height[root] : 0u)),
                             .left = (uint16_t)(s->height[c] + 1u)});
}

static void push_first(builder *b) {
  const uint32_t n = b->trees->n;
  for (uint32_t t = 0, piece = 0; t < b->trees->n_trees; t++)
    for (uint32_t w = 0; w < b->trees->trees[t].weight; w++, piece++) {
      if (!b->up) push_down(b, t, piece, b->trees->trees[t].root, 0);
      for (uint32_t v = 0; b->up && v < n; v++) {
        b->waits_for[piece * n + v] = b->shapes[t].children[v];
        if (b->shapes[t].children[v] == 0) push_up(b, t, piece, v, 0);
      }
    }
}

static uint32_t received(uint32_t time) { return 4 * time + 1; }

/* The messages of a link are sent in the order in which they are received. */
static void note_send(builder *b, transfer *t) {
  link_state *link = &b->links[t->from * b->trees->n + t->to];
  const uint32_t ready = t->ready ? received(t->ready - 1) + 1 : 0;
  t->sent = DF_MAX(DF_MAX(ready, link->taken[b->lead - 1]), link->sent);
  t->is_first = t->ready && t->sent == ready && link->sent < ready;
  link->sent = t->sent;
  for (uint32_t i = b->lead - 1; i > 0; i--) link->taken[i] = link->taken[i - 1];
  link->taken[0] = received(t->end) + 1;
}

static void make_order(builder *b) {
  const uint32_t n = b->trees->n;
  push_first(b);
  while (b->n_heap > 0) {
    transfer next = take_first(b);
    const uint32_t start = DF_MAX(next.start, DF_MAX(b->out_free[next.from], b->in_free[next.to]));
    if (start > next.start) { /* its ports have become busy since */
      next.start = start;
      add_to_heap(b, next);
      continue;
    }
    const uint32_t out = DF_MAX(b->trees->out_cost[next.from], 1u);
    const uint32_t in = DF_MAX(b->trees->in_cost[next.to], 1u);
    b->out_free[next.from] = start + out;
    b->in_free[next.to] = start + in;
    next.end = start + DF_MAX(out, in) - 1;
    note_send(b, &next);
    b->order[b->n_order++] = next;
    const uint32_t root = b->trees->trees[next.tree].root, at = next.piece * n + next.to;
    /* A message that begins earlier may end later. */
    b->complete[at] = DF_MAX(b->complete[at], next.end + 1);
    if (!next.is_up)
      push_down(b, next.tree, next.piece, next.to, next.end + 1);
    else if (--b->waits_for[at] > 0)
      continue;
    else if (next.to != root)
      push_up(b, next.tree, next.piece, next.to, b->complete[at]);
    else if (b->down)
      push_down(b, next.tree, next.piece, root, b->complete[at]);
  }
}

/* ---- the primitives of one member */

typedef struct writer {
  const builder *b;
  df_plan *plan; /* NULL: only the scratch pieces are counted */
  uint32_t member;
  uint16_t *scratch;  /* [pieces] scratch piece of a sum + 1; 0: none */
  uint16_t *received; /* [pieces] messages on the way up */
  uint8_t *begun;     /* [pieces] the root has copied its input */
  uint8_t *in_use;    /* [pieces] by scratch piece */
  uint32_t scratch_pieces;
} writer;

static df_place input_of(const writer *w, const transfer *t) {
  const uint32_t own = w->b->own[t->piece], root = w->b->trees->trees[t->tree].root;
  const int wide = df_operation_is_wide(w->b->plan->key.operation, 0);
  return df_input(wide ? root * w->b->plan->pieces + own : own);
}

static df_place output_of(const writer *w, const transfer *t) {
  const uint32_t own = w->b->own[t->piece], root = w->b->trees->trees[t->tree].root;
  const int wide = df_operation_is_wide(w->b->plan->key.operation, 1);
  return df_output(wide ? root * w->b->plan->pieces + own : own);
}

static df_place sum_of(writer *w, const transfer *t) {
  if (w->scratch[t->piece] == 0) {
    uint32_t i = 0;
    while (w->in_use[i]) i++;
    w->in_use[i] = 1;
    w->scratch[t->piece] = (uint16_t)(i + 1);
    w->scratch_pieces = DF_MAX(w->scratch_pieces, i + 1);
  }
  return df_scratch(w->scratch[t->piece] - 1u);
}

static void free_sum(writer *w, const transfer *t) {
  if (w->scratch[t->piece]) w->in_use[w->scratch[t->piece] - 1] = 0;
  w->scratch[t->piece] = 0;
}

/* then_to: the member that gets the piece in the same primitive; or DF_NO_PEER. */
static void receive_up(writer *w, const transfer *t, uint32_t then_to) {
  const shape *s = &w->b->shapes[t->tree];
  const int is_root = w->member == w->b->trees->trees[t->tree].root;
  const int is_last = ++w->received[t->piece] == s->children[w->member];
  const df_place with = w->scratch[t->piece] ? sum_of(w, t) : input_of(w, t);
  df_place into = df_nowhere();
  if (is_last && is_root)
    into = output_of(w, t);
  else if (!is_last || then_to == DF_NO_PEER)
    into = sum_of(w, t);
  if (w->plan)
    df_plan_reduce(w->plan, is_last && is_root ? df_plan_average(w->plan) : 0, w->b->own[t->piece],
                   t->from, then_to, with, into);
  if (into.buffer != DF_BUFFER_SCRATCH) free_sum(w, t);
}

static void send(writer *w, const transfer *t) {
  const uint32_t piece = w->b->own[t->piece];
  const int is_root = w->member == w->b->trees->trees[t->tree].root;
  if (t->is_up) {
    const df_place from = w->scratch[t->piece] ? sum_of(w, t) : input_of(w, t);
    if (w->plan) df_plan_send(w->plan, piece, t->to, from);
    free_sum(w, t);
  } else if (is_root && !w->b->up && !w->begun[t->piece]) {
    w->begun[t->piece] = 1;
    if (w->plan) df_plan_copy(w->plan, 0, piece, t->to, input_of(w, t), output_of(w, t));
  } else if (w->plan) {
    df_plan_send(w->plan, piece, t->to, output_of(w, t));
  }
}

/* A send or a receive of one member. If several sends are possible at once, that of the piece that
 * the member has just received comes first. */
typedef struct event {
  const transfer *t;
  uint32_t at;
  uint8_t is_send, is_freed;
} event;

static int compare_events(const void *a, const void *b) {
  const event *x = a, *y = b;
  if (x->at != y->at) return x->at < y->at ? -1 : 1;
  if (x->is_freed != y->is_freed) return x->is_freed ? 1 : -1;
  if (x->t->start != y->t->start) return x->t->start < y->t->start ? -1 : 1;
  return x->t < y->t ? -1 : x->t > y->t;
}

/* The events of all members, those of member v from first[v] to first[v + 1], in their order. */
static void find_events(const builder *b, event *events, uint32_t *first) {
  const uint32_t n = b->trees->n;
  uint32_t used[DF_TREES_RANKS_MOST] = {0};
  for (uint32_t i = 0; i < b->n_order; i++) used[b->order[i].from]++, used[b->order[i].to]++;
  first[0] = 0;
  for (uint32_t v = 0; v < n; v++) {
    first[v + 1] = first[v] + used[v];
    used[v] = first[v];
  }
  for (uint32_t i = 0; i < b->n_order; i++) {
    const transfer *t = &b->order[i];
    events[used[t->to]++] = (event){.t = t, .at = received(t->end)};
    events[used[t->from]++] =
        (event){.t = t, .at = t->sent, .is_send = 1, .is_freed = !t->is_first};
  }
  for (uint32_t v = 0; v < n; v++)
    qsort(events + first[v], first[v + 1] - first[v], sizeof *events, compare_events);
}

static void write_member(writer *w, const event *events, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    const transfer *t = events[i].t;
    const int is_joined = !events[i].is_send && i + 1 < n && events[i + 1].is_send &&
                          events[i + 1].t->piece == t->piece;
    const uint32_t then_to = is_joined ? events[i + 1].t->to : DF_NO_PEER;
    if (events[i].is_send)
      send(w, t);
    else if (t->is_up)
      receive_up(w, t, then_to);
    else if (w->plan)
      df_plan_receive(w->plan, w->b->own[t->piece], t->from, then_to, output_of(w, t));
    i += (uint32_t)is_joined;
  }
}

/* All members have the same number of scratch pieces. */
static void write_steps(builder *b) {
  uint16_t *numbers = calloc(2 * (size_t)b->pieces, sizeof *numbers);
  uint8_t *flags = calloc(2 * (size_t)b->pieces + 1, 1);
  event *events = calloc(2 * (size_t)b->n_order + 1, sizeof *events);
  uint32_t first[DF_TREES_RANKS_MOST + 1];
  b->plan->failed |= numbers == NULL || flags == NULL || events == NULL;
  if (!b->plan->failed) find_events(b, events, first);
  for (uint32_t v = 0; v < b->trees->n && !b->plan->failed; v++) {
    for (uint32_t p = 0; p < b->pieces; p++)
      numbers[p] = numbers[b->pieces + p] = flags[p] = flags[b->pieces + p] = 0;
    writer w = {.b = b,
                .plan = v == b->plan->key.position ? b->plan : NULL,
                .member = v,
                .scratch = numbers,
                .received = numbers + b->pieces,
                .begun = flags,
                .in_use = flags + b->pieces};
    write_member(&w, events + first[v], first[v + 1] - first[v]);
    b->plan->scratch_pieces = DF_MAX(b->plan->scratch_pieces, w.scratch_pieces);
  }
  free(numbers);
  free(flags);
  free(events);
}

/* ---- the whole */

static void measure_tree(const df_trees *trees, uint32_t tree, shape *s) {
  const uint16_t *parent = df_trees_parents(trees, tree);
  *s = (shape){0};
  for (uint32_t v = 0; v < trees->n; v++) {
    uint32_t hops = 0;
    if (v != trees->trees[tree].root) s->children[parent[v]]++;
    for (uint32_t at = v; at != trees->trees[tree].root; at = parent[at]) {
      hops++;
      s->height[parent[at]] = (uint16_t)DF_MAX(s->height[parent[at]], hops);
    }
    s->depth[v] = (uint16_t)hops;
  }
}

static void number_pieces(builder *b, int wide) {
  uint32_t of[DF_TREES_RANKS_MOST] = {0}, piece = 0;
  for (uint32_t t = 0; t < b->trees->n_trees; t++)
    for (uint32_t w = 0; w < b->trees->trees[t].weight; w++, piece++) {
      b->turn[piece] = (uint16_t)(w * 65536u / b->trees->trees[t].weight);
      b->own[piece] = (uint16_t)(wide ? of[b->trees->trees[t].root]++ : piece);
    }
}

static void build(df_plan *plan, const df_trees *trees) {
  const df_operation operation = plan->key.operation;
  const int wide = df_operation_is_wide(operation, 0) || df_operation_is_wide(operation, 1);
  builder b = {.plan = plan,
               .trees = trees,
               .up = df_operation_reduces(operation),
               .down = operation != DF_OP_REDUCE && operation != DF_OP_REDUCE_SCATTER};
  plan->geometry = wide ? DF_GEOMETRY_GRID : DF_GEOMETRY_PARTITION;
  plan->pieces = df_trees_pieces(trees, operation);
  plan->lends_all = operation == DF_OP_ALL_GATHER;
  b.pieces = plan->pieces * (wide ? trees->n : 1);
  const size_t most = (size_t)b.pieces * trees->n * 2;
  b.shapes = calloc(trees->n_trees, sizeof *b.shapes);
  b.own = calloc(b.pieces, sizeof *b.own);
  b.turn = calloc(b.pieces, sizeof *b.turn);
  b.waits_for = calloc((size_t)b.pieces * trees->n, sizeof *b.waits_for);
  b.complete = calloc((size_t)b.pieces * trees->n, sizeof *b.complete);
  b.heap = calloc(most, sizeof *b.heap);
  b.order = calloc(most, sizeof *b.order);
  b.links = calloc((size_t)trees->n * trees->n, sizeof *b.links);
  b.lead = LEAD_MOST;
  plan->least_slots = b.lead + 1;
  plan->failed |= !b.shapes || !b.own || !b.turn || !b.waits_for || !b.complete || !b.heap ||
                  !b.order || !b.links;
  if (!plan->failed) {
    for (uint32_t t = 0; t < trees->n_trees; t++) measure_tree(trees, t, &b.shapes[t]);
    number_pieces(&b, wide);
    make_order(&b);
    write_steps(&b);
  }
  free(b.shapes);
  free(b.own);
  free(b.turn);
  free(b.waits_for);
  free(b.complete);
  free(b.heap);
  free(b.order);
  free(b.links);
}

void df_plan_trees(df_plan *plan) {
  if (plan->key.trees)
    build(plan, plan->key.trees);
  else if (df_operation_has_root(plan->key.operation))
    df_plan_flat(plan); /* a star */
  else
    df_plan_direct(plan); /* a star for each member */
}
