#include "estimate.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "engine_dense.h"
#include "engine_oracle.h"
#include "engine_reference.h"
#include "engine_sparse.h"

const char *const df_engine_names[4] = {"sparse", "dense", "oracle", "reference"};

/* Rounds that a thread takes at once: enough that taking them costs nothing. */
enum { CHUNK_ROUNDS = 1024 };

/* One engine of any kind. */
typedef struct {
  df_engine kind;
  df_sparse sparse;
  df_expansion expansion;
  df_dense dense;
  df_reference reference;
} any_engine;

typedef struct {
  const df_config *config;
  const df_layout *layout;
  const df_estimate_options *options;
  df_field field;
  pthread_mutex_t lock; /* everything below */
  uint64_t next_round, deadlocks;
  uint64_t judged; /* rounds, for the progress line */
  dfcclResult_t result;
  char sentence[DF_SENTENCE_BYTES];
} shared_work;

void df_estimate_field(const df_config *config, const df_layout *layout, df_field *field) {
  df_field_init(field, config->seed, layout->slot_count, config->disorder_probability,
                config->model == DF_MODEL_SINGLE ? 1.0 : config->sync_probability);
}

static dfcclResult_t judge_create(any_engine *judge, df_engine kind, const df_config *config,
                                  const df_layout *layout, const df_field *field) {
  judge->kind = kind;
  if (kind == DF_ENGINE_SPARSE) return df_sparse_create(&judge->sparse, layout, field);
  if (kind == DF_ENGINE_REFERENCE)
    return df_reference_create(&judge->reference, layout, config, config->seed);
  dfcclResult_t result =
      df_expansion_create(&judge->expansion, layout, field, config->model == DF_MODEL_SINGLE);
  if (result == dfcclSuccess && kind == DF_ENGINE_DENSE) {
    result =
        df_dense_create(&judge->dense, layout->gpu_count, judge->expansion.sequences.coll_count);
    if (result != dfcclSuccess) df_expansion_destroy(&judge->expansion);
  }
  return result;
}

static void judge_destroy(any_engine *judge) {
  if (judge->kind == DF_ENGINE_SPARSE) {
    df_sparse_destroy(&judge->sparse);
  } else if (judge->kind == DF_ENGINE_REFERENCE) {
    df_reference_destroy(&judge->reference);
  } else {
    df_expansion_destroy(&judge->expansion);
    if (judge->kind == DF_ENGINE_DENSE) df_dense_destroy(&judge->dense);
  }
}

static dfcclResult_t judge_round(any_engine *judge, uint64_t round, bool *deadlock) {
  if (judge->kind == DF_ENGINE_SPARSE) return df_sparse_round(&judge->sparse, round, deadlock);
  if (judge->kind == DF_ENGINE_REFERENCE) return df_reference_round(&judge->reference, deadlock);
  dfcclResult_t result = df_expansion_round(&judge->expansion, round);
  if (result != dfcclSuccess) return result;
  if (judge->kind == DF_ENGINE_ORACLE)
    return df_oracle_deadlocks(&judge->expansion.sequences, round, deadlock);
  *deadlock = df_dense_deadlocks(&judge->dense, &judge->expansion.sequences);
  return dfcclSuccess;
}

/* Takes the next rounds; false when none are left or somebody failed. */
static bool take_rounds(shared_work *work, uint64_t *first, uint64_t *end) {
  const df_estimate_options *options = work->options;
  uint64_t size = options->engine == DF_ENGINE_REFERENCE ? options->stream_rounds : CHUNK_ROUNDS;
  if (size == 0) size = options->rounds;
  pthread_mutex_lock(&work->lock);
  *first = work->next_round;
  *end = size < options->rounds - *first ? *first + size : options->rounds;
  work->next_round = *end;
  bool more = work->result == dfcclSuccess && *first < *end;
  pthread_mutex_unlock(&work->lock);
  return more;
}

/* A round of the sparse engine takes less time than the lock. Engines that hold all events need a
 * millisecond to seconds. */
