#include "plans/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

enum { N = DF_PLAN_CHECK_MAX_RANKS };

/* A vector clock: how many primitives of each rank precede an event. */
typedef struct moment {
  uint32_t after[N];
} moment;

/* The symbolic content of a piece. element 0: nothing was written. */
typedef struct value {
  uint32_t element, divided;
  uint64_t contributions; /* one bit for each rank */
  uint64_t order;         /* a fingerprint of the order of reductions */
} value;

typedef struct cell {
  value value;
  uint32_t lent; /* readers that are not done yet */
  /* For each rank: its own time when it last read the cell on loan. NULL: never lent. */
  uint32_t *read;
} cell;

typedef struct message {
  value value;
  cell *lent; /* NULL, or the sender's place that the receiver reads */
  uint32_t piece;
  moment sent, released;
} message;

/* All messages from one rank to another. */
typedef struct pipe {
  message *messages;
  uint32_t total, sent, released; /* total: in all loops */
} pipe;

typedef struct player {
  const df_plan *plan;
  cell *input, *output, *scratch;
  cell *memory[3]; /* the allocations behind input, output and scratch; NULL: there is none */
  uint32_t cells[3];
  uint32_t loop, primitive;
  moment now;
} player;

/* The messages of one primitive: from the pipe's rank, and their numbers. NULL: there is none. */
typedef struct turn {
  pipe *in, *out;
  uint32_t from, in_at, out_at;
  int there; /* 0: the piece is empty, so that neither message waits */
} turn;

typedef struct checker {
  const df_plan_check_options *o;
  df_plan_key key;
  uint32_t n, pieces, input_pieces, output_pieces;
  player players[N];
  pipe *pipes; /* [from][to] */
  uint64_t random;
  char *sentence;
  size_t sentence_bytes;
  dfcclResult_t result;
} checker;

/* Returns 0, as all functions here do that found the plans to be wrong. The first sentence stays. */
DF_PRINTF(3, 4) static int complain(checker *c, uint32_t rank, const char *format, ...) {
  va_list arguments;
  if (c->result != dfcclSuccess) return 0;
  const player *p = &c->players[rank];
  df_text text = {.at = c->sentence, .left = c->sentence_bytes};
  df_say(&text, "%s %s of %u, root %u, %u slots%s, lending %d: rank %u, loop %u, primitive %u: ",
         df_operation_name(c->key.operation), df_algorithm_name(c->key.algorithm), c->n,
         c->key.root, c->o->slots, c->o->in_place ? ", in place" : "", c->o->lending, rank, p->loop,
         p->primitive);
  va_start(arguments, format);
  df_say_list(&text, format, arguments);
  va_end(arguments);
  c->result = dfcclInvalidArgument;
  return 0;
}

/* NULL: out of memory, which is the result from here on. */
static void *take_memory(checker *c, size_t n, size_t item) {
  void *memory = calloc(n ? n : 1, item);
  if (memory == NULL && c->result == dfcclSuccess) {
    snprintf(c->sentence, c->sentence_bytes, "no memory to check the plans of %u ranks", c->n);
    c->result = dfcclOutOfMemory;
  }
  return memory;
}

/* splitmix64 */
static int chance_of_half(checker *c) {
  uint64_t v = c->random += 0x9e3779b97f4a7c15u;
  v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
  v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
  return (int)((v ^ (v >> 31)) >> 63);
}

/* ---- the buffers */

static int wide_input(df_operation o) { return o == DF_OP_REDUCE_SCATTER || o == DF_OP_ALL_TO_ALL; }
static int wide_output(df_operation o) { return o == DF_OP_ALL_GATHER || o == DF_OP_ALL_TO_ALL; }

/* The number of an element, the same in all inputs and outputs. from, to: the ranks whose piece of
 * a wide buffer it is. */
