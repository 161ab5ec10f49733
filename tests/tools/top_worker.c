/*
 * Ranks in a situation that dfccl-top must recognise: top_worker [SITUATION [THREADS]]
 *
 * THREADS: the ranks are threads of this process; without it this process is one rank of a job that
 * a shell has started. Each rank prints its number and its process when it is in the situation, and
 * stays until it is killed or 100 seconds have passed. Rank 2 (rank 1 of two) is the odd one.
 */
#include <dfccl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1000, GRADIENTS = 7, CROSSED_A = 10, CROSSED_B = 11, SECONDS = 100 };

static const char *situation;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

typedef struct {
  dfcclContext_t ctx;
  int rank, ranks;
  float send[COUNT], recv[COUNT];
} member;

static int is(const char *word) { return strcmp(situation, word) == 0; }

static void ok(dfcclResult_t result) {
  if (result == dfcclSuccess) return;
  fprintf(stderr, "result %d: %s\n", (int)result, dfcclGetLastError(NULL));
  exit(1);
}

static void stay(void) {
  for (;;) pause();
}

static void say_ready(const member *self) {
  printf("rank %d %d\n", self->rank, (int)getpid());
  fflush(stdout);
}

static dfcclResult_t add(member *self, dfcclCollId_t id, const char *name, size_t count,
                         const int *ranks, int n) {
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  options.name = name;
  options.ranks = ranks;
  options.nRanks = n;
  return dfcclRegisterAllReduce(self->ctx, id, count, dfcclFloat32, dfcclSum, &options);
}

static void run(member *self, dfcclCollId_t id, dfcclCallback_t callback) {
  ok(dfcclRunAllReduce(self->ctx, id, self->send, self->recv, callback, NULL));
}

static void never_return(dfcclCollId_t id, dfcclResult_t status, void *arg) {
  (void)id, (void)status, (void)arg;
  stay();
}

static void loop(member *self, int is_odd) {
  ok(add(self, GRADIENTS, "gradients", COUNT, NULL, 0));
  for (int i = 0;; i++) {
    if (is_odd && is("late")) usleep(50000);
    run(self, GRADIENTS, NULL);
    ok(dfcclWait(self->ctx, GRADIENTS));
    if (i == 0) say_ready(self);
  }
}

/* Ranks 0 and 1 wait crosswise; all others are idle. */
static void cross(member *self) {
  static const int pair[2] = {0, 1};
  if (self->rank > 1) {
    say_ready(self);
    stay();
  }
  ok(add(self, CROSSED_A, "a", COUNT, pair, 2));
  ok(add(self, CROSSED_B, "b", COUNT, pair, 2));
  const dfcclCollId_t mine = self->rank == 0 ? CROSSED_A : CROSSED_B;
  run(self, mine, NULL);
  say_ready(self);
  ok(dfcclWait(self->ctx, mine));
}

static void hold(member *self) {
  ok(add(self, GRADIENTS, "gradients", COUNT, NULL, 0));
  run(self, GRADIENTS, never_return);
  run(self, GRADIENTS, NULL);
  say_ready(self);
  pthread_mutex_lock(&held); /* the main thread has it */
  stay();
}

static void *be_rank(void *argument) {
  member *self = argument;
  const int is_odd = self->rank == (self->ranks > 2 ? 2 : 1);
  if (is("busy") || is("late")) loop(self, is_odd);
  if (is("circle")) cross(self);
  if (is("held")) hold(self);
  if (is("mismatch")) {
    ok(add(self, GRADIENTS, "gradients", is_odd ? COUNT / 2 : COUNT, NULL, 0));
    say_ready(self);
    stay();
  }
  /* "registration", "run": the odd rank lacks it */
  if (!is_odd || is("run")) ok(add(self, GRADIENTS, "gradients", COUNT, NULL, 0));
  if (!is_odd) run(self, GRADIENTS, NULL);
  say_ready(self);
  if (!is_odd) (void)dfcclWait(self->ctx, GRADIENTS); /* fails if the odd rank dies */
  stay();
  return NULL;
}

int main(int argc, char **argv) {
  if (argc < 2) return 0;
  situation = argv[1];
  alarm(SECONDS);
  pthread_mutex_lock(&held);
  const int threads = argc > 2 ? atoi(argv[2]) : 0, n = threads ? threads : 1;
  member *members = calloc((size_t)n, sizeof *members);
  dfcclContext_t *ctxs = calloc((size_t)n, sizeof(*ctxs));
  if (members == NULL || ctxs == NULL) return 1;
  if (threads)
    ok(dfcclInitAll(ctxs, n, NULL));
  else
    ok(dfcclInitFromEnv(&ctxs[0], NULL));
  for (int i = 0; i < n; i++) {
    pthread_t thread;
    members[i].ctx = ctxs[i];
    ok(dfcclGetRank(ctxs[i], &members[i].rank, &members[i].ranks));
    if (pthread_create(&thread, NULL, be_rank, &members[i]) != 0) return 1;
  }
  stay();
}
