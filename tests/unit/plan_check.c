#include "plan_check.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/harness.h"

enum { N = PLAN_CHECK_MAX_RANKS };

/* When something happened: how many primitives of each rank precede it. */
typedef struct moment {
  uint32_t after[N];
} moment;

/* What a piece stands for. element 0: nothing was written. */
typedef struct value {
  uint32_t element, divided;
  uint64_t contributions; /* ranks */
  uint64_t order;         /* a fingerprint of how they were combined */
} value;

typedef struct cell {
  value value;
  uint32_t lent; /* readers that are not done yet */
  /* when each rank has last read it while it was lent, in that rank's own time; NULL: never lent */
  uint32_t *read;
} cell;

typedef struct message {
  value value;
  cell *lent; /* the reader takes the value from there */
  uint32_t piece;
  moment sent, released;
} message;

/* One direction of a pair of ranks. */
typedef struct pipe {
  message *messages;
  uint32_t total, sent, released; /* total: in all loops */
} pipe;

typedef struct player {
  const df_plan *plan;
  cell *input, *output, *scratch;
  cell *memory[3]; /* what they are in: allocations */
  uint32_t cells[3];
  uint32_t loop, primitive;
  moment now;
} player;

typedef struct checker {
  const plan_check_options *o;
  df_plan_key key;
  uint32_t n, pieces, input_pieces, output_pieces;
  player players[N];
  pipe *pipes; /* [from][to] */
  df_random random;
  char *sentence;
  size_t sentence_bytes;
  int wrong;
} checker;

DF_PRINTF(3, 4) static int complain(checker *c, uint32_t rank, const char *format, ...) {
  va_list arguments;
  if (c->wrong) return 0;
  const player *p = &c->players[rank];
  int used = snprintf(
      c->sentence, c->sentence_bytes,
      "%s %s of %u, root %u, %u slots%s, lending %d: rank %u, loop %u, primitive %u: ",
      df_operation_name(c->key.operation), df_algorithm_name(c->key.algorithm), c->n, c->key.root,
      c->o->slots, c->o->in_place ? ", in place" : "", c->o->lending, rank, p->loop, p->primitive);
  va_start(arguments, format);
  vsnprintf(c->sentence + used, c->sentence_bytes - (size_t)used, format, arguments);
  va_end(arguments);
  c->wrong = 1;
  return 0;
}

static void *allocate(size_t n, size_t item) {
  void *memory = calloc(n ? n : 1, item);
  if (memory == NULL) abort();
  return memory;
}

/* ---- what is where at first, and at last ---- */

static int wide_input(df_operation o) { return o == DF_OP_REDUCE_SCATTER || o == DF_OP_ALL_TO_ALL; }
static int wide_output(df_operation o) { return o == DF_OP_ALL_GATHER || o == DF_OP_ALL_TO_ALL; }

/* The number of an element: the same in every buffer where it comes from or belongs. */
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

static cell *take_cells(player *p, int which, uint32_t cells) {
  p->cells[which] = cells;
  return p->memory[which] = allocate(cells, sizeof(cell));
}

static void give_memory(checker *c, uint32_t rank) {
  player *p = &c->players[rank];
  uint32_t loops = c->o->loops;
  df_operation operation = c->key.operation;
  /* Only the root of a broadcast has an input, only that of a reduction an output. */
  int has_input = operation != DF_OP_BROADCAST || rank == c->key.root;
  int has_output = operation != DF_OP_REDUCE || rank == c->key.root;
  p->scratch = take_cells(p, 2, p->plan->scratch_pieces);
  if (has_input) p->input = take_cells(p, 0, loops * c->input_pieces);
  if (has_output) p->output = take_cells(p, 1, loops * c->output_pieces);
  if (has_input) fill_input(c, rank);
  for (uint32_t loop = 0; operation == DF_OP_ALL_GATHER && c->o->in_place && loop < loops; loop++)
    p->output[loop * c->output_pieces + rank % c->output_pieces].value = p->input[loop].value;
}

