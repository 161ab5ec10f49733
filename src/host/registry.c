/* Registration: checks, the collective's record, its descriptor, and the announcement to the other
 * members. */
#include "host/registry_check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/escape.h"
#include "base/log.h"
#include "host/context.h"
#include "control/post.h"
#include "host/link_setup.h"
#include "host/match.h"
#include "host/registry.h"
#include "host/runs.h"
#include "transports/shm/common_slots.h"
#include "host/growing.h"

/* ---- hash set of collectives, keyed by id ---- */

static void *set_malloc(size_t bytes) { return malloc(bytes); }
static void set_free(void *p, size_t bytes, bool defer) {
  (void)bytes;
  (void)defer;
  free(p);
}
static struct ck_malloc set_allocator = {.malloc = set_malloc, .free = set_free};

static unsigned long mix(uint64_t key) {
  key ^= key >> 33;
  key *= 0xff51afd7ed558ccdull;
  key ^= key >> 33;
  return (unsigned long)key;
}
static unsigned long coll_hash(const void *object, unsigned long seed) {
  (void)seed;
  return mix(*(const dfcclCollId_t *)object);
}
static bool coll_same(const void *a, const void *b) {
  return *(const dfcclCollId_t *)a == *(const dfcclCollId_t *)b;
}
static unsigned long remote_hash(const void *object, unsigned long seed) {
  const df_remote *remote = object;
  (void)seed;
  return mix(remote->id * 1031 + remote->peer);
}
static bool remote_same(const void *a, const void *b) {
  const df_remote *x = a, *y = b;
  return x->id == y->id && x->peer == y->peer;
}

dfcclResult_t df_registry_init(dfcclContext_t context) {
  context->registry.by_index = calloc(DF_MAX_COLLECTIVES, sizeof *context->registry.by_index);
  /* By calloc, whose pages cost nothing until they are used; it does not know of cache lines. */
  context->registry.wait_words_memory =
      calloc(DF_MAX_COLLECTIVES + 1, sizeof *context->registry.wait_words);
  context->registry.wait_words = (df_wait_words *)DF_ALIGN_UP(
      (uintptr_t)context->registry.wait_words_memory, sizeof(df_wait_words));
  context->registry.generations = calloc(DF_MAX_COLLECTIVES, sizeof *context->registry.generations);
  context->registry.free_indices =
      calloc(DF_MAX_COLLECTIVES, sizeof *context->registry.free_indices);
  context->runs.listed_last = &context->runs.listed_first;
  TAILQ_INIT(&context->runs.due);
  if (!context->registry.by_index || !context->registry.wait_words_memory ||
      !context->registry.generations || !context->registry.free_indices ||
      !ck_hs_init(&context->registry.colls, CK_HS_MODE_OBJECT | CK_HS_MODE_SPMC, coll_hash,
                  coll_same, &set_allocator, 64, 1))
    return df_fail(dfcclOutOfMemory, "no memory for the table of collectives");
  if (ck_hs_init(&context->registry.remotes, CK_HS_MODE_OBJECT | CK_HS_MODE_SPMC, remote_hash,
                 remote_same, &set_allocator, 64, 1))
    return dfcclSuccess;
  ck_hs_destroy(&context->registry.colls);
  memset(&context->registry.colls, 0, sizeof context->registry.colls);
  return df_fail(dfcclOutOfMemory, "no memory for the table of announcements");
}

DF_APART df_coll *df_look_up(dfcclContext_t context, dfcclCollId_t id) {
  df_coll *coll = ck_hs_get(&context->registry.colls, coll_hash(&id, 0), &id);
  if (coll) context->registry.latest = coll;
  return coll;
}

static uint32_t *recent_of(dfcclContext_t context, dfcclCollId_t id) {
  return &context->registry.recent[id % DF_RECENT_IDS];
}

DF_APART const df_wait_words *df_look_up_words(dfcclContext_t context, dfcclCollId_t id,
                                               uint64_t *registration) {
  const df_wait_words *words = NULL;
  pthread_mutex_lock(&context->lock);
  const df_coll *coll = df_find(context, id);
  if (coll) {
    words = coll->words;
    *registration = words->registration;
    df_store_relaxed_u32(recent_of(context, id), coll->index + 1);
  }
  pthread_mutex_unlock(&context->lock);
  return words;
}

/* ---- making and freeing a record ---- */

