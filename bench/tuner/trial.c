/*
 * bench-tuner: what online tuning gains, and what it costs. For each operation, number of ranks
 * (threads) and size, two collectives are registered: as the library chooses, and tuned. Each is
 * run and waited for by all ranks. Columns:
 *
 *   default, tuned   microseconds of a run when the tuner has come to its end: medians of ROUNDS
 *                    rounds of both, in turn
 *   ratio            default / tuned, the median of the rounds' ratios
 *   variants, runs   measured by the tuner; runs until its end (or the most that it was given)
 *   lost             time of these runs against as many of default, in per cent; below 0: gained
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "dfccl.h"

enum { RANKS_MAX = 16, ROUNDS = 15, LOOKS_EVERY = 64, BEFORE = 400 };
enum { DEFAULT = 1, TUNED = 2 };
enum { ROUND_NS = 4000000, TUNING_NS = 2000000000 };

typedef struct trial {
  int ranks, operation;
  size_t count; /* elements of a rank's smaller buffer */
  dfcclContext_t ctxs[RANKS_MAX];
  atomic_long last; /* run of the tuned collective; 0: not known yet */
  pthread_barrier_t barrier;
  int runs_of_round;
  double before_us, tuning_us, us[2][ROUNDS];
  long tuning_runs;
} trial;

typedef struct place {
  trial *t;
  int rank;
  float *send, *recv;
} place;

static const char *const names[] = {"allreduce", "allgather", "reducescatter"};

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static void check(dfcclContext_t ctx, dfcclResult_t result) {
  if (result == dfcclSuccess) return;
  fprintf(stderr, "bench-tuner: %s\n", dfcclGetLastError(ctx));
  exit(1);
}

static void enroll(const place *p, dfcclCollId_t id) {
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  dfcclContext_t ctx = p->t->ctxs[p->rank];
  const size_t n = p->t->count;
  options.tune = id == TUNED ? 1 : -1;
  if (p->t->operation == 0)
    check(ctx, dfcclRegisterAllReduce(ctx, id, n, dfcclFloat32, dfcclSum, &options));
  else if (p->t->operation == 1)
    check(ctx, dfcclRegisterAllGather(ctx, id, n, dfcclFloat32, &options));
  else
    check(ctx, dfcclRegisterReduceScatter(ctx, id, n, dfcclFloat32, dfcclSum, &options));
}

static void run(const place *p, dfcclCollId_t id) {
  dfcclContext_t ctx = p->t->ctxs[p->rank];
  if (p->t->operation == 0)
    check(ctx, dfcclRunAllReduce(ctx, id, p->send, p->recv, NULL, NULL));
  else if (p->t->operation == 1)
    check(ctx, dfcclRunAllGather(ctx, id, p->send, p->recv, NULL, NULL));
  else
    check(ctx, dfcclRunReduceScatter(ctx, id, p->send, p->recv, NULL, NULL));
  check(ctx, dfcclWait(ctx, id));
}

static double runs_us(const place *p, dfcclCollId_t id, int n) {
  pthread_barrier_wait(&p->t->barrier);
  const double start = now_us();
  for (int i = 0; i < n; i++) run(p, id);
  const double end = now_us();
  pthread_barrier_wait(&p->t->barrier);
  return (end - start) / n;
}

static int has_ended(dfcclContext_t ctx) {
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER;
  check(ctx, dfcclGetConfiguration(ctx, TUNED, &c));
  return strstr(c.why, "tuner: it is watching") != NULL || strstr(c.why, "it has stopped") != NULL;
}

/* Rank 0 checks periodically; all ranks stop at the run that it names. */
static void tune(const place *p) {
  trial *t = p->t;
  const double start = now_us();
  for (long i = 1;; i++) {
    run(p, TUNED);
    if (p->rank == 0 && i % LOOKS_EVERY == 0 &&
        (has_ended(t->ctxs[0]) || now_us() - start > TUNING_NS * 1e-3)) {
      t->tuning_us = now_us() - start;
      t->tuning_runs = i;
      atomic_store(&t->last, i + 1);
    }
    if (i % LOOKS_EVERY == 1 && atomic_load(&t->last) == i) return;
  }
}

