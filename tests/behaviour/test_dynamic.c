/*
 * Promises of AllToAllDynamic: counts are given only when it is run, and may be 0. Each receiver
 * gets the sizes of what has arrived, and the data at its place; nothing else of recvBuf is
 * written. Runs overlap, each with other counts, also between processes and over TCP. Data that
 * does not fit is refused.
 */
#include "support/processes.h"
#include "support/ranks.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 5, ID = 3, GAP = 3 };

/* The element that position `from` sends to `to` in a run. */
static size_t count_of(uint64_t seed, uint64_t run, int from, int to, size_t most) {
  df_random random = {seed + run * 7919 + (uint64_t)from * 131 + (uint64_t)to};
  df_random_next(&random);
  if (df_random_chance(&random, 25) || most == 0) return 0;
  if (df_random_chance(&random, 15)) return most;
  return (size_t)df_random_below(&random, (int)most + 1);
}

static int32_t value_of(uint64_t run, int from, int to, size_t i) {
  return (int32_t)(run * 40009 + (uint64_t)from * 1000003 + (uint64_t)to * 10007 + i * 7);
}

typedef struct {
  int ranks, rank;
  size_t most;
  uint64_t seed, run;
  int32_t *send, *recv;
  size_t counts[MOST_RANKS], displs[MOST_RANKS], got[MOST_RANKS];
} part;

static part make(int ranks, int rank, size_t most, uint64_t seed, uint64_t run) {
  part p = {.ranks = ranks, .rank = rank, .most = most, .seed = seed, .run = run};
  const size_t elements = (size_t)ranks * (most + GAP) + 1;
  size_t at = 0;
  p.send = malloc(elements * sizeof *p.send);
  p.recv = malloc(elements * sizeof *p.recv);
  CHECK(p.send != NULL && p.recv != NULL, "out of memory");
  memset(p.recv, 0xEE, elements * sizeof *p.recv);
  for (int to = 0; to < ranks; to++) {
    p.counts[to] = count_of(seed, run, rank, to, most);
    p.displs[to] = at;
    p.got[to] = 12345;
    for (size_t i = 0; i < p.counts[to]; i++) p.send[at + i] = value_of(run, rank, to, i);
    at += p.counts[to] + (run % 2 ? GAP : 0);
  }
  return p;
}

/* The odd runs have displacements, and are submitted by dfcclRun. */
static dfcclResult_t submit(dfcclContext_t ctx, part *p) {
  if (p->run % 2 == 0)
    return dfcclRunAllToAllDynamic(ctx, ID, p->send, p->counts, NULL, p->recv, p->got, NULL, NULL);
  size_t places[MOST_RANKS];
  for (int i = 0; i < p->ranks; i++) places[i] = (size_t)i * (p->most + GAP);
  dfcclRun_t run = DFCCL_RUN_INITIALIZER;
  run.sendBuf = p->send;
  run.recvBuf = p->recv;
  run.sendCounts = p->counts;
  run.sendDispls = p->displs;
  run.recvCounts = p->got;
  run.recvDispls = places;
  return dfcclRun(ctx, ID, &run);
}

static void check(part *p) {
  const size_t step = p->most + (p->run % 2 ? GAP : 0);
  for (int from = 0; from < p->ranks; from++) {
    const size_t wanted = count_of(p->seed, p->run, from, p->rank, p->most);
    CHECK(p->got[from] == wanted, "rank %d, run %d: %zu from %d instead of %zu", p->rank,
          (int)p->run, p->got[from], from, wanted);
    for (size_t i = 0; i < step; i++) {
      const int32_t is = p->recv[(size_t)from * step + i];
      const int32_t should_be =
          i < wanted ? value_of(p->run, from, p->rank, i) : (int32_t)0xEEEEEEEE;
      CHECK(is == should_be, "rank %d of %d, run %d, most %zu: element %zu from %d is %d, not %d",
            p->rank, p->ranks, (int)p->run, p->most, i, from, is, should_be);
    }
  }
  free(p->send);
  free(p->recv);
}

static const size_t mosts[] = {0, 1, 30, 5000, 200000};

/* Six runs are submitted before the first wait: more than the daemon holds. */
static void take_part(dfcclContext_t ctx, int rank, int ranks) {
  enum { RUNS = 6 };
  for (size_t m = 0; m < sizeof mosts / sizeof mosts[0]; m++) {
    part parts[RUNS];
    OK(dfcclRegisterAllToAllDynamic(ctx, ID, mosts[m], dfcclInt32, NULL));
    for (uint64_t run = 0; run < RUNS; run++) {
      parts[run] = make(ranks, rank, mosts[m], m, run);
      OK(submit(ctx, &parts[run]));
    }
    OK(dfcclWait(ctx, ID));
    for (uint64_t run = 0; run < RUNS; run++) check(&parts[run]);
    OK(dfcclDeregister(ctx, ID));
  }
}

static dfcclContext_t ctxs[MOST_RANKS];
static int n_ranks;

static void as_thread(int rank, void *arg) {
  (void)arg;
  take_part(ctxs[rank], rank, n_ranks);
}

