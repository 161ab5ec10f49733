/*
 * The engine coordinator, in Horovod's way: a thread of each rank takes part in rounds. In a round
 * each rank sends rank 0 the calls that its program has made since the last round. Rank 0 answers
 * with the calls that all members have made, in one order, and all ranks submit them in this order.
 * A round begins every millisecond, Horovod's default cycle, or when the round before has ended.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/clock.h"
#include "replay_rank.h"

enum {
  CYCLE_NS = 1000000,
  REPORTED = 127, /* calls that a rank reports in a round; more wait for the next one */
  NAMED = 255     /* calls that rank 0 names in a round */
};

typedef struct {
  uint32_t count;
  uint32_t collective[REPORTED];
} report_message;

typedef struct {
  uint32_t count;
  uint32_t end; /* all calls of the iteration have been named */
  uint32_t collective[NAMED];
} answer_message;

typedef struct replay_coordinator {
  pthread_t thread;
  bool has_thread, has_lock;
  dfcclCollId_t gather, broadcast;
  pthread_mutex_t lock; /* protects made, made_count, reported, named and stopped */
  pthread_cond_t released;
  uint32_t *made; /* collectives in the order of the program's calls */
  uint64_t made_count, made_room, reported, named;
  bool stopped;
  report_message report, *reports; /* reports: rank 0's, from all ranks */
  answer_message answer;
  uint64_t *released_by; /* by collective: calls that were released here */
  /* rank 0: */
  uint32_t **arrived; /* by collective: how often each member has reported it */
  uint32_t *common;   /* by collective: how often it was named */
  uint64_t total, pending_count, pending_first, named_in_all;
  uint32_t *pending; /* ready, and not named yet */
  double rounds, round_seconds;
} replay_coordinator;

/* ---- rank 0 ---- */

static bool open_root(replay_coordinator *own, const replay_plan *plan, int n_ranks) {
  own->reports = calloc((size_t)n_ranks, sizeof *own->reports);
  own->arrived = calloc(plan->collective_count + 1u, sizeof *own->arrived);
  own->common = calloc(plan->collective_count + 1u, sizeof *own->common);
  if (!own->reports || !own->arrived || !own->common) return false;
  for (uint32_t i = 0; i < plan->collective_count; i++) {
    own->arrived[i] = calloc(plan->collective[i].n_members, sizeof **own->arrived);
    if (!own->arrived[i]) return false;
    own->total += plan->collective[i].calls;
  }
  own->pending = malloc((own->total + 1) * sizeof *own->pending);
  return own->pending != NULL;
}

static void count_report(replay_coordinator *own, const replay_plan *plan, int from,
                         uint32_t collective) {
  const replay_collective *one = &plan->collective[collective];
  uint32_t fewest = UINT32_MAX;
  for (uint32_t i = 0; i < one->n_members; i++) {
    own->arrived[collective][i] += one->members[i] == from;
    if (own->arrived[collective][i] < fewest) fewest = own->arrived[collective][i];
  }
  if (fewest <= own->common[collective]) return;
  own->common[collective]++;
  own->pending[own->pending_count++] = collective;
}

static void answer_reports(replay_coordinator *own, const replay_plan *plan, int n_ranks) {
  for (int rank = 0; rank < n_ranks; rank++)
    for (uint32_t i = 0; i < own->reports[rank].count; i++)
      count_report(own, plan, rank, own->reports[rank].collective[i]);
  own->answer.count = 0;
  while (own->pending_first < own->pending_count && own->answer.count < NAMED) {
    own->answer.collective[own->answer.count++] = own->pending[own->pending_first++];
    own->named_in_all++;
  }
  own->answer.end = own->named_in_all == own->total;
}

static void forget_iteration(replay_coordinator *own, const replay_plan *plan) {
  own->pending_count = own->pending_first = own->named_in_all = 0;
  for (uint32_t i = 0; i < plan->collective_count && own->common; i++) {
    own->common[i] = 0;
    memset(own->arrived[i], 0, plan->collective[i].n_members * sizeof **own->arrived);
  }
}

/* ---- rounds ---- */

static void take_report(replay_coordinator *own) {
  pthread_mutex_lock(&own->lock);
  own->report.count = 0;
  while (own->reported < own->made_count && own->report.count < REPORTED)
    own->report.collective[own->report.count++] = own->made[own->reported++];
  pthread_mutex_unlock(&own->lock);
}

static dfcclResult_t play_round(replay_rank *rank) {
  replay_coordinator *own = rank->coordinator;
  const dfcclContext_t context = rank->self->context;
  take_report(own);
  dfcclResult_t result =
      dfcclRunGather(context, own->gather, &own->report, own->reports, NULL, NULL);
  if (result == dfcclSuccess) result = dfcclWait(context, own->gather);
  if (result != dfcclSuccess) return result;
  if (rank->self->rank == 0) answer_reports(own, &rank->job->plan, rank->self->n_ranks);
  result = dfcclRunBroadcast(context, own->broadcast, &own->answer, &own->answer, NULL, NULL);
  return result == dfcclSuccess ? dfcclWait(context, own->broadcast) : result;
}