static void show_progress(shared_work *work, uint64_t round) {
  const uint64_t rounds = work->options->engine == DF_ENGINE_SPARSE ? 64 : 1;
  df_progress *progress = work->options->progress;
  if (!progress || !progress->terminal || round % rounds != 0) return;
  pthread_mutex_lock(&work->lock);
  work->judged += rounds;
  df_progress_update(progress, DF_MIN(work->judged, work->options->rounds), work->options->rounds);
  pthread_mutex_unlock(&work->lock);
}

static dfcclResult_t count_deadlocks(shared_work *work, any_engine *judge, uint64_t *deadlocks) {
  dfcclResult_t result = dfcclSuccess;
  for (uint64_t round, end; result == dfcclSuccess && take_rounds(work, &round, &end);) {
    if (judge->kind == DF_ENGINE_REFERENCE && work->options->stream_rounds > 0)
      df_reference_seed(&judge->reference,
                        work->config->seed + round / work->options->stream_rounds);
    for (; round < end && result == dfcclSuccess; round++) {
      bool deadlock = false;
      result = judge_round(judge, round, &deadlock);
      *deadlocks += deadlock;
      show_progress(work, round);
    }
  }
  return result;
}

static void *worker(void *argument) {
  shared_work *work = argument;
  any_engine *judge = calloc(1, sizeof *judge); /* an engine is too large for a small stack */
  uint64_t deadlocks = 0;
  dfcclResult_t result =
      judge ? judge_create(judge, work->options->engine, work->config, work->layout, &work->field)
            : df_fail(dfcclOutOfMemory, "no memory for an engine");
  if (result == dfcclSuccess) {
    result = count_deadlocks(work, judge, &deadlocks);
    judge_destroy(judge);
  }
  free(judge);
  pthread_mutex_lock(&work->lock);
  work->deadlocks += deadlocks;
  if (result != dfcclSuccess && work->result == dfcclSuccess) {
    work->result = result;
    snprintf(work->sentence, sizeof work->sentence, "%s", df_last_sentence());
  }
  pthread_mutex_unlock(&work->lock);
  return NULL;
}

dfcclResult_t df_estimate_run(const df_config *config, const df_layout *layout,
                              const df_estimate_options *options, df_estimate *estimate) {
  shared_work work = {.config = config, .layout = layout, .options = options};
  df_estimate_field(config, layout, &work.field);
  pthread_mutex_init(&work.lock, NULL);
  uint64_t start_ns = df_clock_ns(), chunks = options->rounds / CHUNK_ROUNDS + 1;
  unsigned threads = (unsigned)DF_MIN((uint64_t)options->threads, chunks);
  if (options->engine == DF_ENGINE_REFERENCE)
    threads = options->stream_rounds == 0
                  ? 1
                  : (unsigned)DF_MIN((uint64_t)options->threads,
                                     options->rounds / options->stream_rounds + 1);
  pthread_t *thread = calloc(threads, sizeof *thread);
  unsigned started = 0;
  while (thread && started + 1 < threads &&
         pthread_create(&thread[started], NULL, worker, &work) == 0)
    started++;
  worker(&work); /* this thread works too, and alone if no other could be started */
  for (unsigned i = 0; i < started; i++) pthread_join(thread[i], NULL);
  free(thread);
  pthread_mutex_destroy(&work.lock);
  *estimate =
      (df_estimate){options->rounds, work.deadlocks, (double)(df_clock_ns() - start_ns) * 1e-9};
  if (work.result != dfcclSuccess) return df_fail(work.result, "%s", work.sentence);
  return dfcclSuccess;
}

dfcclResult_t df_estimate_verdicts(const df_config *config, const df_layout *layout,
                                   df_engine engine, uint64_t first, uint64_t count,
                                   bool (*report)(void *context, uint64_t round, bool deadlock),
                                   void *context) {
  df_field field;
  df_estimate_field(config, layout, &field);
  any_engine *judge = calloc(1, sizeof *judge);
  if (!judge) return df_fail(dfcclOutOfMemory, "no memory for an engine");
  dfcclResult_t result = judge_create(judge, engine, config, layout, &field);
  if (result == dfcclSuccess) {
    for (uint64_t round = first; round < first + count && result == dfcclSuccess; round++) {
      bool deadlock = false;
      result = judge_round(judge, round, &deadlock);
      if (result == dfcclSuccess && !report(context, round, deadlock)) break;
    }
    judge_destroy(judge);
  }
  free(judge);
  return result;
}
