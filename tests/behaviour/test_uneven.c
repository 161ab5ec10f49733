/*
 * Promises of the collectives of uneven pieces: whatever the counts, zeros among them, each member
 * gets what each other sends to it, at its displacement; what lies between pieces stays as it is,
 * and so does what is sent. In place where that is defined; runs overlap; between processes and over
 * TCP too. Members that disagree about a pair's count are told, with both.
 */
#include "support/buffers.h"
#include "support/processes.h"

#include <stdlib.h>
#include <string.h>

enum { RANKS_MOST = 6, ID = 1, GAP = 2 };
enum { ALL_GATHER_V, REDUCE_SCATTER_V, GATHER_V, SCATTER_V, ALL_TO_ALL_V, NEIGHBOURS, KINDS };

/* What one collective is, as all ranks know it. */
typedef struct scene {
  int kind, ranks, root;
  int32_t offset;                        /* of this run's values */
  size_t counts[RANKS_MOST][RANKS_MOST]; /* from, to */
} scene;

/* One rank's buffers: `displs` are those of the side that it may choose. */
typedef struct part {
  size_t sends[RANKS_MOST], send_at[RANKS_MOST], receives[RANKS_MOST], recv_at[RANKS_MOST];
  size_t send_elements, recv_elements;
  int32_t *send, *recv;
} part;

static scene draw(int kind, int ranks, size_t most, df_random *random) {
  scene s = {.kind = kind, .ranks = ranks, .root = df_random_below(random, ranks)};
  for (int i = 0; i < ranks; i++) {
    const size_t own =
        df_random_chance(random, 25) ? 0 : (size_t)df_random_below(random, (int)most);
    for (int j = 0; j < ranks; j++) {
      size_t count = df_random_chance(random, 25) ? 0 : (size_t)df_random_below(random, (int)most);
      if (kind == ALL_GATHER_V) count = own;
      if (kind == REDUCE_SCATTER_V && i > 0) count = s.counts[0][j];
      if (kind == GATHER_V && j != s.root) count = 0;
      if (kind == SCATTER_V && i != s.root) count = 0;
      if (kind == NEIGHBOURS && df_random_chance(random, 50)) count = 0;
      s.counts[i][j] = count;
    }
  }
  return s;
}

static int32_t value_of(const scene *s, int from, int to, size_t i) {
  const int whose = s->kind == ALL_GATHER_V ? 0 : to;
  return s->offset + (int32_t)(from * 1000003 + whose * 10007 + (int)i * 7);
}

static int has_displs(const scene *s, int output) {
  return output ? s->kind == ALL_GATHER_V || s->kind == GATHER_V || s->kind == ALL_TO_ALL_V
                : s->kind == SCATTER_V || s->kind == ALL_TO_ALL_V;
}

static part make_part(const scene *s, int rank) {
  part p = {0};
  size_t sent = 0, received = 0;
  for (int other = 0; other < s->ranks; other++) {
    p.sends[other] = s->counts[rank][other];
    p.receives[other] = s->counts[other][rank];
    if (s->kind != ALL_GATHER_V) p.send_at[other] = sent;
    if (s->kind != REDUCE_SCATTER_V) p.recv_at[other] = received;
    sent += p.sends[other] + (has_displs(s, 0) ? GAP : 0);
    received += p.receives[other] + (has_displs(s, 1) ? GAP : 0);
  }
  p.send_elements = sent + GAP;
  p.recv_elements = received + GAP;
  p.send = malloc(p.send_elements * sizeof *p.send);
  p.recv = malloc(p.recv_elements * sizeof *p.recv);
  CHECK(p.send != NULL && p.recv != NULL, "out of memory");
  return p;
}

static void fill(const scene *s, int rank, part *p) {
  for (size_t i = 0; i < p->send_elements; i++) p->send[i] = -5;
  for (size_t i = 0; i < p->recv_elements; i++) p->recv[i] = -9;
  for (int to = 0; to < s->ranks; to++)
    for (size_t i = 0; i < p->sends[to]; i++)
      p->send[p->send_at[to] + i] = value_of(s, rank, to, i);
}

static int32_t expected(const scene *s, int rank, int from, size_t i) {
  if (s->kind != REDUCE_SCATTER_V) return value_of(s, from, rank, i);
  uint32_t sum = 0;
  for (int r = 0; r < s->ranks; r++) sum += (uint32_t)value_of(s, r, rank, i);
  return (int32_t)sum;
}

