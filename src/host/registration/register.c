/* Registration: checks, record, descriptor, and the announcement to the other members. */
#include "base/mutex.h"
#include "host/registration/user_operators.h"
#include "host/registration/register.h"
#include "host/registration/register_parts.h"
#include "host/registration/successor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/log.h"
#include "control/messenger.h"
#include "host/state/context.h"
#include "host/settings/abi_struct.h"
#include "host/registration/link_setup.h"
#include "host/registration/announcement.h"
#include "host/registration/match.h"
#include "host/state/registry.h"
#include "host/registration/check_arguments.h"
#include "host/runs/recall.h"
#include "host/runs/runs.h"
#include "host/state/switch_hooks.h"
#include "transports/shm/common_slots.h"

/* Makes the descriptor, which the daemon reads, in memory that the device chooses. The links are
 * entered when they are connected. */
static dfcclResult_t make_descriptor(dfcclContext_t context, df_coll *coll) {
  const df_plan *plan = coll->exec.plan;
  coll->exec.device = (df_device_coll){
      .index = coll->index, .plan = plan, .shape = &coll->exec.configuration.shape};
  dfcclResult_t result = context->device.memory->describe(&context->device, &coll->exec.device);
  if (result != dfcclSuccess)
    return df_fail(result, "no memory for collective %" PRIu64 " with %u links", coll->id,
                   plan->n_links * coll->exec.configuration.shape.n_blocks);
  df_descriptor *d = coll->exec.device.descriptor;
  uint32_t element_bytes = (uint32_t)df_type_size(coll->type);
  const df_configuration *configuration = &coll->exec.configuration;
  d->count = coll->count;
  d->direct_min = configuration->lend_min;
  d->scratch_bytes = coll->exec.configuration.shape.scratch_bytes;
  d->mappings = context->device.mappings;
  DF_ASSERT(plan->n_primitives <= UINT16_MAX);
  DF_ASSERT(plan->pieces <= UINT16_MAX);
  d->n_primitives = (uint16_t)plan->n_primitives;
  d->n_links = (uint16_t)plan->n_links;
  d->pieces = (uint16_t)plan->pieces;
  d->n_blocks = (uint8_t)coll->exec.configuration.shape.n_blocks;
  d->priority = coll->priority;
  d->divisor = (uint16_t)coll->n;
  d->generation = ++context->registry.generations[coll->index];
  d->geometry = (uint8_t)plan->geometry;
  d->type = (uint8_t)coll->type;
  d->op = (uint8_t)(coll->op == dfcclAvg ? dfcclSum : coll->op);
  if (coll->has_user_operator) {
    const int scales = df_user_operators[coll->user_operator]->function == NULL;
    d->op = scales ? dfcclSum : DF_OPERATOR_USER;
    d->divisor = (uint16_t)coll->user_operator;
  }
  d->element_bytes = (uint8_t)element_bytes;
  d->lends = configuration->lends;
  if (coll->has_user_operator && d->op == dfcclSum) d->lends |= DF_SCALES_INPUT;
  d->stream = configuration->stream;
  if (coll->varying) {
    d->count_step = sizeof(df_run) / sizeof(uint64_t);
    d->words->counts = &coll->runs.in_device[0].count;
    if (coll->operation == DF_OP_ALL_TO_ALL_DYNAMIC) d->lends |= DF_COUNTS_OF_PEERS;
  }
  if (coll->exec.survivors) {
    d->lends |= DF_SURVIVES;
    d->survivors = coll->exec.survivors;
  }
  return dfcclSuccess;
}

static void name_it(df_coll *coll, const char *name) {
  if (name && *name)
    df_escape(coll->name, sizeof coll->name, name);
  else
    snprintf(coll->name, sizeof coll->name, "%" PRIu64, coll->id);
}