static uint32_t element_of(const checker *c, uint32_t loop, uint32_t from, uint32_t to,
                           uint32_t piece) {
  uint32_t width = c->n * c->n + c->pieces;
  switch (c->key.operation) {
  case DF_OP_ALL_GATHER:
    return 1 + loop * width + from;
  case DF_OP_REDUCE_SCATTER:
    return 1 + loop * width + to;
  case DF_OP_ALL_TO_ALL:
    return 1 + loop * width + from * c->n + to;
  default:
    return 1 + loop * width + piece;
  }
}

static int piece_is_there(const checker *c, uint32_t loop, uint32_t piece) {
  if (c->players[0].plan->geometry != DF_GEOMETRY_PARTITION || c->o->last_pieces == 0) return 1;
  return loop + 1 < c->o->loops || piece < c->o->last_pieces;
}

static void fill_input(checker *c, uint32_t rank) {
  for (uint32_t loop = 0; loop < c->o->loops; loop++)
    for (uint32_t piece = 0; piece < c->input_pieces; piece++)
      if (piece_is_there(c, loop, piece))
        c->players[rank].input[loop * c->input_pieces + piece].value =
            (value){.element = element_of(c, loop, rank, piece, piece),
                    .contributions = 1ull << rank,
                    .order = (rank + 1) * 0x9e3779b97f4a7c15u};
}

static cell *take_cells(checker *c, player *p, int which, uint32_t cells) {
  p->memory[which] = take_memory(c, cells, sizeof(cell));
  if (p->memory[which]) p->cells[which] = cells;
  return p->memory[which];
}

static int give_memory(checker *c, uint32_t rank) {
  player *p = &c->players[rank];
  uint32_t loops = c->o->loops;
  df_operation operation = c->key.operation;
  /* Only the root of a broadcast has an input, only the root of a reduction has an output. */
  int has_input = operation != DF_OP_BROADCAST || rank == c->key.root;
  int has_output = operation != DF_OP_REDUCE || rank == c->key.root;
  p->scratch = take_cells(c, p, 2, p->plan->scratch_pieces);
  if (has_input) p->input = take_cells(c, p, 0, loops * c->input_pieces);
  if (has_output) p->output = take_cells(c, p, 1, loops * c->output_pieces);
  if (c->result != dfcclSuccess) return 0;
  if (has_input) fill_input(c, rank);
  for (uint32_t loop = 0; operation == DF_OP_ALL_GATHER && c->o->in_place && loop < loops; loop++)
    p->output[loop * c->output_pieces + rank % c->output_pieces].value = p->input[loop].value;
  return 1;
}

/* NULL: there is no such place, and the sentence says so. */
static cell *place(checker *c, uint32_t rank, uint32_t buffer, uint32_t piece) {
  player *p = &c->players[rank];
  uint32_t limit = buffer == DF_BUFFER_INPUT    ? c->input_pieces
                   : buffer == DF_BUFFER_OUTPUT ? c->output_pieces
                                                : p->plan->scratch_pieces;
  if (buffer == DF_BUFFER_NONE || buffer > DF_BUFFER_SCRATCH)
    return complain(c, rank, "no buffer"), NULL;
  if (piece >= limit)
    return complain(c, rank, "piece %u of buffer %u, which has %u", piece, buffer, limit), NULL;
  if (buffer == DF_BUFFER_SCRATCH) return &p->scratch[piece];
  df_operation operation = c->key.operation;
  if (c->o->in_place && p->input && p->output) { /* the smaller buffer is a part of the larger */
    if (operation == DF_OP_ALL_GATHER && buffer == DF_BUFFER_INPUT)
      return &p->output[p->loop * c->output_pieces + rank % c->output_pieces];
    if (operation == DF_OP_REDUCE_SCATTER && buffer == DF_BUFFER_OUTPUT)
      return &p->input[p->loop * c->input_pieces + rank];
    if (operation != DF_OP_ALL_GATHER) buffer = DF_BUFFER_INPUT;
  }
  cell *cells = buffer == DF_BUFFER_INPUT ? p->input : p->output;
  uint32_t pieces = buffer == DF_BUFFER_INPUT ? c->input_pieces : c->output_pieces;
  if (cells == NULL) return complain(c, rank, "buffer %u, which it need not have", buffer), NULL;
  return &cells[p->loop * pieces + piece];
}