static void *be_rank(void *argument) {
  const place *p = argument;
  trial *t = p->t;
  enroll(p, DEFAULT);
  enroll(p, TUNED);
  runs_us(p, DEFAULT, BEFORE / 4);
  const double before = runs_us(p, DEFAULT, BEFORE);
  if (p->rank == 0) {
    t->before_us = before;
    t->runs_of_round = (int)(ROUND_NS * 1e-3 / before) + 4;
  }
  pthread_barrier_wait(&t->barrier);
  tune(p);
  for (int round = 0; round < ROUNDS; round++)
    for (int which = 0; which < 2; which++) {
      const double us = runs_us(p, which ? TUNED : DEFAULT, t->runs_of_round);
      if (p->rank == 0) t->us[which][round] = us;
    }
  return NULL;
}

static void *leave(void *ctx) {
  dfcclDestroy(ctx);
  return NULL;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}
static double median(double *values) {
  qsort(values, ROUNDS, sizeof *values, by_size);
  return values[ROUNDS / 2];
}

static void print(trial *t, size_t bytes) {
  dfcclConfiguration_t c = DFCCL_CONFIGURATION_INITIALIZER, d = DFCCL_CONFIGURATION_INITIALIZER;
  double ratios[ROUNDS];
  unsigned variants = 0;
  check(t->ctxs[0], dfcclGetConfiguration(t->ctxs[0], TUNED, &c));
  check(t->ctxs[0], dfcclGetConfiguration(t->ctxs[0], DEFAULT, &d));
  const char *tuner = strstr(c.why, "tuner:");
  if (tuner && (tuner = strchr(tuner, ';')) != NULL) sscanf(tuner, "; %u", &variants);
  for (int i = 0; i < ROUNDS; i++) ratios[i] = t->us[0][i] / t->us[1][i];
  const double fast = median(t->us[1]), slow = median(t->us[0]);
  printf("%-13s %5d %9zu %9.2f %9.2f %6.2f %-10s %-10s %8u %8ld %6.1f\n", names[t->operation],
         t->ranks, bytes, slow, fast, median(ratios), d.algorithm, c.algorithm, variants,
         t->tuning_runs, 100 * (t->tuning_us / (double)t->tuning_runs / slow - 1));
  fflush(stdout);
}

static void try_one(int operation, int ranks, size_t bytes) {
  trial t = {.ranks = ranks, .operation = operation};
  place places[RANKS_MAX];
  pthread_t threads[RANKS_MAX];
  const size_t all = bytes / sizeof(float);
  t.count = operation == 0 ? all : all / (size_t)ranks;
  if (t.count == 0) return;
  check(NULL, dfcclInitAll(t.ctxs, ranks, NULL));
  pthread_barrier_init(&t.barrier, NULL, (unsigned)ranks);
  for (int r = 0; r < ranks; r++) {
    places[r] = (place){&t, r, calloc(all + 16, sizeof(float)), calloc(all + 16, sizeof(float))};
    if (places[r].send == NULL || places[r].recv == NULL) exit(1);
    pthread_create(&threads[r], NULL, be_rank, &places[r]);
  }
  for (int r = 0; r < ranks; r++) pthread_join(threads[r], NULL);
  print(&t, bytes);
  for (int r = 0; r < ranks; r++) pthread_create(&threads[r], NULL, leave, t.ctxs[r]);
  for (int r = 0; r < ranks; r++) {
    pthread_join(threads[r], NULL);
    free(places[r].send);
    free(places[r].recv);
  }
  pthread_barrier_destroy(&t.barrier);
}

int main(int argc, char **argv) {
  const size_t most = argc > 1 ? (size_t)atol(argv[1]) : 4 << 20;
  if (argc > 2 || most < 8) {
    fprintf(stderr, "usage: bench-tuner [BYTES]    sizes from 8 B to BYTES (4 MiB)\n");
    return 2;
  }
  printf("%-13s %5s %9s %9s %9s %6s %-10s %-10s %8s %8s %6s\n", "operation", "ranks", "bytes",
         "default", "tuned", "ratio", "algorithm", "tuned", "variants", "runs", "lost%");
  for (int operation = 0; operation < 3; operation++)
    for (int ranks = 2; ranks <= 4; ranks *= 2)
      for (size_t bytes = 8; bytes <= most; bytes *= 8) try_one(operation, ranks, bytes);
  return 0;
}
