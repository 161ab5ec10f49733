#include "replay_rank.h"

#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "peers/peer.h"
#include "plans/operation.h"
#include "replay_compute.h"

static const replay_collective *collective_of(const replay_rank *rank, uint32_t number) {
  return &rank->job->plan.collective[number];
}

/* The abort ends what other ranks and threads wait for. */
void df_replay_note_failure(replay_rank *rank, dfcclResult_t result) {
  int none = dfcclSuccess;
  if (!atomic_compare_exchange_strong(&rank->failed, &none, (int)result)) return;
  if (rank->peer)
    df_replay_peer_wake(rank);
  else
    dfcclAbort(rank->self->context);
}

static bool has_failed(const replay_rank *rank) { return atomic_load(&rank->failed) != 0; }

/* ---- runs ---- */

static void submit_released(replay_channel *channel);

/* More calls than slots share the buffers, so each waits for the one before it in its slot. */
static bool uses_callbacks(const replay_channel *channel) {
  const replay_collective *one = collective_of(channel->rank, channel->number);
  return channel->rank->is_checked || one->calls > one->slots;
}

/* A run has ended: its result is checked before the next run of its slot. */
static void on_completion(dfcclCollId_t id, dfcclResult_t status, void *argument) {
  replay_channel *channel = argument;
  replay_rank *rank = channel->rank;
  (void)id;
  if (status != dfcclSuccess) {
    df_replay_note_failure(rank, status);
  } else if (rank->is_checked) {
    const uint32_t slot =
        (uint32_t)(channel->completed % collective_of(rank, channel->number)->slots);
    const int64_t wrong =
        df_replay_buffers_check(&rank->job->data, channel->number, &channel->buffers, slot);
    atomic_fetch_add(&rank->wrong, wrong < 0 ? 1 : wrong);
    atomic_fetch_add(&rank->runs, 1);
  }
  pthread_mutex_lock(&channel->lock);
  channel->completed++;
  submit_released(channel);
  pthread_mutex_unlock(&channel->lock);
}

/* By the lock's holder. A call that the library refuses because many wait on the host is submitted
 * when an earlier one of its collective has completed; the library refuses none that is alone. */
static void submit_released(replay_channel *channel) {
  replay_rank *rank = channel->rank;
  const uint32_t slots = collective_of(rank, channel->number)->slots;
  const bool calls_back = uses_callbacks(channel);
  while (channel->submitted < channel->released && !has_failed(rank)) {
    const uint32_t slot = (uint32_t)(channel->submitted % slots);
    if (calls_back && channel->submitted - channel->completed >= slots) return;
    dfcclRun_t run = DFCCL_RUN_INITIALIZER;
    run.sendBuf = channel->buffers.send[slot];
    run.recvBuf = channel->buffers.recv[slot];
    run.callback = calls_back ? on_completion : NULL;
    run.arg = channel;
    if (rank->is_checked)
      df_replay_buffers_clear(&rank->job->data, channel->number, &channel->buffers, slot);
    const dfcclResult_t result = dfcclRun(rank->self->context, channel->number, &run);
    if (result == dfcclInvalidUsage && calls_back && channel->submitted > channel->completed)
      return;
    if (result != dfcclSuccess) df_replay_note_failure(rank, result);
    channel->submitted++;
  }
}

void df_replay_release(replay_rank *rank, uint32_t collective) {
  if (rank->peer) {
    df_replay_peer_submit(rank, collective);
    return;
  }
  replay_channel *channel = &rank->channel[collective];
  pthread_mutex_lock(&channel->lock);
  channel->released++;
  submit_released(channel);
  pthread_mutex_unlock(&channel->lock);
}

/* Waits for the run of that number; runs before it submit those that wait for their slots. */
static void await_run(replay_rank *rank, uint32_t collective, uint64_t number) {
  if (rank->peer) {
    df_replay_peer_await(rank, collective, number);
    return;
  }
  replay_channel *channel = &rank->channel[collective];
  while (!has_failed(rank)) {
    pthread_mutex_lock(&channel->lock);
    const uint64_t submitted = channel->submitted;
    pthread_mutex_unlock(&channel->lock);
    if (submitted == 0) return;
    const uint64_t awaited = submitted > number ? number : submitted - 1;
    const dfcclResult_t result = dfcclWaitRun(rank->self->context, collective, awaited, -1);
    if (result != dfcclSuccess) df_replay_note_failure(rank, result);
    if (awaited == number) return;
  }
}