/* ---- one primitive */

static int read_place(checker *c, uint32_t rank, const cell *from, uint32_t piece, value *v) {
  if (from == NULL) return 0;
  *v = from->value;
  if (v->element == 0) return complain(c, rank, "reads what was never written");
  if (c->players[rank].plan->geometry == DF_GEOMETRY_PARTITION) {
    uint32_t right = element_of(c, c->players[rank].loop, rank, piece, piece);
    if (v->element != right)
      return complain(c, rank, "reads element %u as element %u", v->element, right);
  }
  return 1;
}

static int write_place(checker *c, uint32_t rank, cell *into, const value *v) {
  if (into->lent > 0)
    return complain(c, rank, "overwrites what it has lent, and %u ranks have not read", into->lent);
  for (uint32_t r = 0; into->read && r < c->n; r++)
    if (into->read[r] > c->players[rank].now.after[r])
      return complain(c, rank, "overwrites what it has lent, and rank %u may be reading", r);
  into->value = *v;
  return 1;
}

static void join(moment *into, const moment *from, uint32_t n) {
  for (uint32_t r = 0; r < n; r++) into->after[r] = DF_MAX(into->after[r], from->after[r]);
}

static int reduce(checker *c, uint32_t rank, value *into, const value *first, const value *second) {
  if (first->element != second->element)
    return complain(c, rank, "combines elements %u and %u", first->element, second->element);
  if (first->contributions & second->contributions)
    return complain(c, rank, "counts contributions twice: %llx and %llx",
                    (unsigned long long)first->contributions,
                    (unsigned long long)second->contributions);
  if (first->divided || second->divided) return complain(c, rank, "goes on after the division");
  *into = (value){.element = first->element,
                  .contributions = first->contributions | second->contributions,
                  .order = (first->order ^ (first->order >> 29)) * 0xbf58476d1ce4e5b9u +
                           second->order * 3 + 1};
  return 1;
}

/* Reads a message. A lent place still has the message's value: write_place has refused all writes. */
static int open_message(checker *c, uint32_t rank, message *m, value *v) {
  *v = m->value;
  if (m->lent == NULL) return 1;
  m->lent->lent--;
  if (m->lent->read == NULL) m->lent->read = take_memory(c, c->n, sizeof(uint32_t));
  if (m->lent->read == NULL) return 0;
  m->lent->read[rank] = c->players[rank].now.after[rank];
  return 1;
}

/* A library that sees equal pointers knows that the run is in place. Of the wide collectives, only
 * rank 0's pointers are equal. */
static int buffer_may_be_lent(const checker *c, uint32_t rank, uint32_t buffer) {
  const player *p = &c->players[rank];
  if (buffer != DF_BUFFER_INPUT && buffer != DF_BUFFER_OUTPUT) return 0;
  int gathers = c->key.operation == DF_OP_ALL_GATHER || c->key.operation == DF_OP_REDUCE_SCATTER;
  int known = c->o->in_place && p->input && p->output && (!gathers || rank == 0);
  return !known || p->plan->direct_in_place;
}

/* The value of the primitive, from what it received and its source. */
static int compute(checker *c, uint32_t rank, const df_primitive *prim, const value *received,
                   value *v) {
  value source = {0};
  int receives = (prim->flags & DF_PRIM_RECV) != 0, reduces = (prim->flags & DF_PRIM_REDUCE) != 0;
  if (!receives || reduces) {
    cell *from = place(c, rank, prim->source, prim->source_piece);
    if (!read_place(c, rank, from, prim->piece, &source)) return 0;
  }
  *v = receives ? *received : source;
  if (reduces) {
    value other = source;
    if (!receives) {
      cell *into = place(c, rank, prim->destination, prim->destination_piece);
      if (!read_place(c, rank, into, prim->piece, v)) return 0;
    }
    value first = *v;
    int turned = (prim->flags & DF_PRIM_SOURCE_FIRST) && receives;
    if (!reduce(c, rank, v, turned ? &other : &first, turned ? &first : &other)) return 0;
  }
  if (prim->flags & DF_PRIM_AVERAGE) {
    if (v->divided) return complain(c, rank, "divides a second time");
    v->divided = 1;
  }
  return 1;
}

