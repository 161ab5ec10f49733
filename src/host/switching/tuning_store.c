#include "host/switching/tuning_store.h"

#include <stdlib.h>

#include "base/log.h"
#include "base/mutex.h"
#include "primitives/elements/types.h"

dfcclResult_t df_tuning_store_open(dfcclContext_t context) {
  context->tuning_cache.files = &context->settings.files;
  if (context->settings.tune_file[0] == '\0') return dfcclSuccess;
  df_tuning_cache_describe_machine(context->tuning_cache.machine,
                                   sizeof context->tuning_cache.machine, context->topology.n_cores,
                                   context->n_ranks, context->topology.n_hosts);
  return df_tuning_cache_read(&context->tuning_cache, context->settings.tune_file);
}

void df_tuning_store_write(dfcclContext_t context) {
  df_tuning_cache *taken;
  df_rank_lock(&context->lock);
  const uint32_t n = df_tuning_cache_take_new(&context->tuning_cache, &taken);
  df_rank_unlock(&context->lock);
  if (n && df_tuning_cache_write(context->settings.tune_file, context->tuning_cache.machine, taken,
                                 n) != dfcclSuccess)
    df_log(DF_LOG_WARN, "the tuning results of this job are lost: %s", df_last_sentence());
  free(taken);
}

static df_memory_kind kind_of(const dfcclContext_t context, const df_coll *registered) {
  return context->settings.backend == dfcclBackendCuda ? DF_MEMORY_CUDA
                                                       : registered->exec.configuration.memory;
}

static uint64_t larger_buffer_bytes(const df_coll *registered) {
  return df_larger_buffer(registered->operation, registered->n, registered->count,
                          (uint32_t)df_type_size(registered->type));
}

const df_rule *df_tuning_store_find(const dfcclContext_t context, const df_coll *registered) {
  return df_tuning_cache_find(&context->tuning_cache, registered->operation, registered->n,
                              larger_buffer_bytes(registered), kind_of(context, registered));
}

void df_tuning_store_note(dfcclContext_t context, const df_coll *registered, df_rule rule,
                          double us, double registered_us) {
  if (context->settings.tune_file[0] == '\0') return;
  rule.operation = registered->operation;
  rule.memory = kind_of(context, registered);
  rule.ranks_least = rule.ranks_most = registered->n;
  rule.bytes_least = rule.bytes_most = larger_buffer_bytes(registered);
  const df_tuning_cache tuning_cache = {
      .rule = rule, .us = us, .registered_us = registered_us, .is_new = 1};
  df_tuning_cache_note(&context->tuning_cache, &tuning_cache);
}