static uint32_t take_index(dfcclContext_t context) {
  return context->registry.n_free ? context->registry.free_indices[--context->registry.n_free]
                                  : context->registry.n_indices++;
}

/* [lock] The line is the collective's from here on. Whoever still looks at it for an earlier one
 * sees that there was none in between before it sees anything that is new. */
static void take_words(dfcclContext_t context, df_coll *coll) {
  df_wait_words *words = coll->words = &context->registry.wait_words[coll->index];
  DF_ASSERT(words->registration == 0);
  df_publish_u64(&words->id, coll->id);
  df_publish_u64(&words->submitted, 0);
  df_publish_u64(&words->completed, 0);
  df_store_relaxed_u32(&words->status, dfcclSuccess);
  df_store_relaxed_u64(&words->first_failed, UINT64_MAX);
  words->latest = ++context->registry.registrations;
  df_publish_u64(&words->registration, words->latest);
}

static void give_index(dfcclContext_t context, uint32_t index) {
  df_publish_u64(&context->registry.wait_words[index].registration, 0);
  context->registry.by_index[index] = NULL;
  context->registry.free_indices[context->registry.n_free++] = index;
}

static void free_record(df_coll *coll) {
  free(coll->ranks);
  free(coll->remotes);
  free(coll->backlog);
  free(coll);
}

/* The daemon's view, in memory of the device's choice; links are filled in when they stand. */
static dfcclResult_t make_descriptor(dfcclContext_t context, df_coll *coll) {
  const df_plan *plan = coll->plan;
  coll->device = (df_device_coll){.index = coll->index, .plan = plan, .shape = &coll->manner.shape};
  dfcclResult_t result = context->device.memory->describe(&context->device, &coll->device);
  if (result != dfcclSuccess)
    return df_fail(result, "no memory for collective %" PRIu64 " with %u links", coll->id,
                   plan->n_links * coll->manner.shape.n_blocks);
  df_descriptor *d = coll->device.descriptor;
  uint32_t element_bytes = (uint32_t)df_type_size(coll->type);
  const df_manner *manner = &coll->manner;
  d->count = coll->count;
  d->direct_min = manner->lend_min;
  d->scratch_bytes = coll->manner.shape.scratch_bytes;
  d->reaches = context->device.reaches;
  DF_ASSERT(plan->n_primitives <= UINT16_MAX);
  DF_ASSERT(plan->pieces <= UINT16_MAX);
  d->n_primitives = (uint16_t)plan->n_primitives;
  d->n_links = (uint16_t)plan->n_links;
  d->pieces = (uint16_t)plan->pieces;
  d->n_blocks = (uint8_t)coll->manner.shape.n_blocks;
  d->priority = coll->priority;
  d->divisor = (uint16_t)coll->n;
  d->generation = ++context->registry.generations[coll->index];
  d->geometry = (uint8_t)plan->geometry;
  d->type = (uint8_t)coll->type;
  d->op = (uint8_t)(coll->op == dfcclAvg ? dfcclSum : coll->op);
  d->element_bytes = (uint8_t)element_bytes;
  d->lends = manner->lends;
  d->stream = manner->stream;
  return dfcclSuccess;
}

static void name_it(df_coll *coll, const char *name) {
  if (name && *name)
    df_escape(coll->name, sizeof coll->name, name);
  else
    snprintf(coll->name, sizeof coll->name, "%" PRIu64, coll->id);
}