/* in_place: the gaps of the longer buffer were not filled anew. */
static void check(const scene *s, int rank, const part *p, const int32_t *recv) {
  unsigned char *known = calloc(p->recv_elements, 1);
  for (int from = 0; from < s->ranks; from++)
    for (size_t i = 0; i < p->receives[from]; i++) {
      const size_t at = p->recv_at[from] + i;
      known[at] = 1;
      CHECK(recv[at] == expected(s, rank, from, i),
            "kind %d of %d, rank %d: element %zu from %d is %d instead of %d", s->kind, s->ranks,
            rank, i, from, recv[at], expected(s, rank, from, i));
    }
  for (size_t i = 0; recv == p->recv && i < p->recv_elements; i++)
    CHECK(known[i] || recv[i] == -9, "kind %d, rank %d: element %zu was written", s->kind, rank, i);
  free(known);
}

static dfcclResult_t register_part(dfcclContext_t ctx, const scene *s, int rank, const part *p) {
  const size_t *send_at = has_displs(s, 0) ? p->send_at : NULL;
  const size_t *recv_at = has_displs(s, 1) ? p->recv_at : NULL;
  const int is_root = rank == s->root;
  int to[RANKS_MOST], from[RANKS_MOST], n_to = 0, n_from = 0;
  size_t to_counts[RANKS_MOST], from_counts[RANKS_MOST];
  switch (s->kind) {
  case ALL_GATHER_V:
    return dfcclRegisterAllGatherV(ctx, ID, p->receives, recv_at, dfcclInt32, NULL);
  case REDUCE_SCATTER_V:
    return dfcclRegisterReduceScatterV(ctx, ID, p->sends, dfcclInt32, dfcclSum, NULL);
  case GATHER_V:
    return dfcclRegisterGatherV(ctx, ID, p->sends[s->root], is_root ? p->receives : NULL, recv_at,
                                dfcclInt32, s->root, NULL);
  case SCATTER_V:
    return dfcclRegisterScatterV(ctx, ID, is_root ? p->sends : NULL, send_at, p->receives[s->root],
                                 dfcclInt32, s->root, NULL);
  case ALL_TO_ALL_V:
    return dfcclRegisterAllToAllV(ctx, ID, p->sends, send_at, p->receives, recv_at, dfcclInt32,
                                  NULL);
  default:
    for (int other = 0; other < s->ranks; other++) {
      if (p->sends[other]) to_counts[n_to] = p->sends[other], to[n_to++] = other;
      if (p->receives[other]) from_counts[n_from] = p->receives[other], from[n_from++] = other;
    }
    return dfcclRegisterNeighbours(ctx, ID, n_to, to, to_counts, n_from, from, from_counts,
                                   dfcclInt32, NULL);
  }
}

static dfcclResult_t run_part(dfcclContext_t ctx, int kind, const void *send, void *recv) {
  switch (kind) {
  case ALL_GATHER_V:
    return dfcclRunAllGatherV(ctx, ID, send, recv, NULL, NULL);
  case REDUCE_SCATTER_V:
    return dfcclRunReduceScatterV(ctx, ID, send, recv, NULL, NULL);
  case GATHER_V:
    return dfcclRunGatherV(ctx, ID, send, recv, NULL, NULL);
  case SCATTER_V:
    return dfcclRunScatterV(ctx, ID, send, recv, NULL, NULL);
  case ALL_TO_ALL_V:
    return dfcclRunAllToAllV(ctx, ID, send, recv, NULL, NULL);
  default:
    return dfcclRunNeighbours(ctx, ID, send, recv, NULL, NULL);
  }
}

/* The smaller buffer as a part of the larger one. */
static void place(const scene *s, int rank, part *p, int in_place, int32_t **send, int32_t **recv) {
  *send = p->send;
  *recv = p->recv;
  if (!in_place) return;
  if (s->kind == ALL_GATHER_V || (s->kind == GATHER_V && rank == s->root)) {
    *send = p->recv + p->recv_at[rank];
    memcpy(*send, p->send, p->sends[rank] * sizeof **send);
  } else if (s->kind == REDUCE_SCATTER_V || (s->kind == SCATTER_V && rank == s->root)) {
    *recv = p->send + p->send_at[rank];
  }
}

