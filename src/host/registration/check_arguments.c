#include "host/registration/check_arguments.h"
#include "base/escape.h"
#include "host/registration/user_operators.h"
#include "host/state/registry.h"
#include "tuning/tuner_plugin.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

uint32_t df_group_size(dfcclContext_t context, const dfcclCollOptions_t *options) {
  return options && options->ranks ? (uint32_t)options->nRanks : context->n_ranks;
}

uint64_t df_registered_count(const df_registration *r) {
  uint64_t sent = 0, received = 0;
  if (r->lists == NULL) return r->count;
  for (uint32_t i = 0; i < r->lists->n_sends; i++) sent += r->lists->sends[i].count;
  for (uint32_t i = 0; i < r->lists->n_receives; i++) received += r->lists->receives[i].count;
  return DF_MAX(sent, received);
}

static dfcclResult_t check_group(dfcclContext_t context, const dfcclCollOptions_t *options) {
  if (options->ranks == NULL) {
    if (options->nRanks != 0)
      return df_fail(dfcclInvalidArgument,
                     "options.ranks is NULL but options.nRanks is %d; it must be 0 then",
                     options->nRanks);
    return dfcclSuccess;
  }
  if (options->nRanks < 1 || (uint32_t)options->nRanks > context->n_ranks)
    return df_fail(dfcclInvalidArgument, "options.nRanks is %d; a group has 1 to %u ranks here",
                   options->nRanks, context->n_ranks);
  uint8_t *seen = calloc(context->n_ranks, 1);
  if (seen == NULL)
    return df_fail(dfcclOutOfMemory, "no memory to check a group of %d ranks", options->nRanks);
  dfcclResult_t result = dfcclSuccess;
  for (int i = 0; i < options->nRanks && result == dfcclSuccess; i++) {
    int rank = options->ranks[i];
    if (rank < 0 || (uint32_t)rank >= context->n_ranks)
      result = df_fail(dfcclInvalidArgument, "options.ranks[%d] is %d; ranks go from 0 to %u", i,
                       rank, context->n_ranks - 1);
    else if (seen[rank]++)
      result =
          df_fail(dfcclInvalidArgument, "options.ranks[%d] names rank %d a second time", i, rank);
  }
  if (result == dfcclSuccess && !seen[context->rank])
    result = df_fail(dfcclInvalidArgument, "options.ranks does not contain this rank, %u",
                     context->rank);
  free(seen);
  return result;
}

static dfcclResult_t check_options(dfcclContext_t context, const dfcclCollOptions_t *options) {
  if (options == NULL) return dfcclSuccess;
  if (options->tune < -1 || options->tune > 1)
    return df_fail(dfcclInvalidArgument, "options.tune is %d; it must be -1, 0 or 1",
                   options->tune);
  if (options->varying != 0 && options->varying != 1)
    return df_fail(dfcclInvalidArgument, "options.varying is %d; it must be 0 or 1",
                   options->varying);
  if (options->varying && !context->device.kind->has_varying)
    return df_fail(dfcclInvalidUsage,
                   "options.varying is 1, but rank %u uses the %s device, whose runs have the "
                   "registered count",
                   context->rank, context->device.kind->name);
  return check_group(context, options);
}

/* Returns the same answer on every member, because two ranks share a process or do not. */
static int in_one_process(dfcclContext_t context, const dfcclCollOptions_t *options, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t rank = options && options->ranks ? (uint32_t)options->ranks[i] : i;
    if (rank != context->rank && !context->control.peers[rank].local) return 0;
  }
  return 1;
}

/* Returns the same answer on every member, as in_one_process does. */
static int on_one_gpu(dfcclContext_t context, const dfcclCollOptions_t *options, uint32_t n) {
  if (context->settings.backend != dfcclBackendCuda || !in_one_process(context, options, n))
    return 0;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t rank = options && options->ranks ? (uint32_t)options->ranks[i] : i;
    if (rank != context->rank && !context->device.memory->lends_to(&context->device, rank))
      return 0;
  }
  return 1;
}

uint32_t df_most_blocks(dfcclContext_t context, uint32_t n, uint32_t hosts) {
  const int is_far = hosts > 1 && !df_topology_is_oversubscribed(&context->topology, n);
  return is_far ? context->max_blocks : context->near_blocks;
}

