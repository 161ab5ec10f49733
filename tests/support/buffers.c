#include "support/buffers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/memory.h"

enum { GUARD = 64, AROUND = 0xA5, UNTOUCHED = 0xEE };

static size_t round_up(size_t bytes) { return (bytes + GUARD - 1) / GUARD * GUARD; }

/* In place, the larger of the two buffers holds the other. */
static void place(df_buffers *b) {
  const size_t element = df_type_bytes(b->coll->type);
  const size_t block = b->coll->count * element * (size_t)b->position;
  const size_t offset = GUARD + (b->flags & DF_ODD_OFFSET ? element : 0);
  b->send_area = b->memory + offset;
  if (!(b->flags & DF_IN_PLACE)) {
    b->recv_area = b->memory + round_up(offset + b->send_bytes) + offset;
  } else if (b->coll->kind == DF_ALL_GATHER || b->coll->kind == DF_GATHER) {
    b->recv_area = b->send_area;
    b->send_area = b->recv_area + block;
  } else if (b->coll->kind == DF_REDUCE_SCATTER || b->coll->kind == DF_SCATTER) {
    b->recv_area = b->send_area + block;
  } else {
    b->recv_area = b->send_area;
  }
  char *base = b->device_memory != NULL ? b->device_memory : b->memory;
  b->send = base + (b->send_area - b->memory);
  b->recv = base + (b->recv_area - b->memory);
  if (b->flags & DF_UNUSED_NULL) {
    if (!df_sends(b->coll, b->position)) b->send = NULL;
    if (!df_receives(b->coll, b->position)) b->recv = NULL;
  }
}

void df_buffers_make(df_buffers *b, dfcclContext_t ctx, const df_collective *coll, int position,
                     uint64_t run, int flags) {
  const size_t element = df_type_bytes(coll->type);
  *b = (df_buffers){.coll = coll, .ctx = ctx, .position = position, .run = run, .flags = flags};
  b->send_bytes = df_send_elements(coll) * element;
  b->recv_bytes = df_recv_elements(coll) * element;
  b->memory_bytes = round_up(b->send_bytes) + round_up(b->recv_bytes) + 6 * (size_t)GUARD;
  if (flags & DF_ZERO_COPY) {
    void *memory = NULL;
    OK(dfcclMemAlloc(ctx, &memory, b->memory_bytes));
    if (df_on_cuda())
      b->device_memory = memory;
    else
      b->memory = memory;
  }
  if (b->memory == NULL) b->memory = df_memory_take(b->memory_bytes);
  memset(b->memory, AROUND, b->memory_bytes);
  place(b);
  memset(b->recv_area, UNTOUCHED, b->recv_bytes);
  if (df_sends(coll, position))
    df_contribution(coll, position, run, 0, df_send_elements(coll), b->send_area);
  if (b->device_memory != NULL) df_memory_copy(b->device_memory, b->memory, b->memory_bytes);
}

static bool all_are(const char *from, const char *to, int value, size_t *where) {
  for (const char *at = from; at < to; at++)
    if ((unsigned char)*at != value) {
      *where = (size_t)(at - from);
      return false;
    }
  return true;
}

static bool send_unchanged(const df_buffers *b, size_t *where) {
  enum { PIECE = 512 };
  uint64_t expected[PIECE];
  const size_t element = df_type_bytes(b->coll->type), total = df_send_elements(b->coll);
  for (size_t first = 0; first < total; first += PIECE) {
    const size_t piece = total - first < PIECE ? total - first : PIECE;
    df_contribution(b->coll, b->position, b->run, first, piece, expected);
    if (memcmp(b->send_area + first * element, expected, piece * element) != 0) {
      *where = first;
      return false;
    }
  }
  return true;
}

/* The bytes before, between and after the buffers. */
static bool surroundings_good(const df_buffers *b, char *sentence, size_t bytes) {
  const char *end = b->memory + b->memory_bytes;
  const char *first = b->send_area < b->recv_area ? b->send_area : b->recv_area;
  const char *send_end = b->send_area + b->send_bytes, *recv_end = b->recv_area + b->recv_bytes;
  const char *last = send_end > recv_end ? send_end : recv_end;
  size_t where = 0;
  if (!all_are(b->memory, first, AROUND, &where)) {
    snprintf(sentence, bytes, "byte %zu of %zd before the buffers was overwritten", where,
             first - b->memory);
    return false;
  }
  if (!all_are(last, end, AROUND, &where)) {
    snprintf(sentence, bytes, "byte %zu after the buffers was overwritten", where);
    return false;
  }
  if (!(b->flags & DF_IN_PLACE) && !all_are(send_end, b->recv_area, AROUND, &where)) {
    snprintf(sentence, bytes, "byte %zu after the send buffer was overwritten", where);
    return false;
  }
  return true;
}