/* NULL: the plan has no such link, and the sentence says so. */
static const df_plan_link *find_link(checker *c, uint32_t rank, uint32_t link, int sends) {
  const df_plan *plan = c->players[rank].plan;
  if (link < plan->n_links && plan->links[link].sends == sends) return &plan->links[link];
  complain(c, rank, "link %u, which is none that %s", link, sends ? "sends" : "receives");
  return NULL;
}

/* 1: the primitive can be executed. 0: it has to wait, or it is wrong. */
static int take_turn(checker *c, uint32_t rank, const df_primitive *prim, turn *t) {
  const player *p = &c->players[rank];
  *t = (turn){.there = piece_is_there(c, p->loop, prim->piece)};
  if (prim->piece >= c->pieces) return complain(c, rank, "piece %u of %u", prim->piece, c->pieces);
  if (prim->flags & DF_PRIM_RECV) {
    const df_plan_link *link = find_link(c, rank, prim->recv_link, 0);
    if (link == NULL) return 0;
    t->from = link->peer;
    t->in = &c->pipes[t->from * c->n + rank];
    t->in_at = p->loop * link->messages + prim->recv_ordinal;
    if (t->in_at != t->in->released || t->in_at >= t->in->total)
      return complain(c, rank, "receives out of turn from rank %u", t->from);
    if (t->there && t->in->sent <= t->in_at) return 0;
  }
  if (prim->flags & DF_PRIM_SEND) {
    const df_plan_link *link = find_link(c, rank, prim->send_link, 1);
    if (link == NULL) return 0;
    t->out = &c->pipes[rank * c->n + link->peer];
    t->out_at = p->loop * link->messages + prim->send_ordinal;
    if (t->out_at != t->out->sent || t->out_at >= t->out->total)
      return complain(c, rank, "sends out of turn to rank %u", link->peer);
    if (t->there && t->out_at >= t->out->released + c->o->slots) return 0;
  }
  return 1;
}

static int send_message(checker *c, uint32_t rank, const df_primitive *prim, pipe *out, uint32_t at,
                        const value *v) {
  player *p = &c->players[rank];
  int computed = (prim->flags & (DF_PRIM_RECV | DF_PRIM_AVERAGE)) != 0;
  uint32_t buffer = computed ? prim->destination : prim->source;
  int lends = c->o->lending != DF_LENDS_NOTHING && buffer_may_be_lent(c, rank, buffer) &&
              (c->o->lending == DF_LENDS_ALL || chance_of_half(c));
  message *m = &out->messages[at];
  *m = (message){.value = *v, .piece = prim->piece, .sent = p->now};
  if (lends) {
    m->lent = place(c, rank, buffer, computed ? prim->destination_piece : prim->source_piece);
    if (m->lent == NULL) return 0;
    if (computed && (prim->flags & DF_PRIM_STORE_TO_LEND) && !write_place(c, rank, m->lent, v))
      return 0;
    if (memcmp(&m->lent->value, v, sizeof *v) != 0)
      return complain(c, rank, "lends a place that does not hold what it sends");
    m->lent->lent++;
  }
  return 1;
}

static int store(checker *c, uint32_t rank, const df_primitive *prim, const value *v) {
  if (prim->destination == DF_BUFFER_INPUT) return complain(c, rank, "stores to the input");
  cell *into = place(c, rank, prim->destination, prim->destination_piece);
  if (into == NULL) return 0;
  const cell *source =
      prim->flags & DF_PRIM_RECV ? NULL : place(c, rank, prim->source, prim->source_piece);
  int copies_nothing = source == into && !(prim->flags & (DF_PRIM_REDUCE | DF_PRIM_AVERAGE));
  return copies_nothing || write_place(c, rank, into, v);
}