/* All ranks in this thread, two runs. */
static void play(dfcclContext_t *ctxs, scene *s, int in_place) {
  part parts[RANKS_MOST];
  int32_t *send, *recv[RANKS_MOST];
  for (int rank = 0; rank < s->ranks; rank++) {
    parts[rank] = make_part(s, rank);
    OK(register_part(ctxs[rank], s, rank, &parts[rank]));
  }
  for (int run = 0; run < 2; run++) {
    s->offset = run * 17;
    for (int rank = 0; rank < s->ranks; rank++) {
      fill(s, rank, &parts[rank]);
      place(s, rank, &parts[rank], in_place, &send, &recv[rank]);
      OK(run_part(ctxs[rank], s->kind, send, recv[rank]));
    }
    for (int rank = 0; rank < s->ranks; rank++) OK(dfcclWait(ctxs[rank], ID));
    for (int rank = 0; rank < s->ranks; rank++) check(s, rank, &parts[rank], recv[rank]);
  }
  for (int rank = 0; rank < s->ranks; rank++) {
    OK(dfcclDeregister(ctxs[rank], ID));
    free(parts[rank].send);
    free(parts[rank].recv);
  }
}

static void play_many(size_t most, int rounds, int in_place) {
  df_random random = {most + (size_t)in_place};
  for (int ranks = 1; ranks <= RANKS_MOST; ranks += ranks < 4 ? 1 : 2) {
    dfcclContext_t ctxs[RANKS_MOST];
    df_make_contexts(ctxs, ranks, NULL);
    for (int kind = 0; kind < (in_place ? ALL_TO_ALL_V : KINDS); kind++)
      for (int round = 0; round < rounds; round++) {
        scene s = draw(kind, ranks, most, &random);
        play(ctxs, &s, in_place);
      }
    df_free_contexts(ctxs, ranks);
  }
}

DF_TEST(uneven, short_pieces, 60) { play_many(40, 12, 0); }
DF_TEST(uneven, short_pieces_in_place, 60) { play_many(40, 12, 1); }
DF_TEST(uneven, long_pieces, 120) { play_many(60000, 3, 0); }
DF_TEST(uneven, long_pieces_in_place, 120) { play_many(60000, 3, 1); }
DF_TEST(uneven, nothing_at_all, 30) { play_many(1, 1, 0); }

/* ---- between processes */

static void play_as(int rank, int ranks, const dfcclUniqueId *id, void *net) {
  setenv("DFCCL_NET", net, 1);
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  df_random random = {77};
  for (int kind = 0; kind < KINDS; kind++)
    for (int round = 0; round < 4; round++) {
      scene s = draw(kind, ranks, round < 2 ? 50 : 50000, &random);
      part p = make_part(&s, rank);
      OK(register_part(ctx, &s, rank, &p));
      for (int run = 0; run < 3; run++) {
        s.offset = run;
        fill(&s, rank, &p);
        OK(run_part(ctx, kind, p.send, p.recv));
        OK(dfcclWait(ctx, ID));
        check(&s, rank, &p, p.recv);
      }
      OK(dfcclDeregister(ctx, ID));
      free(p.send);
      free(p.recv);
    }
  df_finish(ctx);
}

DF_TEST(uneven, among_processes, 120) {
  static char *const nets[] = {"auto", "tcp"};
  for (int i = 0; i < 2; i++) {
    df_family family;
    df_fork(&family, 4, 100, play_as, nets[i]);
    df_join(&family);
  }
}

/* ---- what is refused, and what differs */

static const size_t one_two[2] = {1, 2}, two_one[2] = {2, 1}, two_two[2] = {2, 2};

static void expect_mismatch(dfcclContext_t *ctxs, int kind, const char *words) {
  int32_t buffer[2][8] = {{0}};
  dfcclResult_t results[2];
  for (int rank = 0; rank < 2; rank++)
    results[rank] = run_part(ctxs[rank], kind, buffer[rank], buffer[rank] + 4);
  for (int rank = 0; rank < 2; rank++) {
    if (results[rank] == dfcclSuccess) results[rank] = dfcclWait(ctxs[rank], ID);
    CHECK(results[rank] == dfcclMismatch, "rank %d: %s", rank, df_test_result_name(results[rank]));
    CHECK(df_mentions(dfcclGetLastError(ctxs[rank]), words), "rank %d: \"%s\" lacks \"%s\"", rank,
          dfcclGetLastError(ctxs[rank]), words);
    OK(dfcclDeregister(ctxs[rank], ID));
  }
}