df_configuration_question df_configuration_question_of(dfcclContext_t context,
                                                       const df_registration *r) {
  uint32_t n = df_group_size(context, r->options);
  uint32_t element_bytes = (uint32_t)df_type_size(r->type);
  const int dynamic = r->operation == DF_OP_ALL_TO_ALL_DYNAMIC;
  const df_topology_spread spread =
      df_topology_spread_of(&context->topology, r->options ? r->options->ranks : NULL, n);
  return (df_configuration_question){
      .tuning = &context->settings.tuning,
      .topology = &context->topology,
      .choice = {.name = dynamic      ? "direct"
                         : r->options ? r->options->algorithm
                                      : NULL,
                 .files = context->settings.algorithms,
                 .file = r->file,
                 .varying = dynamic || (r->options && r->options->varying),
                 .operation = dynamic ? DF_OP_ALL_TO_ALL : r->operation,
                 .n = n,
                 /* 0 for vector collectives: each member sees only its own pieces, so members would
                  * differ. */
                 .bytes = r->lists ? 0 : df_larger_buffer(r->operation, n, r->count, element_bytes),
                 .memory =
                     in_one_process(context, r->options, n) ? DF_MEMORY_PROCESS : DF_MEMORY_HOST,
                 .oversubscribed = (uint32_t)df_topology_is_oversubscribed(&context->topology, n),
                 .on_gpu = context->settings.backend == dfcclBackendCuda,
                 .split = (uint32_t)context->settings.tuning.policy.split,
                 .lanes = (uint32_t)context->settings.tuning.policy.lanes,
                 .hosts = spread.hosts,
                 .smallest_host = spread.smallest,
                 .largest_host = spread.largest,
                 .neighbours = df_topology_neighbours(&context->topology,
                                                      r->options ? r->options->ranks : NULL, n)},
      .count = df_registered_count(r),
      .varying = dynamic || (r->options && r->options->varying),
      .element_bytes = element_bytes,
      .max_blocks = df_most_blocks(context, n, spread.hosts),
      .on_gpu = context->settings.backend == dfcclBackendCuda,
      .on_one_gpu = on_one_gpu(context, r->options, n),
      .host_sees_links = context->device.memory->host_sees_links,
      .has_borrowed_turns = context->device.executor->first_turn != NULL};
}

/* Asks the tuner plugin, and offers the model's times of the algorithms that it may choose. The
 * caller does not hold the context's lock, because a plugin may take long. */
static void ask_plugin(dfcclContext_t context, const df_configuration_question *q,
                       df_advice *advice) {
  const long long slot = context->settings.tuning.policy.slot_bytes;
  df_tuner_plugin_ask(context->tuner_plugin,
                      &(df_advice_question){
                          .operation = q->choice.operation,
                          .n = q->choice.n,
                          .n_hosts = DF_MAX(q->choice.hosts, 1u),
                          .bytes = q->choice.bytes,
                          .reaches_buffers = q->choice.memory == DF_MEMORY_PROCESS,
                          .slot_bytes = (uint32_t)slot,
                          .tree_us = df_configuration_predict(q, DF_DOUBLE_TREE, 0, (uint64_t)slot),
                          .ring_us = df_configuration_predict(q, DF_RING, 0, (uint64_t)slot),
                          .pat_us = df_configuration_predict(q, DF_PAT, 0, (uint64_t)slot)},
                      advice);
}

static int choose_configuration(dfcclContext_t context, df_configuration_question *question,
                                df_configuration *configuration) {
  df_advice advice;
  if (context->tuner_plugin && df_choice_takes_advice(question->tuning, &question->choice)) {
    ask_plugin(context, question, &advice);
    question->choice.advice = &advice;
  }
  const int chosen = df_configuration_choose(configuration, question);
  question->choice.advice = NULL;
  return chosen;
}

static dfcclResult_t check_operator(const df_registration *r) {
  if ((int)r->op < dfcclSum || (int)r->op >= DF_REDUCE_OPERATORS)
    return df_fail(dfcclInvalidArgument, "invalid reduction operator %d (valid: 0 to %d)",
                   (int)r->op, DF_REDUCE_OPERATORS - 1);
  if (df_operation_is_scan(r->operation) && r->op == dfcclAvg)
    return df_fail(dfcclInvalidArgument, "a scan has no dfcclAvg: its results have different "
                                         "numbers of operands");
  if (!df_type_has_operator(r->type, r->op))
    return df_fail(dfcclInvalidArgument,
                   "reduction operator %d combines bits, but data type %d is a floating-point type",
                   (int)r->op, (int)r->type);
  return dfcclSuccess;
}

