/*
 * The calls of a rank that another library executes: one after the other, in the order of the
 * program, as the process groups of torch do. The program's thread executes them itself while it
 * waits; a second thread does so while the program computes.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cli.h"
#include "common/element.h"
#include "plans/operation.h"
#include "replay_peer.h"
#include "replay_rank.h"

enum { CALL_TIMEOUT_SECONDS = 120 };

typedef struct replay_peer_rank {
  const replay_peer *peer;
  replay_peer_call *call; /* by collective */
  pthread_t thread;
  bool has_thread;
  pthread_mutex_t lock; /* protects all that follows */
  pthread_cond_t submitted, executed;
  uint32_t *queue; /* collectives in the order of the program's calls */
  size_t first, end, room;
  uint64_t *completed; /* by collective */
  bool executes;       /* a thread executes the first call of the queue */
  bool stopped;
  int waiting; /* threads that wait for `executed` */
} replay_peer_rank;

/* Written before the first call, because a signal handler cannot format. */
static char alarm_sentence[160];

/* A library that waits for ever would hang the job. */
static void on_alarm(int signal) {
  (void)signal;
  if (write(STDERR_FILENO, alarm_sentence, strlen(alarm_sentence)) < 0) _exit(DF_TOOL_FAILED);
  _exit(DF_TOOL_FAILED);
}

static bool run_alone(const replay_peer_call *call) {
  if (call->recv && call->send) memcpy(call->recv, call->send, call->count * call->element_bytes);
  return true;
}

/* One call, without the lock. */
static void execute(replay_rank *rank, uint32_t collective, uint64_t number) {
  replay_peer_rank *own = rank->peer;
  const replay_data *data = &rank->job->data;
  const replay_buffers *buffers = &rank->channel[collective].buffers;
  const uint32_t slot = (uint32_t)(number % rank->job->plan.collective[collective].slots);
  replay_peer_call call = own->call[collective];
  call.send = buffers->sends ? buffers->send[slot] : NULL;
  call.recv = buffers->receives ? buffers->recv[slot] : NULL;
  if (rank->is_checked) df_replay_buffers_clear(data, collective, buffers, slot);
  alarm(CALL_TIMEOUT_SECONDS);
  const bool fine = call.n_members == 1 ? run_alone(&call) : own->peer->run(&call);
  alarm(0);
  if (!fine) {
    df_replay_note_failure(rank, dfcclSystemError);
  } else if (rank->is_checked) {
    const int64_t wrong = df_replay_buffers_check(data, collective, buffers, slot);
    atomic_fetch_add(&rank->wrong, wrong < 0 ? 1 : wrong);
    atomic_fetch_add(&rank->runs, 1);
  }
}

static bool has_work(const replay_peer_rank *own) {
  return !own->executes && own->first < own->end && !own->stopped;
}

/* By the lock's holder, which has it again afterwards. */
static void execute_next(replay_rank *rank) {
  replay_peer_rank *own = rank->peer;
  const uint32_t collective = own->queue[own->first];
  const uint64_t number = own->completed[collective];
  own->executes = true;
  pthread_mutex_unlock(&own->lock);
  execute(rank, collective, number);
  pthread_mutex_lock(&own->lock);
  own->first++;
  own->completed[collective]++;
  own->executes = false;
  if (own->waiting > 0) pthread_cond_broadcast(&own->executed);
}

static void *execute_submitted(void *argument) {
  replay_rank *rank = argument;
  replay_peer_rank *own = rank->peer;
  pthread_mutex_lock(&own->lock);
  while (!own->stopped) {
    if (has_work(own))
      execute_next(rank);
    else
      pthread_cond_wait(&own->submitted, &own->lock);
  }
  pthread_mutex_unlock(&own->lock);
  return NULL;
}

void df_replay_peer_submit(replay_rank *rank, uint32_t collective) {
  replay_peer_rank *own = rank->peer;
  pthread_mutex_lock(&own->lock);
  if (own->first == own->end) own->first = own->end = 0;
  if (own->end == own->room) {
    const size_t room = 2 * own->room + 256;
    uint32_t *grown = realloc(own->queue, room * sizeof *grown);
    if (grown) {
      own->queue = grown;
      own->room = room;
    }
  }
  const bool has_room = own->end < own->room;
  if (has_room) own->queue[own->end++] = collective;
  if (has_work(own)) pthread_cond_signal(&own->submitted);
  pthread_mutex_unlock(&own->lock);
  if (!has_room) df_replay_note_failure(rank, dfcclOutOfMemory);
}