static int move(checker *c, uint32_t rank, const df_primitive *prim, const turn *t) {
  player *p = &c->players[rank];
  value received = {0}, v;
  /* The reader's release of the message that had the slot before happens before this send. */
  if (t->in) join(&p->now, &t->in->messages[t->in_at].sent, c->n);
  if (t->out && t->out_at >= c->o->slots)
    join(&p->now, &t->out->messages[t->out_at - c->o->slots].released, c->n);
  if (t->in) {
    message *m = &t->in->messages[t->in_at];
    if (m->piece != prim->piece && p->plan->geometry == DF_GEOMETRY_PARTITION)
      return complain(c, rank, "receives piece %u from rank %u as piece %u", m->piece, t->from,
                      prim->piece);
    if (!open_message(c, rank, m, &received)) return 0;
  }
  if (!compute(c, rank, prim, &received, &v)) return 0;
  if ((prim->flags & DF_PRIM_STORE) && !store(c, rank, prim, &v)) return 0;
  return t->out == NULL || send_message(c, rank, prim, t->out, t->out_at, &v);
}

/* 1: executed. 0: has to wait, or is wrong (c->result). */
static int step(checker *c, uint32_t rank) {
  player *p = &c->players[rank];
  const df_primitive *prim = &p->plan->primitives[p->primitive];
  turn t;
  if (!take_turn(c, rank, prim, &t)) return 0;
  p->now.after[rank]++;
  if (t.there && !move(c, rank, prim, &t)) return 0;
  if (t.in) {
    t.in->messages[t.in_at].released = p->now;
    t.in->released++;
  }
  if (t.out) t.out->sent++;
  if (++p->primitive == p->plan->n_primitives) {
    p->primitive = 0;
    p->loop++;
  }
  return 1;
}

/* ---- the group */

static int compare_plans(checker *c) {
  const df_plan *first = c->players[0].plan;
  for (uint32_t r = 0; r < c->n; r++) {
    const df_plan *plan = c->players[r].plan;
    if (plan->geometry != first->geometry || plan->pieces != first->pieces ||
        plan->scratch_pieces != first->scratch_pieces)
      return complain(c, r, "its plan cuts the buffer in another way than rank 0's");
    for (uint32_t i = 0; i < plan->n_links; i++) {
      const df_plan_link *link = &plan->links[i];
      if (link->peer >= c->n || link->peer == r)
        return complain(c, r, "has a link to %u", link->peer);
      pipe *way = link->sends ? &c->pipes[r * c->n + link->peer] : &c->pipes[link->peer * c->n + r];
      uint32_t total = link->messages * c->o->loops;
      if (way->messages != NULL && way->total != total)
        return complain(c, r, "and rank %u differ in the messages between them, %u and %u",
                        link->peer, total, way->total);
      if (way->messages == NULL) way->messages = take_memory(c, total, sizeof(message));
      if (way->messages == NULL) return 0;
      way->total = total;
    }
  }
  return 1;
}

static int check_results(checker *c) {
  int reduces = df_operation_reduces(c->key.operation);
  uint64_t all = c->n == 64 ? UINT64_MAX : (1ull << c->n) - 1;
  for (uint32_t r = 0; r < c->n; r++) {
    player *p = &c->players[r];
    if (p->output == NULL) continue;
    for (p->loop = 0; p->loop < c->o->loops; p->loop++)
      for (uint32_t piece = 0; piece < c->output_pieces; piece++) {
        if (!piece_is_there(c, p->loop, piece)) continue;
        const value *v = &place(c, r, DF_BUFFER_OUTPUT, piece)->value;
        uint32_t from = wide_output(c->key.operation) ? piece : c->key.root;
        uint32_t element = element_of(c, p->loop, from, r, piece);
        uint64_t contributions = reduces ? all : 1ull << from;
        if (v->element != element || v->contributions != contributions)
          return complain(c, r, "the result's piece %u is element %u of %llx instead of %u of %llx",
                          piece, v->element, (unsigned long long)v->contributions, element,
                          (unsigned long long)contributions);
        if (v->divided != (uint32_t)(c->key.average != 0))
          return complain(c, r, "the result's piece %u was divided %u times", piece, v->divided);
        if (c->key.operation != DF_OP_ALL_REDUCE || r == 0) continue;
        c->players[0].loop = p->loop;
        if (place(c, 0, DF_BUFFER_OUTPUT, piece)->value.order != v->order)
          return complain(c, r, "the result's piece %u is combined in another order than rank 0's",
                          piece);
      }
  }
  return 1;
}

