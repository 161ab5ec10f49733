#include "host/switching/tuning_store.h"

#include <stdlib.h>

#include "base/log.h"
#include "primitives/elements/types.h"

dfcclResult_t df_learning_open(dfcclContext_t context) {
  context->learnt.files = &context->settings.files;
  if (context->settings.tune_file[0] == '\0') return dfcclSuccess;
  df_learnt_describe_machine(context->learnt.machine, sizeof context->learnt.machine,
                             context->topology.n_cores, context->n_ranks,
                             context->topology.n_hosts);
  return df_learnt_read(&context->learnt, context->settings.tune_file);
}

void df_learning_write(dfcclContext_t context) {
  df_learnt *taken;
  pthread_mutex_lock(&context->lock);
  const uint32_t n = df_learnt_take_new(&context->learnt, &taken);
  pthread_mutex_unlock(&context->lock);
  if (n && df_learnt_write(context->settings.tune_file, context->learnt.machine, taken, n) !=
               dfcclSuccess)
    df_log(DF_LOG_WARN, "what was learnt is lost: %s", df_last_sentence());
  free(taken);
}

static df_memory_kind kind_of(const dfcclContext_t context, const df_coll *front) {
  return context->settings.backend == dfcclBackendCuda ? DF_MEMORY_CUDA : front->manner.memory;
}

static uint64_t bytes_of(const df_coll *front) {
  return df_larger_buffer(front->operation, front->n, front->count,
                          (uint32_t)df_type_size(front->type));
}

const df_rule *df_learning_find(const dfcclContext_t context, const df_coll *front) {
  return df_learnt_find(&context->learnt, front->operation, front->n, bytes_of(front),
                        kind_of(context, front));
}

void df_learning_note(dfcclContext_t context, const df_coll *front, df_rule rule, double us,
                      double registered_us) {
  if (context->settings.tune_file[0] == '\0') return;
  rule.operation = front->operation;
  rule.memory = kind_of(context, front);
  rule.ranks_least = rule.ranks_most = front->n;
  rule.bytes_least = rule.bytes_most = bytes_of(front);
  const df_learnt learnt = {.rule = rule, .us = us, .registered_us = registered_us, .is_new = 1};
  df_learnt_note(&context->learnt, &learnt);
}