void df_replay_peer_await(replay_rank *rank, uint32_t collective, uint64_t number) {
  replay_peer_rank *own = rank->peer;
  pthread_mutex_lock(&own->lock);
  while (!own->stopped && own->first < own->end &&
         (collective == REPLAY_WAIT_ALL || own->completed[collective] <= number)) {
    if (has_work(own)) {
      execute_next(rank);
      continue;
    }
    own->waiting++;
    pthread_cond_wait(&own->executed, &own->lock);
    own->waiting--;
  }
  if (has_work(own)) pthread_cond_signal(&own->submitted);
  pthread_mutex_unlock(&own->lock);
}

bool df_replay_peer_meet(replay_rank *rank, bool sleeps) {
  alarm(CALL_TIMEOUT_SECONDS);
  const bool fine = rank->peer->peer->barrier(sleeps);
  alarm(0);
  if (!fine) df_tool_rank_fail(rank->self, -1, "a barrier of all ranks has failed");
  return fine;
}

void df_replay_peer_wake(replay_rank *rank) {
  replay_peer_rank *own = rank->peer;
  pthread_mutex_lock(&own->lock);
  own->stopped = true;
  pthread_cond_broadcast(&own->submitted);
  pthread_cond_broadcast(&own->executed);
  pthread_mutex_unlock(&own->lock);
}

/* ---- from beginning to end ---- */

/* The collectives of one group share its connections. */
static bool describe(replay_rank *rank, uint32_t number) {
  replay_peer_rank *own = rank->peer;
  const replay_collective *all = rank->job->plan.collective, *one = &all[number];
  replay_peer_call *call = &own->call[number];
  *call = (replay_peer_call){.type = one->type,
                             .reduction = one->reduction,
                             .element_bytes = df_tool_type_of(one->type)->bytes,
                             .count = (size_t)one->count,
                             .number = (int)number,
                             .group = -1,
                             .n_members = (int)one->n_members,
                             .place = (int)rank->channel[number].buffers.position,
                             .root = (int)one->root};
  if (!df_replay_peer_operation(one->operation, &call->operation)) return false;
  for (uint32_t i = 0; i < number && call->group < 0; i++)
    if (all[i].members == one->members && all[i].n_members == one->n_members)
      call->group = own->call[i].group;
  if (call->group < 0 && one->n_members > 1)
    call->group = own->peer->add_group(one->members, (int)one->n_members);
  return call->group >= 0 || one->n_members == 1;
}

static bool start_thread(replay_rank *rank) {
  replay_peer_rank *own = rank->peer;
  const struct sigaction action = {.sa_handler = on_alarm};
  snprintf(alarm_sentence, sizeof alarm_sentence,
           "dfccl-bench: rank %d: a call of %.64s has not ended after %d s\n", rank->self->rank,
           own->peer->library, CALL_TIMEOUT_SECONDS);
  sigaction(SIGALRM, &action, NULL);
  const int error = pthread_create(&own->thread, NULL, execute_submitted, rank);
  own->has_thread = error == 0;
  if (error != 0) df_tool_rank_fail(rank->self, -1, "no thread for the calls: %s", strerror(error));
  return own->has_thread;
}

bool df_replay_peer_rank_open(replay_rank *rank) {
  const replay_plan *plan = &rank->job->plan;
  replay_peer_rank *own = rank->peer = calloc(1, sizeof *own);
  if (own) {
    own->peer = rank->job->options.peer;
    pthread_mutex_init(&own->lock, NULL);
    pthread_cond_init(&own->submitted, NULL);
    pthread_cond_init(&own->executed, NULL);
    own->call = calloc(plan->collective_count + 1u, sizeof *own->call);
    own->completed = calloc(plan->collective_count + 1u, sizeof *own->completed);
  }
  if (!own || !own->call || !own->completed) {
    df_tool_rank_fail(rank->self, dfcclOutOfMemory, "out of memory for the calls");
    return false;
  }
  for (uint32_t i = 0; i < plan->collective_count; i++)
    if (rank->channel[i].buffers.is_member && !describe(rank, i)) {
      df_tool_rank_fail(rank->self, -1, "%s has no group for \"%.80s\"", own->peer->library,
                        plan->collective[i].name);
      return false;
    }
  return start_thread(rank);
}

void df_replay_peer_rank_close(replay_rank *rank) {
  replay_peer_rank *own = rank->peer;
  df_replay_peer_wake(rank);
  /* After a failure the other thread may be in a call that does not end: it keeps the rank. */
  if (own->has_thread && rank->self->outcome.code != 0) return;
  if (own->has_thread) pthread_join(own->thread, NULL);
  pthread_mutex_destroy(&own->lock);
  pthread_cond_destroy(&own->submitted);
  pthread_cond_destroy(&own->executed);
  free(own->call);
  free(own->completed);
  free(own->queue);
  free(own);
  rank->peer = NULL;
}
