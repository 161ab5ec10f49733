#include "demo_baseline.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "common/barrier.h"
#include "common/cli.h"

enum { NOTHING = -1 };

struct demo_baseline {
  size_t bytes; /* bytes of this whole structure */
  int n_ranks;
  const demo_layout *layout;
  pthread_mutex_t mutex; /* guards what follows */
  uint64_t executed;     /* collectives so far */
  bool deadlock, given_up;
  int head[DF_TOOL_MAX_RANKS]; /* the collective a rank runs, or NOTHING */
  uint32_t buffers[];          /* each rank's send elements, then its receive elements */
};

typedef struct {
  demo_engine engine;
  demo_baseline *baseline;
  df_tool_rank *self;
} baseline_engine;

static uint32_t *send_of(demo_baseline *baseline, int rank) {
  return baseline->buffers + (size_t)rank * 2 * baseline->layout->elements;
}

static uint32_t *receive_of(demo_baseline *baseline, int rank) {
  return send_of(baseline, rank) + baseline->layout->elements;
}

demo_baseline *demo_baseline_create(int n_ranks, const demo_layout *layout) {
  size_t bytes = sizeof(demo_baseline) + (size_t)n_ranks * 2 * layout->elements * sizeof(uint32_t);
  demo_baseline *baseline = df_tool_shared_alloc(bytes);
  if (baseline == NULL) return NULL;
  baseline->bytes = bytes;
  baseline->n_ranks = n_ranks;
  baseline->layout = layout;
  for (int r = 0; r < n_ranks; r++) baseline->head[r] = NOTHING;
  pthread_mutexattr_t mutex;
  pthread_mutexattr_init(&mutex);
  pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&mutex, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&baseline->mutex, &mutex);
  pthread_mutexattr_destroy(&mutex);
  return baseline;
}

void demo_baseline_destroy(demo_baseline *baseline) {
  if (baseline != NULL) df_tool_shared_free(baseline, baseline->bytes);
}

/* A process that died inside leaves the mutex marked: nothing more can come of this run. */
static void lock(demo_baseline *baseline) {
  if (pthread_mutex_lock(&baseline->mutex) != EOWNERDEAD) return;
  pthread_mutex_consistent(&baseline->mutex);
  baseline->given_up = true;
}

static void unlock(demo_baseline *baseline) { pthread_mutex_unlock(&baseline->mutex); }

/* Lets the others move. Polling, since a condition variable does not survive the death of a waiting
 * process. */
static void wait_for_move(demo_baseline *baseline, int times_before) {
  unlock(baseline);
  if (times_before < 1000)
    sched_yield();
  else
    nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
  lock(baseline);
}

void demo_baseline_give_up(demo_baseline *baseline) {
  lock(baseline);
  baseline->given_up = true;
  unlock(baseline);
}

bool demo_baseline_deadlocked(const demo_baseline *baseline) { return baseline->deadlock; }

/* Every rank has come to the collective: sums all contributions into every rank's result. */
static void execute(demo_baseline *baseline, int collective) {
  size_t offset = baseline->layout->offsets[collective];
  size_t count = baseline->layout->offsets[collective + 1] - offset;
  uint32_t *sum = receive_of(baseline, 0) + offset;
  memcpy(sum, send_of(baseline, 0) + offset, count * sizeof *sum);
  for (int r = 1; r < baseline->n_ranks; r++) {
    const uint32_t *other = send_of(baseline, r) + offset;
    for (size_t e = 0; e < count; e++) sum[e] += other[e];
  }
  for (int r = 1; r < baseline->n_ranks; r++)
    memcpy(receive_of(baseline, r) + offset, sum, count * sizeof *sum);
}

/*
 * Blocks until the collective has been executed. Only the others, coming to its collective, free a
 * rank that waits. Once every rank waits, and not all in one collective, none ever moves again.
 * That is a deadlock for certain, without a timeout.
 */