/* ---- the program ---- */

static void await_all(replay_rank *rank) {
  const replay_plan *plan = &rank->job->plan;
  if (rank->peer) {
    df_replay_peer_await(rank, REPLAY_WAIT_ALL, 0);
    return;
  }
  if (rank->coordinator) df_replay_coordinator_await(rank, REPLAY_WAIT_ALL, 0);
  for (uint32_t i = 0; i < plan->collective_count; i++) {
    replay_channel *channel = &rank->channel[i];
    if (!channel->buffers.is_member || plan->collective[i].calls <= plan->collective[i].slots)
      continue;
    pthread_mutex_lock(&channel->lock);
    const uint64_t released = channel->released;
    pthread_mutex_unlock(&channel->lock);
    if (released > 0) await_run(rank, i, released - 1);
  }
  const dfcclResult_t result = dfcclWaitAll(rank->self->context);
  if (result != dfcclSuccess) df_replay_note_failure(rank, result);
}

static void take_step(replay_rank *rank, const replay_step *step, bool computes) {
  if (step->waits) {
    const uint64_t number =
        rank->base * collective_of(rank, step->collective)->calls + step->ordinal;
    if (rank->coordinator) df_replay_coordinator_await(rank, step->collective, number);
    await_run(rank, step->collective, number);
  } else if (computes) {
    const double begin = df_tool_now_seconds();
    df_replay_compute(rank->job->options.compute, step->compute_us);
    rank->compute_seconds += df_tool_now_seconds() - begin;
  }
}

/* Lets calls go as far as all calls before them in the agreed order have been made. */
static void release_in_order(replay_rank *rank, uint32_t index) {
  const replay_plan *plan = &rank->job->plan;
  const uint64_t first = plan->first_item[rank->self->rank];
  const uint64_t count = plan->first_item[rank->self->rank + 1] - first;
  rank->made[index] = true;
  for (; rank->next < count && rank->made[rank->release_order[rank->next]]; rank->next++) {
    const replay_item *item = &plan->item[first + rank->release_order[rank->next]];
    if (item->collective != REPLAY_WAIT_ALL) df_replay_release(rank, item->collective);
  }
}

static void make_call(replay_rank *rank, uint32_t index, uint32_t collective) {
  if (rank->coordinator)
    df_replay_coordinator_made(rank, collective);
  else if (rank->release_order)
    release_in_order(rank, index);
  else
    df_replay_release(rank, collective);
}

static void play_items(replay_rank *rank, bool computes) {
  const replay_plan *plan = &rank->job->plan;
  const uint64_t first = plan->first_item[rank->self->rank];
  const uint64_t count = plan->first_item[rank->self->rank + 1] - first;
  for (uint64_t i = 0; i < count && !has_failed(rank); i++) {
    const replay_item *item = &plan->item[first + rank->order[i]];
    for (uint32_t s = 0; s < item->step_count; s++)
      take_step(rank, &plan->step[item->first_step + s], computes);
    if (item->collective != REPLAY_WAIT_ALL) {
      make_call(rank, rank->order[i], item->collective);
      continue;
    }
    if (rank->release_order) release_in_order(rank, rank->order[i]);
    await_all(rank);
  }
  await_all(rank);
}

static bool check_failure(replay_rank *rank) {
  if (rank->peer && has_failed(rank))
    df_tool_rank_fail(rank->self, -1, "a call of %s has failed", rank->job->options.peer->library);
  if (rank->peer) return rank->self->outcome.code == 0;
  return df_tool_rank_check(rank->self, (dfcclResult_t)atomic_load(&rank->failed), "a run");
}

/* Waits for all ranks without a core. Ranks that end early leave the cores to the others. */
static bool rest(replay_rank *rank) {
  if (rank->peer) return df_replay_peer_meet(rank, true);
  const dfcclContext_t context = rank->self->context;
  const dfcclCollId_t barrier = rank->job->plan.collective_count;
  dfcclResult_t result = dfcclRunBarrier(context, barrier, NULL, NULL);
  if (result == dfcclSuccess) result = dfcclWait(context, barrier);
  return df_tool_rank_check(rank->self, result, "a barrier");
}

