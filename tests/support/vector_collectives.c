#include "support/vector_collectives.h"

#include <string.h>

#include "support/harness.h"
#include "support/memory.h"

enum { GAP = 2, NOT_SENT = 0x5B, UNTOUCHED = 0xE7 };

void df_vector_draw(df_vector_coll *coll, df_vector_kind kind, dfcclDataType_t type, int members,
                    size_t most, df_random *random) {
  *coll = (df_vector_coll){.kind = kind,
                           .type = type,
                           .members = members,
                           .root = df_random_below(random, members),
                           .seed = df_random_next(random)};
  for (int i = 0; i < members; i++) {
    const size_t own =
        df_random_chance(random, 25) ? 0 : (size_t)df_random_below(random, (int)most);
    for (int j = 0; j < members; j++) {
      size_t count = df_random_chance(random, 25) ? 0 : (size_t)df_random_below(random, (int)most);
      if (kind == DF_ALL_GATHER_V) count = own;
      if (kind == DF_REDUCE_SCATTER_V && i > 0) count = coll->counts[0][j];
      if (kind == DF_GATHER_V && j != coll->root) count = 0;
      if (kind == DF_SCATTER_V && i != coll->root) count = 0;
      if (kind == DF_NEIGHBOURS && df_random_chance(random, 50)) count = 0;
      coll->counts[i][j] = count;
    }
  }
}

bool df_vector_has_in_place(df_vector_kind kind) { return kind < DF_ALL_TO_ALL_V; }

static uint64_t value_of(const df_vector_part *p, int from, int to, size_t i) {
  const int whose = p->coll->kind == DF_ALL_GATHER_V ? 0 : to;
  uint64_t value = p->coll->seed + p->run * 0x9E3779B97F4A7C15u + (uint64_t)from * 1000003u +
                   (uint64_t)whose * 10007u + (uint64_t)i * 0xD6E8FEB86659FD93u;
  return value ^ value >> 29;
}

/* Sums wrap, as integers do. */
static uint64_t expected(const df_vector_part *p, int from, size_t i) {
  if (p->coll->kind != DF_REDUCE_SCATTER_V) return value_of(p, from, p->position, i);
  uint64_t sum = 0;
  for (int r = 0; r < p->coll->members; r++) sum += value_of(p, r, p->position, i);
  return sum;
}

static int has_displs(df_vector_kind kind, int output) {
  return output ? kind == DF_ALL_GATHER_V || kind == DF_GATHER_V || kind == DF_ALL_TO_ALL_V
                : kind == DF_SCATTER_V || kind == DF_ALL_TO_ALL_V;
}

static void measure(df_vector_part *p) {
  const df_vector_coll *c = p->coll;
  const size_t bytes = df_type_bytes(c->type);
  size_t sent = 0, received = 0;
  for (int other = 0; other < c->members; other++) {
    p->sends[other] = c->counts[p->position][other];
    p->receives[other] = c->counts[other][p->position];
    if (c->kind != DF_ALL_GATHER_V) p->send_at[other] = sent;
    if (c->kind != DF_REDUCE_SCATTER_V) p->recv_at[other] = received;
    sent += p->sends[other] + (has_displs(c->kind, 0) ? GAP : 0);
    received += p->receives[other] + (has_displs(c->kind, 1) ? GAP : 0);
  }
  p->send_bytes = (sent + GAP) * bytes;
  p->recv_bytes = (received + GAP) * bytes;
}

static void fill(const df_vector_part *p, char *area, int to) {
  for (size_t i = 0; i < p->sends[to]; i++) {
    const uint64_t value = value_of(p, p->position, to, i);
    df_element_store(p->coll->type, area, p->send_at[to] + i, value);
  }
}

/* The smaller buffer is a part of the larger one. */
static void place(df_vector_part *p) {
  const df_vector_kind kind = p->coll->kind;
  const size_t bytes = df_type_bytes(p->coll->type);
  const bool is_root = p->position == p->coll->root;
  p->send = p->send_area;
  p->recv = p->recv_area;
  if (!p->in_place) return;
  if (kind == DF_ALL_GATHER_V || (kind == DF_GATHER_V && is_root)) {
    p->send = p->recv_area + p->recv_at[p->position] * bytes;
    memcpy(p->send, p->send_area + p->send_at[p->position] * bytes, p->sends[p->position] * bytes);
  } else if (kind == DF_REDUCE_SCATTER_V || (kind == DF_SCATTER_V && is_root)) {
    p->recv = p->send_area + p->send_at[p->position] * bytes;
  }
}

void df_vector_make(df_vector_part *p, const df_vector_coll *coll, int position, uint64_t run,
                    bool in_place) {
  *p = (df_vector_part){.coll = coll, .position = position, .run = run};
  p->in_place = in_place && df_vector_has_in_place(coll->kind);
  measure(p);
  p->send_area = df_memory_take(p->send_bytes);
  p->recv_area = df_memory_take(p->recv_bytes);
  memset(p->send_area, NOT_SENT, p->send_bytes);
  memset(p->recv_area, UNTOUCHED, p->recv_bytes);
  for (int to = 0; to < coll->members; to++) fill(p, p->send_area, to);
  place(p);
}