static bool baseline_run(demo_engine *base, int collective) {
  baseline_engine *engine = (baseline_engine *)base;
  demo_baseline *baseline = engine->baseline;
  lock(baseline);
  baseline->head[engine->self->rank] = collective;
  int waiting = 0, here = 0;
  for (int r = 0; r < baseline->n_ranks; r++) {
    waiting += baseline->head[r] != NOTHING;
    here += baseline->head[r] == collective;
  }
  uint64_t executed = baseline->executed;
  if (here == baseline->n_ranks) {
    execute(baseline, collective);
    for (int r = 0; r < baseline->n_ranks; r++) baseline->head[r] = NOTHING;
    baseline->executed++;
  } else if (waiting == baseline->n_ranks) {
    baseline->deadlock = true;
  } else {
    for (int i = 0; baseline->executed == executed && !baseline->deadlock && !baseline->given_up;
         i++)
      wait_for_move(baseline, i);
  }
  bool done = baseline->executed > executed;
  if (baseline->given_up) df_tool_rank_fail(engine->self, dfcclRemoteError, "another rank failed");
  unlock(baseline);
  if (done) ((demo_report *)engine->self->report)->completed++;
  return done;
}

/* One at a time: whenever this is called, nothing is executing on the rank's device. */
static bool baseline_synchronize(demo_engine *base) {
  (void)base;
  return true;
}

static bool baseline_begin(demo_engine *base) {
  (void)base;
  return true;
}

static bool baseline_finish(demo_engine *base) {
  (void)base;
  return true;
}

void demo_baseline_rank_main(df_tool_rank *self) {
  const demo_job *job = self->argument;
  baseline_engine engine = {.engine = {.send = send_of(job->baseline, self->rank),
                                       .receive = receive_of(job->baseline, self->rank),
                                       .begin = baseline_begin,
                                       .run = baseline_run,
                                       .synchronize = baseline_synchronize,
                                       .finish = baseline_finish},
                            .baseline = job->baseline,
                            .self = self};
  demo_program_run(&job->options, &job->layout, self->rank, &engine.engine, self);
}

/* The next rank, going round, that runs another collective: this rank waits for it. */
static int waits_for(const demo_baseline *baseline, int rank) {
  int other = rank;
  do other = (other + 1) % baseline->n_ranks;
  while (baseline->head[other] == baseline->head[rank]);
  return other;
}

/* The lowest rank of the circle. */
static int begin_of_circle(const demo_baseline *baseline) {
  /* After n_ranks steps along "waits for" the walk is inside the circle, wherever it began. */
  int first = 0;
  for (int step = 0; step < baseline->n_ranks; step++) first = waits_for(baseline, first);
  int lowest = first;
  for (int r = waits_for(baseline, first); r != first; r = waits_for(baseline, r))
    if (r < lowest) lowest = r;
  return lowest;
}

void demo_baseline_add_circle(const demo_baseline *baseline, cJSON *object) {
  const bool deadlock = baseline->deadlock;
  cJSON_AddBoolToObject(object, "deadlock", deadlock);
  cJSON *cycle = cJSON_AddArrayToObject(object, "cycle");
  const int lowest = deadlock ? begin_of_circle(baseline) : 0;
  int rank = lowest;
  for (bool is_closed = !deadlock; !is_closed; is_closed = rank == lowest) {
    char name[16];
    cJSON *one = cJSON_CreateObject();
    snprintf(name, sizeof name, "C%d", baseline->head[rank]);
    cJSON_AddNumberToObject(one, "rank", rank);
    cJSON_AddStringToObject(one, "waits_for", name);
    rank = waits_for(baseline, rank);
    cJSON_AddNumberToObject(one, "held_by", rank);
    cJSON_AddItemToArray(cycle, one);
  }
}

void demo_baseline_print_circle(const demo_baseline *baseline, FILE *stream) {
  const int lowest = begin_of_circle(baseline);
  int rank = lowest;
  fprintf(stream, "  rank %d runs C%d and waits for", rank, baseline->head[rank]);
  for (rank = waits_for(baseline, rank); rank != lowest; rank = waits_for(baseline, rank))
    fprintf(stream, " rank %d,\n  which runs C%d and waits for", rank, baseline->head[rank]);
  fprintf(stream, " rank %d: back to rank %d.\n", lowest, lowest);
}