static cell *place(checker *c, uint32_t rank, uint32_t buffer, uint32_t piece) {
  player *p = &c->players[rank];
  uint32_t limit = buffer == DF_BUFFER_INPUT    ? c->input_pieces
                   : buffer == DF_BUFFER_OUTPUT ? c->output_pieces
                                                : p->plan->scratch_pieces;
  if (buffer == DF_BUFFER_NONE) return complain(c, rank, "no buffer"), NULL;
  if (piece >= limit)
    return complain(c, rank, "piece %u of buffer %u, which has %u", piece, buffer, limit), NULL;
  if (buffer == DF_BUFFER_SCRATCH) return &p->scratch[piece];
  df_operation operation = c->key.operation;
  if (c->o->in_place && p->input && p->output) { /* where the two are one */
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

/* ---- one primitive ---- */

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
  if (into == NULL) return 0;
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

/* What a message carries when it is read: lent places are read now. */
static int open_message(checker *c, uint32_t rank, uint32_t from, message *m, value *v) {
  *v = m->value;
  if (m->lent == NULL) return 1;
  if (memcmp(&m->lent->value, v, sizeof *v) != 0)
    return complain(c, rank, "what rank %u has lent is not there any more", from);
  m->lent->lent--;
  if (m->lent->read == NULL) m->lent->read = allocate(c->n, sizeof(uint32_t));
  m->lent->read[rank] = c->players[rank].now.after[rank];
  return 1;
}

static int may_lend(const checker *c, uint32_t rank, const df_primitive *prim, uint32_t buffer) {
  const player *p = &c->players[rank];
  (void)prim;
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

static uint32_t sequence(const player *p, const df_plan_link *link, uint32_t ordinal) {
  return p->loop * link->messages + ordinal;
}

static int send_message(checker *c, uint32_t rank, const df_primitive *prim, pipe *out, uint32_t at,
                        const value *v) {
  player *p = &c->players[rank];
  int computed = (prim->flags & (DF_PRIM_RECV | DF_PRIM_AVERAGE)) != 0;
  uint32_t buffer = computed ? prim->destination : prim->source;
  int lends = c->o->lending != PLAN_LENDS_NOTHING && may_lend(c, rank, prim, buffer) &&
              (c->o->lending == PLAN_LENDS_ALL || df_random_chance(&c->random, 50));
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

/* 1: executed. 0: has to wait, or is wrong (c->wrong). */
static int step(checker *c, uint32_t rank) {
  player *p = &c->players[rank];
  const df_primitive *prim = &p->plan->primitives[p->primitive];
  int there = piece_is_there(c, p->loop, prim->piece);
  if (prim->piece >= c->pieces) return complain(c, rank, "piece %u of %u", prim->piece, c->pieces);
  pipe *in = NULL, *out = NULL;
  uint32_t from = 0, in_at = 0, out_at = 0;
  if (prim->flags & DF_PRIM_RECV) {
    const df_plan_link *link = &p->plan->links[prim->recv_link];
    from = link->peer;
    in = &c->pipes[from * c->n + rank];
    in_at = sequence(p, link, prim->recv_ordinal);
    if (in_at != in->released) return complain(c, rank, "receives out of turn from rank %u", from);
    if (there && in->sent <= in_at) return 0;
  }
  if (prim->flags & DF_PRIM_SEND) {
    const df_plan_link *link = &p->plan->links[prim->send_link];
    out = &c->pipes[rank * c->n + link->peer];
    out_at = sequence(p, link, prim->send_ordinal);
    if (out_at != out->sent) return complain(c, rank, "sends out of turn to rank %u", link->peer);
    if (there && out_at >= out->released + c->o->slots) return 0;
  }
  p->now.after[rank]++;
  if (there && in) join(&p->now, &in->messages[in_at].sent, c->n);
  if (there && out && out_at >= c->o->slots)
    join(&p->now, &out->messages[out_at - c->o->slots].released, c->n);
  if (there) {
    value received = {0}, v;
    if (in && in->messages[in_at].piece != prim->piece &&
        p->plan->geometry == DF_GEOMETRY_PARTITION)
      return complain(c, rank, "receives piece %u from rank %u as piece %u",
                      in->messages[in_at].piece, from, prim->piece);
    if (in && !open_message(c, rank, from, &in->messages[in_at], &received)) return 0;
    if (!compute(c, rank, prim, &received, &v)) return 0;
    cell *into = NULL;
    if (prim->flags & DF_PRIM_STORE) {
      if (prim->destination == DF_BUFFER_INPUT) return complain(c, rank, "stores to the input");
      into = place(c, rank, prim->destination, prim->destination_piece);
      const cell *source =
          prim->flags & DF_PRIM_RECV ? NULL : place(c, rank, prim->source, prim->source_piece);
      int copies_nothing = source == into && !(prim->flags & (DF_PRIM_REDUCE | DF_PRIM_AVERAGE));
      if (!copies_nothing && !write_place(c, rank, into, &v)) return 0;
    }
    if (out && !send_message(c, rank, prim, out, out_at, &v)) return 0;
  }
  if (in) {
    in->messages[in_at].released = p->now;
    in->released++;
  }
  if (out) out->sent++;
  if (++p->primitive == p->plan->n_primitives) {
    p->primitive = 0;
    p->loop++;
  }
  return 1;
}

/* ---- the group ---- */

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
      if (way->messages == NULL) way->messages = allocate(total, sizeof(message));
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
    if (!moved) { /* who is the first to wait, for what */
      uint32_t r = 0;
      while (c->players[r].loop == c->o->loops) r++;
      return complain(c, r, "waits for ever, as %u ranks do", left);
    }
    moved = left = 0;
    for (uint32_t r = 0; r < c->n; r++) {
      player *p = &c->players[r];
      if (p->plan->n_primitives == 0) p->loop = c->o->loops;
      while (p->loop < c->o->loops && step(c, r)) moved = 1;
      if (c->wrong) return 0;
      left += p->loop < c->o->loops;
    }
  }
  return check_links(c) && check_results(c);
}

int plan_check(df_plan *const *plans, const plan_check_options *options, char *sentence,
               size_t bytes) {
  checker *c = allocate(1, sizeof *c);
  c->o = options;
  c->key = plans[0]->key;
  c->n = c->key.n;
  c->sentence = sentence;
  c->sentence_bytes = bytes;
  c->random.state = options->seed;
  c->pieces = plans[0]->pieces;
  int partition = plans[0]->geometry == DF_GEOMETRY_PARTITION;
  c->input_pieces = partition ? c->pieces : wide_input(c->key.operation) ? c->n : 1;
  c->output_pieces = partition ? c->pieces : wide_output(c->key.operation) ? c->n : 1;
  c->pipes = allocate((size_t)c->n * c->n, sizeof *c->pipes);
  for (uint32_t r = 0; r < c->n; r++) c->players[r].plan = plans[r];
  for (uint32_t r = 0; r < c->n; r++) give_memory(c, r);
  int fine = compare_plans(c) && execute(c);
  for (uint32_t r = 0; r < c->n; r++)
    for (int i = 0; i < 3; i++) {
      for (uint32_t k = 0; k < c->players[r].cells[i]; k++) free(c->players[r].memory[i][k].read);
      free(c->players[r].memory[i]);
    }
  for (uint32_t i = 0; i < c->n * c->n; i++) free(c->pipes[i].messages);
  free(c->pipes);
  free(c);
  return fine;
}