DF_TEST(uneven, a_pair_that_differs_is_told, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  OK(dfcclRegisterAllToAllV(ctxs[0], ID, two_two, NULL, two_one, NULL, dfcclInt32, NULL));
  OK(dfcclRegisterAllToAllV(ctxs[1], ID, one_two, NULL, one_two, NULL, dfcclInt32, NULL));
  expect_mismatch(ctxs, ALL_TO_ALL_V, "elements");
  OK(dfcclRegisterAllGatherV(ctxs[0], ID, one_two, NULL, dfcclInt32, NULL));
  OK(dfcclRegisterAllGatherV(ctxs[1], ID, two_two, NULL, dfcclInt32, NULL));
  expect_mismatch(ctxs, ALL_GATHER_V, "elements");
  OK(dfcclRegisterGatherV(ctxs[0], ID, 1, one_two, NULL, dfcclInt32, 0, NULL));
  OK(dfcclRegisterGatherV(ctxs[1], ID, 3, NULL, NULL, dfcclInt32, 0, NULL));
  expect_mismatch(ctxs, GATHER_V, "3");
  df_free_contexts(ctxs, 2);
}

#define REFUSED(call, word)                                                                        \
  do {                                                                                             \
    RESULT(call, dfcclInvalidArgument);                                                            \
    CHECK(df_mentions(dfcclGetLastError(NULL), word), "\"%s\" lacks \"%s\"",                       \
          dfcclGetLastError(NULL), word);                                                          \
  } while (0)

DF_TEST(uneven, what_makes_no_sense_is_refused, 30) {
  dfcclContext_t ctxs[2];
  df_make_contexts(ctxs, 2, NULL);
  dfcclContext_t c = ctxs[0];
  const size_t huge[2] = {(size_t)1 << 50, 1}, many[2] = {(size_t)1 << 40, 0};
  const int twice[2] = {1, 1}, beyond[1] = {2};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.varying = 1;
  REFUSED(dfcclRegisterAllGatherV(NULL, ID, one_two, NULL, dfcclInt8, NULL), "NULL");
  REFUSED(dfcclRegisterAllGatherV(c, ID, NULL, NULL, dfcclInt8, NULL), "recvCounts is NULL");
  REFUSED(dfcclRegisterAllGatherV(c, ID, huge, NULL, dfcclInt8, NULL), "recvCounts[0]");
  REFUSED(dfcclRegisterAllGatherV(c, ID, many, NULL, dfcclInt8, NULL), "messages");
  REFUSED(dfcclRegisterReduceScatterV(c, ID, one_two, dfcclFloat32, dfcclBand, NULL), "bits");
  REFUSED(dfcclRegisterGatherV(c, ID, 1, one_two, NULL, dfcclInt8, 2, NULL), "root is 2");
  REFUSED(dfcclRegisterGatherV(c, ID, 5, one_two, NULL, dfcclInt8, 0, NULL), "to itself");
  REFUSED(dfcclRegisterScatterV(c, ID, NULL, NULL, 1, dfcclInt8, 0, NULL), "sendCounts is NULL");
  REFUSED(dfcclRegisterAllToAllV(c, ID, one_two, NULL, two_one, NULL, dfcclInt8, NULL),
          "to itself");
  REFUSED(dfcclRegisterNeighbours(c, ID, 2, twice, one_two, 0, NULL, NULL, dfcclInt8, NULL),
          "second time");
  REFUSED(dfcclRegisterNeighbours(c, ID, 0, NULL, NULL, 1, beyond, one_two, dfcclInt8, NULL),
          "recvFrom[0] is 2");
  if (df_config().backend != dfcclBackendCuda)
    REFUSED(dfcclRegisterAllGatherV(c, ID, one_two, NULL, dfcclInt8, &options), "varying");
  options.varying = 0;
  options.algorithm = "ring";
  REFUSED(dfcclRegisterAllGatherV(c, ID, one_two, NULL, dfcclInt8, &options), "ring");
  options.algorithm = "direct";
  OK(dfcclRegisterAllGatherV(c, ID, one_two, NULL, dfcclInt8, &options));
  df_free_contexts(ctxs, 2);
}