bool df_buffers_good(const df_buffers *b, char *sentence, size_t bytes) {
  const df_collective *coll = b->coll;
  const bool separate = !(b->flags & DF_IN_PLACE);
  size_t where = 0;
  if (b->device_memory != NULL) df_memory_copy(b->memory, b->device_memory, b->memory_bytes);
  if (!surroundings_good(b, sentence, bytes)) return false;
  if (df_receives(coll, b->position)) {
    if (!df_matches(coll, b->position, b->run, b->recv_area, sentence, bytes)) return false;
  } else if (separate && !all_are(b->recv_area, b->recv_area + b->recv_bytes, UNTOUCHED, &where)) {
    snprintf(sentence, bytes, "byte %zu of a receive buffer that does not matter was written",
             where);
    return false;
  }
  if (separate && df_sends(coll, b->position) && !send_unchanged(b, &where)) {
    snprintf(sentence, bytes, "the send buffer was changed near element %zu", where);
    return false;
  }
  return true;
}

void df_buffers_check(const df_buffers *b) {
  char sentence[768] = "", what[256];
  if (df_buffers_good(b, sentence, sizeof sentence)) return;
  df_describe(b->coll, what, sizeof what);
  CHECK(false, "%s, position %d, run %llu, flags %d: %s", what, b->position,
        (unsigned long long)b->run, b->flags, sentence);
}

void df_buffers_free(df_buffers *b) {
  char *allocated = b->device_memory != NULL ? b->device_memory : b->memory;
  if (b->flags & DF_ZERO_COPY) OK(dfcclMemFree(b->ctx, allocated));
  if (!(b->flags & DF_ZERO_COPY) || b->device_memory != NULL) df_memory_give(b->memory);
  b->memory = b->device_memory = NULL;
}

void df_exchange(dfcclContext_t *ctxs, dfcclCollId_t id, const df_collective *coll, uint64_t run,
                 int flags) {
  df_buffers *all = calloc((size_t)coll->members, sizeof *all);
  CHECK(all != NULL, "out of memory");
  for (int position = 0; position < coll->members; position++) {
    dfcclContext_t ctx = ctxs[df_member(coll, position)];
    df_buffers_make(&all[position], ctx, coll, position, run, flags);
    OK(df_run(ctx, id, coll->kind, all[position].send, all[position].recv, NULL, NULL));
  }
  for (int position = 0; position < coll->members; position++) {
    df_waiting_for("dfcclWait in df_exchange");
    OK(dfcclWait(ctxs[df_member(coll, position)], id));
  }
  df_waiting_for(NULL);
  for (int position = 0; position < coll->members; position++) {
    df_buffers_check(&all[position]);
    df_buffers_free(&all[position]);
  }
  free(all);
}

void df_once(dfcclContext_t *ctxs, dfcclCollId_t id, const df_collective *coll, int flags) {
  df_register_all(ctxs, id, coll);
  df_exchange(ctxs, id, coll, 0, flags);
  df_deregister_all(ctxs, id, coll);
}

void df_take_part(dfcclContext_t ctx, dfcclCollId_t id, const df_collective *coll, int position,
                  uint64_t run, int flags) {
  df_buffers buffers;
  df_buffers_make(&buffers, ctx, coll, position, run, flags);
  OK(df_run(ctx, id, coll->kind, buffers.send, buffers.recv, NULL, NULL));
  df_waiting_for("dfcclWait in df_take_part");
  OK(dfcclWait(ctx, id));
  df_waiting_for(NULL);
  df_buffers_check(&buffers);
  df_buffers_free(&buffers);
}

void df_take_part_in_disorder(dfcclContext_t ctx, const df_collective *colls, int count, int rank,
                              uint64_t rounds, df_random *random,
                              dfcclResult_t (*between)(dfcclContext_t ctx)) {
  df_buffers *buffers = calloc((size_t)count, sizeof *buffers);
  int *order = calloc((size_t)count, sizeof *order);
  CHECK(buffers != NULL && order != NULL, "out of memory");
  for (int c = 0; c < count; c++) order[c] = c;
  for (uint64_t round = 0; round < rounds; round++) {
    df_random_shuffle(random, order, count);
    for (int i = 0; i < count; i++) {
      int c = order[i];
      if (i > 0 && between != NULL) OK(between(ctx));
      df_buffers_make(&buffers[c], ctx, &colls[c], rank, round, 0);
      OK(df_run(ctx, (dfcclCollId_t)c, colls[c].kind, buffers[c].send, buffers[c].recv, NULL,
                NULL));
    }
    OK(dfcclWaitAll(ctx));
    for (int c = 0; c < count; c++) {
      df_buffers_check(&buffers[c]);
      df_buffers_free(&buffers[c]);
    }
  }
  free(order);
  free(buffers);
}