static void check_around(const df_vector_part *p, const char *area, size_t bytes, int around,
                         const size_t *at, const size_t *counts) {
  const size_t element = df_type_bytes(p->coll->type);
  for (size_t i = 0; i < bytes; i++) {
    if ((unsigned char)area[i] == around) continue;
    bool is_inside = false;
    for (int k = 0; k < p->coll->members; k++)
      is_inside = is_inside || (i >= at[k] * element && i < (at[k] + counts[k]) * element);
    CHECK(is_inside, "kind %d, position %d: byte %zu between pieces was written", p->coll->kind,
          p->position, i);
  }
}

void df_vector_check(const df_vector_part *p) {
  const df_vector_coll *c = p->coll;
  const bool elsewhere = p->recv != p->recv_area;
  for (int from = 0; from < c->members; from++) {
    const char *piece =
        (const char *)p->recv + (elsewhere ? 0 : p->recv_at[from] * df_type_bytes(c->type));
    if (c->kind == DF_REDUCE_SCATTER_V && from > 0) break; /* all pieces are the same piece */
    for (size_t i = 0; i < p->receives[from]; i++) {
      uint64_t stored = 0;
      df_element_store(c->type, &stored, 0, expected(p, from, i));
      const uint64_t is = df_element_load(c->type, piece, i);
      CHECK(is == df_element_load(c->type, &stored, 0),
            "kind %d of %d, type %d, position %d, run %llu: element %zu from %d is %llx instead of "
            "%llx",
            c->kind, c->members, c->type, p->position, (unsigned long long)p->run, i, from,
            (unsigned long long)is, (unsigned long long)df_element_load(c->type, &stored, 0));
    }
  }
  if (!elsewhere) check_around(p, p->recv_area, p->recv_bytes, UNTOUCHED, p->recv_at, p->receives);
  if (p->in_place) return;
  check_around(p, p->send_area, p->send_bytes, NOT_SENT, p->send_at, p->sends);
  char *again = df_memory_take(p->send_bytes);
  memcpy(again, p->send_area, p->send_bytes);
  for (int to = 0; to < c->members; to++) fill(p, again, to);
  CHECK(memcmp(again, p->send_area, p->send_bytes) == 0, "kind %d, position %d: the input changed",
        c->kind, p->position);
  df_memory_give(again);
}

void df_vector_free(df_vector_part *p) {
  df_memory_give(p->send_area);
  df_memory_give(p->recv_area);
  p->send_area = p->recv_area = NULL;
}

static dfcclResult_t register_neighbours(dfcclContext_t ctx, dfcclCollId_t id,
                                         const df_vector_part *p,
                                         const dfcclCollOptions_t *options) {
  int to[DF_VECTOR_MOST], from[DF_VECTOR_MOST], n_to = 0, n_from = 0;
  size_t to_counts[DF_VECTOR_MOST], from_counts[DF_VECTOR_MOST];
  for (int other = 0; other < p->coll->members; other++) {
    if (p->sends[other]) to_counts[n_to] = p->sends[other], to[n_to++] = other;
    if (p->receives[other]) from_counts[n_from] = p->receives[other], from[n_from++] = other;
  }
  return dfcclRegisterNeighbours(ctx, id, n_to, to, to_counts, n_from, from, from_counts,
                                 p->coll->type, options);
}

dfcclResult_t df_vector_register(dfcclContext_t ctx, dfcclCollId_t id, const df_vector_part *p) {
  const df_vector_coll *c = p->coll;
  const size_t *send_at = has_displs(c->kind, 0) ? p->send_at : NULL;
  const size_t *recv_at = has_displs(c->kind, 1) ? p->recv_at : NULL;
  const bool is_root = p->position == c->root;
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.ranks = c->group;
  options.nRanks = c->group ? c->members : 0;
  switch (c->kind) {
  case DF_ALL_GATHER_V:
    return dfcclRegisterAllGatherV(ctx, id, p->receives, recv_at, c->type, &options);
  case DF_REDUCE_SCATTER_V:
    return dfcclRegisterReduceScatterV(ctx, id, p->sends, c->type, dfcclSum, &options);
  case DF_GATHER_V:
    return dfcclRegisterGatherV(ctx, id, p->sends[c->root], is_root ? p->receives : NULL, recv_at,
                                c->type, c->root, &options);
  case DF_SCATTER_V:
    return dfcclRegisterScatterV(ctx, id, is_root ? p->sends : NULL, send_at, p->receives[c->root],
                                 c->type, c->root, &options);
  case DF_ALL_TO_ALL_V:
    return dfcclRegisterAllToAllV(ctx, id, p->sends, send_at, p->receives, recv_at, c->type,
                                  &options);
  default:
    return register_neighbours(ctx, id, p, &options);
  }
}

dfcclResult_t df_vector_run(dfcclContext_t ctx, dfcclCollId_t id, df_vector_kind kind,
                            const void *send, void *recv, dfcclCallback_t callback, void *arg) {
  switch (kind) {
  case DF_ALL_GATHER_V:
    return dfcclRunAllGatherV(ctx, id, send, recv, callback, arg);
  case DF_REDUCE_SCATTER_V:
    return dfcclRunReduceScatterV(ctx, id, send, recv, callback, arg);
  case DF_GATHER_V:
    return dfcclRunGatherV(ctx, id, send, recv, callback, arg);
  case DF_SCATTER_V:
    return dfcclRunScatterV(ctx, id, send, recv, callback, arg);
  case DF_ALL_TO_ALL_V:
    return dfcclRunAllToAllV(ctx, id, send, recv, callback, arg);
  default:
    return dfcclRunNeighbours(ctx, id, send, recv, callback, arg);
  }
}
