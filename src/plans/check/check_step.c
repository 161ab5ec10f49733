#include "plans/check/check_step.h"

#include <string.h>

#include "primitives/prepared.h"

/* The messages of one primitive: the sender's rank, and the numbers of the messages. NULL: there is
 * no message. */
typedef struct turn {
  df_check_pipe *in, *out;
  uint32_t from, in_at, out_at;
  int there;       /* 0: the piece is empty */
  int comes, goes; /* 1: the message takes part in the waits; empty ones do if they contain
                      a count */
} turn;

/* splitmix64 */
static int chance_of_half(df_checker *c) {
  uint64_t v = c->random += 0x9e3779b97f4a7c15u;
  v = (v ^ (v >> 30)) * 0xbf58476d1ce4e5b9u;
  v = (v ^ (v >> 27)) * 0x94d049bb133111ebu;
  return (int)((v ^ (v >> 31)) >> 63);
}

static void join(df_check_moment *into, const df_check_moment *from, uint32_t n) {
  for (uint32_t r = 0; r < n; r++) into->after[r] = DF_MAX(into->after[r], from->after[r]);
}

static int reduce(df_checker *c, uint32_t rank, df_check_value *into, const df_check_value *first,
                  const df_check_value *second) {
  if (first->element != second->element)
    return df_check_complain(c, rank, "combines elements %u and %u", first->element,
                             second->element);
  if (first->contributions & second->contributions)
    return df_check_complain(c, rank, "counts contributions twice: %llx and %llx",
                             (unsigned long long)first->contributions,
                             (unsigned long long)second->contributions);
  if (first->scaled != second->scaled)
    return df_check_complain(c, rank, "combines a scaled contribution with one that is not");
  if (first->divided || second->divided)
    return df_check_complain(c, rank, "goes on after the division");
  const int in_order = first->contributions >> __builtin_ctzll(second->contributions) == 0;
  *into = (df_check_value){.disordered = first->disordered | second->disordered | !in_order,
                           .element = first->element,
                           .scaled = first->scaled,
                           .contributions = first->contributions | second->contributions,
                           .order = (first->order ^ (first->order >> 29)) * 0xbf58476d1ce4e5b9u +
                                    second->order * 3 + 1};
  return 1;
}

/* Reads a message. A lent place still contains the message's value, because df_check_write
 * refuses all writes to it. */
static int open_message(df_checker *c, uint32_t rank, df_check_part *m, df_check_value *v) {
  *v = m->value;
  if (m->lent == NULL) return 1;
  m->lent->lent--;
  if (m->lent->read == NULL) m->lent->read = df_check_take_memory(c, c->n, sizeof(uint32_t));
  if (m->lent->read == NULL) return 0;
  m->lent->read[rank] = c->players[rank].now.after[rank];
  return 1;
}

/* The library recognises a run in place by equal pointers. In wide collectives the pointers are
 * equal only on rank 0. */
static int buffer_may_be_lent(const df_checker *c, uint32_t rank, uint32_t buffer) {
  const df_check_player *p = &c->players[rank];
  if (buffer != DF_BUFFER_INPUT && buffer != DF_BUFFER_OUTPUT) return 0;
  const df_operation o = c->key.operation;
  int gathers = df_operation_is_wide(o, 0) != df_operation_is_wide(o, 1);
  int known = c->o->in_place && p->input && p->output && (!gathers || rank == 0);
  return !known || p->plan->direct_in_place;
}

/* The step function multiplies a source that is in the input (primitives/prepared.h). */
static int scales_source(const df_checker *c, const df_primitive *prim) {
  return c->o->scales && prim->source == DF_BUFFER_INPUT;
}