static void in_threads(void) {
  for (n_ranks = 1; n_ranks <= MOST_RANKS; n_ranks++) {
    df_make_contexts(ctxs, n_ranks, NULL);
    df_in_threads(n_ranks, as_thread, NULL);
    df_free_contexts(ctxs, n_ranks);
  }
}

DF_TEST(dynamic, counts_of_the_moment, 60) { in_threads(); }

DF_TEST(dynamic, preempted_at_every_step, 60) {
  df_tune("preempt_every", "1");
  in_threads();
}

DF_TEST(dynamic, small_slots_and_lent_buffers, 60) {
  df_tune("slot_bytes", "256");
  df_tune("slots", "2");
  df_tune("ring_bytes", "0");
  df_tune("lend_min", "64");
  in_threads();
}

static void as_process(int rank, int ranks, const dfcclUniqueId *id, void *net) {
  setenv("DFCCL_NET", net, 1);
  dfcclContext_t ctx = df_init(rank, ranks, id, NULL);
  take_part(ctx, rank, ranks);
  df_finish(ctx);
}

DF_TEST(dynamic, among_processes, 120) {
  static char *const nets[] = {"auto", "tcp"};
  for (int i = 0; i < 2; i++) {
    df_family family;
    df_fork(&family, 4, 100, as_process, nets[i]);
    df_join(&family);
  }
}

#define REFUSED(call, code, word)                                                                  \
  do {                                                                                             \
    RESULT(call, code);                                                                            \
    CHECK(df_mentions(dfcclGetLastError(NULL), word), "\"%s\" lacks \"%s\"",                       \
          dfcclGetLastError(NULL), word);                                                          \
  } while (0)

DF_TEST(dynamic, invalid_arguments_are_refused, 30) {
  const size_t counts[2] = {4, 5}, many[2] = {6, 0};
  int32_t buffer[32] = {0};
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  dfcclRun_t run = DFCCL_RUN_INITIALIZER;
  df_make_contexts(ctxs, 2, NULL);
  dfcclContext_t c = ctxs[0];
  options.varying = 1;
  REFUSED(dfcclRegisterAllToAllDynamic(c, ID, 5, dfcclInt32, &options), dfcclInvalidArgument,
          "varying");
  options.varying = 0;
  options.algorithm = "bruck";
  REFUSED(dfcclRegisterAllToAllDynamic(c, ID, 5, dfcclInt32, &options), dfcclInvalidArgument,
          "bruck");
  OK(dfcclRegisterAllToAllDynamic(c, ID, 5, dfcclInt32, NULL));
  OK(dfcclRegisterAllToAll(c, ID + 1, 5, dfcclInt32, NULL));
  REFUSED(dfcclRunAllToAllDynamic(c, ID, buffer, NULL, NULL, buffer + 16, NULL, NULL, NULL),
          dfcclInvalidArgument, "sendCounts is NULL");
  REFUSED(dfcclRunAllToAllDynamic(c, ID, buffer, many, NULL, buffer + 16, NULL, NULL, NULL),
          dfcclInvalidArgument, "sendCounts[0] is 6");
  REFUSED(dfcclRunAllToAllDynamic(c, ID, NULL, counts, NULL, buffer + 16, NULL, NULL, NULL),
          dfcclInvalidArgument, "sendBuf");
  REFUSED(dfcclRunAllToAllDynamic(c, ID, buffer, counts, NULL, NULL, NULL, NULL, NULL),
          dfcclInvalidArgument, "recvBuf");
  REFUSED(dfcclRunAllToAllDynamic(c, ID + 1, buffer, counts, NULL, buffer + 16, NULL, NULL, NULL),
          dfcclInvalidArgument, "registered as AllToAll");
  REFUSED(dfcclRunAllToAll(c, ID, buffer, buffer + 16, NULL, NULL), dfcclInvalidArgument,
          "AllToAllDynamic");
  run.sendBuf = buffer;
  run.recvBuf = buffer + 16;
  REFUSED(dfcclRun(c, ID, &run), dfcclInvalidArgument, "run.sendCounts");
  run.sendCounts = counts;
  REFUSED(dfcclRun(c, ID + 1, &run), dfcclInvalidArgument, "registered as AllToAll");
  run.count = 5;
  REFUSED(dfcclRun(c, ID, &run), dfcclInvalidArgument, "run.count");
  df_free_contexts(ctxs, 2);
}

DF_TEST(dynamic, members_that_differ_get_a_mismatch, 30) {
  const size_t none[2] = {0, 0};
  int32_t buffer[32] = {0};
  df_make_contexts(ctxs, 2, NULL);
  OK(dfcclRegisterAllToAllDynamic(ctxs[0], ID, 5, dfcclInt32, NULL));
  OK(dfcclRegisterAllToAllDynamic(ctxs[1], ID, 6, dfcclInt32, NULL));
  for (int rank = 0; rank < 2; rank++) {
    dfcclResult_t result =
        dfcclRunAllToAllDynamic(ctxs[rank], ID, NULL, none, NULL, buffer + 16, NULL, NULL, NULL);
    if (result == dfcclSuccess) result = dfcclWait(ctxs[rank], ID);
    CHECK(result == dfcclMismatch, "rank %d: %s", rank, df_test_result_name(result));
  }
  df_free_contexts(ctxs, 2);
}