static dfcclResult_t check_dynamic(dfcclContext_t context, const dfcclCollOptions_t *options) {
  if (!context->device.kind->has_varying)
    return df_fail(dfcclInvalidUsage,
                   "rank %u uses the %s device, which has no AllToAllDynamic: its runs have the "
                   "registered count",
                   context->rank, context->device.kind->name);
  const char *name = options ? options->algorithm : NULL;
  if (name == NULL || strcmp(name, "auto") == 0 || strcmp(name, "direct") == 0) return dfcclSuccess;
  char escaped[DF_MAX_NAME];
  df_escape(escaped, sizeof escaped, name);
  return df_fail(dfcclInvalidArgument,
                 "options.algorithm is \"%s\", which AllToAllDynamic does not have; it has "
                 "\"direct\"",
                 escaped);
}

dfcclResult_t df_registration_check(dfcclContext_t context, const df_registration *r,
                                    df_configuration_question *question,
                                    df_configuration *configuration) {
  dfcclResult_t result = check_options(context, r->options);
  if (result != dfcclSuccess) return result;
  size_t element = df_type_size(r->type);
  if (element == 0)
    return df_fail(dfcclInvalidArgument, "invalid data type %d (valid: 0 to %d)", (int)r->type,
                   DF_DATA_TYPES - 1);
  int ordered = 0;
  if (df_operation_reduces(r->operation)) {
    result = (int)r->op >= DF_FIRST_USER_OPERATOR ? df_user_operator_check(context, r, &ordered)
                                                  : check_operator(r);
    if (result != dfcclSuccess) return result;
  }
  if (r->operation == DF_OP_ALL_TO_ALL_DYNAMIC &&
      (result = check_dynamic(context, r->options)) != dfcclSuccess)
    return result;
  if (r->operation >= DF_OP_COUNT && r->options && r->options->varying)
    return df_fail(dfcclInvalidArgument,
                   "options.varying is 1, but %s has counts of its own for each piece",
                   df_operation_name(r->operation));
  if (r->operation == DF_OP_BARRIER && r->options && r->options->varying)
    return df_fail(dfcclInvalidArgument, "options.varying is 1, but a barrier has no elements");
  uint32_t n = df_group_size(context, r->options);
  if (!r->lists && r->count > DF_MAX_COUNT / n)
    return df_fail(dfcclInvalidArgument,
                   "count is %" PRIu64 "; at most %" PRIu64 " elements are possible with %u ranks",
                   r->count, DF_MAX_COUNT / n, n);
  if (r->root < 0 || (uint32_t)r->root >= n)
    return df_fail(dfcclInvalidArgument, "root is %d; it is a position in the group, 0 to %u",
                   r->root, n - 1);
  *question = df_configuration_question_of(context, r);
  char why[DF_SENTENCE_BYTES];
  question->choice.ordered = ordered;
  question->choice.why = why;
  question->choice.why_bytes = sizeof why;
  const int chosen = choose_configuration(context, question, configuration);
  question->choice.why = NULL;
  if (chosen) return dfcclSuccess;
  if (why[0] != '\0') return df_fail(dfcclInvalidArgument, "options.algorithm: %s", why);
  char name[DF_MAX_NAME], sentence[DF_ALGORITHM_SENTENCE_BYTES];
  df_named named;
  df_named_read(&named, question->choice.name, why, sizeof why);
  df_escape(name, sizeof name, named.word);
  if (ordered && named.algorithm >= 0 && df_algorithm_has(named.algorithm, r->operation))
    return df_fail(dfcclInvalidArgument,
                   "options.algorithm is \"%s\", which does not keep the order of operands; the "
                   "operator does not commute",
                   name);
  return df_fail(dfcclInvalidArgument, "options.algorithm: %s",
                 df_algorithm_explain(named.word, (int)r->operation,
                                      df_operation_name(r->operation), sentence));
}