/* Computes the value of the primitive from the received value and the source. */
static int compute(df_checker *c, uint32_t rank, const df_primitive *prim,
                   const df_check_value *received, df_check_value *v) {
  df_check_value source = {0};
  int receives = (prim->flags & DF_PRIM_RECV) != 0, reduces = (prim->flags & DF_PRIM_REDUCE) != 0;
  if (!receives || reduces) {
    df_check_cell *from = df_check_place(c, rank, prim->source, prim->source_piece);
    if (!df_check_read(c, rank, from, prim->piece, &source)) return 0;
    if (scales_source(c, prim) && source.scaled++)
      return df_check_complain(c, rank, "scales a contribution a second time");
  }
  *v = receives ? *received : source;
  if (reduces) {
    df_check_value other = source;
    if (!receives) {
      df_check_cell *into = df_check_place(c, rank, prim->destination, prim->destination_piece);
      if (!df_check_read(c, rank, into, prim->piece, v)) return 0;
    }
    df_check_value first = *v;
    int turned = (prim->flags & DF_PRIM_SOURCE_FIRST) && receives;
    if (!reduce(c, rank, v, turned ? &other : &first, turned ? &first : &other)) return 0;
  }
  if (prim->flags & DF_PRIM_AVERAGE) {
    if (v->divided) return df_check_complain(c, rank, "divides a second time");
    v->divided = 1;
  }
  return 1;
}

/* NULL: the plan has no such link, and a diagnostic has been recorded. */
static const df_plan_link *find_link(df_checker *c, uint32_t rank, uint32_t link, int sends) {
  const df_plan *plan = c->players[rank].plan;
  if (link < plan->n_links && plan->links[link].sends == sends) return &plan->links[link];
  df_check_complain(c, rank, "link %u does not exist or does not %s", link,
                    sends ? "send" : "receive");
  return NULL;
}

/* Piece `at` of the primitive, as a primitive of its own. */
static df_primitive part_of(const df_checker *c, const df_primitive *prim, uint32_t at) {
  const uint8_t geometry = (uint8_t)c->players[0].plan->geometry;
  df_primitive part = *prim;
  if (at == 0) return part;
  part.piece = (uint16_t)df_piece_further(geometry, c->pieces, prim->stride, DF_BUFFER_NONE,
                                          prim->piece, at);
  part.source_piece = (uint16_t)df_piece_further(geometry, c->pieces, prim->stride, prim->source,
                                                 prim->source_piece, at);
  part.destination_piece = (uint16_t)df_piece_further(
      geometry, c->pieces, prim->stride, prim->destination, prim->destination_piece, at);
  return part;
}

/* Returns 0 if all pieces are empty. */
static int is_there(const df_checker *c, uint32_t loop, const df_primitive *prim) {
  int there = 0;
  for (uint32_t at = 0; at < DF_MAX(prim->pieces, 1u) && !there; at++)
    there = df_check_piece_is_there(c, loop, part_of(c, prim, at).piece);
  return there;
}

/* Returns 1 if the primitive can be executed, and 0 if it has to wait or is wrong. */
static int take_turn(df_checker *c, uint32_t rank, const df_primitive *prim, turn *t) {
  const df_check_player *p = &c->players[rank];
  const int settles = c->key.settles && prim->piece == DF_PIECE_SETTLES;
  const int is_empty = settles || (c->key.agrees && prim->piece == DF_PIECE_NONE);
  const int is_last = settles && p->loop + 1 == c->o->loops;
  *t = (turn){.there = !is_empty && is_there(c, p->loop, prim)};
  if (prim->pieces > p->plan->longest)
    return df_check_complain(c, rank, "%u pieces in a message; the longest has %u", prim->pieces,
                             p->plan->longest);
  if (prim->piece >= df_check_pieces_of(c, rank) && !is_empty)
    return df_check_complain(c, rank, "piece %u of %u", prim->piece, df_check_pieces_of(c, rank));
  if (prim->flags & DF_PRIM_RECV) {
    const df_plan_link *link = find_link(c, rank, prim->recv_link, 0);
    if (link == NULL) return 0;
    t->from = link->peer;
    t->in = df_check_pipe_of(c, t->from, rank, link->channel);
    t->in_at = p->loop * link->messages + prim->recv_ordinal;
    if (t->in_at != t->in->released || t->in_at >= t->in->total)
      return df_check_complain(c, rank, "receives out of turn from rank %u", t->from);
    t->comes = t->there || is_last ||
               (c->o->varying && df_brings_count(p->loop, prim->recv_ordinal, prim->piece));
    if (t->comes && t->in->sent <= t->in_at) return 0;
  }
  if (prim->flags & DF_PRIM_SEND) {
    const df_plan_link *link = find_link(c, rank, prim->send_link, 1);
    if (link == NULL) return 0;
    t->out = df_check_pipe_of(c, rank, link->peer, link->channel);
    t->out_at = p->loop * link->messages + prim->send_ordinal;
    if (t->out_at != t->out->sent || t->out_at >= t->out->total)
      return df_check_complain(c, rank, "sends out of turn to rank %u", link->peer);
    t->goes = t->there || is_last ||
              (c->o->varying && df_brings_count(p->loop, prim->send_ordinal, prim->piece));
    if (t->goes && t->out_at >= t->out->released + c->o->slots) return 0;
  }
  return 1;
}