static bool meet(replay_rank *rank) {
  if (rank->peer) return df_replay_peer_meet(rank, false);
  return df_tool_rank_meet(rank->self, rank->job->barrier);
}

/* All ranks begin together; *seconds is this rank's time. */
static bool play_iteration(replay_rank *rank, uint32_t iteration, bool computes, double *seconds) {
  const uint64_t first = rank->job->plan.first_item[rank->self->rank];
  const uint64_t count = rank->job->plan.first_item[rank->self->rank + 1] - first;
  df_replay_order(&rank->job->plan, &rank->job->options, rank->self->rank, iteration, rank->order);
  memset(rank->made, 0, count * sizeof *rank->made);
  rank->next = 0;
  rank->compute_seconds = 0;
  if (rank->coordinator && !df_replay_coordinator_begin(rank)) return false;
  if (!meet(rank)) df_replay_note_failure(rank, dfcclRemoteError);
  const double begin = df_tool_now_seconds();
  play_items(rank, computes);
  *seconds = df_tool_now_seconds() - begin;
  if (rank->coordinator) df_replay_coordinator_end(rank);
  rank->base++;
  return check_failure(rank) && rest(rank);
}

/* ---- a rank from beginning to end ---- */

static bool register_collective(replay_rank *rank, uint32_t number) {
  const replay_collective *one = collective_of(rank, number);
  const dfcclContext_t context = rank->self->context;
  const size_t count = (size_t)one->count;
  const int root = (int)one->root;
  dfcclCollOptions_t how = DFCCL_COLL_OPTIONS_INITIALIZER;
  how.ranks = one->members;
  how.nRanks = (int)one->n_members;
  how.priority = one->priority;
  how.name = one->name;
  dfcclResult_t result = dfcclInvalidArgument;
  switch (one->operation) {
#define CALL(ID, NAME, ...)                                                                        \
  case DF_OP_##ID:                                                                                 \
    result = dfcclRegister##NAME(context, number, __VA_ARGS__);                                    \
    break;
    CALL(ALL_REDUCE, AllReduce, count, one->type, one->reduction, &how)
    CALL(REDUCE, Reduce, count, one->type, one->reduction, root, &how)
    CALL(BROADCAST, Broadcast, count, one->type, root, &how)
    CALL(ALL_GATHER, AllGather, count, one->type, &how)
    CALL(REDUCE_SCATTER, ReduceScatter, count, one->type, one->reduction, &how)
    CALL(ALL_TO_ALL, AllToAll, count, one->type, &how)
    CALL(GATHER, Gather, count, one->type, root, &how)
    CALL(SCATTER, Scatter, count, one->type, root, &how)
    CALL(SEND_RECV, SendRecv, count, one->type, 0, one->n_members > 1 ? 1 : 0, &how)
    CALL(BARRIER, Barrier, &how)
#undef CALL
  }
  return df_tool_rank_check(rank->self, result, one->name);
}

static bool open_channels(replay_rank *rank) {
  const replay_plan *plan = &rank->job->plan;
  for (uint32_t i = 0; i < plan->collective_count; i++) {
    replay_channel *channel = &rank->channel[i];
    *channel = (replay_channel){.rank = rank, .number = i};
    pthread_mutex_init(&channel->lock, NULL);
    channel->buffers = df_replay_buffers_of(&plan->collective[i], rank->self->rank);
  }
  for (uint32_t i = 0; i < plan->collective_count; i++) {
    if (!rank->channel[i].buffers.is_member) continue;
    if (!df_replay_buffers_make(&rank->job->data, i, &rank->channel[i].buffers)) {
      df_tool_rank_fail(rank->self, dfcclOutOfMemory, "no memory for the buffers of %s",
                        plan->collective[i].name);
      return false;
    }
    if (!rank->job->options.peer && !register_collective(rank, i)) return false;
  }
  if (rank->job->options.peer) return df_replay_peer_rank_open(rank);
  return df_tool_rank_check(rank->self,
                            dfcclRegisterBarrier(rank->self->context, plan->collective_count, NULL),
                            "a barrier");
}