static dfcclResult_t make_coll(dfcclContext_t context, const df_registration *registration,
                               df_coll **out) {
  df_coll *coll = calloc(1, sizeof *coll);
  if (coll == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for collective %" PRIu64, registration->id);
  const dfcclCollOptions_t *options = registration->options;
  coll->id = registration->id;
  coll->operation = registration->operation;
  coll->count = registration->count;
  coll->type = registration->type;
  coll->op = registration->op;
  coll->root = (uint32_t)registration->root;
  coll->n = coll->n_paired = df_group_size(context, options);
  coll->run_limit = UINT64_MAX;
  coll->priority = options ? options->priority : 0;
  name_it(coll, options ? options->name : NULL);
  coll->ranks = calloc(coll->n, sizeof *coll->ranks);
  coll->remotes = calloc(coll->n, sizeof(df_remote *));
  if (coll->ranks == NULL || coll->remotes == NULL) {
    free_record(coll);
    return df_fail(dfcclOutOfMemory, "no memory for the group of collective %" PRIu64,
                   registration->id);
  }
  for (uint32_t i = 0; i < coll->n; i++) {
    coll->ranks[i] = options && options->ranks ? (uint32_t)options->ranks[i] : i;
    if (coll->ranks[i] == context->rank) coll->position = i;
  }
  /* Neither where there are no elements. */
  coll->reads_input =
      coll->count != 0 && (coll->operation != DF_OP_BROADCAST || coll->position == coll->root);
  coll->writes_output =
      coll->count != 0 && (coll->operation != DF_OP_REDUCE || coll->position == coll->root);
  coll->element_mask = (uint32_t)df_type_size(coll->type) - 1; /* sizes are powers of two */
  coll->group_step = df_group_step(coll->ranks, coll->n);
  *out = coll;
  return dfcclSuccess;
}

/* [lock] Plan, shape, descriptor, index, table. Undone in reverse. */
static dfcclResult_t install(dfcclContext_t context, df_coll *coll,
                             const df_manner_question *question) {
  dfcclResult_t result = dfcclOutOfMemory;
  const df_choice *choice = &coll->manner.choice;
  df_plan_key key = {.operation = coll->operation,
                     .algorithm = choice->algorithm,
                     .n = coll->n,
                     .position = coll->position,
                     .root = coll->root,
                     .split = choice->split,
                     .average = coll->op == dfcclAvg && df_operation_reduces(coll->operation) &&
                                coll->n > 1};
  coll->plan = df_plan_acquire(&context->plans, &key);
  if (coll->plan == NULL)
    return df_fail(dfcclOutOfMemory, "no memory for the plan of collective %" PRIu64, coll->id);
  df_manner_decide(&coll->manner, question, coll->plan);
  /* Loops are counted in 32 bits: only tiny slots and enormous counts go beyond. */
  const df_part *part = &coll->manner.shape.parts[0];
  uint32_t pieces = coll->plan->geometry == DF_GEOMETRY_PARTITION ? coll->plan->pieces : 1;
  if ((uint64_t)part->loops * part->chunk * pieces < part->elements) {
    result = df_fail(dfcclInvalidArgument,
                     "collective %" PRIu64 ": count %" PRIu64
                     " needs more loops than can be counted with slots of %lld bytes (slot_bytes "
                     "of DFCCL_TUNING)",
                     coll->id, coll->count, coll->manner.policy->slot_bytes);
    goto release_plan;
  }
  coll->index = take_index(context);
  result = make_descriptor(context, coll);
  if (result != dfcclSuccess) goto give_back_index;
  if (!ck_hs_put(&context->registry.colls, coll_hash(coll, 0), coll)) {
    result = df_fail(dfcclOutOfMemory, "no memory to enter collective %" PRIu64 " in the table",
                     coll->id);
    goto forget;
  }
  take_words(context, coll);
  context->registry.by_index[coll->index] = coll;
  context->registry.n_colls++;
  coll->references = 1;
  if (coll->priority != 0) df_store_relaxed_u32(&context->device.shared->by_priority, 1);
  return dfcclSuccess;
forget:
  context->device.memory->forget(&context->device, &coll->device);
give_back_index:
  give_index(context, coll->index);
release_plan:
  df_plan_release(&context->plans, coll->plan);
  return result;
}

void df_coll_announce(dfcclContext_t context, df_coll *coll, uint32_t from) {
  uint8_t payload[sizeof(df_announcement) + DF_MAX_RANKS * sizeof(uint32_t)];
  df_announcement announcement = df_coll_announcement(coll);
  df_message message = {.kind = DF_MESSAGE_ANNOUNCE, .id = coll->id};
  message.payload_bytes = df_announcement_write(&announcement, coll->ranks, payload);
  for (uint32_t i = from; i < coll->n_paired; i++)
    if (i != coll->position) df_post_send(&context->control, coll->ranks[i], &message, payload, -1);
}

/* With whole options: what a program of an older version did not give has its default. */
static dfcclResult_t register_whole(dfcclContext_t context, const df_registration *registration) {
  df_manner_question question;
  df_manner manner;
  dfcclResult_t result = df_registration_check(context, registration, &question, &manner);
  if (result != dfcclSuccess) return result;
  df_coll *coll = NULL;
  result = make_coll(context, registration, &coll);
  if (result != dfcclSuccess) return result;
  coll->manner = manner;

  pthread_mutex_lock(&context->lock);
  if (context->failure.broken != dfcclSuccess)
    result = df_fail(context->failure.broken, "%s", context->failure.broken_sentence);
  else if (df_find(context, registration->id) != NULL)
    result = df_fail(dfcclInvalidUsage, "collective %" PRIu64 " is registered already on rank %u",
                     registration->id, context->rank);
  else if (context->registry.n_colls >= context->device.capacity)
    result =
        df_fail(dfcclInvalidUsage, "%u collectives are registered on rank %u; no more are possible",
                context->registry.n_colls, context->rank);
  else
    result = install(context, coll, &question);
  if (result == dfcclSuccess) {
    df_log(DF_LOG_TRACE, "rank %u registers collective %" PRIu64 ": %s of %" PRIu64 " elements, %s",
           context->rank, coll->id, df_operation_name(coll->operation), coll->count,
           df_algorithm_name(manner.choice.algorithm));
    df_coll_announce(context, coll, 0);
    df_match_bind(context, coll);
    df_links_progress(context, coll);
  }
  pthread_mutex_unlock(&context->lock);
  if (result != dfcclSuccess) free_record(coll);
  return result;
}

dfcclResult_t df_register(dfcclContext_t context, const df_registration *registration) {
  if (registration->options == NULL) return register_whole(context, registration);
  dfcclCollOptions_t options = DFCCL_COLL_OPTIONS_INITIALIZER;
  df_registration whole = *registration;
  whole.options = &options;
  dfcclResult_t result = df_growing_read(&df_growing_options, registration->options, &options);
  return result == dfcclSuccess ? register_whole(context, &whole) : result;
}

dfcclResult_t df_deregister(dfcclContext_t context, dfcclCollId_t id) {
  dfcclResult_t result = dfcclSuccess;
  pthread_mutex_lock(&context->lock);
  df_coll *coll = df_find(context, id);
  if (coll == NULL) {
    result = df_fail(dfcclInvalidArgument, "collective %" PRIu64 " is not registered on rank %u",
                     id, context->rank);
  } else if (df_runs_unfinished(coll) > 0) {
    result = df_fail(dfcclInvalidUsage,
                     "collective %" PRIu64 " has %" PRIu64 " runs on rank %u that are not complete",
                     id, df_runs_unfinished(coll), context->rank);
  } else {
    df_message message = {.kind = DF_MESSAGE_DEREGISTER, .id = id, .a = coll->submitted};
    df_coll_send(context, coll, &message, NULL);
    ck_hs_remove(&context->registry.colls, coll_hash(coll, 0), coll);
    context->registry.latest = NULL; /* it was looked up just now */
    if (*recent_of(context, id) == coll->index + 1) df_store_relaxed_u32(recent_of(context, id), 0);
    df_unlist(context, coll);
    df_match_unbind(context, coll);
    coll->deregistered = 1;
    df_coll_unreference(context, coll);
  }
  pthread_mutex_unlock(&context->lock);
  return result;
}

void df_coll_unreference(dfcclContext_t context, df_coll *coll) {
  if (--coll->references > 0) return;
  DF_ASSERT(!coll->listed);
  DF_ASSERT(coll->backlog_length == 0);
  DF_ASSERT(coll->first_callback == 0);
  df_common_give(context->transports.shm, &coll->common);
  context->device.memory->forget(&context->device, &coll->device);
  give_index(context, coll->index);
  context->registry.n_colls--;
  df_plan_release(&context->plans, coll->plan);
  free_record(coll);
}

void df_coll_send(dfcclContext_t context, df_coll *coll, const df_message *message,
                  const void *payload) {
  for (uint32_t i = 0; i < coll->n_paired; i++)
    if (i != coll->position) df_post_send(&context->control, coll->ranks[i], message, payload, -1);
}

void df_registry_free(dfcclContext_t context) {
  if (context->registry.by_index) {
    for (uint32_t i = 0; i < context->registry.n_indices; i++)
      if (context->registry.by_index[i]) {
        df_common_give(context->transports.shm, &context->registry.by_index[i]->common);
        context->device.memory->forget(&context->device, &context->registry.by_index[i]->device);
        df_plan_release(&context->plans, context->registry.by_index[i]->plan);
        free_record(context->registry.by_index[i]);
      }
  }
  if (context->registry.colls.map) ck_hs_destroy(&context->registry.colls);
  free(context->registry.by_index);
  free(context->registry.wait_words_memory);
  free(context->registry.generations);
  free(context->registry.free_indices);
}