static int send_piece(df_checker *c, uint32_t rank, const df_primitive *prim, int lends,
                      df_check_part *m, const df_check_value *v) {
  const int computed = df_prim_computes(prim->flags);
  *m = (df_check_part){.value = *v};
  if (!lends) return 1;
  m->lent = df_check_place(c, rank, computed ? prim->destination : prim->source,
                           computed ? prim->destination_piece : prim->source_piece);
  if (m->lent == NULL) return 0;
  if (computed && (prim->flags & DF_PRIM_STORE_TO_LEND) && !df_check_write(c, rank, m->lent, v))
    return 0;
  if (memcmp(&m->lent->value, v, sizeof *v) != 0)
    return df_check_complain(c, rank, "lends a place that does not hold what it sends");
  m->lent->lent++;
  return 1;
}

/* Makes an empty message for the row of pieces that the primitive sends. NULL: out of memory. */
static df_check_message *begin_message(df_checker *c, uint32_t rank, const df_primitive *prim,
                                       df_check_message *m) {
  *m = (df_check_message){.piece = prim->piece,
                          .pieces = DF_MAX(prim->pieces, 1u),
                          .stride = prim->stride,
                          .sent = c->players[rank].now};
  m->parts = &m->only;
  if (m->pieces > 1) m->parts = df_check_take_memory(c, m->pieces, sizeof *m->parts);
  return m->parts ? m : NULL;
}

static int lends_message(df_checker *c, uint32_t rank, const df_primitive *prim) {
  const uint32_t buffer = df_prim_computes(prim->flags) ? prim->destination : prim->source;
  if (!df_prim_computes(prim->flags) && scales_source(c, prim)) return 0;
  return c->o->lending != DF_LENDS_NOTHING && buffer_may_be_lent(c, rank, buffer) &&
         (c->o->lending == DF_LENDS_ALL || chance_of_half(c));
}

/* GRID: places with one number have one length. */
static int is_as_long(const df_checker *c, const df_primitive *prim) {
  return c->players[0].plan->geometry != DF_GEOMETRY_GRID ||
         prim->destination_piece % c->pieces == prim->piece % c->pieces;
}

static int store(df_checker *c, uint32_t rank, const df_primitive *prim, const df_check_value *v) {
  if (prim->destination == DF_BUFFER_INPUT)
    return df_check_complain(c, rank, "stores to the input");
  df_check_cell *into = df_check_place(c, rank, prim->destination, prim->destination_piece);
  if (into == NULL) return 0;
  if (prim->destination == DF_BUFFER_OUTPUT && !is_as_long(c, prim))
    return df_check_complain(c, rank, "stores piece %u as piece %u, which may be shorter",
                             prim->piece, prim->destination_piece);
  const df_check_cell *source =
      prim->flags & DF_PRIM_RECV ? NULL : df_check_place(c, rank, prim->source, prim->source_piece);
  int copies_nothing = source == into && !scales_source(c, prim) &&
                       !(prim->flags & (DF_PRIM_REDUCE | DF_PRIM_AVERAGE));
  return copies_nothing || df_check_write(c, rank, into, v);
}

/* PIECE_TABLE: the sender's piece is as long as the receiver's. */
static int has_length_of(df_checker *c, uint32_t rank, const df_primitive *prim, uint32_t from,
                         const df_check_message *m) {
  const uint32_t sent = c->players[from].plan->extents[m->piece].elements;
  const uint32_t expected = c->players[rank].plan->extents[prim->piece].elements;
  if (sent == expected) return 1;
  return df_check_complain(c, rank, "receives %u elements from rank %u, not %u", sent, from,
                           expected);
}