/* The library owns no buffer any more: all runs have ended, or the process ends. */
static void close_channels(replay_rank *rank) {
  const replay_plan *plan = &rank->job->plan;
  for (uint32_t i = 0; i < plan->collective_count; i++) {
    if (rank->self->outcome.code == 0)
      df_replay_buffers_free(&rank->job->data, i, &rank->channel[i].buffers);
    pthread_mutex_destroy(&rank->channel[i].lock);
  }
}

static bool check_results(replay_rank *rank, replay_report *report) {
  double seconds;
  rank->is_checked = true;
  if (!play_iteration(rank, 0, false, &seconds)) return false;
  rank->is_checked = false;
  report->runs = (uint64_t)atomic_load(&rank->runs);
  report->wrong = atomic_load(&rank->wrong);
  return meet(rank);
}

static bool time_iterations(replay_rank *rank, replay_report *report) {
  const replay_options *options = &rank->job->options;
  const bool counts = options->processes || options->env || rank->peer || rank->self->rank == 0;
  double seconds;
  if (!play_iteration(rank, 0, true, &seconds)) return false; /* the first is slower */
  if (rank->coordinator) df_replay_coordinator_reset(rank);
  for (int i = 0; i < options->iterations; i++) {
    replay_times *times = &report->times[i];
    if (!play_iteration(rank, (uint32_t)i, false, &times->communication)) return false;
    replay_core_times before = {0}, after = {0};
    if (counts) df_replay_core_times(&before);
    if (!play_iteration(rank, (uint32_t)i, true, &times->wall)) return false;
    times->compute = rank->compute_seconds;
    if (counts) df_replay_core_times(&after);
    /* A thread that has ended meanwhile is not counted. */
    if (after.ran_ns > before.ran_ns) report->ran_ns += after.ran_ns - before.ran_ns;
    if (after.waited_ns > before.waited_ns) report->waited_ns += after.waited_ns - before.waited_ns;
  }
  if (rank->coordinator) df_replay_coordinator_cost(rank, &report->rounds, &report->round_seconds);
  return true;
}

static bool allocate(replay_rank *rank) {
  const replay_plan *plan = &rank->job->plan;
  const int number = rank->self->rank;
  const uint64_t items = plan->first_item[number + 1] - plan->first_item[number];
  rank->channel = calloc(plan->collective_count + 1u, sizeof *rank->channel);
  rank->order = malloc((items + 1) * sizeof *rank->order);
  rank->made = calloc(items + 1, sizeof *rank->made);
  bool fine = rank->channel && rank->order && rank->made;
  if (fine && rank->job->options.engine == REPLAY_FIRST_STEP) {
    rank->release_order = malloc((items + 1) * sizeof *rank->release_order);
    fine = rank->release_order &&
           df_replay_first_step_order(plan, &rank->job->options, number, rank->release_order);
  }
  if (!fine) df_tool_rank_fail(rank->self, dfcclOutOfMemory, "out of memory for the program");
  return fine;
}

/* After a failure a thread of the engine may still be in a call of the other library: then the rank
 * keeps its memory until the process ends. */
static void free_rank(replay_rank *rank) {
  if (rank->peer) return;
  free(rank->channel);
  free(rank->order);
  free(rank->release_order);
  free(rank->made);
  free(rank);
}

void df_replay_rank_main(df_tool_rank *self) {
  replay_rank *rank = calloc(1, sizeof *rank);
  if (!rank) {
    df_tool_rank_fail(self, dfcclOutOfMemory, "out of memory for a rank");
    return;
  }
  rank->job = self->argument;
  rank->self = self;
  if (allocate(rank) && open_channels(rank)) {
    const bool coordinates = rank->job->options.engine == REPLAY_COORDINATOR;
    if ((!coordinates || df_replay_coordinator_open(rank)) && meet(rank) &&
        check_results(rank, self->report))
      time_iterations(rank, self->report);
    if (self->outcome.code == 0) meet(rank);
    if (self->outcome.code != 0) df_replay_on_failure(rank->job);
    if (self->outcome.code != 0 && !rank->peer) dfcclAbort(self->context);
    if (rank->coordinator) df_replay_coordinator_close(rank);
    if (rank->peer)
      df_replay_peer_rank_close(rank);
    else
      dfcclWaitAll(self->context);
    close_channels(rank);
  }
  df_replay_compute_end();
  free_rank(rank);
}

void df_replay_on_failure(void *argument) {
  replay_job *job = argument;
  df_tool_barrier_break(job->barrier);
}