static int check_links(checker *c) {
  for (uint32_t i = 0; i < c->n * c->n; i++)
    if (c->pipes[i].sent != c->pipes[i].total || c->pipes[i].released != c->pipes[i].total)
      return complain(c, i / c->n, "to rank %u: %u messages planned, %u sent, %u received",
                      i % c->n, c->pipes[i].total, c->pipes[i].sent, c->pipes[i].released);
  return 1;
}

static int execute(checker *c) {
  for (uint32_t left = c->n, moved = 1; left > 0;) {
    if (!moved) {
      uint32_t r = 0;
      while (c->players[r].loop == c->o->loops) r++;
      return complain(c, r, "waits for ever, as %u ranks do", left);
    }
    moved = left = 0;
    for (uint32_t r = 0; r < c->n; r++) {
      player *p = &c->players[r];
      if (p->plan->n_primitives == 0) p->loop = c->o->loops;
      while (p->loop < c->o->loops && step(c, r)) moved = 1;
      if (c->result != dfcclSuccess) return 0;
      left += p->loop < c->o->loops;
    }
  }
  return check_links(c) && check_results(c);
}

static int prepare(checker *c) {
  if (c->n > N) return complain(c, 0, "a group of more than %d ranks", N);
  const df_plan *first = c->players[0].plan;
  int partition = first->geometry == DF_GEOMETRY_PARTITION;
  c->pieces = first->pieces;
  c->input_pieces = partition ? c->pieces : wide_input(c->key.operation) ? c->n : 1;
  c->output_pieces = partition ? c->pieces : wide_output(c->key.operation) ? c->n : 1;
  c->pipes = take_memory(c, (size_t)c->n * c->n, sizeof *c->pipes);
  if (c->pipes == NULL) return 0;
  for (uint32_t r = 0; r < c->n; r++)
    if (!give_memory(c, r)) return 0;
  return compare_plans(c);
}

static void free_checker(checker *c) {
  for (uint32_t r = 0; r < DF_MIN(c->n, (uint32_t)N); r++)
    for (int i = 0; i < 3; i++) {
      for (uint32_t k = 0; k < c->players[r].cells[i]; k++) free(c->players[r].memory[i][k].read);
      free(c->players[r].memory[i]);
    }
  for (uint32_t i = 0; c->pipes && i < c->n * c->n; i++) free(c->pipes[i].messages);
  free(c->pipes);
  free(c);
}

dfcclResult_t df_plan_check(df_plan *const *plans, const df_plan_check_options *options,
                            char *sentence, size_t bytes) {
  checker *c = calloc(1, sizeof *c);
  if (c == NULL) {
    snprintf(sentence, bytes, "no memory to check the plans of %u ranks", plans[0]->key.n);
    return dfcclOutOfMemory;
  }
  c->o = options;
  c->key = plans[0]->key;
  c->n = c->key.n;
  c->sentence = sentence;
  c->sentence_bytes = bytes;
  c->random = options->seed;
  for (uint32_t r = 0; r < DF_MIN(c->n, (uint32_t)N); r++) c->players[r].plan = plans[r];
  if (prepare(c)) execute(c);
  dfcclResult_t result = c->result;
  free_checker(c);
  return result;
}