static void release_named(replay_rank *rank) {
  replay_coordinator *own = rank->coordinator;
  uint64_t released = 0;
  for (uint32_t i = 0; i < own->answer.count; i++) {
    const uint32_t collective = own->answer.collective[i];
    if (!rank->channel[collective].buffers.is_member) continue;
    df_replay_release(rank, collective);
    released++;
  }
  if (released == 0) return;
  pthread_mutex_lock(&own->lock);
  for (uint32_t i = 0; i < own->answer.count; i++) own->released_by[own->answer.collective[i]]++;
  own->named += released;
  pthread_cond_broadcast(&own->released);
  pthread_mutex_unlock(&own->lock);
}

static void stop(replay_coordinator *own) {
  pthread_mutex_lock(&own->lock);
  own->stopped = true;
  pthread_cond_broadcast(&own->released);
  pthread_mutex_unlock(&own->lock);
}

static void *play_rounds(void *argument) {
  replay_rank *rank = argument;
  replay_coordinator *own = rank->coordinator;
  dfcclResult_t result = dfcclSuccess;
  for (bool ended = false; !ended && result == dfcclSuccess;) {
    const uint64_t begin = df_tool_now_ns();
    result = play_round(rank);
    const uint64_t took = df_tool_now_ns() - begin;
    own->rounds++;
    own->round_seconds += (double)took * 1e-9;
    if (result == dfcclSuccess) release_named(rank);
    ended = own->answer.end != 0;
    if (!ended && result == dfcclSuccess && took < CYCLE_NS)
      nanosleep(&(struct timespec){.tv_nsec = (long)(CYCLE_NS - took)}, NULL);
  }
  if (result != dfcclSuccess) df_replay_note_failure(rank, result);
  stop(own);
  return NULL;
}

/* ---- the program's side ---- */

bool df_replay_coordinator_open(replay_rank *rank) {
  const replay_plan *plan = &rank->job->plan;
  df_tool_rank *self = rank->self;
  replay_coordinator *own = rank->coordinator = calloc(1, sizeof *own);
  if (own) own->released_by = calloc(plan->collective_count + 1u, sizeof *own->released_by);
  if (!own || !own->released_by || (self->rank == 0 && !open_root(own, plan, self->n_ranks))) {
    df_tool_rank_fail(self, dfcclOutOfMemory, "out of memory for the coordinator");
    return false;
  }
  pthread_mutex_init(&own->lock, NULL);
  pthread_cond_init(&own->released, NULL);
  own->has_lock = true;
  own->gather = plan->collective_count + 1u;
  own->broadcast = plan->collective_count + 2u;
  return df_tool_rank_check(self,
                            dfcclRegisterGather(self->context, own->gather, sizeof(report_message),
                                                dfcclUint8, 0, NULL),
                            "the coordinator's gather") &&
         df_tool_rank_check(self,
                            dfcclRegisterBroadcast(self->context, own->broadcast,
                                                   sizeof(answer_message), dfcclUint8, 0, NULL),
                            "the coordinator's broadcast");
}

void df_replay_coordinator_close(replay_rank *rank) {
  replay_coordinator *own = rank->coordinator;
  for (uint32_t i = 0; own->arrived && i < rank->job->plan.collective_count; i++)
    free(own->arrived[i]);
  if (own->has_lock) {
    pthread_mutex_destroy(&own->lock);
    pthread_cond_destroy(&own->released);
  }
  free(own->arrived);
  free(own->common);
  free(own->pending);
  free(own->reports);
  free(own->released_by);
  free(own->made);
  free(own);
  rank->coordinator = NULL;
}

bool df_replay_coordinator_begin(replay_rank *rank) {
  replay_coordinator *own = rank->coordinator;
  own->made_count = own->reported = own->named = 0;
  own->stopped = false;
  forget_iteration(own, &rank->job->plan);
  own->has_thread = pthread_create(&own->thread, NULL, play_rounds, rank) == 0;
  if (!own->has_thread) df_tool_rank_fail(rank->self, -1, "no thread for the coordinator");
  return own->has_thread;
}

void df_replay_coordinator_made(replay_rank *rank, uint32_t collective) {
  replay_coordinator *own = rank->coordinator;
  pthread_mutex_lock(&own->lock);
  if (own->made_count == own->made_room) {
    const uint64_t room = 2 * own->made_room + 256;
    uint32_t *grown = realloc(own->made, room * sizeof *grown);
    if (grown) {
      own->made = grown;
      own->made_room = room;
    } else {
      df_replay_note_failure(rank, dfcclOutOfMemory);
    }
  }
  if (own->made_count < own->made_room) own->made[own->made_count++] = collective;
  pthread_mutex_unlock(&own->lock);
}

void df_replay_coordinator_await(replay_rank *rank, uint32_t collective, uint64_t number) {
  replay_coordinator *own = rank->coordinator;
  pthread_mutex_lock(&own->lock);
  while (!own->stopped && (collective == REPLAY_WAIT_ALL ? own->named < own->made_count
                                                         : own->released_by[collective] <= number))
    pthread_cond_wait(&own->released, &own->lock);
  pthread_mutex_unlock(&own->lock);
}

void df_replay_coordinator_end(replay_rank *rank) {
  if (rank->coordinator->has_thread) pthread_join(rank->coordinator->thread, NULL);
  rank->coordinator->has_thread = false;
}

void df_replay_coordinator_reset(replay_rank *rank) {
  rank->coordinator->rounds = rank->coordinator->round_seconds = 0;
}

void df_replay_coordinator_cost(const replay_rank *rank, double *rounds, double *seconds) {
  *rounds = rank->coordinator->rounds;
  *seconds = rank->coordinator->round_seconds;
}