/* Returns 1 if both ends name pieces of equal length. */
static int fits(df_checker *c, uint32_t rank, const df_primitive *prim, const turn *t,
                const df_check_message *m) {
  const df_geometry geometry = c->players[rank].plan->geometry;
  if (m->pieces != DF_MAX(prim->pieces, 1u))
    return df_check_complain(c, rank, "receives %u pieces from rank %u in one message, not %u",
                             m->pieces, t->from, prim->pieces);
  for (uint32_t at = 0; at < m->pieces && geometry != DF_GEOMETRY_PIECE_TABLE; at++) {
    const df_primitive sent = {.piece = (uint16_t)m->piece, .stride = (uint16_t)m->stride};
    const uint32_t theirs = df_check_length_of(c, part_of(c, &sent, at).piece);
    const uint32_t ours = df_check_length_of(c, part_of(c, prim, at).piece);
    if (theirs != ours)
      return df_check_complain(c, rank, "receives piece %u from rank %u as piece %u", theirs,
                               t->from, ours);
  }
  return geometry != DF_GEOMETRY_PIECE_TABLE || has_length_of(c, rank, prim, t->from, m);
}

/* The pieces may be moved one after the other or all at once, so no piece may be written that a
 * later one reads. */
static int is_free_of_overlap(df_checker *c, uint32_t rank, const df_primitive *prim) {
  const int reads = !(prim->flags & DF_PRIM_RECV) || (prim->flags & DF_PRIM_REDUCE);
  for (uint32_t i = 0; i < prim->pieces && reads && prim->flags & DF_PRIM_STORE; i++)
    for (uint32_t k = 0; k < prim->pieces; k++) {
      const df_primitive writer = part_of(c, prim, i), reader = part_of(c, prim, k);
      if (i != k && df_check_place(c, rank, writer.destination, writer.destination_piece) ==
                        df_check_place(c, rank, reader.source, reader.source_piece))
        return df_check_complain(c, rank, "overwrites a piece that the same message reads");
    }
  return 1;
}

static int move_part(df_checker *c, uint32_t rank, const df_primitive *prim, df_check_part *in,
                     df_check_part *out, int lends) {
  df_check_value received = {0}, v;
  if (in && !open_message(c, rank, in, &received)) return 0;
  if (!compute(c, rank, prim, &received, &v)) return 0;
  if ((prim->flags & DF_PRIM_STORE) && !store(c, rank, prim, &v)) return 0;
  return out == NULL || send_piece(c, rank, prim, lends, out, &v);
}

static int move(df_checker *c, uint32_t rank, const df_primitive *prim, const turn *t) {
  df_check_message *in = t->in ? &t->in->messages[t->in_at] : NULL;
  df_check_message *out = NULL;
  if (in && !fits(c, rank, prim, t, in)) return 0;
  if (prim->pieces > 1 && !is_free_of_overlap(c, rank, prim)) return 0;
  if (t->out) {
    out = begin_message(c, rank, prim, &t->out->messages[t->out_at]);
    if (out == NULL) return 0;
  }
  const int lends = out && lends_message(c, rank, prim);
  for (uint32_t at = 0; at < DF_MAX(prim->pieces, 1u); at++) {
    const df_primitive part = part_of(c, prim, at);
    if (!df_check_piece_is_there(c, c->players[rank].loop, part.piece)) continue;
    if (!move_part(c, rank, &part, in ? &in->parts[at] : NULL, out ? &out->parts[at] : NULL, lends))
      return 0;
  }
  return 1;
}

int df_check_step(df_checker *c, uint32_t rank) {
  df_check_player *p = &c->players[rank];
  const df_primitive *prim = &p->plan->primitives[p->primitive];
  turn t;
  if (!take_turn(c, rank, prim, &t)) return 0;
  p->now.after[rank]++;
  if (prim->piece != DF_PIECE_SETTLES) p->has_data = p->now.after[rank];
  /* The reader's release of the former message of this slot happens before this send. */
  if (t.comes) join(&p->now, &t.in->messages[t.in_at].sent, c->n);
  if (t.goes && t.out_at >= c->o->slots)
    join(&p->now, &t.out->messages[t.out_at - c->o->slots].released, c->n);
  if (t.goes) t.out->messages[t.out_at].sent = p->now;
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