/* Without elements neither buffer is used. */
static void choose_buffers(df_coll *coll, const df_lists *lists) {
  const uint32_t position = coll->position, root = coll->root, n = coll->n;
  coll->reads_input = lists ? lists->n_sends > 0
                            : coll->count != 0 && coll->operation != DF_OP_ALL_TO_ALL_DYNAMIC &&
                                  df_operation_uses(coll->operation, 0, position, root, n);
  coll->writes_output =
      lists ? lists->n_receives > 0
            : coll->count != 0 && df_operation_uses(coll->operation, 1, position, root, n);
  for (uint32_t i = 0; lists && i < lists->n_sends; i++)
    coll->pairs[lists->sends[i].peer].sends = lists->sends[i].count;
  for (uint32_t i = 0; lists && i < lists->n_receives; i++)
    coll->pairs[lists->receives[i].peer].receives = lists->receives[i].count;
}

dfcclResult_t df_make_coll(dfcclContext_t context, const df_registration *registration,
                           df_coll **out) {
  df_coll *coll = calloc(1, sizeof *coll);
  if (coll == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for collective %" PRIu64, registration->id);
  const dfcclCollOptions_t *options = registration->options;
  coll->id = registration->id;
  coll->operation = registration->operation;
  coll->count = df_registered_count(registration);
  coll->type = registration->type;
  coll->op = registration->op;
  coll->root = (uint32_t)registration->root;
  coll->n = coll->members.n_paired = df_group_size(context, options);
  coll->members.run_limit = coll->runs.watched_from = UINT64_MAX;
  coll->priority = options ? options->priority : 0;
  coll->varying = coll->operation == DF_OP_ALL_TO_ALL_DYNAMIC ? DF_VARIES_BY_PAIR
                  : options && options->varying               ? DF_VARIES_BY_RUN
                                                              : DF_VARIES_NOT;
  name_it(coll, options ? options->name : NULL);
  coll->ranks = calloc(coll->n, sizeof *coll->ranks);
  coll->members.remotes = calloc(coll->n, sizeof(df_remote *));
  if (registration->lists) coll->pairs = calloc(coll->n, sizeof *coll->pairs);
  if (coll->ranks == NULL || coll->members.remotes == NULL ||
      (registration->lists && coll->pairs == NULL)) {
    df_coll_free(coll);
    return df_fail(dfcclOutOfMemory, "no memory for the group of collective %" PRIu64,
                   registration->id);
  }
  for (uint32_t i = 0; i < coll->n; i++) {
    coll->ranks[i] = options && options->ranks ? (uint32_t)options->ranks[i] : i;
    if (coll->ranks[i] == context->rank) coll->position = i;
  }
  choose_buffers(coll, registration->lists);
  if (df_operation_reduces(coll->operation) && (int)coll->op >= DF_FIRST_USER_OPERATOR) {
    coll->user_operator = (uint32_t)coll->op - DF_FIRST_USER_OPERATOR;
    coll->has_user_operator = registration->keeps_operator
                                  ? df_user_operator_share(coll->user_operator) != NULL
                                  : df_user_operator_use(coll->user_operator) != NULL;
    if (!coll->has_user_operator) { /* destroyed since the check */
      df_coll_free(coll);
      return df_fail(dfcclInvalidArgument, "reduction operator %d was destroyed",
                     (int)registration->op);
    }
  }
  coll->element_mask = (uint32_t)df_type_size(coll->type) - 1; /* sizes are powers of two */
  coll->group_step = df_group_step(coll->ranks, coll->n);
  coll->n_hosts =
      df_topology_spread_of(&context->topology, options ? options->ranks : NULL, coll->n).hosts;
  *out = coll;
  return dfcclSuccess;
}

/* In a job that goes on without lost ranks: the places of the members that are left, in buffers
 * with the layout of the registration. */
static dfcclResult_t make_survivors(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  const df_coll *registered = coll->registered ? coll->registered : coll;
  const df_coll_survival *survival = registered->survival;
  if (context->survival == NULL) return dfcclSuccess;
  const int is_whole = coll->n == survival->n;
  df_survivors *survivors = calloc(1, sizeof *survivors + coll->n * sizeof(uint32_t));
  coll->exec.survivors = survivors;
  if (survivors == NULL) return dfcclOutOfMemory;
  uint32_t *places = (uint32_t *)(survivors + 1);
  for (uint32_t i = 0, at = 0; i < coll->n; i++) {
    while (survival->ranks[at] != coll->ranks[i]) at++;
    places[i] = at;
  }
  for (int output = 0; output <= 1; output++)
    if (!is_whole && df_operation_is_wide(coll->operation, output))
      survivors->places[output] = places;
  return dfcclSuccess;
}

/* The chunk of a vector collective. It is the same on all members. */
static uint32_t listed_chunk(const df_coll *coll, const df_registration *registration) {
  const uint32_t element_bytes = (uint32_t)df_type_size(coll->type);
  const uint64_t grain = DF_CACHE_LINE / element_bytes;
  uint64_t chunk = coll->exec.configuration.choice.slot_bytes / element_bytes;
  if (coll->exec.configuration.policy->slot_bytes < coll->exec.configuration.choice.slot_bytes)
    chunk = (uint64_t)coll->exec.configuration.policy->slot_bytes / element_bytes;
  if (registration->longest) chunk = DF_MIN(chunk, DF_ALIGN_UP(registration->longest, grain));
  return (uint32_t)DF_MAX(chunk / grain * grain, grain);
}

static dfcclResult_t make_piece_table_plan(df_coll *coll, const df_plan_key *key,
                                           const df_registration *registration) {
  const uint32_t chunk = listed_chunk(coll, registration);
  const uint64_t steps = df_lists_steps(registration->lists, chunk);
  if (steps > DF_LISTS_MOST_STEPS)
    return df_fail(dfcclInvalidArgument,
                   "collective %" PRIu64 ": its pieces need %" PRIu64
                   " messages and copies of %u elements; at most %u are possible",
                   coll->id, steps, chunk, DF_LISTS_MOST_STEPS);
  coll->exec.plan = df_plan_make_piece_table(key, registration->lists, chunk);
  return dfcclSuccess;
}

/* The levels of a hierarchical plan; NULL for other plans. */
static df_levels *levels_of(dfcclContext_t context, const df_coll *coll,
                            const df_registration *registration) {
  const df_choice *choice = &coll->exec.configuration.choice;
  if (choice->algorithm != DF_HIERARCHICAL) return NULL;
  return df_topology_levels(&context->topology,
                            registration->options ? registration->options->ranks : NULL, coll->n,
                            choice->split, choice->lanes);
}

/* Makes the plan and the descriptor, and enters the collective. A failure undoes the steps in
 * reverse. */
dfcclResult_t df_install_coll(dfcclContext_t context, df_coll *coll,
                              const df_registration *registration,
                              const df_configuration_question *question) {
  dfcclResult_t result = dfcclOutOfMemory;
  const df_choice *choice = &coll->exec.configuration.choice;
  const int dynamic = coll->operation == DF_OP_ALL_TO_ALL_DYNAMIC;
  df_plan_key key = {.operation = dynamic ? DF_OP_ALL_TO_ALL : coll->operation,
                     .algorithm = choice->algorithm,
                     .n = coll->n,
                     .position = coll->position,
                     .root = coll->root,
                     .split = choice->split,
                     .average = coll->op == dfcclAvg && df_operation_reduces(coll->operation) &&
                                coll->n > 1,
                     .cuts = coll->exec.configuration.cuts,
                     .file = choice->file,
                     .agrees = coll->varying && df_operation_needs_agreement(coll->operation),
                     .settles = context->survival != NULL};
  if (registration->lists) {
    result = make_piece_table_plan(coll, &key, registration);
    if (result != dfcclSuccess) return result;
  } else {
    df_levels *levels = levels_of(context, coll, registration);
    key.levels = levels;
    if (levels) key.split = df_levels_digest(levels); /* members compare it */
    if (levels || choice->algorithm != DF_HIERARCHICAL)
      coll->exec.plan = df_plan_acquire(&context->plans, &key);
    free(levels);
  }
  if (coll->exec.plan == NULL)
    return df_fail(dfcclOutOfMemory,
                   "no memory for the plan of collective %" PRIu64
                   ", or the plan has more than 65,535 messages and copies on a member (%s)",
                   coll->id, df_algorithm_name(choice->algorithm));
  df_configuration_decide(&coll->exec.configuration, question, coll->exec.plan);
  /* A loop's number has 32 bits. Only tiny slots with enormous counts need more. */
  const df_part *part = &coll->exec.configuration.shape.parts[0];
  uint32_t pieces = df_pieces_of_loop((uint8_t)coll->exec.plan->geometry, coll->exec.plan->pieces);
  if (!registration->lists && (uint64_t)part->loops * part->chunk * pieces < part->elements) {
    result = df_fail(dfcclInvalidArgument,
                     "collective %" PRIu64 ": count %" PRIu64
                     " needs more loops than can be counted with slots of %lld bytes (slot_bytes "
                     "of DFCCL_TUNING)",
                     coll->id, coll->count, coll->exec.configuration.policy->slot_bytes);
    goto release_plan;
  }
  coll->index = df_registry_take_index(context);
  result = make_survivors(context, coll);
  if (result == dfcclSuccess) result = make_descriptor(context, coll);
  if (result != dfcclSuccess) goto give_back_index;
  if (!df_registry_enter(context, coll)) {
    result = df_fail(dfcclOutOfMemory, "no memory to enter collective %" PRIu64 " in the table",
                     coll->id);
    goto forget;
  }
  if (coll->priority != 0) df_store_relaxed_u32(&context->device.shared->by_priority, 1);
  return dfcclSuccess;
forget:
  context->device.memory->forget(&context->device, &coll->exec.device);
give_back_index:
  df_registry_give_index(context, coll->index);
release_plan:
  df_plan_release(&context->plans, coll->exec.plan);
  return result;
}

static dfcclResult_t enter(dfcclContext_t context, df_coll *coll,
                           const df_registration *registration,
                           const df_configuration_question *question) DF_RANK_LOCKED {
  dfcclResult_t result = dfcclSuccess;
  if (context->survival) result = df_coll_survival_make(context, coll, registration);
  if (result != dfcclSuccess) return result;
  result = df_install_coll(context, coll, registration, question);
  if (result != dfcclSuccess && context->survival) df_coll_survival_undo(context->survival, coll);
  return result;
}

/* Ranks of the group that are lost, or will be in the next view. */
static void begin_without_lost(dfcclContext_t context, df_coll *coll) DF_RANK_LOCKED {
  if (df_coll_has_suspect(context, coll) || df_coll_lost_in(context, coll))
    df_recall_begin(context, coll);
  if (df_coll_lost_in(context, coll)) df_successor_expect(context, coll);
}

/* The caller has completed the options: members that an older program lacks have their defaults. */
static dfcclResult_t register_whole(dfcclContext_t context, const df_registration *registration) {
  df_configuration_question question;
  df_configuration configuration;
  dfcclResult_t result = df_registration_check(context, registration, &question, &configuration);
  if (result != dfcclSuccess) return result;
  df_coll *coll = NULL;
  result = df_make_coll(context, registration, &coll);
  if (result != dfcclSuccess) return result;
  coll->exec.configuration = configuration;

  df_rank_lock(&context->lock);
  result = context->survival ? df_survival_check(context, coll) : dfcclSuccess;
  if (context->failure.broken != dfcclSuccess)
    result = df_fail_again(context->failure.broken, context->failure.broken_sentence);
  else if (result == dfcclSuccess && df_find(context, registration->id) != NULL)
    result = df_fail(dfcclInvalidUsage, "collective %" PRIu64 " is registered already on rank %u",
                     registration->id, context->rank);
  else if (result == dfcclSuccess &&
           context->registry.n_colls + context->registry.n_variants >= context->device.capacity)
    result = df_fail(dfcclInvalidUsage,
                     "%u collectives, and %u variants of them, are registered on rank %u; no more "
                     "are possible",
                     context->registry.n_colls, context->registry.n_variants, context->rank);
  else if (result == dfcclSuccess)
    result = enter(context, coll, registration, &question);
  if (result == dfcclSuccess) {
    df_log(DF_LOG_TRACE, "rank %u registers collective %" PRIu64 ": %s of %" PRIu64 " elements, %s",
           context->rank, coll->id, df_operation_name(coll->operation), coll->count,
           df_algorithm_name(configuration.choice.algorithm));
    df_coll_announce(context, coll, 0);
    df_match_bind(context, coll);
    df_links_progress(context, coll);
    if (context->survival) begin_without_lost(context, coll);
  }
  df_rank_unlock(&context->lock);
  if (result != dfcclSuccess) df_coll_free(coll);
  return result;
}

/* The group of a SendRecv is the sender and the receiver, in this order. */
static dfcclResult_t register_pair(dfcclContext_t context, const df_registration *given) {
  dfcclCollOptions_t options = *given->options;
  df_registration registration = *given;
  const int n = (int)df_group_size(context, &options), from = given->root, to = given->to;
  if (from < 0 || from >= n || to < 0 || to >= n)
    return df_fail(dfcclInvalidArgument,
                   "from is %d and to is %d; they are positions in the group, 0 to %d", from, to,
                   n - 1);
  const int ranks[] = {options.ranks ? options.ranks[from] : from,
                       options.ranks ? options.ranks[to] : to};
  if (ranks[0] != (int)context->rank && ranks[1] != (int)context->rank)
    return df_fail(dfcclInvalidArgument,
                   "rank %u is neither the sender, rank %d, nor the receiver, rank %d: only these "
                   "two register a SendRecv",
                   context->rank, ranks[0], ranks[1]);
  options.ranks = ranks;
  options.nRanks = from == to ? 1 : 2;
  registration.options = &options;
  registration.root = 0;
  return register_whole(context, &registration);
}

dfcclResult_t df_register(dfcclContext_t context, const df_registration *registration) {
  const int is_pair = registration->operation == DF_OP_SEND_RECV;
  if (registration->options == NULL && !is_pair) return register_whole(context, registration);
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  df_registration whole = *registration;
  whole.options = &options;
  if (registration->options) {
    dfcclResult_t result = df_growing_read(&df_growing_options, registration->options, &options);
    if (result != dfcclSuccess) return result;
  }
  return is_pair ? register_pair(context, &whole) : register_whole(context, &whole);
}

/* ---- variants ---- */

/* Applies the variant's tuning. Values that the specification leaves 0 are those of the
 * registration. */
static dfcclResult_t apply_spec(dfcclContext_t context, df_coll *coll,
                                df_configuration *configuration, const df_variant_spec *spec) {
  coll->own_policy = malloc(sizeof *coll->own_policy);
  if (coll->own_policy == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for a variant of collective %" PRIu64, coll->id);
  *coll->own_policy = context->settings.tuning.policy;
  if (spec->slots) coll->own_policy->slots = spec->slots;
  if (spec->slot_bytes) coll->own_policy->slot_bytes = spec->slot_bytes;
  if (spec->copies) coll->own_policy->lend = 0;
  configuration->policy = coll->own_policy;
  if (spec->slot_bytes) configuration->choice.slot_bytes = spec->slot_bytes;
  if (spec->blocks) configuration->choice.blocks = spec->blocks;
  const int algorithm = configuration->choice.algorithm;
  if (spec->split &&
      (algorithm == DF_TWO_LEVEL || algorithm == DF_HIERARCHICAL || algorithm == DF_BCUBE))
    configuration->choice.split = DF_MIN(spec->split, coll->n);
  return dfcclSuccess;
}

/* NULL: this rank has no file with that hash. The file of the registration need not be in the
 * directory. */
static const df_plan_file *find_file(dfcclContext_t context, const df_coll *registered,
                                     uint64_t hash) {
  const df_plan_file *own = df_switch_registered(registered)->choice.file;
  if (own && df_plan_file_facts_of(own).hash == hash) return own;
  return df_file_directory_find(&context->settings.files, hash);
}

static dfcclResult_t make_variant(dfcclContext_t context, df_coll *registered, uint64_t number,
                                  int *ranks, const df_variant_spec *spec,
                                  df_coll **out) DF_RANK_LOCKED {
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  const df_plan_file *file = NULL;
  char algorithm[DF_FILE_NAME_BYTES + 8];
  snprintf(algorithm, sizeof algorithm, "%s", df_algorithm_name((int)spec->algorithm));
  if (spec->algorithm == DF_FROM_FILE) {
    file = find_file(context, registered, spec->file);
    if (file == NULL)
      return df_fail(dfcclInvalidUsage,
                     "collective %" PRIu64 ": rank %u has no algorithm file with the hash "
                     "%016" PRIx64 " (DFCCL_ALGORITHMS, DFCCL_TUNE)",
                     registered->id, context->rank, spec->file);
    snprintf(algorithm, sizeof algorithm, "file:%s", df_plan_file_facts_of(file).name);
  }
  for (uint32_t i = 0; i < registered->n; i++) ranks[i] = (int)registered->ranks[i];
  options.ranks = ranks;
  options.nRanks = (int)registered->n;
  options.priority = registered->priority;
  options.varying = registered->varying != DF_VARIES_NOT;
  options.algorithm = algorithm;
  const df_registration registration = {.operation = registered->operation,
                                        .id = registered->id,
                                        .count = registered->count,
                                        .type = registered->type,
                                        .op = registered->op,
                                        .root = (int)registered->root,
                                        .options = &options,
                                        .file = file};
  df_configuration_question question;
  df_configuration configuration;
  dfcclResult_t result = df_registration_check(context, &registration, &question, &configuration);
  if (result == dfcclSuccess) result = df_make_coll(context, &registration, out);
  if (result != dfcclSuccess) return result;
  df_coll *coll = *out;
  snprintf(coll->name, sizeof coll->name, "%s", registered->name);
  coll->registered = registered;
  coll->variant = coll->home = number;
  result = apply_spec(context, coll, &configuration, spec);
  coll->exec.configuration = configuration;
  if (result == dfcclSuccess) result = df_install_coll(context, coll, &registration, &question);
  if (result != dfcclSuccess) df_coll_free(coll);
  return result;
}

dfcclResult_t df_register_variant(dfcclContext_t context, df_coll *registered, uint64_t number,
                                  const df_variant_spec *spec, df_coll **out) {
  int *ranks = malloc(registered->n * sizeof *ranks);
  if (ranks == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for a variant of collective %" PRIu64,
                   registered->id);
  dfcclResult_t result = make_variant(context, registered, number, ranks, spec, out);
  free(ranks);
  return result;
}

void df_coll_leave(dfcclContext_t context, df_coll *coll) {
  DF_ASSERT_RANK_LOCKED(&context->lock);
  df_message message = {.kind = DF_MESSAGE_DEREGISTER,
                        .id = coll->id,
                        .a = coll->runs.submitted,
                        .variant = coll->home};
  df_coll_send(context, coll, &message, NULL);
  df_coll_forget(context, coll);
}

void df_coll_forget(dfcclContext_t context, df_coll *coll) {
  df_registry_leave(context, coll);
  df_unlist(context, coll);
  df_match_unbind(context, coll);
  coll->deregistered = 1;
  df_coll_unreference(context, coll);
}

dfcclResult_t df_deregister(dfcclContext_t context, dfcclCollId_t id) {
  dfcclResult_t result = dfcclSuccess;
  df_rank_lock(&context->lock);
  df_coll *coll = df_find(context, id);
  if (coll == NULL) {
    result = df_fail(dfcclInvalidArgument, "collective %" PRIu64 " is not registered on rank %u",
                     id, context->rank);
  } else if (df_runs_unfinished(coll) > 0) {
    result = df_fail(dfcclInvalidUsage,
                     "collective %" PRIu64 " has %" PRIu64 " runs on rank %u that are not complete",
                     id, df_runs_unfinished(coll), context->rank);
  } else {
    df_switch_end(context, coll);
    if (coll->survival) df_successor_drop(context, coll);
    df_coll_leave(context, coll);
  }
  df_rank_unlock(&context->lock);
  return result;
}
